//! Holds what all connections of a thread share. Start at [`WorkerCore`].

use super::clock::{LoadClock, SocketEvent, SocketPoll};
#[cfg(feature = "http3")]
use super::clock::{LoadTimer, NEVER};
use super::recorder::RequestRecorder;
use crate::http1::ResponseWatch;
use crate::load::{
    BodyRule, LastRefusal, LoadConfig, LoadShare, RequestSource, ServerAddress, key_bits,
};
use crate::pace::{PacingModel, thread_part};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ProtocolVersion};
use speedwell_model::load::measurement::TlsFacts;
use speedwell_model::load::outcomes::ErrorClass;
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
            (crate::load::HttpVersion::Three, Some(tls)) => Some(TimedQuicEngine::new(tls, clock)?),
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
            let [received, sent, calls] = quic.inner.take_traffic();
            self.traffic.received += received;
            self.traffic.sent += sent;
            self.traffic.calls += calls;
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
}

/// Facts about the connection of a probe.
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
