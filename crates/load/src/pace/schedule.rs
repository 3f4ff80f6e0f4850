//! The open model: the time of every request, known before the first is sent.
//!
//! Each time follows from the request's number, never from the time before it, so nothing adds up:
//! the last request of an hour is as exact as the first. Random arrivals are the same schedule on a
//! stretched clock: a Poisson process of rate 1 whose arrivals are placed by the integral of the
//! rate, which is a Poisson process of that rate (Lewis and Shedler 1979).

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// How requests lie between the rates of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    /// As evenly as whole nanoseconds allow.
    Even,
    /// At random, independent of each other.
    Poisson {
        /// What the times follow from.
        seed: u64,
    },
}

/// Stages one after the other. After the last one no request is due.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    stages: Vec<Stage>,
    spacing: Spacing,
}

/// Where a stage begins, in time and in units of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Position {
    pub stage: usize,
    pub begins_ns: u64,
    pub begins_units: u128,
}

impl Schedule {
    /// Puts stages together.
    ///
    /// # Errors
    /// When no stage has a rate, or a ramp is too long for exact arithmetic (hours at a million
    /// requests a second).
    pub fn new(stages: Vec<Stage>, spacing: Spacing) -> Result<Schedule, PaceError> {
        stages.iter().try_for_each(Stage::check)?;
        if stages.iter().all(|stage| stage.units() == 0) {
            return Err(PaceError::Empty);
        }
        Ok(Schedule { stages, spacing })
    }

    /// The stages in their order.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Even or random.
    pub fn spacing(&self) -> Spacing {
        self.spacing
    }

    /// The part of one thread: the requests whose number modulo `threads` is `thread`.
    pub fn share(&self, thread: u32, threads: u32, stop: Stop) -> Share<'_> {
        Share::new(self, thread, threads, stop)
    }

    /// When request `index` (from 0) is due, in nanoseconds from the start; `None` after the end.
    /// Random arrivals are drawn from the first on; a thread uses [`Schedule::share`] instead.
    pub fn due_ns(&self, index: u64) -> Option<u64> {
        match self.spacing {
            Spacing::Even => self.at(
                u128::from(index) * UNITS_PER_REQUEST,
                &mut Position::default(),
            ),
            Spacing::Poisson { .. } => {
                let steps = usize::try_from(index).ok()?;
                let mut all = self.share(0, 1, Stop::default());
                all.nth(steps).map(|due| due.at_ns)
            }
        }
    }

    /// How many requests are due from the start up to and including `at_ns`.
    pub fn due_by(&self, at_ns: u64) -> u64 {
        match self.spacing {
            Spacing::Even => self.even_due_by(at_ns),
            Spacing::Poisson { .. } => {
                let all = self.share(0, 1, Stop::default());
                all.take_while(|due| due.at_ns <= at_ns).count() as u64
            }
        }
    }

    /// How many requests are due before `at_ns`.
    pub fn due_before(&self, at_ns: u64) -> u64 {
        at_ns.checked_sub(1).map_or(0, |before| self.due_by(before))
    }

    /// The length of all stages in nanoseconds; [`super::FOREVER_NS`] when one has no end.
    pub fn length_ns(&self) -> u64 {
        self.stages
            .iter()
            .fold(0, |sum: u64, stage| sum.saturating_add(stage.duration_ns))
    }

    /// The requests for which [`Schedule::due_ns`] is at most `at_ns`, found by halving: the times
    /// grow with the numbers.
    fn even_due_by(&self, at_ns: u64) -> u64 {
        let is_due = |index| self.due_ns(index).is_some_and(|due| due <= at_ns);
        let (mut low, mut high) = (0, 1);
        while is_due(high - 1) && high < u64::MAX / 2 {
            low = high;
            high *= 2;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if is_due(middle) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low
    }

    /// The time at which `units` have come, from a position that is not after it. The position moves on,
    /// so a walk through the schedule visits each stage once.
    pub(super) fn at(&self, units: u128, position: &mut Position) -> Option<u64> {
        loop {
            let stage = self.stages.get(position.stage)?;
            let inside = units - position.begins_units;
            // A request that would fall on the very end belongs to the next stage with a rate: it
            // is due when the integral passes its number, and a pause does not pass it.
            if inside < stage.units() {
                return position.begins_ns.checked_add(stage.last_ns_with(inside));
            }
            position.begins_units += stage.units();
            position.begins_ns = position.begins_ns.checked_add(stage.duration_ns)?;
            position.stage += 1;
        }
    }
}

