//! Describes a case of a comparison, and explains its result: notes for the reader, why a case
//! has no verdict, and how many more runs it needs. Also computes the change over all cases
//! ([`overall_change`]).
//!
//! `comparison.rs` describes the cases and decides their verdicts.

use crate::exact::ExactCounts;
use crate::grid::DisturbanceExposure;
use crate::paired::{PairedRuns, RunMatching};
use crate::policy::{
    AchievedPrecision, JudgingPolicy, distance_to_change, distance_to_same, explain_too_few,
    most_comparisons,
};
use crate::sequential::{DataEnd, SequentialOutcome};
use crate::summary::estimate_with_interval;
use crate::warnings::format_count;
use crate::{CaseComparison, NoVerdict, StatisticalMethod, TestingCorrection, WithheldReason};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_model::{Case, IntervalEstimate, RunValue, Verdict};
use speedwell_stats::bootstrap::percentile_interval;
use speedwell_stats::describe::mean;
use speedwell_stats::distribution::{chi_squared_upper_tail, normal};
use std::sync::Arc;

/// A case that two sides have in common.
pub(super) struct MatchedCase {
    pub case: Arc<Case>,
    pub id: String,
    /// Values of all runs of baseline and candidate; `None` if `pair` has the same values.
    pub sides: Option<[Vec<RunValue>; 2]>,
    /// Compared values.
    pub pair: PairedRuns,
    /// Values of baseline and candidate in the pairs whose sides ran one after the other, each with
    /// the processor to itself.
    pub alone: Vec<(f64, f64)>,
    /// Why processor times do not show how long the sides take, if one of them waits.
    pub blocked: Option<String>,
    /// Whether the sides come from different sessions.
    pub apart: bool,
    /// Reason why the verdict on the case is withheld; `None` if it is not withheld.
    pub withheld: Option<WithheldReason>,
    /// How often baseline and candidate were disturbed.
    pub exposures: [DisturbanceExposure; 2],
}

/// A described case, with the data that its verdict needs.
pub(super) struct CaseRow {
    pub comparison: CaseComparison,
    /// Results of the tests. The tested data are dropped, because there may be thousands of cases.
    pub outcome: SequentialOutcome,
    /// Independent units (runs or builds) per side that the tests used.
    pub runs: usize,
    /// Smallest p value that a single test of this many units can give.
    pub smallest_p: f64,
    /// Standard error of the log ratio, with the number of units from which it was computed.
    pub precision: Option<AchievedPrecision>,
    /// Whether the sides were measured one after the other.
    pub one_after_the_other: bool,
    /// Whether the ratio is biased, because the sides affected each other or one of them waits.
    pub has_biased_ratio: bool,
    /// Exact comparison of the values, if the metric is a count.
    pub counts: ExactCounts,
}

/// Differences between logarithms that are smaller than this come from rounding. The limit is
/// needed for noiseless values, because their intervals have no width.
const ROUNDING_TOLERANCE: f64 = 1e-9;

/// Whether the mean and the typical run changed by different amounts: the logarithms of the two
/// changes lie further apart than half the width of the wider interval (docs/why/statistics.md,
/// "Effect and interval").
pub(super) fn has_shape_changed(
    typical: Option<IntervalEstimate>,
    mean: Option<IntervalEstimate>,
) -> bool {
    let log = |share: f64| share.ln_1p();
    let half = |estimate: &IntervalEstimate| 0.5 * (log(estimate.high) - log(estimate.low));
    let (Some(typical), Some(mean)) = (typical, mean) else { return false };
    let apart = (log(mean.value) - log(typical.value)).abs();
    apart > half(&typical).max(half(&mean)).max(ROUNDING_TOLERANCE)
}

/// Notes on one case of a comparison.
pub(super) fn case_notes(
    pair: &PairedRuns,
    outcome: &SequentialOutcome,
    policy: &JudgingPolicy,
    counts: ExactCounts,
) -> Vec<String> {
    let mut notes = Vec::new();
    if !counts.is_exact() {
        notes.extend(note_run_count(pair, outcome, policy));
        if pair.incomplete > 0 {
            let blocks = format_count(pair.incomplete, "block lacks", "blocks lack");
            notes.push(format!("{blocks} a run and cannot be compared."));
        }
        notes.extend(note_values(outcome, policy));
    }
    notes.extend(counts.to_note(pair.baseline.len().min(pair.candidate.len())));
    notes
}

