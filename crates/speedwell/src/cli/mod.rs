//! Words typed: one file per command, options declared once in `options/`.
//!
//! stdout is data; progress, warnings and hints go to stderr. Exit status: 0 done, 1 the answer is
//! no, 2 could not do it, 130 interrupted with what was measured saved.

mod as_tool;
mod attempts;
mod calibrated;
mod calibration;
mod compare;
mod completions;
mod doctor;
mod engine;
mod eval;
mod experiment;
mod gate;
mod history;
mod import;
mod load;
mod loaded;
mod man;
mod measure;
mod measuring_time;
mod new;
mod operand;
mod options;
mod perform_run;
mod profiles;
mod programs;
mod progress;
mod rehearsal;
mod report;
mod results_file;
mod resume;
mod run;
mod short_help;
mod source;
mod source_labels;
mod status;
mod status_line;
mod trial;
mod words;

pub use status::Status;

use crate::harness::{self, code};
use crate::process;
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;

/// Is this faster, by how much, and how sure are we?
#[derive(Debug, Parser)]
#[command(
    name = "speedwell",
    version,
    about,
    max_term_width = 100,
    propagate_version = true,
    args_override_self = true
)]
struct Words {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(options::RunArgs),
    Eval(Box<options::EvalArgs>),
    Load(Box<options::LoadArgs>),
    Compare(compare::CompareArgs),
    Report(report::ReportArgs),
    History(history::HistoryArgs),
    Import(import::ImportArgs),
    Doctor(doctor::DoctorArgs),
    New(new::NewArgs),
    As(as_tool::AsArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// What Speedwell starts itself as. No list, suggestion or completion knows of it.
#[derive(Debug, Parser)]
enum Internal {
    /// Performs one run of an experiment.
    #[command(name = perform_run::COMMAND)]
    PerformRun,
    /// The harness for commands of a shell.
    #[command(name = code::sh::COMMAND)]
    HarnessSh {
        /// The shell.
        shell: String,
    },
}

/// Does what the words ask for.
pub fn main(words: impl IntoIterator<Item = OsString>) -> Status {
    let words: Vec<OsString> = words.into_iter().collect();
    if let Ok(internal) = Internal::try_parse_from(&words) {
        return told(run_internal(internal));
    }
    let (words, typed) = match words::parse(&words) {
        Ok(parsed) => parsed,
        Err(status) => return status,
    };
    let done = match words.command {
        Command::Run(args) => run::run(args),
        Command::Eval(args) => eval::run(*args),
        Command::Load(mut args) => {
            args.typed = typed;
            load::run(*args)
        }
        Command::Compare(args) => compare::run(args),
        Command::Report(args) => report::run(args),
        Command::History(args) => history::run(args),
        Command::Import(args) => import::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::New(args) => new::run(args),
        Command::As(args) => as_tool::run(args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    if let Some(warning) = harness::cache_warning() {
        status::warn(warning);
    }
    told(done)
}

fn run_internal(internal: Internal) -> anyhow::Result<Status> {
    match internal {
        Internal::PerformRun => perform_run::run(),
        Internal::HarnessSh { shell } => {
            code::sh::serve(&shell, shell != "sh").map(|()| Status::DONE)
        }
    }
}

/// The status of what was done; an error is printed.
fn told(done: anyhow::Result<Status>) -> Status {
    done.unwrap_or_else(|error| {
        status::tell(&error);
        // What fails after Ctrl-C fails because of it.
        match process::interrupted() {
            true => Status::INTERRUPTED,
            false => Status::COULD_NOT,
        }
    })
}

/// The grammar of the command line: for parsing, completions, man pages and the tests that hold it together.
pub fn grammar() -> clap::Command {
    Words::command()
}
