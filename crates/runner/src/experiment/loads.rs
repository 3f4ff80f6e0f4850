//! Loads of runs: the warm-up load, the measured load, and the short form, which does what
//! `speedwell load` does, including its own server if it has one.
//!
//! Decides which metrics of a load the run gets, and when a load has failed. Start at [`send`] for
//! the short form, at [`ServerLifecycle::warm_up`] for a server.

use super::lifecycle::{ServerLifecycle, port_of_run};
use super::{Done, Fallible, Site, stage_failure, target};
use crate::load::{Notice, UNLIMITED, carry_out_beside, load_with_tool, load_with_tool_beside};
use speedwell_load::outcomes::ErrorClass;
use speedwell_model::assignment::{Target, Warmup};
use speedwell_model::load_run::LoadRun;
use speedwell_model::load_spec::{Client, LoadSpec};
use speedwell_model::performed::{Stage, StageFailure};
use speedwell_model::{Better, Metric, Session};
use speedwell_process::{self as process, CpuSet, Spec};
use speedwell_results::formats::measured;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Names of the request rate: the built-in generator's and other tools'.
const RATES: [&str; 2] = ["throughput", "requests_per_second"];

/// Sends the load of the short form.
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
    let port = port_of_run(None, None, &Site::default())?;
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
        Notice::Probed(..) => stage = Stage::Load,
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
        Sent::ByTool(None) => Err(stage_failure(Stage::Load, "interrupted")),
        Sent::ByTool(Some(session)) => {
            all_served_by_tool(&session)?;
            tell_figures(&session, done)
        }
    }
}

/// Result of a load, by its client.
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

/// Puts the reason on one line; hints and the server's last output follow as stderr.
fn failed(stage: Stage, error: &anyhow::Error) -> StageFailure {
    let texts: Vec<String> = error.chain().map(ToString::to_string).collect();
    let first = |text: &String| text.lines().next().unwrap_or_default().to_owned();
    let reasons: Vec<String> = texts.iter().map(first).collect();
    let others = texts.iter().flat_map(|text| text.lines().skip(1));
    StageFailure {
        stage,
        reason: reasons.join(": "),
        stderr_tail: others.collect::<Vec<_>>().join("\n"),
    }
}

/// Rejects a load that did not complete or that had failed requests.
fn keep(load: &LoadRun, done: &mut Done) -> Fallible<()> {
    if process::interrupted() {
        return Err(stage_failure(Stage::Load, "interrupted"));
    }
    if let Some(server) = &load.server
        && let Some(died) = &server.died
    {
        return Err(StageFailure {
            stderr_tail: server.stderr_tail.clone(),
            ..stage_failure(Stage::Load, format!("the server {died} during the load"))
        });
    }
    if load.is_partial {
        return Err(stage_failure(Stage::Load, load.warnings.join(" ")));
    }
    refuse_failed(load)?;
    let session = session_of(load).map_err(|error| failed(Stage::Figures, &error))?;
    tell_figures(&session, done)?;
    tell_server(load, done);
    Ok(())
}

