//! Gathers the intermediate results that the threads of a running load hand over, and ends the load
//! early once it is steady.

use super::clock::TICK_NS;
use crate::load::{LoadConfig, SteadinessRule};
use speedwell_model::load::latency::{ServiceTime, TimeDistribution};
use speedwell_model::load::measurement::{LoadTimeline, RequestTotals, TimelineTick};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Target number of intervals in a timeline. When a timeline has more than twice as many, its
/// intervals are merged in pairs.
const MAX_INTERVALS: usize = 600;

/// Progress of a load, reported about ten times per second.
#[derive(Debug)]
pub struct ProgressReport<'a> {
    /// Nanoseconds since the start of the load, including the warm-up.
    pub at_ns: u64,
    /// Whether the load is in its warm-up.
    pub is_warmup: bool,
    /// Totals since the end of the warm-up; during the warm-up, totals since the start.
    pub so_far: &'a RequestTotals,
    /// Events since the last report.
    pub tick: &'a TimelineTick,
    /// Time since the last report, in nanoseconds.
    pub interval_ns: u64,
}

/// Results gathered so far.
pub(super) struct ProgressTracker {
    /// Totals after the warm-up.
    pub totals: RequestTotals,
    /// Totals of the warm-up.
    pub warmup: RequestTotals,
    timeline: LoadTimeline,
    /// Counts gathered since the last tick, each with the index of its interval in the timeline.
    /// The index must be kept, because requests may be counted long before their counts are
    /// gathered.
    unplaced: Vec<(usize, IntervalCounts)>,
}

/// Requests that ended in an interval.
struct IntervalCounts {
    ok: u64,
    errors: u64,
    service: TimeDistribution<ServiceTime>,
}

impl IntervalCounts {
    fn new() -> IntervalCounts {
        IntervalCounts { ok: 0, errors: 0, service: TimeDistribution::new() }
    }

    fn add(&mut self, totals: &RequestTotals) {
        self.ok += totals.outcomes.succeeded();
        self.errors += totals.outcomes.all_errors();
        self.service.merge(totals.latency.service_times());
    }

    fn merge(&mut self, other: &IntervalCounts) {
        self.ok += other.ok;
        self.errors += other.errors;
        self.service.merge(&other.service);
    }

    fn to_tick(&self) -> TimelineTick {
        TimelineTick::new(self.ok, self.errors, &self.service)
    }
}

impl ProgressTracker {
    /// Creates an empty tracker. The length of the load, if known, determines the length of the
    /// intervals.
    pub fn new(is_closed: bool, length_ns: Option<u64>) -> ProgressTracker {
        let mut interval_ns = TICK_NS;
        while length_ns.is_some_and(|length| length / interval_ns > MAX_INTERVALS as u64) {
            interval_ns *= 2;
        }
        ProgressTracker {
            totals: RequestTotals::new(is_closed),
            warmup: RequestTotals::new(is_closed),
            timeline: LoadTimeline { interval_ns, warmup: 0, ticks: Vec::new() },
            unplaced: Vec::new(),
        }
    }

    /// Adds the totals that the threads have handed over since the last call.
    pub fn gather_totals(&mut self, mailboxes: &[TotalsMailbox]) {
        for mailbox in mailboxes {
            if let Some(HandedTotals { totals, is_warmup, until_ns }) = mailbox.take() {
                self.add(&totals, is_warmup, until_ns);
                mailbox.give_back(totals);
            }
        }
    }

    /// Adds the counts of the interval that ends at `until_ns`.
    pub fn add(&mut self, totals: &RequestTotals, is_warmup: bool, until_ns: u64) {
        let interval = self.interval_index(until_ns);
        let position = self.unplaced.iter().position(|(position, _)| *position == interval);
        let index = position.unwrap_or_else(|| {
            self.unplaced.push((interval, IntervalCounts::new()));
            self.unplaced.len() - 1
        });
        self.unplaced[index].1.add(totals);
        if is_warmup { self.warmup.merge(totals) } else { self.totals.merge(totals) }
    }

    /// Index of the timeline interval that contains `until_ns`. A boundary belongs to the interval
    /// that it ends.
    fn interval_index(&self, until_ns: u64) -> usize {
        (until_ns.saturating_sub(1) / self.timeline.interval_ns) as usize
    }

    /// Closes the interval that ends at `at_ns` and returns the events since the last call.
    pub fn close_interval(&mut self, at_ns: u64, warmup_ns: u64) -> TimelineTick {
        let last = self.interval_index(at_ns);
        let indexes = self.unplaced.iter().map(|(index, _)| *index).chain([last]);
        let length = indexes.max().unwrap_or(last) + 1;
        let ticks = &mut self.timeline.ticks;
        ticks.resize_with(length.max(ticks.len()), TimelineTick::default);
        let mut recent = IntervalCounts::new();
        for (index, interval) in self.unplaced.drain(..) {
            ticks[index].merge(&interval.to_tick());
            recent.merge(&interval);
        }
        self.timeline.warmup = warmup_ns.div_ceil(self.timeline.interval_ns) as usize;
        if self.timeline.ticks.len() > 2 * MAX_INTERVALS {
            self.timeline.merge_pairs();
        }
        recent.to_tick()
    }

