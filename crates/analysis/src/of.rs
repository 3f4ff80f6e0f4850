//! The findings of one session: summaries of everything, and the baseline against every candidate.
//!
//! Decides which metrics and which pairs of variants are looked at. It must not know how any of
//! them is judged. Start at [`of`].

use super::code;
use super::comparison::{Source, judge, match_cases};
use super::grid::Grid;
use super::rule::Rule;
use super::summary::summaries;
use super::validity::{self, Known};
use super::{Findings, Settings, locations, warnings};
use speedwell_model::{Metric, Session, State};

/// Everything that can be said about one session.
///
/// Verdicts follow the design that was fixed before measuring: looking at a stored session again
/// gives the answers that were given while it was measured.
pub fn of(session: &Session, settings: &Settings) -> Findings {
    let grid = Grid::new(session);
    let rule = Rule::of(&session.design, settings);
    let mut findings = Findings {
        failures: session.failures.clone(),
        warnings: warnings::of_session(session, None),
        validity: validity::of(session, &Known::default()),
        ended_after: matches!(session.state, State::Interrupted | State::Running)
            .then_some(session.runs.len()),
        ..Findings::default()
    };
    let metrics = metrics(session, settings, &mut findings.warnings);
    findings.summaries = summaries(&grid, &metrics, rule.confidence(), session.design.order);
    let shared = warnings::shared_notes(session);
    for summary in &mut findings.summaries {
        summary
            .notes
            .retain(|note| !shared.contains(&note.as_str()));
    }
    let Some(baseline) = baseline(session, &grid, settings, &mut findings.warnings) else {
        return findings;
    };
    if grid.variants.len() > 1 {
        let warnings = &mut findings.warnings;
        warnings::add(warnings, warnings::of_order(session.design.order));
        warnings::add(warnings, warnings::of_method(settings, &rule));
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
            matched.push(match_cases(&baseline, &candidate, metric, &rule, false));
        }
    }
    for mut found in judge(matched, settings) {
        code::mark_folded(session, &mut found.comparison);
        warnings::add(&mut findings.warnings, warnings::of_comparison(&found));
        findings.comparisons.push(found.comparison);
    }
    locations::locate(&mut findings.comparisons);
    validity::refuse(&findings.validity, &mut findings.comparisons);
    findings
}

/// The metrics to look at: those asked for, or the primary one.
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
                warnings::list(session.metrics.iter().map(|metric| metric.name.as_str()))
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
