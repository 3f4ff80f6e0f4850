//! Executes the slots of a plan in order and decides after each block which cases are settled.
//!
//! Knows neither the store nor the terminal: everything leaves as an [`Event`]. Start reading at
//! [`execute`].

use crate::pairs;
use crate::unchanged::Unchanged;
use speedwell_environment::Sensors;
use speedwell_harness::experiment::KeptServices;
use speedwell_harness::plan::{Plan, Slot};
use speedwell_harness::snippet::Shared;
use speedwell_harness::{self as harness, Attempt, Kind, Observation, Setting};
use speedwell_model::performed::{Performed, StageFailure};
use speedwell_model::{Cause, Clock, Event, Failure, Observer, Order, Run, Step, Surroundings};
use speedwell_process::{CpuSet, interrupted};
use speedwell_suite::experiment::Experiment;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Decides after each block which cases need no more runs.
pub trait Judge {
    /// Returns, for each open case, whether it is settled. `cases` holds all finished runs of a
    /// case in execution order.
    ///
    /// Judges keep state between calls: multiple-testing correction makes the cases depend on each
    /// other.
    fn decided(&mut self, cases: &[&[Run]]) -> Vec<bool>;

    /// Whether the judge inspects runs. If not, [`Judge::decided`] is never called and runs are
    /// dropped when their block closes.
    fn looks(&self) -> bool {
        true
    }

    /// Adds metrics derived from those a run reported.
    fn complete(&self, _seen: &mut Observation) {}
}

/// Options for [`execute`], mostly what a resumed session brings along.
#[derive(Default)]
pub struct Orders {
    /// Slots that are done already.
    pub done: BTreeSet<u32>,
    /// Runs of the session that is being resumed.
    pub earlier: Vec<Run>,
    /// Completed slots without run or failure.
    ///
    /// `None` if `earlier` holds all runs, from which they can be derived. For a judge that does
    /// not inspect runs, `earlier` holds only those of [`Plan::begun_slots`].
    pub silent: Option<BTreeSet<u32>>,
    /// Slots that failed already.
    pub failed: BTreeSet<u32>,
    /// Stops at the first failure.
    pub fail_fast: bool,
    /// Stops after the first block that completes past this time.
    pub budget: Option<Duration>,
}

/// How the execution of a plan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every slot was executed or unnecessary.
    Complete,
    /// The user interrupted it.
    Interrupted,
    /// A failure ended it because of `fail_fast`.
    Failed,
}

/// Executes the remaining slots of `plan` in order, sending events to `observers`.
///
/// # Errors
/// An observer failed, for example because the disk is full. Failures of measured programs are
/// events, not errors.
pub fn execute(
    plan: &Plan,
    mut orders: Orders,
    judge: &mut dyn Judge,
    observers: &mut [&mut dyn Observer],
) -> anyhow::Result<Ended> {
    let slots = plan.slots();
    let begin = Instant::now();
    let experiment = plan.experiment()?;
    let mut execution = Execution::new(plan, experiment.as_ref(), judge, observers);
    let started = Event::Started {
        runs: slots.len(),
        is_upper_bound: plan.may_need_fewer_runs(),
        cases: plan.jobs.len(),
        done: orders.done.len(),
    };
    execution.tell(&started)?;
    let earlier = std::mem::take(&mut orders.earlier);
    let mut ended = execution.restore(&orders, earlier, &slots)?;
    let (mut end, mut has_news) = (0, false);
    for together in slots.chunk_by(Slot::is_paired_with) {
        if ended == Ended::Complete && interrupted() {
            ended = Ended::Interrupted;
        }
        if ended != Ended::Complete {
            break;
        }
        end += together.len();
        let [.., slot] = together else { continue };
        let later = &slots[end..];
        // Both sides of a pair run, or neither does.
        if !orders.done.contains(&slot.index) {
            let stepped = execution.visit(together, &slots[..end], later, orders.fail_fast)?;
            has_news |= stepped.is_some();
            ended = stepped.map_or(Ended::Complete, |stepped| stepped.ended(orders.fail_fast));
        }
        // The last case of a block may have been done before, unlike others.
        let is_round = later.first().is_none_or(|next| next.block != slot.block);
        if ended == Ended::Complete && has_news && is_round {
            has_news = false;
            execution.settle(later)?;
            if orders.budget.is_some_and(|budget| begin.elapsed() > budget) {
                break;
            }
        }
    }
    if let Some(last) = slots[..end].last() {
        let kept = execution.kept.end();
        execution.keep_end(last, kept)?;
    }
    execution.tell(&Event::Finished {
        interrupted: ended != Ended::Complete,
    })?;
    Ok(ended)
}

