//! The stratified permutation rank test: against full enumeration, and what must not matter to it.

use crate::assert_close;
use speedwell_stats::test::mann_whitney::{Method, mann_whitney};
use speedwell_stats::test::{StratifiedError, StratifiedRank, stratified_rank};
use speedwell_stats::{Observation, Side};

/// Five blocks of four with drift and one tie.
const VALUES: [(f64, Side, u32); 20] = {
    use Side::{Baseline as A, Candidate as B};
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

fn five_blocks() -> Vec<Observation> {
    VALUES
        .map(|(value, side, block)| Observation { value, side, block })
        .to_vec()
}

fn tested(observations: &[Observation]) -> StratifiedRank {
    stratified_rank(observations).unwrap()
}

/// Values from a simple recurrence, so that every test below has its own stable data.
fn scattered(count: usize, salt: u64) -> Vec<f64> {
    let mut state = salt;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        100.0 + ((state >> 33) % 4096) as f64 / 256.0
    };
    (0..count).map(|_| next()).collect()
}

fn blocked(block_count: u32, sides: &[Side], salt: u64) -> Vec<Observation> {
    let values = scattered(block_count as usize * sides.len(), salt);
    let blocks = (0..block_count).flat_map(|block| sides.iter().map(move |side| (block, *side)));
    let observe = |((block, side), value)| Observation { value, side, block };
    blocks.zip(values).map(observe).collect()
}

const PAIRS: [Side; 4] = [
    Side::Baseline,
    Side::Candidate,
    Side::Baseline,
    Side::Candidate,
];

/// numpy and scipy 1.17.1 on the same data: `rankdata` of the logarithms, all 6^5 label arrangements, z by its formula
/// and 60 bisections for the ratios; the tails at 1.05, where 10.5 and 10.0 are tied, are those of R.
#[test]
fn five_blocks_give_the_figures_of_an_independent_program() {
    let test = tested(&five_blocks());
    assert!(test.is_exact);
    assert_eq!(test.n_per_side, 10);
    assert_close(test.p, 0.04166666666666666, 1e-12, "p");
    assert_close(test.z(), 1.993686309399383, 1e-12, "z");
    assert_close(test.ratio(), 1.029268979246467, 1e-11, "ratio");
    let interval = test.interval(0.95);
    assert_close(interval.low, 1.0, 1e-11, "low");
    assert_close(interval.high, 1.050505050505051, 1e-11, "high");
    let shifted = test.shifted(1.05f64.ln());
    assert_close(shifted.lower, 0.03870884773662552, 1e-12, "lower tail");
    assert_close(shifted.upper, 0.964_634_773_662_551_5, 1e-12, "upper tail");
}

/// Blocks of two and two from a formula, some of them with many ties.
fn formula(blocks: u32, modulus: u32, shift: f64) -> Vec<Observation> {
    let value = |i: u32| 100.0 + f64::from(i * 7919 % modulus) / 8.0 + f64::from(i / 4);
    (0..4 * blocks)
        .map(|i| match i % 4 {
            0 | 1 => Observation::baseline(value(i), i / 4),
            _ => Observation::candidate(value(i) + shift, i / 4),
        })
        .collect()
}

/// R 4.2.2, trying all arrangements: `rank(round(c(log(a), log(b) - theta), 10))`, sums of every choice of two ranks in
/// each block by `combn`, combined by `outer`; the tails are the shares at most and at least as large as the observed sum.
#[test]
fn tails_equal_those_of_all_arrangements_in_r() {
    let expected = [
        (
            7,
            101,
            3.0,
            0.0,
            0.992_312_528_577_960_7,
            0.008_276_891_860_996_8,
        ),
        (
            7,
            101,
            3.0,
            1.02,
            0.820_405_378_372_199_4,
            0.186_681_955_875_628_7,
        ),
        (
            8,
            101,
            0.0,
            0.0,
            0.694_102_699_664_685_3,
            0.313_530_592_706_904_4,
        ),
        (
            8,
            101,
            0.0,
            1.02,
            0.202_762_417_123_914,
            0.803_497_347_012_650_5,
        ),
        (
            8,
            13,
            1.0,
            0.0,
            0.999_889_260_402_387_7,
            0.000_256_606_271_909_769_9,
        ),
        (8, 13, 1.0, 1.02, 5.953_741_807_651_273e-7, 1.0),
        (7, 5, 2.0, 0.0, 1.0, 3.572_245_084_590_763e-6),
        (
            7,
            5,
            2.0,
            1.02,
            0.557_416_695_244_627_3,
            0.557_416_695_244_627_3,
        ),
    ];
    for (blocks, modulus, shift, ratio, lower, upper) in expected {
        let test = tested(&formula(blocks, modulus, shift));
        let theta = if ratio > 0.0 { f64::ln(ratio) } else { 0.0 };
        let tails = test.shifted(theta);
        let name = format!("{blocks} {modulus} {shift} {ratio}");
        assert_close(tails.lower, lower, 1e-12, &name);
        assert_close(tails.upper, upper, 1e-12, &name);
        assert_close(
            tails.both(),
            (2.0 * lower.min(upper)).min(1.0),
            1e-12,
            &name,
        );
    }
}

