//! Noise of sessions over time, on the log scale, and series made from it.
//!
//! Defines the kinds of series used to evaluate the search. Start at [`noisy_series`].

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use speedwell_stats::trend::MeasuredPoint;
use std::f64::consts::TAU;

/// A seeded source of random numbers.
pub struct TrendRandom(Xoshiro256StarStar);

impl TrendRandom {
    /// Creates the stream of a seed, whose bits are spread by splitmix64 (Steele, Lea and Flood,
    /// OOPSLA 2014).
    pub fn new(seed: u64) -> TrendRandom {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut state = seed.wrapping_mul(STEP) ^ 0xD1B5_4A32_D192_ED03;
        let mut bytes = [0; 32];
        for word in bytes.chunks_mut(8) {
            state = state.wrapping_add(STEP);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            word.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
        }
        TrendRandom(Xoshiro256StarStar::from_seed(bytes))
    }

    /// Uniform between 0 and 1, both excluded.
    pub fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Uniform below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        (self.uniform() * count as f64) as usize
    }

    /// Standard normal (Box and Muller, Annals of Mathematical Statistics 29, 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (TAU * self.uniform()).cos()
    }

    fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }
}

/// Noise of a series in which nothing changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrendNoise {
    /// Normal.
    Normal,
    /// A lower bound and a long upper tail.
    Lognormal,
    /// Student's t with two degrees of freedom: no variance.
    Student2,
    /// Normal, and one point in 25 far above.
    Spikes,
    /// One of two layouts, drawn for every point.
    TwoLayouts,
    /// Autoregression of this correlation.
    Dependent(f64),
    /// One of three machines, 5% and 12% slower than the first.
    ThreeMachines,
    /// A slope of 5% over the whole series.
    Drift,
    /// Two layouts, switched before one point in 20.
    Sticky,
    /// A figure of two digits, so that most values are tied.
    Ties,
    /// Normal, with a third of the deviation from the middle on.
    Calming,
    /// Another machine from the middle on, 12% slower.
    MachineSwap,
}

/// Generates `count` points of noise of about this deviation.
pub fn noisy_series(
    noise: TrendNoise,
    count: usize,
    deviation: f64,
    random: &mut TrendRandom,
) -> Vec<MeasuredPoint> {
    // Drawn for every kind, so that kinds with the same seed share their normal numbers.
    let (mut level, mut is_slow) = (random.normal(), false);
    let one = |index: usize| {
        let mut machine = 0;
        let log = match noise {
            TrendNoise::Normal => deviation * random.normal(),
            TrendNoise::Lognormal => (1.0 + deviation * random.normal().exp()).ln(),
            TrendNoise::Student2 => 0.6 * deviation * random.normal() / random.exponential().sqrt(),
            TrendNoise::Spikes => {
                let is_spike = random.uniform() < 0.04;
                let spike = if is_spike { 0.3 * random.exponential() } else { 0.0 };
                0.75 * deviation * random.normal() + spike
            }
            TrendNoise::TwoLayouts => {
                let within = 0.5 * deviation * random.normal();
                within + if random.uniform() < 0.35 { 2.5 * deviation } else { 0.0 }
            }
            TrendNoise::Dependent(correlation) => {
                let current = deviation * level;
                level = correlation * level
                    + (1.0 - correlation * correlation).sqrt() * random.normal();
                current
            }
            TrendNoise::ThreeMachines => {
                machine = random.below(3);
                deviation * random.normal() + [0.0, 0.05, 0.12][machine]
            }
            TrendNoise::Drift => deviation * random.normal() + 0.05 * index as f64 / count as f64,
            TrendNoise::Sticky => {
                is_slow ^= random.uniform() < 0.05;
                0.5 * deviation * random.normal() + if is_slow { 2.5 * deviation } else { 0.0 }
            }
            TrendNoise::Ties => {
                ((100.0 * (1.0 + deviation * random.normal())).round() / 100.0).ln()
            }
            TrendNoise::Calming => {
                deviation * random.normal() * if index >= count / 2 { 0.35 } else { 1.0 }
            }
            TrendNoise::MachineSwap => {
                machine = usize::from(index >= count / 2);
                deviation * random.normal() + [0.0, 0.12][machine]
            }
        };
        MeasuredPoint { value: log.exp(), machine: machine as u32, position: index as u32 }
    };
    (0..count).map(one).collect()
}

/// Scales all points from `at` on by 1 + `change`.
pub fn with_step(mut course: Vec<MeasuredPoint>, at: usize, change: f64) -> Vec<MeasuredPoint> {
    course[at..].iter_mut().for_each(|point| point.value *= 1.0 + change);
    course
}
