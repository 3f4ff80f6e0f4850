//! One thread's part of a schedule.
//!
//! Of N threads, thread i sends the requests i, i + N, i + 2N and so on. Together they send what one
//! thread would, at the same nanoseconds, and no thread sends in bursts.

use super::schedule::Position;
use super::stage::UNITS_PER_REQUEST;
use super::{Schedule, Spacing, Stop};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

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
