//! One timed observation.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One observed value of a metric: N iterations in T time, or a figure that came with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the [`super::Metric`] that the value belongs to.
    pub metric: Arc<str>,
    /// The value in the metric's unit, exactly as reported.
    pub value: f64,
    /// The length of the observation in nanoseconds, where the source tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// How many iterations the observation covers, where the source tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<f64>,
}