/// R 4.2.2: the outermost differences of logarithms beside which the test above does not reject.
#[test]
fn interval_ends_equal_those_found_in_r() {
    for (modulus, shift, confidence, low, high) in [
        (101, 3.0, 0.95, 1.005_482_456_140_217, 1.072_788_353_862_994),
        (13, 1.0, 0.99, 1.010_922_330_096_712, 1.015_892_420_538_201),
    ] {
        let interval = tested(&formula(6, modulus, shift)).interval(confidence);
        assert_close(interval.low, low, 1e-11, "low");
        assert_close(interval.high, high, 1e-11, "high");
    }
}

/// Twice as many rows as are ever compared, many with ties: the interval holds 1 exactly when the test does not reject,
/// and a ratio lies beyond an end exactly when the test of that ratio rejects.
#[test]
fn test_and_interval_never_disagree() {
    let mut rejected = 0;
    for salt in 0..2000u64 {
        let blocks = 4 + (salt % 13) as u32;
        let grain = if salt % 3 == 0 { 4.0 } else { 0.0 };
        let observations: Vec<Observation> = blocked(blocks, &PAIRS, salt)
            .into_iter()
            .map(|o| {
                let moved = o.value
                    + if o.side == Side::Candidate {
                        salt as f64 % 5.0
                    } else {
                        0.0
                    };
                let value = if grain > 0.0 {
                    (moved / grain).round() * grain
                } else {
                    moved
                };
                Observation { value, ..o }
            })
            .collect();
        let test = tested(&observations);
        let limit = [0.05, 0.01, 0.0312][salt as usize % 3];
        let interval = test.interval_at(limit);
        assert_eq!(
            test.p > limit,
            interval.contains(1.0),
            "{salt}: {} {interval:?}",
            test.p
        );
        rejected += u32::from(test.p <= limit);
        for ratio in [0.93, 0.97, 1.0123, 1.05] {
            let tails = test.shifted(f64::ln(ratio));
            let distance = (interval.low / ratio - 1.0)
                .abs()
                .min((interval.high / ratio - 1.0).abs());
            if distance > 1e-10 {
                assert_eq!(
                    tails.both() > limit,
                    interval.contains(ratio),
                    "{salt}: {ratio}"
                );
            }
        }
    }
    assert!((200..1800).contains(&rejected), "{rejected}");
}

/// Lowering the candidate can only raise the upper tail and lower the lower one.
#[test]
fn tails_are_monotone_in_the_shift() {
    for salt in 0..50 {
        let test = tested(&blocked(
            6,
            &[Side::Baseline, Side::Candidate, Side::Candidate],
            salt,
        ));
        let steps = (-300..300).map(|step| test.shifted(f64::from(step) * 1e-3));
        let tails: Vec<_> = steps.collect();
        assert!(
            tails
                .windows(2)
                .all(|two| two[0].upper <= two[1].upper + 1e-12)
        );
        assert!(
            tails
                .windows(2)
                .all(|two| two[0].lower >= two[1].lower - 1e-12)
        );
    }
}

