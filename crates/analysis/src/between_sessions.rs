//! Compares sources: sessions, or variants and parts of them.
//!
//! Decides what the runs of two sources share. Different sessions share nothing, so their
//! comparison is only a hint; two variants of one session share its blocks; two parts of one
//! session took turns in them. Does not know how cases are judged. Start at [`compare_sources`].

use crate::circumstances::{self, Difference, facts};
use crate::comparison::{Source, compare_matched, conclude, match_cases};
use crate::grid::Grid;
use crate::policy::Policy;
use crate::session::{metrics, refuse_metrics};
use crate::tally::Tally;
use crate::withheld::Measured;
use crate::{Findings, Settings, validity, warnings};
use speedwell_model::{Environment, Metric, Program, Sample, Session, State};
use std::collections::HashSet;

/// One side of a comparison across sessions.
struct SelectedSource<'a> {
    label: &'a str,
    session: &'a Session,
    grid: Grid<'a>,
    variant: usize,
}

impl SelectedSource<'_> {
    /// Name of the compared variant.
    fn variant(&self) -> &str {
        &self.grid.variants[self.variant]
    }
}

/// Compares the first source with each of the others. A source is a label, a session and, if the
/// session has several, a variant; without one, the session's baseline is used. The baseline named
/// in the settings is ignored.
///
/// Sessions are identified by their ids, because a source may hold only part of its session. Two
/// variants of one session are compared according to that session's design.
pub fn compare_sources(
    sources: &[(String, &Session, Option<String>)],
    settings: &Settings,
) -> Findings {
    let mut findings = Findings::default();
    let mut chosen: Vec<SelectedSource<'_>> = Vec::new();
    for (label, session, variant) in sources {
        if !chosen.iter().any(|known| known.session.id == session.id) {
            findings.failures.extend(session.failures.iter().cloned());
            let tally = Tally::of(session);
            (findings.warnings).extend(tally.warnings(session, Some(label)));
            (findings.gate_obstacles).extend(tally.gate_obstacle(session, Some(label)));
        }
        let taken = choose(label, session, variant.as_deref(), &mut findings);
        chosen.extend(taken);
    }
    let Some((baseline, candidates)) = chosen.split_first() else {
        return findings;
    };
    findings.warnings.extend(of_environments(&chosen));
    let sides: Vec<_> = chosen
        .iter()
        .map(|side| (side.label, side.session, side.variant()))
        .collect();
    findings.validity = validity::of_sides(&sides);
    for candidate in candidates {
        let is_same = same_results(baseline, candidate);
        let words = format!(
            "'{}' and '{}' are the same results",
            baseline.label, candidate.label
        );
        if is_same {
            findings.warnings.push(format!("{words}."));
            findings.gate_obstacles.push(words);
        }
    }
    findings.apart = candidates
        .iter()
        .any(|candidate| relation(baseline, candidate) == Relation::Apart);
    let policies: Vec<Policy> = candidates
        .iter()
        .map(|candidate| policy(baseline, candidate, settings, &mut findings.warnings))
        .collect();
    let mut matched = Vec::new();
    let (looked_at, unknown) = metrics(baseline.session, settings);
    refuse_metrics(baseline.session, &unknown, &mut findings);
    for metric in looked_at {
        for (candidate, policy) in candidates.iter().zip(&policies) {
            let differs = of_metric(metric, candidate.session, candidate.label);
            if let Some(sentence) = &differs {
                let obstacle = sentence.trim_end_matches('.').to_owned();
                warnings::add(&mut findings.gate_obstacles, [obstacle]);
            }
            warnings::add(&mut findings.warnings, differs);
            let (old, new) = (source(baseline), source(candidate));
            let apart = relation(baseline, candidate) == Relation::Apart;
            matched.push(match_cases(&old, &new, metric, policy, apart, settings));
        }
    }
    conclude(compare_matched(matched, settings), &mut findings);
    findings
}

