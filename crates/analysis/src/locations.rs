//! Decides the figures of the rows of comparisons ([`fill_locations`]).
//!
//! The change is estimated within blocks. A median over all runs of a side ignores blocks, so two
//! medians can contradict the reported change. The figures of a row are therefore derived from the
//! estimate (docs/why/statistics.md, "The figures of a row").

use crate::{CandidateComparison, CaseComparison, SideSummary, StatisticalMethod};
use speedwell_stats::describe::{mean, median};
use std::collections::HashMap;

/// Metric, baseline and case. Rows with the same key have the same baseline runs. They form a
/// group, called a level, in which the baseline has the same location in all rows.
type RowLevelKey = (String, String, String);

/// Fills in the location (the mean or median) of each side, level by level ([`RowLevelKey`]). The
/// baseline gets the same location in all rows of a level. If no side of a level varies, every side
/// keeps its exact value: computing it from a ratio would turn 9304 bytes into 9303.999999999998.
pub(super) fn fill_locations(comparisons: &mut [CandidateComparison]) {
    let mut levels: HashMap<RowLevelKey, Vec<[usize; 2]>> = HashMap::new();
    for (comparison_index, comparison) in comparisons.iter().enumerate() {
        for (row_index, row) in comparison.rows.iter().enumerate() {
            let CandidateComparison { metric, baseline, .. } = comparison;
            let key = (metric.name.clone(), baseline.clone(), row.case.id());
            levels.entry(key).or_default().push([comparison_index, row_index]);
        }
    }
    for row_indices in levels.into_values() {
        let is_constant = row_indices.iter().all(|&[comparison, row]| {
            let row = &comparisons[comparison].rows[row];
            never_varies(&row.baseline) && never_varies(&row.candidate)
        });
        // Runs are pooled one level at a time, because pooling all levels at once would copy every
        // run of the session.
        let pooled = if is_constant { Vec::new() } else { pooled_runs(comparisons, &row_indices) };
        for [comparison, row] in row_indices {
            let centre_of = centre(comparisons[comparison].method);
            let row = &mut comparisons[comparison].rows[row];
            let side_centre =
                |side: &SideSummary| centre_of(&side_values(side).collect::<Vec<f64>>());
            row.baseline.location =
                if pooled.is_empty() { side_centre(&row.baseline) } else { centre_of(&pooled) };
            row.candidate.location = match estimated_ratio(row) {
                Some(ratio) if !is_constant => row.baseline.location * ratio,
                _ => side_centre(&row.candidate),
            };
        }
    }
}

/// Whether all runs of a side have the same value.
fn never_varies(side: &SideSummary) -> bool {
    side_values(side).all(|value| value == side.runs[0].value)
}

/// Values of all runs of a level: the baseline's values, and each candidate's values divided by the
/// candidate's ratio. Empty if no candidate has a ratio.
fn pooled_runs(comparisons: &[CandidateComparison], row_indices: &[[usize; 2]]) -> Vec<f64> {
    let mut pooled = Vec::new();
    for &[comparison, row] in row_indices {
        let row = &comparisons[comparison].rows[row];
        let Some(ratio) = estimated_ratio(row) else { continue };
        if pooled.is_empty() {
            pooled.extend(side_values(&row.baseline));
        }
        pooled.extend(side_values(&row.candidate).map(|value| value / ratio));
    }
    pooled
}

/// Returns the average that suits a method: the mean if the method estimates a ratio of means, else
/// the median.
fn centre(method: StatisticalMethod) -> fn(&[f64]) -> f64 {
    match method {
        StatisticalMethod::Rank
        | StatisticalMethod::SignedRank
        | StatisticalMethod::MannWhitney => median,
        StatisticalMethod::Welch | StatisticalMethod::Bootstrap => mean,
    }
}

/// Estimated ratio of candidate to baseline; `None` if the candidate's runs cannot be divided by
/// this ratio.
fn estimated_ratio(row: &CaseComparison) -> Option<f64> {
    let ratio = 1.0 + row.change?.value;
    (ratio.is_finite() && ratio != 0.0).then_some(ratio)
}

