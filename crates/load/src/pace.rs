//! Decides when the next request is due.
//!
//! A pace is plain data. A closed pace is a number of clients, each of which waits for a response
//! before it sends its next request. An open pace is a schedule that does not depend on responses.
//! Nothing here sleeps or reads a clock. Start at [`RateSchedule`], which computes when the
//! requests of an open pace are due. Continue with [`ThreadSchedule`], the part of a schedule that
//! one thread sends, and `RequestPacing`, which hands a thread its requests.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// How requests are paced.
#[derive(Debug, Clone, PartialEq)]
pub enum PacingModel {
    /// Each client sends its next request when it has received the response to its previous one.
    /// Only service times are meaningful, since no request has an intended start.
    Closed(ClosedPace),
    /// Requests are sent on schedule, whatever the server does.
    Open(RateSchedule),
}

// The closed model: clients that wait for each response, and optionally think before the next
// request.

/// A number of clients, each with at most one request in flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClosedPace {
    /// Number of clients.
    pub concurrency: u32,
    /// Pause between a response and the next request.
    pub think: ThinkTime,
}

/// Think time of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkTime {
    /// No pause.
    None,
    /// A constant pause in nanoseconds.
    Fixed(u64),
    /// Exponentially distributed pauses.
    Exponential {
        /// Mean in nanoseconds.
        mean_ns: u64,
        /// Seed of the random numbers.
        seed: u64,
    },
}

impl ClosedPace {
    /// Creates a closed pace.
    ///
    /// # Errors
    /// Fails if there are no clients.
    pub fn new(concurrency: u32, think: ThinkTime) -> Result<ClosedPace, PaceError> {
        match concurrency {
            0 => Err(PaceError::NoClients),
            _ => Ok(ClosedPace { concurrency, think }),
        }
    }

    /// Number of clients that belong to thread number `thread` of `threads`.
    pub fn thread_clients(&self, thread: u32, threads: u32) -> u32 {
        // The result is at most `concurrency`, so it fits into 32 bits.
        thread_part(u64::from(self.concurrency), thread, threads) as u32
    }
}

/// Generates the pauses of one client.
#[derive(Debug, Clone)]
struct ThinkTimer {
    mean_ns: u64,
    random: Option<ExponentialDraws>,
}

impl ThinkTimer {
    /// Creates the generator for client number `client`. Clients with the same seed have
    /// independent pauses.
    fn new(think: ThinkTime, client: u32) -> ThinkTimer {
        match think {
            ThinkTime::None => ThinkTimer { mean_ns: 0, random: None },
            ThinkTime::Fixed(mean_ns) => ThinkTimer { mean_ns, random: None },
            ThinkTime::Exponential { mean_ns, seed } => ThinkTimer {
                mean_ns,
                // Multiplying by the bits of the golden ratio spreads consecutive client numbers
                // over the whole range (SplitMix; Steele, Lea and Flood 2014).
                random: Some(ExponentialDraws::new(
                    seed ^ u64::from(client).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                )),
            },
        }
    }

    /// Returns the next pause in nanoseconds.
    fn next_ns(&mut self) -> u64 {
        match &mut self.random {
            None => self.mean_ns,
            Some(random) => (random.next_draw() * self.mean_ns as f64).round() as u64,
        }
    }
}

// The open model, in which the time of every request is known before the first request is sent.
//
// Each time is computed from the request's number, not from the previous time. Errors therefore do
// not accumulate: after an hour, the times are as exact as at the start. Random arrivals use the
// same arithmetic. A Poisson process of rate 1, mapped through the inverse of the integral of the
// scheduled rate, is a Poisson process with the scheduled rate (Lewis and Shedler 1979).

/// Distribution of requests over time at a given rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalSpacing {
    /// As even as whole nanoseconds allow.
    Even,
    /// Random and independent.
    Poisson {
        /// Seed of the random times.
        seed: u64,
    },
}

/// A schedule of consecutive stages. After the last stage, no request is due.
#[derive(Debug, Clone, PartialEq)]
pub struct RateSchedule {
    stages: Vec<ScheduleStage>,
    spacing: ArrivalSpacing,
}

