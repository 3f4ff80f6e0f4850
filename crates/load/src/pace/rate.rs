//! A rate of requests as an integer, so that schedules are exact.

use super::PaceError;

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
