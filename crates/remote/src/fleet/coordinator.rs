//! Runs the loop that measures a session on other machines: submits work, collects and merges the
//! results, and [recovers from losses](FleetCoordinator::settle_attempts): retries a shard, moves it
//! to another machine or gives it up.
//!
//! A shard is a part of the plan for one machine. It is done when one of its attempts completes. An
//! attempt writes its results to a spool, which is a file or a stream. Only complete blocks are
//! merged. The spools are authoritative. The job status that the engine (Slurm, for example)
//! reports is only a hint. Start at [`FleetCoordinator::run`].

use super::attempt::{
    ShardRequest, SpoolFile, SpoolStream, StaleAttempts, attempt_spool_path, expected_slots,
    replaced_marker, request_path, stop_marker,
};
use super::polling::{MAX_SPOOL_INTERVAL, MIN_SPOOL_INTERVAL, PollBackoff, WaitingReport};
use crate::machines::{FleetEngine, FleetMachine, JobId, JobState, ShardTask, TaskBatch};
use anyhow::{Result, ensure};
use speedwell_adapters::plan::{PlanShard, PlanSlot, SessionPlan};
use speedwell_analysis::AnalysisSettings;
use speedwell_engine::EventListener;
use speedwell_engine::execution::SessionEnd;
use speedwell_formats::spool::{self, SpoolItem, SpoolReader};
use speedwell_machine::process::is_interrupt_requested;
use speedwell_model::{FailureCause, SessionEvent, SessionStep, StepFailure};
use speedwell_store::{BlockOrigin, MergeOutcome, SessionRecorder, ShardState, StoredShard};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Time that idle jobs may take to exit before they are canceled.
const JOB_EXIT_GRACE: Duration = Duration::from_secs(2);
/// Time that workers may take to finish their current block.
const BLOCK_GRACE: Duration = Duration::from_secs(10);
/// Number of failed attempts on one machine after which a shard is given up.
const MAX_ATTEMPTS: u32 = 3;
/// Number of consecutive attempts without a completed block after which a machine gets no more
/// work.
const MAX_MACHINE_FAILURES: u32 = 2;

/// A session that other machines measure.
pub(super) struct FleetCoordinator<'a, 's, 'l> {
    pub engine: FleetEngine,
    pub merger: SessionRecorder<'s>,
    pub listener: &'a mut EventListener<'l>,
    pub plan: &'a SessionPlan,
    pub settings: &'a AnalysisSettings,
    /// ID of the session.
    pub session: String,
    pub machines: Vec<WorkerMachine>,
    pub shards: Vec<StoredShard>,
    pub attempts: Vec<ShardAttempt>,
    /// Replaced attempts, whose workers may be alive.
    pub stale: StaleAttempts,
    pub streams: Vec<SpoolStream>,
    /// All submitted jobs.
    pub jobs: BTreeSet<JobId>,
    /// Number of the next task.
    pub next_task: u32,
    /// Number of failed attempts at each shard on its current machine, since this coordinator
    /// started.
    pub failed_attempts: Vec<u32>,
    /// How the workers are attached to this process.
    pub attachment: Attachment,
}

/// What to do with a session that other machines measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetachedAction {
    /// Collect results; the workers continue.
    Report,
    /// Collect results until everything is measured, and retry when a worker is lost.
    Wait,
    /// Stop the workers and collect their results.
    Cancel,
}

/// How workers are attached to their coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attachment {
    /// The workers end with the coordinator, if the engine supports that.
    Attached,
    /// The workers are independent of the coordinator, which exits after handing out the work.
    Detached,
    /// The workers are independent of the coordinator, which collects their results.
    Watching(DetachedAction),
}