fn side_values(side: &SideSummary) -> impl Iterator<Item = f64> + '_ {
    side.runs.iter().map(|run| run.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AnalysisSettings;
    use speedwell_fixtures::FakeSession;

    /// A machine that becomes twice as fast halfway, and a candidate that is 12% slower in every
    /// block.
    fn drifting(variants: &[&str]) -> speedwell_model::Session {
        let mut runs = 0;
        let value = move |variant: &str, number: u32| {
            runs += 1;
            let level = if number < 5 { 400.0 } else { 800.0 };
            let factor = match variant {
                "new" => 0.88,
                "newest" => 1.25,
                _ => 1.0,
            };
            level * factor * (1.0 + 1e-4 * f64::from(runs * 7919 % 101))
        };
        FakeSession::with_fixed_blocks(variants, 5).add_case("g/a", value).build()
    }

    #[test]
    fn the_figures_of_a_row_have_the_estimated_ratio() {
        for method in
            [StatisticalMethod::Rank, StatisticalMethod::Welch, StatisticalMethod::Bootstrap]
        {
            let settings = AnalysisSettings { method: Some(method), ..AnalysisSettings::default() };
            let found = crate::analyze_session(&drifting(&["old", "new"]), &settings);
            let row = &found.comparisons[0].rows[0];
            let shown_change = row.candidate.location / row.baseline.location - 1.0;
            assert!((shown_change - row.change.unwrap().value).abs() < 1e-12);
            assert!((shown_change + 0.12).abs() < 0.02, "{method:?}: {shown_change}");
        }
    }

    #[test]
    fn exchanging_the_sides_exchanges_the_figures() {
        let session = drifting(&["old", "new"]);
        let of_baseline = |name: &str| {
            let settings =
                AnalysisSettings { baseline: Some(name.into()), ..AnalysisSettings::default() };
            let row = crate::analyze_session(&session, &settings).comparisons[0].rows[0].clone();
            (row.baseline.location, row.candidate.location)
        };
        let (old, new) = of_baseline("old");
        let (new_too, old_too) = of_baseline("new");
        assert!((old / old_too - 1.0).abs() < 1e-9 && (new / new_too - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_baseline_has_the_same_figure_beside_every_candidate() {
        let found = crate::analyze_session(
            &drifting(&["old", "new", "newest"]),
            &AnalysisSettings::default(),
        );
        let [one, two] = &found.comparisons[..] else { panic!("{found:?}") };
        assert_eq!(one.rows[0].baseline.location, two.rows[0].baseline.location);
    }

    #[test]
    fn sides_that_never_vary_keep_their_exact_figures() {
        let bytes = |variant: &str, _| if variant == "old" { 9304.0 } else { 9312.0 };
        for blocks in [6, 7, 11] {
            let session = FakeSession::with_fixed_blocks(&["old", "new"], blocks);
            let session = session.add_case("g/a", bytes).build();
            let found = crate::analyze_session(&session, &AnalysisSettings::default());
            let row = &found.comparisons[0].rows[0];
            let figures = (row.baseline.location, row.candidate.location);
            assert_eq!(figures, (9304.0, 9312.0), "{blocks} blocks");
        }
    }

    #[test]
    fn sides_without_a_ratio_keep_their_own_figures() {
        let story = FakeSession::with_fixed_blocks(&["old", "new"], 4);
        let value = |variant: &str, number: u32| match variant {
            "old" => f64::from(number) - 3.5,
            _ => f64::from(number),
        };
        let found = crate::analyze_session(
            &story.add_case("g/a", value).build(),
            &AnalysisSettings::default(),
        );
        let row = &found.comparisons[0].rows[0];
        assert_eq!(row.change, None);
        assert_eq!((row.baseline.location, row.candidate.location), (0.0, 3.5));
    }
}
