//! The loop that measures a session on other machines: submits work, collects and merges the
//! results, and [recovers from losses](super::loss).
//!
//! Spools are authoritative, engine status is a hint. Only complete blocks are merged. A shard is
//! done when one of its attempts completes. Start at [`Coordinator::run`].

use super::doubles::Doubles;
use super::order::{Order, order_of, slots_of, spool_of, stop_of};
use super::stream::{Source, Stream};
use super::waiting::{Queue, Rhythm};
use crate::Listener;
use speedwell_analysis::Settings;
use speedwell_fleet::{Engine, FleetMachine, JobId, JobState, Task, Work};
use speedwell_harness::plan::{Parcel, Plan};
use speedwell_model::Event;
use speedwell_process::interrupted;
use speedwell_results::spool::{self, Delivered, SpoolReader};
use speedwell_results::store::{BlockOrigin, Merged, Merger, ParcelState, StoredParcel};
use speedwell_runner::Ended;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Poll interval of the spools while waiting for their end.
const LOOK: Duration = Duration::from_millis(50);
/// How long idle jobs may take to exit before they are canceled.
const SOON: Duration = Duration::from_secs(2);
/// How long workers may take to finish their current block.
const PATIENCE: Duration = Duration::from_secs(10);

/// A session that other machines measure.
pub(super) struct Coordinator<'a, 's, 'l> {
    pub engine: &'a mut Engine,
    pub merger: &'a mut Merger<'s>,
    pub listener: &'a mut Listener<'l>,
    pub plan: &'a Plan,
    pub settings: &'a Settings,
    /// ID of the session.
    pub session: String,
    pub machines: Vec<Machine>,
    pub parcels: Vec<StoredParcel>,
    pub attempts: Vec<Attempt>,
    /// Replaced attempts whose workers may still be alive.
    pub doubles: Doubles,
    pub streams: Vec<Stream>,
    /// All submitted jobs.
    pub jobs: BTreeSet<JobId>,
    /// Number of the next task.
    pub tasks: u32,
    /// Failed attempts at each shard since this coordinator started.
    pub tries: Vec<u32>,
    /// How the workers are attached to this process.
    pub manner: Manner,
}

/// How workers are attached to their coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// They end with the coordinator, if the engine supports it.
    Held,
    /// They are independent; the coordinator exits once it has handed out the work.
    Leaving,
    /// They are independent, but the coordinator follows their progress.
    Following,
}

/// A machine of the session, stored at its index in the session.
pub(super) struct Machine {
    pub known: FleetMachine,
    /// Folders of the session and of the bundle there.
    pub folder: PathBuf,
    pub bundle: PathBuf,
    /// Whether its folder is directly accessible from here.
    pub is_shared: bool,
    /// Consecutive attempts that ended without a block.
    pub failures: u32,
}

/// An attempt that has not been settled.
pub(super) struct Attempt {
    pub place: u32,
    pub origin: BlockOrigin,
    pub job: JobId,
    pub reader: SpoolReader,
    pub source: Source,
    pub has_begun: bool,
    /// Whether an earlier coordinator started it; then its end says nothing about the machine.
    pub is_taken_up: bool,
    pub blocks: u32,
    /// Early-stopping decisions based on blocks that another attempt delivered. They count only if
    /// this attempt completes its shard.
    pub decisions: Vec<(u32, usize)>,
    /// How it ended, once it has.
    pub over: Option<Over>,
    /// Whether its spool contains the end record.
    pub has_ended: bool,
}

pub(super) enum Over {
    Whole,
    Short(String),
}

