//! `speedwell as erlperf`, alone and against recorded output of the original.

mod better;
mod recorded;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct ErlperfCall {
    status: i32,
    stdout: String,
    stderr: String,
}

impl From<Output> for ErlperfCall {
    fn from(output: Output) -> ErlperfCall {
        ErlperfCall {
            status: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl ErlperfCall {
    /// Returns the cells of the row of a snippet.
    #[track_caller]
    fn row(&self, code: &str) -> Vec<&str> {
        let row = self.stdout.lines().find(|line| line.starts_with(code));
        let row = row.unwrap_or_else(|| panic!("no '{code}' in\n{}{}", self.stdout, self.stderr));
        row[code.len()..].split_whitespace().collect()
    }
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/erlperf")
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_speedwell"));
    command.args(["as", "erlperf"]).args(words);
    command
}

/// Calls the drop-in in the folder of the recorded files.
fn as_erlperf(words: &[&str]) -> ErlperfCall {
    ErlperfCall::from(command(words).current_dir(golden()).output().unwrap())
}
