//! Analyzes the groups of an experiment. Selects the runs and metrics of each group, and the pairs
//! of variants that are compared in the group.

use crate::experiment::latency_curve::{LatencyCurve, latency_curves};
use crate::grid::distinct_items;
use crate::{AnalysisFindings, AnalysisSettings, CandidateComparison};
use speedwell_config::experiment::{BenchmarkGroup, Experiment, repetition_of};
use speedwell_model::{Case, IntervalEstimate, Metric, Session};
use std::collections::HashMap;

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
pub(super) fn analyze_group(
    session: &Session,
    experiment: &Experiment,
    group: &BenchmarkGroup,
    settings: &AnalysisSettings,
) -> Option<GroupFindings> {
    let part = group_session(session, experiment, group);
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

/// The part of a session that belongs to a group.
fn group_session(session: &Session, experiment: &Experiment, group: &BenchmarkGroup) -> Session {
    let belongs = |case: &Case| {
        if group.files.is_empty() {
            group.cases.contains(case)
        } else {
            // The cases of benchmark files are not known in advance. Groups of files get the cases
            // that belong to no other group.
            experiment.group_of(case).is_none()
        }
    };
    session.with_runs(|run| belongs(&run.case))
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

/// Pairs of variants to compare. The pair of the control and its repetition comes last.
pub fn compared_pairs(experiment: &Experiment) -> Vec<(String, String)> {
    let mut pairs = experiment.compare.all_pairs();
    if let Some(name) = &experiment.plan.control {
        pairs.push((name.clone(), repetition_of(name)));
    }
    pairs
}

fn analyze_metric(
    part: &Session,
    experiment: &Experiment,
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
    let pairs = compared_pairs(experiment);
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
    let control_repetition = experiment.plan.control.as_deref().map(repetition_of);
    let floor = findings
        .comparisons
        .iter()
        .find(|comparison| Some(&comparison.candidate) == control_repetition.as_ref())
        .and_then(noise_floor);
    MetricFindings { metric, findings, floor }
}

/// Change of a comparison's only case. If there are several cases, returns the overall change.
fn noise_floor(comparison: &CandidateComparison) -> Option<IntervalEstimate> {
    match &comparison.rows[..] {
        [only] => only.change,
        _ => comparison.overall,
    }
}
