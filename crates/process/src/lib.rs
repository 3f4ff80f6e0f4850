//! Care of child processes: own process group, time limit, bounded capture, kill of the whole tree.
//!
//! This module knows nothing of benchmarks. It starts one program, listens to it until it ends or
//! its time is up, and leaves no process behind. Start with [`run`]; [`Spec`] says what to start
//! and [`Outcome`] what became of it.

mod attached;
mod capture;
mod channel;
mod cpus;
mod family;
mod identity;
mod interrupt;
mod listen;
mod listening;
mod outcome;
mod priority;
mod resolve;
mod scratch;
mod service;
mod spec;
mod start;
mod stopwatch;
mod stray;

pub use attached::run_attached;
pub use capture::Capture;
pub use channel::{Channel, Conversation, Next, Stream};
pub use cpus::CpuSet;
pub use family::{cpu_ns_of, family_of, name_of, names_of, peak_rss_bytes_of};
pub use identity::Identity;
pub use interrupt::{forget_interrupt, interrupt_flag, interrupted, on_interrupt};
pub use listen::run;
pub use listen::unix_ms;
pub use listening::{all_holders_of, holders_of, sockets_at, sockets_at_path};
pub use outcome::{Ended, Farewelled, Outcome};
pub use priority::RealTime;
pub use resolve::resolve;
pub use scratch::{Scratch, user};
pub use service::Service;
pub use spec::{Farewell, Spec, replay};
pub use stopwatch::{Stopwatch, Timed};
pub use stray::adopt_orphans;
