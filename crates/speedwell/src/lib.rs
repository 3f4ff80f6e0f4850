//! Words typed: one file per command, options declared once in `options/`.
//!
//! stdout is data; progress, warnings and hints go to stderr. Exit status: 0 done, 1 the answer is
//! no, 2 could not do it, 130 interrupted with what was measured saved.

mod as_tool;
mod backfill;
mod bisect;
mod comment;
mod compare;
mod conclude;
mod confirm;
mod doctor;
mod eval;
mod experiment;
mod fleet;
mod history;
mod import;
mod iterations;
mod large;
mod load;
mod new;
mod operand;
mod options;
mod output_files;
mod perform;
mod profiles;
mod progress;
mod pull_answer;
mod push;
mod rehearsal;
mod report;
mod results_file;
mod results_folder;
mod run;
mod serve;
mod source;
mod status;
mod trial;
mod tune;
mod warmup;

pub use status::Status;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use speedwell_environment::tune::guard::COMMAND as GUARD_COMMAND;
use speedwell_harness::{self as harness, snippet};
use speedwell_measure::load::machines::worker::COMMAND as PERFORM_LOAD;
use speedwell_measure::roles::worker::COMMAND as PERFORM_ROLE;
use speedwell_runner::load::WORKER_COMMAND;
use std::ffi::OsString;
use std::path::PathBuf;

/// Is this faster, by how much, and how sure are we?
#[derive(Debug, Parser)]
#[command(
    name = "speedwell",
    version,
    about,
    max_term_width = 100,
    propagate_version = true
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Typed<options::RunArgs>),
    Eval(Typed<options::EvalArgs>),
    Iterations(Typed<iterations::IterationsArgs>),
    Warmup(Typed<warmup::WarmupArgs>),
    Load(Typed<options::LoadArgs>),
    Compare(Typed<compare::CompareArgs>),
    Confirm(Typed<confirm::ConfirmArgs>),
    Bisect(Typed<bisect::BisectArgs>),
    Report(Typed<report::ReportArgs>),
    History(Typed<history::HistoryArgs>),
    Backfill(Typed<backfill::BackfillArgs>),
    Import(Typed<import::ImportArgs>),
    Push(Typed<push::PushArgs>),
    Comment(Typed<comment::CommentArgs>),
    Doctor(Typed<doctor::DoctorArgs>),
    Tune(Typed<tune::TuneArgs>),
    Fleet(Typed<fleet::FleetArgs>),
    New(Typed<new::NewArgs>),
    Serve(Typed<serve::ServeArgs>),
    As(Typed<as_tool::AsArgs>),
    /// Generates one part of a load.
    #[command(name = WORKER_COMMAND, hide = true)]
    LoadWorker,
    /// Sends one machine's share of a load.
    #[command(name = PERFORM_LOAD, hide = true)]
    PerformLoad,
    /// Performs one run of an experiment.
    #[command(name = perform::COMMAND, hide = true)]
    PerformRun,
    /// Has services live that several runs of an experiment share.
    #[command(name = perform::KEEPING_COMMAND, hide = true)]
    KeepServices,
    /// Has one part of an experiment live on the machine that it is started on.
    #[command(name = PERFORM_ROLE, hide = true)]
    PerformRole,
    /// Says what this machine is like, and what the time is.
    #[command(name = perform::CHECK, hide = true)]
    PerformCheck,
    /// Measures parcels on the machine that it is started on.
    #[command(name = perform::PARCEL_COMMAND, hide = true)]
    PerformParcel(perform::ParcelArgs),
    /// Puts the settings of a machine back when their tuner has ended.
    #[command(name = GUARD_COMMAND, hide = true)]
    TuneGuard {
        /// The folder that stands for the machine.
        root: PathBuf,
        /// After this time they are put back in any case.
        limit_ms: Option<u64>,
    },
    /// The harness for commands of a shell.
    #[command(name = snippet::sh::COMMAND, hide = true)]
    HarnessSh {
        /// The shell.
        shell: String,
    },
}

/// The arguments of a command, which are described only once it is the one that was typed: describing those of all
/// commands took most of the time that starting took.
#[derive(Debug)]
struct Typed<T>(Box<T>);

impl<T: Args> Args for Typed<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.defer(T::augment_args)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command.defer(T::augment_args_for_update)
    }
}

