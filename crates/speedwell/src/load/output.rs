//! Stores and reports the results of loads, and writes request logs and histograms.

use super::rounds::LoadRequest;
use crate::gate::CommandGate;
use crate::options::{ComparisonArgs, LoadArgs};
use crate::{CommandStatus, status};
use anyhow::Context;
use speedwell_analysis::load::{LoadFindings, gate};
use speedwell_analysis::{self as analysis, AnalysisFindings};
use speedwell_engine::SessionRequest;
use speedwell_engine::execution::load::{LoadRun, TargetUrl};
use speedwell_formats::load_session::load_session;
use speedwell_model::load::latency::{HistogramLogRow, write_log};
use speedwell_model::load::measurement::{LoadLatency, RequestRecord};
use speedwell_model::{RunOrder, Session, SessionDesign, StoppingDesign};
use speedwell_report as report;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Columns of the request log. Times are nanoseconds since the start of the load.
const COLUMNS: &str = "index,kind,intended_ns,begun_ns,sent_ns,first_byte_ns,end_ns,outcome,status,\
                       body_bytes,wire_bytes,is_reused";

/// Writes the request logs and histograms. From the second load on, file names get a number.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write(args: &LoadArgs, runs: &[LoadRun]) -> anyhow::Result<()> {
    for (index, run) in runs.iter().enumerate() {
        if let Some(file) = &args.log_requests {
            let file = numbered_path(file, index);
            write_requests(&file, run)
                .with_context(|| format!("cannot write requests to '{}'", file.display()))?;
        }
        if let Some(file) = &args.hdr {
            let file = numbered_path(file, index);
            let text = histogram_log(run)?;
            std::fs::write(&file, text)
                .with_context(|| format!("cannot write histograms to '{}'", file.display()))?;
        }
    }
    Ok(())
}

/// Returns the file for the load with this index: `a.csv`, `a-2.csv`, `a-3.csv` and so on.
fn numbered_path(file: &Path, index: usize) -> PathBuf {
    if index == 0 {
        return file.to_owned();
    }
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let suffix = file
        .extension()
        .map(|extension| format!(".{}", extension.to_string_lossy()))
        .unwrap_or_default();
    file.with_file_name(format!("{stem}-{}{suffix}", index + 1))
}

fn write_requests(file: &Path, run: &LoadRun) -> anyhow::Result<()> {
    let mut out = BufWriter::new(std::fs::File::create(file)?);
    writeln!(out, "{COLUMNS}")?;
    for row in &run.measured.rows {
        let kind = run.requested.kinds.get(usize::from(row.kind));
        writeln!(out, "{}", request_row(row, kind.map_or("", |kind| &kind.name)))?;
    }
    out.flush()?;
    Ok(())
}

fn request_row(row: &RequestRecord, kind: &str) -> String {
    let or_empty = |ns: Option<u64>| ns.map_or(String::new(), |ns| ns.to_string());
    let fields = [
        row.index.to_string(),
        quote_field(kind),
        or_empty(row.intended_ns),
        row.begun_ns.to_string(),
        or_empty(row.sent_ns),
        or_empty(row.first_byte_ns),
        row.end_ns.to_string(),
        row.outcome.name().to_owned(),
        or_empty(Some(u64::from(row.status)).filter(|status| *status > 0)),
        row.body_bytes.to_string(),
        row.wire_bytes.to_string(),
        row.is_reused.to_string(),
    ];
    fields.join(",")
}

/// Quotes a CSV field (RFC 4180).
fn quote_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Formats all histograms of a load. Service times and times to the first byte are separate for
/// each outcome. Only an open load has response times and lags.
fn histogram_log(run: &LoadRun) -> anyhow::Result<String> {
    let measured = &run.measured;
    let (start, length) = (run.requested.warmup_ns, measured.elapsed_ns);
    let latency = &measured.totals.latency;
    let mut rows = Vec::new();
    for (outcome, times) in latency.by_outcome() {
        rows.push(HistogramLogRow::new(outcome.name(), start, length, &times.service));
        rows.push(HistogramLogRow::new(outcome.name(), start, length, &times.first_byte));
    }
    rows.push(HistogramLogRow::new("all", start, length, latency.connect_times()));
    if let LoadLatency::Open(open) = latency {
        for (outcome, times) in open.requests.iter() {
            rows.push(HistogramLogRow::new(outcome.name(), start, length, &times.response));
        }
        rows.push(HistogramLogRow::new("all", start, length, &open.lag));
        rows.push(HistogramLogRow::new("all", start, length, &open.own_lag));
    }
    Ok(write_log(measured.began_epoch_ms, &rows)?)
}

