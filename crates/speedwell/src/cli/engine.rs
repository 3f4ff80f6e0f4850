//! The measuring half of the drop-ins: their requests, executed by our runner.

use crate::compat::{Engine, Follower, PlannedScript, Request, Script, Tool};
use crate::define::{self, Selection};
use crate::harness::{Description, Source, Trial, UsualTool};
use crate::model::{Design, Event, Observer, Order, Run, Runs, Samples, Sampling, Stopping};
use crate::plan::Plan;
use crate::process::{self, CpuSet};
use crate::runner::{self, Ended, Judge, Orders};
use anyhow::Context;

/// Time limit of one run: the originals have none and hang.
const TIMEOUT_MS: u64 = 10 * 60 * 1000;

/// Measures for drop-ins.
pub struct Measuring;

impl Engine for Measuring {
    fn execute(&mut self, request: &Request, follower: &mut dyn Follower) -> anyhow::Result<()> {
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
        let described = define::describe(&sources, &selection, &request.variants[0], &|_, _| ());
        follower.planned(&planned(&request.scripts, &described))?;
        let plans: Vec<(Description, Plan)> = described
            .into_iter()
            .map(|description| plan(&description, request).map(|plan| (description, plan)))
            .collect::<anyhow::Result<_>>()?;
        follow(&plans, follower)
    }
}

/// Executes file after file, as the originals do; within a file, compare.js's runs are randomised.
fn follow(plans: &[(Description, Plan)], follower: &mut dyn Follower) -> anyhow::Result<()> {
    let runs = plans.iter().map(|(_, plan)| plan.slots().len()).sum();
    let cases = plans.iter().map(|(_, plan)| plan.jobs.len()).sum();
    follower.observe(&Event::Started {
        runs,
        cases,
        done: 0,
    })?;
    let mut ended = Ended::Complete;
    for (description, plan) in plans {
        if let Some(failure) = &description.failure {
            follower.observe(&Event::Failed(failure))?;
        }
        let mut inner = Inner(follower);
        ended = runner::execute(plan, Orders::default(), &mut Never, &mut [&mut inner])?;
        if ended != Ended::Complete {
            break;
        }
    }
    follower.observe(&Event::Finished {
        interrupted: ended == Ended::Interrupted,
    })
}

fn source(script: &Script, request: &Request) -> anyhow::Result<Source> {
    if let Some(folder) = &request.folder {
        let file = match script.path.is_dir() {
            true => script.path.join("index.js"),
            false => script.path.clone(),
        };
        return Ok(define::core_source(&script.path, file, folder));
    }
    let here = std::env::current_dir()?;
    let found = define::sources(&script.path.to_string_lossy(), &here)?;
    let source = found.into_iter().next().context("no benchmark in it")?;
    Ok(Source {
        name: script.name.clone(),
        ..source
    })
}

fn planned(scripts: &[Script], described: &[Description]) -> Vec<PlannedScript> {
    let pairs = scripts.iter().zip(described);
    let planned = pairs.map(|(script, description)| PlannedScript {
        name: script.name.clone(),
        cases: description
            .failure
            .is_none()
            .then_some(description.jobs.len()),
    });
    planned.collect()
}

fn plan(description: &Description, request: &Request) -> anyhow::Result<Plan> {
    let compares = request.tool == Tool::Compare;
    let pin = request
        .processors
        .as_deref()
        .map(str::parse::<CpuSet>)
        .transpose()?;
    Ok(Plan {
        jobs: description.jobs.clone(),
        variants: request.variants.clone(),
        design: Design {
            order: if compares {
                Order::Blocks
            } else {
                Order::Alternate
            },
            stopping: Stopping::Fixed { runs: request.runs },
            baseline: request.variants[0].name.clone(),
            seed: super::measure::draw_seed(),
            runs_per_block: if compares { 2 } else { 1 },
            threshold: None,
            experiment: None,
            definitions: Vec::new(),
        },
        sampling: Sampling {
            runs: Runs::Fixed(request.runs),
            precision: None,
            timeout_ms: TIMEOUT_MS,
            budget_ms: None,
            samples: Samples::default(),
        },
        pin,
        shared: false,
        is_search: false,
    })
}

/// Hands on the events of one file; beginning and end belong to the whole request.
struct Inner<'a>(&'a mut dyn Follower);

impl Observer for Inner<'_> {
    fn observe(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        match event {
            Event::Started { .. } | Event::Finished { .. } => Ok(()),
            other => self.0.observe(other),
        }
    }
}

/// The originals measure everything they were asked for.
struct Never;

impl Judge for Never {
    fn decided(&mut self, cases: &[&[Run]]) -> Vec<bool> {
        vec![false; cases.len()]
    }
}
