//! Runs cases only to see whether they work: all cases once, possibly several at a time
//! ([`try_cases`]), or one case as briefly as possible ([`rehearse_job`]).

use crate::execution::{SessionEnd, perform_slot, prefer_processor_time, run_context};
use crate::{EventListener, PreparedPlan};
use anyhow::Result;
use speedwell_adapters::plan::{PlanSlot, SessionPlan};
use speedwell_adapters::{RunContext, RunOutcome};
use speedwell_machine::process::{ActivityGuard, begin_activity, is_interrupt_requested};
use speedwell_model::{
    ComparedClock, FailureCause, Run, SampleDivision, SampleLength, SessionEvent, SessionObserver,
    StepFailure,
};
use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// Smallest measurement for a harness that divides runs into samples.
const SHORTEST: SampleDivision =
    SampleDivision { count: 1, length: SampleLength::Iterations(1), warmup_ns: 0 };

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
) -> Result<TrialResult> {
    let mut result = TrialResult::new(plans);
    plans.suite.failures.iter().for_each(|failure| result.add_failure(failure));
    let processors = std::thread::available_parallelism().map_or(1, |processors| processors.get());
    result.ended = try_all(&plans.plan, processors, fail_fast, &mut [&mut result, listener])?;
    // Several cases are tried at a time, so the failures arrive in the order in which the runs end.
    result.failures.sort_by_key(|failure| failure.slot);
    for job in &plans.plan.jobs {
        result.files.entry(job.source.name.clone()).or_default();
    }
    Ok(result)
}

