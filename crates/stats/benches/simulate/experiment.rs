//! One simulated comparison: noise, run order, and the result of the tests.
//!
//! Decides the layout of an experiment (randomised blocks of four), and follows it through its
//! looks. Independent of reference figures. Start at [`simulate_blocks`].

use super::noise::{NoiseModel, SimulationRandom};
use speedwell_stats::sequential::{LookDecision, SequentialDesign, decide_at_look};
use speedwell_stats::test::{StratifiedRank, stratified_rank};
use speedwell_stats::{BlockObservation, Interval};

/// Blocks of two runs of either side in random order, with `change` added to the candidate.
pub fn simulate_blocks(
    model: &NoiseModel,
    runs: usize,
    change: f64,
    random: &mut SimulationRandom,
) -> Vec<BlockObservation> {
    let noise = (model.series)(random, 2 * runs);
    let effect = change.ln_1p();
    let mut observations = Vec::with_capacity(noise.len());
    for (block, slots) in (0u32..).zip(noise.chunks(4)) {
        let mut is_candidate = vec![false; slots.len()];
        is_candidate[slots.len() / 2..].fill(true);
        for place in (1..slots.len()).rev() {
            is_candidate.swap(place, random.below(place + 1));
        }
        observations.extend(slots.iter().zip(is_candidate).map(|(noise, is_candidate)| {
            if is_candidate {
                BlockObservation::candidate((noise + effect).exp(), block)
            } else {
                BlockObservation::baseline(noise.exp(), block)
            }
        }));
    }
    observations
}

/// The test of an experiment, which is always defined.
pub fn test_blocks(observations: &[BlockObservation]) -> StratifiedRank {
    match stratified_rank(observations) {
        Ok(test) => test,
        Err(error) => unreachable!("exponentials in blocks of both sides: {error}"),
    }
}

/// How a sequential comparison without equivalence stop ended.
pub struct BlockOutcome {
    /// Runs per side at the end.
    pub runs: usize,
    pub is_rejected: bool,
    /// Where the equivalence stop would have ended it, if earlier.
    pub equivalent_at: Option<usize>,
    /// Candidate over baseline at the end.
    pub ratio: f64,
    /// The ordinary 95% interval at the end, as if there had been only one look.
    pub naive: Interval,
    /// Whether the intervals of all looks up to the end, each with the limit of its look, contain
    /// the truth.
    pub repeated: bool,
}

/// Follows an experiment with the true ratio `truth` through the looks of `design`. Records the
/// equivalence stop without ending there, so that one run serves both kinds of design. After the
/// last look the sides also count as equivalent if the intersection of the intervals of all looks
/// lies within delta.
pub fn follow_looks(
    observations: &[BlockObservation],
    design: &SequentialDesign,
    delta: f64,
    truth: f64,
) -> BlockOutcome {
    let (mut equivalent_at, mut holds) = (None, true);
    let (mut is_below, mut is_above) = (false, false);
    let (highest, lowest) = (delta.ln_1p(), (-delta).ln_1p());
    for look in design.limits() {
        let seen = &observations[..2 * look.n];
        let delta = if equivalent_at.is_none() { delta } else { 0.0 };
        let Ok(decision) = decide_at_look(seen, look, delta) else {
            unreachable!("the values are exponentials and every block holds both sides");
        };
        let test = test_blocks(seen);
        holds &= test.test_shifted(truth.ln()).two_sided_p() > look.p_limit;
        let is_rejected = decision == LookDecision::Rejected;
        is_below |= test.test_shifted(highest).lower <= 0.5 * look.p_limit;
        is_above |= test.test_shifted(lowest).upper <= 0.5 * look.p_limit;
        let is_within = look.is_last && !is_rejected && is_below && is_above;
        if decision == LookDecision::Equivalent || is_within && equivalent_at.is_none() {
            equivalent_at = Some(look.n);
        }
        if is_rejected || look.is_last {
            return BlockOutcome {
                runs: look.n,
                is_rejected,
                equivalent_at,
                ratio: test.ratio(),
                naive: test.interval(0.95),
                repeated: holds,
            };
        }
    }
    unreachable!("a design ends with its last look")
}