/// Start of a stage: its index, its start time, and the units of the integral accumulated before
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct StagePosition {
    stage: usize,
    begins_ns: u64,
    begins_units: u128,
}

impl RateSchedule {
    /// Creates a schedule from stages.
    ///
    /// # Errors
    /// Fails if no stage has a rate above zero, or if a ramp is too long for exact arithmetic. For
    /// a ramp to a million requests per second, the limit is about 2.5 hours.
    pub fn new(
        stages: Vec<ScheduleStage>,
        spacing: ArrivalSpacing,
    ) -> Result<RateSchedule, PaceError> {
        stages.iter().try_for_each(ScheduleStage::check_overflow)?;
        if stages.iter().all(|stage| stage.total_units() == 0) {
            return Err(PaceError::Empty);
        }
        Ok(RateSchedule { stages, spacing })
    }

    /// The stages in order.
    pub fn stages(&self) -> &[ScheduleStage] {
        &self.stages
    }

    /// How requests are spaced.
    pub fn spacing(&self) -> ArrivalSpacing {
        self.spacing
    }

    /// Returns the part of the schedule that one thread sends: the requests whose number modulo
    /// `threads` is `thread`.
    pub fn thread_schedule(
        &self,
        thread: u32,
        threads: u32,
        stop: StopCondition,
    ) -> ThreadSchedule<'_> {
        ThreadSchedule {
            schedule: self,
            stop,
            next_index: u64::from(thread),
            step: u64::from(threads.max(1)),
            position: StagePosition::default(),
            random: match self.spacing {
                ArrivalSpacing::Even => None,
                ArrivalSpacing::Poisson { seed } => {
                    Some(ArrivalWalk { draws: ExponentialDraws::new(seed), drawn: 0, units: 0 })
                }
            },
        }
    }

    /// When request `index` (from 0) is due, in nanoseconds since the start; `None` after the end.
    /// Each call draws all random arrivals anew. Threads therefore use
    /// [`RateSchedule::thread_schedule`].
    pub fn due_ns(&self, index: u64) -> Option<u64> {
        let first = self.thread_schedule(0, 1, StopCondition::default());
        let mut schedule = ThreadSchedule { next_index: index, ..first };
        schedule.next().map(|due| due.at_ns)
    }

    /// Number of requests due from the start up to and including `at_ns`.
    pub fn due_by(&self, at_ns: u64) -> u64 {
        match self.spacing {
            ArrivalSpacing::Even => self.even_due_by(at_ns),
            ArrivalSpacing::Poisson { .. } => {
                let schedule = self.thread_schedule(0, 1, StopCondition::default());
                schedule.take_while(|due| due.at_ns <= at_ns).count() as u64
            }
        }
    }

    /// Number of requests due before `at_ns`.
    pub fn due_before(&self, at_ns: u64) -> u64 {
        at_ns.checked_sub(1).map_or(0, |before| self.due_by(before))
    }

    /// Total length of all stages in nanoseconds; [`FOREVER_NS`] if one is unlimited.
    pub fn total_ns(&self) -> u64 {
        self.stages.iter().fold(0, |sum: u64, stage| sum.saturating_add(stage.duration_ns))
    }

    /// Counts the requests for which [`RateSchedule::due_ns`] is at most `at_ns`. A binary search
    /// finds the count, because the times increase with the request number.
    fn even_due_by(&self, at_ns: u64) -> u64 {
        let is_due = |index| self.due_ns(index).is_some_and(|due| due <= at_ns);
        let (mut low, mut high) = (0, 1);
        while is_due(high - 1) && high < u64::MAX / 2 {
            low = high;
            high *= 2;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if is_due(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns the time in nanoseconds at which `units` have accumulated. The search begins at
    /// `position`, which must not lie after that time. It advances `position`, so a walk through
    /// the schedule visits each stage once.
    fn time_at_units(&self, units: u128, position: &mut StagePosition) -> Option<u64> {
        loop {
            let stage = self.stages.get(position.stage)?;
            let units_in_stage = units - position.begins_units;
            // A request exactly at the end of a stage belongs to the next stage with a rate above
            // zero. The request is due when the integral exceeds its number, and the integral does
            // not grow during a pause.
            if units_in_stage < stage.total_units() {
                return position.begins_ns.checked_add(stage.last_ns_within(units_in_stage));
            }
            position.begins_units += stage.total_units();
            position.begins_ns = position.begins_ns.checked_add(stage.duration_ns)?;
            position.stage += 1;
        }
    }
}

// A stage: a linearly changing rate and its exact integral, counted in units of
// 1/[`UNITS_PER_REQUEST`] request. Rates are whole millionths of a request per second and times are
// whole nanoseconds, so their product is a whole number of 1e-15 requests. The area of a ramp has a
// factor of 1/2, so the unit is half of that, 5e-16 requests.

/// Units of the integral per request.
const UNITS_PER_REQUEST: u128 = 2_000_000_000_000_000;

/// Length of an unlimited stage: 584 years.
pub const FOREVER_NS: u64 = u64::MAX;

/// Why a pace is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PaceError {
    /// A rate outside the range of [`RequestRate`].
    #[error("invalid rate {0}/s: expected 0 to 100000000")]
    Rate(f64),
    /// A ramp whose integral would not fit into 128 bits.
    #[error("cannot ramp for {duration_ns} ns at these rates: split the ramp into shorter stages")]
    RampTooLong {
        /// Length of the ramp.
        duration_ns: u64,
    },
    /// A schedule in which no request is ever due.
    #[error("the schedule has no stage with a rate above zero")]
    Empty,
    /// A closed pace without clients.
    #[error("a closed load needs at least one client")]
    NoClients,
}

/// An interval in which the rate changes linearly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleStage {
    /// Rate at the beginning.
    pub from: RequestRate,
    /// Rate at the end.
    pub to: RequestRate,
    /// Length in nanoseconds.
    pub duration_ns: u64,
}

