//! Implements the data endpoints of the API: series and points, the gate (the condition that
//! decides an exit status), tokens, and the audit log.
//!
//! Points and audit log entries are limited. The response says whether there are more points.

use crate::dashboard::page::session::MAX_RUNS;
use crate::dashboard::request::RequestContext;
use crate::dashboard::responses::json_response;
use crate::http::HttpError;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde_json::{Value, json};
use speedwell_store::{Store, StoredPoint};

type DataResult = Result<Response<Body>, HttpError>;

/// Default number of points in a response.
const DEFAULT_POINTS: usize = 1_000;
/// Maximum number of points in a response.
const MAX_POINTS: usize = 10_000;

/// Maximum number of audit log entries in a response.
const MAX_AUDIT_ENTRIES: usize = 200;

/// Option names of the gate.
const GATE_OPTIONS: [&str; 4] = ["threshold", "method", "correct", "fail-on"];

/// Returns all series of the project.
pub fn list_series(context: &RequestContext) -> DataResult {
    context.parse_query()?.check_names(&[])?;
    let project = context.find_project()?;
    let series = project.with_reader(|store| Ok(store.list_series()?))?;
    let rows = series.iter().map(|series| {
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
    let rows: Vec<Value> = rows.collect();
    Ok(json_response(StatusCode::OK, &json!({"series": rows})))
}

/// Returns the newest points of a series.
pub fn list_points(context: &RequestContext) -> DataResult {
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
        project.with_reader(|store| Ok(store.load_newest_points(series, limit + 1)?.points))?;
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
pub fn evaluate_gate(context: &RequestContext) -> DataResult {
    let query = context.parse_query()?;
    query.check_names(&[
        "base",
        "with",
        GATE_OPTIONS[0],
        GATE_OPTIONS[1],
        GATE_OPTIONS[2],
        GATE_OPTIONS[3],
    ])?;
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
        let gate = check_size(context, store, &references)
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
    context: &RequestContext,
    store: &Store,
    references: &[String],
) -> Result<(), HttpError> {
    let mut runs = 0;
    for reference in references {
        let without_filter = reference.split("::").next().unwrap_or_default();
        let reference = without_filter.split('[').next().unwrap_or_default();
        let number = (context.site.lookups.session)(store, reference).map_err(|error| {
            HttpError { status: StatusCode::NOT_FOUND, ..HttpError::from(error) }
        })?;
        runs += store.find_overview(number)?.map_or(0, |session| session.runs);
    }
    if runs <= MAX_RUNS {
        return Ok(());
    }
    let message = format!("cannot compare {runs} runs: expected at most {MAX_RUNS}");
    Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, message))
}

/// Lists the tokens, without secrets.
pub fn list_tokens(context: &RequestContext) -> DataResult {
    context.parse_query()?.check_names(&[])?;
    let tokens = context.site.first.with_reader(|store| Ok(store.list_tokens()?))?;
    let rows = tokens.iter().map(|token| {
        let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.name()).collect();
        json!({
            "id": token.id,
            "name": token.name,
            "scopes": scopes,
            "project": token.project,
            "branches": token.branches,
            "machines": token.machines,
            "created_unix_ms": token.created_unix_ms,
            "expires_unix_ms": token.expires_unix_ms,
            "used_unix_ms": token.used_unix_ms,
            "revoked_unix_ms": token.revoked_unix_ms,
        })
    });
    let rows: Vec<Value> = rows.collect();
    Ok(json_response(StatusCode::OK, &json!({"tokens": rows})))
}

/// Returns the newest entries of the audit log.
pub fn list_audit_entries(context: &RequestContext) -> DataResult {
    context.parse_query()?.check_names(&[])?;
    let entries = context
        .site
        .first
        .with_reader(|store| Ok(store.latest_audit_entries(MAX_AUDIT_ENTRIES)?))?;
    let rows = entries.iter().map(|entry| {
        json!({
            "at_unix_ms": entry.at_unix_ms,
            "actor": entry.actor,
            "token": entry.token,
            "address": entry.address,
            "project": entry.project,
            "action": entry.action,
            "subject": entry.subject,
            "result": entry.result,
        })
    });
    let rows: Vec<Value> = rows.collect();
    Ok(json_response(StatusCode::OK, &json!({"audit": rows})))
}
