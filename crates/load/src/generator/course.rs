//! Gathers what the threads hand over while the load goes on: the total, and its course.

use super::mailbox::{Handed, Mailbox};
use super::worker::TICK_NS;
use crate::latency::{Distribution, Service};
use crate::measured::{Account, Tick, Timeline};

/// Intervals of a timeline, at most: twice as many are put together by twos.
const MOST_INTERVALS: usize = 600;

/// What was gathered so far.
pub(super) struct Course {
    /// Everything after the warm-up.
    pub account: Account,
    /// The warm-up.
    pub warmup: Account,
    timeline: Timeline,
    /// What came since the last tick.
    ok: u64,
    errors: u64,
    service: Distribution<Service>,
}

impl Course {
    /// Nothing so far. The intervals are chosen for a load of this length, if it is known.
    pub fn new(is_closed: bool, length_ns: Option<u64>) -> Course {
        let mut interval_ns = TICK_NS;
        while length_ns.is_some_and(|length| length / interval_ns > MOST_INTERVALS as u64) {
            interval_ns *= 2;
        }
        Course {
            account: Account::new(is_closed),
            warmup: Account::new(is_closed),
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
            if let Some(Handed { account, is_warmup }) = mailbox.take() {
                self.add(&account, is_warmup);
                mailbox.give_back(account);
            }
        }
    }

    /// Adds an account, which belongs to the present interval.
    pub fn add(&mut self, account: &Account, is_warmup: bool) {
        self.ok += account.books.succeeded();
        self.errors += account.books.all_errors();
        self.service.merge(account.latency.service());
        match is_warmup {
            true => self.warmup.merge(account),
            false => self.account.merge(account),
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

    /// The course, when all is over.
    pub fn into_parts(self) -> (Account, Account, Timeline) {
        (self.account, self.warmup, self.timeline)
    }
}
