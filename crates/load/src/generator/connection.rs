//! Handles one connection and its requests, from connecting to the end of the connection. The same
//! object then handles the next connection.
//!
//! This module decides what an event means for the requests of the connection, and sends and
//! receives their bytes. It knows nothing about pacing: the event loop asks whether the connection
//! has room and gives it requests. Start at [`LoadConnection::send_request`] and
//! [`LoadConnection::handle_event`].

mod channel;
mod opening;

use super::clock::{NEVER, SocketEvent};
use super::multiplex::Http2Requests;
#[cfg(feature = "http3")]
use super::quic::QuicRequests;
use super::recorder::{
    ConnectionLoss, Http1Requests, InputOutcome, RequestRecorder, StartedRequest,
};
use super::worker_core::{TransportTraffic, WorkerCore};
use crate::http1::{ResponsePhase, ResponseSummary, ResponseWatch};
use crate::load::{HttpVersion, LoadConfig};
use channel::{ByteChannel, ReadResult};
use rustix::io::Errno;
use speedwell_model::load::latency::{ConnectionLag, LoadLatency};
use speedwell_model::load::outcomes::ErrorClass;

/// Maximum number of reads from a connection before other connections and the clock get their turn.
const MAX_READS_PER_TURN: u32 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// Closed; may be reopened from this time on.
    Closed { from_ns: u64 },
    /// The socket is connecting.
    Connecting,
    /// The TLS handshake is in progress.
    Greeting,
    /// Requests can be sent.
    Open,
}

/// A slot that holds one connection at a time.
pub(super) struct LoadConnection {
    /// Index in the event loop.
    id: u32,
    /// Serial number of the slot's current connection. It distinguishes events of this connection
    /// from late events of earlier connections.
    generation: u32,
    pub state: ConnectionState,
    channel: Option<ByteChannel>,
    pub protocol: ProtocolState,
    /// The request for which the connection is being opened.
    pending: Option<StartedRequest>,
    begun_ns: u64,
    opened_ns: u64,
    is_warmup: bool,
    requests: u64,
    /// Consecutive failed connection attempts.
    failures: u32,
    /// Whether no further request may be sent on the connection.
    is_last: bool,
    /// When the connection last gained room, and how long the generator itself delayed the
    /// connection's last request.
    pub freed: ConnectionLag,
    /// Whether the connection is in the event loop's list of connections that may have room.
    pub is_listed: bool,
    /// Number of clients of this connection that are in their think time, the pause between two
    /// requests.
    pub thinking: u32,
    memory: Vec<u8>,
}

impl LoadConnection {
    pub fn new(id: u32, core: &WorkerCore) -> LoadConnection {
        LoadConnection {
            id,
            generation: 0,
            state: ConnectionState::Closed { from_ns: 0 },
            channel: None,
            protocol: ProtocolState::new(core),
            pending: None,
            begun_ns: 0,
            opened_ns: 0,
            is_warmup: false,
            requests: 0,
            failures: 0,
            is_last: false,
            freed: ConnectionLag::default(),
            is_listed: false,
            thinking: 0,
            memory: Vec::new(),
        }
    }

    /// Whether a request can be sent now.
    pub fn has_room(&self, load: &LoadConfig) -> bool {
        self.state == ConnectionState::Open
            && !self.is_last
            && self.protocol.available_requests(load.streams_per_connection) > self.thinking
    }

    /// Whether the token of an event refers to this connection and not to a previous one.
    pub fn owns_token(&self, token: u64) -> bool {
        let is_closed = matches!(self.state, ConnectionState::Closed { .. });
        token >> 32 == u64::from(self.generation) && !is_closed
    }

    /// Starts connecting, for a request or without one.
    pub fn start_connecting(
        &mut self,
        pending: Option<StartedRequest>,
        now_ns: u64,
        core: &mut WorkerCore,
    ) {
        self.pending = pending;
        self.begun_ns = now_ns;
        self.is_warmup = core.is_warmup(now_ns);
        self.generation = self.generation.wrapping_add(1);
        self.requests = 0;
        self.is_last = false;
        self.state = ConnectionState::Connecting;
        core.recorder.outcomes(self.is_warmup).connections.tried += 1;
        core.opening += 1;
        let token = self.token();
        #[cfg(feature = "http3")]
        if core.quic.is_some() {
            return self.open_quic(token, core);
        }
        match core.start_connect(token, std::mem::take(&mut self.memory)) {
            Ok(channel) => self.channel = Some(channel),
            Err(class) => self.fail_to_open(class, core),
        }
    }

