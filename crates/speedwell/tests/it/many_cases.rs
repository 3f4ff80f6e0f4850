//! Many cases in one session: a change among them is found, and a gate on all of them can fail.

use super::project::{CommandResult, TempProject};
use std::fmt::Write;

/// Cases with 32 runs of every variant and noise of about 1%; `factor` scales a case under a
/// variant.
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

fn run(text: &str, variants: &[&str], words: &[&str]) -> CommandResult {
    let mut all: Vec<String> = ["run", "g/many.fake", "--seed", "4"].map(String::from).to_vec();
    for variant in variants {
        all.extend(["--variant".to_owned(), format!("{variant}=true")]);
    }
    all.extend(words.iter().map(|&word| word.to_owned()));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    TempProject::new().with("g/many.fake", text).run(&all)
}

const TWO: [&str; 2] = ["old", "new"];

/// Number of CSV rows with this verdict.
fn count(answer: &CommandResult, verdict: &str) -> usize {
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
fn a_gate_on_a_hundred_slower_cases_fails_with_and_without_threshold() {
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
        let found: Vec<&str> =
            answer.stdout.lines().filter(|line| line.contains(",worse,")).collect();
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
    assert_eq!((answer.status, count(&answer, "worse")), (0, 0), "{answer:#?}");
    assert!(count(&answer, "same") > 90, "{answer:#?}");
}

/// Runs of three metrics without any overlap of the sides, so that every p-value is the smallest
/// possible.
fn metrics(cases: usize, variants: &[&str]) -> String {
    let mut text = String::new();
    for case in 0..cases {
        let _ = writeln!(text, "case k={case}");
        for (number, variant) in variants.iter().enumerate() {
            let factor = if number == 0 { 1.0 } else { 0.8 };
            let _ = write!(text, "{variant}");
            for run in 0..32 {
                // No two runs are equal: equal ones are suspected to be copies.
                let wobble = f64::from(run * 21 % 32) + case as f64 / 100.0 + number as f64 / 9e4;
                let (rate, memory) = (factor * (1000.0 + wobble), (500.0 + wobble) / factor);
                let _ = write!(text, " {rate},memory={memory},files={}", 3.0 * memory);
            }
            text.push('\n');
        }
    }
    text
}

/// The cells of a CSV column.
fn column<'a>(answer: &'a CommandResult, name: &str) -> Vec<&'a str> {
    let mut lines = answer.stdout.lines();
    let head = lines.next().unwrap_or_default();
    let at = head.split(',').position(|cell| cell == name);
    let at = at.unwrap_or_else(|| panic!("no column '{name}' in {head}"));
    lines.map(|line| line.split(',').nth(at).unwrap_or_default()).collect()
}

/// Compares `cases` cases under `variants` (the first is the baseline), with options that select
/// the metrics.
fn family(cases: usize, variants: &[&str], words: &[&str]) -> CommandResult {
    let words = [words, &["--correct", "holm", "--format", "csv"]].concat();
    run(&metrics(cases, variants), variants, &words).expect_status(0)
}

const BOTH: [&str; 4] = ["--metric", "throughput", "--metric", "memory"];

/// At the first look, 8 runs per side, the smallest p-value is 2 / 6^4, which is .0247 over all
/// looks; at the second, 2 / 6^7. So two comparisons can be decided at the first look and three
/// cannot.
#[test]
fn cases_metrics_and_candidates_form_one_family_of_comparisons() {
    let (two, three) = (["base", "a"], ["base", "a", "b"]);
    for (cases, variants, words, comparisons, runs) in [
        (1, &two[..], &[][..], 1, "8"),
        (2, &two, &[], 2, "8"),
        (1, &two, &BOTH, 2, "8"),
        (1, &three, &[], 2, "8"),
        (3, &two, &[], 3, "14"),
        (1, &two, &["--metric", "all"], 3, "14"),
        (4, &two, &[], 4, "14"),
        (2, &two, &BOTH, 4, "14"),
        (2, &three, &[], 4, "14"),
        (1, &three, &BOTH, 4, "14"),
    ] {
        let answer = family(cases, variants, words);
        let what = format!("{cases} {variants:?} {words:?} {answer:#?}");
        assert_eq!(column(&answer, "verdict"), vec!["worse"; comparisons], "{what}");
        assert_eq!(column(&answer, "decided_at"), vec![runs; comparisons], "{what}");
        for (p, q) in column(&answer, "p").into_iter().zip(column(&answer, "q")) {
            let [p, q] = [p, q].map(|cell| cell.parse::<f64>().unwrap());
            // The p-value of two looks is at least that of either, and at most their number times
            // as large.
            let (least, most) = match runs {
                "8" => (0.0246, 0.0248),
                _ => (2.0 / 6f64.powi(7), 0.001),
            };
            assert!((least..most).contains(&p), "{p} {what}");
            assert!((q / p / comparisons as f64 - 1.0).abs() < 1e-3, "{q} {what}");
        }
    }
}

