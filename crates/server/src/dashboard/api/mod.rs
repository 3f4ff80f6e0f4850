//! Implements the endpoints of the HTTP API for programs, below `/api/v1/`. Programs upload
//! sessions and read results.
//!
//! The table in `routes.rs` defines the endpoints and their permissions. Version 1 of the API is
//! only ever extended. Responses are JSON (a session is JSON Lines), and so are errors.
//!
//! This file has the data endpoints: series and points, the gate (the condition that decides an
//! exit status), tokens, and the audit log; and the endpoints for operators: readiness and metrics.
//! Points and audit log entries are limited. The response says whether there are more points.

use crate::dashboard::page::session::{MAX_RUNS, count_runs};
use crate::dashboard::page::{json_response, typed_response};
use crate::dashboard::site::RequestContext;
use crate::dashboard::{CommandLookups, RequiredPermission, SiteState};
use crate::http::HttpError;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use speedwell_store::{Store, StoredPoint};
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub mod sessions;

/// Default number of points in a response.
const DEFAULT_POINTS: usize = 1_000;
/// Maximum number of points in a response.
const MAX_POINTS: usize = 10_000;

/// Maximum number of audit log entries in a response.
const MAX_AUDIT_ENTRIES: usize = 200;

/// Option names of the gate.
const GATE_OPTIONS: [&str; 4] = ["threshold", "method", "correct", "fail-on"];

/// Returns all series of the project.
pub fn list_series(context: &RequestContext) -> Result<Response, HttpError> {
    context.parse_query()?.check_names(&[])?;
    let project = context.find_project()?;
    let series = project.with_reader(|store| Ok(store.list_series()?))?;
    let series = series.iter().map(|series| {
        let metric = &series.key.metric;
        json!({
            "number": series.number,
            "case": series.key.case,
            "variant": series.key.variant,
            "metric": metric.name,
            "unit": metric.unit,
            "better": metric.better,
            "primary": series.is_primary,
        })
    });
    let body = json!({"series": series.collect::<Vec<Value>>()});
    Ok(json_response(StatusCode::OK, &body))
}

/// Returns the newest points of a series.
pub fn list_points(context: &RequestContext) -> Result<Response, HttpError> {
    let query = context.parse_query()?;
    query.check_names(&["series", "most"])?;
    let Some(series) = query.get_number("series")? else {
        return Err(HttpError::bad_request("no series given")
            .with_hint("use ?series=NUMBER; PROJECT/series lists the numbers"));
    };
    let limit = match query.get_number("most")? {
        None => DEFAULT_POINTS,
        Some(limit) => usize::try_from(limit)
            .ok()
            .filter(|limit| (1..=MAX_POINTS).contains(limit))
            .ok_or_else(|| {
                HttpError::bad_request(format!(
                    "invalid 'most': expected a number from 1 to {MAX_POINTS}"
                ))
            })?,
    };
    let project = context.find_project()?;
    let mut points =
        project.with_reader(|store| Ok(store.load_newest_points(series, limit + 1)?))?;
    let has_more = points.len() > limit;
    if has_more {
        points.remove(0);
    }
    let points: Vec<Value> = points.iter().map(point_json).collect();
    let body = json!({"series": series, "points": points, "more": has_more});
    Ok(json_response(StatusCode::OK, &body))
}

fn point_json(stored: &StoredPoint) -> Value {
    let point = &stored.point;
    json!({
        "session": stored.session,
        "at_unix_ms": stored.at_unix_ms,
        "machine": stored.machine,
        "value": point.value,
        "low": point.interval.map(|ends| ends.0),
        "high": point.interval.map(|ends| ends.1),
        "runs": point.runs,
        "kind": point.kind.name(),
        "dirty": point.is_dirty,
    })
}

/// Returns the exit status of `speedwell compare --fail-on` for the sessions, and the reason.
pub fn evaluate_gate(context: &RequestContext) -> Result<Response, HttpError> {
    let query = context.parse_query()?;
    query.check_names(&[&["base", "with"][..], &GATE_OPTIONS].concat())?;
    let (Some(base), Some(with)) = (query.get("base"), query.get("with")) else {
        return Err(
            HttpError::bad_request("no sessions given").with_hint("use ?base=@prev&with=@latest")
        );
    };
    let options = GATE_OPTIONS.map(|name| (name, query.get(name)));
    let mut options: Vec<(&str, &str)> =
        options.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    if query.get("fail-on").is_none() {
        options.push(("fail-on", "worse"));
    }
    let project = context.find_project()?;
    let references = [base.to_owned(), with.to_owned()];
    let gate = project.with_reader(|store| {
        let gate = check_size(&project.lookups, store, &references)
            .and_then(|()| Ok((project.lookups.gate)(store, &references, &options)?));
        gate.map_err(|error| match error.status {
            StatusCode::INTERNAL_SERVER_ERROR => {
                HttpError { status: StatusCode::BAD_REQUEST, ..error }
            }
            _ => error,
        })
    })?;
    Ok(json_response(StatusCode::OK, &json!({"status": gate.status, "words": gate.message})))
}

