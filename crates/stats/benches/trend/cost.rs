//! Cost of the search, in processor time of its thread.
//!
//! Start at [`run_costs`].

use super::check::ToleranceCheck;
use super::noise::{TrendNoise, TrendRandom, noisy_series, with_step};
use speedwell_stats::trend::{ChangeDetector, MeasuredPoint, TrendSeries, find_changes};
use std::hint::black_box;

/// Goals: 1000 points in 10 ms, another point in 50 us.
const WHOLE_US: f64 = 10_000.0;
const APPEND_US: f64 = 50.0;

/// Prints the times of several kinds of series and checks them against the goals.
pub fn run_costs(check: &mut ToleranceCheck, rounds: u64) {
    println!("\nCost, processor time\n");
    for (name, noise) in [
        ("normal", TrendNoise::Normal),
        ("3 machines", TrendNoise::ThreeMachines),
        ("AR(.7)", TrendNoise::Dependent(0.7)),
    ] {
        let points = noisy_series(noise, 1000, 0.02, &mut TrendRandom::new(3));
        let points = with_step(with_step(points, 300, 0.05), 700, 0.03);
        black_box(find_changes(&points).ok());
        let whole = us_per_call(rounds, || {
            black_box(find_changes(&points).ok());
        });
        let append = append_us(&points, rounds);
        let place = |what: &str| format!("{what}, {name}");
        println!(
            "{name:<12} 1000 points {} us",
            check.at_most(&place("1000 points"), whole, WHOLE_US)
        );
        println!(
            "{name:<12} a new point {} us",
            check.at_most(&place("a new point"), append, APPEND_US)
        );
        let Ok(series) = TrendSeries::new(&points) else {
            continue;
        };
        let mut walk = ChangeDetector::default();
        walk.process_series(&series);
        let changes = us_per_call(10 * rounds, || {
            black_box(walk.describe_changes(&series));
        });
        println!(
            "{name:<12} {} changes placed and sized {changes:.1} us",
            walk.describe_changes(&series).len()
        );
    }
}

/// Mean time of continuing by one point, over the last 700.
fn append_us(points: &[MeasuredPoint], rounds: u64) -> f64 {
    let prefixes: Vec<TrendSeries> =
        (300..=points.len()).filter_map(|count| TrendSeries::new(&points[..count]).ok()).collect();
    let mut start = ChangeDetector::default();
    start.process_series(&prefixes[0]);
    let all = us_per_call(rounds, || {
        let mut walk = start.clone();
        prefixes[1..].iter().for_each(|series| walk.process_series(black_box(series)));
    });
    all / (prefixes.len() - 1) as f64
}

/// Mean processor time of a call. The kernel updates it at ticks, so single calls would be too
/// short to measure.
fn us_per_call(calls: u64, mut task: impl FnMut()) -> f64 {
    let start = thread_ns();
    (0..calls).for_each(|_| task());
    (thread_ns() - start) as f64 / 1000.0 / calls as f64
}

/// Processor time of this thread so far.
fn thread_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or_default()
}
