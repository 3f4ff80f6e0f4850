//! Everything that measuring can be asked for: the options of `run`, which `compare` and `doctor
//! --calibrate` share.

use super::{
    ComparisonArgs, ExecutionArgs, OutputArgs, SamplingArgs, SelectionArgs, StoreArgs, StudyArgs,
    VariantArgs,
};
use crate::compat::erlperf::style::Style;
use crate::store::Store;
use clap::Args;

/// Measure benchmark files, folders (groups) or whole benchmark folders
///
/// With one variant the result is a table of what each case does; with several it is a comparison
/// with a verdict for every case.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell run benchmarks/buffers
  speedwell run benchmarks/buffers/copy.js len=1024 --runs 10
  speedwell run string_decoder --variant old=./node-18 --variant new=./node-22 -o report.md
  speedwell run --resume @latest")]
pub struct RunArgs {
    /// Files, folders, group names; and NAME=VALUE to set a parameter
    #[arg(
        index = 1,
        value_name = "TARGET|NAME=VALUE",
        required_unless_present = "resume"
    )]
    pub targets: Vec<String>,
    /// After '--': arguments for every measured program, before those of a variant's own
    #[arg(index = 2, last = true, value_name = "ARG")]
    pub arguments: Vec<String>,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub sampling: SamplingArgs,
    #[command(flatten)]
    pub variants: VariantArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    /// After measuring, profile every case of an experiment, in runs that are not timed
    #[arg(long, help_heading = "Execution", conflicts_with_all = ["list", "test"])]
    pub profile: bool,
    #[command(flatten)]
    pub comparison: ComparisonArgs,
    #[command(flatten)]
    pub study: StudyArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub store: StoreArgs,
    /// Another report in place of ours; `eval` offers them.
    #[arg(skip)]
    pub style: Option<Style>,
    /// The command that goes on with an interrupted session.
    #[arg(skip = "run")]
    pub command: &'static str,
}

impl RunArgs {
    /// The store that sessions are kept in. Looking at cases and trying them leaves no trace.
    ///
    /// # Errors
    /// The store cannot be opened.
    pub fn open_store(&self) -> anyhow::Result<Store> {
        match self.execution.list || self.execution.test {
            true => Store::in_memory(),
            false => self.store.open(),
        }
    }
}