/// A machine of the session. Its index in [`FleetCoordinator::machines`] is also its index in the
/// stored session.
pub(super) struct WorkerMachine {
    pub fleet_machine: FleetMachine,
    /// Folder of the session on the machine.
    pub folder: PathBuf,
    /// Folder of the bundle on the machine.
    pub bundle: PathBuf,
    /// Whether the coordinator can access the folder directly.
    pub is_shared: bool,
    /// Number of consecutive attempts that ended without delivering a block.
    pub failures: u32,
}

/// An attempt to measure a shard. An attempt stays in [`FleetCoordinator::attempts`] until it is
/// settled.
pub(super) struct ShardAttempt {
    pub origin: BlockOrigin,
    pub job: JobId,
    pub reader: SpoolReader,
    /// Where the spool is read; `None` for a [`SpoolStream`], which several attempts share.
    pub file: Option<SpoolFile>,
    pub has_begun: bool,
    /// Whether an earlier coordinator started this attempt. The end of such an attempt says nothing
    /// about the machine.
    pub is_resumed: bool,
    pub blocks: u32,
    /// Early-stopping decisions based on blocks that another attempt delivered. These decisions are
    /// recorded only if this attempt completes its shard.
    pub decisions: Vec<(u32, usize)>,
    /// Whether the attempt completed its shard, or why it failed; `None` before its end.
    pub end: Option<Result<(), String>>,
    /// Whether the spool of the attempt contains the end record.
    pub has_ended: bool,
}

