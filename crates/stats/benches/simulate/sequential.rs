//! The default sequential design: false positives, power, runs, and the bias of stopping early.
//!
//! Covers the sequential design; single tests are elsewhere.

use super::check::{ToleranceCheck, average, percent, print_head, print_row};
use super::experiment::{BlockOutcome, follow_looks, simulate_blocks};
use super::noise::{MODELS, NoiseModel, SimulationRandom};
use super::reference::{SEQUENTIAL, SequentialReference};
use super::repeat::repeat_parallel;
use speedwell_stats::sequential::{DEFAULT_DELTA, SequentialDesign};

/// Relative changes of the candidate, in the order of the reference.
const CHANGES: [f64; 5] = [0.0, 0.01, 0.02, 0.03, 0.05];

/// All simulated comparisons under one noise, by change.
struct NoiseStudy {
    model: &'static NoiseModel,
    courses: Vec<Vec<BlockOutcome>>,
}

/// Numbers of repetitions.
#[derive(Clone, Copy)]
pub struct RepetitionCounts {
    /// Without a change.
    pub equal: u64,
    /// For each change.
    pub changed: u64,
}

/// Runs all studies and prints their tables.
pub fn run_sequential(check: &mut ToleranceCheck, repetitions: RepetitionCounts) {
    let design = SequentialDesign::new(&[8, 14, 20, 26, 32], 0.05, 2.0);
    let studies: Vec<NoiseStudy> = (1000u64..)
        .step_by(CHANGES.len())
        .zip(&MODELS)
        .map(|(cell, model)| NoiseStudy {
            model,
            courses: simulate_all(model, &design, repetitions, cell),
        })
        .collect();
    false_positives(check, &studies);
    check_power(check, &studies);
    check_equivalence(check, &studies);
    check_bias(check, &studies);
}

fn simulate_all(
    model: &NoiseModel,
    design: &SequentialDesign,
    repetitions: RepetitionCounts,
    first_cell: u64,
) -> Vec<Vec<BlockOutcome>> {
    let cells = CHANGES.iter().zip(first_cell..);
    cells
        .map(|(&change, cell)| {
            let count = if change == 0.0 { repetitions.equal } else { repetitions.changed };
            repeat_parallel(count, |repetition| {
                let mut random = SimulationRandom::new(cell, repetition);
                let observations = simulate_blocks(model, design.max_runs(), change, &mut random);
                follow_looks(&observations, design, DEFAULT_DELTA, 1.0 + change)
            })
        })
        .collect()
}

fn find_reference(model: &NoiseModel) -> Option<&'static SequentialReference> {
    SEQUENTIAL.iter().find(|reference| reference.model == model.name)
}

/// Rejections must lie between 4 and 6%.
fn false_positives(check: &mut ToleranceCheck, studies: &[NoiseStudy]) {
    let repetitions = studies[0].courses[0].len();
    print_head(
        &format!("Default design, no change, no equivalence stop, {repetitions} repetitions"),
        &["noise", "false positives %", "reference", "runs per side", "reference"],
    );
    for NoiseStudy { model, courses } in studies {
        let rate = percent(&courses[0], |course| course.is_rejected);
        let runs = average(&courses[0], |course| course.runs as f64);
        let place = format!("design's false positives, {}", model.name);
        let known = find_reference(model).map(|reference| reference.rejections_and_runs[0]);
        let text = |number: Option<f64>| number.map_or("-".into(), |n| format!("{n:.1}"));
        print_row(&[
            model.name.into(),
            check.check_near(&place, rate, 5.0, 1.0),
            text(known.map(|known| known.0)),
            format!("{runs:.1}"),
            text(known.map(|known| known.1)),
        ]);
    }
}

