//! Sends the load of a `[benchmark.NAME]` table. It does the same as `speedwell load`, and starts its
//! own server if the table names one.
//!
//! Decides which metrics of a load become metrics of the run, and when a load is treated as failed.
//! Start at [`send_load`].

use super::metrics;
use super::report::{RunReport, StageResult, stage_failure};
use crate::execution::load::{LoadNotice, load_with_tool, run_load_with_sender, send_locally};
use speedwell_formats::load_session;
use speedwell_machine::process::{self, ProcessSpec};
use speedwell_model::load::measurement::LoadRun;
use speedwell_model::load::outcomes::ErrorClass;
use speedwell_model::load::spec::{LoadClient, LoadSpec};
use speedwell_model::stage_report::{RunStage, StageFailure};
use speedwell_model::{Metric, MetricDirection, Session};

/// Names of the request rate in the results of the built-in generator and of other tools.
const RATE_METRICS: [&str; 2] = ["throughput", "requests_per_second"];

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
pub(super) fn check_no_failures(load: &LoadRun) -> StageResult<()> {
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
pub(super) fn check_tool_errors(session: &Session) -> StageResult<()> {
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
pub(super) fn load_session(load: &LoadRun) -> anyhow::Result<Session> {
    let mut session =
        load_session::load_session("load", std::slice::from_ref(load), &mut Vec::new())?;
    let unexpected = load.measured.totals.outcomes.errors(ErrorClass::Status);
    let samples = session.runs.iter_mut().flat_map(|run| &mut run.samples);
    for sample in samples.filter(|sample| &*sample.metric == "http_non2xx") {
        sample.value = unexpected as f64;
    }
    Ok(session)
}