impl FleetCoordinator<'_, '_, '_> {
    /// Runs until all shards are done or lost, or the user interrupts.
    ///
    /// # Errors
    /// Fails if the store cannot be written or the engine rejects work.
    pub fn run(&mut self) -> Result<SessionEnd> {
        let mut backoff = PollBackoff::new(Instant::now(), self.engine.max_poll_interval());
        let mut waiting_report = WaitingReport::default();
        loop {
            if self.submit()? {
                backoff = PollBackoff::new(Instant::now(), backoff.max_pause);
            }
            if self.shards.iter().all(|stored| is_settled(stored.state)) {
                self.free_machines();
                return Ok(SessionEnd::Complete);
            }
            let mut has_news = self.collect_spools()?;
            if is_interrupt_requested() {
                if self.attachment == Attachment::Attached {
                    self.stop_workers(BLOCK_GRACE)?;
                }
                return Ok(SessionEnd::Interrupted);
            }
            if backoff.is_query_due(Instant::now()) {
                has_news |= self.poll_jobs(&mut waiting_report)?;
            }
            self.settle_attempts()?;
            let now = Instant::now();
            if has_news {
                backoff.last_news = now;
            } else {
                thread::sleep(backoff.time_to_next_poll(now));
            }
        }
    }

    /// If the engine has a queue, waits briefly for the jobs to exit and cancels the rest. A job
    /// exits by itself unless the daemon that supervises it (slurmstepd) has died. Without its
    /// daemon, the job occupies its machine until it is canceled.
    fn free_machines(&mut self) {
        let mut jobs: Vec<JobId> = std::mem::take(&mut self.jobs).into_iter().collect();
        let (begin, mut pause) = (Instant::now(), MIN_SPOOL_INTERVAL);
        while !jobs.is_empty() && self.engine.has_queue() {
            // Everything is measured, so a failed query does not matter.
            let Ok(states) = self.engine.job_states(&jobs) else {
                return;
            };
            let mut job_states = states.into_iter();
            jobs.retain(|_| !matches!(job_states.next(), Some(JobState::Ended(_)) | None));
            if begin.elapsed() > JOB_EXIT_GRACE {
                let _ = self.engine.cancel_jobs(&jobs);
                return;
            }
            // Each query starts a program and burdens the controller.
            thread::sleep(pause);
            pause = (pause * 2).min(MAX_SPOOL_INTERVAL);
        }
    }

    /// Hands out the waiting shards. Returns whether there were any.
    pub fn submit(&mut self) -> Result<bool> {
        let mut has_submitted = false;
        for machine in 0..self.machines.len() {
            let waiting = (0..).zip(&self.shards).filter(|(_, stored)| {
                stored.state == ShardState::Waiting && stored.machine as usize == machine
            });
            let shards: Vec<u32> = waiting.map(|(shard, _)| shard).collect();
            if !shards.is_empty() {
                self.submit_to(machine, &shards)?;
                has_submitted = true;
            }
        }
        Ok(has_submitted)
    }

    fn submit_to(&mut self, machine: usize, shards: &[u32]) -> Result<()> {
        let mut batch = TaskBatch {
            machine: self.machines[machine].fleet_machine.name.clone(),
            folder: self.machines[machine].folder.clone(),
            tasks: Vec::new(),
            is_detached: self.attachment != Attachment::Attached,
        };
        for &shard in shards {
            let request = serde_json::to_string(&self.build_request(shard)?)?;
            let number = self.next_task;
            self.next_task += 1;
            if self.machines[machine].is_shared {
                let file = request_path(&batch.folder, number);
                if let Err(error) = fs::write(&file, &request) {
                    let reason = format!("cannot write '{}': {error}", file.display());
                    return self.abandon_machine(machine, shards, &reason);
                }
            }
            batch.tasks.push(ShardTask { number, request });
        }
        let submitted = self.engine.submit(&batch)?;
        let mut output = submitted.lines;
        if matches!(self.attachment, Attachment::Watching(_)) {
            let spools: Vec<String> = shards.iter().map(|&shard| self.spool_name(shard)).collect();
            let name = &self.machines[machine].fleet_machine.name;
            let job_spools = (&submitted.job, spools.as_slice());
            output = self.engine.reconnect_job(name, &batch.folder, job_spools, true)?.or(output);
        }
        let stream = output.map(SpoolStream::new);
        let is_streamed = stream.is_some();
        self.streams.extend(stream);
        for &shard in shards {
            self.shards[shard as usize].engine_id = Some(submitted.job.0.clone());
            self.set_state(shard, ShardState::Sent)?;
            let folder = (!is_streamed).then_some(&*batch.folder);
            self.follow_spool(shard, submitted.job.clone(), folder, false)?;
        }
        Ok(())
    }

    /// Sets the state of a shard, here and in the store.
    pub fn set_state(&mut self, shard: u32, state: ShardState) -> Result<()> {
        let stored = &mut self.shards[shard as usize];
        stored.state = state;
        self.merger.set_shard(shard, stored)
    }

    /// Name of the spool of a shard's latest attempt, for use over a connection.
    pub fn spool_name(&self, shard: u32) -> String {
        format!("{shard}.{}", self.shards[shard as usize].attempt)
    }

    /// Collects available results and describes the state of the unfinished shards. Hands out no
    /// work.
    ///
    /// # Errors
    /// Fails if the store cannot be written or the engine does not answer.
    pub fn collect_status(&mut self) -> Result<(SessionEnd, Vec<(u32, String)>)> {
        while self.collect_spools()? || !self.streams.iter().all(|stream| stream.has_ended) {
            thread::sleep(MIN_SPOOL_INTERVAL);
        }
        let mut statuses = Vec::new();
        let jobs: Vec<JobId> = self.attempts.iter().map(|attempt| attempt.job.clone()).collect();
        let states = if jobs.is_empty() { Vec::new() } else { self.engine.job_states(&jobs)? };
        for (attempt, state) in std::mem::take(&mut self.attempts).into_iter().zip(states) {
            let text = match (attempt.end, state) {
                (Some(Ok(())), _) => {
                    self.set_state(attempt.origin.shard, ShardState::Done)?;
                    continue;
                }
                (Some(Err(reason)), _) => format!("ended early: {reason}"),
                (None, JobState::Running) => "measuring".to_owned(),
                (None, JobState::Waiting(reason)) => format!("waiting: {reason}"),
                (None, JobState::Ended(reason)) => {
                    format!("ended early: {}", reason.as_deref().unwrap_or("no reason given"))
                }
            };
            statuses.push((attempt.origin.shard, text));
        }
        let is_settled_completely = self.shards.iter().all(|stored| is_settled(stored.state));
        let ended =
            if is_settled_completely { SessionEnd::Complete } else { SessionEnd::Interrupted };
        Ok((ended, statuses))
    }

    /// Starts reading the spool of a shard's latest attempt, from a file in a session's `folder` or,
    /// without a folder, from a stream.
    pub fn follow_spool(
        &mut self,
        shard: u32,
        job: JobId,
        folder: Option<&Path>,
        is_resumed: bool,
    ) -> Result<()> {
        let stored = &self.shards[shard as usize];
        let reader = SpoolReader::new(expected_slots(&self.plan.extract_shard(&to_shard(stored))?));
        let path = folder.map(|folder| attempt_spool_path(folder, shard, stored.attempt));
        self.jobs.insert(job.clone());
        self.attempts.push(ShardAttempt {
            origin: BlockOrigin { machine: stored.machine, shard, attempt: stored.attempt },
            job,
            reader,
            file: path.map(|path| SpoolFile { path, read: 0 }),
            has_begun: false,
            is_resumed,
            blocks: 0,
            decisions: Vec::new(),
            end: None,
            has_ended: false,
        });
        Ok(())
    }

    /// Builds the request for the next attempt at a shard. The attempt skips everything already
    /// stored.
    fn build_request(&self, shard: u32) -> Result<ShardRequest> {
        let stored = &self.shards[shard as usize];
        let machine = &self.machines[stored.machine as usize];
        let plan_shard = to_shard(stored);
        let part = self.plan.extract_shard(&plan_shard)?;
        let (store, number) = (self.merger.store(), self.merger.number());
        let stored_slots = store.finished_slots(number)?;
        let slots = part.slots().into_iter().map(|slot| slot.index);
        let finished: BTreeSet<u32> = slots.filter(|slot| stored_slots.contains(slot)).collect();
        let (mut runs, mut failed) = (Vec::new(), BTreeSet::new());
        if !finished.is_empty() {
            runs = store.load_slot_runs(number, &finished)?;
            let session = store.load_session_without_runs(number)?;
            let failed_slots = session.failures.iter().filter_map(|failure| failure.slot);
            failed = failed_slots.filter(|slot| finished.contains(slot)).collect();
        }
        Ok(ShardRequest {
            session: self.session.clone(),
            bundle: machine.bundle.clone(),
            number: shard,
            attempt: stored.attempt,
            machine: machine.fleet_machine.name.clone(),
            labels: machine.fleet_machine.labels.clone(),
            shard: plan_shard,
            done: finished,
            failed,
            earlier: spool::serialize_runs(&runs)?,
            settings: self.settings.clone(),
        })
    }

    /// Reads all new spool data. Returns whether there was any.
    pub fn collect_spools(&mut self) -> Result<bool> {
        let mut has_news = false;
        for stream in 0..self.streams.len() {
            for (spool_id, line) in self.streams[stream].lines() {
                let is_source = |attempt: &ShardAttempt| {
                    (attempt.origin.shard, attempt.origin.attempt) == spool_id
                };
                if let Some(attempt) = self.attempts.iter().position(is_source) {
                    self.feed_spool(attempt, &line)?;
                    has_news = true;
                }
            }
        }
        for attempt in 0..self.attempts.len() {
            let file = self.attempts[attempt].file.as_mut();
            let bytes = file.map(SpoolFile::read).transpose()?.unwrap_or_default();
            if !bytes.is_empty() {
                self.feed_spool(attempt, &bytes)?;
                has_news = true;
            }
        }
        // Warn about rejected blocks from stale attempts.
        let (store, number) = (self.merger.store(), self.merger.number());
        let stored_runs = |slots: &BTreeSet<u32>| store.load_slot_runs(number, slots);
        for (origin, block) in self.stale.take_rejected(stored_runs)? {
            let name = &self.machines[origin.machine as usize].fleet_machine.name;
            let sentence = format!(
                "Rejected block {} of case {} from {name}: attempt {} had been replaced by another \
                 one.",
                block.block, block.job, origin.attempt
            );
            self.warn(&sentence)?;
        }
        Ok(has_news)
    }

    fn feed_spool(&mut self, attempt: usize, bytes: &[u8]) -> Result<()> {
        let mut items = self.attempts[attempt].reader.decode(bytes).into_iter();
        items.try_for_each(|item| self.handle_delivery(attempt, item))
    }

    fn handle_delivery(&mut self, attempt: usize, item: SpoolItem) -> Result<()> {
        let origin = self.attempts[attempt].origin;
        let name = self.machines[origin.machine as usize].fleet_machine.name.clone();
        match item {
            SpoolItem::Header(header) => {
                let spool_id = (header.session.as_str(), header.shard, header.attempt);
                if spool_id != (self.session.as_str(), origin.shard, origin.attempt) {
                    self.warn(&format!("{name} sent results of another session"))?;
                    return Ok(());
                }
                self.attempts[attempt].has_begun = true;
                let is_only_machine = self.machines.len() == 1;
                self.merger.set_machine(origin.machine, &header.machine, is_only_machine)?;
                self.set_state(origin.shard, ShardState::Running)?;
            }
            SpoolItem::Block(block) => {
                let merged = self.merger.merge_block(origin, &block)?;
                self.attempts[attempt].blocks += 1;
                self.machines[origin.machine as usize].failures = 0;
                match merged {
                    MergeOutcome::New => self.emit_block(&block)?,
                    MergeOutcome::Known => {}
                    MergeOutcome::Refused(earlier) => self.warn(&format!(
                        "Rejected block {} of case {} from {name}: attempt {} delivered it after \
                         attempt {}.",
                        block.block, block.job, origin.attempt, earlier.attempt
                    ))?,
                }
            }
            SpoolItem::Decided { job, after, saved } => {
                if !self.record_decision(origin, (job, after), saved)? {
                    self.attempts[attempt].decisions.push((job, saved));
                }
            }
            SpoolItem::Warning(sentence) => self.warn(&format!("{name}: {sentence}"))?,
            SpoolItem::LeftOut(reason) => self.warn(&format!("{name}: {reason}"))?,
            SpoolItem::Ended(ending, is_whole) => {
                let outcome = match ending.reason {
                    None if is_whole => Ok(()),
                    None => Err("a block or decision in its spool is damaged".to_owned()),
                    Some(reason) => Err(reason),
                };
                if outcome.is_ok() {
                    for (job, saved) in std::mem::take(&mut self.attempts[attempt].decisions) {
                        self.record_decision(origin, (job, None), saved)?;
                    }
                }
                self.attempts[attempt].end = Some(outcome);
                self.attempts[attempt].has_ended = true;
            }
        }
        Ok(())
    }

    /// Records an attempt's decision that a case needs no more runs, if this attempt delivered the
    /// block on which the decision is based. Returns whether the decision was recorded.
    fn record_decision(
        &mut self,
        origin: BlockOrigin,
        (job, after): (u32, Option<u32>),
        saved: usize,
    ) -> Result<bool> {
        let Some(job_of_case) = self.plan.jobs.get(job as usize) else {
            return Ok(true);
        };
        let label = &job_of_case.label;
        let is_decided = self.merger.record_decision(origin, (job, after), label, saved)?;
        if is_decided {
            self.listener.observe(&SessionEvent::CaseDecided { label, saved })?;
        }
        Ok(is_decided)
    }

    pub fn warn(&mut self, sentence: &str) -> Result<()> {
        self.listener.observe(&SessionEvent::Warning(sentence))
    }

    /// Reports a merged block as if it had been measured here.
    fn emit_block(&mut self, block: &spool::SpoolBlock) -> Result<()> {
        for run in &block.runs {
            self.listener.observe(&SessionEvent::RunFinished(run))?;
        }
        for failure in &block.failures {
            self.listener.observe(&SessionEvent::Failed(failure))?;
        }
        self.listener.observe(&SessionEvent::SlotsDone(&block.slots))
    }

    /// Queries the engine about the jobs, reports why some have not started, and ends attempts
    /// whose worker is gone. Returns whether results arrived or an attempt ended.
    fn poll_jobs(&mut self, waiting_report: &mut WaitingReport) -> Result<bool> {
        let mut jobs: Vec<JobId> =
            self.attempts.iter().map(|attempt| attempt.job.clone()).collect();
        jobs.sort();
        jobs.dedup();
        if jobs.is_empty() {
            return Ok(false);
        }
        let states = match self.engine.job_states(&jobs) {
            Ok(states) => states,
            Err(error) => {
                // The engine may recover, and no results of the workers are lost.
                self.warn(&format!("The engine does not respond: {error:#}"))?;
                return Ok(false);
            }
        };
        let mut has_news = false;
        let mut waiting: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (job, state) in jobs.iter().zip(states) {
            let reason = match state {
                JobState::Ended(reason) => {
                    reason.unwrap_or_else(|| "the worker exited without a message".to_owned())
                }
                JobState::Running => continue,
                JobState::Waiting(reason) => {
                    waiting.entry(reason).or_default().push(self.job_machine(job));
                    continue;
                }
            };
            // The last output of the job may not have been read yet.
            has_news |= self.collect_spools()?;
            let ended_attempts = self.attempts.iter_mut().filter(|attempt| attempt.job == *job);
            for attempt in ended_attempts.filter(|attempt| attempt.end.is_none()) {
                attempt.end = Some(Err(reason.clone()));
                has_news = true;
            }
        }
        if let Some(machines) = waiting_report.update(&waiting) {
            let sentence = format!("waiting in the Slurm queue: {machines}");
            self.listener.observe(&SessionEvent::Waiting(&sentence))?;
        }
        Ok(has_news)
    }

    fn job_machine(&self, job: &JobId) -> String {
        let attempt = self.attempts.iter().find(|attempt| attempt.job == *job);
        attempt.map_or_else(String::new, |attempt| {
            self.machines[attempt.origin.machine as usize].fleet_machine.name.clone()
        })
    }

    /// Asks workers to stop after their current block if possible. Then cancels the jobs and
    /// collects their results.
    ///
    /// # Errors
    /// Fails if the engine does not answer or the store cannot be written.
    pub fn stop_workers(&mut self, grace: Duration) -> Result<()> {
        for machine in self.machines.iter().filter(|machine| machine.is_shared) {
            // Workers that cannot be notified are canceled below.
            let _ = fs::write(stop_marker(&machine.folder), "");
        }
        let jobs: Vec<JobId> = self.attempts.iter().map(|attempt| attempt.job.clone()).collect();
        let begin = Instant::now();
        while begin.elapsed() < grace && self.is_any_shared_open()? {
            thread::sleep(MIN_SPOOL_INTERVAL);
        }
        self.engine.cancel_jobs(&jobs)?;
        let begin = Instant::now();
        while self.collect_spools()?
            || (begin.elapsed() < Duration::from_secs(2)
                && !self.streams.iter().all(|stream| stream.has_ended))
        {
            thread::sleep(MIN_SPOOL_INTERVAL);
        }
        self.release_shards()
    }

    /// Marks the shards of unfinished attempts as waiting. A resumed session then retries them.
    fn release_shards(&mut self) -> Result<()> {
        for attempt in std::mem::take(&mut self.attempts) {
            let is_complete = attempt.end == Some(Ok(()));
            if !is_complete {
                self.notify_replaced(attempt.origin);
            }
            let state = if is_complete { ShardState::Done } else { ShardState::Waiting };
            self.shards[attempt.origin.shard as usize].attempt += u32::from(!is_complete);
            self.set_state(attempt.origin.shard, state)?;
        }
        Ok(())
    }

    fn is_any_shared_open(&mut self) -> Result<bool> {
        self.collect_spools()?;
        let machines = &self.machines;
        let is_open = |attempt: &ShardAttempt| {
            attempt.has_begun
                && attempt.end.is_none()
                && machines[attempt.origin.machine as usize].is_shared
        };
        Ok(self.attempts.iter().any(is_open))
    }

    /// Settles the attempts that have ended.
    pub fn settle_attempts(&mut self) -> Result<()> {
        let (ended, open) = std::mem::take(&mut self.attempts)
            .into_iter()
            .partition(|attempt: &ShardAttempt| attempt.end.is_some());
        self.attempts = open;
        // All attempts of one worker end together and are counted as one failure.
        let mut counted: BTreeSet<JobId> = BTreeSet::new();
        for attempt in ended {
            let shard = attempt.origin.shard;
            let was_useless = attempt.blocks == 0
                && !attempt.is_resumed
                && matches!(attempt.end, Some(Err(_)))
                && counted.insert(attempt.job.clone());
            if was_useless {
                self.machines[attempt.origin.machine as usize].failures += 1;
            }
            match attempt.end {
                Some(Ok(())) => self.set_state(shard, ShardState::Done)?,
                Some(Err(reason)) => {
                    self.notify_replaced(attempt.origin);
                    if let (Some(file), false) = (attempt.file, attempt.has_ended) {
                        self.stale.running.push((attempt.origin, attempt.reader, file));
                    }
                    self.retry_shard(shard, &reason)?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Moves shards away from a machine that cannot store their requests, for example because its
    /// disk is full.
    pub fn abandon_machine(&mut self, machine: usize, shards: &[u32], reason: &str) -> Result<()> {
        let name = &self.machines[machine].fleet_machine.name;
        ensure!(self.other_machine(machine).is_some(), "{name}: {reason}");
        self.machines[machine].failures = MAX_MACHINE_FAILURES;
        shards.iter().try_for_each(|shard| self.retry_shard(*shard, reason))
    }

    /// Tells an attempt's worker to stop after its current block. The engine may have reported a
    /// live worker dead. Such a worker's results are no longer used, but it still occupies the
    /// machine.
    pub fn notify_replaced(&self, origin: BlockOrigin) {
        let machine = &self.machines[origin.machine as usize];
        if machine.is_shared {
            // If this fails, the worker stops once the next attempt's spool exists.
            let _ = fs::write(replaced_marker(&machine.folder, origin.shard, origin.attempt), "");
        }
    }

    /// Prepares a new attempt at a shard, on another machine if the current machine keeps failing.
    /// Gives up the shard after too many failed attempts.
    fn retry_shard(&mut self, shard: u32, reason: &str) -> Result<()> {
        let stored = self.shards[shard as usize].clone();
        let machine = stored.machine as usize;
        let name = self.machines[machine].fleet_machine.name.clone();
        self.failed_attempts[shard as usize] += 1;
        if self.failed_attempts[shard as usize] >= MAX_ATTEMPTS {
            return self.give_up_shard(shard, &format!("{name}: {reason}"));
        }
        let replacement = self.other_machine(machine);
        let keeps_failing = self.machines[machine].failures >= MAX_MACHINE_FAILURES;
        self.shards[shard as usize].attempt += 1;
        self.shards[shard as usize].state = ShardState::Waiting;
        match replacement {
            Some(replacement) if keeps_failing => {
                self.failed_attempts[shard as usize] = 0;
                self.move_shard(shard, replacement, &name, reason)?;
            }
            _ => {
                let attempt = stored.attempt + 1;
                self.warn(&format!(
                    "{name}: {reason}; its remaining work is restarted (attempt {attempt})"
                ))?;
            }
        }
        let stored = &self.shards[shard as usize];
        self.merger.set_shard(shard, stored)
    }

    /// The least loaded of the other usable machines.
    fn other_machine(&self, excluded: usize) -> Option<u32> {
        let load = |machine: usize| {
            let shards = self.shards.iter().filter(|stored| stored.machine as usize == machine);
            shards.filter(|stored| !is_settled(stored.state)).count()
        };
        let candidates = (0..self.machines.len()).filter(|&index| {
            index != excluded && self.machines[index].failures < MAX_MACHINE_FAILURES
        });
        candidates.min_by_key(|&index| load(index)).map(|index| index as u32)
    }

    /// Restarts the unfinished cases of a shard on another machine, with new slots (positions in
    /// the plan). Marks the existing runs of these cases as superseded.
    fn move_shard(&mut self, shard: u32, to: u32, from: &str, reason: &str) -> Result<()> {
        let stored = self.shards[shard as usize].clone();
        let part = self.plan.extract_shard(&to_shard(&stored))?;
        let number = self.merger.number();
        let decided = self.merger.store().decided_cases(number)?;
        let finished = self.merger.store().finished_slots(number)?;
        let is_open = |job: &u32| {
            let index = stored.jobs.iter().position(|shard_job| shard_job == job);
            let label = &self.plan.jobs[*job as usize].label;
            let mut slots = part.slots().into_iter().filter(|slot| Some(slot.job) == index);
            !decided.contains_key(label) && slots.any(|slot| !finished.contains(&slot.index))
        };
        let open: Vec<u32> = stored.jobs.iter().copied().filter(is_open).collect();
        let is_restarted = |slot: &PlanSlot| open.contains(&stored.jobs[slot.job]);
        let restarted_slots = part.slots().into_iter().filter(is_restarted).map(|slot| slot.index);
        self.merger.supersede_runs(&restarted_slots.collect::<Vec<u32>>())?;
        let strata = self.shards.iter().map(|stored| stored.stratum + 1);
        let stratum = strata.max().unwrap_or(0).max(self.plan.strata);
        let name = self.machines[to as usize].fleet_machine.name.clone();
        self.warn(&format!(
            "{from}: {reason}; {} of its cases are restarted on {name}",
            open.len()
        ))?;
        let moved = &mut self.shards[shard as usize];
        moved.machine = to;
        moved.stratum = stratum;
        moved.jobs = open;
        if moved.jobs.is_empty() {
            moved.state = ShardState::Done;
        }
        Ok(())
    }

    /// Gives up a shard. Each of its cases becomes a failure, unless it was decided early.
    fn give_up_shard(&mut self, shard: u32, reason: &str) -> Result<()> {
        self.set_state(shard, ShardState::Lost)?;
        let decided = self.merger.store().decided_cases(self.merger.number())?;
        for &job in &self.shards[shard as usize].jobs {
            let job = &self.plan.jobs[job as usize];
            if decided.contains_key(&job.label) {
                continue;
            }
            let failure = StepFailure {
                step: SessionStep::Run,
                benchmark: job.source.name.clone(),
                case: Some(job.label.clone()),
                variant: None,
                slot: None,
                cause: FailureCause::Start {
                    reason: format!("given up after {MAX_ATTEMPTS} attempts: {reason}"),
                },
                stderr_tail: String::new(),
                replay: String::new(),
            };
            self.merger.add_failure(&failure)?;
            self.listener.observe(&SessionEvent::Failed(&failure))?;
        }
        Ok(())
    }
}

pub(super) fn is_settled(state: ShardState) -> bool {
    matches!(state, ShardState::Done | ShardState::Lost)
}

pub(super) fn is_submitted(state: ShardState) -> bool {
    matches!(state, ShardState::Sent | ShardState::Running)
}

/// The part of the plan that a shard covers.
pub(super) fn to_shard(stored: &StoredShard) -> PlanShard {
    PlanShard { jobs: stored.jobs.clone(), stratum: stored.stratum }
}
