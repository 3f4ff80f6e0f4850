//! Arranges the runs of a session by case and variant.
//!
//! Decides the order of cases (first appearance) and of variants (session order), and treats a run
//! without a finite value as lost. Start at [`RunGrid`].

use crate::disturbed::{DisturbanceExposure, select_counted_runs};
use speedwell_model::{Case, Run, RunValue, Session};
use std::collections::HashMap;
use std::sync::Arc;

/// Runs of a session by case, then by variant.
pub(super) struct RunGrid<'s> {
    /// Variants that the session lists or that have runs.
    pub variants: Vec<Arc<str>>,
    /// Cases in order of first appearance.
    pub cases: Vec<CaseRuns<'s>>,
}

/// Runs of one case.
pub(super) struct CaseRuns<'s> {
    pub case: Arc<Case>,
    pub id: String,
    /// Runs in order of execution, one list per variant of the grid.
    pub by_variant: Vec<Vec<&'s Run>>,
    /// In a paired session, the runs that had a processor to themselves. These runs only serve to
    /// test whether sharing a processor matters.
    pub alone: Vec<Vec<&'s Run>>,
    /// How often each variant was disturbed.
    pub exposures: Vec<DisturbanceExposure>,
}

impl<'s> RunGrid<'s> {
    /// Arranges the runs of `session`.
    pub fn new(session: &'s Session) -> RunGrid<'s> {
        let listed = (session.variants.iter()).map(|variant| Arc::from(variant.name.as_str()));
        let measured = session.runs.iter().map(|run| run.variant.clone());
        let mut grid =
            RunGrid { variants: distinct_items(listed.chain(measured)), cases: Vec::new() };
        grid.fill_cases(session);
        grid
    }

    fn fill_cases(&mut self, session: &'s Session) {
        // The runs of one case usually share one `Arc`, so ids are rarely built.
        let mut by_address: HashMap<*const Case, usize> = HashMap::new();
        let mut by_id: HashMap<String, usize> = HashMap::new();
        for run in &session.runs {
            let index = *by_address.entry(Arc::as_ptr(&run.case)).or_insert_with(|| {
                let id = run.case.id();
                *by_id.entry(id.clone()).or_insert_with(|| {
                    let by_variant = vec![Vec::new(); self.variants.len()];
                    self.cases.push(CaseRuns {
                        case: run.case.clone(),
                        id,
                        alone: by_variant.clone(),
                        by_variant,
                        exposures: Vec::new(),
                    });
                    self.cases.len() - 1
                })
            });
            if let Some(variant) = self.variants.iter().position(|name| *name == run.variant) {
                let case = &mut self.cases[index];
                let runs = if session.design.is_alone(run.block) {
                    &mut case.alone
                } else {
                    &mut case.by_variant
                };
                runs[variant].push(run);
            }
        }
        for case in &mut self.cases {
            for runs in case.by_variant.iter_mut().chain(&mut case.alone) {
                runs.sort_by_key(|run| run.slot);
            }
            case.exposures = select_counted_runs(&session.design, &mut case.by_variant);
        }
    }

    /// Index of a variant by name.
    pub fn variant_index(&self, name: &str) -> Option<usize> {
        self.variants.iter().position(|variant| **variant == *name)
    }
}

/// The distinct items, by first appearance.
pub(crate) fn distinct_items<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for item in items {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}

/// Finite values, one per run, in the given order.
pub(super) fn finite_values(runs: &[&Run], metric: &str) -> Vec<RunValue> {
    runs.iter()
        .filter_map(|run| {
            let value = run.value_of(metric).filter(|value| value.is_finite())?;
            Some(RunValue { slot: run.slot, block: run.block, value })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::FakeSession;

    #[test]
    fn cases_keep_their_order_and_runs_are_sorted_by_slot() {
        let mut session =
            FakeSession::sequential(&["old", "new"], 2).add_case("b", |_, _| 1.0).build();
        session = FakeSession::continue_from(session).add_case("a", |_, _| 2.0).build();
        session.runs.reverse();
        let grid = RunGrid::new(&session);
        let ids: Vec<&str> = grid.cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(ids, ["a", "b"], "the runs decide the order of cases");
        for case in &grid.cases {
            assert!(case.by_variant.iter().all(|runs| runs.len() == 4));
            assert!(case.by_variant[0].is_sorted_by_key(|run| run.slot));
        }
        assert_eq!(grid.variant_index("new"), Some(1));
        assert_eq!(grid.variant_index("other"), None);
    }

    #[test]
    fn a_run_without_a_finite_value_is_lost() {
        let mut session = FakeSession::sequential(&["old"], 1).add_case("a", |_, _| 1.0).build();
        session.runs[0].samples[0].value = f64::NAN;
        session.runs[1].samples.clear();
        let runs: Vec<&Run> = session.runs.iter().collect();
        assert_eq!(finite_values(&runs, "throughput"), []);
    }
}
