//! Uses the local machine as a fleet, to try out distributed sessions and to test everything except
//! the transport. Workers are processes on this machine. The fleet may give this machine several
//! names, but the machine's lock still serializes the workers.

use super::{FleetMachine, JobId, JobState, SubmittedJob, TaskBatch};
use crate::machines::detached::{self, SHARD_SUBCOMMAND};
use anyhow::Context;
use speedwell_machine::worker::{WORKER_COMMAND, spawn_connected};
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a detached worker may take to exit before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// An engine whose workers are processes on this machine.
#[derive(Debug, Default)]
pub struct LocalEngine {
    machines: Vec<FleetMachine>,
    jobs: BTreeMap<JobId, Child>,
}

impl LocalEngine {
    /// Creates an engine with several names for this machine, each with a fleet folder.
    pub fn new(machines: Vec<FleetMachine>) -> LocalEngine {
        LocalEngine { machines, jobs: BTreeMap::new() }
    }

    pub(super) fn list_machines(&self) -> Vec<FleetMachine> {
        self.machines.clone()
    }

    pub(super) fn submit(&mut self, batch: &TaskBatch) -> anyhow::Result<SubmittedJob> {
        self.ensure_known(&batch.machine)?;
        if batch.is_detached {
            let tasks: Vec<u32> = batch.tasks.iter().map(|task| task.number).collect();
            let job = detached::start_worker(&batch.folder, &tasks)?;
            return Ok(SubmittedJob { job, lines: None });
        }
        let program = batch.folder.join("bin/speedwell");
        let tasks = batch.tasks.iter().map(|task| task.number.to_string());
        let child = Command::new(&program)
            .args([WORKER_COMMAND, SHARD_SUBCOMMAND])
            .arg(&batch.folder)
            .args(tasks)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start '{}'", program.display()))?;
        let job = JobId::next_held();
        self.jobs.insert(job.clone(), child);
        Ok(SubmittedJob { job, lines: None })
    }

    pub(super) fn job_state(&mut self, job: &JobId) -> JobState {
        let Some(child) = self.jobs.get_mut(job) else {
            if detached::has_ended(job) {
                return JobState::Ended(None);
            }
            return JobState::Running;
        };
        match child.try_wait() {
            Ok(None) => JobState::Running,
            Ok(Some(status)) if status.success() => JobState::Ended(None),
            Ok(Some(status)) => JobState::Ended(Some(format!("the worker exited: {status}"))),
            Err(error) => JobState::Ended(Some(format!("lost the worker: {error}"))),
        }
    }

    pub(super) fn cancel_jobs(&mut self, jobs: &[JobId]) -> anyhow::Result<()> {
        for job in jobs {
            let Some(child) = self.jobs.get_mut(job) else {
                detached::end_worker(job, GRACE)?;
                continue;
            };
            if child.try_wait()?.is_none() {
                child.kill()?;
                child.wait()?;
            }
        }
        Ok(())
    }

    pub(super) fn start_command(&self, machine: &str, arguments: &[&str]) -> anyhow::Result<Child> {
        self.ensure_known(machine)?;
        let (program, arguments) = arguments.split_first().context("nothing to start")?;
        let child = spawn_connected(Command::new(program).args(arguments));
        child.with_context(|| format!("cannot start '{program}'"))
    }

    fn ensure_known(&self, machine: &str) -> anyhow::Result<()> {
        let is_known = self.machines.iter().any(|candidate| candidate.name == machine);
        anyhow::ensure!(is_known, "unknown machine '{machine}'");
        Ok(())
    }
}

