//! Adds workers to a snippet until throughput stops growing.
//!
//! A level is a number of workers. Each snippet has one process for the whole search. Its workers
//! persist from level to level. `analysis` picks the next level; this module measures and stores
//! it. Start at [`search_snippets`].

use anyhow::ensure;
use speedwell_adapters::snippet::{self, HarnessFailure, LiveHarness, expected_duration};
use speedwell_adapters::{BenchmarkJob, RunContext};
use speedwell_analysis::scaling::{self, ConcurrencyLevel, SaturationRules};
use speedwell_engine::eval::{EvalRequest, plan_snippets};
use speedwell_engine::execution::SessionEnd;
use speedwell_engine::rehearsal::rehearse_plan;
use speedwell_engine::{
    EventListener, PreparedPlan, SessionRequest, check_layout, check_processors, session_header,
};
use speedwell_machine::process::{is_interrupt_requested, unix_time_ms};
use speedwell_model::SnippetTiming;
use speedwell_model::{
    Case, ParameterValue, Run, SampleDivision, SampleLength, Session, SessionEvent,
    SessionObserver, Variant,
};
use speedwell_store::{SessionRecorder, Store};
use std::time::Instant;

/// Default division of a visit (one measurement of a level) into samples. Many short visits tell
/// more than a few long ones, because the spread within a visit does not show how much visits
/// differ.
const VISIT_SAMPLES: SampleDivision =
    SampleDivision { count: 3, length: SampleLength::TimeNs(100_000_000), warmup_ns: 100_000_000 };

