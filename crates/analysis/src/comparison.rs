//! Compares whole sources: matches their cases, describes them one by one, and judges them
//! together.
//!
//! Decides which cases are compared, in which order, and which figures belong to the estimated
//! change. Computes the typical change over all cases. Does not know where the runs come from.
//! Start at [`match_cases`], then [`compare_matched`].
//!
//! The change is estimated within blocks. A median over all runs of a side ignores blocks, so two
//! medians can contradict the reported change. The figures of a row are therefore derived from the
//! estimate (docs/why/statistics.md, "The figures of a row"): see [`fill_locations`].

use crate::builds::{IndependentUnit, independent_values};
use crate::case_row::{CaseRow, FamilyMember, MatchedCase, correct_family, describe_case};
use crate::grid::{CaseRuns, DisturbanceExposure, finite_values};
use crate::paired::{PairedRuns, RunMatching};
use crate::policy::JudgingPolicy;
use crate::sequential::{ReplayMember, SequentialDecision, in_parallel};
use crate::warnings::{self, format_count};
use crate::withheld::{MeasuredVariant, WithheldReason};
use crate::{
    AnalysisFindings, AnalysisSettings, CandidateComparison, CaseComparison, SideSummary,
    StatisticalMethod, exact, validity,
};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_model::{IntervalEstimate, Metric, Run};
use speedwell_stats::describe::{mean, median, quantile};
use speedwell_stats::distribution::{chi_squared_upper_tail, normal};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

/// One side of a comparison: a variant's runs by case.
pub(super) struct SourceSide<'a, 's> {
    /// Name in tables.
    pub name: &'a str,
    /// Cases of the side's session.
    pub cases: &'a [CaseRuns<'s>],
    /// Index of the side's variant in each case.
    pub variant: usize,
    /// The measured variant.
    pub measured: MeasuredVariant<'a>,
}

impl<'a> SourceSide<'a, '_> {
    /// Files that runs wrongly loaded from the user's checkout, by benchmark.
    fn checkout_files_by_benchmark(&self) -> HashMap<&'a str, BTreeSet<&'a str>> {
        let mut files: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for case in self.cases {
            for file in case.by_variant[self.variant].iter().flat_map(|run| run.stray_files()) {
                files.entry(&case.case.benchmark).or_default().insert(file);
            }
        }
        files
    }
}

/// Findings on one candidate for one metric.
pub(super) struct JudgedComparison {
    pub comparison: CandidateComparison,
    /// Number of cases excluded from the overall change.
    pub left_out: usize,
    /// Number of cases whose sides were measured one after the other.
    pub one_after_the_other: usize,
}

impl JudgedComparison {
    /// Warnings about the comparison, as whole sentences.
    pub fn warnings(&self) -> Vec<String> {
        let comparison = &self.comparison;
        let (old, new) = (&comparison.baseline, &comparison.candidate);
        let mut warnings = Vec::new();
        if self.one_after_the_other > 0 {
            warnings.push(format!(
                "'{old}' and '{new}' were measured one after the other, so a drift of the machine \
                 would look like a change."
            ));
        }
        if comparison.typical().is_some() && self.left_out > 0 {
            let cases = format_count(self.left_out, "case", "cases");
            warnings.push(format!(
                "The overall change of '{new}' leaves out {cases} without a bounded interval."
            ));
        }
        warnings
    }
}

/// Two sources with their common cases, for one metric.
pub(super) struct MatchedCases<'r> {
    baseline: String,
    candidate: String,
    metric: Metric,
    policy: Cow<'r, JudgingPolicy>,
    /// Cases not described yet.
    cases: Vec<MatchedCase>,
    /// Described cases, which precede the cases in `cases`.
    rows: Vec<CaseRow>,
    only_baseline: Vec<String>,
    only_candidate: Vec<String>,
}

impl MatchedCases<'_> {
    /// Adds the cases of another part of the same sources.
    pub fn append_part(&mut self, part: Self) {
        self.cases.extend(part.cases);
        self.rows.extend(part.rows);
        self.only_baseline.extend(part.only_baseline);
        self.only_candidate.extend(part.only_candidate);
    }

    /// Ids of the cases not described yet, in order.
    pub fn pending_ids(&self) -> impl Iterator<Item = &str> {
        self.cases.iter().map(|case| case.id.as_str())
    }

    /// Names of baseline and candidate.
    pub fn side_names(&self) -> [&str; 2] {
        [&self.baseline, &self.candidate]
    }

    pub fn metric_name(&self) -> &str {
        &self.metric.name
    }

    /// Findings of the described cases.
    pub fn described_rows(&mut self) -> impl Iterator<Item = &mut CaseComparison> {
        self.rows.iter_mut().map(|row| &mut row.comparison)
    }
}

