//! One store as a place that many look at: connections that only read, and what was found out and still holds.
//!
//! Decides how much is computed at the same time, and for how long an answer is good: until somebody changes the store.
//! Start with [`Site::new`].

use crate::live::Watchers;
use crate::lookups::{Course, Lookups};
use crate::refusal::Refusal;
use axum::body::Bytes;
use speedwell_analysis::history::History;
use speedwell_report::html::Assets;
use speedwell_results::store::Store;
use speedwell_serve::Stopper;
use speedwell_serve::blocking::{Pool, QUEUE};
use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Pages that are computed at the same time; each has a connection of its own.
const READERS: usize = 4;
/// Comparisons and histories that are computed beside them.
const HEAVY: usize = 2;
/// Bytes of finished pages that are kept.
const KEPT_BYTES: usize = 64 << 20;
/// Histories that are kept.
const KEPT_HISTORIES: usize = 4;

/// A store with everything that its pages need.
#[derive(Debug)]
pub struct Site {
    path: PathBuf,
    /// The name of the only project.
    pub project: String,
    /// What the program around looks up.
    pub lookups: Lookups,
    /// Where style and scripts are.
    pub assets: Assets,
    readers: Mutex<Vec<(FileId, Store)>>,
    kept: Mutex<Kept>,
    /// Threads for pages, and others for comparisons and histories, which take longer.
    pub(crate) light: Pool,
    pub(crate) heavy: Pool,
    pub(crate) live: Watchers,
}

/// What tells a file from another one at the same path.
type FileId = (u64, u64);

/// What was found out, as long as the store is as it was then.
#[derive(Debug, Default)]
struct Kept {
    /// The connection by which changes are noticed, and what it said last.
    watch: Option<(FileId, Store)>,
    version: i64,
    pages: VecDeque<(String, Bytes)>,
    bytes: usize,
    histories: Vec<(Course, Arc<History>)>,
}

impl Kept {
    fn forget(&mut self) {
        self.pages.clear();
        self.bytes = 0;
        self.histories.clear();
    }
}

impl Site {
    /// The site of the store at a path, which need not exist yet. Its streams of events end with the server.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn new(
        path: &Path,
        lookups: Lookups,
        assets: Assets,
        stopper: &Stopper,
    ) -> anyhow::Result<Site> {
        Ok(Site {
            path: path.to_owned(),
            project: project_name(path),
            lookups,
            assets,
            readers: Mutex::default(),
            kept: Mutex::default(),
            light: Pool::new("pages", READERS, QUEUE)?,
            heavy: Pool::new("comparisons", HEAVY, QUEUE)?,
            live: Watchers::new(stopper),
        })
    }

    /// Where the store is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the tables of a project are.
    ///
    /// # Errors
    /// There is no such project.
    pub fn store_of(&self, project: &str) -> Result<PathBuf, Refusal> {
        if project == self.project {
            return Ok(self.path.clone());
        }
        Err(Refusal::missing(format!("there is no project '{project}'")))
    }

    fn file_id(&self) -> Option<FileId> {
        let data = std::fs::metadata(&self.path).ok()?;
        data.is_file().then(|| (data.dev(), data.ino()))
    }

    /// Does something with a connection that only reads. Where no store exists, it is an empty one: looking at it leaves no
    /// trace.
    ///
    /// # Errors
    /// The store cannot be read, or what `work` says.
    pub fn read<T>(&self, work: impl FnOnce(&Store) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let Some(id) = self.file_id() else {
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
            None => Store::open_to_view(&self.path)?,
        };
        let done = work(&store);
        let mut readers = lock(&self.readers);
        if readers.len() < READERS + HEAVY {
            readers.push((id, store));
        }
        done
    }

    /// A number that is another one whenever the store was changed; what was kept of an earlier one is forgotten.
    fn version(&self, kept: &mut Kept) -> Result<Option<i64>, Refusal> {
        let Some(id) = self.file_id() else {
            kept.forget();
            kept.watch = None;
            return Ok(None);
        };
        if kept.watch.as_ref().is_none_or(|(known, _)| *known != id) {
            kept.forget();
            kept.watch = Some((id, Store::open_to_view(&self.path)?));
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

    /// A finished page, if nothing has changed since, and what the store was like at this moment.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn kept_page(&self, address: &str) -> Result<(Option<Bytes>, Option<i64>), Refusal> {
        let mut kept = lock(&self.kept);
        let version = self.version(&mut kept)?;
        let found = kept.pages.iter().find(|(known, _)| known == address);
        Ok((found.map(|(_, page)| page.clone()), version))
    }

    /// Keeps a finished page that was begun when the store was like that.
    ///
    /// # Errors
    /// The store cannot be read.
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

    /// Results over time. What follows from sessions, the points and the numbers of changes, is kept in the store as
    /// `speedwell history` keeps it, so that a number means the same here and there.
    ///
    /// # Errors
    /// The store cannot be read, or there is no such branch.
    pub fn history(&self, course: &Course) -> Result<Arc<History>, Refusal> {
        if self.file_id().is_none() {
            return Ok(Arc::default());
        }
        let known = |kept: &Kept| {
            let found = kept.histories.iter().find(|(known, _)| known == course);
            found.map(|(_, history)| history.clone())
        };
        {
            let mut kept = lock(&self.kept);
            self.version(&mut kept)?;
            if let Some(history) = known(&kept) {
                return Ok(history);
            }
        }
        let found = (self.lookups.history)(&self.path, course);
        let history = Arc::new(
            found.map_err(|error| Refusal::of(axum::http::StatusCode::NOT_FOUND, &error))?,
        );
        let mut kept = lock(&self.kept);
        // What the search itself has written is no news.
        self.version(&mut kept)?;
        kept.histories.push((course.clone(), history.clone()));
        if kept.histories.len() > KEPT_HISTORIES {
            kept.histories.remove(0);
        }
        Ok(history)
    }
}

/// A lock whose holder has panicked guards nothing that is half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// First parts of addresses that mean something else.
const RESERVED: [&str; 7] = [
    "api", "static", "login", "logout", "settings", "health", "metrics",
];

/// What the project of a store is called in addresses: as the folder that it is of, in small letters, digits and hyphens.
pub fn project_name(store: &Path) -> String {
    let path = std::path::absolute(store).unwrap_or_else(|_| store.to_owned());
    let folder = path.parent();
    let root = folder
        .filter(|folder| folder.ends_with(".speedwell"))
        .and_then(Path::parent);
    let named = match root {
        Some(root) => root.file_name(),
        None => path.file_stem(),
    };
    let name = named.map_or_else(String::new, |name| name.to_string_lossy().to_lowercase());
    let letters = name.chars().map(|letter| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '-'
        }
    });
    let name: String = letters.take(64).collect();
    let name = name.trim_matches('-');
    match name {
        "" => "project".to_owned(),
        reserved if RESERVED.contains(&reserved) => format!("{reserved}-project"),
        name => name.to_owned(),
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
        ] {
            assert_eq!(project_name(Path::new(path)), name, "{path}");
        }
    }
}
