//! Describes a request that was started, and records its end in the counts and times, and optionally
//! as a row.
//!
//! This module decides to which totals a request belongs, to which request an HTTP/1 response
//! belongs, and what the end of a connection means for its requests. It does not handle connections
//! itself. Start at [`RequestRecorder::record_response`].

use super::clock::NEVER;
use crate::http1::{
    MethodKind, ResponseEnd, ResponseError, ResponsePhase, ResponseReader, ResponseSummary,
    ResponseWatch,
};
use crate::load::{BodyRule, LoadConfig};
use crate::pace::DueRequest;
use speedwell_model::load::latency::{
    IntendedStart, LoadLatency, RequestOutcome, RequestTimes, RequestTotals,
};
use speedwell_model::load::measurement::RequestRecord;
use speedwell_model::load::outcomes::{ErrorClass, OutcomeCounts};
use std::collections::VecDeque;
use std::sync::Mutex;

/// Counts and times of a thread.
pub(super) struct RequestRecorder<'a> {
    load: &'a LoadConfig,
    /// Totals of requests after the warm-up. They start anew each time that totals are handed to
    /// the monitoring thread.
    pub totals: Box<RequestTotals>,
    /// Totals of the warm-up.
    pub warmup: Box<RequestTotals>,
    /// Time at which sending ends; [`u64::MAX`] if no time limit ends the load.
    pub window_end_ns: u64,
    /// Number of successful responses that arrived before sending ended.
    pub ok_in_time: u64,
    /// Requests started but not ended.
    pub in_flight: u64,
    /// The last complete response.
    pub last: ResponseSummary,
    /// Latest end of a request that started after the warm-up.
    pub last_end_ns: u64,
    /// Sum of the times that requests were in flight between the warm-up and the end of sending.
    pub in_flight_ns: u128,
    /// One row per request started after the warm-up, if the load asks for rows.
    pub rows: Vec<RequestRecord>,
}

