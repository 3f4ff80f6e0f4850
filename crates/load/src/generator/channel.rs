//! Transports the bytes of one connection, with or without TLS, and holds what all connections of a
//! thread share.
//!
//! This module does not interpret the bytes. It buffers data that the socket does not accept at
//! once. Start at [`WorkerCore`] and [`ByteChannel`].

use super::clock::{LoadClock, SocketEvent, SocketPoll};
#[cfg(feature = "http3")]
use super::clock::{LoadTimer, NEVER};
use super::recorder::{RequestRecorder, StartedRequest};
use crate::http1::ResponseWatch;
use crate::load::{
    BodyRule, HttpVersion, LastRefusal, LoadConfig, LoadShare, RequestSource, ServerAddress,
    key_bits,
};
use crate::pace::{DueRequest, PacingModel, thread_part};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    recv, send, socket_with, sockopt,
};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig, ClientConnection, ProtocolVersion};
use speedwell_model::load::outcomes::ErrorClass;
use std::io::{BufRead, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(super) struct TlsParameters {
    pub config: Arc<ClientConfig>,
    pub name: ServerName<'static>,
    pub last_refusal: Arc<LastRefusal>,
}

const BUFFER_BYTES: usize = 64 * 1024;

/// State shared by the connections of a thread: clock, counts, buffer and encoded requests.
pub(super) struct WorkerCore<'a> {
    pub load: &'a LoadConfig,
    pub clock: LoadClock,
    pub poll: SocketPoll,
    pub source: &'a RequestSource<'a>,
    pub recorder: RequestRecorder<'a>,
    pub traffic: TransportTraffic,
    pub buffer: Box<[u8]>,
    pub tls: Option<TlsParameters>,
    /// QUIC engine, used instead of [`WorkerCore::poll`] if the load uses HTTP/3.
    #[cfg(feature = "http3")]
    pub quic: Option<TimedQuicEngine>,
    /// Facts about the connection, if this thread sends a probe.
    pub facts: Option<ConnectionFacts>,
    /// Events of connections from which not all data was read in one turn. Edge-triggered polling
    /// does not report these events again.
    pub unread: Vec<SocketEvent>,
    /// Requests that ended since the event loop last checked.
    pub ended: u32,
    /// Number of open connections.
    pub open: u32,
    /// Highest number of connections that were open at the same time.
    pub max_open: u32,
    /// Connections being established.
    pub opening: u32,
    /// Error classes of failed connection attempts that were made without a request. The event loop
    /// records each as the failure of a waiting request.
    pub failed_to_open: Vec<ErrorClass>,
    /// The fewest and the most requests that a closed connection has carried.
    pub uses: Option<(u64, u64)>,
    /// Number of connection attempts of this thread, plus the initial attempts of the preceding
    /// threads. The number selects the next address, so that all addresses get their turn.
    attempts: usize,
    /// Position of this thread among all threads of all generators.
    pub part: LoadShare,
}

