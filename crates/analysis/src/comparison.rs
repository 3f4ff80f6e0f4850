//! Compares whole sources: matches their cases ([`match_cases`]), describes them one by one
//! ([`describe_case`]), and decides the verdicts of all together ([`correct_family`]).
//!
//! Decides which cases are compared, in which order, and which figures belong to the estimated
//! change. A change is reported only if its p value survives a correction for all comparisons in the
//! report, across metrics, candidates and cases. Does not know where the runs come from, and does
//! not compute p values. `case_row.rs` explains the verdicts.
//!
//! The change is estimated within blocks. A median over all runs of a side ignores blocks, so two
//! medians can contradict the reported change. The figures of a row are therefore derived from the
//! estimate (docs/why/statistics.md, "The figures of a row"): see [`fill_locations`].

use crate::builds::{IndependentUnit, independent_values};
use crate::case_row::{
    CaseRow, MatchedCase, additional_runs, are_alike, case_notes, count_unbounded,
    explain_no_verdict, explain_open_verdict, has_shape_changed, note_dependence, overall_change,
};
use crate::evidence::ShiftDirection;
use crate::exact::ExactCounts;
use crate::grid::{CaseRuns, DisturbanceExposure, finite_values};
use crate::paired::{
    ComparedData, PairedRuns, RunMatching, is_noise_autocorrelated, is_one_after_the_other,
};
use crate::policy::{AchievedPrecision, JudgingPolicy};
use crate::sequential::{
    ReplayMember, SequentialDecision, SequentialOutcome, adjust_function, in_parallel,
};
use crate::summary::finite_or_none;
use crate::warnings::{self, format_count};
use crate::withheld::{MeasuredVariant, WithheldReason};
use crate::{
    AnalysisFindings, AnalysisSettings, CandidateComparison, CaseComparison, SideSummary,
    StatisticalMethod, TestingCorrection, evidence, exact, validity,
};
use speedwell_model::{Metric, MetricDirection, Run, RunValue, Verdict};
use speedwell_stats::describe::{coefficient_of_variation, mean, median};
use speedwell_stats::effect::cliffs_delta;
use speedwell_stats::sequential::survives_correction;
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

const DISTURB_EACH_OTHER: &str = "Paired and single runs disagree: the sides disturb each other's \
    caches. Use --order blocks to measure them separately.";

/// Describes one case, given the `outcome` of its tests. The verdict is added later. `names` holds
/// the names of baseline and candidate.
fn describe_case(
    case: MatchedCase,
    mut outcome: SequentialOutcome,
    policy: &JudgingPolicy,
    names: [&str; 2],
) -> CaseRow {
    let seed = policy.seed_for(&case.id);
    let counts = counts_of(&case.pair, policy);
    if counts.is_exact() {
        (outcome.change, outcome.p, outcome.error) = (counts.exact_change(), None, None);
    }
    let runs = outcome.data.smaller_side_runs();
    let precision = outcome.error.map(|error| AchievedPrecision { runs, error });
    let mean_change = evidence::mean_change(&outcome.data, policy.confidence(), seed);
    // In randomized blocks, one side comes first only by chance. The test accounts for this.
    let one_after_the_other =
        case.apart || (policy.indicative && is_one_after_the_other(&case.pair));
    let mut notes = case_notes(&case.pair, &outcome, policy, counts);
    if is_noise_autocorrelated(&case.pair, case.apart) {
        notes.extend(note_dependence(policy, one_after_the_other));
    }
    let [old, new] = &case.exposures;
    notes.extend(old.explain_unequal(new, names).filter(|_| !case.apart));
    let disturb_each_other = policy.matching == RunMatching::Pairs
        && evidence::sharing_matters(&outcome.data.to_pairs(), &case.alone);
    notes.extend(disturb_each_other.then(|| DISTURB_EACH_OTHER.to_owned()));
    let [baseline, candidate] = (case.sides).unwrap_or([case.pair.baseline, case.pair.candidate]);
    let (baseline, candidate) = (row_side(baseline, old), row_side(candidate, new));
    let comparison = CaseComparison {
        case: case.case,
        change: outcome.change,
        mean_change,
        is_shape_changed: has_shape_changed(outcome.change, mean_change),
        p: outcome.p,
        q: None,
        verdict: Verdict::Unclear,
        withheld: case.withheld,
        no_verdict: None,
        differs: false,
        is_exact: counts.is_exact(),
        is_indicative: policy.indicative,
        decided_at: (outcome.decided_at).map(|units| units * policy.unit.runs_per_unit() as u32),
        detectable: None,
        more_runs: None,
        cliffs_delta: finite_or_none(cliffs_delta(&outcome.data.baseline, &outcome.data.candidate)),
        machines: None,
        notes,
        baseline,
        candidate,
    };
    let sizes = [&outcome.data.baseline, &outcome.data.candidate].map(Vec::len);
    CaseRow {
        comparison,
        smallest_p: policy.smallest_p().for_runs(sizes),
        runs,
        // Drop the data, because there may be thousands of cases.
        outcome: SequentialOutcome { data: ComparedData::default(), ..outcome },
        precision,
        one_after_the_other,
        disturb_each_other,
        counts,
    }
}

