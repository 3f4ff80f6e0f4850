//! The same sequence for every suite, with its real tool: its cases are listed, selected and
//! measured, one fails, options reach it or are rejected, a killed session is resumed, and twice
//! the work is detected while equal work is not.

use super::busy::{ensure_holds, retry_busy};
use super::project::CommandResult;
use super::suite_projects::{self, OptionEffect, TestSuite};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

/// Everything but the figures.
fn run_sequence(suite: &TestSuite) {
    check_listing(suite);
    two_benchmarks_are_compared(suite);
    measures_one_case_and_passes_words_on(suite);
    refuses_what_would_start_several_cases(suite);
    keeps_a_failure_as_data(suite);
    tries_each_case(suite);
    resumes_what_was_killed(suite);
}

fn check_listing(suite: &TestSuite) {
    let listed = suite.run(&["--list"]).expect_status(0);
    let listed = listed.expect_stdout(suite.listed);
    let mut lines: Vec<&str> = listed.stdout.lines().filter(|line| !line.is_empty()).collect();
    let count = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), count, "a case is listed twice: {listed:#?}");
    for word in suite.not_listed {
        assert!(!listed.stdout.contains(word), "{word}: {listed:#?}");
    }
}

/// Two benchmarks of a target, selected by their names, become the variants of one case.
fn two_benchmarks_are_compared(suite: &TestSuite) {
    let names = [suite.small[0], suite.large[0]].map(|filter| filter.trim_end_matches('$'));
    if names[0] == names[1] {
        // They differ in a parameter, which the filter does not name.
        return;
    }
    let [one, other] = names.map(|name| format!("{}::{name}", suite.target));
    let mut command = suite.project.command(&["compare", &one, &other, "--list"]);
    command.envs(suite.environment.iter().map(|(name, value)| (name, value)));
    let listed = CommandResult::from(command.output().unwrap()).expect_status(0);
    listed.expect_stdout(&["1 case, up to"]);
}

fn measures_one_case_and_passes_words_on(suite: &TestSuite) {
    let (words, effect) = suite.passed_on;
    let folder = suite.project.path("").to_string_lossy().into_owned();
    let words: Vec<String> = words.iter().map(|word| word.replace("PROJECT/", &folder)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let own = [&["-r", "1", "-f"], suite.small].concat();
    let all = [&own, suite.short, &["--"], &words].concat();
    let answer = suite.run(&all).expect_status(0);
    let is_said = answer.stderr.contains("also executes the other benchmarks of its process");
    assert_eq!(is_said, suite.performs_several, "{answer:#?}");
    let lines = suite.exported();
    let runs = suite.runs();
    assert_eq!(runs.len(), 1, "{runs:#?}");
    let samples = runs[0]["samples"].as_array().unwrap();
    let first = &samples[0]["metric"];
    let of_first = samples.iter().filter(|sample| sample["metric"] == *first);
    let count = of_first.inspect(|sample| assert!(sample["value"].as_f64().unwrap() > 0.0)).count();
    match effect {
        OptionEffect::Samples(expected) => assert_eq!(count, expected, "{:#?}", runs[0]),
        OptionEffect::Note(words) => {
            assert!(runs[0]["notes"].to_string().contains(words), "{runs:#?}")
        }
        OptionEffect::Iterations(expected) => assert_eq!(samples[0]["iterations"], expected),
        OptionEffect::File(name) => assert!(suite.project.path(name).exists(), "{name}"),
    }
    if let Some((fact, beginning)) = suite.version {
        let facts = lines.iter().find_map(|line| {
            let environment = &line["environment"];
            environment["facts"][fact].as_str()
        });
        assert!(facts.is_some_and(|version| version.starts_with(beginning)), "{fact} is {facts:?}");
    }
}

fn refuses_what_would_start_several_cases(suite: &TestSuite) {
    let (words, option) = suite.refused;
    let all = [&["-r", "1", "-f"], suite.small, &["--"], words].concat();
    let answer = suite.run(&all).expect_status(2);
    let said = answer.stdout.clone() + &answer.stderr;
    let words: Vec<&str> = said.split_whitespace().collect();
    let reason = format!("does not accept the option {option}");
    assert!(words.join(" ").contains(&reason), "no {reason:?} in {answer:#?}");
}

fn keeps_a_failure_as_data(suite: &TestSuite) {
    let (filter, reason) = suite.fails;
    let all = [&["-r", "1", "-f"], filter, suite.short].concat();
    let answer = suite.run(&all).expect_status(2);
    if filter.contains(&"--variant") {
        // A variant under which nothing can be listed is rejected before the first run.
        let said = answer.stderr.split_whitespace().collect::<Vec<_>>();
        assert!(said.join(" ").contains(reason), "{answer:#?}");
        return;
    }
    let words: Vec<&str> = answer.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains(reason), "{answer:#?}");
    let failures = suite.exported().into_iter();
    let failures: Vec<Value> = failures.filter_map(|line| line.get("failure").cloned()).collect();
    assert!(!failures.is_empty());
    assert!(failures.iter().all(|one| one["replay"].as_str().is_some_and(|line| !line.is_empty())));
}

