//! Assembles the metrics of a run, with their names, units and directions. Captures the output of a
//! target, extracts metrics from it, and reads hardware and kernel counters while the target is
//! measured. A run that fails keeps the metrics that were added before the failure.

use crate::execution::profile::FinishedRecording;
use regex::Regex;
use rustix::io::read;
use serde::{Deserialize, Serialize};
use speedwell_machine::environment::{ActivityInterval, IntervalUsage};
use speedwell_machine::process::{ChildConversation, NextStep, OutputStream, ProcessOutcome};
use speedwell_model::assignment::{MetricSource, RunAssignment, TargetMetric};
use speedwell_model::load::measurement::{LoadRun, ThreadReport};
use speedwell_model::stage_report::{RunStage, StageFailure, StageReport};
use speedwell_model::{Metric, MetricDirection, Run, Session, StackProfile};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Everything a run yielded.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RunReport {
    /// Metrics, notes, and the failure if there was one.
    pub performed: StageReport,
    /// Details of the load, if the built-in generator sent it.
    pub load: Option<LoadRun>,
    /// Profile, if the run was profiled instead of timed. Only runs on this machine have one.
    #[serde(skip)]
    pub profile: Option<StackProfile>,
}

/// Result of a step that can end a run early.
pub type StageResult<T> = Result<T, StageFailure>;

/// Builds the failure of a stage, without stderr.
pub fn stage_failure(stage: RunStage, reason: impl Into<String>) -> StageFailure {
    StageFailure { stage, reason: reason.into(), stderr_tail: String::new() }
}

/// Returns a function that turns an error into the failure of a stage.
pub fn stage_error(stage: RunStage) -> impl Fn(anyhow::Error) -> StageFailure {
    move |error| stage_failure(stage, format!("{error:#}"))
}

/// Result of a load.
pub struct LoadResult {
    /// Metrics of the load, whichever client sent it.
    pub session: Session,
    /// Details of the load, if the built-in generator sent it.
    pub load: Option<LoadRun>,
    /// Elapsed time, processor time of the target, and CPU pressure and steal of the machine.
    pub spent: IntervalUsage,
    /// Instructions of the target in user mode.
    pub instructions: Option<u64>,
    /// Peak resident memory of all processes of the target together.
    pub peak_rss_bytes: Option<u64>,
    /// Recording of the load phase, if it was profiled.
    pub recording: Option<FinishedRecording>,
}

/// Adds the metrics of a load, and the resources that the server used for it.
pub fn add_server_metrics(result: &LoadResult, ready_ns: u64, report: &mut RunReport) {
    if let Some(run) = result.session.runs.first() {
        add_run_metrics(&result.session, run, &[], report);
    }
    add_target_cost(result, ready_ns, report);
    if let Some(load) = &result.load {
        add_generator_metrics(load, report);
    }
}

/// Adds the metrics and notes of a load's run, without the metrics named in `excluded`.
pub fn add_run_metrics(session: &Session, run: &Run, excluded: &[&str], report: &mut RunReport) {
    for sample in run.samples.iter().filter(|sample| !excluded.contains(&&*sample.metric)) {
        if let Some(metric) = session.metric(&sample.metric) {
            report.performed.add_metric(metric.clone(), sample.value);
        }
    }
    report.performed.notes.extend(run.notes.iter().cloned());
}

/// Adds the resources that the target used for the load, such as processor time per request, and
/// the CPU pressure and steal of the machine.
fn add_target_cost(result: &LoadResult, ready_ns: u64, report: &mut RunReport) {
    let sample_value = |name: &str| {
        let samples = result.session.runs.first().map(|run| &run.samples);
        let sample = samples.into_iter().flatten().find(|sample| &*sample.metric == name);
        sample.map(|sample| sample.value)
    };
    let rate = sample_value("throughput").or(sample_value("requests_per_second"));
    let mean_in_flight =
        rate.zip(sample_value("latency_mean")).map(|(rate, mean_ns)| rate * mean_ns / 1e9);
    let spent = &result.spent;
    let attempts = result.load.as_ref().map(|load| load.measured.totals.outcomes.attempts() as f64);
    let requests = attempts.or(rate.map(|rate| rate * spent.elapsed_ns as f64 / 1e9));
    let per_request =
        |total: Option<u64>| total.zip(requests).map(|(total, requests)| total as f64 / requests);
    let cores = spent.cpu_ns.map(|cpu_ns| cpu_ns as f64 / spent.elapsed_ns as f64);
    let percent = |share: Option<f64>| share.map(|share| share * 100.0);
    let peak_rss = result.peak_rss_bytes.map(|bytes| bytes as f64);
    let instructions = per_request(result.instructions);
    let (lower, higher) = (MetricDirection::Lower, MetricDirection::Higher);
    let figures = [
        ("effective_concurrency", "", higher, mean_in_flight),
        ("cpu_per_request", "ns", lower, per_request(spent.cpu_ns)),
        ("instructions_per_request", "", lower, instructions),
        ("cpu_cores", "", lower, cores),
        ("max_rss", "B", lower, peak_rss),
        ("server_ready", "ns", lower, Some(ready_ns as f64)),
        ("pressure", "%", lower, percent(spent.pressure)),
        ("steal", "%", lower, percent(spent.steal)),
    ];
    add_metrics(&figures, report);
}

