//! Implements the endpoints for operators: readiness and metrics.

use crate::dashboard::access::RequiredPermission;
use crate::dashboard::request::RequestContext;
use crate::dashboard::site::SiteState;
use crate::http::HttpError;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Maximum time in which a ready store answers.
const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// Checks that the store answers within [`READY_TIMEOUT`].
///
/// # Errors
/// Never fails: the response says what is wrong.
pub fn check_ready(context: &RequestContext) -> Result<Response<Body>, HttpError> {
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
pub fn report_metrics(context: &RequestContext) -> Result<Response<Body>, HttpError> {
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
    metric("answers_total", "counter", help, &response_rows(site));
    let projects = site.list_projects()?;
    let label = |name: &str| format!("{{project=\"{name}\"}}");
    let mut sessions = Vec::new();
    let mut viewers = Vec::new();
    for (project, _) in &projects {
        let newest = project.with_reader(|store| Ok(store.newest_number()?))?;
        sessions.push((label(&project.name), newest as f64));
        viewers.push((label(&project.name), project.live.count_viewers() as f64));
    }
    let help = "Number of the newest session.";
    metric("sessions_newest", "gauge", help, &sessions);
    metric("viewers", "gauge", "Clients that follow an event stream.", &viewers);
    if let Some(bytes) = resident_bytes() {
        metric("resident_bytes", "gauge", "Resident memory of the server.", &row(bytes));
    }
    if let Ok(data) = std::fs::metadata(site.first.path()) {
        let bytes = row(data.len() as f64);
        metric("store_bytes", "gauge", "Size of the results file.", &bytes);
    }
    Ok(out)
}

/// Returns the number of responses per status class, with labels.
fn response_rows(site: &SiteState) -> Vec<(String, f64)> {
    let counts = site.response_counts.iter().enumerate().skip(1);
    counts
        .map(|(class, count)| {
            let labels = format!("{{status=\"{class}xx\"}}");
            (labels, count.load(Ordering::Relaxed) as f64)
        })
        .collect()
}

/// Returns the resident memory of the process (`VmRSS`, proc(5)).
fn resident_bytes() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

fn text_response(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text.trim_end().to_owned() + "\n"));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
