//! Tracks the concurrent requests of one HTTP/2 connection. Their responses arrive in any order.
//!
//! This module determines the outcome of the request on each stream. It knows nothing about
//! sockets, or about when the next request is due. Start at [`Http2Requests::process_input`].

use super::clock::NEVER;
use super::recorder::{ConnectionLoss, RequestRecorder, StartedRequest};
use crate::http1::{ResponseSummary, ResponseWatch};
use crate::http2::hpack::FieldList;
use crate::http2::{
    Http2Connection, Http2ConnectionError, Http2ErrorCode, Http2Event, Http2Request, Http2Settings,
    Http2StreamError,
};
use speedwell_model::load::outcomes::ErrorClass;

/// The streams of one connection.
pub(super) struct Http2Requests {
    settings: Http2Settings,
    pub http: Http2Connection,
    streams: RequestSlots,
}

/// Requests and inspected responses by token. A token identifies a request on the connection and is
/// an index into these lists.
struct RequestSlots {
    requests: Vec<Option<StartedRequest>>,
    free_tokens: Vec<u32>,
    has_answered: bool,
    /// Contents of responses by token, if responses are inspected.
    watches: Vec<ResponseWatch>,
    fields: FieldList,
    /// Token of the response that ended last.
    last: usize,
    interim_status: u16,
}

impl Http2Requests {
    pub fn new(
        capacity: u32,
        table_bytes: u32,
        watch: Option<Box<ResponseWatch>>,
    ) -> Http2Requests {
        let settings = Http2Settings { table_size: table_bytes, ..Http2Settings::default() };
        let watches = watch.map_or(Vec::new(), |watch| vec![*watch; capacity as usize]);
        Http2Requests {
            settings,
            http: Http2Connection::new(&settings),
            streams: RequestSlots {
                requests: vec![None; capacity as usize],
                free_tokens: (0..capacity).rev().collect(),
                has_answered: false,
                watches,
                fields: FieldList::default(),
                last: 0,
                interim_status: 0,
            },
        }
    }

    pub fn reset_connection(&mut self) {
        self.http = Http2Connection::new(&self.settings);
        self.streams.has_answered = false;
    }

    pub fn in_flight(&self) -> usize {
        self.streams.requests.len() - self.streams.free_tokens.len()
    }

    /// Number of requests that can be sent now. The number is 0 until the server has announced its
    /// stream limit, because some servers refuse excess streams. Until then, only the request for
    /// which the connection was opened is sent.
    pub fn available_streams(&self) -> u32 {
        let available = self.streams.free_tokens.len().min(self.http.capacity()) as u32;
        if self.http.is_ready() { available } else { 0 }
    }

    /// Contents of the response that ended last.
    pub fn watch(&self) -> Option<&ResponseWatch> {
        self.streams.watches.get(self.streams.last)
    }

    /// Sends a request. Does nothing if all tokens are in use.
    pub fn start_request(&mut self, sent: StartedRequest, request: &Http2Request) {
        if let Some(token) = self.streams.free_tokens.pop() {
            self.streams.requests[token as usize] =
                Some(StartedRequest { method: request.method(), ..sent });
            self.http.open_stream(request, token);
        }
    }

    pub fn process_input(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        recorder: &mut RequestRecorder,
    ) -> Result<(), ErrorClass> {
        let Http2Requests { http, streams, .. } = self;
        let result = http.feed(bytes, &mut |event| streams.handle_event(event, now_ns, recorder));
        result.map_err(|error| match error {
            Http2ConnectionError::NotHttp2 | Http2ConnectionError::NoSettings => {
                ErrorClass::ProtocolStatusLine
            }
            Http2ConnectionError::Flood => ErrorClass::H2Flood,
            _ => ErrorClass::H2Protocol,
        })
    }

    /// Ends every stream of a lost connection.
    pub fn end_all(&mut self, lost: ConnectionLoss, now_ns: u64, recorder: &mut RequestRecorder) {
        let go_away = self.http.has_announced_end().then_some(ErrorClass::H2GoAway);
        for token in 0..self.streams.requests.len() {
            let phase = self.http.phase(token as u32);
            let has_answered = self.streams.has_answered;
            let Some(mut sent) = self.streams.take_request(token as u32) else {
                continue;
            };
            // A request counts as sent on a reused connection if the connection has had a response.
            // This distinguishes servers that close idle connections from servers that close new
            // ones.
            sent.is_reused = has_answered;
            recorder.record_stream_loss(&sent, (lost, phase), go_away, now_ns);
        }
    }

