//! One stretch of a schedule: a rate that changes linearly, and the exact integral over it.
//!
//! The integral is counted in [`UNITS_PER_REQUEST`]ths of a request. A rate is an integer of
//! millionths per second and a time an integer of nanoseconds, so their product is an integer of
//! 1e-15 requests; the factor 2 takes in the half of the ramp's area.

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
