//! Parses references to stored sessions on the command line, and resolves them.

use super::Store;
use super::database::{SqlParam, SqlStatement, sql, sql_params};
use anyhow::{anyhow, bail, ensure};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// Reference to one session of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionReference {
    /// `@latest`: the session that was started or imported last.
    Latest,
    /// `@prev`: the session before `@latest`.
    Previous,
    /// `@12`: the session with that number.
    Number(i64),
    /// `@TAG`: the last session that carries the tag.
    Tag(String),
    /// `@rev:REVISION`: the last session that measured this revision without uncommitted changes.
    /// REVISION is an id or the beginning of an id.
    Revision(String),
    /// `@branch:NAME`: the last session that measured this branch without uncommitted changes.
    Branch(String),
    /// `@base` or `@base:BRANCH`: the session of the newest measured revision that the checkout and
    /// the branch have in common.
    Base(Option<String>),
}

/// Minimum length of an id prefix.
const MIN_ID_PREFIX: usize = 4;

/// Why a string is not a session reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The `@` is missing.
    #[error("'{0}' does not begin with '@'")]
    NoAt(String),
    /// The text after the `@` is not a valid reference.
    #[error(
        "invalid session reference '@{0}': {1}\nhint: use @latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME or \
             @base"
    )]
    BadName(String, &'static str),
}

impl FromStr for SessionReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<SessionReference, ReferenceError> {
        let name = text
            .strip_prefix('@')
            .ok_or_else(|| ReferenceError::NoAt(text.to_owned()))?;
        match name {
            "latest" => Ok(SessionReference::Latest),
            "prev" => Ok(SessionReference::Previous),
            "base" => Ok(SessionReference::Base(None)),
            _ if let Some((kind @ ("rev" | "branch" | "base"), argument)) =
                name.split_once(':') =>
            {
                if argument.is_empty() {
                    return Err(ReferenceError::BadName(
                        name.to_owned(),
                        "nothing follows the colon",
                    ));
                }
                Ok(match kind {
                    "rev" => SessionReference::Revision(argument.to_owned()),
                    "branch" => SessionReference::Branch(argument.to_owned()),
                    _ => SessionReference::Base(Some(argument.to_owned())),
                })
            }
            _ if is_number(name) => name
                .parse()
                .map(SessionReference::Number)
                .map_err(|_| ReferenceError::BadName(name.to_owned(), "the number is too large")),
            _ => match tag_problem(name) {
                Some(reason) => Err(ReferenceError::BadName(name.to_owned(), reason)),
                None => Ok(SessionReference::Tag(name.to_owned())),
            },
        }
    }
}

impl fmt::Display for SessionReference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionReference::Latest => out.write_str("@latest"),
            SessionReference::Previous => out.write_str("@prev"),
            SessionReference::Number(number) => write!(out, "@{number}"),
            SessionReference::Tag(name) => write!(out, "@{name}"),
            SessionReference::Revision(revision) => write!(out, "@rev:{revision}"),
            SessionReference::Branch(name) => write!(out, "@branch:{name}"),
            SessionReference::Base(None) => out.write_str("@base"),
            SessionReference::Base(Some(branch)) => write!(out, "@base:{branch}"),
        }
    }
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns why `name` cannot be a tag; `None` if it can. A tag must not contain characters that
/// separate the parts of a source on the command line, such as `[`, `]` and `:`. It must not look
/// like a number or a reserved word.
fn tag_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("the name is empty");
    }
    if is_number(name) || ["latest", "prev", "base"].contains(&name) {
        return Some("the name is reserved");
    }
    let is_separator = |c: char| c.is_whitespace() || c.is_control() || "@[]:,'\"".contains(c);
    name.contains(is_separator)
        .then_some("a tag must not contain blanks, quotes or @ [ ] : ,")
}

/// Rejects a name that no [`SessionReference`] could find.
pub(super) fn validate_tag(name: &str) -> anyhow::Result<()> {
    match tag_problem(name) {
        Some(reason) => bail!("invalid tag '{name}': {reason}"),
        None => Ok(()),
    }
}

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
            found
                .iter()
                .map(|(id, _)| id.as_str())
                .collect::<Vec<_>>()
                .join(" or ")
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
        self.query_rows(sql, sql_params![max_count], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
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
        let range = self.query_first(sql, sql_params![], |row| {
            Ok((row.get::<i64>(0)?, row.get::<i64>(1)?))
        })?;
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
        Ok(anyhow!(
            "session '{reference}' does not exist\nhint: {hint}"
        ))
    }

    /// Returns up to five existing tags, most similar first.
    fn similar_tags(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let mut tags: Vec<String> = self.query_rows(
            sql!("SELECT DISTINCT name FROM tag"),
            sql_params![],
            |row| row.get(0),
        )?;
        tags.sort_by_cached_key(|tag| (strsim::osa_distance(tag, name), tag.clone()));
        tags.truncate(5);
        Ok(tags.into_iter().map(|tag| format!("@{tag}")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_are_read_and_printed() {
        for (text, meant) in [
            ("@latest", SessionReference::Latest),
            ("@prev", SessionReference::Previous),
            ("@12", SessionReference::Number(12)),
            ("@nightly-7", SessionReference::Tag("nightly-7".into())),
            ("@v1.2/x", SessionReference::Tag("v1.2/x".into())),
            ("@rev:main~2", SessionReference::Revision("main~2".into())),
            ("@branch:fix/a", SessionReference::Branch("fix/a".into())),
            ("@base", SessionReference::Base(None)),
            (
                "@base:release",
                SessionReference::Base(Some("release".into())),
            ),
        ] {
            assert_eq!(text.parse(), Ok(meant.clone()));
            assert_eq!(meant.to_string(), text);
        }
    }

    #[test]
    fn what_names_no_session_says_why() {
        assert_eq!(
            "latest".parse::<SessionReference>(),
            Err(ReferenceError::NoAt("latest".into()))
        );
        for wrong in [
            "@",
            "@a b",
            "@99999999999999999999",
            "@a[b]",
            "@a::b",
            "@rev:",
            "@base:",
        ] {
            let error = wrong.parse::<SessionReference>().unwrap_err().to_string();
            assert!(
                error.contains(wrong) && error.contains("hint: use @latest"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_tag_that_could_not_be_found_again_is_refused() {
        for wrong in ["", "12", "latest", "prev", "base", "rev:1", "a b", "x@y"] {
            assert!(validate_tag(wrong).is_err(), "{wrong}");
        }
        assert!(validate_tag("12a").is_ok());
    }
}
