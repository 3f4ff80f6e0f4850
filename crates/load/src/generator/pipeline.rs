//! Tracks the requests of one HTTP/1 connection. Responses arrive in the order of the requests.
//!
//! This module determines to which request a response belongs, and which requests the end of the
//! connection affects. It knows nothing about sockets, or about when the next request is due. Start
//! at [`Http1Requests::process_input`].

use super::clock::NEVER;
use super::recorder::{JudgedResponse, RequestRecorder, has_good_body};
use super::started_request::{ConnectionLoss, InputOutcome, StartedRequest};
use crate::http1::{ResponseEnd, ResponseError, ResponseReader, ResponseSummary, ResponseWatch};
use speedwell_model::load::outcomes::ErrorClass;
use std::collections::VecDeque;

/// The requests of one connection.
pub(super) struct Http1Requests {
    reply: ResponseReader,
    requests: VecDeque<StartedRequest>,
    /// Output of several requests, to be written at once.
    pub output: Vec<u8>,
    /// Contents of a response, if it is inspected.
    pub watch: Option<Box<ResponseWatch>>,
}

impl Http1Requests {
    pub fn new(capacity: u32, watch: Option<Box<ResponseWatch>>) -> Http1Requests {
        Http1Requests {
            reply: ResponseReader::default(),
            requests: VecDeque::with_capacity(capacity as usize),
            output: Vec::new(),
            watch,
        }
    }

    pub fn reset_connection(&mut self) {
        self.reply.reset();
        self.output.clear();
    }

    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    pub fn oldest_request(&self) -> Option<&StartedRequest> {
        self.requests.front()
    }

    pub fn newest_request(&self) -> Option<&StartedRequest> {
        self.requests.back()
    }

    pub fn take_all(&mut self) -> Vec<StartedRequest> {
        self.requests.drain(..).collect()
    }

    pub fn push_request(&mut self, sent: StartedRequest) {
        if self.requests.is_empty() {
            self.reply.expect_response(sent.method);
        }
        self.requests.push_back(sent);
    }

    pub fn process_input(
        &mut self,
        mut bytes: &[u8],
        now_ns: u64,
        recorder: &mut RequestRecorder,
    ) -> InputOutcome {
        loop {
            let Some(first) = self.requests.front_mut() else {
                return if is_timeout_notice(bytes) {
                    InputOutcome::Goodbye
                } else {
                    InputOutcome::Stray
                };
            };
            if first.first_byte_ns == NEVER {
                first.first_byte_ns = now_ns;
            }
            let progress = match &mut self.watch {
                None => self.reply.feed(bytes),
                Some(watch) => self.reply.feed_watched(bytes, watch),
            };
            let progress = match progress {
                Ok(progress) => progress,
                Err(error) => return InputOutcome::Broken(reply_error_class(error)),
            };
            let Some(summary) = progress.ended else {
                return InputOutcome::Open;
            };
            bytes = &bytes[progress.consumed..];
            if let Some(end) = self.finish_first(summary, bytes, now_ns, recorder) {
                return end;
            }
        }
    }

    /// Completes the first request. `rest` is the data after its response. Returns `None` if some
    /// of this data remains to be processed.
    fn finish_first(
        &mut self,
        summary: ResponseSummary,
        rest: &[u8],
        now_ns: u64,
        recorder: &mut RequestRecorder,
    ) -> Option<InputOutcome> {
        let sent = self.requests.pop_front()?;
        let is_goodbye = is_timeout_notice(rest);
        if !rest.is_empty() && self.requests.is_empty() && !is_goodbye {
            // The extra bytes may mean that the response ended elsewhere (RFC 9112, section 6.3).
            recorder.record_failure(&sent, ErrorClass::ProtocolExtraBytes, now_ns, &summary);
            return Some(InputOutcome::Closed);
        }
        let judged = JudgedResponse {
            summary,
            has_good_body: has_good_body(recorder.body_rule(), self.watch.as_deref()),
        };
        recorder.record_response(&sent, judged, now_ns);
        if !summary.reusable || sent.closes {
            return Some(InputOutcome::Closed);
        }
        if let Some(next) = self.requests.front() {
            self.reply.expect_response(next.method);
        } else if is_goodbye {
            return Some(InputOutcome::Goodbye);
        }
        rest.is_empty().then_some(InputOutcome::Open)
    }

    /// Ends all requests of a lost connection. Returns the first one if it may be retried.
    pub fn end_all(
        &mut self,
        lost: ConnectionLoss,
        now_ns: u64,
        recorder: &mut RequestRecorder,
    ) -> Option<StartedRequest> {
        let phase = self.reply.phase();
        let ending = match lost {
            ConnectionLoss::End | ConnectionLoss::Truncated => self.reply.end_connection().ok(),
            _ => None,
        };
        let mut stale = None;
        if let Some(first) = self.requests.pop_front() {
            match ending {
                Some(ResponseEnd::Complete(summary)) if lost == ConnectionLoss::Truncated => {
                    recorder.record_failure(&first, ErrorClass::TlsTruncated, now_ns, &summary);
                }
                Some(ResponseEnd::Complete(summary)) => {
                    let judged = JudgedResponse {
                        summary,
                        has_good_body: has_good_body(recorder.body_rule(), self.watch.as_deref()),
                    };
                    recorder.record_response(&first, judged, now_ns);
                }
                _ if lost.is_stale(&first, phase) && recorder.may_retry(&first) => {
                    stale = Some(first)
                }
                _ => {
                    let class = lost.error_class(&first, phase);
                    let summary = match ending {
                        Some(ResponseEnd::InHead(summary) | ResponseEnd::InBody(summary)) => {
                            summary
                        }
                        _ => ResponseSummary::default(),
                    };
                    recorder.record_failure(&first, class, now_ns, &summary);
                }
            }
        }
        while let Some(next) = self.requests.pop_front() {
            match lost.pending_error_class(&next) {
                Some(class) => {
                    recorder.record_failure(&next, class, now_ns, &ResponseSummary::default())
                }
                None => recorder.record_cancellation(&next, now_ns),
            }
        }
        stale
    }
}

fn reply_error_class(error: ResponseError) -> ErrorClass {
    match error {
        ResponseError::NotHttp | ResponseError::StatusLine | ResponseError::Switched => {
            ErrorClass::ProtocolStatusLine
        }
        ResponseError::Header | ResponseError::HeadTooLarge => ErrorClass::ProtocolHeader,
        ResponseError::LengthConflict => ErrorClass::ProtocolLength,
        ResponseError::Chunk => ErrorClass::ProtocolChunk,
        ResponseError::Early => ErrorClass::ProtocolEarly,
        ResponseError::Extra => ErrorClass::ProtocolExtraBytes,
    }
}

/// Whether bytes on an idle connection are a 408 response or its beginning. A server sends this
/// response when it closes the connection because no request arrived (RFC 9110, section 15.5.9).
fn is_timeout_notice(bytes: &[u8]) -> bool {
    [b"HTTP/1.1 408", b"HTTP/1.0 408"].iter().any(|status| {
        let length = bytes.len().min(status.len());
        length > 0 && bytes[..length] == status[..length]
    })
}
