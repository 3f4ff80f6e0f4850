//! Lists the machines of a fleet, connects to them and hands out work. This file describes machines,
//! jobs and the requests to a worker. Other modules decide on the work, and evaluate its output and
//! outcome. Start at [`FleetEngine`].
//!
//! A worker (`speedwell worker shard`) measures one shard of the plan. A [`bundle`] holds all files
//! that a machine needs for its shards, and a [`content_store`] stores them on the machine. This
//! module does not depend on the crates that make plans, execute sessions or store results.

pub mod bundle;
pub mod check;
pub mod clean;
pub mod content_store;
mod engine;
mod lease;
pub(crate) mod local;
mod lock;
mod slurm;
mod ssh;

pub use check::MachineIdentity;
pub use engine::FleetEngine;
pub use lease::{AllocationLease, LeaseComponent};
pub use local::{LocalEngine, SHARD_SUBCOMMAND};
pub use lock::{LockTicket, MachineLock};
pub use slurm::SlurmEngine;
pub use ssh::{STILL_RUNNING, SshEngine};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use speedwell_config::fleet::MachineSelector;
use speedwell_model::assignment::{BackingService, RunAssignment};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ChildStdout;
use std::sync::atomic::{AtomicU32, Ordering};

/// A machine of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetMachine {
    /// Name: the host for ssh, the node for Slurm.
    pub name: String,
    /// Labels, which several machines may share.
    pub labels: Vec<String>,
    /// Availability.
    pub state: MachineState,
    /// Our folder on the machine.
    pub folder: PathBuf,
    /// Program to use on the machine instead of the one that we would send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<PathBuf>,
}

impl FleetMachine {
    /// Whether the selector contains the machine, by its name or its labels.
    pub fn is_in(&self, selector: &MachineSelector) -> bool {
        selector.matches_machine(&|name| {
            self.name == name || self.labels.iter().any(|label| label == name)
        })
    }

    /// Checks that the machines have all names and labels in the selector.
    ///
    /// # Errors
    /// Fails with a hint if no machine has one of them.
    pub fn ensure_known(selector: &MachineSelector, machines: &[FleetMachine]) -> Result<()> {
        let mut names: Vec<String> = (machines.iter())
            .flat_map(|machine| [&machine.name].into_iter().chain(&machine.labels))
            .cloned()
            .collect();
        names.sort();
        names.dedup();
        selector.ensure_known(&names)
    }
}

/// Availability of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "reason")]
pub enum MachineState {
    /// Available immediately, as far as the engine knows.
    Free,
    /// In use; available later.
    Busy,
    /// Unavailable, with the reason.
    Unfit(String),
}

/// Tasks for one machine, executed one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskBatch {
    /// Name of the machine.
    pub machine: String,
    /// The session's folder on the machine, which contains the program as `bin/speedwell`.
    pub folder: PathBuf,
    /// The tasks.
    pub tasks: Vec<ShardTask>,
    /// Whether the worker outlives the process that submits the batch. Slurm jobs always do.
    pub is_detached: bool,
}

/// One attempt at one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardTask {
    /// Number within the session, unique per attempt.
    pub number: u32,
    /// Instructions for the worker, as one line of JSON. In a shared folder, they are also in the
    /// file `orders/NUMBER.json`.
    pub request: String,
}

/// The ID that an engine gives to accepted work.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobId(pub String);

impl JobId {
    /// Returns a new ID for a worker that does not outlive this process. The ID contains the name
    /// of this process, so IDs recorded by an earlier process match no worker of this one.
    pub(crate) fn next_held() -> JobId {
        static STARTED_WORKERS: AtomicU32 = AtomicU32::new(0);
        let number = STARTED_WORKERS.fetch_add(1, Ordering::Relaxed);
        JobId(format!("{number}@{}", speedwell_machine::worker::process_name()))
    }
}

/// Work accepted by an engine.
#[derive(Debug)]
pub struct SubmittedJob {
    /// The engine's ID for the work.
    pub job: JobId,
    /// The lines of the worker's spools (its result logs), if they arrive over a connection. If
    /// `None`, the spools must be read from the machine's folder.
    pub lines: Option<ChildStdout>,
}

/// State of a job according to the engine. This state is only a hint: the spools are authoritative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// Not started, with the reason.
    Waiting(String),
    /// Started.
    Running,
    /// Ended. If the job failed, contains the reason.
    Ended(Option<String>),
}

/// Subcommand of [`WORKER_COMMAND`](speedwell_machine::worker::WORKER_COMMAND) that performs a
/// [`WorkerRequest`]. Most such workers run a role of an experiment.
pub const ROLE_SUBCOMMAND: &str = "role";

/// The first message to a worker that acts on a machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum WorkerRequest {
    /// Check the machine. The answer is a [`MachineReport`](crate::machines::check::MachineReport).
    Check,
    /// Report identity and environment. The answer is a
    /// [`ProbeReport`](crate::roles::worker::ProbeReport).
    Probe,
    /// Start a detached worker for these requests in a session's folder. The answer is the ID of
    /// the worker.
    Launch { folder: PathBuf, requests: Vec<String> },
    /// End a detached worker of a session. The answer is empty.
    EndWorker { folder: PathBuf, job: JobId },
    /// Remove a session from the fleet folder, or all old sessions. The answer is a
    /// [`CleanSummary`](crate::machines::clean::CleanSummary).
    Clean { folder: PathBuf, session: Option<String> },
    /// Hold the lock of this machine, whose fleet folder is at this path.
    Lock(PathBuf),
    /// Start a service.
    RunService(Box<ServiceRequest>),
    /// Run the target.
    RunTarget(Box<TargetRequest>),
}

/// A request to start a service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ServiceRequest {
    pub service: BackingService,
    /// Address at which other machines reach this one.
    pub address: IpAddr,
    pub ports: Option<(u16, u16)>,
    /// The fleet folder on this machine.
    pub folder: PathBuf,
}

/// A request to run the target.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TargetRequest {
    pub assignment: RunAssignment,
    pub seed: u64,
    /// Address at which other machines reach this one.
    pub address: IpAddr,
    /// The fleet folder on this machine.
    pub folder: PathBuf,
}

/// Checks that a machine is part of the fleet.
fn ensure_in_fleet(machines: &[FleetMachine], name: &str) -> Result<()> {
    let is_known = machines.iter().any(|machine| machine.name == name);
    anyhow::ensure!(is_known, "unknown machine '{name}'");
    Ok(())
}
