//! Executes the slots of a plan (its planned runs) in order. After each block, decides which cases
//! are settled, that is, need no more runs.
//!
//! This module knows nothing about the store and the terminal: all results are reported as
//! [`SessionEvent`]s. Start at [`execute`].
//!
//! The two sides of a pair run at the same time and take turns on one processor many times a
//! second. Whatever slows the machine therefore slows both sides. The time that a side waits for
//! its turn is not part of its processor time. See [`map_concurrently`].

mod code_change_guard;
pub mod experiment;
pub mod load;
#[cfg(test)]
mod merge_simulation;
pub mod profile;
mod server;
pub mod worktree;

use crate::execution::code_change_guard::{ChecksumLedger, CodeChangeGuard};
use anyhow::Result;
use speedwell_adapters::experiment::SharedServicePool;
use speedwell_adapters::plan::{PlanSlot, SessionPlan};
use speedwell_adapters::snippet::SharedProcesses;
use speedwell_adapters::{RunContext, RunOutcome, RunResult, SourceKind};
use speedwell_machine::environment::RunSensors;
use speedwell_machine::process::{CpuSet, TimeSlice, is_interrupt_requested};
use speedwell_model::stage_report::{RunStage, StageFailure, StageReport};
use speedwell_model::{
    ComparedClock, FailureCause, KernelStats, Metric, Run, RunOrder, SessionEvent, SessionObserver,
    SessionStep, StepFailure, seed_of_step,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Decides after each block which cases need no more runs.
pub trait StoppingRule {
    /// Returns, for each open case, whether it is settled. Each element of `cases` holds all
    /// finished runs of one case, in execution order.
    ///
    /// A rule keeps state between calls, because the correction for multiple tests makes the
    /// decision about one case depend on the others.
    fn settled_cases(&mut self, cases: &[&[Run]]) -> Vec<bool>;

    /// Whether the rule inspects runs. If not, [`StoppingRule::settled_cases`] is never called, and
    /// runs are dropped when their block closes, unless the plan has snippets.
    fn inspects_runs(&self) -> bool {
        true
    }

    /// Adds metrics that are computed from the reported metrics of a run.
    fn derive_metrics(&self, _result: &mut RunResult) {}
}

/// A rule that ends no case early.
pub struct NeverSettled;

impl StoppingRule for NeverSettled {
    fn settled_cases(&mut self, cases: &[&[Run]]) -> Vec<bool> {
        vec![false; cases.len()]
    }
}

/// Options for [`execute`], most of which describe the state of a resumed session.
#[derive(Default)]
pub struct ExecuteOptions {
    /// Slots that were completed before the session was resumed.
    pub completed_slots: BTreeSet<u32>,
    /// Runs of the session that is being resumed.
    pub previous_runs: Vec<Run>,
    /// Completed slots that yielded neither a run nor a failure.
    ///
    /// `None` if `previous_runs` holds all runs: these slots can then be derived from it. If the
    /// stopping rule does not inspect runs, `previous_runs` holds only the runs of
    /// [`SessionPlan::begun_slots`].
    pub empty_slots: Option<BTreeSet<u32>>,
    /// Completed slots that failed.
    pub failed_slots: BTreeSet<u32>,
    /// Whether execution stops at the first failure.
    pub fail_fast: bool,
    /// When this time has passed, execution stops at the end of the current block.
    pub time_budget: Option<Duration>,
}

/// How the execution of a plan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// Every slot was executed or needed no run, or the time budget was used up.
    Complete,
    /// The user interrupted the session.
    Interrupted,
    /// A failure ended the session because of `fail_fast`.
    Failed,
}

