//! Runs the event loop of a thread. Each iteration reads all available data, then sends all due
//! requests.
//!
//! Reading everything before sending lets a server see several requests at once, as it would with
//! real clients. Usually, each request also takes only one call to send and one to receive. Start
//! at [`LoadWorker::run`].

use super::clock::{MAX_EVENTS, NEVER, ReadBatcher, SocketEvent, TICK_NS, ThreadMonitor};
use super::connection::{ConnectionState, LoadConnection};
use super::recorder::{RequestRecorder, StartedRequest, TotalsMailbox};
use super::worker_core::{WorkerCore, first_connections};
use crate::http1::ResponseSummary;
use crate::load::HttpVersion;
use crate::pace::{DueRequest, RequestPacing};
use speedwell_model::load::measurement::ThreadReport;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The interval between checks of timeouts is the shortest timeout divided by this number, but at
/// least 1 ms and at most [`TICK_NS`].
const TIMEOUT_CHECK_DIVISOR: u64 = 100;

/// A thread of a load.
pub(super) struct LoadWorker<'a> {
    pub core: WorkerCore<'a>,
    pub connections: Vec<LoadConnection>,
    pacing: RequestPacing<'a>,
    /// Connections that may have room for a request.
    listed: VecDeque<u32>,
    /// Connections that are closed and can be reopened. Only loads with a schedule use this list.
    closed: Vec<u32>,
    /// Connections to wake up: the time, the index of the connection, and whether a client's think
    /// time ends then. If not, the pause after a failed connection attempt ends.
    sleepers: BinaryHeap<Reverse<(u64, u32, bool)>>,
    mailbox: &'a TotalsMailbox,
    stop: &'a AtomicBool,
    end_ns: &'a AtomicU64,
    batcher: ReadBatcher,
    monitor: ThreadMonitor,
    /// Number of requests that ended in the last iteration.
    last_ended: u64,
    next_tick_ns: u64,
    last_tick_ns: u64,
    /// Whether counts of the warm-up remain to be handed over.
    hands_over_warmup: bool,
    next_timeout_check_ns: u64,
    timeout_check_interval_ns: u64,
    reached_max_connections: bool,
    /// Reused buffer for events of QUIC connections.
    #[cfg(feature = "http3")]
    quic_events: Vec<crate::http3::H3Event>,
}

