//! What one run of a snippet gave: iterations by window, and single batches.

/// What one run of a piece of code gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measured {
    /// Workers that took part.
    pub workers: u32,
    /// The windows, or samples of fixed length, in order.
    pub windows: Vec<Window>,
    /// Iterations per second over all windows together. It is less biased than the mean of short windows, which end
    /// when an iteration does: the mean of 1/x is more than 1 divided by the mean of x.
    pub per_s: Option<f64>,
    /// What single batches took; absent if there was none after the warm-up.
    pub batches: Option<Batches>,
}

/// One stretch of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Iterations per second of all workers together.
    pub per_s: f64,
    /// Its length, in nanoseconds.
    pub elapsed_ns: f64,
    /// Iterations of all workers; those that were under way at its ends count in part.
    pub iterations: f64,
}

/// Time per iteration of single batches, in nanoseconds: quantiles of each worker, in the mean of the workers.
/// A batch that was not disturbed tells what the code costs, however busy the machine is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batches {
    /// The quickest.
    pub min_ns: f64,
    /// A twentieth was quicker.
    pub p5_ns: f64,
    /// A quarter was quicker.
    pub p25_ns: f64,
    /// Half were quicker.
    pub median_ns: f64,
    /// How many there were.
    pub count: u64,
}

impl Measured {
    /// Time per iteration and worker over all windows, in nanoseconds.
    pub fn time_ns(&self) -> Option<f64> {
        Some(f64::from(self.workers) / self.per_s? * 1e9)
    }

    /// By how much iterations took longer in the mean than in the median batch: 1 on a quiet machine.
    pub fn disturbance(&self) -> Option<f64> {
        Some(self.time_ns()? / self.batches?.median_ns)
    }
}
