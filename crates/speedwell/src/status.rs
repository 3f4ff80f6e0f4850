//! Exit statuses, and the one way of telling an error.

use super::status_line::clear_line;
use anyhow::Context as _;
use speedwell_model::Failure;
use speedwell_report::visible;
use speedwell_runner::Ended;
use std::io::Write as _;

/// The exit status of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(u8);

impl Status {
    /// Done.
    pub const DONE: Status = Status(0);
    /// The answer is no: a gate failed, a check found a problem.
    pub const NO: Status = Status(1);
    /// Could not do it: wrong words, a missing program, a benchmark that failed.
    pub const COULD_NOT: Status = Status(2);
    /// Interrupted; what was measured is kept.
    pub const INTERRUPTED: Status = Status(130);

    /// The status of what was measured until it ended so. An end at the first failure was asked for.
    pub fn of_end(ended: Ended) -> Status {
        match ended {
            Ended::Interrupted => Status::INTERRUPTED,
            Ended::Failed | Ended::Complete => Status::DONE,
        }
    }

    /// The status of a command whose parts ended so, gates among them: an interruption outranks everything, and a case that
    /// is worse outranks what could not be judged.
    pub fn of_gate(self, other: Status) -> Status {
        let either = [Status::INTERRUPTED, Status::NO];
        let outranks = |status: &Status| [self, other].contains(status);
        either.into_iter().find(outranks).unwrap_or(self.or(other))
    }

    /// A drop-in's own status.
    pub fn from_code(code: i32) -> Status {
        Status(code.clamp(0, 255) as u8)
    }

    /// The number.
    pub fn code(self) -> i32 {
        i32::from(self.0)
    }

    /// The graver of two: could-not-do-it outranks an answer, an interruption outranks both.
    pub fn or(self, other: Status) -> Status {
        let rank = |status: Status| match status {
            Status::DONE => 0,
            Status::NO => 1,
            Status::COULD_NOT => 2,
            _ => 3,
        };
        if rank(other) > rank(self) {
            other
        } else {
            self
        }
    }
}

/// Writes to standard output.
///
/// # Errors
/// It cannot be written to.
pub fn say(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_ref()).and_then(|()| out.flush());
    heard(written.context("cannot write to standard output"))
}

/// What became of writing to standard output: a reader that has seen enough (`| head`) is no error.
///
/// # Errors
/// It failed for another reason.
pub fn heard(done: anyhow::Result<()>) -> anyhow::Result<()> {
    let is_closed = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        // What writes JSON wraps the error of the pipe.
        let json = cause.downcast_ref::<serde_json::Error>();
        io.or_else(|| json?.io_error_kind()) == Some(std::io::ErrorKind::BrokenPipe)
    };
    match done {
        Err(error) if error.chain().any(is_closed) => Ok(()),
        done => done,
    }
}

/// A line on standard error. Where nobody is left to read it (`2>&1 | head`), the work goes on.
fn remark(whose: &str, sentence: &str) {
    let mut err = std::io::stderr().lock();
    clear_line();
    let _ = writeln!(err, "{whose}: {}", visible(sentence));
}

/// Prints an error: outermost context first, hints on lines of their own.
pub fn tell(error: &anyhow::Error) {
    remark("speedwell", &with_hints_last(error));
}

/// The message with its hints at the end, wherever in the chain they were given.
fn with_hints_last(error: &anyhow::Error) -> String {
    let mut message = Vec::new();
    let mut hints = Vec::new();
    for part in error.chain().map(ToString::to_string) {
        match part.split_once("\nhint: ") {
            Some((words, hint)) => {
                message.push(words.to_owned());
                hints.push(format!("\nhint: {hint}"));
            }
            None => message.push(part),
        }
    }
    message.join(": ") + &hints.concat()
}

/// Prints a warning.
pub fn warn(sentence: &str) {
    remark("warning", sentence);
}

/// Prints a remark that is no warning.
pub fn note(sentence: &str) {
    remark("speedwell", sentence);
}

/// Prints what to try next.
pub fn hint(sentence: &str) {
    remark("hint", sentence);
}

/// Whether anything failed; what says itself that it cannot run here did not.
pub fn of_failures(failures: &[Failure]) -> Status {
    if failures.iter().any(|failure| !failure.cause.is_skip()) {
        Status::COULD_NOT
    } else {
        Status::DONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn worse_outranks_what_could_not_be_judged_in_either_order() {
        use Status as S;
        assert_eq!(S::NO.of_gate(S::COULD_NOT), S::NO);
        assert_eq!(S::COULD_NOT.of_gate(S::NO), S::NO);
        assert_eq!(S::INTERRUPTED.of_gate(S::NO), S::INTERRUPTED);
        assert_eq!(S::DONE.of_gate(S::COULD_NOT), S::COULD_NOT);
    }

    #[test]
    fn hints_come_last() {
        let error = std::fs::read("/no/such/file").context("cannot read it\nhint: look elsewhere");
        let error = error.context("in source 'x'").unwrap_err();
        assert!(with_hints_last(&error).starts_with("in source 'x': cannot read it: No such file"));
        assert!(with_hints_last(&error).ends_with("\nhint: look elsewhere"));
    }
}
