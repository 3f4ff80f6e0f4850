//! Summarizes each series: the runs of one case under one variant, in one metric.
//!
//! Decides how the center, the spread and the notes of a series are computed. Compares nothing.
//! [`series_progress`] estimates the series of a session that is still being measured, block by
//! block. It gives values only, and never a verdict: between the planned interim analyses, verdicts
//! would be wrong more often than stated.

use crate::CaseSummary;
use crate::builds::independent_values;
use crate::grid::{CaseRuns, RunGrid, finite_values};
use crate::paired::{exceeds_chance, series_autocorrelation};
use crate::warnings::{add_distinct, format_count};
use speedwell_model::{IntervalEstimate, Metric, Run, RunOrder, Session};
use speedwell_stats::Interval;
use speedwell_stats::describe::{coefficient_of_variation, mean, median, outliers};
use speedwell_stats::interval::{mean_t, median_binomial};
use std::sync::Arc;

/// Summarizes all series, ordered by case, then variant, then metric.
pub(super) fn summarize_grid(
    grid: &RunGrid<'_>,
    metrics: &[&Metric],
    confidence: f64,
    order: RunOrder,
) -> Vec<CaseSummary> {
    let mut summaries = Vec::new();
    for case in &grid.cases {
        for variant in grid.variants.iter().enumerate() {
            for metric in metrics {
                summaries.extend(summarize_series(case, variant, metric, confidence, order));
            }
        }
    }
    summaries
}

/// Summarizes one series; `None` if no run has a value.
fn summarize_series(
    case: &CaseRuns<'_>,
    (index, variant): (usize, &Arc<str>),
    metric: &Metric,
    confidence: f64,
    order: RunOrder,
) -> Option<CaseSummary> {
    let series_runs = &case.by_variant[index];
    let runs = finite_values(series_runs, &metric.name);
    let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
    if values.is_empty() {
        return None;
    }
    let independent: Vec<f64> =
        (independent_values(series_runs, &metric.name).iter()).map(|run| run.value).collect();
    let mut summary = CaseSummary {
        case: case.case.clone(),
        variant: variant.clone(),
        metric: metric.clone(),
        // With too few runs, even the smallest and the largest value do not bound the median at
        // this confidence. The center then has no interval.
        center: estimate_with_interval(
            median(&independent),
            median_binomial(&independent, confidence),
        ),
        mean: mean(&values),
        variation: finite_or_none(coefficient_of_variation(&values)),
        autocorrelation: series_autocorrelation(&values),
        exposure: case.exposures[index].clone(),
        outliers: outliers(&values),
        notes: Vec::new(),
        runs: runs.into(),
    };
    let reported = |run: &&&Run| run.samples.iter().any(|s| *s.metric == *metric.name);
    let valueless_runs = series_runs.iter().filter(reported).count() - summary.runs.len();
    summary.notes = summary_notes(&summary, valueless_runs, order);
    add_distinct(&mut summary.notes, series_runs.iter().flat_map(|run| run.notes.iter().cloned()));
    Some(summary)
}

/// Combines a value and its interval. Without an interval, both ends equal the value.
pub(crate) fn estimate_with_interval(value: f64, interval: Option<Interval>) -> IntervalEstimate {
    let (low, high) = interval.map_or((value, value), |ends| (ends.low, ends.high));
    IntervalEstimate { value, low, high }
}

/// Half the width of Student's t interval for the mean, divided by the mean.
pub(super) fn relative_half_width(values: &[f64], confidence: f64) -> Option<f64> {
    let interval = mean_t(values, confidence)?;
    finite_or_none(interval.half_width() / mean(values).abs())
}

