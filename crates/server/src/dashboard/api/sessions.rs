//! Receives sessions, in one request or in several. Returns, tags and deletes stored sessions.
//!
//! A response may be lost, so uploads can be repeated. The second response is then 200, and the
//! stored data is kept. A different session with the same id is rejected with 409.

use crate::dashboard::api::check;
use crate::dashboard::request::RequestContext;
use crate::dashboard::responses::json_response;
use crate::http::HttpError;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use speedwell_analysis as analysis;
use speedwell_formats::json_lines;
use speedwell_model::{Session, SessionPoints};
use speedwell_store::{SessionDigest, Store, UploadStatus, count_lines};

type SessionResult = Result<Response<Body>, HttpError>;

/// Maximum bytes of all lines of a session.
const MAX_SESSION_BYTES: u64 = 256 << 20;

/// Receives a complete session, or only its header.
pub fn put_session(context: &RequestContext) -> SessionResult {
    let id = context.session_id()?;
    check::check_lines(&context.body, 0)?;
    match context.parse_query()?.get("sha256") {
        Some(digest) => {
            let upload = parse_upload(context, id, &context.body, digest)?;
            context.with_writer(|store| store_upload(context, store, id, &upload))
        }
        None => {
            if count_lines(&context.body) != 1 {
                return Err(HttpError::bad_request("expected a single line, the session header")
                    .with_hint(
                        "send the other lines by PATCH, or all lines at once with ?sha256=DIGEST",
                    ));
            }
            let origin = parse_header(context, id)?.origin;
            context.with_writer(|store| {
                let status = store.begin_upload(id, &context.body, &context.upload_sender())?;
                if let (UploadStatus::Arriving(_), Some(origin)) = (&status, &origin) {
                    store.queue_pending_comment(origin, context.upload_sender().at_unix_ms)?;
                    context.site.record_upload();
                }
                arrival_response(store, id, status)
            })
        }
    }
}

/// Parses a header alone, so that an invalid session is rejected before its lines are sent.
fn parse_header(context: &RequestContext, id: &str) -> Result<Session, HttpError> {
    let text = std::str::from_utf8(&context.body).unwrap_or_default();
    let session = json_lines::read_header(text).map_err(unreadable_session)?;
    check::check_session(&session, id)?;
    context.ensure_push_permitted(&session)?;
    Ok(session)
}

/// Receives further lines.
pub fn append_lines(context: &RequestContext) -> SessionResult {
    let id = context.session_id()?;
    let first_line = context
        .parse_query()?
        .get("at")
        .and_then(|number| number.parse::<u64>().ok())
        .filter(|number| *number > 0 && i64::try_from(*number).is_ok())
        .ok_or_else(|| {
            HttpError::bad_request("missing or invalid line number 'at'").with_hint(
                "use ?at=N, the number of the first line sent; line 1 follows the header",
            )
        })?;
    if context.body.is_empty() {
        return Err(HttpError::bad_request("the body contains no lines"));
    }
    check::check_lines(&context.body, first_line)?;
    context.with_writer(|store| {
        match store.find_incomplete_upload(id)? {
            None if store.upload_status(id)?.is_none() => return Err(upload_not_begun(id)),
            Some(upload) if upload.bytes + context.body.len() as u64 > MAX_SESSION_BYTES => {
                let message = format!("the session is larger than {} MiB", MAX_SESSION_BYTES >> 20);
                return Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, message));
            }
            _ => {}
        }
        let (status, is_contiguous) =
            store.add_lines(id, first_line, &context.body, &context.upload_sender())?;
        match status {
            UploadStatus::Arriving(lines) if !is_contiguous => Err(line_mismatch(lines)),
            other => arrival_response(store, id, other),
        }
    })
}

