//! Compares sources with each other. A source is a session, one of its variants, or some of its
//! cases.
//!
//! Decides what the runs of two sources have in common. Different sessions share nothing, so
//! comparing them gives only a hint. Two variants of one session share its blocks. If the sources
//! are two sets of cases from one session, their runs took turns in its blocks. Other modules
//! decide the verdicts. Start at [`compare_sources`].

use crate::comparison::{add_counts, add_to_findings, compare_matched, match_cases};
use crate::grid::{RunGrid, SourceSide};
use crate::points::{environment_facts, fact_differences};
use crate::policy::JudgingPolicy;
use crate::session::{SessionTally, report_unknown_metrics, requested_metrics};
use crate::{AnalysisFindings, AnalysisSettings, validity, warnings};
use speedwell_model::{Environment, MeasuredProgram, Metric, Sample, Session, SessionState};
use std::collections::HashSet;

/// Compares the first source with each of the others. A source consists of a label, a session and
/// the variant to compare. Without a variant, the session's baseline is compared. The baseline
/// named in the settings is ignored.
///
/// Sessions are identified by their ids, because a source may contain only some runs of its
/// session. Two variants of one session are compared according to that session's design.
pub fn compare_sources(
    sources: &[(String, &Session, Option<String>)],
    settings: &AnalysisSettings,
) -> AnalysisFindings {
    let mut findings = compare_requested(sources, settings);
    if let [(_, session, _), ..] = sources {
        add_counts(&mut findings, session, settings, |settings| {
            compare_requested(sources, settings)
        });
    }
    findings
}

/// Compares the sources by the requested metrics.
fn compare_requested(
    sources: &[(String, &Session, Option<String>)],
    settings: &AnalysisSettings,
) -> AnalysisFindings {
    let mut findings = AnalysisFindings::default();
    let grids: Vec<RunGrid<'_>> =
        sources.iter().map(|(_, session, _)| RunGrid::new(session)).collect();
    let mut selected: Vec<SourceSide<'_, '_>> = Vec::new();
    for ((name, session, variant), grid) in sources.iter().zip(&grids) {
        if !selected.iter().any(|other| other.session.id == session.id) {
            findings.failures.extend(session.failures.iter().cloned());
            let tally = SessionTally::from_session(session);
            (findings.warnings).extend(tally.warnings(session, Some(name)));
            (findings.gate_obstacles).extend(tally.gate_obstacle(session, Some(name)));
        }
        let side = SourceSide { name, session, grid, variant: 0 };
        selected.extend(select_variant(side, variant.as_deref(), &mut findings));
    }
    let Some((baseline, candidates)) = selected.split_first() else { return findings };
    findings.warnings.extend(environment_warnings(&selected));
    findings.validity = validity::check_sides(&selected);
    for candidate in candidates {
        if same_results(baseline, candidate) {
            let message =
                format!("'{}' and '{}' contain the same results", baseline.name, candidate.name);
            findings.warnings.push(format!("{message}."));
            findings.gate_obstacles.push(message);
        }
    }
    findings.is_cross_session = candidates
        .iter()
        .any(|candidate| relate_sources(baseline, candidate) == SourceRelation::Apart);
    let policies: Vec<JudgingPolicy> = candidates
        .iter()
        .map(|candidate| source_policy(baseline, candidate, settings, &mut findings.warnings))
        .collect();
    let mut matched = Vec::new();
    let (metrics, unknown) = requested_metrics(baseline.session, settings);
    report_unknown_metrics(baseline.session, &unknown, &mut findings);
    for metric in metrics {
        for (candidate, policy) in candidates.iter().zip(&policies) {
            let warning = check_metric(metric, candidate.session, candidate.name);
            if let Some(warning) = &warning {
                let obstacle = warning.trim_end_matches('.').to_owned();
                warnings::add_distinct(&mut findings.gate_obstacles, [obstacle]);
            }
            warnings::add_distinct(&mut findings.warnings, warning);
            let are_apart = relate_sources(baseline, candidate) == SourceRelation::Apart;
            matched.push(match_cases(baseline, candidate, metric, policy, are_apart, settings));
        }
    }
    add_to_findings(compare_matched(matched, settings), &mut findings);
    findings
}

