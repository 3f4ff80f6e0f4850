//! `speedwell iterations`: numbers that are long and steady enough, and their use in the next run.

use super::project::TempProject;

/// Cases with n = 10, 20, 40, ..., whose samples take `ns` for each iteration, and whose two runs
/// deviate from their mean by the fraction `spread(n)`.
fn file(cases: &[(&str, u64)], spread: fn(u64) -> f64) -> String {
    let mut text = String::new();
    for step in 0..12 {
        let n = 10 << step;
        for (kind, ns) in cases {
            let away = 1000.0 * spread(n);
            let (low, high, length) = (1000.0 - away, 1000.0 + away, ns * n);
            text += &format!("case n={n} kind={kind}\n* {low}@{length} {high}@{length}\n");
        }
    }
    text
}

/// Samples of 1 ms are requested, which the case `a` reaches with 320 iterations.
fn project() -> TempProject {
    let cases = [("a", 4_000), ("b", 40_000)];
    TempProject::new()
        .with("g/steady.fake", &file(&cases, |n| 0.8 / n as f64))
        .with("g/restless.fake", &file(&cases, |n| (40.0 / n as f64).min(0.9)))
        .with("g/hopeless.fake", &file(&cases, |_| 0.2))
        .with("g/plain.fake", "case kind=a\n* 1 2\n")
}

const WORDS: [&str; 5] = ["iterations", "--time", "1ms", "--runs", "4"];

fn iterations(project: &TempProject, words: &[&str]) -> super::project::CommandResult {
    project.run(&[&WORDS, words].concat())
}

fn rows(text: &str) -> Vec<String> {
    let mut lines = text.lines().filter(|line| line.starts_with("g/"));
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    lines.by_ref().map(words).collect()
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let project = project();
    for file in ["missing/n.set", "missing/n.md", "n.pdf"] {
        let answer = iterations(&project, &["g/steady.fake", "-o", file]).expect_status(2);
        assert_eq!(answer.stdout, "", "{file}");
        answer.expect_stderr(&[&format!("cannot write '{file}'")]);
    }
    assert!(!project.path("n.set").exists());
}

#[test]
fn the_first_long_and_steady_enough_number_is_found_for_each_file() {
    let project = project();
    let answer = iterations(&project, &["g/steady.fake", "g/restless.fake"]).expect_status(0);
    // 320 x 4 us is the first above 1 ms; 40 / 640 is above 5% and 40 / 1280 below.
    assert_eq!(
        rows(&answer.stdout),
        [
            "g/steady.fake 320 steady 0.25% 0.25% 1.28 ms",
            "g/restless.fake 1,280 steady 3.1% 3.1% 5.12 ms",
        ],
        "{answer:#?}"
    );
    assert!(!project.path(".speedwell/results.db").exists(), "nothing is stored");
}

#[test]
fn the_next_run_reads_the_written_file_of_numbers() {
    let project = project();
    let files = ["g/steady.fake", "g/restless.fake", "g/hopeless.fake"];
    let words = [&files[..], &["-o", "n.set", "-o", "n.csv"]].concat();
    iterations(&project, &words)
        .expect_status(1)
        .expect_stdout(&["found for 2 of 3 benchmark files"])
        .expect_stderr(&[
            "next: speedwell run g/steady.fake g/restless.fake g/hopeless.fake --set @n.set",
        ]);
    let written = std::fs::read_to_string(project.path("n.set")).unwrap();
    assert_eq!(
        written,
        "g/steady.fake n=320\ng/restless.fake n=1280\n# not steady: g/hopeless.fake n=320\n"
    );
    let table = std::fs::read_to_string(project.path("n.csv")).unwrap();
    assert!(table.contains("g/restless.fake,n,1280,steady,0.031"), "{table}");
    let listed = project
        .run(&[
            "run",
            "g/steady.fake",
            "g/restless.fake",
            "--set",
            "@n.set",
            "--set",
            "kind=a",
            "--list",
        ])
        .expect_status(0);
    assert_eq!(
        rows(&listed.stdout),
        ["g/steady.fake kind=a n=320 6", "g/restless.fake kind=a n=1280 6"]
    );
}

#[test]
fn a_single_benchmark_file_gets_its_number_in_the_suggested_command() {
    let project = project();
    iterations(&project, &["g/steady.fake", "kind=b"])
        .expect_status(0)
        .expect_stderr(&["next: speedwell run g/steady.fake kind=b --set n=40"]);
}

#[test]
fn limits_on_size_and_tries_end_the_search_and_are_reported() {
    let project = project();
    let answer = iterations(&project, &["g/steady.fake", "--most", "100"]).expect_status(1);
    assert_eq!(rows(&answer.stdout), ["g/steady.fake too short"], "{answer:#?}");
    let answer = iterations(&project, &["g/hopeless.fake", "--tries", "2"]).expect_status(1);
    assert_eq!(rows(&answer.stdout), ["g/hopeless.fake 320 not steady 20% 20% 1.28 ms"]);
    assert_eq!(answer.stderr.matches("measuring").count(), 2, "{answer:#?}");
}

#[test]
fn every_variant_must_be_steady() {
    let steady = "case n=10\nold 100@5000000 100@5000000\nnew 80@5000000 120@5000000\n\
                  case n=20\nold 100@5000000 100@5000000\nnew 99@5000000 101@5000000\n";
    let project = TempProject::new().with("g/two.fake", steady);
    let answer = iterations(
        &project,
        &["g/two.fake", "--variant", "old=", "--variant", "new=", "--format", "csv"],
    )
    .expect_status(0)
    .expect_stdout(&["g/two.fake,n,20,steady,"]);
    assert!(answer.stdout.contains("g/two.fake [new]"), "{answer:#?}");
}

#[test]
fn files_without_the_parameter_are_named() {
    let project = project();
    iterations(&project, &["g/plain.fake"]).expect_status(2).expect_stderr(&[
        "'g/plain.fake' has no parameter 'n', only kind\nhint: --parameter names",
    ]);
    iterations(&project, &["g/plain.fake", "g/steady.fake"]).expect_status(0).expect_stderr(&[
        "warning: 'g/plain.fake' has no parameter 'n', only kind; it is left out.",
    ]);
    iterations(&project, &["g/steady.fake", "n=5"])
        .expect_status(2)
        .expect_stderr(&["this command searches for the value of 'n'"]);
    iterations(&project, &["g/steady.fake", "--runs", "1"]).expect_status(2);
}

#[test]
fn a_file_that_fails_is_given_up_and_the_others_go_on() {
    let project = project().with("g/broken.fake", "case n=10\n* exit:3\n");
    let answer = iterations(&project, &["g/broken.fake", "g/steady.fake"])
        .expect_status(2)
        .expect_stdout(&["exited with status 3"]);
    assert_eq!(rows(&answer.stdout)[0], "g/broken.fake failed");
    assert!(answer.stdout.contains("320"), "{answer:#?}");
}

#[test]
fn a_file_of_values_that_cannot_be_read_or_understood_is_refused() {
    let project = project().with("bad.set", "g/steady.fake n=10\ng/steady.fake 20\n");
    let run = |words: &str| project.run(&["run", "g/steady.fake", "--set", words]);
    run("@bad.set").expect_status(2).expect_stderr(&[
        "in --set",
        "'bad.set'",
        "cannot parse line 2, 'g/steady.fake 20'",
    ]);
    run("@none.set").expect_status(2).expect_stderr(&["'none.set'", "No such file"]);
}
