//! What an open load records: service time, response time from the intended start, and lag.

use serde::{Deserialize, Serialize};

use super::closed::record;
use super::{
    ByOutcome, Connect, Distribution, Lag, Outcome, OwnLag, Punctual, Response, ServiceTimes,
    Timed, Times,
};

/// Times from sending on, and from the intended start on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OpenTimes {
    /// From sending on; not corrected.
    pub sent: ServiceTimes,
    /// From the intended start to the last byte.
    pub response: Distribution<Response>,
    /// The same less the own lag of each request; empty in files that were written without it.
    #[serde(default)]
    pub punctual: Distribution<Punctual>,
}

impl Timed for OpenTimes {
    fn merge(&mut self, other: &OpenTimes) {
        self.sent.merge(&other.sent);
        self.response.merge(&other.response);
        self.punctual.merge(&other.punctual);
    }

    fn clear(&mut self) {
        self.sent.clear();
        self.response.clear();
        self.punctual.clear();
    }
}

/// The connection that a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Freed {
    /// Since when it had been free, in nanoseconds from the start of the load.
    pub since_ns: u64,
    /// The own lag of the request before, as [`OpenLatency::sent`] gave it; 0 for a new connection.
    pub own_lag_ns: u64,
}

/// When a request was to be sent, and how much later the generator alone made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Intended {
    /// When it was due, in nanoseconds from the start of the load.
    pub due_ns: u64,
    /// Its own lag, as [`OpenLatency::sent`] gave it.
    pub own_lag_ns: u64,
}

/// Latencies of an open load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OpenLatency {
    /// Times of requests, by what became of them.
    pub requests: ByOutcome<OpenTimes>,
    /// How long after its intended start each request was sent.
    pub lag: Distribution<Lag>,
    /// The part of the lag that busy connections do not explain.
    pub own_lag: Distribution<OwnLag>,
    /// Times of connections that came about.
    pub connect: Distribution<Connect>,
}

impl OpenLatency {
    /// Records that a request intended for `intended_ns` is sent over a connection, and returns the
    /// own lag, which the connection keeps for the request after it.
    ///
    /// What was waited for a busy connection is the server's lag, and what was waited after that is
    /// our own. A connection that is busy because its last request was sent late is our own lag
    /// again, up to the lateness of that request; otherwise a generator that slept a second would
    /// blame the queue behind its first late request on the server.
    pub fn sent(&mut self, intended_ns: u64, connection: Freed, sent_ns: u64) -> u64 {
        self.lag.record(sent_ns.saturating_sub(intended_ns));
        let waited_ns = connection.since_ns.saturating_sub(intended_ns);
        let late_ns = sent_ns.saturating_sub(intended_ns.max(connection.since_ns));
        let own_ns = late_ns + waited_ns.min(connection.own_lag_ns);
        self.own_lag.record(own_ns);
        own_ns
    }

    /// Records a request that was sent.
    pub fn record(&mut self, outcome: Outcome, intended: Intended, times: Times) {
        let set = self.requests.entry(outcome);
        set.sent.record(outcome, times);
        let response_ns = times.end_ns.saturating_sub(intended.due_ns);
        record(&mut set.response, outcome, response_ns);
        let punctual_ns = response_ns.saturating_sub(intended.own_lag_ns);
        record(&mut set.punctual, outcome, punctual_ns);
    }

    /// Records a request that was due but not sent: its age is a lower bound of its response time.
    pub fn unsent(&mut self, intended: Intended, end_ns: u64) {
        let set = self.requests.entry(Outcome::Unsent);
        let age_ns = end_ns.saturating_sub(intended.due_ns);
        set.response.record_lower_bound(age_ns);
        let punctual_ns = age_ns.saturating_sub(intended.own_lag_ns);
        set.punctual.record_lower_bound(punctual_ns);
    }

    /// Adds the latencies of another thread.
    pub fn merge(&mut self, other: &OpenLatency) {
        self.requests.merge(&other.requests);
        self.lag.merge(&other.lag);
        self.own_lag.merge(&other.own_lag);
        self.connect.merge(&other.connect);
    }

    /// Forgets the times and keeps the memory.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.lag.clear();
        self.own_lag.clear();
        self.connect.clear();
    }
}
