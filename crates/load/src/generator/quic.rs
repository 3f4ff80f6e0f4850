//! Maps the HTTP/3 connections and streams of [`crate::http3`] to the requests of the load
//! generator.
//!
//! This module decides which kind of error is recorded for a request that failed. It knows nothing
//! about sockets, or about when the next request is due. HTTP/3 shares pacing, counts and the event
//! loop with the other protocols. Start at [`QuicRequests::handle_event`].

use super::clock::NEVER;
use super::recorder::{ConnectionLoss, RequestRecorder, StartedRequest};
use super::worker_core::TimedQuicEngine;
use crate::http1::{ResponsePhase, ResponseSummary, ResponseWatch};
use crate::http3::{
    ConnectionEnd, H3Connection, H3Request, H3Response, RequestFailure, RequestHandle, StreamEvent,
    StreamKey,
};
use speedwell_model::load::outcomes::ErrorClass;
use std::net::{IpAddr, SocketAddr};

/// Returns the loss to record for the requests of a connection that ended in this way.
pub(super) fn connection_loss(end: ConnectionEnd) -> ConnectionLoss {
    match end {
        ConnectionEnd::Closed => ConnectionLoss::End,
        ConnectionEnd::Reset => ConnectionLoss::Reset,
        ConnectionEnd::Idle => ConnectionLoss::Failed(ErrorClass::H3Idle),
        ConnectionEnd::Protocol => ConnectionLoss::Failed(ErrorClass::H3Protocol),
    }
}

/// The requests of a connection, one per slot.
pub(super) struct QuicRequests {
    slots: Vec<Option<PendingRequest>>,
    free_slots: Vec<u32>,
    /// The connection; `None` if it is closed.
    pub connection: Option<H3Connection>,
    /// Serial number of the last request. Serial numbers distinguish the events of a request from
    /// late events of earlier requests.
    serial: u64,
    /// Number of requests that wait until the server permits another stream.
    awaiting_stream: u32,
    has_answered: bool,
    /// Whether the server accepts no further requests.
    pub is_draining: bool,
    /// Empty watch to copy for each response, if response contents are inspected.
    watch: Option<Box<ResponseWatch>>,
    /// Contents of the last response.
    pub last_response: Option<ResponseWatch>,
}

/// A request in flight. Dropping it cancels the request.
struct PendingRequest {
    sent: StartedRequest,
    serial: u64,
    awaits_stream: bool,
    _handle: RequestHandle,
}

impl QuicRequests {
    pub fn new(capacity: u32, watch: Option<Box<ResponseWatch>>) -> QuicRequests {
        QuicRequests {
            slots: (0..capacity).map(|_| None).collect(),
            free_slots: (0..capacity).rev().collect(),
            connection: None,
            serial: 0,
            awaiting_stream: 0,
            has_answered: false,
            is_draining: false,
            watch,
            last_response: None,
        }
    }

