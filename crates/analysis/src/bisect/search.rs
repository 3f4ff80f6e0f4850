//! Replays a search from its start over the runs measured so far, until a build or a run is
//! missing. Also reads the state of a search from a stored session.
//!
//! Decides which revisions to measure in a block, and when to begin the next phase. The phases
//! compare the first and the last revision (the ends), search between them, and confirm the result.
//! Start at [`replay_search`], then [`BisectReplay::search_range`].

use super::{
    BisectAnswer, BisectBlock, BisectFindings, BisectObservations, BisectOutcome, BisectPhase,
    BisectState, BisectStep, BisectedChange, ChangeConfirmation, EndsComparison,
};
use crate::confirm::{self, CONFIRMATION_ALPHA, ConfirmationResult};
use speedwell_model::{
    BisectionRange, FailureCause, Metric, MetricDirection, Session, SessionStep as FailedStep,
    StoppingDesign, median,
};
use speedwell_stats::BlockObservation;
use speedwell_stats::posterior::{PosteriorBins, RevisionPosterior};
use speedwell_stats::sequential::DEFAULT_DELTA;
use speedwell_stats::test::mann_whitney::{PValueMethod, mann_whitney};
use speedwell_stats::test::stratified::stratified_rank;
use std::collections::{BTreeMap, BTreeSet};

/// Number of blocks that compare the ends (the first and the last revision) before the search.
/// Together, they contain 16 runs of each end.
const END_BLOCKS: u32 = 8;

/// Minimum number of blocks before the second of two revisions is regarded as hanging
/// ([`RevisionPair::second_hangs`]).
const HANG_BLOCKS: u32 = 2;

/// Minimum probability with which the search must have located a change before it is confirmed.
const FOUND_PROBABILITY: f64 = 0.95;

/// Number of runs after which the search gives up.
const MAX_RUNS: u32 = 3000;

/// Returns the next step of the search.
pub fn next_step(state: &BisectObservations) -> BisectStep {
    replay_search(state).0
}

/// Returns the progress of the search.
pub fn bisect_state(state: &BisectObservations) -> BisectState {
    replay_search(state).1
}

/// Replays the search and returns the next step and the progress.
fn replay_search(state: &BisectObservations) -> (BisectStep, BisectState) {
    let mut replay = BisectReplay {
        state,
        block: 0,
        slot: 0,
        unusable: state.unbuildable.clone(),
        progress: BisectState { ends: None, set: (1..state.revisions).collect() },
    };
    let answer = replay.search_range(0, state.revisions - 1);
    let step = answer.map_or_else(|step| step, BisectStep::Answer);
    (step, replay.progress)
}

/// Position of the replay.
struct BisectReplay<'a> {
    state: &'a BisectObservations,
    /// Number of the next block; `slot` is its first slot.
    block: u32,
    slot: u32,
    /// Revisions that could not be built or run.
    unusable: BTreeSet<usize>,
    progress: BisectState,
}

/// Runs of two compared revisions.
#[derive(Default)]
struct RevisionPair {
    values: [Vec<f64>; 2],
    hung: [u32; 2],
    runs: Vec<BlockObservation>,
    blocks: u32,
}

impl RevisionPair {
    /// Adds a block of the two revisions. Returns the revision without a value in this block, if
    /// there is one.
    fn add_block(
        &mut self,
        (old, new): (usize, usize),
        outcomes: &[(usize, BisectOutcome)],
    ) -> Option<usize> {
        for &(revision, outcome) in outcomes {
            let side = usize::from(revision == new);
            match outcome {
                BisectOutcome::Value(value) => {
                    self.values[side].push(value);
                    // The test needs logarithms, so the smallest positive number stands for zero.
                    let value = value.max(f64::MIN_POSITIVE);
                    self.runs.push(match side {
                        0 => BlockObservation::baseline(value, self.blocks),
                        _ => BlockObservation::candidate(value, self.blocks),
                    });
                }
                BisectOutcome::Hung => self.hung[side] += 1,
                BisectOutcome::Failed => {}
            }
        }
        self.blocks += 1;
        let has_value = |revision: usize| {
            outcomes.iter().any(|(measured, outcome)| {
                *measured == revision && matches!(outcome, BisectOutcome::Value(_))
            })
        };
        [old, new].into_iter().find(|&revision| !has_value(revision))
    }

    /// Whether only the second revision exceeds the time limit: some of its runs exceeded the limit
    /// and none has a value, and no run of the first revision exceeded the limit.
    fn second_hangs(&self) -> bool {
        self.values[1].is_empty() && self.hung[1] > 0 && self.hung[0] == 0
    }
}

