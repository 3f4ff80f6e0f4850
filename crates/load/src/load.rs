//! What a load is: where it goes, what is sent, how it is paced, and when it ends. Plain data.
//!
//! Nothing here opens a connection. A value of [`Load`] says everything that
//! [`crate::generator::run`] needs to know, so a load that was described can be repeated. Start
//! reading at [`Load`].

use crate::pace::{Pace, Stop};

mod connections;
mod kind;
mod kinds;
mod steady;
mod target;
mod tls;

pub use connections::{Batching, ConnectionRules, Timeouts};
pub use kind::Kind;
pub use kinds::{Kinds, KindsError, Rows};
pub use steady::Steady;
pub use target::{Address, ResolveError, Target};
pub use tls::{Identity, TlsError, TlsOptions, Trust};

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
    /// [`Load::streams`] clients.
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
