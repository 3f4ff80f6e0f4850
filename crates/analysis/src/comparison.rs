//! Whole comparisons: cases are matched, judged and corrected together, then described one by one.
//!
//! Decides which cases are compared and in which order, which figures belong to the estimated
//! change, and the typical change over all cases. Does not know where the runs are from. Start at
//! [`match_cases`], then [`compare_matched`].
//!
//! The change is estimated within blocks, but a median over all runs of a side ignores blocks, so
//! two medians can even contradict the reported change. The figures of a row are therefore derived
//! from the estimate (docs/why/statistics.md, "The figures of a row"): see [`locate`].

use crate::builds::{Unit, independent_values};
use crate::case_row::{CaseRow, MatchedCase, describe};
use crate::correction::{self, FamilyMember};
use crate::disturbed::Exposure;
use crate::grid::{CaseRuns, values_of};
use crate::paired::{Matching, PairedRuns};
use crate::policy::Policy;
use crate::sequential::{Member, SequentialDecision, in_parallel};
use crate::warnings::{self, counted};
use crate::withheld::{Measured, Withheld};
use crate::{CaseComparison, Comparison, Findings, Method, Settings, Side, exact, validity};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_model::{Estimate, Metric, REPETITION, Run};
use speedwell_stats::describe::{mean, median, quantile};
use speedwell_stats::distribution::mean_squares::chi_squared_upper_tail;
use speedwell_stats::distribution::normal;
use std::borrow::Cow;
use std::collections::HashMap;

/// One side of a comparison: a variant's runs by case.
pub(super) struct Source<'a, 's> {
    /// Name in tables.
    pub name: &'a str,
    /// Cases of its session.
    pub cases: &'a [CaseRuns<'s>],
    /// Index of its variant.
    pub variant: usize,
    /// What was measured.
    pub measured: Measured<'a>,
}

/// Findings on one candidate for one metric.
pub(super) struct Compared {
    /// The comparison.
    pub comparison: Comparison,
    /// Number of cases excluded from the overall change.
    pub left_out: usize,
    /// Number of cases whose sides were measured one after the other.
    pub one_after_the_other: usize,
}

impl Compared {
    /// Warnings about the comparison, as whole sentences.
    pub fn warnings(&self) -> Vec<String> {
        let comparison = &self.comparison;
        let (old, new) = (&comparison.baseline, &comparison.candidate);
        let mut warnings = Vec::new();
        if self.one_after_the_other > 0 {
            warnings.push(format!(
                "'{old}' and '{new}' were measured one after the other: a drift of the machine looks \
                 like a change."
            ));
        }
        if comparison.typical().is_some() && self.left_out > 0 {
            let cases = counted(self.left_out, "case", "cases");
            warnings.push(format!(
                "The overall change of '{new}' leaves out {cases} without a bounded interval."
            ));
        }
        warnings
    }
}

/// Two sources with their common cases, for one metric.
pub(super) struct Matched<'r> {
    baseline: String,
    candidate: String,
    metric: Metric,
    policy: Cow<'r, Policy>,
    /// Cases not described yet.
    cases: Vec<MatchedCase>,
    /// Described cases, which come first.
    rows: Vec<CaseRow>,
    only_baseline: Vec<String>,
    only_candidate: Vec<String>,
}

impl Matched<'_> {
    /// Adds the cases of another part of the same sources.
    pub fn extend(&mut self, part: Self) {
        self.cases.extend(part.cases);
        self.rows.extend(part.rows);
        self.only_baseline.extend(part.only_baseline);
        self.only_candidate.extend(part.only_candidate);
    }

    /// Ids of the cases not described yet, in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.cases.iter().map(|case| case.id.as_str())
    }

    /// Names of baseline and candidate.
    pub fn names(&self) -> [&str; 2] {
        [&self.baseline, &self.candidate]
    }

    /// Name of the metric.
    pub fn metric(&self) -> &str {
        &self.metric.name
    }

    /// Findings of the described cases.
    pub fn described(&mut self) -> impl Iterator<Item = &mut CaseComparison> {
        self.rows.iter_mut().map(|row| &mut row.comparison)
    }
}

