//! How connections are made, used and given up.

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
    /// Every answer is read as soon as the operating system tells of it.
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
