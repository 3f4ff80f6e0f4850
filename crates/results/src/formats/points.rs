//! Files that hold the results of many revisions: each point of time in them is a session of its own.
//!
//! Decides which results belong to one session, and the identity of that session: it follows from what the file says of it, so
//! that reading the same file again gives the same sessions. It must not know any format. Start at [`Points`].

use super::imported::Imported;
use anyhow::{Result, ensure};
use indexmap::IndexMap;
use speedwell_model::{Environment, Origin, OriginSource, Session};
use uuid::Uuid;

/// Letters kept of the first line of a commit's message.
const SUBJECT: usize = 200;

/// Where results belong.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// The suite, or whatever the file calls all that is measured together.
    pub suite: String,
    /// What tells it from other results of the same revision, machine and environment: a time, a report.
    pub key: String,
    /// The code that was measured.
    pub origin: Origin,
    /// What it was measured on.
    pub environment: Environment,
    /// The name of the environment, where there are several on a machine.
    pub environment_name: String,
    /// When it was measured.
    pub started_unix_ms: Option<i64>,
}

impl Place {
    /// The identity of the session that this is, in the words of `format`.
    fn id(&self, format: &str) -> String {
        let machine = self.environment.machine.as_deref();
        let branch = self.origin.branch.as_deref();
        let words = [
            format,
            &self.suite,
            &self.origin.revision,
            branch.unwrap_or_default(),
            machine.unwrap_or_default(),
            &self.environment_name,
            &self.key,
        ];
        // As JSON, no two lists of words are the same text.
        let text = serde_json::json!(words).to_string();
        Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()).to_string()
    }
}

/// The identity of a later part of an imported session: what its file held more when it was imported again.
pub fn part_id(id: &str, part: u32) -> String {
    match part {
        0 => id.to_owned(),
        later => format!("{id}.{}", later + 1),
    }
}

/// The sessions of a file, in its order.
#[derive(Debug)]
pub struct Points {
    format: &'static str,
    sessions: IndexMap<String, (Place, Imported)>,
}

impl Points {
    /// Nothing yet, of a file of this format. Its name is part of the identity of sessions.
    pub fn new(format: &'static str) -> Points {
        Points {
            format,
            sessions: IndexMap::new(),
        }
    }

    /// The session of that place.
    pub fn at(&mut self, place: Place) -> &mut Imported {
        let id = place.id(self.format);
        let entry = self.sessions.entry(id);
        &mut entry.or_insert_with(|| (place, Imported::default())).1
    }

    /// All sessions in which anything was found. `label` is what the user calls the file.
    ///
    /// # Errors
    /// There are none.
    pub fn into_sessions(self, label: &str) -> Result<Vec<Session>> {
        let found = self.sessions.into_iter();
        let found = found.filter(|(_, (_, imported))| !imported.is_empty());
        let session = |(id, (place, imported)): (String, (Place, Imported))| {
            let session = imported.into_session(label, place.environment, place.started_unix_ms)?;
            let origin = Some(place.origin).filter(|origin| !origin.revision.is_empty());
            Ok(Session {
                id,
                origin,
                ..session
            })
        };
        let sessions: Vec<Session> = found.map(session).collect::<Result<_>>()?;
        ensure!(!sessions.is_empty(), "there are no results in it");
        Ok(sessions)
    }
}

/// A revision as a file names it.
pub fn revision(id: &str) -> Origin {
    Origin {
        revision: id.to_owned(),
        source: OriginSource::File,
        ..Origin::default()
    }
}

/// The first line of a commit's message, without control characters, and not too long.
pub fn subject(message: &str) -> Option<String> {
    let line = message.lines().next()?.trim();
    let plain = line.chars().filter(|letter| !letter.is_control());
    let kept: String = plain.take(SUBJECT).collect();
    (!kept.is_empty()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_tells_two_sessions_apart_is_in_their_identity() {
        let place = |suite: &str, key: &str| Place {
            suite: suite.into(),
            key: key.into(),
            ..Place::default()
        };
        assert_eq!(place("a", "b").id("f"), place("a", "b").id("f"));
        let ids = [
            place("a", "b").id("f"),
            place("ab", "").id("f"),
            place("a", "b").id("g"),
        ];
        assert!(ids[0] != ids[1] && ids[0] != ids[2]);
        assert_eq!(part_id("x", 0), "x");
        assert_eq!(part_id("x", 1), "x.2");
    }

    #[test]
    fn a_subject_is_one_line_that_does_no_harm() {
        assert_eq!(subject("fix \u{1b}[31mred\n\nlong").unwrap(), "fix [31mred");
        assert_eq!(subject(&"x".repeat(500)).unwrap().len(), SUBJECT);
        assert_eq!(subject(" \n"), None);
    }
}
