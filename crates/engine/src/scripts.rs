//! Measures benchmark scripts in the same way as the benchmark drivers of Node.js: measures one
//! file after the other and reports every result immediately.
//!
//! This module decides how a [`ScriptsRequest`] becomes plans. It does not print results. Start at
//! [`execute_scripts`].

use super::{ExecutionArgs, PlanRequest, SamplingRequest};
use crate::execution::{self as runner, ExecuteOptions, NeverSettled, SessionEnd};
use anyhow::{Context, Result};
use speedwell_adapters::discover::{self, BenchmarkSelection, DiscoveredBenchmarks};
use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::{
    BenchmarkDescription, BenchmarkSource, DefaultLoadTool, KnownAdapters, TrialMode,
};
use speedwell_machine::process;
use speedwell_model::{OrderRequest, RunOrder, SessionEvent, SessionObserver, Variant};
use std::path::PathBuf;
use std::time::Duration;

/// Time limit of one run. The drivers of Node.js have no limit and wait forever for a run that
/// hangs.
const RUN_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A benchmark script with the name that a driver uses for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BenchmarkScript {
    /// `group/name.js`, or `group/name` for a directory with an `index.js`.
    pub name: String,
    /// Path of the file or directory.
    pub path: PathBuf,
}

/// Options for measuring scripts.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptsRequest {
    /// The folder with the groups and `common.js`; `None` for a script outside such a folder.
    pub folder: Option<PathBuf>,
    /// The scripts in order. A script listed twice is measured twice.
    pub scripts: Vec<BenchmarkScript>,
    /// `--set`: parameters and their values as strings, in the order given. A repeated name has
    /// several values.
    pub sets: Vec<(String, String)>,
    /// Runs of each case under each variant.
    pub runs: u32,
    /// `old` and `new`, or a single variant without a program, which stands for `node` from `PATH`.
    pub variants: Vec<Variant>,
    /// Whether to execute scripts with `--test`, in addition to `sets`.
    pub test: bool,
    /// Processors for the measured processes, in the form `0,2-4`.
    pub processors: Option<String>,
}

/// Measures everything in `request`. Before the first run, `observer` gets an event for every
/// planned script, in order. If a case fails, `observer` gets an event, and the other cases are
/// measured nevertheless.
///
/// The benchmark of a [`Run`](speedwell_model::Run) is the name that the script reported; the label of
/// [`SessionEvent::RunStarted`] begins with the name of the [`BenchmarkScript`].
///
/// # Errors
/// Fails if measuring as a whole is impossible, or the observer fails.
pub fn execute_scripts(request: &ScriptsRequest, observer: &mut dyn SessionObserver) -> Result<()> {
    process::adopt_orphans();
    process::install_handlers()?;
    let read = request.scripts.iter().map(|script| script_source(script, request));
    let sources: Vec<BenchmarkSource> = read.collect::<Result<_, _>>()?;
    let selection = BenchmarkSelection {
        sets: request.sets.clone(),
        trial: if request.test { TrialMode::Own } else { TrialMode::No },
        usual_tool: DefaultLoadTool::AsNodeCore,
        ..BenchmarkSelection::default()
    };
    let described = discover::describe_sources(&sources, &selection, &request.variants[0], &|_| ());
    for (script, description) in request.scripts.iter().zip(&described) {
        let cases = description.jobs.len();
        observer.observe(&SessionEvent::Planned {
            benchmark: &script.name,
            cases: description.failure.is_none().then_some(cases),
        })?;
    }
    let plans: Vec<(BenchmarkDescription, SessionPlan)> = described
        .into_iter()
        .map(|description| plan_script(&description, request).map(|plan| (description, plan)))
        .collect::<Result<_>>()?;
    // Like the drivers of Node.js, execute one file after the other. Within a file, the runs of
    // several variants are shuffled.
    let runs = plans.iter().map(|(_, plan)| plan.slots().len()).sum();
    let cases = plans.iter().map(|(_, plan)| plan.jobs.len()).sum();
    observer.observe(&SessionEvent::Started { runs, is_upper_bound: false, cases, done: 0 })?;
    let mut session_end = SessionEnd::Complete;
    for (description, plan) in &plans {
        if let Some(failure) = &description.failure {
            observer.observe(&SessionEvent::Failed(failure))?;
        }
        let mut inner = InnerEvents(observer);
        // Like the drivers of Node.js, execute every requested run.
        session_end =
            runner::execute(plan, ExecuteOptions::default(), &mut NeverSettled, &mut [&mut inner])?;
        if session_end != SessionEnd::Complete {
            break;
        }
    }
    observer
        .observe(&SessionEvent::Finished { interrupted: session_end == SessionEnd::Interrupted })
}

fn script_source(script: &BenchmarkScript, request: &ScriptsRequest) -> Result<BenchmarkSource> {
    if let Some(folder) = &request.folder {
        let file =
            if script.path.is_dir() { script.path.join("index.js") } else { script.path.clone() };
        return Ok(discover::core_source(&script.path, file, folder));
    }
    let directory = std::env::current_dir()?;
    let sources = discover::find_sources(
        &script.path.to_string_lossy(),
        &directory,
        &KnownAdapters::default(),
    )?;
    let source = sources.into_iter().next().context("the script contains no benchmark")?;
    Ok(BenchmarkSource { name: script.name.clone(), ..source })
}

fn plan_script(
    description: &BenchmarkDescription,
    request: &ScriptsRequest,
) -> Result<SessionPlan> {
    let order = match request.variants.len() {
        1 => RunOrder::Alternate,
        _ => RunOrder::Blocks,
    };
    let plan_request = PlanRequest {
        sampling: SamplingRequest {
            runs: Some(request.runs),
            timeout: Some(RUN_TIMEOUT),
            ..SamplingRequest::default()
        },
        execution: ExecutionArgs {
            order: Some(OrderRequest::Fixed(order)),
            pin: request.processors.as_deref().map(str::parse).transpose()?,
            ..ExecutionArgs::default()
        },
        ..PlanRequest::default()
    };
    let suite =
        DiscoveredBenchmarks { jobs: description.jobs.clone(), ..DiscoveredBenchmarks::default() };
    Ok(plan_request.build_plan(request.variants.clone(), &suite))
}

/// Forwards the events of one file, except its start and its end: [`execute_scripts`] reports one
/// start and one end for all files.
struct InnerEvents<'a>(&'a mut dyn SessionObserver);

impl SessionObserver for InnerEvents<'_> {
    fn observe(&mut self, event: &SessionEvent<'_>) -> Result<()> {
        match event {
            SessionEvent::Started { .. } | SessionEvent::Finished { .. } => Ok(()),
            other => self.0.observe(other),
        }
    }
}