/// Describes the cases whose evidence does not depend on other cases, which frees most of their
/// data: all cases, unless a sequential test looked at them repeatedly.
pub(super) fn describe_single_looks(comparisons: &mut [Matched<'_>], settings: &Settings) {
    if comparisons
        .iter()
        .all(|matched| matched.policy.looks.is_none())
    {
        describe_all(comparisons, settings);
    }
}

/// Evaluates all cases that are not described yet, and describes them.
fn describe_all(comparisons: &mut [Matched<'_>], settings: &Settings) {
    let Some(alpha) = comparisons.first().map(|matched| matched.policy.alpha) else {
        return;
    };
    let mut decision = SequentialDecision::new(alpha, settings.correction);
    let mut members = Vec::new();
    for matched in comparisons.iter() {
        members.extend(matched.cases.iter().map(|case| Member {
            place: decision.enrol(),
            pair: &case.pair,
            policy: &matched.policy,
            seed: matched.policy.seed_for(&case.id),
        }));
    }
    decision.advance(&members);
    let mut outcomes = in_parallel(members, |member| decision.outcome(&member)).into_iter();
    for matched in comparisons {
        let cases: Vec<_> = matched.cases.drain(..).zip(outcomes.by_ref()).collect();
        let policy = &*matched.policy;
        let names = [matched.baseline.as_str(), matched.candidate.as_str()];
        matched.rows.extend(in_parallel(cases, |(case, outcome)| {
            describe(case, outcome, policy, names)
        }));
    }
}

/// Judges all comparisons of one report: whatever is shown together is corrected together.
pub(super) fn compare_matched(
    mut comparisons: Vec<Matched<'_>>,
    settings: &Settings,
) -> Vec<Compared> {
    describe_all(&mut comparisons, settings);
    for matched in &mut comparisons {
        let metric = &mut matched.metric;
        metric.better = *settings.better.get(&metric.name).unwrap_or(&metric.better);
    }
    let mut family: Vec<FamilyMember<'_>> = Vec::new();
    for matched in &mut comparisons {
        let (policy, better) = (&*matched.policy, matched.metric.better);
        family.extend(matched.rows.iter_mut().map(|row| FamilyMember {
            row,
            policy,
            better,
        }));
    }
    correction::correct(&mut family, settings.correction);
    let comparisons = comparisons.into_iter();
    comparisons
        .map(|matched| sum_up(matched, settings))
        .collect()
}

/// Adds comparisons and their warnings to `findings`; withdraws verdicts on latencies that must not
/// be ranked.
pub(super) fn conclude(compared: Vec<Compared>, findings: &mut Findings) {
    for found in compared {
        warnings::add(&mut findings.warnings, found.warnings());
        let metric = &found.comparison.metric;
        warnings::add(&mut findings.warnings, warnings::of_direction(metric));
        findings.comparisons.push(found.comparison);
    }
    locate(&mut findings.comparisons);
    validity::refuse(&findings.validity, &mut findings.comparisons);
    exact::mark_disagreement(&mut findings.comparisons);
}

fn sum_up(matched: Matched<'_>, settings: &Settings) -> Compared {
    let (policy, rows) = (matched.policy, matched.rows);
    let judged: Vec<&CaseRow> = rows
        .iter()
        .filter(|row| row.comparison.withheld.is_none())
        .collect();
    Compared {
        left_out: left_out(&judged),
        one_after_the_other: rows.iter().filter(|row| row.one_after_the_other).count(),
        comparison: Comparison {
            baseline: matched.baseline,
            candidate: matched.candidate,
            metric: matched.metric,
            method: policy.method,
            confidence: policy.confidence(),
            delta: policy.delta,
            threshold: (policy.threshold > 0.0).then_some(policy.threshold),
            correction: settings.correction,
            overall: overall(&judged, policy.confidence(), settings.seed),
            is_typical: are_alike(&judged),
            rows: rows.into_iter().map(|row| row.comparison).collect(),
            only_baseline: matched.only_baseline,
            only_candidate: matched.only_candidate,
        },
    }
}

/// Whether a run has a finite value of a metric.
fn has_value(run: &Run, metric: &Metric) -> bool {
    run.value_of(&metric.name).is_some_and(f64::is_finite)
}

/// Whether a run is a repetition within a process.
fn is_repetition(run: &Run) -> bool {
    run.notes.iter().any(|note| note == REPETITION)
}

/// Matches the cases of two sources, to be judged by `rule`; `apart` means that they come from
/// different sessions.
pub(super) fn match_cases<'r>(
    baseline: &Source<'_, '_>,
    candidate: &Source<'_, '_>,
    metric: &Metric,
    policy: &'r Policy,
    apart: bool,
    settings: &Settings,
) -> Matched<'r> {
    let has_values = |runs: &[&Run]| runs.iter().any(|run| has_value(run, metric));
    let mut runs_of: HashMap<&str, (&[&Run], &Exposure)> = HashMap::new();
    for case in candidate.cases {
        let runs = &case.by_variant[candidate.variant];
        if has_values(runs) {
            runs_of.insert(&case.id, (runs, &case.exposures[candidate.variant]));
        }
    }
    let mut matched = Matched {
        baseline: baseline.name.to_owned(),
        candidate: candidate.name.to_owned(),
        metric: metric.clone(),
        policy: policy.of(metric),
        cases: Vec::new(),
        rows: Vec::new(),
        only_baseline: Vec::new(),
        only_candidate: Vec::new(),
    };
    for case in baseline.cases {
        let old = &case.by_variant[baseline.variant][..];
        if !has_values(old) {
            continue;
        }
        let Some((new, exposure)) = runs_of.remove(case.id.as_str()) else {
            matched.only_baseline.push(case.id.clone());
            continue;
        };
        let alone = |variant: usize| values_of(&case.alone[variant], &metric.name);
        let alone = match policy.matching {
            Matching::Pairs if !apart => {
                let (old, new) = (alone(baseline.variant), alone(candidate.variant));
                PairedRuns::new(old, new, policy.matching)
                    .all_runs()
                    .pairs()
            }
            _ => Vec::new(),
        };
        let [units_old, units_new] = if apart {
            // Each session has its own builds, if any.
            [old, new].map(|side| independent_values(side, &metric.name))
        } else {
            policy.unit.values([old, new], &metric.name)
        };
        let measured = [baseline.measured, candidate.measured];
        matched.cases.push(MatchedCase {
            withheld: Withheld::between(measured, &case.case.benchmark, settings),
            case: case.case.clone(),
            id: case.id.clone(),
            sides: (apart || policy.unit != Unit::Run)
                .then(|| [old, new].map(|side| values_of(side, &metric.name))),
            pair: PairedRuns::new(units_old, units_new, policy.matching)
                .repeating([old, new].concat().iter().any(|run| is_repetition(run))),
            alone,
            apart,
            exposures: [&case.exposures[baseline.variant], exposure].map(Exposure::clone),
        });
    }
    let ids = candidate.cases.iter().map(|case| &case.id);
    let left = ids.filter(|id| runs_of.contains_key(id.as_str())).cloned();
    matched.only_candidate = left.collect();
    matched
}

