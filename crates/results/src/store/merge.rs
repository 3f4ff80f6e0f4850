//! Puts a session together of blocks that several machines measured, in whatever order and however often they arrive.
//!
//! What is kept follows from the blocks alone: merging in another order, or twice, gives the same session as one machine would
//! have written. That rests on the primary key of `block_origin`: a block is entered with its origin in one transaction, and
//! whoever comes later finds it there. Start at [`Merger::merge`].

use super::Store;
use super::database::{Database, given, sql};
use super::read::from_json;
use super::recorder::Recorder;
use super::session_writer::SessionWriter;
use crate::spool::Block;
use anyhow::bail;
use speedwell_model::{Failure, Run, Session, SessionMachine};

/// Where a block comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockOrigin {
    /// Place of the machine in the session's machines.
    pub machine: u32,
    /// The parcel.
    pub parcel: u32,
    /// Which attempt at it.
    pub attempt: u32,
}

/// What became of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merged {
    /// It was not there, and is now.
    New,
    /// The same attempt had brought it already.
    Known,
    /// Another one had.
    Refused(BlockOrigin),
}

/// What one machine gets at once, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredParcel {
    /// Place of its machine in the session's machines.
    pub machine: u32,
    /// Places of its cases in the plan.
    pub jobs: Vec<u32>,
    /// Which stratum of the plan.
    pub stratum: u32,
    /// The last attempt, from 0.
    pub attempt: u32,
    /// What the engine calls it.
    pub engine_id: Option<String>,
    /// How far it is.
    pub state: ParcelState,
}

/// How far a parcel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParcelState {
    /// Nobody has it.
    Waiting,
    /// An engine has it.
    Sent,
    /// A worker has begun.
    Running,
    /// All of it is here.
    Done,
    /// It was given up.
    Lost,
}

const STATES: [(ParcelState, &str); 5] = [
    (ParcelState::Waiting, "waiting"),
    (ParcelState::Sent, "sent"),
    (ParcelState::Running, "running"),
    (ParcelState::Done, "done"),
    (ParcelState::Lost, "lost"),
];

impl ParcelState {
    /// Its name.
    pub fn name(self) -> &'static str {
        let known = STATES.iter().find(|(state, _)| *state == self);
        known.map_or("lost", |(_, name)| name)
    }

    fn of_name(name: &str) -> anyhow::Result<ParcelState> {
        match STATES.iter().find(|(_, known)| *known == name) {
            Some((state, _)) => Ok(*state),
            None => bail!("'{name}' is not a state of a parcel"),
        }
    }
}

/// Follows a session that other machines measure.
#[derive(Debug)]
pub struct Merger<'a> {
    recorder: Recorder<'a>,
}

impl Store {
    /// Enters a session that other machines will measure: its plan, its machines and the parcels.
    ///
    /// # Errors
    /// As for [`Store::begin`].
    pub fn begin_merging(
        &mut self,
        session: &Session,
        plan: &str,
        parcels: &[StoredParcel],
    ) -> anyhow::Result<Merger<'_>> {
        let mut merger = Merger {
            recorder: self.begin(session, plan)?,
        };
        for (place, parcel) in (0..).zip(parcels) {
            merger.set_parcel(place, parcel)?;
        }
        Ok(merger)
    }

    /// Takes up the merging of a session.
    ///
    /// # Errors
    /// As for [`Store::resume`].
    pub fn resume_merging(&mut self, number: i64) -> anyhow::Result<Merger<'_>> {
        Ok(Merger {
            recorder: self.resume(number)?,
        })
    }

    /// The parcels of a session, in order; none where it was measured on one machine.
    ///
    /// # Errors
    /// The file fails.
    pub fn parcels(&self, number: i64) -> anyhow::Result<Vec<StoredParcel>> {
        let sql = sql!(
            "SELECT machine, jobs, stratum, attempt, engine_id, state FROM parcel
             WHERE session = $1 ORDER BY place"
        );
        let rows: Vec<(StoredParcel, String, String)> = self.rows(sql, given![number], |row| {
            let parcel = StoredParcel {
                machine: row.get(0)?,
                jobs: Vec::new(),
                stratum: row.get(2)?,
                attempt: row.get(3)?,
                engine_id: row.get(4)?,
                state: ParcelState::Waiting,
            };
            Ok((parcel, row.get(1)?, row.get(5)?))
        })?;
        rows.into_iter()
            .map(|(parcel, jobs, state)| {
                Ok(StoredParcel {
                    jobs: from_json(&jobs)?,
                    state: ParcelState::of_name(&state)?,
                    ..parcel
                })
            })
            .collect()
    }

    /// The blocks that are here, as place of the case in the plan and block, with their origins.
    ///
    /// # Errors
    /// The file fails.
    pub fn merged_blocks(&self, number: i64) -> anyhow::Result<Vec<((u32, u32), BlockOrigin)>> {
        let sql = sql!(
            "SELECT job, block, machine, parcel, attempt FROM block_origin
             WHERE session = $1 ORDER BY job, block"
        );
        self.rows(sql, given![number], |row| {
            let origin = BlockOrigin {
                machine: row.get(2)?,
                parcel: row.get(3)?,
                attempt: row.get(4)?,
            };
            Ok(((row.get(0)?, row.get(1)?), origin))
        })
    }
}

