//! Records where a program spends its time. Programs are recorded in separate runs that are not
//! timed, because recording slows them.
//!
//! Decides which tool is used and how it is controlled; `foreign::profile` reads the output of the
//! tool. This module knows nothing about why a program is recorded. Start at [`ProfileRecorder`]:
//! [`ProfileRecorder::record`] records a program that runs to its end; [`ProfileRecorder::prepare`]
//! and [`ProfileRecorder::attach`] record part of a server's lifetime.

mod attached;
mod perf;
mod runtime;

use anyhow::{Context, Result, bail};
pub use attached::{ActiveRecording, FinishedRecording};
use runtime::{enable_symbols, is_node};
use speedwell_formats::foreign::profile::FrameNames;
use speedwell_machine::process::{
    self as process, ChildConversation, ProcessOutcome, ProcessSpec, ScratchFolder,
};
use speedwell_model::StackProfile;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Recording tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingTool {
    /// Linux perf: native code and scripts.
    Perf,
    /// V8's own profiler: JavaScript functions only, and only for the whole run.
    V8,
}

/// Recording of a program that ran to its end.
#[derive(Debug)]
pub struct ProfiledRun {
    /// Where the program spent its time.
    pub profile: StackProfile,
    /// How the program ended. Its times include the cost of recording.
    pub outcome: ProcessOutcome,
}

/// Records programs with a tool that this machine has.
#[derive(Debug)]
pub struct ProfileRecorder {
    /// Path of perf, or why it cannot be used.
    perf: Result<PathBuf, String>,
}

impl ProfileRecorder {
    /// Detects whether perf can be used, by trying it once. This takes a fraction of a second.
    pub fn new() -> ProfileRecorder {
        ProfileRecorder { perf: perf::find_usable_perf() }
    }

    /// Creates a recorder that does not use perf, for the given reason.
    pub fn without_perf(reason: impl Into<String>) -> ProfileRecorder {
        ProfileRecorder { perf: Err(reason.into()) }
    }

    /// Returns the tool that would record this program.
    ///
    /// # Errors
    /// Fails if no tool can record the program; the message gives the reason.
    pub fn select_tool(&self, program: &Path) -> Result<RecordingTool> {
        match &self.perf {
            Ok(_) => Ok(RecordingTool::Perf),
            Err(_) if is_node(program) => Ok(RecordingTool::V8),
            Err(reason) => bail!("{reason}"),
        }
    }

    /// Runs a program to its end and records it. The recording begins when the program starts, or
    /// `skip` later. A failing program is reported in the outcome, not as an error.
    ///
    /// # Errors
    /// Fails if no tool can record the program, or if the tool wrote no samples.
    pub fn record(&self, spec: ProcessSpec, skip: Duration) -> Result<ProfiledRun> {
        self.record_while(spec, skip, &mut ())
    }

    /// Does the same as [`ProfileRecorder::record`], and holds a conversation with the program
    /// while it runs.
    ///
    /// # Errors
    /// Fails under the same conditions as [`ProfileRecorder::record`].
    pub fn record_while(
        &self,
        mut spec: ProcessSpec,
        skip: Duration,
        conversation: &mut dyn ChildConversation,
    ) -> Result<ProfiledRun> {
        let home = working_folder(&spec);
        let scratch = ScratchFolder::new()?;
        let program = spec.program.display().to_string();
        let (profile, outcome) = match (self.select_tool(&spec.program)?, &self.perf) {
            (RecordingTool::Perf, Ok(perf)) => {
                enable_symbols(&mut spec);
                let outcome =
                    run_recorded(&perf::wrap_with_perf(perf, &scratch, spec, skip), conversation)?;
                let script = perf::read_profile(perf, &scratch, &home);
                (script.map(|script| script.profile), outcome)
            }
            (_, perf) => {
                let outcome =
                    run_recorded(&runtime::with_v8_profiler(&scratch, spec), conversation)?;
                let mut profile = runtime::read_v8_profile(&scratch, &FrameNames::from_home(&home));
                if let (Ok(profile), Err(reason)) = (&mut profile, perf) {
                    profile.notes = runtime::fallback_notes(reason, skip);
                }
                (profile, outcome)
            }
        };
        Ok(ProfiledRun {
            profile: profile.with_context(|| describe_unrecorded(&program, &outcome))?,
            outcome,
        })
    }

    /// Prepares a program for [`ProfileRecorder::attach`] before it starts.
    pub fn prepare(&self, spec: &mut ProcessSpec) {
        if self.perf.is_ok() {
            enable_symbols(spec);
        }
    }

    /// Records the process `pid` and its descendants from now on; `home` is its working directory.
    ///
    /// # Errors
    /// Fails if perf is unavailable, or cannot attach to the process.
    pub fn attach(&self, pid: i32, home: &Path) -> Result<ActiveRecording> {
        match &self.perf {
            Ok(perf) => ActiveRecording::attach(perf, pid, home),
            Err(reason) => bail!("{reason}; only perf can record a running process"),
        }
    }
}

impl Default for ProfileRecorder {
    fn default() -> ProfileRecorder {
        ProfileRecorder::new()
    }
}

fn run_recorded(
    spec: &ProcessSpec,
    conversation: &mut dyn ChildConversation,
) -> Result<ProcessOutcome> {
    let program = || format!("cannot start '{}'", spec.program.display());
    process::run_child(spec, conversation).with_context(program)
}

fn describe_unrecorded(program: &str, outcome: &ProcessOutcome) -> String {
    match outcome.stderr.last_lines(1) {
        line if line.is_empty() => format!("'{program}' was not recorded"),
        line => format!("'{program}' was not recorded; it printed '{line}'"),
    }
}

/// Returns the working directory of the program. Displayed paths are relative to it.
fn working_folder(spec: &ProcessSpec) -> PathBuf {
    let folder =
        spec.directory.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default();
    folder.canonicalize().unwrap_or(folder)
}
