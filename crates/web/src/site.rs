//! The whole site: its projects, access to them, and limits on concurrent computation.
//!
//! The first project is that of the store given at startup; the stores of further projects lie
//! beside it. Start with [`Site::new`].

use crate::access::{Access, Caller, Rules};
use crate::lookups::Lookups;
use crate::project::{Project, lock};
use crate::refusal::{Refusal, nearest};
use speedwell_report::html::Assets;
use speedwell_results::store::{AuditLine, Project as StoredProject, Store, unfit_project};
use speedwell_serve::Stopper;
use speedwell_serve::blocking::{Patience, Pool, QUEUE};
use speedwell_serve::shares::Shares;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Pages computed concurrently; each has its own connection.
const READERS: usize = 4;
/// Comparisons and histories computed concurrently besides pages: in total, and per client.
const HEAVY: usize = 3;
const HEAVY_EACH: usize = 2;
/// Time after which an expensive request gets an error instead, while it waits or while it runs.
pub(crate) const PATIENCE: Patience = Patience {
    waiting: Duration::from_secs(10),
    working: Duration::from_secs(10),
};

/// State shared by all pages of a server.
#[derive(Debug)]
pub struct Site {
    /// The project of the store given at startup.
    pub first: Arc<Project>,
    others: Mutex<HashMap<String, Arc<Project>>>,
    /// Functions of the surrounding program.
    pub lookups: Lookups,
    /// Addresses of styles and scripts.
    pub assets: Assets,
    /// Authentication and permissions.
    pub access: Access,
    /// Write connection to the store given at startup.
    writer: Mutex<Option<Store>>,
    stopper: Stopper,
    /// Thread pools: one for pages, one for comparisons and histories, which take longer.
    pub(crate) light: Pool,
    pub(crate) heavy: Pool,
    /// Per-client limit on the use of `heavy`.
    pub(crate) shares: Shares,
    /// Start time.
    pub(crate) begun: Instant,
    /// Number of responses by the first digit of their status.
    pub(crate) answers: [AtomicU64; 6],
    /// Number of sessions pushed since startup.
    arrived: AtomicU64,
}

impl Site {
    /// Creates the site of the store at a path, which need not exist yet. Its event streams end
    /// with the server.
    ///
    /// # Errors
    /// If the system cannot start threads, or has no random bytes.
    pub fn new(
        path: &Path,
        lookups: Lookups,
        assets: Assets,
        rules: Rules,
        stopper: &Stopper,
    ) -> anyhow::Result<Site> {
        let first = Project::new(&project_name(path), path, lookups, stopper);
        Ok(Site {
            first: Arc::new(first),
            others: Mutex::default(),
            lookups,
            assets,
            access: Access::new(rules)?,
            writer: Mutex::default(),
            stopper: stopper.clone(),
            light: Pool::new("pages", READERS, QUEUE)?,
            heavy: Pool::new("comparisons", HEAVY, QUEUE)?,
            shares: Shares::new(HEAVY_EACH, QUEUE, PATIENCE),
            begun: Instant::now(),
            answers: Default::default(),
            arrived: AtomicU64::new(0),
        })
    }

    /// Whether there is only one project.
    pub fn is_local(&self) -> bool {
        self.projects().is_ok_and(|projects| projects.len() == 1)
    }

