//! `speedwell doctor --calibrate`: the same thing against itself, with exact figures from the fake
//! harness, and the effect of a calibration on later comparisons.

use super::project::{CommandResult, TempProject};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// Values around `centre`, spread evenly over 8% by a linear congruential generator.
fn line(variant: &str, centre: f64, salt: u64) -> String {
    let mut state = salt;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        centre + ((state >> 33) % 8000) as f64 / 1000.0
    };
    let values: Vec<String> = (0..1200).map(|_| format!("{:.3}", next())).collect();
    format!("{variant} {}\n", values.join(" "))
}

/// One case whose sides have the same noise, and one whose second side is 5% faster, as on a
/// machine that favors every other run.
fn project() -> TempProject {
    let even = ["a", "b", "old", "new"]
        .map(|name| line(name, 100.0, name.len() as u64 * 77 + u64::from(name.as_bytes()[0])));
    let odd = [line("a", 100.0, 1), line("b", 105.0, 2)];
    TempProject::new()
        .with("even.fake", &format!("case n=1\n{}", even.concat()))
        .with("odd.fake", &format!("case n=1\n{}case n=2\n{}", odd.concat(), odd.concat()))
}

const OLD_NEW: [&str; 7] = ["run", "even.fake", "--variant", "old=", "--variant", "new=", "-q"];

fn calibration_line(project: &TempProject) -> String {
    // The other checks depend on this machine, so any status is fine.
    let answer = project.run(&["doctor", "--format", "csv"]);
    let mut lines = answer.stdout.lines();
    let found = lines.find(|line| line.contains("calibration"));
    found.unwrap_or_else(|| panic!("{answer:#?}")).to_owned()
}

#[test]
fn a_machine_with_the_expected_false_alarms_counts_as_calibrated() {
    let project = project();
    assert!(calibration_line(&project).contains("never calibrated"));
    assert!(
        !project.path(".speedwell/results.db").exists(),
        "looking something up leaves no trace"
    );
    let answer = project
        .run(&["doctor", "--calibrate", "even.fake", "--comparisons", "100", "--seed", "1"])
        .expect_status(0)
        .expect_stdout(&["this machine is calibrated: ", "in 100 comparisons of the same thing"]);
    assert!(answer.stdout.contains("10 + 10 runs a comparison"), "{answer:#?}");
    let line = calibration_line(&project);
    assert!(line.starts_with("ok,") && line.contains("(@1, "), "{line}");
    project
        .run(&["report", "@calibration", "--export", "jsonl"])
        .expect_status(0)
        .expect_stdout(&["\"variant\":\"b\""]);
    let marked = project.run(&OLD_NEW).expect_status(0).stdout;
    assert!(!marked.contains("calibrated"), "{marked}");
}

#[test]
fn a_machine_with_too_many_false_alarms_is_marked_in_comparisons() {
    let project = project();
    let answer = project
        .run(&[
            "doctor",
            "--calibrate",
            "odd.fake",
            "--comparisons",
            "21",
            "-r",
            "9",
            "--format",
            "json",
        ])
        .expect_status(1);
    let found = &answer.json()["calibration"];
    assert_eq!(found["result"], "too many false alarms");
    // Nine runs do not fill whole blocks, and 21 comparisons cannot be split evenly between two
    // cases.
    assert_eq!((&found["runs_per_side"], &found["comparisons"]), (&10.into(), &22.into()));
    assert_eq!(found["expected_high"], 3, "qbinom(.975, 22, .05) in R 4.2.2");
    let line = calibration_line(&project);
    assert!(line.starts_with("warning,") && line.contains("doctor --calibrate FILE"), "{line}");

    let warning = "is not calibrated: @1 found 2";
    project.run(&OLD_NEW).expect_status(0).expect_stdout(&[warning, "0 to 3 are expected"]);
    project.run(&["report", "@2"]).expect_status(0).expect_stdout(&[warning]);
    project.run(&["compare", "@2[old]", "@2[new]"]).expect_status(0).expect_stdout(&[warning]);
    let alone = project.run(&["run", "even.fake", "--variant", "old="]).expect_status(0).stdout;
    assert!(!alone.contains("calibrated"), "nothing is compared: {alone}");
}

