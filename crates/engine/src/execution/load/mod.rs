//! Runs HTTP loads: starts the server of a load, verifies one request, sends the load, and stops the
//! server. Unless the user disables it, each load begins with a probe request, which is not part of
//! the measurement.
//!
//! Decides the order of these steps, when a load ends early, and which options of a [`LoadSpec`]
//! contradict each other. This module knows nothing about the command line, the store or reports.
//! Start at [`run_load`]; [`LoadRun`] is its complete result. [`build_job`] turns the options into a
//! [`LoadConfig`].

mod generators;
mod requests;
mod target;
mod tool;

pub use generators::{
    GeneratorEvent, GeneratorReady, GeneratorReport, GeneratorState, LOAD_SUBCOMMAND, LoadSnapshot,
    StartSignal, WorkerAssignment, follow_generators, run_generators,
};
pub use speedwell_model::load::measurement::{LoadRun, ProbeFacts};
pub use target::{TargetUrl, drop_unreachable, parse_host_and_port};
pub use tool::load_with_tool;

use crate::execution::server::{LoadServer, shell_server};
use anyhow::{Context, Result, bail, ensure};
use speedwell_load::generator::{self, ProbeError, ProbeResponse};
use speedwell_load::load::{
    BodyRule, CertificateRefusal, ConnectionRules, HttpVersion, LoadConfig, LoadShare,
    RequestTimeouts, SteadinessRule, SuccessRule, TlsOptions,
};
use speedwell_load::pace::{
    ArrivalSpacing, ClosedPace, PacingModel, RateSchedule, RequestRate, ScheduleStage,
    StopCondition, ThinkTime,
};
use speedwell_machine::process::{self, CpuSet, ProcessSpec, RealTimeGuard};
use speedwell_model::load::measurement::{LoadMeasurement, ServerOutcome};
use speedwell_model::load::outcomes::ErrorClass;
use speedwell_model::load::spec::LoadSpec;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Maximum number of consecutive redirects, the same as in browsers (Fetch standard, HTTP-redirect
/// fetch: 20).
const MAX_REDIRECTS: usize = 20;

/// Header fields that must not be sent to another host.
const SECRET_HEADERS: [&str; 2] = ["authorization", "cookie"];

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
    ) -> Result<PreparedLoad> {
        if job.spec.rt {
            // If real-time priority is not permitted, fail before anything is started. The
            // generator requests the priority again.
            drop(enter_real_time()?);
        }
        let addresses = &job.load.target.addresses;
        let mut warnings = Vec::new();
        let mut server = None;
        if let Some(command) = &job.spec.serve {
            let spec = other_server.unwrap_or_else(|| shell_server(command));
            let limit = job.spec.serve_timeout.unwrap_or(SERVER_START_TIMEOUT);
            server = Some(LoadServer::start(spec, command, limit, addresses, &mut warnings)?);
            notify(LoadNotice::Served);
        }
        let mut probe = None;
        warnings.extend(target::drop_unreachable(&mut job.load));
        if !job.spec.no_verify {
            let facts;
            (job, facts) = verify_target(job)?;
            if !facts.redirected_from.is_empty() {
                warnings.extend(target::drop_unreachable(&mut job.load));
            }
            notify(LoadNotice::Probed(&job.url, &facts, job.load.protocol_name()));
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
    pub fn stop_server(self) -> Result<Option<ServerOutcome>> {
        self.server.map(LoadServer::stop).transpose()
    }
}

/// Runs one load. Starts and stops its server if the specification has one; see
/// [`build_job`] and `PreparedLoad::prepare`.
///
/// # Errors
/// Fails if the load could not begin. Later problems are part of the [`LoadRun`].
pub fn run_load(spec: &LoadSpec, seed: u64, notify: &mut dyn FnMut(LoadNotice)) -> Result<LoadRun> {
    run_load_with_sender(None, spec, seed, &mut send_locally, notify)
}

/// Sends a prepared load and reports progress until it is complete or `stop` is set.
pub type SendLoad<'s> =
    dyn FnMut(&LoadJob, &AtomicBool, &mut dyn FnMut(&LoadSnapshot)) -> Result<GeneratorReport> + 's;

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
) -> Result<LoadRun> {
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
        requested: job.load.facts(job.processes(), job.spec.rt),
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
) -> Result<GeneratorReport> {
    if job.processes() > 1 {
        let whole = WorkerAssignment::whole(&job.spec, job.seed, false);
        return generators::run_generators(&whole, &|| StartSignal::Now, stop, watch);
    }
    send_load(job, stop, watch).map(GeneratorReport::new)
}