/// Selects the `requested` variant of the side, or else its session's baseline.
fn select_variant<'a, 's>(
    side: SourceSide<'a, 's>,
    requested: Option<&str>,
    findings: &mut AnalysisFindings,
) -> Option<SourceSide<'a, 's>> {
    let SourceSide { name: label, session, grid, .. } = side;
    let variant_name = requested.unwrap_or(&session.design.baseline);
    let index = grid.variant_index(variant_name);
    let warnings = &mut findings.warnings;
    match index {
        None if grid.variants.is_empty() => {
            warnings.push(format!("'{label}' has no runs."));
            (findings.gate_obstacles).push(format!("'{label}' has no runs"));
            return None;
        }
        None if requested.is_some() || grid.variants.len() > 1 => warnings.push(format!(
            "'{label}' has no variant '{variant_name}'; '{}' is compared instead.",
            grid.variants[0]
        )),
        Some(_) if requested.is_none() && grid.variants.len() > 1 => warnings.push(format!(
            "'{label}' has the variants {}; '{variant_name}' is compared.",
            warnings::quote_list(grid.variants.iter().map(|name| &**name))
        )),
        _ => {}
    }
    let selected_name = &grid.variants[index.unwrap_or(0)];
    if requested.is_none() {
        let others = grid.variants.iter().filter(|name| *name != selected_name);
        findings.excluded.extend(others.map(|other| format!("'{other}' of '{label}' left out")));
    }
    Some(SourceSide { variant: index.unwrap_or(0), ..side })
}

/// Whether both sources hold the same runs, for instance because they are copies of one file. False
/// if all values of a side are equal: both sides may have this value by chance.
fn same_results(one: &SourceSide<'_, '_>, other: &SourceSide<'_, '_>) -> bool {
    let runs = |source: &SourceSide<'_, '_>| -> Vec<(u32, Vec<Sample>)> {
        let runs = source.session.runs.iter();
        let variant_runs = runs.filter(|run| *run.variant == *source.variant_name());
        variant_runs.map(|run| (run.slot, run.samples.clone())).collect()
    };
    let varies = |runs_of_side: &[(u32, Vec<Sample>)]| {
        let mut samples = runs_of_side.iter().flat_map(|(_, samples)| samples);
        let first = samples.next();
        first.is_some_and(|first| samples.any(|sample| sample.value != first.value))
    };
    let is_same_variant =
        one.session.id == other.session.id && one.variant_name() == other.variant_name();
    let is_copy = one.session.id == other.session.id || one.session.state == SessionState::Imported;
    let (a, b) = (runs(one), runs(other));
    is_copy && (is_same_variant || one.session.id != other.session.id) && varies(&a) && a == b
}

/// How the runs of two sources are related.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SourceRelation {
    /// Runs from different sessions.
    Apart,
    /// Two variants of the same cases of one session.
    Variants,
    /// Different cases of one session. The `::REGEX` of each source renamed them so that they
    /// match.
    Turns,
}

fn relate_sources(baseline: &SourceSide<'_, '_>, candidate: &SourceSide<'_, '_>) -> SourceRelation {
    if baseline.session.id != candidate.session.id {
        return SourceRelation::Apart;
    }
    // After `::REGEX` has filtered a source, its remaining slots show whether both sides hold the
    // same cases.
    let baseline_slots: HashSet<u32> = baseline.session.runs.iter().map(|run| run.slot).collect();
    let mut runs = candidate.session.runs.iter();
    let holds_all = runs
        .all(|run| *run.variant != *candidate.variant_name() || baseline_slots.contains(&run.slot));
    if holds_all && baseline.variant_name() != candidate.variant_name() {
        SourceRelation::Variants
    } else {
        SourceRelation::Turns
    }
}

