//! Runs child processes. Each child gets its own process group, a time limit and a bounded capture
//! of its output. After each child, its whole process tree is terminated. Children of
//! [`run_attached`] and [`spawn_detached`] have none of this.
//!
//! This module knows nothing about benchmarks. Start with [`run_child`]; [`ProcessSpec`] describes
//! what to start, and [`ProcessOutcome`] describes how the process ended.

mod interrupt;
mod listeners;
mod process_tree;
mod scheduling;
mod scratch;
mod service;
mod spec;
mod supervise;
mod thread_watch;

pub use interrupt::{
    ActivityGuard, InterruptedEarly, begin_activity, check_interrupted, clear_interrupt,
    current_activity, install_handlers, interrupt_flag, is_interrupt_requested, request_interrupt,
    with_stop_flag,
};
pub use listeners::{all_holders_of, holders_of, sockets_at, sockets_at_path};
pub use process_tree::{
    CompanionProcess, OrphanTracker, ProcessIdentity, adopt_orphans, cpu_ns_of, cpu_ns_of_others,
    name_of, names_of, peak_rss_bytes_of, prepare_to_measure, tree_of,
};
pub use scheduling::{CpuSet, RealTimeGuard, TimeSlice, UnusableCpu};
pub use scratch::{ScratchFolder, effective_user_id};
pub use service::{OutputTail, ProcessStopwatch, ServiceProcess, TimedExecution};
pub use spec::{
    CapturedStream, ChannelKind, ChildConversation, NextStep, OutputStream, ProcessEnd,
    ProcessOutcome, ProcessSpec, ShutdownOutcome, ShutdownPolicy, resolve_program, shell_line,
};
pub use speedwell_model::clock::WaitClock;
pub use supervise::{run_attached, run_child, spawn_detached, unix_time_ms};
pub use thread_watch::{ThreadLook, ThreadUse};
