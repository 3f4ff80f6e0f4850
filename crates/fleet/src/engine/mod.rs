//! The operations common to all engines: list machines, submit, query and cancel work, connect to a
//! machine, and lease several machines at once where there is a scheduler. The content of the work,
//! its output and its outcome are decided elsewhere.

mod lease;
mod local;
mod slurm;
mod ssh;

pub use lease::{Component, Lease};
pub use local::Local;
pub use slurm::Slurm;
pub use ssh::{STILL_RUNNING, Ssh};

use crate::detached::{self, JobId};
use serde::{Deserialize, Serialize};
use speedwell_model::Allocation;
use speedwell_suite::fleet::{EngineKind, FleetFile, MachineEntry};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::time::Duration;

/// Provides machines.
#[derive(Debug)]
pub enum Engine {
    /// The local machine under one or more names; no transport.
    Local(Local),
    /// OpenSSH connections.
    Ssh(Ssh),
    /// The Slurm scheduler.
    Slurm(Slurm),
}

/// Fleet folder on machines for which the file configures none.
const USUAL_FOLDER: &str = "/var/tmp/speedwell";

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
    /// Program to use there instead of the bundled one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<PathBuf>,
}

/// Availability of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "reason")]
pub enum MachineState {
    /// Available at once, as far as the engine knows.
    Free,
    /// In use; available later.
    Busy,
    /// Unavailable, with the reason.
    Unfit(String),
}

/// Tasks for one machine, executed one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// Name of the machine.
    pub machine: String,
    /// The session's folder there, which contains the program as `bin/speedwell`.
    pub folder: PathBuf,
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Whether the worker outlives us. Slurm jobs always do.
    pub is_detached: bool,
}

/// One attempt at one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Number within the session, unique per attempt.
    pub number: u32,
    /// Instructions for the worker, as one line of JSON. On a shared folder they are also in
    /// `orders/NUMBER.json`.
    pub order: String,
}

/// Work accepted by an engine.
#[derive(Debug)]
pub struct Submitted {
    /// The engine's ID for it.
    pub job: JobId,
    /// Spool lines as they are written, if the worker is at the other end of a connection;
    /// otherwise read the spools from the machine's folder.
    pub lines: Option<ChildStdout>,
}

/// State of a job according to the engine. A hint: the spools are authoritative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// Not started, with the reason.
    Waiting(String),
    /// Started.
    Running,
    /// Ended, with the reason unless it succeeded.
    Ended(Option<String>),
}

impl Engine {
    /// Creates the engine that the file describes.
    pub fn of_file(file: &FleetFile) -> Engine {
        let folder = file.folder.clone();
        let folder = folder.unwrap_or_else(|| PathBuf::from(USUAL_FOLDER));
        match file.engine {
            EngineKind::Slurm => {
                let (options, named) = (file.slurm.clone(), file.machines.clone());
                Engine::Slurm(Slurm::new(options, folder, named))
            }
            EngineKind::Ssh => Engine::Ssh(Ssh::new(named(file, &folder), file.ssh_config.clone())),
            EngineKind::Local => Engine::Local(Local::new(named(file, &folder))),
        }
    }

    /// Lists all machines of the fleet.
    ///
    /// # Errors
    /// Fails if the engine does not answer.
    pub fn machines(&mut self) -> anyhow::Result<Vec<FleetMachine>> {
        match self {
            Engine::Local(local) => Ok(local.machines()),
            Engine::Ssh(ssh) => Ok(ssh.machines()),
            Engine::Slurm(slurm) => slurm.machines(),
        }
    }

    /// Starts a worker for `work`, or queues it on the machine.
    ///
    /// # Errors
    /// Fails if the engine rejects it or the machine cannot be reached.
    pub fn submit(&mut self, work: &Work) -> anyhow::Result<Submitted> {
        match self {
            Engine::Local(local) => local.submit(work),
            Engine::Ssh(ssh) => ssh.submit(work),
            Engine::Slurm(slurm) => slurm.submit(work),
        }
    }

    /// Reconnects to a job that an earlier process submitted. Returns the lines of these spools
    /// (`PLACE.ATTEMPT`) from their beginning if they come over a connection. `waits` keeps the
    /// connection open until the worker ends.
    ///
    /// # Errors
    /// Fails if the machine cannot be reached.
    pub fn take_up(
        &mut self,
        machine: &str,
        folder: &Path,
        (job, spools): (&JobId, &[String]),
        waits: bool,
    ) -> anyhow::Result<Option<ChildStdout>> {
        match self {
            Engine::Ssh(ssh) if detached::is_name(job) => {
                let held = ssh.take_up(machine, folder, (job, spools), waits)?;
                Ok(Some(held))
            }
            Engine::Local(_) | Engine::Ssh(_) | Engine::Slurm(_) => Ok(None),
        }
    }