/// Resamples; each end of a 95 % interval then rests on 50 values.
const DRAWS: usize = 2_000;

/// Number of cases up to which the mean is resampled instead of assumed normal.
const FEW: usize = 500;

/// Geometric mean of the ratios, as a change with its interval; `None` for fewer than two cases.
///
/// Cases without a bounded interval are excluded, unless fewer than two have one: then all count
/// and the mean is unbounded. A resampled case brings the noise of its blocks as a normal deviate
/// with the standard error that its interval implies: to first order the same as resampling its
/// blocks, at a thousandth of the cost.
pub(super) fn overall(rows: &[&CaseRow], confidence: f64, seed: u64) -> Option<Estimate> {
    let cases: Vec<(f64, f64)> = rows.iter().filter_map(|row| ratio_and_error(row)).collect();
    if rows.len() > 1 && rows.iter().all(|row| row.comparison.is_exact) {
        let logs: Vec<f64> = rows.iter().filter_map(|row| log_ratio(row)).collect();
        let value = mean(&logs).exp_m1();
        let (low, high) = (value, value);
        return Some(Estimate { value, low, high });
    }
    if cases.len() < 2 {
        return unbounded(rows);
    }
    if cases.len() > FEW {
        return Some(by_normal(&cases, confidence));
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
        // ends are excluded because the quantile is infinite there.
        let noise = normal::quantile(random.random_range(1e-12..1.0));
        (sum + noise * variance.sqrt()) / count
    };
    let mut resamples: Vec<f64> = (0..DRAWS).map(|_| resample()).collect();
    resamples.sort_unstable_by(f64::total_cmp);
    let tail = 0.5 * (1.0 - confidence);
    let logs: Vec<f64> = cases.iter().map(|(log_ratio, _)| *log_ratio).collect();
    Some(Estimate {
        value: mean(&logs).exp_m1(),
        low: quantile(&resamples, tail).exp_m1(),
        high: quantile(&resamples, 1.0 - tail).exp_m1(),
    })
}

