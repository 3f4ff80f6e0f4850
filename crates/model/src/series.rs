//! All samples of one case, variant and metric, one value per run.

use super::{Case, Metric, Run};
use std::sync::Arc;

/// One run's contribution: the median of its samples of the metric.
///
/// A process is one replicate however many values it gave: values inside a process are not
/// independent, and treating them so multiplies false alarms (docs/why/statistics.md, "One value per
/// process").
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunValue {
    /// Position in the order of execution.
    pub slot: u32,
    /// Randomised block.
    pub block: u32,
    /// The value in the metric's unit.
    pub value: f64,
}

/// The values that one variant gave for one case and metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The case.
    pub case: Arc<Case>,
    /// The variant's name.
    pub variant: Arc<str>,
    /// The metric.
    pub metric: Metric,
    /// One value per run, in order of execution.
    pub runs: Vec<RunValue>,
}

impl Series {
    /// The bare values in order of execution.
    pub fn values(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.value).collect()
    }
}

impl Run {
    /// The run's one value for `metric`: the median of its samples, `None` if it has none.
    pub fn value_of(&self, metric: &str) -> Option<f64> {
        let mut values: Vec<f64> = self
            .samples
            .iter()
            .filter(|s| &*s.metric == metric)
            .map(|s| s.value)
            .collect();
        median(&mut values)
    }
}

/// Median of `values`, which are sorted in place; `None` for an empty slice.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}
