//! Decides which request a thread may start next, and when.

use super::clock::NEVER;
use super::sent::Sent;
use crate::http1::MethodKind;
use crate::load::{Load, Part};
use crate::pace::{Closed, Due, Pace, Share, Stop, Think, Thinker, part_of};

/// Initial connections of a thread; `part` is its index among all threads of all generators.
pub(super) fn first_connections(load: &Load, part: Part) -> u32 {
    match &load.pace {
        Pace::Closed(closed) => closed
            .clients_of(part.index, part.of)
            .div_ceil(load.streams_per_connection),
        Pace::Open(_) => part_of(u64::from(load.connections), part.index, part.of) as u32,
    }
}

/// The requests of a thread.
pub(super) enum Pacing<'a> {
    Closed(ClosedPacing),
    Open(Box<OpenPacing<'a>>),
}

impl<'a> Pacing<'a> {
    pub fn new(load: &'a Load, part: Part) -> Pacing<'a> {
        match &load.pace {
            Pace::Closed(closed) => Pacing::Closed(ClosedPacing::new(load, closed, part)),
            Pace::Open(schedule) => {
                let stop = Stop {
                    after_requests: load
                        .stop
                        .after_requests
                        .map(|count| count.saturating_add(schedule.due_before(load.warmup_ns))),
                    after_ns: load
                        .stop
                        .after_ns
                        .map(|end_ns| end_ns.saturating_add(load.warmup_ns)),
                };
                let share = schedule.share(part.index, part.of, stop);
                Pacing::Open(Box::new(OpenPacing::new(share, load.warmup_ns)))
            }
        }
    }

    /// When sending ends by time, in nanoseconds since the start, or [`NEVER`].
    pub fn window_end_ns(load: &Load) -> u64 {
        let by_stop = load
            .stop
            .after_ns
            .map_or(NEVER, |end_ns| end_ns.saturating_add(load.warmup_ns));
        let by_schedule = match &load.pace {
            Pace::Open(schedule) if load.stop.after_requests.is_none() => schedule.length_ns(),
            _ => NEVER,
        };
        by_stop.min(by_schedule)
    }

    /// Whether there are no further requests.
    pub fn is_exhausted(&self) -> bool {
        match self {
            Pacing::Closed(closed) => closed.left == Some(0),
            Pacing::Open(open) => open.backlog == 0 && open.ahead.is_none(),
        }
    }
}

/// Clients that start a request after each response.
pub(super) struct ClosedPacing {
    left: Option<u64>,
    next: u64,
    step: u64,
    warmup_ns: u64,
    thinkers: Vec<Thinker>,
}

impl ClosedPacing {
    fn new(load: &Load, closed: &Closed, part: Part) -> ClosedPacing {
        let clients = closed.clients_of(part.index, part.of);
        let thinker = |client| Thinker::new(closed.think, client * part.of + part.index);
        ClosedPacing {
            left: load
                .stop
                .after_requests
                .map(|count| part_of(count, part.index, part.of)),
            next: u64::from(part.index),
            step: u64::from(part.of),
            warmup_ns: load.warmup_ns,
            thinkers: match closed.think {
                Think::None => Vec::new(),
                _ => (0..clients).map(thinker).collect(),
            },
        }
    }

    /// Returns the next request, if any.
    pub fn take(&mut self, now_ns: u64) -> Option<Sent> {
        let is_warmup = now_ns < self.warmup_ns;
        if !is_warmup && let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        let index = self.next;
        self.next += self.step;
        Some(begun(index, now_ns, now_ns, is_warmup))
    }

    /// How long a client of this connection thinks now, in nanoseconds.
    pub fn think_ns(&mut self, connection: u32) -> u64 {
        match self.thinkers.len() {
            0 => 0,
            count => self.thinkers[connection as usize % count].next_ns(),
        }
    }
}

/// Requests due at scheduled times. Due requests that wait for a connection are only counted, so a
/// long queue takes no memory: one iterator over the schedule determines what is due, a second one
/// behind it what to send.
pub(super) struct OpenPacing<'a> {
    behind: Share<'a>,
    ahead_of: Share<'a>,
    ahead: Option<Due>,
    warmup_ns: u64,
    /// Requests that are due but not started.
    pub backlog: u64,
}

impl<'a> OpenPacing<'a> {
    fn new(share: Share<'a>, warmup_ns: u64) -> OpenPacing<'a> {
        let behind = share.clone();
        let mut ahead_of = share;
        OpenPacing {
            behind,
            ahead: ahead_of.next(),
            ahead_of,
            warmup_ns,
            backlog: 0,
        }
    }

    /// Advances the time to `now_ns`.
    pub fn advance(&mut self, now_ns: u64) {
        while self.ahead.is_some_and(|due| due.at_ns <= now_ns) {
            self.backlog += 1;
            self.ahead = self.ahead_of.next();
        }
    }

    /// When the next future request is due, or [`NEVER`].
    pub fn next_due_ns(&self) -> u64 {
        self.ahead.map_or(NEVER, |due| due.at_ns)
    }

    /// Starts the oldest due request.
    pub fn take(&mut self, now_ns: u64) -> Option<Sent> {
        self.backlog = self.backlog.checked_sub(1)?;
        let due = self.behind.next()?;
        Some(begun(
            due.index,
            due.at_ns,
            now_ns,
            due.at_ns < self.warmup_ns,
        ))
    }
}

fn begun(index: u64, intended_ns: u64, begun_ns: u64, is_warmup: bool) -> Sent {
    Sent {
        index,
        kind: 0,
        intended_ns,
        own_lag_ns: 0,
        begun_ns,
        sent_ns: NEVER,
        first_byte_ns: NEVER,
        is_warmup,
        is_reused: false,
        is_retry: false,
        method: MethodKind::Body,
        closes: false,
    }
}
