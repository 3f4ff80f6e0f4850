//! Series without a change: how many have a detected one.
//!
//! Decides what counts as an alarm. Start at [`study`].

use super::check::{Check, average, head, percent, row};
use super::noise::{Noise, Random, course};
use super::repeat::repeat;
use speedwell_stats::trend::{Evidence, Series, Shape, Walk, first_beyond};

/// A kind of noise with reference figures: percent of series of 100 and of 1000 points with a found
/// change, and suspicions per 1000 points.
struct Kind {
    name: &'static str,
    noise: Noise,
    short: f64,
    long: f64,
    raised: f64,
}

const fn kind(name: &'static str, noise: Noise, short: f64, long: f64, raised: f64) -> Kind {
    Kind {
        name,
        noise,
        short,
        long,
        raised,
    }
}

/// Figures of the reference implementation, on 4000 series of 100 and 1000 series of 1000 points
/// with other seeds.
const KINDS: [Kind; 14] = [
    kind("normal", Noise::Normal, 0.1, 4.0, 7.7),
    kind("lognormal", Noise::Lognormal, 0.1, 3.9, 7.5),
    kind("t, 2 degrees", Noise::Student2, 0.1, 3.9, 7.4),
    kind("spikes", Noise::Spikes, 0.2, 3.5, 7.5),
    kind("two layouts at random", Noise::TwoLayouts, 0.1, 4.1, 7.6),
    kind(
        "3 machines, 0, 5, 12 %",
        Noise::ThreeMachines,
        0.0,
        0.8,
        2.6,
    ),
    kind("AR(.3)", Noise::Dependent(0.3), 1.6, 7.4, 6.2),
    kind("AR(.5)", Noise::Dependent(0.5), 3.7, 8.8, 4.2),
    kind("AR(.7)", Noise::Dependent(0.7), 6.3, 10.8, 3.2),
    kind("ties", Noise::Ties, 0.1, 2.4, 5.6),
    kind("noise falls to a third", Noise::Calming, 1.1, 6.8, 9.2),
    kind(
        "another machine half-way",
        Noise::MachineSwap,
        0.0,
        3.1,
        7.3,
    ),
    kind("drift of 5 %", Noise::Drift, 48.8, 39.2, 8.8),
    kind("sticky layouts", Noise::Sticky, 83.7, 100.0, 35.0),
];

/// Result of the search for one series.
struct Said {
    found: usize,
    drifts: usize,
    raised: usize,
}

/// Prints the table.
pub fn study(check: &mut Check, short: u64, long: u64) {
    head(
        &format!(
            "No change: series with a found change, % (reference), {short} series of 100 points, {long} of 1000; drifts found \
             per series; suspicions raised per 1000 points, in series of 1000"
        ),
        &["noise", "100 points", "1000 points", "drifts", "raised"],
    );
    for (kind, seed) in KINDS.iter().zip((7_000_000..).step_by(100_000)) {
        let (short, long) = (
            said(kind, 100, short, seed),
            said(kind, 1000, long, seed + 50_000),
        );
        let mut cell = |what: &str, value: f64, reference: f64| {
            let place = format!("{}, {what}", kind.name);
            check.cell(&place, value, reference, tolerance(kind))
        };
        let wrong = |said: &[Said]| percent(said, |said| said.found > 0);
        let drifts = |said: &[Said]| average(said, |said| said.drifts as f64);
        row(&[
            kind.name.into(),
            cell("100", wrong(&short), kind.short),
            cell("1000", wrong(&long), kind.long),
            format!("{:.2} / {:.2}", drifts(&short), drifts(&long)),
            cell(
                "raised",
                average(&long, |said| said.raised as f64),
                kind.raised,
            ),
        ]);
    }
}

/// Counts points that look like the first of a new level: the newest of 41, beyond all others.
/// Reference: 20 000 points.
pub fn hints(check: &mut Check, repetitions: u64) {
    head(
        &format!(
            "A first point beyond the last 40, per 1000 points without a change ({repetitions} points)"
        ),
        &["noise", "hints"],
    );
    let kinds = [
        ("normal", Noise::Normal, 1.1),
        ("two layouts at random", Noise::TwoLayouts, 5.5),
        ("spikes", Noise::Spikes, 20.0),
        ("lognormal", Noise::Lognormal, 24.0),
        ("t, 2 degrees", Noise::Student2, 30.0),
    ];
    for ((name, noise, reference), seed) in kinds.into_iter().zip((6_000_000..).step_by(100_000)) {
        let is_hint = repeat(repetitions, |repetition| {
            let points = course(noise, 41, 0.02, &mut Random::new(seed + repetition));
            Series::new(&points).is_ok_and(|series| first_beyond(&series).is_some())
        });
        let share = 10.0 * percent(&is_hint, |&is_hint| is_hint);
        row(&[
            name.into(),
            check.cell(&format!("hints, {name}"), share, reference, 3.5),
        ]);
    }
}

/// The last two kinds carry no guarantee; the tolerance only detects regressions.
fn tolerance(kind: &Kind) -> f64 {
    match kind.noise {
        Noise::Drift | Noise::Sticky => 6.0,
        _ => 2.0,
    }
}

fn said(kind: &Kind, count: usize, repetitions: u64, seed: u64) -> Vec<Said> {
    repeat(repetitions, |repetition| {
        let points = course(kind.noise, count, 0.02, &mut Random::new(seed + repetition));
        let Ok(series) = Series::new(&points) else {
            unreachable!("an exponential is positive")
        };
        let mut walk = Walk::default();
        walk.go_on(&series);
        let changes = walk.changes(&series);
        let found = |shape: Shape| {
            let those = changes.iter().filter(|change| change.shape == shape);
            those
                .filter(|change| change.evidence != Evidence::Suspected)
                .count()
        };
        Said {
            found: found(Shape::Step),
            drifts: found(Shape::Drift),
            raised: walk.raised(),
        }
    })
}