/// Executes the remaining slots of `plan` in order, sending events to `observers`.
///
/// # Errors
/// Fails if an observer failed, for example because the disk is full. Failures of measured programs
/// are events, not errors.
pub fn execute(
    plan: &SessionPlan,
    mut options: ExecuteOptions,
    stopping_rule: &mut dyn StoppingRule,
    observers: &mut [&mut dyn SessionObserver],
) -> Result<SessionEnd> {
    let slots = plan.slots();
    let begin = Instant::now();
    let mut execution = SessionExecution::new(plan, stopping_rule, observers);
    let event = SessionEvent::Started {
        runs: slots.len(),
        is_upper_bound: plan.may_need_fewer_runs(),
        cases: plan.jobs.len(),
        done: options.completed_slots.len(),
    };
    execution.emit(&event)?;
    let earlier = std::mem::take(&mut options.previous_runs);
    let mut session_end = execution.resume(&options, earlier, &slots)?;
    let (mut started, mut has_news) = (0, false);
    for group in slots.chunk_by(PlanSlot::is_paired_with) {
        if session_end == SessionEnd::Complete && is_interrupt_requested() {
            session_end = SessionEnd::Interrupted;
        }
        if session_end != SessionEnd::Complete {
            break;
        }
        started += group.len();
        let [.., slot] = group else { continue };
        let (started_slots, later) = slots.split_at(started);
        // Either both sides of a pair run or neither does.
        if !options.completed_slots.contains(&slot.index) {
            let outcome =
                execution.run_unsettled_slots(group, started_slots, later, options.fail_fast)?;
            has_news |= outcome.is_some();
            session_end = outcome
                .map_or(SessionEnd::Complete, |outcome| outcome.session_end(options.fail_fast));
        }
        // `has_news` covers all cases of the block, not only the last one. When a session is
        // resumed, the last case may already be complete although other cases have just run.
        let ends_round = later.first().is_none_or(|next| next.block != slot.block);
        if session_end == SessionEnd::Complete && has_news && ends_round {
            has_news = false;
            execution.settle_cases(later)?;
            if options.time_budget.is_some_and(|budget| begin.elapsed() > budget) {
                break;
            }
        }
    }
    if let Some(last) = slots[..started].last() {
        let service_report = execution.shared_services.stop_all();
        execution.record_service_end(last, service_report)?;
    }
    execution.emit(&SessionEvent::Finished { interrupted: session_end != SessionEnd::Complete })?;
    Ok(session_end)
}

/// Number of consecutive failures after which a variant of a case is abandoned. A benchmark that
/// always fails reveals nothing new, and a benchmark that hangs takes its full timeout on every
/// attempt.
const MAX_CONSECUTIVE_FAILURES: u32 = 2;

/// If one variant of a snippet is abandoned, the other variants run until each of them has this
/// number of runs, the minimum for a confidence interval.
const MIN_RUNS_ALONE: usize = 6;

/// Maximum number of retries of a disturbed run. A machine that disturbs three runs in a row will
/// also disturb the fourth, so the block of the run is then given up.
const MAX_DISTURBED_RETRIES: u32 = 2;

/// Outcome of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotOutcome {
    Done,
    Failed,
    Interrupted,
}

impl SlotOutcome {
    /// Returns how the session ends because of this outcome; `Complete` means that it continues.
    fn session_end(self, fail_fast: bool) -> SessionEnd {
        match self {
            SlotOutcome::Interrupted => SessionEnd::Interrupted,
            SlotOutcome::Failed if fail_fast => SessionEnd::Failed,
            _ => SessionEnd::Complete,
        }
    }
}

struct SessionExecution<'a, 'o> {
    plan: &'a SessionPlan,
    stopping_rule: &'a mut dyn StoppingRule,
    observers: &'a mut [&'o mut dyn SessionObserver],
    checksums: ChecksumLedger,
    unchanged: CodeChangeGuard,
    /// Runs by job. If `keeps_closed_blocks` is false, only the runs of the open block.
    runs: HashMap<usize, Vec<Run>>,
    /// Whether runs are kept after their block closes.
    keeps_closed_blocks: bool,
    settled: HashSet<usize>,
    consecutive_failures: HashMap<(usize, usize), u32>,
    metrics: HashSet<String>,
    shared: Option<SharedProcesses<'a>>,
    shared_services: SharedServicePool,
    sensors: RunSensors,
}