/// Sends the load, or this generator's part of it, from this process.
///
/// # Errors
/// Fails if the load could not begin.
pub fn send_load(
    job: &LoadJob,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&LoadSnapshot),
) -> Result<LoadMeasurement> {
    let _priority = if job.spec.rt { Some(enter_real_time()?) } else { None };
    let measured = generator::run(&job.load, stop, &mut |progress| {
        watch(&LoadSnapshot::from_progress(progress));
    });
    measured.with_context(|| format!("cannot send the load to '{}'", job.url))
}

fn enter_real_time() -> Result<RealTimeGuard> {
    RealTimeGuard::raise_priority().context(
        "cannot get real-time priority (SCHED_FIFO)\nhint: it needs the capability CAP_SYS_NICE, or \
         a limit ('ulimit -r') of at least 10",
    )
}

// Turns a [`LoadSpec`] into a [`LoadJob`]: fills in defaults, reads files and resolves names. The
// replacements for other tools (`crates/compat`) build a [`LoadConfig`] directly.

/// A load that is ready to send.
#[derive(Debug, Clone)]
pub struct LoadJob {
    /// URL of the specification.
    pub url: TargetUrl,
    /// Configuration that the generator executes.
    pub load: LoadConfig,
    /// The specification from which the load was built.
    pub spec: LoadSpec,
    /// Seed of random choices.
    pub seed: u64,
}

impl LoadJob {
    /// Returns the number of generator processes.
    pub fn processes(&self) -> u32 {
        self.spec.clients.unwrap_or(1)
    }
}

/// Default number of requests in flight, as in wrk and autocannon.
const DEFAULT_CONCURRENCY: u32 = 10;

/// Default duration of a load whose options set no end, as in wrk and autocannon.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Default request timeout, and default drain time of a load without a request timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Default limit on connections in an open load.
const DEFAULT_MAX_CONNECTIONS: u32 = 1000;

/// Builds the load that a specification describes; `part` says which part of the load this
/// generator process sends.
///
/// # Errors
/// Fails for an invalid URL, contradictory options, unreadable files, or a host that does not
/// resolve.
pub fn build_job(spec: &LoadSpec, seed: u64, part: LoadShare) -> Result<LoadJob> {
    let url = TargetUrl::parse(&spec.url)?;
    check_conflicts(spec, &url)?;
    let streams = spec.streams_per_connection();
    let pace = build_pace(spec, seed)?;
    let (connections, max_connections) = connection_range(spec, &pace, streams)?;
    let rules = connection_rules(spec);
    let threads = thread_count(spec, &pace, streams)?;
    let drain = spec.drain.or(request_timeout(spec)).unwrap_or(DEFAULT_TIMEOUT);
    let load = LoadConfig {
        target: target::resolve_target(spec, &url)?,
        kinds: requests::build_kinds(spec, &url)?,
        http: match (spec.http2, spec.http3) {
            (true, _) => HttpVersion::Two { table_bytes: spec.h2_table_size.unwrap_or(0) },
            (_, true) => HttpVersion::Three,
            _ => HttpVersion::One,
        },
        stop: stop_condition(spec),
        warmup_ns: spec.warmup.map_or(0, saturating_nanos),
        drain_ns: saturating_nanos(drain),
        rules,
        success: success_criteria(spec),
        processors: assign_processors(spec, part, threads)?,
        keeps_rows: spec.log_requests.is_some(),
        steady: spec.until_steady.map(|percent| SteadinessRule { within: percent / 100.0 }),
        pace,
        connections,
        max_connections,
        streams_per_connection: streams,
        threads,
        part,
    };
    Ok(LoadJob { url, load, seed, spec: spec.clone() })
}

