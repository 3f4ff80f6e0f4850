//! Analyzes a session: matches the cases of the baseline with every candidate's
//! ([`match_cases`]), describes them one by one ([`describe_case`]), and decides the verdicts of all
//! together ([`correct_family`]). Start at [`analyze_session`].
//!
//! Decides which pairs of variants and which cases are compared, in which order, which figures
//! belong to the estimated change, and which steps need all cases together. A session is read in
//! parts, to keep few runs in memory. Each part holds all runs of its cases. A session in memory is a
//! single part. A change is reported only if its p value survives a correction for all comparisons
//! in the report, across metrics, candidates and cases. Does not compute p values. `case_row.rs`
//! explains the verdicts, `locations.rs` decides the figures of a row, and `session.rs` warns about
//! problems of the whole session.

use crate::builds::{IndependentUnit, independent_values, spreads_of_grid};
use crate::case_row::{
    CaseRow, MatchedCase, additional_runs, are_alike, case_notes, count_unbounded,
    explain_no_verdict, explain_open_verdict, has_shape_changed, note_dependence, overall_change,
};
use crate::evidence::ShiftDirection;
use crate::exact::ExactCounts;
use crate::grid::{DisturbanceExposure, RunGrid, SourceSide, finite_values};
use crate::locations::fill_locations;
use crate::paired::{
    ComparedData, PairedRuns, RunMatching, is_noise_autocorrelated, is_one_after_the_other,
};
use crate::policy::{AchievedPrecision, JudgingPolicy};
use crate::sequential::{
    ReplayMember, SequentialDecision, SequentialOutcome, adjust_function, in_parallel,
};
use crate::session::{
    SessionTally, baseline_index, folded_sides, layout_sentences, note_folded,
    report_unknown_metrics, requested_baseline, requested_metrics, warn_other_baseline,
};
use crate::summary::{finite_or_none, summarize_grid};
use crate::validity::{self, PartChecker};
use crate::warnings::{self, format_count};
use crate::{
    AnalysisFindings, AnalysisSettings, CandidateComparison, CaseComparison, CaseSummary,
    MachineEffect, SideSummary, TestingCorrection, WithheldReason, evidence, exact, machines,
};
use speedwell_model::{
    Case, Metric, MetricDirection, Run, RunOrder, RunValue, Session, SessionState, Verdict,
};
use speedwell_stats::describe::{coefficient_of_variation, mean, median};
use speedwell_stats::effect::cliffs_delta;
use speedwell_stats::sequential::survives_correction;
use std::borrow::Cow;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

/// Analyzes one session.
///
/// Verdicts follow the design that was fixed before measuring, so the analysis of a stored session
/// gives the same answers as the measurement.
pub fn analyze_session(session: &Session, settings: &AnalysisSettings) -> AnalysisFindings {
    let single_part = |add_part: &mut dyn FnMut(&Session)| {
        add_part(session);
        Ok::<(), Infallible>(())
    };
    let Ok(mut findings) = analyze_in_parts(session, settings, single_part);
    add_counts(&mut findings, session, settings, |settings| analyze_session(session, settings));
    findings
}

/// Adds the comparisons by bytes and allocations that never vary from run to run, unless metrics
/// are requested. In pairs, the sides share an allocator, so their counts are left out.
pub(super) fn add_counts(
    findings: &mut AnalysisFindings,
    session: &Session,
    settings: &AnalysisSettings,
    analyze: impl FnOnce(&AnalysisSettings) -> AnalysisFindings,
) {
    let is_count = |metric: &&Metric| metric.name.ends_with("_per_op");
    let counts = session.metrics.iter().skip(1).filter(is_count);
    let metrics: Vec<String> = counts.map(|metric| metric.name.clone()).collect();
    let is_wanted = settings.metrics.is_empty() && !findings.comparisons.is_empty();
    if !is_wanted || metrics.is_empty() || session.design.order == RunOrder::Paired {
        return;
    }
    let mut comparisons = analyze(&AnalysisSettings { metrics, ..settings.clone() }).comparisons;
    let is_exact = |side: &SideSummary| side.runs.iter().all(|run| run.value == side.median);
    comparisons.retain(|comparison| {
        comparison.rows.iter().all(|row| is_exact(&row.baseline) && is_exact(&row.candidate))
    });
    findings.beside = comparisons;
}

