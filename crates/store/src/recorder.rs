//! Records a session while it is being measured, and reads it back ([`Store::load_measured`]). Also
//! records the progress of running loads.

use super::Store;
use super::cases::LARGE_SESSION;
use super::database::{Database, TransactionPurpose, sql, sql_params};
use super::read::parse_json;
use super::session_writer::SessionWriter;
use super::sessions::read_process;
use anyhow::{Context, Result, bail, ensure};
use speedwell_machine::process::ProcessIdentity;
use speedwell_model::stored::{LiveLoad, LoadProgress};
use speedwell_model::{
    Metric, Run, Session, SessionDesign, SessionEvent, SessionObserver, SessionState, StepFailure,
    Variant,
};
use std::collections::BTreeMap;

/// Observes a session, and stores each slot (one planned run) as soon as it is complete. Also merges
/// the blocks that other machines measured, see [`SessionRecorder::merge_block`].
///
/// The rows of a slot (its runs or its failure, and the mark that it is done) stay in memory until
/// [`SessionEvent::SlotsDone`] and are then committed together. So a killed session holds only
/// complete slots, and resuming it repeats exactly the missing slots. Slots may overlap, as they do
/// when variants run in parallel.
#[derive(Debug)]
pub struct SessionRecorder<'a> {
    pub(super) store: &'a mut Store,
    writer: SessionWriter,
    /// Runs and failures of the slots that are not complete yet.
    open_slots: BTreeMap<u32, (Vec<Run>, Vec<StepFailure>)>,
}

impl Store {
    /// Inserts `session` as running, before its first run. `plan` is the plan as JSON.
    ///
    /// Also stores the failures that the session already contains. They come from benchmarks that
    /// could not be queried for their cases and metrics.
    ///
    /// # Errors
    /// Fails if the session already has runs, its id or a tag is invalid, or on database errors.
    pub fn begin_recording(
        &mut self,
        session: &Session,
        plan: &str,
    ) -> Result<SessionRecorder<'_>> {
        ensure!(session.runs.is_empty(), "cannot begin a session that already has runs");
        for tag in &session.tags {
            speedwell_model::validate_tag(tag)?;
        }
        let writer = self.transact(|file| {
            let mut writer =
                SessionWriter::begin(file, session, SessionState::Running, Some(plan))?;
            writer.set_recorder(file, &ProcessIdentity::current_process())?;
            for failure in &session.failures {
                writer.insert_failure(file, failure, true)?;
            }
            Ok(writer)
        })?;
        Ok(SessionRecorder { store: self, writer, open_slots: BTreeMap::new() })
    }

    /// Continues a session that was killed or interrupted, and marks it as running.
    ///
    /// Drops the runs and failures of incomplete slots, because these slots will run again.
    ///
    /// # Errors
    /// Fails if the session does not exist, has nothing left to do, or is being measured by another
    /// process.
    pub fn resume_recording(&mut self, number: i64) -> Result<SessionRecorder<'_>> {
        match self.session_state(number)? {
            SessionState::Running | SessionState::Interrupted => self.ensure_not_running(number)?,
            SessionState::Complete => bail!("session @{number} is complete: nothing to resume"),
            SessionState::Imported => bail!("session @{number} was imported: it has no plan"),
        }
        let writer = self.transact(|file| {
            for unfinished in [
                sql!("DELETE FROM run WHERE session = $1 AND slot_done = 0"),
                sql!("DELETE FROM failure WHERE session = $1 AND slot_done = 0"),
            ] {
                file.execute(unfinished, sql_params![number])?;
            }
            set_state(file, number, SessionState::Running)?;
            set_gate_lines(file, number, &[])?;
            let writer = SessionWriter::open(file, number)?;
            writer.set_recorder(file, &ProcessIdentity::current_process())?;
            Ok(writer)
        })?;
        Ok(SessionRecorder { store: self, writer, open_slots: BTreeMap::new() })
    }

    /// Loads a session that was just measured. Omits its runs if there are more than
    /// [`LARGE_SESSION`]; the second value tells whether the runs were omitted.
    ///
    /// # Errors
    /// Fails if there is no such session, and on database errors.
    pub fn load_measured(&self, number: i64) -> Result<(Session, bool)> {
        if self.count_runs(number)? > LARGE_SESSION {
            return Ok((self.load_session_without_runs(number)?, true));
        }
        Ok((self.load_session(number)?, false))
    }

    /// Replaces the lines of the gate by which a measured session was judged.
    ///
    /// # Errors
    /// Fails if there is no such session, and on database errors.
    pub fn set_gate_lines(&mut self, session: i64, lines: &[String]) -> Result<()> {
        self.transact(|file| set_gate_lines(file, session, lines))
    }

    /// Fails if another live process is measuring the session.
    fn ensure_not_running(&self, number: i64) -> Result<()> {
        let Some(recorder) = self.recording_process(number)? else { return Ok(()) };
        let is_alive =
            recorder.has_ended() == Some(false) && recorder != ProcessIdentity::current_process();
        ensure!(
            !is_alive || self.session_state(number)? != SessionState::Running,
            "session @{number} is being measured by process {}\nhint: wait until it has ended",
            recorder.pid
        );
        Ok(())
    }

    /// Runs `work` in one transaction, which commits only if `work` succeeds.
    pub(super) fn transact<T>(&mut self, work: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
        let result = self.database.transaction(TransactionPurpose::Writing, work);
        result.map_err(|error| self.to_user_error(error))
    }
}