/// Writes the requested files, and stores and reports the results. `is_decisive` selects the loads
/// to which the limits of `--fail-on` apply.
pub fn report_loads(
    args: &LoadArgs,
    request: &LoadRequest,
    runs: &[LoadRun],
    is_decisive: impl Fn(&[LoadFindings], &LoadFindings) -> bool,
) -> anyhow::Result<CommandStatus> {
    write(args, runs)?;
    let session = build_session(request, runs, &args.store.session_request(&args.origin))?;
    // Show the results even if they cannot be stored.
    let stored = args.store.open_store().and_then(|mut store| store.insert_session(&session));
    let findings: Vec<_> = runs.iter().map(analysis::load::analyze_load).collect();
    let settings = ComparisonArgs::default().analysis_settings(&compared_metrics(&session), None);
    let output = args.output.report_settings();
    let mut document =
        report::session::report_load_session(&session, &findings, &settings, &output)?;
    document.append_document(report::report_measurement_details(
        &[(None, &session)],
        &AnalysisFindings::default(),
    ));
    let decisive = findings.iter().filter(|load| is_decisive(&findings, load));
    let decisive: Vec<_> = decisive.cloned().collect();
    let conditions = gate::judge_conditions(&args.fail_on, &decisive);
    report::load::add_gate(&conditions, &mut document);
    let gate = CommandGate::from_outcome(gate::gate_outcome(&conditions), CommandStatus::DONE);
    args.output.print_document(&document)?;
    runs.iter().for_each(print_server_output);
    stored?;
    Ok(gate.exit_status())
}

/// Builds a session from the loads.
///
/// # Errors
/// Fails if there are no loads.
fn build_session(
    request: &LoadRequest,
    runs: &[LoadRun],
    session_request: &SessionRequest,
) -> anyhow::Result<Session> {
    // Drop the warnings, because the report contains them.
    let mut session = load_session("load", runs, &mut Vec::new())?;
    // Rounds are shuffled, but the first address on the command line is the baseline.
    let position = |name: &str| request.specs.iter().position(|spec| is_load_of(&spec.url, name));
    session.variants.sort_by_key(|variant| position(&variant.name));
    let baseline = session.variants.first().map(|variant| variant.name.clone());
    let rounds = runs.iter().map(|run| run.round + 1).max();
    Ok(Session {
        tags: session_request.tags.clone(),
        command: session_request.command.clone(),
        environment: session_request.capture_environment(&[]),
        origin: session_request.find_origin(),
        design: SessionDesign {
            // Every round has each address once, in random order, so a round is a block.
            order: RunOrder::Blocks,
            stopping: StoppingDesign::Fixed { runs: rounds.unwrap_or(1) },
            seed: request.seed,
            conditions: request.conditions.iter().map(|c| c.text.clone()).collect(),
            steady: None,
            runs_per_block: 1,
            baseline: baseline.unwrap_or_default(),
            ..session.design
        },
        ..session
    })
}

/// Whether `name` is the name of the loads for the address `url`.
fn is_load_of(url: &str, name: &str) -> bool {
    TargetUrl::parse(url).is_ok_and(|url| url.to_string() == name)
}

/// Prints the last output of the server.
fn print_server_output(run: &LoadRun) {
    let tail = run.server.as_ref().map(|server| &server.stderr_tail);
    if let Some(tail) = tail.filter(|tail| !tail.is_empty()) {
        status::print_note(&format!("the server of '{}' wrote:\n{tail}", run.url));
    }
}

/// Returns the metrics to compare in repeated loads: throughput, median and 99th percentile.
fn compared_metrics(session: &Session) -> Vec<String> {
    let exists = |name: &&str| session.metric(name).is_some();
    let alternatives = [
        ["throughput", "requests_per_second"],
        ["response_p50", "latency_p50"],
        ["response_p99", "latency_p99"],
    ];
    let metrics =
        alternatives.iter().filter_map(|names| names.iter().copied().find(|name| exists(name)));
    metrics.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::load::latency::RequestOutcome;

    #[test]
    fn later_files_have_numbers() {
        let numbered = |index| numbered_path(Path::new("out/a.csv"), index).display().to_string();
        assert_eq!((numbered(0), numbered(2)), ("out/a.csv".into(), "out/a-3.csv".into()));
    }

    #[test]
    fn a_row_has_a_field_for_every_column() {
        let row = RequestRecord {
            index: 7,
            kind: 0,
            intended_ns: None,
            begun_ns: 10,
            sent_ns: Some(11),
            first_byte_ns: None,
            end_ns: 30,
            outcome: RequestOutcome::Unsent,
            status: 0,
            body_bytes: 0,
            wire_bytes: 5,
            is_reused: true,
        };
        let line = request_row(&row, "a \"b\", c");
        assert_eq!(line, "7,\"a \"\"b\"\", c\",,10,11,,30,unsent,,0,5,true");
        assert_eq!(COLUMNS.split(',').count(), 12);
    }
}
