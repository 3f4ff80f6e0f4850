//! The run of a load of the short form: what `speedwell load` does once, with a server of its own if it has one.
//!
//! It decides which figures of the load are those of the run, and when a load has failed. Start at [`send`].

use super::life::port_of_run;
use super::sending::{all_served_by_tool, refuse_failed, session_of};
use super::{Done, Fallible, stumble, target};
use crate::load::{Notice, UNLIMITED, carry_out_beside, load_with_tool_beside};
use speedwell_model::assignment::Target;
use speedwell_model::load_run::LoadRun;
use speedwell_model::load_spec::{Client, LoadSpec};
use speedwell_model::performed::{Stage, Stumble};
use speedwell_model::{Better, Metric, Session};
use speedwell_process::{self as process, CpuSet, Spec};

/// Names of the figure that counts requests, of our own generator and of other tools.
const RATES: [&str; 2] = ["throughput", "requests_per_second"];

/// Sends the load.
///
/// # Errors
/// The stage that failed.
pub fn send(
    target: &Target,
    spec: &LoadSpec,
    pin: Option<CpuSet>,
    seed: u64,
    done: &mut Done,
) -> Fallible<()> {
    let port = port_of_run(None)?;
    let spec = spec
        .clone()
        .fill(&|text| text.replace("{port}", &port.to_string()));
    let server = spec
        .serve
        .as_ref()
        .map(|line| server(target, line, port, pin));
    let mut stage = match server {
        Some(_) => Stage::Ready,
        None => Stage::Verify,
    };
    let mut notes = Vec::new();
    let mut tell = |notice: Notice| match notice {
        Notice::Served => stage = Stage::Verify,
        Notice::Seen(..) => stage = Stage::Load,
        Notice::Warning(warning) => notes.push(warning.to_owned()),
        Notice::Standing(_) => {}
    };
    let sent = match spec.client {
        Client::Builtin => {
            carry_out_beside(server, &spec, seed, &mut tell).map(|load| Sent::ByUs(Box::new(load)))
        }
        _ => load_with_tool_beside(server, &spec, seed, &mut tell)
            .map(|session| Sent::ByTool(session.map(Box::new))),
    };
    done.performed.notes.extend(notes);
    match sent.map_err(|error| failed(stage, &error))? {
        Sent::ByUs(load) => keep(&load, done),
        Sent::ByTool(None) => Err(stumble(Stage::Load, "interrupted")),
        Sent::ByTool(Some(session)) => {
            all_served_by_tool(&session)?;
            tell_figures(&session, done)
        }
    }
}

/// Who sent it, and what came of it.
enum Sent {
    ByUs(Box<LoadRun>),
    ByTool(Option<Box<Session>>),
}

fn server(target: &Target, line: &str, port: u16, pin: Option<CpuSet>) -> Spec {
    let command = ["/bin/sh", "-c", line].map(str::to_owned).to_vec();
    let target = Target {
        command,
        ..target.clone()
    };
    Spec {
        limit: UNLIMITED,
        pin,
        ..target::spec(&target, Some(port))
    }
}

/// The reason as one line; hints and what a server wrote last stand behind it.
fn failed(stage: Stage, error: &anyhow::Error) -> Stumble {
    let texts: Vec<String> = error.chain().map(ToString::to_string).collect();
    let first = |text: &String| text.lines().next().unwrap_or_default().to_owned();
    let reasons: Vec<String> = texts.iter().map(first).collect();
    let others = texts.iter().flat_map(|text| text.lines().skip(1));
    Stumble {
        stage,
        reason: reasons.join(": "),
        stderr_tail: others.collect::<Vec<_>>().join("\n"),
    }
}

/// A load that did not come to its end is no measurement, and neither is one of which requests failed.
fn keep(load: &LoadRun, done: &mut Done) -> Fallible<()> {
    if process::interrupted() {
        return Err(stumble(Stage::Load, "interrupted"));
    }
    if let Some(server) = &load.server
        && let Some(died) = &server.died
    {
        return Err(Stumble {
            stderr_tail: server.stderr_tail.clone(),
            ..stumble(Stage::Load, format!("the server {died} in mid-load"))
        });
    }
    if load.is_partial {
        return Err(stumble(Stage::Load, load.warnings.join(" ")));
    }
    refuse_failed(load)?;
    let session = session_of(load).map_err(|error| failed(Stage::Figures, &error))?;
    tell_figures(&session, done)?;
    tell_server(load, done);
    Ok(())
}

/// The figures of a load: its rate first, everything else beside it.
fn tell_figures(session: &Session, done: &mut Done) -> Fallible<()> {
    let missing = |what: &str| stumble(Stage::Figures, what);
    if let Some(failure) = session.failures.first() {
        return Err(missing(&failure.cause.to_string()));
    }
    let run = session.runs.first();
    let run = run.ok_or_else(|| missing("nothing was measured"))?;
    let is_rate = |name: &str| RATES.contains(&name);
    let rate = run.samples.iter().find(|sample| is_rate(&sample.metric));
    let mut rate = rate
        .ok_or_else(|| missing("there is no throughput among the figures"))?
        .clone();
    let elapsed_ns = rate.elapsed_ns.unwrap_or(run.wall_ns);
    let counted = rate.value * elapsed_ns as f64 / 1e9;
    rate.iterations = Some(rate.iterations.unwrap_or(counted).round());
    rate.elapsed_ns = Some(elapsed_ns);
    done.performed.tell_sample(Metric::throughput(), &rate);
    for sample in run.samples.iter().filter(|s| !is_rate(&s.metric)) {
        if let Some(metric) = session.metric(&sample.metric) {
            done.performed.tell(metric.clone(), sample.value);
        }
    }
    done.performed.notes.extend(run.notes.iter().cloned());
    Ok(())
}

/// What is known only if the server is ours: its processor time for a request, which is steadier than any time on a
/// busy machine, and how long it took to be ready.
fn tell_server(load: &LoadRun, done: &mut Done) {
    let Some(server) = &load.server else {
        return;
    };
    let requests = load.measured.totals.outcomes.attempts() as f64;
    let cpu_ns = server.cpu_ns.map(|ns| ns as f64 / requests);
    let figures = [
        ("cpu_per_request", cpu_ns.filter(|ns| ns.is_finite())),
        ("server_ready", Some(server.ready_ns as f64)),
    ];
    for (name, value) in figures {
        if let Some(value) = value {
            let metric = Metric::new(name, "ns", Better::Lower);
            done.performed.tell(metric, value);
        }
    }
}
