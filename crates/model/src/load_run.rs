//! One load that was carried out: what was requested, what the server was seen to be, what was
//! measured. Plain data that can be written to a file and read back without loss.
//!
//! Nothing here is formatted and nothing is judged. Start reading at [`LoadRun`].

use serde::{Deserialize, Serialize};
use speedwell_load::measured::Measured;

/// Everything known of one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadRun {
    /// What it is called where several are shown: the URL.
    pub label: String,
    /// Where requests went, with the path of the first kind.
    pub url: String,
    /// The round that it belongs to, from 0; every URL is loaded once in a round.
    pub round: u32,
    /// Its place in the order of execution of all loads of the command, from 0.
    pub slot: u32,
    /// What was requested.
    #[serde(rename = "asked")]
    pub requested: LoadFacts,
    /// What the request before the load saw; absent with `--no-verify`.
    pub probe: Option<ProbeFacts>,
    /// What was measured, of all generators together.
    pub measured: Measured,
    /// The outcome of the server, if it was started for the load.
    pub server: Option<ServerOutcome>,
    /// What each machine gave, where several sent the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<LoadPart>,
    /// Not everything that was requested was measured: a generator process or the server died.
    /// [`LoadRun::warnings`] says so in words.
    pub is_partial: bool,
    /// What a reader of the figures should know that the figures do not say, as whole sentences:
    /// a generator process died, redirects were followed, and so on.
    pub warnings: Vec<String>,
}

/// What one machine gave of a load that several sent. Times of its clock are given in ours.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadPart {
    /// The machine's name.
    pub machine: String,
    /// Its identity.
    pub id: String,
    /// The first of its generator processes, counted over all machines from 0.
    pub first: u32,
    /// How many of them it had.
    pub processes: u32,
    /// What is to be added to its clock to have ours, in nanoseconds, before the load.
    pub offset_ns: i64,
    /// By how much that may be wrong, in nanoseconds.
    pub uncertainty_ns: u64,
    /// By how much the same differed after the load, in nanoseconds, where it could be asked again.
    pub drift_ns: Option<i64>,
    /// When its first generator began after the agreed moment, in nanoseconds.
    pub began_ns: Option<i64>,
    /// The least time of 32 attempts to connect before the load, in nanoseconds.
    pub connect_ns: Option<u64>,
    /// Requests that it attempted, after the warm-up.
    pub attempted: u64,
    /// Of these, answered well.
    pub ok: u64,
    /// Of these, failed.
    pub errors: u64,
    /// How long its part took, as [`Measured::elapsed_ns`].
    pub elapsed_ns: u64,
    /// Share of the time that its busiest thread was busy.
    pub busiest: f64,
    /// Whether that is so much that it may have been what was measured.
    pub is_bottleneck: bool,
    /// With a rate: the 99th percentile of its own lateness, in nanoseconds, and what it may be at most.
    pub own_lag_p99_ns: Option<(u64, u64)>,
    /// The network device that had most to do for its speed, and the share of its speed that was used.
    pub link: Option<(String, f64)>,
    /// How it ended, if not well; then figures are those of its last look, and what it measured is missing.
    pub lost: Option<String>,
}

/// What was requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadFacts {
    /// How the load was paced.
    pub pace: PaceFacts,
    /// End after so many requests, not counting those of the warm-up.
    pub requests: Option<u64>,
    /// Stop after this time, which begins after the warm-up, in nanoseconds.
    pub time_ns: Option<u64>,
    /// Time at the beginning that is kept apart, in nanoseconds.
    pub warmup_ns: u64,
    /// How long answers were awaited after the end, in nanoseconds.
    pub drain_ns: u64,
    /// The requests, in the order of [`speedwell_load::measured::RequestRecord::kind`].
    pub kinds: Vec<KindFacts>,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    pub protocol: String,
    /// Bytes of the table for header compression that the server may use, with HTTP/2.
    pub h2_table_bytes: Option<u32>,
    /// Requests that may be in flight on one connection.
    #[serde(rename = "lanes")]
    pub streams_per_connection: u32,
    /// Connections are used for more than one request.
    pub keeps_alive: bool,
    /// Requests after which a connection is given up.
    pub most_requests_per_connection: Option<u64>,
    /// Age at which a connection is given up, in nanoseconds.
    pub connection_lifetime_ns: Option<u64>,
    /// Limits of time.
    pub timeouts: TimeoutFacts,
    /// Requests are sent again when an idle connection turns out to be closed.
    pub retries_stale: bool,
    /// What counts as success.
    pub success: RuleFacts,
    /// Threads of each generator.
    pub threads: u32,
    /// Generator processes.
    pub processes: u32,
    /// Processors that the threads were bound to.
    pub processors: Vec<usize>,
    /// The generator ran with real-time priority.
    pub is_realtime: bool,
    /// The generator never slept while it waited.
    pub busy_polls: bool,
    /// The longest time for which answers may have waited to be read together, in nanoseconds;
    /// absent where that was off.
    pub batching_ns: Option<u64>,
}

