//! Implements `speedwell load --benchmarker`, a replacement for wrk in programs that start a load
//! generator.
//!
//! The command prints one line of JSON with the metrics that HTTP tools have in common. It sends no
//! probe request, because the calling program does not expect one. It stores nothing, because the
//! calling program does. Start at [`run`].

use crate::options::LoadArgs;
use crate::status::{self, CommandStatus};
use anyhow::{Context, bail};
use serde_json::{Map, Value as Json, json};
use speedwell_engine::execution::load::run_load;
use speedwell_formats::load_session;
use speedwell_machine::process;
use speedwell_model::load::spec::LoadSpec;
use speedwell_model::{Run, Session};

/// Sends the load and prints the line.
///
/// # Errors
/// Fails if the load cannot be started, or no request succeeded.
pub fn run(args: &LoadArgs, seed: u64) -> anyhow::Result<CommandStatus> {
    if args.urls.len() != 1 {
        bail!("expected exactly one URL");
    }
    let spec = LoadSpec { no_verify: true, serve: None, ..args.load_spec(0) };
    let load = run_load(&spec, seed, &mut |_| ())?;
    if process::is_interrupt_requested() {
        return Ok(CommandStatus::INTERRUPTED);
    }
    let session = load_session::load_session("load", &[load], &mut Vec::new())?;
    status::write_stdout(format!("{}\n", result_line(only_run(&session)?)))?;
    Ok(CommandStatus::DONE)
}

/// Returns the run of a session with a single load.
///
/// # Errors
/// Fails if the load failed.
pub fn only_run(session: &Session) -> anyhow::Result<&Run> {
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