/// Rejections must lie within 3 points of the reference, runs within 1.
fn check_power(check: &mut ToleranceCheck, studies: &[NoiseStudy]) {
    let repetitions = studies[0].courses[1].len();
    print_head(
        &format!(
            "Default design without equivalence stop, {repetitions} repetitions: rejections % \
             and runs per side (reference, difference)"
        ),
        &["noise", "1%", "2%", "3%", "5%"],
    );
    for NoiseStudy { model, courses } in studies {
        let mut cells = vec![model.name.to_owned()];
        for (index, courses) in courses.iter().enumerate().skip(1) {
            let rate = percent(courses, |course| course.is_rejected);
            let runs = average(courses, |course| course.runs as f64);
            let place = format!("design's power, {}, {}%", model.name, 100.0 * CHANGES[index]);
            cells.push(match find_reference(model).map(|r| r.rejections_and_runs[index]) {
                Some((known_rate, known_runs)) => format!(
                    "{} / {}",
                    check.compare_cell(&place, rate, known_rate, 3.0),
                    check.compare_cell(&format!("{place}, runs"), runs, known_runs, 1.0)
                ),
                None => format!("{rate:.1} / {runs:.1}"),
            });
        }
        print_row(&cells);
    }
}

/// At no change: within 3 points (declared equal), 2 points (rejections) and 1 run.
fn check_equivalence(check: &mut ToleranceCheck, studies: &[NoiseStudy]) {
    print_head(
        "Default design with equivalence stop at 2%: rejections % / declared equal % / runs per \
         side; at no change with (reference, difference)",
        &["noise", "0", "1%", "2%", "3%", "5%"],
    );
    for NoiseStudy { model, courses } in studies {
        let mut cells = vec![model.name.to_owned()];
        for (index, courses) in courses.iter().enumerate() {
            let rejected =
                |course: &BlockOutcome| course.is_rejected && course.equivalent_at.is_none();
            let rate = percent(courses, rejected);
            let equal = percent(courses, |course| course.equivalent_at.is_some());
            let runs = average(courses, |c| c.equivalent_at.unwrap_or(c.runs) as f64);
            let place = format!("equivalence stop, {}", model.name);
            cells.push(match find_reference(model) {
                Some(SequentialReference { equal: known, .. }) if index == 0 => format!(
                    "{} / {} / {}",
                    check.compare_cell(&format!("{place}, rejections"), rate, known.0, 2.0),
                    check.compare_cell(&format!("{place}, declared equal"), equal, known.2, 3.0),
                    check.compare_cell(&format!("{place}, runs"), runs, known.1, 1.0)
                ),
                _ => format!("{rate:.1} / {equal:.1} / {runs:.1}"),
            });
        }
        print_row(&cells);
    }
}

/// Bias of estimates and intervals when measuring stops at a rejection. The intersection of the
/// repeated intervals must contain the truth in 95% of comparisons, less three standard errors;
/// the rest has no reference.
fn check_bias(check: &mut ToleranceCheck, studies: &[NoiseStudy]) {
    print_head(
        "After stopping, no equivalence stop. Bias = mean of estimate / truth - 1 in points, over \
         all courses and over those that rejected before the last look; coverage % of the naive \
         95% interval and of what the repeated ones of all looks have in common, over all courses",
        &["noise", "change", "bias, all", "bias, early", "share early %", "naive", "repeated"],
    );
    for NoiseStudy { model, courses } in studies {
        for (change, courses) in CHANGES.iter().zip(courses) {
            let truth = 1.0 + change;
            let off = |course: &&BlockOutcome| 100.0 * (course.ratio / truth - 1.0);
            let all: Vec<&BlockOutcome> = courses.iter().collect();
            let early: Vec<&BlockOutcome> =
                courses.iter().filter(|course| course.runs < 32).collect();
            let least = 95.0 - 300.0 * (0.05 * 0.95 / all.len() as f64).sqrt();
            let holds = percent(courses, |course| course.repeated);
            let place = format!("repeated intervals, {}, {}%", model.name, 100.0 * change);
            print_row(&[
                model.name.into(),
                format!("{:.0}%", 100.0 * change),
                format!("{:+.2}", average(&all, off)),
                if early.is_empty() { "-".into() } else { format!("{:+.2}", average(&early, off)) },
                format!("{:.1}", 100.0 * early.len() as f64 / all.len() as f64),
                format!("{:.1}", percent(courses, |course| course.naive.contains(truth))),
                check.at_least(&place, holds, least),
            ]);
        }
    }
}