fn note_run_count(
    pair: &PairedRuns,
    outcome: &SequentialOutcome,
    policy: &JudgingPolicy,
) -> Option<String> {
    let runs = outcome.data.smaller_side_runs();
    let counted = |number: usize| policy.unit.format_count(number);
    let run_count = counted(runs);
    if outcome.is_contradictory {
        return Some(format!(
            "The intervals of the interim analyses do not overlap, so something changed while \
             measuring; the figures are from the analysis after {run_count} on each side, where the \
             change is clearest."
        ));
    }
    match outcome.end {
        DataEnd::TooFew if policy.looks.is_none() => None,
        DataEnd::TooFew => Some(format!(
            "Measuring ended before the first interim analysis; there are {run_count} a side."
        )),
        DataEnd::Early => {
            let next = policy.looks.as_ref().and_then(|looks| looks.design.next_after(runs));
            let planned = next
                .map_or(String::new(), |look| format!(" after {} on each side", counted(look.n)));
            Some(format!(
                "Measuring ended before the interim analysis{planned}; the figures are from the \
                 one after {runs}."
            ))
        }
        DataEnd::Final if pair.comparable_runs() > runs && policy.looks.is_some() => {
            Some(format!("Decided at {run_count} a side; later ones do not affect the verdict."))
        }
        DataEnd::Final => None,
    }
}

fn note_values(outcome: &SequentialOutcome, policy: &JudgingPolicy) -> Option<String> {
    let data = &outcome.data;
    if data.smaller_side_runs() == 0 {
        return None;
    }
    let varies = |values: &[f64]| values.iter().any(|&value| value != values[0]);
    if data.constant_value().is_some() {
        Some("All values of both sides are identical.".into())
    } else if outcome.change.is_none() && data.is_from_zero() {
        Some("The baseline's median is zero, so the change has no percentage.".into())
    } else if !data.is_never_negative() && outcome.change.is_none() {
        Some("Some values are below zero and have no logarithm, so no change can be given.".into())
    } else if policy.method == StatisticalMethod::Welch
        && !varies(&data.baseline)
        && !varies(&data.candidate)
    {
        Some("Neither side's values vary, so Welch's test is undefined.".into())
    } else if !outcome.is_same && outcome.change.is_none() {
        Some(
            "The baseline's mean is indistinguishable from zero, so no change can be given.".into(),
        )
    } else {
        None
    }
}

pub(super) fn note_dependence(policy: &JudgingPolicy, one_after_the_other: bool) -> Option<String> {
    let text = match policy.matching {
        // The test of randomized blocks stays valid even if runs depend on each other.
        RunMatching::Blocks { .. } | RunMatching::Pairs if !policy.indicative => return None,
        _ if one_after_the_other => {
            "Runs depend on each other and the sides were measured one after the other, so the p \
             value is not valid."
        }
        _ => "Runs depend on each other, so the p value is not reliable.",
    };
    Some(text.into())
}

/// If a case is undecided because it cannot have a verdict, records the reason. If there are too
/// few runs and no interim analyses, a note says how many runs are enough.
pub(super) fn explain_no_verdict(
    row: &mut CaseRow,
    policy: &JudgingPolicy,
    correction: TestingCorrection,
    tests: usize,
) {
    let tests = match correction {
        TestingCorrection::Holm => tests,
        // The number of tests does not put a verdict out of reach: Benjamini-Hochberg can find many
        // changes together, and without correction each test stands alone.
        TestingCorrection::BenjaminiHochberg | TestingCorrection::None => 1,
    };
    let comparison = &row.comparison;
    let is_open = comparison.verdict == Verdict::Unclear
        && !comparison.differs
        && comparison.withheld.is_none();
    let reason = no_verdict(row, policy, tests).filter(|_| is_open);
    row.comparison.no_verdict = reason;
    if reason == Some(NoVerdict::TooFewRuns) && policy.looks.is_none() {
        let text = explain_too_few(policy, row.runs, row.smallest_p, tests);
        let note = format!("Too few {}: {text}.", policy.unit.plural_noun());
        row.comparison.notes.insert(0, note);
    }
}

/// Why an undecided case cannot have a verdict: it has too few runs for this many tests, or the
/// test is undefined.
fn no_verdict(row: &CaseRow, policy: &JudgingPolicy, tests: usize) -> Option<NoVerdict> {
    if row.outcome.end == DataEnd::TooFew {
        return Some(NoVerdict::TooFewRuns);
    }
    if row.outcome.p.is_none() {
        return Some(NoVerdict::NoTest);
    }
    let is_out_of_reach =
        policy.looks.is_none() && most_comparisons(row.smallest_p, policy.alpha) < tests.max(1);
    is_out_of_reach.then_some(NoVerdict::TooFewRuns)
}

