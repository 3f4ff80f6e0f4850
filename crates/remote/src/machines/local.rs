//! Uses the local machine as a fleet, to try out distributed sessions and to test everything except
//! the transport. Workers are processes on this machine. The fleet may give this machine several
//! names, but the machine's lock still serializes the workers.
//!
//! A detached worker outlives the process that started it. It is identified by its process ID and
//! start time and by the boot ID of the machine. Start at [`LocalEngine`] and [`start_worker`].

use super::{FleetMachine, JobId, JobState, SubmittedJob, TaskBatch, ensure_in_fleet};
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use speedwell_machine::process::{ProcessIdentity, spawn_detached};
use speedwell_machine::worker::{WORKER_COMMAND, WorkerGreeting, spawn_connected};
use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a detached worker may take to exit before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// An engine whose workers are processes on this machine.
#[derive(Debug, Default)]
pub struct LocalEngine {
    pub(super) machines: Vec<FleetMachine>,
    jobs: BTreeMap<JobId, Child>,
}

impl LocalEngine {
    /// Creates an engine with several names for this machine, each with a fleet folder.
    pub fn new(machines: Vec<FleetMachine>) -> LocalEngine {
        LocalEngine { machines, jobs: BTreeMap::new() }
    }

    pub(super) fn submit(&mut self, batch: &TaskBatch) -> Result<SubmittedJob> {
        ensure_in_fleet(&self.machines, &batch.machine)?;
        let tasks: Vec<u32> = batch.tasks.iter().map(|task| task.number).collect();
        if batch.is_detached {
            let job = start_worker(&batch.folder, &tasks)?;
            return Ok(SubmittedJob { job, lines: None });
        }
        let mut command = worker_command(&batch.folder, &tasks);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.with_context(|| start_failure(&command))?;
        let job = JobId::next_held();
        self.jobs.insert(job.clone(), child);
        Ok(SubmittedJob { job, lines: None })
    }

    pub(super) fn job_state(&mut self, job: &JobId) -> JobState {
        let Some(child) = self.jobs.get_mut(job) else {
            return if has_ended(job) { JobState::Ended(None) } else { JobState::Running };
        };
        match child.try_wait() {
            Ok(None) => JobState::Running,
            Ok(Some(status)) if status.success() => JobState::Ended(None),
            Ok(Some(status)) => JobState::Ended(Some(format!("the worker exited: {status}"))),
            Err(error) => JobState::Ended(Some(format!("lost the worker: {error}"))),
        }
    }

    pub(super) fn cancel_jobs(&mut self, jobs: &[JobId]) -> Result<()> {
        for job in jobs {
            let Some(child) = self.jobs.get_mut(job) else {
                end_worker(job, GRACE)?;
                continue;
            };
            if child.try_wait()?.is_none() {
                child.kill()?;
                child.wait()?;
            }
        }
        Ok(())
    }

