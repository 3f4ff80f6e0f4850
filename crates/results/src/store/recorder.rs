//! Records a session while it is being measured.

use super::Store;
use super::database::{Database, Purpose, given, sql};
use super::session_writer::{SessionWriter, state_name};
use anyhow::{Context, ensure};
use speedwell_model::{Event, Failure, Metric, Observer, Run, Session, State, Variant};
use speedwell_process::Identity;
use std::collections::BTreeMap;

/// Observes a session and stores each slot as soon as it is complete.
///
/// The rows of a slot (its runs or its failure, and the mark that it is done) stay in memory until
/// [`Event::SlotsDone`] and are then committed together. So a killed session holds only complete
/// slots, and resuming it repeats exactly the missing ones. Slots may overlap, as they do when
/// variants run in parallel.
#[derive(Debug)]
pub struct Recorder<'a> {
    pub(super) store: &'a mut Store,
    writer: SessionWriter,
    open_slots: BTreeMap<u32, Vec<Entry>>,
}

#[derive(Debug)]
enum Entry {
    Run(Run),
    Failure(Failure),
}

impl Store {
    /// Inserts `session` as running, before its first run. `plan` is the plan as JSON.
    ///
    /// Failures the session already holds (benchmarks that could not be described) are stored.
    ///
    /// # Errors
    /// The session already has runs, its id or a tag is invalid, or the database fails.
    pub fn begin(&mut self, session: &Session, plan: &str) -> anyhow::Result<Recorder<'_>> {
        ensure!(
            session.runs.is_empty(),
            "a session that has runs cannot be begun"
        );
        for tag in &session.tags {
            super::reference::check_tag(tag)?;
        }
        let writer = self.change(|file| {
            let mut writer = SessionWriter::begin(file, session, State::Running, Some(plan))?;
            writer.recorded_by(file, &Identity::own())?;
            for failure in &session.failures {
                writer.failure(file, failure, true)?;
            }
            Ok(writer)
        })?;
        Ok(Recorder {
            store: self,
            writer,
            open_slots: BTreeMap::new(),
        })
    }

    /// Continues a session that was killed or interrupted, and marks it as running.
    ///
    /// Drops the runs of incomplete slots: those slots run again.
    ///
    /// # Errors
    /// The session does not exist, has nothing left to do, or is being measured by another process.
    pub fn resume(&mut self, number: i64) -> anyhow::Result<Recorder<'_>> {
        match self.state(number)? {
            State::Running | State::Interrupted => self.refuse_living(number)?,
            State::Complete => anyhow::bail!("session @{number} is complete: nothing to resume"),
            State::Imported => anyhow::bail!("session @{number} was imported: it has no plan"),
        }
        let writer = self.change(|file| {
            for unfinished in [
                sql!("DELETE FROM run WHERE session = $1 AND slot_done = 0"),
                sql!("DELETE FROM failure WHERE session = $1 AND slot_done = 0"),
            ] {
                file.execute(unfinished, given![number])?;
            }
            set_state(file, number, State::Running)?;
            let writer = SessionWriter::open(file, number)?;
            writer.recorded_by(file, &Identity::own())?;
            Ok(writer)
        })?;
        Ok(Recorder {
            store: self,
            writer,
            open_slots: BTreeMap::new(),
        })
    }

    /// Fails if another live process is measuring the session.
    fn refuse_living(&self, number: i64) -> anyhow::Result<()> {
        let Some(recorder) = self.recorder(number)? else {
            return Ok(());
        };
        let is_alive = recorder.has_ended() == Some(false) && recorder != Identity::own();
        ensure!(
            !is_alive || self.state(number)? != State::Running,
            "session @{number} is being measured by process {}\nhint: wait until it has ended",
            recorder.pid
        );
        Ok(())
    }

    /// Runs `work` in one transaction, which commits only if `work` succeeds.
    pub(super) fn change<T>(
        &mut self,
        work: impl FnOnce(&Database) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let done = self.database.transaction(Purpose::Writing, work);
        done.map_err(|error| self.in_words(error))
    }
}

