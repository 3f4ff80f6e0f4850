//! Measures benchmark scripts like the drivers that come with Node.js: file after file, reporting
//! as it goes.
//!
//! Decides how a request becomes plans. Does not know how results are printed. Start at
//! [`execute_scripts`].

use super::{PlanRequest, SamplingRequest};
use anyhow::Context;
use speedwell_harness::discover::{self, Selection, Suite};
use speedwell_harness::plan::Plan;
use speedwell_harness::{Description, Known, Source, Trial, UsualTool};
use speedwell_model::{Event, Observer, Order, Run, Variant};
use speedwell_process as process;
use speedwell_runner::{self as runner, Ended, Judge, Orders};
use std::path::PathBuf;
use std::time::Duration;

/// Time limit of one run; the original drivers have none and hang.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A benchmark script as named by a driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// `group/name.js`, or `group/name` for a directory with an `index.js`.
    pub name: String,
    /// Path of the file or directory.
    pub path: PathBuf,
}

/// Options for measuring scripts.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptsRequest {
    /// The folder with the groups and `common.js`; `None` for a script outside of one.
    pub folder: Option<PathBuf>,
    /// The scripts in order. A script listed twice is measured twice.
    pub scripts: Vec<Script>,
    /// `--set`: parameters and texts, in the order given. A repeated name has several values.
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
/// planned script, in order. A case that fails is an event; the others continue.
///
/// The benchmark of a [`Run`] is the name that the script reported; the label of
/// [`Event::RunStarted`] begins with the name of the [`Script`].
///
/// # Errors
/// Fails if measuring as a whole is impossible, or the observer fails.
pub fn execute_scripts(
    request: &ScriptsRequest,
    observer: &mut dyn Observer,
) -> anyhow::Result<()> {
    process::adopt_orphans();
    process::on_interrupt()?;
    let sources: Vec<Source> = request
        .scripts
        .iter()
        .map(|script| source(script, request))
        .collect::<Result<_, _>>()?;
    let selection = Selection {
        sets: request.sets.clone(),
        trial: if request.test { Trial::Own } else { Trial::No },
        usual_tool: UsualTool::AsNodeCore,
        ..Selection::default()
    };
    let described = discover::describe(&sources, &selection, &request.variants[0], &|_| ());
    for (script, description) in request.scripts.iter().zip(&described) {
        let cases = description.jobs.len();
        observer.observe(&Event::Planned {
            benchmark: &script.name,
            cases: description.failure.is_none().then_some(cases),
        })?;
    }
    let plans: Vec<(Description, Plan)> = described
        .into_iter()
        .map(|description| plan(&description, request).map(|plan| (description, plan)))
        .collect::<anyhow::Result<_>>()?;
    follow(&plans, observer)
}

/// Executes file after file, like the original drivers; within a file, the runs of several variants
/// are shuffled.
fn follow(plans: &[(Description, Plan)], observer: &mut dyn Observer) -> anyhow::Result<()> {
    let runs = plans.iter().map(|(_, plan)| plan.slots().len()).sum();
    let cases = plans.iter().map(|(_, plan)| plan.jobs.len()).sum();
    observer.observe(&Event::Started {
        runs,
        is_upper_bound: false,
        cases,
        done: 0,
    })?;
    let mut ended = Ended::Complete;
    for (description, plan) in plans {
        if let Some(failure) = &description.failure {
            observer.observe(&Event::Failed(failure))?;
        }
        let mut inner = Inner(observer);
        ended = runner::execute(plan, Orders::default(), &mut Never, &mut [&mut inner])?;
        if ended != Ended::Complete {
            break;
        }
    }
    observer.observe(&Event::Finished {
        interrupted: ended == Ended::Interrupted,
    })
}

fn source(script: &Script, request: &ScriptsRequest) -> anyhow::Result<Source> {
    if let Some(folder) = &request.folder {
        let file = if script.path.is_dir() {
            script.path.join("index.js")
        } else {
            script.path.clone()
        };
        return Ok(discover::core_source(&script.path, file, folder));
    }
    let here = std::env::current_dir()?;
    let found = discover::sources(&script.path.to_string_lossy(), &here, &Known::default())?;
    let source = found.into_iter().next().context("no benchmark in it")?;
    Ok(Source {
        name: script.name.clone(),
        ..source
    })
}

fn plan(description: &Description, request: &ScriptsRequest) -> anyhow::Result<Plan> {
    let compares = request.variants.len() > 1;
    let planned = PlanRequest {
        sampling: SamplingRequest {
            runs: Some(request.runs),
            timeout: Some(TIMEOUT),
            ..SamplingRequest::default()
        },
        order: if compares {
            Order::Blocks
        } else {
            Order::Alternate
        },
        pin: request.processors.as_deref().map(str::parse).transpose()?,
        ..PlanRequest::default()
    };
    let suite = Suite {
        jobs: description.jobs.clone(),
        ..Suite::default()
    };
    Ok(planned.plan(request.variants.clone(), &suite))
}

/// Forwards the events of one file; start and end belong to the whole request.
struct Inner<'a>(&'a mut dyn Observer);

impl Observer for Inner<'_> {
    fn observe(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        match event {
            Event::Started { .. } | Event::Finished { .. } => Ok(()),
            other => self.0.observe(other),
        }
    }
}

/// Never stops early: the original drivers measure everything requested.
struct Never;

impl Judge for Never {
    fn decided(&mut self, cases: &[&[Run]]) -> Vec<bool> {
        vec![false; cases.len()]
    }
}
