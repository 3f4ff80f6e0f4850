//! `speedwell iterations`: finds the numbers of iterations that make benchmark files run long
//! enough and steadily.
//!
//! This module handles the options and prepares the results for the report; `measure.rs` performs
//! the search. Start at [`run`].

pub mod measure;

use crate::options::{ExecutionArgs, OutputArgs, SelectionArgs, VariantArgs, parse};
use crate::progress::ProgressDisplay;
use crate::{CommandStatus, status};
use anyhow::{Context, bail, ensure};
use clap::Args;
use measure::{FileSearch, IterationsRequest, search_iterations};
use speedwell_analysis::iterations::{IterationSearch, IterationSteps, RequiredSteadiness};
use speedwell_engine::{PlanRequest, SamplingRequest};
use speedwell_machine::process::CpuSet;
use speedwell_model::quote;
use speedwell_report::{self as report, IterationsOfFile, IterationsOutcome, ReportSubject};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Find iteration counts that make benchmark files run long enough and steadily
///
/// Files with a parameter for the number of iterations (n in Node.js) are measured with increasing numbers, until a
/// sample of every case takes long enough, the mean coefficient of variation of the file's cases is below --cv, and the
/// coefficient of each case is at most twice --cv. Every variant must be steady. '-o FILE.set' writes the numbers as
/// lines for 'run --set @FILE.set'; the measurements themselves are not stored.
///
/// Exit status 1 if, for at least one file, no number is sufficient.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell iterations benchmarks/buffers/copy.js
  speedwell iterations benchmarks/buffers --cv 2% -o buffers.set
  speedwell run benchmarks/buffers --set @buffers.set")]
pub struct IterationsArgs {
    /// Files, folders, group names; and NAME=VALUE to set a parameter
    #[arg(index = 1, value_name = "TARGET|NAME=VALUE", required = true)]
    targets: Vec<String>,
    /// After '--': arguments for every measured program
    ///
    /// They precede the variant's own arguments.
    #[arg(index = 2, last = true, value_name = "ARG")]
    arguments: Vec<String>,
    /// Parameter for the number of iterations
    #[arg(long, value_name = "NAME", default_value = "n", help_heading = "Search")]
    parameter: String,
    /// First number to try
    #[arg(long, value_name = "N", default_value = "10", value_parser = parse::count, help_heading = "Search")]
    start: u32,
    /// Factor from one number to the next, 2 or more
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u64).range(2..), help_heading = "Search")]
    factor: u64,
    /// Largest number to try
    #[arg(long, value_name = "N", default_value = "1G", value_parser = parse::count, help_heading = "Search")]
    most: u32,
    /// Give up after N numbers with long enough but unsteady samples
    #[arg(long, value_name = "N", default_value = "6", value_parser = parse::count, help_heading = "Search")]
    tries: u32,
    /// Coefficient of variation below which a file is steady
    ///
    /// The limit applies to the mean over the file's cases. A single case may exceed it, but not by more than a factor
    /// of 2.
    #[arg(long, value_name = "PCT", default_value = "5%", value_parser = parse::percentage_as_fraction, help_heading = "Search")]
    cv: f64,
    /// Minimum duration of a sample; every case must reach it
    #[arg(short = 't', long, value_name = "DUR", default_value = "50ms", value_parser = parse::duration, help_heading = "Search")]
    time: Duration,
    /// Runs per case and variant, once the samples are long enough
    ///
    /// The variation is computed from these runs.
    #[arg(short = 'r', long, value_name = "N", default_value = "10", value_parser = parse::count, help_heading = "Search")]
    runs: u32,
    /// Time limit per run
    #[arg(long, value_name = "DUR", default_value = "5m", value_parser = parse::duration, help_heading = "Search")]
    timeout: Duration,
    /// Pin measured processes to these CPUs, e.g. 1 or 0,2-3
    #[arg(long, value_name = "CPUS", help_heading = "Execution")]
    pin: Option<CpuSet>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    variants: VariantArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Searches for the iteration counts and reports the result.
