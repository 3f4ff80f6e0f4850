//! What an experiment found: every metric of every group, claims, gates, and how long which percentage of the requests
//! took.
//!
//! It decides which variants are set against each other and which runs belong to which group. How a pair is judged
//! is the business of the ordinary analysis. Start at [`of`].

mod circumstances;
mod claim;
mod figure;
mod gate;
mod profiled;
mod served;

pub use claim::{ClaimFound, Holds, Part};
pub use gate::GateFound;
pub use profiled::{SECONDS_OF_REQUESTS, WantedProfile, requests_of, wanted_profiles};
pub use served::{Curve, PERCENTS, curves};

use super::profile::{CaseProfile, case_profiles};
use super::validity::{self, Finding};
use super::{Comparison, Findings, Settings, of as findings_of};
use speedwell_model::{Case, Estimate, Failure, Metric, Session};
use speedwell_stats::interval::mean_t;
use speedwell_suite::experiment::{Experiment, Group, control};

/// Everything that an experiment found.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Its groups, in the order of the file.
    pub groups: Vec<GroupFound>,
    /// Its claims, in the order of the file.
    pub claims: Vec<ClaimFound>,
    /// Its gates.
    pub gates: Vec<GateFound>,
    /// Steps that gave nothing.
    pub failures: Vec<Failure>,
    /// Whether the figures can be what they are said to be.
    pub validity: Vec<Finding>,
    /// Whole sentences about the validity of all figures together.
    pub warnings: Vec<String>,
    /// Where cases spent their time, for the pairs of variants that were recorded.
    pub profiles: Vec<CaseProfile>,
}

/// What a group found.
#[derive(Debug, Clone)]
pub struct GroupFound {
    /// Its name.
    pub name: String,
    /// Its metrics, the headline first.
    pub metrics: Vec<MetricFound>,
    /// How long which percentage of the requests took, a curve for every case and variant.
    pub curves: Vec<Curve>,
}

/// What was found of one metric.
#[derive(Debug, Clone)]
pub struct MetricFound {
    /// The metric as runs keep it.
    pub metric: Metric,
    /// Summaries of every case and variant, and one comparison for each pair, that of the control last.
    pub findings: Findings,
    /// The change between the control and itself over all cases: what no difference looks like here.
    pub floor: Option<Estimate>,
}

/// Everything found in the session of an experiment.
pub fn of(session: &Session, experiment: &Experiment, settings: &Settings) -> Found {
    let experiment = &based(session, experiment, settings);
    let settings = completed(experiment, settings);
    let mut found = Found {
        failures: session.failures.clone(),
        ..Found::default()
    };
    for group in &experiment.groups {
        let part = part_of(session, experiment, group);
        if part.runs.is_empty() {
            continue;
        }
        let mut metrics = Vec::new();
        for metric in metrics_of(group, &part) {
            let of_metric = metric_found(&part, experiment, metric, &settings);
            for warning in &of_metric.findings.warnings {
                if !found.warnings.contains(warning) {
                    found.warnings.push(warning.clone());
                }
            }
            metrics.push(of_metric);
        }
        found.groups.push(GroupFound {
            name: group.name.clone(),
            metrics,
            curves: curves(&part),
        });
    }
    found.validity = circumstances::validity(session, experiment, &found.groups);
    for metric in found.groups.iter_mut().flat_map(|group| &mut group.metrics) {
        validity::refuse(&found.validity, &mut metric.findings.comparisons);
    }
    let confidence = settings.confidence.unwrap_or(Settings::DEFAULT_CONFIDENCE);
    found.claims = claim::judge(session, experiment, confidence);
    found.gates = gate::judge(&found.groups, experiment);
    found.profiles = case_profiles(session, &profiled_pairs(experiment));
    found
}

/// The experiment with the baseline that the user asks for now, or asked for when it was measured.
fn based(session: &Session, experiment: &Experiment, settings: &Settings) -> Experiment {
    let asked = settings.baseline.as_ref();
    let asked = asked.unwrap_or(&session.design.baseline);
    let variants = &experiment.variants;
    let is_other = *asked != experiment.compare.baseline
        && variants.iter().any(|variant| variant.name == *asked);
    let mut experiment = experiment.clone();
    if is_other {
        experiment.compare = experiment.compare.against(asked, &experiment.variants);
    }
    experiment
}

