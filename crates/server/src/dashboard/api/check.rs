//! Checks limits of uploaded sessions: nesting, number of keys, length of names, range of numbers.
//!
//! The raw text is scanned before it is parsed, so rejected input takes no memory. Checks that
//! depend on the meaning of a value run after parsing. Errors of the scan name the line, counted
//! from 1.

use crate::http::HttpError;
use axum::http::StatusCode;
use speedwell_model::{ParameterValue, ResourceUsage, Session};

/// Maximum bytes of a line, without its line break.
pub const MAX_LINE_BYTES: usize = 16 << 20;
/// Maximum nesting depth.
const MAX_DEPTH: usize = 64;
/// Maximum number of keys in a data line. A line with 250,000 samples has that many.
const MAX_KEYS: usize = 1_000_000;
/// Maximum number of keys in a header. Each key may become a variant or a program.
const MAX_HEADER_KEYS: usize = 100_000;
/// Maximum bytes of a name.
pub const MAX_NAME_BYTES: usize = 4 << 10;
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
pub fn check_line(line: &[u8], number: u64) -> Result<(), HttpError> {
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
pub fn check_session(session: &Session, id: &str) -> Result<(), HttpError> {
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
