//! Merges blocks that several machines measured into one session, in any order and even if they
//! arrive repeatedly.
//!
//! The result depends only on the blocks: any merge order gives the session that one machine would
//! have recorded. This rests on the primary key of `block_origin`: a block and its origin are
//! inserted in one transaction, so a duplicate conflicts. Start at [`Merger::merge`].

use super::Store;
use super::database::{Database, given, sql};
use super::read::from_json;
use super::recorder::Recorder;
use super::session_writer::SessionWriter;
use crate::spool::Block;
use anyhow::bail;
use speedwell_model::{Environment, Failure, Run, Session, SessionMachine};

/// Origin of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockOrigin {
    /// Index of the machine in the session.
    pub machine: u32,
    /// Number of the parcel.
    pub parcel: u32,
    /// Number of the attempt at the parcel.
    pub attempt: u32,
}

/// Outcome of merging a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merged {
    /// The block was inserted.
    New,
    /// The same attempt had already delivered it.
    Known,
    /// Another attempt had already delivered it.
    Refused(BlockOrigin),
}

/// Work assigned to one machine, and its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredParcel {
    /// Index of the machine in the session.
    pub machine: u32,
    /// Indices of its cases in the plan.
    pub jobs: Vec<u32>,
    /// Stratum of the plan.
    pub stratum: u32,
    /// Last attempt, from 0.
    pub attempt: u32,
    /// Id assigned by the engine.
    pub engine_id: Option<String>,
    /// Progress.
    pub state: ParcelState,
}

/// Progress of a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParcelState {
    /// Not assigned.
    Waiting,
    /// Sent to an engine.
    Sent,
    /// Started by a worker.
    Running,
    /// All blocks have arrived.
    Done,
    /// Given up.
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
    /// Returns the stored name.
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

/// Records a session that other machines measure.
#[derive(Debug)]
pub struct Merger<'a> {
    recorder: Recorder<'a>,
}

impl Store {
    /// Inserts a session that other machines will measure: its plan, its machines and the parcels.
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

    /// Continues merging a session.
    ///
    /// # Errors
    /// As for [`Store::resume`].
    pub fn resume_merging(&mut self, number: i64) -> anyhow::Result<Merger<'_>> {
        Ok(Merger {
            recorder: self.resume(number)?,
        })
    }

    /// Returns the parcels of a session, in order; none if one machine measured it.
    ///
    /// # Errors
    /// The database fails.
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

    /// Returns the merged blocks, as index of the case in the plan and block number, with their
    /// origins.
    ///
    /// # Errors
    /// The database fails.
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
    /// Returns the number of the session, as in `@NUMBER`.
    pub fn number(&self) -> i64 {
        self.recorder.number()
    }

    /// Queues the session for upload when it is complete, even if this process dies first.
    ///
    /// # Errors
    /// The database fails.
    pub fn owe(&mut self, url: &str, now_unix_ms: i64) -> anyhow::Result<()> {
        self.recorder.owe(url, now_unix_ms)
    }

    /// Returns the store, for reading.
    pub fn store(&self) -> &Store {
        self.recorder.store
    }

    /// Inserts a block, unless it was merged before.
    ///
    /// # Errors
    /// A metric has another unit elsewhere in the session, or the database fails; the block is then
    /// not inserted at all.
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

    /// Records that an attempt decided that a case needs no more runs. Only valid if the attempt
    /// delivered block `after`, or, without `after`, was given the merged blocks; returns whether
    /// the decision was accepted.
    ///
    /// # Errors
    /// The database fails.
    pub fn decide(
        &mut self,
        origin: BlockOrigin,
        (job, after): (u32, Option<u32>),
        label: &str,
        saved: usize,
    ) -> anyhow::Result<bool> {
        if let Some(after) = after {
            let known = self
                .recorder
                .write(|writer, file| origin_of(writer, file, job, after))?;
            if known != Some(origin) {
                return Ok(false);
            }
        }
        self.recorder.decide(label, saved)?;
        Ok(true)
    }

    /// Inserts a parcel or updates its progress.
    ///
    /// # Errors
    /// The database fails.
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

    /// Stores a machine's report about itself. If it is the only machine, its environment becomes
    /// that of the session, except for the programs, which are already known.
    ///
    /// # Errors
    /// The database fails.
    pub fn set_machine(
        &mut self,
        place: u32,
        machine: &SessionMachine,
        is_only: bool,
    ) -> anyhow::Result<()> {
        self.recorder.write(|writer, file| {
            writer.machine(file, place, machine)?;
            if !is_only {
                return Ok(());
            }
            let known = sql!("SELECT environment FROM session WHERE number = $1");
            let known: String = file.one(known, given![writer.session()])?;
            let known: Environment = from_json(&known)?;
            let environment = Environment {
                programs: known.programs,
                machine: known.machine,
                ..machine.environment.clone()
            };
            file.execute(
                sql!("UPDATE session SET environment = $1 WHERE number = $2"),
                given![&serde_json::to_string(&environment)?, writer.session()],
            )?;
            Ok(())
        })
    }

    /// Sets runs of slots aside, because their case restarted on another machine: they remain
    /// stored, but no analysis reads them.
    ///
    /// # Errors
    /// The database fails.
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

    /// Inserts a failure without a slot, unless it exists.
    ///
    /// # Errors
    /// The database fails.
    pub fn fail(&mut self, failure: &Failure) -> anyhow::Result<()> {
        (self.recorder).write(|writer, file| writer.failure_once(file, failure))
    }

    /// Ends or interrupts the session.
    ///
    /// # Errors
    /// The database fails.
    pub fn finish(&mut self, interrupted: bool) -> anyhow::Result<()> {
        self.recorder
            .write(|writer, file| Ok(writer.order_metrics(file)?))?;
        self.recorder.finish(interrupted)
    }
}

