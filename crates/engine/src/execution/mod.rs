//! Executes the plans of sessions and reports to observers. Does not depend on the store, the
//! statistics or the terminal.

mod code_change_guard;
mod execute;
pub mod experiment;
pub mod load;
#[cfg(test)]
mod merge_simulation;
pub mod profile;
mod server;
mod verify;
pub mod worktree;

pub use execute::{ExecuteOptions, SessionEnd, StoppingRule, execute};
pub(crate) use execute::{perform_slot, prefer_processor_time, run_context};
