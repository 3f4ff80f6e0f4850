//! Variance components against numpy and scipy, on builds of three programs in 32 layouts (20 runs
//! each) and of two in 16 (12 runs each); and how often two sets of builds of the same source are
//! called different.

use crate::{assert_close, golden_file};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use serde_json::Value;
use speedwell_stats::BlockObservation;
use speedwell_stats::describe::mean;
use speedwell_stats::distribution::{chi_squared_upper_quantile, f_upper_quantile};
use speedwell_stats::test::stratified_rank;
use speedwell_stats::variance::variance_components;

/// Logarithms of the times of a recorded program, by build and run.
fn recorded_times(program: &str) -> Vec<Vec<f64>> {
    let text = golden_file(&format!("layout/{program}.csv"));
    let builds = text.lines().map(|line| {
        let runs = line.split(',').map(|ns| ns.parse::<f64>().unwrap().ln());
        runs.collect()
    });
    builds.collect()
}

#[test]
fn components_agree_with_numpy_and_their_intervals_with_scipy() {
    let golden: Value = serde_json::from_str(&golden_file("layout/components.json")).unwrap();
    for (program, wanted) in golden.as_object().unwrap() {
        let found = variance_components(&[recorded_times(program)], 0.95).unwrap();
        assert_eq!(wanted["builds"], found.groups);
        for (key, figure) in [
            ("between", found.between),
            ("within", found.within),
            ("low", found.interval.low),
            ("high", found.interval.high),
        ] {
            assert_close(figure, wanted[key].as_f64().unwrap(), 1e-9, &format!("{program} {key}"));
        }
    }
}

#[test]
fn quantiles_of_mean_squares_agree_with_r() {
    for line in golden_file("mean-squares.tsv").lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [tail, quantile] = [columns[1], columns[4]].map(|text| text.parse::<f64>().unwrap());
        let [above, below] = [columns[2], columns[3]].map(|text| text.parse::<u32>().unwrap());
        let found = match columns[0] {
            "f" => f_upper_quantile(tail, f64::from(above), f64::from(below)),
            _ => chi_squared_upper_quantile(tail, above),
        };
        assert_close(found, quantile, 1e-9, line);
    }
}

/// Compares two sides of the same source, each of this many builds with two runs. Returns the false
/// alarm rates with builds as units and with runs as units.
fn false_alarms(program: &str, builds: usize) -> (f64, f64) {
    const REPETITIONS: usize = 3_000;
    let all = recorded_times(program);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(builds as u64);
    let (mut by_builds, mut by_runs) = (0, 0);
    for _ in 0..REPETITIONS {
        let mut drawn: Vec<usize> = (0..all.len()).collect();
        drawn.sort_by_cached_key(|_| random.next_u64());
        let mut below = |bound: usize| random.next_u64() as usize % bound;
        let runs_of_build = all[0].len();
        let first = below(runs_of_build);
        let second = (first + 1 + below(runs_of_build - 1)) % runs_of_build;
        let (mut units, mut runs) = (Vec::new(), Vec::new());
        for (place, build) in drawn[..2 * builds].iter().enumerate() {
            let values = [all[*build][first], all[*build][second]];
            let block = (place / 4) as u32;
            let new = match place % 2 {
                0 => BlockObservation::baseline,
                _ => BlockObservation::candidate,
            };
            units.push(new(mean(&values).exp(), block));
            // Each run of a build is in a separate block, as if it were independent.
            let blocks = [2 * block, 2 * block + 1];
            runs.extend((values.iter().zip(blocks)).map(|(value, block)| new(value.exp(), block)));
        }
        by_builds += usize::from(stratified_rank(&units).unwrap().p <= 0.05);
        by_runs += usize::from(stratified_rank(&runs).unwrap().p <= 0.05);
    }
    let share = |count: usize| count as f64 / REPETITIONS as f64;
    (share(by_builds), share(by_runs))
}

#[test]
fn builds_as_units_keep_the_error_rate_and_runs_as_units_do_not() {
    for program in ["vm", "words", "rs"] {
        for builds in [8, 12, 16] {
            let (rate, of_runs) = false_alarms(program, builds);
            assert!((0.02..=0.07).contains(&rate), "{program}, {builds} builds: {rate}");
            // Where builds differ most, runs of one build are least independent.
            assert!(program != "rs" || of_runs > 0.1, "{builds} builds: {of_runs}");
        }
    }
}
