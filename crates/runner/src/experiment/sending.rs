//! The loads of a run: the one that warms up, and the one that counts.
//!
//! It decides how a warm-up differs from the load, and when a load was answered as it should be.

use super::life::Life;
use super::{Done, Fallible, stumble};
use crate::load::{self, as_run, generate, load_with_tool};
use speedwell_load::load::{Address, Part};
use speedwell_load::outcomes::ErrorClass;
use speedwell_model::Session;
use speedwell_model::assignment::Warmup;
use speedwell_model::load_run::LoadRun;
use speedwell_model::load_spec::{Client, LoadSpec};
use speedwell_model::performed::Stage;
use speedwell_process as process;
use speedwell_results::formats::measured;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How alike two seconds of a steady server are, in percent.
const STEADY_PERCENT: f64 = 5.0;

/// The statuses of a success, which every load expects.
const SUCCESS: (u16, u16) = (200, 299);

/// Between two looks at a server that is being loaded.
const PULSE: Duration = Duration::from_millis(10);

impl Life<'_> {
    /// The load that does not count, always sent by our own generator.
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
            // Fewer than the connections would leave some of them without a request.
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
        let failed = |error: anyhow::Error| stumble(Stage::Load, format!("{error:#}"));
        let spec = self.spec();
        if spec.client != Client::Builtin {
            let spec = LoadSpec {
                no_verify: true,
                ..spec
            };
            let session = load_with_tool(&spec, self.seed, &mut |_| ()).map_err(failed)?;
            let session = session.ok_or_else(|| stumble(Stage::Load, "interrupted"))?;
            return Ok((session, None));
        }
        let run = self.sent_by_us(Stage::Load, &spec)?;
        Ok((session_of(&run).map_err(failed)?, Some(run)))
    }

    /// The load, to the port of this server. The statuses that answers must have are those of the verification, unless
    /// that is about another path.
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
        let failed = |error: anyhow::Error| stumble(stage, format!("{error:#}"));
        let mut job = load::job(spec, self.seed, Part::WHOLE).map_err(failed)?;
        // A name such as 'localhost' has several addresses; the server listens on this one.
        job.load.target.addresses = vec![Address::Internet(self.ready.address)];
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
            let measured = generate(&job, &stop, &mut |_| ());
            over.store(true, Ordering::Relaxed);
            measured
        });
        let run = as_run(&job, sent.map_err(failed)?);
        let has_ended = if run.measured.has_lost_server() {
            self.service.is_dying()
        } else {
            self.service.has_ended()
        };
        match has_ended {
            true => Err(stumble(stage, "it ended in mid-load")),
            false if run.measured.is_interrupted => Err(stumble(stage, "interrupted")),
            false => Ok(run),
        }
    }

    /// Every request was answered well, and as many as were asked for.
    pub(super) fn all_served(&self, session: &Session, load: Option<&LoadRun>) -> Fallible<()> {
        let Some(load) = load else {
            return all_served_by_tool(session);
        };
        refuse_failed(load)?;
        let counts = &load.measured.totals.outcomes;
        match self.serving.load.spec.count {
            Some(wanted) if counts.succeeded() != wanted => {
                let reason = format!("{} requests instead of {wanted}", counts.succeeded());
                Err(stumble(Stage::Served, reason))
            }
            _ if counts.succeeded() == 0 => Err(stumble(Stage::Served, "no request was answered")),
            _ => Ok(()),
        }
    }
}

/// A load of which requests failed is none of a working server.
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
    Err(stumble(Stage::Served, reason))
}

/// What another tool says of requests that failed.
pub(super) fn all_served_by_tool(session: &Session) -> Fallible<()> {
    let samples = session.runs.iter().flat_map(|run| &run.samples);
    let failed = samples
        .filter(|sample| matches!(&*sample.metric, "http_errors" | "http_non2xx"))
        .find(|sample| sample.value > 0.0);
    match failed {
        Some(sample) => {
            let reason = format!("{}: {} requests", sample.metric, sample.value);
            Err(stumble(Stage::Served, reason))
        }
        None => Ok(()),
    }
}

/// A load as the figures of a run. The run says itself which statuses are good: one that waits for 404 has not failed
/// by it.
pub(super) fn session_of(load: &LoadRun) -> anyhow::Result<Session> {
    let mut session = measured::session("load", std::slice::from_ref(load), &mut Vec::new())?;
    let unexpected = load.measured.totals.outcomes.errors(ErrorClass::Status);
    let samples = session.runs.iter_mut().flat_map(|run| &mut run.samples);
    for sample in samples.filter(|sample| &*sample.metric == "http_non2xx") {
        sample.value = unexpected as f64;
    }
    Ok(session)
}