impl SessionRecorder<'_> {
    /// Returns the number of the session, as in `@NUMBER`.
    pub fn number(&self) -> i64 {
        self.writer.session
    }

    /// Declares unit and direction of a metric that the harness reports. Call this before the first
    /// sample of the metric, because an undeclared metric has no unit, and its higher values are
    /// considered better.
    ///
    /// # Errors
    /// Fails if the session holds the metric with another unit or direction, or on database errors.
    pub fn declare_metric(&mut self, metric: &Metric) -> Result<()> {
        self.write_with(|writer, file| writer.declare_metric(file, metric))
    }

    /// Queues the session for upload. It is uploaded when it is complete, even if this process dies
    /// before that.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn queue_upload(&mut self, url: &str, now_unix_ms: i64) -> Result<()> {
        self.store.queue_upload(self.writer.session, url, now_unix_ms)
    }

    /// Replaces the list of variants of the session. A bisection needs this, because it finds more
    /// variants while it measures. The new list must contain all variants that have runs.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn set_variants(&mut self, variants: &[Variant]) -> Result<()> {
        let text = serde_json::to_string(variants)?;
        let update = sql!("UPDATE session SET variants = $1 WHERE number = $2");
        self.store.execute(update, sql_params![&text, self.writer.session])
    }

    /// Records that a case needs no more runs, and how many planned runs this saves.
    pub(super) fn store_decision(&mut self, label: &str, saved: usize) -> Result<()> {
        let insert = sql!(
            "INSERT INTO decided_case (session, case_id, saved_runs) VALUES ($1, $2, $3)
             ON CONFLICT (session, case_id) DO UPDATE SET saved_runs = excluded.saved_runs"
        );
        self.store.execute(insert, sql_params![self.writer.session, label, saved])
    }

    fn close_slots(&mut self, slots: &[u32], is_done: bool) -> Result<()> {
        let closed: Vec<_> =
            slots.iter().map(|slot| self.open_slots.remove(slot).unwrap_or_default()).collect();
        self.write_with(|writer, file| {
            for (slot, (runs, failures)) in slots.iter().zip(&closed) {
                writer.insert_runs(file, runs, is_done)?;
                for failure in failures {
                    writer.insert_failure(file, failure, is_done)?;
                }
                if runs.is_empty() && failures.is_empty() && is_done {
                    writer.mark_empty_slot(file, *slot)?;
                }
            }
            Ok(())
        })
        .with_context(|| {
            let numbers: Vec<String> = slots.iter().map(u32::to_string).collect();
            let noun = if slots.len() == 1 { "slot" } else { "slots" };
            format!("cannot store {noun} {}", numbers.join(" and "))
        })
    }

    /// Marks the session as interrupted or complete. Also stores the results of incomplete slots,
    /// because they are useful to a user who never resumes the session. Resuming the session drops
    /// these results first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn finish_session(&mut self, interrupted: bool) -> Result<()> {
        let open: Vec<u32> = self.open_slots.keys().copied().collect();
        for slot in open {
            self.close_slots(&[slot], !interrupted)?;
        }
        let state = if interrupted { SessionState::Interrupted } else { SessionState::Complete };
        self.write_with(|writer, file| {
            writer.order_metrics(file)?;
            set_state(file, writer.session, state)
        })
    }

    /// Runs `work` in one transaction. If the transaction fails, opens the writer again, because
    /// the numbers that it caches may belong to rows that were rolled back.
    pub(super) fn write_with<T>(
        &mut self,
        work: impl FnOnce(&mut SessionWriter, &Database) -> Result<T>,
    ) -> Result<T> {
        let writer = &mut self.writer;
        let result = self.store.transact(|file| work(writer, file));
        if result.is_err() {
            self.writer = SessionWriter::open(&self.store.database, self.writer.session)?;
        }
        result
    }
}