impl<'a> WorkerCore<'a> {
    pub fn new(
        load: &'a LoadConfig,
        source: &'a RequestSource<'a>,
        tls: Option<TlsParameters>,
        recorder: RequestRecorder<'a>,
        clock: LoadClock,
        part: LoadShare,
    ) -> std::io::Result<WorkerCore<'a>> {
        #[cfg(feature = "http3")]
        let quic = match (load.http, &tls) {
            (HttpVersion::Three, Some(tls)) => Some(TimedQuicEngine::new(tls, clock)?),
            _ => None,
        };
        Ok(WorkerCore {
            #[cfg(feature = "http3")]
            quic,
            load,
            clock,
            poll: SocketPoll::new(clock, !load.is_closed())?,
            source,
            recorder,
            traffic: TransportTraffic::default(),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            tls,
            facts: None,
            unread: Vec::new(),
            ended: 0,
            open: 0,
            max_open: 0,
            opening: 0,
            failed_to_open: Vec::new(),
            uses: None,
            attempts: (0..part.index)
                .map(|index| first_connections(load, LoadShare { index, ..part }) as usize)
                .sum(),
            part,
        })
    }

    /// Whether a request or connection that starts now belongs to the warm-up.
    pub fn is_warmup(&self, now_ns: u64) -> bool {
        now_ns < self.load.warmup_ns
    }

    /// Counts a request that starts now, and assigns its kind.
    pub fn start_request(&mut self, due: DueRequest, now_ns: u64) -> StartedRequest {
        let (kind, is_warmup) = (self.source.kinds.kind_at(due.index), self.is_warmup(due.at_ns));
        self.recorder.record_start(is_warmup);
        StartedRequest::new(due, kind, now_ns, is_warmup)
    }

    /// Maximum number of connections of this thread.
    pub fn max_connections(&self) -> u32 {
        let load = self.load;
        let max = u64::from(load.max_connections.max(load.connections));
        thread_part(max, self.part.index, self.part.count).max(1) as u32
    }

    /// Adds the traffic since the last call to the counts.
    pub fn flush_traffic(&mut self, now_ns: u64) {
        #[cfg(feature = "http3")]
        if let Some(quic) = &self.quic {
            quic.take_traffic(&mut self.traffic);
        }
        let is_warmup = self.is_warmup(now_ns.saturating_sub(1));
        let bytes = &mut self.recorder.totals_mut(is_warmup).outcomes.bytes;
        bytes.received += std::mem::take(&mut self.traffic.received);
        bytes.sent += std::mem::take(&mut self.traffic.sent);
    }

    /// Returns the address for the next connection attempt.
    pub fn next_address(&mut self) -> &'a ServerAddress {
        let addresses = &self.load.target.addresses;
        let address = &addresses[self.attempts % addresses.len()];
        self.attempts = self.attempts.wrapping_add(1);
        address
    }

    /// Starts connecting to the next address.
    pub fn start_connect(
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
    pub fn is_expected_protocol(&self, tls: Option<&ClientConnection>) -> bool {
        let protocol = tls.and_then(|tls| tls.alpn_protocol());
        match self.load.http {
            HttpVersion::One => {
                protocol.is_none_or(|name| name == b"http/1.1" || name == b"http/1.0")
            }
            HttpVersion::Two { .. } => protocol == Some(b"h2"),
            HttpVersion::Three => protocol == Some(b"h3"),
        }
    }

    /// Whether a connection must be closed after a request. `requests` is the number of requests of
    /// the connection up to this one, and `age_ns` is its age when this request was sent.
    pub fn is_last_request(&self, requests: u64, age_ns: u64) -> bool {
        let rules = &self.load.rules;
        rules.max_requests.is_some_and(|max| requests >= max)
            || rules.lifetime_ns.is_some_and(|max| age_ns >= max)
    }

    /// Records that a connection was closed after this number of requests.
    pub fn record_uses(&mut self, requests: u64) {
        let (fewest, most) = self.uses.unwrap_or((requests, requests));
        self.uses = Some((fewest.min(requests), most.max(requests)));
    }

    /// Returns the recorder for response contents, if they are inspected.
    pub fn response_watch(&self) -> Option<Box<ResponseWatch>> {
        let looks_at_body = matches!(self.load.success.body, Some(BodyRule::Contains(_)));
        let is_probe = self.facts.is_some();
        let fields: &[&'static str] = if is_probe { &ConnectionFacts::FIELDS } else { &[] };
        (is_probe || looks_at_body)
            .then(|| Box::new(ResponseWatch::new(BodyRule::MAX_INSPECTED_BYTES, fields)))
    }
}

/// Number of initial connections of a thread. `part` is the thread's position among all threads of
/// all generators.
pub(super) fn first_connections(load: &LoadConfig, part: LoadShare) -> u32 {
    match &load.pace {
        PacingModel::Closed(closed) => {
            closed.thread_clients(part.index, part.count).div_ceil(load.streams_per_connection)
        }
        PacingModel::Open(_) => {
            thread_part(u64::from(load.connections), part.index, part.count) as u32
        }
    }
}

/// Bytes received and sent, and the number of system calls.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TransportTraffic {
    pub received: u64,
    pub sent: u64,
    pub calls: u64,
}

