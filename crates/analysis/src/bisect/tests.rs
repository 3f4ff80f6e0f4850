//! Runs whole searches over simulated revisions. Checks their results and numbers of runs, and that
//! a search killed at any time resumes with the same result.

use super::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Simulated revisions: a level plus noise.
struct SimulatedLine {
    /// Level of each revision.
    levels: Vec<f64>,
    noise: f64,
    random: Xoshiro256PlusPlus,
    can_build: fn(usize) -> bool,
    /// Whether a revision exceeds the time limit.
    hangs: fn(usize) -> bool,
    /// What each revision's benchmark does.
    works: Vec<(usize, &'static str)>,
}

impl SimulatedLine {
    /// Creates a line of `revisions` revisions. Each change is a revision and the share by which
    /// the level grows from that revision on.
    fn new(revisions: usize, changes: &[(usize, f64)], seed: u64) -> SimulatedLine {
        let level = |at: usize| {
            let own = changes.iter().filter(|(first, _)| at >= *first);
            own.fold(100.0, |level, (_, share)| level * (1.0 + share))
        };
        SimulatedLine {
            levels: (0..revisions).map(level).collect(),
            noise: 0.01,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            can_build: |_| true,
            hangs: |_| false,
            works: Vec::new(),
        }
    }

    fn state(&self) -> BisectObservations {
        BisectObservations {
            revisions: self.levels.len(),
            delta: 0.02,
            better: MetricDirection::Lower,
            slots: BTreeMap::new(),
            built: BTreeSet::new(),
            unbuildable: BTreeSet::new(),
            work_digests: (self.works.iter()).map(|(at, work)| (*at, (*work).to_owned())).collect(),
        }
    }

    fn run_revision(&mut self, revision: usize) -> BisectOutcome {
        if (self.hangs)(revision) {
            return BisectOutcome::Hung;
        }
        // The sum of twelve uniform draws is close enough to normal.
        let noise: f64 = (0..12).map(|_| self.random.random::<f64>() - 0.5).sum();
        BisectOutcome::Value(self.levels[revision] * (1.0 + self.noise * noise))
    }