    pub(super) fn start_command(&self, machine: &str, arguments: &[&str]) -> Result<Child> {
        ensure_in_fleet(&self.machines, machine)?;
        let (program, arguments) = arguments.split_first().context("nothing to start")?;
        let child = spawn_connected(Command::new(program).args(arguments));
        child.with_context(|| format!("cannot start '{program}'"))
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

/// Subcommand of [`WORKER_COMMAND`] that receives files, measures shards, and manages the workers
/// that measure.
pub const SHARD_SUBCOMMAND: &str = "shard";

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Starts the program in a session's `folder` as a detached worker for these tasks. Returns the
/// worker's ID.
///
/// # Errors
/// Fails if the worker cannot be started or ends before it sends its greeting.
pub fn start_worker(folder: &Path, tasks: &[u32]) -> Result<JobId> {
    let mut command = worker_command(folder, tasks);
    let output = spawn_detached(&mut command).with_context(|| start_failure(&command))?;
    let greeting = WorkerGreeting::read(&mut BufReader::new(output));
    Ok(JobId(greeting.context("the worker exited without a message")?.process))
}

/// Builds the command of a worker in a session's `folder`.
fn worker_command(folder: &Path, tasks: &[u32]) -> Command {
    let mut command = Command::new(folder.join("bin/speedwell"));
    command.args([WORKER_COMMAND, SHARD_SUBCOMMAND]).arg(folder);
    command.args(tasks.iter().map(u32::to_string)).stdin(Stdio::null());
    command
}

fn start_failure(command: &Command) -> String {
    format!("cannot start '{}'", command.get_program().display())
}

/// Whether the ID names a detached worker.
pub fn is_detached_worker(job: &JobId) -> bool {
    parse_worker_name(&job.0).is_some()
}

/// Whether the worker has ended. Invalid names count as ended.
pub fn has_ended(job: &JobId) -> bool {
    parse_worker_name(&job.0).is_none_or(|worker| worker.has_ended() != Some(false))
}

/// Asks a worker on this machine to stop. Kills the worker if it is still running after `grace`.
///
/// # Errors
/// Fails if the worker belongs to another user.
pub fn end_worker(job: &JobId, grace: Duration) -> Result<()> {
    let pid = parse_worker_name(&job.0).and_then(|worker| Pid::from_raw(worker.pid));
    let Some(pid) = pid.filter(|_| !has_ended(job)) else {
        return Ok(());
    };
    let error_context = || format!("cannot stop worker {}", job.0);
    kill_process(pid, Signal::TERM).with_context(error_context)?;
    let deadline = Instant::now() + grace;
    while !has_ended(job) {
        if Instant::now() >= deadline {
            // The worker may have ended just now.
            let _ = kill_process(pid, Signal::KILL);
            return Ok(());
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn parse_worker_name(name: &str) -> Option<ProcessIdentity> {
    let mut parts = name.splitn(3, '.');
    let (pid, ticks, boot) = (parts.next()?, parts.next()?, parts.next()?);
    let is_boot = !boot.is_empty() && boot.bytes().all(|byte| byte.is_ascii_graphic());
    let pid: i32 = pid.parse().ok().filter(|pid| *pid > 1 && is_boot)?;
    Some(ProcessIdentity {
        boot_id: Some(boot.to_owned()),
        pid,
        started_ticks: Some(ticks.parse().ok()?),
        // The worker ran on this machine. If the boot ID differs, the worker has ended.
        ..ProcessIdentity::current_process()
    })
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
            std::thread::sleep(std::time::Duration::from_millis(1));
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

#[cfg(test)]
mod detached_tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;
    use speedwell_fixtures::write_program;
    use speedwell_machine::worker::process_name;

    /// Creates a folder in which `bin/speedwell` is this script.
    fn script_folder(script: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        let name = "$$.$(cut -d' ' -f22 /proc/$$/stat).$(cat /proc/sys/kernel/random/boot_id)";
        let greeting =
            format!(r#"echo "{{\"protocol\":1,\"version\":\"0.1.0\",\"process\":\"{name}\"}}""#);
        let text = format!("#!/bin/sh\n{greeting}\n{script}\n");
        write_program(&folder.path().join("bin/speedwell"), &text);
        folder
    }

    #[test]
    fn a_worker_runs_in_its_own_session_until_it_is_ended() {
        let folder = script_folder("exec sleep 600");
        let job = start_worker(folder.path(), &[3]).unwrap();
        assert!(is_detached_worker(&job) && !has_ended(&job), "{job:?}");
        let pid = job.0.split('.').next().unwrap();
        let session = std::process::Command::new("ps").args(["-o", "sid=", "-p", pid]).output();
        if let Ok(session) = session {
            let sid = String::from_utf8(session.stdout).unwrap();
            assert_ne!(sid.trim(), std::process::id().to_string());
        }
        end_worker(&job, Duration::from_secs(60)).unwrap();
        assert!(has_ended(&job));
        // Ending the worker again is not an error.
        end_worker(&job, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_worker_that_ignores_the_signal_is_killed() {
        let folder = script_folder("trap '' TERM\nwhile :; do sleep 0.01; done");
        let job = start_worker(folder.path(), &[]).unwrap();
        end_worker(&job, Duration::from_millis(30)).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while !has_ended(&job) && Instant::now() < until {
            thread::sleep(POLL_INTERVAL);
        }
        assert!(has_ended(&job));
    }

    #[test]
    fn another_process_with_the_id_of_a_worker_is_left_alone() {
        let own = process_name();
        assert!(!has_ended(&JobId(own.clone())));
        let mut parts: Vec<&str> = own.splitn(3, '.').collect();
        parts[1] = "1";
        let other = JobId(parts.join("."));
        assert!(is_detached_worker(&other) && has_ended(&other));
        end_worker(&other, Duration::ZERO).unwrap();
        for name in ["7", "7,8", "1.2.3", "x.2.3", "7.2.", ""] {
            assert!(!is_detached_worker(&JobId(name.into())), "{name}");
        }
    }
}
