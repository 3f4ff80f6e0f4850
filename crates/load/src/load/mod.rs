//! What a load is: where it goes, what is sent, how it is paced, and when it ends. Plain data.
//!
//! Nothing here opens a connection. A value of [`Load`] says everything that
//! [`crate::generator::run`] needs to know, so a load that was described can be repeated. Start
//! reading at [`Load`].

mod kinds;
mod tls;
mod trust;
pub(crate) mod x509;

pub use kinds::{Kind, Kinds, KindsError, Rows};
pub use tls::{Identity, TlsError, TlsOptions, Trust};
pub use trust::{LastRefusal, Refusal};

use crate::measured::Tick;
use crate::pace::{Pace, Stop};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// The protocol that requests are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Http {
    /// HTTP/1.0 or 1.1, as the requests themselves say.
    #[default]
    One,
    /// HTTP/2: agreed by ALPN with TLS, by prior knowledge without.
    Two {
        /// Bytes of the table for header compression that the server may use; 0 makes every answer
        /// stand for itself, which is cheapest to read.
        table_bytes: u32,
    },
    /// HTTP/3 over QUIC, always with TLS. Only where the crate was built with its feature `http3`.
    Three,
}

/// One part out of several equal generators that together send one load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Which one, from 0.
    pub index: u32,
    /// Of how many.
    pub of: u32,
}

impl Part {
    /// The only generator.
    pub const WHOLE: Part = Part { index: 0, of: 1 };
}

/// A whole load.
#[derive(Debug, Clone)]
pub struct Load {
    /// Where requests go.
    pub target: Target,
    /// What is sent.
    pub kinds: Kinds,
    /// How it is written.
    pub http: Http,
    /// When it is sent.
    pub pace: Pace,
    /// Connections of an open load when it begins. A closed load has one per client, or per
    /// [`Load::streams_per_connection`] clients.
    pub connections: u32,
    /// The most connections an open load may come to have.
    pub most_connections: u32,
    /// Requests that may be in flight on one connection: streams of HTTP/2, or the depth of
    /// pipelining.
    pub streams_per_connection: u32,
    /// When it ends, counted from the end of the warm-up.
    pub stop: Stop,
    /// It ends earlier when it has become steady.
    pub steady: Option<Steady>,
    /// Warm-up time; its requests are excluded from the results, in nanoseconds.
    pub warmup_ns: u64,
    /// How long to wait for outstanding answers at the end, in nanoseconds.
    pub drain_ns: u64,
    /// How connections are used.
    pub rules: ConnectionRules,
    /// What counts as success.
    pub success: Success,
    /// Threads of this generator.
    pub threads: u32,
    /// Processors for the threads, one after the other; the operating system's choice if empty.
    pub processors: Vec<usize>,
    /// Which part of the load this generator sends.
    pub part: Part,
    /// Keep a row for every request, in memory that grows with their number.
    pub keeps_rows: bool,
}

impl Load {
    /// Whether threads wait for answers before they send.
    pub fn is_closed(&self) -> bool {
        matches!(self.pace, Pace::Closed(_))
    }
}

/// What the body of a good answer is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyRule {
    /// So many bytes.
    Length(u64),
    /// It contains these bytes, among its first [`BodyRule::WATCHED_BYTES`].
    Contains(Vec<u8>),
}

impl BodyRule {
    /// Bytes of a body that are looked at.
    pub const WATCHED_BYTES: usize = 1 << 20;
}

/// What counts as success.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Success {
    /// Statuses that are good; 200 to 299 if there are none.
    pub statuses: Vec<std::ops::RangeInclusive<u16>>,
    /// What a body must be like.
    pub body: Option<BodyRule>,
}

impl Success {
    /// Whether a whole answer with this status is a good one, its body aside.
    pub fn admits(&self, status: u16) -> bool {
        if self.statuses.is_empty() {
            (200..300).contains(&status)
        } else {
            self.statuses.iter().any(|range| range.contains(&status))
        }
    }
}

// Where requests go: a host by name, and the addresses that connections are made to.

/// What a socket is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Internet(SocketAddr),
    /// A Unix domain socket.
    Unix(PathBuf),
}

/// Why a host has no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The resolver said no.
    #[error("cannot resolve '{host}': {why}")]
    Failed {
        /// The name.
        host: String,
        /// What the resolver said.
        why: String,
    },
    /// The resolver found nothing.
    #[error("'{0}' has no address")]
    Nothing(String),
}

/// Where requests go. The name is resolved once, before the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The host as in the URL, without the port; an IPv6 address without brackets.
    pub host: String,
    /// The port as in the URL.
    pub port: u16,
    /// What connections are made to, in turn.
    pub addresses: Vec<Address>,
    /// The local address that connections come from.
    pub local: Option<IpAddr>,
    /// TLS, if it is spoken.
    pub tls: Option<TlsOptions>,
}