/// Finishes an upload.
pub fn finish_upload(context: &RequestContext) -> SessionResult {
    let id = context.session_id()?;
    let body: Value = serde_json::from_slice(&context.body).map_err(|error| {
        HttpError::bad_request(format!("cannot parse the body as JSON: {error}"))
    })?;
    let (Some(lines), Some(digest)) = (body["lines"].as_u64(), body["sha256"].as_str()) else {
        return Err(HttpError::bad_request(
            "invalid body: expected {\"lines\": NUMBER, \"sha256\": DIGEST}",
        ));
    };
    let progress =
        context.with_writer(|store| Ok((store.upload_status(id)?, store.received_lines(id)?)))?;
    let text = match progress {
        (None, _) => return Err(upload_not_begun(id)),
        (Some(UploadStatus::Arriving(received)), _) if received != lines => {
            return Err(line_mismatch(received));
        }
        (Some(UploadStatus::Arriving(_)), text) => text,
        (Some(UploadStatus::Known(number)), _) => {
            let sent_digest = parse_digest(digest)?;
            return context.with_writer(|store| {
                let stored_digest = store.session_digest(number)?;
                if stored_digest == sent_digest {
                    Ok(known_response(StatusCode::OK, "known", number, stored_digest))
                } else {
                    Err(session_conflict(id, stored_digest, sent_digest))
                }
            });
        }
        (Some(other), _) => {
            return context.with_writer(|store| arrival_response(store, id, other));
        }
    };
    let upload = match parse_upload(context, id, &text, digest) {
        Ok(upload) => upload,
        Err(error) => {
            // The stored lines cannot become the session, so the client has to start over.
            context.with_writer(|store| Ok(store.discard_upload(id)?))?;
            return Err(error);
        }
    };
    context.with_writer(|store| store_upload(context, store, id, &upload))
}

/// Returns the progress of an upload.
pub fn upload_status(context: &RequestContext) -> SessionResult {
    let id = context.session_id()?;
    context.with_writer(|store| match store.upload_status(id)? {
        Some(status) => arrival_response(store, id, status),
        None => Err(HttpError::not_found(format!("session '{id}' not found"))),
    })
}

/// Returns a session with all its lines.
pub fn get_session(context: &RequestContext) -> SessionResult {
    let id = context.session_id()?;
    let lines = context.with_writer(|store| {
        let number = store.find_by_id(id)?.ok_or_else(|| session_not_found(id))?;
        let mut lines = Vec::new();
        store.write_lines(number, &mut lines)?;
        Ok(lines)
    })?;
    let mut response = Response::new(Body::from(lines));
    let content_type = HeaderValue::from_static("application/jsonl");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    Ok(response)
}

pub fn delete_session(context: &RequestContext) -> SessionResult {
    let id = context.session_id()?;
    context.with_writer(|store| {
        let number = store.find_by_id(id)?.ok_or_else(|| session_not_found(id))?;
        let sender = context.upload_sender();
        store.delete_session(number, &context.caller.name, "asked for", sender.at_unix_ms)?;
        context.record_action("delete", id, "done");
        Ok(json_response(StatusCode::OK, &json!({"state": "deleted", "number": number})))
    })
}

/// Adds a tag to a session.
pub fn add_tag(context: &RequestContext) -> SessionResult {
    let id = context.session_id()?;
    let body: Value = serde_json::from_slice(&context.body).map_err(|error| {
        HttpError::bad_request(format!("cannot parse the body as JSON: {error}"))
    })?;
    let Some(tag) = body["tag"].as_str().filter(|tag| tag.len() <= check::MAX_NAME_BYTES) else {
        return Err(HttpError::bad_request("invalid body: expected {\"tag\": NAME}"));
    };
    context.with_writer(|store| {
        let number = store.find_by_id(id)?.ok_or_else(|| session_not_found(id))?;
        let session = store.load_session_without_runs(number)?;
        context.ensure_push_permitted(&session)?;
        store.tag_session(number, tag).map_err(unreadable_session)?;
        context.record_action("tag", id, "done");
        Ok(json_response(StatusCode::OK, &json!({"state": "tagged", "number": number})))
    })
}

/// A parsed session with its derived data.
struct ParsedUpload {
    session: Session,
    points: Option<SessionPoints>,
    digest: SessionDigest,
    size: (u64, u64),
}

