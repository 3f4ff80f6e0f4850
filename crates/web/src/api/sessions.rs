//! Upload of sessions, in one request or line by line, and download.
//!
//! Every request can be repeated, because a response may be lost: stored data stay, and the second
//! response is 200. A different session with the same id is 409 and never replaces the stored one.

use super::call::{Call, reply};
use super::check;
use super::problem::Problem;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use speedwell_analysis as analysis;
use speedwell_model::{Session, SessionPoints};
use speedwell_results::formats::json_lines;
use speedwell_results::store::{Arrival, Digest, Store, line_count};

type Answer = Result<Response<Body>, Problem>;

/// Maximum bytes of all lines of a session.
const MOST_BYTES: u64 = 256 << 20;

/// Receives a whole session or its header.
pub fn put(call: &Call<'_>) -> Answer {
    let id = call.session_id()?;
    check::lines(call.body, 0)?;
    match call.read_query()?.get("sha256") {
        Some(digest) => {
            let read = read(call, id, call.body, digest)?;
            call.write(|store| take_in(call, store, id, &read))
        }
        None => {
            if line_count(call.body) != 1 {
                return Err(Problem::bad("the header of a session is one line")
                    .hint("send the others by PATCH, or all together with ?sha256=DIGEST"));
            }
            let origin = header(call, id)?.origin;
            call.write(|store| {
                let begun = store.begin_upload(id, call.body, &call.sender())?;
                if let (Arrival::Arriving(_), Some(origin)) = (&begun, &origin) {
                    store.owe_pending(origin, call.sender().at_unix_ms)?;
                    call.site.note_arrival();
                }
                arrived(call, store, id, begun)
            })
        }
    }
}

/// Parses a header alone, so that a session is rejected before its lines are sent.
fn header(call: &Call<'_>, id: &str) -> Result<Session, Problem> {
    let text = std::str::from_utf8(call.body).unwrap_or_default();
    let session = json_lines::read_header(text).map_err(unreadable)?;
    check::session(&session, id)?;
    call.ensure_may_push(&session)?;
    Ok(session)
}

/// Receives further lines.
pub fn patch(call: &Call<'_>) -> Answer {
    let id = call.session_id()?;
    let query = call.read_query()?;
    let at = query.get("at").and_then(|at| at.parse::<u64>().ok());
    let at = at.filter(|at| *at > 0 && i64::try_from(*at).is_ok());
    let at = at.ok_or_else(|| {
        Problem::bad("the place of the lines is missing")
            .hint("?at=N, from 1, which follows the header")
    })?;
    if call.body.is_empty() {
        return Err(Problem::bad("there are no lines"));
    }
    check::lines(call.body, at)?;
    call.write(|store| {
        match store.arriving_one(id)? {
            None if store.arrival(id)?.is_none() => return Err(not_begun(id)),
            Some(so_far) if so_far.bytes + call.body.len() as u64 > MOST_BYTES => {
                let words = format!("a session has at most {} MiB", MOST_BYTES >> 20);
                return Err(Problem::bad(words).too_large());
            }
            _ => {}
        }
        let (now, is_placed) = store.add_lines(id, at, call.body, &call.sender())?;
        match now {
            Arrival::Arriving(lines) if !is_placed => Err(misplaced(lines)),
            other => arrived(call, store, id, other),
        }
    })
}

/// Finishes an upload.
pub fn finish(call: &Call<'_>) -> Answer {
    let id = call.session_id()?;
    let body: Value = serde_json::from_slice(call.body)
        .map_err(|error| Problem::bad(format!("the body is no JSON: {error}")))?;
    let (Some(lines), Some(digest)) = (body["lines"].as_u64(), body["sha256"].as_str()) else {
        return Err(Problem::bad(
            "the body is {\"lines\": NUMBER, \"sha256\": DIGEST}",
        ));
    };
    let so_far = call.write(|store| Ok((store.arrival(id)?, store.lines_so_far(id)?)))?;
    let text = match so_far {
        (None, _) => return Err(not_begun(id)),
        (Some(Arrival::Arriving(here)), _) if here != lines => return Err(misplaced(here)),
        (Some(Arrival::Arriving(_)), text) => text,
        (Some(Arrival::Known(number)), _) => {
            let sent = parsed(digest)?;
            return call.write(|store| {
                let here = store.digest(number)?;
                if here == sent {
                    Ok(known(StatusCode::OK, "known", number, here))
                } else {
                    Err(differs(id, here, sent))
                }
            });
        }
        (Some(other), _) => return call.write(|store| arrived(call, store, id, other)),
    };
    let read = match read(call, id, &text, digest) {
        Ok(read) => read,
        Err(problem) => {
            // The stored lines cannot become the session, so the client has to start over.
            call.write(|store| Ok(store.drop_upload(id)?))?;
            return Err(problem);
        }
    };
    call.write(|store| take_in(call, store, id, &read))
}

/// Returns the progress of an upload.
pub fn upload(call: &Call<'_>) -> Answer {
    let id = call.session_id()?;
    call.write(|store| match store.arrival(id)? {
        Some(now) => arrived(call, store, id, now),
        None => Err(Problem::missing(format!(
            "nothing is known of session '{id}'"
        ))),
    })
}