/// A socket that is connected or connecting.
pub(super) struct ByteChannel {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
    /// Whether the server has sent close_notify.
    has_received_close: bool,
    /// Bytes to write, starting at `out_at`. The buffer is reused for later connections.
    out: Vec<u8>,
    out_at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadResult {
    /// Data was read and more may follow.
    More,
    /// No data is left for now.
    Drained,
    /// The peer has finished sending.
    End,
    /// The connection was closed without close_notify.
    Truncated,
    /// The connection was reset.
    Reset,
    /// TLS failed.
    Broken(ErrorClass),
}

impl ByteChannel {
    pub fn new(
        socket: OwnedFd,
        tls: Option<&TlsParameters>,
        out: Vec<u8>,
    ) -> Result<ByteChannel, ErrorClass> {
        let tls = match tls {
            None => None,
            Some(TlsParameters { config, name, .. }) => {
                let connection = ClientConnection::new(config.clone(), name.clone())
                    .map_err(|_| ErrorClass::TlsHandshake)?;
                Some(Box::new(connection))
            }
        };
        Ok(ByteChannel { socket, tls, has_received_close: false, out, out_at: 0 })
    }

    /// Returns whether connecting succeeded. Call this once the socket is readable or writable.
    pub fn finish_connecting(&self) -> Result<(), Errno> {
        sockopt::socket_error(&self.socket)?
    }

    pub fn tls(&self) -> Option<&ClientConnection> {
        self.tls.as_deref()
    }

    /// Whether application data can be exchanged.
    pub fn is_established(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// Starts the TLS handshake; the socket must be connected.
    pub fn start_handshake(&mut self, traffic: &mut TransportTraffic) -> Result<(), Errno> {
        self.encrypt_pending();
        self.flush_output(traffic)
    }

    /// Sends application data, or buffers it until the socket is writable.
    pub fn send(&mut self, bytes: &[u8], traffic: &mut TransportTraffic) -> Result<(), Errno> {
        if let Some(tls) = &mut self.tls {
            // The writer accepts everything: its buffer is unlimited.
            tls.writer().write_all(bytes).map_err(|_| Errno::PIPE)?;
            self.encrypt_pending();
            return self.flush_output(traffic);
        }
        if self.out.len() > self.out_at {
            self.out.extend_from_slice(bytes);
            return Ok(());
        }
        traffic.calls += 1;
        let written = transmit_bytes(&self.socket, bytes)?;
        traffic.sent += written as u64;
        if written < bytes.len() {
            self.out.extend_from_slice(&bytes[written..]);
        }
        Ok(())
    }

    /// Whether buffered bytes wait for the socket.
    pub fn is_waiting(&self) -> bool {
        self.out.len() > self.out_at
    }

    /// Writes buffered bytes as far as the socket accepts them.
    pub fn flush_output(&mut self, traffic: &mut TransportTraffic) -> Result<(), Errno> {
        while self.is_waiting() {
            traffic.calls += 1;
            let written = transmit_bytes(&self.socket, &self.out[self.out_at..])?;
            if written == 0 {
                return Ok(());
            }
            traffic.sent += written as u64;
            self.out_at += written;
        }
        self.out.clear();
        self.out_at = 0;
        Ok(())
    }

    /// Reads once into `buffer` and passes any application data to `on_data`.
    pub fn read(
        &mut self,
        buffer: &mut [u8],
        traffic: &mut TransportTraffic,
        mut on_data: impl FnMut(&[u8]) -> bool,
    ) -> ReadResult {
        traffic.calls += 1;
        let read = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) if self.tls.is_some() && !self.has_received_close => {
                return ReadResult::Truncated;
            }
            Ok((0, _)) => return ReadResult::End,
            Ok((read, _)) => read,
            Err(Errno::AGAIN | Errno::INTR) => return ReadResult::Drained,
            Err(_) => return ReadResult::Reset,
        };
        traffic.received += read as u64;
        // A read that does not fill the buffer has drained the socket. Another read would find
        // nothing.
        let state = if read < buffer.len() { ReadResult::Drained } else { ReadResult::More };
        if self.tls.is_none() {
            on_data(&buffer[..read]);
            return state;
        }
        match self.decrypt(&buffer[..read], traffic, on_data) {
            Ok(false) => state,
            // The server has sent close_notify (RFC 8446, section 6.1). It may wait for our
            // close_notify before it closes the socket, so do not wait for the end of the stream.
            Ok(true) => ReadResult::End,
            Err(class) => ReadResult::Broken(class),
        }
    }