/// Returns the nanoseconds of a duration, or the maximum for a duration of more than 584 years.
fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Rejects conflicts that clap cannot detect, because they depend on the URL or on several options.
fn check_conflicts(spec: &LoadSpec, url: &TargetUrl) -> Result<()> {
    let is_open = spec.is_open();
    ensure!(
        is_open || !spec.poisson,
        "--poisson applies only to requests sent on a schedule\nhint: add --rate N"
    );
    ensure!(
        is_open || spec.max_connections.is_none(),
        "--max-connections applies only to requests sent on a schedule\nhint: add --rate N; without \
         it, --concurrency determines the number of connections"
    );
    ensure!(
        !is_open || spec.think.is_none(),
        "--think cannot be combined with --rate or --ramp: it is a pause after a response, but \
         scheduled requests do not wait for responses"
    );
    ensure!(
        url.is_tls || target::tls_options(spec) == TlsOptions::default(),
        "'{url}' does not use TLS, so --insecure, --cacert, --cert and --sni have no effect\nhint: \
         use https://"
    );
    ensure!(
        !spec.no_keepalive || !spec.retry_stale_keepalive,
        "--retry-stale-keepalive needs reused connections, which --no-keepalive disables"
    );
    Ok(())
}

fn build_pace(spec: &LoadSpec, seed: u64) -> Result<PacingModel> {
    if !spec.is_open() {
        let concurrency = spec.concurrency.unwrap_or(DEFAULT_CONCURRENCY);
        let count = spec.count.map_or(u32::MAX, |count| u32::try_from(count).unwrap_or(u32::MAX));
        // The default concurrency is reduced; one that the user gave is rejected.
        ensure!(
            concurrency <= count || spec.concurrency.is_none(),
            "{concurrency} requests cannot be in flight when only {count} are sent\nhint: use \
             -c {count}, or a greater -n"
        );
        let think = match spec.think {
            None => ThinkTime::None,
            Some(pause) if pause.is_random => {
                ThinkTime::Exponential { mean_ns: saturating_nanos(pause.length), seed }
            }
            Some(pause) => ThinkTime::Fixed(saturating_nanos(pause.length)),
        };
        return Ok(PacingModel::Closed(ClosedPace::new(concurrency.min(count), think)?));
    }
    let mut stages = Vec::new();
    for ramp in &spec.ramp {
        stages.push(ScheduleStage {
            from: RequestRate::per_second(ramp.from)?,
            to: RequestRate::per_second(ramp.to)?,
            duration_ns: saturating_nanos(ramp.duration),
        });
    }
    if let Some(rate) = spec.rate {
        stages.push(ScheduleStage::constant(RequestRate::per_second(rate)?));
    }
    let spacing =
        if spec.poisson { ArrivalSpacing::Poisson { seed } } else { ArrivalSpacing::Even };
    Ok(PacingModel::Open(RateSchedule::new(stages, spacing)?))
}

/// Returns when the load stops. Ramps end by themselves, unless a constant rate follows them.
pub fn stop_condition(spec: &LoadSpec) -> StopCondition {
    let ends_itself = !spec.ramp.is_empty() && spec.rate.is_none();
    let default_time = (spec.count.is_none() && !ends_itself).then_some(DEFAULT_DURATION);
    let time = spec.time.or(default_time);
    StopCondition { after_requests: spec.count, after_ns: time.map(saturating_nanos) }
}

/// Returns the stop condition with its time limit measured from the start of the warm-up, for the
/// live view.
pub fn stop_condition_with_warmup(spec: &LoadSpec) -> StopCondition {
    let stop = stop_condition(spec);
    let warmup_ns = spec.warmup.map_or(0, saturating_nanos);
    StopCondition { after_ns: stop.after_ns.map(|end_ns| end_ns.saturating_add(warmup_ns)), ..stop }
}

