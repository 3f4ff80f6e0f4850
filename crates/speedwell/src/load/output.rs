//! Writes the results of loads for programs: request logs, histograms, and the line of a benchmarker.

use crate::options::LoadArgs;
use crate::{CommandStatus, status};
use anyhow::{Context, bail};
use serde_json::{Map, Value as Json, json};
use speedwell_engine::execution::load::{LoadRun, run_load};
use speedwell_formats::load_session::load_session;
use speedwell_machine::process;
use speedwell_model::load::latency::{HistogramLogRow, LoadLatency, write_log};
use speedwell_model::load::measurement::RequestRecord;
use speedwell_model::load::spec::LoadSpec;
use speedwell_model::{Run, Session};
use speedwell_report as report;
use std::io::{BufWriter, Write};
use std::path::Path;

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
            let file = report::numbered_path(file, index);
            write_requests(&file, run)
                .with_context(|| format!("cannot write requests to '{}'", file.display()))?;
        }
        if let Some(file) = &args.hdr {
            let file = report::numbered_path(file, index);
            let text = histogram_log(run)?;
            std::fs::write(&file, text)
                .with_context(|| format!("cannot write histograms to '{}'", file.display()))?;
        }
    }
    Ok(())
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
        report::quote_field(kind),
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

/// Formats all histograms of a load. Service times and times to the first byte are separate for
/// each outcome. Only an open load has response times and lags.
fn histogram_log(run: &LoadRun) -> anyhow::Result<String> {
    let measured = &run.measured;
    let (start_ns, length_ns) = (run.requested.warmup_ns, measured.elapsed_ns);
    let latency = &measured.totals.latency;
    let row = |quantity: &str, part: &str, times| {
        let tag = format!("{quantity}/{part}");
        HistogramLogRow { tag, start_ns, length_ns, times }
    };
    let mut rows = Vec::new();
    for (outcome, times) in latency.by_outcome() {
        rows.push(row("service", outcome.name(), &times.service));
        rows.push(row("first-byte", outcome.name(), &times.first_byte));
    }
    rows.push(row("connect", "all", latency.connect_times()));
    if let LoadLatency::Open(open) = latency {
        for (outcome, times) in open.requests.iter() {
            rows.push(row("response", outcome.name(), &times.response));
        }
        rows.push(row("lag", "all", &open.lag));
        rows.push(row("own-lag", "all", &open.own_lag));
    }
    Ok(write_log(measured.began_epoch_ms, &rows)?)
}

/// Implements `speedwell load --benchmarker`, a replacement for wrk in programs that start a load
/// generator. Sends the load and prints one line of JSON with the metrics that HTTP tools have in
/// common.
///
/// Sends no probe request, because the calling program does not expect one. Stores nothing, because
/// the calling program does.
///
/// # Errors
/// Fails if the load cannot be started, or no request succeeded.
pub fn run_as_benchmarker(args: &LoadArgs, seed: u64) -> anyhow::Result<CommandStatus> {
    if args.urls.len() != 1 {
        bail!("expected exactly one URL");
    }
    let spec = LoadSpec { no_verify: true, serve: None, ..args.load_spec(0) };
    let load = run_load(&spec, seed, &mut |_| ())?;
    if process::is_interrupt_requested() {
        return Ok(CommandStatus::INTERRUPTED);
    }
    let session = load_session("load", &[load], &mut Vec::new())?;
    status::write_stdout(format!("{}\n", result_line(only_run(&session)?)))?;
    Ok(CommandStatus::DONE)
}

/// Returns the run of a session with a single load.
///
/// # Errors
/// Fails if the load failed.
fn only_run(session: &Session) -> anyhow::Result<&Run> {
    if let Some(failure) = session.failures.first() {
        bail!("{}", failure.cause);
    }
    session.runs.first().context("nothing was measured")
}

/// Formats the metrics of one run under the names that HTTP tools share.
fn result_line(run: &Run) -> Json {
    let value = |name: &str| {
        let sample = run.samples.iter().find(|sample| &*sample.metric == name);
        sample.map(|sample| sample.value)
    };
    let main_sample = run.samples.first();
    let latency = run.samples.iter().filter_map(|sample| {
        let name = sample.metric.strip_prefix("latency_")?;
        Some((name.to_owned(), json!(sample.value / 1e6)))
    });
    json!({
        "tool": "speedwell",
        "version": env!("CARGO_PKG_VERSION"),
        "requests": main_sample.and_then(|sample| sample.iterations),
        "seconds": main_sample.and_then(|sample| sample.elapsed_ns).map(|ns| ns as f64 / 1e9),
        "rate": value("throughput"),
        "errors": value("http_errors"),
        "non2xx": value("http_non2xx"),
        "bytes_per_second": value("bytes_per_second"),
        "latency_ms": latency.collect::<Map<String, Json>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::load::latency::RequestOutcome;

    #[test]
    fn later_files_have_numbers() {
        let numbered =
            |index| report::numbered_path(Path::new("out/a.csv"), index).display().to_string();
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
