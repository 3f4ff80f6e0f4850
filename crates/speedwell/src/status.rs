//! Exit statuses, from findings as well, and the one way of telling an error.

use super::options::FailOn;
use super::status_line::clear_line;
use anyhow::Context as _;
use speedwell_analysis::{CaseComparison, Findings, Withheld};
use speedwell_model::{Failure, Metric};
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

/// Whether the findings pass the gate, whether the machine was too busy for its rules, and whether anything failed.
pub fn judge(findings: &Findings, fail_on: FailOn) -> Status {
    let rows: Vec<&CaseComparison> = findings
        .comparisons
        .iter()
        // A model of caches says what may be, and decides nothing.
        .filter(|comparison| comparison.metric.name != Metric::CYCLES_ESTIMATE)
        .flat_map(|c| &c.rows)
        .collect();
    let mut verdicts = rows.iter().flat_map(|row| row.gated());
    let refused = verdicts.any(|verdict| fail_on.refuses(verdict));
    let answer = if refused || findings.is_too_busy {
        Status::NO
    } else {
        of_withheld(&rows, fail_on)
    };
    answer.or(of_failures(&findings.failures))
}

/// A gate that could judge no case, because no two sides measured the same, has no answer.
fn of_withheld(rows: &[&CaseComparison], fail_on: FailOn) -> Status {
    let withheld: Vec<&Withheld> = rows
        .iter()
        .filter_map(|row| row.withheld.as_ref())
        .collect();
    let (Some(first), true) = (withheld.first(), fail_on != FailOn::Never) else {
        return Status::DONE;
    };
    let (all, left_out) = (rows.len(), withheld.len());
    note(&format!(
        "the gate leaves out {left_out} of {all} cases: {first}"
    ));
    if **first == Withheld::BenchmarkChanged {
        hint("--with-own-benchmarks compares each side's own benchmark");
    }
    if left_out == all {
        Status::COULD_NOT
    } else {
        Status::DONE
    }
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
    fn hints_come_last() {
        let error = std::fs::read("/no/such/file").context("cannot read it\nhint: look elsewhere");
        let error = error.context("in source 'x'").unwrap_err();
        assert!(with_hints_last(&error).starts_with("in source 'x': cannot read it: No such file"));
        assert!(with_hints_last(&error).ends_with("\nhint: look elsewhere"));
    }
}