impl Recorder<'_> {
    /// Returns the number of the session, as in `@NUMBER`.
    pub fn number(&self) -> i64 {
        self.writer.session()
    }

    /// Declares unit and direction of a metric that the harness reports. Best called before the
    /// first sample: an undeclared metric has no unit, and more of it counts as better.
    ///
    /// # Errors
    /// The session holds the metric with another unit or direction, or the database fails.
    pub fn declare(&mut self, metric: &Metric) -> anyhow::Result<()> {
        self.write(|writer, file| writer.declare(file, metric))
    }

    /// Queues the session for upload when it is complete, even if this process dies first.
    ///
    /// # Errors
    /// The database fails.
    pub fn owe(&mut self, url: &str, now_unix_ms: i64) -> anyhow::Result<()> {
        self.store.owe(self.writer.session(), url, now_unix_ms)
    }

    /// Replaces the variants of the session, because a search finds more of them while it measures.
    /// Variants with runs stay.
    ///
    /// # Errors
    /// The database fails.
    pub fn set_variants(&mut self, variants: &[Variant]) -> anyhow::Result<()> {
        let text = serde_json::to_string(variants)?;
        self.write(|writer, file| {
            file.execute(
                sql!("UPDATE session SET variants = $1 WHERE number = $2"),
                given![&text, writer.session()],
            )?;
            Ok(())
        })
    }

    /// Records that a case needs no more runs, and how many planned ones that saves.
    pub(super) fn decide(&mut self, label: &str, saved: usize) -> anyhow::Result<()> {
        self.write(|writer, file| {
            file.execute(
                sql!(
                    "INSERT INTO case_decided (session, id, saved_runs) VALUES ($1, $2, $3)
                     ON CONFLICT (session, id) DO UPDATE SET saved_runs = excluded.saved_runs"
                ),
                given![writer.session(), label, saved as i64],
            )?;
            Ok(())
        })
    }

    fn keep(&mut self, slot: u32, entry: Entry) {
        self.open_slots.entry(slot).or_default().push(entry);
    }

    fn close_slots(&mut self, slots: &[u32], done: bool) -> anyhow::Result<()> {
        let closed = slots.iter().map(|slot| {
            let entries = self.open_slots.remove(slot);
            (*slot, entries.unwrap_or_default())
        });
        let closed: Vec<(u32, Vec<Entry>)> = closed.collect();
        self.write(|writer, file| {
            for (slot, entries) in &closed {
                for entry in entries {
                    match entry {
                        Entry::Run(run) => writer.runs(file, &[run], done)?,
                        Entry::Failure(failure) => writer.failure(file, failure, done)?,
                    }
                }
                if entries.is_empty() && done {
                    writer.empty_slot(file, *slot)?;
                }
            }
            Ok(())
        })
        .with_context(|| {
            let slots: Vec<String> = slots.iter().map(u32::to_string).collect();
            format!("cannot keep slot {}", slots.join(" and "))
        })
    }

    /// Also stores the results of incomplete slots: a user who never resumes has paid for them, and
    /// resuming drops them first.
    pub(super) fn finish(&mut self, interrupted: bool) -> anyhow::Result<()> {
        let open: Vec<u32> = self.open_slots.keys().copied().collect();
        for slot in open {
            self.close_slots(&[slot], !interrupted)?;
        }
        let state = if interrupted {
            State::Interrupted
        } else {
            State::Complete
        };
        self.write(|writer, file| set_state(file, writer.session(), state))
    }

    /// Writes in one transaction, and resets the cached numbers if it fails.
    pub(super) fn write<T>(
        &mut self,
        work: impl FnOnce(&mut SessionWriter, &Database) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let writer = &mut self.writer;
        let done = self.store.change(|file| work(writer, file));
        if done.is_err() {
            self.writer = SessionWriter::open(&self.store.database, self.writer.session())?;
        }
        done
    }
}

impl Observer for Recorder<'_> {
    fn observe(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        match event {
            Event::RunFinished(run) => self.keep(run.slot, Entry::Run((*run).clone())),
            Event::Failed(failure) => match failure.slot {
                Some(slot) => self.keep(slot, Entry::Failure((*failure).clone())),
                None => self.write(|writer, file| writer.failure_once(file, failure))?,
            },
            Event::SlotsDone(slots) => self.close_slots(slots, true)?,
            Event::CaseDecided { label, saved } => self.decide(label, *saved)?,
            Event::Declared(metric) => self.declare(metric)?,
            Event::Finished { interrupted } => self.finish(*interrupted)?,
            _ => {}
        }
        Ok(())
    }
}

fn set_state(file: &Database, session: i64, state: State) -> anyhow::Result<()> {
    file.execute(
        sql!("UPDATE session SET state = $1 WHERE number = $2"),
        given![state_name(state), session],
    )?;
    Ok(())
}
