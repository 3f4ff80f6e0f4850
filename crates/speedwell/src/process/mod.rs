//! Care of child processes: own process group, time limit, bounded capture, kill of the whole tree.
//!
//! This module knows nothing of benchmarks. It starts one program, listens to it until it ends or
//! its time is up, and leaves no process behind. Start with [`run`]; [`Spec`] says what to start
//! and [`Outcome`] what became of it.

mod attached;
mod capture;
mod channel;
mod cpus;
mod interrupt;
mod listen;
mod outcome;
mod replay;
mod spec;
mod start;
mod stray;

pub use attached::run_attached;
pub use capture::Capture;
pub use channel::{Channel, Conversation, Next};
pub use cpus::CpuSet;
pub use interrupt::{forget_interrupt, interrupt_flag, interrupted, on_interrupt};
pub use listen::run;
pub(crate) use listen::unix_ms;
pub use outcome::{Ended, Outcome};
pub use replay::{quote, replay};
pub use spec::Spec;
pub use stray::adopt_orphans;
