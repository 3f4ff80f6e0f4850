//! Executes plans and reports to observers; independent of the store, statistics and the terminal.

mod execute;
pub mod experiment;
#[cfg(test)]
mod histories;
pub mod load;
mod pairs;
pub mod profile;
mod rehearsal;
mod server;
mod trial;
mod unchanged;
pub mod verify;
pub mod worktree;

pub use execute::{ExecuteOptions, SessionEnd, StoppingRule, execute};
pub use rehearsal::{RehearsalResult, rehearse};
pub use trial::try_all;
