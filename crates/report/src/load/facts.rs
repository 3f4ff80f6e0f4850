//! Lists facts about a load: what was requested, and how the load went.

use crate::document::Fact;
use crate::figure::{
    Uncertainty, format_count, format_duration, format_number, format_quantity, format_rate,
    format_share,
};
use crate::load::text::{format_achieved, format_in_flight, format_ns, format_requests};
use speedwell_analysis::load::LoadFindings;
use speedwell_model::load::run::{LoadFacts, LoadPart, LoadRun, PaceFacts, ProbeFacts, StageFacts};

/// Lists the facts of one load.
pub fn load_facts(load: &LoadFindings<'_>) -> Vec<Fact> {
    let run = load.run;
    let mut facts =
        vec![new_fact("load", load_line(&run.requested)), new_fact("requests", sent_text(run))];
    facts.extend(run.probe.as_ref().map(|probe| new_fact("server", probe_text(probe))));
    facts.extend(process_fact(run));
    facts.push(new_fact("outcomes", balance_text(load)));
    facts.push(new_fact("connections", connections_text(load)));
    facts.extend(in_flight_fact(load));
    facts.extend(schedule_fact(load));
    facts.extend(load.bytes_per_s.map(|(received, sent)| {
        let format_rate_of_bytes = |bytes| format_quantity(bytes, "B/s", Uncertainty::Unknown);
        new_fact(
            "traffic",
            format!(
                "{} received, {} sent",
                format_rate_of_bytes(received),
                format_rate_of_bytes(sent)
            ),
        )
    }));
    facts.push(new_fact("generator", generator_text(load)));
    facts.extend(machines_fact(run));
    facts.extend(warmup_fact(run));
    facts
}

fn new_fact(name: &str, value: String) -> Fact {
    (name.to_owned(), value)
}

fn format_length(ns: u64) -> String {
    format_duration(ns / 1_000_000)
}

fn load_line(requested: &LoadFacts) -> String {
    let pace = match &requested.pace {
        PaceFacts::Closed { concurrency, think_ns, thinks_at_random, .. } => {
            let clients = format_count(*concurrency as usize, "client", "clients");
            let pause = match (think_ns, thinks_at_random) {
                (0, _) => String::new(),
                (ns, false) => format!(" and pause for {}", format_length(*ns)),
                (ns, true) => format!(" and pause for {} on average", format_length(*ns)),
            };
            format!("{clients} that wait for their responses{pause}")
        }
        PaceFacts::Open { stages, is_poisson, .. } => {
            let stages: Vec<String> = stages.iter().map(stage_text).collect();
            let spacing = if *is_poisson { "at random" } else { "evenly" };
            format!("{}, spaced {spacing}", stages.join(", then "))
        }
    };
    let ends = [
        requested.requests.map(format_requests),
        requested.time_ns.map(|ns| format!("for {}", format_length(ns))),
    ];
    let ends: Vec<String> = ends.into_iter().flatten().collect();
    let drain = match requested.drain_ns {
        0 => String::new(),
        ns => format!("; waits for responses up to {} after the end", format_length(ns)),
    };
    if ends.is_empty() {
        format!("{pace}{drain}")
    } else {
        format!("{pace}; {}{drain}", ends.join(", at most "))
    }
}

fn stage_text(stage: &StageFacts) -> String {
    let StageFacts { from_per_s, to_per_s, duration_ns } = stage;
    let length = duration_ns.map(|ns| format!(" for {}", format_length(ns))).unwrap_or_default();
    if from_per_s == to_per_s {
        format!("{}{length}", format_rate(*from_per_s))
    } else {
        format!("{} to {}{length}", format_rate(*from_per_s), format_rate(*to_per_s))
    }
}

fn sent_text(run: &LoadRun) -> String {
    let requested = &run.requested;
    let kinds = match &requested.kinds[..] {
        [kind] => format!("{} {}", kind.method, run.url),
        kinds => {
            let kind_text = |kind: &speedwell_model::load::run::KindFacts| {
                format!("{} {} {}", kind.weight, kind.method, kind.path)
            };
            let kinds: Vec<String> = kinds.iter().map(kind_text).collect();
            format!("{} ({})", run.url, kinds.join(", "))
        }
    };
    let streams = match requested.streams_per_connection {
        0 | 1 => String::new(),
        streams => format!(", up to {streams} in flight on a connection"),
    };
    let reuse = match (requested.keeps_alive, requested.max_requests_per_connection) {
        (false, _) => ", a connection for each request".to_owned(),
        (true, Some(max_requests)) => {
            format!(", {} on a connection", format_requests(max_requests))
        }
        (true, None) => String::new(),
    };
    format!("{kinds}, {}{streams}{reuse}", requested.protocol)
}

fn probe_text(probe: &ProbeFacts) -> String {
    let name = probe.server.as_deref().unwrap_or("unnamed");
    let tls = probe.tls.as_ref().map_or(String::new(), |tls| {
        let group = tls.group.as_ref().map(|group| format!(", {group}"));
        format!(", {} {}{}", tls.version, tls.cipher, group.unwrap_or_default())
    });
    let bytes = format_count(probe.body_bytes as usize, "byte", "bytes");
    format!("{name} at {}{tls}; first response {} with {bytes}", probe.address, probe.status)
}

