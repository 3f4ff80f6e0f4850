//! Runs HTTP loads: starts the server of a load, verifies one request, sends the load, and stops the
//! server. Unless the user disables it, each load begins with a probe request, which is not part of
//! the measurement.
//!
//! Decides the order of these steps, and when a load ends early. This module knows nothing about the
//! command line, the store or reports. Start at [`run_load`]; [`LoadRun`] is its complete result,
//! with the [`LoadFacts`] of its job and the [`ProbeFacts`] of its probe request.

mod build;
mod generators;
mod requests;
mod target;
mod tool;

pub use build::{LoadJob, build_job, stop_condition, stop_condition_with_warmup};
pub use generators::{
    CombinedResult, GeneratorEvent, GeneratorReady, GeneratorReport, GeneratorState,
    LOAD_SUBCOMMAND, LoadSnapshot, StartSignal, WorkerAssignment, follow_generators,
    run_generators, send_load,
};
pub use speedwell_model::load::run::{
    KindFacts, LoadFacts, LoadPart, LoadRun, PaceFacts, ProbeFacts, RuleFacts, ServerOutcome,
    StageFacts, TimeoutFacts, TlsFacts,
};
pub use target::{TargetUrl, format_address, parse_host_and_port};
pub use tool::load_with_tool;

use crate::execution::server::{LoadServer, shell_server};
use crate::execution::verify::{self, ProbeResult};
use speedwell_load::http1::{ConnectionOption, Http1Version};
use speedwell_load::load::{
    BatchingMode, BodyRule, HttpVersion, LoadConfig, LoadShare, RequestKind,
};
use speedwell_load::pace::{ArrivalSpacing, FOREVER_NS, PacingModel, RateSchedule, ThinkTime};
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
    /// The probe request was answered. Contains the URL of the request, the facts that the response
    /// revealed, and the name of the protocol.
    Probed(&'a TargetUrl, &'a ProbeFacts, &'static str),
    /// Progress snapshot.
    Standing(&'a LoadSnapshot),
    /// Warning for readers of the results.
    Warning(&'a str),
}

/// A load that is ready to send: its server is running and has passed verification.
#[derive(Debug)]
struct PreparedLoad {
    /// The load to send. If the server redirected the probe request, its URL is the final URL.
    pub job: LoadJob,
    /// Result of the probe request.
    pub probe: Option<ProbeFacts>,
    /// Warnings for readers of the results, up to now.
    pub warnings: Vec<String>,
    server: Option<LoadServer>,
}

impl PreparedLoad {
    /// Starts the server, if the specification names one, and verifies its response to a probe
    /// request. `other_server` replaces the command of that server.
    ///
    /// # Errors
    /// Fails if a permission is missing, if the server does not start or respond, or if its
    /// response is not a success.
    pub fn prepare(
        mut job: LoadJob,
        other_server: Option<ProcessSpec>,
        notify: &mut dyn FnMut(LoadNotice),
    ) -> anyhow::Result<PreparedLoad> {
        if job.spec.rt {
            // If real-time priority is not permitted, fail before anything is started. The
            // generator requests the priority again.
            drop(generators::enter_real_time()?);
        }
        let addresses = &job.load.target.addresses;
        let mut warnings = Vec::new();
        let server = other_server.or_else(|| job.spec.serve.as_deref().map(shell_server));
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
            let facts = probe_facts(&probe_result);
            notify(LoadNotice::Probed(&job.url, &facts, protocol_name(&job.load)));
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
/// [`build_job`] and `PreparedLoad::prepare`.
///
/// # Errors
/// Fails if the load could not begin. Later problems are part of the [`LoadRun`].
pub fn run_load(
    spec: &LoadSpec,
    seed: u64,
    notify: &mut dyn FnMut(LoadNotice),
) -> anyhow::Result<LoadRun> {
    run_load_with_sender(None, spec, seed, &mut send_locally, notify)
}

/// Sends a prepared load and reports progress until it is complete or `stop` is set.
pub type SendLoad<'s> = dyn FnMut(&LoadJob, &AtomicBool, &mut dyn FnMut(&LoadSnapshot)) -> anyhow::Result<CombinedResult>
    + 's;

/// Runs one load, calling `send` to send it. If the load has a server, starts, verifies and stops
/// the server; `other_server` replaces its command.
///
/// # Errors
/// Fails under the same conditions as [`run_load`].
pub fn run_load_with_sender(
    other_server: Option<ProcessSpec>,
    spec: &LoadSpec,
    seed: u64,
    send: &mut SendLoad<'_>,
    notify: &mut dyn FnMut(LoadNotice),
) -> anyhow::Result<LoadRun> {
    let job = build_job(spec, seed, LoadShare::ONLY)?;
    let mut prepared = PreparedLoad::prepare(job, other_server, notify)?;
    let server = prepared.server.as_ref();
    let result = process::with_stop_flag(
        || server.is_some_and(|server| server.service.has_ended()),
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
        let _ = prepared.server.as_ref().map(|server| server.service.is_dying());
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
        requested: load_facts(job),
        probe: None,
        measured,
        server: None,
        parts: Vec::new(),
        is_partial: false,
        warnings: Vec::new(),
    }
}

/// Sends the load from this machine, with one or several generators.
pub(super) fn send_locally(
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

/// Describes the requested load.
fn load_facts(job: &LoadJob) -> LoadFacts {
    let load = &job.load;
    let limits = &load.rules.timeouts;
    LoadFacts {
        pace: pace_facts(load),
        requests: load.stop.after_requests,
        time_ns: load.stop.after_ns,
        warmup_ns: load.warmup_ns,
        drain_ns: load.drain_ns,
        kinds: load.kinds.kinds().iter().map(kind_facts).collect(),
        protocol: protocol_name(load).to_owned(),
        h2_table_bytes: match load.http {
            HttpVersion::One | HttpVersion::Three => None,
            HttpVersion::Two { table_bytes } => Some(table_bytes),
        },
        streams_per_connection: load.streams_per_connection,
        keeps_alive: keeps_alive(load),
        max_requests_per_connection: load.rules.max_requests,
        connection_lifetime_ns: load.rules.lifetime_ns,
        timeouts: TimeoutFacts {
            connect_ns: limits.connect_ns,
            first_byte_ns: limits.first_byte_ns,
            total_ns: limits.total_ns,
        },
        retries_stale: load.rules.retries_stale,
        success: success_facts(load),
        threads: load.threads,
        processes: job.processes(),
        processors: load.processors.clone(),
        is_realtime: job.spec.rt,
        busy_polls: load.rules.busy_poll,
        batching_ns: match load.rules.batching {
            BatchingMode::Off => None,
            BatchingMode::Adaptive { max_delay_ns } => Some(max_delay_ns),
        },
    }
}

fn pace_facts(load: &LoadConfig) -> PaceFacts {
    match &load.pace {
        PacingModel::Closed(closed) => {
            let (think_ns, seed) = match closed.think {
                ThinkTime::None => (0, None),
                ThinkTime::Fixed(ns) => (ns, None),
                ThinkTime::Exponential { mean_ns, seed } => (mean_ns, Some(seed)),
            };
            PaceFacts::Closed {
                concurrency: closed.concurrency,
                think_ns,
                thinks_at_random: seed.is_some(),
                seed: seed.unwrap_or(0),
            }
        }
        PacingModel::Open(schedule) => PaceFacts::Open {
            stages: stage_facts(schedule),
            is_poisson: schedule.spacing() != ArrivalSpacing::Even,
            seed: match schedule.spacing() {
                ArrivalSpacing::Even => 0,
                ArrivalSpacing::Poisson { seed } => seed,
            },
            connections: load.connections,
            max_connections: load.max_connections,
        },
    }
}

fn stage_facts(schedule: &RateSchedule) -> Vec<StageFacts> {
    let stages = schedule.stages().iter();
    stages
        .map(|stage| StageFacts {
            from_per_s: stage.from.requests_per_s(),
            to_per_s: stage.to.requests_per_s(),
            duration_ns: (stage.duration_ns != FOREVER_NS).then_some(stage.duration_ns),
        })
        .collect()
}

fn kind_facts(kind: &RequestKind) -> KindFacts {
    KindFacts {
        name: kind.name.clone(),
        weight: kind.weight,
        method: kind.method.clone(),
        path: kind.target.clone(),
        body_bytes: kind.body.as_ref().map(|body| body.len() as u64),
    }
}

/// Returns the name of the protocol that the requests use.
pub fn protocol_name(load: &LoadConfig) -> &'static str {
    let is_http10 = |kind: &RequestKind| kind.version == Http1Version::Http10;
    match load.http {
        HttpVersion::Three => "HTTP/3",
        HttpVersion::Two { .. } => "HTTP/2",
        HttpVersion::One if load.kinds.kinds().iter().all(is_http10) => "HTTP/1.0",
        HttpVersion::One => "HTTP/1.1",
    }
}

fn keeps_alive(load: &LoadConfig) -> bool {
    let closes = |kind: &RequestKind| kind.connection == ConnectionOption::Close;
    load.rules.max_requests != Some(1) && !load.kinds.kinds().iter().all(closes)
}

fn success_facts(load: &LoadConfig) -> RuleFacts {
    let statuses = load.success.statuses.iter();
    let mut rule = RuleFacts {
        statuses: statuses.map(|range| (*range.start(), *range.end())).collect(),
        ..RuleFacts::default()
    };
    match &load.success.body {
        None => {}
        Some(BodyRule::Length(bytes)) => rule.body_bytes = Some(*bytes),
        Some(BodyRule::Contains(text)) => {
            rule.body_contains = Some(String::from_utf8_lossy(text).into_owned());
        }
    }
    rule
}

/// Describes the result of the probe request.
fn probe_facts(result: &ProbeResult) -> ProbeFacts {
    let probe = &result.probe;
    ProbeFacts {
        address: format_address(&probe.address),
        tls: probe.tls.as_ref().map(|tls| TlsFacts {
            version: tls.version.clone(),
            cipher: tls.cipher.clone(),
            group: tls.group.clone(),
            alpn: tls.alpn.clone(),
        }),
        status: probe.status,
        server: probe.server.clone(),
        content_type: probe.content_type.clone(),
        body_bytes: probe.body_bytes,
        wire_bytes: probe.wire_bytes,
        is_reusable: probe.is_reusable,
        connect_ns: probe.connect_ns,
        service_ns: probe.service_ns,
        redirected_from: result.redirected_from.clone(),
    }
}
