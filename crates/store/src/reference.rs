//! Resolves references to stored sessions.

use super::Store;
use super::database::{SqlParam, SqlStatement, sql, sql_params};
use anyhow::{anyhow, bail, ensure};
use speedwell_model::SessionReference;
use std::collections::HashMap;

const MIN_ID_PREFIX: usize = 4;

impl Store {
    /// Resolves a reference to the number of a session.
    ///
    /// # Errors
    /// Fails if there is no such session; the message lists alternatives: the range of numbers, or
    /// similar tags.
    pub fn resolve_reference(&self, reference: &SessionReference) -> anyhow::Result<i64> {
        let found = match reference {
            SessionReference::Latest => self.nth_latest(0),
            SessionReference::Previous => self.nth_latest(1),
            SessionReference::Number(number) => self.query_number(
                sql!("SELECT number FROM session WHERE number = $1"),
                sql_params![*number],
            ),
            SessionReference::Tag(name) => self.query_number(
                sql!("SELECT max(session) FROM tag WHERE name = $1 HAVING count(*) > 0"),
                sql_params![name],
            ),
            SessionReference::Revision(revision) => self.latest_of_revision(revision),
            SessionReference::Branch(name) => self.query_number(
                sql!(
                    "SELECT max(session) FROM origin WHERE branch = $1 AND dirty = 0
                     HAVING count(*) > 0"
                ),
                sql_params![name],
            ),
            SessionReference::Base(_) => bail!("cannot resolve '{reference}' without a repository"),
        };
        match found? {
            Some(number) => Ok(number),
            None => Err(self.not_found_error(reference)?),
        }
    }

    /// Returns the last session of a revision. `revision` may be the beginning of an id, if only
    /// one measured id begins with it.
    fn latest_of_revision(&self, revision: &str) -> anyhow::Result<Option<i64>> {
        let sql = sql!(
            "SELECT max(session) FROM origin WHERE revision = $1 AND dirty = 0
             HAVING count(*) > 0"
        );
        let exact = self.query_number(sql, sql_params![revision])?;
        let is_beginning =
            revision.len() >= MIN_ID_PREFIX && revision.bytes().all(|b| b.is_ascii_hexdigit());
        if exact.is_some() || !is_beginning {
            return Ok(exact);
        }
        let sql = sql!(
            "SELECT revision, max(session) FROM origin
             WHERE lower(revision) LIKE $1 || '%' AND dirty = 0 GROUP BY revision"
        );
        let mut found: Vec<(String, i64)> =
            self.query_rows(sql, sql_params![&revision.to_lowercase()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        found.sort();
        ensure!(
            found.len() < 2,
            "'@rev:{revision}' is ambiguous: {}",
            found.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>().join(" or ")
        );
        Ok(found.first().map(|(_, number)| *number))
    }

    /// Returns the last session of each measured revision, ignoring sessions with uncommitted
    /// changes.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn measured_revisions(&self) -> anyhow::Result<HashMap<String, i64>> {
        let sql =
            sql!("SELECT revision, max(session) FROM origin WHERE dirty = 0 GROUP BY revision");
        self.query_rows(sql, sql_params![], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the revisions of the last `max_count` sessions with a known origin, each with its
    /// tree if known.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn newest_revisions(
        &self,
        max_count: u32,
    ) -> anyhow::Result<Vec<(String, Option<String>)>> {
        let sql = sql!("SELECT revision, tree FROM origin ORDER BY session DESC LIMIT $1");
        self.query_rows(sql, sql_params![max_count], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn nth_latest(&self, nth: i64) -> anyhow::Result<Option<i64>> {
        self.query_number(
            sql!("SELECT number FROM session ORDER BY number DESC LIMIT 1 OFFSET $1"),
            sql_params![nth],
        )
    }

    fn query_number(
        &self,
        statement: &'static SqlStatement,
        params: &[SqlParam<'_>],
    ) -> anyhow::Result<Option<i64>> {
        self.query_first(statement, params, |row| row.get(0))
    }

    fn not_found_error(&self, reference: &SessionReference) -> anyhow::Result<anyhow::Error> {
        let sql = sql!("SELECT min(number), max(number) FROM session HAVING count(*) > 0");
        let range = self
            .query_first(sql, sql_params![], |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))?;
        let Some((first, last)) = range else {
            return Ok(anyhow!(
                "session '{reference}' does not exist: '{}' contains no sessions yet\n\
                 hint: measure something with speedwell run, or choose the right file with --db FILE",
                self.path.display()
            ));
        };
        let hint = match reference {
            SessionReference::Tag(name) => match self.similar_tags(name)? {
                tags if tags.is_empty() => "no session is tagged; see speedwell history".to_owned(),
                tags => format!("existing tags: {}", tags.join(", ")),
            },
            SessionReference::Revision(_) | SessionReference::Branch(_) => {
                "speedwell history shows which revisions and branches were measured; sessions with uncommitted \
                 changes do not count"
                    .to_owned()
            }
            _ if first == last => format!("the only session is @{first}"),
            _ => format!("sessions range from @{first} to @{last}; see speedwell history"),
        };
        Ok(anyhow!("session '{reference}' does not exist\nhint: {hint}"))
    }

    /// Returns up to five existing tags, most similar first.
    fn similar_tags(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let mut tags: Vec<String> =
            self.query_rows(sql!("SELECT DISTINCT name FROM tag"), sql_params![], |row| {
                row.get(0)
            })?;
        tags.sort_by_cached_key(|tag| (strsim::osa_distance(tag, name), tag.clone()));
        tags.truncate(5);
        Ok(tags.into_iter().map(|tag| format!("@{tag}")).collect())
    }
}