    /// Queries the states of several jobs at once, in their order.
    ///
    /// # Errors
    /// Fails if the engine does not answer.
    pub fn state(&mut self, jobs: &[JobId]) -> anyhow::Result<Vec<JobState>> {
        match self {
            Engine::Local(local) => Ok(jobs.iter().map(|job| local.state(job)).collect()),
            Engine::Ssh(ssh) => Ok(jobs.iter().map(|job| ssh.state(job)).collect()),
            Engine::Slurm(slurm) => slurm.state(jobs),
        }
    }

    /// Whether a scheduler allocates machines to a job until the job ends.
    pub fn has_queue(&self) -> bool {
        matches!(self, Engine::Slurm(_))
    }

    /// Longest interval between two status queries. Each Slurm query starts a program and loads a
    /// controller that others share; the other engines answer locally.
    pub fn pause(&self) -> Duration {
        match self {
            Engine::Local(_) | Engine::Ssh(_) => Duration::from_secs(1),
            Engine::Slurm(_) => Duration::from_secs(5),
        }
    }

    /// Cancels jobs, whether started or not. Ended jobs are ignored.
    ///
    /// # Errors
    /// Fails if the engine does not answer.
    pub fn cancel(&mut self, jobs: &[JobId]) -> anyhow::Result<()> {
        match self {
            Engine::Local(local) => local.cancel(jobs),
            Engine::Ssh(ssh) => ssh.cancel(jobs),
            Engine::Slurm(slurm) => slurm.cancel(jobs),
        }
    }

    /// Allocates machines for all roles at once, or for none, in a job called `name`. Blocks until
    /// they are available and calls `waits` now and then with the reason; an error from `waits`
    /// ends the wait. Returns `None` for engines without a scheduler.
    ///
    /// # Errors
    /// Fails if the engine rejects the request or does not answer.
    pub fn lease(
        &mut self,
        name: &str,
        parts: &[Component],
        waits: &mut dyn FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<Lease>> {
        match self {
            Engine::Local(_) | Engine::Ssh(_) => Ok(None),
            Engine::Slurm(slurm) => slurm.lease(name, parts, waits).map(Some),
        }
    }

    /// Reaches the machines of this allocation by steps within it.
    #[must_use]
    pub fn within(mut self, allocation: Option<&Allocation>) -> Engine {
        if let Engine::Slurm(slurm) = &mut self {
            slurm.allocation = allocation.cloned();
        }
        self
    }

    /// Describes an existing allocation, as in `job 8: RUNNING`; `None` if there is none.
    ///
    /// # Errors
    /// Fails if the engine does not answer.
    pub fn allocated(&self, allocation: &Allocation) -> anyhow::Result<Option<String>> {
        match self {
            Engine::Local(_) | Engine::Ssh(_) => Ok(None),
            Engine::Slurm(slurm) => slurm.allocated(allocation),
        }
    }

    /// Ends an allocation, whichever process owns it, and returns whether it existed.
    ///
    /// # Errors
    /// Fails if the engine does not answer.
    pub fn release(&mut self, allocation: &Allocation) -> anyhow::Result<bool> {
        match self {
            Engine::Local(_) | Engine::Ssh(_) => Ok(false),
            Engine::Slurm(slurm) => slurm.release(allocation),
        }
    }

    /// Starts `words` on a machine, with its three streams connected to this end. The first word is
    /// the program. All words are quoted: no shell interprets them.
    ///
    /// # Errors
    /// Fails if the machine is not part of this fleet or nothing can be started.
    pub fn reach(&mut self, machine: &str, words: &[&str]) -> anyhow::Result<Child> {
        match self {
            Engine::Local(local) => local.reach(machine, words),
            Engine::Ssh(ssh) => ssh.reach(machine, words),
            Engine::Slurm(slurm) => slurm.reach(machine, words),
        }
    }
}

/// The machines listed in the file; `folder` is the default fleet folder.
fn named(file: &FleetFile, folder: &Path) -> Vec<FleetMachine> {
    let machine = |entry: &MachineEntry| FleetMachine {
        name: entry.name.clone(),
        labels: entry.labels.clone(),
        state: MachineState::Free,
        folder: entry.folder.clone().unwrap_or_else(|| folder.to_owned()),
        binary: entry.binary.clone(),
    };
    file.machines.iter().map(machine).collect()
}
