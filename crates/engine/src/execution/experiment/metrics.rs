//! Assembles the metrics of a run, with their names, units and directions. A run that fails keeps
//! the metrics that were added before the failure.

use crate::execution::profile::FinishedRecording;
use speedwell_machine::environment::IntervalUsage;
use speedwell_machine::process::ProcessOutcome;
use speedwell_model::Session;
use speedwell_model::load::measurement::ThreadReport;
use speedwell_model::load::run::LoadRun;
use speedwell_model::stage_report::{RunStage, StageFailure, StageReport};
use speedwell_model::{Metric, MetricDirection, StackProfile};
use std::net::SocketAddr;

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

/// Adds the metrics of a load, and what the load cost the server.
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

/// Adds what the load cost the target, and the CPU pressure and steal of the machine.
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
    let bytes = counts.bytes.received as f64 / counts.codes().total() as f64;
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

fn add_metrics(figures: &[(&str, &str, MetricDirection, Option<f64>)], report: &mut RunReport) {
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
    for (name, unit, value) in figures {
        if let Some(value) = value {
            let metric = Metric::new(name, unit, MetricDirection::Lower);
            report.performed.add_metric(metric, value as f64);
        }
    }
}
