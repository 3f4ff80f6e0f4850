//! The database of one project, shared by many readers: pooled read-only connections and a cache of
//! results.
//!
//! Decides how long a cached result is valid: until the database changes. Start with
//! [`Project::read`].

use crate::live::Watchers;
use crate::lookups::{Course, Lookups};
use crate::refusal::Refusal;
use axum::body::Bytes;
use speedwell_analysis::history::History;
use speedwell_results::store::Store;
use speedwell_serve::Stopper;
use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of idle connections kept open.
const IDLE: usize = 6;
/// Maximum bytes of cached pages, comparisons included. Keyed by address; cleared when the database
/// changes.
const KEPT_BYTES: usize = 128 << 20;
/// Maximum number of cached histories.
const KEPT_HISTORIES: usize = 4;

/// A project with its connections and caches.
#[derive(Debug)]
pub struct Project {
    /// Name in addresses.
    pub name: String,
    /// Functions of the surrounding program.
    pub lookups: Lookups,
    path: PathBuf,
    readers: Mutex<Vec<(StoreId, Store)>>,
    kept: Mutex<Kept>,
    /// Histories being computed: other requests for the same one wait for the result.
    searched: Mutex<Vec<(Course, Arc<Mutex<()>>)>>,
    pub(crate) live: Watchers,
}

/// Distinguishes a store from a later one at the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreId {
    /// Device and inode of a file.
    File(u64, u64),
    /// A database server, whose connections recover by themselves.
    Server,
}

/// Cached results, valid while the store is unchanged.
#[derive(Debug, Default)]
struct Kept {
    /// Connection that detects changes.
    watch: Option<(StoreId, Store)>,
    version: i64,
    pages: VecDeque<(String, Bytes)>,
    bytes: usize,
    histories: Vec<(Course, Arc<History>)>,
    /// Number of sessions that still lack points, after the last summarizing.
    missing: Option<usize>,
}

impl Kept {
    fn forget(&mut self) {
        self.pages.clear();
        self.bytes = 0;
        self.histories.clear();
        self.missing = None;
    }
}

impl Project {
    /// Creates a project whose store is at `path`, or will be.
    pub fn new(name: &str, path: &Path, lookups: Lookups, stopper: &Stopper) -> Project {
        Project {
            name: name.to_owned(),
            lookups,
            path: path.to_owned(),
            readers: Mutex::default(),
            kept: Mutex::default(),
            searched: Mutex::default(),
            live: Watchers::new(stopper),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the store exists.
    pub fn exists(&self) -> bool {
        self.store_id().is_some()
    }

    fn store_id(&self) -> Option<StoreId> {
        if Store::server(&self.path).is_some() {
            return Some(StoreId::Server);
        }
        let data = std::fs::metadata(&self.path).ok()?;
        data.is_file()
            .then(|| StoreId::File(data.dev(), data.ino()))
    }

    fn opened(&self, open: fn(&Path) -> anyhow::Result<Store>) -> Result<Store, Refusal> {
        open(&self.path).map_err(|error| Refusal::unopened(&self.path, error))
    }

    /// Runs `work` with a read-only connection. If no store exists, it gets an empty one in memory,
    /// so that reading creates no file.
    ///
    /// # Errors
    /// If the store cannot be read, or `work` fails.
    pub fn read<T>(&self, work: impl FnOnce(&Store) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let Some(id) = self.store_id() else {
            return work(&Store::in_memory()?);
        };
        let waiting = || lock(&self.readers).pop();
        let mut found = None;
        while let Some((known, store)) = waiting() {
            if known == id {
                found = Some(store);
                break;
            }
        }
        let store = match found {
            Some(store) => store,
            None => self.opened(Store::open_to_view)?,
        };
        let done = work(&store);
        let mut readers = lock(&self.readers);
        if readers.len() < IDLE {
            readers.push((id, store));
        }
        done
    }

    /// Returns a number that changes with the store. Clears the cache when it does.
    fn version(&self, kept: &mut Kept) -> Result<Option<i64>, Refusal> {
        let Some(id) = self.store_id() else {
            kept.forget();
            kept.watch = None;
            return Ok(None);
        };
        if kept.watch.as_ref().is_none_or(|(known, _)| *known != id) {
            kept.forget();
            kept.watch = Some((id, self.opened(Store::open_to_watch)?));
        }
        let Some((_, store)) = &kept.watch else {
            return Ok(None);
        };
        let version = store.data_version()?;
        if version != kept.version {
            kept.forget();
            kept.version = version;
        }
        Ok(Some(version))
    }

    /// Returns the cached page, if it is still valid, and the current version of the store.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn kept_page(&self, address: &str) -> Result<(Option<Bytes>, Option<i64>), Refusal> {
        let mut kept = lock(&self.kept);
        let version = self.version(&mut kept)?;
        let found = kept.pages.iter().find(|(known, _)| known == address);
        Ok((found.map(|(_, page)| page.clone()), version))
    }

    /// Caches a page, unless the store has changed since version `begun`, at which its rendering
    /// started.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn keep_page(&self, address: &str, page: &Bytes, begun: i64) -> Result<(), Refusal> {
        let mut kept = lock(&self.kept);
        if self.version(&mut kept)? != Some(begun) {
            return Ok(());
        }
        kept.bytes += page.len();
        kept.pages.push_back((address.to_owned(), page.clone()));
        while kept.bytes > KEPT_BYTES {
            let Some((_, oldest)) = kept.pages.pop_front() else {
                break;
            };
            kept.bytes -= oldest.len();
        }
        Ok(())
    }

