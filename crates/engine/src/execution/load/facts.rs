//! Describes a load for reports: builds the [`LoadFacts`] of its job and the [`ProbeFacts`] of its
//! probe request.

use super::{LoadJob, format_address};
use crate::execution::verify::ProbeResult;
use speedwell_load::http1::{ConnectionOption, Http1Version};
use speedwell_load::load::{BatchingMode, BodyRule, HttpVersion, LoadConfig, RequestKind};
use speedwell_load::pace::{
    ArrivalSpacing, ClosedPace, FOREVER_NS, PacingModel, RateSchedule, ThinkTime,
};
use speedwell_model::load::run::{
    KindFacts, LoadFacts, PaceFacts, ProbeFacts, RuleFacts, StageFacts, TimeoutFacts, TlsFacts,
};

/// Describes the requested load.
pub fn load_facts(job: &LoadJob) -> LoadFacts {
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
        PacingModel::Closed(closed) => closed_pace(closed),
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

fn closed_pace(closed: &ClosedPace) -> PaceFacts {
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
pub fn probe_facts(result: &ProbeResult) -> ProbeFacts {
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
