//! Runs one session on several machines: lists them, connects to them and hands out work.
//!
//! A [`FleetEngine`] provides machines and connections to them. A worker (`speedwell worker shard`)
//! measures one shard of the plan. A [`bundle`] holds all files that a machine needs for its
//! shards, a [`content_store`] stores them on the machine, and [`assignment`] assigns cases to
//! machines. This module does not depend on the crates that make plans, execute sessions or store
//! results. Start at [`engine`].

pub mod assignment;
pub mod bundle;
pub mod check;
pub mod clean;
pub mod content_store;
pub mod detached;
pub mod engine;
mod identity;
mod lock;
pub mod program;

pub use detached::JobId;
pub use engine::{
    AllocationLease, FleetEngine, FleetMachine, JobState, LeaseComponent, LocalEngine,
    MachineState, STILL_RUNNING, ShardTask, SlurmEngine, SshEngine, SubmittedJob, TaskBatch,
};
pub use identity::MachineIdentity;
pub use lock::{LockTicket, MachineLock};
