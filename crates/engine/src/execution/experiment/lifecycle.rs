//! Runs a command or a server under measurement from start to end, stage by stage. Every stage has
//! its own time limit and reports its own failure.
//!
//! A run that is profiled instead of timed goes through the same stages, with a profiler attached.
//! This module decides which tool may be used and when a server is recorded; `execution/profile`
//! does the recording. Start at [`run_command`] and [`run_server`], which go through the stages.

use super::assertions::{self, CapturedOutput, ProofSources, replace_path, send_get};
use super::metrics::{self, ActiveCounters, InstructionCounter, LoadResult};
use super::{
    RunReport, RunSite, StageResult, stage_error, stage_failure, stop_failed, stop_service,
};
use crate::execution::profile::{ActiveRecording, ProfileRecorder, RecordingTool};
use crate::execution::server::{
    ListenerOwner, ReadinessFailure, TAIL_LINES, describe_listeners, find_listener_owner,
    free_port, wait_until_ready,
};
use speedwell_load::load::ServerAddress;
use speedwell_machine::process::{
    self, ChildConversation, ProcessEnd, ProcessOutcome, ProcessSpec, ServiceProcess, WaitClock,
    tree_of,
};
use speedwell_model::assignment::{
    ProfilingOptions, ProfilingTool, RunAssignment, ServerWork as Serving,
};
use speedwell_model::stage_report::{ReportedMetric, RunStage, StageFailure};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

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

/// A running server.
pub(super) struct ServerLifecycle<'a> {
    assignment: &'a RunAssignment,
    pub(super) serving: &'a Serving,
    pub(super) seed: u64,
    pub(super) site: &'a RunSite<'a>,
    pub(super) service: ServiceProcess,
    output: CapturedOutput,
    port: u16,
    pub(super) url: String,
    started: SystemTime,
    begin: Instant,
    /// Listening address, once the server is ready.
    pub(super) address: SocketAddr,
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

/// Picks the port of the run. A given `port` must be free. Without one, picks any free port, or a
/// free port in the range `ports` if that is given.
pub(super) fn pick_port(
    port: Option<u16>,
    ports: Option<(u16, u16)>,
    site: &RunSite<'_>,
) -> StageResult<u16> {
    let find_holder = |port: u16| site.listen_addresses(port).iter().find_map(describe_listeners);
    match (port, ports) {
        (Some(port), _) => find_holder(port).map_or(Ok(port), |names| {
            let reason = format!("{port} is already in use by {names}");
            Err(stage_failure(RunStage::Port, reason))
        }),
        (None, None) => free_port(site.host())
            .map_err(|error| stage_failure(RunStage::Port, format!("no port is free: {error}"))),
        (None, Some((first, last))) => {
            // Concurrent runs begin their search at different ports, so that they do not race for
            // the same port.
            let count = u32::from(last - first) + 1;
            let begin = std::process::id() % count;
            let port_at = |offset: u32| first + ((begin + offset) % count) as u16;
            let is_free = |port: &u16| TcpListener::bind((site.host(), *port)).is_ok();
            let unused_port =
                (0..count).map(port_at).find(|port| find_holder(*port).is_none() && is_free(port));
            let reason = || format!("none of {first}-{last} is free");
            unused_port.ok_or_else(|| stage_failure(RunStage::Port, reason()))
        }
    }
}

/// Returns the address on which the process `pid` or one of its descendants listens on `port`.
pub(super) fn find_listener(
    site: &RunSite<'_>,
    port: u16,
    pid: i32,
) -> Result<SocketAddr, ReadinessFailure> {
    let nobody = match site.address {
        None => format!("nothing listens on port {port}"),
        Some(host) => format!("nothing listens on {}", SocketAddr::new(host, port)),
    };
    let mut failure = ReadinessFailure::NotYet(nobody);
    for address in site.listen_addresses(port) {
        match (find_listener_owner(&address, pid), address) {
            (ListenerOwner::Own, ServerAddress::Internet(address)) => return Ok(address),
            (ListenerOwner::Stranger(owner), _) => {
                failure = ReadinessFailure::Never(format!(
                    "port {port} belongs to {owner}, which the target did not start"
                ));
            }
            _ => {}
        }
    }
    Err(failure)
}

/// Profiles one run with the requested tool.
pub(super) struct RunProfiler {
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
