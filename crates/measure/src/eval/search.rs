//! Adds workers until throughput stops growing.
//!
//! Each snippet has its own process for the whole search, whose workers persist from level to
//! level. `analysis` picks the next level; this module measures, stores and reports it. Start at
//! [`search`].

use super::{EvalRequest, plans};
use crate::rehearsal::rehearse;
use crate::session::check_processors;
use crate::{Listener, Plans, SessionRequest, header};
use anyhow::ensure;
use speedwell_analysis::scaling::{self, Level, Next, Rules};
use speedwell_harness::snippet::{self, Gone, Live, expected};
use speedwell_harness::{self as harness, Job, RunLayout, Setting};
use speedwell_model::SnippetTiming;
use speedwell_model::{Case, Event, Length, Observer, Run, Samples, Session, Value, Variant};
use speedwell_process::{interrupted, unix_ms};
use speedwell_results::store::{Recorder, Store};
use speedwell_runner::Ended;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Length of a visit. Many short visits are more informative than few long ones: the spread within
/// a visit does not show how much visits differ.
const VISIT: Samples = Samples {
    count: 3,
    length: Length::TimeNs(100_000_000),
    warmup_ns: 100_000_000,
};

/// Plans a search in which every snippet has its own process.
///
/// # Errors
/// Fails if other options contradict a search.
pub fn search_plans(request: EvalRequest, listener: &mut Listener<'_>) -> anyhow::Result<Plans> {
    let sampling = request.plan.sampling.clone();
    ensure!(
        !matches!(sampling.length, Some(Length::Iterations(_))),
        "a search compares throughput in windows of time, so --iterations has no meaning\nhint: -t 200ms"
    );
    ensure!(
        !request.shares_process,
        "a search measures each snippet in a process of its own\nhint: leave out --shared and --order parallel"
    );
    let mut plans = plans(request, listener)?;
    plans.plan.sampling.samples = sampling.samples(VISIT);
    plans.plan.is_search = true;
    check_processors(&plans.plan)?;
    crate::layout::check(&plans.plan)?;
    Ok(plans)
}

/// Searches snippet after snippet; returns the session and how the search ended.
///
/// # Errors
/// Fails if the store cannot be written.
pub fn search(
    plans: Plans,
    rules: Rules,
    request: &SessionRequest,
    store: &mut Store,
    listener: &mut Listener<'_>,
) -> anyhow::Result<(Session, Ended)> {
    let Plans { plan, suite, .. } = plans;
    rehearse(&plan, &suite.failures, &request.settings)?;
    let header = header(&plan, suite, request);
    let recorder = store.begin(&header, &serde_json::to_string(&plan)?)?;
    let number = recorder.number();
    let mut search = Search {
        rules,
        samples: plan.sampling.samples,
        limit: Duration::from_millis(plan.sampling.timeout_ms),
        listener,
        recorder,
        slot: 0,
    };
    let mut failed = false;
    for job in &plan.jobs {
        for variant in &plan.variants {
            let setting = Setting {
                variant,
                program: harness::program_of(&job.source, variant),
                slot: search.slot,
                ordinal: 0,
                repeated: 0,
                counting: None,
                clock: Default::default(),
                seed: 0,
                layout: RunLayout::default(),
                experiment: None,
                kept: None,
                limit: search.limit,
                samples: search.samples,
                asked: plan.sampling.asked,
                is_series: false,
                pin: plan.pin.as_ref(),
            };
            failed |= !search.climb(&job.under(variant), variant, &setting)?;
        }
    }
    let is_interrupted = interrupted();
    search.recorder.observe(&Event::Finished {
        interrupted: is_interrupted,
    })?;
    drop(search);
    let ended = match (is_interrupted, failed) {
        (true, _) => Ended::Interrupted,
        (false, true) => Ended::Failed,
        (false, false) => Ended::Complete,
    };
    Ok((store.session(number)?, ended))
}

struct Search<'a, 'l> {
    rules: Rules,
    samples: Samples,
    limit: Duration,
    listener: &'a mut Listener<'l>,
    recorder: Recorder<'a>,
    slot: u32,
}

