//! Arranges the runs of a session: by case and variant, or by snippet and number of workers.
//!
//! Decides the order of cases (first appearance) and of variants (session order), and treats a run
//! without a finite value as lost. A side of a comparison is a variant of a grid ([`SourceSide`]).
//! Start at [`RunGrid`] and [`snippet_groups`].
//!
//! Also counts the runs of each side that were disturbed according to kernel figures. If rules
//! reject disturbed runs, selects the runs to analyze. A run is never rejected by its value, only
//! by rules fixed before the first run. The rules are not applied if one side is disturbed more
//! often than another: the side itself may be the cause, and rejecting its runs would hide that.
//! Start at [`DisturbanceExposure::count_runs`].

use speedwell_model::{
    Case, DisturbanceFigure, ParameterValue, RejectRule, RejectRules, Run, RunValue, Session,
    SessionDesign, Snippet, median,
};
use speedwell_stats::test::fisher_exact;
use std::collections::{HashMap, HashSet};
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

/// One side of a comparison: a variant's runs by case.
#[derive(Clone, Copy)]
pub(super) struct SourceSide<'a, 's> {
    /// Name in tables.
    pub name: &'a str,
    /// The side's session.
    pub session: &'a Session,
    /// Runs of the session, or of a part of it.
    pub grid: &'a RunGrid<'s>,
    /// Index of the side's variant in the grid.
    pub variant: usize,
}

impl<'a> SourceSide<'a, '_> {
    /// Name of the side's variant in its session.
    pub fn variant_name(&self) -> &'a str {
        &self.grid.variants[self.variant]
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

/// The smallest and the largest of some values.
pub(super) fn value_range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
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

/// Sides count as disturbed equally often if the p value of their difference is at least this.
const UNEQUAL_P: f64 = 0.05;

/// If more than this fraction of the runs was disturbed, the table shows the fraction.
const NOTABLE_SHARE: f64 = 0.10;

/// How often one side of a case was disturbed, with the kernel figures of its runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DisturbanceExposure {
    /// Number of runs, without the repetitions of disturbed runs.
    pub runs: u32,
    /// Number of disturbed runs.
    pub disturbed: u32,
    /// Each figure that the kernel reported, with its median over the runs.
    pub figures: Vec<(DisturbanceFigure, f64)>,
    /// Whether disturbed runs are rejected, provided both sides are disturbed equally often.
    pub rejects: bool,
}

impl DisturbanceExposure {
    /// Counts the runs of one side, and computes the medians of their kernel figures.
    fn count_runs(design: &SessionDesign, runs: &[&Run]) -> DisturbanceExposure {
        let default_rules = RejectRules::default_rules();
        // Runs measured by earlier versions have no `kernel_stats`, so it is unknown whether they
        // were disturbed.
        let is_recorded = |run: &&&Run| run.kernel_stats.is_some();
        let recorded: Vec<&Run> = runs.iter().filter(is_recorded).copied().collect();
        let is_disturbed = |run: &Run| {
            let breaks_default_rule =
                design.reject.is_empty() && default_rules.broken_by(run).is_some();
            breaks_default_rule || run.rejected_by.is_some()
        };
        let figure = |figure: DisturbanceFigure| {
            let values = recorded.iter().filter_map(|run| figure.value_in(run));
            let mut values: Vec<f64> = values.collect();
            median(&mut values).map(|value| (figure, value))
        };
        DisturbanceExposure {
            runs: runs.len() as u32,
            disturbed: recorded.iter().filter(|run| is_disturbed(run)).count() as u32,
            figures: DisturbanceFigure::ALL.into_iter().filter_map(figure).collect(),
            rejects: !design.reject.is_empty(),
        }
    }

    /// Fraction of the runs that was disturbed.
    pub fn disturbed_share(&self) -> f64 {
        f64::from(self.disturbed) / f64::from(self.runs.max(1))
    }

    /// Fraction of the runs that was disturbed, if the kernel reported any figures.
    pub fn known_share(&self) -> Option<f64> {
        (!self.figures.is_empty()).then(|| self.disturbed_share())
    }

    /// Median of a figure over the runs, if the kernel reported it.
    pub fn median_figure(&self, figure: DisturbanceFigure) -> Option<f64> {
        let mut figures = self.figures.iter();
        figures.find(|(name, _)| *name == figure).map(|(_, value)| *value)
    }

    /// Whether enough runs were disturbed for the table to show it.
    pub fn is_notable(&self) -> bool {
        self.disturbed_share() > NOTABLE_SHARE
    }

    /// Explains why the rules are not applied if one side is disturbed more often than the other.
    pub(super) fn explain_unequal(
        &self,
        candidate: &DisturbanceExposure,
        names: [&str; 2],
    ) -> Option<String> {
        let is_unequal = self.rejects && candidate.rejects && self.differs_from(candidate);
        let mut sides =
            [(names[0], self.disturbed_share()), (names[1], candidate.disturbed_share())];
        sides.sort_by(|a, b| b.1.total_cmp(&a.1));
        let [(name, more), (_, less)] = sides;
        is_unequal.then(|| {
            format!(
                "'{name}' was disturbed more often (in {:.0}% of its runs, against {:.0}%), \
                 possibly by its own work, so no run is rejected.",
                100.0 * more,
                100.0 * less
            )
        })
    }

