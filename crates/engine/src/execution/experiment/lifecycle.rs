//! Runs a command, a server or a load under measurement from start to end, stage by stage. Every
//! stage has its own time limit and reports its own failure.
//!
//! Decides which metrics of a load become metrics of the run, and when a load is treated as failed.
//! A run that is profiled instead of timed goes through the same stages, with a profiler attached.
//! This module decides which tool may be used and when a server is recorded; `execution/profile`
//! does the recording. Start at [`run_command`], [`run_server`] and [`send_load`].

use super::assertions::{self, ProofSources, replace_path, send_get};
use super::metrics::{
    self, ActiveCounters, CapturedOutput, InstructionCounter, LoadResult, RunReport, StageResult,
    stage_error, stage_failure,
};
use super::site::{RunSite, find_listener};
use crate::execution::load::{LoadNotice, load_with_tool, run_load_with_sender, send_locally};
use crate::execution::profile::{ActiveRecording, ProfileRecorder, RecordingTool};
use crate::execution::server::{
    ReadinessFailure, TAIL_LINES, describe_listeners, wait_until_ready,
};
use speedwell_formats::load_session;
use speedwell_machine::process::{
    self, ChildConversation, ProcessEnd, ProcessOutcome, ProcessSpec, ServiceProcess, WaitClock,
    tree_of,
};
use speedwell_model::assignment::{
    LoadWarmup, ProfilingOptions, ProfilingTool, RunAssignment, ServerWork as Serving,
};
use speedwell_model::load::measurement::LoadRun;
use speedwell_model::load::outcomes::ErrorClass;
use speedwell_model::load::spec::{LoadClient, LoadSpec};
use speedwell_model::stage_report::{ReportedMetric, RunStage, StageFailure};
use speedwell_model::{Metric, MetricDirection, Session};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Names of the request rate in the results of the built-in generator and of other tools.
const RATE_METRICS: [&str; 2] = ["throughput", "requests_per_second"];

/// Maximum difference in percent between the results of two consecutive seconds of a steady server.
const STEADY_PERCENT: f64 = 5.0;

/// Performs the run of a command.
///
/// # Errors
/// Returns the stage that failed.
pub fn run_command(
    assignment: &RunAssignment,
    spec: ProcessSpec,
    report: &mut RunReport,
) -> StageResult<()> {
    let mut output = CapturedOutput::default();
    let counter = metrics::open_if_wanted(assignment, report);
    let (started, begin) = (SystemTime::now(), Instant::now());
    let profiler = RunProfiler::from_request(assignment.profile.as_ref());
    let outcome = match &profiler {
        Some(profiler) => profiler.record(spec, &mut output, report)?,
        None => process::run_child(&spec, &mut output).map_err(|error| {
            let program = spec.program.display();
            stage_failure(RunStage::Start, format!("'{program}': {error}"))
        })?,
    };
    let with_stderr = |failure: StageFailure| StageFailure {
        stderr_tail: outcome.stderr.last_lines(TAIL_LINES),
        ..failure
    };
    check_exit(assignment, &outcome).map_err(with_stderr)?;
    let sources = ProofSources {
        output: &output,
        directory: &assignment.target.directory,
        since: started,
        clock: WaitClock::REAL,
        ask: &|_| Err("a command does not answer requests".to_owned()),
    };
    for at_exit in [false, true] {
        assertions::check_proofs(&assignment.proofs, at_exit, &sources).map_err(with_stderr)?;
    }
    if profiler.is_some() {
        return Ok(());
    }
    for figure in &assignment.figures {
        let values =
            metrics::extract_values(figure, &output, begin, &outcome).map_err(|reason| {
                let reason = format!("'{}': {reason}", figure.metric.name);
                with_stderr(stage_failure(RunStage::Figures, reason))
            })?;
        report.performed.figures.push(ReportedMetric::new(figure.metric.clone(), values));
    }
    metrics::add_command_metrics(&outcome, counter.and_then(|counter| counter.read()), report);
    report.performed.notes.extend(outcome.describe_leftovers());
    Ok(())
}

