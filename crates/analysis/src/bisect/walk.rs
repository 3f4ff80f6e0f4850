//! The search, replayed from the start over the measured runs until something is missing.
//!
//! Decides which revisions a block holds and when a phase ends: comparing the ends, searching
//! between them, and confirming what was found. Start at [`walk`], then [`Walk::search`].

use super::{Answer, Block, Confirmed, Ends, Outcome, Part, Phase, Standing, State, Step};
use crate::confirm::{self, ALPHA, Confirmation};
use speedwell_model::{Better, Estimate, median};
use speedwell_stats::Observation;
use speedwell_stats::posterior::{Bins, Posterior};
use speedwell_stats::test::mann_whitney::{Method, mann_whitney};
use speedwell_stats::test::stratified::stratified_rank;
use std::collections::BTreeSet;

/// Blocks that compare the ends before the search: 16 runs of each.
const BLOCKS_OF_ENDS: u32 = 8;

/// Blocks after which a revision counts as hanging if all its runs exceed the time limit and none
/// of the other's do.
const BLOCKS_OF_HANGING: u32 = 2;

/// Probability at which the search has located a change.
const LEVEL: f64 = 0.95;

/// Runs after which the search gives up.
const MOST_RUNS: u32 = 3000;

/// Returns the next step of the search.
pub fn next(state: &State) -> Step {
    walk(state).0
}

/// Returns the progress of the search.
pub fn standing(state: &State) -> Standing {
    walk(state).1
}

/// Replays the search: the next step and the progress.
pub(super) fn walk(state: &State) -> (Step, Standing) {
    let mut walk = Walk {
        state,
        block: 0,
        slot: 0,
        unusable: state.unbuildable.clone(),
        standing: Standing {
            ends: None,
            set: (1..state.revisions).collect(),
        },
    };
    let step = match walk.search(0, state.revisions - 1) {
        Ok((ends, parts)) => Step::Answer(Answer { ends, parts }),
        Err(step) => step,
    };
    (step, walk.standing)
}

/// Position of the replay.
struct Walk<'a> {
    state: &'a State,
    /// Number of the next block; `slot` is its first slot.
    block: u32,
    slot: u32,
    /// Revisions that could not be built or run.
    unusable: BTreeSet<usize>,
    standing: Standing,
}

/// Runs of two compared revisions.
#[derive(Default)]
struct Pair {
    values: [Vec<f64>; 2],
    hung: [u32; 2],
    runs: Vec<Observation>,
    blocks: u32,
}

impl Pair {
    /// Adds a block of the two revisions; returns the one without a value in it, if any.
    fn add(&mut self, (old, new): (usize, usize), outcomes: &[(usize, Outcome)]) -> Option<usize> {
        for &(revision, outcome) in outcomes {
            let side = usize::from(revision == new);
            match outcome {
                Outcome::Value(value) => {
                    self.values[side].push(value);
                    self.runs.push(match side {
                        0 => Observation::baseline(value, self.blocks),
                        _ => Observation::candidate(value, self.blocks),
                    });
                }
                Outcome::Hung => self.hung[side] += 1,
                Outcome::Failed => {}
            }
        }
        self.blocks += 1;
        let gave = |revision: usize| {
            outcomes
                .iter()
                .any(|(own, outcome)| *own == revision && matches!(outcome, Outcome::Value(_)))
        };
        [old, new].into_iter().find(|&revision| !gave(revision))
    }

    /// Whether every run of the second revision, and none of the first, exceeds the time limit.
    fn hangs(&self) -> bool {
        self.values[1].is_empty() && self.hung[1] > 0 && self.hung[0] == 0
    }
}

/// Result of measuring two revisions again.
enum Again {
    Answered(Confirmed, Pair),
    /// This revision does not run.
    Lost(usize),
}