/// Explains why a visible change does not affect the verdict.
pub(super) fn explain_open_verdict(
    comparison: &CaseComparison,
    outcome: &SequentialOutcome,
    policy: &JudgingPolicy,
) -> Option<String> {
    let is_change = matches!(comparison.verdict, Verdict::Better | Verdict::Worse);
    let would_stand = outcome.direction.is_some() && outcome.p.is_some_and(|p| p <= policy.alpha);
    if !is_change && would_stand {
        return Some(
            "The change is significant on its own, but not after correction for the number of \
             comparisons."
                .into(),
        );
    }
    let excludes_zero =
        comparison.change.is_some_and(|change| change.low > 0.0 || change.high < 0.0);
    let is_within = comparison.verdict == Verdict::Same && policy.threshold > 0.0 && excludes_zero;
    is_within.then(|| {
        "There is a change (the interval excludes zero), but it lies within the threshold.".into()
    })
}

/// Approximate number of additional runs per side after which an unclear case is decided: the
/// smaller of the numbers needed for "same" and for "changed" at `level`, the significance level
/// after the correction. `None` if it is unknown how much the runs scatter.
pub(super) fn additional_runs(row: &CaseRow, policy: &JudgingPolicy, level: f64) -> Option<u32> {
    let block = policy.runs_per_block();
    let level_of_one = policy.smallest_p().fewest_runs(level);
    let reachable = level_of_one.max(policy.fewest_runs(level));
    let (precision, change) = row.precision.zip(row.outcome.change)?;
    let runs_for_change = precision
        .runs_for(distance_to_change(change.value, policy.threshold), level)
        .map(|required| required.max(reachable));
    let runs_for_same =
        precision.runs_for(distance_to_same(change.value, policy.delta), policy.alpha);
    let required = runs_for_change.into_iter().chain(runs_for_same).min()?;
    let missing = required.saturating_sub(row.runs).max(1);
    Some((missing.div_ceil(block) * block * policy.unit.runs_per_unit()) as u32)
}

/// Number of resamples. With this number, 50 resampled values lie beyond each end of a 95%
/// interval.
const DRAWS: usize = 2_000;

/// Number of cases up to which the mean is resampled. The mean of more cases is assumed to be
/// normal.
const MAX_RESAMPLED_CASES: usize = 500;

/// Geometric mean of the ratios, as a change with its interval. `None` for fewer than two cases.
/// The interval has no width if every case is exact.
///
/// Cases without a bounded interval are excluded. If fewer than two cases have a bounded interval,
/// the mean is taken over all cases instead, and its interval is unbounded. When a case is
/// resampled, a normal deviate represents the noise of its blocks. The standard deviation of this
/// noise is the standard error of the case, which follows from the case's interval. To first order,
/// this gives the same result as resampling the blocks, at a thousandth of the cost.
pub(super) fn overall_change(
    rows: &[&CaseRow],
    confidence: f64,
    seed: u64,
) -> Option<IntervalEstimate> {
    let cases: Vec<(f64, f64)> = rows.iter().filter_map(|row| ratio_and_error(row)).collect();
    if rows.len() > 1 && rows.iter().all(|row| row.comparison.is_exact) {
        let logs: Vec<f64> = rows.iter().filter_map(|row| log_ratio(row)).collect();
        return Some(estimate_with_interval(mean(&logs).exp_m1(), None));
    }
    if cases.len() < 2 {
        return unbounded_mean(rows);
    }
    if cases.len() > MAX_RESAMPLED_CASES {
        return Some(normal_interval(&cases, confidence));
    }
    let count = cases.len() as f64;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut resample = || {
        let (mut sum, mut variance) = (0.0, 0.0);
        for _ in 0..cases.len() {
            let (log_ratio, error) = cases[random.random_range(0..cases.len())];
            sum += log_ratio;
            variance += error * error;
        }
        // The sum of independent normal deviates is normal with the sum of their variances. The
        // range excludes 0 and 1, where the quantile is infinite.
        let noise = normal::quantile(random.random_range(1e-12..1.0));
        (sum + noise * variance.sqrt()) / count
    };
    let resamples = (0..DRAWS).map(|_| resample()).collect();
    let interval = percentile_interval(resamples, confidence).map(f64::exp_m1);
    let logs: Vec<f64> = cases.iter().map(|(log_ratio, _)| *log_ratio).collect();
    Some(estimate_with_interval(mean(&logs).exp_m1(), Some(interval)))
}

