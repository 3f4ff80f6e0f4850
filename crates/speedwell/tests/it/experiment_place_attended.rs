//! `speedwell fleet status`, `collect`, `cancel` and `clean` of experiments with roles on separate
//! machines, while another process measures them and afterwards.

use super::busy::wait_within;
use super::experiment_place::{
    PATIENCE, by_ssh, expect_end_of, pids, placed_project, start_coordinator,
};
use super::experiment_place_slurm::{cluster, expect_no_jobs, on_nodes};
use super::fleet_failures::kill;
use super::harness_driver::is_missing;
use super::project::{CommandResult, TempProject};
use serde_json::Value as Json;
use speedwell_fixtures::clusters::SshdServer;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A load too long to wait for.
const LONG: (&str, &str) = ("requests = 40,", "duration = \"500s\",");

fn fleet(project: &TempProject, verb: &str) -> CommandResult {
    project.run(&["fleet", verb, "@1"])
}

/// Output of `fleet status`: state, role and machine of each row, and the engine's notes.
fn parts(project: &TempProject) -> (Vec<String>, Vec<String>) {
    let shown = project.run(&["fleet", "status", "@1", "--format", "json"]);
    let shown: Json = serde_json::from_str(&shown.expect_status(0).stdout).unwrap();
    let rows = shown["roles"].as_array().unwrap().clone();
    let text = |row: &Json, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let place = |row: &Json| ["state", "role", "machine"].map(|key| text(row, key)).join(" ");
    let said = rows.iter().map(|row| text(row, "engine")).collect();
    (rows.iter().map(place).collect(), said)
}

/// Waits for the coordinator to exit.
fn wait_for_end(mut child: Child) -> Option<i32> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(begin.elapsed() < PATIENCE, "it goes on");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Inspects a session while it is measured, and cancels it. `machines` are those of target, service
/// and load. Returns the engine's notes.
fn expect_an_end_by_cancel(project: &TempProject, machines: &[&str]) -> Vec<String> {
    let child = start_coordinator(project, "--runs=1", || !pids(project, "web").is_empty());
    let rows = |state: &str| -> Vec<String> {
        let parts = ["target", "db", "load", "load"].iter().zip(machines);
        parts.map(|(part, machine)| format!("{state} {part} {machine}")).collect()
    };
    let (shown, said) = parts(project);
    assert_eq!(shown, rows("running"));
    let process = format!("process {} is measuring the session", child.id());
    fleet(project, "status").expect_stderr(&["session @1: 0 of 1 runs are done", &process]);
    let refused = fleet(project, "clean").expect_status(2);
    refused.expect_stderr(&["session @1 is still being measured"]);
    let own = [pids(project, "db"), pids(project, "web")].concat();
    let cancelled = fleet(project, "cancel").expect_status(0);
    cancelled.expect_stderr(&["the machines of session @1 are free again", "--resume @1"]);
    assert_eq!(wait_for_end(child), Some(130));
    expect_end_of(&own);
    assert_eq!(parts(project).0, rows("interrupted"));
    let refused = fleet(project, "cancel").expect_status(2);
    refused.expect_stderr(&["nothing to cancel"]);
    let collected = fleet(project, "collect").expect_status(130);
    collected.expect_stderr(&["speedwell run --resume @1"]);
    fleet(project, "clean").expect_status(0);
    said
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

#[test]
fn a_session_on_machines_is_seen_and_ended_by_others() {
    if is_missing("python3") {
        return;
    }
    let machines = ["lab-1", "lab-2", "lab-3", "lab-4"];
    let project = placed_project(&[LONG]);
    let said = expect_an_end_by_cancel(&project, &machines);
    assert_eq!(said, ["", "", "", ""]);
    assert!(is_empty(&project.path("fleet").join("sessions")));
    match SshdServer::start() {
        Ok(sshd) => {
            let project = by_ssh(&sshd, &[LONG]);
            expect_an_end_by_cancel(&project, &["m1", "m2", "m3"]);
        }
        Err(reason) => eprintln!("skipped: {reason}"),
    }
}

#[test]
fn a_session_on_nodes_of_slurm_is_seen_and_ended_by_others() {
    let Some(slurm) = cluster() else { return };
    let project = on_nodes(&slurm, &[LONG]);
    let said = expect_an_end_by_cancel(&project, &["n1", "n2", "n3"]);
    let runs = |said: &String| said.starts_with("job ") && said.ends_with(": RUNNING");
    assert!(said.len() == 3 && said.iter().all(runs), "{said:?}");
    expect_no_jobs(&slurm);
}

#[test]
fn a_session_can_be_resumed_and_collected_after_a_cleanup() {
    if is_missing("python3") {
        return;
    }
    let project = placed_project(&[]);
    // Enough that most are left when the state is asked for.
    let mut child = start_coordinator(&project, "--runs=8", || project.stored_runs() > 1);
    kill(child.id());
    child.wait().unwrap();
    assert!(!is_empty(&project.path("fleet").join("sessions")));
    fleet(&project, "clean").expect_status(0);
    assert!(is_empty(&project.path("fleet").join("sessions")));
    let before = pids(&project, "db").len();
    let mut resumed = project.command(&["run", "--resume", "@1"]);
    let mut resumed = resumed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_within(PATIENCE, || pids(&project, "db").len() > before);
    // The first request to a machine may come before its state is written.
    let is_running = |row: &String| row.starts_with("running ");
    wait_within(PATIENCE, || parts(&project).0.iter().all(is_running));
    let collected = fleet(&project, "collect").expect_status(0);
    collected.expect_stdout(&["The target ran on lab-1"]);
    assert!(resumed.wait().unwrap().success());
    fleet(&project, "status").expect_stderr(&["8 of 8 runs are done"]);
}
