//! Connections that write, one for the tables of each project: whoever writes waits for the one before, in the order of
//! coming, instead of trying again and again whether the tables are free.

use super::problem::Problem;
use crate::refusal::Refusal;
use crate::site::Site;
use speedwell_results::store::Store;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A connection, once somebody has written.
type Writer = Arc<Mutex<Option<Store>>>;

/// The connections that write.
#[derive(Debug, Default)]
pub struct Writers(Mutex<HashMap<PathBuf, Writer>>);

impl Writers {
    /// Does something with the connection that writes the tables of a project.
    ///
    /// # Errors
    /// There is no such project, its tables cannot be opened, or what `work` says.
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
        // Taken out, so that one whose user panicked in the middle of something is not used again.
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
