//! The loads of a run: the one that warms up, and the one that counts.
//!
//! It decides which words of `speedwell load` they consist of, and when a load was answered as it should be.

use super::life::Life;
use super::{Done, Fallible, stumble};
use crate::model::Session;
use crate::model::assignment::{Traffic, Warmup};
use crate::model::load_run::LoadRun;
use crate::model::performed::Stage;
use crate::process;
use crate::runner::load::{LoadJob, facts_of, generate};
use speedwell_load::books::Class;
use speedwell_load::load::Address;
use speedwell_load::measured::Measured;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks at a server that is being loaded.
const PULSE: Duration = Duration::from_millis(10);

impl Life<'_> {
    /// The load that does not count, always sent by our own generator.
    pub(super) fn warm_up(&self, done: &mut Done) -> Fallible<()> {
        let (end, limit_ms) = match self.serving.load.warmup {
            Warmup::None => return Ok(()),
            // Fewer than the connections would leave some of them without a request.
            Warmup::Requests(count) => {
                let traffic = &self.serving.load;
                let least = u64::from(traffic.connections * traffic.pipelining.max(1));
                (vec![format!("--count={}", count.max(least))], None)
            }
            Warmup::DurationMs(ms) => (vec![format!("--time={ms}ms")], None),
            Warmup::SteadyMs(ms) => (
                vec![format!("--time={ms}ms"), "--until-steady".to_owned()],
                Some(ms),
            ),
        };
        let mut words = self.words(&self.serving.load);
        words.retain(|word| {
            !["--count=", "--time=", "--client="]
                .iter()
                .any(|end| word.starts_with(end))
        });
        words.extend(end);
        let run = self.sent_by_us(Stage::Warmup, &words)?;
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
        let words = self.words(&self.serving.load);
        if self.serving.load.client != "builtin" {
            let session = (self.loads.foreign)(&words);
            return session
                .map(|session| (session, None))
                .map_err(|error| stumble(Stage::Load, format!("{error:#}")));
        }
        let run = self.sent_by_us(Stage::Load, &words)?;
        let session = (self.loads.figures)(&run);
        let session = session.map_err(|error| stumble(Stage::Load, format!("{error:#}")))?;
        Ok((session, Some(run)))
    }

    /// The words of `speedwell load` for a load.
    fn words(&self, traffic: &Traffic) -> Vec<String> {
        let lanes = traffic.pipelining.max(1);
        let mut words = vec![
            self.url.clone(),
            format!("--concurrency={}", traffic.connections * lanes),
        ];
        if lanes > 1 {
            words.push(format!("--pipeline={lanes}"));
        }
        if traffic.client != "builtin" {
            words.push(format!("--client={}", traffic.client));
        }
        words.extend(traffic.words.iter().cloned());
        words
    }

    fn sent_by_us(&self, stage: Stage, words: &[String]) -> Fallible<LoadRun> {
        let failed = |error: anyhow::Error| stumble(stage, format!("{error:#}"));
        let mut job = (self.loads.own)(words).map_err(failed)?;
        // A name such as 'localhost' has several addresses; the server listens on this one.
        job.load.target.addresses = vec![Address::Internet(self.ready.address)];
        let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let service = &self.service;
        let measured = std::thread::scope(|scope| {
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
        let run = as_run(&job, measured.map_err(failed)?);
        match self.service.has_ended() {
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
        let books = &load.measured.account.books;
        if books.all_errors() > 0 {
            let classes = Class::all()
                .filter(|class| books.errors(*class) > 0)
                .map(|class| format!("{} {}", books.errors(class), class.name()));
            let classes: Vec<String> = classes.collect();
            let reason = format!(
                "{} of {} requests failed: {}",
                books.all_errors(),
                books.attempts(),
                classes.join(", ")
            );
            return Err(stumble(Stage::Served, reason));
        }
        match self.serving.load.requests {
            Some(wanted) if books.succeeded() != wanted => {
                let reason = format!("{} requests instead of {wanted}", books.succeeded());
                Err(stumble(Stage::Served, reason))
            }
            _ if books.succeeded() == 0 => Err(stumble(Stage::Served, "no request was answered")),
            _ => Ok(()),
        }
    }
}

fn as_run(job: &LoadJob, measured: Measured) -> LoadRun {
    LoadRun {
        label: job.url.to_string(),
        url: job.url.to_string(),
        round: 0,
        slot: 0,
        asked: facts_of(job),
        probe: None,
        measured,
        server: None,
        is_partial: false,
        warnings: Vec::new(),
    }
}

/// What another tool says of requests that failed.
fn all_served_by_tool(session: &Session) -> Fallible<()> {
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
