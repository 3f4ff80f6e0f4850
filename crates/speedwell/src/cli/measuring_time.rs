//! How long the runs of a plan measure, as far as the options and files say it before anything was executed.
//!
//! Decides for which benchmarks that is known. Starting programs and servers comes on top, and only trying tells how
//! long it takes (`experiment/estimate.rs`). Start at [`of`].

use crate::definition;
use crate::harness::{self, Job, Kind};
use crate::model::{Length, Samples, parse_duration};
use crate::plan::Plan;
use std::time::Duration;

/// The length of a load of which nothing is said, as for `speedwell load`.
const LOAD: Duration = Duration::from_secs(10);

/// The time that all runs measure; `None` where benchmarks decide it themselves.
pub fn of(plan: &Plan) -> Option<Duration> {
    let runs = plan.runs_per_variant() * plan.variants.len() as u32;
    let each: Option<Vec<Duration>> = plan
        .jobs
        .iter()
        .map(|job| of_run(job, &plan.sampling.samples))
        .collect();
    let all: Duration = each?.into_iter().sum::<Duration>() * runs;
    (!all.is_zero()).then_some(all)
}

fn of_run(job: &Job, samples: &Samples) -> Option<Duration> {
    match job.source.kind {
        Kind::Load => of_load(job),
        // The library decides how long it measures, unless it is told.
        Kind::GoogleBenchmark => None,
        kind if harness::of(kind).divides_runs() => match samples.length {
            Length::TimeNs(ns) => Some(Duration::from_nanos(
                ns * u64::from(samples.count) + samples.warmup_ns,
            )),
            Length::Iterations(_) => None,
        },
        _ => None,
    }
}

/// A load of a definition file.
fn of_load(job: &Job) -> Option<Duration> {
    let definition = definition::of(job.source.definition().ok()?).ok()?;
    let name = &job.case.as_ref()?.benchmark;
    let load = definition.loads.iter().find(|load| load.name == *name)?;
    let word = |option: &str| load.words.iter().find_map(|word| word.strip_prefix(option));
    let time = match (word("--time="), word("--count=")) {
        (Some(time), _) => parse_duration(time)?,
        (None, Some(_)) => return None,
        (None, None) => LOAD,
    };
    let warmup = word("--warmup=").and_then(parse_duration);
    Some(time + warmup.unwrap_or_default())
}
