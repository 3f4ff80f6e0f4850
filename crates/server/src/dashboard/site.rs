//! Holds the state of the whole site: its projects, access to them, and limits on concurrent
//! computation. Defines callers and what they may do.
//!
//! The first project uses the store given at startup; the stores of further projects lie next to
//! it. Start with [`SiteState::new`].
//!
//! Reading may be open to everyone who can reach the server, and each project may be public.
//! Everything else requires a permission ([`CallerIdentity::ensure_permitted`]). Callers without
//! permission for a project learn nothing about it, not even whether it exists.

use crate::dashboard::project::{CommandLookups, HostedProject};
use crate::http::assets::AssetTable;
use crate::http::blocking::{BlockingPool, ClientLimiter, QUEUE_LENGTH, QueueTimeouts};
use crate::http::cookie::{LoginKey, LoginStore};
use crate::http::token::FailureLimiter;
use crate::http::{ClientInfo, HttpError, ServerStopper, lock};
use anyhow::Context;
use axum::http::StatusCode;
use speedwell_model::stored::{AuditEntry, StoredToken, TokenScope};
use speedwell_report::html::{AssetPaths, EARLY_SCRIPT, SERVED_SCRIPT, SERVED_STYLE};
use speedwell_store::{Store, StoredProject, project_name_problem};
use std::collections::HashMap;
use std::net::IpAddr;
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

/// Names of the files that every page needs.
const STYLE_NAME: &str = "page.css";
const EARLY_SCRIPT_NAME: &str = "early.js";
const SCRIPT_NAME: &str = "page.js";

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
    /// Thread pool for pages.
    pub(super) pages: BlockingPool,
    /// Thread pool for API requests.
    pub(super) api: BlockingPool,
    /// Thread pool for comparisons and histories.
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
    /// Fails if the system cannot start threads, or has no random bytes.
    pub fn new(
        path: &Path,
        lookups: CommandLookups,
        rules: AccessRules,
        stopper: &ServerStopper,
    ) -> anyhow::Result<SiteState> {
        let first = HostedProject::new(&project_name(path), path, lookups, stopper);
        let files = [
            (STYLE_NAME, SERVED_STYLE.as_bytes()),
            (EARLY_SCRIPT_NAME, EARLY_SCRIPT.as_bytes()),
            (SCRIPT_NAME, SERVED_SCRIPT.as_bytes()),
        ];
        let assets = AssetTable::new("/static/", files);
        let asset_path =
            |name| assets.asset_path(name).map(str::to_owned).context("a page asset has no path");
        let asset_paths = AssetPaths {
            style: asset_path(STYLE_NAME)?,
            early_script: asset_path(EARLY_SCRIPT_NAME)?,
            script: asset_path(SCRIPT_NAME)?,
        };
        Ok(SiteState {
            first: Arc::new(first),
            other_projects: Mutex::default(),
            assets,
            asset_paths,
            access: SiteAccess::new(rules)?,
            writer: Mutex::default(),
            pages: BlockingPool::new("pages", PAGE_THREADS, QUEUE_LENGTH)?,
            api: BlockingPool::new("api", API_THREADS, QUEUE_LENGTH)?,
            heavy: BlockingPool::new("comparisons", HEAVY_THREADS, QUEUE_LENGTH)?,
            client_limiter: ClientLimiter::new(HEAVY_PER_CLIENT, QUEUE_LENGTH, HEAVY_TIMEOUTS),
            started: Instant::now(),
            response_counts: Default::default(),
            arrived: AtomicU64::new(0),
        })
    }

    /// Whether there is only one project.
    pub fn has_one_project(&self) -> bool {
        self.list_projects().is_ok_and(|projects| projects.len() == 1)
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
        let paths = projects.iter().map(|(project, _)| project.path().to_owned());
        Ok(paths.collect())
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
        let similar = match nearest_names(name, names.iter().map(String::as_str)) {
            none if none.is_empty() => names.iter().take(5).map(String::as_str).collect(),
            some => some,
        };
        similar.into_iter().map(|name| (format!("/{name}/"), name.to_owned())).collect()
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
            None => Store::open(self.first.path())?,
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
        self.write_audit_line(&AuditEntry {
            at_unix_ms: unix_ms(),
            actor: caller.name.clone(),
            token: caller.token.clone(),
            address: caller.address.map(|address| address.to_string()),
            project: project.map(str::to_owned),
            action: action.to_owned(),
            subject: (!subject.is_empty()).then(|| subject.to_owned()),
            result: result.to_owned(),
        });
    }

    /// Adds an action of the server itself to the audit log.
    pub fn record_server_action(&self, project: &str, action: &str, subject: &str, result: &str) {
        self.write_audit_line(&AuditEntry {
            at_unix_ms: unix_ms(),
            actor: "server".into(),
            project: Some(project.to_owned()),
            action: action.to_owned(),
            subject: Some(subject.to_owned()),
            result: result.to_owned(),
            ..AuditEntry::default()
        });
    }

    fn write_audit_line(&self, entry: &AuditEntry) {
        // Ignore a failure to record the action, because the action is done.
        let _ = self.with_writer(|store| store.append_audit(entry));
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
            let os_name = match root {
                Some(root) => root.file_name(),
                None => path.file_stem(),
            };
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

/// Returns up to five known names that are most similar to `name`.
pub fn nearest_names<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Vec<&'k str> {
    let lowercase_name = name.to_lowercase();
    let mut by_distance: Vec<(usize, &str)> = known
        .into_iter()
        .map(|known| {
            let lower = known.to_lowercase();
            let distance = if lower.contains(&lowercase_name) {
                0
            } else {
                strsim::osa_distance(&lower, &lowercase_name)
            };
            (distance, known)
        })
        .filter(|(distance, _)| *distance <= lowercase_name.chars().count().max(3))
        .collect();
    by_distance.sort();
    by_distance.truncate(5);
    by_distance.into_iter().map(|(_, known)| known).collect()
}

