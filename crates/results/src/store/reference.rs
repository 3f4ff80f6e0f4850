//! References to stored sessions on the command line, and their resolution.

use super::Store;
use super::database::{Given, Statement, given, sql};
use anyhow::{anyhow, bail, ensure};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// Reference to one session of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// `@latest`: the session started or imported last.
    Latest,
    /// `@prev`: the session before it.
    Previous,
    /// `@12`: the session with that number.
    Number(i64),
    /// `@TAG`: the last session that carries the tag.
    Tag(String),
    /// `@rev:REVISION`: the last session of that revision without uncommitted changes, by id or id
    /// prefix.
    Revision(String),
    /// `@branch:NAME`: the last session of that branch without uncommitted changes.
    Branch(String),
    /// `@base` or `@base:BRANCH`: the newest measured revision that the checkout and the branch
    /// have in common.
    Base(Option<String>),
}

/// Minimum length of an id prefix.
const SHORTEST: usize = 4;

/// Why a text is not a session reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The `@` is missing.
    #[error("'{0}' does not begin with '@'")]
    NoAt(String),
    /// The word after the `@` cannot be a tag.
    #[error(
        "'@{0}' names no session: {1}\nhint: use @latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME or \
             @base"
    )]
    BadName(String, &'static str),
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Reference, ReferenceError> {
        let name = text
            .strip_prefix('@')
            .ok_or_else(|| ReferenceError::NoAt(text.to_owned()))?;
        match name {
            "latest" => Ok(Reference::Latest),
            "prev" => Ok(Reference::Previous),
            "base" => Ok(Reference::Base(None)),
            _ if let Some((kind @ ("rev" | "branch" | "base"), of)) = name.split_once(':') => {
                if of.is_empty() {
                    return Err(ReferenceError::BadName(
                        name.to_owned(),
                        "nothing follows the colon",
                    ));
                }
                let of = of.to_owned();
                Ok(match kind {
                    "rev" => Reference::Revision(of),
                    "branch" => Reference::Branch(of),
                    _ => Reference::Base(Some(of)),
                })
            }
            _ if is_number(name) => name
                .parse()
                .map(Reference::Number)
                .map_err(|_| ReferenceError::BadName(name.to_owned(), "the number is too large")),
            _ => match unfit_tag(name) {
                Some(reason) => Err(ReferenceError::BadName(name.to_owned(), reason)),
                None => Ok(Reference::Tag(name.to_owned())),
            },
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reference::Latest => out.write_str("@latest"),
            Reference::Previous => out.write_str("@prev"),
            Reference::Number(number) => write!(out, "@{number}"),
            Reference::Tag(name) => write!(out, "@{name}"),
            Reference::Revision(revision) => write!(out, "@rev:{revision}"),
            Reference::Branch(name) => write!(out, "@branch:{name}"),
            Reference::Base(None) => out.write_str("@base"),
            Reference::Base(Some(branch)) => write!(out, "@base:{branch}"),
        }
    }
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns why `name` cannot be a tag; `None` if it can. `[`, `]` and `:` separate the parts of a
/// source, and a tag must not look like a number or a reserved word.
fn unfit_tag(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("the name is empty");
    }
    if is_number(name) || ["latest", "prev", "base"].contains(&name) {
        return Some("the name has a meaning of its own");
    }
    let separates = |c: char| c.is_whitespace() || c.is_control() || "@[]:,'\"".contains(c);
    name.contains(separates)
        .then_some("blanks, quotes and @ [ ] : , are not allowed in a tag")
}

/// Rejects a name that no [`Reference`] could find.
pub(super) fn check_tag(name: &str) -> anyhow::Result<()> {
    match unfit_tag(name) {
        Some(reason) => bail!("'{name}' cannot be a tag: {reason}"),
        None => Ok(()),
    }
}

impl Store {
    /// Resolves a reference to the number of a session.
    ///
    /// # Errors
    /// No such session; the message lists alternatives: the range of numbers, or similar tags.
    pub fn find(&self, reference: &Reference) -> anyhow::Result<i64> {
        let found = match reference {
            Reference::Latest => self.nth_latest(0),
            Reference::Previous => self.nth_latest(1),
            Reference::Number(number) => self.number_of(
                sql!("SELECT number FROM session WHERE number = $1"),
                given![*number],
            ),
            Reference::Tag(name) => self.number_of(
                sql!("SELECT max(session) FROM tag WHERE name = $1 HAVING count(*) > 0"),
                given![name],
            ),
            Reference::Revision(revision) => self.of_revision(revision),
            Reference::Branch(name) => self.number_of(
                sql!(
                    "SELECT max(session) FROM origin WHERE branch = $1 AND dirty = 0
                     HAVING count(*) > 0"
                ),
                given![name],
            ),
            Reference::Base(_) => bail!("'{reference}' needs a repository"),
        };
        match found? {
            Some(number) => Ok(number),
            None => Err(self.not_found(reference)?),
        }
    }

