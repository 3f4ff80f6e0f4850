//! Analyzes an experiment: the metrics and latency curves of each group, the claims and the gates.
//! Passes facts from the definition file to the validity checks.
//!
//! Decides which variants are compared and which runs belong to which group. Pairs are judged by
//! the ordinary analysis. Start at [`analyze_experiment`].
//!
//! Latency curves ([`latency_curves`]) show the time within which each percentage of requests was
//! served. Runs are treated as independent of each other; requests of one run are not. A curve
//! therefore shows the median over its runs, and the band around it spans their minimum and
//! maximum.

mod claim;

pub use claim::{ClaimAnswer, ClaimComparison, ClaimFound};

use crate::gate::{self, FailOn, GateOutcome};
use crate::grid::distinct_items;
use crate::profile::{CaseProfile, case_profiles};
use crate::session::SessionTally;
use crate::validity::{self, KnownFacts, ValidityFinding};
use crate::{AnalysisFindings, AnalysisSettings, CandidateComparison, StatisticalMethod, warnings};
use speedwell_model::experiment::{
    BenchmarkGroup, ExperimentDesign, GroupKind, ProfileCondition, ProfilePlan, is_repetition,
    repetition_of,
};
use speedwell_model::expression::{CaseFilter, ChangeGate};
use speedwell_model::load::latency::percent_rows;
use speedwell_model::load::measurement::LoadRun;
use speedwell_model::{
    Case, IntervalEstimate, Metric, ParameterValue, Run, Session, StepFailure, Verdict, median,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Findings of an experiment.
#[derive(Debug, Clone, Default)]
pub struct ExperimentFindings {
    /// Groups, in file order.
    pub groups: Vec<GroupFindings>,
    /// Claims, in file order.
    pub claims: Vec<ClaimFound>,
    /// Gates.
    pub gates: Vec<GateFound>,
    /// Steps without a usable result.
    pub failures: Vec<StepFailure>,
    /// Findings on whether the figures are plausible.
    pub validity: Vec<ValidityFinding>,
    /// Warnings about all figures together, as whole sentences.
    pub warnings: Vec<String>,
    /// Where cases spent their time, for each profiled pair of variants.
    pub profiles: Vec<CaseProfile>,
}

impl ExperimentFindings {
    /// Evaluates the gates of the definition file, and judges the headline metrics by `fail_on`;
    /// `None` if the file has no gates and `fail_on` is `Never`.
    pub fn judge_gates(
        &self,
        experiment: &ExperimentDesign,
        session: &Session,
        fail_on: FailOn,
    ) -> Option<GateOutcome> {
        let gates = &experiment.compare.gates;
        if gates.is_empty() && fail_on == FailOn::Never {
            return None;
        }
        let headlines = self.groups.iter().filter_map(|group| group.metrics.first());
        let comparisons = headlines.flat_map(|metric| metric.findings.comparisons.iter().cloned());
        let obstacle = SessionTally::from_session(session).gate_obstacle(session, None);
        let findings = AnalysisFindings {
            comparisons: comparisons.collect(),
            failures: self.failures.clone(),
            validity: self.validity.clone(),
            gate_obstacles: obstacle.into_iter().collect(),
            ..AnalysisFindings::default()
        };
        let by_metrics = gate::judge_findings(&findings, fail_on, None);
        let mut outcome = by_metrics.unwrap_or_else(|| GateOutcome {
            obstacles: gate::finding_obstacles(&findings),
            ..GateOutcome::default()
        });
        let texts: Vec<String> = gates.iter().map(|(_, gate)| gate.to_string()).collect();
        add_gates(&self.gates, &texts, &mut outcome);
        Some(outcome)
    }
}

/// Adds the results of the gates in the definition file; `texts` are the source texts of the gates.
fn add_gates(found: &[GateFound], texts: &[String], outcome: &mut GateOutcome) {
    let describe = |gate: &GateFound| format!("'{}' in {}", gate.text, gate.case);
    // A gate is listed once per case, even if it applies to several candidates.
    for gate in found {
        if gate.is_broken {
            let message = format!("{} broken", describe(gate));
            warnings::add_distinct(&mut outcome.failing, [message]);
        } else if !gate.is_kept {
            let message = format!("{} is not decided by the data", describe(gate));
            warnings::add_distinct(&mut outcome.obstacles, [message]);
        }
    }
    let is_measured = |text: &&String| found.iter().any(|gate| gate.text == **text);
    for text in texts.iter().filter(|text| !is_measured(text)) {
        outcome.obstacles.push(format!("nothing was measured for '{text}'"));
    }
    let gates = warnings::format_count(found.len(), "gate in the file", "gates in the file");
    outcome.judged = match outcome.judged.as_str() {
        "" => gates,
        cases if found.is_empty() => cases.to_owned(),
        cases => format!("{cases} and {gates}"),
    };
}

/// Analyzes the session of an experiment.
pub fn analyze_experiment(
    session: &Session,
    experiment: &ExperimentDesign,
    settings: &AnalysisSettings,
) -> ExperimentFindings {
    let experiment = &with_baseline(session, experiment, settings);
    let settings = complete_settings(experiment, settings);
    let mut findings =
        ExperimentFindings { failures: session.failures.clone(), ..ExperimentFindings::default() };
    let groups = experiment.groups.iter();
    findings.groups =
        groups.filter_map(|group| analyze_group(session, experiment, group, &settings)).collect();
    for metric in findings.groups.iter().flat_map(|group| &group.metrics) {
        warnings::add_distinct(&mut findings.warnings, metric.findings.warnings.clone());
    }
    findings.validity =
        validity::check_session(session, &known_facts(experiment, &findings.groups));
    for metric in findings.groups.iter_mut().flat_map(|group| &mut group.metrics) {
        validity::withdraw_latency_verdicts(&findings.validity, &mut metric.findings.comparisons);
    }
    let confidence = settings.confidence.unwrap_or(AnalysisSettings::DEFAULT_CONFIDENCE);
    findings.claims = claim::check_claims(session, experiment, confidence);
    findings.gates = check_gates(&findings.groups, experiment);
    let profiled = match &experiment.profile {
        Some(profile) => profile.pairs.clone(),
        None => experiment.compare.all_pairs(),
    };
    findings.profiles = case_profiles(session, &profiled);
    findings
}

/// Returns the experiment with the requested baseline: the settings' baseline, or else the baseline
/// of the session's design.
fn with_baseline(
    session: &Session,
    experiment: &ExperimentDesign,
    settings: &AnalysisSettings,
) -> ExperimentDesign {
    let requested = (settings.baseline.as_ref()).unwrap_or(&session.design.baseline);
    let variants = &experiment.variants;
    let is_other = *requested != experiment.compare.baseline
        && variants.iter().any(|variant| variant.name == *requested);
    let mut experiment = experiment.clone();
    if is_other {
        experiment.compare = experiment.compare.with_baseline(requested, &experiment.variants);
    }
    experiment
}

/// Completes the analysis settings: a setting that the user did not give is taken from the
/// definition file.
fn complete_settings(
    experiment: &ExperimentDesign,
    settings: &AnalysisSettings,
) -> AnalysisSettings {
    let compare = &experiment.compare;
    let method = compare.method.as_deref().map(|name| match name {
        "welch" => StatisticalMethod::Welch,
        "mann-whitney" => StatisticalMethod::MannWhitney,
        "bootstrap" => StatisticalMethod::Bootstrap,
        _ => StatisticalMethod::Rank,
    });
    AnalysisSettings {
        method: settings.method.or(method),
        confidence: settings.confidence.or(Some(compare.confidence)),
        threshold: settings.threshold.or(compare.threshold),
        ..settings.clone()
    }
}

/// Facts for the checks of validity that only the definition file and the findings contain.
fn known_facts<'a>(experiment: &ExperimentDesign, groups: &'a [GroupFindings]) -> KnownFacts<'a> {
    let headlines = groups.iter().filter_map(|group| group.metrics.first());
    let mut comparisons = headlines.flat_map(|metric| &metric.findings.comparisons);
    // The control compares a variant with itself.
    let control = comparisons.find(|comparison| is_repetition(&comparison.candidate));
    let mut facts = KnownFacts { control, ..KnownFacts::default() };
    let loads =
        experiment.groups.iter().flat_map(|group| group.cases.iter().zip(&group.expected_loads));
    for (case, expected) in loads {
        facts.requested.insert(case.id(), f64::from(expected.in_flight));
        if !expected.same_bytes {
            facts.sizes_may_differ.push(case.id());
        }
    }
    facts
}

