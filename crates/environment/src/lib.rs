//! What a session is measured on, and what may spoil its figures.
//!
//! Reads the kernel's files and asks programs for their versions; changes nothing and decides
//! nothing about results. [`capture()`] notes the facts that are stored with a session, [`checks`]
//! judges the machine for `speedwell doctor`. Everything is read below a root folder, so that a
//! test can hand over a machine of its own making. Start with `capture.rs` and `check.rs`.

mod activity;
mod busy;
mod capture;
mod check;
mod control_group;
mod memory;
mod processors;
mod programs;
mod stretch;
mod system;
mod tree;
mod version;
mod watch;

pub use busy::busy_machine;
pub use capture::capture;
pub use check::{Check, State, checks, free_disk};
pub use stretch::{Spent, Stretch};
pub use version::{ProgramVersion, program_version};
pub use watch::Watch;