/// Result of measuring two revisions again. The error is a revision that does not run.
type RemeasuredPair = Result<(ChangeConfirmation, RevisionPair), usize>;

/// What the runs so far show, or the step that is needed to know it.
type Known<T> = Result<T, BisectStep>;

impl BisectReplay<'_> {
    /// Compares the revisions `low` and `high`, and finds the changes between them.
    fn search_range(&mut self, low: usize, high: usize) -> Known<BisectAnswer> {
        let (ends, pair) = self.compare_ends(low, high)?;
        if self.progress.ends.is_none() {
            self.progress.ends = Some(ends);
        }
        let parts = match ends {
            EndsComparison::Differ(_) | EndsComparison::Hangs => {
                self.find_changes((low, high), &ends, pair)?
            }
            _ => Vec::new(),
        };
        Ok(BisectAnswer { ends, parts })
    }

    /// Tests whether two revisions differ.
    fn compare_ends(&mut self, low: usize, high: usize) -> Known<(EndsComparison, RevisionPair)> {
        let mut pair = RevisionPair::default();
        while pair.blocks < END_BLOCKS {
            if let Some(&lost_end) = [low, high].iter().find(|end| self.unusable.contains(end)) {
                return Ok((EndsComparison::Unmeasurable(lost_end), pair));
            }
            let outcomes = self.block_outcomes(BisectPhase::Ends, &[low, high])?;
            let lost_end = pair.add_block((low, high), &outcomes);
            if pair.second_hangs() && pair.blocks >= HANG_BLOCKS {
                return Ok((EndsComparison::Hangs, pair));
            }
            if let Some(lost_end) = lost_end.filter(|_| !pair.second_hangs()) {
                return Ok((EndsComparison::Unmeasurable(lost_end), pair));
            }
        }
        let Ok(test) = stratified_rank(&pair.runs) else {
            return Ok((EndsComparison::Unmeasurable(high), pair));
        };
        let change = confirm::tested_change(&test, CONFIRMATION_ALPHA);
        let delta = self.state.delta;
        let matters = !change.lies_within(-delta / (1.0 + delta), delta);
        let ends = match (test.p <= CONFIRMATION_ALPHA, matters) {
            (true, true) => EndsComparison::Differ(change),
            (false, true) => EndsComparison::Unclear(change),
            (_, false) => EndsComparison::Alike(change),
        };
        Ok((ends, pair))
    }

    /// Finds the changes between two revisions that differ.
    fn find_changes(
        &mut self,
        (low, high): (usize, usize),
        ends: &EndsComparison,
        pair: RevisionPair,
    ) -> Known<Vec<BisectedChange>> {
        let [mut good, mut bad] = pair.values;
        let hangs = *ends == EndsComparison::Hangs;
        bad.extend((0..pair.hung[1]).map(|_| self.worst_value()));
        // Measured values of the revisions between the ends. Here, number 0 is the first revision
        // after the good end.
        let mut observed: Vec<(usize, f64)> = Vec::new();
        loop {
            let Some(bins) = PosteriorBins::new(&good, &bad) else { return Ok(Vec::new()) };
            let posterior = RevisionPosterior::new(high - low, &bins, &observed);
            let set: Vec<usize> = posterior
                .credible_set(FOUND_PROBABILITY)
                .into_iter()
                .map(|offset| low + 1 + offset)
                .collect();
            self.progress.set.clone_from(&set);
            let unusable = self.unusable.clone();
            let can_build = |offset: usize| !unusable.contains(&(low + 1 + offset));
            let answer = posterior.credible_answer(FOUND_PROBABILITY, can_build);
            let next = posterior.next_revision(can_build).filter(|_| self.slot < MAX_RUNS);
            let Some(next) = next.filter(|_| answer.is_none()) else {
                let suspects = answer.unwrap_or(0..=high - low - 1);
                let border = (low + suspects.start(), low + 1 + suspects.end());
                match self.confirm_change((low, high), border, (hangs, set), [&good, &bad])? {
                    Some(parts) => return Ok(parts),
                    None => continue,
                }
            };
            let middle = low + 1 + next;
            let outcomes = self.block_outcomes(BisectPhase::Search, &[low, middle, high])?;
            for (revision, outcome) in outcomes {
                let value = match outcome {
                    BisectOutcome::Value(value) => value,
                    BisectOutcome::Hung if hangs => self.worst_value(),
                    BisectOutcome::Hung | BisectOutcome::Failed => {
                        if revision == middle {
                            self.unusable.insert(middle);
                        }
                        continue;
                    }
                };
                match revision {
                    end if end == low => good.push(value),
                    end if end == high => bad.push(value),
                    _ => observed.push((next, value)),
                }
            }
        }
    }

    /// Confirms a change and searches for others before and after it. Returns `None` if one of the
    /// two revisions around the change does not run: the change must then be located without that
    /// revision.
    fn confirm_change(
        &mut self,
        (low, high): (usize, usize),
        (before, after): (usize, usize),
        (hangs, set): (bool, Vec<usize>),
        [good, bad]: [&[f64]; 2],
    ) -> Known<Option<Vec<BisectedChange>>> {
        let part = |confirmed| BisectedChange { before, after, set, confirmed };
        if self.slot >= MAX_RUNS {
            return Ok(Some(vec![part(ChangeConfirmation::NotFound)]));
        }
        let is_more = hangs || median(&mut bad.to_vec()) > median(&mut good.to_vec());
        let (confirmed, pair) = match self.remeasure_pair((before, after), hangs, is_more)? {
            Ok(remeasured) => remeasured,
            Err(lost) if lost != low && lost != high => {
                self.unusable.insert(lost);
                return Ok(None);
            }
            Err(_) => return Ok(Some(vec![part(ChangeConfirmation::NotFound)])),
        };
        let is_there =
            !matches!(confirmed, ChangeConfirmation::Measured(ConfirmationResult::Refuted(_)));
        let digests = [before, after].map(|revision| self.state.work_digests.get(&revision));
        let confirmed = match digests {
            [Some(old), Some(new)] if old != new && is_there => {
                ChangeConfirmation::BenchmarkChanged
            }
            _ => confirmed,
        };
        let mut parts = Vec::new();
        if before > low && !hangs && self.medians_differ(good, &pair.values[0]) {
            parts = self.search_range(low, before)?.parts;
        }
        let insert_index = parts.len();
        if after < high && !hangs && self.medians_differ(&pair.values[1], bad) {
            parts.extend(self.search_range(after, high)?.parts);
        }
        if is_there || parts.is_empty() {
            parts.insert(insert_index, part(confirmed));
        }
        Ok(Some(parts))
    }

    /// Measures two revisions again, in blocks that contain both.
    fn remeasure_pair(
        &mut self,
        (before, after): (usize, usize),
        hangs: bool,
        is_more: bool,
    ) -> Known<RemeasuredPair> {
        let mut pair = RevisionPair::default();
        loop {
            let outcomes = self.block_outcomes(BisectPhase::Confirm, &[before, after])?;
            let lost_revision = pair.add_block((before, after), &outcomes);
            if hangs && pair.blocks >= HANG_BLOCKS && pair.second_hangs() {
                return Ok(Ok((ChangeConfirmation::Hangs, pair)));
            }
            if let Some(lost_revision) = lost_revision {
                if hangs && pair.second_hangs() {
                    continue;
                }
                return Ok(Err(lost_revision));
            }
            match confirm::evaluate_confirmation(&pair.runs, self.state.delta, is_more) {
                Ok(Some(result)) => return Ok(Ok((ChangeConfirmation::Measured(result), pair))),
                Ok(None) => {}
                Err(_) => return Ok(Err(after)),
            }
        }
    }

    /// Whether two revisions measured at different times differ by an amount that matters. If so,
    /// there may be another change between them. Only measuring both revisions in common blocks can
    /// confirm that change.
    fn medians_differ(&self, old: &[f64], new: &[f64]) -> bool {
        let (Some(before), Some(after)) = (median(&mut old.to_vec()), median(&mut new.to_vec()))
        else {
            return false;
        };
        let delta = self.state.delta;
        let change = after / before - 1.0;
        let matters = change > delta || change < -delta / (1.0 + delta);
        matters && mann_whitney(old, new, PValueMethod::Auto).p <= CONFIRMATION_ALPHA
    }

    /// Returns the outcomes of the next block, in which these revisions are measured. If outcomes
    /// are missing, the error is the next step: to build a revision or to measure the block.
    fn block_outcomes(
        &mut self,
        phase: BisectPhase,
        revisions: &[usize],
    ) -> Known<Vec<(usize, BisectOutcome)>> {
        let block = BisectBlock {
            number: self.block,
            first_slot: self.slot,
            revisions: revisions.to_vec(),
            phase,
        };
        let slots = block.first_slot..block.first_slot + block.run_count();
        let outcomes: Vec<_> = self.state.slots.range(slots).map(|(_, outcome)| *outcome).collect();
        if outcomes.len() == block.run_count() as usize {
            self.block += 1;
            self.slot += block.run_count();
            return Ok(outcomes);
        }
        let is_missing = |revision: &&usize| !self.state.built.contains(revision);
        Err(match revisions.iter().find(is_missing) {
            Some(&revision) => BisectStep::Build(revision),
            None => BisectStep::Measure(block),
        })
    }

    /// Value worse than any other, for a run that exceeds the time limit.
    fn worst_value(&self) -> f64 {
        let is_lowest_worst = self.state.better == MetricDirection::Higher;
        if is_lowest_worst { f64::MIN_POSITIVE } else { f64::MAX }
    }
}

