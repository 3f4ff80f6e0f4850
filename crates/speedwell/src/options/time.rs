//! Defines the options of `time`, and converts them to options of `eval sh`.

use super::eval::ParameterArgs;
use super::{CommandArgs, EvalArgs, MetricArgs, ResultArgs, SnippetArgs, hide_unused, parse};
use crate::operand_kind::quote_all;
use clap::Args;
use speedwell_engine::{ExecutionArgs, SamplingRequest, WarmupLength};
use speedwell_model::SnippetLanguage;

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
    pub commands: Vec<String>,
    /// After '--': a program and its arguments, as one command
    #[arg(index = 2, last = true, value_name = "PROGRAM", conflicts_with_all = ["commands", "resume"])]
    pub program: Vec<String>,
    #[command(flatten)]
    pub command_args: CommandArgs,
    /// Run before every execution of a command, untimed
    #[arg(long, value_name = "CMD", allow_hyphen_values = true, help_heading = "Commands")]
    pub prepare: Vec<String>,
    /// Name in tables [default: the text]
    #[arg(long, alias = "command-name", value_name = "NAME", help_heading = "Commands")]
    pub name: Vec<String>,
    #[command(flatten)]
    pub parameters: ParameterArgs,
    #[command(flatten)]
    pub metric: MetricArgs,
    #[command(flatten)]
    pub sampling: SamplingRequest,
    /// At least N runs of every case and variant
    #[arg(long, value_name = "N", value_parser = parse::count, conflicts_with_all = ["runs", "precision"],
          help_heading = "Sampling")]
    pub min_runs: Option<u32>,
    /// At most N runs of every case and variant [default: see --runs]
    #[arg(long, value_name = "N", value_parser = parse::count, conflicts_with = "runs", help_heading = "Sampling")]
    pub max_runs: Option<u32>,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub results: ResultArgs,
}

impl TimeArgs {
    /// Converts the options to options of `eval sh`.
    pub fn eval_args(self) -> EvalArgs {
        let program = (!self.program.is_empty()).then(|| quote_all(&self.program));
        EvalArgs {
            language: Some(SnippetLanguage::Sh),
            snippets: self.commands.into_iter().chain(program).collect(),
            snippet: SnippetArgs {
                prepare: self.prepare,
                name: self.name,
                ..SnippetArgs::default()
            },
            commands: self.command_args,
            parameters: self.parameters,
            sampling: self.sampling,
            min_runs: self.min_runs,
            max_runs: self.max_runs,
            execution: self.execution,
            metric: self.metric,
            results: self.results,
            ..EvalArgs::default()
        }
    }
}
