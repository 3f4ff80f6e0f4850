//! Where a test keeps its store: in a file, or on a server. [`on_both`] runs each test with both.

use speedwell_fixtures::postgres::{StoppableServer, TestSchema};
use speedwell_store::Store;
use std::path::{Path, PathBuf};

/// A place for a store, without one yet.
pub enum StorePlace {
    /// A file that does not exist yet, in a folder that does not exist either.
    File(tempfile::TempDir),
    /// A schema without tables.
    Server(TestSchema),
    /// A dedicated server, which the test may stop.
    Instance(StoppableServer),
    /// A file at a path chosen by the test.
    On(PathBuf),
}

impl StorePlace {
    pub fn file() -> StorePlace {
        StorePlace::File(tempfile::tempdir().unwrap())
    }

    /// A schema on a server; `None`, with a message, if there is no server.
    pub fn server() -> Option<StorePlace> {
        some_server(TestSchema::new).map(StorePlace::Server)
    }

    /// A server that no other test uses; `None`, with a message, if there is none.
    pub fn instance() -> Option<StorePlace> {
        some_server(StoppableServer::new).map(StorePlace::Instance)
    }

    /// A server that no other test uses, with its tables in a folder of the test.
    pub fn instance_with_tables_in(folder: &Path) -> Option<StorePlace> {
        let instance = some_server(StoppableServer::new)?;
        Some(StorePlace::Instance(instance.with_tables_in(folder)))
    }

    /// The dedicated server.
    ///
    /// # Panics
    /// Panics if the place is another one.
    pub fn database(&self) -> &StoppableServer {
        let StorePlace::Instance(instance) = self else {
            panic!("others use it, too");
        };
        instance
    }

    /// The value of `--db`.
    pub fn path(&self) -> PathBuf {
        match self {
            StorePlace::File(folder) => folder.path().join("deep/results.db"),
            StorePlace::Server(schema) => PathBuf::from(&schema.address),
            StorePlace::Instance(instance) => PathBuf::from(instance.address()),
            StorePlace::On(path) => path.clone(),
        }
    }

    pub fn open(&self) -> Store {
        Store::open(&self.path()).unwrap()
    }

    /// Changes rows directly in the database; returns how many.
    pub fn change(&self, statement: &str) -> usize {
        match self {
            StorePlace::File(_) | StorePlace::On(_) => {
                let file = rusqlite::Connection::open(self.path()).unwrap();
                file.execute(statement, []).unwrap()
            }
            StorePlace::Server(_) | StorePlace::Instance(_) => {
                let counted = format!(
                    "WITH changed AS ({statement} RETURNING 1) SELECT count(*) FROM changed"
                );
                self.number(&counted) as usize
            }
        }
    }

    /// The integer result of a query.
    pub fn number(&self, query: &str) -> i64 {
        match self {
            StorePlace::File(_) | StorePlace::On(_) => {
                let file = rusqlite::Connection::open(self.path()).unwrap();
                file.query_row(query, [], |row| row.get(0)).unwrap()
            }
            StorePlace::Server(schema) => schema.run_statement(query).parse().unwrap(),
            StorePlace::Instance(instance) => instance.run_statement(query).parse().unwrap(),
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

/// Runs each test on a file and on a server.
macro_rules! on_both {
    ($($(#[$attribute:meta])* $story:ident)*) => {
        mod on_a_file {
            $(#[test]
            $(#[$attribute])*
            fn $story() {
                super::$story(&crate::back_ends::StorePlace::file());
            })*
        }

        mod on_a_server {
            $(#[test]
            $(#[$attribute])*
            fn $story() {
                if let Some(place) = crate::back_ends::StorePlace::server() {
                    super::$story(&place);
                }
            })*
        }
    };
}
pub(crate) use on_both;