/// Approximate duration in seconds of a load whose profile is recorded. The number of requests is
/// this duration times the rate of the baseline's timed runs. This gives about two thousand samples
/// per busy processor.
const RECORDED_LOAD_SECONDS: f64 = 2.0;

/// A case and two variants whose profiles are to be compared.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedProfile {
    /// The case.
    pub case: Case,
    /// Baseline and candidate.
    pub pair: (String, String),
}

/// Cases and pairs of variants that `[profile]` selects once everything is measured, in file order.
/// Cases of benchmark files are never selected.
pub fn wanted_profiles(
    findings: &ExperimentFindings,
    experiment: &ExperimentDesign,
    profile: &ProfilePlan,
) -> Vec<WantedProfile> {
    let groups = experiment.groups.iter();
    let cases = groups
        .filter(|group| group.kind != GroupKind::Function)
        .flat_map(|group| group.cases.iter().map(move |case| (group, case)));
    let profiles = cases.flat_map(|(group, case)| {
        let is_selected = move |pair: &&(String, String)| match &profile.when {
            ProfileCondition::Always => true,
            ProfileCondition::Never => false,
            ProfileCondition::Verdict { verdict, equal } => {
                let found = headline_verdict(findings, &group.name, case, pair);
                (found.unwrap_or(Verdict::Unclear) == *verdict) == *equal
            }
            ProfileCondition::Cases(filters) => {
                filters.iter().any(|filter| filter_matches(filter, &group.name, case))
            }
        };
        let selected = profile.pairs.iter().filter(is_selected);
        selected.map(move |pair| WantedProfile { case: case.clone(), pair: pair.clone() })
    });
    profiles.collect()
}

