//! The Universal Scalability Law against `nls` of R 4.2.2; `usl.R` beside the golden file made it:
//! `Rscript usl.R > usl.tsv`.

use crate::{assert_close, golden};
use speedwell_stats::usl::{Parameter, Point, UslError, fit};

fn numbers(fields: &[&str]) -> Vec<f64> {
    let number = |field: &&str| field.parse().unwrap_or(f64::NAN);
    fields.iter().map(number).collect()
}

#[test]
fn curves_and_standard_errors_equal_those_of_r() {
    let golden = golden("usl.tsv");
    let mut points = Vec::new();
    let mut compared = 0;
    for line in golden.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let values = numbers(&fields[2..]);
        if fields[1] == "point" {
            points.push(Point {
                concurrency: values[0],
                throughput: values[1],
                weight: values[2],
            });
            continue;
        }
        let name = fields[0];
        let usl = fit(&points).unwrap();
        for (at, found) in [usl.lambda, usl.sigma, usl.kappa].iter().enumerate() {
            let (value, error) = (values[at], values[3 + at]);
            assert_close(found.value, value, 2e-6, &format!("{name}: parameter {at}"));
            match found.error {
                Some(found) => assert_close(found, error, 2e-6, &format!("{name}: error {at}")),
                None => assert!(error.is_nan() && value == 0.0, "{name}: {at}"),
            }
        }
        assert_close(usl.r_squared, values[6], 1e-9, name);
        points.clear();
        compared += 1;
    }
    assert_eq!(compared, 5);
}

fn points(of: impl Fn(f64) -> f64, levels: &[f64]) -> Vec<Point> {
    let point = |n: &f64| Point {
        concurrency: *n,
        throughput: of(*n),
        weight: 1.0,
    };
    levels.iter().map(point).collect()
}

const LEVELS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

#[test]
fn a_curve_without_noise_is_found_exactly_and_has_its_peak() {
    let usl = fit(&points(
        |n| 1000.0 * n / (1.0 + 0.02 * (n - 1.0) + 0.001 * n * (n - 1.0)),
        &LEVELS,
    ))
    .unwrap();
    assert_close(usl.sigma.value, 0.02, 1e-9, "sigma");
    assert_close(usl.kappa.value, 0.001, 1e-9, "kappa");
    assert_close(usl.peak(0.95).unwrap(), 980f64.sqrt(), 1e-9, "peak");
    assert_close(usl.at(1.0), 1000.0, 1e-9, "one worker");
}

#[test]
fn what_grows_without_end_has_no_peak() {
    let usl = fit(&points(|n| 50.0 * n, &LEVELS)).unwrap();
    assert_close(usl.lambda.value, 50.0, 1e-12, "lambda");
    assert!(usl.sigma.value < 1e-9 && usl.kappa.value < 1e-9);
    let saturating = fit(&points(|n| 50.0 * n / (1.0 + 0.1 * (n - 1.0)), &LEVELS)).unwrap();
    assert_close(saturating.sigma.value, 0.1, 1e-6, "sigma");
    assert_eq!(saturating.peak(0.95), None);
}

#[test]
fn data_that_do_not_follow_the_law_have_no_curve() {
    let few = fit(&points(|n| n, &LEVELS[..5]));
    assert_eq!(few, Err(UslError::TooFewLevels { levels: 5 }));
    let dead = fit(&points(|n| if n > 30.0 { 0.0 } else { n }, &LEVELS));
    assert_eq!(dead, Err(UslError::NotPositive));
    let saw = fit(&points(
        |n| if n.log2() % 2.0 == 0.0 { 900.0 } else { 300.0 },
        &LEVELS,
    ));
    assert!(
        matches!(saw, Err(UslError::Poor { r_squared }) if r_squared < 0.5),
        "{saw:?}"
    );
}

#[test]
fn a_parameter_at_its_bound_has_no_standard_error() {
    // Better than linear: no contention, no price of coherency.
    let usl = fit(&points(|n| n.powf(1.02), &LEVELS)).unwrap();
    let bound = Parameter {
        value: 0.0,
        error: None,
    };
    assert_eq!((usl.sigma, usl.kappa), (bound, bound));
}
