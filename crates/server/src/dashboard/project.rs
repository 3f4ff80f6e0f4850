//! Shares one project's database among many readers and writers. It pools read-only connections,
//! keeps a write connection, and caches results.
//!
//! A cached result stays valid until the database changes. Start with
//! [`HostedProject::with_reader`].
//!
//! Pages call the command-line program back ([`CommandLookups`]) for work that needs a repository
//! or command-line options, or that writes a file.

use crate::http::events::EventHub;
use crate::http::{HttpError, ServerStopper, lock};
use axum::body::Bytes;
use axum::http::StatusCode;
use speedwell_analysis::history::ProjectHistory;
use speedwell_analysis::{AnalysisFindings, AnalysisSettings};
use speedwell_model::Session;
use speedwell_store::{Store, StoreErrorKind};
use std::collections::{HashMap, VecDeque};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// Maximum number of idle connections kept open.
const MAX_IDLE_CONNECTIONS: usize = 6;
/// Maximum total size of cached pages, in bytes. The cache is keyed by caller and address, and
/// cleared when the database changes.
const MAX_CACHED_PAGE_BYTES: usize = 128 << 20;
/// Maximum number of cached histories.
const MAX_CACHED_HISTORIES: usize = 4;

/// A project with its connections and caches.
#[derive(Debug)]
pub struct HostedProject {
    /// Name in addresses.
    pub name: String,
    /// Callbacks into the program that embeds this site.
    pub lookups: CommandLookups,
    path: PathBuf,
    readers: Mutex<Vec<(StoreId, Store)>>,
    /// Write connection for uploads, opened by the first one. Uploads wait for each other instead
    /// of retrying until the store is unlocked.
    writer: Mutex<Option<Store>>,
    cache: Mutex<ProjectCache>,
    /// Histories that are being computed. Other requests for the same history wait for the result.
    running_searches: Mutex<Vec<(TrendQuery, Arc<Mutex<()>>)>>,
    /// Viewers of running sessions, keyed by stream.
    hubs: Mutex<HashMap<String, EventHub>>,
    pub(super) stopper: ServerStopper,
}