impl Drop for LocalEngine {
    /// Ends all workers that are not detached: they must not outlive their coordinator.
    fn drop(&mut self) {
        for child in self.jobs.values_mut() {
            if !matches!(child.try_wait(), Ok(Some(_))) {
                // The process may have exited already.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use crate::machines::{
        FleetEngine, FleetMachine, JobState, LocalEngine, MachineState, ShardTask, TaskBatch,
    };
    use speedwell_fixtures::write_program;
    use std::io::{Read, Write};
    use std::path::Path;

    /// Returns a fleet with one machine `here`, on which `bin/speedwell` is this script.
    fn fleet(folder: &Path, script: &str) -> FleetEngine {
        std::fs::create_dir(folder.join("bin")).unwrap();
        write_program(&folder.join("bin/speedwell"), &format!("#!/bin/sh\n{script}\n"));
        FleetEngine::Local(LocalEngine::new(vec![FleetMachine {
            name: "here".into(),
            labels: vec!["lab".into()],
            state: MachineState::Free,
            folder: folder.into(),
            binary: None,
        }]))
    }

    fn work(folder: &Path, machine: &str) -> TaskBatch {
        let task = |number| ShardTask { number, request: "{}".into() };
        TaskBatch {
            machine: machine.into(),
            folder: folder.into(),
            tasks: vec![task(4), task(7)],
            is_detached: false,
        }
    }

    fn wait_for_end(engine: &mut FleetEngine, job: &crate::machines::JobId) -> JobState {
        loop {
            let state = engine.job_states(std::slice::from_ref(job)).unwrap().remove(0);
            if state != JobState::Running {
                return state;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_worker_is_started_with_the_folder_and_its_tasks() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = fleet(folder.path(), r#"echo "$@" > "$3/words""#);
        let submitted = engine.submit(&work(folder.path(), "here")).unwrap();
        assert_eq!(wait_for_end(&mut engine, &submitted.job), JobState::Ended(None));
        let words = std::fs::read_to_string(folder.path().join("words")).unwrap();
        let expected = format!("worker shard {} 4 7\n", folder.path().display());
        assert_eq!(words, expected);
    }

    #[test]
    fn a_cancelled_worker_is_reported_with_its_signal() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = fleet(folder.path(), r#"[ "$4" = 4 ] && exec sleep 600"#);
        let job = engine.submit(&work(folder.path(), "here")).unwrap().job;
        let state = engine.job_states(std::slice::from_ref(&job)).unwrap();
        assert_eq!(state, [JobState::Running]);
        engine.cancel_jobs(std::slice::from_ref(&job)).unwrap();
        let JobState::Ended(Some(reason)) = wait_for_end(&mut engine, &job) else {
            panic!("it ended by itself");
        };
        assert!(reason.contains("signal: 9"), "{reason}");
        engine.cancel_jobs(&[job]).unwrap();
    }

    #[test]
    fn jobs_of_another_coordinator_count_as_ended() {
        let begun = || {
            let folder = tempfile::tempdir().unwrap();
            let mut engine = fleet(folder.path(), "exec sleep 600");
            let job = engine.submit(&work(folder.path(), "here")).unwrap().job;
            (folder, engine, job)
        };
        let (earlier, mut ours) = (begun(), begun());
        // Earlier versions of this program gave this ID to their first job.
        let first = crate::machines::JobId("0".to_owned());
        let states = ours.1.job_states(&[earlier.2, ours.2, first]).unwrap();
        let gone = JobState::Ended(None);
        assert_eq!(states, [gone.clone(), JobState::Running, gone]);
    }

    #[test]
    fn a_command_receives_its_input_and_returns_its_output() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = fleet(folder.path(), "");
        let mut line = engine.start_command("here", &["tr", "a-z", "A-Z"]).unwrap();
        line.stdin.take().unwrap().write_all(b"ready $(id)").unwrap();
        let mut answer = String::new();
        line.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
        line.wait().unwrap();
        assert_eq!(answer, "READY $(ID)");
    }

    #[test]
    fn only_machines_of_the_fleet_get_work() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = fleet(folder.path(), "");
        let refused = engine.submit(&work(folder.path(), "there")).unwrap_err();
        assert_eq!(refused.to_string(), "unknown machine 'there'");
        assert_eq!(engine.list_machines().unwrap()[0].name, "here");
    }
}