    /// Performs the steps of a search until it has an answer.
    fn run_search(&mut self) -> (BisectAnswer, BisectObservations) {
        let mut state = self.state();
        loop {
            match next_step(&state) {
                BisectStep::Build(revision) if (self.can_build)(revision) => {
                    state.built.insert(revision);
                }
                BisectStep::Build(revision) => {
                    state.unbuildable.insert(revision);
                }
                BisectStep::Measure(block) => {
                    for slot in 0..block.run_count() {
                        let revision = block.revisions[slot as usize % block.revisions.len()];
                        let outcome = self.run_revision(revision);
                        let place = block.first_slot + slot;
                        state.slots.insert(place, (revision, outcome));
                    }
                }
                BisectStep::Answer(answer) => return (answer, state),
            }
        }
    }
}

fn change_positions(answer: &BisectAnswer) -> Vec<(usize, usize)> {
    answer.parts.iter().map(|part| (part.before, part.after)).collect()
}

#[test]
fn the_changed_revision_is_found_if_every_fifth_fails_to_build() {
    for seed in 0..20 {
        let mut made = SimulatedLine::new(40, &[(23, 0.05)], seed);
        made.can_build = |revision| revision % 5 != 4 || revision == 39;
        let (answer, state) = made.run_search();
        assert!(answer.is_found(), "{answer:?}");
        assert_eq!(change_positions(&answer), [(22, 23)], "seed {seed}");
        let ChangeConfirmation::Measured(ConfirmationResult::Confirmed(change)) =
            answer.parts[0].confirmed
        else {
            panic!("{answer:?}");
        };
        assert!((change.value - 0.05).abs() < 0.02, "{change:?}");
        assert!(state.slots.len() < 200, "{} runs", state.slots.len());
    }
}

#[test]
fn a_change_among_unbuildable_revisions_is_found_as_a_range() {
    let mut made = SimulatedLine::new(20, &[(9, 0.1)], 5);
    made.can_build = |revision| !(8..=10).contains(&revision);
    let (answer, _) = made.run_search();
    assert_eq!(change_positions(&answer), [(7, 11)]);
    assert!(answer.is_found());
}

#[test]
fn a_search_that_is_killed_anywhere_comes_to_the_same_answer() {
    let (whole, state) = SimulatedLine::new(40, &[(23, 0.05)], 1).run_search();
    for kept in (0..state.slots.len() as u32).step_by(7) {
        let mut part = BisectObservations { built: BTreeSet::new(), ..state.clone() };
        part.slots.retain(|slot, _| *slot < kept);
        // Later runs are repeated and have the same values.
        let answer = loop {
            match next_step(&part) {
                BisectStep::Build(revision) => {
                    part.built.insert(revision);
                }
                BisectStep::Measure(block) => {
                    let slots = block.first_slot..block.first_slot + block.run_count();
                    let again = state.slots.range(slots).map(|(slot, own)| (*slot, *own));
                    part.slots.extend(again);
                }
                BisectStep::Answer(answer) => break answer,
            }
        };
        assert_eq!(answer, whole, "killed after {kept} runs");
    }
}

#[test]
fn ends_that_are_alike_are_not_searched() {
    let (answer, state) = SimulatedLine::new(40, &[], 3).run_search();
    assert!(matches!(answer.ends, EndsComparison::Alike(_)) && answer.parts.is_empty());
    assert_eq!(state.slots.len(), 32);
    assert!(!answer.is_found());
    // The change of 0.5% is real, but smaller than what matters.
    let mut small = SimulatedLine::new(40, &[(10, 0.005)], 3);
    small.noise = 0.0005;
    assert!(matches!(small.run_search().0.ends, EndsComparison::Alike(change) if change.low > 0.0));
}

#[test]
fn ends_are_unclear_if_noise_hides_their_difference() {
    let mut noisy = SimulatedLine::new(40, &[(10, 0.06)], 3);
    noisy.noise = 0.3;
    let (answer, _) = noisy.run_search();
    assert!(
        matches!(answer.ends, EndsComparison::Unclear(change) if change.low < 0.0 && change.high > 0.02),
        "{answer:?}"
    );
    assert!(!answer.is_found() && answer.parts.is_empty());
}

#[test]
fn a_change_of_the_benchmark_itself_is_found_and_not_confirmed() {
    let mut line = SimulatedLine::new(10, &[(5, 0.5)], 3);
    line.works = (0..10).map(|at| (at, if at < 5 { "one" } else { "two" })).collect();
    let (answer, _) = line.run_search();
    let parts: Vec<_> = answer.parts.iter().map(|part| (part.after, part.confirmed)).collect();
    assert_eq!(parts, [(5, ChangeConfirmation::BenchmarkChanged)]);
    assert!(!answer.is_found() && answer.has_changed_benchmark());
    // A later edit of the benchmark at another revision changes nothing.
    line.works = (0..10).map(|at| (at, if at < 7 { "one" } else { "two" })).collect();
    assert!(line.run_search().0.is_found());
}

#[test]
fn two_changes_in_one_history_are_both_found() {
    for (changes, seed) in [([(11, 0.03), (30, 0.06)], 2), ([(8, 0.05), (20, 0.05)], 4)] {
        let (answer, _) = SimulatedLine::new(40, &changes, seed).run_search();
        let expected = changes.map(|(first, _)| (first - 1, first));
        assert_eq!(change_positions(&answer), expected, "{answer:?}");
        assert!(answer.is_found());
    }
}

#[test]
fn a_hanging_revision_is_bad_only_if_just_the_bad_end_hangs() {
    let mut made = SimulatedLine::new(30, &[], 6);
    made.hangs = |revision| revision >= 12;
    let (answer, state) = made.run_search();
    assert_eq!((answer.ends, change_positions(&answer)), (EndsComparison::Hangs, vec![(11, 12)]));
    assert_eq!(answer.parts[0].confirmed, ChangeConfirmation::Hangs);
    let hung = state.slots.values().filter(|(_, outcome)| *outcome == BisectOutcome::Hung);
    assert!(hung.count() < 40, "each costs the time limit");

    let mut both = SimulatedLine::new(30, &[], 6);
    both.hangs = |_| true;
    assert_eq!(both.run_search().0.ends, EndsComparison::Unmeasurable(0));

    // A single hanging revision is skipped if the bad end does not hang.
    let mut odd = SimulatedLine::new(30, &[(12, 0.1)], 6);
    odd.hangs = |revision| revision == 11;
    let (answer, _) = odd.run_search();
    assert_eq!(change_positions(&answer), [(10, 12)]);
}

#[test]
fn changes_from_zero_and_to_zero_are_found() {
    for (good, bad, expected) in [(0.0, 3.0, f64::INFINITY), (3.0, 0.0, -1.0)] {
        let mut line = SimulatedLine::new(20, &[], 1);
        line.levels = (0..20).map(|at| if at < 13 { good } else { bad }).collect();
        line.noise = 0.0;
        let (answer, _) = line.run_search();
        assert_eq!(change_positions(&answer), [(12, 13)]);
        let ChangeConfirmation::Measured(ConfirmationResult::Confirmed(change)) =
            answer.parts[0].confirmed
        else {
            panic!("{answer:?}");
        };
        assert_eq!((change.value, change.low), (expected, expected));
        assert!(answer.is_found());
    }
}

#[test]
fn a_count_that_is_zero_in_every_revision_did_not_change() {
    let mut line = SimulatedLine::new(20, &[], 1);
    line.levels = vec![0.0; 20];
    let (answer, _) = line.run_search();
    assert!(matches!(answer.ends, EndsComparison::Alike(change) if change.value == 0.0));
}

#[test]
fn an_end_that_cannot_be_built_is_named() {
    let mut made = SimulatedLine::new(10, &[(5, 0.1)], 1);
    made.can_build = |revision| revision != 9;
    assert_eq!(made.run_search().0.ends, EndsComparison::Unmeasurable(9));
}

#[test]
fn two_neighbours_need_no_search() {
    let (answer, state) = SimulatedLine::new(2, &[(1, 0.05)], 1).run_search();
    assert_eq!(change_positions(&answer), [(0, 1)]);
    assert!(answer.is_found() && state.slots.len() <= 32 + 28);
}

#[test]
fn the_state_of_a_search_is_available_at_any_time() {
    let mut made = SimulatedLine::new(40, &[(23, 0.05)], 1);
    let mut state = made.state();
    assert_eq!(bisect_state(&state).set.len(), 39);
    let (_, all) = made.run_search();
    state.slots = all.slots.range(..32 + 12).map(|(k, v)| (*k, *v)).collect();
    let standing = bisect_state(&state);
    assert!(matches!(standing.ends, Some(EndsComparison::Differ(_))));
    assert!(standing.set.len() < 39 && standing.set.contains(&23), "{standing:?}");
}
