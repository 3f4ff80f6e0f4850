//! Runs that the kernel figures call disturbed: how many each side has, and which runs count when
//! disturbed ones are rejected.
//!
//! A run is never rejected by its value, only by rules fixed before the first run. The rules are
//! not applied if one side is disturbed more often than another: that may be caused by the side
//! itself, and rejecting its runs would hide it. Start at [`Exposure::count`].

use speedwell_model::{Design, Figure, Rule, Rules, Run, Session, median};
use speedwell_stats::test::fisher_exact;
use std::collections::HashSet;

/// p value from which on sides count as disturbed equally often.
const UNEQUAL: f64 = 0.05;

/// Share of disturbed runs that is worth showing in the table.
const NOTABLE: f64 = 0.10;

/// Share of rejected runs above which the machine is too busy: the remaining runs may be a biased
/// selection.
const TOO_MANY: f64 = 0.30;

/// How often one side of a case was disturbed, with the kernel figures of its runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposure {
    /// Number of runs, without repetitions.
    pub runs: u32,
    /// Number of disturbed runs.
    pub disturbed: u32,
    /// Median over the runs of each figure that the kernel reported.
    pub figures: Vec<(Figure, f64)>,
    /// Whether rules reject disturbed runs, provided both sides are disturbed equally often.
    pub rejects: bool,
}

impl Exposure {
    /// Counts the runs of one side.
    fn count(design: &Design, runs: &[&Run]) -> Exposure {
        let usual = Rules::usual();
        // Earlier versions recorded only some of the figures, too few to count disturbed runs.
        let is_recorded = |run: &&&Run| run.surroundings.is_some();
        let recorded: Vec<&Run> = runs.iter().filter(is_recorded).copied().collect();
        let is_disturbed = |run: &Run| {
            let by_usual = design.reject.is_empty() && usual.broken_by(run).is_some();
            by_usual || run.disturbed.is_some()
        };
        let figure = |figure: Figure| {
            let known = recorded.iter().filter_map(|run| figure.of(run));
            let mut values: Vec<f64> = known.collect();
            median(&mut values).map(|value| (figure, value))
        };
        Exposure {
            runs: runs.len() as u32,
            disturbed: recorded.iter().filter(|run| is_disturbed(run)).count() as u32,
            figures: Figure::ALL.into_iter().filter_map(figure).collect(),
            rejects: !design.reject.is_empty(),
        }
    }

    /// Share of disturbed runs.
    pub fn share(&self) -> f64 {
        f64::from(self.disturbed) / f64::from(self.runs.max(1))
    }

    /// Share of disturbed runs, if the kernel reported any figures.
    pub fn known_share(&self) -> Option<f64> {
        (!self.figures.is_empty()).then(|| self.share())
    }

    /// Median of a figure over the runs, if the kernel reported it.
    pub fn median(&self, figure: Figure) -> Option<f64> {
        let mut known = self.figures.iter();
        known
            .find(|(name, _)| *name == figure)
            .map(|(_, value)| *value)
    }

    /// Whether the share is worth showing in the table.
    pub fn is_notable(&self) -> bool {
        self.share() > NOTABLE
    }

    /// Explains why the rules are not applied if one side is disturbed more often than the other.
    pub(super) fn remark(&self, candidate: &Exposure, names: [&str; 2]) -> Option<String> {
        let is_unequal = self.rejects && candidate.rejects && self.differs_from(candidate);
        let mut sides = [(names[0], self.share()), (names[1], candidate.share())];
        sides.sort_by(|a, b| b.1.total_cmp(&a.1));
        let [(name, more), (_, less)] = sides;
        is_unequal.then(|| {
            format!(
                "'{name}' is disturbed more often ({:.0} against {:.0} %): this may be its own doing, so no run is \
                 rejected.",
                100.0 * more,
                100.0 * less
            )
        })
    }

    /// Whether the disturbed shares differ by more than chance.
    pub fn differs_from(&self, other: &Exposure) -> bool {
        fisher_exact([self.disturbed, other.disturbed], [self.runs, other.runs]) < UNEQUAL
    }
}

/// Keeps one run per slot on each side of a case, in execution order, and returns how often each
/// side was disturbed.
///
/// If rules are applied, keeps the slot's undisturbed run; a slot without one is lost. Otherwise
/// keeps the first run.
pub(super) fn keep_those_that_count(design: &Design, sides: &mut [Vec<&Run>]) -> Vec<Exposure> {
    let firsts: Vec<Vec<&Run>> = sides.iter().map(|side| first_of_slots(side)).collect();
    let exposures: Vec<Exposure> = firsts
        .iter()
        .map(|runs| Exposure::count(design, runs))
        .collect();
    if design.reject.is_empty() {
        return exposures;
    }
    if is_applied(&exposures) {
        for side in sides {
            side.retain(|run| run.disturbed.is_none());
        }
    } else {
        for (side, firsts) in sides.iter_mut().zip(firsts) {
            *side = firsts;
        }
    }
    exposures
}

/// Whether all sides of a case were disturbed equally often.
fn is_applied(sides: &[Exposure]) -> bool {
    let differs =
        |(at, side): (usize, &Exposure)| sides[..at].iter().any(|other| side.differs_from(other));
    !sides.iter().enumerate().any(differs)
}

/// First run of each slot.
fn first_of_slots<'r>(side: &[&'r Run]) -> Vec<&'r Run> {
    let mut slots: HashSet<u32> = HashSet::new();
    let is_new = |run: &&&Run| slots.insert(run.slot);
    side.iter().filter(is_new).copied().collect()
}

/// Warns if so many runs of a session were rejected that its machine is too busy.
pub(super) fn too_busy(design: &Design, rejected: usize, runs: usize) -> Option<String> {
    let share = rejected as f64 / runs.max(1) as f64;
    (share > TOO_MANY).then(|| {
        format!(
            "{:.0} % of the runs were disturbed by the rule '{}': the machine is too busy, and what is left may be a \
             selection.",
            100.0 * share,
            design.reject
        )
    })
}

/// Rules worth trying, each with the share of a session's runs that it would reject; empty if the
/// kernel reported nothing.
pub(super) fn rejected_by_rules(session: &Session) -> Vec<(Rule, f64)> {
    let known = session.runs.iter().filter(|run| run.surroundings.is_some());
    let runs: Vec<&Run> = known.collect();
    let share = |rule: &Rule| {
        let broken = runs.iter().filter(|run| rule.is_broken_by(run)).count();
        (*rule, broken as f64 / runs.len() as f64)
    };
    let shares = Rule::OFFERED.iter().map(share);
    shares.filter(|_| !runs.is_empty()).collect()
}
