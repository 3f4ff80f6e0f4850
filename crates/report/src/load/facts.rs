//! The requested load and its course, as names with values.

use crate::document::Fact;
use crate::figure::{Uncertainty, count, duration, quantity, share, spell};
use crate::load::words::{rate, requests, spelled_ns};
use speedwell_analysis::load::LoadFindings;
use speedwell_model::load_run::{LoadFacts, LoadPart, LoadRun, PaceFacts, ProbeFacts, StageFacts};

/// Lists the facts of one load.
pub fn facts(load: &LoadFindings<'_>) -> Vec<Fact> {
    let run = load.run;
    let mut facts = vec![
        fact("load", load_line(&run.requested)),
        fact("requests", sent(run)),
    ];
    facts.extend(
        run.probe
            .as_ref()
            .map(|probe| fact("server", server(probe))),
    );
    facts.extend(process(run));
    facts.push(fact("outcomes", counts(load)));
    facts.push(fact("connections", connections(load)));
    facts.extend(under_way(load));
    facts.extend(schedule(load));
    facts.extend(load.bytes_per_s.map(|(received, sent)| {
        let of = |bytes| quantity(bytes, "B/s", Uncertainty::Unknown);
        fact(
            "traffic",
            format!("{} received, {} sent", of(received), of(sent)),
        )
    }));
    facts.push(fact("generator", generator(load)));
    facts.extend(machines(run));
    facts.extend(warmup(run));
    facts
}

fn fact(name: &str, words: String) -> Fact {
    (name.to_owned(), words)
}

fn length(ns: u64) -> String {
    duration(ns / 1_000_000)
}

fn load_line(requested: &LoadFacts) -> String {
    let pace = match &requested.pace {
        PaceFacts::Closed {
            concurrency,
            think_ns,
            thinks_at_random,
            ..
        } => {
            let clients = count(*concurrency as usize, "client", "clients");
            let pause = match (think_ns, thinks_at_random) {
                (0, _) => String::new(),
                (ns, false) => format!(" and pause for {}", length(*ns)),
                (ns, true) => format!(" and pause for {} on average", length(*ns)),
            };
            format!("{clients} that wait for their answers{pause}")
        }
        PaceFacts::Open {
            stages, is_poisson, ..
        } => {
            let stages: Vec<String> = stages.iter().map(stage).collect();
            let spacing = if *is_poisson { "at random" } else { "evenly" };
            format!("{}, spaced {spacing}", stages.join(", then "))
        }
    };
    let ends = [
        requested.requests.map(requests),
        requested.time_ns.map(|ns| format!("for {}", length(ns))),
    ];
    let ends: Vec<String> = ends.into_iter().flatten().collect();
    let drain = match requested.drain_ns {
        0 => String::new(),
        ns => format!("; answers awaited for up to {} after the end", length(ns)),
    };
    if ends.is_empty() {
        format!("{pace}{drain}")
    } else {
        format!("{pace}; {}{drain}", ends.join(", at most "))
    }
}

fn stage(stage: &StageFacts) -> String {
    let StageFacts {
        from_per_s,
        to_per_s,
        duration_ns,
    } = stage;
    let length = duration_ns.map(|ns| format!(" for {}", length(ns)));
    let length = length.unwrap_or_default();
    if from_per_s == to_per_s {
        format!("{}{length}", rate(*from_per_s))
    } else {
        format!("{} to {}{length}", rate(*from_per_s), rate(*to_per_s))
    }
}

fn sent(run: &LoadRun) -> String {
    let requested = &run.requested;
    let kinds = match &requested.kinds[..] {
        [kind] => format!("{} {}", kind.method, run.url),
        kinds => {
            let of = |kind: &speedwell_model::load_run::KindFacts| {
                format!("{} {} {}", kind.weight, kind.method, kind.path)
            };
            let kinds: Vec<String> = kinds.iter().map(of).collect();
            format!("{} ({})", run.url, kinds.join(", "))
        }
    };
    let streams = match requested.streams_per_connection {
        0 | 1 => String::new(),
        streams => format!(", up to {streams} in flight on a connection"),
    };
    let use_of = match (
        requested.keeps_alive,
        requested.most_requests_per_connection,
    ) {
        (false, _) => ", a connection for each request".to_owned(),
        (true, Some(most)) => format!(", {} on a connection", requests(most)),
        (true, None) => String::new(),
    };
    format!("{kinds}, {}{streams}{use_of}", requested.protocol)
}

fn server(probe: &ProbeFacts) -> String {
    let name = probe.server.as_deref().unwrap_or("unnamed");
    let tls = probe.tls.as_ref().map_or(String::new(), |tls| {
        let group = tls.group.as_ref().map(|group| format!(", {group}"));
        format!(
            ", {} {}{}",
            tls.version,
            tls.cipher,
            group.unwrap_or_default()
        )
    });
    let bytes = count(probe.body_bytes as usize, "byte", "bytes");
    format!(
        "{name} at {}{tls}; first answer {} with {bytes}",
        probe.address, probe.status
    )
}