/// Returns `None` for a value that is not finite. The statistics crate returns NaN for undefined
/// values.
pub fn finite_or_none(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Notes on one series, based on its computed figures.
fn summary_notes(summary: &CaseSummary, valueless_runs: usize, order: RunOrder) -> Vec<String> {
    let mut notes = Vec::new();
    let runs = summary.runs.len();
    if valueless_runs > 0 {
        notes
            .push(format!("{} gave no finite value.", format_count(valueless_runs, "run", "runs")));
    }
    if runs > 1 && summary.runs.iter().all(|run| run.value == summary.runs[0].value) {
        notes.push(format!("All {runs} values are identical."));
        return notes;
    }
    if !summary.outliers.is_empty() {
        let outliers = format_count(summary.outliers.len(), "value lies", "values lie");
        notes.push(format!("{outliers} far from the median; nothing was dropped."));
    }
    match summary.autocorrelation {
        Some(correlation) if exceeds_chance(correlation, runs) => {
            let effect = match order {
                RunOrder::Blocks => "comparisons are protected by the randomised blocks",
                _ => "the interval may be too narrow",
            };
            notes.push(format!(
                "Runs depend on each other (lag-1 correlation {correlation:.2}); {effect}."
            ));
        }
        _ => {}
    }
    notes
}

/// Confidence level of the estimates of a session that is being measured.
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
    use super::series_progress;
    use crate::{AnalysisSettings, CaseSummary};
    use speedwell_fixtures::FakeSession;
    use speedwell_model::{IntervalEstimate, Session};

    fn only(session: &Session) -> CaseSummary {
        let mut summaries = crate::analyze_session(session, &AnalysisSettings::default()).summaries;
        assert_eq!(summaries.len(), 1);
        summaries.remove(0)
    }

    #[test]
    fn the_interval_of_ten_runs_extends_from_the_second_to_the_ninth_value() {
        let values = [3.0, 1.0, 10.0, 4.0, 6.0, 5.0, 8.0, 7.0, 9.0, 2.0];
        let session = FakeSession::sequential(&["only"], 5)
            .add_case("g/b n=1", |_, i| values[i as usize])
            .build();
        let summary = only(&session);
        assert_eq!(summary.center, IntervalEstimate { value: 5.5, low: 2.0, high: 9.0 });
        assert_eq!(summary.mean, 5.5);
        // Reference: `sd(1:10) / 5.5` in R 4.2.2.
        assert!((summary.variation.unwrap() - 0.5504818825631803).abs() < 1e-14);
        assert!(summary.outliers.is_empty() && summary.notes.is_empty(), "{:?}", summary.notes);
    }

    #[test]
    fn five_runs_have_no_interval_and_one_run_no_variation() {
        let session = FakeSession::sequential(&["only"], 3)
            .add_case("b", |_, i| f64::from(i))
            .remove_run("only", 5)
            .build();
        assert_eq!(only(&session).center, IntervalEstimate { value: 2.0, low: 2.0, high: 2.0 });
        let mut session = FakeSession::sequential(&["only"], 1).add_case("b", |_, _| 4.0).build();
        session.runs.truncate(1);
        let summary = only(&session);
        assert_eq!((summary.variation, summary.autocorrelation), (None, None));
    }

    #[test]
    fn outliers_are_marked_and_kept() {
        let wobble = |i: u32| 100.0 + f64::from(i * 7919 % 13) / 10.0;
        let session = FakeSession::sequential(&["only"], 10)
            .add_case("b", |_, i| if i == 11 { 150.0 } else { wobble(i) })
            .build();
        let summary = only(&session);
        assert_eq!(summary.outliers, [11]);
        assert_eq!(summary.runs.len(), 20);
        assert_eq!(summary.notes, ["1 value lies far from the median; nothing was dropped."]);
    }

    #[test]
    fn drift_and_identical_values_are_noted() {
        let drift = FakeSession::sequential(&["only"], 10)
            .add_case("b", |_, i| 100.0 + f64::from(i))
            .build();
        let summary = only(&drift);
        assert!(summary.autocorrelation.unwrap() > 0.8);
        assert!(summary.notes[0].starts_with("Runs depend on each other"), "{:?}", summary.notes);
        let same = FakeSession::sequential(&["only"], 4).add_case("b", |_, _| 3.0).build();
        assert_eq!(only(&same).notes, ["All 8 values are identical."]);
    }

    #[test]
    fn notes_of_runs_are_reported_only_once() {
        let mut session =
            FakeSession::sequential(&["only"], 2).add_case("b", |_, i| f64::from(i)).build();
        for run in session.runs.iter_mut().skip(1) {
            run.notes.push("The clock stood still.".into());
        }
        session.runs[0].samples[0].value = f64::INFINITY;
        let notes = only(&session).notes;
        assert_eq!(notes, ["1 run gave no finite value.", "The clock stood still."]);
    }

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
