//! A step at point 100: in how many series it is suspected and found, by number of points after it.
//!
//! A place within five points counts as correct. Start at [`run_steps`].

use super::check::{ToleranceCheck, average, percent, print_head, print_row};
use super::noise::{TrendNoise, TrendRandom, noisy_series, with_step};
use super::repeat::repeat_parallel;
use speedwell_stats::trend::{ChangeDetector, ChangeEvidence, TrendSeries, find_changes};

const STEP_AT: usize = 100;
const POINTS: usize = 200;
/// Numbers of points after the step.
const AFTER: [usize; 6] = [4, 8, 12, 20, 40, 100];

/// A step in some noise, with the percentages of the reference implementation on 1000 series with
/// other seeds.
struct StepCell {
    name: &'static str,
    noise: TrendNoise,
    deviation: f64,
    step: f64,
    suspected: [f64; 6],
    found: [f64; 6],
}

const fn step_cell(
    name: &'static str,
    noise: TrendNoise,
    deviation: f64,
    step: f64,
    suspected: [f64; 6],
    found: [f64; 6],
) -> StepCell {
    StepCell { name, noise, deviation, step, suspected, found }
}

#[rustfmt::skip]
const CELLS: [StepCell; 10] = [
    step_cell("normal 1%, 1%", TrendNoise::Normal, 0.01, 0.01, [9.0, 31.0, 44.0, 66.0, 78.0, 80.0], [0.0, 4.0, 8.0, 22.0, 56.0, 73.0]),
    step_cell("normal 1%, 2%", TrendNoise::Normal, 0.01, 0.02, [58.0, 94.0, 98.0, 98.0, 99.0, 99.0], [4.0, 61.0, 84.0, 97.0, 98.0, 98.0]),
    step_cell("normal 3%, 2%", TrendNoise::Normal, 0.03, 0.02, [2.0, 8.0, 14.0, 25.0, 40.0, 53.0], [0.0, 0.0, 1.0, 3.0, 10.0, 23.0]),
    step_cell("normal 3%, 5%", TrendNoise::Normal, 0.03, 0.05, [37.0, 82.0, 91.0, 96.0, 96.0, 96.0], [2.0, 32.0, 56.0, 85.0, 95.0, 95.0]),
    step_cell("normal 3%, 10%", TrendNoise::Normal, 0.03, 0.1, [96.0, 100.0, 100.0, 100.0, 100.0, 100.0], [41.0, 99.0, 100.0, 100.0, 100.0, 100.0]),
    step_cell("normal 10%, 5%", TrendNoise::Normal, 0.1, 0.05, [1.0, 2.0, 4.0, 10.0, 18.0, 30.0], [0.0, 0.0, 0.0, 0.0, 2.0, 6.0]),
    step_cell("normal 10%, 10%", TrendNoise::Normal, 0.1, 0.1, [8.0, 28.0, 41.0, 62.0, 75.0, 78.0], [0.0, 3.0, 6.0, 17.0, 50.0, 70.0]),
    step_cell("lognormal 3%, 5%", TrendNoise::Lognormal, 0.03, 0.05, [15.0, 68.0, 82.0, 92.0, 92.0, 93.0], [0.0, 4.0, 16.0, 65.0, 90.0, 91.0]),
    step_cell("spikes 3%, 10%", TrendNoise::Spikes, 0.03, 0.1, [90.0, 99.0, 100.0, 100.0, 100.0, 100.0], [10.0, 96.0, 99.0, 99.0, 100.0, 100.0]),
    step_cell("3 machines 3%, 5%", TrendNoise::ThreeMachines, 0.03, 0.05, [5.0, 61.0, 84.0, 95.0, 97.0, 97.0], [0.0, 1.0, 26.0, 81.0, 95.0, 96.0]),
];

/// Maximum difference of a percentage from the reference, in points.
const TOLERANCE: f64 = 6.0;

/// Result for one series.
struct StepResult {
    /// Points after the step when it was suspected and found in the correct place.
    suspected: Option<usize>,
    found: Option<usize>,
    ratio: Option<f64>,
    is_covered: bool,
    /// Whether a change was found in another place.
    elsewhere: bool,
}

/// Prints the tables.
pub fn run_steps(check: &mut ToleranceCheck, repetitions: u64) {
    print_head(
        &format!("A step at point 100, within 5 points, % of {repetitions} series (reference)"),
        &["noise, step", "", "k = 4", "8", "12", "20", "40", "100"],
    );
    let studied = CELLS.iter().zip((9_000_000..).step_by(100_000));
    let said: Vec<Vec<StepResult>> =
        studied.map(|(cell, seed)| search_all(cell, repetitions, seed)).collect();
    for (cell, said) in CELLS.iter().zip(&said) {
        for (name, reference, of) in [
            (
                "suspected",
                &cell.suspected,
                (|said| said.suspected) as fn(&StepResult) -> Option<usize>,
            ),
            ("found", &cell.found, |said| said.found),
        ] {
            let cells = AFTER.iter().zip(reference).map(|(&after, &reference)| {
                let place = format!("{}, {name} after {after}", cell.name);
                let share = percent(said, |said| of(said).is_some_and(|needed| needed <= after));
                check.compare_cell(&place, share, reference, TOLERANCE)
            });
            print_row(
                &[cell.name.into(), name.into()].into_iter().chain(cells).collect::<Vec<_>>(),
            );
        }
    }
    print_head(
        "The same: series with a change found elsewhere; size of the step that was found (median, %), and how often its \
         interval holds the true one",
        &["noise, step", "elsewhere %", "size", "held %"],
    );
    for (cell, said) in CELLS.iter().zip(&said) {
        let mut ratios: Vec<f64> = said.iter().filter_map(|said| said.ratio).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let sized: Vec<&StepResult> = said.iter().filter(|said| said.ratio.is_some()).collect();
        print_row(&[
            cell.name.into(),
            format!("{:.1}", percent(said, |said| said.elsewhere)),
            format!("{:.2}", 100.0 * (ratios[ratios.len() / 2] - 1.0)),
            format!("{:.1}", percent(&sized, |said| said.is_covered)),
        ]);
    }
    run_places(repetitions);
    run_smallest_visible(check, repetitions);
}

