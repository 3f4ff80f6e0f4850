//! Analyzes an experiment: the metrics and latency curves of each group, the claims and the gates.
//! Passes facts from the definition file to the validity checks.
//!
//! Decides which variants are compared and which runs belong to which group. Pairs are judged by
//! the ordinary analysis. Start at [`analyze_experiment`].

mod claim;
mod group;
mod latency_curve;

pub use claim::{ClaimAnswer, ClaimComparison, ClaimFound, GateFound};
pub use group::{GroupFindings, MetricFindings, compared_pairs};
pub use latency_curve::{LatencyCurve, PERCENTS, latency_curves};

use crate::gate::{self, FailOn, GateOutcome};
use crate::profile::{CaseProfile, case_profiles};
use crate::tally::SessionTally;
use crate::validity::{self, KnownFacts, ValidityFinding};
use crate::{AnalysisFindings, AnalysisSettings, CandidateComparison, warnings};
use claim::filter_matches;
use group::analyze_group;
use speedwell_config::experiment::{
    BenchmarkGroup, Experiment, GroupKind, ProfileCondition, ProfilePlan, is_repetition,
};
use speedwell_model::assignment::{ServerWork, TargetWork};
use speedwell_model::{Case, Session, StepFailure, Verdict, median};

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
        experiment: &Experiment,
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
    let add = |list: &mut Vec<String>, message: String| {
        if !list.contains(&message) {
            list.push(message);
        }
    };
    for gate in found {
        if gate.is_broken {
            add(&mut outcome.failing, format!("{} broken", describe(gate)));
        } else if !gate.is_kept {
            let message = format!("{} is not decided by the data", describe(gate));
            add(&mut outcome.obstacles, message);
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
    experiment: &Experiment,
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
    findings.validity = check_validity(session, experiment, &findings.groups);
    for metric in findings.groups.iter_mut().flat_map(|group| &mut group.metrics) {
        validity::withdraw_latency_verdicts(&findings.validity, &mut metric.findings.comparisons);
    }
    let confidence = settings.confidence.unwrap_or(AnalysisSettings::DEFAULT_CONFIDENCE);
    findings.claims = claim::check_claims(session, experiment, confidence);
    findings.gates = claim::check_gates(&findings.groups, experiment);
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
    experiment: &Experiment,
    settings: &AnalysisSettings,
) -> Experiment {
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
fn complete_settings(experiment: &Experiment, settings: &AnalysisSettings) -> AnalysisSettings {
    use super::StatisticalMethod;
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

/// Checks the validity of the figures of an experiment and returns the findings, most severe first.
pub fn check_validity(
    session: &Session,
    experiment: &Experiment,
    groups: &[GroupFindings],
) -> Vec<ValidityFinding> {
    let mut facts =
        KnownFacts { control: groups.iter().find_map(control_comparison), ..KnownFacts::default() };
    for (case, service) in service_cases(experiment) {
        let requested = f64::from(service.load.in_flight());
        facts.requested.insert(case.clone(), requested);
        if !service.verify.same_bytes {
            facts.sizes_may_differ.push(case);
        }
    }
    validity::check_session(session, &facts)
}

/// First comparison of a variant with itself.
fn control_comparison(group: &GroupFindings) -> Option<&CandidateComparison> {
    let first = group.metrics.first()?;
    let mut comparisons = first.findings.comparisons.iter();
    comparisons.find(|comparison| is_repetition(&comparison.candidate))
}

/// Cases that send requests to a server, each with the work that the first variant does for this
/// case.
fn service_cases(experiment: &Experiment) -> Vec<(String, ServerWork)> {
    let Some(variant) = experiment.variants.first() else {
        return Vec::new();
    };
    let of_group = |group: &BenchmarkGroup| {
        let services = group.cases.iter().filter_map(|case| {
            let assignment = experiment.assignment(group, case, &variant.name, 0).ok()?;
            match assignment.work {
                TargetWork::Server(service) => Some((case.id(), *service)),
                TargetWork::Command | TargetWork::Load(_) => None,
            }
        });
        services.collect::<Vec<_>>()
    };
    experiment.groups.iter().flat_map(of_group).collect()
}

/// Approximate duration in seconds of a load whose profile is recorded. The number of requests is
/// this duration times the rate of the baseline's timed runs. This gives about two thousand samples
/// per busy processor.
pub const RECORDED_LOAD_SECONDS: f64 = 2.0;

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
    experiment: &Experiment,
    profile: &ProfilePlan,
) -> Vec<WantedProfile> {
    let groups = experiment.groups.iter();
    let cases = groups
        .filter(|group| group.kind != GroupKind::Function)
        .flat_map(|group| group.cases.iter().map(move |case| (group, case)));
    let profiles = cases.flat_map(|(group, case)| {
        let pairs = profile.pairs.iter();
        let selected =
            pairs.filter(move |pair| is_selected(&profile.when, findings, group, case, pair));
        selected.map(move |pair| WantedProfile { case: case.clone(), pair: pair.clone() })
    });
    profiles.collect()
}

fn is_selected(
    condition: &ProfileCondition,
    findings: &ExperimentFindings,
    group: &BenchmarkGroup,
    case: &Case,
    pair: &(String, String),
) -> bool {
    match condition {
        ProfileCondition::Always => true,
        ProfileCondition::Never => false,
        ProfileCondition::Verdict { verdict, equal } => {
            (headline_verdict(findings, group, case, pair) == *verdict) == *equal
        }
        ProfileCondition::Cases(filters) => {
            filters.iter().any(|filter| filter_matches(filter, &group.name, case))
        }
    }
}

/// Verdict on the headline metric; `unclear` if there is no comparison.
fn headline_verdict(
    findings: &ExperimentFindings,
    group: &BenchmarkGroup,
    case: &Case,
    pair: &(String, String),
) -> Verdict {
    let group =
        findings.groups.iter().find(|findings_of_group| findings_of_group.name == group.name);
    let headline = group.and_then(|group| group.metrics.first());
    let comparisons = headline.map(|metric| metric.findings.comparisons.as_slice());
    let comparison = comparisons
        .unwrap_or_default()
        .iter()
        .find(|comparison| comparison.baseline == pair.0 && comparison.candidate == pair.1);
    let rows = comparison.map(|comparison| comparison.rows.as_slice());
    let row = rows.unwrap_or_default().iter().find(|row| *row.case == *case);
    row.map_or(Verdict::Unclear, |row| row.verdict)
}

/// Number of requests in a recorded load of this case. It follows from the timed runs of the
/// baseline, or of all variants if the baseline has none.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::GateAnswer;

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
}
