//! Messages between a coordinator and a worker that acts for it on a machine.
//!
//! The coordinator sends one [`WorkerRequest`]. Most requests have a single answer. A worker that
//! holds the machine's lock or runs a role of an experiment sends [`WorkerEvent`]s until its
//! connection ends. The coordinator answers each [`WorkerEvent::Load`] with a [`LoadReply`].

use crate::machines::{JobId, MachineIdentity};
use serde::{Deserialize, Serialize};
use speedwell_model::Environment;
use speedwell_model::assignment::{BackingService, RunAssignment};
use speedwell_model::load::measurement::LoadRun;
use speedwell_model::load::spec::LoadSpec;
use speedwell_model::stage_report::StageReport;
use std::net::IpAddr;
use std::path::PathBuf;

/// Subcommand of [`WORKER_COMMAND`](speedwell_machine::worker::WORKER_COMMAND) that performs a
/// [`WorkerRequest`]. Most such workers run a role of an experiment.
pub const ROLE_SUBCOMMAND: &str = "role";

/// The first message to a worker that acts on a machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum WorkerRequest {
    /// Check the machine. The answer is a [`MachineReport`](crate::machines::check::MachineReport).
    Check,
    /// Report identity and environment. The answer is a [`ProbeReport`].
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

/// A message from a role, or from a worker that holds a lock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum WorkerEvent {
    /// The machine's lock is held, shared with other experiments.
    Locked,
    /// An exclusive measurement is running on the machine. The string describes the lock's holder.
    Queued(String),
    /// The service is ready at this port.
    Ready(u16),
    /// A load is requested.
    Load(Box<RequestedLoad>),
    /// The running load has to end.
    StopLoad,
    /// The role has ended, with this outcome.
    Done(Box<RoleOutcome>),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RequestedLoad {
    pub spec: LoadSpec,
    pub seed: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct RoleOutcome {
    pub performed: StageReport,
    pub load: Option<LoadRun>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProbeReport {
    pub identity: MachineIdentity,
    pub environment: Environment,
    /// The address at which the coordinator reached this machine, if it connected by ssh.
    pub reached_at: Option<IpAddr>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum LoadReply {
    Sent(Box<LoadRun>),
    /// The reason why the load was not sent.
    NotSent(String),
}