impl ScheduleStage {
    /// A constant rate of unlimited length.
    pub fn constant(rate: RequestRate) -> ScheduleStage {
        ScheduleStage { from: rate, to: rate, duration_ns: FOREVER_NS }
    }

    /// Checks that [`ScheduleStage::reaches_at_most`] cannot overflow.
    fn check_overflow(&self) -> Result<(), PaceError> {
        let duration = u128::from(self.duration_ns);
        let fastest = u128::from(self.from.max(self.to).micro_per_s());
        // The largest term in `reaches_at_most` is 2 * rate * duration squared.
        let largest = (2 * fastest * duration).checked_mul(duration);
        let fits =
            self.from == self.to || largest.is_some_and(|product| product <= i128::MAX as u128);
        fits.then_some(()).ok_or(PaceError::RampTooLong { duration_ns: self.duration_ns })
    }

    /// Units in the whole stage: twice the area of the trapezoid under the rate.
    fn total_units(&self) -> u128 {
        let rate_sum = u128::from(self.from.micro_per_s()) + u128::from(self.to.micro_per_s());
        rate_sum * u128::from(self.duration_ns)
    }

    /// Whether the integral of a ramp up to `at_ns` is at most `units`, computed without rounding.
    ///
    /// With rates a and b, length T and time t, the integral in units is 2at + (b - a)t^2 / T.
    /// Multiplied by T, both sides are integers.
    fn reaches_at_most(&self, at_ns: u64, units: u128) -> bool {
        let t = i128::from(at_ns);
        let from = i128::from(self.from.micro_per_s());
        let duration = i128::from(self.duration_ns);
        let rise = i128::from(self.to.micro_per_s()) - from;
        let scaled = 2 * from * duration * t + rise * t * t;
        scaled as u128 <= units * self.duration_ns as u128
    }

    /// Returns the last nanosecond of the stage by which at most `units` have accumulated; `units`
    /// must be less than [`ScheduleStage::total_units`].
    fn last_ns_within(&self, units: u128) -> u64 {
        if self.from == self.to {
            let per_ns = 2 * u128::from(self.from.micro_per_s());
            return (units / per_ns) as u64;
        }
        let guess = self.estimate_ns(units);
        self.refine_ns(guess, units)
    }

