//! `speedwell iterations`: finds the numbers of iterations that make benchmark files run long
//! enough and steadily.
//!
//! Each file is first measured in single runs, until its samples are long enough. Several runs then
//! show how much the samples vary. `analysis::iterations` decides when samples are long enough and
//! which number to try next. Start at [`run`].

use crate::operand::quote_all;
use crate::options::{OutputArgs, SelectionArgs, VariantArgs, hide_unused, parse};
use crate::progress::ProgressDisplay;
use crate::run::execute_session;
use crate::{CommandStatus, status};
use anyhow::{Context, bail, ensure};
use clap::Args;
use indexmap::IndexMap;
use speedwell_adapters::plan::SessionPlan;
use speedwell_analysis::iterations::{
    CaseSamples, IterationLevel, IterationSearch, IterationSteps, RequiredSteadiness,
};
use speedwell_engine::execution::SessionEnd;
use speedwell_engine::{
    EventListener, ExecutionArgs, MeasureRequest, PlanRequest, PreparedPlan, SamplingRequest,
    SessionRequest, check_processors, emit_warning, warn_if_busy,
};
use speedwell_machine::process::CpuSet;
use speedwell_model::{Case, Session, SessionEvent, StepFailure, quote};
use speedwell_report::{self as report, IterationsOfFile, IterationsOutcome, ReportSubject};
use speedwell_store::Store;
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
#[command(mut_args(|arg| hide_unused(arg, "names chart")), after_help = "Examples:
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
    /// First number of iterations to try
    #[arg(long, value_name = "N", default_value = "10", value_parser = parse::count, help_heading = "Search")]
    start: u32,
    /// Factor from one number of iterations to the next, 2 or more
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u64).range(2..), help_heading = "Search")]
    factor: u64,
    /// Largest number of iterations to try
    #[arg(long, value_name = "N", default_value = "1G", value_parser = parse::count, help_heading = "Search")]
    most: u32,
    /// Give up after N unsteady numbers of iterations
    ///
    /// Numbers whose samples are too short are not included.
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
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    variants: VariantArgs,
    /// Pin measured processes to these CPUs, e.g. 1 or 0,2-3
    #[arg(long, value_name = "CPUS", help_heading = "Execution")]
    pin: Option<CpuSet>,
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
    let (files, ended, failures) = {
        // The status line ends before the report is printed.
        let mut progress = ProgressDisplay::with_notes(output);
        let mut search = SearchRounds {
            args: &args,
            measuring: args.measure_request()?,
            failures: Vec::new(),
            listener: &mut progress,
        };
        let mut files = search.find_files()?;
        let ended = search.run_rounds(&mut files)?;
        (files, ended, search.failures)
    };
    let outcomes: Vec<IterationsOfFile> = files.iter().map(outcome_of_file).collect();
    let mut document = report::report_iterations(&outcomes, parameter, &output.report_settings());
    document
        .append_document(report::report_failures(&failures, output.report_settings().verbosity));
    output.print_document(&document)?;
    for path in &set_files {
        write_lines(path, &outcomes, parameter)?;
        status::print_note(&format!("wrote '{}'", path.display()));
    }
    if !output.quiet
        && let Some(set_option) = set_argument(&outcomes, parameter, set_files.first())
    {
        let targets = quote_all(&args.targets);
        status::print_note(&format!("next: speedwell run {targets} {set_option}"));
    }
    let is_settled = |file: &FileSearch| file.failed || file.search.sufficient.is_some();
    let result_status =
        if files.iter().all(is_settled) { CommandStatus::DONE } else { CommandStatus::NEGATIVE };
    let ended = CommandStatus::from_session_end(ended);
    Ok(ended.worse_of(result_status).worse_of(status::status_of_failures(&failures)))
}

impl IterationsArgs {
    fn measure_request(&self) -> anyhow::Result<MeasureRequest> {
        let plan = PlanRequest {
            sampling: SamplingRequest {
                runs: Some(self.runs),
                timeout: Some(self.timeout),
                ..SamplingRequest::default()
            },
            execution: ExecutionArgs { pin: self.pin.clone(), ..ExecutionArgs::default() },
            ..PlanRequest::default()
        };
        self.selection.measure_request(&self.targets, &self.arguments, &self.variants, plan)
    }

    /// Returns the search for a file, at its start.
    fn iteration_search(&self) -> IterationSearch {
        let required = RequiredSteadiness { mean: self.cv, single: 2.0 * self.cv };
        let steps = IterationSteps {
            start: self.start.into(),
            factor: self.factor,
            tries: self.tries,
            most: self.most.into(),
        };
        let min_ns = u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX);
        IterationSearch::new(required, min_ns, steps)
    }
}

