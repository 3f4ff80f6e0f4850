//! Writes the request log: one line per request, written when the response ends or is cut off.
//!
//! The log contains no secrets: no query and no header field. A path is cut where a token starts. A
//! separate thread writes the lines, so a full pipe blocks no request. The trace layer of
//! tower-http logs whole URLs, and does not know how many bytes the client has received.

use crate::http::FramePoll;
use crate::http::token::TOKEN_PREFIX;
use axum::body::Body;
use axum::http::{Method, StatusCode, Uri};
use hyper::body::{Body as _, Bytes, Frame, SizeHint};
use std::io::Write;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// Maximum number of waiting lines. Further lines are only counted.
const MAX_WAITING_LINES: usize = 1024;

/// Destination of the request log. The default discards everything.
#[derive(Clone, Debug, Default)]
pub struct RequestLog {
    /// Takes the lines. The number counts the lines that it could not take.
    writer: Option<(SyncSender<String>, Arc<AtomicU64>)>,
    json: bool,
}

impl RequestLog {
    /// Creates a log that writes to stderr.
    pub fn stderr() -> RequestLog {
        // Ignore errors: if stderr is closed, there is nowhere to report them.
        RequestLog::with_sink(|line| drop(writeln!(std::io::stderr(), "{line}")))
    }

    /// Creates a log that passes lines to `write`. All calls are on one thread.
    pub fn with_sink(write: impl Fn(&str) + Send + 'static) -> RequestLog {
        let (lines, receiver) = sync_channel::<String>(MAX_WAITING_LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let dropped_count = Arc::clone(&dropped);
        std::thread::spawn(move || {
            for line in receiver {
                write(&line);
                match dropped_count.swap(0, Ordering::Relaxed) {
                    0 => (),
                    dropped => write(&format!(
                        "{dropped} requests are missing from this log: it could not be written fast enough"
                    )),
                }
            }
        });
        RequestLog { writer: Some((lines, dropped)), json: false }
    }

    /// Writes JSON objects instead of text.
    #[must_use]
    pub fn as_json(mut self) -> RequestLog {
        self.json = true;
        self
    }

    fn write_entry(&self, entry: &LogEntry, bytes: u64, is_complete: bool) {
        let Some((lines, dropped)) = &self.writer else { return };
        let line = if self.json {
            entry.json_line(bytes, is_complete)
        } else {
            entry.text_line(bytes, is_complete)
        };
        if lines.try_send(line).is_err() {
            dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Facts about a request that are known before its response is sent.
#[derive(Debug)]
pub(crate) struct LogEntry {
    pub received_at: jiff::Timestamp,
    pub started: Instant,
    pub address: Option<IpAddr>,
    pub method: Method,
    pub path: String,
    pub status: StatusCode,
}

impl LogEntry {
    pub(crate) fn new(method: &Method, uri: &Uri, address: Option<IpAddr>) -> LogEntry {
        LogEntry {
            received_at: jiff::Timestamp::now(),
            started: Instant::now(),
            address,
            method: method.clone(),
            path: redact_path(uri.path()),
            status: StatusCode::OK,
        }
    }

    fn address(&self) -> String {
        self.address.map_or_else(|| "unix".to_owned(), |address| address.to_string())
    }

    fn elapsed_ms(&self) -> f64 {
        (self.started.elapsed().as_secs_f64() * 1e4).round() / 10.0
    }

    fn text_line(&self, bytes: u64, is_complete: bool) -> String {
        let LogEntry { received_at, method, path, status, .. } = self;
        let (status, suffix) = (status.as_u16(), if is_complete { "" } else { ", cut off" });
        let (address, ms) = (self.address(), self.elapsed_ms());
        format!("{received_at:.3} {address} {method} {path} {status} {bytes} B {ms:.1} ms{suffix}")
    }

    fn json_line(&self, bytes: u64, is_complete: bool) -> String {
        serde_json::json!({
            "time": format!("{:.3}", self.received_at),
            "address": self.address(),
            "method": self.method.as_str(),
            "path": self.path,
            "status": self.status.as_u16(),
            "bytes": bytes,
            "ms": self.elapsed_ms(),
            "complete": is_complete,
        })
        .to_string()
    }
}

/// Makes a path safe to show: cuts it where a token begins, and percent-encodes everything except
/// visible ASCII characters.
fn redact_path(path: &str) -> String {
    let (path, suffix) = match path.find(TOKEN_PREFIX) {
        Some(index) => (&path[..index], "..."),
        None => (path, ""),
    };
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_graphic() {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text + suffix
}

/// Maximum size of a chunk handed to the connection, in bytes. If a response is cut off, the logged
/// size may be too high by up to this number.
const STEP_BYTES: usize = 64 << 10;

/// Response body that counts its bytes and logs its end.
pub(crate) struct LoggedBody {
    body: Body,
    pending: Bytes,
    bytes: u64,
    is_complete: bool,
    entry: LogEntry,
    log: RequestLog,
}

impl LoggedBody {
    pub(crate) fn wrap_body(body: Body, entry: LogEntry, log: &RequestLog) -> Body {
        if log.writer.is_none() {
            return body;
        }
        let is_complete = body.is_end_stream();
        Body::new(LoggedBody {
            body,
            pending: Bytes::new(),
            bytes: 0,
            is_complete,
            entry,
            log: log.clone(),
        })
    }
}

impl Drop for LoggedBody {
    fn drop(&mut self) {
        // Drop the body first, because a reader of the log line may rely on the response having
        // ended.
        drop(std::mem::take(&mut self.body));
        self.log.write_entry(&self.entry, self.bytes, self.is_complete);
    }
}

impl hyper::body::Body for LoggedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> FramePoll<axum::Error> {
        if self.pending.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.pending = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    self.is_complete = true;
                    return Poll::Ready(None);
                }
            }
        }
        let size = self.pending.len().min(STEP_BYTES);
        let piece = self.pending.split_to(size);
        self.bytes += size as u64;
        self.is_complete = self.is_end_stream();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pending.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, pending) = (self.body.size_hint(), self.pending.len() as u64);
        // Raise the upper bound first, because the lower bound must never exceed it.
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + pending);
        }
        hint.set_lower(hint.lower() + pending);
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_queries_nor_tokens_are_shown() {
        let entry = |target: &str| LogEntry::new(&Method::GET, &target.parse().unwrap(), None).path;
        assert_eq!(entry("/login?key=secret"), "/login");
        assert_eq!(entry("/core/spw_abc/x"), "/core/...");
        assert_eq!(entry("/caf\u{e9}"), "/caf%C3%A9");
    }

    #[test]
    fn a_stalled_log_delays_no_request_and_counts_lost_lines() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (out, lines) = std::sync::mpsc::channel();
        let log = RequestLog::with_sink(move |line| {
            let _ = held.recv();
            out.send(line.to_owned()).unwrap();
        });
        for _ in 0..3000 {
            let entry = LogEntry::new(&Method::GET, &"/".parse().unwrap(), None);
            log.write_entry(&entry, 1, true);
        }
        drop(release);
        drop(log);
        let lines: Vec<String> = lines.iter().collect();
        assert!(lines.len() <= MAX_WAITING_LINES + 3, "{}", lines.len());
        let lost: u64 = lines
            .iter()
            .filter_map(|line| {
                line.split_once(" requests are missing from this log")?.0.parse::<u64>().ok()
            })
            .sum();
        let written = lines.iter().filter(|line| line.contains(" GET / 200 1 B ")).count();
        assert_eq!(written as u64 + lost, 3000);
    }
}