/// Interval for many cases, where resampling would give the same: the sum of this many independent
/// draws is normal (central limit theorem), with the variance between cases plus that of their
/// noise.
fn by_normal(cases: &[(f64, f64)], confidence: f64) -> Estimate {
    let count = cases.len() as f64;
    let center = cases.iter().map(|(log_ratio, _)| log_ratio).sum::<f64>() / count;
    let variance = |&(log_ratio, error): &(f64, f64)| (log_ratio - center).powi(2) + error * error;
    let error = cases.iter().map(variance).sum::<f64>().sqrt() / count;
    let reach = normal::quantile(0.5 * (1.0 + confidence)) * error;
    Estimate {
        value: center.exp_m1(),
        low: (center - reach).exp_m1(),
        high: (center + reach).exp_m1(),
    }
}

/// Mean over all cases, without bounds.
fn unbounded(rows: &[&CaseRow]) -> Option<Estimate> {
    let logs: Vec<f64> = rows.iter().filter_map(|row| log_ratio(row)).collect();
    (logs.len() >= 2).then(|| Estimate {
        value: mean(&logs).exp_m1(),
        low: -1.0,
        high: f64::INFINITY,
    })
}

/// Cases below which none is typical.
const FEWEST_TYPICAL: usize = 5;

/// Cases that differ so much are this unlikely where all have the same change.
const UNLIKE: f64 = 0.05;

/// Standard errors below this are the rounding of logarithms: the runs of these cases do not scatter.
const LEAST_ERROR: f64 = 1e-9;

/// Whether there are cases enough, and their changes differ by no more than their own errors explain.
///
/// By Cochran's Q, the weighted sum of squares about the weighted mean, which is chi-squared where all cases have the same
/// change (Biometrics 10, 1954).
fn are_alike(rows: &[&CaseRow]) -> bool {
    let error = |row: &CaseRow| {
        if row.comparison.is_exact {
            return Some(LEAST_ERROR);
        }
        row.precision.map(|known| known.error.max(LEAST_ERROR))
    };
    let cases = rows
        .iter()
        .filter_map(|row| Some((log_ratio(row)?, error(row)?.powi(-2))));
    let cases: Vec<(f64, f64)> = cases.collect();
    if cases.len() < FEWEST_TYPICAL {
        return false;
    }
    let weights: f64 = cases.iter().map(|(_, weight)| weight).sum();
    let weighted = cases.iter().map(|(log_ratio, weight)| weight * log_ratio);
    let center = weighted.sum::<f64>() / weights;
    let q = cases
        .iter()
        .map(|(log_ratio, weight)| weight * (log_ratio - center).powi(2))
        .sum();
    chi_squared_upper_tail(q, cases.len() as u32 - 1) >= UNLIKE
}

