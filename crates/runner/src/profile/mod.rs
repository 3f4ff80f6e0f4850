//! Recordings of where a program spends its time, in runs of their own: a program that is recorded is slower, so
//! such a run is never timed.
//!
//! Decides which tool is used and how it is told what to do; what it wrote is read by `foreign::profile`. It must
//! not know why a program is recorded. Start at [`Recorder`]: [`Recorder::record`] for a program that runs to its
//! end, [`Recorder::prepare`] and [`Recorder::attach`] for a server in whose life only a part counts.

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

/// What records a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Linux perf: native code and scripts.
    Perf,
    /// V8's own profiler: JavaScript functions only, from start to end only.
    V8,
}

/// What was recorded of a program that ran to its end.
#[derive(Debug)]
pub struct Recorded {
    /// Where its time went.
    pub profile: Profile,
    /// What became of it. Its times are those of a program that was being recorded.
    pub outcome: Outcome,
}

/// Records programs.
#[derive(Debug)]
pub struct Recorder {
    /// perf, or why it cannot be used.
    perf: Result<PathBuf, String>,
}

impl Recorder {
    /// Finds out what this machine has; perf is tried once, which takes a fraction of a second.
    pub fn new() -> Recorder {
        Recorder {
            perf: perf::tried(),
        }
    }

    /// One that does without perf, for the reason given.
    pub fn without_perf(reason: impl Into<String>) -> Recorder {
        Recorder {
            perf: Err(reason.into()),
        }
    }

    /// What would record this program.
    ///
    /// # Errors
    /// Nothing can: the reason.
    pub fn tool(&self, program: &Path) -> Result<Tool> {
        match &self.perf {
            Ok(_) => Ok(Tool::Perf),
            Err(_) if is_node(program) => Ok(Tool::V8),
            Err(reason) => bail!("{reason}"),
        }
    }

    /// Records a program from its start, or from `skip` later on, to its end. That it ended badly is told in the
    /// outcome, and no error here.
    ///
    /// # Errors
    /// No tool can record it, or it wrote no samples.
    pub fn record(&self, spec: Spec, skip: Duration) -> Result<Recorded> {
        self.record_while(spec, skip, &mut ())
    }

    /// Records a program as [`Recorder::record`] does, and talks with it meanwhile.
    ///
    /// # Errors
    /// As there.
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

    /// Makes a program ready to be recorded by [`Recorder::attach`], before it is started.
    pub fn prepare(&self, spec: &mut Spec) {
        if self.perf.is_ok() {
            name_code(spec);
        }
    }

    /// Records the process `pid` and all that belong to it from now on; `home` is its working directory.
    ///
    /// # Errors
    /// perf cannot be used, for the reason told, or does not take the process.
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

/// Paths are shown from the program's folder.
fn home(spec: &Spec) -> PathBuf {
    let folder = spec
        .directory
        .clone()
        .or_else(|| std::env::current_dir().ok());
    let folder = folder.unwrap_or_default();
    folder.canonicalize().unwrap_or(folder)
}