/// Access rules of a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccessRules {
    /// Whether everyone who can reach the server may read.
    pub allows_anonymous_reads: bool,
    /// Whether a key that grants full access is printed at startup.
    pub has_key: bool,
    /// Whether all connections to the server are protected by TLS.
    pub has_tls: bool,
}

/// Permission that an action requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredPermission {
    /// None.
    Nothing,
    /// Reading the project.
    Read,
    /// Pushing to the project.
    Push,
    /// Triaging changes of the project.
    Triage,
    /// Full access.
    Admin,
}

/// The access rules and startup key of a server, its current logins, and recent failed attempts.
#[derive(Debug)]
pub struct SiteAccess {
    pub(super) rules: AccessRules,
    pub(super) key: Option<LoginKey>,
    pub(super) logins: LoginStore<CallerIdentity>,
    pub(super) failures: FailureLimiter,
    /// Limits audit entries for tokens that are expired or revoked.
    pub(super) expired_tokens: FailureLimiter,
}

impl SiteAccess {
    /// Creates an access state without logins.
    ///
    /// # Errors
    /// Fails if the system has no random bytes.
    pub fn new(rules: AccessRules) -> anyhow::Result<SiteAccess> {
        // Browsers send a cookie to all ports of a host, so each server needs its own cookie name.
        let name = if rules.has_tls {
            "speedwell".to_owned()
        } else {
            format!("speedwell-{}", std::process::id())
        };
        Ok(SiteAccess {
            rules,
            key: rules.has_key.then(LoginKey::new).transpose()?,
            logins: LoginStore::new(name),
            failures: FailureLimiter::default(),
            expired_tokens: FailureLimiter::default(),
        })
    }

    /// Returns the key to print at startup. The key works once.
    pub fn startup_key(&self) -> Option<&str> {
        self.key.as_ref().map(LoginKey::expose)
    }

    /// Whether pages offer a login. They do if there is a startup key, or if anonymous callers may
    /// not read everything.
    pub fn offers_login(&self) -> bool {
        self.key.is_some() || !self.rules.allows_anonymous_reads
    }
}

/// The caller of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallerIdentity {
    /// The name of the token, `start key` for the startup key, or empty for an anonymous caller.
    pub name: String,
    /// The id of the token.
    pub token: Option<String>,
    /// Address of the client.
    pub address: Option<IpAddr>,
    /// Restricts pushes to sessions of these branches.
    pub branches: Option<Vec<String>>,
    /// Restricts pushes to sessions of these machines.
    pub machines: Option<Vec<String>>,
    pub(super) scopes: Vec<TokenScope>,
    /// Restricts the scopes to this project.
    pub(super) project: Option<String>,
    /// What everyone may read.
    pub(super) public: PublicAccess,
}

/// What everyone may read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum PublicAccess {
    #[default]
    Nothing,
    /// The projects with these names.
    Projects(Vec<String>),
    Everything,
}

impl CallerIdentity {
    /// Creates a caller that used the startup key.
    pub(super) fn with_key() -> CallerIdentity {
        CallerIdentity {
            name: "start key".into(),
            scopes: vec![TokenScope::Admin],
            ..CallerIdentity::default()
        }
    }

    /// Creates a caller that sent a token, or logged in with one.
    pub(super) fn with_token(token: StoredToken) -> CallerIdentity {
        CallerIdentity {
            name: token.name,
            token: Some(token.id),
            address: None,
            branches: token.branches,
            machines: token.machines,
            scopes: token.scopes,
            project: token.project,
            public: PublicAccess::Nothing,
        }
    }

    /// Whether the caller is authenticated.
    pub fn is_authenticated(&self) -> bool {
        !self.name.is_empty() || self.token.is_some()
    }