impl<'a> RequestRecorder<'a> {
    pub fn new(load: &'a LoadConfig, window_end_ns: u64) -> RequestRecorder<'a> {
        RequestRecorder {
            load,
            totals: Box::new(RequestTotals::new(load.is_closed())),
            warmup: Box::new(RequestTotals::new(load.is_closed())),
            window_end_ns,
            ok_in_time: 0,
            in_flight: 0,
            last: ResponseSummary::default(),
            last_end_ns: 0,
            in_flight_ns: 0,
            rows: Vec::new(),
        }
    }

    /// Returns the totals for requests and connections that started during the warm-up
    /// (`is_warmup`) or after it.
    pub fn totals_mut(&mut self, is_warmup: bool) -> &mut Box<RequestTotals> {
        if is_warmup { &mut self.warmup } else { &mut self.totals }
    }

    /// Returns the outcome counts in [`RequestRecorder::totals_mut`].
    pub fn outcomes(&mut self, is_warmup: bool) -> &mut OutcomeCounts {
        &mut self.totals_mut(is_warmup).outcomes
    }

    /// Error class of an exceeded timeout, if any.
    pub fn exceeded_timeout(&self, sent: &StartedRequest, now_ns: u64) -> Option<ErrorClass> {
        let limits = self.load.rules.timeouts;
        let age_ns = now_ns.saturating_sub(sent.sent_ns);
        let is_over = |limit: Option<u64>| limit.is_some_and(|limit| age_ns >= limit);
        if is_over(limits.total_ns) {
            return Some(ErrorClass::TimeoutTotal);
        }
        let is_silent = sent.first_byte_ns == NEVER;
        (is_silent && is_over(limits.first_byte_ns)).then_some(ErrorClass::TimeoutFirstByte)
    }

    /// Records the start of a request.
    pub fn record_start(&mut self, is_warmup: bool) {
        self.outcomes(is_warmup).count_attempt();
        self.in_flight += 1;
    }

    /// Records a complete response. `watch` has the beginning of its body, if it is inspected.
    pub fn record_response(
        &mut self,
        sent: &StartedRequest,
        summary: ResponseSummary,
        watch: Option<&ResponseWatch>,
        end_ns: u64,
    ) {
        let success = &self.load.success;
        let is_good_status = success.accepts_status(summary.status);
        let contains = |watch: &ResponseWatch, text: &Vec<u8>| {
            text.is_empty() || watch.body().windows(text.len()).any(|part| part == text)
        };
        let is_good_body = match &success.body {
            None => true,
            Some(BodyRule::Length(bytes)) => summary.body_bytes == *bytes,
            Some(BodyRule::Contains(text)) => watch.is_none_or(|watch| contains(watch, text)),
        };
        let totals = self.totals_mut(sent.is_warmup);
        let outcomes = &mut totals.outcomes;
        let outcome = if is_good_status && is_good_body {
            outcomes.count_ok(summary.status);
            RequestOutcome::Ok
        } else {
            let class = if is_good_status { ErrorClass::Assertion } else { ErrorClass::Status };
            outcomes.count_failed_response(class, summary.status);
            RequestOutcome::Failed(class)
        };
        outcomes.bytes.body += summary.body_bytes;
        (0..summary.interim)
            .for_each(|_| outcomes.interim_codes.count_status(summary.interim_status));
        if is_good_status {
            totals.responses.count_response(
                summary.body_bytes,
                summary.reusable,
                summary.doubtful_framing,
            );
        }
        self.last = summary;
        self.record_end(sent, outcome, end_ns, &summary);
    }

    /// Records the failure of a request; `summary` describes the part of the response that was
    /// received.
    pub fn record_failure(
        &mut self,
        sent: &StartedRequest,
        class: ErrorClass,
        end_ns: u64,
        summary: &ResponseSummary,
    ) {
        self.outcomes(sent.is_warmup).count_failed(class);
        self.record_end(sent, RequestOutcome::Failed(class), end_ns, summary);
    }

    /// Records that the server reset the stream of a request.
    pub fn record_reset(&mut self, sent: &StartedRequest, code: u32, end_ns: u64) {
        self.outcomes(sent.is_warmup).count_reset_stream(code);
        let outcome = RequestOutcome::Failed(ErrorClass::H2Reset);
        self.record_end(sent, outcome, end_ns, &ResponseSummary::default());
    }

    /// Records that the server reset the HTTP/3 stream of a request.
    #[cfg(feature = "http3")]
    pub fn record_http3_reset(&mut self, sent: &StartedRequest, code: u64, end_ns: u64) {
        self.outcomes(sent.is_warmup).count_reset_http3_stream(code);
        let outcome = RequestOutcome::Failed(ErrorClass::H3Reset);
        self.record_end(sent, outcome, end_ns, &ResponseSummary::default());
    }

    /// Records that the client cancelled a request.
    pub fn record_cancellation(&mut self, sent: &StartedRequest, end_ns: u64) {
        self.outcomes(sent.is_warmup).cancelled += 1;
        self.record_end(sent, RequestOutcome::Cancelled, end_ns, &ResponseSummary::default());
    }

    /// Records that a request ended with its connection: it failed with this class, or it was
    /// cancelled if there is none.
    pub fn record_loss(&mut self, sent: &StartedRequest, class: Option<ErrorClass>, end_ns: u64) {
        match class {
            Some(class) => self.record_failure(sent, class, end_ns, &ResponseSummary::default()),
            None => self.record_cancellation(sent, end_ns),
        }
    }

    /// Records that a request ended with the connection of its stream. `go_away` is the error class
    /// if the server had announced the end.
    pub fn record_stream_loss(
        &mut self,
        sent: &StartedRequest,
        (lost, phase): (ConnectionLoss, ResponsePhase),
        go_away: Option<ErrorClass>,
        end_ns: u64,
    ) {
        let class = match lost {
            ConnectionLoss::ClosedByUs => None,
            ConnectionLoss::End | ConnectionLoss::Truncated | ConnectionLoss::Reset
                if go_away.is_some() =>
            {
                go_away
            }
            _ => Some(lost.error_class(sent, phase)),
        };
        self.record_loss(sent, class, end_ns);
    }

    /// Records that a request was still in flight when the load ended. Such requests are counted
    /// only when the final totals are computed.
    pub fn record_in_flight(&mut self, sent: &StartedRequest, end_ns: u64) {
        self.record_end(sent, RequestOutcome::InFlight, end_ns, &ResponseSummary::default());
    }

    /// Records that a request was due but not sent before the load ended.
    pub fn record_unsent(&mut self, sent: &StartedRequest, end_ns: u64) {
        let totals = self.totals_mut(sent.is_warmup);
        totals.outcomes.count_attempt();
        totals.outcomes.unsent += 1;
        if let LoadLatency::Open(latency) = &mut totals.latency {
            latency.record_unsent(sent.intended_start(), end_ns);
        }
    }

    fn record_end(
        &mut self,
        sent: &StartedRequest,
        outcome: RequestOutcome,
        end_ns: u64,
        summary: &ResponseSummary,
    ) {
        self.in_flight -= 1;
        if sent.is_sent() {
            let totals = self.totals_mut(sent.is_warmup);
            let (sent_ns, first_byte_ns) = (sent.sent_ns, sent.first_byte());
            let times = RequestTimes { sent_ns, first_byte_ns, end_ns };
            totals.latency.record(outcome, sent.intended_start(), times);
            let from_ns = sent.sent_ns.max(self.load.warmup_ns);
            let to_ns = end_ns.min(self.window_end_ns);
            self.in_flight_ns += u128::from(to_ns.saturating_sub(from_ns));
        }
        if sent.is_warmup {
            return;
        }
        if outcome.has_ended() {
            self.last_end_ns = self.last_end_ns.max(end_ns);
        }
        self.ok_in_time += u64::from(outcome == RequestOutcome::Ok && end_ns <= self.window_end_ns);
        if self.load.keeps_rows {
            self.rows.push(RequestRecord {
                index: sent.index,
                kind: sent.kind,
                intended_ns: (!self.load.is_closed()).then_some(sent.intended_ns),
                begun_ns: sent.begun_ns,
                sent_ns: sent.is_sent().then_some(sent.sent_ns),
                first_byte_ns: sent.first_byte(),
                end_ns,
                outcome,
                status: summary.status,
                body_bytes: summary.body_bytes,
                wire_bytes: summary.wire_bytes(),
                is_reused: sent.is_reused,
            });
        }
    }
}

// The code below describes a request that was started, and what the end of its connection means
// for it.

/// A request that was started and has not ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartedRequest {
    /// Sequence number in the load.
    pub index: u64,
    pub kind: u16,
    /// Scheduled start; in a closed load, the actual start.
    pub intended_ns: u64,
    /// Delay caused by the generator alone; set when the request is sent.
    pub own_lag_ns: u64,
    /// When the request was started: when connecting began, if the request needed a connection,
    /// otherwise when sending began.
    pub begun_ns: u64,
    /// When the request was sent, or [`NEVER`].
    pub sent_ns: u64,
    /// When the first byte of the response arrived, or [`NEVER`].
    pub first_byte_ns: u64,
    /// Whether the request belongs to the warm-up.
    pub is_warmup: bool,
    /// Whether the request is not the first on its connection.
    pub is_reused: bool,
    /// Whether the request was sent before, on a connection that was lost.
    pub is_retry: bool,
    /// Determines how the response is framed.
    pub method: MethodKind,
    /// Whether the request asks to close its connection.
    pub closes: bool,
}

