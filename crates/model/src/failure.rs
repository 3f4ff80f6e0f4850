//! Defines the events and failures during the execution of a plan, and the text of an error that a
//! user reads.
//!
//! A failed child process is recorded as data: which step failed, why, and the command that repeats
//! the step. The code that executes the plan notifies observers, so it depends on neither the store
//! nor the terminal. Start at [`StepFailure`] and [`SessionEvent`].

use crate::stage_report::RunStage;
use crate::{Metric, Run};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A step that yielded no usable result. The session continues with the other cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepFailure {
    /// Which step failed.
    pub step: SessionStep,
    /// The benchmark, `group/name`.
    pub benchmark: String,
    /// The case id, if the step belonged to one case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// The variant's name, if the step belonged to one variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The position of the run in the plan, if the step was a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// Why the step failed.
    pub cause: FailureCause,
    /// Last lines of the process's stderr.
    pub stderr_tail: String,
    /// Shell command that repeats the step; empty if no single command can repeat it.
    pub replay: String,
}

/// Prefix of the reason when a shell command failed.
const EXITED: &str = "exited with status ";

/// Prefix of the reason when code does not compile.
const NOT_COMPILED: &str = "does not compile: ";

impl StepFailure {
    /// Returns the reason on one line. Adds the source location of a compile error, or the line of
    /// stderr that names the error: the last one such as `TypeError: ...`, else the last line.
    pub fn reason_line(&self) -> String {
        let cause = self.cause.to_string();
        let mut lines = self.stderr_tail.lines().map(str::trim).filter(|line| !line.is_empty());
        match cause.strip_prefix(NOT_COMPILED) {
            Some(message) => {
                let located_message = lines.find(|line| line.ends_with(message));
                format!("{NOT_COMPILED}{}", located_message.unwrap_or(message))
            }
            None if self.names_defect() => cause,
            None => {
                match lines.clone().rfind(|line| names_error(line)).or_else(|| lines.next_back()) {
                    Some(line) => format!("{cause}: {line}"),
                    None => cause,
                }
            }
        }
    }

    /// Whether the cause itself says what is wrong. An exit status does not.
    fn names_defect(&self) -> bool {
        matches!(&self.cause, FailureCause::Invalid { reason } if !reason.starts_with(EXITED))
    }

    /// Whether [`StepFailure::reason_line`] says all that a user needs: the program or framework is
    /// missing, or the code does not compile.
    pub fn is_one_line(&self) -> bool {
        matches!(self.cause, FailureCause::Start { .. })
            || self.cause.is_compile_error()
            || self.has_install_hint()
    }

    /// Whether the cause itself says what to install.
    pub fn has_install_hint(&self) -> bool {
        self.names_defect() && self.cause.to_string().contains("\nhint: install ")
    }
}

/// Whether a line of stderr begins with the name of an exception. Node.js prints a stack and its
/// version below that line.
fn names_error(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or_default();
    name.len() < line.len()
        && (name.ends_with("Error") || name.ends_with("Exception"))
        && !name.contains(' ')
}

/// A kind of step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStep {
    /// Listing the cases of a benchmark.
    Describe,
    /// Building a revision.
    Build,
    /// Executing one case.
    Run,
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum FailureCause {
    /// The process exited with a status other than 0.
    #[error("exited with status {code}")]
    Exit {
        /// The status.
        code: i32,
    },
    /// The process was killed by a signal.
    #[error("was killed by signal {signal}{}", signal_name(*signal))]
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// The process exceeded its time limit and was killed.
    #[error("timeout: did not end within {} s", *limit_ms as f64 / 1e3)]
    Timeout {
        /// The limit.
        limit_ms: u64,
    },
    /// The process could not be started.
    #[error("could not be started: {reason}")]
    Start {
        /// Error message of the operating system.
        reason: String,
    },
    /// The process exited successfully without reporting anything.
    #[error("reported nothing")]
    Silent,
    /// The process reported an invalid result.
    #[error("{reason}")]
    Invalid {
        /// The defect.
        reason: String,
    },
    /// The measurement succeeded, but the clean-up failed.
    #[error("failed in done: {reason}")]
    CleanupFailed {
        /// Error message.
        reason: String,
    },
    /// A run of an experiment failed at one of its stages.
    #[error("failed at '{stage}': {reason}")]
    Stage {
        /// The stage.
        stage: RunStage,
        /// The reason.
        reason: String,
    },
    /// The benchmark reported that it cannot run here. This does not count as a failure.
    #[error("skipped: {reason}")]
    Skipped {
        /// The benchmark's reason.
        reason: String,
    },
}

impl FailureCause {
    /// The cause that a process reported an invalid result, with the defect.
    pub fn invalid(reason: impl Into<String>) -> FailureCause {
        FailureCause::Invalid { reason: reason.into() }
    }

    /// Whether the benchmark was skipped, which does not count as a failure.
    pub fn is_skip(&self) -> bool {
        matches!(self, FailureCause::Skipped { .. })
    }

    /// Whether the failure is that the code does not compile. The reason then begins with a fixed
    /// text.
    pub fn is_compile_error(&self) -> bool {
        matches!(self, FailureCause::Invalid { reason } if reason.starts_with("does not compile"))
    }
}

/// The name of a common signal in parentheses, after a space; empty for rare signals.
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