/// Returns a session with all its lines.
pub fn get(call: &Call<'_>) -> Answer {
    let id = call.session_id()?;
    let lines = call.write(|store| {
        let number = store.number_of_id(id)?.ok_or_else(|| missing(id))?;
        let mut lines = Vec::new();
        store.write_lines(number, &mut lines)?;
        Ok(lines)
    })?;
    let mut response = Response::new(Body::from(lines));
    let kind = HeaderValue::from_static("application/jsonl");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

pub fn delete(call: &Call<'_>) -> Answer {
    let id = call.session_id()?;
    call.write(|store| {
        let number = store.number_of_id(id)?.ok_or_else(|| missing(id))?;
        let sender = call.sender();
        store.put_away(number, &call.caller.name, "asked for", sender.at_unix_ms)?;
        call.audit("delete", id, "done");
        Ok(reply(
            StatusCode::OK,
            &json!({"state": "deleted", "number": number}),
        ))
    })
}

/// Adds a tag to a session.
pub fn tag(call: &Call<'_>) -> Answer {
    let id = call.session_id()?;
    let body: Value = serde_json::from_slice(call.body)
        .map_err(|error| Problem::bad(format!("the body is no JSON: {error}")))?;
    let Some(tag) = body["tag"].as_str().filter(|tag| tag.len() <= check::NAME) else {
        return Err(Problem::bad("the body is {\"tag\": NAME}"));
    };
    call.write(|store| {
        let number = store.number_of_id(id)?.ok_or_else(|| missing(id))?;
        let session = store.session_without_runs(number)?;
        call.ensure_may_push(&session)?;
        store.tag(number, tag).map_err(unreadable)?;
        call.audit("tag", id, "done");
        Ok(reply(
            StatusCode::OK,
            &json!({"state": "tagged", "number": number}),
        ))
    })
}

/// A parsed session with its derived data.
struct Arrived {
    session: Session,
    points: Option<SessionPoints>,
    digest: Digest,
    size: (u64, u64),
}

/// Parses and checks a whole session, before taking the write connection.
fn read(call: &Call<'_>, id: &str, lines: &[u8], digest: &str) -> Result<Arrived, Problem> {
    let (sent, here) = (parsed(digest)?, Digest::of(lines));
    if sent != here {
        let words = "the lines that are here are not those that were sent";
        let problem = Problem::new(StatusCode::CONFLICT, words).hint("send them again");
        return Err(problem
            .with("here", here.to_string())
            .with("sent", digest)
            .with("lines", 0));
    }
    let text = std::str::from_utf8(lines).map_err(|_| Problem::bad("the body is no UTF-8"))?;
    let mut sessions = json_lines::read(text).map_err(unreadable)?;
    let session = sessions.pop().filter(|_| sessions.is_empty());
    let session = session.ok_or_else(|| Problem::bad("the lines are of several sessions"))?;
    check::session(&session, id)?;
    call.ensure_may_push(&session)?;
    Ok(Arrived {
        points: (!session.runs.is_empty()).then(|| analysis::points(&session)),
        session,
        digest: here,
        size: (line_count(lines), lines.len() as u64),
    })
}

fn take_in(call: &Call<'_>, store: &mut Store, id: &str, read: &Arrived) -> Answer {
    let sender = call.sender();
    match store.take_in(&read.session, read.digest, read.size, &sender)? {
        Arrival::Stored(number) => {
            if let Some(points) = &read.points {
                // Derived data: history recomputes missing points on demand.
                let _ = store.keep_points(number, points);
            }
            call.audit("push", id, "done");
            call.site.note_arrival();
            Ok(known(StatusCode::CREATED, "stored", number, read.digest))
        }
        Arrival::Known(number) => Ok(known(StatusCode::OK, "known", number, read.digest)),
        Arrival::Differs { here } => Err(differs(id, here, read.digest)),
        other => arrived(call, store, id, other),
    }
}

fn arrived(_: &Call<'_>, store: &Store, id: &str, now: Arrival) -> Answer {
    match now {
        Arrival::Arriving(lines) => Ok(reply(
            StatusCode::OK,
            &json!({"state": "arriving", "lines": lines}),
        )),
        Arrival::Known(number) | Arrival::Stored(number) => Ok(known(
            StatusCode::OK,
            "known",
            number,
            store.digest(number)?,
        )),
        Arrival::Differs { here } => {
            let words = format!("another session '{id}' is here");
            Err(Problem::new(StatusCode::CONFLICT, words).with("here", here.to_string()))
        }
        Arrival::Deleted => Err(Problem::new(
            StatusCode::GONE,
            format!("session '{id}' was deleted from this server"),
        )
        .hint("speedwell serve prune --undelete takes that back for 7 days")),
    }
}

fn known(status: StatusCode, state: &str, number: i64, digest: Digest) -> Response<Body> {
    let body = json!({"state": state, "number": number, "sha256": digest.to_string()});
    reply(status, &body)
}

fn parsed(digest: &str) -> Result<Digest, Problem> {
    Digest::parse(digest).ok_or_else(|| Problem::bad("sha256 is 64 hexadecimal digits"))
}

fn unreadable(error: anyhow::Error) -> Problem {
    Problem {
        status: StatusCode::BAD_REQUEST,
        retry_after_s: None,
        ..Problem::from(error)
    }
}

fn not_begun(id: &str) -> Problem {
    Problem::missing(format!("session '{id}' was not begun")).hint("PUT its header first")
}

fn missing(id: &str) -> Problem {
    Problem::missing(format!("there is no session '{id}'"))
}

fn misplaced(lines: u64) -> Problem {
    let words = format!("the next line is {lines}");
    Problem::new(StatusCode::CONFLICT, words).with("lines", lines)
}

fn differs(id: &str, here: Digest, sent: Digest) -> Problem {
    let words =
        format!("another session '{id}' is here: its digest is {here}, that of yours {sent}");
    Problem::new(StatusCode::CONFLICT, words)
        .hint("nothing is ever replaced; whoever changed the session elsewhere has to give it a new identity")
        .with("here", here.to_string())
        .with("sent", sent.to_string())
}
