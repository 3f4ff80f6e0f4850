//! The loop over the slots of a plan.

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
    /// Which of the cases that are still open are decided. Each is given by all its finished runs, in order of execution.
    /// A judge remembers what it was shown of the others: cases may be corrected for each other.
    fn decided(&mut self, cases: &[&[Run]]) -> Vec<bool>;

    /// Whether it looks at runs. If not, [`Judge::decided`] is never asked, and nobody keeps runs for it.
    fn looks(&self) -> bool {
        true
    }

    /// Adds figures that follow from others to what a run reported, before it is kept.
    fn complete(&self, _seen: &mut Observation) {}
}

/// What is asked of an execution besides its plan.
#[derive(Default)]
pub struct Orders {
    /// Slots that are done already.
    pub done: BTreeSet<u32>,
    /// The runs of a session that is being resumed.
    pub earlier: Vec<Run>,
    /// Its done slots that gave nothing, neither a run nor a failure. They follow from the others where `earlier` has all runs, and
    /// are needed where it has only those of [`Plan::begun_slots`], for a judge that does not look.
    pub silent: Option<BTreeSet<u32>>,
    /// Its slots that failed.
    pub failed: BTreeSet<u32>,
    /// Stop at the first failure.
    pub fail_fast: bool,
    /// End with the first block that is complete after this time.
    pub budget: Option<Duration>,
}

/// How the execution of a plan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every slot was executed or found unnecessary.
    Complete,
    /// The user ended it.
    Interrupted,
    /// A failure ended it, as asked for.
    Failed,
}

/// Executes the slots of `plan` that are not done yet, in order.
///
/// # Errors
/// An observer could not keep what it was told. Failures of measured programs are not errors.
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
        // A pair is done whole.
        if !orders.done.contains(&slot.index) {
            let stepped = execution.visit(together, &slots[..end], later, orders.fail_fast)?;
            has_news |= stepped.is_some();
            ended = stepped.map_or(Ended::Complete, |stepped| stepped.ended(orders.fail_fast));
        }
        // The last case of a block may have been done before, and others not.
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

/// Failures of one job and variant without any success after which the job is given up: what
/// fails every time needs no more evidence, and a hanging benchmark costs its limit every time.
const GIVE_UP_AFTER: u32 = 2;

/// Runs that tell enough of a snippet whose comparison has come to nothing: as many as have an interval.
const ENOUGH_RUNS: usize = 6;

/// How often a slot is repeated whose runs are disturbed: then its block is lost. A machine that disturbs three runs in a
/// row will disturb the fourth.
const MOST_REPETITIONS: u32 = 2;

/// What came of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stepped {
    Done,
    Failed,
    Interrupted,
}

impl Stepped {
    /// Whether all measuring ends with it.
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
    /// By job: all, or those of its open block.
    runs: HashMap<usize, Vec<Run>>,
    /// Whether anybody looks at runs whose block is over.
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

    /// Takes over the runs of a session that is being resumed, executes what its last block lacks of repetitions, and takes
    /// over its decisions.
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
            // Those of a part of a plan have the numbers that they have in the whole.
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

    /// Whether this slot needs no run: its case is over, or its variant fails every time.
    pub fn is_over(&self, slot: &Slot) -> bool {
        self.over.contains(&slot.job) || self.is_hopeless(slot.job, slot.variant)
    }

    fn is_hopeless(&self, job: usize, variant: usize) -> bool {
        let failed = self.failed.get(&(job, variant));
        failed.is_some_and(|&count| count >= GIVE_UP_AFTER)
    }

    /// As [`Execution::step`]; at the end of a block, slots of it whose run was disturbed are executed again. `so_far` are all
    /// slots up to these.
    fn step_and_repeat(&mut self, together: &[Slot], so_far: &[Slot]) -> anyhow::Result<Stepped> {
        let stepped = self.step(together)?;
        match together.last() {
            Some(last) if last.closes_block => self.repeat(so_far, stepped),
            _ => Ok(stepped),
        }
    }

    /// Executes those slots of the last block of `so_far` again whose run was disturbed, unless they were often enough. What came
    /// of the block so far is `stepped`.
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

    /// Executes slots unless their case is over, and ends their block; what came of it. An end of all measuring leaves the
    /// block open.
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

    /// Tells what services remarked at their end, and what failed then: it belongs to no run. `slot` is the last one that they
    /// were there for.
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

    /// Whether the last run of a slot was put aside, and the slot was executed no more than `most` times.
    fn is_to_be_repeated(&self, slot: &Slot, most: u32) -> bool {
        let runs = self.runs.get(&slot.job).map_or(&[][..], Vec::as_slice);
        let of_block = runs.iter().rev().take_while(|run| run.block == slot.block);
        let mut own = of_block.filter(|run| run.slot == slot.index);
        let Some(last) = own.next() else { return false };
        let earlier = own.filter(|run| run.case == last.case).count();
        last.disturbed.is_some() && earlier < most as usize
    }

    /// Executes one slot, or the two of a pair at the same time.
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

    /// Refuses slots if the code of one of them changed since its first run; whether it did.
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

    /// Hands on what an attempt gave; whether it failed.
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
            // A process that failed after a sound report keeps its sample; one whose report is
            // itself at fault has none.
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
            // What was no process of its own cannot have been disturbed.
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

    /// Tells of metrics that were not seen before.
    fn declare(&mut self, seen: &Observation) -> anyhow::Result<()> {
        for metric in &seen.metrics {
            if self.metrics.insert(metric.name.clone()) {
                self.tell(&Event::Declared(metric))?;
            }
        }
        Ok(())
    }

    /// The open jobs of which every case is decided; a file that starts its cases itself has several.
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

    /// After a block of all cases: which are decided?
    pub fn settle(&mut self, later: &[Slot]) -> anyhow::Result<()> {
        for job in self.decided() {
            self.end(job, later)?;
        }
        Ok(())
    }

    /// After a block of one case: is it hopeless?
    pub fn give_up(&mut self, slot: &Slot, later: &[Slot]) -> anyhow::Result<()> {
        let runs = self.runs.get(&slot.job).map_or(&[][..], Vec::as_slice);
        if self.over.contains(&slot.job) || !self.is_hopeless_case(slot.job, runs) {
            return Ok(());
        }
        self.end(slot.job, later)
    }

    /// Tells that a block is over, unless its case was over before.
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

    /// Whether more runs of a case would tell nothing: a variant fails every time, so that nothing can be compared
    /// with it. Where snippets are compared, the others are of interest by themselves.
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

/// The place of the target's machine among those of the session, where it has one of its own.
fn machine_of(plan: &Plan) -> Option<u32> {
    let placement = plan.design.experiment.as_ref()?.placement.as_ref()?;
    u32::try_from(placement.target).ok()
}

/// The circumstances of one slot.
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

/// The runs of one job by case.
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

/// The observation with a remark, if its process failed only after reporting it.
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

/// The first answer of every case, to compare later ones with.
#[derive(Debug, Default)]
pub(super) struct Answers(HashMap<String, (String, String)>);

impl Answers {
    /// Takes note of an answer; what is wrong if it differs from the first one.
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