    /// Whether any request has been answered.
    pub fn was_seen(&self) -> bool {
        self.answers
            .iter()
            .any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// Returns the number of sessions pushed since startup, including those that have begun to
    /// arrive. Background jobs watch it to notice new sessions.
    pub fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Acquire)
    }

    pub(crate) fn note_arrival(&self) {
        self.arrived.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of clients that follow an event stream.
    pub fn viewers(&self) -> usize {
        let others = lock(&self.others);
        let watched = others.values().chain([&self.first]);
        watched.map(|project| project.live.viewers()).sum()
    }

    /// Returns all projects, the first one first, and whether each can be read without a token.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn projects(&self) -> Result<Vec<(Arc<Project>, bool)>, Refusal> {
        let stored = self.first.read(|store| Ok(store.projects()?))?;
        let known = stored.iter().map(|project| {
            let known = self.known(project)?;
            Ok((known, project.is_public))
        });
        known.collect()
    }

    /// Returns a project by its name in addresses.
    ///
    /// # Errors
    /// If there is no such project, or the store cannot be read.
    pub fn project(&self, name: &str) -> Result<Arc<Project>, Refusal> {
        if name == self.first.name {
            return Ok(self.first.clone());
        }
        if let Some(known) = lock(&self.others).get(name) {
            return Ok(known.clone());
        }
        // The first project is stored without a name.
        let found = match unfit_project(name) {
            None => self.first.read(|store| Ok(store.project(name)?))?,
            Some(_) => None,
        };
        found.map_or_else(
            || Err(Refusal::missing(format!("there is no project '{name}'"))),
            |project| self.known(&project),
        )
    }

    /// Returns the paths of the stores of all projects.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn stores(&self) -> anyhow::Result<Vec<PathBuf>> {
        let projects = self.projects();
        let projects = projects.map_err(|refusal| anyhow::anyhow!(refusal.words))?;
        let paths = projects
            .iter()
            .map(|(project, _)| project.path().to_owned());
        Ok(paths.collect())
    }

    /// Returns the path of a project's store.
    ///
    /// # Errors
    /// If there is no such project, or the store cannot be read.
    pub fn store_of(&self, project: &str) -> Result<PathBuf, Refusal> {
        Ok(self.project(project)?.path().to_owned())
    }

    fn known(&self, project: &StoredProject) -> Result<Arc<Project>, Refusal> {
        if project.number == 1 {
            return Ok(self.first.clone());
        }
        let path = self.first.read(|store| Ok(store.path_of(project)?))?;
        let mut others = lock(&self.others);
        let known = others.entry(project.name.clone()).or_insert_with(|| {
            let new = Project::new(&project.name, &path, self.lookups, &self.stopper);
            Arc::new(new)
        });
        Ok(known.clone())
    }

    /// Returns names and addresses of similarly named projects that the caller may read.
    pub(crate) fn projects_like(&self, name: &str, caller: &Caller) -> Vec<(String, String)> {
        let known = self.projects().unwrap_or_default().into_iter();
        let names: Vec<String> = known
            .filter(|(project, _)| caller.may_read(&project.name))
            .map(|(project, _)| project.name.clone())
            .collect();
        let like = match nearest(name, names.iter().map(String::as_str)) {
            none if none.is_empty() => names.iter().take(5).map(String::as_str).collect(),
            some => some,
        };
        let pages = like.into_iter();
        pages
            .map(|name| (format!("/{name}/"), name.to_owned()))
            .collect()
    }

    /// Runs `work` with the write connection to the store given at startup.
    ///
    /// # Errors
    /// If the store cannot be written, or `work` fails.
    pub fn write<T>(
        &self,
        work: impl FnOnce(&mut Store) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut writer = lock(&self.writer);
        // Taken out, so that a connection whose user panicked halfway is not used again.
        let mut store = match writer.take() {
            Some(store) => store,
            None => Store::open(self.first.path())?,
        };
        let done = work(&mut store);
        if done.is_ok() {
            *writer = Some(store);
        }
        done
    }

    /// Adds an entry to the audit log, unless the store does not exist: there is nothing to protect
    /// then.
    pub fn note(
        &self,
        caller: &Caller,
        project: Option<&str>,
        what: &str,
        subject: &str,
        result: &str,
    ) {
        if !self.first.exists() {
            return;
        }
        self.note_line(&AuditLine {
            at_unix_ms: unix_ms(),
            who: caller.name.clone(),
            token: caller.token.clone(),
            address: caller.address.map(|address| address.to_string()),
            project: project.map(str::to_owned),
            what: what.to_owned(),
            subject: (!subject.is_empty()).then(|| subject.to_owned()),
            result: result.to_owned(),
        });
    }

    /// Adds an action of the server itself to the audit log.
    pub fn note_own(&self, project: &str, what: &str, subject: &str, result: &str) {
        self.note_line(&AuditLine {
            at_unix_ms: unix_ms(),
            who: "server".into(),
            project: Some(project.to_owned()),
            what: what.to_owned(),
            subject: Some(subject.to_owned()),
            result: result.to_owned(),
            ..AuditLine::default()
        });
    }

    fn note_line(&self, line: &AuditLine) {
        // The action is done, so a failure to record it is ignored.
        let _ = self.write(|store| store.note_in_audit(line));
    }
}

/// Returns the current time in milliseconds since the Unix epoch.
pub(crate) fn unix_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_millis() as i64)
}

/// Derives the name of the first project in addresses from the name of its folder or database:
/// lowercase letters, digits and hyphens.
pub fn project_name(store: &Path) -> String {
    let name = match Store::server(store) {
        Some(address) => {
            let place = address.split_once('?').map_or(address, |(place, _)| place);
            let place = place.split_once("://").map_or(place, |(_, place)| place);
            let database = place.split_once('/').map(|(_, database)| database);
            database.unwrap_or_default().to_lowercase()
        }
        None => {
            let path = std::path::absolute(store).unwrap_or_else(|_| store.to_owned());
            let folder = path.parent();
            let root = folder
                .filter(|folder| folder.ends_with(".speedwell"))
                .and_then(Path::parent);
            let named = match root {
                Some(root) => root.file_name(),
                None => path.file_stem(),
            };
            named.map_or_else(String::new, |name| name.to_string_lossy().to_lowercase())
        }
    };
    let letters = name.chars().map(|letter| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '-'
        }
    });
    let name: String = letters.take(64).collect();
    let name = name.trim_matches('-');
    match (name, unfit_project(name)) {
        ("", _) => "project".to_owned(),
        (name, None) => name.to_owned(),
        (reserved, Some(_)) => format!("{reserved}-project"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_called_as_its_folder() {
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
