//! Builds what the generator executes from a [`LoadSpec`]: fills in defaults, reads files and
//! resolves names.
//!
//! Decides which options contradict each other. A drop-in builds the types of `crates/load` itself.
//! Start at [`job`].

use super::{Url, requests, target};
use anyhow::ensure;
use speedwell_load::load::Steady;
use speedwell_load::load::{
    Batching, BodyRule, ConnectionRules, Http, Load, Part, Success, Timeouts, TlsOptions,
};
use speedwell_load::pace::{Closed, Pace, Rate, Schedule, Spacing, Stage, Stop, Think};
use speedwell_model::load_spec::LoadSpec;
use speedwell_process::CpuSet;
use std::time::Duration;

/// A load that is ready to send.
#[derive(Debug, Clone)]
pub struct LoadJob {
    /// URL of the specification.
    pub url: Url,
    /// What the generator executes.
    pub load: Load,
    /// Specification it was built from.
    pub spec: LoadSpec,
    /// Seed of random choices.
    pub seed: u64,
}

impl LoadJob {
    /// Number of generator processes.
    pub fn processes(&self) -> u32 {
        self.spec.clients.unwrap_or(1)
    }
}

/// Default number of requests in flight, as in wrk and autocannon.
const CONCURRENCY: u32 = 10;

/// Default duration of a load without an end of its own, as in wrk and autocannon.
pub const TIME: Duration = Duration::from_secs(10);

/// Default request timeout, and the drain time of loads without one.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Default limit of connections in an open load.
const MOST_CONNECTIONS: u32 = 1000;

/// Builds the load that a specification describes; `part` is the share of this generator process.
///
/// # Errors
/// An invalid URL, contradictory options, unreadable files, or a host that does not resolve.
pub fn job(spec: &LoadSpec, seed: u64, part: Part) -> anyhow::Result<LoadJob> {
    let url = Url::parse(&spec.url)?;
    check(spec, &url)?;
    let streams = spec.streams_per_connection();
    let pace = pace(spec, seed)?;
    let (connections, most_connections) = connections(spec, &pace, streams)?;
    let rules = rules(spec);
    let threads = threads(spec, &pace, streams)?;
    let load = Load {
        target: target::target(spec, &url)?,
        kinds: requests::kinds(spec, &url)?,
        http: match (spec.http2, spec.http3) {
            (true, _) => Http::Two {
                table_bytes: spec.h2_table_size.unwrap_or(0),
            },
            (_, true) => Http::Three,
            _ => Http::One,
        },
        stop: stop(spec),
        warmup_ns: spec.warmup.map_or(0, ns),
        drain_ns: ns(spec.drain.unwrap_or_else(|| limit(spec).unwrap_or(TIMEOUT))),
        rules,
        success: success(spec),
        processors: processors(spec, part, threads)?,
        keeps_rows: spec.log_requests.is_some(),
        steady: spec.until_steady.map(|percent| Steady {
            within: percent / 100.0,
        }),
        pace,
        connections,
        most_connections,
        streams_per_connection: streams,
        threads,
        part,
    };
    Ok(LoadJob {
        url,
        load,
        seed,
        spec: spec.clone(),
    })
}

/// Nanoseconds of a duration, saturating at 584 years.
fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Rejects what clap cannot: conflicts that depend on the URL or on several options.
fn check(spec: &LoadSpec, url: &Url) -> anyhow::Result<()> {
    let is_open = spec.is_open();
    ensure!(
        is_open || !spec.poisson,
        "--poisson is for requests that are sent when they are due\nhint: add --rate N"
    );
    ensure!(
        is_open || spec.max_connections.is_none(),
        "--max-connections is for requests that are sent when they are due\nhint: add --rate N; \
         without it there is a connection for every client, see --concurrency"
    );
    ensure!(
        !is_open || spec.think.is_none(),
        "--think is a pause between an answer and the next request, but with --rate and --ramp \
         requests do not wait for answers"
    );
    ensure!(
        url.is_tls || target::tls(spec) == TlsOptions::default(),
        "there is no TLS with '{url}', so --insecure, --cacert, --cert and --sni have no meaning\n\
         hint: https://"
    );
    ensure!(
        !spec.no_keepalive || !spec.retry_stale_keepalive,
        "--retry-stale-keepalive is for connections that are used again, which --no-keepalive excludes"
    );
    Ok(())
}