impl StartedRequest {
    /// Creates a request of this kind that starts at `begun_ns`. Its method is set when it is sent.
    pub fn new(due: DueRequest, kind: u16, begun_ns: u64, is_warmup: bool) -> StartedRequest {
        StartedRequest {
            index: due.index,
            kind,
            intended_ns: due.at_ns,
            own_lag_ns: 0,
            begun_ns,
            sent_ns: NEVER,
            first_byte_ns: NEVER,
            is_warmup,
            is_reused: false,
            is_retry: false,
            method: MethodKind::Body,
            closes: false,
        }
    }

    pub fn is_sent(&self) -> bool {
        self.sent_ns != NEVER
    }

    pub fn intended_start(&self) -> IntendedStart {
        IntendedStart { due_ns: self.intended_ns, own_lag_ns: self.own_lag_ns }
    }

    pub fn first_byte(&self) -> Option<u64> {
        (self.first_byte_ns != NEVER).then_some(self.first_byte_ns)
    }
}

// The types below describe how a connection ended, and what this means for its requests.

/// State of a connection after received bytes were processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputOutcome {
    Open,
    /// The last response ended the connection.
    Closed,
    /// Unsolicited bytes arrived.
    Stray,
    /// The server announced that it closes the connection because no request arrived.
    Goodbye,
    /// The received data cannot be parsed any further.
    Broken(ErrorClass),
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionLoss {
    /// The peer closed the connection.
    End,
    /// The connection was closed without close_notify.
    Truncated,
    Reset,
    /// The peer had announced the end with its last response.
    Announced,
    /// An error with its own class. With HTTP/1, it counts as the failure of the oldest request
    /// only.
    Failed(ErrorClass),
    /// The load generator closed the connection.
    ClosedByUs,
}

