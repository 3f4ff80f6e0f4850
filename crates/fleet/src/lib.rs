//! Several machines for one session: which there are, how they are reached, and how work is put on them.
//!
//! A [`bundle`] is what a machine needs, a [`depot`] where it lies there, [`place`] which machine measures which case.
//!
//! An [`Engine`] gives machines and lines to them; what is measured there is a parcel, which a worker
//! (`speedwell perform-parcel`) carries out. This floor knows plans, but neither runner, store nor terminal. Start at
//! [`engine`].

pub mod bundle;
pub mod check;
pub mod clock;
pub mod depot;
pub mod engine;
mod identity;
mod lock;
pub mod place;
pub mod program;
pub mod pulse;

pub use engine::{
    Engine, FleetMachine, JobId, JobState, Local, MachineState, Slurm, Ssh, Submitted, Task, Work,
};
pub use identity::Identity;
pub use lock::MachineLock;
