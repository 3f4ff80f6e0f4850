//! The stratified permutation rank test: against full enumeration, and its invariances.

use crate::assert_close;
use speedwell_stats::test::mann_whitney::{PValueMethod, mann_whitney};
use speedwell_stats::test::{StratifiedError, StratifiedRank, stratified_rank};
use speedwell_stats::{BlockObservation, BlockSide};

/// Five blocks of four with drift and one tie.
const VALUES: [(f64, BlockSide, u32); 20] = {
    use BlockSide::{Baseline as A, Candidate as B};
    [
        (10.1, A, 0),
        (10.6, B, 0),
        (10.3, A, 0),
        (10.4, B, 0),
        (11.0, B, 1),
        (10.2, A, 1),
        (10.9, B, 1),
        (10.7, A, 1),
        (9.9, A, 2),
        (10.5, B, 2),
        (10.8, A, 2),
        (10.4, B, 2),
        (12.0, B, 3),
        (11.1, A, 3),
        (11.2, A, 3),
        (11.6, B, 3),
        (10.0, A, 4),
        (10.0, B, 4),
        (10.3, B, 4),
        (10.2, A, 4),
    ]
};

fn five_blocks() -> Vec<BlockObservation> {
    VALUES.map(|(value, side, block)| BlockObservation { value, side, block }).to_vec()
}

pub fn test_blocks(observations: &[BlockObservation]) -> StratifiedRank {
    stratified_rank(observations).unwrap()
}

/// Values from a simple recurrence, so that every test below has its own reproducible data.
fn scattered_values(count: usize, salt: u64) -> Vec<f64> {
    let mut state = salt;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        100.0 + ((state >> 33) % 4096) as f64 / 256.0
    };
    (0..count).map(|_| next()).collect()
}

pub fn blocked(block_count: u32, sides: &[BlockSide], salt: u64) -> Vec<BlockObservation> {
    let values = scattered_values(block_count as usize * sides.len(), salt);
    let blocks = (0..block_count).flat_map(|block| sides.iter().map(move |side| (block, *side)));
    let observe = |((block, side), value)| BlockObservation { value, side, block };
    blocks.zip(values).map(observe).collect()
}

pub const PAIRS: [BlockSide; 4] =
    [BlockSide::Baseline, BlockSide::Candidate, BlockSide::Baseline, BlockSide::Candidate];

/// numpy and scipy 1.17.1 on the same data: `rankdata` of the logarithms, all 6^5 label
/// arrangements, z by its formula and 60 bisections for the ratios. The tails at 1.05, where 10.5
/// and 10.0 are tied, are from R.
#[test]
fn five_blocks_give_the_figures_of_an_independent_program() {
    let test = test_blocks(&five_blocks());
    assert!(test.is_exact);
    assert_eq!(test.n_per_side, 10);
    assert_close(test.p, 0.04166666666666666, 1e-12, "p");
    assert_close(test.z_score(), 1.993686309399383, 1e-12, "z");
    assert_close(test.ratio(), 1.029268979246467, 1e-11, "ratio");
    let interval = test.interval(0.95);
    assert_close(interval.low, 1.0, 1e-11, "low");
    assert_close(interval.high, 1.050505050505051, 1e-11, "high");
    let shifted = test.test_shifted(1.05f64.ln());
    assert_close(shifted.lower, 0.03870884773662552, 1e-12, "lower tail");
    assert_close(shifted.upper, 0.964_634_773_662_551_5, 1e-12, "upper tail");
}