/// Where the exact distribution costs too much, its normal approximation with a correction for continuity is taken. It
/// agrees with the exact one at the largest size that is still exact.
#[test]
fn the_normal_approximation_is_close_where_it_takes_over() {
    let copies = |count: u32, shift: f64| -> Vec<Observation> {
        let values = blocked(count, &PAIRS, 9);
        let moved = |o: &Observation| Observation {
            value: o.value
                + if o.side == Side::Candidate {
                    shift
                } else {
                    0.0
                },
            ..*o
        };
        values.iter().map(moved).collect()
    };
    let largest = (1..200)
        .rev()
        .find(|&count| tested(&copies(count, 0.0)).is_exact)
        .unwrap();
    assert!(largest >= 32, "64 runs a side are exact: {largest} blocks");
    for shift in [0.0, 1.0, 1.6, 2.2, 3.0] {
        let exact = tested(&copies(largest, shift)).p;
        let z = tested(&copies(largest, shift)).z();
        let by_z = speedwell_stats::distribution::normal::two_sided(z);
        // Far out the true tail is lighter than the normal one, so that the approximation errs on the safe side.
        let off = (by_z / exact).ln();
        assert!(
            (-0.03..0.03 + 0.05 * z * z).contains(&off),
            "{shift}: {exact} {by_z}"
        );
        let next = tested(&copies(largest + 1, shift));
        assert!(!next.is_exact);
        assert_eq!(next.p > 0.05, next.interval(0.95).contains(1.0));
    }
}

/// Share of label arrangements at least as extreme as the observed one, by trying all of them.
fn enumerated_p(observations: &[Observation]) -> f64 {
    let values: Vec<f64> = observations.iter().map(|o| o.value).collect();
    let ranks = speedwell_stats::rank::mid_ranks(&values);
    let last = observations.iter().map(|o| o.block).max().unwrap();
    let (mut sums, mut observed) = (vec![0.0], 0.0);
    for block in 0..=last {
        let members: Vec<usize> = (0..ranks.len())
            .filter(|&i| observations[i].block == block)
            .collect();
        let is_candidate = |i: &&usize| observations[**i].side == Side::Candidate;
        let candidates = members.iter().filter(is_candidate).count();
        observed += members
            .iter()
            .filter(is_candidate)
            .map(|&i| ranks[i])
            .sum::<f64>();
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
        sums = sums
            .iter()
            .flat_map(|a| chosen.iter().map(move |b| a + b))
            .collect();
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
    use Side::{Baseline as A, Candidate as B};
    let layouts: [(u32, &[Side]); 5] = [
        (6, &[A, B]),
        (3, &[A, B, B, A, A]),
        (4, &[B, A, A]),
        (2, &[A, B, A, B, A, B]),
        (1, &PAIRS),
    ];
    for (salt, (count, sides)) in (1..).zip(layouts) {
        let observations = blocked(count, sides, salt);
        let test = tested(&observations);
        assert!(test.is_exact, "{sides:?}");
        assert_close(
            test.p,
            enumerated_p(&observations),
            1e-12,
            &format!("{sides:?}"),
        );
    }
}

#[test]
fn one_large_block_is_the_unblocked_rank_test() {
    let observations: Vec<Observation> = blocked(20, &PAIRS[..2], 3)
        .iter()
        .map(|o| Observation { block: 9, ..*o })
        .collect();
    let of = |side| {
        let values = observations
            .iter()
            .filter(move |o| o.side == side)
            .map(|o| o.value);
        values.collect::<Vec<f64>>()
    };
    let exact = mann_whitney(&of(Side::Baseline), &of(Side::Candidate), Method::ExactTies).p;
    let test = tested(&observations);
    assert!(test.is_exact);
    assert_close(test.p, exact, 1e-9, "p");
}

#[test]
fn neither_unit_nor_order_nor_block_names_matter() {
    let plain = tested(&five_blocks());
    let mut changed: Vec<Observation> = five_blocks()
        .iter()
        .map(|o| Observation {
            value: o.value * 1024.0,
            block: 1000 - o.block,
            ..*o
        })
        .collect();
    changed.reverse();
    let changed = tested(&changed);
    assert_close(changed.p, plain.p, 1e-12, "p");
    assert_close(changed.ratio(), plain.ratio(), 1e-11, "ratio");
}

#[test]
fn swapping_the_sides_inverts_the_ratio_and_keeps_p() {
    let swapped: Vec<Observation> = five_blocks()
        .iter()
        .map(|o| match o.side {
            Side::Baseline => Observation::candidate(o.value, o.block),
            Side::Candidate => Observation::baseline(o.value, o.block),
        })
        .collect();
    let (forth, back) = (tested(&five_blocks()), tested(&swapped));
    assert_close(back.p, forth.p, 1e-12, "p");
    assert_close(back.ratio(), 1.0 / forth.ratio(), 1e-11, "ratio");
    let (forth, back) = (forth.interval(0.9), back.interval(0.9));
    assert_close(back.low, 1.0 / forth.high, 1e-11, "interval");
}

#[test]
fn a_factor_on_the_candidate_moves_ratio_and_interval_by_it() {
    for factor in [0.001, 0.5, 0.97, 1.6, 1e9] {
        let scale = |o: &Observation| match o.side {
            Side::Baseline => *o,
            Side::Candidate => Observation {
                value: o.value * factor,
                ..*o
            },
        };
        let scaled = tested(&five_blocks().iter().map(scale).collect::<Vec<_>>());
        let plain = tested(&five_blocks());
        assert_close(scaled.ratio(), factor * plain.ratio(), 1e-9, "ratio");
        let (moved, before) = (scaled.interval(0.95), plain.interval(0.95));
        assert_close(moved.low, factor * before.low, 1e-9, "low");
        assert_close(moved.high, factor * before.high, 1e-9, "high");
    }
}

#[test]
fn a_block_that_lost_one_side_is_left_out() {
    let mut observations = five_blocks();
    observations.push(Observation::baseline(500.0, 77));
    observations.push(Observation::candidate(0.001, 78));
    let test = tested(&observations);
    assert_eq!(test.n_per_side, 10);
    assert_close(test.p, tested(&five_blocks()).p, 1e-12, "p");
}

#[test]
fn one_block_cannot_bound_the_ratio_and_equal_values_say_one() {
    let interval = tested(&five_blocks()[..4]).interval(0.95);
    assert_eq!((interval.low, interval.high), (0.0, f64::INFINITY));
    let equal: Vec<Observation> = five_blocks()
        .iter()
        .map(|o| Observation { value: 3.0, ..*o })
        .collect();
    let test = tested(&equal);
    assert_eq!(test.p, 1.0);
    assert_close(test.ratio(), 1.0, 1e-11, "ratio");
    assert!(test.interval(0.95).half_width() < 1e-11);
}

#[test]
fn values_without_a_logarithm_and_sides_that_never_met_are_refused() {
    let mut observations = five_blocks();
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        observations[6].value = value;
        let refused = stratified_rank(&observations);
        assert_eq!(
            refused.err(),
            Some(StratifiedError::NotPositive { index: 6 })
        );
    }
    let apart = [
        Observation::baseline(1.0, 0),
        Observation::candidate(2.0, 1),
    ];
    let refused = stratified_rank(&apart);
    assert_eq!(refused.err(), Some(StratifiedError::NoBlock));
    assert!(stratified_rank(&[]).is_err());
}