impl<'a> LoadWorker<'a> {
    pub fn new(
        core: WorkerCore<'a>,
        mailbox: &'a TotalsMailbox,
        stop: &'a AtomicBool,
        end_ns: &'a AtomicU64,
    ) -> LoadWorker<'a> {
        let (load, part) = (core.load, (core.part.index, core.part.count));
        let timeouts = load.rules.timeouts;
        let shortest = [timeouts.connect_ns, timeouts.first_byte_ns, timeouts.total_ns]
            .into_iter()
            .flatten()
            .min();
        // A pause would also delay QUIC's acknowledgements and timers.
        let may_pause = load.is_closed() && !matches!(load.http, HttpVersion::Three);
        LoadWorker {
            batcher: ReadBatcher::new(load.rules.max_delay_ns, may_pause),
            core,
            connections: Vec::new(),
            pacing: load.pace.thread_pacing(part, load.stop, load.warmup_ns),
            listed: VecDeque::new(),
            closed: Vec::new(),
            sleepers: BinaryHeap::new(),
            mailbox,
            stop,
            end_ns,
            monitor: ThreadMonitor::start(),
            last_ended: 0,
            next_tick_ns: next_tick_ns(0, load.warmup_ns),
            last_tick_ns: 0,
            hands_over_warmup: load.warmup_ns > 0,
            next_timeout_check_ns: NEVER,
            timeout_check_interval_ns: shortest
                .map_or(NEVER, |limit| (limit / TIMEOUT_CHECK_DIVISOR).clamp(1_000_000, TICK_NS)),
            reached_max_connections: false,
            #[cfg(feature = "http3")]
            quic_events: Vec::new(),
        }
    }

    /// Sends the thread's share of the load.
    ///
    /// # Errors
    /// Fails if the operating system cannot wait for sockets.
    pub fn run(mut self) -> io::Result<ThreadResult<'a>> {
        let end = self.send_all()?;
        Ok(self.into_result(end))
    }

    /// Sends requests and receives responses until the load ends.
    ///
    /// # Errors
    /// See [`LoadWorker::run`].
    pub fn send_all(&mut self) -> io::Result<LoadEnd> {
        self.open_connections();
        let (mut is_interrupted, mut ended_by_time) = (false, false);
        let mut drain_end_ns = NEVER;
        let at_ns = loop {
            let now_ns = self.core.clock.now_ns();
            if now_ns >= self.next_tick_ns {
                self.handle_tick(now_ns);
                is_interrupted = self.stop.load(Ordering::Relaxed);
            }
            if is_interrupted {
                break now_ns;
            }
            let is_late = now_ns >= self.core.recorder.window_end_ns;
            let is_sending = !is_late && !self.pacing.is_exhausted();
            if is_sending {
                self.send_due(now_ns);
            } else {
                if drain_end_ns == NEVER {
                    ended_by_time = is_late;
                    drain_end_ns = now_ns.saturating_add(self.core.load.drain_ns);
                }
                self.send_pending();
                if self.core.recorder.in_flight == 0 || now_ns >= drain_end_ns {
                    break now_ns;
                }
            }
            if now_ns >= self.next_timeout_check_ns {
                self.expire_timeouts(now_ns)?;
            }
            let until_ns = if is_sending {
                self.next_wake_ns().min(self.core.recorder.window_end_ns)
            } else {
                drain_end_ns
            };
            self.wait_and_receive(now_ns, until_ns)?;
        };
        Ok(LoadEnd { at_ns, by_time: ended_by_time, is_interrupted })
    }

    fn open_connections(&mut self) {
        let is_closed = self.core.load.is_closed();
        for id in 0..first_connections(self.core.load, self.core.part) {
            let mut connection = LoadConnection::new(id, &self.core);
            if is_closed {
                self.listed.push_back(id)
            } else {
                connection.start_connecting(None, 0, &mut self.core)
            }
            connection.is_listed = is_closed;
            self.connections.push(connection);
        }
        if self.timeout_check_interval_ns != NEVER {
            self.next_timeout_check_ns = self.timeout_check_interval_ns;
        }
    }

    /// Periodically hands over counts and adapts the pauses.
    fn handle_tick(&mut self, now_ns: u64) {
        let until_ns = self.next_tick_ns.max(now_ns / TICK_NS * TICK_NS);
        self.next_tick_ns = next_tick_ns(now_ns, self.core.load.warmup_ns);
        self.core.flush_traffic(now_ns);
        let window_end_ns = &mut self.core.recorder.window_end_ns;
        *window_end_ns = self.end_ns.load(Ordering::Relaxed).min(*window_end_ns);
        let was_warmup = self.core.is_warmup(now_ns.saturating_sub(1));
        let service = self.core.recorder.totals_mut(was_warmup).latency.service_times();
        let (responses, median) = (service.count(), service.quantile(500_000));
        let elapsed_ns = now_ns - self.last_tick_ns;
        self.batcher.adapt(responses, elapsed_ns, median.map(|median| median.ns));
        self.last_tick_ns = now_ns;
        self.hand_over(now_ns, until_ns);
    }

    /// Hands over the counts up to `until_ns`. Counts of the warm-up come first. Counts of measured
    /// requests follow once the warm-up has been handed over completely.
    fn hand_over(&mut self, now_ns: u64, until_ns: u64) {
        let is_warmup = self.hands_over_warmup;
        let until_ns = if is_warmup { until_ns.min(self.core.load.warmup_ns) } else { until_ns };
        let totals = self.core.recorder.totals_mut(is_warmup);
        let is_taken = self.mailbox.hand_over(totals, is_warmup, until_ns);
        self.hands_over_warmup &= !is_taken || self.core.is_warmup(now_ns);
    }

    fn send_due(&mut self, now_ns: u64) {
        while let Some(Reverse((at_ns, id, was_thinking))) = self.sleepers.peek().copied() {
            if at_ns > now_ns {
                break;
            }
            self.sleepers.pop();
            self.connections[id as usize].thinking -= u32::from(was_thinking);
            self.list_if_ready(id);
        }
        match self.pacing {
            RequestPacing::Closed(_) => self.send_closed(now_ns),
            RequestPacing::Open(_) => self.send_open(now_ns),
        }
    }

    /// Closed model: each connection with room starts requests immediately.
    fn send_closed(&mut self, now_ns: u64) {
        for _ in 0..self.listed.len() {
            let Some(id) = self.listed.pop_front() else {
                break;
            };
            self.connections[id as usize].is_listed = false;
            while self.start_request(id, now_ns) {}
            self.connections[id as usize].flush_output(&mut self.core);
        }
    }

    /// Starts a request on a connection. Returns false if there is no room or no request.
    fn start_request(&mut self, id: u32, now_ns: u64) -> bool {
        let RequestPacing::Closed(pacing) = &mut self.pacing else {
            return false;
        };
        let (connection, core) = (&mut self.connections[id as usize], &mut self.core);
        if let Some(sent) = connection.take_sendable() {
            connection.send_request(sent, core);
            return true;
        }
        let can_take = match connection.state {
            ConnectionState::Closed { from_ns } if from_ns > now_ns => {
                self.sleepers.push(Reverse((from_ns, id, false)));
                false
            }
            ConnectionState::Closed { .. } => {
                connection.thinking < core.load.streams_per_connection
            }
            _ => connection.has_room(core.load),
        };
        if !can_take {
            return false;
        }
        let Some(due) = pacing.take_next(now_ns) else {
            return false;
        };
        let sent = core.start_request(due, now_ns);
        match connection.state {
            ConnectionState::Open => connection.send_request(sent, core),
            _ => connection.start_connecting(Some(sent), now_ns, core),
        }
        true
    }

    /// Sends requests that were started in time but had to wait for their connections.
    fn send_pending(&mut self) {
        while let Some(id) = self.listed.pop_front() {
            let connection = &mut self.connections[id as usize];
            connection.is_listed = false;
            if let Some(sent) = connection.take_sendable() {
                connection.send_request(sent, &mut self.core);
                connection.flush_output(&mut self.core);
            }
        }
    }

    /// Enforces timeouts. Reads available data first: otherwise, after a delay of this thread,
    /// responses that already wait in its sockets would count as late.
    fn expire_timeouts(&mut self, now_ns: u64) -> io::Result<()> {
        // With long timeouts, the checks coincide with the ticks.
        self.next_timeout_check_ns =
            (now_ns / self.timeout_check_interval_ns + 1) * self.timeout_check_interval_ns;
        for _ in 0..=self.connections.len() / MAX_EVENTS {
            self.receive_events(now_ns, now_ns)?;
        }
        for id in 0..self.connections.len() as u32 {
            self.connections[id as usize].expire_timeouts(now_ns, &mut self.core);
            self.update_connection(id, now_ns);
        }
        Ok(())
    }

    fn next_wake_ns(&self) -> u64 {
        let sleeper = self.sleepers.peek().map_or(NEVER, |Reverse((wake_ns, _, _))| *wake_ns);
        match &self.pacing {
            RequestPacing::Closed(_) => sleeper,
            RequestPacing::Open(open) => sleeper.min(open.next_due_ns()),
        }
    }

    fn wait_and_receive(&mut self, mut now_ns: u64, until_ns: u64) -> io::Result<()> {
        let in_flight = self.core.recorder.in_flight;
        if let Some(pause) = self.batcher.next_pause(in_flight, self.last_ended) {
            now_ns = self.monitor.sleep_for(pause, &self.core.clock);
            self.core.traffic.calls += 1;
        }
        let wait_until_ns = if self.core.load.rules.busy_poll || !self.core.unread.is_empty() {
            now_ns
        } else {
            until_ns.min(self.next_tick_ns).min(self.next_timeout_check_ns)
        };
        self.monitor.report.loops += 1;
        self.receive_events(now_ns, wait_until_ns)?;
        self.last_ended = in_flight.saturating_sub(self.core.recorder.in_flight);
        Ok(())
    }

    /// Waits for events until a deadline and processes them.
    fn receive_events(&mut self, now_ns: u64, until_ns: u64) -> io::Result<()> {
        #[cfg(feature = "http3")]
        if self.core.quic.is_some() {
            self.core.traffic.calls += 1;
            self.receive_quic_events(now_ns, until_ns);
            return Ok(());
        }
        let unread = std::mem::take(&mut self.core.unread);
        let (ready, calls) = self.core.poll.wait(now_ns, until_ns)?;
        self.core.traffic.calls += calls;
        for index in 0..ready {
            let event = self.core.poll.socket_event(index);
            self.handle_event(event, now_ns);
        }
        for event in unread {
            self.handle_event(event, now_ns);
        }
        Ok(())
    }

    fn handle_event(&mut self, event: SocketEvent, now_ns: u64) {
        let id = event.token as u32;
        let connection = &mut self.connections[id as usize];
        if connection.owns_token(event.token) {
            connection.handle_event(event, &mut self.core);
            self.update_connection(id, now_ns);
        }
    }

    /// Updates a connection after an event: starts the think time of clients whose requests have
    /// ended, and lists the connection if it has room.
    fn update_connection(&mut self, id: u32, now_ns: u64) {
        let ended = std::mem::take(&mut self.core.ended);
        if let RequestPacing::Closed(pacing) = &mut self.pacing {
            for _ in 0..ended {
                let think_ns = pacing.think_ns(id);
                if think_ns > 0 {
                    let wake_ns = self.core.clock.now_ns().max(now_ns) + think_ns;
                    self.connections[id as usize].thinking += 1;
                    self.sleepers.push(Reverse((wake_ns, id, true)));
                }
            }
        }
        self.list_if_ready(id);
    }

    fn list_if_ready(&mut self, id: u32) {
        let connection = &mut self.connections[id as usize];
        let is_wanted = connection.has_room(self.core.load)
            || connection.has_pending()
            || matches!(connection.state, ConnectionState::Closed { .. });
        if is_wanted && !connection.is_listed {
            connection.is_listed = true;
            self.listed.push_back(id);
        }
    }
}