/// Verdict on the headline metric; `None` if there is no comparison.
fn headline_verdict(
    findings: &ExperimentFindings,
    group: &str,
    case: &Case,
    (baseline, candidate): &(String, String),
) -> Option<Verdict> {
    let group = findings.groups.iter().find(|found| found.name == group)?;
    let mut comparisons = group.metrics.first()?.findings.comparisons.iter();
    let comparison = comparisons.find(|comparison| {
        comparison.baseline == *baseline && comparison.candidate == *candidate
    })?;
    Some(comparison.rows.iter().find(|row| *row.case == *case)?.verdict)
}

/// Number of requests to send while a profile of this case is recorded. It is computed from the
/// timed runs of the baseline, or of all variants if the baseline has none.
pub fn recorded_requests(session: &Session, case: &Case, baseline: &str) -> Option<u64> {
    let rates = |is_selected: &dyn Fn(&str) -> bool| -> Option<f64> {
        let runs = session.runs.iter();
        let selected = runs.filter(|run| *run.case == *case && is_selected(&run.variant));
        let rates = selected.filter_map(|run| {
            run.value_of("throughput").or_else(|| run.value_of("requests_per_second"))
        });
        let mut rates: Vec<f64> = rates.filter(|rate| rate.is_finite()).collect();
        median(&mut rates)
    };
    let rate = rates(&|variant| variant == baseline).or_else(|| rates(&|_| true))?;
    Some((rate * RECORDED_LOAD_SECONDS).ceil() as u64)
}

/// Findings of one group.
#[derive(Debug, Clone)]
pub struct GroupFindings {
    /// Name of the group.
    pub name: String,
    /// Metrics, the headline metric first.
    pub metrics: Vec<MetricFindings>,
    /// Latency by percentile: one curve per case and variant.
    pub curves: Vec<LatencyCurve>,
}

/// Findings on one metric.
#[derive(Debug, Clone)]
pub struct MetricFindings {
    /// The metric as stored in runs.
    pub metric: Metric,
    /// Summaries of each case and variant, and one comparison per pair. The comparison of the
    /// control with itself comes last.
    pub findings: AnalysisFindings,
    /// Change over all cases when the control is compared with itself; smaller changes are noise.
    pub floor: Option<IntervalEstimate>,
}

