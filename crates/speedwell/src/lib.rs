//! The command-line interface: one file per subcommand. Options are declared once, in `options/`,
//! and parsed in `arguments.rs`.
//!
//! stdout is data; progress, warnings and hints go to stderr. Exit status: 0 done, 1 the answer is
//! no, 2 could not do it, 130 interrupted after saving what was measured.

mod arguments;
mod as_tool;
mod backfill;
mod bisect;
mod comment;
mod compare;
mod completions;
mod conclude;
mod confirm;
mod doctor;
mod eval;
mod experiment;
mod fleet;
mod gate;
mod history;
mod import;
mod iterations;
mod large;
mod load;
mod man;
mod mistaken_sources;
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
mod short_help;
mod source;
mod status;
mod status_line;
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
    propagate_version = true,
    // The last value of an option wins, so that a shell alias can set defaults.
    args_override_self = true
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
    Completions(Typed<completions::CompletionsArgs>),
    Man(Typed<man::ManArgs>),
}

/// The processes of its own that Speedwell starts. No list, suggestion, completion or manual page has them.
#[derive(Debug, Parser)]
struct InternalCommandLine {
    #[command(subcommand)]
    command: InternalCommand,
}

#[derive(Debug, Subcommand)]
enum InternalCommand {
    /// Generates one part of a load.
    #[command(name = WORKER_COMMAND)]
    LoadWorker,
    /// Sends one machine's share of a load.
    #[command(name = PERFORM_LOAD)]
    PerformLoad,
    /// Performs one run of an experiment.
    #[command(name = perform::COMMAND)]
    PerformRun,
    /// Has services live that several runs of an experiment share.
    #[command(name = perform::KEEPING_COMMAND)]
    KeepServices,
    /// Has one part of an experiment live on the machine that it is started on.
    #[command(name = PERFORM_ROLE)]
    PerformRole,
    /// Says what this machine is like, and what the time is.
    #[command(name = perform::CHECK)]
    PerformCheck,
    /// Measures parcels on the machine that it is started on.
    #[command(name = perform::PARCEL_COMMAND)]
    PerformParcel(perform::ParcelArgs),
    /// Puts the settings of a machine back when their tuner has ended.
    #[command(name = GUARD_COMMAND)]
    TuneGuard {
        /// The folder that stands for the machine.
        root: PathBuf,
        /// After this time they are put back in any case.
        limit_ms: Option<u64>,
    },
    /// The harness for commands of a shell.
    #[command(name = snippet::sh::COMMAND)]
    HarnessSh {
        /// The shell.
        shell: String,
    },
}

/// Arguments of a command, built only if that command was typed: building those of all commands
/// dominated the start-up time.
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

/// Parses the arguments, of which the first is the program's name, and runs the command.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Status {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let name = arguments.get(1).and_then(|name| name.to_str());
    let is_internal = name.is_some_and(InternalCommand::has_subcommand);
    if is_internal && let Ok(line) = InternalCommandLine::try_parse_from(&arguments) {
        return conclude_command(run_internal(line.command));
    }
    match arguments::parse(&arguments) {
        Ok(line) => conclude_command(run_command(line.command)),
        Err(status) => status,
    }
}

/// Returns the exit status of a command, after printing its error.
fn conclude_command(done: anyhow::Result<Status>) -> Status {
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

fn run_command(command: Command) -> anyhow::Result<Status> {
    match command {
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
        Command::New(args) => new::run(*args.0)
            .map(|written| written.map_or(Status::DONE, |written| first_look(&written))),
        Command::Serve(args) => serve::run(&args.0),
        Command::As(args) => as_tool::run(*args.0),
        Command::Completions(args) => completions::run(&args.0),
        Command::Man(args) => man::run(&args.0),
    }
}

fn run_internal(command: InternalCommand) -> anyhow::Result<Status> {
    match command {
        InternalCommand::LoadWorker => load::work(),
        InternalCommand::PerformLoad => load::perform(),
        InternalCommand::PerformRun => perform::run(),
        InternalCommand::PerformRole => perform::role(),
        InternalCommand::KeepServices => perform::keep(),
        InternalCommand::PerformCheck => perform::check(),
        InternalCommand::PerformParcel(args) => perform::parcel(&args),
        InternalCommand::TuneGuard { root, limit_ms } => tune::guard(&root, limit_ms),
        InternalCommand::HarnessSh { shell } => {
            snippet::sh::serve(&shell, shell != "sh").map(|()| Status::DONE)
        }
    }
}

/// Measuring time of a first look. Starting and trying everything takes some time on top; people
/// wait about a minute.
const LOOK: &str = "30s";

/// More runs than fit into [`LOOK`].
const MOST_RUNS: &str = "32";

/// Takes a first look at created files: runs everything once, then measures for [`LOOK`]. The
/// result is an ordinary report with few runs.
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

/// Builds every command and option in full, for completions and for tests of the grammar.
pub fn grammar() -> clap::Command {
    let mut grammar = CommandLine::command();
    grammar.build();
    grammar
}