impl Search<'_, '_> {
    /// Searches with one snippet; returns whether that succeeded. What was measured before a
    /// failure is kept.
    fn climb(
        &mut self,
        job: &Job,
        variant: &Variant,
        setting: &Setting<'_>,
    ) -> anyhow::Result<bool> {
        let Some(own) = job.snippet_under(variant) else {
            return Ok(true);
        };
        let mut spec = match snippet::start(&own, &setting.program, variant) {
            Ok(spec) => spec,
            Err(failed) => return self.fail(&failed.into(), job, setting),
        };
        spec.pin = setting.pin.cloned();
        spec.directory = Some(job.source.directory.clone());
        spec.limit = Duration::from_secs(24 * 3600);
        let (mut live, _) = match Live::start(spec) {
            Ok(started) => started,
            Err(gone) => return self.fail(&gone, job, setting),
        };
        let loaded = live.load("code", &own).map(|answer| answer.fault("code"));
        if let Some(gone) = fault(loaded) {
            return self.fail(&gone, job, setting);
        }
        let mut levels: Vec<Level> = Vec::new();
        while let Next::Visit(level) = scaling::next(&levels, &self.rules) {
            if interrupted() {
                break;
            }
            let begin = (unix_ms(), Instant::now());
            match self.visit(&mut live, level) {
                Ok(Some(measured)) if !interrupted() => {
                    self.keep(&measured, level, begin, job, variant, &mut levels)?
                }
                Ok(_) => break,
                Err(gone) => return self.fail(&gone, job, setting),
            }
        }
        match fault(live.end().map(|answer| answer.fault("code"))) {
            Some(gone) => self.fail(&gone, job, setting),
            None => Ok(true),
        }
    }

    /// Measures a level once; `None` if the user interrupted before there was a result.
    fn visit(&self, live: &mut Live, level: u32) -> Result<Option<SnippetTiming>, Gone> {
        let answer = live.workers("code", level)?;
        if let Some(cause) = answer.fault("code") {
            return Err(Gone::new(cause));
        }
        let limit = expected(&self.samples, self.limit);
        let jobs = ["code".to_owned()];
        let answer = live.run(&jobs, &self.samples, false, Some(limit), &mut |_| {})?;
        match answer.fault("code") {
            Some(cause) => Err(Gone::new(cause)),
            None => Ok(answer.timing("code", &self.samples)),
        }
    }

    fn keep(
        &mut self,
        measured: &SnippetTiming,
        level: u32,
        (started_unix_ms, begin): (i64, Instant),
        job: &Job,
        variant: &Variant,
        levels: &mut Vec<Level>,
    ) -> anyhow::Result<()> {
        let per_s = measured.per_s.unwrap_or(0.0);
        self.listener.observe(&Event::Visited { level, per_s })?;
        match levels.iter_mut().find(|known| known.concurrency == level) {
            Some(known) => known.throughputs.push(per_s),
            None => levels.push(Level {
                concurrency: level,
                throughputs: vec![per_s],
                is_spoilt: false,
            }),
        }
        let visits = levels.iter().find(|known| known.concurrency == level);
        let block = visits.map_or(0, |known| known.throughputs.len() as u32 - 1);
        let seen = snippet::observation(measured, &at_level(job, level));
        for metric in &seen.metrics {
            self.recorder.observe(&Event::Declared(metric))?;
        }
        self.recorder.observe(&Event::RunFinished(&Run {
            case: Arc::new(seen.case),
            variant: Arc::from(variant.name.as_str()),
            slot: self.slot,
            block,
            build: None,
            started_unix_ms,
            wall_ns: begin.elapsed().as_nanos() as u64,
            usage: None,
            surroundings: None,
            disturbed: None,
            machine: None,
            samples: seen.samples,
            notes: seen.notes,
            load: None,
        }))?;
        self.recorder.observe(&Event::SlotsDone(&[self.slot]))?;
        self.slot += 1;
        Ok(())
    }

    fn fail(&mut self, gone: &Gone, job: &Job, setting: &Setting<'_>) -> anyhow::Result<bool> {
        let failure = snippet::failure_of(gone, job, setting);
        self.recorder.observe(&Event::Failed(&failure))?;
        Ok(false)
    }
}

fn at_level(job: &Job, level: u32) -> Job {
    let mut job = job.clone();
    let case = job
        .case
        .get_or_insert_with(|| Case::new(&job.source.name, Vec::new()));
    let concurrency = Value::Number(level.into());
    case.values.push(("concurrency".to_owned(), concurrency));
    job.label = case.id();
    job
}

fn fault(answer: Result<Option<speedwell_model::Cause>, Gone>) -> Option<Gone> {
    match answer {
        Ok(cause) => cause.map(Gone::new),
        Err(gone) => Some(gone),
    }
}