/// Compares the values as counts if the metric is a count.
fn counts_of(pair: &PairedRuns, policy: &JudgingPolicy) -> ExactCounts {
    if policy.counts {
        ExactCounts::from_runs(&pair.baseline, &pair.candidate)
    } else {
        ExactCounts::TooFew
    }
}

fn row_side(runs: Vec<RunValue>, exposure: &DisturbanceExposure) -> SideSummary {
    let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
    let typical = median(&values);
    SideSummary {
        location: typical,
        median: typical,
        mean: mean(&values),
        variation: finite_or_none(coefficient_of_variation(&values)),
        exposure: exposure.clone(),
        runs: runs.into(),
    }
}

/// A row, with the policy and the metric's direction that its verdict depends on.
struct FamilyMember<'a> {
    row: &'a mut CaseRow,
    policy: &'a JudgingPolicy,
    better: MetricDirection,
}

/// Fills in the adjusted p values and verdicts of a family of comparisons. For each unclear
/// comparison, also fills in how many more runs it needs.
fn correct_family(family: &mut [FamilyMember<'_>], correction: TestingCorrection) {
    let p: Vec<f64> =
        family.iter().map(|member| member.row.outcome.p.unwrap_or(f64::NAN)).collect();
    let adjusted = adjust_function(correction)(&p);
    let tests = p.iter().filter(|p| !p.is_nan()).count();
    let mut discoveries = 0;
    for (member, &adjusted) in family.iter_mut().zip(&adjusted) {
        let FamilyMember { row, policy, better } = member;
        let outcome = &row.outcome;
        let survives = survives_correction(adjusted, policy.alpha);
        discoveries += usize::from(survives);
        let comparison = &mut row.comparison;
        comparison.q =
            outcome.p.map(|_| adjusted).filter(|_| correction != TestingCorrection::None);
        comparison.verdict = match outcome.direction.filter(|_| survives) {
            _ if row.disturb_each_other || comparison.withheld.is_some() => Verdict::Unclear,
            _ if comparison.is_exact => {
                row.counts.exact_verdict(policy.delta, *better).unwrap_or(Verdict::Unclear)
            }
            Some(direction) => verdict_of_direction(direction, *better),
            None if outcome.is_same => Verdict::Same,
            None => Verdict::Unclear,
        };
        let is_withheld = comparison.withheld.is_some();
        comparison.differs = if comparison.is_exact {
            row.counts.exceeds_delta(policy.delta) && !is_withheld
        } else {
            let is_spoiled = row.disturb_each_other || is_withheld;
            survives && outcome.direction.is_some() && !is_spoiled
        };
        explain_no_verdict(row, policy, correction, tests);
        let (comparison, outcome) = (&mut row.comparison, &row.outcome);
        if !row.disturb_each_other && !comparison.is_exact && !is_withheld {
            comparison.notes.extend(explain_open_verdict(comparison, outcome, policy));
        }
    }
    let share = next_alpha_share(correction, tests, discoveries);
    for FamilyMember { row, policy, .. } in family {
        let level = policy.alpha * share;
        row.comparison.detectable =
            row.precision.map(|precision| precision.detectable_change(level));
        let comparison = &row.comparison;
        let is_open = comparison.verdict == Verdict::Unclear
            && !comparison.differs
            && comparison.withheld.is_none();
        if is_open && !row.disturb_each_other {
            row.comparison.more_runs = additional_runs(row, policy, level);
        }
    }
}

/// Returns the level, as a fraction of the error rate, at which one more change would be
/// significant after the correction.
fn next_alpha_share(correction: TestingCorrection, tests: usize, discoveries: usize) -> f64 {
    let (tests, discoveries) = (tests.max(1), discoveries.min(tests.saturating_sub(1)));
    match correction {
        TestingCorrection::BenjaminiHochberg => (discoveries + 1) as f64 / tests as f64,
        TestingCorrection::Holm => 1.0 / (tests - discoveries) as f64,
        TestingCorrection::None => 1.0,
    }
}

fn verdict_of_direction(direction: ShiftDirection, better: MetricDirection) -> Verdict {
    match (direction, better) {
        (_, MetricDirection::Unknown) => Verdict::Unclear,
        (ShiftDirection::Larger, MetricDirection::Higher)
        | (ShiftDirection::Smaller, MetricDirection::Lower) => Verdict::Better,
        (ShiftDirection::Larger, MetricDirection::Lower)
        | (ShiftDirection::Smaller, MetricDirection::Higher) => Verdict::Worse,
    }
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
