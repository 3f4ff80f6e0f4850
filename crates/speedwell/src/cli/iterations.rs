//! `speedwell iterations`: how many iterations make benchmark files long and steady enough.
//!
//! Decides which files are measured with which number, first in single runs until samples are long enough, then in as
//! many as show how they vary. What is enough, and which number comes next, is decided by `analysis::iterations`.
//! Nothing is stored. Start at [`run`].

use super::measure::{Plans, carry_out};
use super::options::{
    ComparisonArgs, ExecutionArgs, OutputArgs, RunArgs, SamplingArgs, SelectionArgs, StoreArgs,
    StudyArgs, VariantArgs, parse,
};
use super::{Status, gate, status};
use crate::analysis::Settings;
use crate::analysis::iterations::{Level, Results, Search, Steadiness, Steps};
use crate::model::{Case, Failure, Session};
use crate::plan::Plan;
use crate::process::{CpuSet, quote};
use crate::report::{self, IterationsOfFile, IterationsOutcome};
use anyhow::{Context, bail, ensure};
use clap::Args;
use indexmap::IndexMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Find how many iterations make benchmark files long and steady enough
///
/// Files that count their iterations by a parameter (n, in those of Node.js) are measured with larger and larger
/// numbers, until a sample of every case takes long enough, the coefficients of variation of a file's cases are small
/// enough in the mean, and none is twice as large. Every variant must be steady. With '-o FILE.set' the numbers are
/// written as lines that 'run --set @FILE.set' reads; nothing is stored.
///
/// Exit status 1 if no number is enough for a file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell iterations benchmarks/buffers/copy.js
  speedwell iterations benchmarks/buffers --cv 2% -o buffers.set
  speedwell run benchmarks/buffers --set @buffers.set")]
pub struct IterationsArgs {
    /// Files, folders, group names; and NAME=VALUE to set a parameter
    #[arg(index = 1, value_name = "TARGET|NAME=VALUE", required = true)]
    targets: Vec<String>,
    /// After '--': arguments for every measured program, before those of a variant's own
    #[arg(index = 2, last = true, value_name = "ARG")]
    arguments: Vec<String>,
    /// The parameter that counts the iterations
    #[arg(
        long,
        value_name = "NAME",
        default_value = "n",
        help_heading = "Search"
    )]
    parameter: String,
    /// The first number tried
    #[arg(long, value_name = "N", default_value = "10", value_parser = parse::count, help_heading = "Search")]
    start: u32,
    /// From one number to the next: 2 or more
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u64).range(2..), help_heading = "Search")]
    factor: u64,
    /// The largest number tried
    #[arg(long, value_name = "N", default_value = "1G", value_parser = parse::count, help_heading = "Search")]
    most: u32,
    /// Numbers that are measured for a file, once its samples are long enough, before the search gives up
    #[arg(long, value_name = "N", default_value = "6", value_parser = parse::count, help_heading = "Search")]
    tries: u32,
    /// Coefficient of variation below which a file is steady, in the mean over its cases; no case may have twice as much
    #[arg(long, value_name = "PCT", default_value = "5%", value_parser = parse::percent, help_heading = "Search")]
    cv: f64,
    /// How long a sample of every case has to take
    #[arg(short = 't', long, value_name = "DUR", default_value = "50ms", value_parser = parse::duration, help_heading = "Search")]
    time: Duration,
    /// Runs of every case and variant with each number, from which the variation is computed
    #[arg(short = 'r', long, value_name = "N", default_value = "10", value_parser = parse::count, help_heading = "Search")]
    runs: u32,
    /// Time limit of a run
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

/// A benchmark file with its search.
struct File {
    name: String,
    search: Search,
    /// Whether its samples are long enough.
    is_long: bool,
    failed: bool,
}

