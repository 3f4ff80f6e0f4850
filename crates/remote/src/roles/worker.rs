//! Runs one role of an experiment on this machine: the target or a service. Everything that the
//! role starts ends when the role's connection ends.
//!
//! The coordinating process sends one [`WorkerRequest`] on stdin, and the role answers with
//! [`WorkerEvent`]s on stdout. The coordinator answers each [`WorkerEvent::Load`] with a
//! [`LoadReply`]. Every message is a line of JSON. The target's role starts, checks and stops the
//! server (`engine/execution/experiment`), but other workers send the loads. Start at
//! [`perform_role`].

use crate::machines::{LockTicket, MachineIdentity, MachineLock};
use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use speedwell_engine::execution::experiment::{
    LoadSender, RunReport, RunSite, RunningService, StageResult, run_target, stage_failure,
};
use speedwell_machine::environment;
use speedwell_machine::process;
use speedwell_model::Environment;
use speedwell_model::assignment::{BackingService, RunAssignment};
use speedwell_model::load::run::LoadRun;
use speedwell_model::load::spec::LoadSpec;
use speedwell_model::stage_report::{RunStage, StageFailure, StageReport};
use std::io::{self, BufRead, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Subcommand of [`process::WORKER_COMMAND`] that runs [`perform_role`].
pub const ROLE_SUBCOMMAND: &str = "role";

/// Poll interval of a role that runs the target or a service.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Poll interval of a role that holds the machine's lock or waits for it.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long a role waits for the lock before it reports the wait to the coordinator.
const MIN_REPORTED_WAIT: Duration = Duration::from_secs(2);
/// How long to wait for an exclusive measurement on the machine to end.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The first message to a role.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum WorkerRequest {
    /// Report identity and environment.
    Probe,
    /// Hold the lock of this machine, whose fleet folder is at this path.
    Lock(PathBuf),
    /// Start a service.
    RunService(Box<ServiceRequest>),
    /// Run the target.
    RunTarget(Box<TargetRequest>),
}

/// A request to start a service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ServiceRequest {
    pub service: BackingService,
    /// Address at which other machines reach this one.
    pub address: IpAddr,
    pub ports: Option<(u16, u16)>,
    /// The fleet folder on this machine.
    pub folder: PathBuf,
}

/// A request to run the target.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TargetRequest {
    pub assignment: RunAssignment,
    pub seed: u64,
    /// Address at which other machines reach this one.
    pub address: IpAddr,
    /// The fleet folder on this machine.
    pub folder: PathBuf,
}

