//! Dispatches to the protocol of a connection: HTTP/1, HTTP/2 or HTTP/3.

use super::channel::{ByteChannel, TransportTraffic};
use super::clock::NEVER;
use super::core::WorkerCore;
use super::multiplex::Http2Requests;
#[cfg(feature = "http3")]
use super::quic;
use super::recorder::{
    ConnectionLoss, InputOutcome, JudgedResponse, RequestRecorder, StartedRequest, has_good_body,
};
use crate::http1::{ResponseEnd, ResponseError, ResponseReader, ResponseSummary, ResponseWatch};
use crate::load::HttpVersion;
use rustix::io::Errno;
use speedwell_model::load::outcomes::ErrorClass;
use std::collections::VecDeque;

/// The requests of a connection, by protocol.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one per connection, and the larger variant is the usual one, used for every event"
)]
pub(super) enum ProtocolState {
    One(Http1Requests),
    Two(Box<Http2Requests>),
    /// The HTTP/3 streams own their connection, so there is no [`ByteChannel`].
    #[cfg(feature = "http3")]
    Three(Box<quic::QuicRequests>),
}

impl ProtocolState {
    pub fn new(core: &WorkerCore) -> ProtocolState {
        let (capacity, watch) = (core.load.streams_per_connection, core.response_watch());
        match core.load.http {
            HttpVersion::One => ProtocolState::One(Http1Requests::new(capacity, watch)),
            HttpVersion::Two { table_bytes } => {
                ProtocolState::Two(Box::new(Http2Requests::new(capacity, table_bytes, watch)))
            }
            #[cfg(feature = "http3")]
            HttpVersion::Three => {
                ProtocolState::Three(Box::new(quic::QuicRequests::new(capacity, watch)))
            }
            #[cfg(not(feature = "http3"))]
            HttpVersion::Three => unreachable!("such a load is refused before it begins"),
        }
    }

    pub fn in_flight(&self) -> usize {
        match self {
            ProtocolState::One(pipeline) => pipeline.requests.len(),
            ProtocolState::Two(streams) => streams.in_flight(),
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => streams.in_flight(),
        }
    }

    /// Number of requests that can be sent now; `capacity` is the maximum in flight.
    pub fn available_requests(&self, capacity: u32) -> u32 {
        match self {
            ProtocolState::One(pipeline) => capacity.saturating_sub(pipeline.requests.len() as u32),
            ProtocolState::Two(streams) => streams.available_streams(),
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => streams.available_streams(),
        }
    }

    /// Whether no further requests may be sent on the connection: its last request asks to close
    /// it, or, with HTTP/2 and HTTP/3, the connection is draining.
    pub fn is_last(&self) -> bool {
        match self {
            ProtocolState::One(pipeline) => {
                pipeline.requests.back().is_some_and(|sent| sent.closes)
            }
            ProtocolState::Two(streams) => streams.http.is_draining(),
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => streams.is_draining(),
        }
    }

    /// Sends or buffers a request. HTTP/2 buffers it, and so does HTTP/1 if several requests may be
    /// in flight. [`ProtocolState::flush_output`] then writes all buffered requests together.
    pub fn send(
        &mut self,
        sent: StartedRequest,
        channel: Option<&mut ByteChannel>,
        core: &mut WorkerCore,
    ) -> Result<(), Errno> {
        let source = core.source;
        match self {
            ProtocolState::One(pipeline) => {
                let request = source.http1_request(sent.kind, sent.index);
                pipeline.push_request(StartedRequest {
                    method: request.method(),
                    closes: request.closes(),
                    ..sent
                });
                if let (1, Some(channel)) = (core.load.streams_per_connection, channel) {
                    return channel.send(request.bytes(), &mut core.traffic);
                }
                pipeline.output.extend_from_slice(request.bytes());
            }
            ProtocolState::Two(streams) => {
                streams.start_request(sent, source.http2_request(sent.kind, sent.index))
            }
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => {
                if let Some(engine) = &mut core.quic {
                    let request = source.http3_request(sent.kind, sent.index);
                    streams.start_request(sent, request, engine);
                }
            }
        }
        Ok(())
    }

