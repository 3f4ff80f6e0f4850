//! Selects the sessions that may be deleted.

use super::Store;
use super::database::{sql, sql_params};
use speedwell_model::SessionState;
use speedwell_model::stored::SessionOverview;

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