impl<'a, 'o> SessionExecution<'a, 'o> {
    pub fn new(
        plan: &'a SessionPlan,
        stopping_rule: &'a mut dyn StoppingRule,
        observers: &'a mut [&'o mut dyn SessionObserver],
    ) -> SessionExecution<'a, 'o> {
        SessionExecution {
            keeps_closed_blocks: stopping_rule.inspects_runs() || plan.has_snippets(),
            plan,
            stopping_rule,
            observers,
            checksums: ChecksumLedger::default(),
            unchanged: CodeChangeGuard::default(),
            runs: HashMap::new(),
            settled: HashSet::new(),
            consecutive_failures: HashMap::new(),
            metrics: HashSet::new(),
            shared_services: SharedServicePool::default(),
            sensors: RunSensors::open(),
            shared: (plan.shared).then(|| {
                SharedProcesses::new(&plan.variants, plan.design.order == RunOrder::Parallel)
            }),
        }
    }

    pub fn emit(&mut self, event: &SessionEvent<'_>) -> Result<()> {
        self.observers.iter_mut().try_for_each(|observer| observer.observe(event))
    }

    /// Restores the runs of a resumed session, retries the disturbed runs of its last block, and
    /// decides again which cases are settled.
    fn resume(
        &mut self,
        options: &ExecuteOptions,
        previous_runs: Vec<Run>,
        slots: &[PlanSlot],
    ) -> Result<SessionEnd> {
        let had_run: HashSet<u32> = previous_runs.iter().map(|run| run.slot).collect();
        let had_result = |slot: u32| match &options.empty_slots {
            Some(empty) => !empty.contains(&slot),
            None => had_run.contains(&slot),
        };
        for run in previous_runs {
            // Search by number: the slots of a shard keep the numbers that they have in the whole
            // plan.
            if let Ok(index) = slots.binary_search_by_key(&run.slot, |slot| slot.index) {
                self.runs.entry(slots[index].job).or_default().push(run);
            }
        }
        let (done, remaining): (Vec<PlanSlot>, Vec<PlanSlot>) =
            slots.iter().partition(|slot| options.completed_slots.contains(&slot.index));
        for slot in &done {
            let failures = self.consecutive_failures.entry((slot.job, slot.variant)).or_insert(0);
            if options.failed_slots.contains(&slot.index) {
                *failures += 1;
            } else if had_result(slot.index) {
                *failures = 0;
            }
        }
        let outcome = match done.last() {
            Some(last) if last.closes_block => {
                let outcome = self.retry_disturbed(&done, SlotOutcome::Done)?;
                let service_report = self.shared_services.stop_block();
                self.record_service_end(last, service_report)?;
                outcome
            }
            _ => SlotOutcome::Done,
        };
        for slot in done.iter().filter(|slot| slot.closes_block) {
            self.abandon_failing_case(slot, &remaining)?;
        }
        self.settle_cases(&remaining)?;
        Ok(outcome.session_end(options.fail_fast))
    }

    /// Whether this slot needs no run: its case is settled, or its variant is abandoned.
    pub fn is_settled(&self, slot: &PlanSlot) -> bool {
        self.settled.contains(&slot.job) || self.is_abandoned(slot.job, slot.variant)
    }

    fn is_abandoned(&self, job: usize, variant: usize) -> bool {
        let failures = self.consecutive_failures.get(&(job, variant));
        failures.is_some_and(|&count| count >= MAX_CONSECUTIVE_FAILURES)
    }

    /// Retries disturbed runs of the last block in `started_slots`, up to the limit. `outcome` is
    /// the outcome of the block so far.
    fn retry_disturbed(
        &mut self,
        started_slots: &[PlanSlot],
        mut outcome: SlotOutcome,
    ) -> Result<SlotOutcome> {
        if self.plan.design.reject.is_empty() {
            return Ok(outcome);
        }
        let is_same = |a: &PlanSlot, b: &PlanSlot| (a.job, a.block) == (b.job, b.block);
        let block = started_slots.chunk_by(is_same).next_back().unwrap_or_default();
        for repeated in 1..=MAX_DISTURBED_RETRIES {
            for slot in block {
                if outcome == SlotOutcome::Interrupted {
                    return Ok(outcome);
                }
                if self.needs_retry(slot, repeated) && !self.is_settled(slot) {
                    let retried = self.run_slots(&[PlanSlot { repeated, ..*slot }])?;
                    outcome = if retried == SlotOutcome::Done { outcome } else { retried };
                }
            }
        }
        Ok(outcome)
    }

    /// Executes slots unless their case is settled. After the last slots of a block, retries its
    /// disturbed runs, and closes the block unless the session ends because of these slots.
    /// `started_slots` are all slots of the plan up to the end of `group`.
    ///
    /// Returns `None` if the slots were skipped.
    fn run_unsettled_slots(
        &mut self,
        group: &[PlanSlot],
        started_slots: &[PlanSlot],
        later: &[PlanSlot],
        fail_fast: bool,
    ) -> Result<Option<SlotOutcome>> {
        let last_of_block = group.last().filter(|slot| slot.closes_block);
        let mut outcome = None;
        if !group.iter().any(|slot| self.is_settled(slot)) {
            let first_outcome = self.run_slots(group)?;
            outcome = Some(match last_of_block {
                Some(_) => self.retry_disturbed(started_slots, first_outcome)?,
                None => first_outcome,
            });
        }
        let ends_session =
            outcome.is_some_and(|outcome| outcome.session_end(fail_fast) != SessionEnd::Complete);
        if let Some(slot) = last_of_block.filter(|_| !ends_session) {
            let service_report = self.shared_services.stop_block();
            self.record_service_end(slot, service_report)?;
            if !self.settled.contains(&slot.job) {
                self.emit(&SessionEvent::BlockDone { job: slot.job, block: slot.block })?;
            }
            self.abandon_failing_case(slot, later)?;
            if !self.keeps_closed_blocks {
                self.runs.remove(&slot.job);
            }
        }
        Ok(outcome)
    }

    /// Records the notes and the failure that arose when services were stopped. They belong to no
    /// run; `slot` is the last slot that used the services.
    fn record_service_end(&mut self, slot: &PlanSlot, report: StageReport) -> Result<()> {
        for note in &report.notes {
            self.emit(&SessionEvent::Note(note))?;
        }
        let failure = report.failure.filter(|_| !is_interrupt_requested());
        let Some(StageFailure { stage, reason, stderr_tail }) = failure else { return Ok(()) };
        self.emit(&SessionEvent::Failed(&StepFailure {
            variant: None,
            slot: None,
            stderr_tail,
            ..self.slot_failure(slot, FailureCause::Stage { stage, reason })
        }))
    }

    /// Whether the last run of a slot was disturbed and the slot was executed at most
    /// `max_executions` times.
    fn needs_retry(&self, slot: &PlanSlot, max_executions: u32) -> bool {
        let runs = self.runs.get(&slot.job).map_or(&[][..], Vec::as_slice);
        let block_runs = runs.iter().rev().take_while(|run| run.block == slot.block);
        let mut slot_runs = block_runs.filter(|run| run.slot == slot.index);
        let Some(last) = slot_runs.next() else { return false };
        let earlier = slot_runs.filter(|run| run.case == last.case).count();
        last.rejected_by.is_some() && earlier < max_executions as usize
    }

    /// Executes one slot, or both slots of a pair at the same time.
    pub fn run_slots(&mut self, group: &[PlanSlot]) -> Result<SlotOutcome> {
        for slot in group {
            self.emit(&SessionEvent::RunStarted {
                slot: slot.index,
                label: &self.plan.jobs[slot.job].label,
                variant: &self.plan.variants[slot.variant].name,
            })?;
        }
        if let Some(failure) = self.find_changed_code(group) {
            self.emit(&SessionEvent::Failed(&failure))?;
            return self.finish_slots(group, true);
        }
        let start_reading = self.sensors.read_start();
        let attempts = self.run_attempts(group);
        let kernel_stats = self.sensors.read_end(&start_reading);
        if attempts.iter().any(|attempt| attempt.interrupted) {
            return Ok(SlotOutcome::Interrupted);
        }
        let mut failed = false;
        for (slot, attempt) in group.iter().zip(attempts) {
            failed |= self.record_attempt(slot, attempt, kernel_stats)?;
        }
        self.finish_slots(group, failed)
    }

    fn finish_slots(&mut self, group: &[PlanSlot], failed: bool) -> Result<SlotOutcome> {
        let slots: Vec<u32> = group.iter().map(|slot| slot.index).collect();
        self.emit(&SessionEvent::SlotsDone(&slots))?;
        Ok(if failed { SlotOutcome::Failed } else { SlotOutcome::Done })
    }

    /// Returns a failure, and counts it, if the code of one of these slots has changed since its
    /// first run.
    fn find_changed_code(&mut self, group: &[PlanSlot]) -> Option<StepFailure> {
        let plan = self.plan;
        let unchanged = &mut self.unchanged;
        let (slot, cause) = group.iter().find_map(|slot| {
            let variant = &plan.variants[slot.variant];
            let job = plan.jobs[slot.job].for_variant(&variant.name);
            Some((slot, unchanged.check_files(job, variant)?))
        })?;
        *self.consecutive_failures.entry((slot.job, slot.variant)).or_insert(0) += 1;
        Some(self.slot_failure(slot, cause))
    }

    fn run_attempts(&mut self, group: &[PlanSlot]) -> Vec<RunOutcome> {
        let pair_processor = draw_processor(self.plan, group[0].block);
        let pin = pair_processor.as_ref().or(self.plan.pin.as_ref());
        let (plan, shared_services) = (self.plan, &self.shared_services);
        let context = |slot: &PlanSlot| RunContext {
            kept: Some((shared_services, (slot.job, slot.block))),
            ..run_context(plan, slot, pin)
        };
        match (group, &mut self.shared) {
            ([slot], Some(shared)) => {
                vec![shared.perform_run(&context(slot))]
            }
            ([slot], None) => vec![perform_slot(plan, slot, &context(slot))],
            _ => {
                group.iter().for_each(|slot| context(slot).prepare());
                map_concurrently(group, |slot| {
                    // The processes of a run inherit the time slice from the thread that starts
                    // them. A kernel without custom slices uses its default, which is shorter.
                    let _ = PAIR_TIME_SLICE.apply();
                    perform_slot(plan, slot, &context(slot))
                })
            }
        }
    }

    /// Records what an attempt yielded. Returns whether it failed; a skip does not count as a
    /// failure.
    fn record_attempt(
        &mut self,
        slot: &PlanSlot,
        mut attempt: RunOutcome,
        kernel_stats: KernelStats,
    ) -> Result<bool> {
        let variant: Arc<str> = Arc::from(self.plan.variants[slot.variant].name.as_str());
        let mut failure = attempt.failure.take();
        for mut result in std::mem::take(&mut attempt.observations) {
            if result.samples.is_empty() {
                continue;
            }
            if self.plan.sampling.clock == ComparedClock::Cpu
                && let Err(cause) = prefer_processor_time(&mut result, self.plan.design.order)
            {
                failure = failure.or_else(|| Some(self.slot_failure(slot, cause)));
                continue;
            }
            self.stopping_rule.derive_metrics(&mut result);
            // Values and benchmarks that are compared may compute different results.
            let has_sides = !self.plan.jobs[slot.job].sides.is_empty();
            if !has_sides && let Some(cause) = self.checksums.record_checksum(&result, &variant) {
                failure = failure.or_else(|| Some(self.slot_failure(slot, cause)));
                continue;
            }
            for metric in &result.metrics {
                if self.metrics.insert(metric.name.clone()) {
                    self.emit(&SessionEvent::Declared(metric))?;
                }
            }
            // If the process failed only after a valid report, the reported samples are kept. A
            // faulty report has no samples.
            let valid_result = match &failure {
                None => Some(result),
                Some(failure) => note_late_failure(result, &failure.cause),
            };
            if let Some(result) = valid_result {
                self.finish_run(slot, result, &variant, (&attempt, kernel_stats))?;
            }
        }
        let failures = self.consecutive_failures.entry((slot.job, slot.variant)).or_insert(0);
        match failure {
            None => *failures = 0,
            Some(_) => *failures += 1,
        }
        if let Some(failure) = &mut failure {
            if let Some(linking) = &attempt.linking {
                linking.explain_failure(failure);
            }
            self.emit(&SessionEvent::Failed(failure))?;
        }
        Ok(failure.is_some_and(|failure| !failure.cause.is_skip()))
    }

    fn finish_run(
        &mut self,
        slot: &PlanSlot,
        result: RunResult,
        variant: &Arc<str>,
        (attempt, kernel_stats): (&RunOutcome, KernelStats),
    ) -> Result<()> {
        let mut run = Run {
            case: Arc::new(result.case),
            variant: variant.clone(),
            slot: slot.index,
            block: slot.block,
            build: slot.build,
            started_unix_ms: attempt.started_unix_ms,
            wall_ns: attempt.wall_ns,
            usage: attempt.usage,
            // Kernel counters are recorded only for a run with a process of its own, so only such a
            // run can be rejected as disturbed.
            kernel_stats: (attempt.usage).map(|_| attempt.kernel_stats.unwrap_or(kernel_stats)),
            rejected_by: None,
            machine: target_machine(self.plan),
            samples: result.samples,
            notes: result.notes,
            load: result.load,
        };
        run.rejected_by = self.plan.design.reject.broken_by(&run).map(ToString::to_string);
        self.emit(&SessionEvent::RunFinished(&run))?;
        self.runs.entry(slot.job).or_default().push(run);
        Ok(())
    }

    fn slot_failure(&self, slot: &PlanSlot, cause: FailureCause) -> StepFailure {
        let job = &self.plan.jobs[slot.job];
        StepFailure {
            step: SessionStep::Run,
            benchmark: job.source.name.clone(),
            case: Some(job.label.clone()),
            variant: Some(self.plan.variants[slot.variant].name.clone()),
            slot: Some(slot.index),
            cause,
            stderr_tail: String::new(),
            replay: String::new(),
        }
    }

    /// Finishes the open jobs whose cases are now all settled. A job has several cases if its file
    /// starts the cases itself. Called when every case has completed its current block.
    fn settle_cases(&mut self, later: &[PlanSlot]) -> Result<()> {
        if !self.stopping_rule.inspects_runs() {
            return Ok(());
        }
        let mut jobs: Vec<usize> = self.runs.keys().copied().collect();
        jobs.retain(|job| !self.settled.contains(job));
        jobs.sort_unstable();
        let cases: Vec<Vec<Cow<'_, [Run]>>> =
            jobs.iter().map(|job| group_by_case(&self.runs[job])).collect();
        let all_cases: Vec<&[Run]> = cases.iter().flatten().map(AsRef::as_ref).collect();
        let counts: Vec<usize> = cases.iter().map(Vec::len).collect();
        let mut decisions = self.stopping_rule.settled_cases(&all_cases).into_iter();
        drop(cases);
        for (job, count) in jobs.into_iter().zip(counts) {
            let decisions: Vec<bool> = decisions.by_ref().take(count).collect();
            if decisions.iter().all(|&is_settled| is_settled) {
                self.finish_case(job, later)?;
            }
        }
        Ok(())
    }

    /// Finishes the case of `slot` if it is abandoned; see [`SessionExecution::is_case_abandoned`].
    /// Called when a block of the case is complete.
    pub fn abandon_failing_case(&mut self, slot: &PlanSlot, later: &[PlanSlot]) -> Result<()> {
        if self.settled.contains(&slot.job) || !self.is_case_abandoned(slot.job) {
            return Ok(());
        }
        self.finish_case(slot.job, later)
    }

    fn finish_case(&mut self, job: usize, later: &[PlanSlot]) -> Result<()> {
        self.settled.insert(job);
        let saved = later.iter().filter(|later| later.job == job).count();
        let label = self.plan.jobs[job].label.clone();
        self.emit(&SessionEvent::CaseDecided { label: &label, saved })
    }

    /// Whether to give up a case, because one variant keeps failing and cannot be compared. The
    /// other variants of a snippet are still worth reporting, so each of them first gets
    /// [`MIN_RUNS_ALONE`] runs.
    fn is_case_abandoned(&self, job: usize) -> bool {
        let variants = 0..self.plan.variants.len();
        let (abandoned, others): (Vec<usize>, Vec<usize>) =
            variants.partition(|&variant| self.is_abandoned(job, variant));
        if abandoned.is_empty() {
            return false;
        }
        let is_snippet = matches!(self.plan.jobs[job].source.kind, SourceKind::Snippet(_));
        let runs_of = |variant: usize| {
            let name = &self.plan.variants[variant].name;
            let runs = self.runs.get(&job).into_iter().flatten();
            runs.filter(|run| *run.variant == **name).count()
        };
        !is_snippet || others.iter().all(|&variant| runs_of(variant) >= MIN_RUNS_ALONE)
    }
}