    /// Closes the connection and returns the buffer for reuse.
    pub fn into_buffer(mut self) -> Vec<u8> {
        self.out.clear();
        std::mem::take(&mut self.out)
    }

    /// Appends pending TLS output to the write buffer.
    fn encrypt_pending(&mut self) {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                // Writing to a vector does not fail.
                if tls.write_tls(&mut self.out).is_err() {
                    return;
                }
            }
        }
    }

    /// Decrypts bytes and passes the application data to `on_data`. Returns whether the server has
    /// sent close_notify.
    fn decrypt(
        &mut self,
        mut bytes: &[u8],
        traffic: &mut TransportTraffic,
        mut on_data: impl FnMut(&[u8]) -> bool,
    ) -> Result<bool, ErrorClass> {
        let Some(tls) = self.tls.as_deref_mut() else {
            return Ok(false);
        };
        let was_established = !tls.is_handshaking();
        let (mut wants_more, mut failure, mut peer_closed) = (true, None, false);
        while !bytes.is_empty() && wants_more && failure.is_none() {
            if tls.read_tls(&mut bytes).is_err() {
                failure = Some(tls_failure_class(was_established));
                break;
            }
            match tls.process_new_packets() {
                Ok(state) => peer_closed = state.peer_has_closed(),
                Err(error) => failure = Some(tls_error_class(&error, was_established)),
            }
            wants_more = deliver_plaintext(tls, &mut on_data);
        }
        self.has_received_close |= peer_closed;
        // If TLS failed, an alert is pending. Send it before the connection is closed, so that the
        // server knows the reason.
        self.encrypt_pending();
        let flushed = self.flush_output(traffic);
        match (failure, flushed) {
            (Some(class), _) => Err(class),
            (None, Err(_)) => Err(ErrorClass::Send),
            (None, Ok(())) => Ok(peer_closed),
        }
    }
}

/// Passes decrypted data to `on_data` until none is left or `on_data` returns false. Returns
/// whether `on_data` accepts more.
fn deliver_plaintext(tls: &mut ClientConnection, mut on_data: impl FnMut(&[u8]) -> bool) -> bool {
    loop {
        let mut reader = tls.reader();
        let Ok(plaintext) = reader.fill_buf() else {
            return true;
        };
        let length = plaintext.len();
        if length == 0 {
            return true;
        }
        let wants_more = on_data(plaintext);
        reader.consume(length);
        if !wants_more {
            return false;
        }
    }
}

/// Error class of a TLS failure during or after the handshake.
fn tls_failure_class(was_established: bool) -> ErrorClass {
    if was_established { ErrorClass::TlsRecord } else { ErrorClass::TlsHandshake }
}

/// Error class of a TLS error. With TLS 1.3, the client completes its side of the handshake before
/// the server checks the client's certificate (RFC 8446, section 4.4.2.4). An alert that rejects
/// this certificate therefore counts as a handshake error even if it arrives later.
fn tls_error_class(error: &rustls::Error, was_established: bool) -> ErrorClass {
    match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            ErrorClass::TlsVerify
        }
        rustls::Error::NoApplicationProtocol
        | rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            ErrorClass::TlsAlpn
        }
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied,
        ) => ErrorClass::TlsHandshake,
        _ => tls_failure_class(was_established),
    }
}

// The functions below connect, read and write a non-blocking socket.