/// Returns the initial and the maximum number of connections.
fn connection_range(spec: &LoadSpec, pace: &PacingModel, streams: u32) -> Result<(u32, u32)> {
    match pace {
        PacingModel::Closed(closed) => {
            ensure!(
                streams <= closed.concurrency,
                "{streams} requests cannot be in flight on one connection when {} are in flight in \
                 all\nhint: use -c {streams} or more",
                closed.concurrency
            );
            let connections = closed.concurrency.div_ceil(streams);
            Ok((connections, connections))
        }
        PacingModel::Open(_) => {
            let initial = spec.concurrency.unwrap_or(DEFAULT_CONCURRENCY);
            let default_max = DEFAULT_MAX_CONNECTIONS.max(initial);
            let max_connections = spec.max_connections.unwrap_or(default_max);
            // The default number of connections is reduced; one that the user gave is rejected.
            ensure!(
                initial <= max_connections || spec.concurrency.is_none(),
                "{initial} initial connections are more than --max-connections {max_connections}"
            );
            Ok((initial.min(max_connections), max_connections))
        }
    }
}

fn thread_count(spec: &LoadSpec, pace: &PacingModel, streams: u32) -> Result<u32> {
    let threads = spec.threads.unwrap_or(1);
    let processes = spec.clients.unwrap_or(1);
    if let PacingModel::Closed(closed) = pace {
        let total_threads = threads.saturating_mul(processes);
        let connections = closed.concurrency.div_ceil(streams);
        ensure!(
            total_threads <= connections,
            "{connections} connections cannot be divided among {total_threads} threads\nhint: increase \
             --concurrency, or reduce --threads and --clients"
        );
    }
    Ok(threads)
}

/// Assigns the processors of `--pin` to threads. Every thread of every generator process gets its
/// own processor, as long as there are enough.
fn assign_processors(spec: &LoadSpec, part: LoadShare, threads: u32) -> Result<Vec<usize>> {
    let Some(set) = &spec.pin else { return Ok(Vec::new()) };
    let mut processors = set.parse::<CpuSet>()?.cpus().to_vec();
    let offset = (part.index as usize * threads as usize) % processors.len().max(1);
    processors.rotate_left(offset);
    Ok(processors)
}

/// Returns the request timeout; `None` if the user disabled it with zero.
fn request_timeout(spec: &LoadSpec) -> Option<Duration> {
    let limit = spec.timeout.unwrap_or(DEFAULT_TIMEOUT);
    (!limit.is_zero()).then_some(limit)
}

fn connection_rules(spec: &LoadSpec) -> ConnectionRules {
    let defaults = ConnectionRules::default();
    let total = request_timeout(spec);
    let max_requests = spec.requests_per_connection.map(u64::from);
    ConnectionRules {
        max_requests: if spec.no_keepalive { Some(1) } else { max_requests },
        lifetime_ns: spec.connection_lifetime.map(saturating_nanos),
        timeouts: RequestTimeouts {
            connect_ns: spec.connect_timeout.or(total).map(saturating_nanos),
            first_byte_ns: spec.first_byte_timeout.map(saturating_nanos),
            total_ns: total.map(saturating_nanos),
        },
        retries_stale: spec.retry_stale_keepalive,
        max_delay_ns: defaults.max_delay_ns.filter(|_| !spec.no_batching && !spec.busy_poll),
        busy_poll: spec.busy_poll,
    }
}

fn success_criteria(spec: &LoadSpec) -> SuccessRule {
    let text = spec.expect_body.as_ref();
    let body = text.map(|text| BodyRule::Contains(text.as_bytes().to_vec()));
    SuccessRule {
        statuses: spec.expect_status.clone(),
        body: body.or(spec.expect_length.map(BodyRule::Length)),
    }
}

// The probe request before a load.

