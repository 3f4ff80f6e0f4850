//! `--list` and `--test`: what would be measured, and does it work at all?

use super::measure::{Plans, warn_of_reach};
use super::options::RunArgs;
use super::progress::Progress;
use super::{Status, experiment, status};
use crate::harness::Job;
use crate::model::{Case, Event, Failure, Observer};
use crate::report::{self, CaseLine, Trial};
use crate::runner::{self, Ended};
use std::collections::BTreeMap;
use std::iter::repeat_n;

/// Prints every case.
///
/// # Errors
/// The output cannot be written.
pub fn list(plans: &Plans, args: &RunArgs) -> anyhow::Result<Status> {
    let runs = u64::from(plans.plan.runs_per_variant()) * plans.plan.variants.len() as u64;
    let line = |job: &Job| CaseLine {
        case: job
            .case
            .clone()
            .or_else(|| job.label_as_case())
            .unwrap_or_else(|| {
                // A label that is no id is the name of a file whose cases only it knows.
                Case::new(&job.label, Vec::new())
            }),
        runs,
    };
    let cases: Vec<CaseLine> = plans.plan.jobs.iter().map(line).collect();
    args.output.print(&report::cases(&cases))?;
    let settings = args.comparison.settings(&args.selection.metric.names, None);
    warn_of_reach(&plans.plan, &settings);
    if let Some(sentence) = experiment::estimate::of_loads(&plans.plan)?
        && !args.output.quiet
    {
        status::note(&sentence);
    }
    Ok(tell_broken(plans))
}

/// Executes each case once under the first variant and says what fails.
///
/// # Errors
/// The output cannot be written.
pub fn test(plans: &Plans, args: &RunArgs) -> anyhow::Result<Status> {
    plans
        .suite
        .warnings
        .iter()
        .for_each(|warning| status::warn(warning));
    let mut tried = Tried::new(plans);
    for failure in &plans.suite.failures {
        tried.fail(failure);
    }
    let mut progress = Progress::new(args.output.progress());
    let fail_fast = args.execution.fail_fast;
    let ended = runner::try_all(&plans.plan, fail_fast, &mut [&mut tried, &mut progress])?;
    drop(progress);
    if ended == Ended::Complete
        && let Some(sentence) = experiment::estimate::told(&plans.plan, &tried.lived_ns)?
    {
        status::note(&sentence);
    }
    for job in &plans.plan.jobs {
        tried.files.entry(job.source.name.clone()).or_default();
    }
    let trial = Trial {
        files: tried.files.len(),
        working_files: tried
            .files
            .values()
            .filter(|f| f.passed > 0 && f.failed == 0)
            .count(),
        cases: tried.files.values().map(|f| f.passed).sum(),
        failures: tried.failures,
        is_experiment: plans.plan.design.experiment.is_some(),
    };
    args.output
        .print(&report::trial(&trial, &args.output.settings()))?;
    let failed = trial
        .failures
        .iter()
        .any(|failure| !failure.cause.is_skip());
    let status = if failed {
        Status::COULD_NOT
    } else {
        Status::DONE
    };
    Ok(if ended == Ended::Interrupted {
        Status::INTERRUPTED
    } else {
        status
    })
}

fn tell_broken(plans: &Plans) -> Status {
    plans
        .suite
        .warnings
        .iter()
        .for_each(|warning| status::warn(warning));
    for failure in &plans.suite.failures {
        status::warn(&format!("'{}' {}", failure.benchmark, failure.cause));
    }
    if plans.suite.broken().next().is_some() {
        Status::COULD_NOT
    } else {
        Status::DONE
    }
}

/// What a trial saw.
#[derive(Default)]
struct Tried {
    file_of_slot: Vec<String>,
    /// How long the process of each slot lived.
    lived_ns: Vec<Option<u64>>,
    files: BTreeMap<String, Counts>,
    failures: Vec<Failure>,
}

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
}

impl Tried {
    fn new(plans: &Plans) -> Tried {
        // An experiment is tried under all its variants (`runner::try_all`).
        let times = match plans.plan.design.experiment {
            Some(_) => plans.plan.variants.len(),
            None => 1,
        };
        let jobs = plans.plan.jobs.iter();
        let files: Vec<String> = jobs
            .flat_map(|job| repeat_n(job.source.name.clone(), times))
            .collect();
        Tried {
            lived_ns: vec![None; files.len()],
            file_of_slot: files,
            ..Tried::default()
        }
    }

    fn fail(&mut self, failure: &Failure) {
        self.files
            .entry(failure.benchmark.clone())
            .or_default()
            .failed += 1;
        self.failures.push(failure.clone());
    }
}

impl Observer for Tried {
    fn observe(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        match event {
            Event::RunFinished(run) => {
                if let Some(lived_ns) = self.lived_ns.get_mut(run.slot as usize) {
                    *lived_ns = Some(run.wall_ns);
                }
                // A file may hold several benchmarks, so their names do not tell it.
                let file = self.file_of_slot.get(run.slot as usize);
                self.files
                    .entry(file.unwrap_or(&run.case.benchmark).clone())
                    .or_default()
                    .passed += 1;
            }
            Event::Failed(failure) => self.fail(failure),
            _ => {}
        }
        Ok(())
    }
}
