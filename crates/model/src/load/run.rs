//! Defines the record of one HTTP load: its options, facts about the server, and the measurements.
//! The record can be written to a file and read back without loss.
//!
//! Start at [`LoadRun`].

use crate::Session;
use crate::load::measurement::LoadMeasurement;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The complete record of one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadRun {
    /// Label that distinguishes the load from other loads in a report: the URL.
    pub label: String,
    /// The target URL, with the path of the first kind of request.
    pub url: String,
    /// Number of the round, from 0. In each round, every URL gets one load.
    pub round: u32,
    /// Position of the load in the execution order of all loads of the command, from 0.
    pub slot: u32,
    /// The options of the load.
    #[serde(alias = "asked")]
    pub requested: LoadFacts,
    /// Result of the probe request before the load. `None` with `--no-verify`, or if an experiment
    /// started the server.
    pub probe: Option<ProbeFacts>,
    /// Measurements, merged over all generators.
    pub measured: LoadMeasurement,
    /// Start-up time, processor time and premature end of the server, if the load's command started
    /// it.
    pub server: Option<ServerOutcome>,
    /// Each machine's part, if several machines generated the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<LoadPart>,
    /// Whether the measurement is incomplete, because a generator process or the server died or a
    /// machine was lost. [`LoadRun::warnings`] has the explanation.
    pub is_partial: bool,
    /// Caveats that the numbers do not show, as whole sentences. For example, redirects were
    /// followed.
    pub warnings: Vec<String>,
}

/// One machine's part of a load that several machines generate. Times are converted to the clock of
/// the coordinator, which is the machine that controls the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadPart {
    /// The machine's name.
    pub machine: String,
    /// The machine's unique id.
    pub id: String,
    /// Index of the machine's first generator process, counted over all machines from 0.
    pub first: u32,
    /// Number of generator processes on the machine.
    pub processes: u32,
    /// Offset of the clocks in nanoseconds, measured before the load: the coordinator's time minus
    /// the machine's time.
    pub offset_ns: i64,
    /// Uncertainty of `offset_ns`, in nanoseconds.
    pub uncertainty_ns: u64,
    /// Change of `offset_ns` by the end of the load, in nanoseconds; `None` if the offset could not
    /// be measured again.
    pub drift_ns: Option<i64>,
    /// Delay of the machine's first generator after the agreed start, in nanoseconds.
    pub began_ns: Option<i64>,
    /// Shortest time to connect before the load, among several attempts, in nanoseconds.
    pub connect_ns: Option<u64>,
    /// Requests attempted after the warm-up.
    pub attempted: u64,
    /// Number of these requests that succeeded.
    pub ok: u64,
    /// Number of these requests that failed.
    pub errors: u64,
    /// Duration of the part, as in [`LoadMeasurement::elapsed_ns`].
    pub elapsed_ns: u64,
    /// Utilization of the machine's busiest thread, from 0 to 1.
    pub busiest: f64,
    /// Whether `busiest` is so high that the generator may have been the bottleneck.
    pub is_bottleneck: bool,
    /// For a load with a rate: the 99th percentile of the generator's own delay in sending
    /// requests, and the limit for this percentile, both in nanoseconds.
    pub own_lag_p99_ns: Option<(u64, u64)>,
    /// The network device that used the largest fraction of its bandwidth, and this fraction.
    pub link: Option<(String, f64)>,
    /// Why the part was lost; `None` if it was not lost. The numbers of a lost part come from its
    /// last progress report, and the measurements of the load do not include them.
    pub lost: Option<String>,
}

/// The options of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadFacts {
    /// How the load was paced.
    pub pace: PaceFacts,
    /// Number of requests after which the load ends, not counting the warm-up.
    pub requests: Option<u64>,
    /// Duration of the load after the warm-up, in nanoseconds.
    pub time_ns: Option<u64>,
    /// Duration of the warm-up, in nanoseconds. The warm-up is recorded separately.
    pub warmup_ns: u64,
    /// How long to wait for outstanding responses at the end, in nanoseconds.
    pub drain_ns: u64,
    /// The requests, in the order of [`crate::load::measurement::RequestRecord::kind`].
    pub kinds: Vec<KindFacts>,
    /// `HTTP/1.0`, `HTTP/1.1`, `HTTP/2` or `HTTP/3`.
    pub protocol: String,
    /// With HTTP/2: maximum size of the header compression table that the server may use, in bytes.
    pub h2_table_bytes: Option<u32>,
    /// Maximum number of requests in flight per connection.
    #[serde(alias = "lanes")]
    pub streams_per_connection: u32,
    /// Whether connections are reused.
    pub keeps_alive: bool,
    /// Number of requests after which a connection is closed.
    #[serde(alias = "most_requests_per_connection")]
    pub max_requests_per_connection: Option<u64>,
    /// Age after which a connection gets only one more request, in nanoseconds.
    pub connection_lifetime_ns: Option<u64>,
    /// Time limits.
    pub timeouts: RequestTimeouts,
    /// Whether requests are retried when an idle connection turns out to be closed.
    pub retries_stale: bool,
    /// Criteria for a successful response.
    pub success: RuleFacts,
    /// Threads of each generator.
    pub threads: u32,
    /// Generator processes.
    pub processes: u32,
    /// Processors to which the threads were pinned.
    pub processors: Vec<usize>,
    /// Whether the generator ran with real-time priority.
    pub is_realtime: bool,
    /// Whether the generator polled instead of sleeping.
    pub busy_polls: bool,
    /// Maximum time by which batching delays reads, in nanoseconds; `None` if batching was off.
    pub batching_ns: Option<u64>,
}

