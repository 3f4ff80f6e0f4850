//! `speedwell eval`: measures snippets.
//!
//! The command has three modes. By default, it measures snippets in planned runs, the way benchmark
//! files are measured. It can also search for the best concurrency ([`search_concurrency`]) or watch
//! snippets ([`watch`]). Start at [`run`].

use crate::options::{Concurrency, EvalArgs, SearchArgs, join_lines, read_snippets};
use crate::rehearsal::ANNOUNCED_TIME;
use crate::{CommandStatus, gate, push, run as measuring, status, stored_session, suggest};
use anyhow::{Context, Result, bail, ensure};
use speedwell_adapters::snippet::{
    self, CommandAnswer, HarnessFailure, LiveHarness, expected_duration,
};
use speedwell_adapters::{self as adapters, BenchmarkJob, ProtocolMessage, RunContext};
use speedwell_analysis::scaling::{self, ConcurrencyLevel, SaturationRules};
use speedwell_engine::eval::{EvalRequest, plan_snippets};
use speedwell_engine::execution::SessionEnd;
use speedwell_engine::experiment::measuring_time;
use speedwell_engine::rehearsal::rehearse_plan;
use speedwell_engine::{
    EventListener, PreparedPlan, SessionRequest, check_layout, check_processors, session_header,
    warn_if_busy,
};
use speedwell_machine::environment::ProcessWatch;
use speedwell_machine::process::{self, ProcessEnd, is_interrupt_requested, unix_time_ms};
use speedwell_model::{
    Case, ParameterValue, Run, SampleDivision, SampleLength, Session, SessionEvent,
    SessionObserver, Snippet, SnippetLanguage, SnippetTiming, Variant,
};
use speedwell_report::{ReportFormat, ReportSubject, WatchLine, WatchLines};
use speedwell_store::{SessionRecorder, Store};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Measures snippets in the requested mode.
///
/// # Errors
/// Fails if an option is invalid, a file cannot be read, or the store cannot be written.
pub fn run(args: EvalArgs) -> Result<CommandStatus> {
    process::prepare_to_measure()?;
    let parameters = args.parameters.snippet_parameters()?;
    let [setup, cleanup] = args.commands.fill_hooks(&Case::cartesian_product(&parameters)?)?;
    if args.execution.list || (setup.is_none() && cleanup.is_none()) {
        return measure_snippets(&args, parameters);
    }
    ensure!(
        args.results.fleet.machines.is_none(),
        "--setup and --cleanup run on this machine only\nhint: --prepare runs where the command does"
    );
    if let Some(line) = &setup {
        execute_line("--setup", line)?;
    }
    let measured = measure_snippets(&args, parameters);
    if let Some(line) = &cleanup {
        // An interrupt of the measurement is not meant for the line.
        let is_interrupted = is_interrupt_requested();
        process::clear_interrupt();
        let cleaned = execute_line("--cleanup", line);
        if is_interrupted {
            process::request_interrupt();
        }
        if measured.is_ok() {
            cleaned?;
        }
    }
    measured
}

/// Maximum time between a request to end a line and its end.
const GRACE: Duration = Duration::from_secs(10);

/// Executes the line of an option in a shell. Its output goes to stderr, because stdout is for
/// results.
fn execute_line(option: &str, line: &str) -> Result<()> {
    let arguments = ["-c".to_owned(), format!("exec >&2\n{line}")];
    match process::run_attached(Path::new("sh"), &arguments, &std::env::current_dir()?, GRACE)? {
        ProcessEnd::Exit(0) => Ok(()),
        ProcessEnd::Interrupted => Err(process::InterruptedEarly.into()),
        ended => bail!("{option} '{line}' {ended}"),
    }
}

fn measure_snippets(
    args: &EvalArgs,
    parameters: Vec<(String, Vec<ParameterValue>)>,
) -> Result<CommandStatus> {
    if let Some(session) = &args.execution.resume {
        let mut store = args.results.store.open_store()?;
        let task = args.eval_task();
        let plans = stored_session::load_interrupted_plan(&store, session, &task)?;
        return measuring::execute_plans(plans, &mut store, &task);
    }
    let snippets = read_snippets(args.language(), &args.snippets, &args.snippet, &parameters)?;
    let request = args.eval_request(snippets, parameters)?;
    if args.watch {
        return watch(args, request);
    }
    if args.search.squeeze || args.concurrency == Some(Concurrency::Max) {
        return search_concurrency(args, request);
    }
    let task = args.eval_task();
    let plans = plan_snippets(request, &mut task.progress_display())?;
    explain_samples(args, &plans);
    let mut store = task.open_store()?;
    measuring::execute_plans(plans, &mut store, &task)
}