    /// Returns the last session of a revision. An id prefix must be unambiguous.
    fn of_revision(&self, revision: &str) -> anyhow::Result<Option<i64>> {
        let sql = sql!(
            "SELECT max(session) FROM origin WHERE revision = $1 AND dirty = 0
             HAVING count(*) > 0"
        );
        let exact = self.number_of(sql, given![revision])?;
        let is_beginning =
            revision.len() >= SHORTEST && revision.bytes().all(|b| b.is_ascii_hexdigit());
        if exact.is_some() || !is_beginning {
            return Ok(exact);
        }
        let sql = sql!(
            "SELECT revision, max(session) FROM origin
             WHERE lower(revision) LIKE $1 || '%' AND dirty = 0 GROUP BY revision"
        );
        let mut found: Vec<(String, i64)> =
            self.rows(sql, given![&revision.to_lowercase()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        found.sort();
        ensure!(
            found.len() < 2,
            "'@rev:{revision}' may be {}",
            found
                .iter()
                .map(|(id, _)| id.as_str())
                .collect::<Vec<_>>()
                .join(" or ")
        );
        Ok(found.first().map(|(_, number)| *number))
    }

    /// Returns the last session of each measured revision, ignoring those with uncommitted changes.
    ///
    /// # Errors
    /// The database fails.
    pub fn measured_revisions(&self) -> anyhow::Result<HashMap<String, i64>> {
        let sql =
            sql!("SELECT revision, max(session) FROM origin WHERE dirty = 0 GROUP BY revision");
        self.rows(sql, given![], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the revisions of the last `most` sessions, each with its tree if known.
    ///
    /// # Errors
    /// The database fails.
    pub fn newest_revisions(&self, most: u32) -> anyhow::Result<Vec<(String, Option<String>)>> {
        let sql = sql!("SELECT revision, tree FROM origin ORDER BY session DESC LIMIT $1");
        self.rows(sql, given![most], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn nth_latest(&self, nth: i64) -> anyhow::Result<Option<i64>> {
        self.number_of(
            sql!("SELECT number FROM session ORDER BY number DESC LIMIT 1 OFFSET $1"),
            given![nth],
        )
    }

    fn number_of(
        &self,
        statement: &'static Statement,
        given: &[Given<'_>],
    ) -> anyhow::Result<Option<i64>> {
        self.first_row(statement, given, |row| row.get(0))
    }

    fn not_found(&self, reference: &Reference) -> anyhow::Result<anyhow::Error> {
        let sql = sql!("SELECT min(number), max(number) FROM session HAVING count(*) > 0");
        let range = self.first_row(sql, given![], |row| {
            Ok((row.get::<i64>(0)?, row.get::<i64>(1)?))
        })?;
        let Some((first, last)) = range else {
            return Ok(anyhow!(
                "there is no session '{reference}': '{}' holds no sessions yet\n\
                 hint: measure something with speedwell run, or name the right file with --db FILE",
                self.path.display()
            ));
        };
        let hint = match reference {
            Reference::Tag(name) => match self.similar_tags(name)? {
                tags if tags.is_empty() => "no session is tagged; see speedwell history".to_owned(),
                tags => format!("there are {}", tags.join(", ")),
            },
            Reference::Revision(_) | Reference::Branch(_) => {
                "speedwell history shows which revisions and branches were measured; sessions with uncommitted \
                 changes do not count"
                    .to_owned()
            }
            _ if first == last => format!("the only session is @{first}"),
            _ => format!("sessions reach from @{first} to @{last}; see speedwell history"),
        };
        Ok(anyhow!("there is no session '{reference}'\nhint: {hint}"))
    }

    /// Returns up to five existing tags, most similar first.
    fn similar_tags(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let mut tags: Vec<String> =
            self.rows(sql!("SELECT DISTINCT name FROM tag"), given![], |row| {
                row.get(0)
            })?;
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
            ("@latest", Reference::Latest),
            ("@prev", Reference::Previous),
            ("@12", Reference::Number(12)),
            ("@nightly-7", Reference::Tag("nightly-7".into())),
            ("@v1.2/x", Reference::Tag("v1.2/x".into())),
            ("@rev:main~2", Reference::Revision("main~2".into())),
            ("@branch:fix/a", Reference::Branch("fix/a".into())),
            ("@base", Reference::Base(None)),
            ("@base:release", Reference::Base(Some("release".into()))),
        ] {
            assert_eq!(text.parse(), Ok(meant.clone()));
            assert_eq!(meant.to_string(), text);
        }
    }

    #[test]
    fn what_names_no_session_says_why() {
        assert_eq!(
            "latest".parse::<Reference>(),
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
            let error = wrong.parse::<Reference>().unwrap_err().to_string();
            assert!(
                error.contains(wrong) && error.contains("hint: use @latest"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_tag_that_could_not_be_found_again_is_refused() {
        for wrong in ["", "12", "latest", "prev", "base", "rev:1", "a b", "x@y"] {
            assert!(check_tag(wrong).is_err(), "{wrong}");
        }
        assert!(check_tag("12a").is_ok());
    }
}