/// Returns the machine that runs the target, as an index into the machines of the session. Returns
/// `None` if the target has no machine of its own.
fn target_machine(plan: &SessionPlan) -> Option<u32> {
    let placement = plan.design.experiment.as_ref()?.placement.as_ref()?;
    u32::try_from(placement.target).ok()
}

/// Builds the context for running one slot.
pub(crate) fn run_context<'a>(
    plan: &'a SessionPlan,
    slot: &PlanSlot,
    pin: Option<&'a CpuSet>,
) -> RunContext<'a> {
    let (job, variant) = (&plan.jobs[slot.job], &plan.variants[slot.variant]);
    let own_job = job.for_variant(&variant.name);
    RunContext {
        ordinal: slot.ordinal,
        repeated: slot.repeated,
        seed: slot.seed(plan.design.seed),
        samples: job.samples.or(own_job.samples).unwrap_or(plan.sampling.samples),
        is_series: plan.design.steady.is_some(),
        pin,
        layout: plan.run_layout(slot),
        counting: plan.design.counting.as_ref(),
        ..plan.run_context(own_job, variant, slot.index)
    }
}

pub(crate) fn perform_slot(
    plan: &SessionPlan,
    slot: &PlanSlot,
    context: &RunContext<'_>,
) -> RunOutcome {
    context.perform().attributed_to(&plan.jobs[slot.job])
}

