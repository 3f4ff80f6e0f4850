//! Drop-in for `calibrate-n.js`: which numbers of iterations it tries and when it stops.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::drop_in::{
    DropIn, DropInOutcome, DropInStep, SCRIPTS, benchmark_folder, case, play_session, result,
};

/// Calibrates a script whose rates vary by `spread(n)` about their mean in one case, and by half of
/// that in another.
fn calibrate(arguments: &str, spread: fn(f64) -> f64) -> DropInOutcome {
    let folder = benchmark_folder(SCRIPTS);
    DropIn::new("calibrate-n.js", &format!("--runs=4 {arguments} zz/kill.js"))
        .directory(folder.path())
        .engine(move |request, follower| {
            let n = request.sets[0].1.clone();
            let spread = spread(n.parse().unwrap());
            let rate = |run: u32, share: f64| match run % 2 {
                0 => 1000.0 * (1.0 - spread * share),
                _ => 1000.0 * (1.0 + spread * share),
            };
            let of_run = |run: u32| {
                let values = [("a", 1.0), ("b", 0.5)];
                values.map(|(kind, share)| {
                    let case = case(&format!("zz/kill.js n={n} kind={kind}"));
                    let slot = 2 * run + u32::from(kind == "b");
                    DropInStep::Result(result(&case, "default", slot, rate(run, share), 1))
                })
            };
            let steps: Vec<DropInStep> = (0..request.runs).flat_map(of_run).collect();
            play_session(follower, &[("zz/kill.js", 2)], &steps)
        })
        .run()
}

#[test]
fn n_grows_until_the_results_are_steady() {
    let outcome = calibrate("", |n| 1.0 / n);
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    let tested = |n: &str| outcome.stdout.contains(&format!("\nTesting with n={n}:\n....\n"));
    assert!(tested("10") && tested("100") && !tested("1000"), "{}", outcome.stdout);
    for line in [
        "Configuration: {\"n\":10,\"kind\":\"a\"}\n  CV: 10.00%",
        "Overall average CV: 7.50%\n  ✗ Overall CV (7.50%)",
        "✓ Found optimal n=100 (Overall CV=0.75% < 5.00% and no configuration has CV > 10%)",
        "  {\"n\":100,\"kind\":\"b\"}: 0.50%\n",
    ] {
        assert!(outcome.stdout.contains(line), "no {line:?} in {}", outcome.stdout);
    }
}

#[test]
fn one_unsteady_configuration_makes_n_grow_further() {
    let outcome = calibrate("--cv-threshold=.2 --start-n=4 --increase=3", |n| 0.7 / n);
    let lines: Vec<&str> =
        outcome.stdout.lines().filter(|line| line.starts_with("Testing")).collect();
    assert_eq!(lines, ["Testing with n=4:", "Testing with n=12:"], "{}", outcome.stdout);
    assert!(
        outcome.stdout.contains("✗ 1 configuration(s) have CV above 10%"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn the_best_n_is_reported_when_no_n_is_steady_enough() {
    let outcome = calibrate("--max-increases=3", |n| if n == 100.0 { 0.2 } else { 0.3 });
    assert_eq!(outcome.status, 0);
    assert!(
        outcome.stdout.contains("Best n found: 100 with average CV=15.00%"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("remains: 100 with average CV: 15.00%"), "{}", outcome.stdout);
}

#[test]
fn invalid_arguments_are_refused() {
    let folder = benchmark_folder(SCRIPTS);
    let run = |words: &str| DropIn::new("calibrate-n.js", words).directory(folder.path()).run();
    assert!(run("").stdout.contains("Usage: node calibrate-n.js"));
    assert_eq!(run("").status, 1);
    for words in ["--runs=x zz/kill.js", "--odd=1 zz/kill.js", "zz/none.js", "--runs=3"] {
        let outcome = run(words);
        assert!(outcome.status == 1 && outcome.request.is_none(), "{words}: {outcome:#?}");
    }
}
