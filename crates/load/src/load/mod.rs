//! Describes a load as plain data: target, requests, pacing and stop conditions.
//!
//! Nothing here opens a connection. A [`LoadConfig`] contains everything that
//! [`crate::generator::run`] needs, so a load can be repeated from its description. Start at
//! [`LoadConfig`].

mod kinds;
mod tls;

pub(crate) use kinds::RequestSource;
pub use kinds::{DataTable, KindsError, RequestKind, RequestKinds};
pub use speedwell_model::load::measurement::RequestTimeouts;
pub(crate) use tls::key_bits;
pub use tls::{CertificateRefusal, ClientIdentity, LastRefusal, TlsError, TlsOptions, TrustSource};

use crate::http1::{ConnectionOption, Http1Version};
use crate::pace::{
    ArrivalSpacing, FOREVER_NS, PacingModel, ScheduleStage, StopCondition, ThinkTime,
};
use speedwell_model::load::measurement::{
    KindFacts, LoadFacts, PaceFacts, RuleFacts, StageFacts, TimelineTick,
};
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// The protocol of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpVersion {
    /// HTTP/1.0 or 1.1, as each request specifies.
    #[default]
    One,
    /// HTTP/2. With TLS, the protocol is negotiated by ALPN; without TLS, the server must be known
    /// to speak HTTP/2.
    Two {
        /// Size in bytes of the header compression table that the server may use. With 0, the head
        /// of each response can be decoded without state from earlier ones, which is the fastest.
        table_bytes: u32,
    },
    /// HTTP/3 over QUIC, always with TLS. Requires the crate feature `http3`.
    Three,
}

/// One of several equal generators that together send one load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadShare {
    /// Index of this generator, from 0.
    pub index: u32,
    /// Number of generators.
    pub count: u32,
}

impl LoadShare {
    /// The only generator.
    pub const ONLY: LoadShare = LoadShare { index: 0, count: 1 };
}

/// A complete description of a load.
#[derive(Debug, Clone)]
pub struct LoadConfig {
    /// Target of the requests.
    pub target: LoadTarget,
    /// Requests to send.
    pub kinds: RequestKinds,
    /// Protocol.
    pub http: HttpVersion,
    /// When to send.
    pub pace: PacingModel,
    /// Initial connections of an open load. A closed load has one per client, or one per
    /// [`LoadConfig::streams_per_connection`] clients.
    pub connections: u32,
    /// Maximum number of connections of an open load.
    pub max_connections: u32,
    /// Maximum number of requests in flight per connection: HTTP/2 or HTTP/3 streams, or the
    /// pipelining depth of HTTP/1.
    pub streams_per_connection: u32,
    /// When the load ends, counted from the end of the warm-up.
    pub stop: StopCondition,
    /// Rule for ending the load early, once it is steady.
    pub steady: Option<SteadinessRule>,
    /// Warm-up in nanoseconds; its requests are counted separately from the measured ones.
    pub warmup_ns: u64,
    /// How long to wait for outstanding responses at the end, in nanoseconds.
    pub drain_ns: u64,
    /// How connections are used.
    pub rules: ConnectionRules,
    /// Criteria for a successful response.
    pub success: SuccessRule,
    /// Threads of this generator.
    pub threads: u32,
    /// Processors to pin the threads to, in turn; not pinned if empty.
    pub processors: Vec<usize>,
    /// Share of the load that this generator sends.
    pub part: LoadShare,
    /// Whether to keep a row per request started after the warm-up; memory grows with the number of
    /// requests.
    pub keeps_rows: bool,
}

impl LoadConfig {
    /// Whether clients wait for responses before they send.
    pub fn is_closed(&self) -> bool {
        matches!(self.pace, PacingModel::Closed(_))
    }
}

/// Condition on the body of a successful response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyRule {
    /// Exact length in bytes.
    Length(u64),
    /// Contains these bytes within the first [`BodyRule::MAX_INSPECTED_BYTES`].
    Contains(Vec<u8>),
}

impl BodyRule {
    /// Number of body bytes inspected.
    pub const MAX_INSPECTED_BYTES: usize = 1 << 20;
}

/// Criteria for a successful response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SuccessRule {
    /// Successful status codes; 200 to 299 if empty.
    pub statuses: Vec<std::ops::RangeInclusive<u16>>,
    /// Condition on the body.
    pub body: Option<BodyRule>,
}

impl SuccessRule {
    /// Whether this status code counts as success, regardless of the body.
    pub fn accepts_status(&self, status: u16) -> bool {
        if self.statuses.is_empty() {
            (200..300).contains(&status)
        } else {
            self.statuses.iter().any(|range| range.contains(&status))
        }
    }
}

// Target of the requests: a host name and the addresses to connect to.

