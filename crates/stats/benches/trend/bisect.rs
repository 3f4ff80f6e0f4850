//! Bisection: finds the first bad revision of a sequence by noisy runs.
//!
//! A run is a draw of noise, larger by the change from the first bad revision on. Start at
//! [`run_bisections`].

use super::check::{ToleranceCheck, average, percent, print_head, print_row};
use super::noise::TrendRandom;
use super::repeat::repeat_parallel;
use speedwell_stats::posterior::{PosteriorBins, RevisionPosterior};

/// Runs of each end before the search, and runs per block of either end and of the tested revision.
const FIRST: usize = 16;
const BLOCK: usize = 2;
/// Probability at which the search ends, and the maximum number of runs.
const LEVEL: f64 = 0.95;
const MOST_RUNS: usize = 3000;

/// Draws one run of noise with about unit deviation.
type NoiseDraw = fn(&mut TrendRandom) -> f64;

const NOISES: [(&str, NoiseDraw); 3] = [
    ("normal", |random| random.normal()),
    ("t, 2 degrees", |random| 0.6 * random.normal() / (-random.uniform().ln()).sqrt()),
    ("two-humped", |random| {
        0.5 * random.normal() + if random.uniform() < 0.35 { 2.5 } else { 0.0 }
    }),
];

/// Revisions, change relative to noise, and figures of an independent simulation (100 a cell): mean
/// runs under normal noise, and correct answers in percent for each noise.
const CELLS: [(usize, f64, f64, [f64; 3]); 9] = [
    (16, 1.0, 150.0, [88.0, 92.0, 94.0]),
    (16, 2.0, 75.0, [97.0, 98.0, 94.0]),
    (16, 4.0, 58.0, [100.0, 96.0, 98.0]),
    (64, 1.0, 202.0, [95.0, 89.0, 92.0]),
    (64, 2.0, 91.0, [99.0, 96.0, 96.0]),
    (64, 4.0, 70.0, [99.0, 100.0, 99.0]),
    (256, 1.0, 268.0, [96.0, 89.0, 94.0]),
    (256, 2.0, 107.0, [99.0, 95.0, 98.0]),
    (256, 4.0, 84.0, [100.0, 99.0, 100.0]),
];

/// Prints the table.
pub fn run_bisections(check: &mut ToleranceCheck, repetitions: u64) {
    print_head(
        &format!(
            "Bisecting: right answers, % (reference), and runs, {repetitions} searches a cell"
        ),
        &[
            "revisions, change / noise",
            "normal",
            "t, 2 degrees",
            "two-humped",
            "runs (normal)",
            "runs (others)",
        ],
    );
    for (&(revisions, change, runs, right), seed) in
        CELLS.iter().zip((4_000_000..).step_by(100_000))
    {
        let mut cells = vec![format!("{revisions}: {change}")];
        let mut means = Vec::new();
        for ((&(name, draw), reference), seed) in
            NOISES.iter().zip(right).zip((seed..).step_by(10_000))
        {
            let searches = repeat_parallel(repetitions, |repetition| {
                simulate_search(
                    revisions,
                    change,
                    draw,
                    1,
                    &mut TrendRandom::new(seed + repetition),
                )
            });
            let place = format!("{revisions} revisions, {change}, {name}");
            cells.push(check.compare_cell(
                &place,
                percent(&searches, |search| search.is_right),
                reference,
                6.0,
            ));
            means.push(average(&searches, |search| search.runs as f64));
        }
        let place = format!("{revisions} revisions, {change}, runs");
        cells.push(check.compare_cell(&place, means[0], runs, 0.12 * runs));
        cells.push(format!("{:.0}, {:.0}", means[1], means[2]));
        print_row(&cells);
    }
    run_unbuildable(check, repetitions);
}

/// Searches where every fifth revision cannot be built, so that the answer may be several.
fn run_unbuildable(check: &mut ToleranceCheck, repetitions: u64) {
    print_head(
        "Every fifth of 64 revisions cannot be built, normal noise",
        &["change / noise", "right %", "revisions in the answer", "runs"],
    );
    for (change, seed) in [1.0, 2.0, 4.0].into_iter().zip((5_000_000..).step_by(10_000)) {
        let draw: NoiseDraw = |random| random.normal();
        let searches = repeat_parallel(repetitions, |repetition| {
            simulate_search(64, change, draw, 5, &mut TrendRandom::new(seed + repetition))
        });
        print_row(&[
            format!("{change}"),
            check.at_least(
                &format!("unbuildable, {change}"),
                percent(&searches, |search| search.is_right),
                85.0,
            ),
            format!("{:.2}", average(&searches, |search| search.answered as f64)),
            format!("{:.0}", average(&searches, |search| search.runs as f64)),
        ]);
    }
}

/// How a search ended.
struct SearchResult {
    is_right: bool,
    answered: usize,
    runs: usize,
}

/// Simulates one search; one of `every` revisions cannot be built, none if it is 1.
fn simulate_search(
    revisions: usize,
    change: f64,
    draw: NoiseDraw,
    every: usize,
    random: &mut TrendRandom,
) -> SearchResult {
    let first_bad = random.below(revisions);
    let mut take = |is_bad: bool, count: usize| -> Vec<f64> {
        let shift = if is_bad { change } else { 0.0 };
        (0..count).map(|_| shift + draw(random)).collect()
    };
    let can_build = |revision: usize| every == 1 || revision % every != every - 1;
    let (mut good, mut bad, mut seen) = (take(false, FIRST), take(true, FIRST), Vec::new());
    let mut runs = 2 * FIRST;
    while let Some(bins) = PosteriorBins::new(&good, &bad).filter(|_| runs < MOST_RUNS) {
        let posterior = RevisionPosterior::new(revisions, &bins, &seen);
        if let Some(answer) = posterior.credible_answer(LEVEL, can_build) {
            let answered = answer.clone().count();
            return SearchResult { is_right: answer.contains(&first_bad), answered, runs };
        }
        let Some(next) = posterior.next_revision(can_build) else {
            break;
        };
        good.extend(take(false, BLOCK));
        bad.extend(take(true, BLOCK));
        seen.extend(take(next >= first_bad, BLOCK).into_iter().map(|value| (next, value)));
        runs += 3 * BLOCK;
    }
    SearchResult { is_right: false, answered: revisions, runs }
}