    pub fn connect(
        &mut self,
        to: SocketAddr,
        local: Option<IpAddr>,
        token: u64,
        engine: &mut TimedQuicEngine,
    ) {
        self.has_answered = false;
        self.is_draining = false;
        self.connection = Some(engine.inner.connect(to, local, token));
    }

    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free_slots.len()
    }

    /// Number of requests that can be sent now. QUIC does not reveal how many more streams the
    /// server permits. The number is therefore 0 while a request waits for a stream.
    pub fn available_streams(&self) -> u32 {
        let must_wait = self.awaiting_stream > 0 || self.is_draining();
        if must_wait { 0 } else { self.free_slots.len() as u32 }
    }

    /// Whether the server accepts no further requests.
    pub fn is_draining(&self) -> bool {
        self.is_draining || self.connection.as_ref().is_some_and(H3Connection::is_closing)
    }

    /// Sends a request. Does nothing without a free slot on an established connection.
    pub fn start_request(
        &mut self,
        sent: StartedRequest,
        request: &H3Request,
        engine: &mut TimedQuicEngine,
    ) {
        let (Some(connection), Some(&slot)) = (&self.connection, self.free_slots.last()) else {
            return;
        };
        let key = StreamKey { slot, serial: self.serial + 1 };
        let watch = self.watch.as_deref().cloned();
        let Some(handle) = connection.send(&mut engine.inner, key, request, watch) else {
            return;
        };
        self.free_slots.pop();
        self.serial = key.serial;
        self.slots[slot as usize] = Some(PendingRequest {
            sent: StartedRequest { method: request.method, ..sent },
            serial: key.serial,
            awaits_stream: false,
            _handle: handle,
        });
    }

    /// Processes an event of a request.
    pub fn handle_event(
        &mut self,
        key: StreamKey,
        event: StreamEvent,
        at_ns: u64,
        recorder: &mut RequestRecorder,
    ) {
        let pending = self.slots[key.slot as usize].as_mut();
        let Some(request) = pending.filter(|request| request.serial == key.serial) else {
            return;
        };
        let sent = &mut request.sent;
        match event {
            StreamEvent::Waits => {
                request.awaits_stream = true;
                self.awaiting_stream += 1;
            }
            StreamEvent::Opened => {
                sent.sent_ns = at_ns;
                request.awaits_stream = false;
                self.awaiting_stream -= 1;
            }
            StreamEvent::Head => sent.first_byte_ns = sent.first_byte_ns.min(at_ns),
            StreamEvent::Response(response) => {
                self.finish_request(key.slot, *response, at_ns, recorder)
            }
            StreamEvent::Failed(RequestFailure::Failed(class)) => {
                self.fail_request(key.slot, class, at_ns, recorder)
            }
            StreamEvent::Failed(RequestFailure::Reset(code)) => {
                if let Some(sent) = self.take_request(key.slot) {
                    recorder.record_http3_reset(&sent, code, at_ns);
                }
            }
            StreamEvent::Failed(RequestFailure::ConnectionLost) => {}
        }
    }

    fn finish_request(
        &mut self,
        slot: u32,
        response: H3Response,
        at_ns: u64,
        recorder: &mut RequestRecorder,
    ) {
        self.has_answered = true;
        let H3Response { summary, watch } = response;
        if let Some(sent) = self.take_request(slot) {
            recorder.record_response(&sent, summary, watch.as_ref(), at_ns);
        }
        self.last_response = watch;
    }

    fn fail_request(
        &mut self,
        slot: u32,
        class: ErrorClass,
        at_ns: u64,
        recorder: &mut RequestRecorder,
    ) {
        if let Some(sent) = self.take_request(slot) {
            recorder.record_failure(&sent, class, at_ns, &ResponseSummary::default());
        }
    }

    fn take_request(&mut self, slot: u32) -> Option<StartedRequest> {
        let request = self.slots[slot as usize].take()?;
        self.awaiting_stream -= u32::from(request.awaits_stream);
        self.free_slots.push(slot);
        Some(request.sent)
    }

    /// Ends every stream of a lost connection.
    pub fn end_all(&mut self, lost: ConnectionLoss, now_ns: u64, recorder: &mut RequestRecorder) {
        let go_away = self.is_draining().then_some(ErrorClass::H3GoAway);
        for slot in 0..self.slots.len() as u32 {
            let Some(mut sent) = self.take_request(slot) else {
                continue;
            };
            let has_begun = sent.first_byte_ns != NEVER;
            let phase = if has_begun { ResponsePhase::Body } else { ResponsePhase::FirstByte };
            // As with HTTP/2, a request is recorded as sent on a reused connection if the
            // connection has received a response before. This distinguishes servers that close idle
            // connections from servers that close new ones.
            sent.is_reused = self.has_answered;
            recorder.record_stream_loss(&sent, (lost, phase), go_away, now_ns);
        }
    }

    /// Ends requests that exceed their timeouts; the other requests continue.
    pub fn expire_timeouts(&mut self, now_ns: u64, recorder: &mut RequestRecorder) {
        for slot in 0..self.slots.len() as u32 {
            let request = self.slots[slot as usize].as_ref();
            if let Some(class) =
                request.and_then(|request| recorder.exceeded_timeout(&request.sent, now_ns))
            {
                self.fail_request(slot, class, now_ns, recorder);
            }
        }
    }

    pub fn take_all(&mut self) -> Vec<StartedRequest> {
        let capacity = 0..self.slots.len() as u32;
        capacity.filter_map(|slot| self.take_request(slot)).collect()
    }
}