/// Searches, and reports what was found.
///
/// # Errors
/// Wrong words, unknown targets, no file with such a parameter, an output that cannot be written.
pub fn run(mut args: IterationsArgs) -> anyhow::Result<Status> {
    ensure!(
        args.runs > 1,
        "a variation needs 2 runs or more: --runs {}",
        args.runs
    );
    refuse_set(&args)?;
    let (lines, files) = std::mem::take(&mut args.output.output)
        .into_iter()
        .partition(|path| path.extension().is_some_and(|ending| ending == "set"));
    args.output.output = files;
    let targets: Vec<String> = args.targets.iter().map(|word| quote(word)).collect();
    let (parameter, steps) = (args.parameter.clone(), steps(&args));
    let enough = Steadiness {
        mean: args.cv,
        single: 2.0 * args.cv,
    };
    let least_ns = u64::try_from(args.time.as_nanos()).unwrap_or(u64::MAX);
    let mut rounds = Rounds {
        runs: args.runs,
        parameter,
        failures: Vec::new(),
        args: measuring(args),
    };
    let search = Search::new(enough, least_ns, steps);
    let mut files = rounds.files(&search)?;
    let ended = rounds.search(&mut files)?;
    let shown: Vec<IterationsOfFile> = files.iter().map(of_file).collect();
    let output = &rounds.args.output;
    let mut document = report::iterations(&shown, &rounds.parameter, &output.settings());
    document.append(report::failures(
        &rounds.failures,
        output.settings().verbosity,
    ));
    output.print(&document)?;
    for path in &lines {
        write_lines(path, &shown, &rounds.parameter)?;
        status::note(&format!("wrote '{}'", path.display()));
    }
    if !output.quiet
        && let Some(sets) = sets(&shown, &rounds.parameter, lines.first())
    {
        status::note(&format!("next: speedwell run {} {sets}", targets.join(" ")));
    }
    let all_found = files
        .iter()
        .all(|file| file.failed || file.search.found().is_some());
    let answer = if all_found { Status::DONE } else { Status::NO };
    Ok(ended.or(answer).or(gate::of_failures(&rounds.failures)))
}

/// The number that is searched for cannot be given.
fn refuse_set(args: &IterationsArgs) -> anyhow::Result<()> {
    let mut typed = args.selection.set.iter().chain(&args.targets);
    let is_parameter = |word: &&String| {
        word.split_once('=')
            .is_some_and(|(name, _)| name == args.parameter)
            && !Path::new(word).exists()
    };
    match typed.find(is_parameter) {
        Some(word) => bail!(
            "'{}' is what is searched for, and cannot be set: '{word}'\nhint: --start says where to begin",
            args.parameter
        ),
        None => Ok(()),
    }
}

fn steps(args: &IterationsArgs) -> Steps {
    Steps {
        start: args.start.into(),
        factor: args.factor,
        tries: args.tries,
        most: args.most.into(),
    }
}

/// The options of a round as those of `run`.
fn measuring(args: IterationsArgs) -> RunArgs {
    RunArgs {
        targets: args.targets,
        arguments: args.arguments,
        selection: args.selection,
        sampling: SamplingArgs {
            runs: Some(args.runs),
            precision: None,
            samples: None,
            time: None,
            iterations: None,
            warmup: None,
            timeout: args.timeout,
        },
        variants: args.variants,
        execution: ExecutionArgs {
            pin: args.pin,
            ..ExecutionArgs::default()
        },
        profile: false,
        comparison: ComparisonArgs::default(),
        study: StudyArgs::default(),
        output: args.output,
        store: StoreArgs {
            no_save: true,
            ..StoreArgs::default()
        },
        style: None,
        command: "iterations",
    }
}

/// What measures the files that are still searched.
struct Rounds {
    args: RunArgs,
    runs: u32,
    parameter: String,
    failures: Vec<Failure>,
}

