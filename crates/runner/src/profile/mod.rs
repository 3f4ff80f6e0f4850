//! Recordings of where a program spends its time, in runs of their own: a program that is recorded is slower, so
//! such a run is never timed.
//!
//! Decides which tool is used and how it is told what to do; what it wrote is read by `foreign::profile`. It must
//! not know why a program is recorded. Start at [`Recorder`]: [`Recorder::record`] for a program that runs to its
//! end, [`Recorder::prepare`] and [`Recorder::attach`] for a server in whose life only a part counts.

mod attached;
mod perf;
mod recorder;
mod runtime;
mod v8;

pub use attached::{Attached, Recording};
pub use recorder::{Recorded, Recorder, Tool};
