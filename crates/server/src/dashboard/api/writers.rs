//! Keeps one write connection per project. Writers wait for the connection instead of retrying
//! until the store is unlocked.

use super::error::ApiError;
use crate::dashboard::page_error::PageError;
use crate::dashboard::site::SiteState;
use speedwell_store::Store;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A connection, opened by the first writer.
type ProjectWriter = Arc<Mutex<Option<Store>>>;

/// The write connections.
#[derive(Debug, Default)]
pub struct WriterPool(Mutex<HashMap<PathBuf, ProjectWriter>>);

impl WriterPool {
    /// Runs `work` with the write connection to a project's store.
    ///
    /// # Errors
    /// Fails if the project does not exist, if its store cannot be opened, or if `work` fails.
    pub fn with_writer<T>(
        &self,
        site: &SiteState,
        project: &str,
        work: impl FnOnce(&mut Store) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let path = site.store_path(project)?;
        let writer = {
            let mut writers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            writers.entry(path.clone()).or_default().clone()
        };
        let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Take the connection out, so that it is not used again if `work` panics.
        let mut store = match writer.take() {
            Some(store) => store,
            None => {
                let opened = Store::open(&path)
                    .map_err(|error| PageError::store_open_error(&path, error))?;
                opened.wait_for_disk()?;
                opened
            }
        };
        let result = work(&mut store);
        *writer = Some(store);
        result
    }
}
