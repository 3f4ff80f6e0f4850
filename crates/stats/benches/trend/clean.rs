//! Series without a change: how many have a detected one.
//!
//! Decides what counts as an alarm. Start at [`run_clean`].

use super::check::{ToleranceCheck, average, percent, print_head, print_row};
use super::noise::{TrendNoise, TrendRandom, noisy_series};
use super::repeat::repeat_parallel;
use speedwell_stats::trend::{
    ChangeDetector, ChangeEvidence, ChangeShape, TrendSeries, first_beyond,
};

/// A kind of noise with reference figures: percent of series of 100 and of 1000 points with a found
/// change, and suspicions per 1000 points.
struct NoiseKind {
    name: &'static str,
    noise: TrendNoise,
    short: f64,
    long: f64,
    raised: f64,
}

const fn noise_kind(
    name: &'static str,
    noise: TrendNoise,
    short: f64,
    long: f64,
    raised: f64,
) -> NoiseKind {
    NoiseKind { name, noise, short, long, raised }
}

/// Figures of the reference implementation, on 4000 series of 100 and 1000 series of 1000 points
/// with other seeds.
const KINDS: [NoiseKind; 14] = [
    noise_kind("normal", TrendNoise::Normal, 0.1, 4.0, 7.7),
    noise_kind("lognormal", TrendNoise::Lognormal, 0.1, 3.9, 7.5),
    noise_kind("t, 2 degrees", TrendNoise::Student2, 0.1, 3.9, 7.4),
    noise_kind("spikes", TrendNoise::Spikes, 0.2, 3.5, 7.5),
    noise_kind("two layouts at random", TrendNoise::TwoLayouts, 0.1, 4.1, 7.6),
    noise_kind("3 machines, 0, 5, 12%", TrendNoise::ThreeMachines, 0.0, 0.8, 2.6),
    noise_kind("AR(.3)", TrendNoise::Dependent(0.3), 1.6, 7.4, 6.2),
    noise_kind("AR(.5)", TrendNoise::Dependent(0.5), 3.7, 8.8, 4.2),
    noise_kind("AR(.7)", TrendNoise::Dependent(0.7), 6.3, 10.8, 3.2),
    noise_kind("ties", TrendNoise::Ties, 0.1, 2.4, 5.6),
    noise_kind("noise falls to a third", TrendNoise::Calming, 1.1, 6.8, 9.2),
    noise_kind("another machine half-way", TrendNoise::MachineSwap, 0.0, 3.1, 7.3),
    noise_kind("drift of 5%", TrendNoise::Drift, 48.8, 39.2, 8.8),
    noise_kind("sticky layouts", TrendNoise::Sticky, 83.7, 100.0, 35.0),
];

/// Result of the search for one series.
struct CleanResult {
    found: usize,
    drifts: usize,
    raised: usize,
}

/// Prints the table.
pub fn run_clean(check: &mut ToleranceCheck, short: u64, long: u64) {
    print_head(
        &format!(
            "No change: series with a found change, % (reference), {short} series of 100 points, {long} of 1000; drifts found \
             per series; suspicions raised per 1000 points, in series of 1000"
        ),
        &["noise", "100 points", "1000 points", "drifts", "raised"],
    );
    for (kind, seed) in KINDS.iter().zip((7_000_000..).step_by(100_000)) {
        let (short, long) =
            (search_all(kind, 100, short, seed), search_all(kind, 1000, long, seed + 50_000));
        let mut cell = |what: &str, value: f64, reference: f64| {
            let place = format!("{}, {what}", kind.name);
            check.compare_cell(&place, value, reference, tolerance(kind))
        };
        let wrong = |said: &[CleanResult]| percent(said, |said| said.found > 0);
        let drifts = |said: &[CleanResult]| average(said, |said| said.drifts as f64);
        print_row(&[
            kind.name.into(),
            cell("100", wrong(&short), kind.short),
            cell("1000", wrong(&long), kind.long),
            format!("{:.2} / {:.2}", drifts(&short), drifts(&long)),
            cell("raised", average(&long, |said| said.raised as f64), kind.raised),
        ]);
    }
}

/// Counts points that look like the first of a new level: the newest of 41, beyond all others.
/// Reference: 20 000 points.
pub fn run_hints(check: &mut ToleranceCheck, repetitions: u64) {
    print_head(
        &format!(
            "A first point beyond the last 40, per 1000 points without a change ({repetitions} points)"
        ),
        &["noise", "hints"],
    );
    let kinds = [
        ("normal", TrendNoise::Normal, 1.1),
        ("two layouts at random", TrendNoise::TwoLayouts, 5.5),
        ("spikes", TrendNoise::Spikes, 20.0),
        ("lognormal", TrendNoise::Lognormal, 24.0),
        ("t, 2 degrees", TrendNoise::Student2, 30.0),
    ];
    for ((name, noise, reference), seed) in kinds.into_iter().zip((6_000_000..).step_by(100_000)) {
        let is_hint = repeat_parallel(repetitions, |repetition| {
            let points = noisy_series(noise, 41, 0.02, &mut TrendRandom::new(seed + repetition));
            TrendSeries::new(&points).is_ok_and(|series| first_beyond(&series).is_some())
        });
        let share = 10.0 * percent(&is_hint, |&is_hint| is_hint);
        print_row(&[
            name.into(),
            check.compare_cell(&format!("hints, {name}"), share, reference, 3.5),
        ]);
    }
}

/// The last two kinds carry no guarantee; the tolerance only detects regressions.
fn tolerance(kind: &NoiseKind) -> f64 {
    match kind.noise {
        TrendNoise::Drift | TrendNoise::Sticky => 6.0,
        _ => 2.0,
    }
}

fn search_all(kind: &NoiseKind, count: usize, repetitions: u64, seed: u64) -> Vec<CleanResult> {
    repeat_parallel(repetitions, |repetition| {
        let points =
            noisy_series(kind.noise, count, 0.02, &mut TrendRandom::new(seed + repetition));
        let Ok(series) = TrendSeries::new(&points) else {
            unreachable!("an exponential is positive")
        };
        let mut walk = ChangeDetector::default();
        walk.process_series(&series);
        let changes = walk.describe_changes(&series);
        let found = |shape: ChangeShape| {
            let those = changes.iter().filter(|change| change.shape == shape);
            those.filter(|change| change.evidence != ChangeEvidence::Suspected).count()
        };
        CleanResult {
            found: found(ChangeShape::Step),
            drifts: found(ChangeShape::Drift),
            raised: walk.raised,
        }
    })
}
