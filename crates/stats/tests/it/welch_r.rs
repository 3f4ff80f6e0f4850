//! Welch's test and Student's interval against R 4.2.2 on real, noisy benchmark results.
//!
//! The `.highprec.tsv` files hold `t.test(new, old)`, `qt` and `sd` printed with 17 digits.

use crate::{assert_close, golden_file};
use speedwell_stats::interval::mean_t;
use speedwell_stats::test::welch;
use std::collections::HashMap;

#[test]
fn welch_equals_t_test_for_every_case() {
    let sides = rates_by_side("compare-string_decoder.csv");
    let reference = golden_file("compare-string_decoder.highprec.tsv");
    assert_eq!(reference.lines().count(), 10);
    for line in reference.lines() {
        let (name, fields) = line.split_once('\t').unwrap();
        let expected: HashMap<&str, &str> =
            fields.split('\t').map(|field| field.split_once('=').unwrap()).collect();
        let of = |key: &str| expected[key].parse::<f64>().unwrap();
        let rates = |side: &str| &sides[&(side.to_owned(), name.to_owned())];
        let test = welch(rates("old"), rates("new")).unwrap();
        let figures = [
            (test.mean_baseline, "mu_old"),
            (test.mean_candidate, "mu_new"),
            (test.t, "t(new-old)"),
            (test.df, "df"),
            (test.p, "p"),
            (test.standard_error, "se"),
            (100.0 * (test.mean_candidate / test.mean_baseline - 1.0), "impr"),
            (100.0 * test.half_width(0.05) / test.mean_baseline, "acc95"),
            (100.0 * test.half_width(0.01) / test.mean_baseline, "acc99"),
            (100.0 * test.half_width(0.001) / test.mean_baseline, "acc999"),
        ];
        for (value, key) in figures {
            assert_close(value, of(key), 1e-11, &format!("{name}: {key}"));
        }
    }
}

#[test]
fn interval_of_the_mean_equals_that_of_r() {
    let mut groups: HashMap<(String, String), Vec<f64>> = HashMap::new();
    for line in golden_file("scatter.csv").lines().skip(1) {
        let fields: Vec<&str> = line.split(", ").map(|field| field.trim_matches('"')).collect();
        let key = (fields[2].to_owned(), fields[4].to_owned());
        groups.entry(key).or_default().push(fields[5].parse().unwrap());
    }
    let reference = golden_file("scatter.highprec.tsv");
    assert_eq!(reference.lines().count(), 7);
    for line in reference.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let values = &groups[&(fields[0].to_owned(), fields[1].to_owned())];
        assert_eq!(values.len(), fields[2].parse::<usize>().unwrap());
        let interval = mean_t(values, 0.95).unwrap();
        let centre = 0.5 * (interval.low + interval.high);
        assert_close(centre, fields[3].parse().unwrap(), 1e-12, line);
        assert_close(interval.half_width(), fields[4].parse().unwrap(), 1e-11, line);
    }
}

/// Rates by side and case name, from the columns binary, filename, configuration, rate, time.
fn rates_by_side(file: &str) -> HashMap<(String, String), Vec<f64>> {
    let mut sides: HashMap<(String, String), Vec<f64>> = HashMap::new();
    for line in golden_file(file).lines().skip(1) {
        let fields: Vec<&str> = line.split(',').map(|field| field.trim_matches('"')).collect();
        let key = (fields[0].to_owned(), format!("{} {}", fields[1], fields[2]));
        sides.entry(key).or_default().push(fields[3].parse().unwrap());
    }
    sides
}
