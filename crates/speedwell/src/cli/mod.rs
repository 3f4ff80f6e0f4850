//! Words typed: one file per command, options declared once in `options/`.
//!
//! stdout is data; progress, warnings and hints go to stderr. Exit status: 0 done, 1 the answer is
//! no, 2 could not do it, 130 interrupted with what was measured saved.

mod as_tool;
mod calibrated;
mod calibration;
mod compare;
mod doctor;
mod engine;
mod gate;
mod history;
mod import;
mod measure;
mod operand;
mod options;
mod programs;
mod progress;
mod report;
mod results_file;
mod resume;
mod run;
mod source;
mod source_labels;
mod status;
mod trial;

pub use status::Status;

use clap::{Parser, Subcommand};
use std::ffi::OsString;

/// Is this faster, by how much, and how sure are we?
#[derive(Debug, Parser)]
#[command(
    name = "speedwell",
    version,
    about,
    max_term_width = 100,
    propagate_version = true
)]
struct Words {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(options::RunArgs),
    Compare(compare::CompareArgs),
    Report(report::ReportArgs),
    History(history::HistoryArgs),
    Import(import::ImportArgs),
    Doctor(doctor::DoctorArgs),
    As(as_tool::AsArgs),
}

/// Does what the words ask for.
pub fn main(words: impl IntoIterator<Item = OsString>) -> Status {
    let words = match Words::try_parse_from(words) {
        Ok(words) => words,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                Status::COULD_NOT
            } else {
                Status::DONE
            };
        }
    };
    let done = match words.command {
        Command::Run(args) => run::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Report(args) => report::run(args),
        Command::History(args) => history::run(args),
        Command::Import(args) => import::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::As(args) => as_tool::run(args),
    };
    done.unwrap_or_else(|error| {
        status::tell(&error);
        Status::COULD_NOT
    })
}

/// The grammar, for the tests that hold it together.
pub fn grammar() -> clap::Command {
    <Words as clap::CommandFactory>::command()
}
