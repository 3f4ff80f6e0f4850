//! Measures shell commands. Their harness is this program itself, started with a hidden command.
//!
//! Each iteration is one process. Commands that contain shell syntax are executed by a shell, and
//! so are the commands compared with them. Other commands are started directly. Execution times
//! include the cost of the shell, which is also measured and reported separately. This cost is not
//! subtracted: otherwise, a fast command could have times of zero or less, which cannot be
//! compared. The drop-in for hyperfine builds its commands and times its shell with this module,
//! too. Start at [`serve_protocol`].

use anyhow::{Context, ensure};
use speedwell_machine::process::{ProcessEnd, ProcessStopwatch, TimedExecution};
use speedwell_model::FailureCause;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

mod session;
mod workers;

pub use session::serve_protocol;

/// Hidden command that starts this program as a harness.
pub const HARNESS_COMMAND: &str = "harness-sh";

/// Characters with a meaning only in a shell.
const SHELL_CHARACTERS: &str = "|&;<>()$`*?[]#~{}!\n\\=";

/// Minimum time for measuring the shell itself.
const MIN_SHELL_TIME: Duration = Duration::from_millis(40);
/// Minimum number of executions for measuring the shell itself.
const MIN_SHELL_RUNS: usize = 10;

/// Whether only a shell can execute the line, because it contains shell syntax or does not begin
/// with a program.
pub fn needs_shell(line: &str) -> bool {
    let argv = shell_words::split(line).unwrap_or_default();
    let is_plain = !line.contains(|c| SHELL_CHARACTERS.contains(c));
    !(is_plain && argv.first().is_some_and(|program| is_program(program)))
}

/// Remark on exit status 127 of a shell (POSIX, 2.8.2).
const NOT_FOUND: &str = " (command not found?)";
/// Remark on exit status 126 of a shell (POSIX, 2.8.2).
const NOT_EXECUTABLE: &str = " (command not executable?)";

/// Whether a run failed because its command could not be started.
pub fn is_not_started(cause: &FailureCause) -> bool {
    let has_remark =
        |reason: &String| [NOT_FOUND, NOT_EXECUTABLE].iter().any(|end| reason.ends_with(end));
    matches!(cause, FailureCause::Invalid { reason } if has_remark(reason))
}

/// How a line is executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellCommand {
    /// A program and its arguments; never empty.
    argv: Vec<String>,
    /// Whether a shell executes it.
    pub in_shell: bool,
    /// Whether its output goes to this program's own output instead of being discarded.
    pub is_shown: bool,
}

impl ShellCommand {
    /// Creates the command for a line; `shell` executes it if necessary, or always with
    /// `force_shell`.
    pub fn new(line: &str, shell: &str, force_shell: bool) -> ShellCommand {
        match ShellCommand::without_shell(line) {
            Ok(command) if !force_shell && !needs_shell(line) => command,
            _ => ShellCommand::through_shell(line, &[shell.to_owned()]),
        }
    }

    /// Creates the command for a line that a shell executes. `shell` is a program, followed by its
    /// arguments.
    pub fn through_shell(line: &str, shell: &[String]) -> ShellCommand {
        let shell_arguments = ["-c".to_owned(), line.to_owned()];
        let argv = shell.iter().cloned().chain(shell_arguments).collect();
        ShellCommand { argv, in_shell: true, is_shown: false }
    }

    /// Creates the command for a line that begins with the program to start.
    ///
    /// # Errors
    /// Fails if a quote is not closed, or the line is empty.
    pub fn without_shell(line: &str) -> anyhow::Result<ShellCommand> {
        let argv = shell_words::split(line).with_context(|| format!("in '{line}'"))?;
        ensure!(!argv.is_empty(), "an empty command cannot be executed");
        Ok(ShellCommand { argv, in_shell: false, is_shown: false })
    }

    /// Returns the process to start. It has no input. Its output is discarded if `is_shown` is not
    /// set.
    pub fn to_command(&self) -> Command {
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).stdin(Stdio::null());
        if !self.is_shown {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        command
    }

    /// Executes the command in a process group of its own, so that [`ProcessStopwatch::stop`] kills
    /// all of its processes.
    ///
    /// # Errors
    /// Fails if the program cannot be started.
    pub fn time_execution(&self, stopwatch: &ProcessStopwatch) -> io::Result<TimedExecution> {
        stopwatch.time_process(self.to_command().process_group(0))
    }

    /// Executes the command once without timing. `Err` describes the failure.
    pub fn execute_once(&self, stopwatch: &ProcessStopwatch) -> Result<(), String> {
        match self.time_execution(stopwatch) {
            Ok(timed) => describe_failure(timed.ended).map_or(Ok(()), Err),
            Err(error) => Err(format!("'{}': {error}", self.argv[0])),
        }
    }
}

