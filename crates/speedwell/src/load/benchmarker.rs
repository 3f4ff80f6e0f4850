//! `speedwell load --benchmarker`: the tool that other programs start where they would start wrk.
//!
//! It decides what such a program is told: one line of JSON with the figures that HTTP tools have in
//! common. It sends no request before the load, because these programs count on none, and keeps
//! nothing, because whoever started it does. Start at [`run`].

use crate::options::LoadArgs;
use crate::status::{self, Status};
use anyhow::{Context, bail};
use serde_json::{Map, Value as Json, json};
use speedwell_model::load_spec::LoadSpec;
use speedwell_model::{Run, Session};
use speedwell_process as process;
use speedwell_results::formats::measured;
use speedwell_runner::load::carry_out;

/// Sends the load and prints the line.
///
/// # Errors
/// The load cannot be begun, or no request was answered well.
pub fn run(args: &LoadArgs, seed: u64) -> anyhow::Result<Status> {
    if args.urls.len() != 1 {
        bail!("an HTTP benchmark loads one address");
    }
    let spec = LoadSpec {
        no_verify: true,
        serve: None,
        ..args.spec(0)
    };
    let load = carry_out(&spec, seed, &mut |_| ())?;
    if process::interrupted() {
        return Ok(Status::INTERRUPTED);
    }
    let session = measured::session("load", &[load], &mut Vec::new())?;
    status::say(format!("{}\n", line(only_run(&session)?)))?;
    Ok(Status::DONE)
}

/// The run of a session that has one load.
///
/// # Errors
/// It failed.
pub fn only_run(session: &Session) -> anyhow::Result<&Run> {
    if let Some(failure) = session.failures.first() {
        bail!("{}", failure.cause);
    }
    session.runs.first().context("nothing was measured")
}

/// What one run gave, in the words that HTTP tools share.
fn line(run: &Run) -> Json {
    let value = |name: &str| {
        let sample = run.samples.iter().find(|sample| &*sample.metric == name);
        sample.map(|sample| sample.value)
    };
    let main = run.samples.first();
    let latency = run.samples.iter().filter_map(|sample| {
        let name = sample.metric.strip_prefix("latency_")?;
        Some((name.to_owned(), json!(sample.value / 1e6)))
    });
    json!({
        "tool": "speedwell",
        "version": env!("CARGO_PKG_VERSION"),
        "requests": main.and_then(|sample| sample.iterations),
        "seconds": main.and_then(|sample| sample.elapsed_ns).map(|ns| ns as f64 / 1e9),
        "rate": value("throughput"),
        "errors": value("http_errors"),
        "non2xx": value("http_non2xx"),
        "bytes_per_second": value("bytes_per_second"),
        "latency_ms": latency.collect::<Map<String, Json>>(),
    })
}
