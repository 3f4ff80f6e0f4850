//! Implements the command-line interface: lists the commands, parses the command line and starts
//! the command. Each subcommand has a file or a folder. Options that several commands share are
//! declared once, in `options/`.
//!
//! Commands write data to stdout, and progress, warnings and hints to stderr. The exit status is 0
//! for success, 1 for a negative answer (such as a failed gate), 2 for an error, and 130 for an
//! interrupt. Completed runs are saved in any case.

mod as_tool;
mod comment;
mod compare;
mod doctor;
mod eval;
mod features;
mod fleet;
mod gate;
mod help;
mod history;
mod import;
mod init;
mod load;
mod new;
mod operand;
mod operand_kind;
mod options;
mod profile_recording;
mod progress;
mod rehearsal;
mod report;
mod run;
mod serve;
mod source;
mod status;
mod stored_session;
mod suggest;
mod time;
mod worker;

// Public for a benchmark and a test of the history.
pub use history::project as project_history;
pub use status::CommandStatus;

use anyhow::anyhow;
use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use features::{backfill, bisect, confirm, iterations, push, tune, warmup};
use speedwell_adapters::{self as adapters, snippet};
use speedwell_analysis::UnknownMetric;
use speedwell_machine::environment::tune::GUARD_COMMAND;
use speedwell_machine::process::{InterruptedEarly, is_interrupt_requested};
use speedwell_machine::worker::WORKER_COMMAND;
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
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    Run(DeferredArgs<options::RunArgs>),
    Time(DeferredArgs<time::TimeArgs>),
    Eval(DeferredArgs<options::EvalArgs>),
    Iterations(DeferredArgs<iterations::IterationsArgs>),
    Warmup(DeferredArgs<warmup::WarmupArgs>),
    Load(DeferredArgs<options::LoadArgs>),
    Compare(DeferredArgs<compare::CompareArgs>),
    Confirm(DeferredArgs<confirm::ConfirmArgs>),
    Bisect(DeferredArgs<bisect::BisectArgs>),
    Report(DeferredArgs<report::ReportArgs>),
    History(DeferredArgs<history::HistoryArgs>),
    Backfill(DeferredArgs<backfill::BackfillArgs>),
    Import(DeferredArgs<import::ImportArgs>),
    Push(DeferredArgs<push::PushArgs>),
    Comment(DeferredArgs<comment::CommentArgs>),
    Doctor(DeferredArgs<doctor::DoctorArgs>),
    Tune(DeferredArgs<tune::TuneArgs>),
    Fleet(DeferredArgs<fleet::FleetArgs>),
    Init(DeferredArgs<init::InitArgs>),
    New(DeferredArgs<new::NewArgs>),
    Serve(DeferredArgs<serve::ServeArgs>),
    As(DeferredArgs<as_tool::AsArgs>),
    Completions(DeferredArgs<help::CompletionsArgs>),
    Man(DeferredArgs<help::ManArgs>),
}

/// Commands of the processes that Speedwell itself starts. No list, suggestion, completion or
/// manual page shows them.
#[derive(Debug, Parser)]
struct InternalCommandLine {
    #[command(subcommand)]
    command: InternalCommand,
}

#[derive(Debug, Subcommand)]
enum InternalCommand {
    /// Work that another process of this program requests.
    #[command(name = WORKER_COMMAND, subcommand)]
    Worker(worker::WorkerCommand),
    /// Restores the settings of a machine after the tuner has ended.
    #[command(name = GUARD_COMMAND)]
    TuneGuard {
        /// Root folder of the machine.
        root: PathBuf,
        /// Restore the settings after this many milliseconds, even if the tuner has not ended.
        limit_ms: Option<u64>,
    },
    /// The harness for shell commands.
    #[command(name = snippet::sh::HARNESS_COMMAND)]
    HarnessSh {
        /// The shell.
        shell: String,
    },
}

/// Arguments of a command, built only if the command is used. Building the arguments of all
/// commands would dominate the start-up time.
#[derive(Debug)]
struct DeferredArgs<T>(Box<T>);

impl<T: Args> Args for DeferredArgs<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(T::augment_args)
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(T::augment_args_for_update)
    }
}