impl Merger<'_> {
    /// The number that `@NUMBER` means.
    pub fn number(&self) -> i64 {
        self.recorder.number()
    }

    /// The store, for reading what is there.
    pub fn store(&self) -> &Store {
        self.recorder.store
    }

    /// Enters a block, unless it is there.
    ///
    /// # Errors
    /// A metric that has another unit elsewhere in the session, or the file fails; then nothing of the block is entered.
    pub fn merge(&mut self, origin: BlockOrigin, block: &Block) -> anyhow::Result<Merged> {
        self.recorder.write(|writer, file| {
            let entered = file.execute(
                sql!(
                    "INSERT INTO block_origin (session, job, block, machine, parcel, attempt)
                     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING"
                ),
                given![
                    writer.session(),
                    block.job,
                    block.block,
                    origin.machine,
                    origin.parcel,
                    origin.attempt,
                ],
            )?;
            if entered == 1 {
                enter(writer, file, origin.machine, block)?;
                return Ok(Merged::New);
            }
            let known = origin_of(writer, file, block.job, block.block)?;
            Ok(match known {
                Some(known) if known == origin => Merged::Known,
                Some(known) => Merged::Refused(known),
                None => bail!("block {} of case {} was deleted", block.block, block.job),
            })
        })
    }

    /// Notes that a case needs no more runs, as the attempt says that brought its block `after`; whether it was the one that is
    /// here.
    ///
    /// # Errors
    /// The file fails.
    pub fn decide(
        &mut self,
        origin: BlockOrigin,
        (job, after): (u32, u32),
        label: &str,
        saved: usize,
    ) -> anyhow::Result<bool> {
        let known = self
            .recorder
            .write(|writer, file| origin_of(writer, file, job, after))?;
        if known != Some(origin) {
            return Ok(false);
        }
        self.recorder.decide(label, saved)?;
        Ok(true)
    }

    /// Enters a parcel, or how far it is.
    ///
    /// # Errors
    /// The file fails.
    pub fn set_parcel(&mut self, place: u32, parcel: &StoredParcel) -> anyhow::Result<()> {
        let jobs = serde_json::to_string(&parcel.jobs)?;
        self.recorder.write(|writer, file| {
            file.execute(
                sql!(
                    "INSERT INTO parcel (session, place, machine, jobs, stratum, attempt,
                         engine_id, state)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                     ON CONFLICT (session, place) DO UPDATE SET
                         machine = excluded.machine, jobs = excluded.jobs,
                         stratum = excluded.stratum, attempt = excluded.attempt,
                         engine_id = excluded.engine_id, state = excluded.state"
                ),
                given![
                    writer.session(),
                    place,
                    parcel.machine,
                    &jobs,
                    parcel.stratum,
                    parcel.attempt,
                    &parcel.engine_id,
                    parcel.state.name(),
                ],
            )?;
            Ok(())
        })
    }

    /// Enters what a machine said of itself.
    ///
    /// # Errors
    /// The file fails.
    pub fn set_machine(&mut self, place: u32, machine: &SessionMachine) -> anyhow::Result<()> {
        (self.recorder).write(|writer, file| writer.machine(file, place, machine))
    }

    /// Sets the runs of slots aside, because their case was begun anew on another machine: they stay, and no analysis sees
    /// them.
    ///
    /// # Errors
    /// The file fails.
    pub fn set_aside(&mut self, slots: &[u32]) -> anyhow::Result<()> {
        let numbers = serde_json::to_string(slots)?;
        self.recorder.write(|writer, file| {
            file.execute(
                sql!(
                    "UPDATE run SET set_aside = 1
                     WHERE session = $1 AND slot IN ({{numbers:2}})"
                ),
                given![writer.session(), &numbers],
            )?;
            Ok(())
        })
    }

    /// Enters a failure that belongs to no slot, unless it is known.
    ///
    /// # Errors
    /// The file fails.
    pub fn fail(&mut self, failure: &Failure) -> anyhow::Result<()> {
        (self.recorder).write(|writer, file| writer.failure_once(file, failure))
    }

    /// Ends the session, or interrupts it.
    ///
    /// # Errors
    /// The file fails.
    pub fn finish(&mut self, interrupted: bool) -> anyhow::Result<()> {
        self.recorder
            .write(|writer, file| Ok(writer.order_metrics(file)?))?;
        self.recorder.finish(interrupted)
    }
}

/// Enters everything of a block, at the places that follow from its slots.
fn enter(
    writer: &mut SessionWriter,
    file: &Database,
    machine: u32,
    block: &Block,
) -> anyhow::Result<()> {
    for (first, metric) in &block.metrics {
        writer.declare(file, metric)?;
        writer.reported(file, &metric.name, *first)?;
    }
    let Some(first) = block.slots.iter().min() else {
        return Ok(());
    };
    writer.at_slot(*first);
    let runs = block.runs.iter().map(|run| Run {
        machine: Some(machine),
        ..run.clone()
    });
    let runs: Vec<Run> = runs.collect();
    writer.runs(file, &runs.iter().collect::<Vec<&Run>>(), true)?;
    for failure in &block.failures {
        writer.failure(file, failure, true)?;
    }
    for &slot in &block.slots {
        let has_run = runs.iter().any(|run| run.slot == slot);
        let failed = (block.failures.iter()).any(|failure| failure.slot == Some(slot));
        if !has_run && !failed {
            writer.empty_slot(file, slot)?;
        }
    }
    Ok(())
}

fn origin_of(
    writer: &SessionWriter,
    file: &Database,
    job: u32,
    block: u32,
) -> anyhow::Result<Option<BlockOrigin>> {
    let sql = sql!(
        "SELECT machine, parcel, attempt FROM block_origin
         WHERE session = $1 AND job = $2 AND block = $3"
    );
    let found = file.first(sql, given![writer.session(), job, block], |row| {
        Ok(BlockOrigin {
            machine: row.get(0)?,
            parcel: row.get(1)?,
            attempt: row.get(2)?,
        })
    })?;
    Ok(found)
}