/// Number of cases excluded from [`overall`].
pub(super) fn left_out(rows: &[&CaseRow]) -> usize {
    let bounded = rows
        .iter()
        .filter(|row| ratio_and_error(row).is_some())
        .count();
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

/// Key of the rows that share a level: metric, baseline and case.
type Level = (String, String, String);

/// Fills in the location of each side. Candidates with the same baseline share a level, so that the
/// baseline has a single figure per case.
fn locate(comparisons: &mut [Comparison]) {
    let mut levels: HashMap<Level, Vec<[usize; 2]>> = HashMap::new();
    for (of, comparison) in comparisons.iter().enumerate() {
        for (at, row) in comparison.rows.iter().enumerate() {
            let level = levels.entry(level_of(comparison, row)).or_default();
            level.push([of, at]);
        }
    }
    for places in levels.into_values() {
        // One level at a time: all together would hold every run of the session again.
        let pooled = pooled(comparisons, &places);
        for [of, at] in places {
            let centre = centre(comparisons[of].method);
            let row = &mut comparisons[of].rows[at];
            let own = |side: &Side| centre(&values(side).collect::<Vec<f64>>());
            row.baseline.location = if pooled.is_empty() {
                own(&row.baseline)
            } else {
                centre(&pooled)
            };
            row.candidate.location = match ratio(row) {
                Some(ratio) => row.baseline.location * ratio,
                None => own(&row.candidate),
            };
        }
    }
}

/// Runs of a level's baseline, plus those of all candidates divided by their ratios; empty without
/// ratios.
fn pooled(comparisons: &[Comparison], places: &[[usize; 2]]) -> Vec<f64> {
    let mut pooled = Vec::new();
    for &[of, at] in places {
        let row = &comparisons[of].rows[at];
        let Some(ratio) = ratio(row) else { continue };
        if pooled.is_empty() {
            pooled.extend(values(&row.baseline));
        }
        pooled.extend(values(&row.candidate).map(|value| value / ratio));
    }
    pooled
}

/// Average that matches the estimate: means for a ratio of means, else medians.
fn centre(method: Method) -> fn(&[f64]) -> f64 {
    match method {
        Method::Rank | Method::SignedRank | Method::MannWhitney => median,
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

/// Estimated ratio, if the candidate's runs can be divided by it.
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
    use crate::Settings;
    use speedwell_fixtures::Story;

    #[test]
    fn many_cases_give_what_resampling_would() {
        // Evenly spaced ratios from -10 % to +20 % in logarithms, with an error of 1 % each.
        let cases: Vec<(f64, f64)> = (0..501)
            .map(|at| (-0.1 + 0.3 * f64::from(at) / 500.0, 0.01))
            .collect();
        let exact = by_normal(&cases, 0.95);
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
        assert!(
            (exact.low.ln_1p() - low).abs() < 0.05 * width,
            "{exact:?} {low}"
        );
        assert!(
            (exact.high.ln_1p() - high).abs() < 0.05 * width,
            "{exact:?} {high}"
        );
    }

    /// A machine that becomes twice as fast halfway, and a candidate that is 12 % slower in every
    /// block.
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
            let found = crate::analyse(&drifting(&["old", "new"]), &settings);
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
            let row = crate::analyse(&session, &settings).comparisons[0].rows[0].clone();
            (row.baseline.location, row.candidate.location)
        };
        let (old, new) = of_baseline("old");
        let (new_too, old_too) = of_baseline("new");
        assert!((old / old_too - 1.0).abs() < 1e-9 && (new / new_too - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_baseline_has_one_figure_beside_all_candidates() {
        let found = crate::analyse(&drifting(&["old", "new", "newest"]), &Settings::default());
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
        let found = crate::analyse(&story.case("g/a", value).session(), &Settings::default());
        let row = &found.comparisons[0].rows[0];
        assert_eq!(row.change, None);
        assert_eq!((row.baseline.location, row.candidate.location), (0.0, 3.5));
    }
}