impl Rounds {
    /// The files that have the parameter, each at the beginning of its search.
    fn files(&mut self, search: &Search) -> anyhow::Result<Vec<File>> {
        let plans = Plans::read(&self.args)?;
        ensure!(
            plans.plan.design.experiment.is_none(),
            "an experiment says itself how long its runs are\nhint: 'plan' in its definition file"
        );
        let mut files: IndexMap<String, Vec<Case>> = IndexMap::new();
        for job in &plans.plan.jobs {
            let case = job.case.clone().or_else(|| job.label_as_case());
            files
                .entry(job.source.name.clone())
                .or_default()
                .extend(case);
        }
        let has = |cases: &[Case]| {
            // What a file does not tell beforehand, it may have.
            cases.is_empty()
                || cases
                    .iter()
                    .any(|case| case.value(&self.parameter).is_some())
        };
        let without = files.iter().filter(|(_, cases)| !has(cases));
        let without: Vec<String> = without
            .map(|(name, cases)| self.lacks(name, cases))
            .collect();
        files.retain(|_, cases| has(cases));
        if files.is_empty() && !without.is_empty() {
            bail!(
                "{}\nhint: --parameter names the one that counts iterations; where the harness counts them itself (C++, \
                 Python), 'run --time' says how long a sample is",
                without.join("; ")
            );
        }
        for sentence in without {
            status::warn(&format!("{sentence}; it is left out."));
        }
        for warning in &plans.suite.warnings {
            status::warn(warning);
        }
        if !self.args.output.quiet {
            status::warn_if_busy();
        }
        self.failures = plans.suite.failures;
        let file = |name| File {
            name,
            search: search.clone(),
            is_long: false,
            failed: false,
        };
        Ok(files.into_keys().map(file).collect())
    }

    fn lacks(&self, file: &str, cases: &[Case]) -> String {
        let names = cases.iter().flat_map(|case| &case.values);
        let mut names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let known = match names.is_empty() {
            true => "has no parameters".to_owned(),
            false => format!(
                "has no parameter '{}' but {}",
                self.parameter,
                names.join(", ")
            ),
        };
        format!("'{file}' {known}")
    }

    /// Round after round, until every search is over.
    fn search(&mut self, files: &mut [File]) -> anyhow::Result<Status> {
        loop {
            let is_open = |file: &&mut File| !file.failed && file.search.n().is_some();
            let mut open: Vec<&mut File> = files.iter_mut().filter(is_open).collect();
            // Runs that are too short need no others beside them.
            let some_short = open.iter().any(|file| !file.is_long);
            open.retain(|file| file.is_long != some_short);
            if open.is_empty() {
                return Ok(Status::DONE);
            }
            let runs = if some_short { 1 } else { self.runs };
            let (plan, session, ended) = self.round(&open, runs)?;
            if ended != Status::DONE {
                return Ok(ended);
            }
            let mut levels = levels(&plan, &session, &open, &self.parameter);
            for file in open {
                match levels.swap_remove(&file.name) {
                    None => file.failed = true,
                    Some(level) if some_short => match level.shortest_ns {
                        Some(shortest_ns) if !file.search.is_long(level.shortest_ns) => {
                            file.search.pass_over(shortest_ns);
                        }
                        _ => file.is_long = true,
                    },
                    Some(level) => {
                        file.search.observe(level);
                    }
                }
            }
        }
    }

    /// Measures the files, each with its own number.
    fn round(&mut self, open: &[&mut File], runs: u32) -> anyhow::Result<(Plan, Session, Status)> {
        self.args.sampling.runs = Some(runs);
        let own = |file: &&mut File| {
            let n = file.search.n().unwrap_or_default();
            (file.name.clone(), (self.parameter.clone(), n.to_string()))
        };
        let own: Vec<_> = open.iter().map(own).collect();
        if runs > 1 && !self.args.output.quiet {
            let tried = |(name, (parameter, n)): &(_, (_, _))| format!("{name} {parameter}={n}");
            let tried: Vec<String> = own.iter().map(tried).collect();
            status::note(&format!("measuring {}", tried.join(", ")));
        }
        let known = self.args.selection.of_benchmarks.clone();
        self.args.selection.of_benchmarks.extend(own);
        let plans = Plans::read(&self.args);
        self.args.selection.of_benchmarks = known;
        let mut plans = plans?;
        let is_open = |name: &str| open.iter().any(|file| file.name == name);
        plans.plan.jobs.retain(|job| is_open(&job.source.name));
        let broken = plans.suite.failures.clone();
        self.failures.extend(
            broken
                .into_iter()
                .filter(|failure| is_open(&failure.benchmark)),
        );
        plans.suite.failures.clear();
        let settings = Settings::default();
        let mut store = self.args.open_store()?;
        let plan = plans.plan.clone();
        let (session, ended) = carry_out(plans, &settings, &mut store, &self.args)?;
        self.failures.extend(session.failures.iter().cloned());
        Ok((plan, session, ended))
    }
}