    /// Estimates in floating point the time t at which u = `units` have accumulated: t = 2u / (2a +
    /// sqrt(4a^2 + 4u(b - a) / T)), with a, b and T as in [`ScheduleStage::reaches_at_most`]. This
    /// form of the quadratic formula does not suffer from cancellation near a rate of zero.
    fn estimate_ns(&self, units: u128) -> u64 {
        let from = self.from.micro_per_s() as f64;
        let slope = (self.to.micro_per_s() as f64 - from) / self.duration_ns as f64;
        let root = (from * from + units as f64 * slope).max(0.0).sqrt();
        let denominator = from + root;
        if denominator <= 0.0 {
            return 0;
        }
        ((units as f64 / denominator) as u64).min(self.duration_ns)
    }

    /// Corrects the guess with exact arithmetic: widens a bracket around the guess, then bisects
    /// the bracket.
    fn refine_ns(&self, guess_ns: u64, units: u128) -> u64 {
        let mut width = 2;
        let mut low = guess_ns.saturating_sub(1);
        while low > 0 && !self.reaches_at_most(low, units) {
            low = low.saturating_sub(width);
            width *= 2;
        }
        width = 2;
        let mut high = guess_ns.saturating_add(2).min(self.duration_ns);
        while high < self.duration_ns && self.reaches_at_most(high, units) {
            high = high.saturating_add(width).min(self.duration_ns);
            width *= 2;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.reaches_at_most(middle, units) { low = middle } else { high = middle }
        }
        low
    }
}

/// Requests per second, stored in millionths: zero, or 0.000001/s to 100 million/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestRate {
    micro_per_s: u64,
}

impl RequestRate {
    /// The rate of a pause, or of the start or end of a ramp.
    pub const ZERO: RequestRate = RequestRate { micro_per_s: 0 };

    /// The maximum rate. It keeps the sums of [`RateSchedule`] well within 128 bits.
    pub const MAX: RequestRate = RequestRate { micro_per_s: 100_000_000_000_000 };

    /// Creates a rate, rounded to millionths of a request per second.
    ///
    /// # Errors
    /// Fails if `requests` is negative, not a number, or above [`RequestRate::MAX`].
    pub fn per_second(requests: f64) -> Result<RequestRate, PaceError> {
        let micro = (requests * 1e6).round();
        if !(0.0..=RequestRate::MAX.micro_per_s as f64).contains(&micro) {
            return Err(PaceError::Rate(requests));
        }
        Ok(RequestRate { micro_per_s: micro as u64 })
    }

    /// Millionths of a request per second.
    pub fn micro_per_s(self) -> u64 {
        self.micro_per_s
    }

    /// Requests per second.
    pub fn requests_per_s(self) -> f64 {
        self.micro_per_s as f64 / 1e6
    }
}

// The part of a schedule that one thread sends. Of N threads, thread i sends the requests i, i + N,
// i + 2N and so on. Together they send the same requests at the same nanoseconds as a single
// thread, and no thread sends in bursts.

/// A request to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueRequest {
    /// Number in the whole schedule, from 0.
    pub index: u64,
    /// Intended start, in nanoseconds since the start of the load.
    pub at_ns: u64,
}

/// Iterates over the requests of one thread. Does not allocate.
#[derive(Debug, Clone)]
pub struct ThreadSchedule<'a> {
    schedule: &'a RateSchedule,
    stop: StopCondition,
    next_index: u64,
    step: u64,
    position: StagePosition,
    random: Option<ArrivalWalk>,
}

/// State of random arrivals. Arrivals can only be drawn in sequence: every thread draws those of
/// all threads, but uses only its own.
#[derive(Debug, Clone)]
struct ArrivalWalk {
    draws: ExponentialDraws,
    drawn: u64,
    units: u128,
}

