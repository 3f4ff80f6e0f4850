//! Implements the command-line interface, with one file or folder per subcommand. Options that
//! several commands share are declared once, in `options/`. `arguments.rs` lists the
//! commands and parses command lines.
//!
//! Commands write data to stdout, and progress, warnings and hints to stderr. The exit status is 0
//! for success, 1 for a negative answer (such as a failed gate), 2 for an error, and 130 for an
//! interrupt. Completed runs are saved in any case.

mod arguments;
mod as_tool;
mod comment;
mod compare;
mod doctor;
mod eval;
mod features;
mod fleet;
mod gate;
mod history;
mod import;
mod load;
mod new;
mod operand;
mod options;
mod profile_recording;
mod progress;
mod rehearsal;
mod report;
mod results_file;
mod run;
mod serve;
mod session_report;
mod source;
mod status;
mod stored_session;
mod worker;

pub use arguments::build_grammar;
// Public for a benchmark and a test of the history.
pub use history::project as project_history;
pub use status::CommandStatus;

use arguments::{CliCommand, InternalCommand, InternalCommandLine};
use clap::{Parser, Subcommand};
use features::{backfill, bisect, confirm, iterations, push, tune, warmup};
use speedwell_adapters::{self as adapters, snippet};
use std::ffi::OsString;

/// Parses the arguments, starting with the program's name, and runs the command.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> CommandStatus {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let name = arguments.get(1).and_then(|name| name.to_str());
    let is_internal = name.is_some_and(InternalCommand::has_subcommand);
    if is_internal && let Ok(line) = InternalCommandLine::try_parse_from(&arguments) {
        return conclude_command(run_internal(line.command));
    }
    match arguments::parse_command_line(&arguments) {
        Ok(line) => conclude_command(run_command(line.command)),
        Err(status) => status,
    }
}

/// Prints the error of a command, if any, and a warning about an unusual cache folder. Returns the
/// exit status.
fn conclude_command(result: anyhow::Result<CommandStatus>) -> CommandStatus {
    if let Some(warning) = adapters::cache_warning() {
        status::print_warning(warning);
    }
    result.unwrap_or_else(|error| {
        status::print_error(&error);
        if speedwell_machine::process::is_interrupt_requested()
            || error.is::<speedwell_machine::process::InterruptedEarly>()
        {
            CommandStatus::INTERRUPTED
        } else {
            CommandStatus::FAILED
        }
    })
}

fn run_command(command: CliCommand) -> anyhow::Result<CommandStatus> {
    match command {
        CliCommand::Run(args) => run::run(*args.0),
        CliCommand::Eval(args) => eval::run(*args.0),
        CliCommand::Iterations(args) => iterations::run(*args.0),
        CliCommand::Warmup(args) => warmup::run(*args.0),
        CliCommand::Load(args) => load::run(&args.0),
        CliCommand::Compare(args) => compare::run(*args.0),
        CliCommand::Confirm(args) => confirm::run(*args.0),
        CliCommand::Bisect(args) => bisect::run(*args.0),
        CliCommand::Report(args) => report::run(*args.0),
        CliCommand::History(args) => history::run(*args.0),
        CliCommand::Backfill(args) => backfill::run(*args.0),
        CliCommand::Import(args) => import::run(*args.0),
        CliCommand::Push(args) => push::run(*args.0),
        CliCommand::Comment(args) => comment::run(*args.0),
        CliCommand::Doctor(args) => doctor::run(*args.0),
        CliCommand::Tune(args) => tune::run(*args.0),
        CliCommand::Fleet(args) => fleet::run(&args.0),
        CliCommand::New(args) => new::run(*args.0)
            .map(|written| written.map_or(CommandStatus::DONE, |written| first_look(&written))),
        CliCommand::Serve(args) => serve::run(&args.0),
        CliCommand::As(args) => as_tool::run(*args.0),
        CliCommand::Completions(args) => arguments::print_completions(&args.0),
        CliCommand::Man(args) => arguments::write_manual(&args.0),
    }
}

fn run_internal(command: InternalCommand) -> anyhow::Result<CommandStatus> {
    match command {
        InternalCommand::Worker(command) => worker::run(command),
        InternalCommand::TuneGuard { root, limit_ms } => tune::watch_tuner(&root, limit_ms),
        InternalCommand::HarnessSh { shell } => {
            snippet::sh::serve_protocol(&shell, shell != "sh").map(|()| CommandStatus::DONE)
        }
    }
}

/// Time limit for measuring in a first look. Everything is run once beforehand, so people wait
/// about a minute in total.
const FIRST_LOOK_TIME: &str = "30s";

/// Number of runs in a first look. Usually [`FIRST_LOOK_TIME`] ends the measurement earlier.
const FIRST_LOOK_RUNS: &str = "32";

/// Takes a first look at created files: runs everything once, then measures for
/// [`FIRST_LOOK_TIME`]. The result is an ordinary report with few runs.
fn first_look(starter_files: &new::StarterFiles) -> CommandStatus {
    status::print_note("running everything once");
    let mut status = main(starter_files.run_words(&["--test"]));
    if status == CommandStatus::DONE {
        status::print_note("measuring for half a minute");
        let short_options = ["--budget", FIRST_LOOK_TIME, "--runs", FIRST_LOOK_RUNS];
        status = main(starter_files.run_words(&[&short_options, starter_files.shortened].concat()));
    }
    status::print_note(&format!(
        "for the full measurement: speedwell run {}",
        starter_files.quoted_target()
    ));
    status
}