impl WorkerCore<'_> {
    /// Counts a request that starts now, and assigns its kind.
    pub fn start_request(&mut self, due: DueRequest, now_ns: u64) -> StartedRequest {
        let (kind, is_warmup) = (self.source.kinds.kind_at(due.index), self.is_warmup(due.at_ns));
        self.recorder.record_start(is_warmup);
        StartedRequest::new(due, kind, now_ns, is_warmup)
    }
}

/// Waits on QUIC connections instead of sockets.
#[cfg(feature = "http3")]
impl LoadWorker<'_> {
    /// Waits for events of connections until a deadline and processes them.
    fn receive_quic_events(&mut self, now_ns: u64, until_ns: u64) {
        let mut quic_events = std::mem::take(&mut self.quic_events);
        if let Some(engine) = &mut self.core.quic {
            engine.wait(until_ns, &mut quic_events);
        }
        for event in quic_events.drain(..) {
            let id = event.connection as u32;
            let connection = &mut self.connections[id as usize];
            if connection.owns_token(event.connection) {
                connection.handle_quic_event(event, &mut self.core);
                self.update_connection(id, now_ns);
            }
        }
        self.quic_events = quic_events;
    }

    /// Closes all connections and notifies the servers.
    pub fn close_quic(&mut self) {
        for connection in &mut self.connections {
            connection.protocol.close_connection();
        }
        if let Some(engine) = &mut self.core.quic {
            engine.inner.flush_closes(self.core.open);
        }
    }
}

