//! Time per iteration of each batch, in picoseconds, to within half a percent: 128 steps per power of
//! two, as in HdrHistogram.

const STEP_BITS: u32 = 7;
const STEPS: usize = 1 << STEP_BITS;
const BUCKETS: usize = (64 - STEP_BITS as usize + 1) * STEPS;

#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u32>,
    pub total: u64,
    least: u64,
}

impl Histogram {
    pub fn new() -> Histogram {
        Histogram {
            counts: vec![0; BUCKETS],
            total: 0,
            least: u64::MAX,
        }
    }

    pub fn add(&mut self, ps: u64) {
        let shift = (64 - STEP_BITS - 1).saturating_sub(ps.leading_zeros());
        self.counts[shift as usize * STEPS + (ps >> shift) as usize] += 1;
        self.total += 1;
        self.least = self.least.min(ps);
    }

    pub fn join(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.least = self.least.min(other.least);
    }

    /// Returns the minimum and three quantiles; nothing if there was no batch.
    pub fn summary(&self) -> Vec<u64> {
        let quantiles = [5, 25, 50].map(|hundredths| self.quantile(hundredths));
        let all = std::iter::once(self.least).chain(quantiles);
        all.filter(|_| self.total > 0).collect()
    }

    /// Returns the middle of the bucket below which this percentage of all times lies.
    fn quantile(&self, hundredths: u64) -> u64 {
        let wanted = (self.total * hundredths).div_ceil(100);
        let mut seen = 0;
        let found = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            seen >= wanted && seen > 0
        });
        let at = found.unwrap_or(0);
        // From the second power of two on, a bucket's index implies the leading bit of its times.
        let shift = (at / STEPS).saturating_sub(1);
        let low = ((at - shift * STEPS) as u64) << shift;
        low + ((1 << shift) >> 1)
    }
}
