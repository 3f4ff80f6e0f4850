//! Where the sides of a row lie: figures that belong to the estimated change.
//!
//! The change is estimated within blocks, a median over all runs of a side knows no blocks. So a pair of medians may
//! even say the opposite of the change beside it. What stands in a row is therefore decided from the estimate: the
//! candidates' runs are divided by their ratios, which puts the runs of all sides of a case on one level, and that
//! level is shown, times its ratio for each candidate (docs/why/statistics.md, "The figures of a row"). Both sides take
//! part alike: exchanging them exchanges the figures. Start at [`locate`].

use super::{CaseComparison, Comparison, Method, Side};
use speedwell_stats::describe::{mean, median};
use std::collections::HashMap;

/// What the rows of one level share: metric, baseline and case.
type Level = (String, String, String);

/// Fills in the location of every side. Candidates with the same baseline share a level, so that the baseline has one
/// figure in a case.
pub(super) fn locate(comparisons: &mut [Comparison]) {
    let mut pooled: HashMap<Level, Vec<f64>> = HashMap::new();
    for comparison in comparisons.iter() {
        for row in &comparison.rows {
            let Some(ratio) = ratio(row) else { continue };
            let level = pooled.entry(level_of(comparison, row)).or_default();
            if level.is_empty() {
                level.extend(values(&row.baseline));
            }
            level.extend(values(&row.candidate).map(|value| value / ratio));
        }
    }
    for comparison in comparisons {
        let centre = centre(comparison.method);
        for at in 0..comparison.rows.len() {
            let level = pooled.get(&level_of(comparison, &comparison.rows[at]));
            let row = &mut comparison.rows[at];
            let own = |side: &Side| centre(&values(side).collect::<Vec<f64>>());
            row.baseline.location = level.map_or_else(|| own(&row.baseline), |all| centre(all));
            row.candidate.location = match ratio(row) {
                Some(ratio) => row.baseline.location * ratio,
                None => own(&row.candidate),
            };
        }
    }
}

/// The estimate's own kind of average: a ratio of means is one of means, all others of typical runs.
fn centre(method: Method) -> fn(&[f64]) -> f64 {
    match method {
        Method::Rank | Method::MannWhitney => median,
        Method::Welch | Method::Bootstrap => mean,
    }
}

fn level_of(comparison: &Comparison, row: &CaseComparison) -> Level {
    (
        comparison.metric.name.clone(),
        comparison.baseline.clone(),
        row.case.id(),
    )
}

/// The estimated ratio, if the candidate's runs can be divided by it.
fn ratio(row: &CaseComparison) -> Option<f64> {
    let ratio = 1.0 + row.change?.value;
    (ratio.is_finite() && ratio != 0.0).then_some(ratio)
}

fn values(side: &Side) -> impl Iterator<Item = f64> + '_ {
    side.runs.iter().map(|run| run.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, of};
    use speedwell_fixtures::Story;

    /// A machine that becomes twice as fast halfway, and a candidate that is 12 % slower: in every block 12 %.
    fn drifting(variants: &[&str]) -> speedwell_model::Session {
        let mut runs = 0;
        let value = move |variant: &str, number: u32| {
            runs += 1;
            let level = if number < 5 { 400.0 } else { 800.0 };
            let own = match variant {
                "new" => 0.88,
                "newest" => 1.25,
                _ => 1.0,
            };
            level * own * (1.0 + 1e-4 * f64::from(runs * 7919 % 101))
        };
        Story::fixed(variants, 5).case("g/a", value).session()
    }

    #[test]
    fn the_figures_of_a_row_have_the_estimated_ratio() {
        for method in [Method::Rank, Method::Welch, Method::Bootstrap] {
            let settings = Settings {
                method: Some(method),
                ..Settings::default()
            };
            let found = of(&drifting(&["old", "new"]), &settings);
            let row = &found.comparisons[0].rows[0];
            let shown = row.candidate.location / row.baseline.location - 1.0;
            assert!((shown - row.change.unwrap().value).abs() < 1e-12);
            assert!((shown + 0.12).abs() < 0.02, "{method:?}: {shown}");
        }
    }

    #[test]
    fn exchanging_the_sides_exchanges_the_figures() {
        let session = drifting(&["old", "new"]);
        let of_baseline = |name: &str| {
            let settings = Settings {
                baseline: Some(name.into()),
                ..Settings::default()
            };
            let row = of(&session, &settings).comparisons[0].rows[0].clone();
            (row.baseline.location, row.candidate.location)
        };
        let (old, new) = of_baseline("old");
        let (new_too, old_too) = of_baseline("new");
        assert!((old / old_too - 1.0).abs() < 1e-9 && (new / new_too - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_baseline_has_one_figure_beside_all_candidates() {
        let found = of(&drifting(&["old", "new", "newest"]), &Settings::default());
        let [one, two] = &found.comparisons[..] else {
            panic!("{found:?}")
        };
        assert_eq!(one.rows[0].baseline.location, two.rows[0].baseline.location);
    }

    #[test]
    fn sides_without_a_ratio_keep_their_own_figures() {
        let story = Story::fixed(&["old", "new"], 4);
        let value = |variant: &str, number: u32| match variant {
            "old" => f64::from(number) - 3.5,
            _ => f64::from(number),
        };
        let found = of(&story.case("g/a", value).session(), &Settings::default());
        let row = &found.comparisons[0].rows[0];
        assert_eq!(row.change, None);
        assert_eq!((row.baseline.location, row.candidate.location), (0.0, 3.5));
    }
}
