//! Pairs on one processor, from the command line.

use super::harness_driver::find_tool;
use super::project::{CommandResult, TempProject};

const FAKE: &str = "case k=1\n\
    old 7,cpu_time=100 7,cpu_time=200 7,cpu_time=150\n\
    new 9,cpu_time=103 9,cpu_time=206 9,cpu_time=154.6\n";

fn run(text: &str, words: &[&str]) -> CommandResult {
    let mut all = vec!["run", "g/pairs.fake", "--order", "paired", "--seed", "4"];
    all.extend(words);
    TempProject::new().with("g/pairs.fake", text).run(&all)
}

const TWO: [&str; 4] = ["--variant", "old=true", "--variant", "new=true"];

#[test]
fn pairs_with_different_levels_are_compared_by_their_ratios() {
    let words = [&TWO[..], &["--format", "json"]].concat();
    let found = run(FAKE, &words).expect_status(0).json();
    let comparison = &found["comparisons"][0];
    assert_eq!(comparison["method"], "signed-rank");
    assert_eq!(comparison["metric"]["name"], "cpu_time");
    let change = &found["changes"][0];
    assert_eq!((&change["verdict"], &change["decided_at"]), (&"worse".into(), &10.into()));
    // Besides the ten pairs of the first look, sides also ran alone on the processor; those runs
    // are not compared.
    assert_eq!(change["baseline_runs"], 10);
    assert!(
        change["baseline_slots"].as_array().unwrap().iter().any(|slot| slot.as_u64() > Some(19))
    );
    assert_eq!(found["sources"][0]["design"]["order"], "paired");
}

#[test]
fn wall_clock_time_of_a_shared_processor_is_not_reported() {
    let words = [&TWO[..], &["--metric", "throughput"]].concat();
    run(FAKE, &words)
        .expect_status(2)
        .expect_stderr(&["unknown metric 'throughput'", "hint: the only metric is 'cpu_time'"]);
}

#[test]
fn a_program_that_reports_no_processor_time_is_refused() {
    let found = run("case k=1\nold 7\nnew 9\n", &TWO).expect_status(2);
    found.expect_stderr(&["'g/pairs.fake k=1' reports no processor time", "hint: "]);
}

#[test]
fn a_failing_side_is_not_reported_as_lacking_processor_time() {
    let words = ["eval", "sh", "exit 3", ":", "--order", "paired", "--runs", "1"];
    let answer = TempProject::new().run(&words);
    assert_ne!(answer.status, 0);
    answer.expect_stdout(&["exited with status 3"]);
}

/// Reports whether it meets its other side while both are alive, and on which processors it may
/// run. It waits for the other side, except in the rounds that are measured alone (`$4`), where it
/// only checks, and in its run 0: the trial of the baseline and the rehearsal of the other side.
const MEET: &str = r#"#!/bin/sh
mine=$1 other=$2
n=$(cat $mine.count 2>/dev/null || echo $3)
echo $((n + 1)) > $mine.count
touch $mine.$n
i=0 turns=30000000
[ $n = $4 ] && turns=3000
[ $n = 0 ] && turns=100000
while [ ! -e $other.$n ] && [ ! -e $other.$n.met ] && [ $i -lt $turns ]; do i=$((i + 1)); done
if [ $i -lt $turns ]; then touch $mine.$n.met; met=met; else met=alone; fi
rm $mine.$n
echo "$n $met $(grep ^Cpus_allowed_list /proc/self/status | cut -f 2)" >> log
"#;

#[test]
fn both_sides_live_at_once_on_one_processor() {
    let project = TempProject::new().with("meet.sh", MEET);
    // With this seed the fourth round is measured alone.
    let (old, new) = ("sh meet.sh old new 0 4", "sh meet.sh new old 0 4");
    let pairs =
        ["--order", "paired", "-n", "1", "--iterations=1", "-w", "0", "--runs", "8", "--seed", "1"];
    let answer = project.run(&[&["eval", "sh", old, new][..], &pairs].concat());
    answer.expect_status(0);
    let log = std::fs::read_to_string(project.path("log")).unwrap();
    let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split(' ').collect()).collect();
    let of_pairs = lines.iter().filter(|line| line[0] != "0");
    let met = of_pairs.clone().filter(|line| line[1] == "met").count();
    let alone = of_pairs.clone().filter(|line| line[1] == "alone").count();
    assert_eq!((met, alone), (16, 2), "{log}");
    for pair in 1..=9 {
        let number = pair.to_string();
        let processors: Vec<&str> =
            of_pairs.clone().filter(|line| line[0] == number).map(|line| line[2]).collect();
        assert_eq!(processors.len(), 2, "{log}");
        assert_eq!(processors[0], processors[1], "{log}");
        assert!(processors[0].parse::<u32>().is_ok(), "one processor: {log}");
    }
}

