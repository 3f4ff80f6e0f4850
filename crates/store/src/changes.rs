//! Stores what is known about the history: performance changes that were detected along the
//! revisions of a branch, with their triage; the state of the search for them, so that the next
//! search continues from there; renames of benchmarks; and notes on revisions.

use super::Store;
use super::database::{Database, Error, SqlParam, SqlRow, sql, sql_params};
use super::points::PROJECT;
use anyhow::{Context, Result, ensure};
use speedwell_model::{ChangeState, ChangeTriage, IntervalEstimate, RecordedChange};
use std::collections::BTreeMap;

/// A change with its location in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredChange {
    /// The change.
    pub change: RecordedChange,
    /// Number of its series.
    pub series: i64,
    /// Branch on which it was detected.
    pub branch: String,
}

impl Store {
    /// Returns the changes of these series on a branch, ordered by number.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_changes(&self, series: &[i64], branch: &str) -> Result<Vec<StoredChange>> {
        let sql = sql!(
            "SELECT change.number, old.id, new.id, shape, evidence, ratio, low, high, state,
                    confirmed_by, triage, note, triaged_by, triaged_unix_ms, series, branch
             FROM change JOIN revision AS old ON old.number = before
             JOIN revision AS new ON new.number = after
             WHERE branch = $1 AND series IN {{numbers:2}} ORDER BY change.number"
        );
        let numbers = serde_json::to_string(series)?;
        self.query_rows(sql, sql_params![branch, &numbers], read_change)
    }

    /// Returns the numbers of all changes of a series between exactly these two revisions, on any
    /// branch.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn find_changes_between(&self, series: i64, before: &str, after: &str) -> Result<Vec<i64>> {
        let sql = sql!(
            "SELECT change.number FROM change JOIN revision AS old ON old.number = before
             JOIN revision AS new ON new.number = after
             WHERE series = $1 AND old.id = $2 AND new.id = $3 ORDER BY change.number"
        );
        self.query_rows(sql, sql_params![series, before, after], |row| row.get(0))
    }

    /// Returns a change by its number.
    ///
    /// # Errors
    /// Fails if no change has that number, or on database errors.
    pub fn find_change(&self, number: i64) -> Result<StoredChange> {
        let sql = sql!(
            "SELECT change.number, old.id, new.id, shape, evidence, ratio, low, high, state,
                    confirmed_by, triage, note, triaged_by, triaged_unix_ms, series, branch
             FROM change JOIN revision AS old ON old.number = before
             JOIN revision AS new ON new.number = after WHERE change.number = $1"
        );
        let found = self.query_first(sql, sql_params![number], read_change)?;
        found.with_context(|| {
            format!("change {number} does not exist\nhint: 'speedwell history changes' lists them")
        })
    }

    /// Replaces all changes of a series on a branch and returns them with their numbers. A change
    /// that had a number keeps it.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn replace_changes(
        &mut self,
        series: i64,
        branch: &str,
        changes: &[RecordedChange],
    ) -> Result<Vec<RecordedChange>> {
        self.transact(|file| {
            // Delete all changes before inserting any. Two changes may have swapped their
            // revisions, and the revision after a change must be unique.
            let delete = sql!("DELETE FROM change WHERE series = $1 AND branch = $2");
            file.execute(delete, sql_params![series, branch])?;
            let mut numbers = Vec::new();
            for change in changes {
                let number = insert_change(file, series, branch, change)?;
                numbers.push(RecordedChange { number, ..change.clone() });
            }
            Ok(numbers)
        })
    }

    /// Returns the detector states of a series along a branch, one for each
    /// [digest of the benchmark](speedwell_model::HistoryPoint::benchmark_digest).
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn load_detector_states(&self, series: i64, branch: &str) -> Result<Vec<Vec<u8>>> {
        let sql =
            sql!("SELECT state FROM detector_state WHERE series = $1 AND branch = $2 ORDER BY seq");
        self.query_rows(sql, sql_params![series, branch], |row| row.get(0))
    }

    /// Replaces the detector states of these series along a branch, in one transaction.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn store_detector_states(
        &mut self,
        branch: &str,
        states_by_series: &[(i64, Vec<Vec<u8>>)],
    ) -> Result<()> {
        if states_by_series.is_empty() {
            return Ok(());
        }
        let delete = sql!("DELETE FROM detector_state WHERE series = $1 AND branch = $2");
        let insert =
            sql!("INSERT INTO detector_state (series, branch, seq, state) VALUES ($1, $2, $3, $4)");
        self.transact(|file| {
            for (series, states) in states_by_series {
                file.execute(delete, sql_params![*series, branch])?;
                for (index, state) in (0_u32..).zip(states) {
                    file.execute(insert, sql_params![*series, branch, index, state])?;
                }
            }
            Ok(())
        })
    }

    /// Stores the outcome of measuring a change again.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn store_confirmation(&mut self, change: &RecordedChange) -> Result<()> {
        self.execute(
            sql!(
                "UPDATE change SET state = $1, ratio = $2, low = $3, high = $4,
                     confirmed_by = $5 WHERE number = $6"
            ),
            sql_params![
                &change.state.to_string(),
                change.ratio.value,
                change.ratio.low,
                change.ratio.high,
                change.confirmed_by,
                change.number,
            ],
        )
    }

    /// Stores a user's triage of a change.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn store_triage(&mut self, change: &RecordedChange) -> Result<()> {
        self.execute(
            sql!(
                "UPDATE change SET triage = $1, note = $2, triaged_by = $3,
                     triaged_unix_ms = $4 WHERE number = $5"
            ),
            sql_params![
                &change.triage.to_string(),
                &change.note,
                &change.triaged_by,
                change.triaged_unix_ms,
                change.number,
            ],
        )
    }

    /// Records that `old`, a benchmark or a whole case, is now called `new`.
    ///
    /// # Errors
    /// Fails if the renames would form a cycle, or on database errors.
    pub fn add_rename(&mut self, old: &str, new: &str) -> Result<()> {
        let names = self.list_renames()?;
        let mut name = new;
        while name != old
            && let Some(next) = names.get(name)
        {
            name = next;
        }
        ensure!(
            name != old,
            "'{new}' was renamed to '{old}' before, so this would be a cycle\nhint: 'speedwell history rename --undo' \
             reverts a rename"
        );
        let insert = sql!(
            "INSERT INTO rename (project, old, new) VALUES ($1, $2, $3)
             ON CONFLICT (project, old) DO UPDATE SET new = excluded.new"
        );
        self.execute(insert, sql_params![PROJECT, old, new])
    }

    /// Undoes a rename; returns whether there was one.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn undo_rename(&mut self, old: &str) -> Result<bool> {
        self.transact(|file| {
            let delete = sql!("DELETE FROM rename WHERE project = $1 AND old = $2");
            Ok(file.count_changes(delete, sql_params![PROJECT, old])? > 0)
        })
    }

    /// Returns the new name for each old name. A new name may itself have been renamed.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_renames(&self) -> Result<BTreeMap<String, String>> {
        let sql = sql!("SELECT old, new FROM rename WHERE project = $1");
        self.query_rows(sql, sql_params![PROJECT], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Adds a note to a revision.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn add_note(&mut self, revision: &str, text: &str) -> Result<()> {
        let insert = sql!("INSERT INTO annotation (project, revision, text) VALUES ($1, $2, $3)");
        self.execute(insert, sql_params![PROJECT, revision, text])
    }

    /// Returns all notes with their revisions, oldest first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_notes(&self) -> Result<Vec<(String, String)>> {
        let sql = sql!("SELECT revision, text FROM annotation WHERE project = $1 ORDER BY number");
        self.query_rows(sql, sql_params![PROJECT], |row| Ok((row.get(0)?, row.get(1)?)))
    }
}