/// Fraction of label arrangements at least as extreme as the observed one, by enumeration.
fn enumerated_p(observations: &[BlockObservation]) -> f64 {
    let values: Vec<f64> = observations.iter().map(|o| o.value).collect();
    let ranks = speedwell_stats::test::mid_ranks(&values);
    let last = observations.iter().map(|o| o.block).max().unwrap();
    let (mut sums, mut observed) = (vec![0.0], 0.0);
    for block in 0..=last {
        let members: Vec<usize> =
            (0..ranks.len()).filter(|&i| observations[i].block == block).collect();
        let is_candidate = |i: &&usize| observations[**i].side == BlockSide::Candidate;
        let candidates = members.iter().filter(is_candidate).count();
        observed += members.iter().filter(is_candidate).map(|&i| ranks[i]).sum::<f64>();
        let choices = (0u32..1 << members.len()).filter(|m| m.count_ones() as usize == candidates);
        let of_choice = |mask: u32| -> f64 {
            members
                .iter()
                .enumerate()
                .filter(|(k, _)| mask >> k & 1 == 1)
                .map(|(_, &i)| ranks[i])
                .sum()
        };
        let chosen: Vec<f64> = choices.map(of_choice).collect();
        sums = sums.iter().flat_map(|a| chosen.iter().map(move |b| a + b)).collect();
    }
    let share = |is_extreme: &dyn Fn(f64) -> bool| {
        sums.iter().filter(|&&sum| is_extreme(sum)).count() as f64 / sums.len() as f64
    };
    let lower = share(&|sum| sum <= observed + 1e-9);
    let upper = share(&|sum| sum >= observed - 1e-9);
    (2.0 * lower.min(upper)).min(1.0)
}

#[test]
fn blocks_of_any_size_and_balance_are_enumerated_exactly() {
    use BlockSide::{Baseline as A, Candidate as B};
    let layouts: [(u32, &[BlockSide]); 5] = [
        (6, &[A, B]),
        (3, &[A, B, B, A, A]),
        (4, &[B, A, A]),
        (2, &[A, B, A, B, A, B]),
        (1, &PAIRS),
    ];
    for (salt, (count, sides)) in (1..).zip(layouts) {
        let observations = blocked(count, sides, salt);
        let test = test_blocks(&observations);
        assert!(test.is_exact, "{sides:?}");
        assert_close(test.p, enumerated_p(&observations), 1e-12, &format!("{sides:?}"));
    }
}

#[test]
fn one_large_block_is_the_unblocked_rank_test() {
    let observations: Vec<BlockObservation> =
        blocked(20, &PAIRS[..2], 3).iter().map(|o| BlockObservation { block: 9, ..*o }).collect();
    let of = |side| {
        let values = observations.iter().filter(move |o| o.side == side).map(|o| o.value);
        values.collect::<Vec<f64>>()
    };
    let exact =
        mann_whitney(&of(BlockSide::Baseline), &of(BlockSide::Candidate), PValueMethod::ExactTies)
            .p;
    let test = test_blocks(&observations);
    assert!(test.is_exact);
    assert_close(test.p, exact, 1e-9, "p");
}

#[test]
fn neither_unit_nor_order_nor_block_names_matter() {
    let plain = test_blocks(&five_blocks());
    let mut changed: Vec<BlockObservation> = five_blocks()
        .iter()
        .map(|o| BlockObservation { value: o.value * 1024.0, block: 1000 - o.block, ..*o })
        .collect();
    changed.reverse();
    let changed = test_blocks(&changed);
    assert_close(changed.p, plain.p, 1e-12, "p");
    assert_close(changed.ratio(), plain.ratio(), 1e-11, "ratio");
}

#[test]
fn swapping_the_sides_inverts_the_ratio_and_keeps_p() {
    let swapped: Vec<BlockObservation> = five_blocks()
        .iter()
        .map(|o| match o.side {
            BlockSide::Baseline => BlockObservation::candidate(o.value, o.block),
            BlockSide::Candidate => BlockObservation::baseline(o.value, o.block),
        })
        .collect();
    let (forth, back) = (test_blocks(&five_blocks()), test_blocks(&swapped));
    assert_close(back.p, forth.p, 1e-12, "p");
    assert_close(back.ratio(), 1.0 / forth.ratio(), 1e-11, "ratio");
    let (forth, back) = (forth.interval(0.9), back.interval(0.9));
    assert_close(back.low, 1.0 / forth.high, 1e-11, "interval");
}