/// Says what `-n` means if the session takes long with it: in timeit, it is the number of iterations.
fn explain_samples(args: &EvalArgs, plans: &PreparedPlan) {
    let is_measured = !args.execution.list && !args.execution.test;
    let Some(samples) = args.sampling.samples.filter(|_| is_measured) else { return };
    let is_long = measuring_time(&plans.plan).is_some_and(|time| time >= ANNOUNCED_TIME);
    if args.language() == SnippetLanguage::Sh || args.results.output.quiet || !is_long {
        return;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(line) = suggest::translate_timeit(&words) else { return };
    status::print_hint(&format!(
        "-n {samples} measures {samples} samples in each run; as in timeit, with {samples} iterations: speedwell {line}"
    ));
}

/// Searches for the best concurrency and reports it.
fn search_concurrency(args: &EvalArgs, request: EvalRequest) -> Result<CommandStatus> {
    args.results.output.check_report(ReportSubject::SnippetSearch)?;
    ensure!(
        args.execution.reject.is_none(),
        "--reject repeats runs at the end of their block, but a search has no blocks"
    );
    let task = args.eval_task();
    let mut progress = task.progress_display();
    let plans = plan_search(request, &mut progress)?;
    gate::reject_single_variant(plans.plan.variants.len(), task.fail_on)?;
    warn_if_busy(&mut progress)?;
    let mut store = task.open_store()?;
    let rules =
        args.search.search_request(args.sampling.runs).search_rules(1, SearchArgs::MAX_WORKERS);
    let (session, end) =
        search_snippets(plans, rules, &task.session_request(), &mut store, &mut progress)?;
    let status = match end {
        SessionEnd::Failed => CommandStatus::FAILED,
        end => CommandStatus::from_session_end(end),
    };
    let report_status = measuring::report_session(&session, &task).and_then(|gate| {
        gate.store_line(session.number.unwrap_or_default(), &mut store)?;
        Ok(gate.exit_status())
    });
    let push_status = push::push_pending(&task.owing, &session, &mut store)?;
    Ok(status.combine_with_gate(report_status?).combine_with_gate(push_status))
}

/// Default division of a visit (one measurement of a level) into samples. Many short visits tell
/// more than a few long ones, because the spread within a visit does not show how much visits
/// differ.
const VISIT_SAMPLES: SampleDivision =
    SampleDivision { count: 3, length: SampleLength::TimeNs(100_000_000), warmup_ns: 100_000_000 };

/// Plans a search in which every snippet has its own process.
///
/// # Errors
/// Fails if other options conflict with a search.
fn plan_search(request: EvalRequest, listener: &mut EventListener<'_>) -> Result<PreparedPlan> {
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
fn search_snippets(
    plans: PreparedPlan,
    rules: SaturationRules,
    request: &SessionRequest,
    store: &mut Store,
    listener: &mut EventListener<'_>,
) -> Result<(Session, SessionEnd)> {
    let PreparedPlan { plan, suite, .. } = plans;
    rehearse_plan(&plan, &suite.failures, &request.settings)?;
    let header = session_header(&plan, suite, request);
    let recorder = store.begin_recording(&header, &serde_json::to_string(&plan)?)?;
    let number = recorder.number();
    let mut search = ConcurrencySearch { rules, listener, recorder, slot: 0 };
    let mut failed = false;
    for job in &plan.jobs {
        for variant in &plan.variants {
            let variant_job = job.under(variant);
            let context = plan.run_context(&variant_job, variant, search.slot);
            failed |= !search.search_snippet(&context)?;
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
    fn search_snippet(&mut self, context: &RunContext<'_>) -> Result<bool> {
        match self.visit_levels(context) {
            Ok(stored) => stored.map(|()| true),
            Err(harness_failure) => {
                let failure = snippet::shared_process_failure(harness_failure, context);
                self.recorder.observe(&SessionEvent::Failed(&failure))?;
                Ok(false)
            }
        }
    }

    /// Measures and stores one level after the other. The outer result is an error if the measured
    /// process fails, the inner result if the store cannot be written.
    fn visit_levels(&mut self, context: &RunContext<'_>) -> Result<Result<()>, HarnessFailure> {
        let (job, variant) = (context.job, context.variant);
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
    ) -> Result<()> {
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

/// Default length of a window.
const DEFAULT_WINDOW: Duration = Duration::from_secs(1);

/// Prints throughput, the runtime's own gauges, and the machine's load, one line per second or per
/// interval of `--time`. Lines are data: they go to standard output as text, CSV or JSON. Watches
/// until the user interrupts, or until the requested number of lines is printed.
///
/// # Errors
/// Fails if an option conflicts with watching, or the output cannot be written.
fn watch(args: &EvalArgs, request: EvalRequest) -> Result<CommandStatus> {
    ensure!(
        args.sampling.iterations.is_none(),
        "--watch measures time windows, so --iterations has no effect\nhint: -t 2s sets the length of a window"
    );
    ensure!(
        !args.variants.is_any(),
        "--watch measures a single program\nhint: leave out --variant, --old and --new, or --watch"
    );
    let interval = args.sampling.time.unwrap_or(DEFAULT_WINDOW);
    let samples = SampleDivision {
        count: args.sampling.samples.unwrap_or(u32::MAX),
        length: SampleLength::TimeNs(interval.as_nanos() as u64),
        warmup_ns: args.sampling.warmup_ns().unwrap_or(0),
    };
    let PreparedPlan { plan, .. } =
        plan_snippets(request, &mut args.eval_task().progress_display())?;
    if let Some(pin) = &plan.pin {
        pin.check_usable().context("in --pin")?;
    }
    let snippets = watched_snippets(&plan.jobs, &plan.variants);
    if snippets.len() > 1 && args.language().is_compiled() {
        bail!(
            "{} is compiled, so each snippet is a separate program, but --watch measures a single one\n\
             hint: give one snippet",
            args.language()
        );
    }
    let format = args.results.output.output_format().unwrap_or(ReportFormat::Text);
    match watch_snippets(&snippets, &plan.jobs[0], &samples, interval, format) {
        Ok(written) => written.map(|()| CommandStatus::DONE),
        Err(failure) => {
            warn_failure(&failure, &plan.jobs[0], &plan.variants[0]);
            Ok(CommandStatus::FAILED)
        }
    }
}

/// Lists every snippet with its name and worker count.
fn watched_snippets(jobs: &[BenchmarkJob], variants: &[Variant]) -> Vec<WatchedSnippet> {
    let mut snippets = Vec::new();
    for job in jobs {
        let workers = job.worker_count();
        match &job.snippet {
            Some(snippet) => snippets.push((join_lines(&snippet.runner), snippet.clone(), workers)),
            None => snippets.extend(variants.iter().filter_map(|variant| {
                Some((variant.name.clone(), variant.snippet.clone()?, workers))
            })),
        }
    }
    snippets
}

/// A snippet with its name and worker count.
type WatchedSnippet = (String, Snippet, u32);

/// Watches until all requested samples are taken or standard output is closed. The outer result is
/// an error if the measured process fails, the inner result if a line cannot be written.
fn watch_snippets(
    snippets: &[WatchedSnippet],
    job: &BenchmarkJob,
    samples: &SampleDivision,
    interval: Duration,
    format: ReportFormat,
) -> Result<Result<()>, HarnessFailure> {
    let names: Vec<String> = (0..snippets.len()).map(|index| format!("code{index}")).collect();
    let (mut live, gauges, first) = open_process(snippets, &names, job, interval)?;
    let snippet_names = snippets.iter().map(|snippet| snippet.0.clone()).collect();
    let mut state = WatchState {
        process_watch: Some(ProcessWatch::new(live.pid())),
        pid: live.pid(),
        last_counts: BTreeMap::new(),
        gauges: BTreeMap::new(),
        rates: BTreeMap::new(),
        lines: WatchLines::new(format, snippet_names, &gauges),
    };
    let mut write_result =
        first.events.iter().try_for_each(|event| state.apply_event(event, &names));
    if write_result.is_err() {
        return Ok(write_result);
    }
    let unlimited = LiveHarness::MAX_LIFETIME / 4;
    let answer = live.run_jobs(&names, samples, true, unlimited, &mut |event| {
        if write_result.is_ok() {
            write_result = state.apply_event(event, &names);
            if write_result.is_err() {
                process::request_interrupt();
            }
        }
    });
    if write_result.is_err() {
        let shut_down_result = live.shut_down();
        let written = status::ignore_closed_pipe(write_result);
        return if written.is_err() { Ok(written) } else { shut_down_result.map(|_| written) };
    }
    let answer = answer?;
    if let Some(cause) = names.iter().find_map(|name| answer.find_fault(name)) {
        return Err(cause.into());
    }
    for ((name, ..), job) in snippets.iter().zip(&names) {
        let conclusion = state.lines.format_conclusion(name, answer.timing(job, samples).as_ref());
        if let Some(conclusion) = conclusion {
            status::print_note(&conclusion);
        }
    }
    live.shut_down().map(|_| Ok(()))
}

/// Starts a process with all snippets and gauges. Returns the process, the names of the gauges, and
/// their first values.
fn open_process(
    snippets: &[WatchedSnippet],
    names: &[String],
    job: &BenchmarkJob,
    interval: Duration,
) -> Result<(LiveHarness, Vec<String>, CommandAnswer), HarnessFailure> {
    let plain = Variant::plain("watched");
    let program = adapters::resolve_program_for(&job.source, &plain);
    let folder = &job.source.directory;
    let (mut live, ready) = LiveHarness::open(&snippets[0].1, &program, &plain, folder, None)?;
    let gauges = ready.first("ready").map(|ready| ready.list("gauges"));
    for (name, (_, snippet, workers)) in names.iter().zip(snippets) {
        live.load_snippet(name, snippet)?.check_fault(name)?;
        live.set_workers(name, *workers)?.check_fault(name)?;
    }
    let first = live.start_gauges(interval)?;
    Ok((live, gauges.unwrap_or_default(), first))
}

/// The watched process, and the most recent values received from it.
struct WatchState {
    /// `None` if the measured process runs on another machine.
    process_watch: Option<ProcessWatch>,
    /// Id of the measured process.
    pid: i32,
    /// For each job, the time and the iteration count at the last sample.
    last_counts: BTreeMap<String, (u64, u64)>,
    gauges: BTreeMap<String, String>,
    /// Throughput and number of workers, for each job that has reported since the last line.
    rates: BTreeMap<String, (f64, u32)>,
    lines: WatchLines,
}

impl WatchState {
    /// Follows the measured process if it is not the harness itself but, for example, a running
    /// Erlang node.
    fn follow_process(&mut self, pid: Option<i32>) {
        let Some(pid) = pid.filter(|pid| *pid != self.pid) else { return };
        self.pid = pid;
        self.process_watch = (pid > 0).then(|| ProcessWatch::new(pid));
    }

    fn apply_event(&mut self, event: &ProtocolMessage, jobs: &[String]) -> Result<()> {
        if event.verb == "gauge" {
            self.follow_process(event.parse_number("pid"));
            for key in event.keys().filter(|key| !matches!(*key, "id" | "t_ns" | "pid")) {
                self.gauges.insert(key.to_owned(), event.get(key).unwrap_or_default());
            }
        }
        if event.verb != "sample" {
            return Ok(());
        }
        let job = event.get("job").unwrap_or_default();
        let (Some(t_ns), Some(count)) = (event.parse_number("t_ns"), event.parse_number("count"))
        else {
            return Ok(());
        };
        let (from_ns, before) =
            self.last_counts.insert(job.clone(), (t_ns, count)).unwrap_or((0, 0));
        let workers = event.parse_number::<u32>("workers").unwrap_or(1);
        let seconds = t_ns.saturating_sub(from_ns) as f64 / 1e9;
        let is_first = event.parse_number::<u64>("k") == Some(0);
        if is_first || seconds <= 0.0 {
            return Ok(());
        }
        let per_s = count.saturating_sub(before) as f64 / seconds;
        self.rates.insert(job, (per_s, workers));
        if self.rates.len() < jobs.len() {
            return Ok(());
        }
        let rates = std::mem::take(&mut self.rates);
        let process_watch = self.process_watch.as_mut();
        let line = WatchLine {
            snippets: jobs.iter().filter_map(|job| rates.get(job).copied()).collect(),
            gauges: self.gauges.clone(),
            machine: process_watch.map(ProcessWatch::take_snapshot).unwrap_or_default(),
        };
        let mut out = std::io::stdout().lock();
        out.write_all(self.lines.format_line(&line).as_bytes())?;
        Ok(out.flush()?)
    }
}

/// Reports on standard error what went wrong.
fn warn_failure(failure: &HarnessFailure, job: &BenchmarkJob, variant: &Variant) {
    let text = failure.cause.to_string();
    status::print_warning(&format!(
        "{}: {text}",
        job.snippet.as_ref().map_or(&variant.name, |snippet| &snippet.runner)
    ));
    if !failure.output.is_empty() {
        let tail = speedwell_report::escape_controls(failure.output.trim_end());
        let _ = writeln!(std::io::stderr(), "{tail}");
    }
}
