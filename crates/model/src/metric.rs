//! Named quantities with unit and direction.

use serde::{Deserialize, Serialize};

/// Which direction of a metric is the good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better: throughput.
    Higher,
    /// Less is better: time, latency, memory, errors.
    Lower,
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

    /// What a shell takes that is given nothing to do, where an iteration is a command that a shell executes. The times
    /// of iterations contain it.
    pub const SHELL_TIME: &'static str = "shell_time";

    /// Iterations per second, higher is better.
    pub fn throughput() -> Metric {
        Metric::new(Metric::THROUGHPUT, "1/s", Better::Higher)
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
