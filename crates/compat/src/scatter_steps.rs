//! From one x value to the next in Node.js core's scatter table: ratio, test, effect and exponent.
//!
//! Decides which points are neighbours and when a mean is a doubtful summary; it must not know
//! text. Start at [`steps`].

use super::scatter_table::{CONFIDENCE, ScatterPoint};
use speedwell_analysis::{finite, is_skewed, mann_whitney_p, reachable_p};
use speedwell_stats::Interval;
use speedwell_stats::describe::median;
pub use speedwell_stats::effect::Magnitude;
use speedwell_stats::effect::cliffs_delta;
use speedwell_stats::interval::median_binomial;

/// Two neighbours of the same category.
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterStep<'a> {
    /// The point with the smaller x value.
    pub from: &'a ScatterPoint,
    /// The next one.
    pub to: &'a ScatterPoint,
    /// Mean rate of the next one as a multiple.
    pub ratio: f64,
    /// Two-sided Mann-Whitney p value.
    pub p: Option<f64>,
    /// Cliff's delta; positive where the rate grows.
    pub cliffs_delta: Option<f64>,
    /// Growth of the logarithm of the rate by that of the x value, where x values are positive
    /// numbers.
    pub exponent: Option<f64>,
}

impl ScatterStep<'_> {
    /// Cliff's delta in words.
    pub fn magnitude(&self) -> Option<Magnitude> {
        self.cliffs_delta.map(Magnitude::of)
    }
}

impl ScatterPoint {
    /// The median rate.
    pub fn median(&self) -> f64 {
        median(&self.rates)
    }

    /// 95 % interval of the median between two of the rates; `None` for fewer than 6.
    pub fn median_interval(&self) -> Option<Interval> {
        median_binomial(&self.rates, CONFIDENCE)
    }

    /// Whether the mean is a doubtful summary of the rates.
    pub fn is_skewed(&self) -> bool {
        let half = self.half_width.unwrap_or(0.0);
        is_skewed(&self.rates, self.mean - half, self.mean + half)
    }
}

/// The steps between neighbours in the order of `points`, category by category in order of first
/// appearance; `numbers` are the x values where they are numbers.
pub fn steps<'a>(points: &'a [ScatterPoint], numbers: Option<&[f64]>) -> Vec<ScatterStep<'a>> {
    let mut categories: Vec<usize> = Vec::new();
    for point in points {
        if !categories.contains(&point.category) {
            categories.push(point.category);
        }
    }
    let line = |category: usize| -> Vec<&'a ScatterPoint> {
        let on_it = points.iter().filter(|point| point.category == category);
        on_it.collect()
    };
    let mut steps = Vec::new();
    for line in categories.into_iter().map(line) {
        let pairs = line.windows(2);
        steps.extend(pairs.map(|pair| step(pair[0], pair[1], numbers)));
    }
    steps
}

fn step<'a>(
    from: &'a ScatterPoint,
    to: &'a ScatterPoint,
    numbers: Option<&[f64]>,
) -> ScatterStep<'a> {
    let ratio = to.mean / from.mean;
    let growth = numbers.map(|numbers| (numbers[to.x] / numbers[from.x]).ln());
    ScatterStep {
        from,
        to,
        ratio,
        p: finite(mann_whitney_p(&from.rates, &to.rates)),
        cliffs_delta: finite(cliffs_delta(&from.rates, &to.rates)),
        exponent: growth.map(|growth| ratio.ln() / growth).and_then(finite),
    }
}

/// A warning when the steps with the fewest rows cannot reach a small p value.
pub fn on_reachable_p(steps: &[ScatterStep<'_>]) -> Option<String> {
    reachable_p(
        steps
            .iter()
            .map(|step| (step.from.rates.len(), step.to.rates.len())),
    )
}
