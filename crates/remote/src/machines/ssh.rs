//! Implements the engine for machines that have no scheduler and are reached with OpenSSH's client.
//! `~/.ssh/config` decides user, port, key and jump host. ssh verifies the host key.
//!
//! The connection is the lease of a worker that is not detached: the worker reads its instructions
//! from stdin and exits when stdin is closed. Such a worker does not outlive its coordinator. The
//! remote shell sees only fixed words and quoted folders that [`speedwell_config::fleet`] has
//! validated. All other data goes through stdin. Start at [`SshEngine::submit`].

use super::local::is_detached_worker;
use super::{
    FleetMachine, JobId, JobState, MachineState, ROLE_SUBCOMMAND, SHARD_SUBCOMMAND, SubmittedJob,
    TaskBatch, WorkerRequest, ensure_in_fleet,
};
use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use speedwell_machine::worker::{
    StderrTail, WORKER_COMMAND, WorkerConnection, last_line, spawn_connected,
};
use speedwell_model::quote;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Options of every connection, besides `-T -a -x`: no prompts, no forwarding, and a timeout of 15 s
/// for a machine that stops responding. ssh may use the user's ControlMaster connection, but creates
/// none: a new one would outlive us, and its end would break all connections through it.
const SSH_OPTIONS: [&str; 5] = [
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ControlMaster=no",
];
/// Exit status of ssh when the connection itself fails.
const CONNECTION_FAILED: i32 = 255;
/// Exit status of a remote process that sends spools (result logs). All lines so far were sent, but
/// the worker is still running.
pub const STILL_RUNNING: i32 = 3;
/// How long a worker may take to exit after its lease ends.
const WORKER_EXIT_GRACE: Duration = Duration::from_secs(2);
/// Checks whether a worker holds the machine exclusively, without disturbing the worker. `$1` is
/// the fleet folder on the machine.
const PROBE_SCRIPT: &str = r#"for lock in /run/lock/speedwell.lock "$1/speedwell.lock"; do
[ ! -e "$lock" ] || flock -s -n "$lock" true || { echo busy; exit; }; done; echo free"#;

/// Connections to machines.
#[derive(Debug)]
pub struct SshEngine {
    config: Option<PathBuf>,
    pub(super) machines: Vec<FleetMachine>,
    jobs: BTreeMap<JobId, SshJob>,
}

/// A worker that we reach over a connection.
#[derive(Debug)]
struct SshJob {
    connection: Child,
    /// The worker's lease; `None` once the lease has ended.
    lease: Option<ChildStdin>,
    /// The machine and the session's folder on it, if the connection only follows a detached
    /// worker.
    followed_worker: Option<(String, PathBuf)>,
    stderr_tail: StderrTail,
}

impl SshEngine {
    /// Creates an engine for these machines; `config` replaces `~/.ssh/config`.
    pub fn new(machines: Vec<FleetMachine>, config: Option<PathBuf>) -> SshEngine {
        SshEngine { config, machines, jobs: BTreeMap::new() }
    }

