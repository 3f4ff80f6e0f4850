//! Settles attempts whose worker has ended: their shard is done, retried, moved to another machine
//! or given up. Start at [`Coordinator::settle`].

use super::coordinator::{Attempt, Coordinator, Over, is_over, parcel_of};
use super::doubles::Double;
use super::order::over_of;
use super::stream::Source;
use anyhow::ensure;
use speedwell_fleet::JobId;
use speedwell_harness::plan::Slot;
use speedwell_model::{Cause, Event, Failure, Step};
use speedwell_results::store::{BlockOrigin, ParcelState};
use std::collections::BTreeSet;
use std::fs;

/// Failed attempts on one machine after which a shard is lost.
const MOST_ATTEMPTS: u32 = 3;
/// Consecutive attempts without a block after which a machine gets no more work.
const MOST_FAILURES: u32 = 2;

impl Coordinator<'_, '_, '_> {
    /// Settles the attempts that have ended.
    pub fn settle(&mut self) -> anyhow::Result<()> {
        let (over, open) = std::mem::take(&mut self.attempts)
            .into_iter()
            .partition(|attempt: &Attempt| attempt.over.is_some());
        self.attempts = open;
        // All attempts of one worker end together and count as one failure.
        let mut counted: BTreeSet<JobId> = BTreeSet::new();
        for attempt in over {
            let place = attempt.place;
            let gave_nothing = attempt.blocks == 0
                && !attempt.is_taken_up
                && matches!(attempt.over, Some(Over::Short(_)))
                && counted.insert(attempt.job.clone());
            if gave_nothing {
                self.machines[attempt.origin.machine as usize].failures += 1;
            }
            match attempt.over {
                Some(Over::Whole) => {
                    self.parcels[place as usize].state = ParcelState::Done;
                    let parcel = &self.parcels[place as usize];
                    self.merger.set_parcel(place, parcel)?;
                }
                Some(Over::Short(reason)) => {
                    self.replace(attempt.origin);
                    if !attempt.has_ended && matches!(attempt.source, Source::File { .. }) {
                        self.doubles.add(Double {
                            origin: attempt.origin,
                            reader: attempt.reader,
                            source: attempt.source,
                        });
                    }
                    self.try_again(place, &reason)?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Moves shards away from a machine that cannot even store their requests, for example because
    /// its disk is full.
    pub fn leave(&mut self, machine: usize, places: &[u32], reason: &str) -> anyhow::Result<()> {
        let name = &self.machines[machine].known.name;
        ensure!(self.other_machine(machine).is_some(), "{name}: {reason}");
        self.machines[machine].failures = MOST_FAILURES;
        places
            .iter()
            .try_for_each(|place| self.try_again(*place, reason))
    }

    /// Tells an attempt's worker to stop after its current block. The engine may have reported it
    /// dead although it is alive; its results no longer count, but it still holds the machine.
    pub fn replace(&self, origin: BlockOrigin) {
        let machine = &self.machines[origin.machine as usize];
        if machine.is_shared {
            // If this fails, the worker stops once the next attempt's spool exists.
            let _ = fs::write(over_of(&machine.folder, origin.parcel, origin.attempt), "");
        }
    }

    /// Starts a new attempt at a shard, on another machine if its own keeps failing.
    fn try_again(&mut self, place: u32, reason: &str) -> anyhow::Result<()> {
        let parcel = self.parcels[place as usize].clone();
        let machine = parcel.machine as usize;
        let name = self.machines[machine].known.name.clone();
        self.tries[place as usize] += 1;
        if self.tries[place as usize] >= MOST_ATTEMPTS {
            return self.lose(place, &format!("{name}: {reason}"));
        }
        let other = self.other_machine(machine);
        let goes = self.machines[machine].failures >= MOST_FAILURES;
        self.parcels[place as usize].attempt += 1;
        self.parcels[place as usize].state = ParcelState::Waiting;
        match other {
            Some(other) if goes => {
                self.tries[place as usize] = 0;
                self.move_to(place, other, &name, reason)?;
            }
            _ => {
                let attempt = parcel.attempt + 1;
                self.warn(&format!(
                    "{name}: {reason}; what is left of its work begins again (attempt {attempt})"
                ))?;
            }
        }
        let parcel = &self.parcels[place as usize];
        self.merger.set_parcel(place, parcel)
    }

    /// The least loaded of the other machines that still get work.
    fn other_machine(&self, but: usize) -> Option<u32> {
        let load = |machine: usize| {
            let own = self
                .parcels
                .iter()
                .filter(|parcel| parcel.machine as usize == machine);
            own.filter(|parcel| !is_over(parcel.state)).count()
        };
        let fit = (0..self.machines.len())
            .filter(|&at| at != but && self.machines[at].failures < MOST_FAILURES);
        fit.min_by_key(|&at| load(at)).map(|at| at as u32)
    }

    /// Restarts the unfinished cases of a shard on another machine with new slot numbers, and sets
    /// aside what was measured of them.
    fn move_to(&mut self, place: u32, to: u32, from: &str, reason: &str) -> anyhow::Result<()> {
        let parcel = self.parcels[place as usize].clone();
        let part = self.plan.part(&parcel_of(&parcel))?;
        let number = self.merger.number();
        let decided = self.merger.store().decided_cases(number)?;
        let done = self.merger.store().finished_slots(number)?;
        let is_open = |job: &u32| {
            let at = parcel.jobs.iter().position(|own| own == job);
            let label = &self.plan.jobs[*job as usize].label;
            let mut slots = part.slots().into_iter().filter(|slot| Some(slot.job) == at);
            !decided.contains_key(label) && slots.any(|slot| !done.contains(&slot.index))
        };
        let open: Vec<u32> = parcel.jobs.iter().copied().filter(is_open).collect();
        let left = |slot: &Slot| open.contains(&parcel.jobs[slot.job]);
        let aside = part.slots().into_iter().filter(left).map(|slot| slot.index);
        self.merger.set_aside(&aside.collect::<Vec<u32>>())?;
        let strata = self.parcels.iter().map(|parcel| parcel.stratum + 1);
        let stratum = strata.max().unwrap_or(0).max(self.plan.strata);
        let name = self.machines[to as usize].known.name.clone();
        self.warn(&format!(
            "{from}: {reason}; {} of its cases begin again on {name}",
            open.len()
        ))?;
        let moved = &mut self.parcels[place as usize];
        moved.machine = to;
        moved.stratum = stratum;
        moved.jobs = open;
        if moved.jobs.is_empty() {
            moved.state = ParcelState::Done;
        }
        Ok(())
    }

    /// Gives up a shard: each case that is not settled becomes a failure.
    fn lose(&mut self, place: u32, reason: &str) -> anyhow::Result<()> {
        self.parcels[place as usize].state = ParcelState::Lost;
        let parcel = self.parcels[place as usize].clone();
        self.merger.set_parcel(place, &parcel)?;
        let decided = self.merger.store().decided_cases(self.merger.number())?;
        for &job in &parcel.jobs {
            let job = &self.plan.jobs[job as usize];
            if decided.contains_key(&job.label) {
                continue;
            }
            let failure = Failure {
                step: Step::Run,
                benchmark: job.source.name.clone(),
                case: Some(job.label.clone()),
                variant: None,
                slot: None,
                cause: Cause::Start {
                    reason: format!("given up after {MOST_ATTEMPTS} attempts: {reason}"),
                },
                stderr_tail: String::new(),
                replay: String::new(),
            };
            self.merger.fail(&failure)?;
            self.listener.observe(&Event::Failed(&failure))?;
        }
        Ok(())
    }
}
