//! Receives sessions. Returns, tags and deletes stored sessions.
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
use speedwell_store::{SessionDigest, Store, UploadStatus};
use std::io::{BufRead as _, Read as _, Write as _};

type SessionResult = Result<Response<Body>, HttpError>;

/// Moves the next part of a session that is too large for memory to a file. The first part shows
/// whether the session may be pushed at all, and announces it on its pull request.
pub fn spool_part(mut context: RequestContext, part: &[u8]) -> Result<RequestContext, HttpError> {
    let mut file = match context.spool.take() {
        Some(file) => file,
        None => {
            announce_session(&context, part)?;
            tempfile::tempfile().map_err(anyhow::Error::from)?
        }
    };
    file.write_all(part).map_err(anyhow::Error::from)?;
    context.spool = Some(file);
    Ok(context)
}

fn announce_session(context: &RequestContext, part: &[u8]) -> Result<(), HttpError> {
    let id = context.session_id()?;
    let Some(end) = part.iter().position(|byte| *byte == b'\n') else {
        // A header as long as that is checked with the other lines.
        return Ok(());
    };
    check::check_line(&part[..=end], 0)?;
    let text = std::str::from_utf8(&part[..end]).unwrap_or_default();
    let session = json_lines::read_header(text).map_err(unreadable_session)?;
    check::check_session(&session, id)?;
    context.ensure_push_permitted(&session)?;
    context.with_writer(|store| match (store.upload_status(id)?, &session.origin) {
        (Some(UploadStatus::Deleted), _) => Err(deleted_session(id)),
        (None, Some(origin)) => {
            store.queue_pending_comment(origin, context.upload_sender().at_unix_ms)?;
            context.site.record_upload();
            Ok(())
        }
        _ => Ok(()),
    })
}

/// Receives a session.
pub fn put_session(context: &RequestContext) -> SessionResult {
    let id = context.session_id()?;
    let query = context.parse_query()?;
    let digest = query.get("sha256").ok_or_else(|| {
        HttpError::bad_request("missing digest 'sha256'")
            .with_hint("use ?sha256=DIGEST, the SHA-256 of all lines")
    })?;
    let upload = parse_upload(context, id, digest)?;
    context.with_writer(|store| store_upload(context, store, id, &upload))
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

/// Parses and checks a session, of which only one line at a time is in memory as text. No write
/// connection is needed yet.
fn parse_upload(
    context: &RequestContext,
    id: &str,
    digest: &str,
) -> Result<ParsedUpload, HttpError> {
    let size = check_lines(context)?;
    let sent_digest = parse_digest(digest)?;
    let received_digest =
        SessionDigest::hash_reader(context.open_body()?).map_err(anyhow::Error::from)?;
    if sent_digest != received_digest {
        let message = "digest mismatch: the received lines differ from the sent ones";
        let mismatch =
            HttpError::new(StatusCode::CONFLICT, message).with_hint("send the lines again");
        return Err(mismatch
            .with_member("stored_digest", received_digest.to_string())
            .with_member("sent_digest", digest)
            .with_member("lines", 0));
    }
    let mut sessions = json_lines::read_from(context.open_body()?).map_err(unreadable_session)?;
    let session = sessions.pop().filter(|_| sessions.is_empty());
    let session =
        session.ok_or_else(|| HttpError::bad_request("expected the lines of a single session"))?;
    check::check_session(&session, id)?;
    context.ensure_push_permitted(&session)?;
    Ok(ParsedUpload {
        points: (!session.runs.is_empty()).then(|| analysis::session_points(&session)),
        session,
        digest: received_digest,
        size,
    })
}

/// Scans all lines of the body. Returns the number of lines and of bytes.
fn check_lines(context: &RequestContext) -> Result<(u64, u64), HttpError> {
    let mut body = context.open_body()?;
    let (mut lines, mut bytes) = (0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        // Two bytes more than the limit, one of them for the line break.
        let mut limited = (&mut body).take(check::MAX_LINE_BYTES as u64 + 2);
        let count = limited.read_until(b'\n', &mut line).map_err(anyhow::Error::from)?;
        if count == 0 {
            return Ok((lines, bytes));
        }
        check::check_line(&line, lines)?;
        lines += 1;
        bytes += count as u64;
    }
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
        UploadStatus::Deleted => Err(deleted_session(id)),
    }
}

fn deleted_session(id: &str) -> HttpError {
    HttpError::new(StatusCode::GONE, format!("session '{id}' was deleted from this server"))
        .with_hint("it can be restored with 'speedwell serve prune --undelete' for 7 days")
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

fn session_not_found(id: &str) -> HttpError {
    HttpError::not_found(format!("session '{id}' not found"))
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
