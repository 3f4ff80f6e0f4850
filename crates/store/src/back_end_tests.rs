//! Runs the same test scenario on a SQLite file and on PostgreSQL.

use super::Store;
use speedwell_fixtures::FakeSession;
use speedwell_model::{Machine, Session, SessionPoints, SessionState};
use std::path::PathBuf;

/// Location of a store, kept alive for the test.
pub(super) enum TestBackend {
    File(tempfile::TempDir),
    #[cfg(feature = "postgres")]
    Server(speedwell_fixtures::postgres::TestSchema),
}

impl TestBackend {
    pub fn path(&self) -> PathBuf {
        match self {
            TestBackend::File(folder) => folder.path().join("results.db"),
            #[cfg(feature = "postgres")]
            TestBackend::Server(schema) => PathBuf::from(&schema.address),
        }
    }

    pub fn open(&self) -> Store {
        Store::open(&self.path()).unwrap()
    }
}

/// An imported session of one variant.
pub(super) fn imported_session(id: &str) -> Session {
    Session {
        id: id.to_owned(),
        state: SessionState::Imported,
        ..FakeSession::with_fixed_blocks(&["a"], 1).build()
    }
}

/// What a session on the machine `lab` contributes to the history if it has no points.
pub(super) fn empty_points() -> SessionPoints {
    SessionPoints {
        machine: Machine {
            id: "label lab".into(),
            name: Some("host7".into()),
            label: Some("lab".into()),
            class: None,
        },
        environment_facts: vec![("kernel".into(), "6.1".into())],
        points: Vec::new(),
    }
}

/// Returns an empty location of each kind. Prints a note if PostgreSQL is not installed.
pub(super) fn test_backends() -> Vec<TestBackend> {
    let file = TestBackend::File(tempfile::tempdir().unwrap());
    #[cfg(feature = "postgres")]
    if let Some(schema) = new_schema() {
        return vec![file, TestBackend::Server(schema)];
    }
    vec![file]
}

/// Returns an empty schema on this process's server.
#[cfg(feature = "postgres")]
pub(super) fn new_schema() -> Option<speedwell_fixtures::postgres::TestSchema> {
    let schema = speedwell_fixtures::postgres::TestSchema::new();
    if schema.is_none() {
        eprintln!("skipped: PostgreSQL is not installed");
    }
    schema
}
