//! Defines the operations common to all engines: list machines, submit, query and cancel work, and
//! connect to a machine. An engine with a scheduler also leases several machines at once.

use super::{
    AllocationLease, FleetMachine, JobId, JobState, LeaseComponent, LocalEngine, MachineState,
    SlurmEngine, SshEngine, SubmittedJob, TaskBatch, lease,
};
use anyhow::Result;
use speedwell_config::fleet::{EngineKind, FleetFile, MachineEntry};
use speedwell_machine::worker::{WORKER_COMMAND, WorkerConnection};
use speedwell_model::MachineAllocation;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::time::Duration;

/// Provides the machines of a fleet, and connections to them.
#[derive(Debug)]
pub enum FleetEngine {
    /// The local machine under one or more names, without a transport.
    Local(LocalEngine),
    /// OpenSSH connections.
    Ssh(SshEngine),
    /// The Slurm scheduler.
    Slurm(SlurmEngine),
}

/// Fleet folder on machines for which the fleet file configures no folder.
const DEFAULT_FOLDER: &str = "/var/tmp/speedwell";

impl FleetEngine {
    /// Creates the engine that the file describes.
    pub fn from_file(file: &FleetFile) -> FleetEngine {
        let folder = file.folder.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FOLDER));
        let machine = |entry: &MachineEntry| FleetMachine {
            name: entry.name.clone(),
            labels: entry.labels.clone(),
            state: MachineState::Free,
            folder: entry.folder.clone().unwrap_or_else(|| folder.clone()),
            binary: entry.binary.clone(),
        };
        let machines = file.machines.iter().map(machine).collect();
        match file.engine {
            EngineKind::Slurm => {
                let (options, entries) = (file.slurm.clone(), file.machines.clone());
                FleetEngine::Slurm(SlurmEngine::new(options, folder, entries))
            }
            EngineKind::Ssh => FleetEngine::Ssh(SshEngine::new(machines, file.ssh_config.clone())),
            EngineKind::Local => FleetEngine::Local(LocalEngine::new(machines)),
        }
    }

    /// Lists all machines of the fleet with their states.
    ///
    /// # Errors
    /// Fails if the engine does not answer.
    pub fn list_machines(&mut self) -> Result<Vec<FleetMachine>> {
        match self {
            FleetEngine::Local(local) => Ok(local.machines.clone()),
            FleetEngine::Ssh(ssh) => Ok(ssh.list_machines()),
            FleetEngine::Slurm(slurm) => slurm.list_machines(),
        }
    }

    /// Lists all machines of the fleet. Their states may be unknown: no machine is contacted.
    ///
    /// # Errors
    /// Fails if the engine does not answer.
    pub fn known_machines(&mut self) -> Result<Vec<FleetMachine>> {
        match self {
            FleetEngine::Ssh(ssh) => Ok(ssh.machines.clone()),
            FleetEngine::Local(_) | FleetEngine::Slurm(_) => self.list_machines(),
        }
    }

    /// Starts a worker for `batch`, or queues the batch on the machine.
    ///
    /// # Errors
    /// Fails if the engine rejects the batch or the machine cannot be reached.
    pub fn submit(&mut self, batch: &TaskBatch) -> Result<SubmittedJob> {
        match self {
            FleetEngine::Local(local) => local.submit(batch),
            FleetEngine::Ssh(ssh) => ssh.submit(batch),
            FleetEngine::Slurm(slurm) => slurm.submit(batch),
        }
    }

    /// Reconnects to a job that an earlier process submitted. If the job's lines come over a
    /// connection, returns the lines of `spools` (`SHARD.ATTEMPT`) from their beginning. With
    /// `follows`, the connection stays open until the worker ends.
    ///
    /// # Errors
    /// Fails if the machine cannot be reached.
    pub fn reconnect_job(
        &mut self,
        machine: &str,
        folder: &Path,
        (job, spools): (&JobId, &[String]),
        follows: bool,
    ) -> Result<Option<ChildStdout>> {
        let FleetEngine::Ssh(ssh) = self else { return Ok(None) };
        ssh.reconnect_job(machine, folder, (job, spools), follows)
    }

    /// Queries the states of several jobs at once. Returns the states in the order of the jobs.
    ///
    /// # Errors
    /// Fails if the engine does not answer.
    pub fn job_states(&mut self, jobs: &[JobId]) -> Result<Vec<JobState>> {
        match self {
            FleetEngine::Local(local) => Ok(jobs.iter().map(|job| local.job_state(job)).collect()),
            FleetEngine::Ssh(ssh) => Ok(jobs.iter().map(|job| ssh.job_state(job)).collect()),
            FleetEngine::Slurm(slurm) => slurm.job_states(jobs),
        }
    }

    /// Whether a scheduler allocates machines to a job until the job ends.
    pub fn has_queue(&self) -> bool {
        matches!(self, FleetEngine::Slurm(_))
    }

    /// Longest interval between two status queries. Each query of Slurm starts a program and
    /// burdens a controller that others also use. The other engines answer locally.
    pub fn max_poll_interval(&self) -> Duration {
        Duration::from_secs(if self.has_queue() { 5 } else { 1 })
    }

    /// Cancels jobs, whether started or not. Ended jobs are ignored.
    ///
    /// # Errors
    /// Fails if the engine does not answer.
    pub fn cancel_jobs(&mut self, jobs: &[JobId]) -> Result<()> {
        match self {
            FleetEngine::Local(local) => local.cancel_jobs(jobs),
            FleetEngine::Ssh(ssh) => ssh.cancel_jobs(jobs),
            FleetEngine::Slurm(slurm) => slurm.cancel_jobs(jobs),
        }
    }

    /// Allocates machines for all `components` at once, or for none, in a job called `name`. Blocks
    /// until the machines are available. Meanwhile, calls `on_wait` now and then with the reason for
    /// the wait; an error from `on_wait` ends the wait. Returns `None` for engines without a
    /// scheduler.
    ///
    /// # Errors
    /// Fails if the engine rejects the request or does not answer.
    pub fn acquire_lease(
        &mut self,
        name: &str,
        components: &[LeaseComponent],
        on_wait: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<Option<AllocationLease>> {
        let FleetEngine::Slurm(slurm) = self else { return Ok(None) };
        slurm.acquire_lease(name, components, on_wait).map(Some)
    }

    /// From now on, the engine starts work on the machines of this allocation as Slurm job steps
    /// within the allocation, and not as new jobs.
    #[must_use]
    pub fn within_allocation(mut self, allocation: Option<&MachineAllocation>) -> FleetEngine {
        if let FleetEngine::Slurm(slurm) = &mut self {
            slurm.allocation = allocation.cloned();
        }
        self
    }

    /// Describes an existing allocation, as in `job 8: RUNNING`. Returns `None` if it does not
    /// exist.
    ///
    /// # Errors
    /// Fails if the engine does not answer.
    pub fn describe_allocation(&self, allocation: &MachineAllocation) -> Result<Option<String>> {
        let FleetEngine::Slurm(slurm) = self else { return Ok(None) };
        Ok(lease::describe_queue_state(&slurm.query_queue(&allocation.name)?))
    }

    /// Ends an allocation, whichever process owns it. Returns whether the allocation existed.
    ///
    /// # Errors
    /// Fails if the engine does not answer.
    pub fn release_allocation(&mut self, allocation: &MachineAllocation) -> Result<bool> {
        let FleetEngine::Slurm(slurm) = self else { return Ok(false) };
        slurm.release_allocation(allocation)
    }

    /// Starts a worker on a machine. `program` is the path of this executable on that machine. The
    /// first argument is the worker's subcommand.
    ///
    /// # Errors
    /// Fails under the same conditions as [`FleetEngine::start_command`].
    pub fn start_worker(
        &mut self,
        machine: &str,
        program: &str,
        arguments: &[&str],
    ) -> Result<WorkerConnection> {
        let command = [&[program, WORKER_COMMAND][..], arguments].concat();
        WorkerConnection::new(self.start_command(machine, &command)?)
    }

    /// Starts the program `arguments[0]` with the other arguments on a machine. Connects its stdin,
    /// stdout and stderr to this process. All arguments are quoted: no shell interprets them.
    ///
    /// # Errors
    /// Fails if the machine is not part of this fleet or nothing can be started.
    pub fn start_command(&mut self, machine: &str, arguments: &[&str]) -> Result<Child> {
        match self {
            FleetEngine::Local(local) => local.start_command(machine, arguments),
            FleetEngine::Ssh(ssh) => ssh.start_command(machine, arguments),
            FleetEngine::Slurm(slurm) => slurm.start_command(machine, arguments),
        }
    }
}
