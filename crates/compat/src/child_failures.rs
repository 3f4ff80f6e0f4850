//! Failures of benchmark processes, as a drop-in tells them.
//!
//! Decides the words on standard error and the exit status: that of the first process that failed,
//! as in the originals, but only after all others have been executed. It must not know what was
//! printed on standard output.

use speedwell_model::{Cause, Failure};
use std::io::{self, Write};

/// The exit status of a time limit, as of `timeout(1)`.
const TIMED_OUT: i32 = 124;

/// The exit status when the user ended it: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

/// What has failed so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChildFailures {
    first: Option<i32>,
    interrupted: bool,
}

impl ChildFailures {
    /// Takes note of a failure and writes what happened and how to repeat it. The variant is named
    /// where there are several.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn tell(
        &mut self,
        tool: &str,
        failure: &Failure,
        names_variant: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let what = failure.case.as_deref().unwrap_or(&failure.benchmark);
        let variant = match &failure.variant {
            Some(variant) if names_variant => format!(" ({variant})"),
            _ => String::new(),
        };
        writeln!(out, "{tool}: '{what}'{variant}: {}", failure.cause)?;
        for line in failure.stderr_tail.lines() {
            writeln!(out, "  | {line}")?;
        }
        if !failure.replay.is_empty() {
            writeln!(out, "  hint: repeat it with: {}", failure.replay)?;
        }
        if !failure.cause.is_skip() {
            self.first.get_or_insert(status(&failure.cause));
        }
        Ok(())
    }

    /// Takes note of something that went wrong without a process that failed.
    pub fn note_other(&mut self) {
        self.first.get_or_insert(1);
    }

    /// Takes note of the end of the session.
    pub fn finish(&mut self, interrupted: bool) {
        self.interrupted = interrupted;
    }

    /// The exit status of the drop-in.
    pub fn status(&self) -> i32 {
        if self.interrupted {
            INTERRUPTED
        } else {
            self.first.unwrap_or(0)
        }
    }
}

fn status(cause: &Cause) -> i32 {
    match cause {
        Cause::Exit { code } if *code != 0 => *code,
        Cause::Signal { signal } => 128 + signal,
        Cause::Timeout { .. } => TIMED_OUT,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::Step;

    fn failure(cause: Cause) -> Failure {
        Failure {
            step: Step::Run,
            benchmark: "zz/a.js".into(),
            case: Some("zz/a.js n=1".into()),
            variant: Some("old".into()),
            slot: None,
            cause,
            stderr_tail: "Error: no\n    at main".into(),
            replay: "node a.js n=1".into(),
        }
    }

    fn status_after(causes: Vec<Cause>) -> i32 {
        let mut failures = ChildFailures::default();
        for cause in causes {
            failures
                .tell("run.js", &failure(cause), true, &mut Vec::new())
                .unwrap();
        }
        failures.status()
    }

    #[test]
    fn the_first_failure_decides_the_exit_status() {
        let exit = |code| Cause::Exit { code };
        assert_eq!(status_after(vec![]), 0);
        assert_eq!(status_after(vec![exit(3), exit(4)]), 3);
        assert_eq!(
            status_after(vec![Cause::Timeout { limit_ms: 5 }, exit(4)]),
            124
        );
        assert_eq!(
            status_after(vec![Cause::Start {
                reason: "no".into()
            }]),
            1
        );
    }

    #[test]
    fn a_child_killed_by_a_signal_is_no_success() {
        assert_eq!(status_after(vec![Cause::Signal { signal: 9 }]), 137);
    }

    #[test]
    fn a_child_that_reports_nothing_is_no_success() {
        assert_eq!(status_after(vec![Cause::Silent]), 1);
    }

    #[test]
    fn a_benchmark_that_cannot_run_here_is_no_failure() {
        assert_eq!(
            status_after(vec![Cause::Skipped {
                reason: "no addon".into()
            }]),
            0
        );
    }

    #[test]
    fn the_message_names_case_variant_and_how_to_repeat_it() {
        let mut out = Vec::new();
        let mut failures = ChildFailures::default();
        failures
            .tell(
                "run.js",
                &failure(Cause::Signal { signal: 9 }),
                true,
                &mut out,
            )
            .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "run.js: 'zz/a.js n=1' (old): was killed by signal 9 (SIGKILL)\n  | Error: no\n  |     \
             at main\n  hint: repeat it with: node a.js n=1\n"
        );
    }
}
