//! Examines the machine that a session runs on, and finds its sources of noise.
//!
//! Reads kernel files and queries programs for their versions; does not evaluate results.
//! [`capture_environment()`] collects the facts that are stored with a session, and
//! [`run_all_checks()`] assesses the machine for `speedwell doctor`. Only [`tune`] changes the
//! machine, and only on request. Tests can simulate a machine, because all files are read below a
//! root folder. Start at `capture.rs` and `check/mod.rs`.

mod activity;
mod capture;
mod check;
mod file_tree;
mod git;
mod origin;
mod programs;
mod system;
pub mod tune;

pub use activity::{
    ActivityInterval, IntervalUsage, ProcessWatch, RunSensors, SensorReadings, busy_machine,
};
pub use capture::capture_environment;
pub use check::{CheckResult, CheckState, check_free_disk, run_all_checks};
pub use git::{GitError, GitRepository, REPOSITORY_VARIABLES, revision_line};
pub use origin::{BranchFork, find_fork, find_origin};
pub use programs::{ProgramVersion, program_version};