/// Groups the runs of one job by case.
fn group_by_case(runs: &[Run]) -> Vec<Cow<'_, [Run]>> {
    if runs.windows(2).all(|pair| pair[0].case == pair[1].case) {
        return vec![Cow::Borrowed(runs)];
    }
    let mut cases: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for run in runs {
        cases.entry(run.case.id()).or_default().push(run.clone());
    }
    cases.into_values().map(Cow::Owned).collect()
}

/// If the process failed only after it had reported the result, returns the result with a note.
/// Otherwise, returns `None`.
fn note_late_failure(mut result: RunResult, cause: &FailureCause) -> Option<RunResult> {
    use FailureCause::{CleanupFailed, Exit, Signal};
    let is_after = match cause {
        Exit { .. } | Signal { .. } | CleanupFailed { .. } => true,
        FailureCause::Stage { stage, .. } => *stage == RunStage::Stop,
        _ => false,
    };
    if !is_after {
        return None;
    }
    result.notes.push(format!("Its process {cause} after reporting this value."));
    Some(result)
}

/// Time slice of one side: long enough that caches are warm for most of it.
const PAIR_TIME_SLICE: TimeSlice = TimeSlice(Duration::from_millis(20));

/// Draws the processor that the runs of this block share: from the processors to which the plan
/// pins runs or, without pinning, from all usable ones. Returns `None` if runs are not paired.
fn draw_processor(plan: &SessionPlan, block: u32) -> Option<CpuSet> {
    if plan.design.order != RunOrder::Paired {
        return None;
    }
    let usable = plan.pin.clone().or_else(|| CpuSet::usable_by_thread().ok())?;
    let index = seed_of_step(!plan.design.seed, block) as usize % usable.cpus().len().max(1);
    usable.cpus().get(index).map(|&cpu| CpuSet::from_iter([cpu]))
}