impl Walk<'_> {
    /// Compares the ends of a part of the line and finds the changes between them.
    fn search(&mut self, low: usize, high: usize) -> Result<(Ends, Vec<Part>), Step> {
        let (ends, pair) = self.ends(low, high)?;
        if self.standing.ends.is_none() {
            self.standing.ends = Some(ends);
        }
        match ends {
            Ends::Alike(_) | Ends::Unclear(_) | Ends::Unmeasurable(_) => Ok((ends, Vec::new())),
            Ends::Differ(_) | Ends::Hangs => {
                let parts = self.parts((low, high), &ends, pair)?;
                Ok((ends, parts))
            }
        }
    }

    /// Tests whether two revisions differ.
    fn ends(&mut self, low: usize, high: usize) -> Result<(Ends, Pair), Step> {
        let mut pair = Pair::default();
        while pair.blocks < BLOCKS_OF_ENDS {
            if let Some(&lost) = [low, high].iter().find(|end| self.unusable.contains(end)) {
                return Ok((Ends::Unmeasurable(lost), pair));
            }
            let outcomes = self.measured(Phase::Ends, &[low, high])?;
            let lost = pair.add((low, high), &outcomes);
            if pair.hangs() && pair.blocks >= BLOCKS_OF_HANGING {
                return Ok((Ends::Hangs, pair));
            }
            if let Some(lost) = lost.filter(|_| !pair.hangs()) {
                return Ok((Ends::Unmeasurable(lost), pair));
            }
        }
        let Ok(test) = stratified_rank(&pair.runs) else {
            return Ok((Ends::Unmeasurable(high), pair));
        };
        let interval = test.interval_at(ALPHA);
        let change = Estimate {
            value: test.ratio() - 1.0,
            low: interval.low - 1.0,
            high: interval.high - 1.0,
        };
        let delta = self.state.delta;
        let matters = !change.lies_within(-delta / (1.0 + delta), delta);
        let ends = match (test.p <= ALPHA, matters) {
            (true, true) => Ends::Differ(change),
            (false, true) => Ends::Unclear(change),
            (_, false) => Ends::Alike(change),
        };
        Ok((ends, pair))
    }

    /// Finds the changes between two revisions that differ.
    fn parts(
        &mut self,
        (low, high): (usize, usize),
        ends: &Ends,
        pair: Pair,
    ) -> Result<Vec<Part>, Step> {
        let [mut good, mut bad] = pair.values;
        let hangs = *ends == Ends::Hangs;
        bad.extend((0..pair.hung[1]).map(|_| self.worst()));
        // Values of revisions between the ends, counted from the first after the good end.
        let mut seen: Vec<(usize, f64)> = Vec::new();
        loop {
            let Some(bins) = Bins::new(&good, &bad) else {
                return Ok(Vec::new());
            };
            let posterior = Posterior::new(high - low, &bins, &seen);
            let set: Vec<usize> = posterior.credible_set(LEVEL);
            let set: Vec<usize> = set.into_iter().map(|at| low + 1 + at).collect();
            self.standing.set.clone_from(&set);
            let unusable = self.unusable.clone();
            let can_build = |at: usize| !unusable.contains(&(low + 1 + at));
            let found = posterior.answer(LEVEL, can_build);
            let next = posterior.next(can_build).filter(|_| self.slot < MOST_RUNS);
            let Some(next) = next.filter(|_| found.is_none()) else {
                let found = found.unwrap_or(0..=high - low - 1);
                let place = (low + found.start(), low + 1 + found.end());
                match self.part((low, high), place, (hangs, set), [&good, &bad])? {
                    Some(parts) => return Ok(parts),
                    None => continue,
                }
            };
            let middle = low + 1 + next;
            let outcomes = self.measured(Phase::Search, &[low, middle, high])?;
            for (revision, outcome) in outcomes {
                let value = match outcome {
                    Outcome::Value(value) => value,
                    Outcome::Hung if hangs => self.worst(),
                    Outcome::Hung | Outcome::Failed => {
                        if revision == middle {
                            self.unusable.insert(middle);
                        }
                        continue;
                    }
                };
                match revision {
                    own if own == low => good.push(value),
                    own if own == high => bad.push(value),
                    _ => seen.push((next, value)),
                }
            }
        }
    }

    /// Confirms a change and searches for others before and after it. `None` if one of its
    /// revisions does not run: the change must be located without it.
    fn part(
        &mut self,
        (low, high): (usize, usize),
        (before, after): (usize, usize),
        (hangs, set): (bool, Vec<usize>),
        [good, bad]: [&[f64]; 2],
    ) -> Result<Option<Vec<Part>>, Step> {
        let part = |confirmed| Part {
            before,
            after,
            set,
            confirmed,
        };
        if self.slot >= MOST_RUNS {
            return Ok(Some(vec![part(Confirmed::NotFound)]));
        }
        let is_more = match self.state.better {
            _ if hangs => true,
            _ => median(&mut bad.to_vec()) > median(&mut good.to_vec()),
        };
        let (confirmed, pair) = match self.again((before, after), hangs, is_more)? {
            Again::Answered(confirmed, pair) => (confirmed, pair),
            Again::Lost(lost) if lost != low && lost != high => {
                self.unusable.insert(lost);
                return Ok(None);
            }
            Again::Lost(_) => return Ok(Some(vec![part(Confirmed::NotFound)])),
        };
        let is_there = !matches!(confirmed, Confirmed::Measured(Confirmation::Refuted(_)));
        let works = [before, after].map(|revision| self.state.works.get(&revision));
        let confirmed = match works {
            [Some(old), Some(new)] if old != new && is_there => Confirmed::BenchmarkChanged,
            _ => confirmed,
        };
        let mut parts = Vec::new();
        if before > low && !hangs && self.differ(good, &pair.values[0]) {
            parts = self.search(low, before)?.1;
        }
        let own = parts.len();
        if after < high && !hangs && self.differ(&pair.values[1], bad) {
            parts.extend(self.search(after, high)?.1);
        }
        if is_there || parts.is_empty() {
            parts.insert(own, part(confirmed));
        }
        Ok(Some(parts))
    }

    /// Measures two revisions again, side by side.
    fn again(
        &mut self,
        (before, after): (usize, usize),
        hangs: bool,
        is_more: bool,
    ) -> Result<Again, Step> {
        let mut pair = Pair::default();
        loop {
            let outcomes = self.measured(Phase::Confirm, &[before, after])?;
            let lost = pair.add((before, after), &outcomes);
            if hangs && pair.blocks >= BLOCKS_OF_HANGING && pair.hangs() {
                return Ok(Again::Answered(Confirmed::Hangs, pair));
            }
            if let Some(lost) = lost {
                if hangs && pair.hangs() {
                    continue;
                }
                return Ok(Again::Lost(lost));
            }
            match confirm::confirm(&pair.runs, self.state.delta, is_more) {
                Ok(Some(confirmation)) => {
                    let confirmed = Confirmed::Measured(confirmation);
                    return Ok(Again::Answered(confirmed, pair));
                }
                Ok(None) => {}
                Err(_) => return Ok(Again::Lost(after)),
            }
        }
    }

    /// Whether two revisions measured at different times differ by what matters, which suggests
    /// another change between them. Only measuring both in common blocks can confirm it.
    fn differ(&self, old: &[f64], new: &[f64]) -> bool {
        let (Some(before), Some(after)) = (median(&mut old.to_vec()), median(&mut new.to_vec()))
        else {
            return false;
        };
        let delta = self.state.delta;
        let change = after / before - 1.0;
        let matters = change > delta || change < -delta / (1.0 + delta);
        matters && mann_whitney(old, new, Method::Auto).p <= ALPHA
    }

    /// Outcomes of the next block if it holds these revisions, else the missing step.
    fn measured(
        &mut self,
        phase: Phase,
        revisions: &[usize],
    ) -> Result<Vec<(usize, Outcome)>, Step> {
        let block = Block {
            number: self.block,
            first_slot: self.slot,
            revisions: revisions.to_vec(),
            phase,
        };
        let slots = block.first_slot..block.first_slot + block.runs();
        let done: Vec<_> = self.state.slots.range(slots).map(|(_, own)| *own).collect();
        if done.len() == block.runs() as usize {
            self.block += 1;
            self.slot += block.runs();
            return Ok(done);
        }
        let is_missing = |revision: &&usize| !self.state.built.contains(revision);
        Err(match revisions.iter().find(is_missing) {
            Some(&revision) => Step::Build(revision),
            None => Step::Measure(block),
        })
    }

    /// Value worse than any other, for a run that exceeds the time limit.
    fn worst(&self) -> f64 {
        match self.state.better {
            Better::Lower | Better::Unknown => f64::MAX,
            Better::Higher => f64::MIN_POSITIVE,
        }
    }
}
