//! Opens a connection: everything from the connection attempt to the first request, which is
//! connecting, the TLS handshake, and failures of either.

#[cfg(feature = "http3")]
use super::ProtocolState;
use super::channel::{ByteChannel, ReadResult};
use super::{ConnectionState, LoadConnection};
#[cfg(feature = "http3")]
use crate::generator::quic::connection_loss;
use crate::generator::recorder::ConnectionLoss;
use crate::generator::worker_core::WorkerCore;
use crate::http1::ResponseSummary;
use crate::load::{HttpVersion, ServerAddress};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with, sockopt,
};
use rustls::ClientConnection;
use speedwell_model::load::latency::ConnectionLag;
use speedwell_model::load::outcomes::ErrorClass;
use std::net::{IpAddr, SocketAddr};

/// Pause before retrying after the first failed connection attempt. The pause doubles with each
/// further failure.
const MIN_RETRY_PAUSE_NS: u64 = 1_000_000;

/// Upper limit of the pause after failed connection attempts.
const MAX_RETRY_PAUSE_NS: u64 = 100_000_000;

impl LoadConnection {
    /// Completes connecting the socket and starts the TLS handshake, if any. Returns false if
    /// connecting failed or the handshake could not be started.
    pub(super) fn finish_connecting(
        &mut self,
        may_have_failed: bool,
        core: &mut WorkerCore,
    ) -> bool {
        let Some(channel) = &mut self.channel else {
            return false;
        };
        // Only query the error of the socket if there may be one. A socket without an error is
        // connected.
        if may_have_failed {
            core.traffic.calls += 1;
            if let Err(error) = channel.finish_connecting() {
                self.fail_to_open(connect_error_class(error), core);
                return false;
            }
        }
        if channel.is_established() {
            self.mark_open(core);
            return true;
        }
        self.state = ConnectionState::Greeting;
        if channel.start_handshake(&mut core.traffic).is_err() {
            self.fail_to_open(ErrorClass::TlsHandshake, core);
            return false;
        }
        true
    }

    /// Reads the server's part of the handshake, and any data that follows it immediately.
    pub(super) fn continue_handshake(&mut self, core: &mut WorkerCore) {
        loop {
            let Some(channel) = &mut self.channel else {
                return;
            };
            let mut early = Vec::new();
            let read = channel.read(&mut core.buffer, &mut core.traffic, |bytes| {
                early.extend_from_slice(bytes);
                true
            });
            if let ReadResult::Lost(ConnectionLoss::Failed(class)) = read {
                return self.fail_to_open(class, core);
            }
            if channel.is_established() {
                if !core.is_expected_protocol(channel.tls()) {
                    return self.fail_to_open(ErrorClass::TlsAlpn, core);
                }
                self.mark_open(core);
                if !early.is_empty() {
                    let now_ns = core.clock.now_ns();
                    let outcome = self.protocol.process_input(&early, now_ns, &mut core.recorder);
                    self.apply_outcome(outcome, core);
                    self.flush_output(core);
                }
                if self.state == ConnectionState::Open {
                    let has_ended = read == ReadResult::Lost(ConnectionLoss::End);
                    self.read_turn(has_ended, core);
                }
                return;
            }
            match read {
                ReadResult::More => {}
                ReadResult::Drained => return,
                _ => return self.fail_to_open(ErrorClass::TlsHandshake, core),
            }
        }
    }

    pub(super) fn mark_open(&mut self, core: &mut WorkerCore) {
        let now_ns = core.clock.now_ns();
        self.state = ConnectionState::Open;
        self.opened_ns = now_ns;
        self.failures = 0;
        self.freed = ConnectionLag { since_ns: now_ns, own_lag_ns: 0 };
        let totals = core.recorder.totals_mut(self.is_warmup);
        totals.outcomes.connections.opened += 1;
        totals.latency.record_connect(now_ns - self.begun_ns);
        core.opening -= 1;
        core.open += 1;
        core.max_open = core.max_open.max(core.open);
        if let (Some(facts), Some(channel)) = (&mut core.facts, &self.channel) {
            facts.record_connect(channel.tls(), now_ns - self.begun_ns);
        }
        self.protocol.reset_connection();
        self.flush_output(core);
    }

    pub(super) fn fail_to_open(&mut self, class: ErrorClass, core: &mut WorkerCore) {
        let now_ns = core.clock.now_ns();
        core.recorder.outcomes(self.is_warmup).connections.failed += 1;
        core.opening -= 1;
        self.drop_channel();
        match self.pending.take() {
            Some(sent) => {
                core.recorder.record_failure(&sent, class, now_ns, &ResponseSummary::default())
            }
            None => core.failed_to_open.push(class),
        }
        let pause_ns = (MIN_RETRY_PAUSE_NS << self.failures.min(7)).min(MAX_RETRY_PAUSE_NS);
        self.failures = self.failures.saturating_add(1);
        self.state = ConnectionState::Closed { from_ns: now_ns + pause_ns };
    }

    /// Writes pending handshake data.
    pub(super) fn flush_handshake(&mut self, core: &mut WorkerCore) {
        if let (ConnectionState::Greeting, Some(channel)) = (self.state, &mut self.channel)
            && channel.flush_output(&mut core.traffic).is_err()
        {
            self.fail_to_open(ErrorClass::TlsHandshake, core);
        }
    }
}

