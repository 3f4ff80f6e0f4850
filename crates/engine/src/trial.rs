//! Tries every case once to see whether it works.

use super::{EventListener, PreparedPlan};
use crate::execution::{self as runner, SessionEnd};
use speedwell_model::{SessionEvent, SessionObserver, StepFailure};
use std::collections::BTreeMap;
use std::iter::repeat_n;

/// Result of a trial.
#[derive(Debug)]
pub struct TrialResult {
    /// Numbers of runs that passed and of failures, by file name.
    pub files: BTreeMap<String, (usize, usize)>,
    /// Failures to list the cases of a file, followed by failures of runs in the order of their
    /// slots.
    pub failures: Vec<StepFailure>,
    /// Lifetime of the process of each slot; `None` if the process gave no results.
    pub lived_ns: Vec<Option<u64>>,
    /// How the trial ended.
    pub ended: SessionEnd,
    file_of_slot: Vec<String>,
}

/// Executes each case once under the first variant. The cases of an experiment are executed once
/// under every variant.
///
/// # Errors
/// Fails if the listener fails.
pub fn try_cases(
    plans: &PreparedPlan,
    fail_fast: bool,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<TrialResult> {
    let mut result = TrialResult::new(plans);
    for failure in &plans.suite.failures {
        result.add_failure(failure);
    }
    let processors = std::thread::available_parallelism().map_or(1, |processors| processors.get());
    result.ended =
        runner::try_all(&plans.plan, processors, fail_fast, &mut [&mut result, listener])?;
    // Several cases are tried at a time, so the failures arrive in the order in which the runs end.
    result.failures.sort_by_key(|failure| failure.slot);
    for job in &plans.plan.jobs {
        result.files.entry(job.source.name.clone()).or_default();
    }
    Ok(result)
}

impl TrialResult {
    fn new(plans: &PreparedPlan) -> TrialResult {
        // An experiment is tried under all its variants (`execution::try_all`).
        let times = match plans.plan.design.experiment {
            Some(_) => plans.plan.variants.len(),
            None => 1,
        };
        let jobs = plans.plan.jobs.iter();
        let files: Vec<String> =
            jobs.flat_map(|job| repeat_n(job.source.name.clone(), times)).collect();
        TrialResult {
            files: BTreeMap::new(),
            failures: Vec::new(),
            lived_ns: vec![None; files.len()],
            ended: SessionEnd::Complete,
            file_of_slot: files,
        }
    }

    fn add_failure(&mut self, failure: &StepFailure) {
        self.files.entry(failure.benchmark.clone()).or_default().1 += 1;
        self.failures.push(failure.clone());
    }
}

impl SessionObserver for TrialResult {
    fn observe(&mut self, event: &SessionEvent<'_>) -> anyhow::Result<()> {
        match event {
            SessionEvent::RunFinished(run) => {
                if let Some(lived_ns) = self.lived_ns.get_mut(run.slot as usize) {
                    *lived_ns = Some(run.wall_ns);
                }
                // A file may contain several benchmarks, so the name of a benchmark does not
                // identify its file.
                let file =
                    self.file_of_slot.get(run.slot as usize).unwrap_or(&run.case.benchmark).clone();
                self.files.entry(file).or_default().0 += 1;
            }
            SessionEvent::Failed(failure) => self.add_failure(failure),
            _ => {}
        }
        Ok(())
    }
}