/// Address to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAddress {
    /// TCP, or UDP with HTTP/3.
    Internet(SocketAddr),
    /// A Unix domain socket.
    Unix(PathBuf),
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerAddress::Internet(socket) => socket.fmt(f),
            ServerAddress::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Why a host name could not be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The resolver failed.
    #[error("cannot resolve '{host}': {why}")]
    Failed {
        /// Host name.
        host: String,
        /// Message from the resolver.
        why: String,
    },
    /// The resolver returned no address.
    #[error("cannot resolve '{0}': no address found")]
    Nothing(String),
}

/// Target of the requests. The name is resolved once, before the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadTarget {
    /// Host from the URL, without the port; an IPv6 address has no brackets.
    pub host: String,
    /// Port from the URL.
    pub port: u16,
    /// Addresses of the server; successive connections use them in turn.
    pub addresses: Vec<ServerAddress>,
    /// Local address to connect from.
    pub local: Option<IpAddr>,
    /// TLS options, if TLS is used.
    pub tls: Option<TlsOptions>,
}

impl LoadTarget {
    /// Resolves a host to all its addresses, without duplicates.
    ///
    /// # Errors
    /// Fails if the host cannot be resolved or has no address.
    pub fn resolve_host(host: &str, port: u16) -> Result<Vec<ServerAddress>, ResolveError> {
        let bare = host.trim_matches(['[', ']']);
        let found = (bare, port).to_socket_addrs().map_err(|error| ResolveError::Failed {
            host: host.to_owned(),
            why: error.to_string(),
        })?;
        let mut addresses: Vec<ServerAddress> = Vec::new();
        for address in found.map(ServerAddress::Internet) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            Err(ResolveError::Nothing(host.to_owned()))
        } else {
            Ok(addresses)
        }
    }
}

// How connections are opened, used and closed.

/// How connections are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionRules {
    /// Number of requests after which a connection is closed; `None` for no limit. The generator
    /// adds no header field that asks the server to close the connection.
    pub max_requests: Option<u64>,
    /// Age in nanoseconds after which a connection gets only one more request; `None` for no limit.
    pub lifetime_ns: Option<u64>,
    /// Timeouts.
    pub timeouts: RequestTimeouts,
    /// Whether to retry an HTTP/1 request once if its reused connection was closed before the first
    /// byte of the response. The server has then probably closed an idle connection. The result
    /// counts such retries.
    pub retries_stale: bool,
    /// Maximum delay of reading in nanoseconds; `None` to read each response as soon as the operating
    /// system reports it. Reading is delayed in closed loads that keep their server busy, in order to
    /// read several responses at once. A delay lasts at most an eighth of the median service time.
    ///
    /// A busy server works in bursts. A generator that wakes up for each response breaks up these
    /// bursts, and then both the server and the generator wake up once per response. Timestamps of
    /// responses may be late by the length of a delay. The result reports the longest delay.
    pub max_delay_ns: Option<u64>,
    /// Whether threads spin instead of sleeping. Latency is shorter, but each thread uses a whole
    /// processor.
    pub busy_poll: bool,
}

impl Default for ConnectionRules {
    fn default() -> Self {
        ConnectionRules {
            max_requests: None,
            lifetime_ns: None,
            timeouts: RequestTimeouts::default(),
            retries_stale: false,
            max_delay_ns: Some(100_000),
            busy_poll: false,
        }
    }
}

// The code below decides whether a load has become steady and can end early.

/// Number of intervals in each of the two periods that are compared.
const PERIOD_INTERVALS: usize = 10;

/// A load is steady when its last second resembles the second before, both in the number of
/// successful responses and in the median service time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadinessRule {
    /// Maximum relative difference between the two seconds: 0.05 is 5%.
    pub within: f64,
}

impl SteadinessRule {
    /// Whether the load is steady according to its timeline so far, in intervals of a tenth of a
    /// second.
    pub fn is_met(&self, ticks: &[TimelineTick]) -> bool {
        let Some(from) = ticks.len().checked_sub(2 * PERIOD_INTERVALS) else {
            return false;
        };
        let (before, last) = ticks[from..].split_at(PERIOD_INTERVALS);
        let answers = |ticks: &[TimelineTick]| ticks.iter().map(|tick| tick.ok as f64).sum::<f64>();
        let medians = |ticks: &[TimelineTick]| -> f64 {
            let known = ticks.iter().filter_map(|tick| tick.p50_ns);
            known.map(|ns| ns as f64).sum::<f64>() / ticks.len() as f64
        };
        let is_like = |a: f64, b: f64| a > 0.0 && (a - b).abs() <= self.within * a.max(b);
        is_like(answers(before), answers(last)) && is_like(medians(before), medians(last))
    }
}

// The code below describes a load for reports and files.

