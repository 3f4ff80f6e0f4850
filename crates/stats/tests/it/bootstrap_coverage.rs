//! Bootstrap intervals: place, width, and rejected input.

use crate::assert_close;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use speedwell_stats::BlockObservation;
use speedwell_stats::bootstrap::{BootstrapOptions, ratio_of_means, ratio_of_medians};
use speedwell_stats::distribution::normal;

const OPTIONS: BootstrapOptions = BootstrapOptions { draws: 10_000, confidence: 0.95, seed: 0 };

/// Blocks whose candidate is `ratio` times as slow, with noise of about 1%.
fn suite_member(blocks: u32, ratio: f64) -> Vec<BlockObservation> {
    let wobble = |index: u32| 1.0 + f64::from(index * 7919 % 31) / 1500.0;
    (0..blocks)
        .flat_map(|block| {
            [
                BlockObservation::baseline(50.0 * wobble(block), block),
                BlockObservation::candidate(50.0 * ratio * wobble(block + 100), block),
                BlockObservation::candidate(50.0 * ratio * wobble(block + 200), block),
                BlockObservation::baseline(50.0 * wobble(block + 300), block),
            ]
        })
        .collect()
}

#[test]
fn the_ratio_of_means_is_exact_and_its_interval_as_wide_as_theory_says() {
    let observations = suite_member(16, 1.1);
    let side = |is: fn(&&BlockObservation) -> bool| {
        let values: Vec<f64> = observations.iter().filter(is).map(|o| o.value).collect();
        (
            values.iter().sum::<f64>() / values.len() as f64,
            speedwell_stats::describe::variance(&values),
        )
    };
    let (a, var_a) = side(|o| o.side == speedwell_stats::BlockSide::Baseline);
    let (b, var_b) = side(|o| o.side == speedwell_stats::BlockSide::Candidate);
    let estimate = ratio_of_means(&observations, &OPTIONS).unwrap();
    assert_close(estimate.ratio, b / a, 1e-14, "ratio");
    assert!(estimate.interval.contains(b / a));
    assert_eq!(ratio_of_means(&observations, &OPTIONS), Some(estimate));
    // First order: relative variances of the two means add up; blocks here share no noise.
    let expected = 1.96 * b / a * ((var_a / (a * a) + var_b / (b * b)) / 32.0).sqrt();
    let half = estimate.interval.half_width();
    assert!((half / expected - 1.0).abs() < 0.35, "{half} instead of {expected}");
}

#[test]
fn blocks_without_both_sides_do_not_affect_a_ratio() {
    let mut observations = suite_member(6, 1.0);
    let before = ratio_of_means(&observations, &OPTIONS);
    observations.push(BlockObservation::baseline(1e9, 99));
    assert_eq!(ratio_of_means(&observations, &OPTIONS), before);
    assert_eq!(ratio_of_means(&observations[24..], &OPTIONS), None);
}

/// Blocks of four normally distributed values, as the differences of every two.
fn block_spreads(dice: &mut Xoshiro256PlusPlus, deviation: f64) -> Vec<Vec<f64>> {
    let mut value = || {
        let share = (dice.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        deviation * normal::quantile(share.max(1e-12))
    };
    let mut block = || {
        let four = [value(), value(), value(), value()];
        let pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
        pairs.map(|(one, other)| (four[one] - four[other]).abs()).to_vec()
    };
    (0..40).map(|_| block()).collect()
}

#[test]
fn the_interval_of_a_ratio_of_medians_has_its_nominal_coverage() {
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(3);
    let repetitions = 300;
    let mut covered = 0;
    for seed in 0..repetitions {
        let (before, after) = (block_spreads(&mut dice, 2.0), block_spreads(&mut dice, 1.0));
        let options = BootstrapOptions { draws: 400, seed, ..OPTIONS };
        let found = ratio_of_medians(&before, &after, &options).unwrap();
        covered += u32::from(found.interval.contains(0.5));
    }
    // Four standard deviations of a binomial count around 95%.
    let share = f64::from(covered) / repetitions as f64;
    assert!((0.90..=1.0).contains(&share), "{share}");
    assert!(covered < repetitions as u32, "it is no interval that holds everything");
    let none = ratio_of_medians(&[vec![0.0]], &[vec![1.0]], &OPTIONS);
    assert_eq!(none, None, "nothing differed");
    assert_eq!(ratio_of_medians(&[], &[vec![1.0]], &OPTIONS), None);
}