/// Distinguishes a store from a later one at the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreId {
    /// Device and inode of a file.
    File(u64, u64),
    /// A database server. Its connections recover by themselves.
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
    /// Number of sessions that had no points after the last computation of points.
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
    /// Creates a project. The store at `path` need not exist.
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
            writer: Mutex::default(),
            cache: Mutex::default(),
            running_searches: Mutex::default(),
            hubs: Mutex::default(),
            stopper: stopper.clone(),
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
        data.is_file().then(|| StoreId::File(data.dev(), data.ino()))
    }

    fn open_store(&self, open: fn(&Path) -> anyhow::Result<Store>) -> Result<Store, HttpError> {
        open(&self.path).map_err(|error| match Store::server_address(&self.path) {
            // The database server was reachable at startup, so the failure is temporary.
            Some(_) => HttpError::from_error(StatusCode::SERVICE_UNAVAILABLE, &error),
            None => HttpError::from(error),
        })
    }

    /// Runs `work` with a read-only connection. If no store exists, `work` gets an empty store in
    /// memory, so that reading does not create a file.
    ///
    /// # Errors
    /// Fails if the store cannot be read, or `work` fails.
    pub fn with_reader<T>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, HttpError>,
    ) -> Result<T, HttpError> {
        let Some(id) = self.store_id() else {
            return work(&Store::in_memory()?);
        };
        let next_idle = || lock(&self.readers).pop();
        let mut reusable = None;
        while let Some((store_id, store)) = next_idle() {
            if store_id == id {
                reusable = Some(store);
                break;
            }
        }
        let store = match reusable {
            Some(store) => store,
            None => self.open_store(Store::open_to_view)?,
        };
        let result = work(&store);
        let mut readers = lock(&self.readers);
        if readers.len() < MAX_IDLE_CONNECTIONS {
            readers.push((id, store));
        }
        result
    }

    /// Runs `work` with the write connection, whose commits wait for the disk.
    ///
    /// # Errors
    /// Fails if the store cannot be opened, or `work` fails.
    pub fn with_writer<T>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, HttpError>,
    ) -> Result<T, HttpError> {
        let mut writer = lock(&self.writer);
        // Take the connection out, so that it is not used again if `work` panics.
        let mut store = match writer.take() {
            Some(store) => store,
            None => {
                let opened = self.open_store(Store::open)?;
                opened.wait_for_disk()?;
                opened
            }
        };
        let result = work(&mut store);
        *writer = Some(store);
        result
    }

    /// Returns a number that changes whenever the store changes. Clears the cache after a change.
    fn current_version(&self, cache: &mut ProjectCache) -> Result<Option<i64>, HttpError> {
        let Some(id) = self.store_id() else {
            cache.clear_cache();
            cache.watch = None;
            return Ok(None);
        };
        if cache.watch.as_ref().is_none_or(|(store_id, _)| *store_id != id) {
            cache.clear_cache();
            cache.watch = Some((id, self.open_store(Store::open_to_watch)?));
        }
        let Some((_, store)) = &cache.watch else {
            return Ok(None);
        };
        let version = store.data_version()?;
        if version != cache.version {
            cache.clear_cache();
            cache.version = version;
        }
        Ok(Some(version))
    }

    /// Returns the cached page, if there is a valid one, and the current version of the store.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn cached_page(&self, address: &str) -> Result<(Option<Bytes>, Option<i64>), HttpError> {
        let mut cache = lock(&self.cache);
        let version = self.current_version(&mut cache)?;
        let found = cache.pages.iter().find(|(cached_address, _)| cached_address == address);
        Ok((found.map(|(_, page)| page.clone()), version))
    }

    /// Caches a page that was rendered from version `started_at` of the store. Does nothing if the
    /// store has changed since then.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn cache_page(
        &self,
        address: &str,
        page: &Bytes,
        started_at: i64,
    ) -> Result<(), HttpError> {
        let mut cache = lock(&self.cache);
        if self.current_version(&mut cache)? != Some(started_at) {
            return Ok(());
        }
        cache.bytes += page.len();
        cache.pages.push_back((address.to_owned(), page.clone()));
        while cache.bytes > MAX_CACHED_PAGE_BYTES {
            let Some((_, oldest)) = cache.pages.pop_front() else {
                break;
            };
            cache.bytes -= oldest.len();
        }
        Ok(())
    }

    /// Computes missing points of sessions, once per version of the store. Returns how many
    /// sessions are left.
    ///
    /// # Errors
    /// Fails if the store cannot be read or written.
    pub fn summarize(&self) -> Result<usize, HttpError> {
        if !self.exists() {
            return Ok(0);
        }
        {
            let mut cache = lock(&self.cache);
            self.current_version(&mut cache)?;
            if let Some(missing) = cache.missing_points {
                return Ok(missing);
            }
        }
        let missing = (self.lookups.summarize)(&self.path)?;
        let mut cache = lock(&self.cache);
        // Update the version first, so that the computation's own writes do not clear the new entry.
        self.current_version(&mut cache)?;
        // When the background job computes the rest, the store changes, and so this cache is
        // cleared.
        cache.missing_points = Some(missing);
        Ok(missing)
    }

    /// Returns results over time. Stores the points of trends, and assigns numbers to the changes
    /// that it finds, as `speedwell history` does, so a change has the same number on pages and in
    /// that command.
    ///
    /// # Errors
    /// Fails if the store cannot be read, or there is no such branch.
    pub fn load_history(&self, query: &TrendQuery) -> Result<Arc<ProjectHistory>, HttpError> {
        if !self.exists() {
            return Ok(Arc::default());
        }
        let computation = self.history_lock(query);
        let _guard = lock(&computation);
        {
            let mut cache = lock(&self.cache);
            self.current_version(&mut cache)?;
            let found = cache.histories.iter().find(|(cached_query, _)| cached_query == query);
            if let Some((_, history)) = found {
                return Ok(history.clone());
            }
        }
        let missing = self.summarize()?;
        let result = (self.lookups.history)(&self.path, query, missing);
        let history = result
            .map_err(|error| HttpError::from_error(StatusCode::NOT_FOUND, &error))
            .map(Arc::new)?;
        let mut cache = lock(&self.cache);
        // Update the version first, so that the computation's own writes do not clear the new entry.
        self.current_version(&mut cache)?;
        cache.histories.push((query.clone(), history.clone()));
        if cache.histories.len() > MAX_CACHED_HISTORIES {
            cache.histories.remove(0);
        }
        Ok(history)
    }

    pub(super) fn count_viewers(&self) -> usize {
        self.lock_hubs().values().map(EventHub::count_viewers).sum()
    }

    pub(super) fn lock_hubs(&self) -> MutexGuard<'_, HashMap<String, EventHub>> {
        lock(&self.hubs)
    }

    /// Returns the lock to hold while computing this history, so that concurrent requests do not
    /// compute it twice.
    fn history_lock(&self, query: &TrendQuery) -> Arc<Mutex<()>> {
        let mut running_searches = lock(&self.running_searches);
        running_searches.retain(|(_, computation)| Arc::strong_count(computation) > 1);
        let running = running_searches.iter().find(|(running_query, _)| running_query == query);
        if let Some((_, computation)) = running {
            return computation.clone();
        }
        let computation = Arc::default();
        running_searches.push((query.clone(), Arc::clone(&computation)));
        computation
    }
}