    fn token(&self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.id)
    }

    /// Handles a socket event.
    pub fn handle_event(&mut self, event: SocketEvent, core: &mut WorkerCore) {
        if self.state == ConnectionState::Connecting && !self.finish_connecting(event.ended, core) {
            return;
        }
        if event.writable {
            self.flush_output(core);
            self.flush_handshake(core);
        }
        match self.state {
            ConnectionState::Greeting if event.readable => self.continue_handshake(core),
            ConnectionState::Open if event.readable => self.read_turn(event.ended, core),
            _ => {}
        }
    }

    /// Sends a request.
    pub fn send_request(&mut self, mut sent: StartedRequest, core: &mut WorkerCore) {
        if self.state != ConnectionState::Open {
            return;
        }
        sent.is_reused = self.requests > 0;
        sent.sent_ns = core.clock.now_ns();
        self.requests += 1;
        self.is_last |= core.is_last_request(self.requests, sent.sent_ns - self.opened_ns);
        let totals = core.recorder.totals_mut(sent.is_warmup);
        totals.outcomes.connections.count_send(sent.is_reused);
        if let LoadLatency::Open(latency) = &mut totals.latency {
            sent.own_lag_ns = latency.record_sent(sent.intended_ns, self.freed, sent.sent_ns);
            self.freed.own_lag_ns = sent.own_lag_ns;
        }
        let result = self.protocol.send(sent, self.channel.as_mut(), core);
        self.is_last |= self.protocol.is_last();
        if result.is_err() {
            self.end_connection(ConnectionLoss::Failed(ErrorClass::Send), core);
        }
    }

    /// Whether the request for which the connection was opened can be sent now.
    pub fn has_pending(&self) -> bool {
        self.state == ConnectionState::Open && self.pending.is_some()
    }

    /// Takes the request for which the connection was opened, once the request can be sent.
    pub fn take_sendable(&mut self) -> Option<StartedRequest> {
        match self.state {
            ConnectionState::Open => self.pending.take(),
            _ => None,
        }
    }

    /// Enforces timeouts.
    pub fn expire_timeouts(&mut self, now_ns: u64, core: &mut WorkerCore) {
        let limit_ns = core.load.rules.timeouts.connect_ns;
        let is_over = limit_ns.is_some_and(|limit| now_ns.saturating_sub(self.begun_ns) >= limit);
        match self.state {
            ConnectionState::Connecting | ConnectionState::Greeting if is_over => {
                self.fail_to_open(ErrorClass::TimeoutConnect, core);
            }
            ConnectionState::Open => match self.protocol.expire_timeouts(now_ns, core) {
                Some(class) => self.end_connection(ConnectionLoss::Failed(class), core),
                None => self.flush_output(core),
            },
            _ => {}
        }
    }

    /// Records the unfinished requests at the end of the load. They are recorded as in flight or,
    /// if the load was interrupted, as cancelled. Returns how many measured requests and how many
    /// warm-up requests were recorded as in flight.
    pub fn finish(
        &mut self,
        is_interrupted: bool,
        now_ns: u64,
        core: &mut WorkerCore,
    ) -> (u64, u64) {
        let (mut measured, mut warmup) = (0, 0);
        let pending = self.pending.take();
        for sent in self.protocol.take_all().into_iter().chain(pending) {
            if is_interrupted {
                core.recorder.record_cancellation(&sent, now_ns)
            } else {
                core.recorder.record_in_flight(&sent, now_ns);
                *(if sent.is_warmup { &mut warmup } else { &mut measured }) += 1;
            }
        }
        if matches!(self.state, ConnectionState::Connecting | ConnectionState::Greeting) {
            core.recorder.outcomes(self.is_warmup).connections.pending += 1;
        }
        if self.requests > 0 {
            core.record_uses(self.requests);
        }
        (measured, warmup)
    }

    /// Reads until the socket is drained or the turn is over. The turn is limited because of
    /// servers that never stop sending: the event loop must also watch its clock and other
    /// connections.
    fn read_turn(&mut self, has_ended: bool, core: &mut WorkerCore) {
        let (had_room, mut ended_reads) = (self.has_room(core.load), 0);
        let mut reads = 0;
        loop {
            reads += 1;
            if reads > MAX_READS_PER_TURN {
                core.unread.push(SocketEvent {
                    token: self.token(),
                    readable: true,
                    writable: false,
                    ended: has_ended,
                });
                break;
            }
            let Some(channel) = &mut self.channel else {
                return;
            };
            let WorkerCore { buffer, traffic, recorder, clock, .. } = core;
            let protocol = &mut self.protocol;
            let (mut outcome, before) = (InputOutcome::Open, protocol.in_flight());
            let read = channel.read(buffer, traffic, |bytes| {
                outcome = protocol.process_input(bytes, clock.now_ns(), recorder);
                outcome == InputOutcome::Open
            });
            let ended = before.saturating_sub(protocol.in_flight());
            core.ended += ended as u32;
            if ended > 0 && !had_room {
                self.freed.since_ns = core.clock.now_ns();
            }
            if outcome != InputOutcome::Open {
                return self.apply_outcome(outcome, core);
            }
            match read {
                ReadResult::More => {}
                // If the event reports that the peer has closed, a drained socket is read up to two
                // more times to find the end of the stream or a reset.
                ReadResult::Drained if has_ended && ended_reads < 2 => ended_reads += 1,
                ReadResult::Drained => break,
                ReadResult::Lost(lost) => return self.end_connection(lost, core),
            }
        }
        self.flush_output(core);
        self.is_last |= self.protocol.is_last();
        if self.is_last && self.protocol.in_flight() == 0 {
            self.end_connection(ConnectionLoss::ClosedByUs, core);
        }
    }

    /// Ends the connection if the processed data requires it.
    fn apply_outcome(&mut self, outcome: InputOutcome, core: &mut WorkerCore) {
        match outcome {
            InputOutcome::Open => {}
            InputOutcome::Closed => self.end_connection(ConnectionLoss::Announced, core),
            InputOutcome::Goodbye if self.pending.is_none() => {
                self.end_connection(ConnectionLoss::Announced, core)
            }
            InputOutcome::Stray | InputOutcome::Goodbye => self.handle_stray_bytes(core),
            InputOutcome::Broken(class) => {
                // With HTTP/2, report the error to the server, which may still be reading.
                if let Some(channel) = &mut self.channel {
                    let _ = self.protocol.flush_output(channel, &mut core.traffic);
                }
                self.end_connection(ConnectionLoss::Failed(class), core);
            }
        }
    }

    /// Handles unsolicited bytes, which arrive before the first request is sent or after the last
    /// response.
    fn handle_stray_bytes(&mut self, core: &mut WorkerCore) {
        if let Some(sent) = self.pending.take() {
            let now_ns = core.clock.now_ns();
            let class = ErrorClass::ProtocolEarly;
            core.recorder.record_failure(&sent, class, now_ns, &ResponseSummary::default());
        } else {
            core.recorder.totals_mut(self.is_warmup).responses.stray_bytes += 1;
        }
        self.end_connection(ConnectionLoss::ClosedByUs, core);
    }

    /// Writes pending output of the protocol and of the socket.
    pub fn flush_output(&mut self, core: &mut WorkerCore) {
        let (ConnectionState::Open, Some(channel)) = (self.state, &mut self.channel) else {
            return;
        };
        let written = channel
            .flush_output(&mut core.traffic)
            .and_then(|()| self.protocol.flush_output(channel, &mut core.traffic));
        if written.is_err() {
            self.end_connection(ConnectionLoss::Failed(ErrorClass::Send), core);
        }
    }

    fn end_connection(&mut self, lost: ConnectionLoss, core: &mut WorkerCore) {
        let now_ns = core.clock.now_ns();
        let before = self.protocol.in_flight();
        let stale = self.protocol.end_all(lost, now_ns, core);
        core.ended += (before - usize::from(stale.is_some())) as u32;
        if let Some(sent) = self.pending.take() {
            // The connection was closed before its request was sent. Retrying could go on forever,
            // so the request is recorded as failed.
            let class = lost.error_class(&sent, ResponsePhase::FirstByte);
            core.recorder.record_failure(&sent, class, now_ns, &ResponseSummary::default());
        }
        core.record_uses(self.requests);
        if self.state == ConnectionState::Open {
            core.open -= 1;
        }
        self.drop_channel();
        self.state = ConnectionState::Closed { from_ns: now_ns };
        if let Some(sent) = stale {
            core.recorder.outcomes(sent.is_warmup).retries += 1;
            let retry =
                StartedRequest { is_retry: true, first_byte_ns: NEVER, sent_ns: NEVER, ..sent };
            self.start_connecting(Some(retry), now_ns, core);
        }
    }

    fn drop_channel(&mut self) {
        if let Some(channel) = self.channel.take() {
            self.memory = channel.into_buffer();
        }
        self.protocol.close_connection();
    }
}

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
    Three(Box<QuicRequests>),
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
                ProtocolState::Three(Box::new(QuicRequests::new(capacity, watch)))
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
            streams.connection = None;
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
            ProtocolState::Three(streams) => streams.last_response.as_ref(),
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