/// Consecutive failures after which a variant of a case is abandoned: a benchmark that always fails
/// needs no more evidence, and one that hangs costs its full timeout on every attempt.
const GIVE_UP_AFTER: u32 = 2;

/// Minimum runs to report a snippet alone when the others failed: the fewest with an interval.
const ENOUGH_RUNS: usize = 6;

/// Retries of a disturbed run, after which its block is lost: a machine that disturbs three runs in
/// a row will disturb the fourth.
const MOST_REPETITIONS: u32 = 2;

/// Outcome of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stepped {
    Done,
    Failed,
    Interrupted,
}

impl Stepped {
    /// How the session ends because of this outcome, if it does.
    fn ended(self, fail_fast: bool) -> Ended {
        match self {
            Stepped::Interrupted => Ended::Interrupted,
            Stepped::Failed if fail_fast => Ended::Failed,
            _ => Ended::Complete,
        }
    }
}

pub(super) struct Execution<'a, 'o> {
    plan: &'a Plan,
    judge: &'a mut dyn Judge,
    observers: &'a mut [&'o mut dyn Observer],
    answers: Answers,
    unchanged: Unchanged,
    /// Runs by job; without `keeps_runs`, only those of the open block.
    runs: HashMap<usize, Vec<Run>>,
    /// Whether runs are kept after their block closes.
    keeps_runs: bool,
    over: HashSet<usize>,
    failed: HashMap<(usize, usize), u32>,
    metrics: HashSet<String>,
    shared: Option<Shared<'a>>,
    experiment: Option<&'a Experiment>,
    kept: KeptServices,
    sensors: Sensors,
}

