//! Defines the streams and the environment of a drop-in, which is our replacement for another tool.
//! Callers pass them in, so that tests can replace them.
//!
//! Decides how a drop-in talks to its user. Results go to standard output, in the original tool's
//! format. Everything else goes to standard error. Messages written here contain no terminal
//! control sequences. Except for usage texts and hints, they start with the tool's name. This
//! module knows nothing about any particular tool.

use rustix::termios::tcgetwinsize;
use speedwell_engine::ScriptsRequest;
use speedwell_model::SessionObserver;
use speedwell_report::escape_controls;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Streams and environment of a drop-in.
pub struct DropInConsole<'a> {
    /// Standard input.
    pub stdin: &'a mut dyn Read,
    /// Standard output: results only.
    pub stdout: &'a mut dyn Write,
    /// Standard error.
    pub stderr: &'a mut dyn Write,
    /// Whether standard output is a terminal.
    pub stdout_is_terminal: bool,
    /// Terminal on which a progress line may be redrawn: standard error, if it is a terminal and
    /// standard output is not; else `None`.
    pub progress: Option<Box<dyn Write + Send>>,
    /// Working directory.
    pub directory: PathBuf,
    /// Looks up an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Function that measures scripts, normally `engine::execute_scripts`.
    pub measure: &'a MeasureFn<'a>,
}

/// Measures scripts and reports events to an observer.
pub type MeasureFn<'a> =
    dyn Fn(&ScriptsRequest, &mut dyn SessionObserver) -> anyhow::Result<()> + 'a;

/// Exit status of [`DropInConsole::reject`] and of most errors. The original tools use the same
/// status.
pub const EXIT_REJECTED: i32 = 1;

/// Exit status of [`DropInConsole::reject_with_hint`] and [`DropInConsole::report_failure`]. Only
/// some drop-ins call these.
pub const EXIT_FAILED: i32 = 2;

/// Exit status after Ctrl-C: 128 + SIGINT.
pub const EXIT_INTERRUPTED: i32 = 130;

/// Exit status if the reader of the results has closed its pipe: the status that a shell reports
/// for SIGPIPE.
const EXIT_BROKEN_PIPE: i32 = 128 + 13;

impl DropInConsole<'_> {
    /// Writes a warning from `tool`.
    ///
    /// # Errors
    /// Fails if standard error is closed.
    pub fn warn(&mut self, tool: &str, message: &str) -> io::Result<()> {
        writeln!(self.stderr, "{tool}: warning: {}", escape_controls(message))
    }

    /// Prints the help text; returns the exit status, 0.
    ///
    /// # Errors
    /// Fails if standard output is closed.
    pub fn print_help(&mut self, text: &str) -> io::Result<i32> {
        self.stdout.write_all(text.as_bytes())?;
        Ok(0)
    }

    /// Rejects a command line with a reason, if any, and the usage.
    ///
    /// # Errors
    /// Fails if standard error is closed.
    pub fn reject(&mut self, tool: &str, reason: &str, usage: &str) -> io::Result<i32> {
        if !reason.is_empty() {
            writeln!(self.stderr, "{tool}: {}", escape_controls(reason))?;
        }
        self.stderr.write_all(usage.as_bytes())?;
        Ok(EXIT_REJECTED)
    }

    /// Rejects a command line with a message. If the message has no hint of its own, adds a hint to
    /// use the option `help`.
    ///
    /// # Errors
    /// Fails if standard error is closed.
    pub fn reject_with_hint(&mut self, tool: &str, reason: &str, help: &str) -> io::Result<i32> {
        writeln!(self.stderr, "{tool}: {}", escape_controls(reason))?;
        if !reason.contains("\nhint: ") {
            let hint = format!("hint: 'speedwell as {tool} {help}' shows the usage");
            writeln!(self.stderr, "{hint}")?;
        }
        Ok(EXIT_FAILED)
    }

    /// If `result` is an error, flushes the results so far and reports the error. An error caused
    /// by a broken pipe is returned to the caller instead of being reported.
    ///
    /// # Errors
    /// Fails if standard output or standard error is closed.
    pub fn report_failure(
        &mut self,
        tool: &str,
        result: anyhow::Result<i32>,
    ) -> anyhow::Result<i32> {
        match result {
            Err(error) if !is_broken_pipe(&error) => {
                self.stdout.flush()?;
                writeln!(self.stderr, "{tool}: {}", escape_controls(&format!("{error:#}")))?;
                Ok(EXIT_FAILED)
            }
            result => result,
        }
    }

    /// Flushes the results, reports the error in `result` if there is one, and returns the exit
    /// status.
    pub fn finish(&mut self, tool: &str, result: anyhow::Result<i32>) -> i32 {
        let flushed = result.and_then(|status| {
            self.stdout.flush()?;
            Ok(status)
        });
        match flushed {
            Ok(status) => status,
            Err(error) if is_broken_pipe(&error) => EXIT_BROKEN_PIPE,
            Err(error) => {
                // If standard error is closed, too, the failure cannot be reported.
                let error = format!("{error:#}");
                let _ = writeln!(self.stderr, "{tool}: {}", escape_controls(&error));
                EXIT_REJECTED
            }
        }
    }
}

/// Returns the width of the terminal behind a stream; `None` without a terminal.
pub fn terminal_columns(stream: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Whether an error means that the reader of the results has closed its pipe.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
