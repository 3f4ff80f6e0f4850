//! Findings of an experiment's groups: the runs and metrics of each group, and the pairs of
//! variants compared in it.

use crate::experiment::served::{Curve, curves};
use crate::grid::distinct;
use crate::{Comparison, Findings, Settings};
use speedwell_model::{Case, Estimate, Metric, Session};
use speedwell_suite::experiment::{Experiment, Group, repetition_of};
use std::collections::HashMap;

/// Findings of one group.
#[derive(Debug, Clone)]
pub struct GroupFound {
    /// Name of the group.
    pub name: String,
    /// Metrics, the headline first.
    pub metrics: Vec<MetricFound>,
    /// Latency by percentage of requests: one curve per case and variant.
    pub curves: Vec<Curve>,
}

/// Findings on one metric.
#[derive(Debug, Clone)]
pub struct MetricFound {
    /// The metric as stored in runs.
    pub metric: Metric,
    /// Summaries of each case and variant, and one comparison per pair, the control last.
    pub findings: Findings,
    /// Change of the control against itself over all cases: the noise floor.
    pub floor: Option<Estimate>,
}

/// Analyzes a group; `None` if it has no runs.
pub(super) fn group_found(
    session: &Session,
    experiment: &Experiment,
    group: &Group,
    settings: &Settings,
) -> Option<GroupFound> {
    let part = part_of(session, experiment, group);
    if part.runs.is_empty() {
        return None;
    }
    let metrics = metrics_of(group, &part).into_iter();
    Some(GroupFound {
        name: group.name.clone(),
        metrics: metrics
            .map(|metric| metric_found(&part, experiment, metric, settings))
            .collect(),
        curves: curves(&part),
    })
}

/// The part of a session that belongs to a group.
fn part_of(session: &Session, experiment: &Experiment, group: &Group) -> Session {
    let belongs = |case: &Case| {
        if group.files.is_empty() {
            group.cases.contains(case)
        } else {
            // Cases of benchmark files are not known in advance; a file belongs to the group that
            // names it.
            experiment.group_of(case).is_none()
        }
    };
    session.part(|run| belongs(&run.case))
}

/// Metrics of a group that its runs report.
fn metrics_of(group: &Group, part: &Session) -> Vec<Metric> {
    let known = group.metrics.iter().filter_map(|metric| {
        let name = group.stored_name(metric);
        let has = part.runs.iter().any(|run| run.value_of(&name).is_some());
        part.metric(&name).filter(|_| has).cloned()
    });
    let mut found: Vec<Metric> = distinct(known);
    if found.is_empty() {
        // Benchmark files declare their own metrics.
        let first = part.runs.first().and_then(|run| run.samples.first());
        found.extend(
            first
                .and_then(|sample| part.metric(&sample.metric))
                .cloned(),
        );
    }
    found
}

/// Pairs of variants to compare, the control last.
pub fn pairs(experiment: &Experiment) -> Vec<(String, String)> {
    let mut pairs = experiment.compare.all_pairs();
    if let Some(name) = &experiment.plan.control {
        pairs.push((name.clone(), repetition_of(name)));
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
    let mut known: HashMap<String, Findings> = HashMap::new();
    let analysed = |baseline: Option<String>| {
        let settings = Settings {
            metrics: vec![metric.name.clone()],
            baseline: baseline.or_else(|| settings.baseline.clone()),
            ..settings.clone()
        };
        crate::analyse(part, &settings)
    };
    let pairs = pairs(experiment);
    if pairs.is_empty() {
        findings = analysed(None);
    }
    for (baseline, candidate) in pairs {
        let of_baseline = known
            .entry(baseline.clone())
            .or_insert_with(|| analysed(Some(baseline)));
        if findings.summaries.is_empty() {
            findings.summaries.clone_from(&of_baseline.summaries);
            findings.warnings.clone_from(&of_baseline.warnings);
        }
        let is_pair = |comparison: &&Comparison| comparison.candidate == candidate;
        let of_pair = of_baseline.comparisons.iter().find(is_pair);
        findings.comparisons.extend(of_pair.cloned());
    }
    let again = experiment.plan.control.as_deref().map(repetition_of);
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

/// Overall change of a comparison, or that of its only case.
fn floor(comparison: &Comparison) -> Option<Estimate> {
    match &comparison.rows[..] {
        [only] => only.change,
        _ => comparison.overall,
    }
}
