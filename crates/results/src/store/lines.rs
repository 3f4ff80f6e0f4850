//! Lines of revisions: a branch as it was last seen, which gives points their order.

use super::Store;
use super::points::{PROJECT, keep_revision};
use super::read::from_json;
use rusqlite::{Row, params};
use speedwell_model::Revision;

/// A revision with its place on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedRevision {
    /// What is known of it.
    pub revision: Revision,
    /// From 0, the oldest; `None` where it is not on the line.
    pub position: Option<u32>,
}

impl Store {
    /// Replaces a line from `position` on.
    ///
    /// # Errors
    /// The file fails.
    pub fn keep_line(
        &mut self,
        branch: &str,
        position: u32,
        revisions: &[Revision],
    ) -> anyhow::Result<()> {
        self.change(|file| {
            file.execute(
                "DELETE FROM line WHERE project = ?1 AND branch = ?2 AND position >= ?3",
                params![PROJECT, branch, position],
            )?;
            let sql =
                "INSERT INTO line (project, branch, position, revision) VALUES (?1, ?2, ?3, ?4)";
            let mut insert = file.prepare_cached(sql)?;
            for (place, revision) in (i64::from(position)..).zip(revisions) {
                let number = keep_revision(file, revision)?;
                insert.execute(params![PROJECT, branch, place, number])?;
            }
            Ok(())
        })
    }

    /// The newest revision of a line with its position; `None` where the line was never seen.
    ///
    /// # Errors
    /// The file fails.
    pub fn tip(&self, branch: &str) -> anyhow::Result<Option<(u32, String)>> {
        let sql = "SELECT position, id FROM line JOIN revision ON number = revision
                   WHERE line.project = ?1 AND branch = ?2 ORDER BY position DESC LIMIT 1";
        self.first_row(sql, params![PROJECT, branch], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
    }

    /// The place of a revision on a line.
    ///
    /// # Errors
    /// The file fails.
    pub fn position(&self, branch: &str, id: &str) -> anyhow::Result<Option<u32>> {
        let sql = "SELECT position FROM line JOIN revision ON number = revision
                   WHERE line.project = ?1 AND branch = ?2 AND id = ?3";
        self.first_row(sql, params![PROJECT, branch, id], |row| row.get(0))
    }

    /// All measured revisions, in the order of their first sessions.
    ///
    /// # Errors
    /// The file fails.
    pub fn revisions_as_measured(&self) -> anyhow::Result<Vec<Revision>> {
        let sql = "SELECT id, tree, committed_unix_ms, subject FROM revision
                   JOIN (SELECT revision, min(session) AS first FROM point GROUP BY revision)
                   ON revision = number ORDER BY first";
        self.rows(sql, [], |row| {
            Ok(Revision {
                id: row.get(0)?,
                tree: row.get(1)?,
                parents: Vec::new(),
                committed_unix_ms: row.get(2)?,
                subject: row.get(3)?,
            })
        })
    }

    /// The names of all lines that were seen.
    ///
    /// # Errors
    /// The file fails.
    pub fn lines(&self) -> anyhow::Result<Vec<String>> {
        let sql = "SELECT DISTINCT branch FROM line WHERE project = ?1 ORDER BY branch";
        self.rows(sql, [PROJECT], |row| row.get(0))
    }

    /// A revision by its number, with its place on the line of `branch`. One that is not on the line stands where the only
    /// revision with the same files is: it was rebased, or joined with others into one.
    ///
    /// # Errors
    /// The file fails.
    pub fn placed(&self, branch: &str, number: i64) -> anyhow::Result<Option<PlacedRevision>> {
        let sql = "SELECT id, tree, parents, committed_unix_ms, subject, coalesce(
                       (SELECT position FROM line WHERE line.revision = known.number
                        AND line.project = known.project AND branch = ?2),
                       (SELECT min(position) FROM revision AS other
                        JOIN line ON line.revision = other.number
                        WHERE line.project = ?1 AND branch = ?2
                        AND other.project = ?1 AND other.tree = known.tree
                        HAVING count(*) = 1))
                   FROM revision AS known WHERE number = ?3";
        let read = |row: &Row<'_>| {
            let parents: Option<String> = row.get(2)?;
            Ok((
                PlacedRevision {
                    revision: Revision {
                        id: row.get(0)?,
                        tree: row.get(1)?,
                        parents: Vec::new(),
                        committed_unix_ms: row.get(3)?,
                        subject: row.get(4)?,
                    },
                    position: row.get(5)?,
                },
                parents,
            ))
        };
        let found = self.first_row(sql, params![PROJECT, branch, number], read)?;
        let Some((mut placed, parents)) = found else {
            return Ok(None);
        };
        placed.revision.parents = parents.as_deref().map_or(Ok(Vec::new()), from_json)?;
        Ok(Some(placed))
    }
}
