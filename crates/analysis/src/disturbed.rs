//! Counts the runs of each side that were disturbed according to kernel figures. If rules reject
//! disturbed runs, selects the runs that count.
//!
//! A run is never rejected by its value, only by rules fixed before the first run. The rules are
//! not applied if one side is disturbed more often than another: the side itself may be the cause,
//! and rejecting its runs would hide that. Start at [`DisturbanceExposure::count_runs`].

use speedwell_model::{
    DisturbanceFigure, RejectRule, RejectRules, Run, Session, SessionDesign, median,
};
use speedwell_stats::test::fisher_exact;
use std::collections::HashSet;

/// Sides count as disturbed equally often if the p value of their difference is at least this.
const UNEQUAL_P: f64 = 0.05;

/// If more than this fraction of the runs was disturbed, the table shows the fraction.
const NOTABLE_SHARE: f64 = 0.10;

/// The machine is too busy if more than this fraction of the runs was rejected: the remaining runs
/// may be a biased selection.
const MAX_REJECTED_SHARE: f64 = 0.30;

/// How often one side of a case was disturbed, with the kernel figures of its runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DisturbanceExposure {
    /// Number of runs. A run that repeats a disturbed run does not count.
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
            figures: DisturbanceFigure::all().filter_map(figure).collect(),
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
                "'{name}' was disturbed more often (in {:.0} % of its runs, against {:.0} %), \
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
pub(super) fn select_counted_runs(
    design: &SessionDesign,
    sides: &mut [Vec<&Run>],
) -> Vec<DisturbanceExposure> {
    let firsts: Vec<Vec<&Run>> = sides.iter().map(|side| first_runs_of_slots(side)).collect();
    let exposures: Vec<DisturbanceExposure> =
        firsts.iter().map(|runs| DisturbanceExposure::count_runs(design, runs)).collect();
    if design.reject.is_empty() {
        return exposures;
    }
    if are_rules_applied(&exposures) {
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

/// Whether the rules are applied to a case. They are applied only if all its sides were disturbed
/// equally often.
fn are_rules_applied(sides: &[DisturbanceExposure]) -> bool {
    let differs = |(index, side): (usize, &DisturbanceExposure)| {
        sides[..index].iter().any(|other| side.differs_from(other))
    };
    !sides.iter().enumerate().any(differs)
}

/// First run of each slot.
fn first_runs_of_slots<'r>(side: &[&'r Run]) -> Vec<&'r Run> {
    let mut slots: HashSet<u32> = HashSet::new();
    let is_new = |run: &&&Run| slots.insert(run.slot);
    side.iter().filter(is_new).copied().collect()
}

/// Warns that the machine is too busy if many runs of a session were rejected.
pub(super) fn warn_too_busy(
    design: &SessionDesign,
    rejected: usize,
    runs: usize,
) -> Option<String> {
    let share = rejected as f64 / runs.max(1) as f64;
    (share > MAX_REJECTED_SHARE).then(|| {
        format!(
            "{:.0} % of the runs broke the rule '{}': the machine is too busy, and the remaining \
             runs may be a biased selection.",
            100.0 * share,
            design.reject
        )
    })
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
