//! How much is measured per case: runs, time limits, precision.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How many runs each variant of a case gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runs {
    /// Exactly this many.
    Fixed(u32),
    /// As many as the sequential design needs; the largest number of its looks is the cap.
    Sequential,
}

/// How the harness divides one run into samples, where the harness owns the loop. A file that starts
/// and ends the clock itself measures once, whatever this says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Samples in one run.
    pub count: u32,
    /// What ends a sample.
    pub length: Length,
    /// Time spent with iterations that are thrown away, before the first sample.
    pub warmup_ns: u64,
}

/// What ends a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// The harness finds the number of iterations that takes about this long.
    TimeNs(u64),
    /// Exactly so many iterations.
    Iterations(u64),
}

impl Default for Samples {
    /// A third of a second per run. The run is the unit of independence, so time is better spent
    /// on more runs than on more samples of one (docs/why/statistics.md, "One value per process"); a
    /// sample of 50 ms is a million times the resolution of the clock, and 100 ms let a processor
    /// reach the frequency that it will keep.
    fn default() -> Samples {
        Samples {
            count: 5,
            length: Length::TimeNs(50_000_000),
            warmup_ns: 100_000_000,
        }
    }
}

impl Sampling {
    /// The time limit of a run when nothing else is said.
    pub const USUAL_TIMEOUT: Duration = Duration::from_secs(300);
}

/// What the sampling options asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Runs per case and variant.
    pub runs: Runs,
    /// Stop a case without comparison when the interval's half width is below this share.
    pub precision: Option<f64>,
    /// Time limit of one run.
    pub timeout_ms: u64,
    /// The time that all measuring may take; a session that is resumed has it anew.
    #[serde(default)]
    pub budget_ms: Option<u64>,
    /// How a run is divided, where the harness decides that.
    #[serde(default)]
    pub samples: Samples,
}
