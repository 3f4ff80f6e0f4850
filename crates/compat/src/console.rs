//! The world outside a drop-in, handed over so that tests can stand in for it.
//!
//! Decides how a drop-in speaks to its user: results on standard output as the original prints
//! them, everything else on standard error, each line beginning with the tool's name, without anything that would
//! steer a terminal. It must not know any tool.

use rustix::termios::tcgetwinsize;
use speedwell_measure::ScriptsRequest;
use speedwell_model::Observer;
use speedwell_report::visible;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Streams and surroundings of a drop-in.
pub struct Console<'a> {
    /// Standard input.
    pub stdin: &'a mut dyn Read,
    /// Standard output: results only.
    pub stdout: &'a mut dyn Write,
    /// Standard error.
    pub stderr: &'a mut dyn Write,
    /// Whether standard output is a terminal.
    pub stdout_is_terminal: bool,
    /// Where a progress line may be rewritten; `None` unless standard error is a terminal and
    /// standard output is not.
    pub progress: Option<Box<dyn Write + Send>>,
    /// The working directory.
    pub directory: PathBuf,
    /// Looks up an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Measures scripts: `measure::execute_scripts`.
    pub measure: &'a Measure<'a>,
}

/// What measures scripts and tells an observer about it.
pub type Measure<'a> = dyn Fn(&ScriptsRequest, &mut dyn Observer) -> anyhow::Result<()> + 'a;

/// The exit status when usage or input are wrong, as in the originals.
pub const REFUSED: i32 = 1;

/// The exit status of a drop-in that has a better one than its original: nothing could be done.
pub const COULD_NOT: i32 = 2;

/// The exit status after Ctrl-C: 128 + SIGINT.
pub const INTERRUPTED: i32 = 130;

/// The exit status when the reader of the results has gone: what a shell reports for SIGPIPE.
const READER_GONE: i32 = 128 + 13;

impl Console<'_> {
    /// Writes a warning of `tool`.
    ///
    /// # Errors
    /// Standard error is closed.
    pub fn warn(&mut self, tool: &str, sentence: &str) -> io::Result<()> {
        writeln!(self.stderr, "{tool}: warning: {}", visible(sentence))
    }

    /// Answers a request for help.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn help(&mut self, text: &str) -> io::Result<i32> {
        self.stdout.write_all(text.as_bytes())?;
        Ok(0)
    }

    /// Refuses a command line: an explanation, if there is one, and the usage.
    ///
    /// # Errors
    /// Standard error is closed.
    pub fn refuse(&mut self, tool: &str, reason: &str, usage: &str) -> io::Result<i32> {
        if !reason.is_empty() {
            writeln!(self.stderr, "{tool}: {}", visible(reason))?;
        }
        self.stderr.write_all(usage.as_bytes())?;
        Ok(REFUSED)
    }

    /// Refuses a command line in one line, and says which `help` shows the usage unless the reason has
    /// a hint of its own.
    ///
    /// # Errors
    /// Standard error is closed.
    pub fn refuse_with_hint(&mut self, tool: &str, reason: &str, help: &str) -> io::Result<i32> {
        writeln!(self.stderr, "{tool}: {}", visible(reason))?;
        if !reason.contains("\nhint: ") {
            let hint = format!("hint: 'speedwell as {tool} {help}' shows the usage");
            writeln!(self.stderr, "{hint}")?;
        }
        Ok(COULD_NOT)
    }

    /// Writes why nothing could be done, behind the results so far. That the reader of the results has
    /// gone is for the caller.
    ///
    /// # Errors
    /// Standard output or standard error is closed.
    pub fn tell_failure(&mut self, tool: &str, done: anyhow::Result<i32>) -> anyhow::Result<i32> {
        match done {
            Err(error) if !is_broken_pipe(&error) => {
                self.stdout.flush()?;
                writeln!(self.stderr, "{tool}: {}", visible(&format!("{error:#}")))?;
                Ok(COULD_NOT)
            }
            done => done,
        }
    }

    /// The exit status for what a tool came to; errors are written.
    pub fn conclude(&mut self, tool: &str, result: anyhow::Result<i32>) -> i32 {
        let result = result.and_then(|status| {
            self.stdout.flush()?;
            Ok(status)
        });
        match result {
            Ok(status) => status,
            Err(error) if is_broken_pipe(&error) => READER_GONE,
            Err(error) => {
                // Nobody is left to hear that standard error is closed.
                let error = format!("{error:#}");
                let _ = writeln!(self.stderr, "{tool}: {}", visible(&error));
                REFUSED
            }
        }
    }
}

/// Columns of the terminal behind a stream; `None` if there is none.
pub fn columns(stream: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Whether an error says that the reader of the results has gone.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