/// Analyzes a group; `None` if it has no runs.
fn analyze_group(
    session: &Session,
    experiment: &ExperimentDesign,
    group: &BenchmarkGroup,
    settings: &AnalysisSettings,
) -> Option<GroupFindings> {
    let part = session.with_runs(|run| {
        if group.files.is_empty() {
            group.cases.contains(&run.case)
        } else {
            // The cases of benchmark files are not known in advance. Groups of files get the cases
            // that belong to no other group.
            experiment.group_of(&run.case).is_none()
        }
    });
    if part.runs.is_empty() {
        return None;
    }
    let metrics = group_metrics(group, &part).into_iter();
    Some(GroupFindings {
        name: group.name.clone(),
        metrics: metrics
            .map(|metric| analyze_metric(&part, experiment, metric, settings))
            .collect(),
        curves: latency_curves(&part),
    })
}

/// Metrics of a group that its runs report. If the runs report none of them, returns the first
/// metric of the first run.
fn group_metrics(group: &BenchmarkGroup, part: &Session) -> Vec<Metric> {
    let reported = group.metrics.iter().filter_map(|metric| {
        let name = group.stored_name(&metric.name);
        let is_reported = part.runs.iter().any(|run| run.value_of(name).is_some());
        part.metric(name).filter(|_| is_reported).cloned()
    });
    let mut metrics: Vec<Metric> = distinct_items(reported);
    if metrics.is_empty() {
        // Benchmark files declare their own metrics.
        let first = part.runs.first().and_then(|run| run.samples.first());
        metrics.extend(first.and_then(|sample| part.metric(&sample.metric)).cloned());
    }
    metrics
}

fn analyze_metric(
    part: &Session,
    experiment: &ExperimentDesign,
    metric: Metric,
    settings: &AnalysisSettings,
) -> MetricFindings {
    let mut findings = AnalysisFindings::default();
    let mut findings_by_baseline: HashMap<String, AnalysisFindings> = HashMap::new();
    let analysed = |baseline: Option<String>| {
        let settings = AnalysisSettings {
            metrics: vec![metric.name.clone()],
            baseline: baseline.or_else(|| settings.baseline.clone()),
            ..settings.clone()
        };
        crate::analyze_session(part, &settings)
    };
    let mut pairs = experiment.compare.all_pairs();
    let control = experiment.plan.control.as_ref();
    pairs.extend(control.map(|name| (name.clone(), repetition_of(name))));
    if pairs.is_empty() {
        findings = analysed(None);
    }
    for (baseline, candidate) in pairs {
        let baseline_findings = findings_by_baseline
            .entry(baseline.clone())
            .or_insert_with(|| analysed(Some(baseline)));
        if findings.summaries.is_empty() {
            findings.summaries.clone_from(&baseline_findings.summaries);
            findings.warnings.clone_from(&baseline_findings.warnings);
        }
        let is_pair = |comparison: &&CandidateComparison| comparison.candidate == candidate;
        let pair_comparison = baseline_findings.comparisons.iter().find(is_pair);
        findings.comparisons.extend(pair_comparison.cloned());
    }
    let repetition = control.map(|name| repetition_of(name));
    let mut comparisons = findings.comparisons.iter();
    let of_control =
        comparisons.find(|comparison| Some(&comparison.candidate) == repetition.as_ref());
    let floor = of_control.and_then(|comparison| match &comparison.rows[..] {
        [only] => only.change,
        _ => comparison.overall,
    });
    MetricFindings { metric, findings, floor }
}

/// A gate, applied to one change.
#[derive(Debug, Clone)]
pub struct GateFound {
    /// Source text of the gate.
    pub text: String,
    /// Group name.
    pub group: String,
    /// Case id.
    pub case: String,
    /// Name of the candidate.
    pub candidate: String,
    /// Change of the metric, with its interval.
    pub change: Option<IntervalEstimate>,
    /// Whether the whole interval is within the limit.
    pub is_kept: bool,
    /// Whether the whole interval is beyond the limit.
    pub is_broken: bool,
}

/// Checks all changes against all gates.
fn check_gates(groups: &[GroupFindings], experiment: &ExperimentDesign) -> Vec<GateFound> {
    let mut gates = Vec::new();
    for (name, gate) in &experiment.compare.gates {
        let is_gated =
            |group: &&GroupFindings| name.as_ref().is_none_or(|name| *name == group.name);
        let gated = groups.iter().filter(is_gated);
        gates.extend(gated.flat_map(|group| gates_of_group(group, gate, experiment)));
    }
    gates
}

