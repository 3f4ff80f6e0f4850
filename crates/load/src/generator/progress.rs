//! How a load stands while it goes on: what the threads hand over is gathered, and a load that is to end when it is steady
//! is ended.

use super::clock::TICK_NS;
use super::mailbox::{Handed, Mailbox};
use crate::latency::{Distribution, Service};
use crate::load::{Load, Steady};
use crate::measured::{Tick, Timeline, Totals};
use std::sync::atomic::{AtomicU64, Ordering};

/// Intervals of a timeline, at most: twice as many are put together by twos.
const MOST_INTERVALS: usize = 600;

/// How a load stands, reported about ten times a second.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Nanoseconds since the start, the warm-up included.
    pub at_ns: u64,
    /// The load is in its warm-up.
    pub is_warmup: bool,
    /// Everything counted since the end of the warm-up (or so far, within it).
    pub so_far: &'a Totals,
    /// What happened since the last time.
    pub tick: &'a Tick,
    /// Length of that time in nanoseconds.
    pub interval_ns: u64,
}

/// What was gathered so far.
pub(super) struct ProgressTracker {
    /// Everything after the warm-up.
    pub totals: Totals,
    /// The warm-up.
    pub warmup: Totals,
    timeline: Timeline,
    /// What came since the last tick.
    ok: u64,
    errors: u64,
    service: Distribution<Service>,
}

impl ProgressTracker {
    /// Nothing so far. The intervals are chosen for a load of this length, if it is known.
    pub fn new(is_closed: bool, length_ns: Option<u64>) -> ProgressTracker {
        let mut interval_ns = TICK_NS;
        while length_ns.is_some_and(|length| length / interval_ns > MOST_INTERVALS as u64) {
            interval_ns *= 2;
        }
        ProgressTracker {
            totals: Totals::new(is_closed),
            warmup: Totals::new(is_closed),
            timeline: Timeline {
                interval_ns,
                warmup: 0,
                ticks: Vec::new(),
            },
            ok: 0,
            errors: 0,
            service: Distribution::new(),
        }
    }

    /// Takes what the threads have handed over.
    pub fn gather(&mut self, mailboxes: &[Mailbox]) {
        for mailbox in mailboxes {
            if let Some(Handed { totals, is_warmup }) = mailbox.take() {
                self.add(&totals, is_warmup);
                mailbox.give_back(totals);
            }
        }
    }

    /// Adds an totals, which belongs to the present interval.
    pub fn add(&mut self, totals: &Totals, is_warmup: bool) {
        self.ok += totals.outcomes.succeeded();
        self.errors += totals.outcomes.all_errors();
        self.service.merge(totals.latency.service());
        if is_warmup {
            self.warmup.merge(totals)
        } else {
            self.totals.merge(totals)
        }
    }

    /// The time up to `at_ns` is over: what happened since the last call.
    pub fn tick(&mut self, at_ns: u64, warmup_ns: u64) -> Tick {
        let tick = Tick::new(self.ok, self.errors, &self.service);
        self.ok = 0;
        self.errors = 0;
        self.service.clear();
        let place = (at_ns.saturating_sub(1) / self.timeline.interval_ns) as usize;
        if self.timeline.ticks.len() <= place {
            self.timeline.ticks.resize_with(place + 1, Tick::default);
        }
        self.timeline.ticks[place].merge(&tick);
        self.timeline.warmup = warmup_ns.div_ceil(self.timeline.interval_ns) as usize;
        if self.timeline.ticks.len() > 2 * MOST_INTERVALS {
            self.timeline.halve();
        }
        tick
    }

    /// Totals, warm-up and timeline, when all is over.
    pub fn into_parts(self) -> (Totals, Totals, Timeline) {
        (self.totals, self.warmup, self.timeline)
    }
}

/// Watches a load that is to end when it is steady.
pub(super) struct SteadyWatch<'a> {
    steady: Option<Steady>,
    ticks: Vec<Tick>,
    end_ns: &'a AtomicU64,
}

impl<'a> SteadyWatch<'a> {
    /// Sets `end_ns` when the moment has come.
    pub fn new(load: &Load, end_ns: &'a AtomicU64) -> SteadyWatch<'a> {
        SteadyWatch {
            steady: load.steady,
            ticks: Vec::new(),
            end_ns,
        }
    }

    /// Another interval is over.
    pub fn see(&mut self, progress: &Progress) {
        let Some(steady) = self.steady.filter(|_| !progress.is_warmup) else {
            return;
        };
        self.ticks.push(progress.tick.clone());
        if steady.is_met(&self.ticks) {
            // The threads look at every tick: by the one after the next all of them know.
            self.end_ns
                .store(progress.at_ns + 2 * TICK_NS, Ordering::Relaxed);
            self.steady = None;
        }
    }
}