impl<T: FromArgMatches> FromArgMatches for DeferredArgs<T> {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<DeferredArgs<T>, clap::Error> {
        Ok(DeferredArgs(Box::new(T::from_arg_matches(matches)?)))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// Parses the arguments, starting with the program's name, and runs the command.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> CommandStatus {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let name = arguments.get(1).and_then(|name| name.to_str());
    let is_internal = name.is_some_and(InternalCommand::has_subcommand);
    if is_internal && let Ok(line) = InternalCommandLine::try_parse_from(&arguments) {
        return conclude_command(run_internal(line.command));
    }
    match parse_command_line(replace_go_options(arguments)) {
        Ok(line) => conclude_command(run_command(line.command)),
        Err(status) => status,
    }
}

/// Replaces `-bench RE` of `go test`, which would be read as five letters, with `--filter RE`.
fn replace_go_options(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let measures = arguments.get(1).is_some_and(|name| name == "run" || name == "compare");
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    for argument in arguments[..end].iter_mut().skip(2).filter(|_| measures) {
        let pattern = argument.to_str().and_then(|text| text.strip_prefix("-bench"));
        if let Some(pattern) = pattern.filter(|text| text.is_empty() || text.starts_with('=')) {
            *argument = format!("--filter{pattern}").into();
        }
    }
    arguments
}

/// Builds every command and option in full, for completions and for tests of the grammar.
pub fn build_grammar() -> Command {
    let mut grammar = CommandLine::command();
    grammar.build();
    grammar
}

/// Parses the command line, with the defaults of the project file, and checks that its output files
/// do not conflict. If it prints help or an error message instead, it returns the exit status as an
/// error.
fn parse_command_line(arguments: Vec<OsString>) -> Result<CommandLine, CommandStatus> {
    let mut grammar = CommandLine::command();
    let arguments = init::add_defaults(arguments, &grammar).map_err(|error| refuse(&error))?;
    let words = arguments.iter().map(|argument| argument.to_str().ok_or(argument));
    let words: Vec<&str> = words.collect::<Result<_, _>>().map_err(|argument| {
        // Names of cases, sessions and files are stored as UTF-8.
        refuse(&anyhow!("argument {argument:?} is not valid UTF-8\nhint: rename the file"))
    })?;
    let typed = words.get(1..).unwrap_or_default();
    if let ["as", tool, ..] = typed
        && !tool.starts_with('-')
    {
        // Everything after the tool's name belongs to the tool, including '-h' and '--version'.
        grammar = grammar
            .mut_subcommand("as", |tool| tool.disable_help_flag(true).disable_version_flag(true));
    }
    let lists_commands = typed.first().is_none_or(|name| {
        grammar.find_subcommand(name).is_none() && !["--version", "-V"].contains(name)
    });
    if lists_commands {
        // The list of commands shows all descriptions, so build all commands.
        grammar.build();
    }
    let parsed = grammar
        .try_get_matches_from_mut(&arguments)
        .and_then(|matches| Ok((CommandLine::from_arg_matches(&matches)?, matches)));
    let (line, matches) = parsed.map_err(|error| {
        let formatted = error.format(&mut grammar);
        let command = if lists_commands { &grammar } else { help::typed_command(&grammar) };
        help::print_refusal(formatted, (&grammar, command), typed)
    })?;
    check_operands(&line.command, typed, &grammar)
        .and_then(|()| options::check_outputs(&grammar, &matches))
        .map_err(|error| refuse(&error))?;
    Ok(line)
}

/// Rejects a parsed command whose operands or outputs make no sense.
///
/// # Errors
/// Fails if there is such an operand; the message suggests a command line.
fn check_operands(command: &CliCommand, words: &[&str], grammar: &Command) -> anyhow::Result<()> {
    if !matches!(command, CliCommand::As(_) | CliCommand::New(_)) {
        suggest::check_outputs(words)?;
    }
    match command {
        CliCommand::Run(args) => suggest::check_targets(&args.0.targets, words, grammar),
        CliCommand::Load(args) if !args.0.benchmarker => {
            suggest::check_load(&args.0, words, grammar)
        }
        CliCommand::Eval(args) => suggest::check_snippets(&args.0, words),
        _ => Ok(()),
    }
}

/// Prints the reason for rejecting the command line. Returns the exit status.
fn refuse(error: &anyhow::Error) -> CommandStatus {
    status::print_error(error);
    CommandStatus::FAILED
}

/// Prints the error of a command, if any, and a warning about an unusual cache folder. Returns the
/// exit status.
fn conclude_command(result: anyhow::Result<CommandStatus>) -> CommandStatus {
    if let Some(warning) = adapters::cache_warning() {
        status::print_warning(warning);
    }
    result.unwrap_or_else(|error| {
        status::print_error(&error);
        if let Some(line) = correct_metric(&error, std::env::args().skip(1)) {
            status::print_hint(&line);
        }
        if is_interrupt_requested() || error.is::<InterruptedEarly>() {
            CommandStatus::INTERRUPTED
        } else {
            CommandStatus::FAILED
        }
    })
}

/// Returns the command line with the most similar metric if the error is an unknown metric.
fn correct_metric(
    error: &anyhow::Error,
    words: impl IntoIterator<Item = String>,
) -> Option<String> {
    let unknown = error.downcast_ref::<UnknownMetric>()?;
    let similar = unknown.similar.as_deref()?;
    let correct = |names: &str| {
        names
            .split(',')
            .map(|name| if name == unknown.name { similar } else { name })
            .collect::<Vec<_>>()
            .join(",")
    };
    let mut line = vec!["speedwell".to_owned()];
    let mut is_value = false;
    for word in words {
        let corrected = match word.strip_prefix("--metric=") {
            Some(names) => format!("--metric={}", correct(names)),
            None if is_value => correct(&word),
            None => word.clone(),
        };
        is_value = word == "--metric";
        line.push(corrected);
    }
    Some(operand::quote_all(&line))
}

fn run_command(command: CliCommand) -> anyhow::Result<CommandStatus> {
    match command {
        CliCommand::Run(args) => run::run(*args.0),
        CliCommand::Time(args) => time::run(*args.0),
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
        CliCommand::Init(args) => init::run(&args.0),
        CliCommand::New(args) => new::run(*args.0)
            .map(|written| written.map_or(CommandStatus::DONE, |written| first_look(&written))),
        CliCommand::Serve(args) => serve::run(&args.0),
        CliCommand::As(args) => as_tool::run(*args.0),
        CliCommand::Completions(args) => help::print_completions(&args.0, &build_grammar()),
        CliCommand::Man(args) => help::write_manual(&args.0, CommandLine::command()),
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