/// Adds metrics that only the built-in generator provides.
fn add_generator_metrics(load: &LoadRun, report: &mut RunReport) {
    let counts = &load.measured.totals.outcomes;
    let bytes = counts.bytes.received as f64 / counts.codes.total() as f64;
    let threads = &load.measured.threads;
    let busy = threads.iter().map(ThreadReport::busy_share).fold(0.0, f64::max);
    let max_requests = threads.iter().map(|thread| thread.most_requests).max();
    let min_requests = threads.iter().map(|thread| thread.fewest_requests).min();
    let known_count =
        |count: Option<u64>| count.filter(|count| *count < u64::MAX).map(|count| count as f64);
    let figures = [
        ("bytes_per_response", "B", MetricDirection::Lower, Some(bytes)),
        ("generator_busy", "%", MetricDirection::Lower, Some(busy * 100.0)),
        ("requests_per_connection_min", "", MetricDirection::Higher, known_count(min_requests)),
        ("requests_per_connection_max", "", MetricDirection::Lower, known_count(max_requests)),
    ];
    add_metrics(&figures, report);
}

/// Adds the metrics that have a finite value.
pub fn add_metrics(figures: &[(&str, &str, MetricDirection, Option<f64>)], report: &mut RunReport) {
    for (name, unit, better, value) in figures {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            report.performed.add_metric(Metric::new(*name, *unit, *better), value);
        }
    }
}

/// Adds metrics of a server's shutdown.
pub fn add_shutdown_metrics(outcome: &ProcessOutcome, report: &mut RunReport) {
    if let Some(shutdown) = outcome.shutdown.filter(|shutdown| !shutdown.was_killed) {
        let metric = Metric::new("server_exit", "ns", MetricDirection::Lower);
        report.performed.add_metric(metric, shutdown.took_ns as f64);
    }
    report.performed.notes.extend(outcome.describe_leftovers());
}

/// Adds the resource usage of a command that has ended.
pub fn add_command_metrics(
    outcome: &ProcessOutcome,
    instructions: Option<u64>,
    report: &mut RunReport,
) {
    let usage = &outcome.usage;
    let figures = [
        ("wall_time", "ns", Some(outcome.wall_ns)),
        ("cpu_time", "ns", Some(usage.cpu_ns())),
        ("user_time", "ns", Some(usage.user_ns)),
        ("max_rss", "B", Some(usage.max_rss_bytes)),
        ("instructions", "", instructions),
    ];
    let lower = MetricDirection::Lower;
    let figures = figures.map(|(name, unit, count)| (name, unit, lower, count.map(|n| n as f64)));
    add_metrics(&figures, report);
}

/// Prefix of an output line that is a mark. The name of the mark follows the prefix.
const MARK_PREFIX: &str = "mark:";

/// Number of bytes of each stream that are searched for proofs and marks; later output is ignored.
const MAX_SEARCHED_BYTES: usize = 1 << 20;

/// Output of a process on stdout and stderr, shared with the thread that reads it.
#[derive(Debug, Clone, Default)]
pub struct CapturedOutput(Arc<Mutex<OutputBuffer>>);

/// The captured bytes of each stream with the start of its current line, stdout first.
#[derive(Debug, Default)]
struct OutputBuffer {
    streams: [(Vec<u8>, usize); 2],
    marks: BTreeMap<String, Instant>,
}

impl CapturedOutput {
    /// Returns the captured text of one stream.
    pub fn stream_text(&self, stream: OutputStream) -> String {
        let buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&buffer.streams[stream as usize].0).into_owned()
    }

    /// Returns the time at which the first line with this mark arrived.
    pub fn mark_time(&self, name: &str) -> Option<Instant> {
        let buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.marks.get(name).copied()
    }
}