/// Returns the time of the next tick. Ticks occur at the same times on all threads. The end of the
/// warm-up is also a tick.
fn next_tick_ns(now_ns: u64, warmup_ns: u64) -> u64 {
    let next_ns = (now_ns / TICK_NS + 1) * TICK_NS;
    if now_ns < warmup_ns { next_ns.min(warmup_ns) } else { next_ns }
}

// In the open model, requests are sent when they are due, however fast the server responds.
// Connections are opened as needed.

impl LoadWorker<'_> {
    /// Open model: assigns due requests to the connection that has had room the longest.
    fn send_open(&mut self, now_ns: u64) {
        let RequestPacing::Open(pacing) = &mut self.pacing else {
            return;
        };
        pacing.advance_to(now_ns);
        for class in std::mem::take(&mut self.core.failed_to_open) {
            // A failed attempt to connect ends the request that has waited longest.
            if let Some(due) = pacing.take_due() {
                let sent = self.core.start_request(due, now_ns);
                let no_response = ResponseSummary::default();
                self.core.recorder.record_failure(&sent, class, now_ns, &no_response);
            }
        }
        while pacing.backlog > 0 {
            let Some(id) = self.listed.front().copied() else {
                break;
            };
            let connection = &mut self.connections[id as usize];
            if connection.has_room(self.core.load)
                && let Some(due) = pacing.take_due()
            {
                let sent = self.core.start_request(due, now_ns);
                connection.send_request(sent, &mut self.core);
                // With several streams, the next due request uses the next stream of this
                // connection; requests due at the same time are written together.
                if pacing.backlog == 0 || !connection.has_room(self.core.load) {
                    connection.flush_output(&mut self.core);
                }
                continue;
            }
            connection.is_listed = false;
            self.listed.pop_front();
            if let ConnectionState::Closed { .. } = connection.state {
                self.closed.push(id);
            }
        }
        let missing = pacing.backlog.saturating_sub(u64::from(self.core.opening));
        self.open_missing(missing, now_ns);
    }

    /// Opens connections for due requests that have none.
    fn open_missing(&mut self, missing: u64, now_ns: u64) {
        for _ in 0..missing {
            let ready = self.closed.iter().position(|id| {
                matches!(self.connections[*id as usize].state,
                    ConnectionState::Closed { from_ns } if from_ns <= now_ns)
            });
            if let Some(index) = ready {
                let id = self.closed.swap_remove(index);
                self.connections[id as usize].start_connecting(None, now_ns, &mut self.core);
                self.update_connection(id, now_ns);
                continue;
            }
            let max = self.core.max_connections();
            if self.connections.len() as u32 >= max {
                self.reached_max_connections = true;
                return;
            }
            let id = self.connections.len() as u32;
            let mut connection = LoadConnection::new(id, &self.core);
            connection.start_connecting(None, now_ns, &mut self.core);
            self.connections.push(connection);
            self.update_connection(id, now_ns);
        }
    }
}

