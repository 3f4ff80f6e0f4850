//! Receives sessions. Returns, tags and deletes stored sessions.
//!
//! A response may be lost, so uploads can be repeated. The second response is then 200, and the
//! stored data is kept. A different session with the same id is rejected with 409.
//!
//! Limits apply to nesting, number of keys, length of names and range of numbers. The raw text is
//! scanned before it is parsed, so rejected input takes no memory. Checks that depend on the meaning
//! of a value run after parsing. Errors of the scan name the line, counted from 1.

use crate::dashboard::address::SESSION_TYPE;
use crate::dashboard::page::{json_response, typed_response};
use crate::dashboard::site::{RequestContext, unix_ms};
use crate::http::HttpError;
use crate::http::token::SecretText;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use speedwell_analysis as analysis;
use speedwell_formats::json_lines;
use speedwell_model::{ParameterValue, ResourceUsage, Session, SessionPoints};
use speedwell_store::{SessionDigest, Store, UploadReceipt, UploadStatus};
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

/// Moves the next part of a session that is too large for memory to a file. The first part shows
/// whether the session may be pushed at all, and announces it on its pull request.
pub fn spool_part(mut context: RequestContext, part: &[u8]) -> Result<RequestContext, HttpError> {
    let mut file = match context.spool.take() {
        Some(file) => file,
        None => {
            announce_session(&context, part)?;
            create_unnamed_file()?
        }
    };
    file.write_all(part).map_err(anyhow::Error::from)?;
    context.spool = Some(file);
    Ok(context)
}

/// Creates a file that has no name, so that it is gone once it is closed.
fn create_unnamed_file() -> anyhow::Result<File> {
    let name = format!("speedwell-scratch-{}", SecretText::random::<16>()?.expose());
    let path = std::env::temp_dir().join(name);
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn announce_session(context: &RequestContext, part: &[u8]) -> Result<(), HttpError> {
    let id = session_id(context)?;
    let Some(end) = part.iter().position(|byte| *byte == b'\n') else {
        // A header that is longer than the first part is checked later, with the other lines.
        return Ok(());
    };
    check_line(&part[..=end], 0)?;
    let text = std::str::from_utf8(&part[..end]).unwrap_or_default();
    let session = json_lines::read_header(text).map_err(unreadable_session)?;
    check_session(&session, id)?;
    ensure_push_permitted(context, &session)?;
    context.find_project()?.with_writer(|store| match (store.upload_status(id)?, &session.origin) {
        (Some(UploadStatus::Deleted), _) => Err(deleted_session(id)),
        (None, Some(origin)) => {
            store.queue_pending_comment(origin, unix_ms())?;
            context.site.record_upload();
            Ok(())
        }
        _ => Ok(()),
    })
}

/// Receives a session.
pub fn put_session(context: &RequestContext) -> Result<Response, HttpError> {
    let id = session_id(context)?;
    let query = context.parse_query()?;
    let digest = query.get("sha256").ok_or_else(|| {
        HttpError::bad_request("missing digest 'sha256'")
            .with_hint("use ?sha256=DIGEST, the SHA-256 of all lines")
    })?;
    let upload = parse_upload(context, id, digest)?;
    context.find_project()?.with_writer(|store| store_upload(context, store, id, &upload))
}

/// Returns the session id.
///
/// # Errors
/// Fails if the path contains no valid id.
fn session_id(context: &RequestContext) -> Result<&str, HttpError> {
    let id = context.name.as_str();
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if id.is_empty() || id.len() > 64 || !id.bytes().all(is_letter) {
        return Err(HttpError::bad_request(
            "invalid session id: expected up to 64 letters, digits and hyphens",
        ));
    }
    Ok(id)
}

/// Returns a session with all its lines.
pub fn get_session(context: &RequestContext) -> Result<Response, HttpError> {
    let id = session_id(context)?;
    let lines = context.find_project()?.with_writer(|store| {
        let number = store.find_by_id(id)?.ok_or_else(|| session_not_found(id))?;
        let mut lines = Vec::new();
        store.write_lines(number, &mut lines)?;
        Ok(lines)
    })?;
    Ok(typed_response(StatusCode::OK, SESSION_TYPE, lines))
}

pub fn delete_session(context: &RequestContext) -> Result<Response, HttpError> {
    let id = session_id(context)?;
    context.find_project()?.with_writer(|store| {
        let number = store.find_by_id(id)?.ok_or_else(|| session_not_found(id))?;
        store.delete_session(number, &context.caller.name, "asked for", unix_ms())?;
        context.record_action("delete", id, "done");
        Ok(json_response(StatusCode::OK, &json!({"state": "deleted", "number": number})))
    })
}

/// Adds a tag to a session.
pub fn add_tag(context: &RequestContext) -> Result<Response, HttpError> {
    let id = session_id(context)?;
    let body: Value = serde_json::from_slice(&context.body).map_err(|error| {
        HttpError::bad_request(format!("cannot parse the body as JSON: {error}"))
    })?;
    let Some(tag) = body["tag"].as_str().filter(|tag| tag.len() <= MAX_NAME_BYTES) else {
        return Err(HttpError::bad_request("invalid body: expected {\"tag\": NAME}"));
    };
    context.find_project()?.with_writer(|store| {
        let number = store.find_by_id(id)?.ok_or_else(|| session_not_found(id))?;
        let session = store.load_session_without_runs(number)?;
        ensure_push_permitted(context, &session)?;
        store.tag_session(number, tag).map_err(unreadable_session)?;
        context.record_action("tag", id, "done");
        Ok(json_response(StatusCode::OK, &json!({"state": "tagged", "number": number})))
    })
}

/// A parsed session with its derived data.
struct ParsedUpload<'a> {
    session: Session,
    points: Option<SessionPoints>,
    receipt: UploadReceipt<'a>,
}

