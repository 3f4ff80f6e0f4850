//! What an engine can do, the same for all of them: five verbs, and a lease of several machines at once where a scheduler hands
//! them out. What a machine has to do, what it sends back and what becomes of it is decided elsewhere.

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

/// Who gives machines.
#[derive(Debug)]
pub enum Engine {
    /// This machine under one or more names, without anybody in between.
    Local(Local),
    /// A line to each by OpenSSH.
    Ssh(Ssh),
    /// The queue of Slurm.
    Slurm(Slurm),
}

/// Our folder on machines of which the file says nothing.
const USUAL_FOLDER: &str = "/var/tmp/speedwell";

/// A machine as its fleet knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetMachine {
    /// Its name: the host for ssh, the node for Slurm.
    pub name: String,
    /// Names that it shares with others.
    pub labels: Vec<String>,
    /// Whether it can be had.
    pub state: MachineState,
    /// The folder there that is ours.
    pub folder: PathBuf,
    /// The program to use there in the place of the bundle's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<PathBuf>,
}

/// Whether a machine can be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "reason")]
pub enum MachineState {
    /// At once, as far as the engine knows.
    Free,
    /// When others have ended.
    Busy,
    /// Not, and why.
    Unfit(String),
}

/// Tasks for one machine, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The machine's name.
    pub machine: String,
    /// The folder of the session there: the program is `bin/speedwell` in it.
    pub folder: PathBuf,
    /// What is to be done.
    pub tasks: Vec<Task>,
    /// Whether the worker goes on without us. Jobs of Slurm always do.
    pub is_detached: bool,
}

/// One attempt at one parcel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its number in the session: no two attempts share one.
    pub number: u32,
    /// What the worker is told, as one line of JSON. Where a folder is shared it is in `orders/NUMBER.json` there as well.
    pub order: String,
}

/// Work that an engine accepted.
#[derive(Debug)]
pub struct Submitted {
    /// What the engine calls it.
    pub job: JobId,
    /// The lines of its spools as they are written, where the worker is at the other end of a line; else they are read from
    /// the machine's folder.
    pub lines: Option<ChildStdout>,
}

/// What an engine says of work. It is a hint: what is done is what spools say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// It has not begun, and why.
    Waiting(String),
    /// It has.
    Running,
    /// It is over: by itself, or for this reason.
    Ended(Option<String>),
}

impl Engine {
    /// The engine that a file describes.
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

    /// Every machine of the fleet.
    ///
    /// # Errors
    /// The engine does not answer.
    pub fn machines(&mut self) -> anyhow::Result<Vec<FleetMachine>> {
        match self {
            Engine::Local(local) => Ok(local.machines()),
            Engine::Ssh(ssh) => Ok(ssh.machines()),
            Engine::Slurm(slurm) => slurm.machines(),
        }
    }

    /// Has a worker begin with `work`, or puts it in the machine's queue.
    ///
    /// # Errors
    /// The engine refuses, or the machine cannot be reached.
    pub fn submit(&mut self, work: &Work) -> anyhow::Result<Submitted> {
        match self {
            Engine::Local(local) => local.submit(work),
            Engine::Ssh(ssh) => ssh.submit(work),
            Engine::Slurm(slurm) => slurm.submit(work),
        }
    }

    /// Takes up a job that was handed out by an earlier process, whose session has this folder on the machine: the lines of these
    /// spools (`PLACE.ATTEMPT`), from their beginning, where they come over a line. `waits` says whether the line stays until
    /// the worker has ended.
    ///
    /// # Errors
    /// The machine cannot be reached.
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

    /// What has become of jobs, in their order. One question for all of them.
    ///
    /// # Errors
    /// The engine does not answer.
    pub fn state(&mut self, jobs: &[JobId]) -> anyhow::Result<Vec<JobState>> {
        match self {
            Engine::Local(local) => Ok(jobs.iter().map(|job| local.state(job)).collect()),
            Engine::Ssh(ssh) => Ok(jobs.iter().map(|job| ssh.state(job)).collect()),
            Engine::Slurm(slurm) => slurm.state(jobs),
        }
    }

    /// Whether jobs have machines from somebody who goes on giving them until the jobs end.
    pub fn has_queue(&self) -> bool {
        matches!(self, Engine::Slurm(_))
    }

    /// The longest time between two questions about jobs. A question to Slurm starts a program, and takes time of a controller that
    /// serves others as well; those to other engines are answered here.
    pub fn pause(&self) -> Duration {
        match self {
            Engine::Local(_) | Engine::Ssh(_) => Duration::from_secs(1),
            Engine::Slurm(_) => Duration::from_secs(5),
        }
    }

    /// Ends jobs, whether they have begun or not. One that is over already is left alone.
    ///
    /// # Errors
    /// The engine does not answer.
    pub fn cancel(&mut self, jobs: &[JobId]) -> anyhow::Result<()> {
        match self {
            Engine::Local(local) => local.cancel(jobs),
            Engine::Ssh(ssh) => ssh.cancel(jobs),
            Engine::Slurm(slurm) => slurm.cancel(jobs),
        }
    }

    /// Has machines for all of these parts at once, or for none: it waits until they can be had, and says by `waits` why they
    /// cannot yet be, now and then; an error of that ends the waiting. The job is called `name`. Where nobody hands out machines there is
    /// nothing to wait for, and no lease.
    ///
    /// # Errors
    /// The engine refuses, or does not answer.
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

    /// The same engine, which reaches the machines of this allocation within it.
    #[must_use]
    pub fn within(mut self, allocation: Option<&Allocation>) -> Engine {
        if let Engine::Slurm(slurm) = &mut self {
            slurm.allocation = allocation.cloned();
        }
        self
    }

    /// What is said of an allocation that is there: `job 8: RUNNING`. Nothing where there is none.
    ///
    /// # Errors
    /// The engine does not answer.
    pub fn allocated(&self, allocation: &Allocation) -> anyhow::Result<Option<String>> {
        match self {
            Engine::Local(_) | Engine::Ssh(_) => Ok(None),
            Engine::Slurm(slurm) => slurm.allocated(allocation),
        }
    }

    /// Ends an allocation, whoever has it; whether there was one.
    ///
    /// # Errors
    /// The engine does not answer.
    pub fn release(&mut self, allocation: &Allocation) -> anyhow::Result<bool> {
        match self {
            Engine::Local(_) | Engine::Ssh(_) => Ok(false),
            Engine::Slurm(slurm) => slurm.release(allocation),
        }
    }

    /// Opens a line to a machine: `words` started there, with its three streams at this end. The first word is a program,
    /// none of them reaches a shell as anything but itself.
    ///
    /// # Errors
    /// The machine is not of this fleet, or nothing can be started.
    pub fn reach(&mut self, machine: &str, words: &[&str]) -> anyhow::Result<Child> {
        match self {
            Engine::Local(local) => local.reach(machine, words),
            Engine::Ssh(ssh) => ssh.reach(machine, words),
            Engine::Slurm(slurm) => slurm.reach(machine, words),
        }
    }
}

/// The machines that a file names; `folder` is ours on those of which it says nothing else.
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
