//! What a closed load records: service times, and nothing that pretends to know more.

use serde::{Deserialize, Serialize};

use super::{ByOutcome, Connect, Distribution, FirstByte, Kind, Outcome, Service, Timed};

/// The times of one request that was sent, in nanoseconds from the start of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When it was sent.
    pub sent_ns: u64,
    /// When the first byte of its answer came.
    pub first_byte_ns: Option<u64>,
    /// When it ended, or when the load did.
    pub end_ns: u64,
}

/// Times from sending on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServiceTimes {
    /// To the last byte.
    pub service: Distribution<Service>,
    /// To the first byte.
    pub first_byte: Distribution<FirstByte>,
}

impl Timed for ServiceTimes {
    fn merge(&mut self, other: &ServiceTimes) {
        self.service.merge(&other.service);
        self.first_byte.merge(&other.first_byte);
    }

    fn clear(&mut self) {
        self.service.clear();
        self.first_byte.clear();
    }
}

impl ServiceTimes {
    pub(super) fn record(&mut self, outcome: Outcome, times: Times) {
        record(
            &mut self.service,
            outcome,
            times.end_ns.saturating_sub(times.sent_ns),
        );
        if let Some(first_byte_ns) = times.first_byte_ns {
            self.first_byte
                .record(first_byte_ns.saturating_sub(times.sent_ns));
        }
    }
}

/// Records a time that is a lower bound unless the request is over.
pub(super) fn record<K: Kind>(times: &mut Distribution<K>, outcome: Outcome, ns: u64) {
    if outcome.is_over() {
        times.record(ns)
    } else {
        times.record_lower_bound(ns)
    }
}

/// Latencies of a closed load. There is no intended start, so there is no response time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClosedLatency {
    /// Times of requests, by what became of them.
    pub requests: ByOutcome<ServiceTimes>,
    /// Times of connections that came about.
    pub connect: Distribution<Connect>,
}

impl ClosedLatency {
    /// Records a request that was sent.
    pub fn record(&mut self, outcome: Outcome, times: Times) {
        self.requests.entry(outcome).record(outcome, times);
    }

    /// Adds the latencies of another thread.
    pub fn merge(&mut self, other: &ClosedLatency) {
        self.requests.merge(&other.requests);
        self.connect.merge(&other.connect);
    }

    /// Forgets the times and keeps the memory.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.connect.clear();
    }
}