/// Like [`analyze_session`], for a session whose runs need not fit in memory. `header` is the
/// session, with or without runs. `parts` calls its argument with one part after the other. A part
/// is the session with all runs of some of its cases. The parts must follow the order in which the
/// cases first appear in the runs of the whole session. `parts` is called once, and a second time
/// if runs seem to be copies of other runs. See [`crate::can_be_divided`].
///
/// # Errors
/// Passes on errors of `parts`.
pub fn analyze_in_parts<E>(
    header: &Session,
    settings: &AnalysisSettings,
    parts: impl Fn(&mut dyn FnMut(&Session)) -> Result<(), E>,
) -> Result<AnalysisFindings, E> {
    let policy = JudgingPolicy::new(&header.design, settings);
    let (metrics, unknown_metrics) = requested_metrics(header, settings);
    let mut collector = SessionCollector {
        session: header,
        settings,
        policy: &policy,
        metrics,
        unknown_metrics,
        variants: Vec::new(),
        tally: SessionTally::default(),
        checked: PartChecker::default(),
        findings: AnalysisFindings::default(),
        folded: Vec::new(),
        matched: Vec::new(),
        effects: Vec::new(),
    };
    parts(&mut |part| collector.add_part(part))?;
    let repeated = collector.checked.repeated_digests();
    if !repeated.is_empty() {
        parts(&mut |part| collector.checked.add_records(part, &repeated))?;
    }
    Ok(collector.into_findings())
}

/// Data kept from the parts of a session.
struct SessionCollector<'a> {
    session: &'a Session,
    settings: &'a AnalysisSettings,
    policy: &'a JudgingPolicy,
    metrics: Vec<&'a Metric>,
    /// Requested metrics that do not exist.
    unknown_metrics: Vec<String>,
    variants: Vec<Arc<str>>,
    tally: SessionTally,
    checked: PartChecker,
    /// Summaries and layout effects.
    findings: AnalysisFindings,
    /// Cases and variants whose code the compiler has probably optimized away.
    folded: Vec<(Arc<Case>, Arc<str>)>,
    /// One entry per metric and candidate.
    matched: Vec<MatchedCases<'a>>,
    /// For each entry in `matched` and each of its cases: the change on each machine.
    effects: Vec<Vec<Vec<MachineEffect>>>,
}

impl<'a> SessionCollector<'a> {
    /// Adds a part.
    fn add_part(&mut self, part: &Session) {
        let grid = RunGrid::new(part);
        let order = self.session.design.order;
        self.tally.add_part(part);
        self.checked.add_part(part);
        let summaries = summarize_grid(&grid, &self.metrics, self.policy.confidence(), order);
        self.findings.layout.extend(spreads_of_grid(&grid, &self.metrics));
        self.folded.extend(folded_sides(part));
        let requested = requested_baseline(self.session, self.settings);
        if let Some(baseline) = baseline_index(requested, &grid.variants) {
            let mut matched = self.match_part(&grid, baseline);
            // With a sequential test, the evidence of one case depends on the others. Otherwise,
            // describing the cases early frees most of their data.
            if matched.iter().all(|matched| matched.policy.looks.is_none()) {
                describe_all(&mut matched, self.settings);
            }
            share_runs(&summaries, &mut matched);
            if self.matched.is_empty() {
                self.matched = matched;
            } else {
                let pairs = self.matched.iter_mut().zip(matched);
                pairs.for_each(|(cases, part)| cases.append_part(part));
            }
        }
        self.findings.summaries.extend(summaries);
        self.variants = grid.variants;
    }