/// Inserts a whole block, at the row indices derived from its slots.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::json_lines;
    use crate::store::back_end_tests::places;
    use speedwell_fixtures::Story;
    use speedwell_model::{Better, Metric, Sample, State};

    /// Two cases with two blocks each, on two machines: the session before its first run, and its
    /// blocks.
    fn story() -> (Session, Vec<Block>) {
        let session = Story::fixed(&["a", "b"], 2)
            .case("g/x", |_, run| f64::from(run))
            .case("g/y", |_, run| f64::from(run) + 0.5)
            .session();
        let mut blocks: Vec<Block> = Vec::new();
        for (slot, run) in (0..).zip(&session.runs) {
            let (job, block) = (u32::from(run.case.id() == "g/y"), run.block);
            let is_own = |known: &&mut Block| (known.job, known.block) == (job, block);
            if blocks.iter_mut().find(is_own).is_none() {
                blocks.push(Block {
                    job,
                    block,
                    metrics: vec![(i64::from(slot) << 16, session.metrics[0].clone())],
                    ..Block::default()
                });
            }
            let Some(own) = blocks.iter_mut().find(is_own) else {
                continue;
            };
            own.slots.push(slot);
            own.runs.push(Run {
                slot,
                ..run.clone()
            });
        }
        let machine = |name: &str| SessionMachine {
            id: name.into(),
            name: name.into(),
            ..SessionMachine::default()
        };
        let begun = Session {
            state: State::Running,
            metrics: Vec::new(),
            runs: Vec::new(),
            machines: vec![machine("lab-1"), machine("lab-2")],
            ..session
        };
        (begun, blocks)
    }

    fn origin(block: &Block, attempt: u32) -> BlockOrigin {
        BlockOrigin {
            machine: block.job,
            parcel: block.job,
            attempt,
        }
    }

    #[test]
    fn a_block_is_there_once_whoever_sends_it() {
        for place in places() {
            let (begun, blocks) = story();
            let mut store = place.open();
            let mut merger = store.begin_merging(&begun, "{}", &[]).unwrap();
            for block in blocks.iter().rev() {
                assert_eq!(merger.merge(origin(block, 0), block).unwrap(), Merged::New);
            }
            let first = &blocks[0];
            let again = merger.merge(origin(first, 0), first).unwrap();
            assert_eq!(again, Merged::Known);
            let double = merger.merge(origin(first, 1), first).unwrap();
            assert_eq!(double, Merged::Refused(origin(first, 0)));
            // A decision based on the blocks of a rejected attempt does not apply to the merged
            // ones.
            let decide = |merger: &mut Merger<'_>, attempt| {
                let of = origin(first, attempt);
                merger.decide(of, (first.job, Some(first.block)), "g/x", 4)
            };
            assert!(!decide(&mut merger, 1).unwrap());
            assert!(decide(&mut merger, 0).unwrap());
            merger.finish(false).unwrap();
            let number = merger.number();
            let session = store.session(number).unwrap();
            let slots: Vec<u32> = session.runs.iter().map(|run| run.slot).collect();
            assert_eq!(
                slots,
                (0..16).collect::<Vec<u32>>(),
                "in the order of the plan"
            );
            let machines = |job: &str| {
                let own = session.runs.iter().filter(|run| run.case.id() == job);
                own.map(|run| run.machine).collect::<Vec<_>>()
            };
            assert_eq!(machines("g/y"), [Some(1); 8]);
            assert_eq!(store.finished_slots(number).unwrap().len(), 16);
            assert_eq!(store.decided_cases(number).unwrap()["g/x"], 4);
            assert_eq!(store.merged_blocks(number).unwrap().len(), 4);
            // Everything round-trips through a file, which earlier versions reject.
            let mut text = Vec::new();
            json_lines::write(&session, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("\"version\":2"), "{text}");
            let read = json_lines::read(&text).unwrap().remove(0);
            assert_eq!(read.machines, session.machines);
            let here = Session {
                id: "elsewhere".into(),
                ..read
            };
            let copy = store.insert(&here).unwrap();
            assert_eq!(store.session(copy).unwrap().runs, session.runs);
            let unknown = text.replace("\"machine\":1", "\"machine\":7");
            let refusal = json_lines::read(&unknown).unwrap_err().to_string();
            assert!(refusal.contains("has 2 machines"), "{refusal}");
        }
    }

    #[test]
    fn metrics_are_in_the_order_in_which_one_machine_would_have_reported_them() {
        for place in places() {
            let (begun, mut blocks) = story();
            let size = Metric::new("size", "B", Better::Lower);
            for block in blocks.iter_mut().filter(|block| block.job == 1) {
                let first = i64::from(block.slots[0]) << 16;
                block.metrics = vec![
                    (first + 1, block.metrics[0].1.clone()),
                    (first + 2, size.clone()),
                ];
                for run in &mut block.runs {
                    run.samples.push(Sample {
                        metric: "size".into(),
                        value: 7.0,
                        elapsed_ns: None,
                        iterations: None,
                    });
                }
            }
            let first = &mut blocks[0];
            first.metrics[0].0 += 1;
            first
                .metrics
                .insert(0, (0, Metric::new("early", "s", Better::Lower)));
            let mut store = place.open();
            let mut merger = store.begin_merging(&begun, "{}", &[]).unwrap();
            for block in blocks.iter().rev() {
                merger.merge(origin(block, 0), block).unwrap();
            }
            merger.finish(false).unwrap();
            let session = store.session(1).unwrap();
            let names: Vec<&str> = session.metrics.iter().map(|m| m.name.as_str()).collect();
            assert_eq!(names, ["early", "throughput", "size"]);
            let last = session
                .runs
                .iter()
                .rfind(|run| run.case.id() == "g/y")
                .unwrap();
            assert_eq!(last.value_of("size"), Some(7.0));
        }
    }

    #[test]
    fn what_was_set_aside_stays_and_is_not_seen() {
        for place in places() {
            let (begun, blocks) = story();
            let mut store = place.open();
            let parcel = StoredParcel {
                machine: 1,
                jobs: vec![0, 1],
                stratum: 0,
                attempt: 0,
                engine_id: None,
                state: ParcelState::Waiting,
            };
            let mut merger = store
                .begin_merging(&begun, "{}", std::slice::from_ref(&parcel))
                .unwrap();
            for block in &blocks {
                merger.merge(origin(block, 0), block).unwrap();
            }
            let own = blocks.iter().filter(|block| block.job == 0);
            let slots: Vec<u32> = own.flat_map(|block| block.slots.clone()).collect();
            merger.set_aside(&slots).unwrap();
            let lost = StoredParcel {
                state: ParcelState::Lost,
                attempt: 2,
                ..parcel
            };
            merger.set_parcel(0, &lost).unwrap();
            merger.finish(false).unwrap();
            let session = store.session(1).unwrap();
            assert_eq!(session.runs.len(), 8);
            assert!(session.runs.iter().all(|run| run.case.id() == "g/y"));
            assert!(session.runs.iter().all(|run| run.samples.len() == 1));
            assert_eq!(store.parcels(1).unwrap(), [lost]);
        }
    }
}