fn choose<'a>(
    label: &'a str,
    session: &'a Session,
    variant: Option<&str>,
    findings: &mut Findings,
) -> Option<SelectedSource<'a>> {
    let grid = Grid::new(session);
    let wanted = variant.unwrap_or(&session.design.baseline);
    let found = grid.variant(wanted);
    let warnings = &mut findings.warnings;
    match found {
        None if grid.variants.is_empty() => {
            warnings.push(format!("'{label}' has no runs."));
            (findings.gate_obstacles).push(format!("'{label}' has no runs"));
            return None;
        }
        None if variant.is_some() || grid.variants.len() > 1 => warnings.push(format!(
            "'{label}' has no variant '{wanted}'; '{}' is compared.",
            grid.variants[0]
        )),
        Some(_) if variant.is_none() && grid.variants.len() > 1 => warnings.push(format!(
            "'{label}' has the variants {}; '{wanted}' is compared.",
            warnings::list(grid.variants.iter().map(|name| &**name))
        )),
        _ => {}
    }
    let taken = &grid.variants[found.unwrap_or(0)];
    if variant.is_none() {
        let others = grid.variants.iter().filter(|name| *name != taken);
        let others: Vec<String> = others
            .map(|other| format!("'{other}' of '{label}' left out"))
            .collect();
        findings.left_out.extend(others);
    }
    Some(SelectedSource {
        label,
        session,
        grid,
        variant: found.unwrap_or(0),
    })
}

/// Whether both sources hold the same runs, as copies of one file do.
fn same_results(one: &SelectedSource<'_>, other: &SelectedSource<'_>) -> bool {
    let runs = |source: &SelectedSource<'_>| -> Vec<(u32, Vec<Sample>)> {
        let variant = source.variant().to_owned();
        let own = source.session.runs.iter();
        let own = own.filter(|run| *run.variant == *variant);
        own.map(|run| (run.slot, run.samples.clone())).collect()
    };
    let varies = |all: &[(u32, Vec<Sample>)]| {
        let mut samples = all.iter().flat_map(|(_, samples)| samples);
        let first = samples.next();
        first.is_some_and(|first| samples.any(|sample| sample.value != first.value))
    };
    let is_own = one.session.id == other.session.id && one.variant() == other.variant();
    let is_copy = one.session.id == other.session.id || one.session.state == State::Imported;
    let (a, b) = (runs(one), runs(other));
    is_copy && (is_own || one.session.id != other.session.id) && varies(&a) && a == b
}

/// What the runs of two sources have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// Runs from different sessions.
    Apart,
    /// Two variants of the same cases of one session.
    Variants,
    /// Different cases of one session under the same name.
    Turns,
}

fn relation(baseline: &SelectedSource<'_>, candidate: &SelectedSource<'_>) -> Relation {
    if baseline.session.id != candidate.session.id {
        return Relation::Apart;
    }
    // After `::REGEX` has filtered a source, its remaining slots show whether both sides hold the
    // same cases.
    let held: HashSet<u32> = baseline.session.runs.iter().map(|run| run.slot).collect();
    let mut runs = candidate.session.runs.iter();
    let holds_all =
        runs.all(|run| *run.variant != *candidate.variant() || held.contains(&run.slot));
    if holds_all && baseline.variant() != candidate.variant() {
        Relation::Variants
    } else {
        Relation::Turns
    }
}