/// Rejects `--set` for the parameter with the number of iterations.
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
    let sufficient_level = file.search.sufficient.as_ref();
    IterationsOfFile {
        file: file.name.clone(),
        outcome: match sufficient_level {
            _ if file.failed => IterationsOutcome::Failed,
            Some(_) => IterationsOutcome::Steady,
            None if file.search.steadiest.is_none() => IterationsOutcome::TooShort,
            None => IterationsOutcome::Unsteady,
        },
        level: sufficient_level.or(file.search.steadiest.as_ref()).cloned(),
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
            (Some(line), outcome) => format!("# {outcome}: {line}\n"),
            (None, outcome) => format!("# {outcome}: {}\n", file.file),
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

/// A benchmark file with its search.
#[derive(Debug, Clone)]
struct FileSearch {
    /// Name of the file.
    name: String,
    /// State of the search for this file.
    search: IterationSearch,
    /// Whether the file cannot be measured.
    failed: bool,
    /// Whether the samples of the file are long enough.
    is_long: bool,
}

/// Measures files with increasing numbers of iterations until every search has ended. Stores
/// nothing.
struct SearchRounds<'a, 'l> {
    args: &'a IterationsArgs,
    /// The files and how to measure them.
    measuring: MeasureRequest,
    failures: Vec<StepFailure>,
    listener: &'a mut EventListener<'l>,
}

impl SearchRounds<'_, '_> {
    /// Returns the files that have the parameter, each at the start of its search.
    fn find_files(&mut self) -> anyhow::Result<Vec<FileSearch>> {
        let plans = PreparedPlan::read(&self.measuring, self.listener)?;
        check_processors(&plans.plan)?;
        ensure!(
            plans.plan.design.experiment.is_none(),
            "an experiment defines the length of its runs itself\nhint: see 'plan' in its \
             definition file"
        );
        let mut files: IndexMap<String, Vec<Case>> = IndexMap::new();
        for job in &plans.plan.jobs {
            let case = job.case.clone().or_else(|| job.label_as_case());
            files.entry(job.source.name.clone()).or_default().extend(case);
        }
        let parameter = self.args.parameter.as_str();
        let has_parameter = |cases: &[Case]| {
            // A file without a list of its cases may have the parameter.
            cases.is_empty() || cases.iter().any(|case| case.value(parameter).is_some())
        };
        let messages: Vec<String> = files
            .iter()
            .filter(|(_, cases)| !has_parameter(cases))
            .map(|(name, cases)| missing_parameter_message(parameter, name, cases))
            .collect();
        files.retain(|_, cases| has_parameter(cases));
        if files.is_empty() && !messages.is_empty() {
            bail!(
                "{}\nhint: --parameter names the parameter for the number of iterations; if the harness \
                 chooses this number (C++, Python), 'run --time' sets the length of a sample",
                messages.join("; ")
            );
        }
        for sentence in messages {
            emit_warning(self.listener, &format!("{sentence}; it is left out."))?;
        }
        for warning in &plans.suite.warnings {
            emit_warning(self.listener, warning)?;
        }
        warn_if_busy(self.listener)?;
        self.failures = plans.suite.failures;
        let search = self.args.iteration_search();
        let file =
            |name| FileSearch { name, search: search.clone(), is_long: false, failed: false };
        Ok(files.into_keys().map(file).collect())
    }

    /// Measures round after round until every search has ended.
    fn run_rounds(&mut self, files: &mut [FileSearch]) -> anyhow::Result<SessionEnd> {
        loop {
            let is_unfinished =
                |file: &&mut FileSearch| !file.failed && file.search.next_number.is_some();
            let mut unfinished: Vec<&mut FileSearch> =
                files.iter_mut().filter(is_unfinished).collect();
            // Files with short samples come first, because a single run tells whether samples are
            // long enough.
            let has_short_samples = unfinished.iter().any(|file| !file.is_long);
            unfinished.retain(|file| file.is_long != has_short_samples);
            if unfinished.is_empty() {
                return Ok(SessionEnd::Complete);
            }
            let runs = if has_short_samples { 1 } else { self.args.runs };
            let (plan, session, session_end) = self.measure_round(&unfinished, runs)?;
            if session_end != SessionEnd::Complete {
                return Ok(session_end);
            }
            let mut levels = group_by_file(&plan, &session, &unfinished, &self.args.parameter);
            for file in unfinished {
                match levels.swap_remove(&file.name) {
                    None => file.failed = true,
                    Some(level) if has_short_samples => match level.shortest_ns {
                        Some(shortest_ns) if !file.search.is_long_enough(level.shortest_ns) => {
                            file.search.skip_too_small(shortest_ns);
                        }
                        _ => file.is_long = true,
                    },
                    Some(level) => {
                        file.search.record_level(level);
                    }
                }
            }
        }
    }

    /// Measures the files, each with its own number of iterations.
    fn measure_round(
        &mut self,
        unfinished: &[&mut FileSearch],
        runs: u32,
    ) -> anyhow::Result<(SessionPlan, Session, SessionEnd)> {
        let values_of_file = |file: &&mut FileSearch| {
            let n = file.search.next_number.unwrap_or_default();
            (file.name.clone(), (self.args.parameter.clone(), n.to_string()))
        };
        let values_of_file: Vec<_> = unfinished.iter().map(values_of_file).collect();
        if runs > 1 {
            let settings = values_of_file
                .iter()
                .map(|(name, (parameter, n))| format!("{name} {parameter}={n}"));
            let note = format!("measuring {}", settings.collect::<Vec<String>>().join(", "));
            self.listener.observe(&SessionEvent::Note(&note))?;
        }
        let mut request = self.measuring.clone();
        request.plan.sampling.runs = Some(runs);
        request.selection.of_benchmarks.extend(values_of_file);
        let mut plans = PreparedPlan::read(&request, self.listener)?;
        let is_unfinished = |name: &str| unfinished.iter().any(|file| file.name == name);
        plans.plan.jobs.retain(|job| is_unfinished(&job.source.name));
        let failures = std::mem::take(&mut plans.suite.failures).into_iter();
        self.failures.extend(failures.filter(|failure| is_unfinished(&failure.benchmark)));
        let plan = plans.plan.clone();
        let (session, mut store) = (SessionRequest::default(), Store::in_memory()?);
        let measured = execute_session(plans, &session, &mut store, self.listener)?;
        let session = measured.session;
        self.failures.extend(session.failures.iter().cloned());
        Ok((plan, session, measured.ended?))
    }
}

fn missing_parameter_message(parameter: &str, file: &str, cases: &[Case]) -> String {
    let mut names: Vec<&str> =
        cases.iter().flat_map(|case| &case.values).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        format!("'{file}' has no parameters")
    } else {
        format!("'{file}' has no parameter '{parameter}', only {}", names.join(", "))
    }
}

