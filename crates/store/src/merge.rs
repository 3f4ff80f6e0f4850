//! Merges blocks from several machines into one session. The blocks may arrive in any order, and
//! repeatedly.
//!
//! The result depends only on the blocks, not on their order: it is the session that a single
//! machine would have recorded. The primary key of `block_origin` excludes duplicates: a block and
//! its origin are inserted in one transaction. Start at [`SessionRecorder::merge_block`].

use super::Store;
use super::database::{Database, sql, sql_params};
use super::read::parse_json;
use super::recorder::SessionRecorder;
use super::session_writer::SessionWriter;
use anyhow::{Context, Result, bail};
use speedwell_formats::spool::SpoolBlock;
use speedwell_model::{Environment, Run, Session, SessionMachine, StepFailure, name_variants};

/// Origin of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockOrigin {
    /// Index of the machine in the session.
    pub machine: u32,
    /// Number of the shard, the unit of work that is sent to a machine.
    pub shard: u32,
    /// Number of the attempt at the shard.
    pub attempt: u32,
}

/// Outcome of merging a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The block was inserted.
    New,
    /// The same attempt had already delivered the block.
    Known,
    /// Another attempt had already delivered the block. Holds the origin of the block from that
    /// attempt.
    Refused(BlockOrigin),
}

/// Work assigned to one machine, and its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredShard {
    /// Index of the machine in the session.
    pub machine: u32,
    /// Indices of its cases in the plan.
    pub jobs: Vec<u32>,
    /// Stratum to which the shard belongs. A stratum is one execution of the whole plan.
    pub stratum: u32,
    /// Number of the last attempt, counting from 0.
    pub attempt: u32,
    /// Id that the engine assigned to the shard.
    pub engine_id: Option<String>,
    /// Progress.
    pub state: ShardState,
}

/// Progress of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardState {
    /// Not sent to an engine yet.
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

name_variants!(ShardState: Waiting = "waiting", Sent = "sent", Running = "running",
    Done = "done", Lost = "lost");

impl Store {
    /// Inserts a session that other machines will measure: its plan, its machines and the shards.
    ///
    /// # Errors
    /// Fails like [`Store::begin_recording`].
    pub fn begin_merging(
        &mut self,
        session: &Session,
        plan: &str,
        shards: &[StoredShard],
    ) -> Result<SessionRecorder<'_>> {
        let mut recorder = self.begin_recording(session, plan)?;
        for (index, shard) in (0..).zip(shards) {
            recorder.set_shard(index, shard)?;
        }
        Ok(recorder)
    }

    /// Returns the shards of a session, in order; none if the session was measured on a single
    /// machine.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_shards(&self, number: i64) -> Result<Vec<StoredShard>> {
        let sql = sql!(
            "SELECT machine, jobs, stratum, attempt, engine_id, state FROM shard
             WHERE session = $1 ORDER BY seq"
        );
        self.query_rows(sql, sql_params![number], |row| {
            let state: &str = row.get(5)?;
            Ok(StoredShard {
                machine: row.get(0)?,
                jobs: parse_json(row.get(1)?)?,
                stratum: row.get(2)?,
                attempt: row.get(3)?,
                engine_id: row.get(4)?,
                state: ShardState::from_name(state)
                    .with_context(|| format!("unknown shard state '{state}'"))?,
            })
        })
    }

    /// Returns the merged blocks with their origins. Each block is given by the index of its case
    /// in the plan and the number of the block.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn merged_blocks(&self, number: i64) -> Result<Vec<((u32, u32), BlockOrigin)>> {
        let sql = sql!(
            "SELECT job, block, machine, shard, attempt FROM block_origin
             WHERE session = $1 ORDER BY job, block"
        );
        self.query_rows(sql, sql_params![number], |row| {
            let origin =
                BlockOrigin { machine: row.get(2)?, shard: row.get(3)?, attempt: row.get(4)? };
            Ok(((row.get(0)?, row.get(1)?), origin))
        })
    }
}

