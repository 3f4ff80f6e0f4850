//! What happens while a plan is executed, and what fails.
//!
//! A failed child is data: what failed, how, and the line that repeats it. The runner knows neither the store nor the
//! terminal: it notifies its observers. Start at [`Failure`] and [`Event`].

use crate::performed::Stage;
use crate::{Metric, Run};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A step that gave no usable result. The other cases go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Which step failed.
    pub step: Step,
    /// The benchmark, `group/name`.
    pub benchmark: String,
    /// The case id, when the step belonged to one case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// The variant's name, when the step belonged to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The slot of the plan, when the step was a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// Why it gave nothing.
    pub cause: Cause,
    /// The last lines that the process wrote on stderr.
    pub stderr_tail: String,
    /// One line for a shell that repeats the step.
    pub replay: String,
}

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Finding out which cases a benchmark has.
    Describe,
    /// Building a revision.
    Build,
    /// Executing one case.
    Run,
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Cause {
    /// The process ended with a status other than 0.
    Exit {
        /// The status.
        code: i32,
    },
    /// The process was ended by a signal.
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// The process was ended by us at its time limit.
    Timeout {
        /// The limit.
        limit_ms: u64,
    },
    /// The process could not be started.
    Start {
        /// What the operating system said.
        reason: String,
    },
    /// The process ended well without reporting anything.
    Silent,
    /// The process reported something that is not a result.
    Invalid {
        /// What is wrong with it.
        reason: String,
    },
    /// It was measured, but what it had prepared could not be undone.
    Undone {
        /// What went wrong.
        reason: String,
    },
    /// A run of an experiment failed at a stage of its life.
    Stage {
        /// Where.
        stage: Stage,
        /// Why.
        reason: String,
    },
    /// The benchmark says itself that it cannot run here: not counted as failed.
    Skipped {
        /// Its reason.
        reason: String,
    },
}

impl Cause {
    /// Whether this is a benchmark that cannot run here, rather than one that failed.
    pub fn is_skip(&self) -> bool {
        matches!(self, Cause::Skipped { .. })
    }

    /// Whether the code does not compile; compilers and harnesses report it in these words.
    pub fn is_not_compiled(&self) -> bool {
        matches!(self, Cause::Invalid { reason } if reason.starts_with("does not compile"))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Exit { code } => write!(out, "exited with status {code}"),
            Cause::Signal { signal } => {
                write!(out, "was killed by signal {signal}{}", signal_name(*signal))
            }
            Cause::Timeout { limit_ms } => {
                write!(
                    out,
                    "timeout: did not end within {} s",
                    *limit_ms as f64 / 1e3
                )
            }
            Cause::Start { reason } => write!(out, "could not be started: {reason}"),
            Cause::Silent => write!(out, "reported nothing"),
            Cause::Invalid { reason } => write!(out, "{reason}"),
            Cause::Undone { reason } => write!(out, "failed in done: {reason}"),
            Cause::Stage { stage, reason } => write!(out, "failed at '{stage}': {reason}"),
            Cause::Skipped { reason } => write!(out, "skipped: {reason}"),
        }
    }
}

/// The name of a signal in brackets behind a blank; nothing for those that hardly anybody meets.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        2 => " (SIGINT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

/// One thing that happened during a session.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// So many of all benchmark files have listed their cases.
    Described {
        /// How many have.
        done: usize,
        /// How many there are.
        all: usize,
    },
    /// The programs of a package are about to be built.
    Building {
        /// The package.
        target: &'a str,
        /// The variant's name.
        variant: &'a str,
    },
    /// A benchmark file was planned.
    Planned {
        /// Its name.
        benchmark: &'a str,
        /// Its number of cases; `None` if it could not be read.
        cases: Option<usize>,
    },
    /// A whole sentence that a reader of the figures should know.
    Warning(&'a str),
    /// A sentence that says how busy the machine is with other things, before anything is measured.
    Busy(&'a str),
    /// What is being done, beside the runs of a plan.
    Note(&'a str),
    /// What is waited for, and may be for minutes.
    Waiting(&'a str),
    /// Measuring begins.
    Started {
        /// Number of runs, or its upper bound.
        runs: usize,
        /// Whether fewer runs may do.
        is_upper_bound: bool,
        /// Number of cases.
        cases: usize,
        /// How many of the runs an earlier, interrupted session has done already.
        done: usize,
    },
    /// A process is about to be started.
    RunStarted {
        /// Position in the plan.
        slot: u32,
        /// Case id, or the benchmark's name when the case is known only afterwards.
        label: &'a str,
        /// The variant's name.
        variant: &'a str,
    },
    /// A metric was reported for the first time in this session.
    Declared(&'a Metric),
    /// A process ended with results. A process that executes several cases gives several.
    RunFinished(&'a Run),
    /// A step gave nothing.
    Failed(&'a Failure),
    /// No more runs of this case are needed; `saved` of the planned ones are left out.
    CaseDecided {
        /// Case id.
        label: &'a str,
        /// Runs that need not be executed.
        saved: usize,
    },
    /// A number of workers was visited in a search.
    Visited {
        /// The number.
        level: u32,
        /// Iterations per second.
        per_s: f64,
    },
    /// A slot, or both of a pair, are over, whatever came of them: they will not be executed again on resuming.
    SlotsDone(&'a [u32]),
    /// All runs of a block of a case are over, repeated ones with them.
    BlockDone {
        /// The case's place in the plan.
        job: usize,
        /// Its block.
        block: u32,
    },
    /// The last event of a session.
    Finished {
        /// Whether the user ended it early.
        interrupted: bool,
    },
}

/// Something that follows a session: the store, the progress line, a row writer.
pub trait Observer {
    /// Takes note of an event.
    ///
    /// # Errors
    /// An observer that cannot keep an event (disk full) ends the session.
    fn observe(&mut self, event: &Event<'_>) -> anyhow::Result<()>;
}