/// Describes all cases early, which frees most of their data. Does nothing if any comparison uses a
/// sequential test, because the evidence of one case then depends on the others.
pub(super) fn describe_single_looks(
    comparisons: &mut [MatchedCases<'_>],
    settings: &AnalysisSettings,
) {
    if comparisons.iter().all(|matched| matched.policy.looks.is_none()) {
        describe_all(comparisons, settings);
    }
}

/// Evaluates all cases that are not described yet, and describes them.
fn describe_all(comparisons: &mut [MatchedCases<'_>], settings: &AnalysisSettings) {
    let Some(alpha) = comparisons.first().map(|matched| matched.policy.alpha) else {
        return;
    };
    let mut decision = SequentialDecision::new(alpha, settings.correction);
    let mut members = Vec::new();
    for matched in comparisons.iter() {
        members.extend(matched.cases.iter().map(|case| ReplayMember {
            index: decision.add_comparison(),
            pair: &case.pair,
            policy: &matched.policy,
            seed: matched.policy.seed_for(&case.id),
        }));
    }
    decision.take_reached_looks(&members);
    let mut outcomes = in_parallel(members, |member| decision.current_outcome(&member)).into_iter();
    for matched in comparisons {
        let cases: Vec<_> = matched.cases.drain(..).zip(outcomes.by_ref()).collect();
        let policy = &*matched.policy;
        let names = [matched.baseline.as_str(), matched.candidate.as_str()];
        matched.rows.extend(in_parallel(cases, |(case, outcome)| {
            describe_case(case, outcome, policy, names)
        }));
    }
}

/// Judges all comparisons of one report together, because the correction for multiple testing
/// covers all of them.
pub(super) fn compare_matched(
    mut comparisons: Vec<MatchedCases<'_>>,
    settings: &AnalysisSettings,
) -> Vec<JudgedComparison> {
    describe_all(&mut comparisons, settings);
    for matched in &mut comparisons {
        let metric = &mut matched.metric;
        metric.better = *settings.better.get(&metric.name).unwrap_or(&metric.better);
    }
    let mut family: Vec<FamilyMember<'_>> = Vec::new();
    for matched in &mut comparisons {
        let (policy, better) = (&*matched.policy, matched.metric.better);
        family.extend(matched.rows.iter_mut().map(|row| FamilyMember { row, policy, better }));
    }
    correct_family(&mut family, settings.correction);
    comparisons.into_iter().map(|matched| finish_comparison(matched, settings)).collect()
}

/// Adds comparisons and their warnings to `findings`. Then fills in the location of each side,
/// withdraws verdicts on latencies that must not be ranked, and notes where the verdicts on
/// instructions and time disagree.
pub(super) fn add_to_findings(compared: Vec<JudgedComparison>, findings: &mut AnalysisFindings) {
    for judged in compared {
        warnings::add_distinct(&mut findings.warnings, judged.warnings());
        let metric = &judged.comparison.metric;
        warnings::add_distinct(&mut findings.warnings, warnings::warn_direction(metric));
        findings.comparisons.push(judged.comparison);
    }
    fill_locations(&mut findings.comparisons);
    validity::withdraw_latency_verdicts(&findings.validity, &mut findings.comparisons);
    exact::note_time_disagreement(&mut findings.comparisons);
}

fn finish_comparison(matched: MatchedCases<'_>, settings: &AnalysisSettings) -> JudgedComparison {
    let (policy, rows) = (matched.policy, matched.rows);
    let judged: Vec<&CaseRow> =
        rows.iter().filter(|row| row.comparison.withheld.is_none()).collect();
    JudgedComparison {
        left_out: count_unbounded(&judged),
        one_after_the_other: rows.iter().filter(|row| row.one_after_the_other).count(),
        comparison: CandidateComparison {
            baseline: matched.baseline,
            candidate: matched.candidate,
            metric: matched.metric,
            method: policy.method,
            confidence: policy.confidence(),
            delta: policy.delta,
            threshold: (policy.threshold > 0.0).then_some(policy.threshold),
            correction: settings.correction,
            overall: overall_change(&judged, policy.confidence(), settings.seed),
            is_typical: are_alike(&judged),
            rows: rows.into_iter().map(|row| row.comparison).collect(),
            only_baseline: matched.only_baseline,
            only_candidate: matched.only_candidate,
        },
    }
}

fn has_values(runs: &[&Run], metric: &Metric) -> bool {
    runs.iter().any(|run| run.value_of(&metric.name).is_some_and(f64::is_finite))
}

/// The runs of one side by case id, for each case that has values of the metric.
fn runs_by_case<'a, 's>(
    side: &SourceSide<'a, 's>,
    metric: &Metric,
) -> HashMap<&'a str, (&'a [&'s Run], &'a DisturbanceExposure)> {
    let cases = side.cases.iter().filter_map(|case| {
        let runs = &case.by_variant[side.variant][..];
        has_values(runs, metric).then(|| (&*case.id, (runs, &case.exposures[side.variant])))
    });
    cases.collect()
}

/// Matches the cases of two sources, to be judged by `policy`; `apart` means that they come from
/// different sessions.
pub(super) fn match_cases<'r>(
    baseline: &SourceSide<'_, '_>,
    candidate: &SourceSide<'_, '_>,
    metric: &Metric,
    policy: &'r JudgingPolicy,
    apart: bool,
    settings: &AnalysisSettings,
) -> MatchedCases<'r> {
    let mut runs_of = runs_by_case(candidate, metric);
    let checkout_files = [baseline, candidate].map(SourceSide::checkout_files_by_benchmark);
    let mut matched = MatchedCases {
        baseline: baseline.name.to_owned(),
        candidate: candidate.name.to_owned(),
        metric: metric.clone(),
        policy: policy.for_metric(metric),
        cases: Vec::new(),
        rows: Vec::new(),
        only_baseline: Vec::new(),
        only_candidate: Vec::new(),
    };
    for case in baseline.cases {
        let old = &case.by_variant[baseline.variant][..];
        if !has_values(old, metric) {
            continue;
        }
        let Some((new, exposure)) = runs_of.remove(case.id.as_str()) else {
            matched.only_baseline.push(case.id.clone());
            continue;
        };
        let alone = |variant: usize| finite_values(&case.alone[variant], &metric.name);
        let alone = match policy.matching {
            RunMatching::Pairs if !apart => {
                let (old, new) = (alone(baseline.variant), alone(candidate.variant));
                let pairs = PairedRuns::new(old, new, policy.matching);
                pairs.all_runs().to_pairs()
            }
            _ => Vec::new(),
        };
        let [units_old, units_new] = if apart {
            // Sessions have no builds in common, so the values of each side are computed
            // separately.
            [old, new].map(|side| independent_values(side, &metric.name))
        } else {
            policy.unit.paired_values([old, new], &metric.name)
        };
        let measured = [baseline.measured, candidate.measured];
        let benchmark = &*case.case.benchmark;
        let checkout_files = checkout_files.each_ref().map(|files| files.get(benchmark));
        matched.cases.push(MatchedCase {
            withheld: WithheldReason::between(measured, checkout_files, benchmark, settings),
            case: case.case.clone(),
            id: case.id.clone(),
            sides: (apart || policy.unit != IndependentUnit::Run)
                .then(|| [old, new].map(|side| finite_values(side, &metric.name))),
            pair: PairedRuns::new(units_old, units_new, policy.matching)
                .with_repetitions([old, new].concat().iter().any(|run| run.is_repetition())),
            alone,
            apart,
            exposures: [&case.exposures[baseline.variant], exposure]
                .map(DisturbanceExposure::clone),
        });
    }
    let ids = candidate.cases.iter().map(|case| &case.id);
    let unmatched = ids.filter(|id| runs_of.contains_key(id.as_str())).cloned();
    matched.only_candidate = unmatched.collect();
    matched
}

