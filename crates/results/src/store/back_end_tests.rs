//! Runs the same test scenario on a SQLite file and on PostgreSQL.

use super::Store;
use speedwell_fixtures::Story;
use speedwell_model::{Session, State};
use std::path::PathBuf;

/// Location of a store, kept alive for the test.
pub(super) enum Place {
    File(tempfile::TempDir),
    #[cfg(feature = "postgres")]
    Server(speedwell_fixtures::postgres::Schema),
}

impl Place {
    pub fn path(&self) -> PathBuf {
        match self {
            Place::File(folder) => folder.path().join("results.db"),
            #[cfg(feature = "postgres")]
            Place::Server(schema) => PathBuf::from(&schema.address),
        }
    }

    pub fn open(&self) -> Store {
        Store::open(&self.path()).unwrap()
    }
}

/// An imported session of one variant.
pub(super) fn session(id: &str) -> Session {
    Session {
        id: id.to_owned(),
        state: State::Imported,
        ..Story::fixed(&["a"], 1).session()
    }
}

/// Returns an empty location of each kind. Prints a note if PostgreSQL is not installed.
pub(super) fn places() -> Vec<Place> {
    let file = Place::File(tempfile::tempdir().unwrap());
    #[cfg(feature = "postgres")]
    if let Some(schema) = schema() {
        return vec![file, Place::Server(schema)];
    }
    vec![file]
}

/// Returns an empty schema on this process's server.
#[cfg(feature = "postgres")]
pub(super) fn schema() -> Option<speedwell_fixtures::postgres::Schema> {
    let schema = speedwell_fixtures::postgres::Schema::new();
    if schema.is_none() {
        eprintln!("skipped: PostgreSQL is not installed");
    }
    schema
}