impl<'a, 'o> Execution<'a, 'o> {
    pub fn new(
        plan: &'a Plan,
        experiment: Option<&'a Experiment>,
        judge: &'a mut dyn Judge,
        observers: &'a mut [&'o mut dyn Observer],
    ) -> Execution<'a, 'o> {
        Execution {
            keeps_runs: judge.looks() || plan.has_snippets(),
            plan,
            experiment,
            judge,
            observers,
            answers: Answers::default(),
            unchanged: Unchanged::default(),
            runs: HashMap::new(),
            over: HashSet::new(),
            failed: HashMap::new(),
            metrics: HashSet::new(),
            kept: KeptServices::default(),
            sensors: Sensors::open(),
            shared: (plan.shared)
                .then(|| Shared::new(&plan.variants, plan.design.order == Order::Parallel)),
        }
    }

    pub fn tell(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        for observer in self.observers.iter_mut() {
            observer.observe(event)?;
        }
        Ok(())
    }

    /// Takes over the runs of a resumed session, retries disturbed runs of its last block, and
    /// settles its cases again.
    fn restore(
        &mut self,
        orders: &Orders,
        earlier: Vec<Run>,
        slots: &[Slot],
    ) -> anyhow::Result<Ended> {
        let had_run: HashSet<u32> = earlier.iter().map(|run| run.slot).collect();
        let gave_something = |slot: u32| match &orders.silent {
            Some(silent) => !silent.contains(&slot),
            None => had_run.contains(&slot),
        };
        for run in earlier {
            // Slots of a shard keep their numbers of the whole plan.
            if let Ok(at) = slots.binary_search_by_key(&run.slot, |slot| slot.index) {
                self.runs.entry(slots[at].job).or_default().push(run);
            }
        }
        let (done, left): (Vec<Slot>, Vec<Slot>) = slots
            .iter()
            .partition(|slot| orders.done.contains(&slot.index));
        for slot in &done {
            let failures = self.failed.entry((slot.job, slot.variant)).or_insert(0);
            if orders.failed.contains(&slot.index) {
                *failures += 1;
            } else if gave_something(slot.index) {
                *failures = 0;
            }
        }
        let stepped = match done.last() {
            Some(last) if last.closes_block => {
                let stepped = self.repeat(&done, Stepped::Done)?;
                let kept = self.kept.end_block();
                self.keep_end(last, kept)?;
                stepped
            }
            _ => Stepped::Done,
        };
        for slot in done.iter().filter(|slot| slot.closes_block) {
            self.give_up(slot, &left)?;
        }
        for job in self.decided() {
            self.end(job, &left)?;
        }
        Ok(stepped.ended(orders.fail_fast))
    }

    /// Whether this slot needs no run: its case is settled, or its variant is abandoned.
    pub fn is_over(&self, slot: &Slot) -> bool {
        self.over.contains(&slot.job) || self.is_hopeless(slot.job, slot.variant)
    }

    fn is_hopeless(&self, job: usize, variant: usize) -> bool {
        let failed = self.failed.get(&(job, variant));
        failed.is_some_and(|&count| count >= GIVE_UP_AFTER)
    }

    /// Runs slots with [`Execution::step`] and, at the end of a block, retries its disturbed runs.
    /// `so_far` are all slots including these.
    fn step_and_repeat(&mut self, together: &[Slot], so_far: &[Slot]) -> anyhow::Result<Stepped> {
        let stepped = self.step(together)?;
        match together.last() {
            Some(last) if last.closes_block => self.repeat(so_far, stepped),
            _ => Ok(stepped),
        }
    }

    /// Retries disturbed runs of the last block in `so_far`, up to the limit. `stepped` is the
    /// outcome of the block so far.
    fn repeat(&mut self, so_far: &[Slot], mut stepped: Stepped) -> anyhow::Result<Stepped> {
        if self.plan.design.reject.is_empty() {
            return Ok(stepped);
        }
        let is_same = |a: &Slot, b: &Slot| (a.job, a.block) == (b.job, b.block);
        let block = so_far.chunk_by(is_same).next_back().unwrap_or_default();
        for repeated in 1..=MOST_REPETITIONS {
            for slot in block {
                if stepped == Stepped::Interrupted {
                    return Ok(stepped);
                }
                if self.is_to_be_repeated(slot, repeated) && !self.is_over(slot) {
                    let again = self.step(&[Slot { repeated, ..*slot }])?;
                    stepped = if again == Stepped::Done {
                        stepped
                    } else {
                        again
                    };
                }
            }
        }
        Ok(stepped)
    }

    /// Executes slots unless their case is settled, and closes their block. If the session ends
    /// here, the block stays open.
    ///
    /// Returns `None` if the slots were skipped.
    fn visit(
        &mut self,
        together: &[Slot],
        so_far: &[Slot],
        later: &[Slot],
        fail_fast: bool,
    ) -> anyhow::Result<Option<Stepped>> {
        let is_over = together.iter().any(|slot| self.is_over(slot));
        let stepped = if is_over {
            None
        } else {
            Some(self.step_and_repeat(together, so_far)?)
        };
        let is_end = stepped.is_some_and(|stepped| stepped.ended(fail_fast) != Ended::Complete);
        if let Some(slot) = together.last().filter(|slot| slot.closes_block && !is_end) {
            let ended = self.kept.end_block();
            self.keep_end(slot, ended)?;
            self.close_block(slot)?;
            self.give_up(slot, later)?;
            if !self.keeps_runs {
                self.runs.remove(&slot.job);
            }
        }
        Ok(stepped)
    }

    /// Records notes and a failure from stopping services. These belong to no run; `slot` is the
    /// last one that used the services.
    fn keep_end(&mut self, slot: &Slot, ended: Performed) -> anyhow::Result<()> {
        for note in &ended.notes {
            self.tell(&Event::Note(note))?;
        }
        let Some(StageFailure {
            stage,
            reason,
            stderr_tail,
        }) = ended.failure.filter(|_| !interrupted())
        else {
            return Ok(());
        };
        let failure = Failure {
            variant: None,
            slot: None,
            stderr_tail,
            ..self.contradiction(slot, Cause::Stage { stage, reason })
        };
        self.tell(&Event::Failed(&failure))
    }

    /// Whether the last run of a slot was disturbed and the slot was executed at most `most` times.
    fn is_to_be_repeated(&self, slot: &Slot, most: u32) -> bool {
        let runs = self.runs.get(&slot.job).map_or(&[][..], Vec::as_slice);
        let of_block = runs.iter().rev().take_while(|run| run.block == slot.block);
        let mut own = of_block.filter(|run| run.slot == slot.index);
        let Some(last) = own.next() else { return false };
        let earlier = own.filter(|run| run.case == last.case).count();
        last.disturbed.is_some() && earlier < most as usize
    }

    /// Executes one slot, or both slots of a pair at the same time.
    pub fn step(&mut self, together: &[Slot]) -> anyhow::Result<Stepped> {
        for slot in together {
            self.tell(&Event::RunStarted {
                slot: slot.index,
                label: &self.plan.jobs[slot.job].label,
                variant: &self.plan.variants[slot.variant].name,
            })?;
        }
        if self.refuse_changed(together)? {
            return Ok(Stepped::Failed);
        }
        let begun = self.sensors.begin();
        let attempts = self.perform(together);
        let surroundings = self.sensors.end(&begun);
        if attempts.iter().any(|attempt| attempt.interrupted) {
            return Ok(Stepped::Interrupted);
        }
        let mut failed = false;
        for (slot, attempt) in together.iter().zip(attempts) {
            failed |= self.keep(slot, attempt, surroundings)?;
        }
        let done: Vec<u32> = together.iter().map(|slot| slot.index).collect();
        self.tell(&Event::SlotsDone(&done))?;
        Ok(if failed {
            Stepped::Failed
        } else {
            Stepped::Done
        })
    }

    /// Fails slots if the code of one has changed since its first run. Returns whether it has.
    fn refuse_changed(&mut self, together: &[Slot]) -> anyhow::Result<bool> {
        let plan = self.plan;
        let unchanged = &mut self.unchanged;
        let changed = together.iter().find_map(|slot| {
            let cause = unchanged.check(&plan.jobs[slot.job], &plan.variants[slot.variant])?;
            Some((slot, cause))
        });
        let Some((slot, cause)) = changed else {
            return Ok(false);
        };
        *self.failed.entry((slot.job, slot.variant)).or_insert(0) += 1;
        let failure = self.contradiction(slot, cause);
        self.tell(&Event::Failed(&failure))?;
        let done: Vec<u32> = together.iter().map(|slot| slot.index).collect();
        self.tell(&Event::SlotsDone(&done))?;
        Ok(true)
    }

    fn perform(&mut self, together: &[Slot]) -> Vec<Attempt> {
        let pair_processor = pairs::processor(self.plan, together[0].block);
        let pin = pair_processor.as_ref().or(self.plan.pin.as_ref());
        let (plan, experiment, kept) = (self.plan, self.experiment, &self.kept);
        let setting = |slot: &Slot| Setting {
            kept: Some((kept, (slot.job, slot.block))),
            ..setting(plan, slot, pin, experiment)
        };
        match (together, &mut self.shared) {
            ([slot], Some(shared)) => vec![shared.perform(&plan.jobs[slot.job], &setting(slot))],
            ([slot], None) => vec![perform(plan, slot, &setting(slot))],
            _ => {
                (together.iter()).for_each(|slot| prepare(plan, slot, &setting(slot)));
                pairs::at_once(together, |slot| perform(plan, slot, &setting(slot)))
            }
        }
    }

    /// Records what an attempt yielded. Returns whether it failed.
    fn keep(
        &mut self,
        slot: &Slot,
        mut attempt: Attempt,
        surroundings: Surroundings,
    ) -> anyhow::Result<bool> {
        let variant: Arc<str> = Arc::from(self.plan.variants[slot.variant].name.as_str());
        let mut failure = attempt.failure.take();
        for mut seen in std::mem::take(&mut attempt.observations) {
            if seen.samples.is_empty() {
                continue;
            }
            if self.plan.sampling.clock == Clock::Cpu
                && let Err(cause) = pairs::prefer_processor_time(&mut seen, self.plan.design.order)
            {
                failure = failure.or_else(|| Some(self.contradiction(slot, cause)));
                continue;
            }
            self.judge.complete(&mut seen);
            if let Some(cause) = self.answers.check(&seen, &variant) {
                failure = failure.or_else(|| Some(self.contradiction(slot, cause)));
                continue;
            }
            self.declare(&seen)?;
            // A process that failed after a valid report keeps its sample; a faulty report has
            // none.
            let kept = match &failure {
                None => Some(seen),
                Some(failure) => failed_after(seen, &failure.cause),
            };
            if let Some(seen) = kept {
                self.finish_run(slot, seen, &variant, (&attempt, surroundings))?;
            }
        }
        let failures = self.failed.entry((slot.job, slot.variant)).or_insert(0);
        match failure {
            None => *failures = 0,
            Some(_) => *failures += 1,
        }
        if let Some(failure) = &mut failure {
            if let Some(linking) = &attempt.linking {
                linking.explain(failure);
            }
            self.tell(&Event::Failed(failure))?;
        }
        Ok(failure.is_some_and(|failure| !failure.cause.is_skip()))
    }

    fn finish_run(
        &mut self,
        slot: &Slot,
        seen: Observation,
        variant: &Arc<str>,
        (attempt, surroundings): (&Attempt, Surroundings),
    ) -> anyhow::Result<()> {
        let mut run = Run {
            case: Arc::new(seen.case),
            variant: variant.clone(),
            slot: slot.index,
            block: slot.block,
            build: slot.build,
            started_unix_ms: attempt.started_unix_ms,
            wall_ns: attempt.wall_ns,
            usage: attempt.usage,
            // Only a process of its own can be disturbed.
            surroundings: (attempt.usage).map(|_| attempt.surroundings.unwrap_or(surroundings)),
            disturbed: None,
            machine: machine_of(self.plan),
            samples: seen.samples,
            notes: seen.notes,
            load: seen.load,
        };
        run.disturbed = self
            .plan
            .design
            .reject
            .broken_by(&run)
            .map(ToString::to_string);
        self.tell(&Event::RunFinished(&run))?;
        self.runs.entry(slot.job).or_default().push(run);
        Ok(())
    }

    /// Declares metrics that were not seen before.
    fn declare(&mut self, seen: &Observation) -> anyhow::Result<()> {
        for metric in &seen.metrics {
            if self.metrics.insert(metric.name.clone()) {
                self.tell(&Event::Declared(metric))?;
            }
        }
        Ok(())
    }

    /// Open jobs whose cases are all settled. A file that starts its cases itself has several.
    fn decided(&mut self) -> Vec<usize> {
        if !self.judge.looks() {
            return Vec::new();
        }
        let mut jobs: Vec<usize> = self.runs.keys().copied().collect();
        jobs.retain(|job| !self.over.contains(job));
        jobs.sort_unstable();
        let cases: Vec<(usize, Vec<Cow<'_, [Run]>>)> = jobs
            .iter()
            .map(|job| (*job, by_case(&self.runs[job])))
            .collect();
        let all: Vec<&[Run]> = cases
            .iter()
            .flat_map(|(_, c)| c)
            .map(AsRef::as_ref)
            .collect();
        let mut answers = self.judge.decided(&all).into_iter();
        let mut decided = Vec::new();
        for (job, cases) in &cases {
            let answers: Vec<bool> = answers.by_ref().take(cases.len()).collect();
            if answers.iter().all(|&answer| answer) {
                decided.push(*job);
            }
        }
        decided
    }

    fn contradiction(&self, slot: &Slot, cause: Cause) -> Failure {
        let job = &self.plan.jobs[slot.job];
        Failure {
            step: Step::Run,
            benchmark: job.source.name.clone(),
            case: Some(job.label.clone()),
            variant: Some(self.plan.variants[slot.variant].name.clone()),
            slot: Some(slot.index),
            cause,
            stderr_tail: String::new(),
            replay: String::new(),
        }
    }

    /// Finishes the cases that are settled after a block of all cases.
    pub fn settle(&mut self, later: &[Slot]) -> anyhow::Result<()> {
        for job in self.decided() {
            self.end(job, later)?;
        }
        Ok(())
    }

    /// Finishes a case after one of its blocks if a variant of it is abandoned.
    pub fn give_up(&mut self, slot: &Slot, later: &[Slot]) -> anyhow::Result<()> {
        let runs = self.runs.get(&slot.job).map_or(&[][..], Vec::as_slice);
        if self.over.contains(&slot.job) || !self.is_hopeless_case(slot.job, runs) {
            return Ok(());
        }
        self.end(slot.job, later)
    }

    /// Reports that a block is complete, unless its case was settled before.
    fn close_block(&mut self, slot: &Slot) -> anyhow::Result<()> {
        if self.over.contains(&slot.job) {
            return Ok(());
        }
        self.tell(&Event::BlockDone {
            job: slot.job,
            block: slot.block,
        })
    }

    fn end(&mut self, job: usize, later: &[Slot]) -> anyhow::Result<()> {
        self.over.insert(job);
        let saved = later.iter().filter(|later| later.job == job).count();
        let label = self.plan.jobs[job].label.clone();
        self.tell(&Event::CaseDecided {
            label: &label,
            saved,
        })
    }

    /// Whether more runs of a case are useless: a variant fails every time, so nothing can be
    /// compared with it. Snippets are worth reporting alone.
    fn is_hopeless_case(&self, job: usize, runs: &[Run]) -> bool {
        let variants = 0..self.plan.variants.len();
        let (lost, sound): (Vec<usize>, Vec<usize>) =
            variants.partition(|&variant| self.is_hopeless(job, variant));
        if lost.is_empty() {
            return false;
        }
        let is_snippet = matches!(self.plan.jobs[job].source.kind, Kind::Snippet(_));
        let runs_of = |variant: usize| {
            let name = &self.plan.variants[variant].name;
            runs.iter().filter(|run| *run.variant == **name).count()
        };
        !is_snippet || sound.iter().all(|&variant| runs_of(variant) >= ENOUGH_RUNS)
    }
}

