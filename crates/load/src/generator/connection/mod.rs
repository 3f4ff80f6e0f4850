//! One connection and the requests on it, from connecting to the end, again and again.
//!
//! It decides what an event means for its requests. It does not know the pace: the loop asks it
//! whether it has room and hands it requests. Start reading at [`Connection::on_event`].

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

/// So many buffers are read of one connection before the others, and the clock, have their turn.
const READS_OF_A_TURN: u32 = 16;

/// How a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// There is none; one may be made from this time on.
    Closed { from_ns: u64 },
    /// The socket is being connected.
    Connecting,
    /// TLS is being agreed on.
    Greeting,
    /// Requests can be sent.
    Open,
}

/// A place for one connection at a time.
pub(super) struct Connection {
    /// Its number in the loop.
    id: u32,
    /// Which of the connections in this place it is, so that a late event is not taken for its own.
    generation: u32,
    state: State,
    channel: Option<Channel>,
    protocol: Protocol,
    /// The request for which it is being made.
    pending: Option<Sent>,
    begun_ns: u64,
    opened_ns: u64,
    is_warmup: bool,
    /// Requests sent on it.
    requests: u64,
    /// Failures to connect in a row.
    failures: u32,
    /// No further request may be sent on it.
    is_last: bool,
    /// Since when it has had room, and the lag of its last request.
    pub freed: Freed,
    /// The loop has it in its list of those with room.
    pub is_listed: bool,
    /// Clients that think.
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

    /// Whether it is being made.
    pub fn is_opening(&self) -> bool {
        matches!(self.state, State::Connecting | State::Greeting)
    }

    /// Whether a request can be sent now.
    pub fn has_room(&self, load: &Load) -> bool {
        self.state == State::Open
            && !self.is_last
            && self.protocol.room(load.streams_per_connection) > self.thinking
    }

    /// Whether the token of an event means this connection, and not one before it.
    pub fn is_meant(&self, token: u64) -> bool {
        let is_closed = matches!(self.state, State::Closed { .. });
        token >> 32 == u64::from(self.generation) && !is_closed
    }

    /// Begins to connect, on behalf of a request or without one.
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

    /// What its events are known by.
    fn token(&self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.id)
    }

    /// Something happened to the socket.
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

    /// What is kept of the last answer.
    pub fn watch(&self) -> Option<&Watch> {
        self.protocol.watch()
    }

    /// Whether the request that the connection was made for can be sent now.
    pub fn has_pending(&self) -> bool {
        self.state == State::Open && self.pending.is_some()
    }

    /// The request that the connection was made for, once it can be sent.
    pub fn take_sendable(&mut self) -> Option<Sent> {
        match self.state {
            State::Open => self.pending.take(),
            _ => None,
        }
    }

    /// Gives up what has taken too long.
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

    /// The load is over: what is under way is in flight, or cancelled when it was interrupted.
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

    /// Reads until the socket is empty, or its turn is over: a server that never stops sending would otherwise keep
    /// the loop from its clock and from all other connections.
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
                // After the other side's end the socket is read until the end, or the reset, is found.
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

    /// Ends the connection if what it was fed says so.
    fn end_by(&mut self, fed: Fed, core: &mut Core) {
        match fed {
            Fed::Open => {}
            Fed::Closed => self.lose(Lost::Announced, core),
            Fed::Goodbye if self.pending.is_none() => self.lose(Lost::Announced, core),
            Fed::Stray | Fed::Goodbye => self.stray(core),
            Fed::Broken(class) => {
                // HTTP/2 says what the server did wrong, if the server still listens.
                if let Some(channel) = &mut self.channel {
                    let _ = self.protocol.flush(channel, &mut core.traffic);
                }
                self.lose(Lost::Failed(class), core);
            }
        }
    }

    /// Bytes came that no request asked for: an answer before its request, or after the last one.
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

    /// Writes what waits, of the protocol and of the socket.
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

    /// The connection is over.
    fn lose(&mut self, lost: Lost, core: &mut Core) {
        let now_ns = core.clock.now_ns();
        let before = self.protocol.in_flight();
        let again = self.protocol.lose(lost, now_ns, &mut core.recorder);
        core.ended += (before - usize::from(again.is_some())) as u32;
        if let Some(sent) = self.pending.take() {
            // Closed before anything was sent: without this end it would be tried for ever.
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

// From the attempt to connect to the first request: connecting, agreeing on TLS, and what follows a
// failure of either.

/// After the first failure to connect, a connection waits this long before it tries again, and twice
/// as long after each further one.
const FIRST_PAUSE_NS: u64 = 1_000_000;

/// It never waits longer than this.
const LONGEST_PAUSE_NS: u64 = 100_000_000;

impl Connection {
    /// The attempt to connect has an end. True when it was a good one.
    fn connected(&mut self, may_have_failed: bool, core: &mut Core) -> bool {
        let Some(channel) = &mut self.channel else {
            return false;
        };
        // A socket without an error can be written to; only one with an error is asked for it.
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

    /// Reads what the other side says during the handshake, and what may follow it at once.
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

    /// Writes what TLS waits to say before requests can be sent.
    fn greet(&mut self, core: &mut Core) {
        if let (State::Greeting, Some(channel)) = (self.state, &mut self.channel)
            && channel.flush(&mut core.traffic).is_err()
        {
            self.fail_to_open(ErrorClass::TlsHandshake, core);
        }
    }
}