/// Describes how a command failed, if it did.
pub fn describe_failure(ended: ProcessEnd) -> Option<String> {
    let remark = match ended {
        ProcessEnd::Exit(0) => return None,
        ProcessEnd::Exit(126) => NOT_EXECUTABLE,
        ProcessEnd::Exit(127) => NOT_FOUND,
        ProcessEnd::Exit(_) => "; if that is expected, add '|| true' to the command",
        _ => "",
    };
    Some(format!("{ended}{remark}"))
}

/// Times executions of an empty line in a shell: at least `min_runs` executions, for at least
/// `min_time`. `shell` is a program, followed by its arguments.
///
/// # Errors
/// Fails if there is no such shell.
pub fn time_empty_line(
    shell: &[String],
    min_runs: usize,
    min_time: Duration,
) -> io::Result<Vec<TimedExecution>> {
    let (empty, stopwatch) = (ShellCommand::through_shell("", shell), ProcessStopwatch::default());
    let begin = Instant::now();
    let mut executions = Vec::new();
    while executions.len() < min_runs || begin.elapsed() < min_time {
        executions.push(stopwatch.time_process(&mut empty.to_command())?);
    }
    Ok(executions)
}

/// Cost of an empty command in the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShellCost {
    /// Median wall time, in nanoseconds.
    pub wall_ns: u64,
    /// Median processor time in user and kernel mode, in nanoseconds.
    pub cpu_ns: u64,
    /// Interquartile range of the processor time, in nanoseconds.
    pub cpu_spread_ns: u64,
}

impl ShellCost {
    /// Measures the cost.
    ///
    /// # Errors
    /// Fails if there is no such shell.
    pub fn measure_shell(shell: &str) -> io::Result<ShellCost> {
        let executions = time_empty_line(&[shell.to_owned()], MIN_SHELL_RUNS, MIN_SHELL_TIME)?;
        let walls = executions.iter().map(|timed| timed.wall_ns).collect();
        let cpus = executions.iter().map(|timed| timed.user_ns + timed.system_ns).collect();
        Ok(ShellCost::from_times(walls, cpus))
    }

    /// Computes the cost from the times of executions of an empty command; there must be at least
    /// one.
    fn from_times(mut walls: Vec<u64>, mut cpus: Vec<u64>) -> ShellCost {
        walls.sort_unstable();
        cpus.sort_unstable();
        let quartile = |numerator: usize| cpus[(cpus.len() - 1) * numerator / 4];
        ShellCost {
            wall_ns: walls[walls.len() / 2],
            cpu_ns: cpus[cpus.len() / 2],
            cpu_spread_ns: quartile(3) - quartile(1),
        }
    }

    /// Subtracts the shell's processor time from the processor time of a command. Returns `None` if
    /// the difference is within the variation of the shell's own time. Such a difference is noise,
    /// often zero or less, and cannot be compared.
    pub fn subtract_from(&self, cpu_ns: f64) -> Option<f64> {
        let difference_ns = cpu_ns - self.cpu_ns as f64;
        (difference_ns > self.cpu_spread_ns as f64 && difference_ns > 0.0).then_some(difference_ns)
    }
}

/// Whether a word names a program instead of a shell builtin.
fn is_program(word: &str) -> bool {
    if word.contains('/') {
        return PathBuf::from(word).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(word).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_started_only_if_the_command_needs_one() {
        for plain in ["sleep 1", "ls -l 'a b'", "/bin/true"] {
            assert!(!needs_shell(plain), "{plain}");
            assert!(!ShellCommand::new(plain, "sh", false).in_shell, "{plain}");
        }
        for line in
            ["sleep 1 | cat", "A=1 ls", "cd", "nothing-of-that-name", "ls *", "echo $HOME", "ls 'a"]
        {
            assert!(needs_shell(line), "{line}");
        }
        assert!(ShellCommand::new("sleep 1", "bash", true).in_shell);
    }

    #[test]
    fn shell_cost_is_subtracted_only_from_times_beyond_its_spread() {
        let shell = ShellCost::from_times(vec![3, 1, 2], vec![900, 1_000, 1_100, 1_050, 950]);
        assert_eq!((shell.wall_ns, shell.cpu_ns, shell.cpu_spread_ns), (2, 1_000, 100));
        assert_eq!(shell.subtract_from(5_000.0), Some(4_000.0));
        for noise in [1_100.0, 1_000.0, 700.0] {
            assert_eq!(shell.subtract_from(noise), None, "{noise}");
        }
        let alike = ShellCost::from_times(vec![1], vec![1_000]);
        assert_eq!(alike.subtract_from(1_000.0), None, "never zero");
    }
}