/// Converts an error of the store. The status is 503 if the store is unreachable, 507 if the disk
/// is full, and 500 otherwise.
impl From<anyhow::Error> for HttpError {
    fn from(error: anyhow::Error) -> HttpError {
        let status = match StoreErrorKind::from_error(&error) {
            StoreErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            StoreErrorKind::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
            StoreErrorKind::Permanent => StatusCode::INTERNAL_SERVER_ERROR,
        };
        HttpError::from_error(status, &error)
    }
}

/// Name and value of a command-line option of a comparison.
pub type ComparisonOption<'a> = (&'a str, &'a str);

/// Callbacks into the command line, so that a page shows the same result as the corresponding
/// command.
#[derive(Debug, Clone, Copy)]
pub struct CommandLookups {
    /// Returns the number of the session that a reference such as `@latest` or `@base` names.
    pub session: fn(&Store, &str) -> anyhow::Result<i64>,
    /// Resolves the sources of a comparison. File names are not accepted.
    pub sources: fn(&Store, &[String]) -> anyhow::Result<Vec<ComparisonSource>>,
    /// Builds the settings of a comparison from option names and values.
    pub settings: fn(&[ComparisonOption<'_>]) -> anyhow::Result<AnalysisSettings>,
    /// Adds facts from the store to a comparison: the calibrations, and which sessions are still
    /// running.
    pub mark_known: fn(&mut AnalysisFindings, &[&Session], &Store),
    /// Returns the exit status and the one-line result of comparing two sessions with these
    /// options.
    pub gate: fn(&Store, &[String], &[ComparisonOption<'_>]) -> anyhow::Result<GateResult>,
    /// Returns the plan of a running session.
    pub planned: fn(&Store, i64) -> anyhow::Result<PlanSummary>,
    /// Computes missing summary points of sessions in the store at a path, until the time for one
    /// request is used up. Returns how many sessions are left.
    pub summarize: fn(&Path) -> anyhow::Result<usize>,
    /// Returns results over time from the store at a path, and caches derived data in the store.
    /// The last argument is the number of sessions without points.
    pub history: fn(&Path, &TrendQuery, usize) -> anyhow::Result<ProjectHistory>,
}

/// One side of a comparison.
#[derive(Debug)]
pub struct ComparisonSource {
    /// Display name.
    pub label: String,
    /// Results.
    pub session: Session,
    /// The selected variant.
    pub variant: Option<String>,
    /// The session that the reference resolved to, if that is not obvious.
    pub resolved_as: Option<String>,
}

/// Result of a comparison as a CI gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateResult {
    /// Exit status of the command: 0 if the gate passes, 1 if the gate fails, 2 if the gate cannot
    /// be evaluated.
    pub status: i32,
    /// The reason, in one line.
    pub message: String,
}

/// Selects the results that a trend shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TrendQuery {
    /// The branch whose history is shown.
    pub branch: Option<String>,
    /// Restricts the result to the case with this id.
    pub case: Option<String>,
    /// Names of metrics; empty for the primary metrics.
    pub metrics: Vec<String>,
    /// Whether to include details of the whole series: environment changes, revision names,
    /// failures, and the continuation of the parent branch.
    pub includes_details: bool,
}

/// Parts of a session's plan that its viewers need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanSummary {
    /// Maximum number of slots (planned runs); 0 if unknown.
    pub slots: usize,
    /// Timeout of a run in milliseconds; 0 if unknown.
    pub timeout_ms: u64,
}
