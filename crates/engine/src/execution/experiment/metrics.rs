//! Assembles the metrics of a run, with their names, units and directions, and reads the hardware
//! and kernel counters of a target while it is measured. A run that fails keeps the metrics that
//! were added before the failure.

use crate::execution::profile::FinishedRecording;
use rustix::io::read;
use speedwell_machine::environment::{ActivityInterval, IntervalUsage};
use speedwell_machine::process::ProcessOutcome;
use speedwell_model::assignment::RunAssignment;
use speedwell_model::load::measurement::{LoadRun, ThreadReport};
use speedwell_model::stage_report::{RunStage, StageFailure, StageReport};
use speedwell_model::{Metric, MetricDirection, Session, StackProfile};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};

/// Everything a run yielded.
#[derive(Debug, Default)]
pub struct RunReport {
    /// Metrics, notes, and the failure if there was one.
    pub performed: StageReport,
    /// Details of the load, if the built-in generator sent it.
    pub load: Option<LoadRun>,
    /// Profile, if the run was profiled instead of timed.
    pub profile: Option<StackProfile>,
}

/// Result of a step that can end a run early.
pub type StageResult<T> = Result<T, StageFailure>;

/// Builds the failure of a stage, without stderr.
pub fn stage_failure(stage: RunStage, reason: impl Into<String>) -> StageFailure {
    StageFailure { stage, reason: reason.into(), stderr_tail: String::new() }
}

/// Facts observed when the server became ready.
pub struct ServerReady {
    /// Time from the start of the server until it was ready.
    pub took_ns: u64,
    /// Listening address.
    pub address: SocketAddr,
}

/// Counters of the load phase.
pub struct LoadCounters {
    /// Elapsed time, processor time of the target, and CPU pressure and steal of the machine.
    pub spent: IntervalUsage,
    /// Instructions of the target in user mode.
    pub instructions: Option<u64>,
}

/// Result of a load.
pub struct LoadResult {
    /// Metrics of the load, whichever client sent it.
    pub session: Session,
    /// Details of the load, if the built-in generator sent it.
    pub load: Option<LoadRun>,
    /// Counters during the load.
    pub counted: LoadCounters,
    /// Peak resident memory of all processes of the target together.
    pub peak_rss_bytes: Option<u64>,
    /// Recording of the load phase, if it was profiled.
    pub recording: Option<FinishedRecording>,
}

/// Adds the metrics of a load, and the resources that the server used for it.
pub fn add_server_metrics(result: &LoadResult, ready: &ServerReady, report: &mut RunReport) {
    let run = result.session.runs.first();
    for sample in run.into_iter().flat_map(|run| &run.samples) {
        if let Some(metric) = result.session.metric(&sample.metric) {
            report.performed.add_metric(metric.clone(), sample.value);
        }
    }
    let notes = run.into_iter().flat_map(|run| run.notes.iter().cloned());
    report.performed.notes.extend(notes);
    add_target_cost(result, ready, report);
    if let Some(load) = &result.load {
        add_generator_metrics(load, report);
    }
}

/// Adds the resources that the target used for the load, such as processor time per request, and
/// the CPU pressure and steal of the machine.
fn add_target_cost(result: &LoadResult, ready: &ServerReady, report: &mut RunReport) {
    let sample_value = |name: &str| {
        let samples = result.session.runs.first().map(|run| &run.samples);
        let sample = samples.into_iter().flatten().find(|sample| &*sample.metric == name);
        sample.map(|sample| sample.value)
    };
    let rate = sample_value("throughput").or(sample_value("requests_per_second"));
    let mean_in_flight =
        rate.zip(sample_value("latency_mean")).map(|(rate, mean_ns)| rate * mean_ns / 1e9);
    let spent = &result.counted.spent;
    let attempts = result.load.as_ref().map(|load| load.measured.totals.outcomes.attempts() as f64);
    let requests = attempts.or(rate.map(|rate| rate * spent.elapsed_ns as f64 / 1e9));
    let per_request =
        |total: Option<u64>| total.zip(requests).map(|(total, requests)| total as f64 / requests);
    let cores = spent.cpu_ns.map(|cpu_ns| cpu_ns as f64 / spent.elapsed_ns as f64);
    let percent = |share: Option<f64>| share.map(|share| share * 100.0);
    let peak_rss = result.peak_rss_bytes.map(|bytes| bytes as f64);
    let instructions = per_request(result.counted.instructions);
    let ready_ns = Some(ready.took_ns as f64);
    let lower = MetricDirection::Lower;
    let higher = MetricDirection::Higher;
    let figures = [
        ("effective_concurrency", "", higher, mean_in_flight),
        ("cpu_per_request", "ns", lower, per_request(spent.cpu_ns)),
        ("instructions_per_request", "", lower, instructions),
        ("cpu_cores", "", lower, cores),
        ("max_rss", "B", lower, peak_rss),
        ("server_ready", "ns", lower, ready_ns),
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

    pub fn end(self) -> LoadCounters {
        let spent = self.interval.finish();
        let instructions = self
            .instructions
            .and_then(|(counter, start_count)| Some(counter.read()?.saturating_sub(start_count)));
        LoadCounters { spent, instructions }
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
    InstructionCounter::open()
        .map_err(|error| {
            report.performed.notes.push(format!(
                "Instructions cannot be counted on this machine ({error}); processor time is \
                 reported instead."
            ));
        })
        .ok()
}

/// Counts instructions in user mode.
#[derive(Debug)]
pub struct InstructionCounter(OwnedFd);

impl InstructionCounter {
    /// Opens a counter for the processes that this thread will start.
    ///
    /// # Errors
    /// Fails if the machine has no such counter, or access is denied.
    pub fn open() -> io::Result<InstructionCounter> {
        InstructionCounter::open_kind(HARDWARE, INSTRUCTIONS)
    }

    fn open_kind(kind: u32, config: u64) -> io::Result<InstructionCounter> {
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
mod counter_tests {
    use super::*;
    use std::process::Command;

    /// `PERF_TYPE_SOFTWARE`.
    const SOFTWARE: u32 = 1;
    /// `PERF_COUNT_SW_TASK_CLOCK`: a counter of nanoseconds that every machine has.
    const TASK_CLOCK: u64 = 1;

    #[test]
    fn children_are_counted_and_this_thread_is_not() {
        let Ok(counter) = InstructionCounter::open_kind(SOFTWARE, TASK_CLOCK) else {
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