impl ArrivalWalk {
    /// Units up to arrival `index`: the sum of index + 1 intervals. The intervals are integers, so
    /// that every thread computes the same sum.
    fn units_at(&mut self, index: u64) -> u128 {
        while self.drawn <= index {
            self.units += (self.draws.next_draw() * UNITS_PER_REQUEST as f64) as u128;
            self.drawn += 1;
        }
        self.units
    }
}

impl Iterator for ThreadSchedule<'_> {
    type Item = DueRequest;

    /// Returns the next request; `None` when the schedule or the load has ended.
    fn next(&mut self) -> Option<DueRequest> {
        let index = self.next_index;
        if self.stop.after_requests.is_some_and(|count| index >= count) {
            return None;
        }
        let units = match &mut self.random {
            None => u128::from(index) * UNITS_PER_REQUEST,
            Some(walk) => walk.units_at(index),
        };
        let at_ns = self.schedule.time_at_units(units, &mut self.position)?;
        if self.stop.after_ns.is_some_and(|end_ns| at_ns >= end_ns) {
            return None;
        }
        self.next_index += self.step;
        Some(DueRequest { index, at_ns })
    }
}

// The requests of one thread: which request it may start next, and when.

/// Pacing of a thread.
pub(crate) enum RequestPacing<'a> {
    Closed(ClosedPacing),
    Open(Box<OpenPacing<'a>>),
}

impl PacingModel {
    /// Returns the pacing of thread number `thread` of `threads`.
    pub(crate) fn thread_pacing(
        &self,
        (thread, threads): (u32, u32),
        stop: StopCondition,
        warmup_ns: u64,
    ) -> RequestPacing<'_> {
        match self {
            PacingModel::Closed(closed) => {
                let thinker = |client| ThinkTimer::new(closed.think, client * threads + thread);
                RequestPacing::Closed(ClosedPacing {
                    remaining: stop.after_requests.map(|count| thread_part(count, thread, threads)),
                    next: u64::from(thread),
                    step: u64::from(threads),
                    warmup_ns,
                    thinkers: match closed.think {
                        ThinkTime::None => Vec::new(),
                        _ => (0..closed.thread_clients(thread, threads)).map(thinker).collect(),
                    },
                })
            }
            PacingModel::Open(schedule) => {
                let add_warmup = |count: u64| count.saturating_add(schedule.due_before(warmup_ns));
                let whole_stop = StopCondition {
                    after_requests: stop.after_requests.map(add_warmup),
                    after_ns: stop.after_ns.map(|end_ns| end_ns.saturating_add(warmup_ns)),
                };
                let send_cursor = schedule.thread_schedule(thread, threads, whole_stop);
                let mut due_cursor = send_cursor.clone();
                let next_due = due_cursor.next();
                let pacing = OpenPacing { send_cursor, due_cursor, next_due, backlog: 0 };
                RequestPacing::Open(Box::new(pacing))
            }
        }
    }

    /// Returns when sending stops because of the time limit or the end of the schedule. The time is
    /// in nanoseconds since the start, or [`FOREVER_NS`].
    pub(crate) fn window_end_ns(&self, stop: StopCondition, warmup_ns: u64) -> u64 {
        let stop_end_ns =
            stop.after_ns.map_or(FOREVER_NS, |end_ns| end_ns.saturating_add(warmup_ns));
        let schedule_end_ns = match self {
            PacingModel::Open(schedule) if stop.after_requests.is_none() => schedule.total_ns(),
            _ => FOREVER_NS,
        };
        stop_end_ns.min(schedule_end_ns)
    }
}

impl RequestPacing<'_> {
    /// Whether there are no further requests.
    pub fn is_exhausted(&self) -> bool {
        match self {
            RequestPacing::Closed(closed) => closed.remaining == Some(0),
            RequestPacing::Open(open) => open.backlog == 0 && open.next_due.is_none(),
        }
    }
}

/// Clients that start a request after each response.
pub(crate) struct ClosedPacing {
    remaining: Option<u64>,
    next: u64,
    step: u64,
    warmup_ns: u64,
    thinkers: Vec<ThinkTimer>,
}