/// Rejects comparisons that would take too long.
fn check_size(
    lookups: &CommandLookups,
    store: &Store,
    references: &[String],
) -> Result<(), HttpError> {
    let runs = count_runs(lookups, store, references)?;
    if runs <= MAX_RUNS {
        return Ok(());
    }
    let message = format!("cannot compare {runs} runs: expected at most {MAX_RUNS}");
    Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, message))
}

/// Lists the tokens, without secrets.
pub fn list_tokens(context: &RequestContext) -> Result<Response, HttpError> {
    context.parse_query()?.check_names(&[])?;
    let tokens = context.site.first.with_reader(|store| Ok(store.list_tokens()?))?;
    Ok(json_response(StatusCode::OK, &json!({"tokens": tokens})))
}

/// Returns the newest entries of the audit log.
pub fn list_audit_entries(context: &RequestContext) -> Result<Response, HttpError> {
    context.parse_query()?.check_names(&[])?;
    let first = &context.site.first;
    let entries = first.with_reader(|store| Ok(store.latest_audit_entries(MAX_AUDIT_ENTRIES)?))?;
    Ok(json_response(StatusCode::OK, &json!({"audit": entries})))
}

/// Maximum time in which a ready store answers.
const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// Checks that the store answers within [`READY_TIMEOUT`].
///
/// # Errors
/// Never fails: the response says what is wrong.
pub fn check_ready(context: &RequestContext) -> Result<Response, HttpError> {
    let started = Instant::now();
    let version = context.site.first.with_reader(|store| Ok(store.data_version()?));
    Ok(match version {
        Ok(_) if started.elapsed() <= READY_TIMEOUT => {
            text_response(StatusCode::OK, "ready".into())
        }
        Ok(_) => text_response(
            StatusCode::SERVICE_UNAVAILABLE,
            "the store took longer than 1 s to respond".into(),
        ),
        Err(error) => text_response(StatusCode::SERVICE_UNAVAILABLE, error.message),
    })
}

/// Returns metrics to callers who may read the first project.
///
/// # Errors
/// Never fails: the response says what is wrong, in plain text.
pub fn report_metrics(context: &RequestContext) -> Result<Response, HttpError> {
    let site = &context.site;
    let metrics = context
        .caller
        .ensure_permitted(RequiredPermission::Read, Some(&site.first.name))
        .and_then(|()| render_metrics(site));
    Ok(match metrics {
        Ok(text) => text_response(StatusCode::OK, text),
        Err(error) => text_response(error.status, error.message),
    })
}

/// Renders metrics in the text format of Prometheus
/// (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
fn render_metrics(site: &SiteState) -> Result<String, HttpError> {
    let mut out = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, rows: &[(String, f64)]| {
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "# HELP speedwell_{name} {help}\n# TYPE speedwell_{name} {kind}");
        for (labels, value) in rows {
            let _ = writeln!(out, "speedwell_{name}{labels} {value}");
        }
    };
    let row = |value: f64| vec![(String::new(), value)];
    let uptime_s = site.started.elapsed().as_secs_f64();
    metric("up_seconds", "gauge", "Seconds since the server started.", &row(uptime_s));
    let help = "Page responses by status class.";
    let counts = site.response_counts.iter().enumerate().skip(1);
    let responses = counts.map(|(class, count)| {
        (format!("{{status=\"{class}xx\"}}"), count.load(Ordering::Relaxed) as f64)
    });
    metric("answers_total", "counter", help, &responses.collect::<Vec<_>>());
    let projects = site.list_projects()?;
    let label = |name: &str| format!("{{project=\"{name}\"}}");
    let mut sessions = Vec::new();
    let mut viewers = Vec::new();
    for (project, _) in &projects {
        let newest = project.with_reader(|store| Ok(store.newest_number()?))?;
        sessions.push((label(&project.name), newest as f64));
        viewers.push((label(&project.name), project.count_viewers() as f64));
    }
    let help = "Number of the newest session.";
    metric("sessions_newest", "gauge", help, &sessions);
    metric("viewers", "gauge", "Clients that follow an event stream.", &viewers);
    if let Some(bytes) = resident_bytes() {
        metric("resident_bytes", "gauge", "Resident memory of the server.", &row(bytes));
    }
    if let Ok(data) = std::fs::metadata(&site.first.path) {
        let bytes = row(data.len() as f64);
        metric("store_bytes", "gauge", "Size of the results file.", &bytes);
    }
    Ok(out)
}

/// Returns the resident memory of the process (`VmRSS`, proc(5)).
fn resident_bytes() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

fn text_response(status: StatusCode, text: String) -> Response {
    let mime = "text/plain; version=0.0.4; charset=utf-8";
    let response = typed_response(status, mime, text.trim_end().to_owned() + "\n");
    ([(header::CACHE_CONTROL, "no-store")], response).into_response()
}
