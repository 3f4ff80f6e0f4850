//! State shared by all connections of a thread: clock, counts, buffer and requests.

#[cfg(feature = "http3")]
use super::quic;

use super::channel::{self, Channel, Tls, Traffic};
use super::clock::Clock;
use super::connection_facts::ConnectionFacts;
use super::pacing::first_connections;
use super::poll::{Happened, Poll};
use super::recorder::Recorder;
use super::sent::Sent;
use super::source::Source;
use crate::http1::Watch;
use crate::load::{Address, BodyRule, Http, Load, Part};
use crate::outcomes::ErrorClass;
use crate::pace::part_of;
use rustls::ClientConnection;

/// Size of a read.
const BUFFER_BYTES: usize = 64 * 1024;

/// State shared by the connections of a thread.
pub(super) struct Core<'a> {
    pub load: &'a Load,
    pub clock: Clock,
    pub poll: Poll,
    pub source: &'a Source<'a>,
    pub recorder: Recorder<'a>,
    pub traffic: Traffic,
    pub buffer: Box<[u8]>,
    pub tls: Option<Tls>,
    /// Replaces [`Core::poll`] for waiting and connecting if the load uses HTTP/3.
    #[cfg(feature = "http3")]
    pub quic: Option<quic::Engine>,
    /// Facts about the connection, if this is a probe.
    pub seen: Option<ConnectionFacts>,
    /// Connections that had more data than one turn reads. Edge-triggered polling does not report
    /// them again.
    pub unread: Vec<Happened>,
    /// Requests that ended since the event loop last checked.
    pub ended: u32,
    /// Open connections, current and maximum.
    pub open: u32,
    pub most_open: u32,
    /// Connections being established.
    pub opening: u32,
    /// Failed connection attempts without a request, not yet charged to one.
    pub failed_to_open: Vec<ErrorClass>,
    /// Minimum and maximum number of requests per connection.
    pub uses: Option<(u64, u64)>,
    /// Connection attempts, offset by the initial attempts of the preceding threads. Selects the
    /// next address in turn.
    attempts: usize,
    /// Index of this thread among all threads of all generators.
    part: Part,
}

impl<'a> Core<'a> {
    pub fn new(
        load: &'a Load,
        source: &'a Source<'a>,
        tls: Option<Tls>,
        recorder: Recorder<'a>,
        clock: Clock,
        part: Part,
    ) -> std::io::Result<Core<'a>> {
        #[cfg(feature = "http3")]
        let quic = match (load.http, &tls) {
            (Http::Three, Some(tls)) => Some(quic::Engine::new(tls, clock)?),
            _ => None,
        };
        Ok(Core {
            #[cfg(feature = "http3")]
            quic,
            load,
            clock,
            poll: if load.is_closed() {
                Poll::with_limits(clock)?
            } else {
                Poll::with_timer(clock)?
            },
            source,
            recorder,
            traffic: Traffic::default(),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            tls,
            seen: None,
            unread: Vec::new(),
            ended: 0,
            open: 0,
            most_open: 0,
            opening: 0,
            failed_to_open: Vec::new(),
            uses: None,
            attempts: (0..part.index)
                .map(|index| first_connections(load, Part { index, ..part }) as usize)
                .sum(),
            part,
        })
    }

    /// Whether work started now belongs to the warm-up.
    pub fn is_warmup(&self, now_ns: u64) -> bool {
        now_ns < self.load.warmup_ns
    }

    /// Counts a new request and assigns its kind.
    pub fn attempt(&mut self, mut sent: Sent) -> Sent {
        sent.kind = self.source.kind_of(sent.index);
        self.recorder.attempt(sent.is_warmup);
        sent
    }

    /// Maximum number of connections of this thread.
    pub fn most_connections(&self) -> u32 {
        let load = self.load;
        let most = u64::from(load.most_connections.max(load.connections));
        part_of(most, self.part.index, self.part.of).max(1) as u32
    }

    /// Adds the traffic since the last call to the counts.
    pub fn settle_traffic(&mut self, now_ns: u64) {
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
    pub fn next_address(&mut self) -> &'a Address {
        let addresses = &self.load.target.addresses;
        let address = &addresses[self.attempts % addresses.len()];
        self.attempts = self.attempts.wrapping_add(1);
        address
    }

    /// Starts connecting to the next address.
    pub fn connect(&mut self, token: u64, memory: Vec<u8>) -> Result<Channel, ErrorClass> {
        let address = self.next_address();
        // socket, its option, connect, registration with epoll, and the final close.
        self.traffic.calls += 5;
        let socket = channel::begin_connecting(address, self.load.target.local)
            .map_err(channel::class_of_connecting)?;
        self.poll
            .add(&socket, token)
            .map_err(|_| ErrorClass::ConnectNoPort)?;
        Channel::new(socket, self.tls.as_ref(), memory)
    }

    /// Whether TLS negotiated the protocol of the load. A server without ALPN speaks HTTP/1 (RFC
    /// 7301, section 3.1).
    pub fn agrees(&self, tls: Option<&ClientConnection>) -> bool {
        let agreed = tls.and_then(|tls| tls.alpn_protocol());
        match self.load.http {
            Http::One => agreed.is_none_or(|name| name == b"http/1.1" || name == b"http/1.0"),
            Http::Two { .. } => agreed == Some(b"h2"),
            Http::Three => agreed == Some(b"h3"),
        }
    }

    /// Whether the connection must be closed after this request.
    pub fn is_last_request(&self, requests: u64, age_ns: u64) -> bool {
        let rules = &self.load.rules;
        rules.most_requests.is_some_and(|most| requests >= most)
            || rules.lifetime_ns.is_some_and(|most| age_ns >= most)
    }

    /// Records that a connection was closed after this number of requests.
    pub fn used(&mut self, requests: u64) {
        self.uses = Some(match self.uses {
            None => (requests, requests),
            Some((least, most)) => (least.min(requests), most.max(requests)),
        });
    }

    /// Returns the recorder for response contents, if they are inspected.
    pub fn watch(&self) -> Option<Box<Watch>> {
        let looks_at_body = matches!(self.load.success.body, Some(BodyRule::Contains(_)));
        match (&self.seen, looks_at_body) {
            (Some(_), _) => Some(Box::new(Watch::new(
                BodyRule::WATCHED_BYTES,
                &ConnectionFacts::FIELDS,
            ))),
            (None, true) => Some(Box::new(Watch::new(BodyRule::WATCHED_BYTES, &[]))),
            (None, false) => None,
        }
    }
}