/// Index of the target's machine in the session, if it has its own.
fn machine_of(plan: &Plan) -> Option<u32> {
    let placement = plan.design.experiment.as_ref()?.placement.as_ref()?;
    u32::try_from(placement.target).ok()
}

/// Context for running one slot.
pub(super) fn setting<'a>(
    plan: &'a Plan,
    slot: &Slot,
    pin: Option<&'a CpuSet>,
    experiment: Option<&'a Experiment>,
) -> Setting<'a> {
    let variant = &plan.variants[slot.variant];
    Setting {
        variant,
        program: harness::program_of(&plan.jobs[slot.job].source, variant),
        slot: slot.index,
        ordinal: slot.ordinal,
        repeated: slot.repeated,
        seed: slot.seed(plan.design.seed),
        limit: Duration::from_millis(plan.sampling.timeout_ms),
        samples: plan.jobs[slot.job].samples.unwrap_or(plan.sampling.samples),
        asked: plan.sampling.asked,
        is_series: plan.design.steady.is_some(),
        pin,
        layout: plan.layout(slot),
        experiment,
        kept: None,
        counting: plan.design.counting.as_ref(),
        clock: plan.sampling.clock,
    }
}

fn prepare(plan: &Plan, slot: &Slot, setting: &Setting<'_>) {
    let job = &plan.jobs[slot.job];
    harness::for_kind(job.source.kind).prepare(job, setting);
}

