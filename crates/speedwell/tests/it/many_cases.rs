//! Many cases in one session: a change is found among them, and a gate on all of them can fail.

use super::project::{Answer, Project};
use std::fmt::Write;

/// Cases with 32 runs of every variant and a noise of about 1 %; `factor` is what a variant multiplies a case by.
fn fake(cases: usize, variants: &[&str], factor: impl Fn(&str, usize) -> f64) -> String {
    let mut state = 3u64;
    let mut noise = || {
        let step = |state: u64| {
            let next = state.wrapping_mul(6_364_136_223_846_793_005);
            next.wrapping_add(1_442_695_040_888_963_407)
        };
        // The sum of four uniform numbers is normal enough.
        let mut sum = -2.0;
        for _ in 0..4 {
            state = step(state);
            sum += (state >> 11) as f64 / (1u64 << 53) as f64;
        }
        0.017 * sum
    };
    let mut text = String::new();
    for case in 0..cases {
        let _ = writeln!(text, "case k={case}");
        for variant in variants {
            let _ = write!(text, "{variant}");
            for _ in 0..32 {
                let value = 1000.0 * factor(variant, case) * (1.0 + noise());
                let _ = write!(text, " {value:.6}");
            }
            text.push('\n');
        }
    }
    text
}

fn run(text: &str, variants: &[&str], words: &[&str]) -> Answer {
    let mut all: Vec<String> = ["run", "g/many.fake", "--seed", "4"]
        .map(String::from)
        .to_vec();
    for variant in variants {
        all.extend(["--variant".to_owned(), format!("{variant}=true")]);
    }
    all.extend(words.iter().map(|&word| word.to_owned()));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    Project::new().with("g/many.fake", text).run(&all)
}

const TWO: [&str; 2] = ["old", "new"];

/// Rows of the CSV that have this verdict.
fn count(answer: &Answer, verdict: &str) -> usize {
    let cell = format!(",{verdict},");
    let rows = answer.stdout.lines().filter(|line| line.contains(&cell));
    rows.count()
}

#[test]
fn a_gate_on_thirty_three_slower_cases_fails() {
    let slower = |variant: &str, _| if variant == "new" { 0.8 } else { 1.0 };
    let text = fake(33, &TWO, slower);
    let answer = run(&text, &TWO, &["--fail-on", "worse", "--format", "csv"]);
    assert_eq!(count(&answer, "worse"), 33, "{answer:#?}");
    assert_eq!(answer.status, 1, "{answer:#?}");
}

#[test]
fn a_hundred_cases_that_are_half_as_fast_fail_it_with_a_threshold_too() {
    let slower = |variant: &str, _| if variant == "new" { 0.5 } else { 1.0 };
    let text = fake(100, &TWO, slower);
    for words in [&[][..], &["--threshold", "5%"]] {
        let words = [&["--fail-on", "worse", "--format", "csv"], words].concat();
        let answer = run(&text, &TWO, &words);
        assert_eq!(count(&answer, "worse"), 100, "{answer:#?}");
        assert_eq!(answer.status, 1, "{answer:#?}");
    }
}

#[test]
fn one_slower_case_among_two_hundred_is_found() {
    let slower = |variant: &str, case| match (variant, case) {
        ("new", 77) => 0.9,
        _ => 1.0,
    };
    let text = fake(200, &TWO, slower);
    for words in [&["--fail-on", "worse"][..], &["--correct", "bh"]] {
        let answer = run(&text, &TWO, &[words, &["--format", "csv"]].concat());
        let found: Vec<&str> = answer
            .stdout
            .lines()
            .filter(|line| line.contains(",worse,"))
            .collect();
        assert!(found.len() == 1 && found[0].contains("k=77"), "{answer:#?}");
    }
}

#[test]
fn a_gate_on_many_candidates_fails() {
    let variants = ["base", "a", "b", "c", "d"];
    let slower = |variant: &str, _| if variant == "base" { 1.0 } else { 0.7 };
    let text = fake(10, &variants, slower);
    let answer = run(&text, &variants, &["--fail-on", "worse", "--format", "csv"]);
    assert_eq!(count(&answer, "worse"), 40, "{answer:#?}");
    assert_eq!(answer.status, 1);
}

#[test]
fn a_gate_on_many_unchanged_cases_passes() {
    let text = fake(100, &TWO, |_, _| 1.0);
    let answer = run(&text, &TWO, &["--fail-on", "worse", "--format", "csv"]);
    assert_eq!(
        (answer.status, count(&answer, "worse")),
        (0, 0),
        "{answer:#?}"
    );
    assert!(count(&answer, "same") > 90, "{answer:#?}");
}
