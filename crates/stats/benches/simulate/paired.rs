//! One simulated comparison in pairs: noise, random assignment of sides, and the result of the
//! signed-rank test at each look.
//!
//! Decides the layout of pairs, and follows them through their looks. Independent of reference
//! figures. Start at [`simulate_pairs`].

use super::noise::{NoiseModel, SimulationRandom};
use speedwell_stats::sequential::SequentialDesign;
use speedwell_stats::test::signed_rank;

/// The design of `--order paired`. It starts with ten pairs, because eight could not reach the
/// limit of a first look.
pub fn pair_design() -> SequentialDesign {
    SequentialDesign::new(&[10, 14, 20, 26, 32], 0.05, 2.0)
}

/// Returns pairs of neighboring values, as baseline and candidate. The candidate is drawn at random
/// and has `change` added.
pub fn simulate_pairs(
    model: &NoiseModel,
    count: usize,
    change: f64,
    random: &mut SimulationRandom,
) -> Vec<(f64, f64)> {
    let noise = (model.series)(random, 2 * count);
    let effect = change.ln_1p();
    let drawn = noise.chunks_exact(2).map(|pair| {
        let candidate = random.below(2);
        (pair[1 - candidate].exp(), (pair[candidate] + effect).exp())
    });
    drawn.collect()
}

/// How a comparison in pairs ended.
pub struct PairOutcome {
    /// Pairs at the end.
    pub pairs: usize,
    pub is_rejected: bool,
    /// Candidate over baseline at the end.
    pub ratio: f64,
}

/// Follows pairs through the looks of `design`, up to the first that rejects.
pub fn follow_pairs(pairs: &[(f64, f64)], design: &SequentialDesign) -> PairOutcome {
    for look in design.limits() {
        let Ok(test) = signed_rank(&pairs[..look.n]) else {
            unreachable!("the values are exponentials");
        };
        let is_rejected = test.p <= look.p_limit;
        if is_rejected || look.is_last {
            return PairOutcome { pairs: look.n, is_rejected, ratio: test.ratio() };
        }
    }
    unreachable!("a design ends with its last look")
}
