//! Defines the exit statuses, prints messages to stdout and stderr, and draws the status line: one
//! line on stderr that is redrawn in place, for terminals only ([`StatusLine`]).

use anyhow::Context;
use speedwell_compat::console::terminal_columns;
use speedwell_engine::execution::SessionEnd;
use speedwell_model::{ErrorText, StepFailure};
use speedwell_report::escape_controls;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Exit status of the command; [`CommandStatus::DONE`] by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommandStatus(u8);

impl CommandStatus {
    /// Success.
    pub const DONE: CommandStatus = CommandStatus(0);
    /// The answer is negative: a gate (`--fail-on`) failed, or a check found a problem.
    pub const NEGATIVE: CommandStatus = CommandStatus(1);
    /// Failed: invalid arguments, a missing program, a failing benchmark.
    pub const FAILED: CommandStatus = CommandStatus(2);
    /// Interrupted; completed runs are stored.
    pub const INTERRUPTED: CommandStatus = CommandStatus(130);

    /// Returns the status of a measurement that ended this way. A measurement that stopped at its
    /// first failure counts as done, because the user requested that stop.
    pub fn from_session_end(ended: SessionEnd) -> CommandStatus {
        let is_interrupted = ended == SessionEnd::Interrupted;
        if is_interrupted { CommandStatus::INTERRUPTED } else { CommandStatus::DONE }
    }

    /// Combines the statuses of two parts of a command, one of which may be a gate. An interrupt
    /// outranks everything. A negative answer (a case got worse) outranks a failure (a case could
    /// not be evaluated).
    pub fn combine_with_gate(self, other: CommandStatus) -> CommandStatus {
        let decisive = [CommandStatus::INTERRUPTED, CommandStatus::NEGATIVE];
        let outranks = |status: &CommandStatus| [self, other].contains(status);
        decisive.into_iter().find(outranks).unwrap_or(self.worse_of(other))
    }

    /// Converts an exit code for which there is no constant here, such as that of a command which
    /// `speedwell tune` executed.
    pub fn from_code(code: i32) -> CommandStatus {
        CommandStatus(code.clamp(0, 255) as u8)
    }

    /// Returns the number that the process exits with.
    pub fn code(self) -> i32 {
        i32::from(self.0)
    }

    /// Returns the more severe of two statuses: an error outranks a negative answer, and an
    /// interrupt outranks both.
    pub fn worse_of(self, other: CommandStatus) -> CommandStatus {
        // Numbers rise with severity; all above that of an error count as an interrupt.
        let rank = |status: CommandStatus| status.0.min(CommandStatus::FAILED.0 + 1);
        if rank(other) > rank(self) { other } else { self }
    }
}

/// Writes to standard output.
///
/// # Errors
/// Fails if writing fails for a reason other than a closed pipe.
pub fn write_stdout(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let result = out.write_all(text.as_ref()).and_then(|()| out.flush());
    ignore_closed_pipe(result.context("cannot write to standard output"))
}

/// Ignores a broken pipe when writing to standard output: the reader has seen enough (`| head`).
///
/// # Errors
/// Fails if writing failed for another reason.
pub fn ignore_closed_pipe(result: anyhow::Result<()>) -> anyhow::Result<()> {
    let is_closed = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        // serde_json wraps the error of the pipe.
        let json = cause.downcast_ref::<serde_json::Error>();
        io.or_else(|| json?.io_error_kind()) == Some(std::io::ErrorKind::BrokenPipe)
    };
    match result {
        Err(error) if error.chain().any(is_closed) => Ok(()),
        result => result,
    }
}

/// Prints a line on standard error. Ignores write errors, such as a closed pipe (`2>&1 | head`).
fn print_stderr(prefix: &str, message: &str) {
    let text = format!("{prefix}: {}", escape_controls(message));
    let text = match terminal_columns(std::io::stderr()) {
        Some(columns) => wrap_message(&text, columns),
        None => text,
    };
    let mut err = std::io::stderr().lock();
    clear_line();
    let _ = writeln!(err, "{text}");
}

/// Wraps the lines of a message at spaces, except in command lines to copy, and lines that are
/// indented, such as the output of other programs.
fn wrap_message(text: &str, columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.split('\n') {
        if line.starts_with(char::is_whitespace) {
            lines.push(line.to_owned());
            continue;
        }
        let split_at = |colon: usize| (&line[..=colon], Some(&line[colon + 2..]));
        let (words, command) = line.find(": speedwell ").map_or((line, None), split_at);
        let mut wrapped = String::new();
        for word in words.split(' ').chain(command) {
            let width = wrapped.chars().count() + 1 + word.chars().count();
            if !wrapped.is_empty() && width > columns {
                lines.push(std::mem::take(&mut wrapped));
            } else if !wrapped.is_empty() {
                wrapped.push(' ');
            }
            wrapped.push_str(word);
        }
        lines.push(wrapped);
    }
    lines.join("\n")
}

