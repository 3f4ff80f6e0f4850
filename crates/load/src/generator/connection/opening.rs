//! From the attempt to connect to the first request: connecting, agreeing on TLS, and what follows a
//! failure of either.

use super::super::channel::Read;
use super::super::core::Core;
use super::super::socket;
use super::{Connection, State};
use crate::http1::Summary;
use crate::latency::Freed;
use crate::outcomes::ErrorClass;

/// After the first failure to connect, a connection waits this long before it tries again, and twice
/// as long after each further one.
const FIRST_PAUSE_NS: u64 = 1_000_000;

/// It never waits longer than this.
const LONGEST_PAUSE_NS: u64 = 100_000_000;

impl Connection {
    /// The attempt to connect has an end. True when it was a good one.
    pub(super) fn connected(&mut self, may_have_failed: bool, core: &mut Core) -> bool {
        let Some(channel) = &mut self.channel else {
            return false;
        };
        // A socket without an error can be written to; only one with an error is asked for it.
        if may_have_failed {
            core.traffic.calls += 1;
            if let Err(error) = socket::finish(channel.socket()) {
                self.fail_to_open(socket::class_of(error), core);
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
    pub(super) fn shake_hands(&mut self, core: &mut Core) {
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

    pub(super) fn opened(&mut self, core: &mut Core) {
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

    pub(super) fn fail_to_open(&mut self, class: ErrorClass, core: &mut Core) {
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
    pub(super) fn greet(&mut self, core: &mut Core) {
        if let (State::Greeting, Some(channel)) = (self.state, &mut self.channel)
            && channel.flush(&mut core.traffic).is_err()
        {
            self.fail_to_open(ErrorClass::TlsHandshake, core);
        }
    }
}