/// What the file says of the analysis, where the user says nothing.
fn completed(experiment: &Experiment, settings: &Settings) -> Settings {
    use super::Method;
    let compare = &experiment.compare;
    let method = compare.method.as_deref().map(|name| match name {
        "welch" => Method::Welch,
        "mann-whitney" => Method::MannWhitney,
        "bootstrap" => Method::Bootstrap,
        _ => Method::Rank,
    });
    Settings {
        method: settings.method.or(method),
        confidence: settings.confidence.or(Some(compare.confidence)),
        threshold: settings.threshold.or(compare.threshold),
        ..settings.clone()
    }
}

/// The part of a session that belongs to a group.
fn part_of(session: &Session, experiment: &Experiment, group: &Group) -> Session {
    let belongs = |case: &Case| {
        if group.files.is_empty() {
            group.cases.contains(case)
        } else {
            // Cases of benchmark files are not known before; a file belongs to the group that names it.
            experiment.group_of(case).is_none()
        }
    };
    session.part(|run| belongs(&run.case))
}

/// The metrics of a group that its runs have.
fn metrics_of(group: &Group, part: &Session) -> Vec<Metric> {
    let names = group.metrics.iter().map(|metric| group.stored_name(metric));
    let mut found: Vec<Metric> = Vec::new();
    for name in names {
        let has = part.runs.iter().any(|run| run.value_of(&name).is_some());
        let known = part.metric(&name).filter(|_| has);
        if let Some(metric) = known.filter(|metric| !found.contains(metric)) {
            found.push(metric.clone());
        }
    }
    if found.is_empty() {
        // Benchmark files say by themselves what they report.
        let first = part.runs.first().and_then(|run| run.samples.first());
        found.extend(
            first
                .and_then(|sample| part.metric(&sample.metric))
                .cloned(),
        );
    }
    found
}

/// Every pair of variants whose profiles are set against each other.
fn profiled_pairs(experiment: &Experiment) -> Vec<(String, String)> {
    match &experiment.profile {
        Some(profile) => profile.pairs.clone(),
        None => experiment.compare.all_pairs(),
    }
}

/// Every pair of variants that is compared, the control last.
pub fn pairs(experiment: &Experiment) -> Vec<(String, String)> {
    let mut pairs = experiment.compare.all_pairs();
    if let Some(name) = &experiment.plan.control {
        pairs.push((name.clone(), control::again(name)));
    }
    pairs
}

fn metric_found(
    part: &Session,
    experiment: &Experiment,
    metric: Metric,
    settings: &Settings,
) -> MetricFound {
    let mut findings = Findings::default();
    let mut known: Vec<(String, Findings)> = Vec::new();
    for (baseline, candidate) in pairs(experiment) {
        if known.iter().all(|(name, _)| *name != baseline) {
            let settings = Settings {
                metrics: vec![metric.name.clone()],
                baseline: Some(baseline.clone()),
                ..settings.clone()
            };
            known.push((baseline.clone(), findings_of(part, &settings)));
        }
        let of_baseline = known.iter().find(|(name, _)| *name == baseline);
        let Some((_, of_baseline)) = of_baseline else {
            continue;
        };
        if findings.summaries.is_empty() {
            findings.summaries.clone_from(&of_baseline.summaries);
            findings.warnings.clone_from(&of_baseline.warnings);
        }
        let is_pair = |comparison: &&Comparison| comparison.candidate == candidate;
        findings
            .comparisons
            .extend(of_baseline.comparisons.iter().find(is_pair).cloned());
    }
    if pairs(experiment).is_empty() {
        let settings = Settings {
            metrics: vec![metric.name.clone()],
            ..settings.clone()
        };
        findings = findings_of(part, &settings);
    }
    let again = experiment.plan.control.as_deref().map(control::again);
    let floor = findings
        .comparisons
        .iter()
        .find(|comparison| Some(&comparison.candidate) == again.as_ref())
        .and_then(floor);
    MetricFound {
        metric,
        findings,
        floor,
    }
}

/// The change of a comparison over all its cases; that of the only one if there is one.
fn floor(comparison: &Comparison) -> Option<Estimate> {
    match &comparison.rows[..] {
        [only] => only.change,
        _ => comparison.overall,
    }
}

/// Student's interval of the mean, as an estimate around it.
fn student(values: &[f64], confidence: f64) -> Option<Estimate> {
    let interval = mean_t(values, confidence)?;
    Some(Estimate {
        value: 0.5 * (interval.low + interval.high),
        low: interval.low,
        high: interval.high,
    })
}