/// Starts a thread for each item, in order, and returns the results of all threads.
pub(crate) fn map_concurrently<T: Sync, R: Send>(
    items: &[T],
    perform: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let perform = &perform;
    thread::scope(|scope| {
        let threads: Vec<_> = items.iter().map(|item| scope.spawn(move || perform(item))).collect();
        threads.into_iter().map(join_thread).collect()
    })
}

/// Waits for a thread, and panics if it did.
pub(crate) fn join_thread<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Puts processor time first, because the first metric is compared. Paired runs keep no other
/// metric, because any other time includes the time slices of the other side.
///
/// # Errors
/// Fails if the result has no processor time.
pub(crate) fn prefer_processor_time(
    result: &mut RunResult,
    order: RunOrder,
) -> Result<(), FailureCause> {
    let is_processor_time = |name: &str| name == Metric::CPU_TIME;
    if order == RunOrder::Paired {
        (result.samples).retain(|sample| is_processor_time(&sample.metric));
        (result.metrics).retain(|metric| is_processor_time(&metric.name));
    }
    (result.samples).sort_by_key(|sample| !is_processor_time(&sample.metric));
    (result.metrics).sort_by_key(|metric| !is_processor_time(&metric.name));
    match result.samples.first() {
        Some(sample) if is_processor_time(&sample.metric) => Ok(()),
        _ => Err(FailureCause::Invalid {
            reason: "reports no processor time, which the comparison needs".to_owned(),
        }),
    }
}
