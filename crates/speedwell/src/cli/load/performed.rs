//! `speedwell load --harness`: performs one case of a definition file over the harness protocol.
//!
//! It decides what of a load becomes a sample, and when a load has failed. The words of the load are
//! those that a person would type, so that a failure can be repeated by hand. Start at [`run`]; the
//! other half is `harness/load.rs`.

use super::benchmarker::only_run;
use crate::cli::options::LoadArgs;
use crate::cli::{Status, status};
use crate::exchange::measured;
use crate::harness::Message;
use crate::model::load_spec::Client;
use crate::model::{Better, Metric, Session};
use crate::process;
use crate::runner::load::{LoadRun, carry_out, load_with_tool, private_line};
use anyhow::{Context, bail};
use speedwell_load::books::Class;
use std::io::{BufRead, BufReader, Write};
use std::time::Instant;

/// Answers the commands of a run until there are no more.
///
/// # Errors
/// Nobody started this process as a harness, or nobody listens any longer.
pub fn run(args: &LoadArgs, seed: u64) -> anyhow::Result<Status> {
    let (commands, mut events) = private_line().context("this is no process of a harness")?;
    for line in BufReader::new(commands).split(b'\n') {
        let Some(command) = Message::parse(&line?) else {
            continue;
        };
        let id = command.get("id").unwrap_or_default();
        let answer = |verb: &str| Message::new(verb).with("id", &id);
        let job = || command.get("job").unwrap_or_default();
        let answers = match command.verb.as_str() {
            "hello" => vec![ready(answer("ready"))],
            "load" => vec![answer("loaded").with("job", job()).with("form", "case")],
            "run" => performed(args, seed, &id, &command.list("jobs").join(",")),
            "quit" => break,
            verb => vec![
                answer("error")
                    .with("stage", "protocol")
                    .with("msg", format!("'{verb}' is not offered")),
            ],
        };
        for message in answers {
            events.write_all(message.to_string().as_bytes())?;
        }
    }
    Ok(Status::DONE)
}

fn ready(event: Message) -> Message {
    event
        .with("proto", 1)
        .with("lang", "http")
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("flavor", "native")
        .with("caps", "once")
}

/// The load, told as events.
fn performed(args: &LoadArgs, seed: u64, id: &str, job: &str) -> Vec<Message> {
    let begin = Instant::now();
    let event = |verb: &str| Message::new(verb).with("id", id).with("job", job);
    let told = loaded(args, seed).and_then(|session| told(&session, &event));
    let mut events = told.unwrap_or_else(|error| {
        // Hints and the last words of a server are several lines, which the event does not carry.
        status::tell(&error);
        let message = format!("{error:#}");
        vec![event("error").with("stage", "run").with("msg", message)]
    });
    let end = Message::new("end").with("id", id).with("jobs", job);
    let elapsed_ns = begin.elapsed().as_nanos();
    events.push(end.with("elapsed_ns", elapsed_ns).with("max_late_ns", 0));
    events
}

/// One load with everything around it.
fn loaded(args: &LoadArgs, seed: u64) -> anyhow::Result<Session> {
    if args.urls.len() != 1 {
        bail!("a case loads one address");
    }
    let spec = args.spec(0);
    if spec.client != Client::Builtin {
        let session = load_with_tool(&spec, seed, &mut |_| ())?;
        return session.context("interrupted before anything was measured");
    }
    let load = carry_out(&spec, seed, &mut |_| ())?;
    refuse_broken(&load)?;
    let mut session = measured::session("load", std::slice::from_ref(&load), &mut Vec::new())?;
    count_unexpected(&load, &mut session);
    add_server(&load, &mut session);
    Ok(session)
}

/// A case says itself which statuses are good: one that waits for 404 has not failed by it.
fn count_unexpected(load: &LoadRun, session: &mut Session) {
    let unexpected = load.measured.account.books.errors(Class::Status);
    let samples = session.runs.iter_mut().flat_map(|run| &mut run.samples);
    for sample in samples.filter(|sample| &*sample.metric == "http_non2xx") {
        sample.value = unexpected as f64;
    }
}

/// A load that did not come to its end is no measurement.
fn refuse_broken(load: &LoadRun) -> anyhow::Result<()> {
    if process::interrupted() {
        bail!("interrupted in mid-load");
    }
    if let Some(server) = &load.server
        && let Some(died) = &server.died
    {
        bail!(
            "the server {died} in mid-load; it wrote:\n{}",
            server.stderr_tail
        );
    }
    if load.is_partial {
        bail!("{}", load.warnings.join(" "));
    }
    Ok(())
}

/// What only somebody knows who has started the server: its processor time for a request, which is
/// steadier than any time on a busy machine, and how long it took to be ready.
fn add_server(load: &LoadRun, session: &mut Session) {
    let Some(server) = &load.server else {
        return;
    };
    let requests = load.measured.account.books.attempts() as f64;
    let cpu_ns = server.cpu_ns.map(|ns| ns as f64 / requests);
    let figures = [
        ("cpu_per_request", cpu_ns.filter(|ns| ns.is_finite())),
        ("server_ready", Some(server.ready_ns as f64)),
    ];
    for (name, value) in figures {
        let (Some(value), Some(run)) = (value, session.runs.first_mut()) else {
            continue;
        };
        run.samples.push(crate::model::Sample {
            metric: name.into(),
            value,
            elapsed_ns: None,
            iterations: None,
        });
        session.metrics.push(Metric::new(name, "ns", Better::Lower));
    }
}

/// The figures as events: throughput first, everything else beside it.
fn told(session: &Session, event: &dyn Fn(&str) -> Message) -> anyhow::Result<Vec<Message>> {
    let run = only_run(session)?;
    let is_rate = |name: &str| matches!(name, "throughput" | "requests_per_second");
    let rate = run.samples.iter().find(|sample| is_rate(&sample.metric));
    let rate = rate.context("there is no throughput among the figures")?;
    let elapsed_ns = rate.elapsed_ns.unwrap_or(run.wall_ns);
    let counted = rate.value * elapsed_ns as f64 / 1e9;
    let iterations = rate.iterations.unwrap_or(counted).round();
    let mut events = vec![
        event("once")
            .with("iterations", iterations)
            .with("elapsed_ns", elapsed_ns)
            .with("rate", rate.value),
    ];
    for sample in run.samples.iter().filter(|s| !is_rate(&s.metric)) {
        let Some(metric) = session.metric(&sample.metric) else {
            continue;
        };
        let better = match metric.better {
            Better::Higher => "higher",
            Better::Lower => "lower",
        };
        events.push(
            event("metric")
                .with("name", &metric.name)
                .with("unit", &metric.unit)
                .with("better", better)
                .with("value", sample.value),
        );
    }
    let notes = run.notes.iter();
    events.extend(notes.map(|note| event("log").with("level", "warn").with("text", note)));
    Ok(events)
}