impl OutputBuffer {
    fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        let now = Instant::now();
        let (captured, line_start) = &mut self.streams[stream as usize];
        let room = MAX_SEARCHED_BYTES.saturating_sub(captured.len());
        captured.extend_from_slice(&bytes[..bytes.len().min(room)]);
        while let Some(length) = captured[*line_start..].iter().position(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(&captured[*line_start..*line_start + length]);
            if let Some(name) = line.strip_prefix(MARK_PREFIX) {
                let mark = name.split_whitespace().next().unwrap_or_default();
                self.marks.entry(mark.to_owned()).or_insert(now);
            }
            *line_start += length + 1;
        }
    }
}

impl ChildConversation for CapturedOutput {
    fn handle_line(&mut self, _line: &[u8]) -> NextStep {
        NextStep::Wait
    }

    fn observe_output(&mut self, stream: OutputStream, bytes: &[u8]) {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.push(stream, bytes);
    }
}

/// Extracts the values of a metric from the output of a command that started at `begin`.
///
/// # Errors
/// Fails if the output has no such value, or the value is not a finite number.
pub fn extract_values(
    figure: &TargetMetric,
    output: &CapturedOutput,
    begin: Instant,
    outcome: &ProcessOutcome,
) -> Result<Vec<f64>, String> {
    let text = output.stream_text(OutputStream::Stdout);
    let mut values = match &figure.from {
        MetricSource::Regex(pattern) => values_by_pattern(pattern, &text)?,
        MetricSource::Json(path) => vec![value_by_path(path, &text)?],
        MetricSource::Marks(from, to) => {
            let time_of_mark = |mark: &str| match mark {
                "start" => Ok(0.0),
                "process-end" => Ok(outcome.wall_ns as f64),
                mark => {
                    let named = mark.strip_prefix("mark:").unwrap_or(mark);
                    let time = output.mark_time(named).map(|time| time.duration_since(begin));
                    let time_ns = time.map(|time| time.as_nanos() as f64);
                    time_ns.ok_or_else(|| format!("no line begins with 'mark:{named}'"))
                }
            };
            let from = time_of_mark(from)?;
            vec![time_of_mark(to)? - from]
        }
    };
    values.iter_mut().for_each(|value| *value *= figure.factor);
    if values.iter().any(|value| !value.is_finite()) {
        return Err("its value is not finite".to_owned());
    }
    Ok(values)
}

fn values_by_pattern(pattern: &str, text: &str) -> Result<Vec<f64>, String> {
    let regex = Regex::new(pattern).map_err(|error| error.to_string())?;
    let values: Vec<f64> = regex
        .captures_iter(text)
        .filter_map(|captures| captures.name("value").or_else(|| captures.get(1)))
        .map(|found| {
            let number = found.as_str().parse().ok().filter(|number: &f64| number.is_finite());
            number.ok_or_else(|| format!("'{}' is not a number", found.as_str()))
        })
        .collect::<Result<_, _>>()?;
    if values.is_empty() {
        Err(format!("nothing on the command's stdout matches '{pattern}'"))
    } else {
        Ok(values)
    }
}

fn value_by_path(path: &str, text: &str) -> Result<f64, String> {
    let root: serde_json::Value = serde_json::from_str(text.trim())
        .map_err(|error| format!("the command's stdout is not JSON: {error}"))?;
    let mut value = &root;
    for part in path.split('.') {
        let index = part.parse::<usize>().ok().filter(|_| value.is_array());
        let inner = index.map_or_else(|| value.get(part), |index| value.get(index));
        value = inner.ok_or_else(|| format!("the JSON on the command's stdout has no '{path}'"))?;
    }
    let number = value.as_f64();
    number.ok_or_else(|| format!("'{path}' in the JSON on the command's stdout is not a number"))
}

/// Counters of a measurement in progress.
pub struct ActiveCounters<'a> {
    interval: ActivityInterval,
    instructions: Option<(&'a InstructionCounter, u64)>,
}

