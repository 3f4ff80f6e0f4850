//! Defines the failure of a harness ([`HarnessFailure`]): its cause, the output that explains it,
//! and the command that repeats it. [`converse`] exchanges messages with a process; it fails if the
//! process cannot be started.

use speedwell_machine::process::{
    ChildConversation, ProcessEnd, ProcessOutcome, ProcessSpec, run_child, shell_line,
};
use speedwell_model::FailureCause;

/// Lines of stderr kept with a failure.
pub(super) const TAIL_LINES: usize = 20;

/// Why a file was not described, a job was not executed, or a command was not answered.
#[derive(Debug, Clone)]
pub struct HarnessFailure {
    /// Cause of the failure.
    pub cause: FailureCause,
    /// Last lines of the process's stderr, or first lines of the compiler's output.
    pub output: String,
    /// Shell line that repeats the failed command; empty if there is none.
    pub replay: String,
    /// Whether the user interrupted the command.
    pub interrupted: bool,
}

/// Creates a failure without output and without a command that repeats it.
impl From<FailureCause> for HarnessFailure {
    fn from(cause: FailureCause) -> HarnessFailure {
        HarnessFailure { cause, output: String::new(), replay: String::new(), interrupted: false }
    }
}

impl HarnessFailure {
    /// Creates the failure of something that cannot be done. `reason` is a sentence fragment.
    pub(crate) fn invalid(reason: impl Into<String>) -> HarnessFailure {
        FailureCause::invalid(reason).into()
    }

    /// Creates the failure of a program that cannot be started.
    pub(crate) fn start_failed(reason: String) -> HarnessFailure {
        FailureCause::Start { reason }.into()
    }

    /// Creates the failure of the program of `spec`, which cannot be started.
    pub(crate) fn not_started(spec: &ProcessSpec, error: &std::io::Error) -> HarnessFailure {
        HarnessFailure::start_failed(start_reason(spec, error)).with_replay(spec)
    }

    /// Creates the failure of a process that has ended.
    pub(crate) fn of_process(cause: FailureCause, outcome: &ProcessOutcome) -> HarnessFailure {
        HarnessFailure { output: outcome.stderr.last_lines(TAIL_LINES), ..cause.into() }
    }

    /// Creates the failure of a compiler that ended like `outcome` and printed `output`. `message`
    /// is its first error.
    pub(crate) fn of_compiler(
        spec: &ProcessSpec,
        outcome: &ProcessOutcome,
        message: &str,
        output: String,
    ) -> HarnessFailure {
        let cause = match outcome.ended {
            ProcessEnd::Exit(_) => FailureCause::invalid(format!("does not compile: {message}")),
            _ => outcome.failure_cause(spec.limit).unwrap_or(FailureCause::Silent),
        };
        let interrupted = outcome.ended == ProcessEnd::Interrupted;
        HarnessFailure { output, interrupted, ..cause.into() }
    }

    /// Adds the command that repeats the failure.
    pub(crate) fn with_replay(self, replay: &ProcessSpec) -> HarnessFailure {
        HarnessFailure { replay: shell_line(replay), ..self }
    }
}

/// Explains why a program could not be started. The explanation contains the program's name.
pub(super) fn start_reason(spec: &ProcessSpec, error: &std::io::Error) -> String {
    format!("'{}': {error}", spec.program.display())
}

/// Starts a process and exchanges messages with it. With the command `replay`, a user can repeat a
/// failure.
///
/// # Errors
/// Fails if the process cannot be started.
pub(super) fn converse(
    spec: &ProcessSpec,
    replay: &ProcessSpec,
    conversation: &mut dyn ChildConversation,
) -> Result<ProcessOutcome, HarnessFailure> {
    run_child(spec, conversation).map_err(|error| HarnessFailure::not_started(replay, &error))
}