/// Number of resamples. With this number, 50 resampled values lie beyond each end of a 95 %
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
        let value = mean(&logs).exp_m1();
        return Some(IntervalEstimate { value, low: value, high: value });
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
    let mut resamples: Vec<f64> = (0..DRAWS).map(|_| resample()).collect();
    resamples.sort_unstable_by(f64::total_cmp);
    let tail = 0.5 * (1.0 - confidence);
    let logs: Vec<f64> = cases.iter().map(|(log_ratio, _)| *log_ratio).collect();
    Some(IntervalEstimate {
        value: mean(&logs).exp_m1(),
        low: quantile(&resamples, tail).exp_m1(),
        high: quantile(&resamples, 1.0 - tail).exp_m1(),
    })
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
fn are_alike(rows: &[&CaseRow]) -> bool {
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

/// Metric, baseline and case. Rows with the same key have the same baseline runs. They form a
/// group, called a level, in which the baseline has the same location in all rows.
type RowLevelKey = (String, String, String);

/// Fills in the location (the mean or median) of each side, level by level ([`RowLevelKey`]). The
/// baseline gets the same location in all rows of a level. If no side of a level varies, every side
/// keeps its exact value: computing it from a ratio would turn 9304 bytes into 9303.999999999998.
fn fill_locations(comparisons: &mut [CandidateComparison]) {
    let mut levels: HashMap<RowLevelKey, Vec<[usize; 2]>> = HashMap::new();
    for (comparison_index, comparison) in comparisons.iter().enumerate() {
        for (row_index, row) in comparison.rows.iter().enumerate() {
            let level = levels.entry(row_level_key(comparison, row)).or_default();
            level.push([comparison_index, row_index]);
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
            let centre = centre(comparisons[comparison].method);
            let row = &mut comparisons[comparison].rows[row];
            let side_centre = |side: &SideSummary| centre(&side_values(side).collect::<Vec<f64>>());
            row.baseline.location =
                if pooled.is_empty() { side_centre(&row.baseline) } else { centre(&pooled) };
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
        let Some(ratio) = estimated_ratio(row) else {
            continue;
        };
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

fn row_level_key(comparison: &CandidateComparison, row: &CaseComparison) -> RowLevelKey {
    (comparison.metric.name.clone(), comparison.baseline.clone(), row.case.id())
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

    #[test]
    fn the_normal_interval_of_many_cases_matches_resampling() {
        // Evenly spaced ratios from -10 % to +20 % in logarithms, with an error of 1 % each.
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

    /// A machine that becomes twice as fast halfway, and a candidate that is 12 % slower in every
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
