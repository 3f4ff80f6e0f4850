//! Holds the state that all connections of a thread share: clock, counts, buffer and requests.
//! Requests are encoded before the load starts.

use super::channel::{self, ByteChannel, TlsParameters, TransportTraffic};
use super::clock::{LoadClock, SocketEvent, SocketPoll};
use super::pacing::first_connections;
#[cfg(feature = "http3")]
use super::quic::TimedQuicEngine;
use super::recorder::{RequestRecorder, StartedRequest};
use crate::http1::{Http1Request, InvalidRequest, RequestParts, ResponseWatch};
use crate::http2::{self, UrlScheme};
#[cfg(feature = "http3")]
use crate::http3::H3Request;
use crate::load::{
    BodyRule, HttpVersion, KindsError, LoadConfig, LoadShare, RequestKind, RequestKinds,
    ServerAddress, key_bits,
};
use crate::pace::thread_part;
use rustls::{ClientConnection, ProtocolVersion};
use speedwell_model::load::outcomes::ErrorClass;

const BUFFER_BYTES: usize = 64 * 1024;

/// State shared by the connections of a thread.
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
    part: LoadShare,
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

    /// Counts a new request and assigns its kind.
    pub fn count_attempt(&mut self, mut sent: StartedRequest) -> StartedRequest {
        sent.kind = self.source.kinds.kind_at(sent.index);
        self.recorder.record_start(sent.is_warmup);
        sent
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
        let socket = channel::begin_connecting(address, self.load.target.local)
            .map_err(channel::connect_error_class)?;
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

// The code below encodes all requests before the load starts.
//
// A data table is finite, so each row is encoded once for each kind of request that has
// placeholders. During the measurement, sending then takes the same steps for all requests and,
// with HTTP/1 and HTTP/2, does not allocate.

/// Encoded requests, by kind and by row of the data table.
pub(super) struct RequestSource<'a> {
    kinds: &'a RequestKinds,
    http1: Vec<Vec<Http1Request>>,
    http2: Vec<Vec<http2::Http2Request>>,
    #[cfg(feature = "http3")]
    http3: Vec<Vec<H3Request>>,
}

impl<'a> RequestSource<'a> {
    /// Encodes all requests of a load.
    ///
    /// # Errors
    /// Fails if a request cannot be encoded.
    pub fn new(
        kinds: &'a RequestKinds,
        http: HttpVersion,
        scheme: UrlScheme,
    ) -> Result<RequestSource<'a>, KindsError> {
        let mut source = RequestSource {
            kinds,
            http1: Vec::new(),
            http2: Vec::new(),
            #[cfg(feature = "http3")]
            http3: Vec::new(),
        };
        match http {
            HttpVersion::One => source.http1 = encode_kinds(kinds, Http1Request::new)?,
            HttpVersion::Two { .. } => {
                source.http2 =
                    encode_kinds(kinds, |parts| http2::Http2Request::new(parts, scheme))?;
            }
            #[cfg(feature = "http3")]
            HttpVersion::Three => source.http3 = encode_kinds(kinds, H3Request::new)?,
            #[cfg(not(feature = "http3"))]
            HttpVersion::Three => {}
        }
        Ok(source)
    }

    /// Returns request number `index` encoded for HTTP/1.
    pub fn http1_request(&self, kind: u16, index: u64) -> &Http1Request {
        self.select_row(&self.http1[usize::from(kind)], index)
    }

    /// Returns request number `index` encoded for HTTP/2.
    pub fn http2_request(&self, kind: u16, index: u64) -> &http2::Http2Request {
        self.select_row(&self.http2[usize::from(kind)], index)
    }

    /// Returns request number `index` prepared for HTTP/3.
    #[cfg(feature = "http3")]
    pub fn http3_request(&self, kind: u16, index: u64) -> &H3Request {
        self.select_row(&self.http3[usize::from(kind)], index)
    }

    fn select_row<'b, T>(&self, rows: &'b [T], index: u64) -> &'b T {
        match rows {
            [only] => only,
            rows => &rows[(self.kinds.row_at(index) % rows.len() as u64) as usize],
        }
    }
}

/// Encodes each kind: once for each row of the table if it has placeholders, otherwise once.
fn encode_kinds<T>(
    kinds: &RequestKinds,
    encode: impl Fn(&RequestParts) -> Result<T, InvalidRequest>,
) -> Result<Vec<Vec<T>>, KindsError> {
    let encode_kind = |(kind, index): (&RequestKind, u16)| {
        let rows = if kinds.is_variable(index) { kinds.rows().values.len() } else { 1 };
        let filled = (0..rows as u64).map(|row| kinds.fill_from_row(index, row));
        let encoded = filled.map(|kind| kind.with_parts(&encode)).collect::<Result<Vec<T>, _>>();
        encoded.map_err(|why| KindsError::Request { name: kind.name.clone(), why })
    };
    kinds.kinds().iter().zip(0..).map(encode_kind).collect()
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