#[test]
fn every_format_has_a_line_for_each_case() {
    let project = project();
    let words = ["doctor", "--calibrate", "odd.fake", "--comparisons", "2", "--no-save"];
    let csv = project.run(&[&words[..], &["--format", "csv"]].concat()).expect_status(1).stdout;
    let mut lines = csv.lines();
    let header = lines.next().unwrap();
    assert!(header.contains("comparisons,false_alarms,variation,autocorrelation"), "{csv}");
    assert_eq!(lines.count(), 2, "{csv}");
    let json = project.run(&[&words[..], &["--format", "json"]].concat()).json();
    let cases = json["calibrated_cases"].as_array();
    assert_eq!(cases.map(Vec::len), Some(2), "{json:#}");
    project
        .run(&[&words[..], &["--format", "md"]].concat())
        .expect_status(1)
        .expect_stdout(&["| `n=2` |", "this machine is not calibrated"]);
    assert!(calibration_line(&project).contains("never calibrated"));
}

/// Interrupts a calibration of 30 comparisons with Ctrl-C after two of them, and returns its
/// output; `None` if it finished before the signal.
fn interrupted_calibration(run_ms: u32) -> Option<(TempProject, CommandResult)> {
    let project = TempProject::new().with("slow.fake", &format!("case n=1\n* sleep:{run_ms}\n"));
    let words = ["doctor", "--calibrate", "slow.fake", "--comparisons", "30", "-r", "8"];
    let mut command = project.command(&words);
    let child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let stored = || {
        let lines = project.run(&["report", "--export", "jsonl"]).stdout;
        lines.lines().count()
    };
    let deadline = Instant::now() + Duration::from_secs(120);
    while stored() < 40 {
        assert!(Instant::now() < deadline, "40 runs were never stored");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let answer = CommandResult::from(child.wait_with_output().unwrap());
    let is_complete = answer.stdout.contains("in 30 comparisons");
    (!is_complete).then_some((project, answer))
}

#[test]
fn an_interrupted_calibration_reports_its_complete_comparisons_and_can_go_on() {
    // A busy machine may let it finish; the next one takes longer.
    let found = [4, 16, 64].into_iter().find_map(interrupted_calibration);
    let (project, answer) = found.expect("no calibration could be interrupted");
    answer
        .expect_status(130)
        .expect_stderr(&["speedwell doctor --calibrate --resume @1"])
        .expect_stdout(&["interrupted", "0 false alarms in ", "vary too little"]);
    project
        .run(&["doctor", "--calibrate", "--resume", "@1", "-r", "8"])
        .expect_status(0)
        .expect_stdout(&["0 false alarms in 30 comparisons"]);
}

#[test]
fn invalid_calibration_options_are_refused() {
    let project = project();
    let refused = |words: &[&str], text: &str| {
        project.run(words).expect_status(2).expect_stderr(&[text]);
    };
    refused(&["doctor", "even.fake"], "--calibrate");
    refused(&["doctor", "-r", "10"], "--calibrate");
    refused(&["doctor", "--calibrate"], "no target given for the calibration");
    refused(&["doctor", "--calibrate", "even.fake", "-r", "7"], "needs at least 8 runs per side");
    refused(
        &["doctor", "--calibrate", "even.fake", "--order", "alternate"],
        "uses randomised blocks",
    );
    project
        .run(&["run", "even.fake", "--variant", "a=", "--variant", "b=FAST=1", "-r", "8"])
        .expect_status(0);
    refused(&["doctor", "--calibrate", "--resume", "@1"], "@1 is not a calibration");
}

#[test]
fn a_machine_is_tuned_between_two_calibrations_and_put_back() {
    let project = project()
        .with("machine/proc/sys/vm/swappiness", "60\n")
        .with("machine/proc/sys/kernel/timer_migration", "1\n");
    let words = ["doctor", "--calibrate", "even.fake", "--comparisons", "20", "--seed", "1"];
    let tuned = [&words[..], &["--tuned", "--root", "machine"]].concat();
    project.run(&tuned).expect_status(0).expect_stdout(&[
        "after tuning, runs of the same thing differ as much as before, as far as 1 case can show.",
        "set: swap, timers",
        "before: ",
        "after: ",
    ]);
    let held = |path: &str| std::fs::read_to_string(project.path(path)).unwrap();
    assert_eq!(held("machine/proc/sys/vm/swappiness"), "60\n");
    assert_eq!(held("machine/proc/sys/kernel/timer_migration"), "1\n");
    assert!(!project.path("machine/run/speedwell/tune.json").exists());
    let answer = project.run(&[&tuned[..], &["--format", "json"]].concat()).json();
    let row = &answer["spreads"][0];
    // The fake harness gives the same values twice.
    assert_eq!((row["change"].as_f64(), row["noise"].as_str()), (Some(0.0), Some("unclear")));
    std::fs::remove_dir_all(project.path("machine/proc")).unwrap();
    project
        .run(&tuned)
        .expect_status(1)
        .expect_stderr(&["No setting of this machine can be changed"]);
}