/// Parses and checks a session, of which only one line at a time is in memory as text. No write
/// connection is needed yet.
fn parse_upload<'a>(
    context: &'a RequestContext,
    id: &str,
    digest: &str,
) -> Result<ParsedUpload<'a>, HttpError> {
    let (lines, bytes) = check_lines(context)?;
    let sent_digest = SessionDigest::parse(digest)
        .ok_or_else(|| HttpError::bad_request("invalid sha256: expected 64 hexadecimal digits"))?;
    let received_digest =
        SessionDigest::hash_reader(open_body(context)?).map_err(anyhow::Error::from)?;
    if sent_digest != received_digest {
        let message = "digest mismatch: the received lines differ from the sent ones";
        let mismatch =
            HttpError::new(StatusCode::CONFLICT, message).with_hint("send the lines again");
        return Err(mismatch
            .with_member("stored_digest", received_digest.to_string())
            .with_member("sent_digest", digest)
            .with_member("lines", 0));
    }
    let mut sessions = json_lines::read_from(open_body(context)?).map_err(unreadable_session)?;
    let session = sessions.pop().filter(|_| sessions.is_empty());
    let session =
        session.ok_or_else(|| HttpError::bad_request("expected the lines of a single session"))?;
    check_session(&session, id)?;
    ensure_push_permitted(context, &session)?;
    Ok(ParsedUpload {
        points: (!session.runs.is_empty()).then(|| analysis::session_points(&session)),
        session,
        receipt: UploadReceipt {
            digest: received_digest,
            lines: lines.cast_signed(),
            bytes: bytes.cast_signed(),
            token: context.caller.token.as_deref(),
            at_unix_ms: unix_ms(),
        },
    })
}

/// Reads the body from its start.
///
/// # Errors
/// Fails if the file with its start cannot be read.
fn open_body(context: &RequestContext) -> Result<Box<dyn BufRead + '_>, HttpError> {
    let Some(mut file) = context.spool.as_ref() else {
        return Ok(Box::new(&context.body[..]));
    };
    file.rewind().map_err(anyhow::Error::from)?;
    Ok(Box::new(BufReader::new(file.chain(&context.body[..]))))
}

/// Scans all lines of the body. Returns the number of lines and of bytes.
fn check_lines(context: &RequestContext) -> Result<(u64, u64), HttpError> {
    let mut body = open_body(context)?;
    let (mut lines, mut bytes) = (0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        // Two bytes more than the limit, one of them for the line break.
        let mut limited = (&mut body).take(MAX_LINE_BYTES as u64 + 2);
        let count = limited.read_until(b'\n', &mut line).map_err(anyhow::Error::from)?;
        if count == 0 {
            return Ok((lines, bytes));
        }
        check_line(&line, lines)?;
        lines += 1;
        bytes += count as u64;
    }
}

/// Rejects a session if the token may not push sessions of its branch or machine.
///
/// # Errors
/// Returns 403 and records the rejection in the audit log.
fn ensure_push_permitted(context: &RequestContext, session: &Session) -> Result<(), HttpError> {
    let caller = &context.caller;
    let origin = session.origin.as_ref();
    let branch = origin.and_then(|origin| origin.branch.clone());
    let environment = &session.environment;
    let machine = environment.machine.clone().or(environment.host.clone());
    let restrictions =
        [("branch", &caller.branches, branch), ("machine", &caller.machines, machine)];
    for (kind, allowed, name) in restrictions {
        let name = name.unwrap_or_default();
        if allowed.as_ref().is_some_and(|allowed| !allowed.contains(&name)) {
            let message = format!("the token may not push sessions of the {kind} '{name}'");
            context.record_action("push", &session.id, &message);
            return Err(HttpError::new(StatusCode::FORBIDDEN, message)
                .with_hint("create a token with this permission: speedwell serve token add"));
        }
    }
    Ok(())
}