fn check_exit(assignment: &RunAssignment, outcome: &ProcessOutcome) -> StageResult<()> {
    let expected = assignment.target.expected_exit;
    let end = match outcome.ended {
        ProcessEnd::Exit(code) if code == expected => return Ok(()),
        ProcessEnd::Exit(_) if expected != 0 => format!("{} instead of {expected}", outcome.ended),
        ProcessEnd::Exit(_) | ProcessEnd::Signal(_) => outcome.ended.to_string(),
        ProcessEnd::Timeout => {
            format!("did not end within {} s", assignment.target.limit_ms as f64 / 1e3)
        }
        ProcessEnd::Lingered => "did not end".to_owned(),
        ProcessEnd::Interrupted => "interrupted".to_owned(),
    };
    // The message gives the duration in whole seconds, and leaves it out if it is below one second.
    // Similar failures therefore have the same message and can be grouped.
    let duration_clause = match outcome.wall_ns / 1_000_000_000 {
        0 => String::new(),
        wall_s => format!(" after {wall_s} s"),
    };
    Err(stage_failure(RunStage::Alive, format!("{end}{duration_clause}")))
}

/// Performs the run of a server.
///
/// # Errors
/// Returns the stage that failed. `report` then contains what was measured before the failure.
pub fn run_server(
    assignment: &RunAssignment,
    serving: &Serving,
    (seed, site): (u64, &RunSite<'_>),
    (port, mut spec): (u16, ProcessSpec),
    report: &mut RunReport,
) -> StageResult<()> {
    let counter = metrics::open_if_wanted(assignment, report);
    let profiler = RunProfiler::from_request(assignment.profile.as_ref());
    if let Some(profiler) = &profiler {
        profiler.recorder.prepare(&mut spec);
    }
    let output = CapturedOutput::default();
    let (started, begin) = (SystemTime::now(), Instant::now());
    let program = spec.program.display().to_string();
    let service = ServiceProcess::start_with_conversation(spec, output.clone())
        .map_err(|error| stage_failure(RunStage::Start, format!("'{program}': {error}")))?;
    let mut server = ServerLifecycle {
        url: serving.load.spec.url.replace("{port}", &port.to_string()),
        address: SocketAddr::new(site.host(), port),
        ready_ns: 0,
        assignment,
        serving,
        seed,
        site,
        service,
        output,
        port,
        started,
        begin,
        profiler,
    };
    let mut load_result = match server.measure(counter.as_ref(), report) {
        Ok(load_result) => load_result,
        Err(failure) => return Err(stop_failed(server.service, failure)),
    };
    if let Some(recording) = load_result.recording.take() {
        server.stop_server(report)?;
        let profile = recording.read_profile().map_err(stage_error(RunStage::Profile))?;
        report.profile = Some(profile);
        return Ok(());
    }
    metrics::add_server_metrics(&load_result, server.ready_ns, report);
    report.load = load_result.load;
    server.stop_server(report)
}

pub fn stop_service(service: ServiceProcess) -> StageResult<ProcessOutcome> {
    service.stop_and_wait().map_err(|error| stage_failure(RunStage::Stop, error.to_string()))
}

/// Stops a process that failed, and adds its last stderr lines to the failure. If the process had
/// already ended, also adds its exit to the reason.
pub fn stop_failed(service: ServiceProcess, mut failure: StageFailure) -> StageFailure {
    let has_ended = service.has_ended();
    if let Ok(outcome) = service.stop_and_wait() {
        if has_ended {
            failure.reason = format!("{}: {}", failure.reason, outcome.ended);
        }
        failure.stderr_tail = outcome.stderr.last_lines(TAIL_LINES);
    }
    failure
}

/// A running server.
struct ServerLifecycle<'a> {
    assignment: &'a RunAssignment,
    serving: &'a Serving,
    seed: u64,
    site: &'a RunSite<'a>,
    service: ServiceProcess,
    output: CapturedOutput,
    port: u16,
    url: String,
    started: SystemTime,
    begin: Instant,
    /// Listening address, once the server is ready.
    address: SocketAddr,
    /// Time from the start of the server until it was ready.
    ready_ns: u64,
    profiler: Option<RunProfiler>,
}

