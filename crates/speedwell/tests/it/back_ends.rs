//! Where the store of a story is: in a file, or on a server. [`on_both`] tells each story twice.

use speedwell_fixtures::postgres::{Instance, Schema};
use speedwell_results::store::Store;
use std::path::PathBuf;

/// An empty place for a store.
pub enum Place {
    /// A file that is not there yet, nor is its folder.
    File(tempfile::TempDir),
    /// A schema without tables.
    Server(Schema),
    /// A server of its own, which may be stopped.
    Instance(Instance),
    /// A file at a path that the test has chosen.
    On(PathBuf),
}

impl Place {
    pub fn file() -> Place {
        Place::File(tempfile::tempdir().unwrap())
    }

    /// `None` where there is no server, which the test says.
    pub fn server() -> Option<Place> {
        some_server(Schema::new).map(Place::Server)
    }

    /// A server that nobody else uses; `None` where there is none, which the test says.
    pub fn instance() -> Option<Instance> {
        some_server(Instance::new)
    }

    /// What stands behind `--db`.
    pub fn path(&self) -> PathBuf {
        match self {
            Place::File(folder) => folder.path().join("deep/results.db"),
            Place::Server(schema) => PathBuf::from(&schema.address),
            Place::Instance(instance) => PathBuf::from(instance.address()),
            Place::On(path) => path.clone(),
        }
    }

    pub fn open(&self) -> Store {
        Store::open(&self.path()).unwrap()
    }

    /// Changes rows behind the store's back; returns how many.
    pub fn change(&self, statement: &str) -> usize {
        match self {
            Place::File(_) | Place::On(_) => {
                let file = rusqlite::Connection::open(self.path()).unwrap();
                file.execute(statement, []).unwrap()
            }
            Place::Server(_) | Place::Instance(_) => {
                let counted = format!(
                    "WITH changed AS ({statement} RETURNING 1) SELECT count(*) FROM changed"
                );
                self.number(&counted) as usize
            }
        }
    }

    /// The whole number that a query gives.
    pub fn number(&self, query: &str) -> i64 {
        match self {
            Place::File(_) | Place::On(_) => {
                let file = rusqlite::Connection::open(self.path()).unwrap();
                file.query_row(query, [], |row| row.get(0)).unwrap()
            }
            Place::Server(schema) => schema.order(query).parse().unwrap(),
            Place::Instance(instance) => instance.order(query).parse().unwrap(),
        }
    }
}

fn some_server<T>(new: fn() -> Option<T>) -> Option<T> {
    if cfg!(not(feature = "postgres")) {
        eprintln!("skipped: built without the feature postgres");
        return None;
    }
    let server = new();
    if server.is_none() {
        eprintln!("skipped: PostgreSQL is not installed");
    }
    server
}

/// Tells each story on a file and on a server.
macro_rules! on_both {
    ($($story:ident)*) => {
        mod on_a_file {
            $(#[test]
            fn $story() {
                super::$story(&crate::back_ends::Place::file());
            })*
        }

        mod on_a_server {
            $(#[test]
            fn $story() {
                if let Some(place) = crate::back_ends::Place::server() {
                    super::$story(&place);
                }
            })*
        }
    };
}
pub(crate) use on_both;
