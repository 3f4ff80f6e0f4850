//! `speedwell run`: the whole path of data on one screen.

use super::measure::{Plans, measure};
use super::options::{
    ComparisonArgs, ExecutionArgs, OutputArgs, SamplingArgs, SelectionArgs, StoreArgs, StudyArgs,
    VariantArgs,
};
use super::report::document_of;
use super::{Status, calibration, gate, resume, trial};
use crate::analysis;
use crate::report;
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
    #[command(flatten)]
    pub comparison: ComparisonArgs,
    #[command(flatten)]
    pub study: StudyArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub store: StoreArgs,
    /// The command that goes on with an interrupted session.
    #[arg(skip = "run")]
    pub command: &'static str,
}

/// Measures, analyses, reports, judges.
///
/// # Errors
/// Wrong words, unknown targets, a store that cannot be written.
pub fn run(args: RunArgs) -> anyhow::Result<Status> {
    let mut store = store_for(&args)?;
    let plans = match &args.execution.resume {
        Some(session) => resume::plans(&store, session)?,
        None => Plans::read(&args)?,
    };
    execute(plans, &mut store, &args)
}

/// Executes plans as the options ask for: lists, tries, or measures and reports.
///
/// # Errors
/// A store or an output that cannot be written.
pub fn execute(plans: Plans, store: &mut Store, args: &RunArgs) -> anyhow::Result<Status> {
    if args.execution.list {
        return trial::list(&plans, args);
    }
    if args.execution.test {
        return trial::test(&plans, args);
    }
    let settings = args.comparison.settings(&args.selection.metric, None);
    let (session, ended) = measure(plans, &settings, store, args)?;
    let mut findings = analysis::of(&session, &settings);
    calibration::mark(&mut findings, [&session], &args.store);
    let output = args.output.settings();
    let mut document = document_of(&session, &findings, &args.study, &settings, &output)?;
    document.append(report::circumstances(&[(None, &session)], &findings));
    args.output.print(&document)?;
    Ok(ended.or(gate::judge(&findings, args.comparison.fail_on)))
}

/// The store that sessions are kept in. Looking at cases and trying them leaves no trace.
///
/// # Errors
/// The store cannot be opened.
pub fn store_for(args: &RunArgs) -> anyhow::Result<Store> {
    match args.execution.list || args.execution.test {
        true => Store::in_memory(),
        false => args.store.open(),
    }
}