    pub fn process_input(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        recorder: &mut RequestRecorder,
    ) -> InputOutcome {
        match self {
            ProtocolState::One(pipeline) => pipeline.process_input(bytes, now_ns, recorder),
            ProtocolState::Two(streams) => {
                let result = streams.process_input(bytes, now_ns, recorder);
                result.map_or_else(InputOutcome::Broken, |()| InputOutcome::Open)
            }
            #[cfg(feature = "http3")]
            ProtocolState::Three(_) => InputOutcome::Open,
        }
    }

    /// Writes pending output.
    pub fn flush_output(
        &mut self,
        channel: &mut ByteChannel,
        traffic: &mut TransportTraffic,
    ) -> Result<(), Errno> {
        match self {
            ProtocolState::One(pipeline) => {
                if !pipeline.output.is_empty() {
                    channel.send(&pipeline.output, traffic)?;
                    pipeline.output.clear();
                }
            }
            ProtocolState::Two(streams) => {
                // Pass output to the channel only when the channel has nothing left to write. Until
                // then, the output stays in the protocol's buffer, which is limited in size.
                while !streams.http.output().is_empty() && !channel.is_waiting() {
                    let written = streams.http.output().len();
                    channel.send(streams.http.output(), traffic)?;
                    streams.http.mark_sent(written);
                }
            }
            #[cfg(feature = "http3")]
            ProtocolState::Three(_) => {}
        }
        Ok(())
    }

    pub fn reset_connection(&mut self) {
        match self {
            ProtocolState::One(pipeline) => pipeline.reset_connection(),
            ProtocolState::Two(streams) => streams.reset_connection(),
            #[cfg(feature = "http3")]
            ProtocolState::Three(_) => {}
        }
    }

    /// Closes the connection, if the protocol owns it.
    pub fn close_connection(&mut self) {
        #[cfg(feature = "http3")]
        if let ProtocolState::Three(streams) = self {
            streams.close_connection();
        }
    }

    /// Ends all requests of a lost connection. Returns the request to retry, if there is one; only
    /// HTTP/1 has such requests.
    pub fn end_all(
        &mut self,
        lost: ConnectionLoss,
        now_ns: u64,
        core: &mut WorkerCore,
    ) -> Option<StartedRequest> {
        let recorder = &mut core.recorder;
        match self {
            ProtocolState::One(pipeline) => return pipeline.end_all(lost, now_ns, recorder),
            ProtocolState::Two(streams) => streams.end_all(lost, now_ns, recorder),
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => streams.end_all(lost, now_ns, recorder),
        }
        None
    }

    /// Ends requests that exceed their timeouts. HTTP/1 cannot end a single request. For HTTP/1,
    /// this returns the error class with which to close the connection.
    pub fn expire_timeouts(&mut self, now_ns: u64, core: &mut WorkerCore) -> Option<ErrorClass> {
        let recorder = &mut core.recorder;
        match self {
            // Responses arrive in order, so checking the oldest request suffices.
            ProtocolState::One(pipeline) => {
                return recorder.exceeded_timeout(pipeline.requests.front()?, now_ns);
            }
            ProtocolState::Two(streams) => streams.expire_timeouts(now_ns, recorder),
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => streams.expire_timeouts(now_ns, recorder),
        }
        None
    }

    /// Contents of the last response.
    pub fn response_watch(&self) -> Option<&ResponseWatch> {
        match self {
            ProtocolState::One(pipeline) => pipeline.watch.as_deref(),
            ProtocolState::Two(streams) => streams.watch(),
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => streams.last_response(),
        }
    }

    pub fn take_all(&mut self) -> Vec<StartedRequest> {
        match self {
            ProtocolState::One(pipeline) => pipeline.requests.drain(..).collect(),
            ProtocolState::Two(streams) => streams.take_all(),
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => streams.take_all(),
        }
    }
}

// The code below tracks the requests of one HTTP/1 connection. Responses arrive in the order of the
// requests. This code determines to which request a response belongs, and which requests the end of
// the connection affects. Start at [`Http1Requests::process_input`].

/// The requests of one connection.
pub(super) struct Http1Requests {
    reply: ResponseReader,
    requests: VecDeque<StartedRequest>,
    /// Encoded requests that are not written yet. Writing several together saves system calls.
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
            // The extra bytes may mean that the end of the response was misjudged (RFC 9112,
            // section 6.3).
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
            recorder.record_loss(&next, lost.pending_error_class(&next), now_ns);
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
