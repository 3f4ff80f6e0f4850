//! How much is measured per case: runs, time limits, precision.

use serde::{Deserialize, Serialize};

/// How many runs each variant of a case gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runs {
    /// Exactly this many.
    Fixed(u32),
    /// As many as the sequential design needs; the largest number of its looks is the cap.
    Sequential,
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
}