fn gates_of_group(
    group: &GroupFindings,
    gate: &ChangeGate,
    experiment: &ExperimentDesign,
) -> Vec<GateFound> {
    let Some(design) = experiment.find_group(&group.name) else { return Vec::new() };
    let stored = design.stored_name(&gate.metric);
    let metric = group.metrics.iter().filter(|findings| findings.metric.name == stored);
    let comparisons = metric.flat_map(|findings| &findings.findings.comparisons);
    let mut gates = Vec::new();
    for comparison in comparisons.filter(|comparison| !is_repetition(&comparison.candidate)) {
        let rows = comparison.rows.iter();
        for row in rows.filter(|row| filter_matches(&gate.filter, &group.name, &row.case)) {
            let is_in = |change: f64| gate.allows_change(change);
            let ends = row.change.map(|change| (is_in(change.low), is_in(change.high)));
            gates.push(GateFound {
                text: gate.to_string(),
                group: group.name.clone(),
                case: row.case.id(),
                candidate: comparison.candidate.clone(),
                change: row.change,
                is_kept: ends == Some((true, true)),
                is_broken: ends == Some((false, false)),
            });
        }
    }
    gates
}

/// Whether a filter matches this case.
fn filter_matches(filter: &CaseFilter, group: &str, case: &Case) -> bool {
    let has = |(name, value): &(String, String)| {
        case.value(name).is_some_and(|actual| actual.plain() == *value)
    };
    filter.group.as_ref().is_none_or(|name| name == group) && filter.values.iter().all(has)
}

/// Minimum number of points of a curve.
const MIN_CURVE_POINTS: usize = 3;

/// Time in nanoseconds within which each percentage of a run's requests was served; NaN if unknown.
type PercentTimes = [f64; 101];

/// A latency curve. Times are in nanoseconds.
#[derive(Debug, Clone)]
pub struct LatencyCurve {
    /// The case.
    pub case: Arc<Case>,
    /// Name of the variant.
    pub variant: Arc<str>,
    /// Each percentage with its time: the median, minimum and maximum over the runs.
    pub points: Vec<(u32, [f64; 3])>,
    /// Number of requests in flight by Little's law: the median over the runs.
    pub effective_concurrency: Option<f64>,
    /// Requested number of requests in flight.
    pub requested_concurrency: Option<f64>,
    /// Number of runs.
    pub runs: usize,
}

impl LatencyCurve {
    /// Time within which `percent` percent of the requests were served: the median over the runs.
    pub fn median_at(&self, percent: u32) -> Option<f64> {
        let point = self.points.iter().find(|(listed, _)| *listed == percent);
        point.map(|(_, [middle, ..])| *middle)
    }
}

/// Latency curves of a session's loads, in the order in which case and variant first appear.
pub fn latency_curves(session: &Session) -> Vec<LatencyCurve> {
    let runs = session.runs.iter().filter_map(|run| {
        let load = run.load.as_deref().and_then(|text| serde_json::from_str::<LoadRun>(text).ok());
        let times = match &load {
            Some(load) => times_of_histogram(load),
            None => times_of_percentiles(run)?,
        };
        Some((run, requested_concurrency(load.as_ref(), run), times))
    });
    let runs: Vec<(&Run, Option<f64>, PercentTimes)> = runs.collect();
    let series = distinct_items(runs.iter().map(|(run, ..)| (&run.case, &run.variant)));
    let curve = |(case, variant): (&Arc<Case>, &Arc<str>)| {
        let is_of_series = |run: &Run| run.case == *case && run.variant == *variant;
        let of_series: Vec<_> = runs.iter().filter(|(run, ..)| is_of_series(run)).collect();
        let point = |percent: u32| {
            let times = of_series.iter().map(|(.., times)| times[percent as usize]);
            let mut times: Vec<f64> = times.filter(|ns| ns.is_finite()).collect();
            let min = times.iter().copied().fold(f64::INFINITY, f64::min);
            let max = times.iter().copied().fold(0.0, f64::max);
            Some((percent, [median(&mut times)?, min, max]))
        };
        let in_flight = session.runs.iter().filter(|run| is_of_series(run));
        let mut in_flight: Vec<f64> =
            in_flight.filter_map(|run| run.value_of("effective_concurrency")).collect();
        LatencyCurve {
            case: case.clone(),
            variant: variant.clone(),
            points: (0..=100).filter_map(point).collect(),
            effective_concurrency: median(&mut in_flight),
            requested_concurrency: of_series.first().and_then(|(_, requested, _)| *requested),
            runs: of_series.len(),
        }
    };
    series.into_iter().map(curve).collect()
}

