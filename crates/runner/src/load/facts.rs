//! Describes a load for reports: [`LoadFacts`] and [`ProbeFacts`].

use super::{LoadJob, shown_address};
use crate::verify::Probed;
use speedwell_load::http1::{Connection, Version};
use speedwell_load::load::{Batching, BodyRule, Http, Kind, Load};
use speedwell_load::pace::{Closed, FOREVER_NS, Pace, Schedule, Spacing, Think};
use speedwell_model::load_run::{
    KindFacts, LoadFacts, PaceFacts, ProbeFacts, RuleFacts, StageFacts, TimeoutFacts, TlsFacts,
};

/// Describes the requested load.
pub fn facts_of(job: &LoadJob) -> LoadFacts {
    let load = &job.load;
    let limits = &load.rules.timeouts;
    LoadFacts {
        pace: pace(load),
        requests: load.stop.after_requests,
        time_ns: load.stop.after_ns,
        warmup_ns: load.warmup_ns,
        drain_ns: load.drain_ns,
        kinds: load.kinds.entries().iter().map(kind).collect(),
        protocol: protocol(load).to_owned(),
        h2_table_bytes: match load.http {
            Http::One | Http::Three => None,
            Http::Two { table_bytes } => Some(table_bytes),
        },
        streams_per_connection: load.streams_per_connection,
        keeps_alive: keeps_alive(load),
        most_requests_per_connection: load.rules.most_requests,
        connection_lifetime_ns: load.rules.lifetime_ns,
        timeouts: TimeoutFacts {
            connect_ns: limits.connect_ns,
            first_byte_ns: limits.first_byte_ns,
            total_ns: limits.total_ns,
        },
        retries_stale: load.rules.retries_stale,
        success: rule(load),
        threads: load.threads,
        processes: job.processes(),
        processors: load.processors.clone(),
        is_realtime: job.spec.rt,
        busy_polls: load.rules.busy_poll,
        batching_ns: match load.rules.batching {
            Batching::Off => None,
            Batching::Adaptive { most_ns } => Some(most_ns),
        },
    }
}

fn pace(load: &Load) -> PaceFacts {
    match &load.pace {
        Pace::Closed(closed) => closed_pace(closed),
        Pace::Open(schedule) => PaceFacts::Open {
            stages: stages(schedule),
            is_poisson: schedule.spacing() != Spacing::Even,
            seed: match schedule.spacing() {
                Spacing::Even => 0,
                Spacing::Poisson { seed } => seed,
            },
            connections: load.connections,
            most_connections: load.most_connections,
        },
    }
}

fn closed_pace(closed: &Closed) -> PaceFacts {
    let (think_ns, seed) = match closed.think {
        Think::None => (0, None),
        Think::Fixed(ns) => (ns, None),
        Think::Exponential { mean_ns, seed } => (mean_ns, Some(seed)),
    };
    PaceFacts::Closed {
        concurrency: closed.concurrency,
        think_ns,
        thinks_at_random: seed.is_some(),
        seed: seed.unwrap_or(0),
    }
}

fn stages(schedule: &Schedule) -> Vec<StageFacts> {
    let stages = schedule.stages().iter();
    stages
        .map(|stage| StageFacts {
            from_per_s: stage.from.requests_per_s(),
            to_per_s: stage.to.requests_per_s(),
            duration_ns: (stage.duration_ns != FOREVER_NS).then_some(stage.duration_ns),
        })
        .collect()
}

fn kind(kind: &Kind) -> KindFacts {
    KindFacts {
        name: kind.name.clone(),
        weight: kind.weight,
        method: kind.method.clone(),
        path: kind.target.clone(),
        body_bytes: kind.body.as_ref().map(|body| body.len() as u64),
    }
}

/// Name of the protocol used by the requests.
pub fn protocol(load: &Load) -> &'static str {
    let is_old = |kind: &Kind| kind.version == Version::Http10;
    match load.http {
        Http::Three => "HTTP/3",
        Http::Two { .. } => "HTTP/2",
        Http::One if load.kinds.entries().iter().all(is_old) => "HTTP/1.0",
        Http::One => "HTTP/1.1",
    }
}

fn keeps_alive(load: &Load) -> bool {
    let closes = |kind: &Kind| kind.connection == Connection::Close;
    load.rules.most_requests != Some(1) && !load.kinds.entries().iter().all(closes)
}

fn rule(load: &Load) -> RuleFacts {
    let statuses = load.success.statuses.iter();
    let mut rule = RuleFacts {
        statuses: statuses
            .map(|range| (*range.start(), *range.end()))
            .collect(),
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
pub fn probe_facts_of(seen: &Probed) -> ProbeFacts {
    let probe = &seen.probe;
    ProbeFacts {
        address: shown_address(&probe.address),
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
        redirected_from: seen.redirected_from.clone(),
    }
}
