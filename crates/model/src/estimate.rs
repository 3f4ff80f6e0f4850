//! A figure with its interval.

use serde::{Deserialize, Serialize};

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
