//! The database of one project, shared by many readers: pooled read-only connections and a cache of
//! results.
//!
//! Decides how long a cached result is valid: until the database changes. Start with
//! [`HostedProject::with_reader`].

use crate::live::LiveViewers;
use crate::lookups::{CommandLookups, TrendQuery};
use crate::refusal::PageError;
use axum::body::Bytes;
use speedwell_analysis::history::ProjectHistory;
use speedwell_results::store::Store;
use speedwell_serve::ServerStopper;
use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of idle connections kept open.
const MAX_IDLE_CONNECTIONS: usize = 6;
/// Maximum bytes of cached pages, comparisons included. Keyed by address; cleared when the database
/// changes.
const MAX_CACHED_PAGE_BYTES: usize = 128 << 20;
/// Maximum number of cached histories.
const MAX_CACHED_HISTORIES: usize = 4;

/// A project with its connections and caches.
#[derive(Debug)]
pub struct HostedProject {
    /// Name in addresses.
    pub name: String,
    /// Functions of the surrounding program.
    pub lookups: CommandLookups,
    path: PathBuf,
    readers: Mutex<Vec<(StoreId, Store)>>,
    cache: Mutex<ProjectCache>,
    /// Histories being computed: other requests for the same one wait for the result.
    running_searches: Mutex<Vec<(TrendQuery, Arc<Mutex<()>>)>>,
    pub(crate) live: LiveViewers,
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
struct ProjectCache {
    /// Connection that detects changes.
    watch: Option<(StoreId, Store)>,
    version: i64,
    pages: VecDeque<(String, Bytes)>,
    bytes: usize,
    histories: Vec<(TrendQuery, Arc<ProjectHistory>)>,
    /// Number of sessions that still lack points, after the last summarizing.
    missing_points: Option<usize>,
}

impl ProjectCache {
    fn clear_cache(&mut self) {
        self.pages.clear();
        self.bytes = 0;
        self.histories.clear();
        self.missing_points = None;
    }
}

impl HostedProject {
    /// Creates a project whose store is at `path`, or will be.
    pub fn new(
        name: &str,
        path: &Path,
        lookups: CommandLookups,
        stopper: &ServerStopper,
    ) -> HostedProject {
        HostedProject {
            name: name.to_owned(),
            lookups,
            path: path.to_owned(),
            readers: Mutex::default(),
            cache: Mutex::default(),
            running_searches: Mutex::default(),
            live: LiveViewers::new(stopper),
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
        if Store::server_address(&self.path).is_some() {
            return Some(StoreId::Server);
        }
        let data = std::fs::metadata(&self.path).ok()?;
        data.is_file()
            .then(|| StoreId::File(data.dev(), data.ino()))
    }

    fn open_store(&self, open: fn(&Path) -> anyhow::Result<Store>) -> Result<Store, PageError> {
        open(&self.path).map_err(|error| PageError::store_open_error(&self.path, error))
    }

    /// Runs `work` with a read-only connection. If no store exists, it gets an empty one in memory,
    /// so that reading creates no file.
    ///
    /// # Errors
    /// Fails if the store cannot be read, or `work` fails.
    pub fn with_reader<T>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, PageError>,
    ) -> Result<T, PageError> {
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
            None => self.open_store(Store::open_to_view)?,
        };
        let done = work(&store);
        let mut readers = lock(&self.readers);
        if readers.len() < MAX_IDLE_CONNECTIONS {
            readers.push((id, store));
        }
        done
    }

    /// Returns a number that changes with the store. Clears the cache when it does.
    fn current_version(&self, kept: &mut ProjectCache) -> Result<Option<i64>, PageError> {
        let Some(id) = self.store_id() else {
            kept.clear_cache();
            kept.watch = None;
            return Ok(None);
        };
        if kept.watch.as_ref().is_none_or(|(known, _)| *known != id) {
            kept.clear_cache();
            kept.watch = Some((id, self.open_store(Store::open_to_watch)?));
        }
        let Some((_, store)) = &kept.watch else {
            return Ok(None);
        };
        let version = store.data_version()?;
        if version != kept.version {
            kept.clear_cache();
            kept.version = version;
        }
        Ok(Some(version))
    }

    /// Returns the cached page, if it is still valid, and the current version of the store.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn cached_page(&self, address: &str) -> Result<(Option<Bytes>, Option<i64>), PageError> {
        let mut kept = lock(&self.cache);
        let version = self.current_version(&mut kept)?;
        let found = kept.pages.iter().find(|(known, _)| known == address);
        Ok((found.map(|(_, page)| page.clone()), version))
    }

    /// Caches a page, unless the store has changed since version `begun`, at which its rendering
    /// started.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn cache_page(&self, address: &str, page: &Bytes, begun: i64) -> Result<(), PageError> {
        let mut kept = lock(&self.cache);
        if self.current_version(&mut kept)? != Some(begun) {
            return Ok(());
        }
        kept.bytes += page.len();
        kept.pages.push_back((address.to_owned(), page.clone()));
        while kept.bytes > MAX_CACHED_PAGE_BYTES {
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
    /// Fails if the store cannot be read or written.
    pub fn summarize(&self) -> Result<usize, PageError> {
        if !self.exists() {
            return Ok(0);
        }
        {
            let mut kept = lock(&self.cache);
            self.current_version(&mut kept)?;
            if let Some(missing) = kept.missing_points {
                return Ok(missing);
            }
        }
        let missing = (self.lookups.summarize)(&self.path)?;
        let mut kept = lock(&self.cache);
        // Its own writes must not clear the cache.
        self.current_version(&mut kept)?;
        // The rest is computed in the background, which changes the store and so clears the cache.
        kept.missing_points = Some(missing);
        Ok(missing)
    }

    /// Returns results over time. Derived data, the points and the numbers of changes, are stored
    /// as `speedwell history` stores them, so that a number means the same in both.
    ///
    /// # Errors
    /// Fails if the store cannot be read, or there is no such branch.
    pub fn load_history(&self, course: &TrendQuery) -> Result<Arc<ProjectHistory>, PageError> {
        if !self.exists() {
            return Ok(Arc::default());
        }
        let turn = self.history_lock(course);
        let _own = lock(&turn);
        {
            let mut kept = lock(&self.cache);
            self.current_version(&mut kept)?;
            let found = kept.histories.iter().find(|(known, _)| known == course);
            if let Some((_, history)) = found {
                return Ok(history.clone());
            }
        }
        let missing = self.summarize()?;
        let found = (self.lookups.history)(&self.path, course, missing);
        let history =
            Arc::new(found.map_err(|error| {
                PageError::from_error(axum::http::StatusCode::NOT_FOUND, &error)
            })?);
        let mut kept = lock(&self.cache);
        // Its own writes must not clear the cache.
        self.current_version(&mut kept)?;
        kept.histories.push((course.clone(), history.clone()));
        if kept.histories.len() > MAX_CACHED_HISTORIES {
            kept.histories.remove(0);
        }
        Ok(history)
    }

    /// Returns the lock for computing this history, so that repeated requests do not compute it
    /// twice.
    fn history_lock(&self, course: &TrendQuery) -> Arc<Mutex<()>> {
        let mut searched = lock(&self.running_searches);
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