    /// Computes missing points of sessions, once per version of the store; returns how many
    /// sessions are left.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn summarise(&self) -> Result<usize, Refusal> {
        if !self.exists() {
            return Ok(0);
        }
        {
            let mut kept = lock(&self.kept);
            self.version(&mut kept)?;
            if let Some(missing) = kept.missing {
                return Ok(missing);
            }
        }
        let missing = (self.lookups.summarise)(&self.path)?;
        let mut kept = lock(&self.kept);
        // Its own writes must not clear the cache.
        self.version(&mut kept)?;
        // The rest is computed in the background, which changes the store and so clears the cache.
        kept.missing = Some(missing);
        Ok(missing)
    }

    /// Returns results over time. Derived data, the points and the numbers of changes, are stored
    /// as `speedwell history` stores them, so that a number means the same in both.
    ///
    /// # Errors
    /// If the store cannot be read, or there is no such branch.
    pub fn history(&self, course: &Course) -> Result<Arc<History>, Refusal> {
        if !self.exists() {
            return Ok(Arc::default());
        }
        let turn = self.turn(course);
        let _own = lock(&turn);
        {
            let mut kept = lock(&self.kept);
            self.version(&mut kept)?;
            let found = kept.histories.iter().find(|(known, _)| known == course);
            if let Some((_, history)) = found {
                return Ok(history.clone());
            }
        }
        let missing = self.summarise()?;
        let found = (self.lookups.history)(&self.path, course, missing);
        let history = Arc::new(
            found.map_err(|error| Refusal::of(axum::http::StatusCode::NOT_FOUND, &error))?,
        );
        let mut kept = lock(&self.kept);
        // Its own writes must not clear the cache.
        self.version(&mut kept)?;
        kept.histories.push((course.clone(), history.clone()));
        if kept.histories.len() > KEPT_HISTORIES {
            kept.histories.remove(0);
        }
        Ok(history)
    }

    /// Returns the lock for computing this history, so that repeated requests do not compute it
    /// twice.
    fn turn(&self, course: &Course) -> Arc<Mutex<()>> {
        let mut searched = lock(&self.searched);
        searched.retain(|(_, turn)| Arc::strong_count(turn) > 1);
        let known = searched.iter().find(|(known, _)| known == course);
        if let Some((_, turn)) = known {
            return turn.clone();
        }
        let turn = Arc::default();
        searched.push((course.clone(), Arc::clone(&turn)));
        turn
    }
}

/// Ignores poisoning: no holder leaves the data half updated.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
