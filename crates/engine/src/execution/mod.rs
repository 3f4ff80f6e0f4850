//! Executes the plans of sessions and reports to observers. Does not depend on the store, the
//! statistics or the terminal.

mod code_change_guard;
mod execute;
pub mod experiment;
pub mod load;
#[cfg(test)]
mod merge_simulation;
mod pairs;
pub mod profile;
mod server;
mod trial;
pub mod verify;
pub mod worktree;

pub use execute::{ExecuteOptions, SessionEnd, StoppingRule, execute};
pub(crate) use execute::{perform_slot, run_context};
pub(crate) use pairs::prefer_processor_time;
pub use trial::try_all;