impl LoadFacts {
    /// Requests that were to be in flight at once; only a closed load has such a number.
    pub fn concurrency(&self) -> Option<u32> {
        match self.pace {
            PaceFacts::Closed { concurrency, .. } => Some(concurrency),
            PaceFacts::Open { .. } => None,
        }
    }
}

/// How a load was paced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "model")]
pub enum PaceFacts {
    /// Clients that wait for their answers.
    Closed {
        /// How many.
        concurrency: u32,
        /// The pause between an answer and the next request, in nanoseconds; 0 for none.
        think_ns: u64,
        /// The pauses are random, and the above is their mean.
        thinks_at_random: bool,
        /// What random pauses follow from.
        seed: u64,
    },
    /// Requests when they are due.
    Open {
        /// The rates, one after the other.
        stages: Vec<StageFacts>,
        /// Requests lie at random instead of evenly.
        is_poisson: bool,
        /// What random arrivals follow from.
        seed: u64,
        /// Connections at the beginning.
        connections: u32,
        /// Connections at most.
        most_connections: u32,
    },
}

/// A stretch of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StageFacts {
    /// Requests per second at its beginning.
    pub from_per_s: f64,
    /// Requests per second at its end.
    pub to_per_s: f64,
    /// Its length in nanoseconds; absent if it goes on until the load ends.
    pub duration_ns: Option<u64>,
}

/// One kind of request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindFacts {
    /// Its name.
    pub name: String,
    /// How often it was sent, relative to the others.
    pub weight: u32,
    /// The method.
    pub method: String,
    /// Path and query as given, blanks unfilled.
    pub path: String,
    /// Bytes of the body.
    pub body_bytes: Option<u64>,
}

/// Limits of time; absent is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TimeoutFacts {
    /// For a usable connection, in nanoseconds.
    pub connect_ns: Option<u64>,
    /// To the first byte of the answer, in nanoseconds.
    pub first_byte_ns: Option<u64>,
    /// To the last byte of the answer, in nanoseconds.
    pub total_ns: Option<u64>,
}

/// What counted as success.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RuleFacts {
    /// Statuses from and to; 200 to 299 if there are none.
    pub statuses: Vec<(u16, u16)>,
    /// A text that bodies had to contain.
    pub body_contains: Option<String>,
    /// The length that bodies had to have.
    pub body_bytes: Option<u64>,
}

/// What the request before the load saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeFacts {
    /// What was connected to: `127.0.0.1:8080`, or the path of a Unix domain socket.
    pub address: String,
    /// What was agreed with TLS.
    pub tls: Option<TlsFacts>,
    /// The status.
    pub status: u16,
    /// The value of Server.
    pub server: Option<String>,
    /// The value of Content-Type.
    pub content_type: Option<String>,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// Bytes of the whole answer.
    pub wire_bytes: u64,
    /// The server lets the connection be used again.
    pub is_reusable: bool,
    /// Making the connection, in nanoseconds.
    pub connect_ns: u64,
    /// From sending to the last byte, in nanoseconds.
    pub service_ns: u64,
    /// Addresses that redirected here, in order, when redirects were followed.
    pub redirected_from: Vec<String>,
}

/// What was agreed with TLS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFacts {
    /// The version, such as `TLSv1.3`.
    pub version: String,
    /// The cipher suite.
    pub cipher: String,
    /// The group of the key exchange.
    pub group: Option<String>,
    /// What ALPN agreed on.
    pub alpn: Option<String>,
}

/// The outcome of a server that was started for the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerOutcome {
    /// The command that started it.
    pub command: String,
    /// From its start to its first answer to a connection, in nanoseconds.
    pub ready_ns: u64,
    /// Processor time of the server's processes while it was measured, in nanoseconds, where the
    /// operating system tells.
    pub cpu_ns: Option<u64>,
    /// How it ended before it was told to, as the end of a sentence: `exited with status 1`.
    pub died: Option<String>,
    /// The last lines it wrote on stderr, if it died.
    pub stderr_tail: String,
}