fn pace(spec: &LoadSpec, seed: u64) -> anyhow::Result<Pace> {
    if !spec.is_open() {
        let concurrency = spec.concurrency.unwrap_or(CONCURRENCY);
        let count = spec
            .count
            .map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        if let Some(count) = count.filter(|count| *count < concurrency) {
            // A default that does not fit is reduced; a given value is rejected.
            ensure!(
                spec.concurrency.is_none(),
                "{concurrency} requests cannot be in flight when only {count} are sent\n\
                 hint: -c {count}, or a greater -n"
            );
        }
        let fitting = concurrency.min(count.unwrap_or(concurrency));
        let think = match spec.think {
            None => Think::None,
            Some(pause) if pause.is_random => Think::Exponential {
                mean_ns: ns(pause.length),
                seed,
            },
            Some(pause) => Think::Fixed(ns(pause.length)),
        };
        return Ok(Pace::Closed(Closed::new(fitting, think)?));
    }
    let mut stages = Vec::new();
    for ramp in &spec.ramp {
        stages.push(Stage {
            from: Rate::per_second(ramp.from)?,
            to: Rate::per_second(ramp.to)?,
            duration_ns: ns(ramp.duration),
        });
    }
    if let Some(rate) = spec.rate {
        stages.push(Stage::constant(Rate::per_second(rate)?));
    }
    let spacing = if spec.poisson {
        Spacing::Poisson { seed }
    } else {
        Spacing::Even
    };
    Ok(Pace::Open(Schedule::new(stages, spacing)?))
}

/// Returns when the load stops. Ramps have an end of their own unless a rate follows them.
pub fn stop(spec: &LoadSpec) -> Stop {
    let ends_itself = !spec.ramp.is_empty() && spec.rate.is_none();
    let usual = (spec.count.is_none() && !ends_itself).then_some(TIME);
    let time = spec.time.or(usual);
    Stop {
        after_requests: spec.count,
        after_ns: time.map(ns),
    }
}

/// The same, counted from the start of the warm-up, for the live view.
pub fn stop_with_warmup(spec: &LoadSpec) -> Stop {
    let stop = stop(spec);
    let warmup_ns = spec.warmup.map_or(0, ns);
    Stop {
        after_ns: stop.after_ns.map(|end_ns| end_ns.saturating_add(warmup_ns)),
        ..stop
    }
}

/// Initial and maximum number of connections.
fn connections(spec: &LoadSpec, pace: &Pace, streams: u32) -> anyhow::Result<(u32, u32)> {
    match pace {
        Pace::Closed(closed) => {
            ensure!(
                streams <= closed.concurrency,
                "{streams} requests cannot be in flight on one connection when {} are in flight in \
                 all\nhint: -c {streams} or more",
                closed.concurrency
            );
            let connections = closed.concurrency.div_ceil(streams);
            Ok((connections, connections))
        }
        Pace::Open(_) => {
            let most = spec.max_connections;
            let first = spec.concurrency.unwrap_or(CONCURRENCY);
            if let (Some(most), Some(first)) = (most, spec.concurrency) {
                ensure!(
                    first <= most,
                    "{first} connections at the beginning are more than --max-connections {most}"
                );
            }
            let most = most.unwrap_or(MOST_CONNECTIONS.max(first));
            Ok((first.min(most), most))
        }
    }
}

fn threads(spec: &LoadSpec, pace: &Pace, streams: u32) -> anyhow::Result<u32> {
    let threads = spec.threads.unwrap_or(1);
    let processes = spec.clients.unwrap_or(1);
    if let Pace::Closed(closed) = pace {
        let all = threads.saturating_mul(processes);
        let connections = closed.concurrency.div_ceil(streams);
        ensure!(
            all <= connections,
            "{connections} connections cannot be divided among {all} threads\n\
             hint: a greater --concurrency, or fewer --threads and --clients"
        );
    }
    Ok(threads)
}

/// Gives every thread of every generator process a processor of its own, as long as there are
/// enough.
fn processors(spec: &LoadSpec, part: Part, threads: u32) -> anyhow::Result<Vec<usize>> {
    let Some(set) = &spec.pin else {
        return Ok(Vec::new());
    };
    let mut processors = set.parse::<CpuSet>()?.cpus().to_vec();
    let first = (part.index as usize * threads as usize) % processors.len().max(1);
    processors.rotate_left(first);
    Ok(processors)
}

/// Request timeout; `None` if disabled with zero.
fn limit(spec: &LoadSpec) -> Option<Duration> {
    let limit = spec.timeout.unwrap_or(TIMEOUT);
    (!limit.is_zero()).then_some(limit)
}

fn rules(spec: &LoadSpec) -> ConnectionRules {
    let usual = ConnectionRules::default();
    let total = limit(spec);
    ConnectionRules {
        most_requests: if spec.no_keepalive {
            Some(1)
        } else {
            spec.requests_per_connection.map(u64::from)
        },
        lifetime_ns: spec.connection_lifetime.map(ns),
        timeouts: Timeouts {
            connect_ns: spec.connect_timeout.or(total).map(ns),
            first_byte_ns: spec.first_byte_timeout.map(ns),
            total_ns: total.map(ns),
        },
        retries_stale: spec.retry_stale_keepalive,
        batching: if spec.no_batching || spec.busy_poll {
            Batching::Off
        } else {
            usual.batching
        },
        busy_poll: spec.busy_poll,
    }
}

fn success(spec: &LoadSpec) -> Success {
    let text = spec.expect_body.as_ref();
    let body = text.map(|text| BodyRule::Contains(text.as_bytes().to_vec()));
    Success {
        statuses: spec.expect_status.clone(),
        body: body.or(spec.expect_length.map(BodyRule::Length)),
    }
}
