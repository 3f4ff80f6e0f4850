//! What a session is measured on, and the sources of noise there.
//!
//! Reads the kernel's files and asks programs for their versions; decides nothing about results.
//! [`capture()`] notes the facts that are stored with a session, [`checks`] judges the machine for
//! `speedwell doctor`. Only [`tune`] changes anything, and only on request. Everything is read below a root folder, so
//! that a test can hand over a machine of its own making. Start with `capture.rs` and `check/mod.rs`.

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
