//! Stores lines of revisions. A line is the list of the revisions of a branch, as it was last seen.
//! It determines the order of the points of every series on the branch.

use super::Store;
use super::database::{Database, Error, SqlRow, sql, sql_params};
use super::points::{PROJECT, upsert_revision};
use super::read::parse_json;
use anyhow::Result;
use speedwell_model::{Revision, RevisionMarker};

/// A revision and its position on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedRevision {
    /// The revision.
    pub revision: Revision,
    /// Position, counting from 0 for the oldest; `None` if the revision is not on the line.
    pub position: Option<u32>,
}

impl Store {
    /// Replaces the part of a line that starts at `position`.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn store_line(
        &mut self,
        branch: &str,
        position: u32,
        revisions: &[Revision],
    ) -> Result<()> {
        self.transact(|file| {
            let delete = sql!(
                "DELETE FROM branch_revision
                 WHERE project = $1 AND branch = $2 AND position >= $3"
            );
            file.execute(delete, sql_params![PROJECT, branch, position])?;
            insert_line(file, branch, position, revisions)
        })
    }

    /// Stores the measured revisions as a line called `name`, in the order in which they were first
    /// measured or imported. If `branch` is given, stores only the revisions of that branch. Does
    /// nothing if no session was added or removed since the last call.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn store_measured_order(&mut self, name: &str, branch: Option<&str>) -> Result<()> {
        let sessions_sql = sql!("SELECT sessions, number_sum FROM summary_total");
        let read = |row: SqlRow<'_>| Ok((row.get(0)?, row.get(1)?));
        let current: Option<(i64, i64)> = self.query_first(sessions_sql, sql_params![], read)?;
        let line_sql = sql!("SELECT sessions, number_sum FROM measured_order WHERE branch = $1");
        if self.query_first(line_sql, sql_params![name], read)? == current {
            return Ok(());
        }
        let (sessions, numbers) = current.unwrap_or_default();
        self.transact(|file| {
            let delete = sql!("DELETE FROM branch_revision WHERE project = $1 AND branch = $2");
            let removed = file.count_changes(delete, sql_params![PROJECT, name])?;
            let insert = sql!(
                "INSERT INTO branch_revision (project, branch, position, revision)
                 SELECT CAST($1 AS BIGINT), CAST($2 AS TEXT),
                        row_number() OVER (ORDER BY first, revision) - 1, revision
                 FROM (SELECT revision, min(session) AS first FROM point
                       WHERE revision IS NOT NULL AND (CAST($3 AS TEXT) IS NULL
                       OR session IN (SELECT session FROM origin WHERE branch = $3))
                       GROUP BY revision) AS measured"
            );
            let inserted = file.count_changes(insert, sql_params![PROJECT, name, branch])?;
            // Do not record an empty line for a name that is not a branch.
            if removed + inserted > 0 {
                let sql = sql!(
                    "INSERT INTO measured_order (branch, sessions, number_sum) VALUES ($1, $2, $3)
                     ON CONFLICT (branch) DO UPDATE SET
                         sessions = excluded.sessions, number_sum = excluded.number_sum"
                );
                file.execute(sql, sql_params![name, sessions, numbers])?;
            }
            Ok(())
        })
    }

    /// Returns the newest revision of a line with its position; `None` if the line is unknown.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn line_tip(&self, branch: &str) -> Result<Option<(u32, String)>> {
        let sql = sql!(
            "SELECT position, id FROM branch_revision JOIN revision ON number = revision
             WHERE branch_revision.project = $1 AND branch = $2 ORDER BY position DESC LIMIT 1"
        );
        self.query_first(sql, sql_params![PROJECT, branch], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the position of a revision on a line.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn line_position(&self, branch: &str, id: &str) -> Result<Option<u32>> {
        let sql = sql!(
            "SELECT position FROM branch_revision JOIN revision ON number = revision
             WHERE branch_revision.project = $1 AND branch = $2 AND id = $3"
        );
        self.query_first(sql, sql_params![PROJECT, branch, id], |row| row.get(0))
    }

    /// Returns the ids of the revisions that follow this revision on any known line; `None` if no
    /// line contains this revision.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn later_revisions(&self, id: &str) -> Result<Option<Vec<String>>> {
        let sql = sql!(
            "SELECT following.id FROM revision AS this
             JOIN branch_revision AS placed ON placed.revision = this.number
             LEFT JOIN branch_revision AS later ON later.project = placed.project
                 AND later.branch = placed.branch AND later.position > placed.position
             LEFT JOIN revision AS following ON following.number = later.revision
             WHERE this.project = $1 AND placed.project = $1 AND this.id = $2
             ORDER BY placed.branch, later.position"
        );
        // A line that ends with this revision has a row without a later revision.
        let later: Vec<Option<String>> =
            self.query_rows(sql, sql_params![PROJECT, id], |row| row.get(0))?;
        Ok((!later.is_empty()).then(|| later.into_iter().flatten().collect()))
    }

    /// Returns a marker for each given revision that lies on the line, in the order of the line.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn revision_markers<'a>(
        &self,
        branch: &str,
        ids: impl Iterator<Item = &'a String>,
    ) -> Result<Vec<RevisionMarker>> {
        let sql = sql!(
            "SELECT position, committed_unix_ms
             FROM branch_revision JOIN revision ON number = revision
             WHERE branch_revision.project = $1 AND branch = $2 AND id = $3"
        );
        let mut found = Vec::new();
        for id in ids {
            let marker = self.query_first(sql, sql_params![PROJECT, branch, id], |row| {
                Ok(RevisionMarker {
                    position: row.get(0)?,
                    committed_unix_ms: row.get(1)?,
                    revision: id.clone(),
                    session: None,
                })
            })?;
            found.extend(marker);
        }
        found.sort_by_key(|landmark| landmark.position);
        Ok(found)
    }

    /// Returns the names of all known lines.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_lines(&self) -> Result<Vec<String>> {
        let sql = sql!(
            "SELECT branch FROM branch_revision WHERE project = $1 GROUP BY branch
             ORDER BY branch COLLATE {{binary}}"
        );
        self.query_rows(sql, sql_params![PROJECT], |row| row.get(0))
    }

    /// Returns the revisions with these numbers, each with its number and its position on the line
    /// of `branch`. A revision that was rebased or squashed is not on the line. It gets the position
    /// of the line's revision with the same tree, if there is exactly one.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn place_revisions(
        &self,
        branch: &str,
        numbers: &[i64],
    ) -> Result<Vec<(i64, PlacedRevision)>> {
        // The join starts from the revisions with the same tree. If it started from the line, each
        // revision that is not on the line would cost a scan of the whole line.
        let sql = sql!(
            "SELECT id, tree, committed_unix_ms, subject, parents, coalesce(
                 (SELECT position FROM branch_revision WHERE branch_revision.revision = known.number
                  AND branch_revision.project = known.project AND branch = $1),
                 (SELECT min(position) FROM revision AS other CROSS JOIN branch_revision
                  WHERE other.project = $2 AND other.tree = known.tree
                  AND branch_revision.revision = other.number AND branch_revision.project = $2
                  AND branch = $1
                  HAVING count(*) = 1)), number
             FROM revision AS known WHERE number IN {{numbers:3}} ORDER BY number"
        );
        let numbers = serde_json::to_string(numbers)?;
        self.query_rows(sql, sql_params![branch, PROJECT, &numbers], |row| {
            let parents = row.get::<Option<&str>>(4)?.map_or(Ok(Vec::new()), parse_json)?;
            let revision = Revision { parents, ..read_revision(row)? };
            Ok((row.get(6)?, PlacedRevision { revision, position: row.get(5)? }))
        })
    }
}