    /// Ends streams that exceed their timeouts; the other streams continue.
    pub fn expire_timeouts(&mut self, now_ns: u64, recorder: &mut RequestRecorder) {
        for token in 0..self.streams.requests.len() as u32 {
            let exceeded = self.streams.requests[token as usize]
                .as_ref()
                .and_then(|sent| recorder.exceeded_timeout(sent, now_ns));
            let Some(class) = exceeded else { continue };
            let class =
                if self.http.waits_for_window(token) { ErrorClass::H2FlowStall } else { class };
            self.http.cancel_stream(token);
            if let Some(sent) = self.streams.take_request(token) {
                recorder.record_failure(&sent, class, now_ns, &ResponseSummary::default());
            }
        }
    }

    pub fn take_all(&mut self) -> Vec<StartedRequest> {
        let tokens = 0..self.streams.requests.len() as u32;
        tokens.filter_map(|token| self.streams.take_request(token)).collect()
    }
}

impl RequestSlots {
    fn take_request(&mut self, token: u32) -> Option<StartedRequest> {
        let sent = self.requests[token as usize].take()?;
        self.free_tokens.push(token);
        Some(sent)
    }

    fn handle_event(&mut self, event: Http2Event, now_ns: u64, recorder: &mut RequestRecorder) {
        match event {
            Http2Event::FirstByte { token } => {
                let sent = self.requests[token as usize].as_mut();
                if let Some(sent) = sent.filter(|sent| sent.first_byte_ns == NEVER) {
                    sent.first_byte_ns = now_ns;
                }
                if let Some(watch) = self.watches.get_mut(token as usize) {
                    watch.clear();
                }
            }
            Http2Event::Interim { status, .. } => self.interim_status = status,
            Http2Event::Head { token, block, .. } => {
                if let Some(watch) = self.watches.get_mut(token as usize)
                    && let Some(fields) = block.decode_fields(&mut self.fields)
                {
                    fields.iter().for_each(|(name, value)| watch.add_field(name, value));
                }
            }
            Http2Event::Data { token, bytes } => {
                if let Some(watch) = self.watches.get_mut(token as usize) {
                    watch.add_data(bytes);
                }
            }
            Http2Event::Ended { token, summary } => {
                self.finish_request(token, summary, now_ns, recorder)
            }
            Http2Event::Failed { token, why } => self.fail_request(token, why, now_ns, recorder),
            Http2Event::Settings | Http2Event::GoAway { .. } => {}
        }
    }

    fn finish_request(
        &mut self,
        token: u32,
        summary: ResponseSummary,
        now_ns: u64,
        recorder: &mut RequestRecorder,
    ) {
        self.has_answered = true;
        self.last = token as usize;
        if let Some(sent) = self.take_request(token) {
            let watch = self.watches.get(token as usize);
            let summary = ResponseSummary { interim_status: self.interim_status, ..summary };
            recorder.record_response(&sent, summary, watch, now_ns);
        }
    }

    fn fail_request(
        &mut self,
        token: u32,
        error: Http2StreamError,
        now_ns: u64,
        recorder: &mut RequestRecorder,
    ) {
        let Some(sent) = self.take_request(token) else {
            return;
        };
        let class = match error {
            Http2StreamError::Refused => ErrorClass::H2Refused,
            Http2StreamError::GoAway(_) => ErrorClass::H2GoAway,
            Http2StreamError::Length | Http2StreamError::LengthConflict => {
                ErrorClass::ProtocolLength
            }
            Http2StreamError::Status => ErrorClass::ProtocolStatusLine,
            Http2StreamError::Header | Http2StreamError::Order => ErrorClass::ProtocolHeader,
            Http2StreamError::Reset(Http2ErrorCode(code)) => {
                return recorder.record_reset(&sent, code, now_ns);
            }
            Http2StreamError::Window | Http2StreamError::NoIncrement => ErrorClass::H2Protocol,
        };
        recorder.record_failure(&sent, class, now_ns, &ResponseSummary::default());
    }
}
