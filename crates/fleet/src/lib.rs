//! Several machines for one session: which there are, how they are reached, and how work is put on them.
//!
//! An [`Engine`] gives machines and lines to them; what is measured there is a parcel, which a worker
//! (`speedwell perform-parcel`) carries out. A [`bundle`] is all that a machine needs for that, a [`depot`] is where it lies
//! there, and [`place`] decides which machine measures which case. This floor knows plans, but neither runner, store nor
//! terminal. Start at [`engine`].

pub mod bundle;
pub mod check;
pub mod clean;
pub mod clock;
pub mod depot;
pub mod detached;
pub mod engine;
mod identity;
mod lock;
pub mod place;
pub mod program;
pub mod pulse;

pub use detached::JobId;
pub use engine::{
    Component, Engine, FleetMachine, JobState, Lease, Local, MachineState, STILL_RUNNING, Slurm,
    Ssh, Submitted, Task, Work,
};
pub use identity::Identity;
pub use lock::{MachineLock, Turn};