impl<T: FromArgMatches> FromArgMatches for Typed<T> {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Typed<T>, clap::Error> {
        Ok(Typed(Box::new(T::from_arg_matches(matches)?)))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// Does what the words ask for.
pub fn main(words: impl IntoIterator<Item = OsString>) -> Status {
    let (words, checked) = match parse(words) {
        Ok(parsed) => parsed,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                Status::COULD_NOT
            } else {
                Status::DONE
            };
        }
    };
    if let Err(error) = checked {
        status::tell(&error);
        return Status::COULD_NOT;
    }
    let done = match words.command {
        Command::Run(args) => run::run(*args.0),
        Command::Eval(args) => eval::run(*args.0),
        Command::Iterations(args) => iterations::run(*args.0),
        Command::Warmup(args) => warmup::run(*args.0),
        Command::Load(args) => load::run(&args.0),
        Command::Compare(args) => compare::run(*args.0),
        Command::Confirm(args) => confirm::run(*args.0),
        Command::Bisect(args) => bisect::run(*args.0),
        Command::Report(args) => report::run(*args.0),
        Command::History(args) => history::run(*args.0),
        Command::Backfill(args) => backfill::run(*args.0),
        Command::Import(args) => import::run(*args.0),
        Command::Push(args) => push::run(*args.0),
        Command::Comment(args) => comment::run(*args.0),
        Command::Doctor(args) => doctor::run(*args.0),
        Command::Tune(args) => tune::run(*args.0),
        Command::Fleet(args) => fleet::run(&args.0),
        Command::PerformCheck => perform::check(),
        Command::TuneGuard { root, limit_ms } => tune::guard(&root, limit_ms),
        Command::New(args) => new::run(*args.0)
            .map(|written| written.map_or(Status::DONE, |written| first_look(&written))),
        Command::Serve(args) => serve::run(&args.0),
        Command::As(args) => as_tool::run(*args.0),
        Command::LoadWorker => load::work(),
        Command::PerformLoad => load::perform(),
        Command::PerformRun => perform::run(),
        Command::PerformRole => perform::role(),
        Command::KeepServices => perform::keep(),
        Command::PerformParcel(args) => perform::parcel(&args),
        Command::HarnessSh { shell } => {
            snippet::sh::serve(&shell, shell != "sh").map(|()| Status::DONE)
        }
    };
    if let Some(warning) = harness::cache_warning() {
        status::warn(warning);
    }
    done.unwrap_or_else(|error| {
        status::tell(&error);
        if speedwell_process::interrupted() || error.is::<speedwell_process::Interrupted>() {
            Status::INTERRUPTED
        } else {
            Status::COULD_NOT
        }
    })
}

/// How long a first look measures; starting and trying everything takes some time besides, and a minute is what a
/// person waits for.
const LOOK: &str = "30s";

/// More runs than fit into it.
const MOST_RUNS: &str = "32";

/// A first look at what was written: everything once, then as many blocks as fit into some seconds. What comes of it
/// is a report like any other, with few runs.
fn first_look(written: &new::Written) -> Status {
    status::note("trying everything once");
    let mut looked = main(written.run_words(&["--test"]));
    if looked == Status::DONE {
        status::note("measuring for half a minute");
        let short = ["--budget", LOOK, "--runs", MOST_RUNS];
        looked = main(written.run_words(&[&short, written.shortened].concat()));
    }
    status::note(&format!(
        "this was a first look; then: speedwell run {}",
        written.quoted_target()
    ));
    looked
}

/// The command line, and whether its files contradict each other.
fn parse(
    words: impl IntoIterator<Item = OsString>,
) -> Result<(CommandLine, anyhow::Result<()>), clap::Error> {
    let words: Vec<OsString> = words.into_iter().collect();
    let mut grammar = CommandLine::command();
    let lists_all = words.get(1).is_none_or(|word| {
        grammar.find_subcommand(word).is_none() && word != "--version" && word != "-V"
    });
    if lists_all {
        // The list of all commands says what each of them does.
        grammar.build();
    }
    let matches = grammar.try_get_matches_from_mut(words)?;
    let parsed =
        CommandLine::from_arg_matches(&matches).map_err(|error| error.format(&mut grammar))?;
    Ok((parsed, output_files::check(&grammar, &matches)))
}

/// The grammar, for the tests that hold it together.
pub fn grammar() -> clap::Command {
    let mut grammar = CommandLine::command();
    grammar.build();
    grammar
}
