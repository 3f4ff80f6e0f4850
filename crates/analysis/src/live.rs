//! Estimates the series of a session that is still being measured, block by block.
//!
//! Gives values only, and never a verdict: between the planned interim analyses, verdicts would be
//! wrong more often than stated. Start at [`series_progress`].

use crate::builds::independent_values;
use crate::grid::RunGrid;
use crate::summary::estimate_with_interval;
use speedwell_model::{IntervalEstimate, Metric, Run, Session};
use speedwell_stats::describe::median;
use speedwell_stats::interval::median_binomial;

/// Confidence level of the intervals.
const CONFIDENCE: f64 = 0.95;

/// Maximum number of estimates per series. They are spread evenly over the blocks.
const MAX_ESTIMATES: usize = 100;

/// A series of a session that is being measured.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesProgress {
    /// The id of the case.
    pub case: String,
    /// The variant.
    pub variant: String,
    /// The primary metric of the session.
    pub metric: Metric,
    /// The number of runs with a value.
    pub runs: usize,
    /// Estimates after some of the blocks, in order; the last one uses all runs. Never empty.
    pub estimates: Vec<BlockEstimate>,
}

/// The estimate of a series after some blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockEstimate {
    /// The number of blocks with runs of the series.
    pub blocks: usize,
    /// The median of the runs. Both ends equal the value while there are too few runs for a 95%
    /// interval.
    pub median: IntervalEstimate,
}

/// Estimates the primary metric of each case and variant after each block. `session` has the runs
/// so far.
pub fn series_progress(session: &Session) -> Vec<SeriesProgress> {
    let Some(metric) = session.metrics.first() else { return Vec::new() };
    let grid = RunGrid::new(session);
    let mut progress = Vec::new();
    for case in &grid.cases {
        for (variant, runs) in grid.variants.iter().zip(&case.by_variant) {
            let estimates = block_estimates(runs, metric);
            if !estimates.is_empty() {
                progress.push(SeriesProgress {
                    case: case.id.clone(),
                    variant: variant.to_string(),
                    metric: metric.clone(),
                    runs: independent_values(runs, &metric.name).len(),
                    estimates,
                });
            }
        }
    }
    progress
}

fn block_estimates(runs: &[&Run], metric: &Metric) -> Vec<BlockEstimate> {
    let mut in_order: Vec<&Run> = runs.to_vec();
    in_order.sort_by_key(|run| run.block);
    let blocks: Vec<&[&Run]> = in_order.chunk_by(|one, next| one.block == next.block).collect();
    let step = blocks.len().div_ceil(MAX_ESTIMATES).max(1);
    let mut estimates = Vec::new();
    let mut run_count = 0;
    for (index, block) in blocks.iter().enumerate() {
        run_count += block.len();
        let count = index + 1;
        if !count.is_multiple_of(step) && count != blocks.len() {
            continue;
        }
        let values = independent_values(&in_order[..run_count], &metric.name);
        let values: Vec<f64> = values.iter().map(|run| run.value).collect();
        if !values.is_empty() {
            let median =
                estimate_with_interval(median(&values), median_binomial(&values, CONFIDENCE));
            estimates.push(BlockEstimate { blocks: count, median });
        }
    }
    estimates
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::FakeSession;

    #[test]
    fn estimates_grow_with_the_blocks_and_the_last_uses_all_runs() {
        let session = FakeSession::with_fixed_blocks(&["old", "new"], 12)
            .add_noisy_case("a", 0.02, |variant| if variant == "new" { 2.0 } else { 1.0 })
            .build();
        let progress = series_progress(&session);
        let variants: Vec<&str> = progress.iter().map(|series| series.variant.as_str()).collect();
        assert_eq!(variants, ["old", "new"]);
        for series in &progress {
            let blocks: Vec<usize> = series.estimates.iter().map(|one| one.blocks).collect();
            assert_eq!(blocks, (1..=12).collect::<Vec<usize>>());
            let first = series.estimates[0].median;
            assert!(first.low.total_cmp(&first.high).is_eq(), "too few runs for an interval");
            let last = series.estimates[11].median;
            assert!(last.low < last.value && last.value < last.high, "{last:?}");
        }
    }
}
