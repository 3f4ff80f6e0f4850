//! How evenly this machine works: the same piece of work, 200 times.

use super::{Check, State};
use speedwell_model::median;
use std::hint::black_box;
use std::time::Instant;

/// How often the piece of work is done.
const TIMES: usize = 200;
/// How long it takes, about.
const TARGET_NS: f64 = 1e6;

pub(super) fn check() -> Check {
    judge(&measure_ns())
}

/// Durations of equal work. It touches no memory and calls nothing, so that whatever varies is
/// the machine: frequency, interrupts, neighbours.
fn measure_ns() -> Vec<f64> {
    let time = |rounds: u64| {
        let begun = Instant::now();
        black_box(spin(black_box(rounds)));
        begun.elapsed().as_nanos() as f64
    };
    // The fastest of a few tries is the one least disturbed.
    const TRIAL: u64 = 100_000;
    let trial_ns = (0..10)
        .map(|_| time(TRIAL))
        .fold(f64::INFINITY, f64::min)
        .max(1.0);
    let rounds = (TARGET_NS / trial_ns * TRIAL as f64) as u64;
    (0..TIMES).map(|_| time(rounds)).collect()
}

/// A chain of multiplications of which each needs the result of the one before (the generator of
/// Knuth's MMIX), so that the processor cannot overlap or skip any.
fn spin(rounds: u64) -> u64 {
    let mut state = 1u64;
    for _ in 0..rounds {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
    }
    state
}

/// With a coefficient of variation of 1 % thirty runs a side detect a change of 0.7 %, with 5 %
/// one of 3.8 % (docs/why/statistics.md, "Power planning"): beyond that most comparisons end unclear.
fn judge(durations_ns: &[f64]) -> Check {
    let mut sorted = durations_ns.to_vec();
    let (Some(typical), Some(&fastest), Some(&slowest)) =
        (median(&mut sorted), sorted.first(), sorted.last())
    else {
        return Check::unknown("noise");
    };
    let count = durations_ns.len() as f64;
    let mean = durations_ns.iter().sum::<f64>() / count;
    let squares = durations_ns
        .iter()
        .map(|duration| (duration - mean).powi(2))
        .sum::<f64>();
    let variation_percent = (squares / (count - 1.0).max(1.0)).sqrt() / mean * 100.0;
    let state = match variation_percent {
        percent if percent > 5.0 => State::Bad,
        percent if percent > 1.0 => State::Warning,
        _ => State::Good,
    };
    let found = format!(
        "equal work of {:.2} ms varies by {variation_percent:.2} %, slowest/fastest {:.2}",
        typical / 1e6,
        slowest / fastest
    );
    Check::new("noise", state, found).remedy(
        "mend the other findings first; then pin the benchmark with --pin to quiet processors",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_the_coefficient_of_variation() {
        // Mean 1 ms, deviations of 20 us on either side: a standard deviation of 20.05 us.
        let uneven: Vec<f64> = (0..200)
            .map(|n| 1e6 + if n % 2 == 0 { 2e4 } else { -2e4 })
            .collect();
        let check = judge(&uneven);
        assert_eq!(check.state, State::Warning);
        assert_eq!(
            check.found,
            "equal work of 1.00 ms varies by 2.01 %, slowest/fastest 1.04"
        );
        assert_eq!(judge(&[1e6; 200]).state, State::Good);
        let mut wild = vec![1e6; 200];
        wild[3] = 5e6;
        assert_eq!(judge(&wild).state, State::Bad);
        assert_eq!(judge(&[]).state, State::Unknown);
    }

    #[test]
    fn the_work_takes_about_as_long_as_meant() {
        let durations = measure_ns();
        assert_eq!(durations.len(), TIMES);
        let fastest = durations.iter().copied().fold(f64::INFINITY, f64::min);
        // Half or double would be another measurement; a busy machine only makes it longer.
        assert!(
            (TARGET_NS / 3.0..TARGET_NS * 30.0).contains(&fastest),
            "{fastest} ns"
        );
    }
}
