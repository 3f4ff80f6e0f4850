//! The findings of one session: its runs by case and variant, summaries of everything, and the baseline against every
//! candidate.
//!
//! Decides the order of cases (first appearance) and of variants (as the session lists them), that a run without a
//! finite value counts as lost, and which metrics and pairs of variants are looked at. It must not know how any of
//! them is judged. Start at [`analyse`].

use crate::comparison::{self, Source, compare_matched, match_cases};
use crate::policy::Policy;
use crate::summary::summaries;
use crate::validity::{self, Known};
use crate::{Findings, Settings, code, warnings};
use speedwell_model::{Case, Metric, Run, RunValue, Session, State};
use std::collections::HashMap;
use std::sync::Arc;

/// Everything that can be said about one session.
///
/// Verdicts follow the design that was fixed before measuring: looking at a stored session again
/// gives the answers that were given while it was measured.
pub fn analyse(session: &Session, settings: &Settings) -> Findings {
    let grid = Grid::new(session);
    let policy = Policy::new(&session.design, settings);
    let mut findings = Findings {
        failures: session.failures.clone(),
        warnings: warnings::of_session(session, None),
        validity: validity::check(session, &Known::default()),
        ended_after: matches!(session.state, State::Interrupted | State::Running)
            .then_some(session.runs.len()),
        ..Findings::default()
    };
    let metrics = metrics(session, settings, &mut findings.warnings);
    findings.summaries = summaries(&grid, &metrics, policy.confidence(), session.design.order);
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
    for mut found in compare_matched(matched, settings) {
        code::mark_folded(session, &mut found.comparison);
        warnings::add(&mut findings.warnings, warnings::of_comparison(&found));
        findings.comparisons.push(found.comparison);
    }
    comparison::locate(&mut findings.comparisons);
    validity::refuse(&findings.validity, &mut findings.comparisons);
    findings
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

/// The runs of a session by case, then by variant.
pub(super) struct Grid<'s> {
    /// Names of the variants that have runs or are listed by the session.
    pub variants: Vec<Arc<str>>,
    /// Cases in order of first appearance.
    pub cases: Vec<CaseRuns<'s>>,
}

/// The runs of one case.
pub(super) struct CaseRuns<'s> {
    /// The case.
    pub case: Arc<Case>,
    /// Its id.
    pub id: String,
    /// Runs in order of execution, one list per variant of the grid.
    pub by_variant: Vec<Vec<&'s Run>>,
}

impl<'s> Grid<'s> {
    /// Arranges the runs of `session`.
    pub fn new(session: &'s Session) -> Grid<'s> {
        let listed = session.variants.iter();
        let listed = listed.map(|variant| Arc::from(variant.name.as_str()));
        let of_runs = session.runs.iter().map(|run| run.variant.clone());
        let mut grid = Grid {
            variants: distinct(listed.chain(of_runs)),
            cases: Vec::new(),
        };
        grid.fill(&session.runs);
        grid
    }

    fn fill(&mut self, runs: &'s [Run]) {
        // Runs usually share one `Arc` per case, so that an id is rarely written out.
        let mut by_address: HashMap<*const Case, usize> = HashMap::new();
        let mut by_id: HashMap<String, usize> = HashMap::new();
        for run in runs {
            let place = *by_address.entry(Arc::as_ptr(&run.case)).or_insert_with(|| {
                let id = run.case.id();
                *by_id.entry(id.clone()).or_insert_with(|| {
                    let by_variant = vec![Vec::new(); self.variants.len()];
                    self.cases.push(CaseRuns {
                        case: run.case.clone(),
                        id,
                        by_variant,
                    });
                    self.cases.len() - 1
                })
            });
            if let Some(variant) = self.variants.iter().position(|name| *name == run.variant) {
                self.cases[place].by_variant[variant].push(run);
            }
        }
        for case in &mut self.cases {
            for runs in &mut case.by_variant {
                runs.sort_by_key(|run| run.slot);
            }
        }
    }

    /// Place of the variant of that name.
    pub fn variant(&self, name: &str) -> Option<usize> {
        self.variants.iter().position(|known| **known == *name)
    }
}

/// The different ones among `items`, in order of first appearance.
pub(crate) fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

/// One finite value per run, in the order given.
pub(super) fn values_of(runs: &[&Run], metric: &str) -> Vec<RunValue> {
    runs.iter()
        .filter_map(|run| {
            let value = run.value_of(metric).filter(|value| value.is_finite())?;
            Some(RunValue {
                slot: run.slot,
                block: run.block,
                value,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::Story;

    #[test]
    fn cases_keep_their_order_and_runs_are_sorted_by_slot() {
        let mut session = Story::blocks(&["old", "new"], 2)
            .case("b", |_, _| 1.0)
            .session();
        session = Story::more(session).case("a", |_, _| 2.0).session();
        session.runs.reverse();
        let grid = Grid::new(&session);
        let ids: Vec<&str> = grid.cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(ids, ["a", "b"], "the order in which runs come decides");
        for case in &grid.cases {
            assert!(case.by_variant.iter().all(|runs| runs.len() == 4));
            assert!(case.by_variant[0].is_sorted_by_key(|run| run.slot));
        }
        assert_eq!(grid.variant("new"), Some(1));
        assert_eq!(grid.variant("other"), None);
    }

    #[test]
    fn a_run_without_a_finite_value_is_lost() {
        let mut session = Story::blocks(&["old"], 1).case("a", |_, _| 1.0).session();
        session.runs[0].samples[0].value = f64::NAN;
        session.runs[1].samples.clear();
        let runs: Vec<&Run> = session.runs.iter().collect();
        assert_eq!(values_of(&runs, "throughput"), []);
    }
}