/// Counts how often a step of some multiples of the noise is placed exactly, also near an end.
fn run_places(repetitions: u64) {
    print_head(
        "A step in noise of 2%: placed exactly / within 2 points, % of the series in which it is found",
        &["noise", "step at", "3%", "6%", "10%", "20%"],
    );
    let kinds = [
        ("normal", TrendNoise::Normal),
        ("lognormal", TrendNoise::Lognormal),
        ("spikes", TrendNoise::Spikes),
        ("two layouts", TrendNoise::TwoLayouts),
        ("3 machines", TrendNoise::ThreeMachines),
        ("AR(.5)", TrendNoise::Dependent(0.5)),
    ];
    for (name, noise) in kinds {
        for (at, points) in [(12, 60), (45, 60), (100, 200)] {
            let cells = [0.03, 0.06, 0.1, 0.2].map(|step| {
                let misses = repeat_parallel(repetitions, |seed| {
                    let clean = noisy_series(noise, points, 0.02, &mut TrendRandom::new(seed));
                    let changes = find_changes(&with_step(clean, at, step)).ok()?;
                    changes.iter().map(|change| change.after.abs_diff(at)).min()
                });
                let misses: Vec<usize> =
                    misses.into_iter().flatten().filter(|miss| *miss <= 20).collect();
                let share = |limit: usize| percent(&misses, |miss| *miss <= limit);
                format!("{:.0} / {:.0}", share(0), share(2))
            });
            let head = [name.to_owned(), format!("{at} of {points}")];
            print_row(&head.into_iter().chain(cells).collect::<Vec<_>>());
        }
    }
}

fn search_all(cell: &StepCell, repetitions: u64, seed: u64) -> Vec<StepResult> {
    repeat_parallel(repetitions, |repetition| {
        let clean = noisy_series(
            cell.noise,
            POINTS,
            cell.deviation,
            &mut TrendRandom::new(seed + repetition),
        );
        let Ok(changes) = find_changes(&with_step(clean, STEP_AT, cell.step)) else {
            unreachable!("an exponential is positive")
        };
        let is_near = |place: usize| place.abs_diff(STEP_AT) <= 5;
        let right =
            changes.iter().filter(|change| is_near(change.after)).min_by_key(|change| change.seen);
        let found = right.and_then(|change| match change.evidence {
            ChangeEvidence::Found { seen } => Some(seen - STEP_AT),
            ChangeEvidence::Suspected => None,
        });
        let size = right.filter(|_| found.is_some()).map(|change| change.size);
        let mut elsewhere = changes.iter().filter(|change| !is_near(change.after));
        StepResult {
            suspected: right.map(|change| change.seen.saturating_sub(STEP_AT)),
            found,
            ratio: size.map(|size| size.ratio),
            is_covered: size.is_some_and(|size| size.interval.contains(1.0 + cell.step)),
            elsewhere: elsewhere.any(|change| change.evidence != ChangeEvidence::Suspected),
        }
    })
}

/// Simulates a step of the size that a clean series claims to show, and counts how often it does.
fn run_smallest_visible(check: &mut ToleranceCheck, repetitions: u64) {
    print_head(
        "A step of the smallest size that 100 points promise to show in about 80% of cases: suspected within 12 points, %",
        &["noise", "after 12", "20", "40", "100", "size after 20, %"],
    );
    let kinds = [
        ("normal", TrendNoise::Normal, 10.0),
        ("lognormal", TrendNoise::Lognormal, 15.0),
        ("3 machines", TrendNoise::ThreeMachines, 15.0),
        ("AR(.5)", TrendNoise::Dependent(0.5), 25.0),
    ];
    for ((name, noise, tolerance), seed) in kinds.into_iter().zip((9_900_000..).step_by(10_000)) {
        let mut cells = vec![name.to_owned()];
        let mut size = 0.0;
        for after in [12, 20, 40, 100] {
            let shown = repeat_parallel(repetitions, |repetition| {
                shows_smallest(noise, after, seed + repetition)
            });
            let shown: Vec<(f64, bool)> = shown.into_iter().flatten().collect();
            let place = format!("smallest visible, {name}, {after}");
            cells.push(check.check_near(&place, percent(&shown, |shown| shown.1), 80.0, tolerance));
            if after == 20 {
                size = 100.0 * (average(&shown, |shown| shown.0) - 1.0);
            }
        }
        cells.push(format!("{size:.2}"));
        print_row(&cells);
    }
}

/// The size that one series claims to show, and whether it does.
fn shows_smallest(noise: TrendNoise, after: usize, seed: u64) -> Option<(f64, bool)> {
    let clean = noisy_series(noise, STEP_AT + after, 0.02, &mut TrendRandom::new(seed));
    let before = TrendSeries::new(&clean[..STEP_AT]).ok()?;
    let mut walk = ChangeDetector::default();
    walk.process_series(&before);
    let ratio = walk.smallest_visible(&before, after)?;
    let changes = find_changes(&with_step(clean, STEP_AT, ratio - 1.0)).ok()?;
    Some((ratio, changes.iter().any(|change| change.after.abs_diff(STEP_AT) <= 12)))
}
