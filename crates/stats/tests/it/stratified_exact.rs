//! The exact distribution of the stratified rank test: against R, its own interval, and the normal
//! approximation.

use crate::assert_close;
use crate::stratified_properties::{PAIRS, blocked, test_blocks};
use speedwell_stats::{BlockObservation, BlockSide};

/// Blocks of two and two from a formula; some have many ties.
fn formula_blocks(blocks: u32, modulus: u32, shift: f64) -> Vec<BlockObservation> {
    let value = |i: u32| 100.0 + f64::from(i * 7919 % modulus) / 8.0 + f64::from(i / 4);
    (0..4 * blocks)
        .map(|i| match i % 4 {
            0 | 1 => BlockObservation::baseline(value(i), i / 4),
            _ => BlockObservation::candidate(value(i) + shift, i / 4),
        })
        .collect()
}

/// Blocks, modulus and shift of the formula, a ratio (0 for no shift), lower and upper tail.
#[rustfmt::skip]
const IN_R: [(u32, u32, f64, f64, f64, f64); 8] = [
    (7, 101, 3.0, 0.0, 0.992_312_528_577_960_7, 0.008_276_891_860_996_8),
    (7, 101, 3.0, 1.02, 0.820_405_378_372_199_4, 0.186_681_955_875_628_7),
    (8, 101, 0.0, 0.0, 0.694_102_699_664_685_3, 0.313_530_592_706_904_4),
    (8, 101, 0.0, 1.02, 0.202_762_417_123_914, 0.803_497_347_012_650_5),
    (8, 13, 1.0, 0.0, 0.999_889_260_402_387_7, 0.000_256_606_271_909_769_9),
    (8, 13, 1.0, 1.02, 5.953_741_807_651_273e-7, 1.0),
    (7, 5, 2.0, 0.0, 1.0, 3.572_245_084_590_763e-6),
    (7, 5, 2.0, 1.02, 0.557_416_695_244_627_3, 0.557_416_695_244_627_3),
];

/// R 4.2.2, trying all arrangements: `rank(round(c(log(a), log(b) - theta), 10))`, sums of every choice of two ranks in
/// each block by `combn`, combined by `outer`; the tails are the shares at most and at least as large as the observed sum.
#[test]
fn tails_equal_those_of_all_arrangements_in_r() {
    for (blocks, modulus, shift, ratio, lower, upper) in IN_R {
        let test = test_blocks(&formula_blocks(blocks, modulus, shift));
        let theta = if ratio > 0.0 { f64::ln(ratio) } else { 0.0 };
        let tails = test.test_shifted(theta);
        let name = format!("{blocks} {modulus} {shift} {ratio}");
        assert_close(tails.lower, lower, 1e-12, &name);
        assert_close(tails.upper, upper, 1e-12, &name);
        assert_close(tails.two_sided_p(), (2.0 * lower.min(upper)).min(1.0), 1e-12, &name);
    }
}

/// R 4.2.2: the outermost differences of logarithms next to which the test above does not reject.
#[test]
fn interval_ends_equal_those_found_in_r() {
    for (modulus, shift, confidence, low, high) in [
        (101, 3.0, 0.95, 1.005_482_456_140_217, 1.072_788_353_862_994),
        (13, 1.0, 0.99, 1.010_922_330_096_712, 1.015_892_420_538_201),
    ] {
        let interval = test_blocks(&formula_blocks(6, modulus, shift)).interval(confidence);
        assert_close(interval.low, low, 1e-11, "low");
        assert_close(interval.high, high, 1e-11, "high");
    }
}

/// Twice as many rows as are ever compared, many with ties: the interval contains 1 exactly when
/// the test does not reject, and a ratio lies beyond an end exactly when the test of that ratio
/// rejects.
#[test]
fn test_and_interval_never_disagree() {
    let mut rejected = 0;
    for salt in 0..2000u64 {
        let blocks = 4 + (salt % 13) as u32;
        let grain = if salt % 3 == 0 { 4.0 } else { 0.0 };
        let observations: Vec<BlockObservation> = blocked(blocks, &PAIRS, salt)
            .into_iter()
            .map(|o| {
                let moved =
                    o.value + if o.side == BlockSide::Candidate { salt as f64 % 5.0 } else { 0.0 };
                let value = if grain > 0.0 { (moved / grain).round() * grain } else { moved };
                BlockObservation { value, ..o }
            })
            .collect();
        let test = test_blocks(&observations);
        let limit = [0.05, 0.01, 0.0312][salt as usize % 3];
        let interval = test.interval_at(limit);
        assert_eq!(test.p > limit, interval.contains(1.0), "{salt}: {} {interval:?}", test.p);
        rejected += u32::from(test.p <= limit);
        for ratio in [0.93, 0.97, 1.0123, 1.05] {
            let tails = test.test_shifted(f64::ln(ratio));
            let distance =
                (interval.low / ratio - 1.0).abs().min((interval.high / ratio - 1.0).abs());
            if distance > 1e-10 {
                assert_eq!(
                    tails.two_sided_p() > limit,
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
        let test = test_blocks(&blocked(
            6,
            &[BlockSide::Baseline, BlockSide::Candidate, BlockSide::Candidate],
            salt,
        ));
        let steps = (-300..300).map(|step| test.test_shifted(f64::from(step) * 1e-3));
        let tails: Vec<_> = steps.collect();
        assert!(tails.windows(2).all(|two| two[0].upper <= two[1].upper + 1e-12));
        assert!(tails.windows(2).all(|two| two[0].lower >= two[1].lower - 1e-12));
    }
}

/// Beyond the affordable size the normal approximation with a continuity correction is used. It
/// agrees with the exact distribution at the largest size that is still exact.
#[test]
fn the_normal_approximation_is_close_where_it_takes_over() {
    let copies = |count: u32, shift: f64| -> Vec<BlockObservation> {
        let values = blocked(count, &PAIRS, 9);
        let moved = |o: &BlockObservation| BlockObservation {
            value: o.value + if o.side == BlockSide::Candidate { shift } else { 0.0 },
            ..*o
        };
        values.iter().map(moved).collect()
    };
    let largest = (1..200).rev().find(|&count| test_blocks(&copies(count, 0.0)).is_exact).unwrap();
    assert!(largest >= 32, "64 runs a side are exact: {largest} blocks");
    for shift in [0.0, 1.0, 1.6, 2.2, 3.0] {
        let exact = test_blocks(&copies(largest, shift)).p;
        let z = test_blocks(&copies(largest, shift)).z_score();
        let by_z = speedwell_stats::distribution::normal::two_sided(z);
        // Far out, the true tail is lighter than the normal one, so the approximation errs on the
        // safe side.
        let off = (by_z / exact).ln();
        assert!((-0.03..0.03 + 0.05 * z * z).contains(&off), "{shift}: {exact} {by_z}");
        let next = test_blocks(&copies(largest + 1, shift));
        assert!(!next.is_exact);
        assert_eq!(next.p > 0.05, next.interval(0.95).contains(1.0));
    }
}
