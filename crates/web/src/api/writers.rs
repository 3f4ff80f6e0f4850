//! Write connections, one per project: writers queue for it in order, instead of retrying until the
//! store is unlocked.

use super::problem::Problem;
use crate::refusal::Refusal;
use crate::site::Site;
use speedwell_results::store::Store;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A connection, opened by the first writer.
type Writer = Arc<Mutex<Option<Store>>>;

/// The write connections.
#[derive(Debug, Default)]
pub struct Writers(Mutex<HashMap<PathBuf, Writer>>);

impl Writers {
    /// Runs `work` with the write connection to a project's store.
    ///
    /// # Errors
    /// If there is no such project, its store cannot be opened, or `work` fails.
    pub fn with<T>(
        &self,
        site: &Site,
        project: &str,
        work: impl FnOnce(&mut Store) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let path = site.store_of(project)?;
        let writer = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry(path.clone()).or_default().clone()
        };
        let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out, so that a connection whose user panicked halfway is not used again.
        let mut store = match writer.take() {
            Some(store) => store,
            None => {
                let store = Store::open(&path);
                let store = store.map_err(|error| Refusal::unopened(&path, error))?;
                store.wait_for_disk()?;
                store
            }
        };
        let done = work(&mut store);
        *writer = Some(store);
        done
    }
}
