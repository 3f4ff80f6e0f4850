//! Defines metrics, which are named quantities with a unit and a direction. Also defines estimates
//! with intervals, and verdicts.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The direction in which a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricDirection {
    /// More is better: throughput.
    Higher,
    /// Less is better: time, latency, memory, errors.
    Lower,
    /// The direction is neither declared nor implied by the unit. Changes are shown without a verdict.
    Unknown,
}

/// A named quantity. Harnesses declare metrics; there is no central list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// The name used by `--metric`: `throughput`, `latency_p99`.
    pub name: String,
    /// The unit of the stored values, as its usual symbol: `1/s`, `ns`, `B`.
    pub unit: String,
    /// The direction of improvement.
    pub better: MetricDirection,
}

impl Metric {
    /// The name of the metric that every Node.js benchmark reports.
    pub const THROUGHPUT: &'static str = "throughput";

    /// Mean time that one worker needs for an iteration.
    pub const TIME: &'static str = "time";

    /// Time that one worker needs for an iteration in the median batch, which disturbances hardly
    /// affect.
    pub const TIME_MEDIAN: &'static str = "time_median";

    /// Time that one worker needs for an iteration at the 5th percentile of batches.
    pub const TIME_P5: &'static str = "time_p5";

    /// Processor time per iteration over all workers: the part of [`Metric::TIME`] that was spent
    /// working.
    pub const CPU_TIME: &'static str = "cpu_time";

    /// Instructions per iteration.
    pub const INSTRUCTIONS: &'static str = "instructions";

    /// Cycles per iteration, estimated by a cache model; never used for a verdict.
    pub const CYCLES_ESTIMATE: &'static str = "cycles_estimate";

    /// Time that a shell takes for an empty command. If a shell executes the measured commands,
    /// this time is part of every iteration.
    pub const SHELL_TIME: &'static str = "shell_time";

    /// Processor time of a command with its shell, minus the processor time of the shell alone. A
    /// run has no value if the difference is within the variation of the shell's processor time.
    pub const OWN_CPU_TIME: &'static str = "own_cpu_time";

    /// Time of the harness's reference loop. The loop always does the same work, so only the
    /// machine can change its time.
    pub const REFERENCE_TIME: &'static str = "reference_time";

    /// Metrics that runs report, on request, in addition to instruction counts.
    pub const TIMES: [&'static str; 3] = [Metric::TIME, Metric::TIME_MEDIAN, Metric::CPU_TIME];

    /// Whether the metric is a count of instructions, or is computed from such counts.
    pub fn is_count(&self) -> bool {
        [Metric::INSTRUCTIONS, Metric::CYCLES_ESTIMATE].contains(&&*self.name)
    }

    /// Iterations per second, higher is better.
    pub fn throughput() -> Metric {
        Metric::new(Metric::THROUGHPUT, "1/s", MetricDirection::Higher)
    }

    /// Processor time per iteration in nanoseconds, lower is better.
    pub fn cpu_time() -> Metric {
        Metric::new(Metric::CPU_TIME, "ns", MetricDirection::Lower)
    }

    /// Creates a metric from its three parts.
    pub fn new(
        name: impl Into<String>,
        unit: impl Into<String>,
        better: MetricDirection,
    ) -> Metric {
        Metric { name: name.into(), unit: unit.into(), better }
    }
}

/// A point estimate with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IntervalEstimate {
    /// The point estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl IntervalEstimate {
    /// Whether the whole interval lies within `low..=high`.
    pub fn lies_within(&self, low: f64, high: f64) -> bool {
        self.low >= low && self.high <= high
    }
}

/// The verdict on a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The statistical test rejects equality. The whole interval is beyond the threshold in the
    /// direction of improvement.
    Better,
    /// The statistical test rejects equality. The whole interval is beyond the threshold in the
    /// opposite direction.
    Worse,
    /// The whole interval is within the threshold, or the sequential test stopped because both
    /// variants are equivalent.
    Same,
    /// None of the above: more runs are needed, or the question cannot be answered at this threshold.
    Unclear,
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Same => "same",
            Verdict::Unclear => "unclear",
        })
    }
}