impl SessionObserver for SessionRecorder<'_> {
    fn observe(&mut self, event: &SessionEvent<'_>) -> Result<()> {
        match event {
            SessionEvent::RunFinished(run) => {
                self.open_slots.entry(run.slot).or_default().0.push((*run).clone())
            }
            SessionEvent::Failed(failure) => match failure.slot {
                Some(slot) => self.open_slots.entry(slot).or_default().1.push((*failure).clone()),
                None => {
                    self.write_with(|writer, file| writer.insert_failure_once(file, failure))?
                }
            },
            SessionEvent::SlotsDone(slots) => self.close_slots(slots, true)?,
            SessionEvent::CaseDecided { label, saved } => self.store_decision(label, *saved)?,
            SessionEvent::Declared(metric) => self.declare_metric(metric)?,
            SessionEvent::Finished { interrupted } => self.finish_session(*interrupted)?,
            _ => {}
        }
        Ok(())
    }
}

fn set_state(file: &Database, session: i64, state: SessionState) -> Result<()> {
    let sql = sql!("UPDATE session SET state = $1 WHERE number = $2");
    Ok(file.execute(sql, sql_params![state.name(), session])?)
}

fn set_gate_lines(file: &Database, session: i64, lines: &[String]) -> Result<()> {
    let sql = sql!("SELECT design FROM session WHERE number = $1");
    let json: String = file.query_value(sql, sql_params![session])?;
    let design: SessionDesign = parse_json(&json)?;
    if design.gate_lines != lines {
        let design = SessionDesign { gate_lines: lines.to_vec(), ..design };
        let update = sql!("UPDATE session SET design = $1 WHERE number = $2");
        file.execute(update, sql_params![&serde_json::to_string(&design)?, session])?;
    }
    Ok(())
}

