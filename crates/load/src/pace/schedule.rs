//! The open model: the time of every request, known before the first is sent.
//!
//! Each time follows from the request's number, never from the time before it, so nothing adds up:
//! the last request of an hour is as exact as the first. Random arrivals are the same schedule on a
//! stretched clock: a Poisson process of rate 1 whose arrivals are placed by the integral of the
//! rate, which is a Poisson process of that rate (Lewis and Shedler 1979).

use super::stage::UNITS_PER_REQUEST;
use super::{PaceError, Share, Stage, Stop};

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