/// An event during a session.
#[derive(Debug, Clone)]
pub enum SessionEvent<'a> {
    /// Progress of listing cases.
    Described {
        /// Number of files whose cases have been listed so far.
        done: usize,
        /// Total number of files.
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
        /// The benchmark's name.
        benchmark: &'a str,
        /// Number of cases; `None` if the cases could not be listed.
        cases: Option<usize>,
    },
    /// A caveat about the results, as a whole sentence.
    Warning(&'a str),
    /// A warning before the first run: the machine is busy.
    Busy(&'a str),
    /// Describes an activity other than the runs of the plan.
    Note(&'a str),
    /// Describes what the session is waiting for, possibly for minutes.
    Waiting(&'a str),
    /// Measuring starts.
    Started {
        /// Number of runs, or its upper bound.
        runs: usize,
        /// Whether `runs` is an upper bound.
        is_upper_bound: bool,
        /// Number of cases.
        cases: usize,
        /// Number of runs that a previous, interrupted session completed.
        done: usize,
    },
    /// A process is about to be started.
    RunStarted {
        /// Position in the plan.
        slot: u32,
        /// Case id. If the case is known only afterwards, the benchmark's name.
        label: &'a str,
        /// The variant's name.
        variant: &'a str,
    },
    /// A metric was reported for the first time in this session.
    Declared(&'a Metric),
    /// A process ended with a result. A process that executes several cases causes several events.
    RunFinished(&'a Run),
    /// A step failed.
    Failed(&'a StepFailure),
    /// The case is settled and needs no more runs.
    CaseDecided {
        /// Case id.
        label: &'a str,
        /// Number of planned runs that are skipped.
        saved: usize,
    },
    /// A search measured the throughput with this many workers.
    Visited {
        /// The number of workers.
        level: u32,
        /// Iterations per second.
        per_s: f64,
    },
    /// One position in the plan, or both positions of a pair, were completed with any outcome. A
    /// resumed session does not execute them again.
    SlotsDone(&'a [u32]),
    /// All runs in a block of a case completed, including repeated runs.
    BlockDone {
        /// Index of the case in the plan.
        job: usize,
        /// Index of the block within the case.
        block: u32,
    },
    /// The last event of a session.
    Finished {
        /// Whether the user interrupted the session.
        interrupted: bool,
    },
}

/// Receives the events of a session. The store, the progress line and the row writer are observers.
pub trait SessionObserver {
    /// Handles an event.
    ///
    /// # Errors
    /// Returns an error that ends the session, such as a full disk.
    fn observe(&mut self, event: &SessionEvent<'_>) -> anyhow::Result<()>;
}

// The code below turns an error into the text that a user reads: what failed, and hints on how to
// proceed.
//
// An error is a chain of messages. A line of any message that begins with `hint: ` is a hint. Only
// this module separates the hints from the messages.

const HINT: &str = "\nhint: ";

/// Message and hints of an error and its causes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorText {
    /// What failed, outermost context first, joined by colons.
    pub message: String,
    /// Hints on how to proceed, in the order of the chain.
    pub hints: Vec<String>,
}

impl ErrorText {
    /// Collects message and hints of an error.
    pub fn from_error(error: &anyhow::Error) -> ErrorText {
        let (mut messages, mut hints) = (Vec::new(), Vec::new());
        for part in error.chain().map(ToString::to_string) {
            let mut pieces = part.split(HINT);
            messages.extend(pieces.next().map(str::to_owned));
            hints.extend(pieces.map(str::to_owned));
        }
        ErrorText { message: messages.join(": "), hints }
    }
}

/// Formats the message, then each hint on a line of its own.
impl fmt::Display for ErrorText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)?;
        self.hints.iter().try_for_each(|hint| write!(out, "{HINT}{hint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn the_reason_is_the_line_that_names_the_error() {
        for (stderr, expected) in [
            (
                "x.js:3\n  f();\n\nTypeError: f is no\n    at x.js:3:1\n\nNode.js v22\n",
                "TypeError: f is no",
            ),
            ("Traceback:\n  File \"a.py\"\nmod.ParseError: bad\n", "mod.ParseError: bad"),
            ("starting\nno library x\n\n", "no library x"),
        ] {
            let command_failed = FailureCause::invalid("exited with status 1");
            for cause in [FailureCause::Exit { code: 1 }, command_failed] {
                let failure = StepFailure {
                    step: SessionStep::Run,
                    benchmark: "g/x".into(),
                    case: None,
                    variant: None,
                    slot: None,
                    cause,
                    stderr_tail: stderr.into(),
                    replay: String::new(),
                };
                assert_eq!(failure.reason_line(), format!("exited with status 1: {expected}"));
            }
        }
    }

    #[test]
    fn hints_come_last() {
        let error = std::fs::read("/no/such/file").context("cannot read it\nhint: look elsewhere");
        let error = error.context("in source 'x'\nhint: or here").unwrap_err();
        let text = ErrorText::from_error(&error);
        assert!(text.message.starts_with("in source 'x': cannot read it: No such file"), "{text}");
        assert_eq!(text.hints, ["or here", "look elsewhere"]);
        assert!(text.to_string().ends_with("\nhint: or here\nhint: look elsewhere"));
    }
}