impl TrialResult {
    fn new(plans: &PreparedPlan) -> TrialResult {
        let times = count_tried_variants(&plans.plan);
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
    fn observe(&mut self, event: &SessionEvent<'_>) -> Result<()> {
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

/// Report of a worker thread: the slot, and its outcome once it has ended.
type TrialEvent = (usize, Option<Box<RunOutcome>>);

/// Executes each job of `plan` once under the first variant or, in an experiment, under every
/// variant. Nothing is measured, so up to `max_threads` jobs run at a time.
///
/// # Errors
/// Fails if an observer failed. Failures of tried programs are events, not errors.
fn try_all(
    plan: &SessionPlan,
    max_threads: usize,
    fail_fast: bool,
    observers: &mut [&mut dyn SessionObserver],
) -> Result<SessionEnd> {
    let mut emit = |event: &SessionEvent<'_>| {
        observers.iter_mut().try_for_each(|observer| observer.observe(event))
    };
    let (next_slot, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let variants = count_tried_variants(plan);
    let count = plan.jobs.len() * variants;
    emit(&SessionEvent::Started { runs: count, is_upper_bound: false, cases: count, done: 0 })?;
    let mut session_end = SessionEnd::Complete;
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..max_threads.min(count) {
            let sender = sender.clone();
            scope.spawn(|| run_worker(plan, &next_slot, &stop, sender));
        }
        drop(sender);
        for event in receiver {
            let failed = emit_trial_event(plan, event, &mut emit)?;
            if failed && fail_fast {
                stop.store(true, Ordering::Relaxed);
                session_end = SessionEnd::Failed;
            }
        }
        anyhow::Ok(())
    })?;
    if is_interrupt_requested() {
        session_end = SessionEnd::Interrupted;
    }
    emit(&SessionEvent::Finished { interrupted: session_end != SessionEnd::Complete })?;
    Ok(session_end)
}

/// Returns the number of variants to try. All variants of an experiment are tried, because they
/// differ in more than the program, and so are benchmarks and values that are compared. Otherwise,
/// only the first variant is tried.
fn count_tried_variants(plan: &SessionPlan) -> usize {
    match plan.design.experiment {
        None if plan.jobs.iter().all(|job| job.sides.is_empty()) => 1,
        _ => plan.variants.len(),
    }
}

/// Executes one job after the other until no job is left or `stop` is set.
fn run_worker(
    plan: &SessionPlan,
    next_slot: &AtomicUsize,
    stop: &AtomicBool,
    sender: mpsc::Sender<TrialEvent>,
) {
    let variants = count_tried_variants(plan);
    while !stop.load(Ordering::Relaxed) && !is_interrupt_requested() {
        let slot = next_slot.fetch_add(1, Ordering::Relaxed);
        let Some(job) = plan.jobs.get(slot / variants) else { return };
        let variant = &plan.variants[slot % variants];
        let own_job = job.for_variant(&variant.name);
        let context = RunContext { job: own_job, ..plan.run_context(job, variant, slot as u32) };
        // Sending fails only if the receiver has stopped.
        if sender.send((slot, None)).is_err() {
            return;
        }
        let outcome = try_job(&context).attributed_to(job);
        if sender.send((slot, Some(Box::new(outcome)))).is_err() {
            return;
        }
    }
}

/// Performs a job with the small parameter values of a trial. If that fails, performs it again with
/// the regular values. Speedwell chose the small values itself, so a conflict between them and
/// another parameter is not an error in the benchmark file.
fn try_job(context: &RunContext<'_>) -> RunOutcome {
    let attempt = context.perform();
    let has_failed = |failure: &StepFailure| !failure.cause.is_skip();
    match &context.job.measured {
        Some(job)
            if attempt.failure.as_ref().is_some_and(has_failed) && !is_interrupt_requested() =>
        {
            RunContext { job, ..context.clone() }.perform()
        }
        _ => attempt,
    }
}

/// Turns a worker's report into events. Returns whether a job failed; a skip does not count as a
/// failure.
fn emit_trial_event(
    plan: &SessionPlan,
    (slot, outcome): TrialEvent,
    emit: &mut dyn FnMut(&SessionEvent<'_>) -> Result<()>,
) -> Result<bool> {
    let variants = count_tried_variants(plan);
    let variant = &plan.variants[slot % variants].name;
    let Some(attempt) = outcome.map(|outcome| *outcome) else {
        let label = &plan.jobs[slot / variants].label;
        emit(&SessionEvent::RunStarted { slot: slot as u32, label, variant })?;
        return Ok(false);
    };
    if attempt.interrupted {
        return Ok(false);
    }
    // An experiment that failed at a stage still reports its earlier observations. These
    // are not a complete run.
    let failed_at_stage =
        |failure: &StepFailure| matches!(failure.cause, FailureCause::Stage { .. });
    let works = !attempt.failure.as_ref().is_some_and(failed_at_stage);
    for result in attempt.observations.into_iter().filter(|_| works) {
        emit(&SessionEvent::RunFinished(&Run {
            started_unix_ms: attempt.started_unix_ms,
            wall_ns: attempt.wall_ns,
            usage: attempt.usage,
            samples: result.samples,
            notes: result.notes,
            ..Run::empty(result.case, variant.as_str(), slot as u32, 0)
        }))?;
    }
    if let Some(failure) = &attempt.failure {
        emit(&SessionEvent::Failed(failure))?;
    }
    emit(&SessionEvent::SlotsDone(&[slot as u32]))?;
    Ok(attempt.failure.is_some_and(|failure| !failure.cause.is_skip()))
}

/// Performs the job with index `job` once under the variant with index `variant`, as briefly as its
/// harness can. Returns the metrics in the order in which the run reported them, and why the run
/// failed, if it did.
pub(crate) fn rehearse_job(
    plan: &SessionPlan,
    job: usize,
    variant: usize,
) -> (Vec<String>, Option<StepFailure>) {
    let slot = trial_slot(job, variant);
    let mut context = run_context(plan, &slot, plan.pin.as_ref());
    (context.samples, context.is_series, context.counting) = (SHORTEST, false, None);
    context.is_rehearsal = true;
    let attempt = perform_slot(plan, &slot, &context);
    let mut names = Vec::new();
    for mut result in attempt.observations {
        if plan.sampling.clock == ComparedClock::Cpu {
            // Ignore the error if a job reports no processor time: its measured runs will fail and
            // report that.
            let _ = prefer_processor_time(&mut result, plan.design.order);
        }
        names.extend(result.metrics.into_iter().map(|metric| metric.name));
    }
    (names, attempt.failure)
}

/// Announces on the status line how many of the discarded runs are done.
pub(crate) fn announce_trial(done: usize, most: usize) -> ActivityGuard {
    begin_activity(format!("trying each case and variant once: {done} of up to {most}"))
}

/// Returns the slot of a discarded run.
pub(crate) fn trial_slot(job: usize, variant: usize) -> PlanSlot {
    PlanSlot { job, variant, ..PlanSlot::default() }
}
