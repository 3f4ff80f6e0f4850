//! Measures shell commands. Their harness is this program itself, started with a hidden command.
//!
//! Each iteration is one process. A shell executes commands with shell syntax, and commands that
//! are compared with these. Other commands are started directly. Execution times include the cost
//! of the shell, which is also measured and reported separately. This cost is not subtracted:
//! otherwise, a fast command could have times of zero or less, which cannot be compared. Start at
//! [`serve_protocol`].

use speedwell_machine::process::{ProcessEnd, ProcessStopwatch};
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

/// Exit status of a shell for a command that was not found (POSIX, 2.8.2).
const NOT_FOUND: &str = "127 (command not found?)";
/// Exit status of a shell for a command that is not executable (POSIX, 2.8.2).
const NOT_EXECUTABLE: &str = "126 (command not executable?)";

/// Whether a run failed because its command could not be started.
pub fn is_not_started(cause: &FailureCause) -> bool {
    let has_status =
        |reason: &String| [NOT_FOUND, NOT_EXECUTABLE].iter().any(|end| reason.ends_with(end));
    matches!(cause, FailureCause::Invalid { reason } if has_status(reason))
}

/// How a line is executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellCommand {
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
        let in_shell = force_shell || needs_shell(line);
        let argv = if in_shell {
            vec![shell.to_owned(), "-c".to_owned(), line.to_owned()]
        } else {
            shell_words::split(line).unwrap_or_default()
        };
        ShellCommand { argv, in_shell, is_shown: false }
    }

    /// Returns the process to start. It has its own process group and no input. Its output is
    /// discarded if `is_shown` is not set.
    pub fn to_command(&self) -> Command {
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).stdin(Stdio::null()).process_group(0);
        if !self.is_shown {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        command
    }

    /// Executes the command once without timing. `Err` describes the failure.
    pub fn execute_once(&self, stopwatch: &ProcessStopwatch) -> Result<(), String> {
        match stopwatch.time_process(&mut self.to_command()) {
            Ok(timed) => describe_failure(timed.ended).map_or(Ok(()), Err),
            Err(error) => Err(format!("'{}': {error}", self.argv[0])),
        }
    }
}

/// Describes how a command failed, if it did.
pub fn describe_failure(ended: ProcessEnd) -> Option<String> {
    match ended {
        ProcessEnd::Exit(0) => None,
        ProcessEnd::Exit(126) => Some(format!("exited with status {NOT_EXECUTABLE}")),
        ProcessEnd::Exit(127) => Some(format!("exited with status {NOT_FOUND}")),
        ProcessEnd::Exit(code) => Some(format!(
            "exited with status {code}; if that is expected, add '|| true' to the command"
        )),
        ProcessEnd::Signal(signal) => Some(format!("was killed by signal {signal}")),
        _ => Some("did not exit on its own".to_owned()),
    }
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
        let empty = ShellCommand {
            argv: vec![shell.to_owned(), "-c".to_owned(), String::new()],
            in_shell: true,
            is_shown: false,
        };
        let stopwatch = ProcessStopwatch::default();
        let begin = Instant::now();
        let (mut walls, mut cpus) = (Vec::new(), Vec::new());
        while walls.len() < MIN_SHELL_RUNS || begin.elapsed() < MIN_SHELL_TIME {
            let timed = stopwatch.time_process(&mut empty.to_command())?;
            walls.push(timed.wall_ns);
            cpus.push(timed.user_ns + timed.system_ns);
        }
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
    fn a_shell_is_started_only_for_what_needs_one() {
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
    fn a_time_without_the_shell_counts_only_beyond_the_spread_of_the_shell() {
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
