//! Records where a program spends its time, in separate untimed runs, since recording slows the
//! program.
//!
//! Decides which tool is used and how it is controlled; `foreign::profile` reads its output. Must
//! not know why a program is recorded. Start at [`Recorder`]: [`Recorder::record`] for a program
//! that runs to its end, [`Recorder::prepare`] and [`Recorder::attach`] for part of a server's
//! lifetime.

mod attached;
mod perf;
mod runtime;

use anyhow::{Context, Result, bail};
pub use attached::{Attached, Recording};
use runtime::{is_node, name_code};
use speedwell_model::Profile;
use speedwell_process::{self as process, Conversation, Outcome, Scratch, Spec};
use speedwell_results::foreign::profile::FrameNames;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Recording tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Linux perf: native code and scripts.
    Perf,
    /// V8's own profiler: JavaScript functions only, and only for the whole run.
    V8,
}

/// Recording of a program that ran to its end.
#[derive(Debug)]
pub struct Recorded {
    /// Where its time went.
    pub profile: Profile,
    /// How the program ended. Its times include the cost of recording.
    pub outcome: Outcome,
}

/// Records programs with the tool this machine has.
#[derive(Debug)]
pub struct Recorder {
    /// Path of perf, or why it cannot be used.
    perf: Result<PathBuf, String>,
}

impl Recorder {
    /// Detects available tools; tries perf once, which takes a fraction of a second.
    pub fn new() -> Recorder {
        Recorder {
            perf: perf::tried(),
        }
    }

    /// Creates a recorder that does not use perf, for the given reason.
    pub fn without_perf(reason: impl Into<String>) -> Recorder {
        Recorder {
            perf: Err(reason.into()),
        }
    }

    /// Returns the tool that would record this program.
    ///
    /// # Errors
    /// No tool can; the message gives the reason.
    pub fn tool(&self, program: &Path) -> Result<Tool> {
        match &self.perf {
            Ok(_) => Ok(Tool::Perf),
            Err(_) if is_node(program) => Ok(Tool::V8),
            Err(reason) => bail!("{reason}"),
        }
    }

    /// Records a program from its start, or from `skip` later on, to its end. A failing program is
    /// reported in the outcome, not as an error.
    ///
    /// # Errors
    /// No tool can record it, or it wrote no samples.
    pub fn record(&self, spec: Spec, skip: Duration) -> Result<Recorded> {
        self.record_while(spec, skip, &mut ())
    }

    /// Records as [`Recorder::record`] does, while holding a conversation with the program.
    ///
    /// # Errors
    /// As for [`Recorder::record`].
    pub fn record_while(
        &self,
        mut spec: Spec,
        skip: Duration,
        conversation: &mut dyn Conversation,
    ) -> Result<Recorded> {
        let home = home(&spec);
        let scratch = Scratch::new()?;
        let program = spec.program.display().to_string();
        let (profile, outcome) = match (self.tool(&spec.program)?, &self.perf) {
            (Tool::Perf, Ok(perf)) => {
                name_code(&mut spec);
                let outcome = run(&perf::recorded(perf, &scratch, spec, skip), conversation)?;
                let script = perf::profile(perf, &scratch, &home);
                (script.map(|script| script.profile), outcome)
            }
            (_, perf) => {
                let outcome = run(&runtime::recorded(&scratch, spec), conversation)?;
                let mut profile = runtime::profile(&scratch, &FrameNames::from(&home));
                if let (Ok(profile), Err(reason)) = (&mut profile, perf) {
                    profile.remarks = runtime::remarks(reason, skip);
                }
                (profile, outcome)
            }
        };
        let profile = profile.with_context(|| unrecorded(&program, &outcome))?;
        Ok(Recorded { profile, outcome })
    }

    /// Prepares a program for [`Recorder::attach`] before it starts.
    pub fn prepare(&self, spec: &mut Spec) {
        if self.perf.is_ok() {
            name_code(spec);
        }
    }

    /// Records the process `pid` and its tree from now on; `home` is its working directory.
    ///
    /// # Errors
    /// perf is unavailable, or cannot attach to the process.
    pub fn attach(&self, pid: i32, home: &Path) -> Result<Attached> {
        match &self.perf {
            Ok(perf) => Attached::begin(perf, pid, home),
            Err(reason) => bail!("{reason}; a running process can be recorded by perf only"),
        }
    }
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder::new()
    }
}

fn run(spec: &Spec, conversation: &mut dyn Conversation) -> Result<Outcome> {
    let program = || format!("cannot start '{}'", spec.program.display());
    process::run(spec, conversation).with_context(program)
}

fn unrecorded(program: &str, outcome: &Outcome) -> String {
    match outcome.stderr.last_lines(1) {
        line if line.is_empty() => format!("'{program}' was not recorded"),
        line => format!("'{program}' was not recorded, and said '{line}'"),
    }
}

/// Folder to which displayed paths are relative: the program's.
fn home(spec: &Spec) -> PathBuf {
    let folder = spec
        .directory
        .clone()
        .or_else(|| std::env::current_dir().ok());
    let folder = folder.unwrap_or_default();
    folder.canonicalize().unwrap_or(folder)
}
