//! Limits of sequential designs against published and independently integrated values.

use crate::assert_close;
use speedwell_stats::BlockObservation;
use speedwell_stats::sequential::{LookDecision, SequentialDesign, decide_at_look};
use speedwell_stats::test::stratified_rank;

/// Rounds to `digits` decimals.
fn round_to(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[test]
fn the_default_design_has_the_specified_limits() {
    let expected = [
        (8, 0.003125, 0.00312, 2.955),
        (14, 0.00957, 0.00761, 2.669),
        (20, 0.01953, 0.01416, 2.453),
        (26, 0.03301, 0.02290, 2.275),
        (32, 0.05, 0.03401, 2.120),
    ];
    let design = SequentialDesign::new(&[8, 14, 20, 26, 32], 0.05, 2.0);
    assert_eq!(design.limits().len(), expected.len());
    for (look, (n, spent, p, z)) in design.limits().iter().zip(expected) {
        assert_eq!(look.n, n);
        assert!((look.cumulative_alpha - spent).abs() <= 5e-6, "{look:?}");
        // The first limit is .003125 itself, printed as .00312.
        assert!((look.p_limit - p).abs() <= 5.1e-6, "{look:?}");
        assert_eq!(round_to(look.z_limit, 3), z, "{look:?}");
    }
}

#[test]
fn a_longer_schedule_has_the_specified_limits() {
    let design = SequentialDesign::new(&[8, 16, 24, 32, 40], 0.05, 2.0);
    let z: Vec<f64> = design.limits().iter().map(|look| round_to(look.z_limit, 3)).collect();
    let p: Vec<f64> = design.limits().iter().map(|look| round_to(look.p_limit, 5)).collect();
    assert_eq!(z, [3.090, 2.714, 2.473, 2.280, 2.114]);
    assert_eq!(p, [0.00200, 0.00665, 0.01341, 0.02262, 0.03451]);
}

/// scipy 1.17.1: the probability that a multivariate normal vector with correlations
/// sqrt(t_i / t_j) stays within the limits, `multivariate_normal(cov=cov).cdf(z, lower_limit=-z,
/// abseps=1e-9, maxpts=2e7)`, solved for one limit after the other by `brentq`.
#[test]
fn limits_equal_those_from_the_joint_normal_distribution() {
    let cases: [(&[usize], f64, f64, &[f64]); 2] = [
        (&[6, 12, 30], 0.1, 1.0, &[2.32634787, 2.21929943, 1.79216978]),
        (&[10, 20, 30, 40], 0.01, 3.0, &[3.78091981, 3.25397479, 2.91898070, 2.65469337]),
    ];
    for (looks, alpha, rho, expected) in cases {
        let design = SequentialDesign::new(looks, alpha, rho);
        for (look, z) in design.limits().iter().zip(expected) {
            assert_close(look.z_limit, *z, 2e-6, &format!("look {}", look.n));
        }
    }
}

/// Two runs of each side per block, with a drift that both sides share.
fn drifting_blocks(count: u32, ratio: f64) -> Vec<BlockObservation> {
    let mut observations = Vec::new();
    for block in 0..count {
        for run in 0..2 {
            let wobble = |index: u32| 1.0 + f64::from(index % 11) / 1000.0;
            let drift = 1.0 + f64::from(block) / 100.0;
            let (a, b) = (wobble(block * 7 + run * 5), wobble(block * 5 + run * 3 + 4));
            observations.push(BlockObservation::baseline(drift * a, block));
            observations.push(BlockObservation::candidate(drift * ratio * b, block));
        }
    }
    observations
}

#[test]
fn a_large_change_stops_at_the_first_look_with_the_repeated_interval() {
    let look = SequentialDesign::new(&[8, 14, 20, 26, 32], 0.05, 2.0).look_at(8).unwrap();
    let observations = drifting_blocks(4, 1.2);
    assert_eq!(decide_at_look(&observations, &look, 0.02), Ok(LookDecision::Rejected));
    let test = stratified_rank(&observations).unwrap();
    let (ratio, interval) = (test.ratio(), test.interval_at(look.p_limit));
    assert!(test.p <= look.p_limit);
    assert!((ratio - 1.2).abs() < 0.02 && interval.contains(ratio) && interval.low > 1.0);
}

#[test]
fn equal_sides_stop_as_equivalent_unless_delta_is_zero() {
    let design = SequentialDesign::new(&[8, 14, 20, 26, 32], 0.05, 2.0);
    let (observations, look) = (drifting_blocks(16, 1.0), design.look_at(32).unwrap());
    assert_eq!(decide_at_look(&observations, &look, 0.02), Ok(LookDecision::Equivalent));
    assert_eq!(decide_at_look(&observations, &look, 0.0), Ok(LookDecision::GoOn));
}

#[test]
fn equal_sides_with_a_tiny_delta_continue_to_the_next_look() {
    let look = SequentialDesign::new(&[8, 14, 20, 26, 32], 0.05, 2.0).look_at(8).unwrap();
    let observations = drifting_blocks(4, 1.0);
    let decision = decide_at_look(&observations, &look, 0.0005);
    assert_eq!(decision, Ok(LookDecision::GoOn));
}
