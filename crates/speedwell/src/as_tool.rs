//! `speedwell as TOOL`: the command line and output of another tool.

use super::Status;
use clap::Args;
use speedwell_compat::{self as compat, Console};
use speedwell_measure::execute_scripts;
use std::io::{BufWriter, IsTerminal, Write};

/// Stand in for another tool: ab erlperf hyperfine benchstat compare.py run.js compare.js scatter.js calibrate-n.js compare.R scatter.R bar.R
///
/// Arguments and output are those of the original.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  speedwell as compare.js --old ./node-18 --new ./node-22 string_decoder > results.csv
  cat results.csv | speedwell as compare.R --plot box.png
  speedwell as compare.py benchmarks old.json new.json"
)]
pub struct AsArgs {
    /// Name of the tool, then its own arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "TOOL"
    )]
    words: Vec<String>,
}

/// Hands over to the drop-in.
///
/// # Errors
/// None: drop-ins tell their own.
pub fn run(args: AsArgs) -> anyhow::Result<Status> {
    let Some((tool, words)) = args.words.split_first() else {
        return Ok(Status::COULD_NOT);
    };
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    // Rewritten lines are for people: not when the rows themselves appear on the terminal.
    let shown = stderr.is_terminal() && !stdout.is_terminal();
    let mut console = Console {
        stdin: &mut stdin.lock(),
        stdout: &mut BufWriter::new(stdout.lock()),
        stderr: &mut std::io::stderr(),
        stdout_is_terminal: std::io::stdout().is_terminal(),
        progress: shown.then(|| Box::new(stderr) as Box<dyn Write + Send>),
        directory: std::env::current_dir()?,
        variable: &|name| std::env::var(name).ok(),
        measure: &execute_scripts,
    };
    Ok(Status::from_code(compat::main(tool, words, &mut console)))
}