/// Analyzes a bisection session. Returns `None` for any other session.
pub fn analyze_bisection(session: &Session) -> Option<BisectFindings> {
    let bisection = session.design.bisection.clone()?;
    let state = BisectObservations::from_session(session, &bisection);
    let (step, standing) = replay_search(&state);
    Some(BisectFindings {
        metric: followed_metric(session, &bisection).cloned(),
        answer: match step {
            BisectStep::Answer(answer) => Some(answer),
            BisectStep::Build(_) | BisectStep::Measure(_) => None,
        },
        bisection,
        state,
        standing,
    })
}

impl BisectObservations {
    /// Collects what a session has recorded about the revisions of its search. `built` stays empty;
    /// the caller adds the revisions whose builds are ready.
    pub fn from_session(session: &Session, bisection: &BisectionRange) -> BisectObservations {
        let index_of_variant = |name: &str| {
            let variant = session.variants.iter().find(|variant| variant.name == name)?;
            let worktree = variant.worktree.as_ref()?;
            bisection.line.iter().position(|revision| revision.id == worktree.revision)
        };
        let metric = followed_metric(session, bisection);
        let mut slots: BTreeMap<u32, (usize, BisectOutcome)> = BTreeMap::new();
        let mut unbuildable = BTreeSet::new();
        for failure in &session.failures {
            let index = failure.variant.as_deref().and_then(index_of_variant);
            let Some(index) = index else { continue };
            if failure.step == FailedStep::Build {
                unbuildable.insert(index);
            } else if let Some(slot) = failure.slot {
                let outcome = match failure.cause {
                    FailureCause::Timeout { .. } => BisectOutcome::Hung,
                    _ => BisectOutcome::Failed,
                };
                slots.insert(slot, (index, outcome));
            }
        }
        for run in &session.runs {
            let value = metric
                .and_then(|metric| run.value_of(&metric.name))
                .filter(|value| value.is_finite() && *value >= 0.0);
            if let Some(index) = index_of_variant(&run.variant) {
                let outcome = value.map_or(BisectOutcome::Failed, BisectOutcome::Value);
                slots.insert(run.slot, (index, outcome));
            }
        }
        BisectObservations {
            revisions: bisection.line.len(),
            delta: match session.design.stopping {
                StoppingDesign::Sequential { delta, .. } => delta,
                StoppingDesign::Fixed { .. } => DEFAULT_DELTA,
            },
            better: metric.map_or(MetricDirection::Lower, |metric| metric.better),
            slots,
            built: BTreeSet::new(),
            unbuildable,
            work_digests: work_digests(session, bisection, index_of_variant),
        }
    }

    /// Values of a revision, in execution order.
    pub fn values_of_revision(&self, revision: usize) -> Vec<f64> {
        let value = |(measured, outcome): &(usize, BisectOutcome)| match outcome {
            BisectOutcome::Value(value) if *measured == revision => Some(*value),
            _ => None,
        };
        self.slots.values().filter_map(value).collect()
    }
}

/// Digest of the single benchmark's source in each revision.
fn work_digests(
    session: &Session,
    bisection: &BisectionRange,
    index_of: impl Fn(&str) -> Option<usize>,
) -> BTreeMap<usize, String> {
    if bisection.with_own_benchmarks {
        return BTreeMap::new();
    }
    let digests = session.variants.iter().filter_map(|variant| {
        // A variant of a bisection has exactly one benchmark.
        let work = variant.work.values().next()?;
        Some((index_of(&variant.name)?, work.clone()))
    });
    digests.collect()
}

/// Metric in which the search looks for a change.
fn followed_metric<'s>(session: &'s Session, bisection: &BisectionRange) -> Option<&'s Metric> {
    match &bisection.metric {
        Some(name) => session.metric(name),
        None => session.metrics.first(),
    }
}