impl<'a> ActiveCounters<'a> {
    /// Starts counting for the target whose root process is `pid`.
    pub fn begin(pid: i32, counter: Option<&'a InstructionCounter>) -> ActiveCounters<'a> {
        let instructions = counter.and_then(|counter| Some((counter, counter.read()?)));
        ActiveCounters { instructions, interval: ActivityInterval::start(pid) }
    }

    /// Returns what the load used, and the number of instructions.
    pub fn end(self) -> (IntervalUsage, Option<u64>) {
        let spent = self.interval.finish();
        let instructions = self
            .instructions
            .and_then(|(counter, start_count)| Some(counter.read()?.saturating_sub(start_count)));
        (spent, instructions)
    }
}

/// `PERF_TYPE_HARDWARE`.
const HARDWARE: u32 = 0;
/// `PERF_COUNT_HW_INSTRUCTIONS`.
const INSTRUCTIONS: u64 = 1;

// Bits of `perf_event_attr`: disabled, inherit, exclude_kernel, exclude_hv, enable_on_exec.
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const ENABLE_ON_EXEC: u64 = 1 << 12;

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: u64 = 1 << 3;

/// First version of `perf_event_attr`, which every kernel accepts (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct PerfEventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// Opens an instruction counter if a metric needs one and the machine provides one.
pub fn open_if_wanted(
    assignment: &RunAssignment,
    report: &mut RunReport,
) -> Option<InstructionCounter> {
    let needs_counter = |name: &String| name.starts_with("instructions");
    if !assignment.also.iter().any(needs_counter) {
        return None;
    }
    let counter = InstructionCounter::open(HARDWARE, INSTRUCTIONS);
    if let Err(error) = &counter {
        report.performed.notes.push(format!(
            "Instructions cannot be counted on this machine ({error}); processor time is reported \
             instead."
        ));
    }
    counter.ok()
}

/// Counts instructions in user mode.
#[derive(Debug)]
pub struct InstructionCounter(OwnedFd);

impl InstructionCounter {
    /// Opens a counter, named by its type and number in the kernel's interface, for the processes
    /// that this thread will start.
    ///
    /// # Errors
    /// Fails if the machine has no such counter, or access is denied.
    pub fn open(kind: u32, config: u64) -> io::Result<InstructionCounter> {
        let attributes = PerfEventAttributes {
            kind,
            size: size_of::<PerfEventAttributes>() as u32,
            config,
            flags: DISABLED | INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | ENABLE_ON_EXEC,
            ..PerfEventAttributes::default()
        };
        let flags = CLOSE_ON_EXEC;
        // SAFETY: the structure outlives the call, which only reads it. The arguments 0 and -1
        // stand for this thread on any processor.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &attributes, 0, -1, -1, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created and has no other owner.
        Ok(InstructionCounter(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Returns the number of instructions so far.
    pub fn read(&self) -> Option<u64> {
        let mut count = [0u8; 8];
        (read(&self.0, &mut count) == Ok(8)).then(|| u64::from_ne_bytes(count))
    }
}

#[cfg(test)]
mod figure_tests {
    use super::*;

    #[test]
    fn marks_are_found_in_lines_split_across_reads() {
        let mut output = CapturedOutput::default();
        output.observe_output(OutputStream::Stderr, b"hello\nmar");
        assert_eq!(output.mark_time("throw"), None);
        output.observe_output(OutputStream::Stdout, b"k:throw\n");
        assert_eq!(output.mark_time("throw"), None, "a line does not continue in another stream");
        output.observe_output(OutputStream::Stderr, b"k:throw now\nmark:throw\n");
        let first = output.mark_time("throw").unwrap();
        output.observe_output(OutputStream::Stderr, b"mark:throw\n");
        assert_eq!(output.mark_time("throw"), Some(first), "the first counts");
        assert_eq!(output.stream_text(OutputStream::Stdout), "k:throw\n");
    }

    #[test]
    fn figures_are_read_from_text_and_from_json() {
        let text = "Time(a): 12.5 ms\nTime(b): 3 ms\n";
        assert_eq!(
            values_by_pattern(r"Time\(\w\): (?P<value>[\d.]+) ms", text),
            Ok(vec![12.5, 3.0])
        );
        assert_eq!(values_by_pattern(r"Time\(b\): ([\d.]+)", text), Ok(vec![3.0]));
        assert!(
            values_by_pattern("x: (.*)", text)
                .unwrap_err()
                .contains("nothing on the command's stdout")
        );
        assert_eq!(value_by_path("a.1.b", r#"{"a":[0,{"b":7}]}"#), Ok(7.0));
        assert!(value_by_path("a.2", r#"{"a":[0]}"#).unwrap_err().contains("no 'a.2'"));
    }
}

#[cfg(test)]
mod counter_tests {
    use super::*;
    use std::process::Command;

    /// `PERF_TYPE_SOFTWARE`.
    const SOFTWARE: u32 = 1;
    /// `PERF_COUNT_SW_TASK_CLOCK`: a counter of nanoseconds that every machine has.
    const TASK_CLOCK: u64 = 1;

    #[test]
    fn children_are_counted_and_this_thread_is_not() {
        let Ok(counter) = InstructionCounter::open(SOFTWARE, TASK_CLOCK) else {
            eprintln!("skipped: perf events are not permitted here");
            return;
        };
        let before = counter.read().unwrap();
        assert_eq!(before, 0, "nothing is counted before a program starts");
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let status = Command::new("/bin/sh").args(["-c", script]).status();
        assert!(status.unwrap().success());
        let once = counter.read().unwrap();
        assert!(once > 1_000_000, "{once} ns");
        assert_eq!(counter.read(), Some(once), "this thread itself is not counted");
    }
}