#[test]
fn the_level_is_the_largest_p_value_that_the_ranks_allow() {
    // Every way to deal out the labels of four blocks has the same ranks, and its own p-value.
    let values = scattered(16, 5);
    let p_of = |arrangement: usize| {
        const PAIRS: [[usize; 2]; 6] = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];
        let observations: Vec<Observation> = (0..16)
            .map(|run| {
                let candidates = PAIRS[arrangement / 6usize.pow(run as u32 / 4) % 6];
                match candidates.contains(&(run % 4)) {
                    true => Observation::candidate(values[run], run as u32 / 4),
                    false => Observation::baseline(values[run], run as u32 / 4),
                }
            })
            .collect();
        tested(&observations)
    };
    let level = p_of(0).level(0.05);
    let rejected = (0..1296)
        .filter(|&arrangement| p_of(arrangement).p <= 0.05)
        .count();
    assert_close(level, rejected as f64 / 1296.0, 1e-12, "level");
    assert!(level > 0.03 && level <= 0.05, "{level}");
    let constant: Vec<Observation> = five_blocks()
        .into_iter()
        .map(|o| Observation { value: 1.0, ..o })
        .collect();
    assert_eq!(
        tested(&constant).level(0.05),
        0.0,
        "equal values never differ"
    );
}