/// Computes the interval for many cases without resampling. Resampling would give the same
/// interval, because the sum of this many independent draws is normal (central limit theorem). The
/// variance of a draw is the variance between cases plus the variance of their noise.
fn normal_interval(cases: &[(f64, f64)], confidence: f64) -> IntervalEstimate {
    let count = cases.len() as f64;
    let center = cases.iter().map(|(log_ratio, _)| log_ratio).sum::<f64>() / count;
    let variance = |&(log_ratio, error): &(f64, f64)| (log_ratio - center).powi(2) + error * error;
    let error = cases.iter().map(variance).sum::<f64>().sqrt() / count;
    let reach = normal::quantile(0.5 * (1.0 + confidence)) * error;
    IntervalEstimate {
        value: center.exp_m1(),
        low: (center - reach).exp_m1(),
        high: (center + reach).exp_m1(),
    }
}

/// Mean over all cases, with an interval that excludes nothing.
fn unbounded_mean(rows: &[&CaseRow]) -> Option<IntervalEstimate> {
    let logs: Vec<f64> = rows.iter().filter_map(|row| log_ratio(row)).collect();
    (logs.len() >= 2).then(|| IntervalEstimate {
        value: mean(&logs).exp_m1(),
        low: -1.0,
        high: f64::INFINITY,
    })
}

/// Minimum number of cases for a typical change.
const FEWEST_TYPICAL: usize = 5;

/// Significance level at which the changes of cases count as different.
const UNLIKE: f64 = 0.05;

/// Lower limit of a case's standard error. A smaller error is only a rounding error of logarithms:
/// the runs of such a case do not scatter.
const LEAST_ERROR: f64 = 1e-9;

/// Whether there are enough cases, and their changes differ so little that the standard errors can
/// explain the differences.
///
/// Uses Cochran's Q, the weighted sum of squares about the weighted mean. Q is chi-squared if all
/// cases have the same change (Biometrics 10, 1954).
pub(super) fn are_alike(rows: &[&CaseRow]) -> bool {
    let error = |row: &CaseRow| {
        if row.comparison.is_exact {
            return Some(LEAST_ERROR);
        }
        row.precision.map(|precision| precision.error.max(LEAST_ERROR))
    };
    let cases = rows.iter().filter_map(|row| Some((log_ratio(row)?, error(row)?.powi(-2))));
    let cases: Vec<(f64, f64)> = cases.collect();
    if cases.len() < FEWEST_TYPICAL {
        return false;
    }
    let weights: f64 = cases.iter().map(|(_, weight)| weight).sum();
    let weighted = cases.iter().map(|(log_ratio, weight)| weight * log_ratio);
    let center = weighted.sum::<f64>() / weights;
    let q = cases.iter().map(|(log_ratio, weight)| weight * (log_ratio - center).powi(2)).sum();
    chi_squared_upper_tail(q, cases.len() as u32 - 1) >= UNLIKE
}

/// Number of cases excluded from [`overall_change`].
pub(super) fn count_unbounded(rows: &[&CaseRow]) -> usize {
    let bounded = rows.iter().filter(|row| ratio_and_error(row).is_some()).count();
    let part = match bounded {
        0 | 1 if rows.iter().all(|row| row.comparison.is_exact) => rows.len(),
        0 | 1 => rows.iter().filter_map(|row| log_ratio(row)).count(),
        _ => bounded,
    };
    rows.len() - part
}

fn ratio_and_error(row: &CaseRow) -> Option<(f64, f64)> {
    Some((log_ratio(row)?, row.precision?.error))
}

fn log_ratio(row: &CaseRow) -> Option<f64> {
    let log_ratio = row.comparison.change?.value.ln_1p();
    log_ratio.is_finite().then_some(log_ratio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_stats::describe::quantile;

    #[test]
    fn the_normal_interval_of_many_cases_matches_resampling() {
        // Evenly spaced ratios from -10% to +20% in logarithms, with an error of 1% each.
        let cases: Vec<(f64, f64)> =
            (0..501).map(|at| (-0.1 + 0.3 * f64::from(at) / 500.0, 0.01)).collect();
        let exact = normal_interval(&cases, 0.95);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut resamples: Vec<f64> = (0..4_000)
            .map(|_| {
                let sum: f64 = (0..cases.len())
                    .map(|_| {
                        let (log_ratio, error) = cases[random.random_range(0..cases.len())];
                        log_ratio + error * normal::quantile(random.random_range(1e-12..1.0))
                    })
                    .sum();
                sum / cases.len() as f64
            })
            .collect();
        resamples.sort_unstable_by(f64::total_cmp);
        let (low, high) = (quantile(&resamples, 0.025), quantile(&resamples, 0.975));
        let width = high - low;
        assert!((exact.value - 0.05_f64.exp_m1()).abs() < 1e-12, "{exact:?}");
        assert!((exact.low.ln_1p() - low).abs() < 0.05 * width, "{exact:?} {low}");
        assert!((exact.high.ln_1p() - high).abs() < 0.05 * width, "{exact:?} {high}");
    }
}