/// The server process started for the load.
fn process(run: &LoadRun) -> Option<Fact> {
    let server = run.server.as_ref()?;
    let cpu = server.cpu_ns.map(|ns| {
        let busy = ns as f64 / run.measured.elapsed_ns.max(1) as f64;
        format!("; {} of a processor", share(busy))
    });
    let died = server.died.as_ref().map(|died| format!("; it {died}"));
    Some(fact(
        "started with",
        format!(
            "{} (ready after {}{}{})",
            server.command,
            length(server.ready_ns),
            cpu.unwrap_or_default(),
            died.unwrap_or_default()
        ),
    ))
}

/// Accounts for every request: `100 attempted = 98 ok + 2 timeout.total: balanced`.
pub fn counts(load: &LoadFindings<'_>) -> String {
    let counts = &load.run.measured.totals.outcomes;
    let parts = counts.rows().filter(|row| row.count > 0);
    let parts: Vec<String> = parts
        .map(|row| format!("{} {}", spell(row.count as f64, 0), row.name))
        .collect();
    let sum = if parts.is_empty() {
        "0".to_owned()
    } else {
        parts.join(" + ")
    };
    let state = if load.balance.is_ok() {
        "balanced"
    } else {
        "NOT BALANCED"
    };
    format!(
        "{} attempted = {sum}: {state}",
        spell(counts.attempts() as f64, 0)
    )
}

fn connections(load: &LoadFindings<'_>) -> String {
    let lines = &load.run.measured.totals.outcomes.connections;
    let failed = match lines.failed {
        0 => String::new(),
        failed => format!(", {} failed", spell(failed as f64, 0)),
    };
    let each = load.per_connection.map(|(fewest, most)| {
        if fewest == most {
            format!("; {} on each", requests(most))
        } else {
            format!(
                "; {} to {} on each",
                spell(fewest as f64, 0),
                requests(most)
            )
        }
    });
    let warmup = &load.run.measured.warmup.outcomes.connections;
    let before = match warmup.opened {
        0 => String::new(),
        before => format!(" after {} in the warm-up", spell(before as f64, 0)),
    };
    format!(
        "{} opened{before}{failed}, at most {} at once; {} over a used one{}",
        spell(lines.opened as f64, 0),
        spell(f64::from(load.run.measured.most_connections), 0),
        requests(lines.reused_sends),
        each.unwrap_or_default()
    )
}

fn under_way(load: &LoadFindings<'_>) -> Option<Fact> {
    let effective = load.concurrency.effective?;
    let requested = load.concurrency.requested;
    let requested = requested.map_or(String::new(), |requested| {
        format!(" of {requested} requested")
    });
    Some(fact(
        "in flight",
        format!("{effective:.1}{requested} on average (rate times mean service time)"),
    ))
}

fn schedule(load: &LoadFindings<'_>) -> Option<Fact> {
    let verdict = load.open?;
    Some(fact(
        "schedule",
        format!(
            "{} of the due requests sent; the generator itself was late by {} (p99), where up to {} would do",
            share(verdict.achieved),
            spelled_ns(verdict.own_lag_p99_ns as f64, false),
            spelled_ns(verdict.own_lag_limit_ns as f64, false)
        ),
    ))
}

fn generator(load: &LoadFindings<'_>) -> String {
    let generator = &load.generator;
    let calls = generator
        .system_calls_per_request
        .map(|calls| format!("; {calls:.1} system calls for a request"));
    let cpu = generator.cpu_ns_per_request.map(|ns| {
        format!(
            "; {} of processor time for a request",
            spelled_ns(ns, false)
        )
    });
    let late = match generator.late_by_ns {
        0 => String::new(),
        ns => format!(
            "; time stamps of answers may be late by up to {}",
            spelled_ns(ns as f64, false)
        ),
    };
    format!(
        "{}, busy for {}{}{}{late}",
        count(generator.threads, "thread", "threads"),
        share(generator.busiest),
        calls.unwrap_or_default(),
        cpu.unwrap_or_default()
    )
}

/// The machines that sent the load, each with its share.
fn machines(run: &LoadRun) -> Option<Fact> {
    let one = |part: &LoadPart| {
        let began = match part.began_ns {
            Some(0) => ", began first".to_owned(),
            Some(ns) => format!(", began {} later", spelled_ns(ns as f64, false)),
            None => String::new(),
        };
        let connect = part.connect_ns.map(|ns| {
            let least = spelled_ns(ns as f64, false);
            format!(", connects in {least}")
        });
        let lost = part.lost.as_ref().map(|_| ", lost");
        format!(
            "{} {}{}{}{began}",
            part.machine,
            requests(part.attempted),
            lost.unwrap_or_default(),
            connect.unwrap_or_default()
        )
    };
    let parts: Vec<String> = run.parts.iter().map(one).collect();
    (!parts.is_empty()).then(|| fact("machines", parts.join("; ")))
}

fn warmup(run: &LoadRun) -> Option<Fact> {
    let counts = &run.measured.warmup.outcomes;
    let failed = match counts.all_errors() {
        0 => String::new(),
        errors => format!(", {errors} of them failed"),
    };
    (counts.attempts() > 0).then(|| {
        fact(
            "warm-up",
            format!(
                "{} in {}{failed}; they are in no other figure",
                requests(counts.attempts()),
                length(run.requested.warmup_ns)
            ),
        )
    })
}
