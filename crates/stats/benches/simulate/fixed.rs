//! The fixed test with 30 runs per side: false positives, power, coverage.
//!
//! Covers the single test; the sequential designs are elsewhere.

use super::check::{ToleranceCheck, average, percent, print_head, print_row};
use super::experiment::{simulate_blocks, test_blocks};
use super::noise::{MODELS, NoiseModel, SimulationRandom};
use super::reference::{COVERAGE, FIXED_POWER};
use super::repeat::repeat_parallel;
use speedwell_stats::test::StratifiedRank;

const RUNS: usize = 30;

/// Repeats the test under `model`; `cell` selects the random numbers.
fn repeat_tests(
    model: &NoiseModel,
    change: f64,
    repetitions: u64,
    cell: u64,
) -> Vec<StratifiedRank> {
    repeat_parallel(repetitions, |repetition| {
        let mut random = SimulationRandom::new(cell, repetition);
        test_blocks(&simulate_blocks(model, RUNS, change, &mut random))
    })
}

/// False positives must lie between 4 and 6% under every noise.
pub fn check_false_positives(check: &mut ToleranceCheck, repetitions: u64) {
    print_head(
        &format!("False positives at 5%, n = {RUNS}, {repetitions} repetitions"),
        &["noise", "false positives %", "normal approximation %"],
    );
    for (cell, model) in (100..).zip(&MODELS) {
        let tests = repeat_tests(model, 0.0, repetitions, cell);
        let place = format!("false positives, {}", model.name);
        let rate = percent(&tests, |test| test.p <= 0.05);
        let by_z = percent(&tests, |test| test.z_score().abs() >= 1.959964);
        print_row(&[
            model.name.into(),
            check.check_near(&place, rate, 5.0, 1.0),
            format!("{by_z:.2}"),
        ]);
    }
}

/// Power must lie within 3 points of the reference.
pub fn check_power(check: &mut ToleranceCheck, repetitions: u64) {
    print_head(
        &format!("Power at a change of 1.5%, n = {RUNS}, {repetitions} repetitions"),
        &["noise", "power % (reference, difference)"],
    );
    for (cell, (name, reference)) in (200..).zip(FIXED_POWER) {
        let tests = repeat_tests(find_model(name), 0.015, repetitions, cell);
        let power = percent(&tests, |test| test.p <= 0.05);
        print_row(&[
            name.into(),
            check.compare_cell(&format!("power, {name}"), power, reference, 3.0),
        ]);
    }
}

/// Coverage must lie within 1.5 points of the reference, the width within 0.1 points.
pub fn check_coverage(check: &mut ToleranceCheck, repetitions: u64) {
    print_head(
        &format!("95% interval at a ratio of 1.02, n = {RUNS}, {repetitions} repetitions"),
        &["noise", "coverage % (reference, difference)", "width, points (reference)"],
    );
    for (cell, (name, reference, width)) in (300..).zip(COVERAGE) {
        let tests = repeat_tests(find_model(name), 0.02, repetitions, cell);
        let intervals: Vec<_> = tests.iter().map(|test| test.interval(0.95)).collect();
        let covered = percent(&intervals, |interval| interval.contains(1.02));
        let mean_width = 200.0 * average(&intervals, |interval| interval.half_width());
        let near = check.check_near(&format!("width, {name}"), mean_width, width, 0.1);
        let place = format!("coverage, {name}");
        let coverage = check.compare_cell(&place, covered, reference, 1.5);
        print_row(&[name.into(), coverage, format!("{near} ({width:.2})")]);
    }
}

/// Returns the model of a reference row.
pub fn find_model(name: &str) -> &'static NoiseModel {
    let model = MODELS.iter().find(|model| model.name == name);
    model.unwrap_or_else(|| panic!("no model is called {name}"))
}
