//! Collects the results of many revisions from one file. Each point in time becomes a session.
//!
//! Decides which results form a session, and derives the session's id from facts in the file.
//! Reading the file again therefore yields the same sessions. This module knows nothing about file
//! formats. Start at [`FileSessions`].

use super::session_builder::SessionBuilder;
use anyhow::{Result, ensure};
use indexmap::IndexMap;
use speedwell_model::{CodeOrigin, Environment, OriginSource, Session};
use uuid::Uuid;

const MAX_SUBJECT_CHARS: usize = 200;

/// Facts that identify the session of a result.
#[derive(Debug, Clone, Default)]
pub struct PointKey {
    /// Name of the suite, or the name that the file gives to benchmarks that are measured together.
    pub suite: String,
    /// A time or the name of a report. It distinguishes results of the same revision, machine and
    /// environment.
    pub key: String,
    /// Measured code.
    pub origin: CodeOrigin,
    /// Environment of the measurement.
    pub environment: Environment,
    /// Name of the environment, if a machine has several.
    pub environment_name: String,
    /// Start of the measurement.
    pub started_unix_ms: Option<i64>,
}

impl PointKey {
    /// Returns the id of the session, derived from these facts and `format`.
    fn session_id(&self, format: &str) -> String {
        let machine = self.environment.machine.as_deref();
        let branch = self.origin.branch.as_deref();
        let facts = [
            format,
            &self.suite,
            &self.origin.revision,
            branch.unwrap_or_default(),
            machine.unwrap_or_default(),
            &self.environment_name,
            &self.key,
        ];
        // Different facts have different JSON texts, and therefore different ids.
        let text = serde_json::json!(facts).to_string();
        Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()).to_string()
    }
}

/// Returns the id of a part of an imported session. Part 0 is the session of the first import. Each
/// later import of the file may add a part that holds the new content.
pub fn part_id(id: &str, part: u32) -> String {
    match part {
        0 => id.to_owned(),
        later => format!("{id}.{}", later + 1),
    }
}

/// The sessions of a file, in file order.
#[derive(Debug)]
pub struct FileSessions {
    format: &'static str,
    sessions: IndexMap<String, (PointKey, SessionBuilder)>,
}

impl FileSessions {
    /// Creates an empty collection. `format` names the file format and is part of the session ids.
    pub fn new(format: &'static str) -> FileSessions {
        FileSessions { format, sessions: IndexMap::new() }
    }

    /// Returns the session for these facts, creating it if needed.
    pub fn session_for(&mut self, key: PointKey) -> &mut SessionBuilder {
        let id = key.session_id(self.format);
        let entry = self.sessions.entry(id);
        &mut entry.or_insert_with(|| (key, SessionBuilder::default())).1
    }

    /// Returns all non-empty sessions. `label` is the user's name for the file.
    ///
    /// # Errors
    /// Fails if no session has results, or a value is invalid.
    pub fn into_sessions(self, label: &str) -> Result<Vec<Session>> {
        let non_empty = self.sessions.into_iter().filter(|(_, (_, imported))| !imported.is_empty());
        let session = |(id, (key, imported)): (String, (PointKey, SessionBuilder))| {
            let session = imported.into_session(label, key.environment, key.started_unix_ms)?;
            let origin = Some(key.origin).filter(|origin| !origin.revision.is_empty());
            Ok(Session { id, origin, ..session })
        };
        let sessions: Vec<Session> = non_empty.map(session).collect::<Result<_>>()?;
        ensure!(!sessions.is_empty(), "it contains no results");
        Ok(sessions)
    }
}

/// Creates an origin from a revision named in a file.
pub fn revision_origin(id: &str) -> CodeOrigin {
    CodeOrigin { revision: id.to_owned(), source: OriginSource::File, ..CodeOrigin::default() }
}

/// Returns the first line of a commit message, without control characters and truncated.
pub fn commit_subject(message: &str) -> Option<String> {
    let line = message.lines().next()?.trim();
    let printable = line.chars().filter(|character| !character.is_control());
    let subject: String = printable.take(MAX_SUBJECT_CHARS).collect();
    (!subject.is_empty()).then_some(subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_depend_on_the_suite_the_key_and_the_format() {
        let key_of = |suite: &str, key: &str| PointKey {
            suite: suite.into(),
            key: key.into(),
            ..PointKey::default()
        };
        assert_eq!(key_of("a", "b").session_id("f"), key_of("a", "b").session_id("f"));
        let ids = [
            key_of("a", "b").session_id("f"),
            key_of("ab", "").session_id("f"),
            key_of("a", "b").session_id("g"),
        ];
        assert!(ids[0] != ids[1] && ids[0] != ids[2]);
        assert_eq!(part_id("x", 0), "x");
        assert_eq!(part_id("x", 1), "x.2");
    }

    #[test]
    fn a_commit_subject_is_one_short_line_without_control_characters() {
        assert_eq!(commit_subject("fix \u{1b}[31mred\n\nlong").unwrap(), "fix [31mred");
        assert_eq!(commit_subject(&"x".repeat(500)).unwrap().len(), MAX_SUBJECT_CHARS);
        assert_eq!(commit_subject(" \n"), None);
    }
}