/// Inserts a change and returns its number. A change that already has a number keeps it.
pub(super) fn insert_change(
    file: &Database,
    series: i64,
    branch: &str,
    change: &RecordedChange,
) -> Result<i64, Error> {
    let revision = sql!("SELECT number FROM revision WHERE project = $1 AND id = $2");
    let before: i64 = file.query_value(revision, sql_params![PROJECT, &change.before])?;
    let after: i64 = file.query_value(revision, sql_params![PROJECT, &change.after])?;
    let state = change.state.to_string();
    let triage = change.triage.to_string();
    let params: &[SqlParam<'_>; 16] = sql_params![
        series,
        branch,
        before,
        after,
        if change.is_drift { "drift" } else { "step" },
        change.evidence,
        change.ratio.value,
        change.ratio.low,
        change.ratio.high,
        &state,
        change.confirmed_by,
        &triage,
        &change.note,
        &change.triaged_by,
        change.triaged_unix_ms,
        change.number,
    ];
    if change.number > 0 {
        let insert = sql!(
            "INSERT INTO change (series, branch, before, after, shape, evidence, ratio, low,
                 high, state, confirmed_by, triage, note, triaged_by, triaged_unix_ms, number)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
             RETURNING number"
        );
        file.query_value(insert, params)
    } else {
        file.query_value(
            sql!(
                "INSERT INTO change (series, branch, before, after, shape, evidence, ratio, low,
                     high, state, confirmed_by, triage, note, triaged_by, triaged_unix_ms)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
                 RETURNING number"
            ),
            &params[..15],
        )
    }
}

fn read_change(row: SqlRow<'_>) -> Result<StoredChange, Error> {
    let ratio: f64 = row.get(5)?;
    let end = |column| row.get::<Option<f64>>(column).map(|end| end.unwrap_or(ratio));
    Ok(StoredChange {
        series: row.get(14)?,
        branch: row.get(15)?,
        change: RecordedChange {
            number: row.get(0)?,
            before: row.get(1)?,
            after: row.get(2)?,
            is_drift: row.get::<&str>(3)? == "drift",
            evidence: row.get(4)?,
            ratio: IntervalEstimate { value: ratio, low: end(6)?, high: end(7)? },
            state: ChangeState::from_name(row.get(8)?).unwrap_or(ChangeState::Suspected),
            confirmed_by: row.get(9)?,
            triage: ChangeTriage::from_name(row.get(10)?).unwrap_or_default(),
            note: row.get(11)?,
            triaged_by: row.get(12)?,
            triaged_unix_ms: row.get(13)?,
        },
    })
}