/// Policy for two sources, with warnings about it.
fn policy(
    baseline: &SelectedSource<'_>,
    candidate: &SelectedSource<'_>,
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Policy {
    let design = &baseline.session.design;
    let policy = match relation(baseline, candidate) {
        Relation::Apart => Policy::unmatched(settings),
        Relation::Variants => {
            warnings::add(warnings, warnings::of_order(design.order));
            warnings::add(warnings, warnings::of_plan(design, settings));
            Policy::new(design, settings)
        }
        Relation::Turns => {
            let sides = (baseline.label, candidate.label);
            warnings::add(warnings, warnings::of_turns(sides, design.order));
            Policy::in_turns(design, settings)
        }
    };
    warnings::add(warnings, warnings::of_method(settings, &policy));
    policy
}

fn source<'a, 's>(chosen: &'a SelectedSource<'s>) -> Source<'a, 's> {
    Source {
        name: chosen.label,
        cases: &chosen.grid.cases,
        variant: chosen.variant,
        measured: Measured {
            session: chosen.session,
            variant: chosen.variant(),
        },
    }
}

/// Warns if another session lacks the metric or defines it differently.
fn of_metric(metric: &Metric, session: &Session, label: &str) -> Option<String> {
    let name = &metric.name;
    match session.metric(name) {
        None => Some(format!("'{label}' has no metric '{name}'.")),
        Some(other) if other.unit != metric.unit => Some(format!(
            "'{label}' gives '{name}' in '{}' instead of '{}'.",
            other.unit, metric.unit
        )),
        Some(other) if other.better != metric.better => Some(format!(
            "'{label}' takes the other direction of '{name}' for the better one."
        )),
        Some(_) => None,
    }
}

/// Differences between the environments of the first source and the others.
fn of_environments(sources: &[SelectedSource<'_>]) -> Vec<String> {
    let Some((first, others)) = sources.split_first() else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    for other in others
        .iter()
        .filter(|other| other.session.id != first.session.id)
    {
        let (a, b) = (&first.session.environment, &other.session.environment);
        let differences = differences(a, b);
        if !differences.is_empty() {
            warnings.push(format!(
                "'{}' and '{}' were measured under different circumstances: {}.",
                first.label,
                other.label,
                differences.join(", ")
            ));
        }
        warnings.extend(changed_program(first, other));
    }
    warnings
}

fn differences(a: &Environment, b: &Environment) -> Vec<String> {
    circumstances::differences(&facts(a), &facts(b))
        .into_iter()
        .map(|difference| {
            let Difference {
                name,
                before,
                after,
            } = difference;
            format!("{name} '{before}' and '{after}'")
        })
        .collect()
}

/// The same path may hold another build by now.
fn changed_program(first: &SelectedSource<'_>, other: &SelectedSource<'_>) -> Option<String> {
    let (a, b) = (program(first)?, program(other)?);
    let build = |p: &Program| (p.version.clone(), p.size_bytes, p.modified_unix_ms);
    if a.path != b.path || build(a) == build(b) {
        return None;
    }
    let [old, new] = [a, b].map(|p| p.version.as_deref().unwrap_or("unknown version"));
    let path = a.path.display();
    Some(if a.version == b.version {
        format!("'{path}' was another build of {old} in '{}'.", other.label)
    } else {
        format!(
            "'{path}' was {old} in '{}', {new} in '{}'.",
            first.label, other.label
        )
    })
}

fn program<'a>(source: &'a SelectedSource<'_>) -> Option<&'a Program> {
    let programs = &source.session.environment.programs;
    programs
        .iter()
        .find(|program| program.variant == source.variant())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circumstances::TUNED;

    #[test]
    fn sessions_with_other_knobs_set_differ() {
        let ours = |knobs: Option<&str>| Environment {
            speedwell: Some("0.1.0".into()),
            facts: knobs
                .map(|knobs| (TUNED.into(), knobs.into()))
                .into_iter()
                .collect(),
            ..Environment::default()
        };
        let (tuned, other) = (ours(Some("governor, turbo")), ours(Some("governor")));
        let found = differences(&tuned, &other);
        assert_eq!(found, ["tuned 'governor, turbo' and 'governor'"]);
        assert_eq!(
            differences(&ours(None), &tuned),
            ["tuned 'nothing' and 'governor, turbo'"]
        );
        assert!(differences(&tuned, &tuned).is_empty());
        let foreign = Environment::default();
        assert!(differences(&foreign, &tuned).is_empty(), "who knows");
    }
}
