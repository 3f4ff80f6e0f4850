//! Data endpoints: the documents of pages as JSON, series and points, the gate, tokens and the
//! audit log.
//!
//! Points and the audit log are limited; the response says whether there are more points.

use super::call::{Call, reply};
use super::problem::Problem;
use crate::answer;
use crate::page::MOST_RUNS;
use axum::body::Body;
use axum::http::{Response, StatusCode, Uri};
use serde_json::{Value, json};
use speedwell_results::store::{Store, StoredPoint};

type Answer = Result<Response<Body>, Problem>;

/// Points in a response: default and maximum.
const POINTS: usize = 1_000;
const MOST_POINTS: usize = 10_000;

/// Entries of the audit log in a response.
const LINES: usize = 200;

/// Option names of the gate.
const OPTIONS: [&str; 4] = ["threshold", "method", "correct", "fail-on"];

/// Returns the document of a page of the project.
pub fn of_project(call: &Call<'_>, page: &str) -> Answer {
    // Project names need no escaping; other names fail here.
    call.site.project(call.project())?;
    document(call, &format!("/{}/{page}.json", call.project()))
}

/// Returns the document of a page of the server.
pub fn document(call: &Call<'_>, path: &str) -> Answer {
    let address = match call.query {
        "" => path.to_owned(),
        query => format!("{path}?{query}"),
    };
    let uri: Uri = address
        .parse()
        .map_err(|_| Problem::bad("the question is not understood"))?;
    Ok(answer::document(call.site, call.caller, &uri)?)
}

/// Returns all series of the project.
pub fn series(call: &Call<'_>) -> Answer {
    call.read_query()?.check(&[])?;
    let project = call.site.project(call.project())?;
    let series = project.read(|store| Ok(store.series()?))?;
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
    Ok(reply(StatusCode::OK, &json!({"series": rows})))
}

/// Returns the newest points of a series.
pub fn points(call: &Call<'_>) -> Answer {
    let query = call.read_query()?;
    query.check(&["series", "most"])?;
    let Some(series) = query.number("series")? else {
        return Err(
            Problem::bad("which series?").hint("?series=NUMBER, of those at PROJECT/series")
        );
    };
    let most = match query.number("most")? {
        None => POINTS,
        Some(most) => usize::try_from(most)
            .ok()
            .filter(|most| (1..=MOST_POINTS).contains(most))
            .ok_or_else(|| Problem::bad(format!("'most' is a number from 1 to {MOST_POINTS}")))?,
    };
    let project = call.site.project(call.project())?;
    let mut points = project.read(|store| Ok(store.course(series, most + 1)?.points))?;
    let is_more = points.len() > most;
    if is_more {
        points.remove(0);
    }
    let points: Vec<Value> = points.iter().map(point).collect();
    let body = json!({"series": series, "points": points, "more": is_more});
    Ok(reply(StatusCode::OK, &body))
}

fn point(stored: &StoredPoint) -> Value {
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

/// Returns the exit status that `speedwell compare --fail-on` would have.
pub fn gate(call: &Call<'_>) -> Answer {
    let query = call.read_query()?;
    query.check(&[
        "base", "with", OPTIONS[0], OPTIONS[1], OPTIONS[2], OPTIONS[3],
    ])?;
    let (Some(base), Some(with)) = (query.get("base"), query.get("with")) else {
        return Err(Problem::bad("which sessions?").hint("?base=@prev&with=@latest"));
    };
    let options = OPTIONS.map(|name| (name, query.get(name)));
    let mut options: Vec<(&str, &str)> = options
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    if query.get("fail-on").is_none() {
        options.push(("fail-on", "worse"));
    }
    let project = call.site.project(call.project())?;
    let words = [base.to_owned(), with.to_owned()];
    let said = project.read(|store| {
        Ok(check_size(call, store, &words)
            .and_then(|()| Ok((project.lookups.gate)(store, &words, &options)?)))
    })?;
    let said = said.map_err(|problem| match problem.status {
        StatusCode::INTERNAL_SERVER_ERROR => Problem {
            status: StatusCode::BAD_REQUEST,
            ..problem
        },
        _ => problem,
    })?;
    Ok(reply(
        StatusCode::OK,
        &json!({"status": said.status, "words": said.words}),
    ))
}

/// Rejects comparisons that would take too long.
fn check_size(call: &Call<'_>, store: &Store, words: &[String]) -> Result<(), Problem> {
    let mut runs = 0;
    for word in words {
        let plain = word.split("::").next().unwrap_or_default();
        let plain = plain.split('[').next().unwrap_or_default();
        let number = (call.site.lookups.session)(store, plain).map_err(|error| Problem {
            status: StatusCode::NOT_FOUND,
            ..Problem::from(error)
        })?;
        runs += store.overview(number)?.map_or(0, |session| session.runs);
    }
    if runs <= MOST_RUNS {
        return Ok(());
    }
    let words = format!("{runs} runs are too many; at most {MOST_RUNS} are compared here");
    Err(Problem::bad(words).too_large())
}

/// Lists the tokens, without secrets.
pub fn tokens(call: &Call<'_>) -> Answer {
    call.read_query()?.check(&[])?;
    let tokens = call.site.first.read(|store| Ok(store.tokens()?))?;
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
    Ok(reply(StatusCode::OK, &json!({"tokens": rows})))
}

/// Returns the newest entries of the audit log.
pub fn audit(call: &Call<'_>) -> Answer {
    call.read_query()?.check(&[])?;
    let lines = call.site.first.read(|store| Ok(store.audit(LINES)?))?;
    let rows = lines.iter().map(|line| {
        json!({
            "at_unix_ms": line.at_unix_ms,
            "who": line.who,
            "token": line.token,
            "address": line.address,
            "project": line.project,
            "what": line.what,
            "subject": line.subject,
            "result": line.result,
        })
    });
    let rows: Vec<Value> = rows.collect();
    Ok(reply(StatusCode::OK, &json!({"audit": rows})))
}