impl ClosedPacing {
    /// Returns the next request, which is due now, if any.
    pub fn take_next(&mut self, now_ns: u64) -> Option<DueRequest> {
        if now_ns >= self.warmup_ns
            && let Some(remaining) = &mut self.remaining
        {
            *remaining = remaining.checked_sub(1)?;
        }
        let index = self.next;
        self.next += self.step;
        Some(DueRequest { index, at_ns: now_ns })
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
pub(crate) struct OpenPacing<'a> {
    send_cursor: ThreadSchedule<'a>,
    due_cursor: ThreadSchedule<'a>,
    next_due: Option<DueRequest>,
    /// Requests that are due but not started.
    pub backlog: u64,
}

impl OpenPacing<'_> {
    /// Advances the time to `now_ns`.
    pub fn advance_to(&mut self, now_ns: u64) {
        while self.next_due.is_some_and(|due| due.at_ns <= now_ns) {
            self.backlog += 1;
            self.next_due = self.due_cursor.next();
        }
    }

    /// When the next future request is due, or [`FOREVER_NS`].
    pub fn next_due_ns(&self) -> u64 {
        self.next_due.map_or(FOREVER_NS, |due| due.at_ns)
    }

    /// Takes the oldest due request, to start it.
    pub fn take_due(&mut self) -> Option<DueRequest> {
        self.backlog = self.backlog.checked_sub(1)?;
        self.send_cursor.next()
    }
}

/// Number of items that thread number `thread` gets when `total` items are distributed evenly over
/// `threads` threads.
pub fn thread_part(total: u64, thread: u32, threads: u32) -> u64 {
    let threads = u64::from(threads.max(1));
    total / threads + u64::from(u64::from(thread) < total % threads)
}

/// Generates exponentially distributed numbers with mean 1.
#[derive(Debug, Clone, PartialEq)]
struct ExponentialDraws {
    generator: Xoshiro256PlusPlus,
}

impl ExponentialDraws {
    fn new(seed: u64) -> ExponentialDraws {
        ExponentialDraws { generator: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// Draws a number by inversion: -ln(u) with u uniform in (0, 1]. The logarithm of libm is
    /// implemented in software, so the numbers do not depend on the platform.
    fn next_draw(&mut self) -> f64 {
        let bits = self.generator.next_u64() >> 11;
        let uniform = (bits + 1) as f64 / (1_u64 << 53) as f64;
        -libm::log(uniform)
    }
}

/// Conditions that end a load: it ends when the first of them is met. A load without conditions
/// runs until its schedule ends or it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StopCondition {
    /// Total number of requests over all threads.
    pub after_requests: Option<u64>,
    /// Nanoseconds since the start; a request due at this time or later is not sent.
    pub after_ns: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_belongs_to_one_thread() {
        let closed = ClosedPace::new(50, ThinkTime::None).unwrap();
        let parts: Vec<u32> = (0..4).map(|thread| closed.thread_clients(thread, 4)).collect();
        assert_eq!(parts, [13, 13, 12, 12]);
        assert_eq!(ClosedPace::new(0, ThinkTime::None), Err(PaceError::NoClients));
    }

    #[test]
    fn random_pauses_have_the_given_mean_and_differ_between_clients() {
        let think = ThinkTime::Exponential { mean_ns: 2_000_000, seed: 7 };
        let pauses = |client| -> Vec<u64> {
            let mut thinker = ThinkTimer::new(think, client);
            (0..100_000).map(|_| thinker.next_ns()).collect()
        };
        let first = pauses(0);
        let mean = first.iter().sum::<u64>() as f64 / 1e5;
        // The standard error is 2 ms / sqrt(100 000) = 6325 ns; the test allows four standard
        // errors.
        assert!((mean - 2e6).abs() < 4.0 * 6325.0, "mean {mean}");
        assert_ne!(first[..10], pauses(1)[..10]);
        assert_eq!(ThinkTimer::new(ThinkTime::Fixed(5), 3).next_ns(), 5);
        assert_eq!(ThinkTimer::new(ThinkTime::None, 3).next_ns(), 0);
    }
}