impl WorkerCore<'_> {
    /// Starts connecting to the next address.
    pub(super) fn start_connect(
        &mut self,
        token: u64,
        memory: Vec<u8>,
    ) -> Result<ByteChannel, ErrorClass> {
        let address = self.next_address();
        // For TCP, the five calls are socket, setsockopt, connect, epoll_ctl, and finally close.
        self.traffic.calls += 5;
        let socket =
            begin_connecting(address, self.load.target.local).map_err(connect_error_class)?;
        self.poll.watch_socket(&socket, token).map_err(|_| ErrorClass::ConnectNoPort)?;
        ByteChannel::new(socket, self.tls.as_ref(), memory)
    }

    /// Whether TLS negotiated the protocol of the load. A server without ALPN speaks HTTP/1 (RFC
    /// 7301, section 3.1).
    fn is_expected_protocol(&self, tls: Option<&ClientConnection>) -> bool {
        let protocol = tls.and_then(|tls| tls.alpn_protocol());
        match self.load.http {
            HttpVersion::One => {
                protocol.is_none_or(|name| name == b"http/1.1" || name == b"http/1.0")
            }
            HttpVersion::Two { .. } => protocol == Some(b"h2"),
            HttpVersion::Three => protocol == Some(b"h3"),
        }
    }
}

/// Starts connecting. The socket becomes readable or writable once the result is known.
fn begin_connecting(address: &ServerAddress, local: Option<IpAddr>) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let family = match address {
        ServerAddress::Internet(SocketAddr::V4(_)) => AddressFamily::INET,
        ServerAddress::Internet(SocketAddr::V6(_)) => AddressFamily::INET6,
        ServerAddress::Unix(_) => AddressFamily::UNIX,
    };
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    let result = match address {
        ServerAddress::Internet(address) => {
            // Disable Nagle's algorithm. It would only delay requests, because most requests are
            // one small segment.
            sockopt::set_tcp_nodelay(&socket, true)?;
            if let Some(local) = local {
                bind(&socket, &SocketAddr::new(local, 0))?;
            }
            connect(&socket, address)
        }
        ServerAddress::Unix(path) => connect(&socket, &SocketAddrUnix::new(path)?),
    };
    match result {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

fn connect_error_class(error: Errno) -> ErrorClass {
    match error {
        Errno::TIMEDOUT => ErrorClass::ConnectTimeout,
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::HOSTDOWN => {
            ErrorClass::ConnectUnreachable
        }
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE | Errno::MFILE | Errno::NFILE => {
            ErrorClass::ConnectNoPort
        }
        // A Unix socket whose backlog is full refuses connections with EAGAIN.
        _ => ErrorClass::ConnectRefused,
    }
}

// The code below opens QUIC connections and handles their events, as `LoadConnection::handle_event`
// does for sockets.

#[cfg(feature = "http3")]
impl LoadConnection {
    pub(super) fn open_quic(&mut self, token: u64, core: &mut WorkerCore) {
        let local = core.load.target.local;
        let address = core.next_address().clone();
        let (ProtocolState::Three(streams), Some(engine)) = (&mut self.protocol, &mut core.quic)
        else {
            return;
        };
        match address {
            ServerAddress::Internet(to) => streams.connect(to, local, token, engine),
            // HTTP/3 loads with a Unix socket are rejected before they start.
            ServerAddress::Unix(_) => self.fail_to_open(ErrorClass::ConnectUnreachable, core),
        }
    }

    /// Handles an event of the connection.
    pub fn handle_quic_event(&mut self, event: crate::http3::H3Event, core: &mut WorkerCore) {
        use crate::http3::EventKind;
        let at_ns = core.clock.to_load_ns(event.at);
        let ProtocolState::Three(streams) = &mut self.protocol else {
            return;
        };
        match (event.kind, self.state) {
            (EventKind::Established(established), ConnectionState::Connecting) => {
                if let Some(facts) = &mut core.facts {
                    facts.record_quic_connect(&established, at_ns - self.begun_ns);
                }
                if let Some(connection) = &mut streams.connection {
                    connection.establish(*established);
                }
                self.mark_open(core);
            }
            (EventKind::NotEstablished(class), ConnectionState::Connecting) => {
                self.fail_to_open(class, core);
            }
            (EventKind::Ended(ended), ConnectionState::Open) => {
                self.end_connection(connection_loss(ended), core)
            }
            (EventKind::Closing, ConnectionState::Open) => {
                streams.is_draining = true;
                self.close_if_done(core);
            }
            (EventKind::Stream(key, event), ConnectionState::Open) => {
                let before = streams.in_flight();
                let had_room = streams.available_streams() > self.thinking && !self.is_last;
                streams.handle_event(key, event, at_ns, &mut core.recorder);
                let ended = before - streams.in_flight();
                core.ended += ended as u32;
                let has_room = streams.available_streams() > self.thinking;
                if has_room && !had_room {
                    self.freed.since_ns = at_ns;
                }
                self.close_if_done(core);
            }
            _ => {}
        }
    }

    /// Closes the connection if it accepts no further request and has none in flight.
    fn close_if_done(&mut self, core: &mut WorkerCore) {
        self.is_last |= self.protocol.is_last();
        let is_awaited = self.pending.is_some() || self.protocol.in_flight() > 0;
        if self.is_last && !is_awaited {
            self.end_connection(ConnectionLoss::ClosedByUs, core);
        }
    }
}