/// What each file of `plan` gave, without those of which a run failed.
fn levels(
    plan: &Plan,
    session: &Session,
    open: &[&mut File],
    parameter: &str,
) -> IndexMap<String, Level> {
    let slots = plan.slots();
    let file = |slot: u32| {
        slots
            .get(slot as usize)
            .map(|slot| plan.jobs[slot.job].source.name.as_str())
    };
    let failed: Vec<&str> = session
        .failures
        .iter()
        .filter_map(|failure| file(failure.slot?))
        .collect();
    let mut files: IndexMap<String, IndexMap<String, Results>> = IndexMap::new();
    let metric = session.metrics.first().map(|metric| metric.name.as_str());
    for run in &session.runs {
        let Some(name) = file(run.slot).filter(|name| !failed.contains(name)) else {
            continue;
        };
        let samples = run
            .samples
            .iter()
            .filter(|sample| Some(&*sample.metric) == metric);
        let (mut sum, mut count) = (0.0, 0);
        let results = files.entry(name.to_owned()).or_default();
        let results = results
            .entry(series(&run.case, &run.variant, plan, parameter))
            .or_default();
        for sample in samples {
            (sum, count) = (sum + sample.value, count + 1);
            results.lengths_ns.extend(sample.elapsed_ns);
        }
        if count > 0 {
            results.rates.push(sum / f64::from(count));
        }
    }
    let level = |(name, cases): (String, IndexMap<String, Results>)| {
        let n = open.iter().find(|file| file.name == name)?.search.n()?;
        Some((name, Level::of(n, cases)))
    };
    files.into_iter().filter_map(level).collect()
}

/// A case without the number that is searched, with its variant if there are several.
fn series(case: &Case, variant: &str, plan: &Plan, parameter: &str) -> String {
    let mut case = case.clone();
    case.values.retain(|(name, _)| name != parameter);
    match plan.variants.len() {
        1 => case.id(),
        _ => format!("{} [{variant}]", case.id()),
    }
}

fn of_file(file: &File) -> IterationsOfFile {
    let found = file.search.found();
    IterationsOfFile {
        file: file.name.clone(),
        outcome: match found {
            _ if file.failed => IterationsOutcome::Failed,
            Some(_) => IterationsOutcome::Steady,
            None if file.search.best().is_none() => IterationsOutcome::TooShort,
            None => IterationsOutcome::Unsteady,
        },
        level: found.or(file.search.best()).cloned(),
    }
}

/// The file for 'run --set @FILE': what was enough, and what was best as a remark.
fn write_lines(path: &Path, files: &[IterationsOfFile], parameter: &str) -> anyhow::Result<()> {
    let mut text = String::new();
    for of in files {
        let line = of
            .level
            .as_ref()
            .map(|level| format!("{} {parameter}={}", of.file, level.n));
        text += &match (line, of.outcome) {
            (Some(line), IterationsOutcome::Steady) => format!("{line}\n"),
            (Some(line), outcome) => format!("# {}: {line}\n", outcome.words()),
            (None, outcome) => format!("# {}: {}\n", outcome.words(), of.file),
        };
    }
    std::fs::write(path, text).with_context(|| format!("cannot write '{}'", path.display()))
}

/// What gives the numbers to the next run.
fn sets(files: &[IterationsOfFile], parameter: &str, written: Option<&PathBuf>) -> Option<String> {
    let steady = files
        .iter()
        .filter(|of| of.outcome == IterationsOutcome::Steady);
    let mut numbers: Vec<u64> = steady.filter_map(|of| Some(of.level.as_ref()?.n)).collect();
    numbers.dedup();
    match (written, numbers.as_slice()) {
        (_, []) => None,
        (Some(path), _) => Some(format!("--set @{}", quote(&path.to_string_lossy()))),
        (None, [n]) if files.len() == 1 => Some(format!("--set {parameter}={n}")),
        (None, _) => Some("--set @FILE.set, which -o FILE.set writes".to_owned()),
    }
}
