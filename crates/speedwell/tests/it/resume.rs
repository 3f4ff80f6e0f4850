//! No measurement is lost: Ctrl-C, kill -9, and resuming afterwards.

use super::project::TempProject;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// 20 cases of 5 runs of 2 variants, `run_ms` each: 200 runs, which take about 2 s with 8 ms.
fn slow_project(run_ms: u32) -> TempProject {
    let text: String = (0..20).map(|n| format!("case n={n}\n* sleep:{run_ms}\n")).collect();
    TempProject::new().with("g/slow.fake", &text)
}

const MEASURE: [&str; 8] = ["run", "g", "--runs", "5", "--variant", "old=", "--variant", "new="];

fn slots(project: &TempProject) -> Vec<u64> {
    let lines = project.run(&["report", "--export", "jsonl"]).expect_status(0).stdout;
    let slot = |line: &str| {
        serde_json::from_str::<serde_json::Value>(line).unwrap()["run"]["slot"].as_u64()
    };
    lines.lines().filter_map(slot).collect()
}

fn wait_for_runs(project: &TempProject, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while Instant::now() < deadline {
        if project.stored_runs() >= count {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{count} runs were never stored");
}

/// A session that received this signal in the middle. If it finishes before the signal, as it may
/// on a busy machine, it is repeated with longer runs.
fn interrupted_by(signal: Signal) -> TempProject {
    [8, 16, 32, 64]
        .into_iter()
        .find_map(|run_ms| try_interrupt(run_ms, signal))
        .expect("no session could be interrupted")
}

fn try_interrupt(run_ms: u32, signal: Signal) -> Option<TempProject> {
    let project = slow_project(run_ms);
    let mut child = project.command(&MEASURE).spawn().unwrap();
    wait_for_runs(&project, 40);
    kill_process(Pid::from_child(&child), signal).unwrap();
    let status = child.wait().unwrap();
    if slots(&project).len() == 200 {
        return None;
    }
    if signal == Signal::INT {
        assert_eq!(status.code(), Some(130));
    }
    Some(project)
}

#[test]
fn a_killed_session_keeps_every_finished_run_and_can_be_completed() {
    let project = interrupted_by(Signal::KILL);
    let listed = project.run(&["history"]).expect_status(0);
    let listed = listed.expect_stdout(&["killed", "resume with --resume @1"]);
    assert!(!listed.stdout.contains("running"), "{listed:?}");
    let kept = slots(&project);
    assert!((40..200).contains(&kept.len()), "{} runs", kept.len());
    assert_eq!(kept, (0..kept.len() as u64).collect::<Vec<_>>(), "a finished run is missing");
    project.run(&["run", "--resume", "@latest"]).expect_status(0);
    let all = slots(&project);
    assert_eq!(all.len(), 200);
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), (0..200).collect(), "slots differ");
}

#[test]
fn a_session_interrupted_by_ctrl_c_keeps_its_runs_and_can_be_resumed() {
    let project = interrupted_by(Signal::INT);
    let kept = slots(&project).len();
    assert!((40..200).contains(&kept), "{kept} runs");
    project.run(&["run", "--resume", "@latest"]).expect_status(0);
    assert_eq!(slots(&project).len(), 200);
}

#[test]
fn two_signals_that_arrive_together_interrupt_once() {
    let project = slow_project(16);
    let mut child = project.command(&MEASURE).spawn().unwrap();
    wait_for_runs(&project, 2);
    // Stopped, so that both signals arrive together, as `timeout` and `npm` send them.
    for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
        kill_process(Pid::from_child(&child), signal).unwrap();
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let listed = project.run(&["history"]).expect_status(0);
    assert!(listed.stdout.contains("interrupted"), "{listed:?}");
}

#[test]
fn a_complete_session_has_nothing_left_to_do() {
    let project = TempProject::new().with("g/quick.fake", "case n=1\n* 1 2 3\n");
    project.run(&["run", "g"]).expect_status(0);
    let before = slots(&project);
    let answer = project.run(&["run", "--resume", "@latest"]);
    answer.expect_status(2).expect_stderr(&["session @1 is complete: nothing to resume"]);
    assert_eq!(slots(&project), before);
}

#[test]
fn a_search_for_the_best_concurrency_cannot_be_resumed() {
    let project = TempProject::new();
    // 256 levels of several visits of 100 ms: too long to finish before the interrupt.
    let search = ["eval", "sh", "-c", "max", "--step", "1", "sleep 0.01"];
    let mut child = project.command(&search).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while !project.run(&["history"]).stdout.contains("@1") {
        assert!(Instant::now() < deadline, "no session was begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    for command in ["eval", "run"] {
        project.run(&[command, "--resume", "@1"]).expect_status(2).expect_stderr(&[
            "session @1 cannot be resumed: a concurrency search",
            "based on earlier ones\nhint: start it again",
        ]);
    }
}