/// Sends the first request of a job once. Follows redirects if the load's specification allows it.
/// Returns the job with the final URL, and the facts that the response from that URL revealed.
///
/// # Errors
/// Fails if there is no complete response, or if the response is not a success.
pub fn verify_target(mut job: LoadJob) -> Result<(LoadJob, ProbeFacts)> {
    let mut redirected_from = Vec::new();
    loop {
        let probe = generator::send_probe(&job.load, process::interrupt_flag())
            .map_err(|error| no_response_error(&job, error))?;
        let is_redirect = (300..400).contains(&probe.facts.status) && probe.location.is_some();
        let location = probe.location.clone().filter(|_| job.spec.location && is_redirect);
        let Some(location) = location else {
            ensure!(probe.is_success, describe_no_success(&job, &probe));
            return Ok((job, ProbeFacts { redirected_from, ..probe.facts }));
        };
        redirected_from.push(job.url.to_string());
        ensure!(
            redirected_from.len() <= MAX_REDIRECTS,
            "'{}' redirects more than {MAX_REDIRECTS} times",
            redirected_from[0]
        );
        job = follow_redirect(&job, &location)?;
    }
}

fn follow_redirect(job: &LoadJob, location: &str) -> Result<LoadJob> {
    let joined = job.url.join(location);
    let url = joined.with_context(|| format!("'{}' redirects to '{location}'", job.url))?;
    let changes_host = url.host != job.url.host;
    let names = job.load.kinds.kinds().iter().flat_map(|kind| &kind.headers);
    let secret_name = names
        .map(|(name, _)| name)
        .find(|name| SECRET_HEADERS.contains(&name.to_ascii_lowercase().as_str()));
    if let (true, Some(name)) = (changes_host, secret_name) {
        bail!(
            "'{}' redirects to another host, '{url}', but the header '{name}' was given for the first one\n\
             hint: use '{url}' as the URL",
            job.url
        );
    }
    let spec = LoadSpec { url: url.to_full_string(), ..job.spec.clone() };
    build_job(&spec, job.seed, LoadShare::ONLY)
}

fn no_response_error(job: &LoadJob, error: ProbeError) -> anyhow::Error {
    let addresses: Vec<String> =
        job.load.target.addresses.iter().map(ToString::to_string).collect();
    let hint = match &error {
        ProbeError::Failed(ErrorClass::ConnectRefused) => {
            "\nhint: is the server running? --serve CMD starts it"
        }
        ProbeError::Certificate(CertificateRefusal::Name { .. }) => {
            "\nhint: --sni NAME checks the certificate for another name; --insecure accepts any certificate"
        }
        ProbeError::Certificate(
            CertificateRefusal::Expired(_) | CertificateRefusal::NotYetValid(_),
        ) => "\nhint: --insecure accepts any certificate",
        ProbeError::Certificate(_) | ProbeError::Failed(ErrorClass::TlsVerify) => {
            "\nhint: --cacert FILE trusts the certificate or authority in FILE; --insecure accepts any certificate"
        }
        ProbeError::Failed(ErrorClass::TlsHandshake) => {
            "\nhint: does it speak TLS? if not, use http://"
        }
        ProbeError::Failed(ErrorClass::EofFirst | ErrorClass::ResetBeforeFirstByte)
            if !job.url.is_tls =>
        {
            "\nhint: does it expect TLS? if so, use https://"
        }
        ProbeError::Failed(ErrorClass::ProtocolStatusLine) => {
            "\nhint: does it speak HTTP/1.1? if not, use --http2 for HTTP/2, or https:// for TLS"
        }
        _ => "",
    };
    let context = format!("no response from '{}' ({}){hint}", job.url, addresses.join(", "));
    anyhow::Error::new(error).context(context)
}

fn describe_no_success(job: &LoadJob, probe: &ProbeResponse) -> String {
    let status = probe.facts.status;
    if job.load.success.accepts_status(status) {
        return format!(
            "'{}' answered {status} with an unexpected body of {} bytes\nhint: --no-verify sends \
             the load anyway and counts such responses as failed",
            job.url, probe.facts.body_bytes
        );
    }
    let redirect = probe.location.as_ref().map_or(String::new(), |location| {
        format!("it redirects to '{location}': -L follows the redirect; ")
    });
    format!(
        "'{}' answered {status}, which is not a success status\nhint: {redirect}--expect-status \
         {status} counts it as success, --no-verify sends the load anyway",
        job.url
    )
}
