//! The signed-rank design for pairs: false positives, power, pairs to a decision.
//!
//! Covers the design for pairs; blocks of runs are elsewhere. Start at [`run_pairs`].

use super::check::{ToleranceCheck, average, percent, print_head, print_row};
use super::noise::{
    MODELS, NoiseModel, SimulationRandom, cauchy_noise, laplace_noise, mixture_noise, normal_noise,
    student_2,
};
use super::paired::{PairOutcome, follow_pairs, pair_design, simulate_pairs};
use super::repeat::repeat_parallel;
use super::sequential::RepetitionCounts;
use speedwell_stats::sequential::SequentialDesign;

/// Relative changes of the candidate.
const CHANGES: [f64; 3] = [0.0, 0.02, 0.05];
/// Maximum false positives of a design for 5%, in percent: .3 points are 2.8 standard errors of
/// 40,000 repetitions.
const MOST: f64 = 5.3;

/// Shapes of noise, up to one without a mean.
const SHAPES: [NoiseModel; 5] = [
    NoiseModel { name: "normal", series: |random, slots| normal_noise(random, slots, 0.02) },
    NoiseModel { name: "Laplace", series: laplace_noise },
    NoiseModel { name: "t, 2 degrees", series: student_2 },
    NoiseModel { name: "Cauchy", series: cauchy_noise },
    NoiseModel { name: "mixture", series: mixture_noise },
];

/// Runs all parts and prints their tables.
pub fn run_pairs(check: &mut ToleranceCheck, repetitions: RepetitionCounts) {
    let RepetitionCounts { equal, changed } = repetitions;
    let design = pair_design();
    print_head(
        &format!(
            "Pairs, looks at 10, 14, 20, 26, 32: rejections % / pairs, {equal} repetitions without and {changed} with \
             a change; bias of the estimate at 2%"
        ),
        &["noise", "no change", "2%", "5%", "bias, points"],
    );
    for (cell, model) in (3000..).step_by(CHANGES.len()).zip(&MODELS) {
        let studied = CHANGES.iter().zip(cell..);
        let courses: Vec<Vec<PairOutcome>> = studied
            .map(|(&change, cell)| {
                let repetitions = if change == 0.0 { equal } else { changed };
                simulate_all(model, &design, change, repetitions, cell)
            })
            .collect();
        let rate = |at: usize| percent(&courses[at], |course| course.is_rejected);
        let mean = |at: usize| average(&courses[at], |course| course.pairs as f64);
        let bias = average(&courses[1], |course| 100.0 * (course.ratio / 1.02 - 1.0));
        print_row(&[
            model.name.into(),
            format!("{} / {:.1}", false_positives(check, model, rate(0)), mean(0)),
            format!("{:.1} / {:.1}", rate(1), mean(1)),
            format!("{:.1} / {:.1}", rate(2), mean(2)),
            format!("{bias:+.2}"),
        ]);
    }
    print_head(
        &format!("Pairs, no change, {equal} repetitions: shapes of the noise"),
        &["noise", "false positives %", "pairs"],
    );
    for (cell, model) in (3100..).zip(&SHAPES) {
        let courses = simulate_all(model, &design, 0.0, equal, cell);
        let rate = percent(&courses, |course| course.is_rejected);
        print_row(&[
            model.name.into(),
            false_positives(check, model, rate),
            format!("{:.1}", average(&courses, |course| course.pairs as f64)),
        ]);
    }
}

/// Requires at least 4%, as less would waste the error budget, and at most [`MOST`].
fn false_positives(check: &mut ToleranceCheck, model: &NoiseModel, rate: f64) -> String {
    let middle = 0.5 * (4.0 + MOST);
    let place = format!("pairs, false positives, {}", model.name);
    check.check_near(&place, rate, middle, MOST - middle)
}

fn simulate_all(
    model: &NoiseModel,
    design: &SequentialDesign,
    change: f64,
    repetitions: u64,
    cell: u64,
) -> Vec<PairOutcome> {
    repeat_parallel(repetitions, |repetition| {
        let mut random = SimulationRandom::new(cell, repetition);
        let pairs = simulate_pairs(model, design.max_runs(), change, &mut random);
        follow_pairs(&pairs, design)
    })
}