/// Computes a little. The sixth run of the second side, after its rehearsal, kills Speedwell, whose
/// process id the test writes into a file.
const KILL: &str = r#"#!/bin/sh
n=$(cat $1.count 2>/dev/null || echo 1)
echo $((n + 1)) > $1.count
if [ $1 = new ] && [ $n = 7 ]; then
  until [ -s pid ]; do sleep 0.01; done
  kill -9 $(cat pid)
fi
i=0
while [ $i -lt 20000 ]; do i=$((i + 1)); done
"#;

#[test]
fn a_killed_session_is_completed_by_whole_pairs() {
    let project = TempProject::new().with("kill.sh", KILL);
    let words = [
        "eval",
        "sh",
        "sh kill.sh old",
        "sh kill.sh new",
        "--order",
        "paired",
        "-n",
        "1",
        "--iterations=1",
        "-w",
        "0",
        "--runs",
        "8",
        "--seed",
        "1",
    ];
    let mut killed = project.command(&words).spawn().unwrap();
    std::fs::write(project.path("pid"), killed.id().to_string()).unwrap();
    assert_eq!(killed.wait().unwrap().code(), None, "killed");
    let slots = || -> Vec<u64> {
        let lines = project.run(&["report", "--export", "jsonl"]).stdout;
        let slot = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["run"]["slot"].as_u64()
        };
        let mut slots: Vec<u64> = lines.lines().filter_map(slot).collect();
        slots.sort_unstable();
        slots
    };
    assert_eq!(slots(), (0..10).collect::<Vec<u64>>(), "five whole pairs");
    project.run(&["eval", "--resume", "@latest"]).expect_status(0);
    assert_eq!(slots(), (0..18).collect::<Vec<u64>>());
}

/// These pass beside each other, but not beside tests that compute.
mod mostly_waits {
    use super::*;

    #[test]
    fn comparisons_that_cannot_be_paired_are_refused_with_the_reason() {
        let one = ["--variant", "old=true"];
        run(FAKE, &one)
            .expect_status(2)
            .expect_stderr(&["there is only one variant", "--order blocks"]);
        let refusals: [(&[&str], &str); 3] = [
            (&["-c", "2"], "has several workers"),
            (&["--shared"], "the snippets share one process"),
            (&[], "'sleep 0.3' spent too much time sleeping or waiting for I/O"),
        ];
        for (words, reason) in refusals {
            let eval = ["eval", "sh", "sleep 0.3", "sleep 0.4", "-n", "1", "--order", "paired"];
            let refused = TempProject::new().run(&[&eval[..], words].concat());
            refused.expect_status(2).expect_stderr(&[reason, "hint: "]);
        }
    }

    #[test]
    fn compile_time_does_not_hide_that_a_snippet_sleeps() {
        let Some(_) = find_tool(&["cc", "gcc", "clang"]) else {
            return;
        };
        // The cache is empty, so that there is something to compile.
        let cache = tempfile::tempdir().unwrap();
        let project = TempProject::new();
        let mut command = project.command(&[
            "eval",
            "c",
            "usleep(100000)",
            "usleep(120000)",
            "--order",
            "paired",
            "-n",
            "1",
            "--iterations=1",
        ]);
        command.env("XDG_CACHE_HOME", cache.path());
        let refused = CommandResult::from(command.output().unwrap()).expect_status(2);
        refused.expect_stderr(&[
            "'usleep(100000)' spent too much time sleeping or waiting for I/O",
            "'--order paired' compares processor time",
            "hint: --order blocks",
        ]);
    }
}