impl Coordinator<'_, '_, '_> {
    /// Runs until all shards are done or lost, or the user interrupts.
    ///
    /// # Errors
    /// Fails if the store cannot be written or the engine rejects work.
    pub fn run(&mut self) -> anyhow::Result<Ended> {
        let mut rhythm = Rhythm::new(Instant::now(), self.engine.pause());
        let mut queue = Queue::default();
        loop {
            if self.submit()? {
                rhythm.handed_out(Instant::now());
            }
            if self.parcels.iter().all(|parcel| is_over(parcel.state)) {
                self.free_machines();
                return Ok(Ended::Complete);
            }
            let mut has_news = self.collect()?;
            if interrupted() {
                if self.manner == Manner::Held {
                    self.stop(PATIENCE)?;
                }
                return Ok(Ended::Interrupted);
            }
            if rhythm.asks(Instant::now()) {
                has_news |= self.look_after(&mut queue)?;
            }
            self.settle()?;
            let now = Instant::now();
            if has_news {
                rhythm.heard(now);
            } else {
                thread::sleep(rhythm.pause(now));
            }
        }
    }

    /// Waits briefly for the jobs to exit and cancels the rest. Jobs exit by themselves unless
    /// their supervisor has died; they would then hold their machines until someone else canceled
    /// them.
    fn free_machines(&mut self) {
        let mut jobs: Vec<JobId> = std::mem::take(&mut self.jobs).into_iter().collect();
        let begin = Instant::now();
        while !jobs.is_empty() && self.engine.has_queue() {
            // Everything is measured, so a failed query does not matter.
            let Ok(states) = self.engine.state(&jobs) else {
                return;
            };
            let mut states = states.into_iter();
            jobs.retain(|_| !matches!(states.next(), Some(JobState::Ended(_)) | None));
            if begin.elapsed() > SOON {
                let _ = self.engine.cancel(&jobs);
                return;
            }
            thread::sleep(LOOK);
        }
    }

    /// Hands out the waiting shards; returns whether there were any.
    pub fn submit(&mut self) -> anyhow::Result<bool> {
        let mut has_any = false;
        for machine in 0..self.machines.len() {
            let waiting = |parcel: &StoredParcel| {
                parcel.state == ParcelState::Waiting && parcel.machine as usize == machine
            };
            let places = (0..)
                .zip(&self.parcels)
                .filter(|(_, parcel)| waiting(parcel));
            let places: Vec<u32> = places.map(|(place, _)| place).collect();
            if !places.is_empty() {
                self.submit_to(machine, &places)?;
                has_any = true;
            }
        }
        Ok(has_any)
    }

    fn submit_to(&mut self, machine: usize, places: &[u32]) -> anyhow::Result<()> {
        let mut work = Work {
            machine: self.machines[machine].known.name.clone(),
            folder: self.machines[machine].folder.clone(),
            tasks: Vec::new(),
            is_detached: self.manner != Manner::Held,
        };
        for &place in places {
            let order = serde_json::to_string(&self.order(place)?)?;
            let number = self.tasks;
            self.tasks += 1;
            if self.machines[machine].is_shared {
                let file = order_of(&work.folder, number);
                if let Err(error) = fs::write(&file, &order) {
                    let reason = format!("cannot write '{}': {error}", file.display());
                    return self.leave(machine, places, &reason);
                }
            }
            work.tasks.push(Task { number, order });
        }
        let submitted = self.engine.submit(&work)?;
        let mut lines = submitted.lines;
        if self.manner == Manner::Following {
            let spools: Vec<String> = places.iter().map(|&place| self.spool_name(place)).collect();
            let name = &self.machines[machine].known.name;
            let of = (&submitted.job, spools.as_slice());
            let line = self.engine.take_up(name, &work.folder, of, true)?;
            lines = line.or(lines);
        }
        let lines = lines.map(Stream::new);
        let has_line = lines.is_some();
        self.streams.extend(lines);
        for &place in places {
            let parcel = &mut self.parcels[place as usize];
            parcel.state = ParcelState::Sent;
            parcel.engine_id = Some(submitted.job.0.clone());
            self.merger.set_parcel(place, parcel)?;
            let parcel = self.parcels[place as usize].clone();
            let source = if has_line {
                Source::Stream
            } else {
                Source::file(spool_of(&work.folder, place, parcel.attempt))
            };
            self.follow(place, submitted.job.clone(), source, false)?;
        }
        Ok(())
    }

    /// Name of the spool of a shard's latest attempt, as used over a connection.
    pub fn spool_name(&self, place: u32) -> String {
        format!("{place}.{}", self.parcels[place as usize].attempt)
    }

    /// Collects what is available and describes the state of the unfinished shards. Does not hand
    /// out work.
    ///
    /// # Errors
    /// Fails if the store cannot be written or the engine does not answer.
    pub fn look(&mut self) -> anyhow::Result<(Ended, Vec<(u32, String)>)> {
        while self.collect()? || !self.streams.iter().all(Stream::has_ended) {
            thread::sleep(LOOK);
        }
        let mut said = Vec::new();
        let jobs: Vec<JobId> = self.attempts.iter().map(|one| one.job.clone()).collect();
        let states = if jobs.is_empty() {
            Vec::new()
        } else {
            self.engine.state(&jobs)?
        };
        for (attempt, state) in std::mem::take(&mut self.attempts).into_iter().zip(states) {
            let text = match (attempt.over, state) {
                (Some(Over::Whole), _) => {
                    self.parcels[attempt.place as usize].state = ParcelState::Done;
                    let parcel = &self.parcels[attempt.place as usize];
                    self.merger.set_parcel(attempt.place, parcel)?;
                    continue;
                }
                (Some(Over::Short(reason)), _) => format!("ended too soon: {reason}"),
                (None, JobState::Running) => "measures".to_owned(),
                (None, JobState::Waiting(reason)) => format!("waits: {reason}"),
                (None, JobState::Ended(reason)) => {
                    let reason = reason.unwrap_or_else(|| "without a word".to_owned());
                    format!("ended too soon: {reason}")
                }
            };
            said.push((attempt.place, text));
        }
        let is_whole = self.parcels.iter().all(|parcel| is_over(parcel.state));
        let ended = if is_whole {
            Ended::Complete
        } else {
            Ended::Interrupted
        };
        Ok((ended, said))
    }

    /// Starts reading the spool of a shard's latest attempt.
    pub fn follow(
        &mut self,
        place: u32,
        job: JobId,
        source: Source,
        is_taken_up: bool,
    ) -> anyhow::Result<()> {
        let parcel = &self.parcels[place as usize];
        let reader = SpoolReader::new(slots_of(&self.plan.part(&parcel_of(parcel))?));
        self.jobs.insert(job.clone());
        self.attempts.push(Attempt {
            place,
            origin: BlockOrigin {
                machine: parcel.machine,
                parcel: place,
                attempt: parcel.attempt,
            },
            job,
            reader,
            source,
            has_begun: false,
            is_taken_up,
            blocks: 0,
            decisions: Vec::new(),
            over: None,
            has_ended: false,
        });
        Ok(())
    }

    /// Builds the request for the next attempt at a shard, which skips everything already stored.
    fn order(&self, place: u32) -> anyhow::Result<Order> {
        let parcel = &self.parcels[place as usize];
        let machine = &self.machines[parcel.machine as usize];
        let wanted = parcel_of(parcel);
        let part = self.plan.part(&wanted)?;
        let own: BTreeSet<u32> = part.slots().iter().map(|slot| slot.index).collect();
        let store = self.merger.store();
        let done = store.finished_slots(self.merger.number())?;
        let done: BTreeSet<u32> = done.intersection(&own).copied().collect();
        let mut known = (Vec::new(), BTreeSet::new());
        if !done.is_empty() {
            let number = self.merger.number();
            known.0 = store.runs_of_slots(number, &done)?;
            let session = store.session_without_runs(number)?;
            let failed = session.failures.iter().filter_map(|failure| failure.slot);
            known.1 = failed.filter(|slot| done.contains(slot)).collect();
        }
        Ok(Order {
            session: self.session.clone(),
            bundle: machine.bundle.clone(),
            place,
            attempt: parcel.attempt,
            machine: machine.known.name.clone(),
            labels: machine.known.labels.clone(),
            parcel: wanted,
            done,
            failed: known.1,
            earlier: spool::lines_of_runs(&known.0)?,
            settings: self.settings.clone(),
        })
    }

    /// Reads all new spool data; returns whether there was any.
    pub fn collect(&mut self) -> anyhow::Result<bool> {
        let mut has_news = false;
        for stream in 0..self.streams.len() {
            for (whose, line) in self.streams[stream].lines() {
                let own =
                    |attempt: &Attempt| (attempt.origin.parcel, attempt.origin.attempt) == whose;
                if let Some(at) = self.attempts.iter().position(own) {
                    self.feed(at, &line)?;
                    has_news = true;
                }
            }
        }
        for at in 0..self.attempts.len() {
            let bytes = self.attempts[at].source.read()?;
            if !bytes.is_empty() {
                self.feed(at, &bytes)?;
                has_news = true;
            }
        }
        self.refuse_doubles()?;
        Ok(has_news)
    }

    /// Warns about rejected blocks from stale attempts.
    fn refuse_doubles(&mut self) -> anyhow::Result<()> {
        let (store, number) = (self.merger.store(), self.merger.number());
        let kept = |slots: &BTreeSet<u32>| store.runs_of_slots(number, slots);
        for (origin, block) in self.doubles.refused(kept)? {
            let name = &self.machines[origin.machine as usize].known.name;
            let sentence = format!(
                "Block {} of case {} came from {name} by attempt {} after another one had taken over: it is refused.",
                block.block, block.job, origin.attempt
            );
            self.warn(&sentence)?;
        }
        Ok(())
    }

    fn feed(&mut self, at: usize, bytes: &[u8]) -> anyhow::Result<()> {
        for delivered in self.attempts[at].reader.feed(bytes) {
            self.take(at, delivered)?;
        }
        Ok(())
    }

    fn take(&mut self, at: usize, delivered: Delivered) -> anyhow::Result<()> {
        let origin = self.attempts[at].origin;
        let name = self.machines[origin.machine as usize].known.name.clone();
        match delivered {
            Delivered::Header(header) => {
                let whose = (header.session.as_str(), header.parcel, header.attempt);
                if whose != (self.session.as_str(), origin.parcel, origin.attempt) {
                    self.warn(&format!("{name} sends what belongs to another session"))?;
                    return Ok(());
                }
                self.attempts[at].has_begun = true;
                let alone = self.machines.len() == 1;
                self.merger
                    .set_machine(origin.machine, &header.machine, alone)?;
                let parcel = &mut self.parcels[origin.parcel as usize];
                parcel.state = ParcelState::Running;
                self.merger.set_parcel(origin.parcel, parcel)?;
            }
            Delivered::Block(block) => {
                let merged = self.merger.merge(origin, &block)?;
                self.attempts[at].blocks += 1;
                self.machines[origin.machine as usize].failures = 0;
                match merged {
                    Merged::New => self.tell_of(&block)?,
                    Merged::Known => {}
                    Merged::Refused(earlier) => self.warn(&format!(
                        "Block {} of case {} came from {name} by attempt {} after attempt {} had brought it: it is \
                         refused.",
                        block.block, block.job, origin.attempt, earlier.attempt
                    ))?,
                }
            }
            Delivered::Decided { job, after, saved } => {
                if !self.decide(origin, (job, after), saved)? {
                    self.attempts[at].decisions.push((job, saved));
                }
            }
            Delivered::Warning(sentence) => self.warn(&format!("{name}: {sentence}"))?,
            Delivered::LeftOut(reason) => self.warn(&format!("{name}: {reason}"))?,
            Delivered::Ended(ending, is_whole) => {
                let over = match ending.reason {
                    None if is_whole => Over::Whole,
                    None => Over::Short("a block or a decision of it is damaged".to_owned()),
                    Some(reason) => Over::Short(reason),
                };
                if matches!(over, Over::Whole) {
                    for (job, saved) in std::mem::take(&mut self.attempts[at].decisions) {
                        self.decide(origin, (job, None), saved)?;
                    }
                }
                self.attempts[at].over = Some(over);
                self.attempts[at].has_ended = true;
            }
        }
        Ok(())
    }

    /// Records that a case needs no more runs; returns whether the block behind this decision came
    /// from the attempt.
    fn decide(
        &mut self,
        origin: BlockOrigin,
        (job, after): (u32, Option<u32>),
        saved: usize,
    ) -> anyhow::Result<bool> {
        let Some(known) = self.plan.jobs.get(job as usize) else {
            return Ok(true);
        };
        let label = &known.label;
        let is_decided = self.merger.decide(origin, (job, after), label, saved)?;
        if is_decided {
            self.listener
                .observe(&Event::CaseDecided { label, saved })?;
        }
        Ok(is_decided)
    }

    pub fn warn(&mut self, sentence: &str) -> anyhow::Result<()> {
        self.listener.observe(&Event::Warning(sentence))
    }

    /// Reports a merged block as if it had been measured here.
    fn tell_of(&mut self, block: &spool::Block) -> anyhow::Result<()> {
        for run in &block.runs {
            self.listener.observe(&Event::RunFinished(run))?;
        }
        for failure in &block.failures {
            self.listener.observe(&Event::Failed(failure))?;
        }
        self.listener.observe(&Event::SlotsDone(&block.slots))
    }

    /// Queries the engine about the jobs, reports why some have not started, and ends attempts
    /// whose worker is gone; returns whether there was news.
    fn look_after(&mut self, queue: &mut Queue) -> anyhow::Result<bool> {
        let mut jobs: Vec<JobId> = self.attempts.iter().map(|one| one.job.clone()).collect();
        jobs.sort();
        jobs.dedup();
        if jobs.is_empty() {
            return Ok(false);
        }
        let states = match self.engine.state(&jobs) {
            Ok(states) => states,
            Err(error) => {
                // It may recover, and the workers' results are not lost.
                self.warn(&format!("The engine does not answer: {error:#}"))?;
                return Ok(false);
            }
        };
        let mut has_news = false;
        let mut waiting: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (job, state) in jobs.iter().zip(states) {
            let reason = match state {
                JobState::Ended(reason) => reason,
                JobState::Running => continue,
                JobState::Waiting(reason) => {
                    waiting
                        .entry(reason)
                        .or_default()
                        .push(self.machine_of(job));
                    continue;
                }
            };
            // Its last output may not have been read yet.
            has_news |= self.collect()?;
            let reason = reason.unwrap_or_else(|| "the worker ended without a word".to_owned());
            let own = self.attempts.iter_mut().filter(|one| one.job == *job);
            for attempt in own.filter(|attempt| attempt.over.is_none()) {
                attempt.over = Some(Over::Short(reason.clone()));
                has_news = true;
            }
        }
        if let Some(machines) = queue.hear(&waiting) {
            let sentence = format!("waiting in the queue of Slurm: {machines}");
            self.listener.observe(&Event::Waiting(&sentence))?;
        }
        Ok(has_news)
    }

    fn machine_of(&self, job: &JobId) -> String {
        let own = self.attempts.iter().find(|attempt| attempt.job == *job);
        own.map_or_else(String::new, |attempt| {
            self.machines[attempt.origin.machine as usize]
                .known
                .name
                .clone()
        })
    }

    /// Asks workers to stop after their current block where possible, then cancels the jobs and
    /// collects their results.
    ///
    /// # Errors
    /// Fails if the engine does not answer or the store cannot be written.
    pub fn stop(&mut self, patience: Duration) -> anyhow::Result<()> {
        for machine in self.machines.iter().filter(|machine| machine.is_shared) {
            // Workers that cannot be notified are canceled below.
            let _ = fs::write(stop_of(&machine.folder), "");
        }
        let jobs: Vec<JobId> = self.attempts.iter().map(|one| one.job.clone()).collect();
        let begun = Instant::now();
        while begun.elapsed() < patience && self.is_any_shared_open()? {
            thread::sleep(LOOK);
        }
        self.engine.cancel(&jobs)?;
        let begun = Instant::now();
        while self.collect()?
            || (begun.elapsed() < Duration::from_secs(2)
                && !self.streams.iter().all(Stream::has_ended))
        {
            thread::sleep(LOOK);
        }
        self.free_parcels()
    }

    /// Marks in-flight work as unassigned, so that a resumed session retries it.
    fn free_parcels(&mut self) -> anyhow::Result<()> {
        for attempt in std::mem::take(&mut self.attempts) {
            let is_whole = matches!(attempt.over, Some(Over::Whole));
            if !is_whole {
                self.replace(attempt.origin);
            }
            let parcel = &mut self.parcels[attempt.place as usize];
            if is_whole {
                parcel.state = ParcelState::Done;
            } else {
                parcel.state = ParcelState::Waiting;
                parcel.attempt += 1;
            }
            self.merger.set_parcel(attempt.place, parcel)?;
        }
        Ok(())
    }

    fn is_any_shared_open(&mut self) -> anyhow::Result<bool> {
        self.collect()?;
        let machines = &self.machines;
        let is_open = |one: &Attempt| {
            one.has_begun && one.over.is_none() && machines[one.origin.machine as usize].is_shared
        };
        Ok(self.attempts.iter().any(is_open))
    }
}

pub(super) fn is_over(state: ParcelState) -> bool {
    matches!(state, ParcelState::Done | ParcelState::Lost)
}

/// The part of the plan that a shard covers.
pub(super) fn parcel_of(parcel: &StoredParcel) -> Parcel {
    Parcel {
        jobs: parcel.jobs.clone(),
        stratum: parcel.stratum,
    }
}
