//! The course of a load: what happened in each interval of time.

use crate::latency::{Distribution, Service};
use serde::{Deserialize, Serialize};

/// What happened in one interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Tick {
    /// Good answers.
    pub ok: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Service times of good answers: the median, the 99th percentile and the greatest, in
    /// nanoseconds. Where intervals of several generators or times were put together, the greatest
    /// of each.
    pub p50_ns: Option<u64>,
    /// See [`Tick::p50_ns`].
    pub p99_ns: Option<u64>,
    /// See [`Tick::p50_ns`].
    pub most_ns: Option<u64>,
}

impl Tick {
    /// The times of an interval.
    pub fn new(ok: u64, errors: u64, service: &Distribution<Service>) -> Tick {
        let quantiles = service.quantiles(&[500_000, 990_000]);
        let ns = |at: usize| quantiles[at].map(|quantile| quantile.ns);
        Tick {
            ok,
            errors,
            p50_ns: ns(0),
            p99_ns: ns(1),
            most_ns: service.greatest_ns(),
        }
    }

    /// Adds what happened elsewhere, or later, in the same interval: of times, the greatest is kept.
    pub(crate) fn merge(&mut self, other: &Tick) {
        self.ok += other.ok;
        self.errors += other.errors;
        self.p50_ns = self.p50_ns.max(other.p50_ns);
        self.p99_ns = self.p99_ns.max(other.p99_ns);
        self.most_ns = self.most_ns.max(other.most_ns);
    }
}

/// Intervals of equal length, from the start of the load, the warm-up included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The length of an interval in nanoseconds.
    pub interval_ns: u64,
    /// The intervals that belong to the warm-up, at the beginning.
    pub warmup: usize,
    /// What happened in each.
    pub ticks: Vec<Tick>,
}

impl Timeline {
    /// Puts intervals together by twos.
    pub(crate) fn halve(&mut self) {
        let pairs = self.ticks.chunks(2).map(|pair| {
            let mut both = pair[0].clone();
            pair[1..].iter().for_each(|second| both.merge(second));
            both
        });
        self.ticks = pairs.collect();
        self.interval_ns *= 2;
        self.warmup = self.warmup.div_ceil(2);
    }

    /// Adds the course of another generator that began at the same time.
    pub fn merge(&mut self, other: &Timeline) {
        if self.ticks.len() < other.ticks.len() {
            self.ticks.resize_with(other.ticks.len(), Tick::default);
        }
        for (mine, theirs) in self.ticks.iter_mut().zip(&other.ticks) {
            mine.merge(theirs);
        }
    }
}