/// Chooses the policy that judges two sources, and adds warnings about it to `warnings`.
fn source_policy(
    baseline: &SourceSide<'_, '_>,
    candidate: &SourceSide<'_, '_>,
    settings: &AnalysisSettings,
    warnings: &mut Vec<String>,
) -> JudgingPolicy {
    let design = &baseline.session.design;
    let policy = match relate_sources(baseline, candidate) {
        SourceRelation::Apart => JudgingPolicy::for_unmatched(settings),
        SourceRelation::Variants => {
            warnings::add_distinct(warnings, warnings::warn_order(design.order));
            warnings::add_distinct(warnings, warnings::warn_plan(design, settings));
            JudgingPolicy::new(design, settings)
        }
        SourceRelation::Turns => {
            let sides = (baseline.name, candidate.name);
            warnings::add_distinct(warnings, warnings::warn_turns(sides, design.order));
            // Cases that took turns ran close in time, but always in the same order, and looks were
            // planned for each of them separately.
            JudgingPolicy { indicative: true, looks: None, ..JudgingPolicy::new(design, settings) }
        }
    };
    warnings::add_distinct(warnings, warnings::warn_method(settings, &policy));
    policy
}

/// Warns if the candidate's session lacks the metric or defines it differently.
fn check_metric(metric: &Metric, session: &Session, label: &str) -> Option<String> {
    let name = &metric.name;
    match session.metric(name) {
        None => Some(format!("'{label}' has no metric '{name}'.")),
        Some(other) if other.unit != metric.unit => Some(format!(
            "'{label}' reports '{name}' in '{}' instead of '{}'.",
            other.unit, metric.unit
        )),
        Some(other) if other.better != metric.better => {
            Some(format!("'{label}' has a different preferred direction for '{name}'."))
        }
        Some(_) => None,
    }
}

/// Compares each source with the first one. Warns if the environment differs, or if the source ran
/// a different build of the same program.
fn environment_warnings(sources: &[SourceSide<'_, '_>]) -> Vec<String> {
    let Some((first, others)) = sources.split_first() else { return Vec::new() };
    let mut warnings = Vec::new();
    for other in others.iter().filter(|other| other.session.id != first.session.id) {
        let (a, b) = (&first.session.environment, &other.session.environment);
        let differences = environment_differences(a, b);
        if !differences.is_empty() {
            warnings.push(format!(
                "'{}' and '{}' were measured under different circumstances: {}.",
                first.name,
                other.name,
                differences.join(", ")
            ));
        }
        warnings.extend(changed_program(first, other));
    }
    warnings
}

fn environment_differences(a: &Environment, b: &Environment) -> Vec<String> {
    let differences = fact_differences(&environment_facts(a), &environment_facts(b)).into_iter();
    differences
        .map(|fact| format!("{} '{}' and '{}'", fact.name, fact.before, fact.after))
        .collect()
}

/// Warns if both sources ran a program from the same path, but different builds of it.
fn changed_program(first: &SourceSide<'_, '_>, other: &SourceSide<'_, '_>) -> Option<String> {
    let (a, b) = (measured_program(first)?, measured_program(other)?);
    let build = |p: &MeasuredProgram| (p.version.clone(), p.size_bytes, p.modified_unix_ms);
    if a.path != b.path || build(a) == build(b) {
        return None;
    }
    let [old, new] = [a, b].map(|p| p.version.as_deref().unwrap_or("unknown version"));
    let path = a.path.display();
    Some(if a.version == b.version {
        format!("'{path}' was a different build of {old} in '{}'.", other.name)
    } else {
        format!("'{path}' was {old} in '{}', {new} in '{}'.", first.name, other.name)
    })
}

fn measured_program<'a>(source: &'a SourceSide<'_, '_>) -> Option<&'a MeasuredProgram> {
    let programs = &source.session.environment.programs;
    programs.iter().find(|program| program.variant == source.variant_name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::TUNED_FACT;

    #[test]
    fn sessions_with_different_tuned_settings_differ() {
        let ours = |knobs: Option<&str>| Environment {
            speedwell: Some("0.1.0".into()),
            facts: knobs.map(|knobs| (TUNED_FACT.into(), knobs.into())).into_iter().collect(),
            ..Environment::default()
        };
        let (tuned, other) = (ours(Some("governor, turbo")), ours(Some("governor")));
        let found = environment_differences(&tuned, &other);
        assert_eq!(found, ["tuned 'governor, turbo' and 'governor'"]);
        assert_eq!(
            environment_differences(&ours(None), &tuned),
            ["tuned 'nothing' and 'governor, turbo'"]
        );
        assert!(environment_differences(&tuned, &tuned).is_empty());
        let foreign = Environment::default();
        assert!(environment_differences(&foreign, &tuned).is_empty(), "its settings are unknown");
    }
}