/// Returns the results by file. Omits files in which a run failed.
fn group_by_file(
    plan: &SessionPlan,
    session: &Session,
    unfinished: &[&mut FileSearch],
    parameter: &str,
) -> IndexMap<String, IterationLevel> {
    let slots = plan.slots();
    let file =
        |slot: u32| slots.get(slot as usize).map(|slot| plan.jobs[slot.job].source.name.as_str());
    let failed: Vec<&str> =
        session.failures.iter().filter_map(|failure| file(failure.slot?)).collect();
    let mut files: IndexMap<String, IndexMap<String, CaseSamples>> = IndexMap::new();
    let metric = session.metrics.first().map(|metric| metric.name.as_str());
    for run in &session.runs {
        let Some(name) = file(run.slot).filter(|name| !failed.contains(name)) else { continue };
        let samples = run.samples.iter().filter(|sample| Some(&*sample.metric) == metric);
        let (mut sum, mut count) = (0.0, 0);
        let series = series_name(&run.case, &run.variant, plan, parameter);
        let results = files.entry(name.to_owned()).or_default().entry(series).or_default();
        for sample in samples {
            (sum, count) = (sum + sample.value, count + 1);
            results.lengths_ns.extend(sample.elapsed_ns);
        }
        if count > 0 {
            results.rates.push(sum / f64::from(count));
        }
    }
    let level = |(name, cases): (String, IndexMap<String, CaseSamples>)| {
        let n = unfinished.iter().find(|file| file.name == name)?.search.next_number?;
        Some((name, IterationLevel::new(n, cases)))
    };
    files.into_iter().filter_map(level).collect()
}

/// Returns the name of a case without the number of iterations. Appends the variant if there are
/// several.
fn series_name(case: &Case, variant: &str, plan: &SessionPlan, parameter: &str) -> String {
    let mut case = case.clone();
    case.values.retain(|(name, _)| name != parameter);
    if plan.variants.len() == 1 { case.id() } else { format!("{} [{variant}]", case.id()) }
}
