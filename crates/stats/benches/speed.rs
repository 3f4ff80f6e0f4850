//! Time per call of the tests on typical sizes: `cargo bench -p speedwell-stats --bench speed`.
//!
//! Prints the median of several rounds and the ratio to Welch's test. Without `--bench` (as under
//! `cargo test --benches`) it does one round of few calls and only shows that everything runs.

use speedwell_stats::changepoint::find_segments;
use speedwell_stats::describe::median;
use speedwell_stats::sequential::{SequentialDesign, decide_at_look};
use speedwell_stats::test::mann_whitney::{PValueMethod, hodges_lehmann, mann_whitney};
use speedwell_stats::test::{stratified_rank, welch};
use speedwell_stats::{BlockObservation, BlockSide, bootstrap};
use std::hint::black_box;
use std::time::Instant;

fn main() {
    let is_measuring = std::env::args().any(|argument| argument == "--bench");
    let mut bench = SpeedBench { rounds: if is_measuring { 9 } else { 1 }, reference_us: None };
    time_unblocked(&mut bench, 16);
    time_blocked(&mut bench, 16);
    time_large(&mut bench);
    change_points(&mut bench);
}

/// Long series of independent values: without a change, where plain PELT takes O(n²) time, and with
/// one.
fn change_points(bench: &mut SpeedBench) {
    let mut state = 1u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    let flat: Vec<f64> = (0..100_000).map(|_| noise()).collect();
    let steps: Vec<f64> = (0..100_000).map(|at| noise() + f64::from(at / 1000 % 2)).collect();
    let penalty = 15.0 * 100_000f64.ln();
    for (name, values, calls) in [
        ("change points, 2000 values, flat", &flat[..2000], 20),
        ("change points, 100 000 values, flat", &flat, 1),
        ("change points, 100 000 values, 99 steps", &steps, 1),
    ] {
        bench.time_call(name, calls, || find_segments(black_box(values), penalty, 5));
    }
}

/// Tests without blocks; Welch's comes first, as the reference.
fn time_unblocked(bench: &mut SpeedBench, count: u32) {
    let (a, b) = split_sides(&drifting_blocks(count));
    let (a, b) = (black_box(a.as_slice()), black_box(b.as_slice()));
    bench.time_call("Welch, 32 + 32", 20_000, || welch(a, b));
    for (name, method, calls) in [
        ("Mann-Whitney, asymptotic, 32 + 32", PValueMethod::Asymptotic, 5000),
        ("Mann-Whitney, exact, 32 + 32", PValueMethod::Exact, 500),
        ("Mann-Whitney, exact with ties, 32 + 32", PValueMethod::ExactTies, 50),
    ] {
        bench.time_call(name, calls, || mann_whitney(a, b, method));
    }
    bench.time_call("Hodges-Lehmann with interval, 32 + 32", 500, || hodges_lehmann(a, b, 0.95));
}

/// Cost of a comparison at the last look of the default design.
fn time_blocked(bench: &mut SpeedBench, count: u32) {
    let observations = drifting_blocks(count);
    let observations = black_box(observations.as_slice());
    let test = || stratified_rank(observations);
    bench.time_call("stratified rank, 32 + 32", 200, test);
    bench.time_call("stratified rank with interval, 32 + 32", 200, || {
        test().map(|test| test.interval(0.95))
    });
    let look = SequentialDesign::new(&[8, 14, 20, 26, 32], 0.05, 2.0).limits()[4];
    bench.time_call("decision at the last look, 32 + 32", 200, || {
        decide_at_look(observations, &look, 0.02)
    });
    let resampling = bootstrap::BootstrapOptions { draws: 10_000, confidence: 0.95, seed: 0 };
    bench.time_call("ratio of means, 10 000 resamples, 32 + 32", 20, || {
        bootstrap::ratio_of_means(observations, &resampling)
    });
    bench.time_call("a design of five looks", 20, || {
        SequentialDesign::new(black_box(&[8, 16, 24, 32, 40]), 0.05, 2.0)
    });
}

/// Sizes beyond any plan, to show how the cost grows.
fn time_large(bench: &mut SpeedBench) {
    let observations = drifting_blocks(500);
    let observations = black_box(observations.as_slice());
    let (a, b) = split_sides(observations);
    bench.time_call("Hodges-Lehmann with interval, 1000 + 1000", 20, || {
        hodges_lehmann(&a, &b, 0.95)
    });
    bench.time_call("stratified rank with interval, 1000 + 1000", 2, || {
        stratified_rank(observations).map(|test| test.interval(0.95))
    });
}

/// Prints times and remembers the first as the reference.
struct SpeedBench {
    rounds: usize,
    reference_us: Option<f64>,
}

impl SpeedBench {
    /// Prints the median time per call over the rounds, and its ratio to the reference.
    fn time_call<T>(&mut self, name: &str, calls: usize, mut task: impl FnMut() -> T) {
        let calls = if self.rounds == 1 { 1 } else { calls };
        let mut round = || {
            let start = Instant::now();
            for _ in 0..calls {
                black_box(task());
            }
            start.elapsed().as_secs_f64() * 1e6 / calls as f64
        };
        let times: Vec<f64> = (0..self.rounds).map(|_| round()).collect();
        let time_us = median(&times);
        let ratio = time_us / *self.reference_us.get_or_insert(time_us);
        println!("{name:<44} {time_us:>11.2} us   {ratio:>9.1} x Welch");
    }
}

/// Blocks of two runs per side with some drift and 2% of scatter.
fn drifting_blocks(count: u32) -> Vec<BlockObservation> {
    let value = |index: u32| {
        let scatter = f64::from(index.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24);
        100.0 + f64::from(index) * 1e-4 + 4.0 * scatter
    };
    (0..4 * count)
        .map(|index| match index % 2 {
            0 => BlockObservation::baseline(value(index), index / 4),
            _ => BlockObservation::candidate(1.005 * value(index), index / 4),
        })
        .collect()
}

fn split_sides(observations: &[BlockObservation]) -> (Vec<f64>, Vec<f64>) {
    let of = |side| {
        let values = observations.iter().filter(move |o| o.side == side).map(|o| o.value);
        values.collect()
    };
    (of(BlockSide::Baseline), of(BlockSide::Candidate))
}