    /// Matches the cases of a part for each metric and candidate, and computes the changes on
    /// single machines.
    fn match_part(&mut self, grid: &RunGrid<'_>, baseline: usize) -> Vec<MatchedCases<'a>> {
        let source = |variant: usize| {
            let name = &grid.variants[variant];
            SourceSide { name, session: self.session, grid, variant }
        };
        let mut matched = Vec::new();
        for metric in &self.metrics {
            for candidate in (0..grid.variants.len()).filter(|&variant| variant != baseline) {
                let [old, new] = [baseline, candidate].map(source);
                let cases = match_cases(&old, &new, metric, self.policy, false, self.settings);
                if !self.session.machines.is_empty() {
                    let ids = cases.cases.iter().map(|case| case.id.as_str());
                    let name = &metric.name;
                    let effects = machines::effects_of_cases([old, new], name, self.policy, ids);
                    if self.effects.len() <= matched.len() {
                        self.effects.push(Vec::new());
                    }
                    self.effects[matched.len()].extend(effects);
                }
                matched.push(cases);
            }
        }
        matched
    }

    /// Computes the findings.
    fn into_findings(self) -> AnalysisFindings {
        let (session, settings) = (self.session, self.settings);
        let mut findings = AnalysisFindings {
            failures: session.failures.clone(),
            warnings: self.tally.warnings(session, None),
            is_about_candidate: session.command.iter().any(|word| is_side_option(word)),
            order: Some(session.design.order),
            was_busy: session.environment.was_busy(),
            ended_after: matches!(session.state, SessionState::Interrupted | SessionState::Running)
                .then_some(self.tally.runs),
            is_too_busy: self.tally.warn_too_busy(session).is_some(),
            validity: self.checked.into_findings(),
            gate_obstacles: self.tally.gate_obstacle(session, None).into_iter().collect(),
            program_names: session.program_names(),
            ..self.findings
        };
        report_unknown_metrics(session, &self.unknown_metrics, &mut findings);
        for summary in &mut findings.summaries {
            (summary.notes).retain(|note| !self.tally.shared_by_all(session).contains(note));
        }
        let sentences = layout_sentences(&findings.layout);
        let layout_sentence = |case: &Case, metric: &Metric| {
            let id = case.id();
            sentences.get(&(&*id, &*metric.name)).cloned()
        };
        if self.variants.len() == 1 {
            for summary in &mut findings.summaries {
                let sentence = layout_sentence(&summary.case, &summary.metric);
                summary.notes.extend(sentence);
            }
        }
        let warnings = &mut findings.warnings;
        let requested = requested_baseline(session, settings);
        warnings.extend(warn_other_baseline(requested, &self.variants));
        if self.variants.len() > 1 {
            warnings::add_distinct(warnings, warnings::warn_order(session.design.order));
            warnings::add_distinct(warnings, warnings::warn_method(settings, self.policy));
            warnings::add_distinct(warnings, warnings::warn_plan(&session.design, settings));
        }
        let mut compared = compare_matched(self.matched, settings);
        for (comparison, _) in &mut compared {
            note_folded(&self.folded, comparison);
            let CandidateComparison { metric, rows, .. } = comparison;
            for row in rows {
                row.notes.extend(layout_sentence(&row.case, metric));
            }
        }
        add_to_findings(compared, &mut findings);
        machines::add_machine_results(self.effects, self.policy, &mut findings.comparisons);
        findings
    }
}

/// Whether a word of a command line names a side of a comparison.
fn is_side_option(word: &str) -> bool {
    ["--old", "--new"].contains(&word.split('=').next().unwrap_or_default())
}

/// A case, a variant and a metric.
type SeriesName = (String, String, String);

/// Makes rows and summaries share their runs in memory.
fn share_runs(summaries: &[CaseSummary], matched: &mut [MatchedCases<'_>]) {
    let named = summaries.iter().map(|summary| {
        let name = (summary.case.id(), summary.variant.to_string(), summary.metric.name.clone());
        (name, summary.runs.clone())
    });
    let runs_by_name: HashMap<SeriesName, Arc<[RunValue]>> = named.collect();
    for matched in matched {
        let names = [matched.baseline.clone(), matched.candidate.clone()];
        let metric = matched.metric.name.clone();
        for row in matched.rows.iter_mut().map(|row| &mut row.comparison) {
            let sides = [&mut row.baseline, &mut row.candidate];
            for (side, name) in sides.into_iter().zip(&names) {
                let name = (row.case.id(), name.clone(), metric.clone());
                if let Some(runs) = runs_by_name.get(&name).filter(|runs| **runs == side.runs) {
                    side.runs = runs.clone();
                }
            }
        }
    }
}

/// Findings on one candidate for one metric, and warnings about them as whole sentences.
type JudgedComparison = (CandidateComparison, Vec<String>);

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
    fn append_part(&mut self, part: Self) {
        self.cases.extend(part.cases);
        self.rows.extend(part.rows);
        self.only_baseline.extend(part.only_baseline);
        self.only_candidate.extend(part.only_candidate);
    }
}

/// Evaluates all cases that are not described yet, and describes them.
fn describe_all(comparisons: &mut [MatchedCases<'_>], settings: &AnalysisSettings) {
    let Some(alpha) = comparisons.first().map(|matched| matched.policy.alpha) else { return };
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
    for (comparison, warnings) in compared {
        warnings::add_distinct(&mut findings.warnings, warnings);
        let direction = warnings::warn_direction(&comparison.metric);
        warnings::add_distinct(&mut findings.warnings, direction);
        findings.comparisons.push(comparison);
    }
    fill_locations(&mut findings.comparisons);
    validity::withdraw_latency_verdicts(&findings.validity, &mut findings.comparisons);
    exact::note_time_disagreement(&mut findings.comparisons);
}

fn finish_comparison(matched: MatchedCases<'_>, settings: &AnalysisSettings) -> JudgedComparison {
    let (policy, rows) = (matched.policy, matched.rows);
    let judged: Vec<&CaseRow> = rows
        .iter()
        .filter(|row| row.comparison.withheld.is_none() && !row.has_biased_ratio)
        .collect();
    let mut warnings = Vec::new();
    let (old, new) = (&matched.baseline, &matched.candidate);
    if rows.iter().any(|row| row.one_after_the_other) {
        warnings.push(format!(
            "'{old}' and '{new}' were measured one after the other, so a drift of the machine \
             would look like a change."
        ));
    }
    let overall = overall_change(&judged, policy.confidence(), settings.seed);
    let (is_typical, left_out) = (are_alike(&judged), count_unbounded(&judged));
    if is_typical && overall.is_some() && left_out > 0 {
        let cases = format_count(left_out, "case", "cases");
        warnings.push(format!(
            "The overall change of '{new}' leaves out {cases} without a bounded interval."
        ));
    }
    let comparison = CandidateComparison {
        baseline: matched.baseline,
        candidate: matched.candidate,
        metric: matched.metric,
        method: policy.method,
        confidence: policy.confidence(),
        delta: policy.delta,
        threshold: (policy.threshold > 0.0).then_some(policy.threshold),
        correction: settings.correction,
        overall,
        is_typical,
        rows: rows.into_iter().map(|row| row.comparison).collect(),
        only_baseline: matched.only_baseline,
        only_candidate: matched.only_candidate,
    };
    (comparison, warnings)
}

fn has_values(runs: &[&Run], metric: &Metric) -> bool {
    runs.iter().any(|run| run.value_of(&metric.name).is_some_and(f64::is_finite))
}

/// The runs of one side by case id, for each case that has values of the metric.
fn runs_by_case<'a, 's>(
    side: &SourceSide<'a, 's>,
    metric: &Metric,
) -> HashMap<&'a str, (&'a [&'s Run], &'a DisturbanceExposure)> {
    let cases = side.grid.cases.iter().filter_map(|case| {
        let runs = &case.by_variant[side.variant][..];
        has_values(runs, metric).then(|| (&*case.id, (runs, &case.exposures[side.variant])))
    });
    cases.collect()
}

/// Explains why the processor times of a case's variants, measured in one session, cannot be
/// compared: one of them was blocked for longer.
fn explain_blocked(case: &str, sides: [&SourceSide<'_, '_>; 2], metric: &Metric) -> Option<String> {
    let design = &sides[0].session.design;
    let choice = design.order_choice.as_ref().filter(|_| metric.name == Metric::CPU_TIME)?;
    choice.explain_blocked(case, sides.map(SourceSide::variant_name))
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
    let sides = [baseline, candidate];
    let checkout_files = sides.map(SourceSide::checkout_files_by_benchmark);
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
    for case in &baseline.grid.cases {
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
        let blocked = if apart { None } else { explain_blocked(&case.id, sides, metric) };
        let [units_old, units_new] = if apart {
            // Sessions have no builds in common, so the values of each side are computed
            // separately.
            [old, new].map(|side| independent_values(side, &metric.name))
        } else {
            policy.unit.paired_values([old, new], &metric.name)
        };
        let mut pair = PairedRuns::new(units_old, units_new, policy.matching);
        pair.repeats_process = [old, new].concat().iter().any(|run| run.is_repetition());
        let benchmark = &*case.case.benchmark;
        let checkout_files = checkout_files.each_ref().map(|files| files.get(benchmark));
        matched.cases.push(MatchedCase {
            withheld: WithheldReason::between(sides, checkout_files, benchmark, settings),
            case: case.case.clone(),
            id: case.id.clone(),
            sides: (apart || policy.unit != IndependentUnit::Run)
                .then(|| [old, new].map(|side| finite_values(side, &metric.name))),
            pair,
            alone,
            blocked,
            apart,
            exposures: [&case.exposures[baseline.variant], exposure]
                .map(DisturbanceExposure::clone),
        });
    }
    let ids = candidate.grid.cases.iter().map(|case| &case.id);
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
    let counts = if policy.counts {
        ExactCounts::from_runs(&case.pair.baseline, &case.pair.candidate)
    } else {
        ExactCounts::TooFew
    };
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
    let has_biased_ratio = disturb_each_other || case.blocked.is_some();
    notes.extend(case.blocked);
    let [baseline, candidate] = (case.sides).unwrap_or([case.pair.baseline, case.pair.candidate]);
    let (baseline, candidate) = (row_side(baseline, old), row_side(candidate, new));
    let comparison = CaseComparison {
        case: case.case,
        change: outcome.change.filter(|_| !disturb_each_other),
        mean_change: mean_change.filter(|_| !disturb_each_other),
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
        has_biased_ratio,
        counts,
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
            _ if row.has_biased_ratio || comparison.withheld.is_some() => Verdict::Unclear,
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
            let is_spoiled = row.has_biased_ratio || is_withheld;
            survives && outcome.direction.is_some() && !is_spoiled
        };
        explain_no_verdict(row, policy, correction, tests);
        let (comparison, outcome) = (&mut row.comparison, &row.outcome);
        if !row.has_biased_ratio && !comparison.is_exact && !is_withheld {
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
        if is_open && !row.has_biased_ratio {
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
