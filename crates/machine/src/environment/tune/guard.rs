//! Runs the guard of a tuner. The tuner is the process that changes settings of the machine. The
//! guard is another process, which restores the settings if the tuner ends without restoring them.
//!
//! The guard executes this program with a hidden subcommand, in a session of its own (setsid(2)). A
//! pidfd of the tuner (pidfd_open(2)) is its standard input and shows when the tuner ends. The
//! tuner changes nothing until the guard has reported that it is running. Start at [`start_guard`],
//! which the tuner calls, and [`run_guard`], which the guard executes.

use super::journal::TuneLock;
use super::machine::TunableMachine;
use crate::process::{self, ProcessIdentity};
use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::Command;
use std::time::{Duration, Instant};

/// Hidden subcommand that runs the guard.
pub const COMMAND: &str = "tune-guard";

/// Starts the guard of this process; returns the identity of the guard. After `limit`, the guard
/// restores the settings even if this process is still running.
///
/// # Errors
/// Fails if the guard cannot be started.
pub fn start_guard(machine: &TunableMachine, limit: Option<Duration>) -> Result<ProcessIdentity> {
    let begin = || -> Result<ProcessIdentity> {
        let end = pidfd_open(getpid(), PidfdFlags::empty())?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(COMMAND).arg(std::path::absolute(&machine.root)?);
        if let Some(limit) = limit {
            command.arg(limit.as_millis().to_string());
        }
        let output = process::spawn_detached(command.stdin(end))?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    };
    begin().context("cannot start the process that restores the settings, so nothing was changed")
}

/// Waits for the end of the tuner, the time limit, or a signal, and then restores the settings if
/// necessary. If the settings are to outlive the tuner, waits only for the time limit or a signal.
///
/// # Errors
/// Fails if the settings cannot be restored.
pub fn run_guard(machine: &TunableMachine, limit: Option<Duration>) -> Result<()> {
    process::install_handlers()?;
    let guard = ProcessIdentity::current_process();
    println!("{}", serde_json::to_string(&guard)?);
    stdout().flush()?;
    let deadline = limit.map(|limit| Instant::now() + limit);
    let tuner = stdin();
    let mut events = vec![PollFd::new(&tuner, PollFlags::IN)];
    loop {
        wait_for_event(&mut events, deadline);
        let lock = TuneLock::acquire(machine)?;
        let Some(journal) = lock.current_journal()?.filter(|journal| journal.guard == guard) else {
            return Ok(());
        };
        let is_over =
            deadline.is_some_and(|end| Instant::now() >= end) || process::is_interrupt_requested();
        if !journal.stays || is_over {
            return journal.restore_all(&lock, false).map(drop);
        }
        events.clear();
    }
}

/// Waits until one of these descriptors is ready, the deadline passes, or a signal arrives.
fn wait_for_event(events: &mut [PollFd<'_>], deadline: Option<Instant>) {
    while !process::is_interrupt_requested() {
        let remaining = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        let timeout = remaining.and_then(|remaining| Timespec::try_from(remaining).ok());
        if poll(events, timeout.as_ref()).is_ok() {
            return;
        }
    }
}
