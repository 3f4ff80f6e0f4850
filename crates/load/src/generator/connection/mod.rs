//! One connection and its requests, from connecting to the end, repeatedly.
//!
//! Decides what an event means for its requests. Does not know the pacing: the event loop asks
//! whether the connection has room and gives it requests. Start at [`Connection::on_event`].

#[cfg(feature = "http3")]
mod quic;

use super::channel::{self, Channel, Read};
use super::clock::NEVER;
use super::core::Core;
use super::poll::Happened;
use super::protocol::Protocol;
use super::sent::{Fed, Lost, Sent};
use crate::http1::{Phase, Summary, Watch};
use crate::latency::Freed;
use crate::load::Load;
use crate::measured::Latency;
use crate::outcomes::ErrorClass;

/// Reads per turn and connection, before other connections and the clock get their turn.
const READS_OF_A_TURN: u32 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Closed; may be reopened from this time on.
    Closed { from_ns: u64 },
    /// The socket is connecting.
    Connecting,
    /// The TLS handshake is in progress.
    Greeting,
    /// Requests can be sent.
    Open,
}

/// A slot for one connection at a time.
pub(super) struct Connection {
    /// Index in the event loop.
    id: u32,
    /// Generation of the connection in this slot, to recognize late events of earlier ones.
    generation: u32,
    state: State,
    channel: Option<Channel>,
    protocol: Protocol,
    /// The request for which it is being opened.
    pending: Option<Sent>,
    begun_ns: u64,
    opened_ns: u64,
    is_warmup: bool,
    requests: u64,
    /// Consecutive failed connection attempts.
    failures: u32,
    /// Whether no further request may be sent on it.
    is_last: bool,
    /// Since when it has had room, and the own lag of its last request.
    pub freed: Freed,
    /// Whether it is in the event loop's list of connections with room.
    pub is_listed: bool,
    /// Number of clients that are thinking.
    pub thinking: u32,
    memory: Vec<u8>,
}

impl Connection {
    pub fn new(id: u32, core: &Core) -> Connection {
        Connection {
            id,
            generation: 0,
            state: State::Closed { from_ns: 0 },
            channel: None,
            protocol: Protocol::new(core),
            pending: None,
            begun_ns: 0,
            opened_ns: 0,
            is_warmup: false,
            requests: 0,
            failures: 0,
            is_last: false,
            freed: Freed::default(),
            is_listed: false,
            thinking: 0,
            memory: Vec::new(),
        }
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Whether it is being established.
    pub fn is_opening(&self) -> bool {
        matches!(self.state, State::Connecting | State::Greeting)
    }

    /// Whether a request can be sent now.
    pub fn has_room(&self, load: &Load) -> bool {
        self.state == State::Open
            && !self.is_last
            && self.protocol.room(load.streams_per_connection) > self.thinking
    }

    /// Whether the token of an event refers to this connection and not to a previous one.
    pub fn is_meant(&self, token: u64) -> bool {
        let is_closed = matches!(self.state, State::Closed { .. });
        token >> 32 == u64::from(self.generation) && !is_closed
    }

    /// Starts connecting, for a request or without one.
    pub fn open(&mut self, pending: Option<Sent>, now_ns: u64, core: &mut Core) {
        self.pending = pending;
        self.begun_ns = now_ns;
        self.is_warmup = core.is_warmup(now_ns);
        self.generation = self.generation.wrapping_add(1);
        self.requests = 0;
        self.is_last = false;
        self.state = State::Connecting;
        core.recorder.outcomes(self.is_warmup).connections.attempt();
        core.opening += 1;
        let token = self.token();
        #[cfg(feature = "http3")]
        if core.quic.is_some() {
            return self.open_quic(token, core);
        }
        match core.connect(token, std::mem::take(&mut self.memory)) {
            Ok(channel) => self.channel = Some(channel),
            Err(class) => self.fail_to_open(class, core),
        }
    }

    fn token(&self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.id)
    }

