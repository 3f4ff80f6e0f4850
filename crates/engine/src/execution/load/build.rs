//! Turns a [`LoadSpec`] into the [`LoadJob`] that the generator executes: fills in defaults, reads
//! files and resolves names.
//!
//! Decides which options contradict each other. The replacements for other tools (`crates/compat`)
//! do not use this module: they build a [`LoadConfig`] directly. Start at [`build_job`].

use super::{TargetUrl, requests, target};
use anyhow::ensure;
use speedwell_load::load::{
    BatchingMode, BodyRule, ConnectionRules, HttpVersion, LoadConfig, LoadShare, RequestTimeouts,
    SteadinessRule, SuccessRule, TlsOptions,
};
use speedwell_load::pace::{
    ArrivalSpacing, ClosedPace, PacingModel, RateSchedule, RequestRate, ScheduleStage,
    StopCondition, ThinkTime,
};
use speedwell_machine::process::CpuSet;
use speedwell_model::load::spec::LoadSpec;
use std::time::Duration;

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
pub const DEFAULT_DURATION: Duration = Duration::from_secs(10);

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
pub fn build_job(spec: &LoadSpec, seed: u64, part: LoadShare) -> anyhow::Result<LoadJob> {
    let url = TargetUrl::parse(&spec.url)?;
    check_conflicts(spec, &url)?;
    let streams = spec.streams_per_connection();
    let pace = build_pace(spec, seed)?;
    let (connections, max_connections) = connection_range(spec, &pace, streams)?;
    let rules = connection_rules(spec);
    let threads = thread_count(spec, &pace, streams)?;
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
        drain_ns: saturating_nanos(
            spec.drain.unwrap_or_else(|| request_timeout(spec).unwrap_or(DEFAULT_TIMEOUT)),
        ),
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
fn check_conflicts(spec: &LoadSpec, url: &TargetUrl) -> anyhow::Result<()> {
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

fn build_pace(spec: &LoadSpec, seed: u64) -> anyhow::Result<PacingModel> {
    if !spec.is_open() {
        let concurrency = spec.concurrency.unwrap_or(DEFAULT_CONCURRENCY);
        let count = spec.count.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        if let Some(count) = count.filter(|count| *count < concurrency) {
            // The default concurrency is reduced later; one that the user gave is rejected.
            ensure!(
                spec.concurrency.is_none(),
                "{concurrency} requests cannot be in flight when only {count} are sent\nhint: use \
                 -c {count}, or a greater -n"
            );
        }
        let reduced_concurrency = concurrency.min(count.unwrap_or(concurrency));
        let think = match spec.think {
            None => ThinkTime::None,
            Some(pause) if pause.is_random => {
                ThinkTime::Exponential { mean_ns: saturating_nanos(pause.length), seed }
            }
            Some(pause) => ThinkTime::Fixed(saturating_nanos(pause.length)),
        };
        return Ok(PacingModel::Closed(ClosedPace::new(reduced_concurrency, think)?));
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
fn connection_range(
    spec: &LoadSpec,
    pace: &PacingModel,
    streams: u32,
) -> anyhow::Result<(u32, u32)> {
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
            let max_connections = spec.max_connections;
            let initial = spec.concurrency.unwrap_or(DEFAULT_CONCURRENCY);
            if let (Some(max_connections), Some(initial)) = (max_connections, spec.concurrency) {
                ensure!(
                    initial <= max_connections,
                    "{initial} initial connections are more than --max-connections {max_connections}"
                );
            }
            let limit = max_connections.unwrap_or(DEFAULT_MAX_CONNECTIONS.max(initial));
            Ok((initial.min(limit), limit))
        }
    }
}

fn thread_count(spec: &LoadSpec, pace: &PacingModel, streams: u32) -> anyhow::Result<u32> {
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
fn assign_processors(spec: &LoadSpec, part: LoadShare, threads: u32) -> anyhow::Result<Vec<usize>> {
    let Some(set) = &spec.pin else {
        return Ok(Vec::new());
    };
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
    ConnectionRules {
        max_requests: if spec.no_keepalive {
            Some(1)
        } else {
            spec.requests_per_connection.map(u64::from)
        },
        lifetime_ns: spec.connection_lifetime.map(saturating_nanos),
        timeouts: RequestTimeouts {
            connect_ns: spec.connect_timeout.or(total).map(saturating_nanos),
            first_byte_ns: spec.first_byte_timeout.map(saturating_nanos),
            total_ns: total.map(saturating_nanos),
        },
        retries_stale: spec.retry_stale_keepalive,
        batching: if spec.no_batching || spec.busy_poll {
            BatchingMode::Off
        } else {
            defaults.batching
        },
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
