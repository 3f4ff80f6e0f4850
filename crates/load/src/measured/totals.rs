//! Counts and times that are added up together.

use super::Replies;
use crate::latency::{
    ClosedLatency, Connect, Distribution, Intended, OpenLatency, Outcome, Service, ServiceTimes,
    Times,
};
use crate::outcomes::OutcomeCounts;
use serde::{Deserialize, Serialize};

/// What is counted and timed of a set of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// What became of every request.
    #[serde(rename = "books")]
    pub outcomes: OutcomeCounts,
    /// How long they took.
    pub latency: Latency,
    /// What the answers were like.
    pub replies: Replies,
}

impl Totals {
    /// An empty one, for a closed or an open load.
    pub fn new(is_closed: bool) -> Totals {
        Totals {
            outcomes: OutcomeCounts::new(),
            latency: Latency::new(is_closed),
            replies: Replies::default(),
        }
    }

    /// Adds the totals of another thread, time or generator of the same load.
    pub fn merge(&mut self, other: &Totals) {
        self.outcomes.merge(&other.outcomes);
        self.latency.merge(&other.latency);
        self.replies.merge(&other.replies);
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.outcomes = OutcomeCounts::new();
        self.latency.clear();
        self.replies = Replies::default();
    }
}

/// The times of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Latency {
    /// Of clients that wait for their answers: service times only.
    Closed(Box<ClosedLatency>),
    /// Of a schedule: response times from the intended start, and lag, as well.
    Open(Box<OpenLatency>),
}

impl Latency {
    /// No times yet.
    pub fn new(is_closed: bool) -> Latency {
        if is_closed {
            Latency::Closed(Box::default())
        } else {
            Latency::Open(Box::default())
        }
    }

    /// Adds times of the same kind of load.
    ///
    /// # Panics
    /// One load is closed and the other open: their times mean different things.
    pub fn merge(&mut self, other: &Latency) {
        match (self, other) {
            (Latency::Closed(mine), Latency::Closed(theirs)) => mine.merge(theirs),
            (Latency::Open(mine), Latency::Open(theirs)) => mine.merge(theirs),
            _ => panic!("the times of a closed and an open load cannot be added"),
        }
    }

    /// Forgets the times and keeps the memory.
    pub fn clear(&mut self) {
        match self {
            Latency::Closed(times) => times.clear(),
            Latency::Open(times) => times.clear(),
        }
    }

    /// Records a request that was sent. An intended start is only known to an open load.
    pub fn record(&mut self, outcome: Outcome, intended: Intended, times: Times) {
        match self {
            Latency::Closed(latency) => latency.record(outcome, times),
            Latency::Open(latency) => latency.record(outcome, intended, times),
        }
    }

    /// Records a connection that came about.
    pub fn connected(&mut self, ns: u64) {
        match self {
            Latency::Closed(latency) => latency.connect.record(ns),
            Latency::Open(latency) => latency.connect.record(ns),
        }
    }

    /// Times of connections.
    pub fn connect(&self) -> &Distribution<Connect> {
        match self {
            Latency::Closed(latency) => &latency.connect,
            Latency::Open(latency) => &latency.connect,
        }
    }

    /// Times from sending on, of one outcome, if it happened.
    pub fn sent(&self, outcome: Outcome) -> Option<&ServiceTimes> {
        match self {
            Latency::Closed(latency) => latency.requests.get(outcome),
            Latency::Open(latency) => latency.requests.get(outcome).map(|times| &times.sent),
        }
    }

    /// Times from sending on, of every outcome that happened.
    pub fn by_outcome(&self) -> Vec<(Outcome, &ServiceTimes)> {
        match self {
            Latency::Closed(latency) => latency.requests.iter().collect(),
            Latency::Open(latency) => {
                let seen = latency.requests.iter();
                seen.map(|(outcome, times)| (outcome, &times.sent))
                    .collect()
            }
        }
    }

    /// Times from sending on, of all outcomes together.
    pub fn all_sent(&self) -> ServiceTimes {
        match self {
            Latency::Closed(latency) => latency.requests.merged(),
            Latency::Open(latency) => latency.requests.merged().sent,
        }
    }

    /// Service times of good answers.
    pub fn service(&self) -> &Distribution<Service> {
        match self {
            Latency::Closed(latency) => &latency.requests.ok().service,
            Latency::Open(latency) => &latency.requests.ok().sent.service,
        }
    }
}
