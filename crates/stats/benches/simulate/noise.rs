//! Noise models: what disturbs consecutive runs, on the log scale.
//!
//! Defines the eleven kinds of series used to evaluate the tests. Start at [`MODELS`].

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::f64::consts::TAU;

/// A named kind of noise.
#[derive(Clone, Copy)]
pub struct NoiseModel {
    pub name: &'static str,
    /// One value per slot, in run order.
    pub series: fn(&mut SimulationRandom, usize) -> Vec<f64>,
}

/// All models, the nine with published reference figures first.
pub const MODELS: [NoiseModel; 11] = [
    NoiseModel { name: "normal 2%", series: |random, slots| normal_noise(random, slots, 0.02) },
    NoiseModel { name: "skew", series: skewed_noise },
    NoiseModel { name: "bimodal", series: bimodal_noise },
    NoiseModel { name: "outliers", series: outlier_noise },
    NoiseModel { name: "drift", series: drifting_noise },
    NoiseModel { name: "step", series: stepped_noise },
    NoiseModel { name: "AR(.95)", series: slow_wander },
    NoiseModel { name: "AR(.6)", series: |random, slots| autoregressive_noise(random, slots, 0.6) },
    NoiseModel { name: "period-2", series: |random, slots| periodic_noise(random, slots, 1) },
    NoiseModel { name: "normal 1%", series: |random, slots| normal_noise(random, slots, 0.01) },
    NoiseModel { name: "period-4", series: |random, slots| periodic_noise(random, slots, 2) },
];

/// A seeded source of random numbers.
pub struct SimulationRandom(Xoshiro256PlusPlus);

impl SimulationRandom {
    /// Returns the stream of a repetition of a cell.
    pub fn new(cell: u64, repetition: u64) -> SimulationRandom {
        SimulationRandom(Xoshiro256PlusPlus::seed_from_u64(cell << 40 | repetition))
    }

    /// Uniform in 0..1, never 0.
    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Uniform below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        (self.uniform() * count as f64) as usize
    }

    /// Standard normal (Box and Muller, Annals of Mathematical Statistics 29, 1958).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (TAU * self.uniform()).cos()
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }

    /// Returns true with this probability.
    pub fn happens_with(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }
}

/// Normal noise of this standard deviation.
pub fn normal_noise(random: &mut SimulationRandom, slots: usize, deviation: f64) -> Vec<f64> {
    (0..slots).map(|_| deviation * random.normal()).collect()
}

/// Laplace noise: a sharper peak and heavier tails than the normal distribution.
pub fn laplace_noise(random: &mut SimulationRandom, slots: usize) -> Vec<f64> {
    let mut one = || -random.uniform().ln();
    (0..slots).map(|_| 0.02 * (one() - one())).collect()
}

/// Student's t with two degrees of freedom: no variance.
pub fn student_2(random: &mut SimulationRandom, slots: usize) -> Vec<f64> {
    let mut one = || random.normal() / (-random.uniform().ln()).sqrt();
    (0..slots).map(|_| 0.02 * one()).collect()
}

/// Cauchy noise: no mean. So narrow that no exponential of a value is infinite.
pub fn cauchy_noise(random: &mut SimulationRandom, slots: usize) -> Vec<f64> {
    let mut one = || (0.5 * TAU * (random.uniform() - 0.5)).tan();
    (0..slots).map(|_| 1e-5 * one()).collect()
}

/// Normal noise of 1%, and twenty-one times that with probability .1.
pub fn mixture_noise(random: &mut SimulationRandom, slots: usize) -> Vec<f64> {
    let mut series = normal_noise(random, slots, 0.01);
    for value in &mut series {
        if random.happens_with(0.1) {
            *value *= 21.0;
        }
    }
    series
}

fn skewed_noise(random: &mut SimulationRandom, slots: usize) -> Vec<f64> {
    (0..slots).map(|_| (0.02 * random.normal().exp()).ln_1p()).collect()
}

fn bimodal_noise(random: &mut SimulationRandom, slots: usize) -> Vec<f64> {
    let mut series = normal_noise(random, slots, 0.01);
    for value in &mut series {
        if random.happens_with(0.35) {
            *value += 0.06;
        }
    }
    series
}

fn outlier_noise(random: &mut SimulationRandom, slots: usize) -> Vec<f64> {
    let mut series = normal_noise(random, slots, 0.015);
    for value in &mut series {
        if random.happens_with(0.05) {
            *value += (-0.4 * random.uniform().ln()).ln_1p();
        }
    }
    series
}

fn drifting_noise(random: &mut SimulationRandom, slots: usize) -> Vec<f64> {
    let mut series = normal_noise(random, slots, 0.01);
    for (slot, value) in series.iter_mut().enumerate() {
        *value += 0.03 * slot as f64 / (slots - 1) as f64;
    }
    series
}

fn stepped_noise(random: &mut SimulationRandom, slots: usize) -> Vec<f64> {
    let mut series = normal_noise(random, slots, 0.01);
    let height = if random.happens_with(0.5) { 0.02 } else { -0.02 };
    let from = random.below(slots);
    series[from..].iter_mut().for_each(|value| *value += height);
    series
}

/// First-order autoregression with a stationary standard deviation of 0.02.
fn autoregressive_noise(random: &mut SimulationRandom, slots: usize, memory: f64) -> Vec<f64> {
    let fresh = (1.0 - memory * memory).sqrt();
    let mut level = random.normal();
    let mut next = || {
        let current = level;
        level = memory * level + fresh * random.normal();
        0.02 * current
    };
    (0..slots).map(|_| next()).collect()
}

fn slow_wander(random: &mut SimulationRandom, slots: usize) -> Vec<f64> {
    let mut series = normal_noise(random, slots, 0.005);
    let wander = autoregressive_noise(random, slots, 0.95);
    series.iter_mut().zip(wander).for_each(|(value, level)| *value += level);
    series
}

/// Alternates `half` slots without and `half` slots with an offset drawn once per series.
fn periodic_noise(random: &mut SimulationRandom, slots: usize, half: usize) -> Vec<f64> {
    let mut series = normal_noise(random, slots, 0.01);
    let offset = 0.01 * random.normal();
    for (slot, value) in series.iter_mut().enumerate() {
        if slot / half % 2 == 1 {
            *value += offset;
        }
    }
    series
}