    /// Whether one side was disturbed more often than the other, beyond chance.
    pub fn differs_from(&self, other: &DisturbanceExposure) -> bool {
        fisher_exact([self.disturbed, other.disturbed], [self.runs, other.runs]) < UNEQUAL_P
    }
}

/// Keeps one run per slot on each side of a case, in execution order, and returns how often each
/// side was disturbed.
///
/// If rules are applied, this keeps the undisturbed run of each slot and drops slots without one.
/// Otherwise, it keeps the first run of each slot.
pub(super) fn select_counted_runs<'r>(
    design: &SessionDesign,
    sides: &mut [Vec<&'r Run>],
) -> Vec<DisturbanceExposure> {
    let first_runs = |side: &Vec<&'r Run>| -> Vec<&'r Run> {
        let mut slots: HashSet<u32> = HashSet::new();
        side.iter().copied().filter(|run| slots.insert(run.slot)).collect()
    };
    let firsts: Vec<Vec<&Run>> = sides.iter().map(first_runs).collect();
    let exposures: Vec<DisturbanceExposure> =
        firsts.iter().map(|runs| DisturbanceExposure::count_runs(design, runs)).collect();
    if design.reject.is_empty() {
        return exposures;
    }
    // The rules are applied only if all sides were disturbed equally often.
    let differs = |(index, side): (usize, &DisturbanceExposure)| {
        exposures[..index].iter().any(|other| side.differs_from(other))
    };
    if !exposures.iter().enumerate().any(differs) {
        for side in sides {
            side.retain(|run| run.rejected_by.is_none());
        }
    } else {
        for (side, firsts) in sides.iter_mut().zip(firsts) {
            *side = firsts;
        }
    }
    exposures
}

/// Rules worth trying, each with the fraction of a session's runs that it would reject. Empty if
/// the kernel reported nothing.
pub(super) fn rejected_by_rules(session: &Session) -> Vec<(RejectRule, f64)> {
    let known = session.runs.iter().filter(|run| run.kernel_stats.is_some());
    let runs: Vec<&Run> = known.collect();
    let share = |rule: &RejectRule| {
        let broken = runs.iter().filter(|run| rule.is_broken_by(run)).count();
        (*rule, broken as f64 / runs.len() as f64)
    };
    let shares = RejectRule::OFFERED.iter().map(share);
    shares.filter(|_| !runs.is_empty()).collect()
}

/// Whether a case is a snippet.
pub(crate) fn is_snippet(case: &Case) -> bool {
    case.benchmark.starts_with("eval/")
}

/// Whether most of these runs are marked as optimized away.
pub(super) fn is_folded<'a>(runs: impl Iterator<Item = &'a Run>) -> bool {
    let found: Vec<bool> =
        runs.map(|run| run.notes.iter().any(|note| note == Snippet::FOLDED)).collect();
    found.iter().filter(|found| **found).count() * 2 > found.len()
}

/// The runs of one snippet at one number of workers: its label, its case and the runs.
pub(super) type SnippetGroup<'a> = (String, Arc<Case>, Vec<&'a Run>);

pub(super) fn ordered_groups(session: &Session) -> Vec<SnippetGroup<'_>> {
    let mut groups = snippet_groups(session);
    // Blocks are shuffled, but the first snippet typed is the baseline and must come first.
    groups.sort_by_key(|(.., runs)| variant_index(session, &runs[0].variant));
    groups
}

/// Index of a variant in its session.
pub(super) fn variant_index(session: &Session, variant: &str) -> Option<usize> {
    session.variants.iter().position(|candidate| candidate.name == variant)
}

/// Formats the parameters of the snippet's text, which distinguish its cases, as in ` size=10`.
fn format_parameters(case: &Case) -> String {
    case.values
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "code" | "concurrency"))
        .map(|(name, value)| format!(" {name}={value}"))
        .collect()
}

pub(super) fn snippet_groups(session: &Session) -> Vec<SnippetGroup<'_>> {
    let several = session.variants.len() > 1;
    let mut groups: Vec<SnippetGroup<'_>> = Vec::new();
    let is_counted = |run: &&Run| run.rejected_by.is_none();
    for run in session.runs.iter().filter(is_counted) {
        let values = format_parameters(&run.case);
        let label = match run.case.value("code") {
            Some(ParameterValue::Text(snippet)) if several => {
                format!("{snippet}{values} ({})", run.variant)
            }
            Some(ParameterValue::Text(snippet)) => format!("{snippet}{values}"),
            _ => format!("{}{values}", run.variant),
        };
        let id = run.case.id();
        let is_same_group = |group: &&mut SnippetGroup<'_>| group.0 == label && group.1.id() == id;
        match groups.iter_mut().find(is_same_group) {
            Some(group) => group.2.push(run),
            None => groups.push((label, run.case.clone(), vec![run])),
        }
    }
    groups
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