/// Records what other machines measured.
impl SessionRecorder<'_> {
    /// Returns the store, for reading.
    pub fn store(&self) -> &Store {
        self.store
    }

    /// Inserts a block, unless it was merged before.
    ///
    /// # Errors
    /// Fails if a metric has another unit elsewhere in the session, or on database errors; the
    /// block is then not inserted at all.
    pub fn merge_block(&mut self, origin: BlockOrigin, block: &SpoolBlock) -> Result<MergeOutcome> {
        self.write_with(|writer, file| {
            let inserted = file.count_changes(
                sql!(
                    "INSERT INTO block_origin (session, job, block, machine, shard, attempt)
                     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING"
                ),
                sql_params![
                    writer.session,
                    block.job,
                    block.block,
                    origin.machine,
                    origin.shard,
                    origin.attempt,
                ],
            )?;
            if inserted == 1 {
                insert_block(writer, file, origin.machine, block)?;
                return Ok(MergeOutcome::New);
            }
            let existing = find_origin(writer, file, block.job, block.block)?;
            Ok(match existing {
                Some(existing) if existing == origin => MergeOutcome::Known,
                Some(existing) => MergeOutcome::Refused(existing),
                None => bail!("block {} of case {} was deleted", block.block, block.job),
            })
        })
    }

    /// Records that an attempt decided that a case needs no more runs. Returns whether the decision
    /// was accepted. If `after` is given, the decision is accepted only if the same attempt
    /// delivered block `after` of the case. If `after` is `None`, the attempt decided from blocks
    /// that were merged before it started, so the decision is always accepted.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn record_decision(
        &mut self,
        origin: BlockOrigin,
        (job, after): (u32, Option<u32>),
        label: &str,
        saved: usize,
    ) -> Result<bool> {
        if let Some(after) = after {
            let existing = self.write_with(|writer, file| find_origin(writer, file, job, after))?;
            if existing != Some(origin) {
                return Ok(false);
            }
        }
        self.store_decision(label, saved)?;
        Ok(true)
    }

    /// Inserts a shard or updates its progress.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn set_shard(&mut self, index: u32, shard: &StoredShard) -> Result<()> {
        let jobs = serde_json::to_string(&shard.jobs)?;
        let session = self.number();
        self.store.execute(
            sql!(
                "INSERT INTO shard (session, seq, machine, jobs, stratum, attempt, engine_id, state)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                 ON CONFLICT (session, seq) DO UPDATE SET
                     machine = excluded.machine, jobs = excluded.jobs,
                     stratum = excluded.stratum, attempt = excluded.attempt,
                     engine_id = excluded.engine_id, state = excluded.state"
            ),
            sql_params![
                session,
                index,
                shard.machine,
                &jobs,
                shard.stratum,
                shard.attempt,
                &shard.engine_id,
                shard.state.name(),
            ],
        )
    }

    /// Stores what a machine reports about itself. If `is_only` is set, the session has no other
    /// machine, and the reported environment also becomes the environment of the session. The
    /// session keeps its programs and its machine, which are known already.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn set_machine(
        &mut self,
        index: u32,
        machine: &SessionMachine,
        is_only: bool,
    ) -> Result<()> {
        self.write_with(|writer, file| {
            writer.upsert_machine(file, index, machine)?;
            if !is_only {
                return Ok(());
            }
            let sql = sql!("SELECT environment FROM session WHERE number = $1");
            let json: String = file.query_value(sql, sql_params![writer.session])?;
            let stored: Environment = parse_json(&json)?;
            let environment = Environment {
                programs: stored.programs,
                machine: stored.machine,
                ..machine.environment.clone()
            };
            Ok(file.execute(
                sql!("UPDATE session SET environment = $1 WHERE number = $2"),
                sql_params![&serde_json::to_string(&environment)?, writer.session],
            )?)
        })
    }

    /// Marks the runs of these slots as superseded, because their case was started again on another
    /// machine. The runs remain stored, but no analysis reads them.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn supersede_runs(&mut self, slots: &[u32]) -> Result<()> {
        let numbers = serde_json::to_string(slots)?;
        let sql =
            sql!("UPDATE run SET superseded = 1 WHERE session = $1 AND slot IN ({{numbers:2}})");
        let session = self.number();
        self.store.execute(sql, sql_params![session, &numbers])
    }

    /// Inserts a failure without a slot, unless the session already has it.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn add_failure(&mut self, failure: &StepFailure) -> Result<()> {
        self.write_with(|writer, file| writer.insert_failure_once(file, failure))
    }
}

