//! Exponential intervals from a seed, the same on every machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

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