pub(super) fn perform(plan: &Plan, slot: &Slot, setting: &Setting<'_>) -> Attempt {
    let job = plan.jobs[slot.job].under(setting.variant);
    harness::for_kind(job.source.kind).perform(&job, setting)
}

/// Groups the runs of one job by case.
fn by_case(runs: &[Run]) -> Vec<Cow<'_, [Run]>> {
    if runs.windows(2).all(|two| two[0].case == two[1].case) {
        return vec![Cow::Borrowed(runs)];
    }
    let mut cases: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for run in runs {
        cases.entry(run.case.id()).or_default().push(run.clone());
    }
    cases.into_values().map(Cow::Owned).collect()
}

/// Returns the observation with a note if its process failed only after reporting it.
fn failed_after(mut seen: Observation, cause: &Cause) -> Option<Observation> {
    use Cause::{Exit, Signal, Undone};
    let is_after = match cause {
        Exit { .. } | Signal { .. } | Undone { .. } => true,
        Cause::Stage { stage, .. } => stage.is_after_the_figures(),
        _ => false,
    };
    if !is_after {
        return None;
    }
    seen.notes
        .push(format!("Its process {cause} after reporting this value."));
    Some(seen)
}

/// First checksum of every case, compared with later ones.
#[derive(Debug, Default)]
pub(super) struct Answers(HashMap<String, (String, String)>);

impl Answers {
    /// Records a checksum. Returns the mismatch if it differs from the first.
    pub fn check(&mut self, seen: &Observation, variant: &str) -> Option<Cause> {
        let answer = seen.check.as_ref()?;
        let (first, of) = self
            .0
            .entry(seen.case.id())
            .or_insert_with(|| (answer.clone(), variant.to_owned()));
        (first != answer).then(|| Cause::Invalid {
            reason: format!("computed '{answer}' where '{of}' had computed '{first}'"),
        })
    }
}
