//! Files that hold the results of many revisions: each point of time in them is a session of its own.
//!
//! Decides which results belong to one session, and the identity of that session: it follows from what the file says of it, so
//! that reading the same file again gives the same sessions. It must not know any format. Start at [`Points`]; at [`Directions`]
//! for files that do not say which direction of a metric is good.

use super::imported::Imported;
use anyhow::{Context, Result, bail, ensure};
use indexmap::IndexMap;
use speedwell_model::{Better, Environment, Origin, OriginSource, Session};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Letters kept of the first line of a commit's message.
const SUBJECT: usize = 200;

/// Where results belong.
#[derive(Debug, Default)]
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

/// What the user says of metrics: which direction is good.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directions {
    /// Of all metrics without a direction of their own.
    pub all: Option<Better>,
    /// Of single metrics.
    pub of: BTreeMap<String, Better>,
}

impl Directions {
    /// The name under which `--set` takes them.
    pub const NAME: &'static str = "better";

    /// Takes `better=less` or `better.METRIC=more` from the command line; false for any other name.
    ///
    /// # Errors
    /// It is neither more nor less.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let metric = match name.strip_prefix(Directions::NAME) {
            Some("") => None,
            Some(rest) if rest.starts_with('.') => Some(&rest[1..]),
            _ => return Ok(false),
        };
        let better = match value {
            "less" => Better::Lower,
            "more" => Better::Higher,
            other => {
                bail!("'{other}' is no direction\nhint: --set {name}=less, or --set {name}=more")
            }
        };
        match metric {
            Some(metric) => drop(self.of.insert(metric.to_owned(), better)),
            None => self.all = Some(better),
        }
        Ok(true)
    }

    /// The direction of a metric, if the user says one.
    pub fn of(&self, metric: &str) -> Option<Better> {
        self.of.get(metric).copied().or(self.all)
    }

    /// The direction of a metric of which the file says nothing.
    ///
    /// # Errors
    /// The user says nothing either; the message says how.
    pub fn need(&self, metric: &str) -> Result<Better> {
        self.of(metric).with_context(|| {
            format!(
                "the file does not say whether more or less of '{metric}' is better\n\
                 hint: speedwell import FILE --set better=less, or --set 'better.{metric}=more' for this metric alone"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_is_said_of_all_metrics_or_of_one() {
        let mut better = Directions::default();
        assert!(better.need("ops").is_err());
        assert!(better.set("better", "less").unwrap());
        assert!(better.set("better.ops", "more").unwrap());
        assert!(!better.set("betterment", "more").unwrap());
        assert_eq!(better.of("time"), Some(Better::Lower));
        assert_eq!(better.need("ops").unwrap(), Better::Higher);
        let wrong = better.set("better", "up").unwrap_err().to_string();
        assert!(wrong.starts_with("'up' is no direction\nhint: "), "{wrong}");
    }

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