impl LoadFacts {
    /// Number of concurrent requests; `None` for an open load.
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
    /// Each client waits for a response before its next request.
    Closed {
        /// Number of clients.
        concurrency: u32,
        /// The pause between a response and the next request, in nanoseconds; 0 for no pause.
        think_ns: u64,
        /// Whether pauses are random, with `think_ns` as their mean.
        thinks_at_random: bool,
        /// Seed of random pauses.
        seed: u64,
    },
    /// Requests follow a schedule.
    Open {
        /// The stages of the schedule, in order.
        stages: Vec<StageFacts>,
        /// Whether arrivals are random (Poisson) instead of evenly spaced.
        is_poisson: bool,
        /// Seed of random arrivals.
        seed: u64,
        /// Initial number of connections.
        connections: u32,
        /// Maximum number of connections.
        #[serde(alias = "most_connections")]
        max_connections: u32,
    },
}

/// One stage of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StageFacts {
    /// Rate at the start of the stage, in requests per second.
    pub from_per_s: f64,
    /// Rate at the end of the stage, in requests per second.
    pub to_per_s: f64,
    /// Length of the stage in nanoseconds; `None` if the stage lasts until the load ends.
    pub duration_ns: Option<u64>,
}

/// One kind of request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindFacts {
    /// Name of the kind.
    pub name: String,
    /// Relative frequency of the kind.
    pub weight: u32,
    /// The method.
    pub method: String,
    /// Path and query as given, with placeholders unexpanded.
    pub path: String,
    /// Bytes of the body.
    pub body_bytes: Option<u64>,
}

/// Time limits of connections and requests; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RequestTimeouts {
    /// From the start of connecting until the connection is usable, including TLS, in nanoseconds.
    pub connect_ns: Option<u64>,
    /// From sending a request to the first byte of its response, in nanoseconds.
    pub first_byte_ns: Option<u64>,
    /// From sending a request to the last byte of its response, in nanoseconds.
    pub total_ns: Option<u64>,
}

/// Criteria for a successful response.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RuleFacts {
    /// Inclusive ranges of accepted statuses. An empty list accepts 200 to 299.
    pub statuses: Vec<(u16, u16)>,
    /// Text that each body had to contain.
    pub body_contains: Option<String>,
    /// Required length of each body.
    pub body_bytes: Option<u64>,
}

/// Result of the probe request before the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeFacts {
    /// The peer: `127.0.0.1:8080`, or the path of a Unix domain socket.
    pub address: String,
    /// Negotiated TLS parameters.
    pub tls: Option<TlsFacts>,
    /// The status.
    pub status: u16,
    /// The value of the header field `Server`.
    pub server: Option<String>,
    /// The value of the header field `Content-Type`.
    pub content_type: Option<String>,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// Bytes of the whole response.
    pub wire_bytes: u64,
    /// Whether the server keeps the connection open.
    pub is_reusable: bool,
    /// Time to connect, in nanoseconds.
    pub connect_ns: u64,
    /// Time from sending to the last byte, in nanoseconds.
    pub service_ns: u64,
    /// URLs that redirected to the probed URL, in order, if redirects were followed.
    pub redirected_from: Vec<String>,
}

/// Negotiated TLS parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFacts {
    /// The version, such as `TLSv1.3`.
    pub version: String,
    /// The cipher suite.
    pub cipher: String,
    /// The group of the key exchange.
    pub group: Option<String>,
    /// The protocol negotiated by ALPN.
    pub alpn: Option<String>,
}

/// Start-up time, processor time and premature end of a server that was started for the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerOutcome {
    /// The command that started the server.
    pub command: String,
    /// Time from the server's start to its first accepted connection, in nanoseconds.
    pub ready_ns: u64,
    /// Processor time of the server's processes during the measurement, in nanoseconds; `None` if
    /// the operating system does not report it.
    pub cpu_ns: Option<u64>,
    /// How the server ended prematurely, as the end of a sentence: `exited with status 1`.
    pub died: Option<String>,
    /// Last lines of the server's stderr, if it died.
    pub stderr_tail: String,
}

/// Returns the loads of a session, in the order of its runs.
///
/// # Errors
/// Fails if a load was written by an incompatible version.
pub fn stored_loads(session: &Session) -> Result<Vec<LoadRun>> {
    let stored = session.runs.iter().filter_map(|run| run.load.as_deref());
    stored.map(|text| serde_json::from_str(text).context("cannot read a stored load")).collect()
}
