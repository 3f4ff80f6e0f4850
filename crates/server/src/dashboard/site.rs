//! Holds the state that handlers work with: the request, the site, and its projects, which share
//! their databases among many readers and writers.
//!
//! The first project uses the store given at startup; the stores of further projects lie next to
//! it. A project pools read-only connections, keeps a write connection, and caches results until
//! the database changes. Start with [`RequestContext::find_project`] and
//! [`HostedProject::with_reader`].

use crate::dashboard::address::{PageQuery, nearest_links};
use crate::dashboard::results::ResultCache;
use crate::dashboard::{AccessRules, CallerIdentity, CommandLookups, SiteAccess, TrendQuery};
use crate::http::assets::AssetTable;
use crate::http::blocking::{BlockingPool, ClientLimiter, QUEUE_LENGTH, QueueTimeouts};
use crate::http::events::EventHub;
use crate::http::{ClientInfo, HttpError, ServerStopper, lock};
use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use speedwell_analysis::history::ProjectHistory;
use speedwell_model::stored::AuditEntry;
use speedwell_report::OpenChanges;
use speedwell_report::html::{AssetPaths, EARLY_SCRIPT, SERVED_SCRIPT, SERVED_STYLE};
use speedwell_store::{SessionFilter, Store, StoreErrorKind, StoredProject, project_name_problem};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Maximum number of pages computed concurrently.
const PAGE_THREADS: usize = 4;
/// Threads for API requests. Most of the work is parsing sessions. Writes are serialized per
/// project.
const API_THREADS: usize = 4;
/// Maximum number of comparisons and histories computed concurrently, in addition to pages.
const HEAVY_THREADS: usize = 3;
/// Maximum number of comparisons and histories computed concurrently for one client.
const HEAVY_PER_CLIENT: usize = 2;
/// Timeouts of comparisons and histories.
pub(super) const HEAVY_TIMEOUTS: QueueTimeouts =
    QueueTimeouts { queued: Duration::from_secs(10), running: Duration::from_secs(10) };

/// Maximum number of idle connections kept open.
const MAX_IDLE_CONNECTIONS: usize = 6;
/// Maximum total size of cached pages, in bytes. The cache is keyed by caller and address, and
/// cleared when the database changes.
const MAX_CACHED_PAGE_BYTES: usize = 128 << 20;
/// How long after its last page a project is kept ready for the next one.
const KEPT_READY: Duration = Duration::from_secs(86_400);
/// Number of newest sessions whose results are computed before a page lists them.
const READY_SESSIONS: usize = 1_000;
/// Maximum number of cached histories.
const MAX_CACHED_HISTORIES: usize = 4;

/// A request on its way to its handler.
#[derive(Debug)]
pub struct RequestContext {
    pub site: Arc<SiteState>,
    pub client: ClientInfo,
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    /// The whole body; empty until the handler needs it.
    pub body: Bytes,
    /// The start of a body that is too large for memory. `body` is then the rest.
    pub spool: Option<File>,
    /// The caller; anonymous until it is identified.
    pub caller: CallerIdentity,
    /// The project that the path names. It need not exist.
    pub project: Option<String>,
    /// The other name in the path, such as the id of a session; empty if there is none.
    pub name: String,
}

impl RequestContext {
    /// Creates the context of a request whose route and caller are not known yet.
    pub fn new(site: Arc<SiteState>, client: ClientInfo, head: Parts) -> RequestContext {
        RequestContext {
            site,
            client,
            method: head.method,
            uri: head.uri,
            headers: head.headers,
            body: Bytes::new(),
            spool: None,
            caller: CallerIdentity::default(),
            project: None,
            name: String::new(),
        }
    }

    /// Returns the project that the path names, or the first project if it names none.
    ///
    /// # Errors
    /// Fails if there is no such project, or the store cannot be read.
    pub fn find_project(&self) -> Result<Arc<HostedProject>, HttpError> {
        match &self.project {
            Some(name) => self.site.find_project(name),
            None => Ok(self.site.first.clone()),
        }
    }

    /// Parses the query.
    ///
    /// # Errors
    /// Fails if the query is invalid.
    pub fn parse_query(&self) -> Result<PageQuery, HttpError> {
        PageQuery::parse(self.uri.query().unwrap_or_default())
    }

    /// Parses the body as a form.
    ///
    /// # Errors
    /// Fails if the form is invalid.
    pub fn parse_form(&self) -> Result<PageQuery, HttpError> {
        let form = std::str::from_utf8(&self.body)
            .map_err(|_| HttpError::bad_request("the form is not valid UTF-8"))?;
        PageQuery::parse(form)
    }

