//! Imports, exchanges and stores sessions.
//!
//! [`store`] is Speedwell's own database. [`formats`] reads and writes files: result files of other
//! programs and Speedwell's own JSON Lines. [`spool`] is the log a fleet machine writes while it
//! measures. [`foreign`] parses the output of other programs into plain numbers and is independent
//! of sessions. [`output_files`] keeps outputs from overwriting the files they are computed from.

pub mod foreign;
pub mod formats;
pub mod output_files;
pub mod spool;
pub mod store;
