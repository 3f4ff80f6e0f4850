//! Deterministic, realistic-looking numbers for the gallery.

/// A deterministic source of noise (a linear congruential generator with the multiplier of Knuth's
/// MMIX).
pub struct Noise(pub u64);

impl Noise {
    pub fn uniform(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Approximately normal with mean 0 and deviation 1: the sum of twelve uniform numbers.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    pub fn around(&mut self, mean: f64, deviation: f64, count: usize) -> Vec<f64> {
        (0..count).map(|_| mean + deviation * self.normal()).collect()
    }
}