#[test]
fn scaling_the_candidate_scales_ratio_and_interval_equally() {
    for factor in [0.001, 0.5, 0.97, 1.6, 1e9] {
        let scale = |o: &BlockObservation| match o.side {
            BlockSide::Baseline => *o,
            BlockSide::Candidate => BlockObservation { value: o.value * factor, ..*o },
        };
        let scaled = test_blocks(&five_blocks().iter().map(scale).collect::<Vec<_>>());
        let plain = test_blocks(&five_blocks());
        assert_close(scaled.ratio(), factor * plain.ratio(), 1e-9, "ratio");
        let (moved, before) = (scaled.interval(0.95), plain.interval(0.95));
        assert_close(moved.low, factor * before.low, 1e-9, "low");
        assert_close(moved.high, factor * before.high, 1e-9, "high");
    }
}

#[test]
fn a_block_that_lost_one_side_is_left_out() {
    let mut observations = five_blocks();
    observations.push(BlockObservation::baseline(500.0, 77));
    observations.push(BlockObservation::candidate(0.001, 78));
    let test = test_blocks(&observations);
    assert_eq!(test.n_per_side, 10);
    assert_close(test.p, test_blocks(&five_blocks()).p, 1e-12, "p");
}

#[test]
fn one_block_leaves_the_ratio_unbounded_and_equal_values_give_one() {
    let interval = test_blocks(&five_blocks()[..4]).interval(0.95);
    assert_eq!((interval.low, interval.high), (0.0, f64::INFINITY));
    let equal: Vec<BlockObservation> =
        five_blocks().iter().map(|o| BlockObservation { value: 3.0, ..*o }).collect();
    let test = test_blocks(&equal);
    assert_eq!(test.p, 1.0);
    assert_close(test.ratio(), 1.0, 1e-11, "ratio");
    assert!(test.interval(0.95).half_width() < 1e-11);
}

#[test]
fn nonpositive_values_and_blocks_without_both_sides_are_refused() {
    let mut observations = five_blocks();
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        observations[6].value = value;
        let refused = stratified_rank(&observations);
        assert_eq!(refused.err(), Some(StratifiedError::NotPositive { index: 6 }));
    }
    let apart = [BlockObservation::baseline(1.0, 0), BlockObservation::candidate(2.0, 1)];
    let refused = stratified_rank(&apart);
    assert_eq!(refused.err(), Some(StratifiedError::NoBlock));
    assert!(stratified_rank(&[]).is_err());
}

#[test]
fn the_attained_level_is_the_share_of_rejected_arrangements() {
    // Every arrangement of the labels of four blocks has the same ranks, and its own p-value.
    let values = scattered_values(16, 5);
    let p_of = |arrangement: usize| {
        const PAIRS: [[usize; 2]; 6] = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];
        let observations: Vec<BlockObservation> = (0..16)
            .map(|run| {
                let candidates = PAIRS[arrangement / 6usize.pow(run as u32 / 4) % 6];
                if candidates.contains(&(run % 4)) {
                    BlockObservation::candidate(values[run], run as u32 / 4)
                } else {
                    BlockObservation::baseline(values[run], run as u32 / 4)
                }
            })
            .collect();
        test_blocks(&observations)
    };
    let level = p_of(0).attained_level(0.05);
    let rejected = (0..1296).filter(|&arrangement| p_of(arrangement).p <= 0.05).count();
    assert_close(level, rejected as f64 / 1296.0, 1e-12, "level");
    assert!(level > 0.03 && level <= 0.05, "{level}");
    let constant: Vec<BlockObservation> =
        five_blocks().into_iter().map(|o| BlockObservation { value: 1.0, ..o }).collect();
    assert_eq!(test_blocks(&constant).attained_level(0.05), 0.0, "equal values never differ");
}