fn process_fact(run: &LoadRun) -> Option<Fact> {
    let server = run.server.as_ref()?;
    let cpu = server.cpu_ns.map(|ns| {
        let busy = ns as f64 / run.measured.elapsed_ns.max(1) as f64;
        format!("; {} of a processor", format_share(busy))
    });
    let died = server.died.as_ref().map(|died| format!("; it {died}"));
    Some(new_fact(
        "started with",
        format!(
            "{} (ready after {}{}{})",
            server.command,
            format_length(server.ready_ns),
            cpu.unwrap_or_default(),
            died.unwrap_or_default()
        ),
    ))
}

/// Accounts for every request, as in `100 attempted = 98 ok + 2 timeout.total: balanced`.
fn balance_text(load: &LoadFindings<'_>) -> String {
    let counts = &load.run.measured.totals.outcomes;
    let parts = counts.rows().filter(|row| row.count > 0);
    let parts: Vec<String> =
        parts.map(|row| format!("{} {}", format_number(row.count as f64, 0), row.name)).collect();
    let sum = if parts.is_empty() { "0".to_owned() } else { parts.join(" + ") };
    let state = if load.balance.is_ok() { "balanced" } else { "NOT BALANCED" };
    format!("{} attempted = {sum}: {state}", format_number(counts.attempts() as f64, 0))
}

fn connections_text(load: &LoadFindings<'_>) -> String {
    let connections = &load.run.measured.totals.outcomes.connections;
    let failed = match connections.failed {
        0 => String::new(),
        failed => format!(", {} failed", format_number(failed as f64, 0)),
    };
    let per_connection = load.per_connection.map(|(fewest, most)| {
        if fewest == most {
            format!("; {} on each", format_requests(most))
        } else {
            format!("; {} to {} on each", format_number(fewest as f64, 0), format_requests(most))
        }
    });
    let warmup = &load.run.measured.warmup.outcomes.connections;
    let in_warmup = match warmup.opened {
        0 => String::new(),
        in_warmup => format!(" after {} in the warm-up", format_number(in_warmup as f64, 0)),
    };
    format!(
        "{} opened{in_warmup}{failed}, at most {} at once; {} on reused connections{}",
        format_number(connections.opened as f64, 0),
        format_number(f64::from(load.run.measured.max_connections), 0),
        format_requests(connections.reused_sends),
        per_connection.unwrap_or_default()
    )
}

fn in_flight_fact(load: &LoadFindings<'_>) -> Option<Fact> {
    let in_flight = format_in_flight(&load.concurrency)?;
    let requested = load.concurrency.requested.map_or("", |_| " requested");
    Some(new_fact(
        "in flight",
        format!("{in_flight}{requested} on average (rate times mean service time)"),
    ))
}

fn schedule_fact(load: &LoadFindings<'_>) -> Option<Fact> {
    let verdict = load.open?;
    Some(new_fact(
        "schedule",
        format!(
            "{}; the generator itself was late by {} (p99; limit {})",
            format_achieved(&verdict),
            format_ns(verdict.own_lag_p99_ns as f64, false),
            format_ns(verdict.own_lag_limit_ns as f64, false)
        ),
    ))
}

fn generator_text(load: &LoadFindings<'_>) -> String {
    let generator = &load.generator;
    let calls = generator
        .system_calls_per_request
        .map(|calls| format!("; {calls:.1} system calls per request"));
    let cpu = generator
        .cpu_ns_per_request
        .map(|ns| format!("; {} of processor time per request", format_ns(ns, false)));
    let late = match generator.late_by_ns {
        0 => String::new(),
        ns => format!("; response timestamps may be late by up to {}", format_ns(ns as f64, false)),
    };
    format!(
        "{}, busy for {}{}{}{late}",
        format_count(generator.threads, "thread", "threads"),
        format_share(generator.busiest),
        calls.unwrap_or_default(),
        cpu.unwrap_or_default()
    )
}

/// Names the machines that sent the load, with the number of requests that each machine attempted.
/// Returns `None` if no machines are recorded.
fn machines_fact(run: &LoadRun) -> Option<Fact> {
    let part_text = |part: &LoadPart| {
        let began = match part.began_ns {
            Some(0) => ", began first".to_owned(),
            Some(ns) => format!(", began {} later", format_ns(ns as f64, false)),
            None => String::new(),
        };
        let connect = part.connect_ns.map(|ns| {
            let time = format_ns(ns as f64, false);
            format!(", connects in {time}")
        });
        let lost = part.lost.as_ref().map(|_| ", lost");
        format!(
            "{} {}{}{}{began}",
            part.machine,
            format_requests(part.attempted),
            lost.unwrap_or_default(),
            connect.unwrap_or_default()
        )
    };
    let parts: Vec<String> = run.parts.iter().map(part_text).collect();
    (!parts.is_empty()).then(|| new_fact("machines", parts.join("; ")))
}

fn warmup_fact(run: &LoadRun) -> Option<Fact> {
    let counts = &run.measured.warmup.outcomes;
    let failed = match counts.all_errors() {
        0 => String::new(),
        errors => format!(", {errors} of them failed"),
    };
    (counts.attempts() > 0).then(|| {
        new_fact(
            "warm-up",
            format!(
                "{} in {}{failed}; excluded from all other figures",
                format_requests(counts.attempts()),
                format_length(run.requested.warmup_ns)
            ),
        )
    })
}
