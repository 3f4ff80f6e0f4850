//! Keeps sessions in one SQLite file, while they are being measured and for ever after.
//!
//! Decides where the file is, what its tables look like and when something counts as kept: a slot
//! of the plan is kept, whole, from the moment its `SlotDone` was observed, whatever happens to the
//! process afterwards. It must not know where runs come from nor what anybody reads out of them.
//! Start with [`Store`], then [`Recorder`]; the tables are in `schema.rs`.

mod calibration;
mod ledger;
mod locate;
mod open;
mod overview;
mod read;
mod read_only;
mod recorder;
mod reference;
mod samples;
mod schema;
mod sessions;

pub use overview::Overview;
pub use recorder::Recorder;
pub use reference::{Reference, ReferenceError};

use rusqlite::Connection;
use speedwell_process::Scratch;
use std::path::{Path, PathBuf};

/// The sessions of a project, or of a user.
///
/// Several programs may use one file at the same time: readers never wait, writers wait for each
/// other for at most 10 seconds.
///
/// ```
/// use speedwell::store::{Reference, Store};
/// let store = Store::in_memory()?;
/// assert!(store.find(&Reference::Latest).is_err(), "nothing measured yet");
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// Holds the copy that is read in place of a file that cannot be written.
    _copy: Option<Scratch>,
}

impl Store {
    /// The file; `:memory:` where there is none.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