/// Times within which each percentage of requests was served, in a load by Speedwell's own
/// generator.
fn times_of_histogram(load: &LoadRun) -> PercentTimes {
    let mut row = [f64::NAN; 101];
    for served in percent_rows(load.measured.totals.latency.service_times()) {
        row[served.percent.min(100) as usize] = served.within.ns as f64;
    }
    row
}

/// Times of the percentiles that another tool printed. `None` if there are too few for a curve.
fn times_of_percentiles(run: &Run) -> Option<PercentTimes> {
    let mut row = [f64::NAN; 101];
    for sample in &run.samples {
        let percent = Metric::latency_percent(&sample.metric);
        if let Some(percent) = percent.filter(|percent| percent.fract() == 0.0) {
            row[percent as usize] = sample.value;
        }
    }
    let finite_count = row.iter().filter(|ns| ns.is_finite()).count();
    (finite_count >= MIN_CURVE_POINTS).then_some(row)
}

/// Requested number of requests in flight. Runs of other tools store it only as a parameter.
fn requested_concurrency(load: Option<&LoadRun>, run: &Run) -> Option<f64> {
    let number = |name: &str| run.case.value(name).and_then(ParameterValue::as_number);
    match load {
        Some(load) => load.requested.concurrency().map(f64::from),
        None => number("concurrency").or_else(|| number("connections")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::GateAnswer;
    use speedwell_fixtures::FakeSession;
    use speedwell_model::Sample;

    const TEXT: &str = "latency_p99 < +10%";

    /// Outcome of gates given as (kept, broken). A gate that is neither kept nor broken is
    /// undecided.
    fn outcome(found: &[(bool, bool)]) -> GateOutcome {
        let gate = |&(is_kept, is_broken): &(bool, bool)| GateFound {
            text: TEXT.to_owned(),
            group: "http".to_owned(),
            case: "http/hello".to_owned(),
            candidate: "new".to_owned(),
            change: None,
            is_kept,
            is_broken,
        };
        let found: Vec<GateFound> = found.iter().map(gate).collect();
        let mut outcome = GateOutcome::default();
        add_gates(&found, &[TEXT.to_owned()], &mut outcome);
        outcome
    }

    #[test]
    fn a_gate_in_the_file_passes_fails_or_is_undecided() {
        let kept = outcome(&[(true, false)]);
        assert_eq!(kept.to_line(), "gate passed: 1 gate in the file");
        let broken = outcome(&[(false, true), (false, false)]);
        assert_eq!(broken.to_answer(), GateAnswer::Failed);
        let open = outcome(&[(true, false), (false, false), (false, false)]);
        assert_eq!(
            open.to_line(),
            "gate cannot judge: 'latency_p99 < +10%' in http/hello is not decided by the data; judged: 3 gates in the file"
        );
        let none = outcome(&[]);
        assert_eq!(none.obstacles, ["nothing was measured for 'latency_p99 < +10%'"]);
    }

    #[test]
    fn percentiles_that_another_tool_printed_make_a_curve() {
        let mut session = FakeSession::with_fixed_blocks(&["old", "new"], 1)
            .add_case("web connections=7", |_, _| 1.0)
            .build();
        for (run, slower) in session.runs.iter_mut().zip([0.0, 1e6, 2e6, 3e6]) {
            let times = [("latency_p50", 5e6), ("latency_p98", 9e6), ("latency_max", 2e7)];
            run.samples.extend(times.map(|(name, ns)| Sample {
                metric: Arc::from(name),
                value: ns + slower,
                elapsed_ns: None,
                iterations: None,
            }));
        }
        let found = latency_curves(&session);
        assert_eq!(found.len(), 2);
        for curve in &found {
            let percents: Vec<u32> = curve.points.iter().map(|(percent, _)| *percent).collect();
            assert_eq!(percents, [50, 98, 100]);
            assert_eq!((curve.runs, curve.requested_concurrency), (2, Some(7.0)));
        }
        for run in &mut session.runs {
            run.samples.retain(|sample| &*sample.metric != "latency_max");
        }
        assert!(latency_curves(&session).is_empty(), "two points are no curve");
    }
}