/// Inserts the part of a line that starts at `position`.
pub(super) fn insert_line(
    file: &Database,
    branch: &str,
    position: u32,
    revisions: &[Revision],
) -> Result<()> {
    for (position, revision) in (i64::from(position)..).zip(revisions) {
        let number = upsert_revision(file, revision)?;
        let insert = sql!(
            "INSERT INTO branch_revision (project, branch, position, revision)
             VALUES ($1, $2, $3, $4)"
        );
        file.execute(insert, sql_params![PROJECT, branch, position, number])?;
    }
    Ok(())
}

/// Reads a revision without its parents from the columns id, tree, committed_unix_ms and subject.
pub(super) fn read_revision(row: SqlRow<'_>) -> Result<Revision, Error> {
    Ok(Revision {
        id: row.get(0)?,
        tree: row.get(1)?,
        parents: Vec::new(),
        committed_unix_ms: row.get(2)?,
        subject: row.get(3)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::back_end_tests::{empty_points, imported_session, test_backends};
    use speedwell_model::{SessionEvent, SessionObserver};

    fn revision(id: &str, tree: &str) -> Revision {
        Revision {
            id: id.into(),
            tree: Some(tree.into()),
            parents: vec!["p".into()],
            ..Revision::default()
        }
    }

    /// Returns the position that the revision with this number has on the line.
    fn position_of_number(store: &Store, branch: &str, number: i64) -> Option<u32> {
        let (_, placed) = store.place_revisions(branch, &[number]).unwrap().pop()?;
        placed.position
    }

    #[test]
    fn a_line_is_extended_at_its_end_or_replaced_from_any_position() {
        for backend in test_backends() {
            let mut store = backend.open();
            let line = |ids: &[&str]| -> Vec<Revision> {
                ids.iter().map(|id| revision(id, &format!("tree of {id}"))).collect()
            };
            store.store_line("main", 0, &line(&["a", "b", "c"])).unwrap();
            store.store_line("main", 3, &line(&["d"])).unwrap();
            assert_eq!(store.line_tip("main").unwrap(), Some((3, "d".into())));
            store.store_line("main", 1, &line(&["x"])).unwrap();
            assert_eq!(store.line_tip("main").unwrap(), Some((1, "x".into())));
            assert_eq!(store.line_position("main", "b").unwrap(), None);
            assert_eq!(store.line_tip("other").unwrap(), None);
            assert_eq!(store.list_lines().unwrap(), ["main"]);
        }
    }

    #[test]
    fn a_rebased_revision_is_placed_by_its_tree_unless_ambiguous() {
        for backend in test_backends() {
            let mut store = backend.open();
            let line = [revision("a", "1"), revision("b", "2"), revision("c", "1")];
            store.store_line("main", 0, &line).unwrap();
            store
                .store_line(
                    "side",
                    0,
                    &[revision("b2", "2"), revision("a2", "1"), revision("z", "9")],
                )
                .unwrap();
            // Numbers follow the order in which revisions were first seen.
            assert_eq!(position_of_number(&store, "main", 2), Some(1));
            assert_eq!(position_of_number(&store, "main", 4), Some(1), "rebased");
            assert_eq!(
                position_of_number(&store, "main", 5),
                None,
                "'a' and 'c' have the same tree"
            );
            assert_eq!(position_of_number(&store, "main", 6), None);
            let revision = store.place_revisions("main", &[4]).unwrap().remove(0).1.revision;
            assert_eq!((&*revision.id, &revision.parents[..]), ("b2", &["p".to_owned()][..]));
        }
    }

    /// The totals that the store maintains agree with the sessions after every change.
    #[test]
    fn sessions_without_points_are_tracked_through_every_change() {
        for backend in test_backends() {
            let mut store = backend.open();
            for id in ["a", "b", "c", "d"] {
                store.insert_session(&imported_session(id)).unwrap();
            }
            let row_counts = |store: &Store| -> (i64, i64) {
                let sql = sql!("SELECT sessions, number_sum FROM summary_total");
                let row =
                    store.query_first(sql, sql_params![], |row| Ok((row.get(0)?, row.get(1)?)));
                row.unwrap().unwrap()
            };
            let missing = |store: &Store| store.find_sessions_without_points().unwrap();
            assert_eq!((missing(&store), row_counts(&store)), (vec![4, 3, 2, 1], (0, 0)));
            for number in [1, 2, 4, 4] {
                store.store_points(number, &empty_points()).unwrap();
            }
            assert_eq!((missing(&store), row_counts(&store)), (vec![3], (3, 7)));
            store.delete_untracked(4).unwrap();
            store.delete_untracked(3).unwrap();
            assert_eq!((missing(&store), row_counts(&store)), (vec![], (2, 3)));
            // A session that is still being measured gets its points when it is complete.
            let mut recorder = store.begin_recording(&imported_session("e"), "{}").unwrap();
            let over = SessionEvent::Finished { interrupted: false };
            recorder.observe(&over).unwrap();
            drop(recorder);
            assert_eq!(missing(&store), [5]);
        }
    }

    #[test]
    fn points_of_a_missing_session_are_not_stored() {
        for backend in test_backends() {
            let mut store = backend.open();
            let missing = store.store_points(1, &empty_points()).unwrap_err();
            assert!(missing.to_string().contains("cannot use the results"), "{missing}");
            assert!(store.find_machine(1).is_err(), "the failed transaction stored nothing");
        }
    }
}