// A stage: a rate that changes linearly, and the exact integral over it. The integral is counted in
// [`UNITS_PER_REQUEST`]ths of a request. A rate is an integer of millionths per second and a time an
// integer of nanoseconds, so their product is an integer of 1e-15 requests; the factor 2 takes in the
// half of the ramp's area.

/// Units of the integral in one request.
pub(super) const UNITS_PER_REQUEST: u128 = 2_000_000_000_000_000;

/// The length of a stage without an end: 584 years.
pub const FOREVER_NS: u64 = u64::MAX;

/// Why a pace cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PaceError {
    /// A rate outside of [`Rate`].
    #[error("cannot use the rate {0} 1/s: it is not between 0 and 100000000")]
    Rate(f64),
    /// A ramp whose integral would not fit into 128 bits.
    #[error("cannot ramp for {duration_ns} ns at these rates: split the ramp into shorter stages")]
    RampTooLong {
        /// Its length.
        duration_ns: u64,
    },
    /// A schedule in which no request is ever due.
    #[error("the schedule has no stage with a rate above zero")]
    Empty,
    /// A closed model without clients.
    #[error("a closed load needs at least one client")]
    NoClients,
}

/// A interval in which the rate goes linearly from one value to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// The rate at its beginning.
    pub from: Rate,
    /// The rate at its end.
    pub to: Rate,
    /// Its length in nanoseconds.
    pub duration_ns: u64,
}

impl Stage {
    /// One rate without an end.
    pub fn constant(rate: Rate) -> Stage {
        Stage {
            from: rate,
            to: rate,
            duration_ns: FOREVER_NS,
        }
    }

    /// Checks that [`Stage::units_before`] cannot overflow.
    pub(super) fn check(&self) -> Result<(), PaceError> {
        let duration = u128::from(self.duration_ns);
        let fastest = u128::from(self.from.max(self.to).micro_per_s());
        // The largest term of the arithmetic below is 2 * rate * duration squared.
        let fits = self.from == self.to
            || (2 * fastest)
                .checked_mul(duration)
                .and_then(|units| units.checked_mul(duration))
                .is_some_and(|product| product <= i128::MAX as u128);
        if fits {
            return Ok(());
        }
        Err(PaceError::RampTooLong {
            duration_ns: self.duration_ns,
        })
    }

    /// Units in the whole stage: twice the area of the trapezium.
    pub(super) fn units(&self) -> u128 {
        let both = u128::from(self.from.micro_per_s()) + u128::from(self.to.micro_per_s());
        both * u128::from(self.duration_ns)
    }

    /// On a ramp: whether the integral up to `at_ns` is at most `units`, without any rounding.
    ///
    /// With rates a and b, length T and time t the integral in units is 2at + (b - a)t^2 / T.
    /// Multiplied by T, both sides are integers.
    fn reaches_at_most(&self, at_ns: u64, units: u128) -> bool {
        let t = i128::from(at_ns);
        let from = i128::from(self.from.micro_per_s());
        let duration = i128::from(self.duration_ns);
        let rise = i128::from(self.to.micro_per_s()) - from;
        let scaled = 2 * from * duration * t + rise * t * t;
        scaled as u128 <= units * self.duration_ns as u128
    }

    /// The last nanosecond of the stage up to which at most `units` have come; `units` must be
    /// fewer than [`Stage::units`].
    pub(super) fn last_ns_with(&self, units: u128) -> u64 {
        if self.from == self.to {
            let per_ns = 2 * u128::from(self.from.micro_per_s());
            return (units / per_ns) as u64;
        }
        let guess = self.estimate_ns(units);
        self.search(guess, units)
    }

    /// The root of the integral in floating point, in the form that does not cancel near a rate of
    /// zero: t = 2u / (2a + sqrt(4a^2 + 4u(b - a) / T)).
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

    /// Corrects the guess with exact arithmetic: widens a bracket around it, then halves it.
    fn search(&self, guess_ns: u64, units: u128) -> u64 {
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
            if self.reaches_at_most(middle, units) {
                low = middle
            } else {
                high = middle
            }
        }
        low
    }
}

/// Requests per second, counted in millionths: 0.000001/s to 100 million a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate {
    micro_per_s: u64,
}

impl Rate {
    /// No requests: a pause, or the foot of a ramp.
    pub const ZERO: Rate = Rate { micro_per_s: 0 };

