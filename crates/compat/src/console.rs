//! Defines the streams and the environment of a drop-in, which is our replacement for another tool.
//! Callers pass them in, so that tests can replace them.
//!
//! Decides how a drop-in talks to its user. Results go to standard output, in the original tool's
//! format. Everything else goes to standard error. Messages written here contain no terminal
//! control sequences. Except for usage texts and hints, they start with the tool's name. This
//! module knows nothing about any particular tool.
//!
//! [`parse_getopt`], [`parse_node`] and [`parse_r`] split command lines, each by the grammar of
//! some of the tools. They do not interpret the options. They reject unknown options, although the
//! original scripts of Node.js silently swallow the argument after an unknown option. A crate such
//! as lexopt would suit only ab. The messages of erlperf name whole clusters of letters, and
//! erlperf has the option `-pa`. In the R and Node.js scripts, one dash means the same as two.

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;
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
pub type MeasureFn<'a> = dyn Fn(&ScriptsRequest, &mut dyn SessionObserver) -> Result<()> + 'a;

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
            writeln!(self.stderr, "hint: 'speedwell as {tool} {help}' shows the usage")?;
        }
        Ok(EXIT_FAILED)
    }

    /// If `result` is an error, flushes the results so far and reports the error. An error caused
    /// by a broken pipe is returned to the caller instead of being reported.
    ///
    /// # Errors
    /// Fails if standard output or standard error is closed.
    pub fn report_failure(&mut self, tool: &str, result: Result<i32>) -> Result<i32> {
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
    pub fn finish(&mut self, tool: &str, result: Result<i32>) -> i32 {
        match result.and_then(|status| Ok(self.stdout.flush().map(|()| status)?)) {
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
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Format of a time like `Sat Nov 21 19:18:13 2026`.
pub const DATE_FORMAT: &str = "%a %b %d %H:%M:%S %Y";

/// Format of a time like `2026-11-21T19:18:13+01:00`.
pub const ISO_FORMAT: &str = "%Y-%m-%dT%H:%M:%S%:z";

/// Formats a time in the local time zone; empty if out of range.
pub fn format_local(epoch_s: u64, format: &str) -> String {
    let time = i64::try_from(epoch_s).ok().and_then(|second| Timestamp::from_second(second).ok());
    let local = time.map(|time| time.to_zoned(TimeZone::system()));
    local.map(|local| local.strftime(format).to_string()).unwrap_or_default()
}

/// Command line split into options and other arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParsedArguments<'a> {
    /// Options with their values, each under its canonical name.
    pub options: Vec<(&'a str, Option<&'a str>)>,
    /// Arguments that are neither options nor values.
    pub others: Vec<&'a str>,
}

/// Error in a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentError<'a> {
    /// Unknown option name.
    UnknownName(&'a str),
    /// Unknown option letter; the second string is the whole argument.
    UnknownLetter(&'a str, &'a str),
    /// The option requires a value.
    NeedsValue(&'a str),
    /// The option takes no value.
    TakesNoValue(&'a str),
}

impl<'a> ParsedArguments<'a> {
    /// Whether an option is given, with or without a value.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(name, _)| *name == option)
    }

    /// Returns the value of an option. If the option occurs several times, only the last occurrence
    /// matters: if that one has no value, returns `None`.
    pub fn value(&self, option: &str) -> Option<&'a str> {
        self.options.iter().rfind(|(name, _)| *name == option)?.1
    }

    /// Returns all values of an option in order.
    pub fn values(&self, option: &str) -> impl Iterator<Item = &'a str> {
        let occurrences = self.options.iter().filter(move |(name, _)| *name == option);
        occurrences.filter_map(|(_, value)| *value)
    }
}

/// Looks up an option by any of its names; returns its first name and whether it takes a value.
/// `options` lists all options, separated by spaces. Each consists of its names, separated by `|`,
/// and of `=` if it takes a value.
pub fn find_option(
    options: &'static str,
    is_name: impl Fn(&str) -> bool,
) -> Option<(&'static str, bool)> {
    let option = options.split(' ').find(|option| option.split(['|', '=']).any(&is_name))?;
    Some((option.split(['|', '=']).next()?, option.ends_with('=')))
}

/// Returns the first name of each option in such a list.
pub fn first_names(options: &'static str) -> impl Iterator<Item = &'static str> {
    options.split(' ').filter_map(|option| option.split(['|', '=']).next())
}

/// Splits a command line as getopt does. Letters may be clustered (`-kq`) and values attached
/// (`-n100`, `--name=value`); options may follow other arguments. `find` looks up an option by any
/// of its names, including the dashes, and returns its canonical name and whether it takes a value.
///
/// # Errors
/// Fails if an option is unknown, lacks its value, or has a value although it takes none.
pub fn parse_getopt<'a>(
    arguments: &'a [String],
    find: impl Fn(&str) -> Option<(&'static str, bool)>,
) -> Result<ParsedArguments<'a>, ArgumentError<'a>> {
    let mut parsed = ParsedArguments::default();
    let mut arguments_left = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments_left.next() {
        let (name, attached) = split_value(argument);
        if argument == "--" {
            parsed.others.extend(arguments_left.by_ref());
        } else if argument.len() < 2 || !argument.starts_with('-') {
            parsed.others.push(argument);
        } else if let Some((option, takes_value)) = find(name).filter(|_| name.len() > 2) {
            let value = match attached {
                Some(_) if !takes_value => return Err(ArgumentError::TakesNoValue(name)),
                None if takes_value => {
                    Some(arguments_left.next().ok_or(ArgumentError::NeedsValue(name))?)
                }
                attached => attached,
            };
            parsed.options.push((option, value));
        } else if name.starts_with("--") {
            return Err(ArgumentError::UnknownName(name));
        } else {
            // A cluster of letters, which ends with the first letter that takes a value. The value
            // is the rest of the argument or, if nothing is left, the next argument.
            for (start, letter) in argument.char_indices().skip(1) {
                let (letter_text, remainder) = argument[start..].split_at(letter.len_utf8());
                let unknown = ArgumentError::UnknownLetter(letter_text, argument);
                let (option, takes_value) = find(&format!("-{letter}")).ok_or(unknown)?;
                if takes_value {
                    let attached = Some(remainder).filter(|value| !value.is_empty());
                    let value = attached
                        .or_else(|| arguments_left.next())
                        .ok_or(ArgumentError::NeedsValue(letter_text))?;
                    parsed.options.push((option, Some(value)));
                    break;
                }
                parsed.options.push((option, None));
            }
        }
    }
    Ok(parsed)
}

/// Splits a command line as Node.js core's scripts do. Options come first. After `--`, or after the
/// first word that is not an option, every word is an argument, even if it looks like an option.
/// `-x` means the same as `--x`. The word `test` is an exception: it is treated as an option
/// wherever it occurs, unless it is the value of an option.
///
/// # Errors
/// Fails if an option is in neither `valued` nor `switches`, or lacks its value.
pub fn parse_node<'a>(
    arguments: &'a [String],
    valued: &[&str],
    switches: &[&str],
) -> Result<ParsedArguments<'a>, ArgumentError<'a>> {
    let mut parsed = ParsedArguments::default();
    let mut are_options_over = false;
    let mut arguments_left = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments_left.next() {
        if argument == "--" {
            are_options_over = true;
        } else if !are_options_over && let Some(name) = strip_dashes(argument) {
            if switches.contains(&name) {
                parsed.options.push((name, None));
            } else if valued.contains(&name) {
                let next = arguments_left.next().filter(|next| *next != "--");
                let value = next.ok_or(ArgumentError::NeedsValue(argument))?;
                parsed.options.push((name, Some(value)));
            } else {
                return Err(ArgumentError::UnknownName(argument));
            }
        } else if argument == "test" {
            parsed.options.push((argument, None));
        } else {
            parsed.others.push(argument);
            are_options_over = true;
        }
    }
    Ok(parsed)
}

/// Splits a command line as the R scripts do. `-x` and `--x` set x; a following argument that does
/// not begin with `-` becomes its value. All other arguments are ignored.
///
/// # Errors
/// Returns the first option that is not in `known_options`, as typed.
pub fn parse_r<'a>(
    arguments: &'a [String],
    known_options: &[&str],
) -> Result<ParsedArguments<'a>, &'a str> {
    let mut parsed = ParsedArguments::default();
    let mut awaits_value = false;
    for argument in arguments {
        if let Some(name) = strip_dashes(argument) {
            if !known_options.contains(&name) {
                return Err(argument);
            }
            parsed.options.push((name, None));
            awaits_value = true;
        } else if std::mem::take(&mut awaits_value)
            && let Some((_, value)) = parsed.options.last_mut()
        {
            *value = Some(argument);
        }
    }
    Ok(parsed)
}