/// Parses and checks a whole session. No write connection is needed yet.
fn parse_upload(
    context: &RequestContext,
    id: &str,
    lines: &[u8],
    digest: &str,
) -> Result<ParsedUpload, HttpError> {
    let (sent_digest, received_digest) = (parse_digest(digest)?, SessionDigest::hash_lines(lines));
    if sent_digest != received_digest {
        let message = "digest mismatch: the received lines differ from the sent ones";
        let mismatch =
            HttpError::new(StatusCode::CONFLICT, message).with_hint("send the lines again");
        return Err(mismatch
            .with_member("stored_digest", received_digest.to_string())
            .with_member("sent_digest", digest)
            .with_member("lines", 0));
    }
    let text = std::str::from_utf8(lines)
        .map_err(|_| HttpError::bad_request("the body is not valid UTF-8"))?;
    let mut sessions = json_lines::read(text).map_err(unreadable_session)?;
    let session = sessions.pop().filter(|_| sessions.is_empty());
    let session =
        session.ok_or_else(|| HttpError::bad_request("expected the lines of a single session"))?;
    check::check_session(&session, id)?;
    context.ensure_push_permitted(&session)?;
    Ok(ParsedUpload {
        points: (!session.runs.is_empty()).then(|| analysis::session_points(&session)),
        session,
        digest: received_digest,
        size: (count_lines(lines), lines.len() as u64),
    })
}

fn store_upload(
    context: &RequestContext,
    store: &mut Store,
    id: &str,
    upload: &ParsedUpload,
) -> SessionResult {
    let sender = context.upload_sender();
    match store.accept_session(&upload.session, upload.digest, upload.size, &sender)? {
        UploadStatus::Stored(number) => {
            if let Some(points) = &upload.points {
                // Points are derived data: the history recomputes missing points on demand.
                let _ = store.store_points(number, points);
            }
            context.record_action("push", id, "done");
            context.site.record_upload();
            Ok(known_response(StatusCode::CREATED, "stored", number, upload.digest))
        }
        UploadStatus::Known(number) => {
            Ok(known_response(StatusCode::OK, "known", number, upload.digest))
        }
        UploadStatus::Differs { here } => Err(session_conflict(id, here, upload.digest)),
        other => arrival_response(store, id, other),
    }
}

fn arrival_response(store: &Store, id: &str, status: UploadStatus) -> SessionResult {
    match status {
        UploadStatus::Arriving(lines) => {
            Ok(json_response(StatusCode::OK, &json!({"state": "arriving", "lines": lines})))
        }
        UploadStatus::Known(number) | UploadStatus::Stored(number) => {
            Ok(known_response(StatusCode::OK, "known", number, store.session_digest(number)?))
        }
        UploadStatus::Differs { here } => {
            let message = format!("a different session '{id}' is already stored");
            Err(HttpError::new(StatusCode::CONFLICT, message)
                .with_member("stored_digest", here.to_string()))
        }
        UploadStatus::Deleted => Err(HttpError::new(
            StatusCode::GONE,
            format!("session '{id}' was deleted from this server"),
        )
        .with_hint("it can be restored with 'speedwell serve prune --undelete' for 7 days")),
    }
}

fn known_response(
    status: StatusCode,
    state: &str,
    number: i64,
    digest: SessionDigest,
) -> Response<Body> {
    let body = json!({"state": state, "number": number, "sha256": digest.to_string()});
    json_response(status, &body)
}

fn parse_digest(digest: &str) -> Result<SessionDigest, HttpError> {
    SessionDigest::parse(digest)
        .ok_or_else(|| HttpError::bad_request("invalid sha256: expected 64 hexadecimal digits"))
}

fn unreadable_session(error: anyhow::Error) -> HttpError {
    HttpError::from_error(StatusCode::BAD_REQUEST, &error)
}

fn upload_not_begun(id: &str) -> HttpError {
    HttpError::not_found(format!("the upload of session '{id}' has not started"))
        .with_hint("PUT its header first")
        .with_member("lines", 0)
}

fn session_not_found(id: &str) -> HttpError {
    HttpError::not_found(format!("session '{id}' not found"))
}

fn line_mismatch(lines: u64) -> HttpError {
    let message = format!("line number mismatch: the number of lines received so far is {lines}");
    HttpError::new(StatusCode::CONFLICT, message).with_member("lines", lines)
}

fn session_conflict(
    id: &str,
    stored_digest: SessionDigest,
    sent_digest: SessionDigest,
) -> HttpError {
    let message = format!(
        "a different session '{id}' is already stored: its digest is {stored_digest}, yours is {sent_digest}"
    );
    HttpError::new(StatusCode::CONFLICT, message)
        .with_hint("stored sessions are never replaced; give the changed session a new id")
        .with_member("stored_digest", stored_digest.to_string())
        .with_member("sent_digest", sent_digest.to_string())
}
