//! Evaluates how throughput depends on concurrency: where throughput stops growing, and which law
//! it follows.
//!
//! Combines two parts of `speedwell_stats`: one decides where throughput stops growing, and the
//! other fits a curve to the means of the accepted levels. This module does not depend on what a
//! worker does, so it serves both loads and snippets. Start at [`evaluate_scaling`].

use speedwell_stats::usl::{self, UslPoint};

pub use speedwell_stats::saturation_search::{
    ConcurrencyLevel, LevelChange, LevelState, LevelStatus, SaturationAnswer, SaturationRules,
    add_visits, next_level,
};
pub use speedwell_stats::usl::{MIN_LEVELS, MIN_R_SQUARED, UslError, UslFit, UslParameter};

/// Confidence required to report a peak.
const CONFIDENCE: f64 = 0.95;

/// Joint result of several levels of concurrency.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalingFindings {
    /// Where throughput stops growing.
    pub answer: SaturationAnswer,
    /// Fit of the Universal Scalability Law, or why there is none.
    pub curve: Result<UslFit, UslError>,
    /// Concurrency at which the fitted law predicts the highest throughput, if known.
    pub peak: Option<f64>,
    /// Data behind the answer: concurrency and throughput of each measurement ("visit") of a level.
    pub visits: Vec<(u32, f64)>,
}

impl ScalingFindings {
    /// The first level at which several workers together achieve less than one worker alone,
    /// because they hinder each other; `None` if there is no such level. The intervals of this
    /// level and of the level with one worker must not overlap.
    pub fn hindered_level(&self) -> Option<&LevelState> {
        let standings = &self.answer.standings;
        let single_worker = standings.iter().find(|level| level.concurrency == 1)?.interval?;
        let is_below = |level: &&LevelState| {
            let interval = level.interval.filter(|_| level.concurrency > 1);
            interval.is_some_and(|interval| interval.high < single_worker.low)
        };
        standings.iter().find(is_below)
    }
}

/// Evaluates the levels. Returns `None` if no level is valid.
pub fn evaluate_scaling(levels: &[ConcurrencyLevel]) -> Option<ScalingFindings> {
    let answer = speedwell_stats::saturation_search::search_answer(levels)?;
    let point = |standing: &LevelState| UslPoint {
        concurrency: f64::from(standing.concurrency),
        throughput: standing.throughput,
        // Noise is roughly proportional to throughput and averages out over visits.
        weight: standing.visits as f64 / (standing.throughput * standing.throughput),
    };
    let points: Vec<UslPoint> = answer.standings.iter().map(point).collect();
    let curve = usl::fit_usl(&points);
    let is_accepted = |level: &&ConcurrencyLevel| {
        let mut standings = answer.standings.iter();
        standings.any(|standing| standing.concurrency == level.concurrency)
    };
    let visits = levels.iter().filter(is_accepted).flat_map(|level| {
        let throughputs = level.throughputs.iter();
        throughputs.map(|throughput| (level.concurrency, *throughput))
    });
    Some(ScalingFindings {
        visits: visits.collect(),
        peak: curve.ok().and_then(|curve| curve.peak_concurrency(CONFIDENCE)),
        curve,
        answer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels of 1, 2, 4 ... workers with three visits each, 1% apart.
    fn levels(throughputs: &[f64]) -> Vec<ConcurrencyLevel> {
        let level = |(at, throughput): (usize, &f64)| ConcurrencyLevel {
            concurrency: 1 << at,
            throughputs: [0.99, 1.0, 1.01].map(|share| share * throughput).to_vec(),
            is_spoilt: false,
        };
        throughputs.iter().enumerate().map(level).collect()
    }

    fn hindered(throughputs: &[f64]) -> Option<u32> {
        let scaling = evaluate_scaling(&levels(throughputs)).unwrap();
        scaling.hindered_level().map(|one| one.concurrency)
    }

    #[test]
    fn workers_hinder_each_other_if_several_achieve_less_than_one() {
        assert_eq!(hindered(&[1000.0, 600.0, 400.0]), Some(2));
        assert_eq!(hindered(&[1000.0, 1900.0, 500.0]), Some(4));
        assert_eq!(hindered(&[1000.0, 1900.0, 3000.0]), None);
        assert_eq!(hindered(&[1000.0, 1000.0, 995.0]), None, "no difference beyond noise");
    }
}
