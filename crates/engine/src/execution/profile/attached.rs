//! Attaches perf to a running program and records it until the recording is stopped.
//!
//! perf is controlled through two named pipes, for commands and acknowledgments (perf-record(1),
//! `--control`), so this module knows when recording has really begun.

use super::perf;
use anyhow::{Context, Result, bail};
use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};
use speedwell_machine::process::{ProcessSpec, ScratchFolder, ServiceProcess, tree_of};
use speedwell_model::StackProfile;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time perf may take to start or stop. The limit is long, because perf reads the memory maps of
/// every process, possibly on a machine under load.
const PERF_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum duration of a recording. The recording of a server under load can reach gigabytes within
/// minutes.
const MAX_RECORDING: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A recording in progress. Dropping it discards the recording.
#[derive(Debug)]
pub struct ActiveRecording {
    perf: PathBuf,
    service: ServiceProcess,
    commands: File,
    scratch: ScratchFolder,
    home: PathBuf,
}

impl ActiveRecording {
    /// Starts recording a process and its descendants. Returns when perf has begun to take samples.
    pub(super) fn attach(perf: &Path, pid: i32, home: &Path) -> Result<ActiveRecording> {
        let scratch = ScratchFolder::new()?;
        let commands = create_pipe(&scratch.path("orders"))?;
        let acknowledgments = create_pipe(&scratch.path("answers"))?;
        let tree: Vec<String> = tree_of(pid).iter().map(ToString::to_string).collect();
        if tree.is_empty() {
            bail!("process {pid} has ended");
        }
        let control = format!(
            "--control=fifo:{},{}",
            scratch.path("orders").display(),
            scratch.path("answers").display()
        );
        // -D -1 starts perf with recording disabled, until it receives `enable`.
        let spec = perf::perf_record_command(perf, &scratch)
            .args(["-D", "-1", "-p", &tree.join(",")])
            .args([control]);
        let service = ServiceProcess::start(ProcessSpec { limit: MAX_RECORDING, ..spec })
            .context("cannot start perf")?;
        let mut recording = ActiveRecording {
            perf: perf.to_owned(),
            service,
            commands,
            scratch,
            home: home.to_owned(),
        };
        recording.send_command("enable\n")?;
        recording.wait_for_ack(acknowledgments)?;
        Ok(recording)
    }

    /// Stops the recording; the program continues.
    ///
    /// # Errors
    /// Fails if waiting for perf fails.
    pub fn stop_recording(mut self) -> Result<FinishedRecording> {
        // If the pipe is closed, perf has ended together with the program, and the recording is
        // complete.
        let _ = self.send_command("stop\n");
        let clock = self.service.clock();
        let deadline = clock.now() + PERF_TIMEOUT;
        while !self.service.has_ended() && clock.now() < deadline {
            clock.wait(POLL_INTERVAL);
        }
        let outcome = self.service.stop_and_wait().context("cannot wait for perf")?;
        Ok(FinishedRecording {
            perf: self.perf,
            scratch: self.scratch,
            home: self.home,
            last_line: outcome.stderr.last_lines(1),
        })
    }

    fn send_command(&mut self, command: &str) -> Result<()> {
        self.commands.write_all(command.as_bytes()).context("cannot send commands to perf")
    }

    /// Waits until perf acknowledges a command with `ack`.
    fn wait_for_ack(&self, mut acknowledgments: File) -> Result<()> {
        let clock = self.service.clock();
        let deadline = clock.now() + PERF_TIMEOUT;
        let mut buffer = [0; 16];
        loop {
            if acknowledgments.read(&mut buffer).is_ok_and(|length| length > 0) {
                return Ok(());
            }
            if self.service.has_ended() {
                bail!("perf cannot record this process\nhint: does it belong to another user?");
            }
            if clock.now() > deadline {
                bail!("perf did not start to record");
            }
            clock.wait(POLL_INTERVAL);
        }
    }
}

/// A finished recording that has not been read yet.
#[derive(Debug)]
pub struct FinishedRecording {
    perf: PathBuf,
    scratch: ScratchFolder,
    home: PathBuf,
    /// Last line of perf's stderr.
    last_line: String,
}

impl FinishedRecording {
    /// Reads the recording. Call this after the program has ended, so that reading disturbs no
    /// measurement. Do not remove the files that the program's runtime wrote for perf before this
    /// call returns.
    ///
    /// # Errors
    /// Fails if nothing was recorded, or if the recording cannot be read.
    pub fn read_profile(self) -> Result<StackProfile> {
        let script = perf::read_profile(&self.perf, &self.scratch, &self.home);
        let reason = || match self.last_line.as_str() {
            "" => "perf recorded nothing".to_owned(),
            line => format!("perf recorded nothing and printed '{line}'"),
        };
        script.map(|script| script.profile).with_context(reason)
    }
}

/// Creates a named pipe and opens it in both directions. Opening it in one direction would wait
/// until another process opens the pipe.
fn create_pipe(path: &Path) -> Result<File> {
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).context("cannot create a named pipe")?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let pipe = open(path, flags, Mode::empty()).context("cannot open a named pipe")?;
    Ok(File::from(pipe))
}