/// Adds the metrics of a load: its rate first, then all others.
fn tell_figures(session: &Session, done: &mut Done) -> Fallible<()> {
    let missing = |what: &str| stage_failure(Stage::Figures, what);
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

/// Adds metrics of our own server: startup time, and processor time per request, which varies less
/// than any wall time on a busy machine.
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

/// Maximum difference of two consecutive seconds of a steady server, in percent.
const STEADY_PERCENT: f64 = 5.0;

/// Success statuses, which every load expects.
const SUCCESS: (u16, u16) = (200, 299);

/// Interval for polling a server under load.
const PULSE: Duration = Duration::from_millis(10);

impl ServerLifecycle<'_> {
    /// Sends the warm-up load, always with the built-in generator.
    pub(super) fn warm_up(&self, done: &mut Done) -> Fallible<()> {
        let traffic = &self.serving.load;
        let spec = LoadSpec {
            client: Client::Builtin,
            count: None,
            time: None,
            ..self.spec()
        };
        let (spec, limit_ms) = match traffic.warmup {
            Warmup::None => return Ok(()),
            // Fewer requests than connections would leave some connections unused.
            Warmup::Requests(count) => {
                let count = count.max(u64::from(traffic.in_flight()));
                let count = Some(count);
                (LoadSpec { count, ..spec }, None)
            }
            Warmup::DurationMs(ms) => {
                let time = Some(Duration::from_millis(ms));
                (LoadSpec { time, ..spec }, None)
            }
            Warmup::SteadyMs(ms) => {
                let steady = LoadSpec {
                    time: Some(Duration::from_millis(ms)),
                    until_steady: Some(STEADY_PERCENT),
                    ..spec
                };
                (steady, Some(ms))
            }
        };
        let run = self.sent_by_us(Stage::Warmup, &spec)?;
        if let Some(ms) = limit_ms
            && run.measured.elapsed_ns >= ms * 1_000_000
        {
            done.performed.notes.push(format!(
                "The server did not become steady within the {} s of warm-up.",
                ms as f64 / 1e3
            ));
        }
        Ok(())
    }

    pub(super) fn load(&self) -> Fallible<(Session, Option<LoadRun>)> {
        let failed = |error: anyhow::Error| stage_failure(Stage::Load, format!("{error:#}"));
        let spec = self.spec();
        if spec.client != Client::Builtin {
            let spec = LoadSpec {
                no_verify: true,
                ..spec
            };
            let session = load_with_tool(&spec, self.seed, &mut |_| ()).map_err(failed)?;
            let session = session.ok_or_else(|| stage_failure(Stage::Load, "interrupted"))?;
            return Ok((session, None));
        }
        let run = self.sent_by_us(Stage::Load, &spec)?;
        Ok((session_of(&run).map_err(failed)?, Some(run)))
    }

    /// The load, addressed to this server. Expects the statuses of the verification, unless that
    /// requests another path.
    fn spec(&self) -> LoadSpec {
        let mut spec = self.serving.load.spec.clone();
        spec.url.clone_from(&self.url);
        let rules = &self.serving.verify;
        if rules.path.is_none() && rules.statuses != [SUCCESS] {
            let ranges = rules.statuses.iter().map(|(from, to)| *from..=*to);
            spec.expect_status = ranges.collect();
        }
        spec
    }

    fn sent_by_us(&self, stage: Stage, spec: &LoadSpec) -> Fallible<LoadRun> {
        let failed = |error: anyhow::Error| stage_failure(stage, format!("{error:#}"));
        let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let service = &self.service;
        let sent = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if process::interrupted() || service.has_ended() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    std::thread::sleep(PULSE);
                }
            });
            let to = self.ready.address;
            let sent = self.site.sender.send(spec, self.seed, to, &stop);
            over.store(true, Ordering::Relaxed);
            sent
        });
        if sent.is_err() && self.service.has_ended() {
            return Err(stage_failure(stage, "it ended during the load"));
        }
        let run = sent.map_err(failed)?;
        let has_ended = if run.measured.has_lost_server() {
            self.service.is_dying()
        } else {
            self.service.has_ended()
        };
        match has_ended {
            true => Err(stage_failure(stage, "it ended during the load")),
            false if run.measured.is_interrupted => Err(stage_failure(stage, "interrupted")),
            false => Ok(run),
        }
    }

    /// Checks that every request succeeded, and that their number is as requested.
    pub(super) fn all_served(&self, session: &Session, load: Option<&LoadRun>) -> Fallible<()> {
        let Some(load) = load else {
            return all_served_by_tool(session);
        };
        refuse_failed(load)?;
        let counts = &load.measured.totals.outcomes;
        match self.serving.load.spec.count {
            Some(wanted) if counts.succeeded() != wanted => {
                let reason = format!("{} requests instead of {wanted}", counts.succeeded());
                Err(stage_failure(Stage::Served, reason))
            }
            _ if counts.succeeded() == 0 => {
                Err(stage_failure(Stage::Served, "no request was answered"))
            }
            _ => Ok(()),
        }
    }
}

/// Fails a load with failed requests: the server does not work.
pub(super) fn refuse_failed(load: &LoadRun) -> Fallible<()> {
    let counts = &load.measured.totals.outcomes;
    if counts.all_errors() == 0 {
        return Ok(());
    }
    let classes = ErrorClass::every()
        .filter(|class| counts.errors(*class) > 0)
        .map(|class| format!("{} {}", counts.errors(class), class.name()));
    let classes: Vec<String> = classes.collect();
    let reason = format!(
        "{} of {} requests failed: {}",
        counts.all_errors(),
        counts.attempts(),
        classes.join(", ")
    );
    Err(stage_failure(Stage::Served, reason))
}

/// Fails if another tool reports failed requests.
pub(super) fn all_served_by_tool(session: &Session) -> Fallible<()> {
    let samples = session.runs.iter().flat_map(|run| &run.samples);
    let failed = samples
        .filter(|sample| matches!(&*sample.metric, "http_errors" | "http_non2xx"))
        .find(|sample| sample.value > 0.0);
    match failed {
        Some(sample) => {
            let reason = format!("{}: {} requests", sample.metric, sample.value);
            Err(stage_failure(Stage::Served, reason))
        }
        None => Ok(()),
    }
}

/// Converts a load into metrics of a run. The run defines the expected statuses: if it expects 404,
/// a 404 is not an error.
pub(super) fn session_of(load: &LoadRun) -> anyhow::Result<Session> {
    let mut session = measured::session("load", std::slice::from_ref(load), &mut Vec::new())?;
    let unexpected = load.measured.totals.outcomes.errors(ErrorClass::Status);
    let samples = session.runs.iter_mut().flat_map(|run| &mut run.samples);
    for sample in samples.filter(|sample| &*sample.metric == "http_non2xx") {
        sample.value = unexpected as f64;
    }
    Ok(session)
}