impl LoadConfig {
    /// Describes the load, which this number of generator processes sends.
    pub fn facts(&self, processes: u32, is_realtime: bool) -> LoadFacts {
        let kinds = self.kinds.kinds();
        let closes = |kind: &RequestKind| kind.connection == ConnectionOption::Close;
        LoadFacts {
            pace: self.pace_facts(),
            requests: self.stop.after_requests,
            time_ns: self.stop.after_ns,
            warmup_ns: self.warmup_ns,
            drain_ns: self.drain_ns,
            kinds: kinds.iter().map(kind_facts).collect(),
            protocol: self.protocol_name().to_owned(),
            h2_table_bytes: match self.http {
                HttpVersion::One | HttpVersion::Three => None,
                HttpVersion::Two { table_bytes } => Some(table_bytes),
            },
            streams_per_connection: self.streams_per_connection,
            keeps_alive: self.rules.max_requests != Some(1) && !kinds.iter().all(closes),
            max_requests_per_connection: self.rules.max_requests,
            connection_lifetime_ns: self.rules.lifetime_ns,
            timeouts: self.rules.timeouts,
            retries_stale: self.rules.retries_stale,
            success: self.success.facts(),
            threads: self.threads,
            processes,
            processors: self.processors.clone(),
            is_realtime,
            busy_polls: self.rules.busy_poll,
            batching_ns: self.rules.max_delay_ns,
        }
    }

    /// Returns the name of the protocol that the requests use.
    pub fn protocol_name(&self) -> &'static str {
        let is_http10 = |kind: &RequestKind| kind.version == Http1Version::Http10;
        match self.http {
            HttpVersion::Three => "HTTP/3",
            HttpVersion::Two { .. } => "HTTP/2",
            HttpVersion::One if self.kinds.kinds().iter().all(is_http10) => "HTTP/1.0",
            HttpVersion::One => "HTTP/1.1",
        }
    }

    fn pace_facts(&self) -> PaceFacts {
        match &self.pace {
            PacingModel::Closed(closed) => {
                let (think_ns, seed) = match closed.think {
                    ThinkTime::None => (0, None),
                    ThinkTime::Fixed(ns) => (ns, None),
                    ThinkTime::Exponential { mean_ns, seed } => (mean_ns, Some(seed)),
                };
                PaceFacts::Closed {
                    concurrency: closed.concurrency,
                    think_ns,
                    thinks_at_random: seed.is_some(),
                    seed: seed.unwrap_or(0),
                }
            }
            PacingModel::Open(schedule) => {
                let seed = match schedule.spacing() {
                    ArrivalSpacing::Even => None,
                    ArrivalSpacing::Poisson { seed } => Some(seed),
                };
                PaceFacts::Open {
                    stages: schedule.stages().iter().map(stage_facts).collect(),
                    is_poisson: seed.is_some(),
                    seed: seed.unwrap_or(0),
                    connections: self.connections,
                    max_connections: self.max_connections,
                }
            }
        }
    }
}

impl SuccessRule {
    fn facts(&self) -> RuleFacts {
        let statuses = self.statuses.iter();
        let mut rule = RuleFacts {
            statuses: statuses.map(|range| (*range.start(), *range.end())).collect(),
            ..RuleFacts::default()
        };
        match &self.body {
            None => {}
            Some(BodyRule::Length(bytes)) => rule.body_bytes = Some(*bytes),
            Some(BodyRule::Contains(text)) => {
                rule.body_contains = Some(String::from_utf8_lossy(text).into_owned());
            }
        }
        rule
    }
}

fn kind_facts(kind: &RequestKind) -> KindFacts {
    KindFacts {
        name: kind.name.clone(),
        weight: kind.weight,
        method: kind.method.clone(),
        path: kind.target.clone(),
        body_bytes: kind.body.as_ref().map(|body| body.len() as u64),
    }
}

fn stage_facts(stage: &ScheduleStage) -> StageFacts {
    StageFacts {
        from_per_s: stage.from.requests_per_s(),
        to_per_s: stage.to.requests_per_s(),
        duration_ns: (stage.duration_ns != FOREVER_NS).then_some(stage.duration_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(of: impl Fn(usize) -> (u64, u64)) -> Vec<TimelineTick> {
        let tick = |at| {
            let (ok, p50_ns) = of(at);
            TimelineTick { ok, p50_ns: Some(p50_ns), ..TimelineTick::default() }
        };
        (0..30).map(tick).collect()
    }

    #[test]
    fn a_load_is_steady_when_a_second_is_like_the_one_before() {
        let steady = SteadinessRule { within: 0.05 };
        assert!(steady.is_met(&ticks(|at| (1000 + at as u64 % 3, 200_000))));
        assert!(!steady.is_met(&ticks(|at| (1000 + 10 * at as u64, 200_000))), "it grows");
        assert!(!steady.is_met(&ticks(|at| (1000, 200_000 + 4_000 * at as u64))), "it slows down");
        assert!(!steady.is_met(&ticks(|_| (0, 0))), "nothing is answered");
        assert!(!steady.is_met(&ticks(|_| (1000, 200_000))[..19]), "too short to tell");
    }
}
