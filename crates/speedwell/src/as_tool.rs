//! `speedwell as TOOL`: imitates the command line and output of another tool.

use super::CommandStatus;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use speedwell_compat::{self as compat, DropInConsole};
use speedwell_engine::execute_scripts;
use std::io::{BufWriter, IsTerminal, Write};

/// Emulate another tool, with its arguments and output
///
/// Scripts that call the tool keep working. For ab, benchstat, compare.py, erlperf and hyperfine,
/// docs/reference has a page that lists the differences.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell as compare.js --old ./node-18 --new ./node-22 string_decoder > results.csv
  cat results.csv | speedwell as compare.R --plot box.png
  speedwell as compare.py benchmarks old.json new.json")]
pub struct AsArgs {
    /// Tool to emulate
    #[arg(value_name = "TOOL", value_parser = PossibleValuesParser::new(compat::tool_names()))]
    tool: String,
    /// Arguments of the tool; see 'speedwell as TOOL --help'
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARG",
        value_hint = ValueHint::AnyPath
    )]
    arguments: Vec<String>,
}

/// Runs the drop-in replacement.
///
/// # Errors
/// Fails if the current directory cannot be determined. Drop-ins report their own errors.
pub fn run(args: AsArgs) -> anyhow::Result<CommandStatus> {
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    // Progress lines overwrite each other, so they need a terminal. They would mix with output on
    // the same terminal.
    let shows_progress = stderr.is_terminal() && !stdout.is_terminal();
    let mut console = DropInConsole {
        stdin: &mut stdin.lock(),
        stdout: &mut BufWriter::new(stdout.lock()),
        stderr: &mut std::io::stderr(),
        stdout_is_terminal: std::io::stdout().is_terminal(),
        progress: shows_progress.then(|| Box::new(stderr) as Box<dyn Write + Send>),
        directory: std::env::current_dir()?,
        variable: &|name| std::env::var(name).ok(),
        measure: &execute_scripts,
    };
    Ok(CommandStatus::from_code(compat::run_tool(&args.tool, &args.arguments, &mut console)))
}
