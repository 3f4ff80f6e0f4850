//! Selects the sessions that may be deleted, deletes sessions, and restores them. A tombstone of a
//! deleted session remains, so that a later upload of the session is rejected. For some days, the
//! tombstone keeps the session as compressed JSON Lines, so that the deletion can be undone.

use super::Store;
use super::database::{SqlRow, sql, sql_params};
use super::session_writer::insert_whole;
use super::sessions::delete_row;
use anyhow::Context;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use speedwell_formats::json_lines;
use speedwell_model::SessionState;
use speedwell_model::stored::SessionOverview;
use std::io::Read;

/// A deleted session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedSession {
    /// Id of the session.
    pub id: String,
    /// Number that the session had.
    pub number: i64,
    /// Who deleted the session.
    pub actor: String,
    /// Why it was deleted.
    pub reason: String,
    /// When the session was deleted, in milliseconds since the Unix epoch.
    pub at_unix_ms: i64,
    /// Whether the deletion can be undone.
    pub is_kept: bool,
}

impl Store {
    /// Deletes a session, but keeps a tombstone with its content.
    ///
    /// # Errors
    /// Fails if there is no such session, or on database errors.
    pub fn delete_session(
        &mut self,
        number: i64,
        actor: &str,
        reason: &str,
        at_unix_ms: i64,
    ) -> anyhow::Result<()> {
        let session = self.load_session_without_runs(number)?;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        self.write_lines(number, &mut encoder)?;
        let packed = encoder.finish()?;
        self.transact(|file| {
            delete_row(file, number)?;
            Ok(file.execute(
                sql!(
                    "INSERT INTO deleted_session (id, number, actor, reason, at_unix_ms, lines)
                     VALUES ($1, $2, $3, $4, $5, $6)
                     ON CONFLICT (id) DO UPDATE SET number = excluded.number,
                         actor = excluded.actor, reason = excluded.reason,
                         at_unix_ms = excluded.at_unix_ms, lines = excluded.lines"
                ),
                sql_params![&session.id, number, actor, reason, at_unix_ms, &packed],
            )?)
        })
    }

    /// Returns the deleted sessions, latest deletion first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn deleted_sessions(&self) -> anyhow::Result<Vec<DeletedSession>> {
        let sql = sql!(
            "SELECT id, number, actor, reason, at_unix_ms,
                    CAST(CASE WHEN lines IS NULL THEN 0 ELSE 1 END AS BIGINT)
             FROM deleted_session ORDER BY at_unix_ms DESC, number DESC"
        );
        self.query_rows(sql, sql_params![], |row| {
            Ok(DeletedSession {
                id: row.get(0)?,
                number: row.get(1)?,
                actor: row.get(2)?,
                reason: row.get(3)?,
                at_unix_ms: row.get(4)?,
                is_kept: row.get(5)?,
            })
        })
    }

    /// Restores a deleted session and returns its new number.
    ///
    /// # Errors
    /// Fails if the session was not deleted, if its content was dropped, or on database errors.
    pub fn restore_deleted(&mut self, id: &str) -> anyhow::Result<i64> {
        let sql = sql!("SELECT lines FROM deleted_session WHERE id = $1");
        let read = |row: SqlRow<'_>| row.get::<Option<Vec<u8>>>(0);
        let lines = self.query_first(sql, sql_params![id], read)?;
        let packed =
            lines.with_context(|| format!("no session '{id}' was deleted"))?.with_context(
                || format!("the content of the deleted session '{id}' is no longer stored"),
            )?;
        let mut text = String::new();
        GzDecoder::new(&packed[..]).read_to_string(&mut text)?;
        let session = json_lines::read(&text)?.pop().context("its lines contain no session")?;
        self.transact(|file| {
            file.execute(sql!("DELETE FROM deleted_session WHERE id = $1"), sql_params![id])?;
            insert_whole(file, &session)
        })
    }

    /// Drops the stored content of sessions that were deleted before `unix_ms`. The tombstones
    /// stay. Returns the number of sessions whose content was dropped.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn purge_deleted_before(&mut self, unix_ms: i64) -> anyhow::Result<usize> {
        self.transact(|file| {
            let sql = sql!(
                "UPDATE deleted_session SET lines = NULL
                     WHERE lines IS NOT NULL AND at_unix_ms < $1"
            );
            Ok(file.count_changes(sql, sql_params![unix_ms])?)
        })
    }
}

/// Retention rules. A session is always kept if it is running or tagged, belongs to a main branch,
/// confirms a change, or has a pending or rejected upload.
#[derive(Debug, Clone, Copy)]
pub struct RetentionRules<'a> {
    /// A session that was interrupted or has no runs expires if it started before this time, in
    /// milliseconds since the Unix epoch. `None` disables this rule.
    pub failed_since: Option<i64>,
    /// A session of a branch that is not in `main` expires if it started before this time. `None`
    /// disables this rule.
    pub branches_since: Option<i64>,
    /// Branches whose sessions are always kept.
    pub main: &'a [String],
}

impl Store {
    /// Returns the sessions that may be deleted, oldest first, with the reason.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn expired_sessions(
        &self,
        keep: &RetentionRules<'_>,
    ) -> anyhow::Result<Vec<(SessionOverview, &'static str)>> {
        let sql = sql!(
            "SELECT number FROM session
             WHERE state <> 'running' AND started_unix_ms < $1
             AND number NOT IN (SELECT session FROM tag)
             AND number NOT IN (SELECT confirmed_by FROM change WHERE confirmed_by IS NOT NULL)
             AND number NOT IN (SELECT session FROM outbox WHERE state <> 'sent')
             ORDER BY number"
        );
        let newest = keep.failed_since.max(keep.branches_since);
        let numbers: Vec<i64> =
            self.query_rows(sql, sql_params![newest.unwrap_or(0)], |row| row.get(0))?;
        let old = |since: Option<i64>, session: &SessionOverview| {
            since.is_some_and(|since| session.started_unix_ms < since)
        };
        let mut found = Vec::new();
        for session in self.overviews(&numbers)? {
            let branch = session.origin.as_ref().and_then(|origin| origin.branch.as_ref());
            if branch.is_some_and(|branch| keep.main.contains(branch)) {
                continue;
            }
            let has_failed = session.state == SessionState::Interrupted || session.runs == 0;
            if has_failed && old(keep.failed_since, &session) {
                found.push((session, "failed"));
            } else if branch.is_some() && old(keep.branches_since, &session) {
                found.push((session, "not on a main branch"));
            }
        }
        Ok(found)
    }
}
