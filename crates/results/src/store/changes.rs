//! Changes along lines, with what people said of them; names that benchmarks had before; remarks on revisions.

use super::Store;
use super::points::PROJECT;
use anyhow::{bail, ensure};
use rusqlite::{Row, params};
use speedwell_model::{Change, ChangeState, Estimate, Judgement};
use std::collections::BTreeMap;

/// Columns of a change, as [`change_of`] reads them.
const COLUMNS: &str =
    "change.number, old.id, new.id, shape, evidence, ratio, low, high, state, confirmed_by, judged,
    note, judged_by, judged_unix_ms, series, branch";

/// A change with its place in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredChange {
    /// What is known of it.
    pub change: Change,
    /// The number of its series.
    pub series: i64,
    /// The line on which it was found.
    pub branch: String,
}

impl Store {
    /// The changes of a series on a line.
    ///
    /// # Errors
    /// The file fails.
    pub fn changes(&self, series: i64, branch: &str) -> anyhow::Result<Vec<Change>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM change JOIN revision AS old ON old.number = before
             JOIN revision AS new ON new.number = after
             WHERE series = ?1 AND branch = ?2 ORDER BY change.number"
        );
        let stored: Vec<StoredChange> = self.rows(&sql, params![series, branch], change_of)?;
        Ok(stored.into_iter().map(|stored| stored.change).collect())
    }

    /// The numbers of the changes of a series, on any line, between two commits.
    ///
    /// # Errors
    /// The file fails.
    pub fn changes_between(
        &self,
        series: i64,
        before: &str,
        after: &str,
    ) -> anyhow::Result<Vec<i64>> {
        let sql = "SELECT change.number FROM change JOIN revision AS old ON old.number = before
             JOIN revision AS new ON new.number = after
             WHERE series = ?1 AND old.id = ?2 AND new.id = ?3 ORDER BY change.number";
        self.rows(sql, params![series, before, after], |row| row.get(0))
    }

    /// A change by its number.
    ///
    /// # Errors
    /// The file fails, or there is none of that number.
    pub fn change_numbered(&self, number: i64) -> anyhow::Result<StoredChange> {
        let sql = format!(
            "SELECT {COLUMNS} FROM change JOIN revision AS old ON old.number = before
             JOIN revision AS new ON new.number = after WHERE change.number = ?1"
        );
        match self.first_row(&sql, [number], change_of)? {
            Some(found) => Ok(found),
            None => {
                bail!("there is no change {number}\nhint: speedwell history changes lists them")
            }
        }
    }

    /// Keeps the changes of a series on a line, in the place of all that were there, and gives them back with their
    /// numbers: those that had one keep it.
    ///
    /// # Errors
    /// The file fails.
    pub fn keep_changes(
        &mut self,
        series: i64,
        branch: &str,
        changes: &[Change],
    ) -> anyhow::Result<Vec<Change>> {
        self.change(|file| {
            // Two borders may have taken each other's place.
            file.execute(
                "DELETE FROM change WHERE series = ?1 AND branch = ?2",
                params![series, branch],
            )?;
            let sql = "INSERT INTO change (number, series, branch, before, after, shape, evidence, ratio, low, high,
                           state, confirmed_by, judged, note, judged_by, judged_unix_ms)
                       SELECT ?1, ?2, ?3, old.number, new.number, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14
                       FROM revision AS old JOIN revision AS new ON new.project = old.project
                       WHERE old.project = ?15 AND old.id = ?16 AND new.id = ?17 RETURNING number";
            let mut insert = file.prepare_cached(sql)?;
            changes
                .iter()
                .map(|change| {
                    let number = insert.query_row(
                        params![
                            Some(change.number).filter(|number| *number > 0),
                            series,
                            branch,
                            if change.is_drift { "drift" } else { "step" },
                            change.evidence,
                            change.ratio.value,
                            change.ratio.low,
                            change.ratio.high,
                            change.state.to_string(),
                            change.confirmed_by,
                            change.judgement.to_string(),
                            change.note,
                            change.judged_by,
                            change.judged_unix_ms,
                            PROJECT,
                            change.before,
                            change.after,
                        ],
                        |row| row.get(0),
                    )?;
                    Ok(Change {
                        number,
                        ..change.clone()
                    })
                })
                .collect()
        })
    }

    /// Keeps what measuring a change again came to.
    ///
    /// # Errors
    /// The file fails.
    pub fn settle(&mut self, change: &Change) -> anyhow::Result<()> {
        self.change(|file| {
            file.execute(
                "UPDATE change SET state = ?2, ratio = ?3, low = ?4, high = ?5, confirmed_by = ?6 WHERE number = ?1",
                params![
                    change.number,
                    change.state.to_string(),
                    change.ratio.value,
                    change.ratio.low,
                    change.ratio.high,
                    change.confirmed_by,
                ],
            )?;
            Ok(())
        })
    }

    /// Keeps what a person said of a change.
    ///
    /// # Errors
    /// The file fails.
    pub fn judge(&mut self, change: &Change) -> anyhow::Result<()> {
        self.change(|file| {
            file.execute(
                "UPDATE change SET judged = ?2, note = ?3, judged_by = ?4, judged_unix_ms = ?5 WHERE number = ?1",
                params![
                    change.number,
                    change.judgement.to_string(),
                    change.note,
                    change.judged_by,
                    change.judged_unix_ms,
                ],
            )?;
            Ok(())
        })
    }

    /// Takes `new` for the present name of what was called `old`, a benchmark or a whole case.
    ///
    /// # Errors
    /// The names go round in a circle; the file fails.
    pub fn rename(&mut self, old: &str, new: &str) -> anyhow::Result<()> {
        let names = self.renames()?;
        let mut name = new;
        while name != old
            && let Some(next) = names.get(name)
        {
            name = next;
        }
        ensure!(
            name != old,
            "'{new}' was renamed to '{old}' before, so that would be a circle\nhint: speedwell history rename --undo \
             takes a rename back"
        );
        self.change(|file| {
            file.execute(
                "INSERT OR REPLACE INTO renamed (project, old, new) VALUES (?1, ?2, ?3)",
                params![PROJECT, old, new],
            )?;
            Ok(())
        })
    }

    /// Takes a rename back; tells whether there was one.
    ///
    /// # Errors
    /// The file fails.
    pub fn undo_rename(&mut self, old: &str) -> anyhow::Result<bool> {
        self.change(|file| {
            let sql = "DELETE FROM renamed WHERE project = ?1 AND old = ?2";
            Ok(file.execute(sql, params![PROJECT, old])? > 0)
        })
    }

    /// Present names by old ones; a present name may itself be an old one.
    ///
    /// # Errors
    /// The file fails.
    pub fn renames(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let sql = "SELECT old, new FROM renamed WHERE project = ?1";
        self.rows(sql, [PROJECT], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Adds a remark to a revision.
    ///
    /// # Errors
    /// The file fails.
    pub fn remark(&mut self, revision: &str, text: &str) -> anyhow::Result<()> {
        self.change(|file| {
            let sql = "INSERT INTO remark (project, revision, text) VALUES (?1, ?2, ?3)";
            file.execute(sql, params![PROJECT, revision, text])?;
            Ok(())
        })
    }

    /// All remarks with their revisions, in the order in which they were made.
    ///
    /// # Errors
    /// The file fails.
    pub fn remarks(&self) -> anyhow::Result<Vec<(String, String)>> {
        let sql = "SELECT revision, text FROM remark WHERE project = ?1 ORDER BY number";
        self.rows(sql, [PROJECT], |row| Ok((row.get(0)?, row.get(1)?)))
    }
}

fn change_of(row: &Row<'_>) -> rusqlite::Result<StoredChange> {
    let ratio: f64 = row.get(5)?;
    let end = |at| {
        row.get::<_, Option<f64>>(at)
            .map(|end| end.unwrap_or(ratio))
    };
    let text = |at| row.get::<_, String>(at);
    Ok(StoredChange {
        series: row.get(14)?,
        branch: row.get(15)?,
        change: Change {
            number: row.get(0)?,
            before: row.get(1)?,
            after: row.get(2)?,
            is_drift: text(3)? == "drift",
            evidence: row.get(4)?,
            ratio: Estimate {
                value: ratio,
                low: end(6)?,
                high: end(7)?,
            },
            state: ChangeState::of(&text(8)?).unwrap_or(ChangeState::Suspected),
            confirmed_by: row.get(9)?,
            judgement: Judgement::of(&text(10)?).unwrap_or_default(),
            note: row.get(11)?,
            judged_by: row.get(12)?,
            judged_unix_ms: row.get(13)?,
        },
    })
}
