//! Runs one load from beginning to end: starts the server, verifies one request, sends the load,
//! and stops the server.
//!
//! Decides the order of these steps, and when a load ends early. Start at [`run_load`].

use super::{
    CombinedResult, LoadJob, LoadRun, LoadSnapshot, ProbeFacts, ServerOutcome, StartSignal,
    TargetUrl, WorkerAssignment, build, facts, generators, target,
};
use crate::execution::server::{LoadServer, shell_server};
use crate::execution::verify;
use speedwell_load::load::LoadShare;
use speedwell_machine::process::{self, ProcessSpec};
use speedwell_model::load::measurement::LoadMeasurement;
use speedwell_model::load::spec::LoadSpec;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Default time limit until the server accepts connections.
const SERVER_START_TIMEOUT: Duration = Duration::from_secs(30);

/// Progress notice of a load.
#[derive(Debug)]
pub enum LoadNotice<'a> {
    /// The server accepts connections.
    Served,
    /// The probe request was answered. Holds the URL of the request, the facts that the response
    /// revealed, and the name of the protocol.
    Probed(&'a TargetUrl, &'a ProbeFacts, &'static str),
    /// Progress snapshot.
    Standing(&'a LoadSnapshot),
    /// Warning for readers of the results.
    Warning(&'a str),
}

/// A load that is ready to send: its server is running and has passed verification.
#[derive(Debug)]
pub struct PreparedLoad {
    /// What to send, with the URL to which redirects led.
    pub job: LoadJob,
    /// Result of the probe request.
    pub probe: Option<ProbeFacts>,
    /// Warnings for readers of the results, up to now.
    pub warnings: Vec<String>,
    server: Option<LoadServer>,
}

impl PreparedLoad {
    /// Starts the server, if any, and verifies its response to a probe request.
    ///
    /// # Errors
    /// Fails if a permission is missing, if the server does not start or respond, or if its
    /// response is not a success.
    pub fn prepare(
        mut job: LoadJob,
        server: Option<ProcessSpec>,
        notify: &mut dyn FnMut(LoadNotice),
    ) -> anyhow::Result<PreparedLoad> {
        if job.spec.rt {
            // If real-time priority is not permitted, fail before anything is started. The
            // generator requests the priority again.
            drop(generators::enter_real_time()?);
        }
        let addresses = &job.load.target.addresses;
        let mut warnings = Vec::new();
        let mut server = match (server, &job.spec.serve) {
            (Some(server), Some(command)) => {
                let limit = job.spec.serve_timeout.unwrap_or(SERVER_START_TIMEOUT);
                let server = LoadServer::start(server, command, limit, addresses, &mut warnings)?;
                notify(LoadNotice::Served);
                Some(server)
            }
            _ => None,
        };
        let mut probe = None;
        warnings.extend(target::drop_unreachable(&mut job.load));
        if !job.spec.no_verify {
            let (verified_job, probe_result) = verify::verify_target(job)?;
            job = verified_job;
            if !probe_result.redirected_from.is_empty() {
                warnings.extend(target::drop_unreachable(&mut job.load));
            }
            let facts = facts::probe_facts(&probe_result);
            notify(LoadNotice::Probed(&job.url, &facts, facts::protocol_name(&job.load)));
            probe = Some(facts);
        }
        if let Some(server) = &mut server {
            server.start_counting();
        }
        Ok(PreparedLoad { job, probe, warnings, server })
    }

    /// Stops the server and returns how it ended.
    ///
    /// # Errors
    /// Fails if waiting for the exit of the server fails.
    pub fn stop_server(self) -> anyhow::Result<Option<ServerOutcome>> {
        self.server.map(LoadServer::stop).transpose()
    }
}

/// Runs one load. Starts and stops its server if the specification has one; see
/// [`build::build_job`] and [`PreparedLoad::prepare`].
///
/// # Errors
/// Fails if the load could not begin. Later problems are part of the [`LoadRun`].
pub fn run_load(
    spec: &LoadSpec,
    seed: u64,
    notify: &mut dyn FnMut(LoadNotice),
) -> anyhow::Result<LoadRun> {
    run_load_with_server(server_of(spec), spec, seed, notify)
}

/// Returns the command of the server that the load itself starts.
pub(super) fn server_of(spec: &LoadSpec) -> Option<ProcessSpec> {
    spec.serve.as_deref().map(shell_server)
}

/// Sends a prepared load and reports progress until it is complete or `stop` is set.
pub type SendLoad<'s> = dyn FnMut(&LoadJob, &AtomicBool, &mut dyn FnMut(&LoadSnapshot)) -> anyhow::Result<CombinedResult>
    + 's;

/// Runs one load, calling `send` to send it. If the load has a server, starts, verifies and stops
/// the server.
///
/// # Errors
/// Fails under the same conditions as [`run_load`].
pub fn run_load_with_sender(
    spec: &LoadSpec,
    seed: u64,
    send: &mut SendLoad<'_>,
    notify: &mut dyn FnMut(LoadNotice),
) -> anyhow::Result<LoadRun> {
    run_prepared_load(server_of(spec), spec, seed, send, notify)
}

/// Runs one load. Starts and stops `server` for it, if given.
///
/// # Errors
/// Fails under the same conditions as [`run_load`].
pub fn run_load_with_server(
    server: Option<ProcessSpec>,
    spec: &LoadSpec,
    seed: u64,
    notify: &mut dyn FnMut(LoadNotice),
) -> anyhow::Result<LoadRun> {
    run_prepared_load(server, spec, seed, &mut send_locally, notify)
}

fn run_prepared_load(
    server: Option<ProcessSpec>,
    spec: &LoadSpec,
    seed: u64,
    send: &mut SendLoad<'_>,
    notify: &mut dyn FnMut(LoadNotice),
) -> anyhow::Result<LoadRun> {
    let mut prepared =
        PreparedLoad::prepare(build::build_job(spec, seed, LoadShare::ONLY)?, server, notify)?;
    let server = prepared.server.as_ref();
    let result = process::with_stop_flag(
        || server.is_some_and(LoadServer::has_ended),
        |stop| {
            send(&prepared.job, stop, &mut |snapshot: &LoadSnapshot| {
                notify(LoadNotice::Standing(snapshot));
            })
        },
    )?;
    let mut run = wrap_measured(&prepared.job, result.measured);
    run.probe = prepared.probe.take();
    let is_lost = result.parts.iter().any(|part| part.lost.is_some());
    if is_lost {
        // The other generators were stopped, and they report this as an interrupt by the user.
        // Check whether the user really interrupted the load.
        run.measured.is_interrupted = process::is_interrupt_requested();
    }
    run.is_partial = is_lost || !result.losses.is_empty();
    run.parts = result.parts;
    run.warnings = std::mem::take(&mut prepared.warnings);
    run.warnings.extend(result.losses);
    if run.measured.has_lost_server() {
        // Wait for a dying server, so that its end is not attributed to the signal that
        // `stop_server` sends.
        let _ = prepared.server.as_ref().map(LoadServer::is_dying);
    }
    run.server = prepared.stop_server()?;
    let died = run.server.as_ref().and_then(|server| server.died.clone());
    if let Some(died) = died {
        run.is_partial = true;
        run.warnings.push(format!("The server {died} during the load, and the load was stopped."));
        // The generator cannot tell whether the user or the thread that watches the server stopped
        // it.
        run.measured.is_interrupted = process::is_interrupt_requested();
    }
    Ok(run)
}

/// Builds a run from measured results. The run does not yet have facts about the probe request, the
/// server or individual machines.
pub fn wrap_measured(job: &LoadJob, measured: LoadMeasurement) -> LoadRun {
    LoadRun {
        label: job.url.to_string(),
        url: job.url.to_string(),
        round: 0,
        slot: 0,
        requested: facts::load_facts(job),
        probe: None,
        measured,
        server: None,
        parts: Vec::new(),
        is_partial: false,
        warnings: Vec::new(),
    }
}

/// Sends the load from this machine, with one or several generators.
fn send_locally(
    job: &LoadJob,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&LoadSnapshot),
) -> anyhow::Result<CombinedResult> {
    if job.processes() > 1 {
        let whole = WorkerAssignment::whole(job, false);
        return generators::run_generators(&whole, &|| StartSignal::Now, stop, watch);
    }
    let measured = generators::send_load(job, stop, watch)?;
    Ok(CombinedResult { measured, losses: Vec::new(), parts: Vec::new(), began_ns: Vec::new() })
}
