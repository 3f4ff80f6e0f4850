//! The harness for commands of a shell: this very program, started with a hidden command, speaks the protocol.
//!
//! An iteration is a process. A command without anything that only a shell understands is started directly, unless
//! it is compared with one that needs a shell. What the shell itself takes is measured and reported beside the
//! times of executions, which contain it: taken out of them, a command that takes no longer than the shell would have
//! times of zero and below, which nothing can be compared with. Start at [`serve`].

use speedwell_process::{Ended, Stopwatch};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

mod session;
mod workers;

pub use session::serve;

/// The hidden command under which this program is a harness.
pub const COMMAND: &str = "harness-sh";

/// What only a shell understands.
const OF_A_SHELL: &str = "|&;<>()$`*?[]#~{}!\n\\=";

/// For how long, and how often at least, the shell itself is measured.
const SHELL_TIME: Duration = Duration::from_millis(40);
const SHELL_TIMES: usize = 10;

/// Whether only a shell can execute the line: it has something in it that only a shell understands, or begins with
/// no program.
pub fn needs_shell(line: &str) -> bool {
    let argv = shell_words::split(line).unwrap_or_default();
    let is_plain = !line.contains(|c| OF_A_SHELL.contains(c));
    !(is_plain && argv.first().is_some_and(|program| is_program(program)))
}

/// How a line is executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    argv: Vec<String>,
    /// Whether a shell executes it.
    pub in_shell: bool,
}

impl Order {
    /// The line for `shell`; one that needs none is executed directly, unless the shell was `chosen`.
    pub fn new(line: &str, shell: &str, chosen: bool) -> Order {
        let in_shell = chosen || needs_shell(line);
        let argv = if in_shell {
            vec![shell.to_owned(), "-c".to_owned(), line.to_owned()]
        } else {
            shell_words::split(line).unwrap_or_default()
        };
        Order { argv, in_shell }
    }

    /// A process in a group of its own, which reads nothing and whose output nobody reads.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.argv[0]);
        command
            .args(&self.argv[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        command
    }

    /// Executes it once, untimed; `Err` says how it failed.
    pub fn execute(&self, watch: &Stopwatch) -> Result<(), String> {
        match watch.time(&mut self.command()) {
            Ok(timed) => complaint(timed.ended).map_or(Ok(()), Err),
            Err(error) => Err(format!("'{}': {error}", self.argv[0])),
        }
    }
}

/// What is wrong with the end of a command.
pub fn complaint(ended: Ended) -> Option<String> {
    match ended {
        Ended::Exit(0) => None,
        Ended::Exit(127) => Some("exited with status 127: is there such a command?".to_owned()),
        Ended::Exit(code) => Some(format!(
            "exited with status {code}; if that is as it should be, add '|| true'"
        )),
        Ended::Signal(signal) => Some(format!("was killed by signal {signal}")),
        _ => Some("did not end by itself".to_owned()),
    }
}

/// What an execution of nothing takes in the median, in nanoseconds.
///
/// # Errors
/// There is no such shell.
pub fn shell_ns(shell: &str) -> io::Result<u64> {
    let empty = Order {
        argv: vec![shell.to_owned(), "-c".to_owned(), String::new()],
        in_shell: true,
    };
    let watch = Stopwatch::default();
    let begin = Instant::now();
    let mut taken = Vec::new();
    while taken.len() < SHELL_TIMES || begin.elapsed() < SHELL_TIME {
        taken.push(watch.time(&mut empty.command())?.wall_ns);
    }
    taken.sort_unstable();
    Ok(taken[taken.len() / 2])
}

/// Whether a word names a program rather than something that a shell does itself.
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
            assert!(!Order::new(plain, "sh", false).in_shell, "{plain}");
        }
        for line in [
            "sleep 1 | cat",
            "A=1 ls",
            "cd",
            "nothing-of-that-name",
            "ls *",
            "echo $HOME",
            "ls 'a",
        ] {
            assert!(needs_shell(line), "{line}");
        }
        assert!(Order::new("sleep 1", "bash", true).in_shell);
    }
}
