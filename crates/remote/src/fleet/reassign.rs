//! Settles attempts whose worker has ended. Each shard is done, retried, moved to another machine
//! or given up. Start at [`FleetCoordinator::settle_attempts`].

use super::attempt::replaced_marker;
use super::coordinator::{FleetCoordinator, ShardAttempt, is_settled, to_shard};
use crate::machines::JobId;
use anyhow::{Result, ensure};
use speedwell_adapters::plan::PlanSlot;
use speedwell_model::{FailureCause, SessionEvent, SessionStep, StepFailure};
use speedwell_store::{BlockOrigin, ShardState};
use std::collections::BTreeSet;
use std::fs;

/// Number of failed attempts on one machine after which a shard is given up.
const MAX_ATTEMPTS: u32 = 3;
/// Number of consecutive attempts without a completed block after which a machine gets no more
/// work.
const MAX_MACHINE_FAILURES: u32 = 2;

impl FleetCoordinator<'_, '_, '_> {
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