    /// Adds an entry to the audit log for an action on the project.
    pub fn record_action(&self, action: &str, subject: &str, result: &str) {
        self.site.record_action(&self.caller, self.project.as_deref(), action, subject, result);
    }
}

/// State shared by all pages of a server.
#[derive(Debug)]
pub struct SiteState {
    /// The project of the store given at startup.
    pub first: Arc<HostedProject>,
    other_projects: Mutex<HashMap<String, Arc<HostedProject>>>,
    /// Styles and scripts.
    pub(super) assets: AssetTable,
    /// Addresses of styles and scripts.
    pub(super) asset_paths: AssetPaths,
    /// Authentication and permissions.
    pub access: SiteAccess,
    /// Write connection to the store given at startup, for tokens and the audit log.
    writer: Mutex<Option<Store>>,
    /// Pool for pages.
    pub(super) pages: BlockingPool,
    /// Pool for API requests.
    pub(super) api: BlockingPool,
    /// Pool for comparisons and histories.
    pub(super) heavy: BlockingPool,
    /// Per-client limit on the use of `heavy`.
    pub(super) client_limiter: ClientLimiter,
    /// Start time.
    pub(super) started: Instant,
    /// Number of page responses by the first digit of their status.
    pub(super) response_counts: [AtomicU64; 6],
    /// Uploads begun plus sessions stored since startup.
    arrived: AtomicU64,
}

impl SiteState {
    /// Creates the site of the store at a path. The store need not exist. When the server stops
    /// (`stopper`), the site's event streams end.
    ///
    /// # Errors
    /// Fails if the system has no random bytes.
    pub fn new(
        path: &Path,
        lookups: CommandLookups,
        rules: AccessRules,
        stopper: &ServerStopper,
    ) -> anyhow::Result<SiteState> {
        let first = HostedProject::new(&project_name(path), path, lookups, stopper);
        let mut assets = AssetTable::default();
        let script_type = "text/javascript; charset=utf-8";
        let asset_paths = AssetPaths {
            style: assets.add_file("page.css", "text/css; charset=utf-8", SERVED_STYLE.as_bytes()),
            early_script: assets.add_file("early.js", script_type, EARLY_SCRIPT.as_bytes()),
            script: assets.add_file("page.js", script_type, SERVED_SCRIPT.as_bytes()),
        };
        Ok(SiteState {
            first: Arc::new(first),
            other_projects: Mutex::default(),
            assets,
            asset_paths,
            access: SiteAccess::new(rules)?,
            writer: Mutex::default(),
            pages: BlockingPool::new(PAGE_THREADS, QUEUE_LENGTH),
            api: BlockingPool::new(API_THREADS, QUEUE_LENGTH),
            heavy: BlockingPool::new(HEAVY_THREADS, QUEUE_LENGTH),
            client_limiter: ClientLimiter::new(HEAVY_PER_CLIENT, QUEUE_LENGTH, HEAVY_TIMEOUTS),
            started: Instant::now(),
            response_counts: Default::default(),
            arrived: AtomicU64::new(0),
        })
    }

    /// Whether any request for a page has been answered.
    pub fn has_responded(&self) -> bool {
        self.response_counts.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// Returns a number that grows when an upload begins and when a session is stored. Background
    /// jobs watch this number to notice new sessions.
    pub fn upload_count(&self) -> u64 {
        self.arrived.load(Ordering::Acquire)
    }

    pub(super) fn record_upload(&self) {
        self.arrived.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of clients that follow an event stream.
    pub fn count_viewers(&self) -> usize {
        let other_projects = lock(&self.other_projects);
        let watched = other_projects.values().chain([&self.first]);
        watched.map(|project| project.count_viewers()).sum()
    }

    /// Returns all projects, starting with the first project, and whether each can be read without
    /// a token.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn list_projects(&self) -> Result<Vec<(Arc<HostedProject>, bool)>, HttpError> {
        let stored = self.first.with_reader(|store| Ok(store.list_projects()?))?;
        stored.iter().map(|project| Ok((self.open_project(project)?, project.is_public))).collect()
    }

    /// Returns a project by its name in addresses.
    ///
    /// # Errors
    /// Fails if there is no such project, or the store cannot be read.
    pub fn find_project(&self, name: &str) -> Result<Arc<HostedProject>, HttpError> {
        if name == self.first.name {
            return Ok(self.first.clone());
        }
        if let Some(project) = lock(&self.other_projects).get(name) {
            return Ok(project.clone());
        }
        // Check the name first: the first project is stored with an empty name, so an empty `name`
        // would match it.
        let found = match project_name_problem(name) {
            None => self.first.with_reader(|store| Ok(store.find_project(name)?))?,
            Some(_) => None,
        };
        found.map_or_else(
            || Err(HttpError::not_found(format!("project '{name}' not found"))),
            |project| self.open_project(&project),
        )
    }

    /// Returns the paths of the stores of all projects.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn store_paths(&self) -> anyhow::Result<Vec<PathBuf>> {
        let projects = self.list_projects().map_err(|error| anyhow::anyhow!(error.message))?;
        let paths = projects.iter().map(|(project, _)| project.path.clone());
        Ok(paths.collect())
    }

