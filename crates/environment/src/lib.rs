//! The machine that a session runs on, and its sources of noise.
//!
//! Reads kernel files and queries programs for their versions; does not evaluate results.
//! [`capture()`] collects the facts stored with a session, [`checks`] assesses the machine for
//! `speedwell doctor`. Only [`tune`] changes anything, and only on request. All files are read
//! below a root folder, so that tests can provide a simulated machine. Start at `capture.rs` and
//! `check/mod.rs`.

mod activity;
mod capture;
mod check;
mod control_group;
mod git;
mod line;
mod neighbours;
mod origin;
mod processors;
mod programs;
mod sensors;
mod system;
mod tree;
pub mod tune;

pub use activity::{Interval, Spent, Watch, busy_machine};
pub use capture::capture;
pub use check::{Check, State, checks, free_disk};
pub use git::{Git, GitError, VARIABLES_OF_A_REPOSITORY};
pub use line::line;
pub use origin::{origin, target_of_job};
pub use programs::{ProgramVersion, program_version};
pub use sensors::{Begun, Sensors};
