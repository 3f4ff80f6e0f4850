//! HTTP/1 on one connection: responses arrive in the order of requests.
//!
//! Determines which request a response, or the end of the connection, belongs to. Knows neither
//! sockets nor when the next request is due. Start at [`Pipeline::feed`].

use super::clock::NEVER;
use super::recorder::{Answer, Recorder, has_good_body};
use super::sent::{Fed, Lost, Sent};
use crate::http1::{Ending, Reply, ReplyError, Summary, Watch};
use crate::outcomes::ErrorClass;
use std::collections::VecDeque;

/// The requests of one connection.
pub(super) struct Pipeline {
    reply: Reply,
    under_way: VecDeque<Sent>,
    /// Output of several requests, to be written at once.
    pub output: Vec<u8>,
    /// Contents of a response, if it is inspected.
    pub watch: Option<Box<Watch>>,
}

impl Pipeline {
    pub fn new(capacity: u32, watch: Option<Box<Watch>>) -> Pipeline {
        Pipeline {
            reply: Reply::default(),
            under_way: VecDeque::with_capacity(capacity as usize),
            output: Vec::new(),
            watch,
        }
    }

    /// Resets the state for a new connection.
    pub fn reset(&mut self) {
        self.reply.reset();
        self.output.clear();
    }

    pub fn in_flight(&self) -> usize {
        self.under_way.len()
    }

    pub fn oldest(&self) -> Option<&Sent> {
        self.under_way.front()
    }

    pub fn newest(&self) -> Option<&Sent> {
        self.under_way.back()
    }

    /// Removes and returns all requests.
    pub fn abandon(&mut self) -> Vec<Sent> {
        self.under_way.drain(..).collect()
    }

    /// Adds a request that was sent.
    pub fn send(&mut self, sent: Sent) {
        if self.under_way.is_empty() {
            self.reply.begin(sent.method);
        }
        self.under_way.push_back(sent);
    }

    /// Processes received bytes.
    pub fn feed(&mut self, mut bytes: &[u8], now_ns: u64, recorder: &mut Recorder) -> Fed {
        loop {
            let Some(first) = self.under_way.front_mut() else {
                return if is_goodbye(bytes) {
                    Fed::Goodbye
                } else {
                    Fed::Stray
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
                Err(error) => return Fed::Broken(class_of(error)),
            };
            let Some(summary) = progress.ended else {
                return Fed::Open;
            };
            bytes = &bytes[progress.consumed..];
            if let Some(end) = self.end_first(summary, bytes, now_ns, recorder) {
                return end;
            }
        }
    }

    /// Completes the first request; `rest` is the data after its response.
    fn end_first(
        &mut self,
        summary: Summary,
        rest: &[u8],
        now_ns: u64,
        recorder: &mut Recorder,
    ) -> Option<Fed> {
        let sent = self.under_way.pop_front()?;
        let is_goodbye = is_goodbye(rest);
        if !rest.is_empty() && self.under_way.is_empty() && !is_goodbye {
            // Unsolicited bytes cast doubt on where the response ended (RFC 9112, section 6.3).
            recorder.failed(&sent, ErrorClass::ProtocolExtraBytes, now_ns, &summary);
            return Some(Fed::Closed);
        }
        let answer = Answer {
            summary,
            has_good_body: has_good_body(recorder.body_rule(), self.watch.as_deref()),
        };
        recorder.answered(&sent, answer, now_ns);
        if !summary.reusable || sent.closes {
            return Some(Fed::Closed);
        }
        if let Some(next) = self.under_way.front() {
            self.reply.begin(next.method);
        } else if is_goodbye {
            return Some(Fed::Goodbye);
        }
        rest.is_empty().then_some(Fed::Open)
    }

    /// Ends all requests of a lost connection. Returns the first one if it may be retried.
    pub fn lose(&mut self, lost: Lost, now_ns: u64, recorder: &mut Recorder) -> Option<Sent> {
        let phase = self.reply.phase();
        let ending = match lost {
            Lost::End | Lost::Truncated => self.reply.finish().ok(),
            _ => None,
        };
        let mut again = None;
        if let Some(first) = self.under_way.pop_front() {
            match ending {
                Some(Ending::Complete(summary)) if lost == Lost::Truncated => {
                    recorder.failed(&first, ErrorClass::TlsTruncated, now_ns, &summary);
                }
                Some(Ending::Complete(summary)) => {
                    let answer = Answer {
                        summary,
                        has_good_body: has_good_body(recorder.body_rule(), self.watch.as_deref()),
                    };
                    recorder.answered(&first, answer, now_ns);
                }
                _ if lost.is_stale(&first, phase) && recorder.retries(&first) => {
                    again = Some(first)
                }
                _ => {
                    let class = lost.class(&first, phase);
                    let summary = match ending {
                        Some(Ending::InHead(summary) | Ending::InBody(summary)) => summary,
                        _ => Summary::default(),
                    };
                    recorder.failed(&first, class, now_ns, &summary);
                }
            }
        }
        while let Some(next) = self.under_way.pop_front() {
            match lost.class_of_next(&next) {
                Some(class) => recorder.failed(&next, class, now_ns, &Summary::default()),
                None => recorder.cancelled(&next, now_ns),
            }
        }
        again
    }
}

fn class_of(error: ReplyError) -> ErrorClass {
    match error {
        ReplyError::NotHttp | ReplyError::StatusLine | ReplyError::Switched => {
            ErrorClass::ProtocolStatusLine
        }
        ReplyError::Header | ReplyError::HeadTooLarge => ErrorClass::ProtocolHeader,
        ReplyError::LengthConflict => ErrorClass::ProtocolLength,
        ReplyError::Chunk => ErrorClass::ProtocolChunk,
        ReplyError::Early => ErrorClass::ProtocolEarly,
        ReplyError::Extra => ErrorClass::ProtocolExtraBytes,
    }
}

/// Whether bytes on an idle connection are, or start, a 408 response: the server closes the
/// connection after waiting too long for a request (RFC 9110, section 15.5.9).
fn is_goodbye(bytes: &[u8]) -> bool {
    [b"HTTP/1.1 408", b"HTTP/1.0 408"].iter().any(|status| {
        let length = bytes.len().min(status.len());
        length > 0 && bytes[..length] == status[..length]
    })
}