    /// Handles a socket event.
    pub fn on_event(&mut self, happened: Happened, core: &mut Core) {
        if self.state == State::Connecting && !self.connected(happened.ended, core) {
            return;
        }
        if happened.writable {
            self.flush(core);
            self.greet(core);
        }
        match self.state {
            State::Greeting if happened.readable => self.shake_hands(core),
            State::Open if happened.readable => self.read(happened.ended, core),
            _ => {}
        }
    }

    /// Sends a request.
    pub fn send(&mut self, mut sent: Sent, core: &mut Core) {
        if self.state != State::Open {
            return;
        }
        sent.is_reused = self.requests > 0;
        sent.sent_ns = core.clock.now_ns();
        self.requests += 1;
        self.is_last |= core.is_last_request(self.requests, sent.sent_ns - self.opened_ns);
        let totals = core.recorder.totals_mut(sent.is_warmup);
        totals.outcomes.connections.send(sent.is_reused);
        if let Latency::Open(latency) = &mut totals.latency {
            sent.own_lag_ns = latency.sent(sent.intended_ns, self.freed, sent.sent_ns);
            self.freed.own_lag_ns = sent.own_lag_ns;
        }
        let result = self.protocol.send(sent, self.channel.as_mut(), core);
        self.is_last |= self.protocol.is_last();
        if result.is_err() {
            self.lose(Lost::Failed(ErrorClass::Send), core);
        }
    }

    /// Contents of the last response.
    pub fn watch(&self) -> Option<&Watch> {
        self.protocol.watch()
    }

    /// Whether the request for which it was opened can be sent now.
    pub fn has_pending(&self) -> bool {
        self.state == State::Open && self.pending.is_some()
    }

    /// Takes the request for which it was opened, once it can be sent.
    pub fn take_sendable(&mut self) -> Option<Sent> {
        match self.state {
            State::Open => self.pending.take(),
            _ => None,
        }
    }

    /// Enforces timeouts.
    pub fn check_limits(&mut self, now_ns: u64, core: &mut Core) {
        let limits = core.load.rules.timeouts;
        let is_over = |limit: Option<u64>, since: u64| {
            limit.is_some_and(|limit| now_ns.saturating_sub(since) >= limit)
        };
        match self.state {
            State::Connecting | State::Greeting if is_over(limits.connect_ns, self.begun_ns) => {
                self.fail_to_open(ErrorClass::TimeoutConnect, core);
            }
            State::Open => {
                let lost = self
                    .protocol
                    .check_limits(limits, now_ns, &mut core.recorder);
                match lost {
                    Some(class) => self.lose(Lost::Failed(class), core),
                    None => self.flush(core),
                }
            }
            _ => {}
        }
    }

    /// Ends the connection with the load: unfinished requests count as in flight, or as cancelled
    /// after an interrupt.
    pub fn abandon(&mut self, is_interrupted: bool, now_ns: u64, core: &mut Core) -> (u64, u64) {
        let (mut measured, mut warmup) = (0, 0);
        let pending = self.pending.take();
        for sent in self.protocol.abandon().into_iter().chain(pending) {
            if is_interrupted {
                core.recorder.cancelled(&sent, now_ns)
            } else {
                core.recorder.in_flight(&sent, now_ns);
                *(if sent.is_warmup {
                    &mut warmup
                } else {
                    &mut measured
                }) += 1;
            }
        }
        if self.is_opening() {
            core.recorder.outcomes(self.is_warmup).connections.pending += 1;
        }
        if self.requests > 0 {
            core.used(self.requests);
        }
        (measured, warmup)
    }

