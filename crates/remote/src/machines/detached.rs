//! Starts and ends detached workers, which outlive the process that started them. A worker is
//! identified by its process ID and start time and by the boot ID of the machine. Start at
//! [`start_worker`].

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use speedwell_machine::process::{ProcessIdentity, spawn_detached};
use speedwell_machine::worker::{WORKER_COMMAND, WorkerGreeting, process_name};
use std::io::BufReader;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Subcommand of [`WORKER_COMMAND`] that receives files, measures shards, and manages the workers
/// that measure.
pub const SHARD_SUBCOMMAND: &str = "shard";

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The ID that an engine gives to accepted work.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobId(pub String);

impl JobId {
    /// Returns a new ID for a worker that does not outlive this process. The ID contains the name
    /// of this process, so IDs recorded by an earlier process match no worker of this one.
    pub(crate) fn next_held() -> JobId {
        static STARTED_WORKERS: AtomicU32 = AtomicU32::new(0);
        let number = STARTED_WORKERS.fetch_add(1, Ordering::Relaxed);
        JobId(format!("{number}@{}", process_name()))
    }
}

/// Starts the program in a session's `folder` as a detached worker for these tasks. Returns the
/// worker's ID.
///
/// # Errors
/// Fails if the worker cannot be started or ends before it sends its greeting.
pub fn start_worker(folder: &Path, tasks: &[u32]) -> Result<JobId> {
    let program = folder.join("bin/speedwell");
    let mut command = Command::new(&program);
    command.args([WORKER_COMMAND, SHARD_SUBCOMMAND]).arg(folder);
    command.args(tasks.iter().map(u32::to_string));
    command.stdin(Stdio::null());
    let error_context = || format!("cannot start '{}'", program.display());
    let output = spawn_detached(&mut command).with_context(error_context)?;
    let greeting = WorkerGreeting::read(&mut BufReader::new(output));
    Ok(JobId(greeting.context("the worker exited without a message")?.process))
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

    use super::*;
    use speedwell_fixtures::write_program;

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