///
/// # Errors
/// Fails if an option is invalid, a target is unknown, no file has the parameter to find, or an
/// output cannot be written.
pub fn run(mut args: IterationsArgs) -> anyhow::Result<CommandStatus> {
    ensure!(
        args.runs > 1,
        "--runs {} is too few to compute a variation: expected 2 or more",
        args.runs
    );
    reject_set(&args)?;
    let (set_files, report_files): (Vec<PathBuf>, _) = std::mem::take(&mut args.output.output)
        .into_iter()
        .partition(|path| path.extension().is_some_and(|extension| extension == "set"));
    for path in &set_files {
        report::check_writable(path)?;
    }
    args.output.output = report_files;
    args.output.check_report(ReportSubject::Iterations)?;
    let (output, parameter) = (&args.output, &args.parameter);
    let result =
        search_iterations(&args.iterations_request()?, &mut ProgressDisplay::with_notes(output))?;
    let outcomes: Vec<IterationsOfFile> = result.files.iter().map(outcome_of_file).collect();
    let mut document = report::report_iterations(&outcomes, parameter, &output.report_settings());
    document.append_document(report::report_failures(
        &result.failures,
        output.report_settings().verbosity,
    ));
    output.print_document(&document)?;
    for path in &set_files {
        write_lines(path, &outcomes, parameter)?;
        status::print_note(&format!("wrote '{}'", path.display()));
    }
    if !output.quiet
        && let Some(set_option) = set_argument(&outcomes, parameter, set_files.first())
    {
        let targets: Vec<String> = args.targets.iter().map(|target| quote(target)).collect();
        status::print_note(&format!("next: speedwell run {} {set_option}", targets.join(" ")));
    }
    let is_settled = |file: &FileSearch| file.failed || file.search.sufficient_level().is_some();
    let result_status = if result.files.iter().all(is_settled) {
        CommandStatus::DONE
    } else {
        CommandStatus::NEGATIVE
    };
    let ended = CommandStatus::from_session_end(result.ended);
    Ok(ended.worse_of(result_status).worse_of(status::status_of_failures(&result.failures)))
}

impl IterationsArgs {
    fn iterations_request(&self) -> anyhow::Result<IterationsRequest> {
        let plan = PlanRequest {
            sampling: SamplingRequest {
                runs: Some(self.runs),
                timeout: Some(self.timeout),
                ..SamplingRequest::default()
            },
            pin: self.pin.clone(),
            ..PlanRequest::default()
        };
        let required = RequiredSteadiness { mean: self.cv, single: 2.0 * self.cv };
        let steps = IterationSteps {
            start: self.start.into(),
            factor: self.factor,
            tries: self.tries,
            most: self.most.into(),
        };
        let min_ns = u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX);
        Ok(IterationsRequest {
            measuring: self.selection.measure_request(
                &self.targets,
                &self.arguments,
                &self.variants,
                &ExecutionArgs::default(),
                plan,
            )?,
            runs: self.runs,
            parameter: self.parameter.clone(),
            search: IterationSearch::new(required, min_ns, steps),
        })
    }
}

/// Rejects `--set` for the parameter that counts the iterations.
fn reject_set(args: &IterationsArgs) -> anyhow::Result<()> {
    let mut arguments = args.selection.set.iter().chain(&args.targets);
    let is_parameter = |argument: &&String| {
        argument.split_once('=').is_some_and(|(name, _)| name == args.parameter)
            && !Path::new(argument).exists()
    };
    match arguments.find(is_parameter) {
        Some(argument) => bail!(
            "cannot set '{argument}': this command searches for the value of '{}'\nhint: --start sets the first number",
            args.parameter
        ),
        None => Ok(()),
    }
}

fn outcome_of_file(file: &FileSearch) -> IterationsOfFile {
    let sufficient_level = file.search.sufficient_level();
    IterationsOfFile {
        file: file.name.clone(),
        outcome: match sufficient_level {
            _ if file.failed => IterationsOutcome::Failed,
            Some(_) => IterationsOutcome::Steady,
            None if file.search.steadiest_level().is_none() => IterationsOutcome::TooShort,
            None => IterationsOutcome::Unsteady,
        },
        level: sufficient_level.or(file.search.steadiest_level()).cloned(),
    }
}

/// Writes the file for 'run --set @FILE'. A sufficient iteration count becomes a setting; every
/// other result becomes a comment.
fn write_lines(path: &Path, files: &[IterationsOfFile], parameter: &str) -> anyhow::Result<()> {
    let mut text = String::new();
    for file in files {
        let line =
            file.level.as_ref().map(|level| format!("{} {parameter}={}", file.file, level.n));
        text += &match (line, file.outcome) {
            (Some(line), IterationsOutcome::Steady) => format!("{line}\n"),
            (Some(line), outcome) => format!("# {}: {line}\n", outcome.outcome_name()),
            (None, outcome) => format!("# {}: {}\n", outcome.outcome_name(), file.file),
        };
    }
    std::fs::write(path, text).with_context(|| format!("cannot write '{}'", path.display()))
}

/// Returns the `--set` argument that applies the iteration counts to the next run.
fn set_argument(
    files: &[IterationsOfFile],
    parameter: &str,
    set_file: Option<&PathBuf>,
) -> Option<String> {
    let steady = files.iter().filter(|file| file.outcome == IterationsOutcome::Steady);
    let mut numbers: Vec<u64> = steady.filter_map(|file| Some(file.level.as_ref()?.n)).collect();
    numbers.dedup();
    match (set_file, numbers.as_slice()) {
        (_, []) => None,
        (Some(path), _) => Some(format!("--set @{}", quote(&path.to_string_lossy()))),
        (None, [n]) if files.len() == 1 => Some(format!("--set {parameter}={n}")),
        (None, _) => Some("--set @FILE.set (written by -o FILE.set)".to_owned()),
    }
}