impl ServerLifecycle<'_> {
    fn wait_until_ready(&self) -> StageResult<(SocketAddr, u64)> {
        let limit = Duration::from_millis(self.serving.ready.within_ms);
        let result = wait_until_ready(&self.service, self.begin, limit, || self.check_ready());
        result.map_err(|failure| stage_failure(RunStage::Ready, failure.reason(limit)))
    }

    /// Checks whether the server is ready, and returns the address on which it listens.
    fn check_ready(&self) -> Result<SocketAddr, ReadinessFailure> {
        let address = find_listener(self.site, self.port, self.service.pid())?;
        let ready = &self.serving.ready;
        if let Some(path) = &ready.path {
            let url = replace_path(&self.url, path);
            let probe = send_get(&url).map_err(ReadinessFailure::NotYet)?;
            if probe.facts.status != ready.status {
                return Err(ReadinessFailure::NotYet(format!(
                    "'{url}' answers {} instead of {}",
                    probe.facts.status, ready.status
                )));
            }
        }
        if let Some(expected) = self.serving.children {
            let actual = self.child_pids().len();
            if actual != expected as usize {
                return Err(ReadinessFailure::NotYet(format!(
                    "the server has {actual} children instead of {expected}"
                )));
            }
        }
        Ok(address)
    }

    /// Returns the processes of the target, without the root process.
    fn child_pids(&self) -> BTreeSet<i32> {
        let root_pid = self.service.pid();
        tree_of(root_pid).into_iter().filter(|pid| *pid != root_pid).collect()
    }

    /// Starts recording a profile if recording is to begin now: at the end of the warm-up if
    /// `is_warm` is set, else at the start of the server.
    ///
    /// # Errors
    /// Fails if V8's profiler was requested or perf is unavailable: only perf can record a running
    /// program.
    fn attach_profiler(&self, is_warm: bool) -> StageResult<Option<ActiveRecording>> {
        let Some(profiler) = &self.profiler else { return Ok(None) };
        if is_warm != profiler.options.after_warmup {
            return Ok(None);
        }
        if profiler.options.tool == ProfilingTool::V8 {
            let reason = "only perf can record a server: V8's profiler records only programs that end by themselves";
            return Err(stage_failure(RunStage::Profile, reason));
        }
        let home = &self.assignment.target.directory;
        let recording = profiler.recorder.attach(self.service.pid(), home);
        recording.map(Some).map_err(stage_error(RunStage::Profile))
    }

    /// Runs the stages of a server that has started: waits until it is ready, checks the proofs
    /// that the variant took effect, verifies a response, sends the warm-up and the measured load,
    /// and then checks the results and the server.
    fn measure(
        &mut self,
        counter: Option<&InstructionCounter>,
        report: &mut RunReport,
    ) -> StageResult<LoadResult> {
        let attached_at_start = self.attach_profiler(false)?;
        (self.address, self.ready_ns) = self.wait_until_ready()?;
        self.check_proofs(false)?;
        self.verify_response(RunStage::Verify)?;
        self.warm_up(report)?;
        let attached = attached_at_start.or(self.attach_profiler(true)?);
        let children_before = self.child_pids();
        let counters = ActiveCounters::begin(self.service.pid(), counter);
        let load_result = self.measure_load();
        let (spent, instructions) = counters.end();
        let peak_rss_bytes = process::peak_rss_bytes_of(self.service.pid());
        let stopped = attached.map(ActiveRecording::stop_recording).transpose();
        let (session, load) = load_result?;
        let recording = stopped.map_err(stage_error(RunStage::Profile))?;
        self.check_all_served(&session, load.as_ref())?;
        self.verify_response(RunStage::VerifyAgain)?;
        self.check_unchanged(&children_before)?;
        Ok(LoadResult { session, load, spent, instructions, peak_rss_bytes, recording })
    }

    fn check_proofs(&self, at_exit: bool) -> StageResult<()> {
        let request_path = |path: &str| {
            let probe = send_get(&replace_path(&self.url, path))?;
            Ok(String::from_utf8_lossy(&probe.body).into_owned())
        };
        let sources = ProofSources {
            output: &self.output,
            directory: &self.assignment.target.directory,
            since: self.started,
            clock: self.service.clock(),
            ask: &request_path,
        };
        assertions::check_proofs(&self.assignment.proofs, at_exit, &sources)
    }

    fn verify_response(&self, stage: RunStage) -> StageResult<()> {
        let (rule, traffic) = (&self.serving.verify, &self.serving.load);
        assertions::check_response(rule, &traffic.spec, &self.url)
            .map_err(|reason| stage_failure(stage, reason))
    }

    /// Sends the warm-up load, always with the built-in generator.
    fn warm_up(&self, report: &mut RunReport) -> StageResult<()> {
        let traffic = &self.serving.load;
        let spec =
            LoadSpec { client: LoadClient::Builtin, count: None, time: None, ..self.load_spec() };
        let (spec, limit_ms) = match traffic.warmup {
            LoadWarmup::None => return Ok(()),
            // Fewer requests than connections would leave some connections unused.
            LoadWarmup::Requests(count) => {
                let requests = count.max(u64::from(traffic.in_flight()));
                (LoadSpec { count: Some(requests), ..spec }, None)
            }
            LoadWarmup::DurationMs(ms) => {
                (LoadSpec { time: Some(Duration::from_millis(ms)), ..spec }, None)
            }
            LoadWarmup::SteadyMs(ms) => {
                let (time, until_steady) = (Some(Duration::from_millis(ms)), Some(STEADY_PERCENT));
                (LoadSpec { time, until_steady, ..spec }, Some(ms))
            }
        };
        let run = self.send_builtin(RunStage::Warmup, &spec)?;
        if let Some(ms) = limit_ms
            && run.measured.elapsed_ns >= ms * 1_000_000
        {
            report.performed.notes.push(format!(
                "The server did not become steady within the {} s of warm-up.",
                ms as f64 / 1e3
            ));
        }
        Ok(())
    }

    fn measure_load(&self) -> StageResult<(Session, Option<LoadRun>)> {
        let spec = self.load_spec();
        if spec.client != LoadClient::Builtin {
            let spec = LoadSpec { no_verify: true, ..spec };
            let session = load_with_tool(None, &spec, self.seed, &mut |_| ())
                .map_err(stage_error(RunStage::Load))?
                .ok_or_else(|| stage_failure(RunStage::Load, "interrupted"))?;
            return Ok((session, None));
        }
        let run = self.send_builtin(RunStage::Load, &spec)?;
        Ok((load_session(&run).map_err(stage_error(RunStage::Load))?, Some(run)))
    }

    /// Returns the load with the address of this server. The load expects the same statuses as the
    /// verification, unless the verification requests another path.
    fn load_spec(&self) -> LoadSpec {
        let mut spec = self.serving.load.spec.clone();
        spec.url.clone_from(&self.url);
        let rules = &self.serving.verify;
        // A load expects a status from 200 to 299 by default.
        if rules.path.is_none() && rules.statuses != [(200, 299)] {
            spec.expect_status = rules.statuses.iter().map(|(from, to)| *from..=*to).collect();
        }
        spec
    }

    fn send_builtin(&self, stage: RunStage, spec: &LoadSpec) -> StageResult<LoadRun> {
        let service = &self.service;
        let result = process::with_stop_flag(
            || service.has_ended(),
            |stop| (self.site.sender)(spec, self.seed, self.address, stop),
        );
        let has_lost_server = result.as_ref().is_ok_and(|run| run.measured.has_lost_server());
        let has_ended = if has_lost_server { service.is_dying() } else { service.has_ended() };
        if has_ended {
            return Err(stage_failure(stage, "the server ended during the load"));
        }
        let run = result.map_err(stage_error(stage))?;
        if run.measured.is_interrupted {
            return Err(stage_failure(stage, "interrupted"));
        }
        Ok(run)
    }

    /// Checks that every request succeeded, and that no request of the load is missing.
    fn check_all_served(&self, session: &Session, load: Option<&LoadRun>) -> StageResult<()> {
        let Some(load) = load else { return check_tool_errors(session) };
        check_no_failures(load)?;
        let counts = &load.measured.totals.outcomes;
        match self.serving.load.spec.count {
            Some(requested) if counts.succeeded() != requested => {
                let reason = format!("{} requests instead of {requested}", counts.succeeded());
                Err(stage_failure(RunStage::Served, reason))
            }
            _ if counts.succeeded() == 0 => {
                Err(stage_failure(RunStage::Served, "no request succeeded"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the server is alive and has the same children as before the load.
    fn check_unchanged(&self, children_before: &BTreeSet<i32>) -> StageResult<()> {
        if self.service.has_ended() {
            return Err(stage_failure(RunStage::Alive, "the server ended after the load"));
        }
        let children = self.child_pids();
        if children == *children_before {
            return Ok(());
        }
        let lost = children_before.difference(&children).count();
        let new = children.difference(children_before).count();
        let reason = format!(
            "{lost} of the server's children exited during the load, and {new} new ones started"
        );
        Err(stage_failure(RunStage::Alive, reason))
    }

    /// Stops the target and checks how it ended.
    fn stop_server(self, report: &mut RunReport) -> StageResult<()> {
        let has_ended = self.service.has_ended();
        let outcome = stop_service(self.service)?;
        let with_stderr = |failure: StageFailure| StageFailure {
            stderr_tail: outcome.stderr.last_lines(TAIL_LINES),
            ..failure
        };
        if has_ended {
            let reason = format!("the server ended by itself: {}", outcome.ended);
            return Err(with_stderr(stage_failure(RunStage::Alive, reason)));
        }
        metrics::add_shutdown_metrics(&outcome, report);
        let sources = ProofSources {
            output: &self.output,
            directory: &self.assignment.target.directory,
            since: self.started,
            clock: WaitClock::REAL,
            ask: &|_| Err(format!("the server at '{}' has ended", self.url)),
        };
        assertions::check_proofs(&self.assignment.proofs, true, &sources).map_err(with_stderr)?;
        let was_killed = outcome.shutdown.is_some_and(|shutdown| shutdown.was_killed);
        if was_killed {
            let grace = Duration::from_millis(self.serving.stop.grace_ms).as_secs_f64();
            let reason = format!(
                "the server did not end within {grace} s of signal {} and was killed",
                self.serving.stop.signal
            );
            return Err(with_stderr(stage_failure(RunStage::Stop, reason)));
        }
        let mut addresses = self.site.listen_addresses(self.port).into_iter();
        if addresses.any(|address| describe_listeners(&address).is_some()) {
            let reason = format!("port {} is still in use", self.port);
            return Err(stage_failure(RunStage::Stop, reason));
        }
        Ok(())
    }
}

/// Sends the load of a `[benchmark.NAME]` table. Starts `server` first, if there is one.
///
/// # Errors
/// Returns the stage that failed.
pub fn send_load(
    spec: &LoadSpec,
    server: Option<ProcessSpec>,
    seed: u64,
    report: &mut RunReport,
) -> StageResult<()> {
    let mut stage = if server.is_some() { RunStage::Ready } else { RunStage::Verify };
    let mut notes = Vec::new();
    let mut notify = |notice: LoadNotice| match notice {
        LoadNotice::Served => stage = RunStage::Verify,
        LoadNotice::Probed(..) => stage = RunStage::Load,
        LoadNotice::Warning(warning) => notes.push(warning.to_owned()),
        LoadNotice::Standing(_) => {}
    };
    if spec.client == LoadClient::Builtin {
        let result = run_load_with_sender(server, spec, seed, &mut send_locally, &mut notify);
        report.performed.notes.extend(notes);
        let load = result.map_err(|error| load_failure(stage, &error))?;
        return record_load(&load, report);
    }
    let result = load_with_tool(server, spec, seed, &mut notify);
    report.performed.notes.extend(notes);
    let session = result
        .map_err(|error| load_failure(stage, &error))?
        .ok_or_else(|| stage_failure(RunStage::Load, "interrupted"))?;
    check_tool_errors(&session)?;
    add_load_metrics(&session, report)
}

/// Builds the failure of a load. The first lines of the error messages become the reason, joined
/// into one line. All other lines, such as hints and the server's last output, become the stderr.
fn load_failure(stage: RunStage, error: &anyhow::Error) -> StageFailure {
    let messages: Vec<String> = error.chain().map(ToString::to_string).collect();
    let first = |message: &String| message.lines().next().unwrap_or_default().to_owned();
    let reasons: Vec<String> = messages.iter().map(first).collect();
    let other_lines = messages.iter().flat_map(|message| message.lines().skip(1));
    StageFailure {
        stage,
        reason: reasons.join(": "),
        stderr_tail: other_lines.collect::<Vec<_>>().join("\n"),
    }
}

/// Adds the metrics of a load to the report. Rejects a load that did not complete or that had
/// failed requests.
fn record_load(load: &LoadRun, report: &mut RunReport) -> StageResult<()> {
    if process::is_interrupt_requested() {
        return Err(stage_failure(RunStage::Load, "interrupted"));
    }
    if let Some(server) = &load.server
        && let Some(died) = &server.died
    {
        return Err(StageFailure {
            stderr_tail: server.stderr_tail.clone(),
            ..stage_failure(RunStage::Load, format!("the server {died} during the load"))
        });
    }
    if load.is_partial {
        return Err(stage_failure(RunStage::Load, load.warnings.join(" ")));
    }
    check_no_failures(load)?;
    let session = load_session(load).map_err(|error| load_failure(RunStage::Figures, &error))?;
    add_load_metrics(&session, report)?;
    add_own_server_metrics(load, report);
    Ok(())
}

/// Adds the metrics of a load: its rate first, then all others.
fn add_load_metrics(session: &Session, report: &mut RunReport) -> StageResult<()> {
    let figures_failure = |reason: &str| stage_failure(RunStage::Figures, reason);
    if let Some(failure) = session.failures.first() {
        return Err(figures_failure(&failure.cause.to_string()));
    }
    let run = session.runs.first().ok_or_else(|| figures_failure("nothing was measured"))?;
    let reported = run.samples.iter().find(|sample| RATE_METRICS.contains(&&*sample.metric));
    let no_rate = || figures_failure("the results have no throughput");
    let mut rate = reported.ok_or_else(no_rate)?.clone();
    let elapsed_ns = rate.elapsed_ns.unwrap_or(run.wall_ns);
    let request_count = rate.value * elapsed_ns as f64 / 1e9;
    rate.iterations = Some(rate.iterations.unwrap_or(request_count).round());
    rate.elapsed_ns = Some(elapsed_ns);
    report.performed.add_sample(Metric::throughput(), &rate);
    metrics::add_run_metrics(session, run, &RATE_METRICS, report);
    Ok(())
}

/// Adds the startup time of the load's own server, and its processor time per request, which varies
/// less than any wall time on a busy machine.
fn add_own_server_metrics(load: &LoadRun, report: &mut RunReport) {
    let Some(server) = &load.server else { return };
    let requests = load.measured.totals.outcomes.attempts() as f64;
    let cpu_ns = server.cpu_ns.map(|ns| ns as f64 / requests);
    let figures = [
        ("cpu_per_request", "ns", MetricDirection::Lower, cpu_ns),
        ("server_ready", "ns", MetricDirection::Lower, Some(server.ready_ns as f64)),
    ];
    metrics::add_metrics(&figures, report);
}

/// Fails if any request of the load failed: the server is then not working correctly.
fn check_no_failures(load: &LoadRun) -> StageResult<()> {
    let counts = &load.measured.totals.outcomes;
    if counts.all_errors() == 0 {
        return Ok(());
    }
    let classes: Vec<String> = ErrorClass::all_classes()
        .filter(|class| counts.errors(*class) > 0)
        .map(|class| format!("{} {}", counts.errors(class), class.name()))
        .collect();
    let reason = format!(
        "{} of {} requests failed: {}",
        counts.all_errors(),
        counts.attempts(),
        classes.join(", ")
    );
    Err(stage_failure(RunStage::Served, reason))
}

/// Fails if another tool reports failed requests.
fn check_tool_errors(session: &Session) -> StageResult<()> {
    let samples = session.runs.iter().flat_map(|run| &run.samples);
    let failed = samples
        .filter(|sample| matches!(&*sample.metric, "http_errors" | "http_non2xx"))
        .find(|sample| sample.value > 0.0);
    failed.map_or(Ok(()), |sample| {
        let reason = format!("{}: {} requests", sample.metric, sample.value);
        Err(stage_failure(RunStage::Served, reason))
    })
}

/// Converts a load into a session that holds its metrics. In the session, `http_non2xx` counts the
/// responses whose status the load did not expect: if it expects 404, a 404 is not counted.
fn load_session(load: &LoadRun) -> anyhow::Result<Session> {
    let mut session =
        load_session::load_session("load", std::slice::from_ref(load), &mut Vec::new())?;
    let unexpected = load.measured.totals.outcomes.errors(ErrorClass::Status);
    let samples = session.runs.iter_mut().flat_map(|run| &mut run.samples);
    for sample in samples.filter(|sample| &*sample.metric == "http_non2xx") {
        sample.value = unexpected as f64;
    }
    Ok(session)
}

/// Profiles one run with the requested tool.
struct RunProfiler {
    recorder: ProfileRecorder,
    options: ProfilingOptions,
}

impl RunProfiler {
    /// Returns the requested profiler, if any.
    pub fn from_request(profiling: Option<&ProfilingOptions>) -> Option<RunProfiler> {
        profiling.map(|options| RunProfiler {
            recorder: match options.tool {
                ProfilingTool::Auto | ProfilingTool::Perf => ProfileRecorder::detect(),
                ProfilingTool::V8 => ProfileRecorder::without_perf("the tool is 'v8'"),
            },
            options: *options,
        })
    }

    /// Records a command from start to end.
    ///
    /// # Errors
    /// Fails if no tool can record it, or it produced no samples.
    pub fn record(
        &self,
        spec: ProcessSpec,
        output: &mut dyn ChildConversation,
        report: &mut RunReport,
    ) -> StageResult<ProcessOutcome> {
        let tool =
            self.recorder.select_tool(&spec.program).map_err(stage_error(RunStage::Profile))?;
        if tool == RecordingTool::V8 && self.options.tool == ProfilingTool::Perf {
            // The requested perf is unavailable, so V8's profiler was selected. Selecting a tool
            // for a program other than Node.js returns an error that says why perf is unavailable.
            self.recorder.select_tool(Path::new("perf")).map_err(stage_error(RunStage::Profile))?;
        }
        let recorded = self.recorder.record(spec, output);
        let profiled_run = recorded.map_err(stage_error(RunStage::Profile))?;
        report.profile = Some(profiled_run.profile);
        Ok(profiled_run.outcome)
    }
}
