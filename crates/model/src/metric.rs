//! Named quantities with unit and direction, estimates with their intervals, and the four verdicts.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Which direction of a metric is the good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better: throughput.
    Higher,
    /// Less is better: time, latency, memory, errors.
    Lower,
    /// Nobody said, and the unit does not tell: a change is shown without a verdict.
    Unknown,
}

/// A named quantity. The harness names it; nothing in the core lists them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// The name used by `--metric`: `throughput`, `latency_p99`.
    pub name: String,
    /// The unit of the stored values, in its usual symbol: `1/s`, `ns`, `B`.
    pub unit: String,
    /// The good direction.
    pub better: Better,
}

impl Metric {
    /// The name of the metric that every Node.js benchmark reports.
    pub const THROUGHPUT: &'static str = "throughput";

    /// Mean time per iteration and worker.
    pub const TIME: &'static str = "time";

    /// Time per iteration and worker in the median batch: what code costs when nothing disturbs it.
    pub const TIME_MEDIAN: &'static str = "time_median";

    /// The same in the batch that a twentieth is quicker than.
    pub const TIME_P5: &'static str = "time_p5";

    /// Processor time per iteration, of all workers together: what of [`Metric::TIME`] was work, and no waiting for the
    /// processor or for anything else.
    pub const CPU_TIME: &'static str = "cpu_time";

    /// Instructions of an iteration.
    pub const INSTRUCTIONS: &'static str = "instructions";

    /// Cycles of an iteration as a model of caches estimates them; nothing is decided by them.
    pub const CYCLES_ESTIMATE: &'static str = "cycles_estimate";

    /// What a shell takes that is given nothing to do, where an iteration is a command that a shell executes. The times
    /// of iterations contain it.
    pub const SHELL_TIME: &'static str = "shell_time";

    /// Processor time of a command without that of the shell that executes it. A run has none where it is within what the
    /// processor time of the shell alone differs by.
    pub const OWN_CPU_TIME: &'static str = "own_cpu_time";

    /// What the reference loop of the harness takes, which does the same work whenever it is performed: what changes it is
    /// the machine.
    pub const REFERENCE_TIME: &'static str = "reference_time";

    /// What is also known of a run whose instructions are counted, if it is asked for.
    pub const TIMES: [&'static str; 3] = [Metric::TIME, Metric::TIME_MEDIAN, Metric::CPU_TIME];

    /// Whether it is a count, or computed from counts, where instructions are counted.
    pub fn is_count(&self) -> bool {
        [Metric::INSTRUCTIONS, Metric::CYCLES_ESTIMATE].contains(&&*self.name)
    }

    /// Iterations per second, higher is better.
    pub fn throughput() -> Metric {
        Metric::new(Metric::THROUGHPUT, "1/s", Better::Higher)
    }

    /// Processor time per iteration in nanoseconds, lower is better.
    pub fn cpu_time() -> Metric {
        Metric::new(Metric::CPU_TIME, "ns", Better::Lower)
    }

    /// A metric from its three parts.
    pub fn new(name: impl Into<String>, unit: impl Into<String>, better: Better) -> Metric {
        Metric {
            name: name.into(),
            unit: unit.into(),
            better,
        }
    }
}

/// An estimated value and the interval that the data support.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The point estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// Whether the whole interval lies within `low..=high`.
    pub fn lies_within(&self, low: f64, high: f64) -> bool {
        self.low >= low && self.high <= high
    }
}

/// What the data say about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The test rejects and the whole interval lies beyond the threshold on the good side.
    Better,
    /// The same on the bad side.
    Worse,
    /// The whole interval lies within the threshold, or the equivalence stop fired.
    Same,
    /// Neither: more runs are needed, or the question cannot be answered at this threshold.
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