    /// Queries all machines in parallel.
    pub(super) fn list_machines(&self) -> Vec<FleetMachine> {
        let probe = |machine: &FleetMachine| FleetMachine {
            state: self.probe_machine(machine),
            ..machine.clone()
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (self.machines.iter())
                .map(|machine| (machine, scope.spawn(move || probe(machine))))
                .collect();
            let join = |(machine, handle): (&FleetMachine, thread::ScopedJoinHandle<'_, _>)| {
                handle.join().unwrap_or_else(|_| machine.clone())
            };
            threads.into_iter().map(join).collect()
        })
    }

    fn probe_machine(&self, machine: &FleetMachine) -> MachineState {
        let folder = machine.folder.to_string_lossy();
        let mut command =
            self.ssh_command(&machine.name, &["sh", "-c", PROBE_SCRIPT, "probe", &folder]);
        let output = match command.stdin(Stdio::null()).output() {
            Ok(output) => output,
            Err(error) => return MachineState::Unfit(format!("cannot start ssh: {error}")),
        };
        match output.stdout.trim_ascii() {
            b"free" if output.status.success() => MachineState::Free,
            b"busy" if output.status.success() => MachineState::Busy,
            _ => MachineState::Unfit(unavailable_reason(&machine.name, &output.stderr)),
        }
    }

    pub(super) fn submit(&mut self, batch: &TaskBatch) -> Result<SubmittedJob> {
        let folder = batch.folder.to_string_lossy();
        let requests = batch.tasks.iter().map(|task| task.request.clone());
        if batch.is_detached {
            let (folder, requests) = (batch.folder.clone(), requests.collect());
            let request = WorkerRequest::Launch { folder, requests };
            let job = self.request(&batch.machine, &batch.folder, &request)?;
            return Ok(SubmittedJob { job, lines: None });
        }
        let requests: String = requests.map(|request| request + "\n").collect();
        let arguments = [SHARD_SUBCOMMAND, &folder, "-"];
        let connection = self.start_program(&batch.machine, &batch.folder, &arguments)?;
        let job = JobId::next_held();
        let lines = self.keep_connection(job.clone(), connection, None);
        if let Some(lease) = self.jobs.get_mut(&job).and_then(|job| job.lease.as_mut()) {
            // If the connection has failed, the exit of ssh gives the reason.
            let _ = lease.write_all(requests.as_bytes());
            let _ = lease.flush();
        }
        Ok(SubmittedJob { job, lines })
    }

    /// Keeps the connection to a worker, and returns the worker's output.
    fn keep_connection(
        &mut self,
        job: JobId,
        mut connection: Child,
        followed_worker: Option<(String, PathBuf)>,
    ) -> Option<ChildStdout> {
        let stderr_tail = StderrTail::collect(&mut connection);
        let (lease, lines) = (connection.stdin.take(), connection.stdout.take());
        self.jobs.insert(job, SshJob { connection, lease, followed_worker, stderr_tail });
        lines
    }

    /// Connects to a detached worker to read its spools. Returns `None` for other workers.
    pub(super) fn reconnect_job(
        &mut self,
        machine: &str,
        folder: &Path,
        (job, spools): (&JobId, &[String]),
        follows: bool,
    ) -> Result<Option<ChildStdout>> {
        if !is_detached_worker(job) {
            return Ok(None);
        }
        let folder_text = folder.to_string_lossy();
        let mode = if follows { "--follow" } else { "--read" };
        let mut arguments = vec![SHARD_SUBCOMMAND, mode, &folder_text, &job.0];
        arguments.extend(spools.iter().map(String::as_str));
        let connection = self.start_program(machine, folder, &arguments)?;
        let followed_worker = Some((machine.to_owned(), folder.to_owned()));
        let lines = self.keep_connection(job.clone(), connection, followed_worker);
        lines.context("the connection has no stdout").map(Some)
    }

    /// Makes the program in a session's folder perform a request.
    fn request<T: DeserializeOwned>(
        &self,
        machine: &str,
        folder: &Path,
        request: &WorkerRequest,
    ) -> Result<T> {
        let connection = self.start_program(machine, folder, &[ROLE_SUBCOMMAND])?;
        WorkerConnection::new(connection)?.request(request)
    }

    /// Starts the program in a session's folder as a worker.
    fn start_program(&self, machine: &str, folder: &Path, arguments: &[&str]) -> Result<Child> {
        let program = format!("{}/bin/speedwell", folder.to_string_lossy());
        self.start_command(machine, &[&[program.as_str(), WORKER_COMMAND], arguments].concat())
    }

    pub(super) fn job_state(&mut self, id: &JobId) -> JobState {
        let Some(job) = self.jobs.get_mut(id) else {
            return JobState::Ended(Some("no such job".to_owned()));
        };
        match job.connection.try_wait() {
            Ok(None) => JobState::Running,
            Ok(Some(status)) if status.success() => JobState::Ended(None),
            Ok(Some(status)) if status.code() == Some(STILL_RUNNING) => JobState::Running,
            Ok(Some(status)) => {
                let stderr = job.stderr_tail.text();
                JobState::Ended(Some(match (status.code(), last_line(&stderr)) {
                    (Some(CONNECTION_FAILED), last_line) => format!("connection lost: {last_line}"),
                    (_, "") => format!("the worker exited: {status}"),
                    (_, last_line) => format!("the worker exited: {status}: {last_line}"),
                }))
            }
            Err(error) => JobState::Ended(Some(format!("connection lost: {error}"))),
        }
    }

    /// Cancels the detached workers that these jobs follow, then closes the connections of all
    /// these jobs. The other workers then end, because the connection is their lease.
    pub(super) fn cancel_jobs(&mut self, jobs: &[JobId]) -> Result<()> {
        for id in jobs {
            let followed_worker = self.jobs.get(id).and_then(|job| job.followed_worker.clone());
            if let Some((machine, folder)) = followed_worker {
                let (job, session) = (id.clone(), folder.clone());
                let request = WorkerRequest::EndWorker { folder: session, job };
                self.request::<()>(&machine, &folder, &request)?;
            }
        }
        self.close_connections(jobs)
    }

    /// Closes connections. A worker ends if its connection is its lease.
    fn close_connections(&mut self, jobs: &[JobId]) -> Result<()> {
        for id in jobs {
            if let Some(job) = self.jobs.get_mut(id) {
                job.lease = None;
            }
        }
        let deadline = Instant::now() + WORKER_EXIT_GRACE;
        for id in jobs {
            let Some(job) = self.jobs.get_mut(id) else {
                continue;
            };
            while job.connection.try_wait()?.is_none() {
                if Instant::now() >= deadline {
                    job.connection.kill()?;
                    job.connection.wait()?;
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }

    pub(super) fn start_command(&self, machine: &str, arguments: &[&str]) -> Result<Child> {
        ensure_in_fleet(&self.machines, machine)?;
        spawn_connected(&mut self.ssh_command(machine, arguments)).context("cannot start 'ssh'")
    }

    /// Builds an ssh command for a machine. Quotes the arguments for the shell that sshd starts.
    fn ssh_command(&self, machine: &str, arguments: &[&str]) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.args(["-T", "-a", "-x"]);
        ssh.args(SSH_OPTIONS.into_iter().flat_map(|option| ["-o", option]));
        if let Some(config) = &self.config {
            ssh.arg("-F").arg(config);
        }
        // The text of ssh's messages is searched, so their language must not vary.
        ssh.arg("--").arg(machine).args(arguments.iter().map(|argument| quote(argument)));
        ssh.env("LC_ALL", "C");
        ssh
    }
}

impl Drop for SshEngine {
    /// Ends all workers that hold a lease: they must not outlive their coordinator. If this process
    /// is killed, their leases also end.
    fn drop(&mut self) {
        let jobs: Vec<JobId> = self.jobs.keys().cloned().collect();
        // The exit of this process closes the remaining connections.
        let _ = self.close_connections(&jobs);
    }
}

/// Explains why a machine does not answer, and what the user can do.
fn unavailable_reason(machine: &str, stderr: &[u8]) -> String {
    let stderr = String::from_utf8_lossy(stderr);
    match last_line(&stderr) {
        line if line.contains("Host key verification failed") => {
            format!("its host key is unknown: verify it once with 'ssh {machine}'")
        }
        line if line.contains("Permission denied") => format!(
            "no key allows a login without a prompt: try 'ssh -o BatchMode=yes {machine} true'"
        ),
        "" => "it does not respond".to_owned(),
        line => line.to_owned(),
    }
}