    /// Returns the key for limiting expensive requests. Callers without a token share a key if they
    /// have the same address.
    pub(super) fn limiter_key(&self, client: &ClientInfo) -> String {
        match (&self.token, client.address) {
            (Some(token), _) => format!("token {token}"),
            (None, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        }
    }

    /// Returns the key that separates the cached pages of different callers.
    pub(super) fn cache_key(&self) -> String {
        format!("{}\n{}", self.token.as_deref().unwrap_or_default(), self.name)
    }

    /// Whether the caller has this permission in a project, or on the whole server.
    pub fn is_permitted(&self, permission: RequiredPermission, project: Option<&str>) -> bool {
        let is_public = match (&self.public, project) {
            (PublicAccess::Everything, _) => true,
            (PublicAccess::Projects(names), Some(name)) => {
                names.iter().any(|public| public == name)
            }
            _ => false,
        };
        let sufficient_scopes: &[TokenScope] = match permission {
            RequiredPermission::Nothing => return true,
            RequiredPermission::Read if is_public => return true,
            RequiredPermission::Read => &[TokenScope::Read, TokenScope::Push, TokenScope::Triage],
            RequiredPermission::Push => &[TokenScope::Push],
            RequiredPermission::Triage => &[TokenScope::Triage],
            RequiredPermission::Admin => &[],
        };
        let is_in_scope = match (&self.project, project) {
            (None, _) => true,
            (Some(bound_project), Some(name)) => bound_project == name,
            (Some(_), None) => false,
        };
        let has =
            |scope: &TokenScope| *scope == TokenScope::Admin || sufficient_scopes.contains(scope);
        is_in_scope && self.scopes.iter().any(has)
    }

    /// Whether the caller may read a project.
    pub fn can_read(&self, project: &str) -> bool {
        self.is_permitted(RequiredPermission::Read, Some(project))
    }

    /// Returns an error unless the caller has this permission. The error does not depend on whether
    /// the project exists.
    ///
    /// # Errors
    /// Returns 401 for anonymous callers, otherwise 403.
    pub fn ensure_permitted(
        &self,
        permission: RequiredPermission,
        project: Option<&str>,
    ) -> Result<(), HttpError> {
        if self.is_permitted(permission, project) {
            return Ok(());
        }
        let action = match (permission, project) {
            (RequiredPermission::Push, Some(project)) => format!("push to '{project}'"),
            (RequiredPermission::Triage, Some(project)) => format!("triage changes of '{project}'"),
            (RequiredPermission::Admin, Some(project)) => format!("administer '{project}'"),
            (_, Some(project)) => format!("read '{project}'"),
            (_, None) => "do this".to_owned(),
        };
        Err(if self.is_authenticated() {
            let message = format!("'{}' is not allowed to {action}", self.name);
            HttpError::new(StatusCode::FORBIDDEN, message)
                .with_hint("create a token with this permission: speedwell serve token add")
        } else {
            let message = format!("a token is required to {action}");
            HttpError::new(StatusCode::UNAUTHORIZED, message)
                .with_hint("send Authorization: Bearer TOKEN, or log in at /login")
        })
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

    fn caller(scopes: &[TokenScope], project: Option<&str>) -> CallerIdentity {
        CallerIdentity {
            name: "t".into(),
            scopes: scopes.to_vec(),
            project: project.map(str::to_owned),
            ..CallerIdentity::default()
        }
    }

    #[test]
    fn a_permission_holds_only_in_its_project_and_for_its_action() {
        use RequiredPermission::{Admin, Push, Read, Triage};
        let all = [Read, Push, Triage, Admin];
        for (scopes, allowed) in [
            (&[TokenScope::Read][..], &[Read][..]),
            (&[TokenScope::Push], &[Read, Push]),
            (&[TokenScope::Triage], &[Read, Triage]),
            (&[TokenScope::Admin], &all),
            (&[], &[]),
        ] {
            for need in all {
                let is_allowed = allowed.contains(&need);
                let bound = caller(scopes, Some("core"));
                assert_eq!(
                    bound.is_permitted(need, Some("core")),
                    is_allowed,
                    "{scopes:?} {need:?}"
                );
                assert!(!bound.is_permitted(need, Some("other")), "{scopes:?} {need:?}");
                assert!(!bound.is_permitted(need, None), "the whole server is more than a project");
                let free = caller(scopes, None);
                assert_eq!(
                    free.is_permitted(need, Some("other")),
                    is_allowed,
                    "{scopes:?} {need:?}"
                );
            }
        }
    }

    #[test]
    fn public_projects_can_be_read_but_not_changed_without_a_token() {
        let nobody = CallerIdentity {
            public: PublicAccess::Projects(vec!["open".into()]),
            ..CallerIdentity::default()
        };
        assert!(nobody.can_read("open") && !nobody.can_read("core"));
        let refused = nobody.ensure_permitted(RequiredPermission::Push, Some("open")).unwrap_err();
        assert_eq!(refused.status, 401);
        let known = caller(&[TokenScope::Read], Some("core"));
        let refused = |project: &str| {
            known.ensure_permitted(RequiredPermission::Read, Some(project)).unwrap_err()
        };
        assert_eq!(refused("there").status, 403);
        let message = |project: &str| refused(project).message.replace(project, "P");
        assert_eq!(message("there"), message("not-there"), "the error reveals nothing");
    }
}