/// Plans a search in which every snippet has its own process.
///
/// # Errors
/// Fails if other options conflict with a search.
pub fn plan_search(
    request: EvalRequest,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<PreparedPlan> {
    let sampling = request.plan.sampling.clone();
    ensure!(
        sampling.iterations.is_none(),
        "a search compares throughput over time windows, so --iterations does not apply\nhint: use \
         -t 200ms"
    );
    ensure!(
        !request.shares_process,
        "a search measures each snippet in its own process\nhint: leave out --shared and --order \
         parallel"
    );
    let mut plans = plan_snippets(request, listener)?;
    plans.plan.sampling.samples = sampling.sample_division(VISIT_SAMPLES);
    plans.plan.is_search = true;
    plans.plan.design.order_choice = None;
    check_processors(&plans.plan)?;
    check_layout(&plans.plan)?;
    Ok(plans)
}

/// Runs the searches of all snippets, one after the other. Returns the session and how the search
/// ended.
///
/// # Errors
/// Fails if the store cannot be written.
pub fn search_snippets(
    plans: PreparedPlan,
    rules: SaturationRules,
    request: &SessionRequest,
    store: &mut Store,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<(Session, SessionEnd)> {
    let PreparedPlan { plan, suite, .. } = plans;
    rehearse_plan(&plan, &suite.failures, &request.settings)?;
    let header = session_header(&plan, suite, request);
    let recorder = store.begin_recording(&header, &serde_json::to_string(&plan)?)?;
    let number = recorder.number();
    let mut search = ConcurrencySearch { rules, listener, recorder, slot: 0 };
    let mut failed = false;
    for job in &plan.jobs {
        for variant in &plan.variants {
            let context = plan.run_context(job, variant, search.slot);
            failed |= !search.search_snippet(&job.under(variant), &context)?;
        }
    }
    let is_interrupted = is_interrupt_requested();
    search.recorder.observe(&SessionEvent::Finished { interrupted: is_interrupted })?;
    drop(search);
    let session_end = match (is_interrupted, failed) {
        (true, _) => SessionEnd::Interrupted,
        (false, true) => SessionEnd::Failed,
        (false, false) => SessionEnd::Complete,
    };
    Ok((store.load_session(number)?, session_end))
}

struct ConcurrencySearch<'a, 'l> {
    rules: SaturationRules,
    listener: &'a mut EventListener<'l>,
    recorder: SessionRecorder<'a>,
    slot: u32,
}

impl ConcurrencySearch<'_, '_> {
    /// Runs the search of one snippet. Returns whether the search succeeded. If it fails, the
    /// measurements taken before the failure are kept.
    fn search_snippet(
        &mut self,
        job: &BenchmarkJob,
        context: &RunContext<'_>,
    ) -> anyhow::Result<bool> {
        match self.visit_levels(job, context) {
            Ok(stored) => stored.map(|()| true),
            Err(harness_failure) => {
                let failure = snippet::shared_process_failure(&harness_failure, job, context);
                self.recorder.observe(&SessionEvent::Failed(&failure))?;
                Ok(false)
            }
        }
    }

    /// Measures and stores one level after the other. The outer result is an error if the measured
    /// process fails, the inner result if the store cannot be written.
    fn visit_levels(
        &mut self,
        job: &BenchmarkJob,
        context: &RunContext<'_>,
    ) -> Result<anyhow::Result<()>, HarnessFailure> {
        let variant = context.variant;
        let Some(snippet_code) = job.snippet_under(variant) else { return Ok(Ok(())) };
        let folder = &job.source.directory;
        let (mut harness, _) =
            LiveHarness::open(&snippet_code, &context.program, variant, folder, context.pin)?;
        harness.load_snippet("code", &snippet_code)?.check_fault("code")?;
        let mut levels: Vec<ConcurrencyLevel> = Vec::new();
        while let Some(level) = scaling::next_level(&levels, &self.rules) {
            if is_interrupt_requested() {
                break;
            }
            let begin = (unix_time_ms(), Instant::now());
            let measured = measure_level(&mut harness, level, context)?;
            let Some(measured) = measured.filter(|_| !is_interrupt_requested()) else { break };
            let stored = self.record_visit(&measured, level, begin, job, variant, &mut levels);
            if stored.is_err() {
                return Ok(stored);
            }
        }
        harness.shut_down()?.check_fault("code")?;
        Ok(Ok(()))
    }

    fn record_visit(
        &mut self,
        measured: &SnippetTiming,
        level: u32,
        (started_unix_ms, begin): (i64, Instant),
        job: &BenchmarkJob,
        variant: &Variant,
        levels: &mut Vec<ConcurrencyLevel>,
    ) -> anyhow::Result<()> {
        let per_s = measured.per_s.unwrap_or(0.0);
        self.listener.observe(&SessionEvent::Visited { level, per_s })?;
        let block = scaling::add_visits(levels, level, [per_s]).throughputs.len() as u32 - 1;
        let observation = snippet::to_observation(measured, &job_at_level(job, level));
        for metric in &observation.metrics {
            self.recorder.observe(&SessionEvent::Declared(metric))?;
        }
        self.recorder.observe(&SessionEvent::RunFinished(&Run {
            started_unix_ms,
            wall_ns: begin.elapsed().as_nanos() as u64,
            samples: observation.samples,
            notes: observation.notes,
            ..Run::empty(observation.case, variant.name.as_str(), self.slot, block)
        }))?;
        self.recorder.observe(&SessionEvent::SlotsDone(&[self.slot]))?;
        self.slot += 1;
        Ok(())
    }
}

/// Measures a level once. Returns `None` if the user interrupted before there was a result.
fn measure_level(
    harness: &mut LiveHarness,
    level: u32,
    context: &RunContext<'_>,
) -> Result<Option<SnippetTiming>, HarnessFailure> {
    harness.set_workers("code", level)?.check_fault("code")?;
    let samples = &context.samples;
    let expected = expected_duration(samples, context.limit());
    let reply = harness.run_jobs(&["code".to_owned()], samples, false, expected, &mut |_| {})?;
    Ok(reply.check_fault("code")?.timing("code", samples))
}

fn job_at_level(job: &BenchmarkJob, level: u32) -> BenchmarkJob {
    let mut job = job.clone();
    let case = job.case.get_or_insert_with(|| Case::new(&job.source.name, Vec::new()));
    let concurrency = ParameterValue::Number(level.into());
    case.values.push(("concurrency".to_owned(), concurrency));
    job.label = case.id();
    job
}