    /// Reads until the socket is drained or the turn is over. A server that never stops sending
    /// would otherwise keep the event loop from its clock and from other connections.
    fn read(&mut self, has_ended: bool, core: &mut Core) {
        let (had_room, mut ended_reads) = (self.has_room(core.load), 0);
        let mut reads = 0;
        loop {
            reads += 1;
            if reads > READS_OF_A_TURN {
                core.unread.push(Happened {
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
            let Core {
                buffer,
                traffic,
                recorder,
                clock,
                ..
            } = core;
            let protocol = &mut self.protocol;
            let (mut fed, before) = (Fed::Open, protocol.in_flight());
            let read = channel.read(buffer, traffic, |bytes| {
                fed = protocol.feed(bytes, clock.now_ns(), recorder);
                fed == Fed::Open
            });
            let ended = before.saturating_sub(protocol.in_flight());
            core.ended += ended as u32;
            if ended > 0 && !had_room {
                self.freed.since_ns = core.clock.now_ns();
            }
            if fed != Fed::Open {
                return self.end_by(fed, core);
            }
            match read {
                // After the peer's end, read on until the end or the reset is found.
                Read::More => {}
                Read::Drained if has_ended && ended_reads < 2 => ended_reads += 1,
                Read::Drained => break,
                Read::End => return self.lose(Lost::End, core),
                Read::Truncated => return self.lose(Lost::Truncated, core),
                Read::Reset => return self.lose(Lost::Reset, core),
                Read::Broken(class) => return self.lose(Lost::Failed(class), core),
            }
        }
        self.flush(core);
        self.is_last |= self.protocol.is_last();
        if self.is_last && self.protocol.in_flight() == 0 {
            self.lose(Lost::Ours, core);
        }
    }

    /// Ends the connection if the processed data requires it.
    fn end_by(&mut self, fed: Fed, core: &mut Core) {
        match fed {
            Fed::Open => {}
            Fed::Closed => self.lose(Lost::Announced, core),
            Fed::Goodbye if self.pending.is_none() => self.lose(Lost::Announced, core),
            Fed::Stray | Fed::Goodbye => self.stray(core),
            Fed::Broken(class) => {
                // HTTP/2 reports the error to the server, if it is still reading.
                if let Some(channel) = &mut self.channel {
                    let _ = self.protocol.flush(channel, &mut core.traffic);
                }
                self.lose(Lost::Failed(class), core);
            }
        }
    }

    /// Handles unsolicited bytes: a response before its request or after the last one.
    fn stray(&mut self, core: &mut Core) {
        if let Some(sent) = self.pending.take() {
            let now_ns = core.clock.now_ns();
            let class = ErrorClass::ProtocolEarly;
            core.recorder
                .failed(&sent, class, now_ns, &Summary::default());
        } else {
            core.recorder.totals_mut(self.is_warmup).replies.stray_bytes += 1;
        }
        self.lose(Lost::Ours, core);
    }

    /// Writes pending output of the protocol and of the socket.
    pub fn flush(&mut self, core: &mut Core) {
        let (State::Open, Some(channel)) = (self.state, &mut self.channel) else {
            return;
        };
        let written = channel
            .flush(&mut core.traffic)
            .and_then(|()| self.protocol.flush(channel, &mut core.traffic));
        if written.is_err() {
            self.lose(Lost::Failed(ErrorClass::Send), core);
        }
    }

    /// Ends the connection.
    fn lose(&mut self, lost: Lost, core: &mut Core) {
        let now_ns = core.clock.now_ns();
        let before = self.protocol.in_flight();
        let again = self.protocol.lose(lost, now_ns, &mut core.recorder);
        core.ended += (before - usize::from(again.is_some())) as u32;
        if let Some(sent) = self.pending.take() {
            // Closed before anything was sent: fail the request, or it would be retried forever.
            let class = lost.class(&sent, Phase::FirstByte);
            core.recorder
                .failed(&sent, class, now_ns, &Summary::default());
        }
        core.used(self.requests);
        if self.state == State::Open {
            core.open -= 1;
        }
        self.forget_channel();
        self.state = State::Closed { from_ns: now_ns };
        if let Some(sent) = again {
            core.recorder.outcomes(sent.is_warmup).retried();
            let retry = Sent {
                is_retry: true,
                first_byte_ns: NEVER,
                sent_ns: NEVER,
                ..sent
            };
            self.open(Some(retry), now_ns, core);
        }
    }

    fn forget_channel(&mut self) {
        if let Some(channel) = self.channel.take() {
            self.memory = channel.into_memory();
        }
        self.protocol.hang_up();
    }
}

// From the connection attempt to the first request: connecting, TLS handshake, and failures of
// either.

/// Pause before retrying after the first failed connection attempt; doubles with each further
/// failure.
const FIRST_PAUSE_NS: u64 = 1_000_000;

/// Upper limit of the pause.
const LONGEST_PAUSE_NS: u64 = 100_000_000;

impl Connection {
    /// Handles the end of a connection attempt. Returns whether it succeeded.
    fn connected(&mut self, may_have_failed: bool, core: &mut Core) -> bool {
        let Some(channel) = &mut self.channel else {
            return false;
        };
        // A socket without an error is connected; query the error only if there may be one.
        if may_have_failed {
            core.traffic.calls += 1;
            if let Err(error) = channel::finish_connecting(channel.socket()) {
                self.fail_to_open(channel::class_of_connecting(error), core);
                return false;
            }
        }
        if channel.is_up() {
            self.opened(core);
            return true;
        }
        self.state = State::Greeting;
        if channel.greet(&mut core.traffic).is_err() {
            self.fail_to_open(ErrorClass::TlsHandshake, core);
            return false;
        }
        true
    }

    /// Reads the server's part of the handshake, and any data that follows it immediately.
    fn shake_hands(&mut self, core: &mut Core) {
        loop {
            let Some(channel) = &mut self.channel else {
                return;
            };
            let mut early = Vec::new();
            let read = channel.read(&mut core.buffer, &mut core.traffic, |bytes| {
                early.extend_from_slice(bytes);
                true
            });
            if let Read::Broken(class) = read {
                return self.fail_to_open(class, core);
            }
            if channel.is_up() {
                if !core.agrees(channel.tls()) {
                    return self.fail_to_open(ErrorClass::TlsAlpn, core);
                }
                self.opened(core);
                if !early.is_empty() {
                    let now_ns = core.clock.now_ns();
                    let fed = self.protocol.feed(&early, now_ns, &mut core.recorder);
                    self.end_by(fed, core);
                    self.flush(core);
                }
                if self.state == State::Open {
                    self.read(read == Read::End, core);
                }
                return;
            }
            match read {
                Read::More => {}
                Read::Drained => return,
                _ => return self.fail_to_open(ErrorClass::TlsHandshake, core),
            }
        }
    }

    fn opened(&mut self, core: &mut Core) {
        let now_ns = core.clock.now_ns();
        self.state = State::Open;
        self.opened_ns = now_ns;
        self.failures = 0;
        self.freed = Freed {
            since_ns: now_ns,
            own_lag_ns: 0,
        };
        let totals = core.recorder.totals_mut(self.is_warmup);
        totals.outcomes.connections.opened();
        totals.latency.connected(now_ns - self.begun_ns);
        core.opening -= 1;
        core.open += 1;
        core.most_open = core.most_open.max(core.open);
        if let (Some(seen), Some(channel)) = (&mut core.seen, &self.channel) {
            seen.connected(channel.tls(), now_ns - self.begun_ns);
        }
        self.protocol.reset();
        self.flush(core);
    }

    fn fail_to_open(&mut self, class: ErrorClass, core: &mut Core) {
        let now_ns = core.clock.now_ns();
        core.recorder.outcomes(self.is_warmup).connections.failed();
        core.opening -= 1;
        self.forget_channel();
        match self.pending.take() {
            Some(sent) => core
                .recorder
                .failed(&sent, class, now_ns, &Summary::default()),
            None => core.failed_to_open.push(class),
        }
        let pause_ns = (FIRST_PAUSE_NS << self.failures.min(7)).min(LONGEST_PAUSE_NS);
        self.failures = self.failures.saturating_add(1);
        self.state = State::Closed {
            from_ns: now_ns + pause_ns,
        };
    }

    /// Writes pending handshake data.
    fn greet(&mut self, core: &mut Core) {
        if let (State::Greeting, Some(channel)) = (self.state, &mut self.channel)
            && channel.flush(&mut core.traffic).is_err()
        {
            self.fail_to_open(ErrorClass::TlsHandshake, core);
        }
    }
}
