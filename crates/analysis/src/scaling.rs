//! How throughput depends on concurrency: where it stops growing, and the law that it follows.
//!
//! The decision and the fit are those of `speedwell_stats`; here they meet: the curve is fitted to the means of
//! the levels that the decision counted. It does not know what a worker does, so that loads and one-liners share
//! it. Start at [`scaling`].

use speedwell_stats::usl::{self, Point};

pub use speedwell_stats::saturation_search::{
    Answer, Change, Level, Next, Rules, Standing, Status, next,
};
pub use speedwell_stats::usl::{FEWEST_LEVELS, LEAST_R_SQUARED, Parameter, Usl, UslError};

/// Confidence with which a peak must be known before it is reported.
const CONFIDENCE: f64 = 0.95;

/// What levels of concurrency show together.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// Where throughput stops growing.
    pub answer: Answer,
    /// The Universal Scalability Law, or why it is refused.
    pub curve: Result<Usl, UslError>,
    /// Where the law has its greatest throughput, if that is known.
    pub peak: Option<f64>,
    /// What the answer rests on: the throughput of every visit, with its concurrency.
    pub visits: Vec<(u32, f64)>,
}

/// What levels show; `None` if none of them counts.
pub fn scaling(levels: &[Level]) -> Option<Scaling> {
    let answer = speedwell_stats::saturation_search::answer(levels)?;
    let point = |standing: &Standing| Point {
        concurrency: f64::from(standing.concurrency),
        throughput: standing.throughput,
        // Noise is about proportional to throughput, and visits average it out.
        weight: standing.visits as f64 / (standing.throughput * standing.throughput),
    };
    let points: Vec<Point> = answer.standings.iter().map(point).collect();
    let curve = usl::fit(&points);
    let counts = |level: &&Level| {
        let mut standings = answer.standings.iter();
        standings.any(|standing| standing.concurrency == level.concurrency)
    };
    let visits = levels.iter().filter(counts).flat_map(|level| {
        let throughputs = level.throughputs.iter();
        throughputs.map(|throughput| (level.concurrency, *throughput))
    });
    Some(Scaling {
        visits: visits.collect(),
        peak: curve.ok().and_then(|curve| curve.peak(CONFIDENCE)),
        curve,
        answer,
    })
}