// The code below ends a thread: it accounts for unfinished requests and completes the counts.

#[derive(Debug, Clone, Copy)]
pub(super) struct LoadEnd {
    pub at_ns: u64,
    pub by_time: bool,
    pub is_interrupted: bool,
}

pub(super) struct ThreadResult<'a> {
    pub recorder: RequestRecorder<'a>,
    pub end: LoadEnd,
    pub report: ThreadReport,
    pub max_open: u32,
    pub reached_max_connections: bool,
}

impl<'a> LoadWorker<'a> {
    /// Accounts for unfinished requests and completes the counts.
    fn into_result(mut self, end: LoadEnd) -> ThreadResult<'a> {
        let end_ns = end.at_ns;
        let (mut in_flight, mut in_flight_warmup) = (0, 0);
        let had_room =
            self.connections.iter().any(|connection| connection.has_room(self.core.load));
        for connection in &mut self.connections {
            let (measured, warmup) = connection.finish(end.is_interrupted, end_ns, &mut self.core);
            in_flight += measured;
            in_flight_warmup += warmup;
        }
        if let RequestPacing::Open(pacing) = &mut self.pacing {
            pacing.advance_to(end_ns.min(self.core.recorder.window_end_ns));
            // If a connection had room, a generator that was on time would have sent these
            // requests, so the generator caused their delay.
            while let Some(due) = pacing.take_due() {
                let is_warmup = self.core.is_warmup(due.at_ns);
                let mut sent = StartedRequest::new(due, 0, end_ns, is_warmup);
                if had_room {
                    sent.own_lag_ns = end_ns.saturating_sub(sent.intended_ns);
                }
                self.core.recorder.record_unsent(&sent, end_ns);
            }
        }
        #[cfg(feature = "http3")]
        self.close_quic();
        self.core.flush_traffic(end_ns);
        let recorder = &mut self.core.recorder;
        recorder.totals.outcomes.in_flight = in_flight;
        recorder.warmup.outcomes.in_flight = in_flight_warmup;
        self.monitor.report.system_calls = self.core.traffic.calls;
        let (fewest, most) = self.core.uses.unwrap_or_default();
        self.monitor.report.fewest_requests = fewest;
        self.monitor.report.most_requests = most;
        ThreadResult {
            recorder: self.core.recorder,
            end,
            report: self.monitor.into_report(end_ns),
            max_open: self.core.max_open,
            reached_max_connections: self.reached_max_connections,
        }
    }
}
