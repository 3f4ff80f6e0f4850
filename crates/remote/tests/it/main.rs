//! Tests the engines with real machines: Slurm and sshd on this host, each started and stopped by
//! the test. Skips what is not installed.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helper functions too")]

mod slurm;
mod ssh;

use speedwell_fixtures::write_program;
use speedwell_remote::machines::{
    FleetEngine, FleetMachine, JobId, JobState, MachineState, ShardTask, TaskBatch,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Timeout for a single operation, even on a busy machine.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(120);

/// Creates a session folder whose program is this script.
fn create_session(folder: &Path, script: &str) -> PathBuf {
    let session = folder.join("session");
    std::fs::create_dir_all(session.join("bin")).unwrap();
    write_program(&session.join("bin/speedwell"), &format!("#!/bin/sh\n{script}\n"));
    session
}

fn task_batch(machine: &str, folder: &Path, tasks: &[u32]) -> TaskBatch {
    let task = |&number: &u32| ShardTask { number, request: format!("{{\"task\":{number}}}") };
    TaskBatch {
        is_detached: false,
        machine: machine.into(),
        folder: folder.into(),
        tasks: tasks.iter().map(task).collect(),
    }
}

/// Polls a job until its state matches.
#[track_caller]
fn wait_for(engine: &mut FleetEngine, job: &JobId, wanted: impl Fn(&JobState) -> bool) -> JobState {
    let begun = Instant::now();
    loop {
        let state = engine.job_states(std::slice::from_ref(job)).unwrap().remove(0);
        if wanted(&state) {
            return state;
        }
        assert!(begun.elapsed() < OPERATION_TIMEOUT, "it stays {state:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn is_over(state: &JobState) -> bool {
    matches!(state, JobState::Ended(_))
}

/// Waits until a file has this content.
#[track_caller]
fn wait_for_text(file: &Path, wanted: &str) {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text == wanted {
            return;
        }
        assert!(begun.elapsed() < OPERATION_TIMEOUT, "{}: {text}", file.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn names_and_states(machines: &[FleetMachine]) -> Vec<(&str, &MachineState)> {
    machines.iter().map(|machine| (machine.name.as_str(), &machine.state)).collect()
}

#[track_caller]
fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < OPERATION_TIMEOUT, "it does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}