fn store_upload(
    context: &RequestContext,
    store: &mut Store,
    id: &str,
    upload: &ParsedUpload<'_>,
) -> Result<Response, HttpError> {
    let digest = upload.receipt.digest;
    match store.accept_session(&upload.session, &upload.receipt)? {
        UploadStatus::Stored(number) => {
            if let Some(points) = &upload.points {
                // Points are derived data: the history recomputes missing points on demand.
                let _ = store.store_points(number, points);
            }
            context.record_action("push", id, "done");
            context.site.record_upload();
            Ok(known_response(StatusCode::CREATED, "stored", number, digest))
        }
        UploadStatus::Known(number) => Ok(known_response(StatusCode::OK, "known", number, digest)),
        UploadStatus::Differs { here } => Err(session_conflict(id, here, digest)),
        UploadStatus::Deleted => Err(deleted_session(id)),
    }
}

fn deleted_session(id: &str) -> HttpError {
    HttpError::new(StatusCode::GONE, format!("session '{id}' was deleted from this server"))
        .with_hint("it can be restored with 'speedwell serve prune --undelete' for 7 days")
}

fn known_response(status: StatusCode, state: &str, number: i64, digest: SessionDigest) -> Response {
    let digest = digest.to_string();
    json_response(status, &json!({"state": state, "number": number, "sha256": digest}))
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

/// Maximum bytes of a line, without its line break.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Maximum nesting depth.
const MAX_DEPTH: usize = 64;
/// Maximum number of keys in a data line. A line with 250,000 samples has that many.
const MAX_KEYS: usize = 1_000_000;
/// Maximum number of keys in a header. Each key may become a variant or a program.
const MAX_HEADER_KEYS: usize = 100_000;
/// Maximum bytes of a name.
const MAX_NAME_BYTES: usize = 4 << 10;
/// Maximum number of parameters of a case.
const MAX_PARAMETERS: usize = 64;
/// The last millisecond of the year 9999.
const LATEST_UNIX_MS: i64 = 253_402_300_799_999;
/// Nanoseconds of a year. No run takes longer.
const MAX_RUN_NS: u64 = 366 * 24 * 3600 * 1_000_000_000;

/// Scans a line with its line break, without parsing it. `number` is its number in the session,
/// counted from 0.
///
/// # Errors
/// Returns 400 if the line is not valid UTF-8 or incomplete. Returns 413, naming the line, if it is
/// empty, exceeds a limit or contains NUL.
fn check_line(line: &[u8], number: u64) -> Result<(), HttpError> {
    let fault = |problem: &str| {
        let message = format!("line {} {problem}", number + 1);
        Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, message))
    };
    if line.len() > MAX_LINE_BYTES + 1 {
        return fault("is longer than 16 MiB");
    }
    let Ok(text) = std::str::from_utf8(line) else {
        return Err(HttpError::bad_request("the body is not valid UTF-8"));
    };
    if !text.ends_with('\n') {
        return Err(HttpError::bad_request("the last line is incomplete")
            .with_hint("end each line with a line break"));
    }
    let max_keys = if number == 0 { MAX_HEADER_KEYS } else { MAX_KEYS };
    match scan_line(line) {
        _ if text.trim().is_empty() => fault("is empty"),
        scan if scan.depth > MAX_DEPTH => fault(&format!("is nested deeper than {MAX_DEPTH}")),
        scan if scan.keys > max_keys => fault(&format!("has more than {max_keys} keys")),
        scan if scan.has_nul => fault("contains a NUL character"),
        _ => Ok(()),
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct LineScan {
    depth: usize,
    keys: usize,
    has_nul: bool,
}

/// Scans a line that should be JSON but may be malformed.
fn scan_line(line: &[u8]) -> LineScan {
    let mut scan = LineScan::default();
    let mut depth = 0_usize;
    let mut is_string = false;
    let mut position = 0;
    while position < line.len() {
        match (is_string, line[position]) {
            (true, b'\\') => {
                scan.has_nul |= line[position..].starts_with(b"\\u0000");
                position += 1;
            }
            (_, b'"') => is_string = !is_string,
            (_, 0) => scan.has_nul = true,
            (false, b'{' | b'[') => {
                depth += 1;
                scan.depth = scan.depth.max(depth);
            }
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            (false, b':') => scan.keys += 1,
            _ => {}
        }
        position += 1;
    }
    scan
}

/// Checks that a parsed session has the announced id and is not being measured. Also checks that
/// its names and numbers are within limits.
///
/// # Errors
/// Returns 400 or 413.
fn check_session(session: &Session, id: &str) -> Result<(), HttpError> {
    if session.id != id {
        let message =
            format!("the header names session '{}': expected '{id}'", shorten_name(&session.id));
        return Err(HttpError::bad_request(message));
    }
    if session.state == speedwell_model::SessionState::Running {
        return Err(HttpError::bad_request("the session is still being measured")
            .with_hint("push it when it has finished"));
    }
    let is_time = |unix_ms: i64| (0..=LATEST_UNIX_MS).contains(&unix_ms);
    if !is_time(session.started_unix_ms) {
        return Err(HttpError::bad_request("the session starts before 1970 or after 9999"));
    }
    check_names(session)?;
    for (run, run_number) in session.runs.iter().zip(1..) {
        let error = |problem: &str| HttpError::bad_request(format!("run {run_number} {problem}"));
        if !is_time(run.started_unix_ms) {
            return Err(error("starts before 1970 or after 9999"));
        }
        if run.wall_ns > MAX_RUN_NS {
            return Err(error("took longer than a year"));
        }
        if run.usage.is_some_and(|usage| is_huge(&usage)) {
            return Err(error("reports implausible resource usage"));
        }
        if run.case.values.len() > MAX_PARAMETERS {
            return Err(HttpError {
                status: StatusCode::PAYLOAD_TOO_LARGE,
                ..error("has a case with more than 64 parameters")
            });
        }
    }
    Ok(())
}

/// Whether any value is unrealistically large and could overflow sums.
fn is_huge(usage: &ResourceUsage) -> bool {
    let figures = [
        Some(usage.user_ns),
        Some(usage.system_ns),
        Some(usage.max_rss_bytes),
        Some(usage.involuntary_switches),
        usage.voluntary_switches,
        usage.minor_faults,
        usage.major_faults,
        usage.migrations,
    ];
    figures.into_iter().flatten().any(|figure| figure > 1 << 56)
}

fn check_names(session: &Session) -> Result<(), HttpError> {
    let check = |kind: &str, name: &str| match name.len() {
        0..=MAX_NAME_BYTES => Ok(()),
        bytes => Err(HttpError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "the {kind} '{}...' has {bytes} bytes: expected at most 4,096",
                shorten_name(name)
            ),
        )),
    };
    for tag in &session.tags {
        check("tag", tag)?;
    }
    for metric in &session.metrics {
        check("metric", &metric.name)?;
        check("unit", &metric.unit)?;
    }
    for variant in &session.variants {
        check("variant", &variant.name)?;
    }
    if let Some(origin) = &session.origin {
        check("revision", &origin.revision)?;
        check("branch", origin.branch.as_deref().unwrap_or_default())?;
    }
    let profiled = session.profiles.iter().map(|profile| &profile.case);
    let measured = session.runs.iter().map(|run| &*run.case);
    for case in measured.chain(profiled) {
        check("benchmark", &case.benchmark)?;
        for (name, value) in &case.values {
            check("parameter", name)?;
            if let ParameterValue::Text(text) = value {
                check("value", text)?;
            }
        }
    }
    for run in &session.runs {
        check("variant", &run.variant)?;
        for sample in &run.samples {
            check("metric", &sample.metric)?;
        }
    }
    Ok(())
}