    /// Computes what the next pages of recently viewed projects need, so that they do not have to
    /// wait for it after sessions have arrived. Pages show the errors of a project.
    pub fn prepare_pages(&self) {
        for (project, _) in self.list_projects().unwrap_or_default() {
            let _ = project.prepare_pages();
        }
    }

    fn open_project(&self, project: &StoredProject) -> Result<Arc<HostedProject>, HttpError> {
        if project.number == 1 {
            return Ok(self.first.clone());
        }
        let path = self.first.with_reader(|store| Ok(store.project_path(project)?))?;
        let mut other_projects = lock(&self.other_projects);
        let project_entry = other_projects.entry(project.name.clone()).or_insert_with(|| {
            let project =
                HostedProject::new(&project.name, &path, self.first.lookups, &self.first.stopper);
            Arc::new(project)
        });
        Ok(project_entry.clone())
    }

    /// Returns the addresses and names of projects whose names are similar to `name` and that
    /// `caller` may read. If there are none, returns up to five other projects that `caller` may
    /// read.
    pub(super) fn similar_projects(
        &self,
        name: &str,
        caller: &CallerIdentity,
    ) -> Vec<(String, String)> {
        let names: Vec<String> = self
            .list_projects()
            .unwrap_or_default()
            .into_iter()
            .filter(|(project, _)| caller.can_read(&project.name))
            .map(|(project, _)| project.name.clone())
            .collect();
        let href = |name: &str| format!("/{name}/");
        let similar = nearest_links(name, names.iter().map(String::as_str), href);
        if similar.is_empty() {
            return names.into_iter().take(5).map(|name| (href(&name), name)).collect();
        }
        similar
    }

    /// Runs `work` with the write connection to the store given at startup.
    ///
    /// # Errors
    /// Fails if the store cannot be written, or `work` fails.
    pub fn with_writer<T>(
        &self,
        work: impl FnOnce(&mut Store) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut writer = lock(&self.writer);
        // Take the connection out, so that nobody uses it after `work` has failed or panicked
        // halfway.
        let mut store = match writer.take() {
            Some(store) => store,
            None => Store::open(&self.first.path)?,
        };
        let result = work(&mut store);
        if result.is_ok() {
            *writer = Some(store);
        }
        result
    }

    /// Adds an entry to the audit log. Does nothing if there is no store, because then there is
    /// nothing to protect.
    pub fn record_action(
        &self,
        caller: &CallerIdentity,
        project: Option<&str>,
        action: &str,
        subject: &str,
        result: &str,
    ) {
        if !self.first.exists() {
            return;
        }
        self.write_audit_line(AuditEntry {
            actor: caller.name.clone(),
            token: caller.token.clone(),
            address: caller.address.map(|address| address.to_string()),
            project: project.map(str::to_owned),
            action: action.to_owned(),
            subject: (!subject.is_empty()).then(|| subject.to_owned()),
            result: result.to_owned(),
            ..AuditEntry::default()
        });
    }

    /// Adds an action of the server itself to the audit log.
    pub fn record_server_action(&self, project: &str, action: &str, subject: &str, result: &str) {
        self.write_audit_line(AuditEntry {
            actor: "server".into(),
            project: Some(project.to_owned()),
            action: action.to_owned(),
            subject: Some(subject.to_owned()),
            result: result.to_owned(),
            ..AuditEntry::default()
        });
    }

    fn write_audit_line(&self, entry: AuditEntry) {
        let entry = AuditEntry { at_unix_ms: unix_ms(), ..entry };
        // Ignore a failure to record the action, because the action is done.
        let _ = self.with_writer(|store| store.append_audit(&entry));
    }
}