impl Target {
    /// All addresses of a host, as the operating system resolves it, each once.
    ///
    /// # Errors
    /// There is none.
    pub fn resolve(host: &str, port: u16) -> Result<Vec<Address>, ResolveError> {
        let bare = host.trim_matches(['[', ']']);
        let found = (bare, port)
            .to_socket_addrs()
            .map_err(|error| ResolveError::Failed {
                host: host.to_owned(),
                why: error.to_string(),
            })?;
        let mut addresses: Vec<Address> = Vec::new();
        for address in found.map(Address::Internet) {
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

// How connections are made, used and given up.

/// Limits of time. A limit that is absent is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timeouts {
    /// For a usable connection, TLS included, in nanoseconds.
    pub connect_ns: Option<u64>,
    /// From sending a request to the first byte of its answer, in nanoseconds.
    pub first_byte_ns: Option<u64>,
    /// From sending a request to the last byte of its answer, in nanoseconds.
    pub total_ns: Option<u64>,
}

/// Whether answers may wait a moment so that several are read at once.
///
/// A generator that wakes up for each answer breaks up the bursts in which a busy server works, and
/// both then pay for a wake-up per answer. Waiting costs up to its length in the time stamps of
/// answers; the load says how long it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batching {
    /// Every answer is read as soon as the operating system reports it.
    Off,
    /// A closed load that keeps its server busy waits at most this long, in nanoseconds, and at
    /// most an eighth of the median service time.
    Adaptive {
        /// The longest wait in nanoseconds.
        most_ns: u64,
    },
}

/// How connections are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionRules {
    /// Requests after which a connection is given up; `None`: never. The request itself says
    /// whether the server is asked to close.
    pub most_requests: Option<u64>,
    /// Age at which a connection is given up when its answers are in, in nanoseconds.
    pub lifetime_ns: Option<u64>,
    /// Limits of time.
    pub timeouts: Timeouts,
    /// Send a request once more when its connection, used before, was closed before the first byte
    /// of the answer: the server gave up an idle connection in that moment. Counted as retries.
    pub retries_stale: bool,
    /// Waiting for several answers at once.
    pub batching: Batching,
    /// Never sleep while waiting: one processor per thread for shorter waits.
    pub busy_poll: bool,
}

impl Default for ConnectionRules {
    fn default() -> Self {
        ConnectionRules {
            most_requests: None,
            lifetime_ns: None,
            timeouts: Timeouts::default(),
            retries_stale: false,
            batching: Batching::Adaptive { most_ns: 100_000 },
            busy_poll: false,
        }
    }
}

// Whether a load has become steady, so that it need not go on.

/// Intervals that are compared with as many before them.
const INTERVALS: usize = 10;

/// A load is steady when its last second is like the one before: in good answers, and in the median
/// service time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// The greatest relative difference of the two seconds: 0.05 is 5 %.
    pub within: f64,
}

impl Steady {
    /// Looks at the course so far, in intervals of a tenth of a second.
    pub fn is_met(&self, ticks: &[Tick]) -> bool {
        let Some(from) = ticks.len().checked_sub(2 * INTERVALS) else {
            return false;
        };
        let (before, last) = ticks[from..].split_at(INTERVALS);
        let answers = |ticks: &[Tick]| ticks.iter().map(|tick| tick.ok as f64).sum::<f64>();
        let medians = |ticks: &[Tick]| -> f64 {
            let known = ticks.iter().filter_map(|tick| tick.p50_ns);
            known.map(|ns| ns as f64).sum::<f64>() / ticks.len() as f64
        };
        let is_like = |a: f64, b: f64| a > 0.0 && (a - b).abs() <= self.within * a.max(b);
        is_like(answers(before), answers(last)) && is_like(medians(before), medians(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(of: impl Fn(usize) -> (u64, u64)) -> Vec<Tick> {
        let tick = |at| {
            let (ok, p50_ns) = of(at);
            Tick {
                ok,
                p50_ns: Some(p50_ns),
                ..Tick::default()
            }
        };
        (0..30).map(tick).collect()
    }

    #[test]
    fn a_load_is_steady_when_a_second_is_like_the_one_before() {
        let steady = Steady { within: 0.05 };
        assert!(steady.is_met(&ticks(|at| (1000 + at as u64 % 3, 200_000))));
        assert!(
            !steady.is_met(&ticks(|at| (1000 + 10 * at as u64, 200_000))),
            "it grows"
        );
        assert!(
            !steady.is_met(&ticks(|at| (1000, 200_000 + 4_000 * at as u64))),
            "it slows down"
        );
        assert!(!steady.is_met(&ticks(|_| (0, 0))), "nothing is answered");
        assert!(
            !steady.is_met(&ticks(|_| (1000, 200_000))[..19]),
            "too short to tell"
        );
    }
}
