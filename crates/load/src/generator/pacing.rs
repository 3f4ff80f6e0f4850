//! Decides which request a thread may start next, and when.

use super::clock::NEVER;
use super::recorder::StartedRequest;
use crate::http1::MethodKind;
use crate::load::{LoadConfig, LoadShare};
use crate::pace::{
    ClosedPace, DueRequest, PacingModel, StopCondition, ThinkTime, ThinkTimer, ThreadSchedule,
    thread_part,
};

/// Number of initial connections of a thread. `part` is the thread's position among all threads of
/// all generators.
pub(super) fn first_connections(load: &LoadConfig, part: LoadShare) -> u32 {
    match &load.pace {
        PacingModel::Closed(closed) => {
            closed.thread_clients(part.index, part.count).div_ceil(load.streams_per_connection)
        }
        PacingModel::Open(_) => {
            thread_part(u64::from(load.connections), part.index, part.count) as u32
        }
    }
}

pub(super) enum RequestPacing<'a> {
    Closed(ClosedPacing),
    Open(Box<OpenPacing<'a>>),
}

impl<'a> RequestPacing<'a> {
    pub fn new(load: &'a LoadConfig, part: LoadShare) -> RequestPacing<'a> {
        match &load.pace {
            PacingModel::Closed(closed) => {
                RequestPacing::Closed(ClosedPacing::new(load, closed, part))
            }
            PacingModel::Open(schedule) => {
                let StopCondition { after_requests, after_ns } = load.stop;
                let in_warmup = || schedule.due_before(load.warmup_ns);
                let stop = StopCondition {
                    after_requests: after_requests.map(|count| count.saturating_add(in_warmup())),
                    after_ns: after_ns.map(|end_ns| end_ns.saturating_add(load.warmup_ns)),
                };
                let share = schedule.thread_schedule(part.index, part.count, stop);
                RequestPacing::Open(Box::new(OpenPacing::new(share, load.warmup_ns)))
            }
        }
    }

    /// Returns when sending stops because of the time limit or the end of the schedule. The time is
    /// in nanoseconds since the start, or [`NEVER`].
    pub fn window_end_ns(load: &LoadConfig) -> u64 {
        let stop_end_ns =
            load.stop.after_ns.map_or(NEVER, |end_ns| end_ns.saturating_add(load.warmup_ns));
        let schedule_end_ns = match &load.pace {
            PacingModel::Open(schedule) if load.stop.after_requests.is_none() => {
                schedule.total_ns()
            }
            _ => NEVER,
        };
        stop_end_ns.min(schedule_end_ns)
    }

    /// Whether there are no further requests.
    pub fn is_exhausted(&self) -> bool {
        match self {
            RequestPacing::Closed(closed) => closed.remaining == Some(0),
            RequestPacing::Open(open) => open.backlog == 0 && open.next_due.is_none(),
        }
    }
}

/// Clients that start a request after each response.
pub(super) struct ClosedPacing {
    remaining: Option<u64>,
    next: u64,
    step: u64,
    warmup_ns: u64,
    thinkers: Vec<ThinkTimer>,
}

impl ClosedPacing {
    fn new(load: &LoadConfig, closed: &ClosedPace, part: LoadShare) -> ClosedPacing {
        let clients = closed.thread_clients(part.index, part.count);
        let thinker = |client| ThinkTimer::new(closed.think, client * part.count + part.index);
        ClosedPacing {
            remaining: load
                .stop
                .after_requests
                .map(|count| thread_part(count, part.index, part.count)),
            next: u64::from(part.index),
            step: u64::from(part.count),
            warmup_ns: load.warmup_ns,
            thinkers: match closed.think {
                ThinkTime::None => Vec::new(),
                _ => (0..clients).map(thinker).collect(),
            },
        }
    }

    /// Returns the next request, if any.
    pub fn take_next(&mut self, now_ns: u64) -> Option<StartedRequest> {
        let is_warmup = now_ns < self.warmup_ns;
        if !is_warmup && let Some(remaining) = &mut self.remaining {
            *remaining = remaining.checked_sub(1)?;
        }
        let index = self.next;
        self.next += self.step;
        Some(new_request(index, now_ns, now_ns, is_warmup))
    }

    /// Returns the think time, in nanoseconds, of a client that uses this connection and starts to
    /// think now.
    pub fn think_ns(&mut self, connection: u32) -> u64 {
        match self.thinkers.len() {
            0 => 0,
            count => self.thinkers[connection as usize % count].next_ns(),
        }
    }
}

/// Requests that become due at scheduled times. Due requests that wait for a connection are only
/// counted, so a long queue takes no memory. To yield these requests later, two iterators go
/// through the schedule: `due_cursor` finds the requests that have become due, and `send_cursor`
/// follows it and yields the next request to send.
pub(super) struct OpenPacing<'a> {
    send_cursor: ThreadSchedule<'a>,
    due_cursor: ThreadSchedule<'a>,
    next_due: Option<DueRequest>,
    warmup_ns: u64,
    /// Requests that are due but not started.
    pub backlog: u64,
}

impl<'a> OpenPacing<'a> {
    fn new(share: ThreadSchedule<'a>, warmup_ns: u64) -> OpenPacing<'a> {
        let behind = share.clone();
        let mut ahead = share;
        OpenPacing {
            send_cursor: behind,
            next_due: ahead.next(),
            due_cursor: ahead,
            warmup_ns,
            backlog: 0,
        }
    }

    /// Advances the time to `now_ns`.
    pub fn advance_to(&mut self, now_ns: u64) {
        while self.next_due.is_some_and(|due| due.at_ns <= now_ns) {
            self.backlog += 1;
            self.next_due = self.due_cursor.next();
        }
    }

    /// When the next future request is due, or [`NEVER`].
    pub fn next_due_ns(&self) -> u64 {
        self.next_due.map_or(NEVER, |due| due.at_ns)
    }

    /// Starts the oldest due request.
    pub fn take_due(&mut self, now_ns: u64) -> Option<StartedRequest> {
        self.backlog = self.backlog.checked_sub(1)?;
        let due = self.send_cursor.next()?;
        Some(new_request(due.index, due.at_ns, now_ns, due.at_ns < self.warmup_ns))
    }
}

fn new_request(index: u64, intended_ns: u64, begun_ns: u64, is_warmup: bool) -> StartedRequest {
    StartedRequest {
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