impl ConnectionLoss {
    /// Error class of the request whose response was awaited.
    pub fn error_class(self, sent: &StartedRequest, phase: ResponsePhase) -> ErrorClass {
        let before = is_before_first_byte(phase);
        match (self, phase) {
            (ConnectionLoss::Failed(class), _) => class,
            (ConnectionLoss::Reset, ResponsePhase::Head) => ErrorClass::ResetInHead,
            (ConnectionLoss::Reset, ResponsePhase::Body) => ErrorClass::ResetInBody,
            (ConnectionLoss::Reset, _) => ErrorClass::ResetBeforeFirstByte,
            (_, _) if before && sent.is_reused => ErrorClass::EofStale,
            (_, _) if before => ErrorClass::EofFirst,
            (_, ResponsePhase::Head) => ErrorClass::EofInHead,
            (_, _) => ErrorClass::EofInBody,
        }
    }

    /// Error class of a request that waits behind the oldest one, without any response data.
    /// Returns `None` if only the oldest request fails because of the loss, or if we closed the
    /// connection ourselves.
    pub fn pending_error_class(self, sent: &StartedRequest) -> Option<ErrorClass> {
        match self {
            ConnectionLoss::Failed(_) | ConnectionLoss::ClosedByUs => None,
            _ => Some(self.error_class(sent, ResponsePhase::FirstByte)),
        }
    }

    /// Whether the server probably closed an idle connection while the request was on its way. Such
    /// a request was not processed.
    pub fn is_stale(self, sent: &StartedRequest, phase: ResponsePhase) -> bool {
        matches!(self, ConnectionLoss::End | ConnectionLoss::Truncated | ConnectionLoss::Reset)
            && sent.is_reused
            && is_before_first_byte(phase)
    }
}

/// Whether no part of a response had arrived in this phase.
pub(super) fn is_before_first_byte(phase: ResponsePhase) -> bool {
    matches!(phase, ResponsePhase::Idle | ResponsePhase::FirstByte)
}

// The code below passes the totals of a thread to the monitoring thread. The sender never blocks.

/// Passes totals from a thread to the monitoring thread. Stores one set of totals until it is
/// taken, and one empty set for the next exchange.
#[derive(Debug)]
pub(super) struct TotalsMailbox {
    inside: Mutex<MailboxState>,
}

#[derive(Debug)]
struct MailboxState {
    full: Option<HandedTotals>,
    spare: Option<Box<RequestTotals>>,
}

/// Counts of a thread in an interval.
#[derive(Debug)]
pub(super) struct HandedTotals {
    pub totals: Box<RequestTotals>,
    pub is_warmup: bool,
    /// End of the interval in which the totals were counted, in nanoseconds since the start.
    pub until_ns: u64,
}

impl TotalsMailbox {
    pub fn new(is_closed: bool) -> TotalsMailbox {
        TotalsMailbox {
            inside: Mutex::new(MailboxState {
                full: None,
                spare: Some(Box::new(RequestTotals::new(is_closed))),
            }),
        }
    }

    /// Exchanges the totals for empty ones and returns true. Does nothing and returns false unless
    /// the previous totals have been taken and given back.
    pub fn hand_over(
        &self,
        totals: &mut Box<RequestTotals>,
        is_warmup: bool,
        until_ns: u64,
    ) -> bool {
        let Ok(mut inside) = self.inside.try_lock() else {
            return false;
        };
        if inside.full.is_some() {
            return false;
        }
        let Some(mut spare) = inside.spare.take() else {
            return false;
        };
        spare.responses = totals.responses.next_period();
        inside.full =
            Some(HandedTotals { totals: std::mem::replace(totals, spare), is_warmup, until_ns });
        true
    }

    /// Takes the totals that were handed over.
    pub fn take(&self) -> Option<HandedTotals> {
        self.inside.lock().ok()?.full.take()
    }

    /// Gives totals back for reuse in the next exchange.
    pub fn give_back(&self, mut totals: Box<RequestTotals>) {
        totals.clear();
        if let Ok(mut inside) = self.inside.lock() {
            inside.spare = Some(totals);
        }
    }
}

// The code below tracks the requests of one HTTP/1 connection. Responses arrive in the order of the
// requests. This code determines to which request a response belongs, and which requests the end of
// the connection affects. Start at [`Http1Requests::process_input`].

/// The requests of one connection.
pub(super) struct Http1Requests {
    reply: ResponseReader,
    pub requests: VecDeque<StartedRequest>,
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
            let progress = match self.reply.feed_watched(bytes, self.watch.as_deref_mut()) {
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
        recorder.record_response(&sent, summary, self.watch.as_deref(), now_ns);
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
                    recorder.record_response(&first, summary, self.watch.as_deref(), now_ns);
                }
                _ if recorder.load.rules.retries_stale
                    && !first.is_retry
                    && lost.is_stale(&first, phase) =>
                {
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