/// Starts connecting. The socket becomes readable or writable once the result is known.
pub(super) fn begin_connecting(
    address: &ServerAddress,
    local: Option<IpAddr>,
) -> Result<OwnedFd, Errno> {
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

pub(super) fn connect_error_class(error: Errno) -> ErrorClass {
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

/// Writes as much as the socket accepts, possibly 0 bytes.
fn transmit_bytes(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    match send(socket, bytes, SendFlags::NOSIGNAL) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        other => other,
    }
}

/// Drives a thread's connections until a given time on the load clock.
#[cfg(feature = "http3")]
pub(super) struct TimedQuicEngine {
    pub inner: crate::http3::H3Engine,
    timer: LoadTimer,
    clock: LoadClock,
}

#[cfg(feature = "http3")]
impl TimedQuicEngine {
    /// Creates an engine.
    ///
    /// # Errors
    /// Fails if the operating system cannot create the runtime or the timer, or if `tls` does not
    /// offer a cipher that QUIC requires.
    pub fn new(tls: &TlsParameters, clock: LoadClock) -> std::io::Result<TimedQuicEngine> {
        let timer = LoadTimer::new(clock)?;
        let alarm = std::os::fd::AsFd::as_fd(&timer).try_clone_to_owned()?;
        let name = tls.name.to_str().into_owned();
        Ok(TimedQuicEngine {
            inner: crate::http3::H3Engine::new(tls.config.clone(), name, alarm)?,
            timer,
            clock,
        })
    }

    /// Waits for events until a deadline; replaces the contents of `events` with the new events.
    pub fn wait(&mut self, until_ns: u64, events: &mut Vec<crate::http3::H3Event>) {
        let now_ns = self.clock.now_ns();
        if until_ns != NEVER && until_ns > now_ns && until_ns != self.timer.fires_at_ns {
            // If the timer cannot be set, poll instead of waiting without a deadline.
            let _ = self.timer.arm(until_ns);
        }
        let is_timer_set = until_ns == NEVER || self.timer.fires_at_ns == until_ns;
        self.inner.run_until_event(is_timer_set && until_ns > now_ns, events);
    }

    /// Adds to `traffic` the socket traffic since the last call.
    pub fn take_traffic(&self, traffic: &mut TransportTraffic) {
        let [received, sent, calls] = self.inner.take_traffic();
        traffic.received += received;
        traffic.sent += sent;
        traffic.calls += calls;
    }
}

// The code below records facts about the connection of a probe, the single request that is sent
// before a load.

/// Negotiated TLS parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFacts {
    /// Protocol version, such as `TLSv1.3`.
    pub version: String,
    /// Cipher suite, such as `TLS13_AES_256_GCM_SHA384`; empty with HTTP/3, where it is unknown.
    pub cipher: String,
    /// Size in bits of the key in the server's certificate, for known key types.
    pub key_bits: Option<u32>,
    /// Key exchange group, such as `X25519`.
    pub group: Option<String>,
    /// Protocol selected by ALPN, such as `h2`.
    pub alpn: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionFacts {
    pub tls: Option<TlsFacts>,
    pub connect_ns: u64,
}

impl ConnectionFacts {
    /// Response header fields to keep.
    pub const FIELDS: [&'static str; 3] = ["Server", "Content-Type", "Location"];

    pub fn record_connect(&mut self, tls: Option<&ClientConnection>, connect_ns: u64) {
        self.connect_ns = connect_ns;
        self.tls = tls.map(|tls| TlsFacts {
            version: match tls.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3".to_owned(),
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2".to_owned(),
                other => format!("{other:?}"),
            },
            cipher: tls
                .negotiated_cipher_suite()
                .map_or(String::new(), |suite| format!("{:?}", suite.suite())),
            key_bits: tls.peer_certificates().and_then(|chain| key_bits(chain.first()?)),
            group: tls.negotiated_key_exchange_group().map(|group| format!("{:?}", group.name())),
            alpn: tls.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
        });
    }

    /// Records a QUIC connection; its cipher and group are unknown. Its TLS version is always 1.3
    /// (RFC 9001, section 4.2).
    #[cfg(feature = "http3")]
    pub fn record_quic_connect(
        &mut self,
        established: &crate::http3::EstablishedConnection,
        connect_ns: u64,
    ) {
        self.connect_ns = connect_ns;
        self.tls = Some(TlsFacts {
            version: "TLSv1.3".to_owned(),
            cipher: String::new(),
            key_bits: established.certificate.as_deref().and_then(key_bits),
            group: None,
            alpn: Some(String::from_utf8_lossy(&established.alpn).into_owned()),
        });
    }
}
