//! The tables of one project as a place that many look at: connections that only read, and what was found out and still holds.
//!
//! Decides for how long an answer is good: until somebody changes the tables. Start with [`Project::read`].

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

/// Connections that are kept open for those who come next.
const IDLE: usize = 6;
/// Bytes of finished pages that are kept, comparisons among them, by address and until the tables are changed.
const KEPT_BYTES: usize = 128 << 20;
/// Histories that are kept.
const KEPT_HISTORIES: usize = 4;

/// A project with what is known of it.
#[derive(Debug)]
pub struct Project {
    /// What it is called in addresses.
    pub name: String,
    /// What the program around looks up.
    pub lookups: Lookups,
    path: PathBuf,
    readers: Mutex<Vec<(StoreId, Store)>>,
    kept: Mutex<Kept>,
    /// Histories that are being searched: whoever wants the same one waits for it.
    searched: Mutex<Vec<(Course, Arc<Mutex<()>>)>>,
    pub(crate) live: Watchers,
}

/// What tells tables from others at the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreId {
    /// Of a file: device and inode.
    File(u64, u64),
    /// A server, whose connections mend themselves.
    Server,
}

/// What was found out, as long as the tables are as they were then.
#[derive(Debug, Default)]
struct Kept {
    /// The connection by which changes are noticed, and what it said last.
    watch: Option<(StoreId, Store)>,
    version: i64,
    pages: VecDeque<(String, Bytes)>,
    bytes: usize,
    histories: Vec<(Course, Arc<History>)>,
    /// How many sessions lack points, after some got theirs.
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
    /// The project of that name, whose tables are at `path` or will be.
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

    /// Where its tables are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there are any yet.
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

    /// Does something with a connection that only reads. Where no store exists, it is an empty one: looking at it leaves no
    /// trace.
    ///
    /// # Errors
    /// The store cannot be read, or what `work` says.
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

    /// A number that is another one whenever the store was changed; what was kept of an earlier one is forgotten.
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

    /// Gives sessions the points that they lack, once until the store changes; says how many still lack some.
    ///
    /// # Errors
    /// The store cannot be read or written.
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
        // What it has written itself is no news.
        self.version(&mut kept)?;
        // What is left is made in the background, which changes the store.
        kept.missing = Some(missing);
        Ok(missing)
    }

    /// Results over time. What follows from sessions, the points and the numbers of changes, is kept in the store as
    /// `speedwell history` keeps it, so that a number means the same here and there.
    ///
    /// # Errors
    /// The store cannot be read, or there is no such branch.
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
        // What the search itself has written is no news.
        self.version(&mut kept)?;
        kept.histories.push((course.clone(), history.clone()));
        if kept.histories.len() > KEPT_HISTORIES {
            kept.histories.remove(0);
        }
        Ok(history)
    }

    /// What whoever searches this history holds. Who asks again, because it takes long, does not make it take longer.
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

/// A lock whose holder has panicked guards nothing that is half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