/// A project with its connections and caches.
#[derive(Debug)]
pub struct HostedProject {
    /// Name in addresses.
    pub name: String,
    /// Callbacks into the program that embeds this site.
    pub lookups: CommandLookups,
    /// Path of the store, which need not exist.
    pub path: PathBuf,
    readers: Mutex<Vec<(StoreId, Store)>>,
    /// Write connection for uploads, opened by the first one. Uploads wait for each other instead
    /// of retrying until the store is unlocked.
    writer: Mutex<Option<Store>>,
    cache: Mutex<ProjectCache>,
    /// Results of sessions.
    pub(super) results: ResultCache,
    /// Histories that are being computed. Other requests for the same history wait for the result.
    running_searches: Mutex<Vec<(TrendQuery, Arc<Mutex<()>>)>>,
    /// Viewers of running sessions, keyed by stream.
    pub(super) hubs: Mutex<HashMap<String, EventHub>>,
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

/// A rendered page.
#[derive(Debug)]
struct CachedPage {
    address: String,
    bytes: Bytes,
    /// When the page becomes invalid, if it does although the store is unchanged.
    expires: Option<Instant>,
}

/// Cached results, valid while the store is unchanged.
#[derive(Debug, Default)]
struct ProjectCache {
    /// Connection that detects changes.
    watch: Option<(StoreId, Store)>,
    version: i64,
    pages: VecDeque<CachedPage>,
    histories: Vec<(TrendQuery, Arc<ProjectHistory>)>,
    /// Number of open changes of the default branch when they were last searched for; 0 before. Unlike
    /// the rest, it outlives changes of the store, so that pages do not lose the number for a moment.
    open_changes: usize,
    /// Number of sessions that had no points after the last computation of points.
    missing_points: Option<usize>,
    /// Whether [`HostedProject::prepare_pages`] has finished.
    is_prepared: bool,
    /// When a page was last requested. It outlives changes of the store.
    last_request: Option<Instant>,
}

impl ProjectCache {
    fn clear_cache(&mut self) {
        self.pages.clear();
        self.histories.clear();
        self.missing_points = None;
        self.is_prepared = false;
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
            results: ResultCache::default(),
            running_searches: Mutex::default(),
            hubs: Mutex::default(),
            stopper: stopper.clone(),
        }
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
        let idle = {
            let mut readers = lock(&self.readers);
            readers.retain(|(store_id, _)| *store_id == id);
            readers.pop()
        };
        let store = match idle {
            Some((_, store)) => store,
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
            *cache = ProjectCache::default();
            return Ok(None);
        };
        if cache.watch.as_ref().is_none_or(|(store_id, _)| *store_id != id) {
            *cache = ProjectCache::default();
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
        let now = Instant::now();
        cache.last_request = Some(now);
        let is_valid = |page: &&CachedPage| {
            page.address == address && page.expires.is_none_or(|expires| now < expires)
        };
        let found = cache.pages.iter().find(is_valid);
        Ok((found.map(|page| page.bytes.clone()), version))
    }

    /// Caches a page that was rendered from version `started_at` of the store, for at most
    /// `max_age`. Does nothing if the store has changed since then.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn cache_page(
        &self,
        address: &str,
        page: &Bytes,
        started_at: i64,
        max_age: Option<Duration>,
    ) -> Result<(), HttpError> {
        let mut cache = lock(&self.cache);
        if self.current_version(&mut cache)? != Some(started_at) {
            return Ok(());
        }
        cache.pages.retain(|cached| cached.address != address);
        cache.pages.push_back(CachedPage {
            address: address.to_owned(),
            bytes: page.clone(),
            expires: max_age.map(|max_age| Instant::now() + max_age),
        });
        let mut bytes: usize = cache.pages.iter().map(|cached| cached.bytes.len()).sum();
        while bytes > MAX_CACHED_PAGE_BYTES {
            bytes -= cache.pages.pop_front().map_or(bytes, |oldest| oldest.bytes.len());
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
        let is_any_missing =
            self.with_reader(|store| Ok(!store.find_sessions_without_points()?.is_empty()))?;
        let missing = if is_any_missing { (self.lookups.summarize)(&self.path)? } else { 0 };
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
            let is_same = |(cached_query, history): &&(TrendQuery, Arc<ProjectHistory>)| {
                cached_query == query
                    || query.branch.as_ref() == Some(&history.line)
                        && *cached_query == TrendQuery { branch: None, ..query.clone() }
            };
            if let Some((_, history)) = cache.histories.iter().find(is_same) {
                return Ok(history.clone());
            }
        }
        let missing = self.summarize()?;
        let result = (self.lookups.history)(&self.path, query, missing);
        let history = result
            .map_err(|error| HttpError::from_error(StatusCode::NOT_FOUND, &error))
            .map(Arc::new)?;
        let is_default = *query == TrendQuery::default();
        let open_changes = is_default.then(|| OpenChanges::from_history(&history).known);
        let mut cache = lock(&self.cache);
        // Update the version first, so that the computation's own writes do not clear the new entry.
        self.current_version(&mut cache)?;
        cache.open_changes = open_changes.unwrap_or(cache.open_changes);
        cache.histories.push((query.clone(), history.clone()));
        if cache.histories.len() > MAX_CACHED_HISTORIES {
            // The home page needs the history of the default branch.
            let is_other = |(query, _): &(TrendQuery, _)| *query != TrendQuery::default();
            let evicted = cache.histories.iter().position(is_other).unwrap_or(0);
            cache.histories.remove(evicted);
        }
        Ok(history)
    }