/// Of four cases, the first differs only at the first look. Its p-value is too large for one
/// rejection of four (.0125), but not for two (.025): once the second case is found it counts,
/// regardless of its own later runs.
#[test]
fn a_change_seen_at_an_early_look_counts_once_others_are_found() {
    let value = |run: usize, shift: usize| 1000.0 + 10.0 * ((run * 21 + shift) % 32) as f64;
    let factor = |case, run| match (case, run) {
        (0, 0..8) | (1, 8..) => 1.5,
        (0, 8..14) => 0.7,
        _ => 1.0,
    };
    let mut text = String::new();
    for case in 0..4 {
        let line = |name: &str, value: &dyn Fn(usize) -> f64| {
            let values = (0..32).map(|run| format!(" {:.4}", value(run)));
            format!("{name}{}\n", values.collect::<String>())
        };
        let _ = writeln!(text, "case k={case}");
        text += &line("old", &|run| value(run, case) + case as f64 / 7.0);
        text += &line("new", &|run| (value(run, case + 11) + 1.5) * factor(case, run));
    }
    let words = ["--correct", "bh", "--format", "csv"];
    let answer = run(&text, &TWO, &words).expect_status(0);
    let verdicts = ["better", "better", "unclear", "unclear"];
    assert_eq!(column(&answer, "verdict"), verdicts, "{answer:#?}");
    let number = |name| column(&answer, name)[0].parse::<f64>().unwrap();
    let (p, q) = (number("p"), number("q"));
    assert!((0.0246..0.0248).contains(&p) && (q / p - 2.0).abs() < 1e-9, "{p} {q}");
    assert!(number("change_low") > 0.0 && number("decided_at") > 14.0, "{answer:#?}");
}

/// Eight runs in blocks of two: p is at least 2 / 6^4, and 33 times that is .0509.
#[test]
fn too_few_runs_for_any_verdict_are_reported_before_measuring() {
    let text = metrics(33, &["old", "new"]);
    let warning = "8 runs a side cannot show any change among 33 comparisons: the smallest possible p value, 0.0015, \
                   times 33 is above 5%. --runs 10 is enough.";
    for words in [&["--correct", "holm"][..], &["--correct", "holm", "--list"]] {
        let answer = run(&text, &TWO, &[&["--runs", "8"], words].concat());
        assert_eq!(answer.stderr.matches(warning).count(), 1, "{answer:#?}");
    }
    // A gate that could never fail is rejected.
    let gate = ["--runs", "8", "--fail-on", "worse"];
    run(&text, &TWO, &gate)
        .expect_status(2)
        .expect_stderr(&["could never fail: 8 runs a side", "--runs 10 is enough"]);
    let holm = ["--correct", "holm", "--list"];
    for (words, said) in [
        (&["--runs", "10"][..], None),
        (&[], None),
        (&["--runs", "8", "--set", "k=1"], None),
        (&["--runs", "8", "--correct", "none"], None),
        (&["--runs", "8", "--method", "welch"], None),
        (
            &["--runs", "8", "--correct", "bh"],
            Some("cannot show fewer than 2 changes among 33 comparisons"),
        ),
        (
            &["--runs", "9", "--metric", "throughput", "--metric", "memory"],
            Some(
                "among 66 comparisons: the smallest possible p value, 0.00077, times 66 \
                 is above 5%. --runs 10 is enough.",
            ),
        ),
        (
            &["--runs", "4", "--set", "k=1"],
            Some("4 runs a side show nothing: the test needs more. --runs 6 is enough."),
        ),
        (
            &["--runs", "1"],
            Some("1 run a side shows nothing: the test needs more. --runs 10 is enough."),
        ),
    ] {
        let words = if words.contains(&"--correct") {
            [words, &["--list"]].concat()
        } else {
            [words, &holm].concat()
        };
        let answer = run(&text, &TWO, &words).expect_status(0);
        match said {
            Some(said) => assert!(answer.stderr.contains(said), "{words:?} {answer:#?}"),
            None => assert!(!answer.stderr.contains("is enough"), "{words:?} {answer:#?}"),
        }
    }
}

/// The claim is true: with two runs fewer nothing is found, with that many everything.
#[test]
fn the_suggested_number_of_runs_is_enough() {
    let text = metrics(33, &["base", "a"]);
    for (runs, found) in [("8", 0), ("10", 33)] {
        let words = ["--runs", runs, "--correct", "holm", "--format", "csv"];
        let answer = run(&text, &["base", "a"], &words);
        assert_eq!(count(&answer, "worse"), found, "{answer:#?}");
    }
}
