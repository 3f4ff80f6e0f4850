//! Runs child processes: own process group, time limit, bounded capture, and termination of the
//! whole process tree.
//!
//! Knows nothing of benchmarks. Starts one program, listens to it until it ends or its time is up,
//! and leaves no process behind. Start with [`run`]; [`Spec`] describes what to start and
//! [`Outcome`] how it ended.

mod activity;
mod attached;
mod channel;
mod interrupt;
mod kernel;
mod listen;
mod listening;
mod process_tree;
mod scheduling;
mod scratch;
mod service;
mod sock_diag;
mod spec;
mod stopwatch;

pub use activity::{Activity, activity, begin as begin_activity};
pub use attached::{run_attached, spawn_detached};
pub use channel::{Channel, Conversation, Next, Stream};
pub use interrupt::{
    Interrupted, check_interrupted, forget_interrupt, interrupt, interrupt_flag, interrupted,
    on_interrupt,
};
pub use listen::{run, unix_ms};
pub use listening::{all_holders_of, holders_of, sockets_at, sockets_at_path};
pub use process_tree::{
    Companion, Identity, LeftBehind, adopt_orphans, cpu_ns_of, cpu_ns_of_others, name_of, names_of,
    peak_rss_bytes_of, tree_of, wants_processor,
};
pub use scheduling::{CpuSet, RealTime, TimeSlice, UnusableCpu};
pub use scratch::{Scratch, user};
pub use service::Service;
pub use spec::{Capture, Ended, Outcome, Shutdown, ShutdownOutcome, Spec, replay, resolve};
pub use speedwell_clock::Clock;
pub use stopwatch::{Stopwatch, Timed};