fn shorten_name(name: &str) -> String {
    name.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> u16 {
        check_line(text.as_bytes(), 1).err().map_or(200, |problem| problem.status.as_u16())
    }

    #[test]
    fn brackets_inside_strings_do_not_count_as_nesting() {
        let line = br#"{"a":"[[[{\"\\","b":[1,{"c:d":2}]}"#;
        assert_eq!(scan_line(line), LineScan { depth: 3, keys: 3, has_nul: false });
        assert!(scan_line(br#""\u0000""#).has_nul);
        assert!(!scan_line(br#""\\u0000""#).has_nul);
    }

    #[test]
    fn errors_name_the_line_that_is_too_deep_too_wide_or_too_long() {
        let nested = |deep: usize| format!("{}{}\n", "[".repeat(deep), "]".repeat(deep));
        assert_eq!((status(&nested(64)), status(&nested(65))), (200, 413));
        let keys = |count: usize| format!("{{{}}}\n", "\"a\":1,".repeat(count));
        assert_eq!((status(&keys(MAX_KEYS)), status(&keys(MAX_KEYS + 1))), (200, 413));
        let header = check_line(keys(MAX_HEADER_KEYS + 1).as_bytes(), 0).unwrap_err();
        assert!(header.message.contains("line 1 has more"), "{header:?}");
        let long = format!("\"{}\"\n", "a".repeat(MAX_LINE_BYTES));
        assert_eq!(status(&long), 413);
        let second = check_line(b"\"\\u0000\"\n", 7).unwrap_err();
        assert!(second.message.contains("line 8 contains"), "{second:?}");
        assert_eq!((status("{}"), status("\n"), status("{}\n")), (400, 413, 200));
    }
}