fn tries_each_case(suite: &TestSuite) {
    let all = [&["--test", "-f"], suite.small].concat();
    let tried = suite.run(&all).expect_status(0);
    tried.expect_stdout(&["succeeded, 0 failed"]);
}

/// The second variant waits until Speedwell is gone.
fn resumes_what_was_killed(suite: &TestSuite) {
    // The second run may end before the gate is closed, if this process gets no processor for long
    // enough. Then nothing can be resumed, and the session is measured again.
    assert!((0..5).any(|_| is_killed_during_second_run(suite)), "each session ended too soon");
    let mut resume = suite.project.command(&["run", "--resume", "@latest"]);
    resume.envs(suite.environment.iter().map(|(name, value)| (name, value)));
    CommandResult::from(resume.output().unwrap()).expect_status(0);
    let runs = suite.runs();
    let variants: Vec<&Value> = runs.iter().map(|run| &run["variant"]).collect();
    assert_eq!(variants, ["a", "b"], "{runs:#?}");
}

/// Starts a session and kills it while its second run waits at the gate. Returns `false` if the
/// session ended before.
fn is_killed_during_second_run(suite: &TestSuite) -> bool {
    let gate = suite.project.path("gate");
    let waits = format!("b=HOLD={}", gate.display());
    let own = ["-r", "1", "--order", "alternate", "--variant", "a=", "--variant", &waits, "-f"];
    let mut command = suite.command(&[&own, suite.large, suite.short].concat());
    let (sessions, runs) = (suite.project.stored_sessions(), suite.project.stored_runs());
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Returns `false` if the session ends meanwhile.
    let mut waits_while = |goes_on: &dyn Fn() -> bool| {
        while goes_on() {
            if let Some(status) = killed.try_wait().unwrap() {
                assert!(status.success(), "{status:?} before the second run");
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        true
    };
    // Before the session starts, the second variant is rehearsed, which must not wait.
    let is_held = waits_while(&|| suite.project.stored_sessions() <= sessions) && {
        fs::write(&gate, "").unwrap();
        waits_while(&|| suite.project.stored_runs() != runs + 1)
    };
    // Child::kill sends SIGKILL.
    killed.kill().unwrap();
    killed.wait().unwrap();
    let _ = fs::remove_file(&gate);
    is_held
}

/// Twice the work is detected, and a copy of the same work is not.
fn check_factors(suite: &TestSuite) -> Result<(), String> {
    let variants = ["two=WORK=2", "one=WORK=1", "again=WORK=1"];
    let variants = variants.map(|variant| ["--variant", variant]).concat();
    // Other load on the machine changes neither result by this much.
    let own = ["-r", "8", "--threshold", "20", "--format", "json", "-f"];
    let all = [&own, suite.large, suite.short, &variants].concat();
    let json = suite.run(&all).expect_status(0).json();
    let found = verdict(&json, "one");
    ensure_holds(found == "better", || format!("{found}: {json:#}"))?;
    let words = ["compare", "@latest[one]", "@latest[again]", "--threshold", "20"];
    let answer = suite.project.run(&[&words[..], &["--format", "json"]].concat());
    let json = answer.expect_status(0).json();
    let found = verdict(&json, "again");
    ensure_holds(["same", "unclear"].contains(&found), || format!("{found}: {json:#}"))
}

/// The verdict on the first metric of a candidate.
fn verdict<'a>(json: &'a Value, candidate: &str) -> &'a str {
    let changes = json["changes"].as_array().unwrap();
    let own = changes.iter().find(|change| {
        let name = change["candidate"].as_str().unwrap();
        name.contains(candidate)
    });
    own.unwrap()["verdict"].as_str().unwrap()
}

macro_rules! stories {
    ($($(#[$when:meta])? $name:ident),*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn cases_are_listed_run_refused_and_resumed() {
                if let Some(suite) = suite_projects::$name() {
                    run_sequence(&suite);
                }
            }

            mod measures {
                use super::*;

                $(#[$when])?
                #[test]
                fn a_factor_of_two_is_found_and_equal_variants_do_not_differ() {
                    if let Some(suite) = suite_projects::$name() {
                        retry_busy(1, || check_factors(&suite));
                    }
                }
            }
        }
    )*};
}

// Durations of the ignored ones on 2 busy processors: pytest-benchmark and divan 12 s, pyperf 14 s,
// vitest 19 s, JMH 33 s, libtest 57 s. Run them by
// `cargo test -p speedwell --test it --features http3,postgres -- --ignored a_factor_of_two`.
stories!(
    go,
    criterion,
    #[ignore = "measures for 10 to 100 s"]
    divan,
    #[ignore = "measures for 10 to 100 s"]
    libtest,
    #[ignore = "measures for 10 to 100 s"]
    jmh,
    #[ignore = "measures for 10 to 100 s"]
    pytest_benchmark,
    #[ignore = "measures for 10 to 100 s"]
    pyperf,
    catch2,
    google_benchmark,
    #[ignore = "measures for 10 to 100 s"]
    vitest
);