/// Stores the progress of running loads, so that viewers can show it. The session of a load is
/// stored only when the load ends.
///
/// Each row belongs to a process. Rows of killed processes are ignored, and the next load deletes
/// them.
impl Store {
    /// Registers a load of this process and returns its number. Deletes the rows of killed
    /// processes.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn begin_load(&mut self, progress: &LoadProgress, now_unix_ms: i64) -> Result<i64> {
        let text = serde_json::to_string(progress)?;
        let ended_loads = self.all_loads()?.into_iter().filter(|(_, is_gone)| *is_gone);
        let ended_loads: Vec<i64> = ended_loads.map(|(load, _)| load.number).collect();
        let ended_loads = serde_json::to_string(&ended_loads)?;
        let process = ProcessIdentity::current_process();
        self.transact(|file| {
            let delete = sql!("DELETE FROM live_load WHERE number IN {{numbers:1}}");
            file.execute(delete, sql_params![&ended_loads])?;
            Ok(file.query_value(
                sql!(
                    "INSERT INTO live_load (machine_id, boot_id, pid_namespace, pid, started_ticks,
                         begun_unix_ms, at_unix_ms, progress)
                     VALUES ($1, $2, $3, $4, $5, $6, $6, $7) RETURNING number"
                ),
                sql_params![
                    &process.machine_id,
                    &process.boot_id,
                    &process.pid_namespace,
                    process.pid,
                    process.started_ticks,
                    now_unix_ms,
                    &text,
                ],
            )?)
        })
    }

    /// Updates the progress of a load.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn update_load(
        &mut self,
        number: i64,
        progress: &LoadProgress,
        now_unix_ms: i64,
    ) -> Result<()> {
        let text = serde_json::to_string(progress)?;
        let update = sql!("UPDATE live_load SET at_unix_ms = $1, progress = $2 WHERE number = $3");
        self.execute(update, sql_params![now_unix_ms, &text, number])
    }

    /// Removes a load that has ended.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn end_load(&mut self, number: i64) -> Result<()> {
        self.execute(sql!("DELETE FROM live_load WHERE number = $1"), sql_params![number])
    }

    /// Returns the running loads, newest first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_live_loads(&self) -> Result<Vec<LiveLoad>> {
        let loads = self.all_loads()?.into_iter();
        Ok(loads.filter(|(_, is_gone)| !is_gone).map(|(load, _)| load).collect())
    }

    /// Returns all rows. The flag of a row tells whether its process is gone.
    fn all_loads(&self) -> Result<Vec<(LiveLoad, bool)>> {
        let sql = sql!(
            "SELECT machine_id, boot_id, pid_namespace, pid, started_ticks, number, begun_unix_ms,
                    at_unix_ms,
                    progress FROM live_load ORDER BY number DESC"
        );
        self.query_rows(sql, sql_params![], |row| {
            let load = LiveLoad {
                number: row.get(5)?,
                begun_unix_ms: row.get(6)?,
                at_unix_ms: row.get(7)?,
                progress: parse_json(row.get(8)?)?,
            };
            Ok((load, read_process(row)?.has_ended() == Some(true)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::back_end_tests::test_backends;

    #[test]
    fn a_load_is_listed_until_it_ends_or_its_process_dies() {
        for backend in test_backends() {
            let mut store = backend.open();
            let mut progress = LoadProgress {
                command: vec!["load".into(), "http://localhost/".into()],
                load: 1,
                planned_ms: Some(10_000),
                ..LoadProgress::default()
            };
            let number = store.begin_load(&progress, 5).unwrap();
            progress.elapsed_ms = 1_000;
            progress.rates.push(1234.5);
            store.update_load(number, &progress, 1_005).unwrap();
            let viewer = Store::open_to_view(&backend.path()).unwrap();
            let loads = viewer.list_live_loads().unwrap();
            assert_eq!(loads.len(), 1);
            assert_eq!((loads[0].begun_unix_ms, loads[0].at_unix_ms), (5, 1_005));
            assert_eq!(loads[0].progress, progress);
            // Simulate a row whose process was killed.
            store.database.batch("UPDATE live_load SET started_ticks = 1").unwrap();
            assert_eq!(viewer.list_live_loads().unwrap(), []);
            let second = store.begin_load(&progress, 9).unwrap();
            assert_eq!(
                store.all_loads().unwrap().len(),
                1,
                "the row of the killed process is deleted"
            );
            store.end_load(second).unwrap();
            assert_eq!(viewer.list_live_loads().unwrap(), []);
        }
    }
}