/// Prints an error: the outermost context first, and each hint on its own line.
pub fn print_error(error: &anyhow::Error) {
    print_stderr("speedwell", &ErrorText::from_error(error).to_string());
}

pub fn print_warning(message: &str) {
    print_stderr("warning", message);
}

pub fn print_note(message: &str) {
    print_stderr("speedwell", message);
}

pub fn print_hint(message: &str) {
    print_stderr("hint", message);
}

/// Returns the status for a list of failures. Skipped benchmarks are not failures.
pub fn status_of_failures(failures: &[StepFailure]) -> CommandStatus {
    let has_failed = failures.iter().any(|failure| !failure.cause.is_skip());
    if has_failed { CommandStatus::FAILED } else { CommandStatus::DONE }
}

/// How often the line is redrawn while nothing happens, so that elapsed times advance.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Delay before the first drawing: a line for shorter work would only flicker.
const FIRST_DELAY: Duration = Duration::from_millis(200);

/// Whether a line is on the screen. The line must be cleared before anything else is printed.
static IS_DRAWN: AtomicBool = AtomicBool::new(false);

/// Produces the current text each time the line is drawn; `None` clears the line.
type LineText = dyn Fn() -> Option<String> + Send + Sync;

/// The line on the screen. Dropping this value clears the line.
pub struct StatusLine(Option<ShownLine>);

struct ShownLine {
    text: Arc<LineText>,
    /// Dropping the sender ends the thread that redraws the line.
    end: Sender<()>,
    redraw: JoinHandle<()>,
}

impl StatusLine {
    /// Creates a line that is shown only if `is_visible`.
    pub fn new(
        is_visible: bool,
        text: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> StatusLine {
        StatusLine(is_visible.then(|| {
            let text: Arc<LineText> = Arc::new(text);
            let (end, has_ended) = channel();
            let redrawn = text.clone();
            let redraw = std::thread::spawn(move || {
                let mut wait = FIRST_DELAY;
                while has_ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                    draw_text(&redrawn);
                    wait = REDRAW_INTERVAL;
                }
            });
            ShownLine { text, end, redraw }
        }))
    }

    /// Draws the line with its current text.
    pub fn draw(&self) {
        if let Some(shown) = &self.0 {
            draw_text(&shown.text);
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        let Some(ShownLine { end, redraw, .. }) = self.0.take() else { return };
        drop(end);
        let _ = redraw.join();
        clear_line();
    }
}

fn draw_text(text: &Arc<LineText>) {
    match text() {
        Some(text) => draw_line(&text),
        None => clear_line(),
    }
}

/// Replaces the current line.
pub fn draw_line(text: &str) {
    let visible: String = text.chars().take(terminal_width().saturating_sub(1)).collect();
    let mut err = std::io::stderr().lock();
    // "\x1b[K" erases to the end of the line.
    let _ = write!(err, "\r{visible}\x1b[K");
    let _ = err.flush();
    IS_DRAWN.store(true, Ordering::Relaxed);
}

/// Clears the line, if there is one, so that messages start at the first column.
pub fn clear_line() {
    let mut err = std::io::stderr().lock();
    if IS_DRAWN.swap(false, Ordering::Relaxed) {
        let _ = write!(err, "\r\x1b[K");
        let _ = err.flush();
    }
}

/// Returns the width of the terminal on stderr, or 80 if unknown.
pub fn terminal_width() -> usize {
    terminal_columns(std::io::stderr()).unwrap_or(80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_wrapped_and_command_lines_stay_whole() {
        for (text, expected) in [
            ("warning: it is busy", "warning: it is\nbusy"),
            ("speedwell: wrote a/long/path.html", "speedwell:\nwrote\na/long/path.html"),
            ("hint: speedwell time 'ls -l'", "hint:\nspeedwell time 'ls -l'"),
            ("short\n  output of a compiler", "short\n  output of a compiler"),
        ] {
            assert_eq!(wrap_message(text, 14), expected);
        }
    }

    #[test]
    fn a_negative_result_outranks_a_failure_in_either_order() {
        use CommandStatus as S;
        assert_eq!(S::NEGATIVE.combine_with_gate(S::FAILED), S::NEGATIVE);
        assert_eq!(S::FAILED.combine_with_gate(S::NEGATIVE), S::NEGATIVE);
        assert_eq!(S::INTERRUPTED.combine_with_gate(S::NEGATIVE), S::INTERRUPTED);
        assert_eq!(S::DONE.combine_with_gate(S::FAILED), S::FAILED);
    }
}
