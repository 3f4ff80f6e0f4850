//! Performs one request of a coordinator on this machine, for example to run a role (the target or
//! a service) of an experiment. Everything that a role starts ends when its connection ends.
//!
//! The target's role starts, checks and stops the server (`engine/execution/experiment`), but other
//! workers send the loads. Start at [`perform_role`].
//!
//! The coordinator sends one [`WorkerRequest`]. Most requests have a single answer. A worker that
//! holds the machine's lock or runs a role of an experiment sends [`WorkerEvent`]s until its
//! connection ends. The coordinator answers each [`WorkerEvent::Load`] with a [`LoadReply`].

use crate::fleet::worker::{end_worker, launch_worker};
use crate::machines::check::report_machine;
use crate::machines::clean::clean_folder;
use crate::machines::{
    LockTicket, MachineIdentity, MachineLock, ServiceRequest, TargetRequest, WorkerRequest,
};
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use speedwell_engine::execution::experiment::{
    RunReport, RunSite, StageResult, run_target, stage_error, stage_failure, start_service,
};
use speedwell_machine::process;
use speedwell_machine::worker::WorkerLink;
use speedwell_model::Environment;
use speedwell_model::load::measurement::LoadRun;
use speedwell_model::load::spec::LoadSpec;
use speedwell_model::stage_report::RunStage;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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
    Done(Box<RunReport>),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RequestedLoad {
    pub spec: LoadSpec,
    pub seed: u64,
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

/// Poll interval of a role that runs the target or a service.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Poll interval of a role that holds the machine's lock or waits for it.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long a role waits for the lock before it reports the wait to the coordinator.
const MIN_REPORTED_WAIT: Duration = Duration::from_secs(2);
/// How long to wait for an exclusive measurement on the machine to end.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Performs the request of the coordinator. The failure of a role is not an error: the role's
/// outcome reports it to the coordinator.
///
/// # Errors
/// Fails if the connection is lost or the request is malformed.
pub fn perform_role() -> Result<()> {
    let link = WorkerLink::open()?;
    let mut report = RunReport::default();
    let result = match link.receive()? {
        WorkerRequest::Check => return link.send(&report_machine()),
        WorkerRequest::Probe => return link.send(&report_probe()),
        WorkerRequest::Launch { folder, requests } => {
            return link.send(&launch_worker(&folder, &requests)?);
        }
        WorkerRequest::EndWorker { folder, job } => return link.send(&end_worker(&folder, &job)?),
        WorkerRequest::Clean { folder, session } => {
            return link.send(&clean_folder(&folder, session.as_deref())?);
        }
        WorkerRequest::Lock(folder) => hold_lock(&folder, &link),
        WorkerRequest::RunService(request) => run_service(&request, &link, &mut report),
        WorkerRequest::RunTarget(request) => run_target_request(&request, &link, &mut report),
    };
    report.performed.failure = result.err();
    link.send(&WorkerEvent::Done(Box::new(report)))
}

fn report_probe() -> ProbeReport {
    let (identity, environment) = MachineIdentity::of_this_machine();
    // Format: client address, client port, server address, server port (ssh(1), ENVIRONMENT).
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let reached_at = connection.split(' ').nth(2).and_then(|address| address.parse().ok());
    ProbeReport { identity, environment, reached_at }
}

/// Holds the lock of this machine until the connection ends. Meanwhile, the roles of the experiment
/// can share the lock without waiting in the queue.
fn hold_lock(folder: &Path, link: &WorkerLink) -> StageResult<()> {
    let lock_failure = stage_error(RunStage::Start);
    let mut ticket = LockTicket::shared(folder).map_err(&lock_failure)?;
    let mut reported_holders = None;
    let begin = Instant::now();
    let _lock = loop {
        if let Some(lock) = ticket.try_acquire().map_err(&lock_failure)? {
            break lock;
        }
        if process::is_interrupt_requested() {
            return Ok(());
        }
        let holders = (begin.elapsed() > MIN_REPORTED_WAIT).then(|| ticket.describe_holders());
        if holders.is_some() && holders != reported_holders {
            let sent = link.send(&WorkerEvent::Queued(holders.clone().unwrap_or_default()));
            sent.map_err(&lock_failure)?;
            reported_holders = holders;
        }
        thread::sleep(LOCK_POLL_INTERVAL);
    };
    link.send(&WorkerEvent::Locked).map_err(lock_failure)?;
    while is_connected(link, LOCK_POLL_INTERVAL) && !process::is_interrupt_requested() {}
    Ok(())
}

/// Waits for `duration`, or until the connection ends. Returns whether the connection persists. The
/// coordinator sends nothing in this state.
fn is_connected(link: &WorkerLink, duration: Duration) -> bool {
    matches!(link.receive_within::<LoadReply>(duration), Ok(None))
}

/// Runs a service until the connection ends.
fn run_service(
    request: &ServiceRequest,
    link: &WorkerLink,
    report: &mut RunReport,
) -> StageResult<()> {
    let _lock = share_lock(&request.folder)?;
    let site = RunSite { address: Some(request.address), ..RunSite::default() };
    let service = start_service(&request.service, &site, request.ports)?;
    let sent = link.send(&WorkerEvent::Ready(service.port()));
    let lost = |error| stage_failure(RunStage::Alive, format!("connection lost: {error:#}"));
    let mut failure = sent.err().map(lost);
    while failure.is_none() && is_connected(link, POLL_INTERVAL) {
        failure = service.find_failure();
    }
    let stop_result = service.stop(report);
    failure.map_or(stop_result, Err)
}

fn run_target_request(
    request: &TargetRequest,
    link: &WorkerLink,
    report: &mut RunReport,
) -> StageResult<()> {
    let _lock = share_lock(&request.folder)?;
    let sender = |spec: &LoadSpec, seed: u64, _: SocketAddr, stop: &AtomicBool| {
        delegate_load(link, spec, seed, stop)
    };
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

/// Asks the coordinator to have a load sent by other workers, and waits for the reply.
fn delegate_load(
    link: &WorkerLink,
    spec: &LoadSpec,
    seed: u64,
    stop: &AtomicBool,
) -> Result<LoadRun> {
    link.send(&WorkerEvent::Load(Box::new(RequestedLoad { spec: spec.clone(), seed })))?;
    let mut is_stop_sent = false;
    loop {
        match link.receive_within(POLL_INTERVAL)? {
            Some(LoadReply::Sent(run)) => return Ok(*run),
            Some(LoadReply::NotSent(reason)) => bail!(reason),
            None => {}
        }
        if !is_stop_sent && stop.load(Ordering::Relaxed) {
            is_stop_sent = true;
            link.send(&WorkerEvent::StopLoad)?;
        }
    }
}