/// Splits `name=value`.
pub fn split_value(argument: &str) -> (&str, Option<&str>) {
    argument.split_once('=').map_or((argument, None), |(name, value)| (name, Some(value)))
}

/// Returns the name of an option without its one or two dashes.
fn strip_dashes(argument: &str) -> Option<&str> {
    let name = argument.strip_prefix('-')?;
    Some(name.strip_prefix('-').unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date_command(format: &str) -> Option<String> {
        let printed = std::process::Command::new("date")
            .env("LC_ALL", "C")
            .args(["-d", "@1795288693", format])
            .output();
        match printed {
            Ok(printed) => Some(String::from_utf8(printed.stdout).unwrap().trim().to_owned()),
            Err(_) => {
                eprintln!("skipped: 'date' is not installed");
                None
            }
        }
    }

    #[test]
    fn the_local_time_matches_the_date_command() {
        let Some(printed) = date_command("+%a %b %d %H:%M:%S %Y") else { return };
        assert_eq!(format_local(1_795_288_693, DATE_FORMAT), printed);
    }

    #[test]
    fn the_utc_offset_matches_the_date_command() {
        let Some(printed) = date_command("+%Y-%m-%dT%H:%M:%S%:z") else { return };
        assert_eq!(format_local(1_795_288_693, ISO_FORMAT), printed);
    }
}