/// A message from a role.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum WorkerEvent {
    /// Answer to [`WorkerRequest::Probe`].
    Hello(Box<ProbeReport>),
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
pub(super) struct RequestedLoad {
    pub spec: LoadSpec,
    pub seed: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct RoleOutcome {
    pub performed: StageReport,
    pub load: Option<LoadRun>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ProbeReport {
    pub identity: MachineIdentity,
    pub environment: Environment,
    /// The address at which the coordinator reached this machine, if it connected by ssh.
    pub reached_at: Option<IpAddr>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum LoadReply {
    Sent(Box<LoadRun>),
    /// The reason why the load was not sent.
    NotSent(String),
}

/// Reads a request from stdin and performs it. If the role itself fails, its outcome tells the
/// coordinator.
///
/// # Errors
/// Fails if the connection breaks or the request is malformed.
pub fn perform_role() -> Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let request: WorkerRequest = serde_json::from_str(&line).context("cannot parse the request")?;
    if let WorkerRequest::Probe = request {
        return send_event(&WorkerEvent::Hello(Box::new(probe_report())));
    }
    let replies = receive_replies();
    let mut report = RunReport::default();
    let result = match request {
        WorkerRequest::Probe => Ok(()),
        WorkerRequest::Lock(folder) => hold_lock(&folder, &replies),
        WorkerRequest::RunService(request) => run_service(&request, &replies, &mut report),
        WorkerRequest::RunTarget(request) => run_target_request(&request, replies, &mut report),
    };
    report.performed.failure = result.err();
    send_event(&WorkerEvent::Done(Box::new(RoleOutcome {
        performed: report.performed,
        load: report.load,
    })))
}

fn probe_report() -> ProbeReport {
    let environment = environment::capture_environment(&[]);
    // Format: client address, client port, server address, server port (ssh(1), ENVIRONMENT).
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let reached_at = connection.split(' ').nth(2);
    ProbeReport {
        identity: MachineIdentity::from_environment(Path::new("/"), &environment),
        environment,
        reached_at: reached_at.and_then(|address| address.parse().ok()),
    }
}

/// Holds the lock of this machine until the connection ends. The roles of the experiment therefore
/// need not queue.
fn hold_lock(folder: &Path, replies: &Receiver<LoadReply>) -> StageResult<()> {
    let lock_failure = |error: anyhow::Error| stage_failure(RunStage::Start, format!("{error:#}"));
    let mut ticket = LockTicket::shared(folder).map_err(lock_failure)?;
    let mut reported_holders = None;
    let begin = Instant::now();
    let _lock = loop {
        if let Some(lock) = ticket.try_acquire().map_err(lock_failure)? {
            break lock;
        }
        if process::is_interrupt_requested() {
            return Ok(());
        }
        let holders = (begin.elapsed() > MIN_REPORTED_WAIT).then(|| ticket.describe_holders());
        if holders.is_some() && holders != reported_holders {
            send_event(&WorkerEvent::Queued(holders.clone().unwrap_or_default()))
                .map_err(lock_failure)?;
            reported_holders = holders;
        }
        thread::sleep(LOCK_POLL_INTERVAL);
    };
    send_event(&WorkerEvent::Locked).map_err(lock_failure)?;
    let is_wanted =
        || !matches!(replies.recv_timeout(LOCK_POLL_INTERVAL), Err(RecvTimeoutError::Disconnected));
    while is_wanted() && !process::is_interrupt_requested() {}
    Ok(())
}

/// Runs a service until the connection ends.
fn run_service(
    request: &ServiceRequest,
    replies: &Receiver<LoadReply>,
    report: &mut RunReport,
) -> StageResult<()> {
    let _lock = share_lock(&request.folder)?;
    let site = RunSite { address: Some(request.address), ..RunSite::default() };
    let service = RunningService::start(&request.service, &site, request.ports)?;
    let sent = send_event(&WorkerEvent::Ready(service.port()));
    let mut failure = sent.err().map(|error| connection_failure(&error));
    let is_wanted =
        || matches!(replies.recv_timeout(POLL_INTERVAL), Err(RecvTimeoutError::Timeout));
    while failure.is_none() && is_wanted() {
        failure = service.find_failure();
    }
    let stop_result = service.stop(report);
    failure.map_or(stop_result, Err)
}

fn run_target_request(
    request: &TargetRequest,
    replies: Receiver<LoadReply>,
    report: &mut RunReport,
) -> StageResult<()> {
    let _lock = share_lock(&request.folder)?;
    let sender = DelegatedLoads(Mutex::new(replies));
    let site = RunSite { address: Some(request.address), sender: &sender };
    run_target(&request.assignment, &site, request.seed, report)
}

/// Acquires the lock of this machine, shared with other experiments. Waits at most [`LOCK_TIMEOUT`]
/// for an exclusive measurement to end.
fn share_lock(folder: &Path) -> StageResult<MachineLock> {
    let lock_failure = |reason: String| stage_failure(RunStage::Start, reason);
    let begin = Instant::now();
    loop {
        match MachineLock::try_share(folder) {
            Ok(Some(lock)) => return Ok(lock),
            Err(error) => return Err(lock_failure(format!("{error:#}"))),
            Ok(None) if process::is_interrupt_requested() => {
                return Err(lock_failure("interrupted".to_owned()));
            }
            Ok(None) if begin.elapsed() > LOCK_TIMEOUT => {
                let reason = "another measurement held the lock of this machine for 30 s";
                return Err(lock_failure(reason.to_owned()));
            }
            Ok(None) => thread::sleep(POLL_INTERVAL),
        }
    }
}

fn connection_failure(error: &anyhow::Error) -> StageFailure {
    stage_failure(RunStage::Alive, format!("connection lost: {error:#}"))
}

fn send_event(event: &WorkerEvent) -> Result<()> {
    let json = serde_json::to_string(event)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{json}")?;
    out.flush()?;
    Ok(())
}

/// Starts a thread that receives replies from stdin. The end of stdin, or a malformed reply, ends
/// this role.
fn receive_replies() -> Receiver<LoadReply> {
    let (sender, replies) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let reply = line.ok().and_then(|line| serde_json::from_str(&line).ok());
            let Some(reply) = reply else { break };
            if sender.send(reply).is_err() {
                break;
            }
        }
        process::request_interrupt();
    });
    replies
}

/// Asks the coordinator to have every load sent by other workers, and waits for the reply.
struct DelegatedLoads(Mutex<Receiver<LoadReply>>);

impl LoadSender for DelegatedLoads {
    fn send(
        &self,
        spec: &LoadSpec,
        seed: u64,
        _: SocketAddr,
        stop: &AtomicBool,
    ) -> Result<LoadRun> {
        let replies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        send_event(&WorkerEvent::Load(Box::new(RequestedLoad { spec: spec.clone(), seed })))?;
        let mut is_stop_sent = false;
        loop {
            match replies.recv_timeout(POLL_INTERVAL) {
                Ok(LoadReply::Sent(run)) => return Ok(*run),
                Ok(LoadReply::NotSent(reason)) => bail!(reason),
                Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("connection lost")),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if !is_stop_sent && stop.load(Ordering::Relaxed) {
                is_stop_sent = true;
                send_event(&WorkerEvent::StopLoad)?;
            }
        }
    }
}