    /// The fastest rate. With it the sums of [`super::Schedule`] stay far inside 128 bits.
    pub const MAX: Rate = Rate {
        micro_per_s: 100_000_000_000_000,
    };

    /// Rounds to millionths of a request per second.
    ///
    /// # Errors
    /// When the figure is negative, not a number, or above [`Rate::MAX`].
    pub fn per_second(requests: f64) -> Result<Rate, PaceError> {
        let micro = (requests * 1e6).round();
        if !(0.0..=Rate::MAX.micro_per_s as f64).contains(&micro) {
            return Err(PaceError::Rate(requests));
        }
        Ok(Rate {
            micro_per_s: micro as u64,
        })
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

// One thread's part of a schedule. Of N threads, thread i sends the requests i, i + N, i + 2N and so
// on. Together they send what one thread would, at the same nanoseconds, and no thread sends in
// bursts.

/// A request that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Its number in the whole schedule, from 0.
    pub index: u64,
    /// Its intended start, in nanoseconds from the start of the load.
    pub at_ns: u64,
}

/// A walk over the requests of one thread. It allocates nothing.
#[derive(Debug, Clone)]
pub struct Share<'a> {
    schedule: &'a Schedule,
    stop: Stop,
    next_index: u64,
    step: u64,
    position: Position,
    random: Option<Walk>,
}

/// Random arrivals can only be walked, so every thread draws all of them and keeps its own.
#[derive(Debug, Clone)]
struct Walk {
    draws: Exponential,
    drawn: u64,
    units: u128,
}

impl Walk {
    /// Units up to arrival `index`: the sum of index + 1 intervals, as integers, so that the sum is
    /// the same whoever adds it up.
    fn units_at(&mut self, index: u64) -> u128 {
        while self.drawn <= index {
            self.units += (self.draws.draw() * UNITS_PER_REQUEST as f64) as u128;
            self.drawn += 1;
        }
        self.units
    }
}

impl<'a> Share<'a> {
    pub(super) fn new(schedule: &'a Schedule, thread: u32, threads: u32, stop: Stop) -> Self {
        Share {
            schedule,
            stop,
            next_index: u64::from(thread),
            step: u64::from(threads.max(1)),
            position: Position::default(),
            random: match schedule.spacing() {
                Spacing::Even => None,
                Spacing::Poisson { seed } => Some(Walk {
                    draws: Exponential::new(seed),
                    drawn: 0,
                    units: 0,
                }),
            },
        }
    }
}

impl Iterator for Share<'_> {
    type Item = Due;

    /// The next request; `None` when the schedule or the load has ended.
    fn next(&mut self) -> Option<Due> {
        let index = self.next_index;
        if self.stop.after_requests.is_some_and(|count| index >= count) {
            return None;
        }
        let units = match &mut self.random {
            None => u128::from(index) * UNITS_PER_REQUEST,
            Some(walk) => walk.units_at(index),
        };
        let at_ns = self.schedule.at(units, &mut self.position)?;
        if !self.stop.admits(index, at_ns) {
            return None;
        }
        self.next_index += self.step;
        Some(Due { index, at_ns })
    }
}

/// The size of part `thread` when `total` things are dealt out to `threads` one by one.
pub fn part_of(total: u64, thread: u32, threads: u32) -> u64 {
    let threads = u64::from(threads.max(1));
    total / threads + u64::from(u64::from(thread) < total % threads)
}

/// A stream of exponentially distributed numbers with mean 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Exponential {
    generator: Xoshiro256PlusPlus,
}

impl Exponential {
    pub fn new(seed: u64) -> Exponential {
        Exponential {
            generator: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// By inversion: -ln(u) with u uniform in (0, 1]. libm's logarithm is software, so it does not
    /// depend on the platform.
    pub fn draw(&mut self) -> f64 {
        let bits = self.generator.next_u64() >> 11;
        let uniform = (bits + 1) as f64 / (1_u64 << 53) as f64;
        -libm::log(uniform)
    }
}

/// When a load ends. The condition that is met first counts; without any it goes on until stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stop {
    /// Requests in all, over every thread.
    pub after_requests: Option<u64>,
    /// Nanoseconds from the start; a request due at this time or later is not sent.
    pub after_ns: Option<u64>,
}

impl Stop {
    /// Whether request `index` (from 0), due `at_ns` after the start, is still to be sent.
    pub fn admits(&self, index: u64, at_ns: u64) -> bool {
        self.after_requests.is_none_or(|count| index < count)
            && self.after_ns.is_none_or(|end_ns| at_ns < end_ns)
    }
}
