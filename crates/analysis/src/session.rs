//! The findings of one session: its runs by case and variant, summaries of everything, and the baseline against every
//! candidate.
//!
//! Decides which metrics and pairs of variants are looked at, and which threats to a session are worth a sentence. It
//! must not know how any of them is judged. Start at [`analyse`].

use crate::builds::{LayoutSpread, layout_spreads};
use crate::comparison::{Source, compare_matched, conclude, match_cases};
use crate::disturbed::too_busy;
use crate::grid::Grid;
use crate::policy::Policy;
use crate::summary::summaries;
use crate::validity::{self, Known};
use crate::warnings::{counted, list};
use crate::{Comparison, Findings, Settings, machines, snippet_runs, warnings};
use speedwell_model::{Metric, Session, Snippet, State, Step};

/// Everything that can be said about one session.
///
/// Verdicts follow the design that was fixed before measuring: looking at a stored session again
/// gives the answers that were given while it was measured.
pub fn analyse(session: &Session, settings: &Settings) -> Findings {
    let grid = Grid::new(session);
    let policy = Policy::new(&session.design, settings);
    let mut findings = Findings {
        failures: session.failures.clone(),
        warnings: warnings_of(session, None),
        validity: validity::check(session, &Known::default()),
        ended_after: matches!(session.state, State::Interrupted | State::Running)
            .then_some(session.runs.len()),
        is_too_busy: too_busy(session).is_some(),
        ..Findings::default()
    };
    let metrics = metrics(session, settings, &mut findings.warnings);
    findings.summaries = summaries(&grid, &metrics, policy.confidence(), session.design.order);
    let shared = shared_notes(session);
    for summary in &mut findings.summaries {
        (summary.notes).retain(|note| !shared.contains(&note.as_str()));
    }
    let spreads = layout_spreads(session, &metrics);
    findings.layout.clone_from(&spreads);
    if grid.variants.len() == 1 {
        for summary in &mut findings.summaries {
            let id = summary.case.id();
            summary
                .notes
                .extend(sentence_of(&spreads, &id, &summary.metric));
        }
    }
    let Some(baseline) = baseline(session, &grid, settings, &mut findings.warnings) else {
        return findings;
    };
    if grid.variants.len() > 1 {
        let warnings = &mut findings.warnings;
        warnings::add(warnings, warnings::of_order(session.design.order));
        warnings::add(warnings, warnings::of_method(settings, &policy));
        warnings::add(warnings, warnings::of_plan(&session.design, settings));
    }
    let source = |variant: usize| Source {
        name: &grid.variants[variant],
        cases: &grid.cases,
        variant,
    };
    let mut matched = Vec::new();
    for metric in metrics {
        for candidate in (0..grid.variants.len()).filter(|&variant| variant != baseline) {
            let (baseline, candidate) = (source(baseline), source(candidate));
            matched.push(match_cases(&baseline, &candidate, metric, &policy, false));
        }
    }
    let mut compared = compare_matched(matched, settings);
    for found in &mut compared {
        snippet_runs::mark_folded(session, &mut found.comparison);
        let Comparison { metric, rows, .. } = &mut found.comparison;
        for row in rows {
            row.notes
                .extend(sentence_of(&spreads, &row.case.id(), metric));
        }
    }
    conclude(compared, &mut findings);
    machines::add(session, &grid, &policy, &mut findings.comparisons);
    findings
}

/// What is known of the layout of a case.
fn sentence_of(spreads: &[LayoutSpread], case: &str, metric: &Metric) -> Option<String> {
    let is_own = |known: &&LayoutSpread| known.case == case && known.metric == metric.name;
    spreads.iter().find(is_own).map(LayoutSpread::sentence)
}

/// The metrics to look at: those requested, or the primary one.
pub(super) fn metrics<'s>(
    session: &'s Session,
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Vec<&'s Metric> {
    if settings.metrics.is_empty() {
        return session.metrics.first().into_iter().collect();
    }
    if settings.wants_all_metrics() {
        return session.metrics.iter().collect();
    }
    let mut found = Vec::new();
    for name in &settings.metrics {
        match session.metric(name) {
            Some(metric) => found.push(metric),
            None => warnings.push(format!(
                "There is no metric '{name}'; there are {}.",
                list(session.metrics.iter().map(|metric| metric.name.as_str()))
            )),
        }
    }
    found
}

/// The place of the reference; `None` when there are no variants at all.
fn baseline(
    session: &Session,
    grid: &Grid<'_>,
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Option<usize> {
    let wanted = settings
        .baseline
        .as_deref()
        .unwrap_or(&session.design.baseline);
    let found = grid.variant(wanted);
    if found.is_none() && grid.variants.len() > 1 {
        let first = &grid.variants[0];
        warnings.push(format!(
            "There is no variant '{wanted}'; '{first}' is the baseline."
        ));
    }
    found.or((!grid.variants.is_empty()).then_some(0))
}

/// Share of failed runs from which what is left may be a selection.
const MANY_FAILURES: f64 = 0.05;

/// Threats to the figures of a session; `label` names it where there are several.
pub(super) fn warnings_of(session: &Session, label: Option<&str>) -> Vec<String> {
    let name = label.map_or("The session".to_owned(), |label| format!("'{label}'"));
    let mut warnings = Vec::new();
    match session.state {
        State::Interrupted => {
            let done = counted(session.runs.len(), "run", "runs");
            warnings.push(format!("{name} was interrupted after {done}."));
        }
        State::Running => warnings.push(format!("{name} did not end, or is still measuring.")),
        State::Complete | State::Imported => {}
    }
    warnings.extend(on_failures(session, &name));
    warnings.extend(too_busy(session));
    warnings.extend(shared_notes(session).into_iter().map(String::from));
    warnings.extend(snippet_runs::folded(session));
    let environment = &session.environment;
    if environment
        .governors
        .iter()
        .any(|governor| governor != "performance")
    {
        let governors = list(environment.governors.iter().map(String::as_str));
        warnings.push(format!(
            "{name} ran while the processor may change its clock ({governors})."
        ));
    }
    if environment.aslr == Some(false) {
        warnings.push(format!(
            "{name} ran with a fixed memory layout, which favours one variant by chance."
        ));
    }
    warnings
}

/// What is true of every run and therefore said once. An importer has told it already.
fn shared_notes(session: &Session) -> Vec<&str> {
    let Some((first, others)) = session.runs.split_first() else {
        return Vec::new();
    };
    let mut notes: Vec<&str> = Vec::new();
    if session.state != State::Imported && !others.is_empty() {
        notes.extend(first.notes.iter().map(String::as_str));
    }
    // What is true of a snippet is said with its name.
    notes.retain(|note| *note != Snippet::FOLDED);
    notes.retain(|note| {
        others
            .iter()
            .all(|run| run.notes.iter().any(|other| other == note))
    });
    notes
}

fn on_failures(session: &Session, name: &str) -> Option<String> {
    let is_lost_run = |f: &&speedwell_model::Failure| f.step == Step::Run && !f.cause.is_skip();
    let failed = session.failures.iter().filter(is_lost_run).count();
    let all = session.runs.len() + failed;
    if failed == 0 || (failed as f64) < MANY_FAILURES * all as f64 {
        return None;
    }
    let share = 100.0 * failed as f64 / all as f64;
    let runs = counted(all, "run", "runs");
    if failed == all {
        return Some(format!("{name}: {failed} of {runs} failed."));
    }
    Some(format!(
        "{name}: {failed} of {runs} failed ({share:.0} %); the others may be a selection."
    ))
}
