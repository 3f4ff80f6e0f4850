//! `speedwell time`: measures shell commands, as `speedwell eval sh` does.
//!
//! Adds what helps people who type commands: the check that every command exists before any runs,
//! and hints for commands without quotes. Start at [`run`].

use crate::operand::{quote_all, script_command};
use crate::options::{
    CommandArgs, EvalArgs, MetricArgs, ParameterArgs, ResultArgs, RunArgs, SnippetArgs,
    hide_unused, parse,
};
use crate::serve::MeasuredSubject;
use crate::{CommandStatus, eval, serve};
use anyhow::{Result, bail, ensure};
use clap::Args;
use speedwell_adapters::discover::similar_file;
use speedwell_adapters::snippet::sh::unknown_command;
use speedwell_engine::{ExecutionArgs, SamplingRequest, WarmupLength};
use speedwell_model::{SnippetLanguage, quote};
use std::path::Path;

/// Measure commands; several are compared with the first
///
/// Several commands are measured in randomised blocks of fresh processes, until a test decides. Options have the names
/// that they have in hyperfine; the letters -c, -n, -p and -s have other meanings here. 'speedwell eval sh' is the long
/// form.
#[derive(Debug, Args)]
#[command(
    mut_arg("warmup", |arg| arg.value_name("N|DUR").value_parser(WarmupLength::parse)
        .help("Executions before each run that are not measured")),
    // In hyperfine, '-n' is a name.
    mut_arg("samples", |arg| arg.short(None::<char>)),
    mut_args(|arg| hide_unused(arg, "with_own_benchmarks")),
    after_help = "Examples:
  speedwell time 'python3 a.py' 'python3 b.py'
  speedwell time 'sort -S {size} words' -L size 1M,16M -w 3
  speedwell time -- grep -c needle book.txt")]
pub struct TimeArgs {
    /// Commands, each quoted as one argument
    #[arg(
        index = 1,
        value_name = "CMD",
        required_unless_present_any = ["program", "resume"],
        conflicts_with = "resume"
    )]
    commands: Vec<String>,
    /// After '--': a program and its arguments, as one command
    #[arg(index = 2, last = true, value_name = "PROGRAM", conflicts_with_all = ["commands", "resume"])]
    program: Vec<String>,
    #[command(flatten)]
    command_args: CommandArgs,
    /// Run before every execution of a command, untimed
    #[arg(long, value_name = "CMD", allow_hyphen_values = true, help_heading = "Commands")]
    prepare: Vec<String>,
    /// Name in tables [default: the text]
    #[arg(long, alias = "command-name", value_name = "NAME", help_heading = "Commands")]
    name: Vec<String>,
    #[command(flatten)]
    parameters: ParameterArgs,
    #[command(flatten)]
    metric: MetricArgs,
    #[command(flatten)]
    sampling: SamplingRequest,
    /// At least N runs of every case and variant
    #[arg(long, value_name = "N", value_parser = parse::count, conflicts_with_all = ["runs", "precision"],
          help_heading = "Sampling")]
    min_runs: Option<u32>,
    /// At most N runs of every case and variant [default: see --runs]
    #[arg(long, value_name = "N", value_parser = parse::count, conflicts_with = "runs", help_heading = "Sampling")]
    max_runs: Option<u32>,
    #[command(flatten)]
    execution: ExecutionArgs,
    #[command(flatten)]
    results: ResultArgs,
}

/// Measures the commands.
///
/// # Errors
/// Fails if a command does not exist, an option is invalid, or the store cannot be written.
pub fn run(args: TimeArgs) -> Result<CommandStatus> {
    let program = (!args.program.is_empty()).then(|| quote_all(&args.program));
    measure_commands(EvalArgs {
        language: Some(SnippetLanguage::Sh),
        snippets: args.commands.into_iter().chain(program).collect(),
        snippet: SnippetArgs { prepare: args.prepare, name: args.name, ..SnippetArgs::default() },
        commands: args.command_args,
        parameters: args.parameters,
        sampling: args.sampling,
        min_runs: args.min_runs,
        max_runs: args.max_runs,
        execution: args.execution,
        metric: args.metric,
        results: args.results,
        ..EvalArgs::default()
    })
}

/// Measures the commands in randomized blocks and compares them with the first one.
///
/// # Errors
/// Fails if a command does not exist, an option needs benchmarks, or the store cannot be written.
pub fn compare_commands(commands: Vec<String>, measuring: RunArgs) -> Result<CommandStatus> {
    ensure!(
        measuring.selection.set.is_empty() && measuring.arguments.is_empty() && !measuring.profile,
        "--set, --profile and arguments after '--' need benchmarks, but these are commands\n\
         hint: 'speedwell time -L NAME V,V' measures commands that contain '{{NAME}}'"
    );
    let database = &measuring.results.store.database;
    let dashboard = measuring.dashboard.then(|| database.database_path()).transpose()?;
    let args = EvalArgs {
        language: Some(SnippetLanguage::Sh),
        snippets: commands,
        filter: measuring.selection.filter,
        exclude: measuring.selection.exclude,
        sampling: measuring.sampling,
        variants: measuring.variants,
        execution: measuring.execution,
        layout: measuring.layout,
        metric: measuring.selection.metric,
        results: measuring.results,
        ..EvalArgs::default()
    };
    serve::with_dashboard(dashboard.as_deref(), MeasuredSubject::Session, || measure_commands(args))
}

fn measure_commands(args: EvalArgs) -> Result<CommandStatus> {
    let commands = &args.commands;
    // The setup may build a command, and another machine or shell may have others.
    let knows_commands = commands.setup.is_empty() && commands.shell.is_none();
    if knows_commands && args.results.fleet.machines.is_none() {
        check_commands(&args.snippets)?;
    }
    eval::run(args)
}

/// Rejects commands that cannot be executed, before anything runs.
///
/// # Errors
/// Fails if the first word of a command is neither a program nor a builtin of the shell.
fn check_commands(commands: &[String]) -> Result<()> {
    for (index, command) in commands.iter().enumerate() {
        if let Some(word) = unknown_command(command) {
            let suggested = suggest_command(commands, index);
            let hint = suggested.map_or(String::new(), |line| format!("\nhint: {line}"));
            bail!("'{word}' is not a command{hint}");
        }
    }
    Ok(())
}

/// Returns the command line that was probably intended; the command at `index` is unknown.
fn suggest_command(commands: &[String], index: usize) -> Option<String> {
    let (words, others) = commands.split_at(index);
    let is_word = |command: &String| !command.contains(char::is_whitespace);
    let is_unquoted = index > 0 && commands.iter().all(is_word);
    if is_unquoted && others.iter().all(|file| Path::new(file).is_file()) {
        let program = words.join(" ");
        let line = |file: &String| format!("{program} {}", quote(file));
        let lines: Vec<String> = others.iter().map(line).collect();
        return Some(format!("speedwell time {}", quote_all(&lines)));
    }
    let scripts = commands.iter().map(|file| script_command(Path::new(file)));
    if let Some(lines) = scripts.collect::<Option<Vec<String>>>() {
        return Some(format!("speedwell time {}", quote_all(&lines)));
    }
    match similar_file(&others[0], Path::new(".")).filter(|file| *file != others[0]) {
        Some(file) => Some(format!("did you mean the file '{file}'?")),
        None => is_unquoted.then(|| format!("speedwell time {}", quote(&commands.join(" ")))),
    }
}
