//! Metrics of a run, including one that ended early: their names, units and directions.

use crate::profile::Recording;
use speedwell_environment::Spent;
use speedwell_load::measured::ThreadReport;
use speedwell_model::Session;
use speedwell_model::load_run::LoadRun;
use speedwell_model::performed::{Performed, Stage, StageFailure};
use speedwell_model::{Better, Metric, Profile};
use speedwell_process::Outcome;
use std::net::SocketAddr;

/// Everything a run yielded.
#[derive(Debug, Default)]
pub struct Done {
    /// Metrics, notes, and the failure if there was one.
    pub performed: Performed,
    /// Details of the load, if the built-in generator sent it.
    pub load: Option<LoadRun>,
    /// Profile, if the run was recorded instead of timed.
    pub profile: Option<Profile>,
}

/// Result of a step that can end a run early.
pub type Fallible<T> = Result<T, StageFailure>;

/// Builds the failure of a stage, without stderr.
pub fn stage_failure(stage: Stage, reason: impl Into<String>) -> StageFailure {
    StageFailure {
        stage,
        reason: reason.into(),
        stderr_tail: String::new(),
    }
}

/// Observed when the server became ready.
pub struct Ready {
    /// Time since its start.
    pub took_ns: u64,
    /// Listening address.
    pub address: SocketAddr,
}

/// Counters of the load phase.
pub struct Counted {
    /// Time, processor time, and other activity of the machine.
    pub spent: Spent,
    /// Instructions of the target in user mode.
    pub instructions: Option<u64>,
}

/// Result of a load.
pub struct Served {
    /// Metrics of the load from any client.
    pub session: Session,
    /// Details of the load, if the built-in generator sent it.
    pub load: Option<LoadRun>,
    /// Counters during the load.
    pub counted: Counted,
    /// Peak resident memory of all processes of the target together.
    pub peak_rss_bytes: Option<u64>,
    /// Recording of the load phase, if it was profiled.
    pub recording: Option<Recording>,
}

/// Adds the metrics of a load and of its cost to the server.
pub fn of_server(served: &Served, ready: &Ready, done: &mut Done) {
    let run = served.session.runs.first();
    for sample in run.into_iter().flat_map(|run| &run.samples) {
        if let Some(metric) = served.session.metric(&sample.metric) {
            done.performed.tell(metric.clone(), sample.value);
        }
    }
    let notes = run.into_iter().flat_map(|run| run.notes.iter().cloned());
    done.performed.notes.extend(notes);
    of_target(served, ready, done);
    if let Some(load) = &served.load {
        of_connections(load, done);
    }
}

/// Adds the cost of the load to the target, and other activity of the machine.
fn of_target(served: &Served, ready: &Ready, done: &mut Done) {
    let known = |name: &str| {
        let samples = served.session.runs.first().map(|run| &run.samples);
        let found = samples
            .into_iter()
            .flatten()
            .find(|sample| &*sample.metric == name);
        found.map(|sample| sample.value)
    };
    let rate = known("throughput").or(known("requests_per_second"));
    let under_way = rate
        .zip(known("latency_mean"))
        .map(|(rate, mean_ns)| rate * mean_ns / 1e9);
    let spent = &served.counted.spent;
    let sent = served
        .load
        .as_ref()
        .map(|load| load.measured.totals.outcomes.attempts() as f64);
    let requests = sent.or(rate.map(|rate| rate * spent.elapsed_ns as f64 / 1e9));
    let each = |total: Option<u64>| {
        total
            .zip(requests)
            .map(|(total, requests)| total as f64 / requests)
    };
    let cores = spent
        .cpu_ns
        .map(|cpu_ns| cpu_ns as f64 / spent.elapsed_ns as f64);
    let percent = |share: Option<f64>| share.map(|share| share * 100.0);
    let figures = [
        ("effective_concurrency", "", Better::Higher, under_way),
        ("cpu_per_request", "ns", Better::Lower, each(spent.cpu_ns)),
        (
            "instructions_per_request",
            "",
            Better::Lower,
            each(served.counted.instructions),
        ),
        ("cpu_cores", "", Better::Lower, cores),
        (
            "max_rss",
            "B",
            Better::Lower,
            served.peak_rss_bytes.map(|bytes| bytes as f64),
        ),
        (
            "server_ready",
            "ns",
            Better::Lower,
            Some(ready.took_ns as f64),
        ),
        ("pressure", "%", Better::Lower, percent(spent.pressure)),
        ("steal", "%", Better::Lower, percent(spent.steal)),
    ];
    tell(&figures, done);
}

/// Adds metrics that only the built-in generator provides.
fn of_connections(load: &LoadRun, done: &mut Done) {
    let counts = &load.measured.totals.outcomes;
    let bytes = counts.bytes.received as f64 / counts.codes().total() as f64;
    let threads = &load.measured.threads;
    let busy = threads.iter().map(ThreadReport::busy).fold(0.0, f64::max);
    let most = threads.iter().map(|thread| thread.most_requests).max();
    let fewest = threads.iter().map(|thread| thread.fewest_requests).min();
    let told = |count: Option<u64>| {
        count
            .filter(|count| *count < u64::MAX)
            .map(|count| count as f64)
    };
    let figures = [
        ("bytes_per_response", "B", Better::Lower, Some(bytes)),
        ("generator_busy", "%", Better::Lower, Some(busy * 100.0)),
        (
            "requests_per_connection_min",
            "",
            Better::Higher,
            told(fewest),
        ),
        ("requests_per_connection_max", "", Better::Lower, told(most)),
    ];
    tell(&figures, done);
}

fn tell(figures: &[(&str, &str, Better, Option<f64>)], done: &mut Done) {
    for (name, unit, better, value) in figures {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            done.performed
                .tell(Metric::new(*name, *unit, *better), value);
        }
    }
}

/// Adds metrics of a server's shutdown.
pub fn of_end(outcome: &Outcome, done: &mut Done) {
    if let Some(shutdown) = outcome.shutdown.filter(|shutdown| !shutdown.was_killed) {
        let metric = Metric::new("server_exit", "ns", Better::Lower);
        done.performed.tell(metric, shutdown.took_ns as f64);
    }
    done.performed.notes.extend(outcome.leftovers());
}

/// Adds the resource usage of a command that has ended.
pub fn of_command(outcome: &Outcome, instructions: Option<u64>, done: &mut Done) {
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
            let metric = Metric::new(name, unit, Better::Lower);
            done.performed.tell(metric, value as f64);
        }
    }
}