    /// Returns totals, warm-up and timeline at the end of the load.
    pub fn into_parts(self) -> (RequestTotals, RequestTotals, LoadTimeline) {
        (self.totals, self.warmup, self.timeline)
    }
}

/// Ends a load once it is steady.
pub(super) struct SteadyWatch<'a> {
    steady: Option<SteadinessRule>,
    ticks: Vec<TimelineTick>,
    end_ns: &'a AtomicU64,
}

impl<'a> SteadyWatch<'a> {
    /// Creates a watch that sets `end_ns` once the load is steady.
    pub fn new(load: &LoadConfig, end_ns: &'a AtomicU64) -> SteadyWatch<'a> {
        SteadyWatch { steady: load.steady, ticks: Vec::new(), end_ns }
    }

    /// Processes the progress of another interval.
    pub fn observe(&mut self, progress: &ProgressReport) {
        let Some(steady) = self.steady.filter(|_| !progress.is_warmup) else {
            return;
        };
        self.ticks.push(progress.tick.clone());
        if steady.is_met(&self.ticks) {
            // Threads read `end_ns` at every tick, so all threads have read it before two ticks
            // have passed.
            self.end_ns.store(progress.at_ns + 2 * TICK_NS, Ordering::Relaxed);
            self.steady = None;
        }
    }
}

// The code below passes the totals of a thread to the monitoring thread. The sender never blocks.

/// Passes totals from a thread to the monitoring thread. Stores one set of totals until it is
/// taken, and one empty set for the next exchange.
#[derive(Debug)]
pub(super) struct TotalsMailbox {
    inside: Mutex<MailboxState>,
}

#[derive(Debug)]
struct MailboxState {
    full: Option<HandedTotals>,
    spare: Option<Box<RequestTotals>>,
}

/// Counts of a thread in an interval.
#[derive(Debug)]
pub(super) struct HandedTotals {
    pub totals: Box<RequestTotals>,
    pub is_warmup: bool,
    /// End of the interval in which the totals were counted, in nanoseconds since the start.
    pub until_ns: u64,
}

impl TotalsMailbox {
    pub fn new(is_closed: bool) -> TotalsMailbox {
        TotalsMailbox {
            inside: Mutex::new(MailboxState {
                full: None,
                spare: Some(Box::new(RequestTotals::new(is_closed))),
            }),
        }
    }

    /// Exchanges the totals for empty ones and returns true. Does nothing and returns false unless
    /// the previous totals have been taken and given back.
    pub fn hand_over(
        &self,
        totals: &mut Box<RequestTotals>,
        is_warmup: bool,
        until_ns: u64,
    ) -> bool {
        let Ok(mut inside) = self.inside.try_lock() else {
            return false;
        };
        if inside.full.is_some() {
            return false;
        }
        let Some(mut spare) = inside.spare.take() else {
            return false;
        };
        spare.responses = totals.responses.next_period();
        inside.full =
            Some(HandedTotals { totals: std::mem::replace(totals, spare), is_warmup, until_ns });
        true
    }

    /// Takes the totals that were handed over.
    pub fn take(&self) -> Option<HandedTotals> {
        self.inside.lock().ok()?.full.take()
    }

    /// Gives totals back for reuse in the next exchange.
    pub fn give_back(&self, mut totals: Box<RequestTotals>) {
        totals.clear();
        if let Ok(mut inside) = self.inside.lock() {
            inside.spare = Some(totals);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tracks a load without a known length. Each pair is the end of an interval and the number of
    /// successful responses in it.
    fn track_progress(counted: &[(u64, u64)]) -> ProgressTracker {
        let mut tracker = ProgressTracker::new(true, None);
        for (until_ns, ok) in counted {
            let mut totals = RequestTotals::new(true);
            (0..*ok).for_each(|_| totals.outcomes.count_ok(200));
            tracker.add(&totals, false, *until_ns);
        }
        tracker
    }

    fn good_counts(tracker: ProgressTracker) -> Vec<u64> {
        let ticks = tracker.into_parts().2.ticks;
        ticks.iter().map(|tick| tick.ok).collect()
    }

    #[test]
    fn counts_gathered_late_belong_to_the_interval_they_were_counted_in() {
        // Two threads handed over at 100 ms and ended before the totals were gathered.
        let counts = [(TICK_NS, 30), (TICK_NS, 20), (TICK_NS + 1, 4), (TICK_NS + 9, 1)];
        let mut tracker = track_progress(&counts);
        let all = tracker.close_interval(TICK_NS + 9, 0);
        assert_eq!((all.ok, good_counts(tracker)), (55, vec![50, 5]));
    }

    #[test]
    fn an_interval_without_responses_is_in_the_timeline() {
        let mut tracker = track_progress(&[(TICK_NS, 7)]);
        tracker.close_interval(3 * TICK_NS, 0);
        assert_eq!(good_counts(tracker), [7, 0, 0]);
    }
}