/// Inserts a whole block. Its slots determine the indices of its rows.
fn insert_block(
    writer: &mut SessionWriter,
    file: &Database,
    machine: u32,
    block: &SpoolBlock,
) -> Result<()> {
    for (first, metric) in &block.metrics {
        writer.declare_metric(file, metric)?;
        writer.record_first_report(file, &metric.name, *first)?;
    }
    let Some(first) = block.slots.iter().min() else { return Ok(()) };
    writer.seek_to_slot(*first);
    let runs: Vec<Run> =
        block.runs.iter().map(|run| Run { machine: Some(machine), ..run.clone() }).collect();
    writer.insert_runs(file, &runs, true)?;
    for failure in &block.failures {
        writer.insert_failure(file, failure, true)?;
    }
    for &slot in &block.slots {
        let has_run = runs.iter().any(|run| run.slot == slot);
        let failed = (block.failures.iter()).any(|failure| failure.slot == Some(slot));
        if !has_run && !failed {
            writer.mark_empty_slot(file, slot)?;
        }
    }
    Ok(())
}

fn find_origin(
    writer: &SessionWriter,
    file: &Database,
    job: u32,
    block: u32,
) -> Result<Option<BlockOrigin>> {
    let sql = sql!(
        "SELECT machine, shard, attempt FROM block_origin
         WHERE session = $1 AND job = $2 AND block = $3"
    );
    Ok(file.query_first(sql, sql_params![writer.session, job, block], |row| {
        Ok(BlockOrigin { machine: row.get(0)?, shard: row.get(1)?, attempt: row.get(2)? })
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::back_end_tests::test_backends;
    use speedwell_fixtures::FakeSession;
    use speedwell_formats::json_lines;
    use speedwell_model::{Metric, MetricDirection, Sample, SessionState};

    /// Returns a session before its first run, and the blocks to be merged into it. Two machines
    /// measure one case each, in two blocks.
    fn two_machine_session() -> (Session, Vec<SpoolBlock>) {
        let session = FakeSession::with_fixed_blocks(&["a", "b"], 2)
            .add_case("g/x", |_, run| f64::from(run))
            .add_case("g/y", |_, run| f64::from(run) + 0.5)
            .build();
        let mut blocks: Vec<SpoolBlock> = Vec::new();
        for (slot, run) in (0..).zip(&session.runs) {
            let (job, block) = (u32::from(run.case.id() == "g/y"), run.block);
            let is_same = |other: &&mut SpoolBlock| (other.job, other.block) == (job, block);
            if blocks.iter_mut().find(is_same).is_none() {
                blocks.push(SpoolBlock {
                    job,
                    block,
                    metrics: vec![(i64::from(slot) << 16, session.metrics[0].clone())],
                    ..SpoolBlock::default()
                });
            }
            let Some(own) = blocks.iter_mut().find(is_same) else {
                continue;
            };
            own.slots.push(slot);
            own.runs.push(Run { slot, ..run.clone() });
        }
        let machine = |name: &str| SessionMachine {
            id: name.into(),
            name: name.into(),
            ..SessionMachine::default()
        };
        let begun = Session {
            state: SessionState::Running,
            metrics: Vec::new(),
            runs: Vec::new(),
            machines: vec![machine("lab-1"), machine("lab-2")],
            ..session
        };
        (begun, blocks)
    }

    fn block_origin(block: &SpoolBlock, attempt: u32) -> BlockOrigin {
        BlockOrigin { machine: block.job, shard: block.job, attempt }
    }

    #[test]
    fn a_block_that_is_sent_again_is_merged_only_once() {
        for backend in test_backends() {
            let (begun, blocks) = two_machine_session();
            let mut store = backend.open();
            let mut merger = store.begin_merging(&begun, "{}", &[]).unwrap();
            for block in blocks.iter().rev() {
                assert_eq!(
                    merger.merge_block(block_origin(block, 0), block).unwrap(),
                    MergeOutcome::New
                );
            }
            let first = &blocks[0];
            let outcome = merger.merge_block(block_origin(first, 0), first).unwrap();
            assert_eq!(outcome, MergeOutcome::Known);
            let double = merger.merge_block(block_origin(first, 1), first).unwrap();
            assert_eq!(double, MergeOutcome::Refused(block_origin(first, 0)));
            // A decision based on the blocks of a rejected attempt does not apply to the merged
            // blocks.
            let decide = |merger: &mut SessionRecorder<'_>, attempt| {
                let origin = block_origin(first, attempt);
                merger.record_decision(origin, (first.job, Some(first.block)), "g/x", 4)
            };
            assert!(!decide(&mut merger, 1).unwrap());
            assert!(decide(&mut merger, 0).unwrap());
            merger.finish_session(false).unwrap();
            let number = merger.number();
            let session = store.load_session(number).unwrap();
            let slots: Vec<u32> = session.runs.iter().map(|run| run.slot).collect();
            assert_eq!(
                slots,
                (0..16).collect::<Vec<u32>>(),
                "the runs are in the order of the plan"
            );
            let machines = |job: &str| {
                let runs = session.runs.iter().filter(|run| run.case.id() == job);
                runs.map(|run| run.machine).collect::<Vec<_>>()
            };
            assert_eq!(machines("g/y"), [Some(1); 8]);
            assert_eq!(store.finished_slots(number).unwrap().len(), 16);
            assert_eq!(store.decided_cases(number).unwrap()["g/x"], 4);
            assert_eq!(store.merged_blocks(number).unwrap().len(), 4);
            // The whole session survives a round trip through a file. Earlier versions reject the
            // file because of its version.
            let mut text = Vec::new();
            json_lines::write(&session, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("\"version\":2"), "{text}");
            let read = json_lines::read(&text).unwrap().remove(0);
            assert_eq!(read.machines, session.machines);
            let here = Session { id: "elsewhere".into(), ..read };
            let copy = store.insert_session(&here).unwrap();
            assert_eq!(store.load_session(copy).unwrap().runs, session.runs);
            let unknown = text.replace("\"machine\":1", "\"machine\":7");
            let refusal = json_lines::read(&unknown).unwrap_err().to_string();
            assert!(refusal.contains("has 2 machines"), "{refusal}");
        }
    }

    #[test]
    fn merged_metrics_keep_the_order_of_a_single_machine() {
        for backend in test_backends() {
            let (begun, mut blocks) = two_machine_session();
            let size = Metric::new("size", "B", MetricDirection::Lower);
            for block in blocks.iter_mut().filter(|block| block.job == 1) {
                let first = i64::from(block.slots[0]) << 16;
                block.metrics =
                    vec![(first + 1, block.metrics[0].1.clone()), (first + 2, size.clone())];
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
            first.metrics.insert(0, (0, Metric::new("early", "s", MetricDirection::Lower)));
            let mut store = backend.open();
            let mut merger = store.begin_merging(&begun, "{}", &[]).unwrap();
            for block in blocks.iter().rev() {
                merger.merge_block(block_origin(block, 0), block).unwrap();
            }
            merger.finish_session(false).unwrap();
            let session = store.load_session(1).unwrap();
            let names: Vec<&str> = session.metrics.iter().map(|m| m.name.as_str()).collect();
            assert_eq!(names, ["early", "throughput", "size"]);
            let last = session.runs.iter().rfind(|run| run.case.id() == "g/y").unwrap();
            assert_eq!(last.value_of("size"), Some(7.0));
        }
    }

    #[test]
    fn superseded_runs_stay_stored_and_are_not_read() {
        for backend in test_backends() {
            let (begun, blocks) = two_machine_session();
            let mut store = backend.open();
            let shard = StoredShard {
                machine: 1,
                jobs: vec![0, 1],
                stratum: 0,
                attempt: 0,
                engine_id: None,
                state: ShardState::Waiting,
            };
            let mut merger =
                store.begin_merging(&begun, "{}", std::slice::from_ref(&shard)).unwrap();
            for block in &blocks {
                merger.merge_block(block_origin(block, 0), block).unwrap();
            }
            let own = blocks.iter().filter(|block| block.job == 0);
            let slots: Vec<u32> = own.flat_map(|block| block.slots.clone()).collect();
            merger.supersede_runs(&slots).unwrap();
            let lost = StoredShard { state: ShardState::Lost, attempt: 2, ..shard };
            merger.set_shard(0, &lost).unwrap();
            merger.finish_session(false).unwrap();
            let session = store.load_session(1).unwrap();
            assert_eq!(session.runs.len(), 8);
            assert!(session.runs.iter().all(|run| run.case.id() == "g/y"));
            assert!(session.runs.iter().all(|run| run.samples.len() == 1));
            assert_eq!(store.list_shards(1).unwrap(), [lost]);
        }
    }
}