    /// Computes the history of the default branch and the results of the newest sessions, unless they
    /// are known, the project was not viewed for a day, or a session is being measured: the
    /// work would disturb that measurement.
    ///
    /// # Errors
    /// Fails if the store cannot be read or written.
    fn prepare_pages(&self) -> Result<(), HttpError> {
        {
            let mut cache = lock(&self.cache);
            self.current_version(&mut cache)?;
            let is_viewed = cache.last_request.is_some_and(|time| time.elapsed() < KEPT_READY);
            if cache.is_prepared || !is_viewed {
                return Ok(());
            }
        }
        let sessions = self.with_reader(|store| {
            let is_measuring = store.running_sessions(1)?.iter().any(|session| !session.is_killed);
            let filter = SessionFilter::default();
            Ok((!is_measuring)
                .then(|| store.select_sessions(&filter, READY_SESSIONS))
                .transpose()?)
        })?;
        let Some(sessions) = sessions else { return Ok(()) };
        self.load_history(&TrendQuery::default())?;
        self.with_reader(|store| {
            let settings = || (self.lookups.settings)(&[]);
            for page in sessions.chunks(50) {
                self.results.find_results(store, page, &settings)?;
            }
            Ok(())
        })?;
        let mut cache = lock(&self.cache);
        self.current_version(&mut cache)?;
        // Another session may have arrived during the computation.
        cache.is_prepared =
            cache.histories.iter().any(|(query, _)| *query == TrendQuery::default());
        Ok(())
    }

    /// Returns the number of open changes of the default branch when they were last searched for, or 0
    /// if they were not. Never searches for changes, because every page shows the number.
    pub fn known_open_changes(&self) -> usize {
        lock(&self.cache).open_changes
    }

    pub(super) fn count_viewers(&self) -> usize {
        lock(&self.hubs).values().map(EventHub::count_viewers).sum()
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

/// Returns the current time in milliseconds since the Unix epoch.
pub(super) fn unix_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Returns the name that the first project has in URLs. The name comes from the folder, file or
/// database, and consists of lowercase letters, digits and hyphens.
pub fn project_name(store: &Path) -> String {
    let name = match Store::server_address(store) {
        Some(address) => {
            let url = address.split_once('?').map_or(address, |(url, _)| url);
            let without_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
            let database = without_scheme.split_once('/').map(|(_, name)| name);
            database.unwrap_or_default().to_lowercase()
        }
        None => {
            let path = std::path::absolute(store).unwrap_or_else(|_| store.to_owned());
            let folder = path.parent();
            let root =
                folder.filter(|folder| folder.ends_with(".speedwell")).and_then(Path::parent);
            let os_name = root.map_or_else(|| path.file_stem(), Path::file_name);
            os_name.map_or_else(String::new, |name| name.to_string_lossy().to_lowercase())
        }
    };
    let characters = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let shortened: String = characters.take(64).collect();
    let name = shortened.trim_matches('-');
    match (name, project_name_problem(name)) {
        ("", _) => "project".to_owned(),
        (name, None) => name.to_owned(),
        (reserved, Some(_)) => format!("{reserved}-project"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_named_after_its_folder_or_database() {
        for (path, name) in [
            ("/home/u/My Project_2/.speedwell/results.db", "my-project-2"),
            ("/data/core.db", "core"),
            ("/x/static/.speedwell/results.db", "static-project"),
            ("/.speedwell/results.db", "project"),
            ("/x/語/.speedwell/results.db", "project"),
            ("postgres://db.example:5432/Perf_1?a=b/c", "perf-1"),
            ("postgres://db.example", "project"),
        ] {
            assert_eq!(project_name(Path::new(path)), name, "{path}");
        }
    }
}
