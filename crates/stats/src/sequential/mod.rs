//! Implements sequential designs, which determine when a comparison may stop measuring, and which
//! claims it may then make.
//!
//! A look is an interim analysis: a point at which measuring may stop. This module computes the
//! limits of each look, such that all looks together reject equal sides with the requested
//! probability. The module also applies these limits to observations in blocks. Start at
//! [`SequentialDesign`], then [`decide_at_look`]. For many comparisons at once, continue with
//! [`RepeatedP`] and [`ComparisonFamily`].

mod family;

pub use family::{AdjustPValues, ComparisonFamily, RepeatedP, survives_correction};

use crate::distribution::{decreasing_root, normal};
use crate::interval::Interval;
use crate::test::stratified::{BlockObservation, StratifiedError, stratified_rank};
use std::fmt;
use std::sync::LazyLock;

// A design: the looks, and how much error each may spend. The limits follow from the spending
// function alpha t^rho of Kim and DeMets (Biometrika 74, 1987).

/// Looks of the default design in runs per side. In blocks of four, every look ends with a whole
/// block.
const DEFAULT_LOOKS: [usize; 5] = [8, 14, 20, 26, 32];
/// Accepted probability of declaring equal sides different.
const DEFAULT_ALPHA: f64 = 0.05;
/// The exponent rho of the spending function, between Pocock's early stopping (1) and O'Brien and
/// Fleming's late stopping (3).
const DEFAULT_RHO: f64 = 2.0;

/// One point at which the test may stop measuring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DesignLook {
    /// Index among the looks, from 0.
    pub index: usize,
    /// Runs per side at this look.
    pub n: usize,
    /// The test rejects at a two-sided p-value of at most this.
    pub p_limit: f64,
    /// The limit for |z| that corresponds to `p_limit`.
    pub z_limit: f64,
    /// Probability of having rejected by this look if the sides are equal.
    pub cumulative_alpha: f64,
    /// Whether there is no later look.
    pub is_last: bool,
}

/// A schedule of looks that controls the probability of a false rejection over all of them.
///
/// It must be fixed before the first run: looks that are moved after seeing data void the
/// guarantee.
#[derive(Debug, Clone, PartialEq)]
pub struct SequentialDesign {
    looks: Vec<DesignLook>,
    alpha: f64,
}

/// Why a design is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DesignError {
    /// There are no looks, or they begin with 0 or do not increase.
    Looks,
    /// Alpha is not between 0 and 1.
    Alpha,
    /// Rho is not positive and finite.
    Rho,
}

impl fmt::Display for DesignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DesignError::Looks => "looks must be positive and increase",
            DesignError::Alpha => "alpha must lie between 0 and 1",
            DesignError::Rho => "rho must be positive",
        })
    }
}

impl std::error::Error for DesignError {}

impl SequentialDesign {
    /// Creates a design with the given looks (runs per side). Up to the look at n runs, the design
    /// spends the error alpha (n / last)^rho.
    ///
    /// # Panics
    ///
    /// Panics if [`SequentialDesign::try_new`] fails; use that function for user input.
    pub fn new(looks: &[usize], alpha: f64, rho: f64) -> SequentialDesign {
        match SequentialDesign::try_new(looks, alpha, rho) {
            Ok(design) => design,
            Err(error) => panic!("{error}"),
        }
    }

    /// Like [`SequentialDesign::new`], for arguments that may be invalid.
    ///
    /// # Errors
    ///
    /// See [`DesignError`].
    pub fn try_new(looks: &[usize], alpha: f64, rho: f64) -> Result<SequentialDesign, DesignError> {
        let last = *looks.last().ok_or(DesignError::Looks)?;
        if looks[0] == 0 || !looks.is_sorted_by(|a, b| a < b) {
            return Err(DesignError::Looks);
        }
        if !(alpha > 0.0 && alpha < 1.0) {
            return Err(DesignError::Alpha);
        }
        if !(rho > 0.0 && rho.is_finite()) {
            return Err(DesignError::Rho);
        }
        let times: Vec<f64> = looks.iter().map(|&n| n as f64 / last as f64).collect();
        let cumulative: Vec<f64> = times.iter().map(|time| alpha * time.powf(rho)).collect();
        let limits = limits_for_spending(&times, &cumulative);
        let look = |index: usize| DesignLook {
            index,
            n: looks[index],
            p_limit: normal::two_sided(limits[index]),
            z_limit: limits[index],
            cumulative_alpha: cumulative[index],
            is_last: index + 1 == looks.len(),
        };
        Ok(SequentialDesign { looks: (0..looks.len()).map(look).collect(), alpha })
    }

    /// Creates a design with one look at `n` runs per side: the ordinary test.
    ///
    /// # Panics
    ///
    /// Panics if `n` is 0 or `alpha` is not between 0 and 1.
    pub fn single_look(n: usize, alpha: f64) -> SequentialDesign {
        SequentialDesign::new(&[n], alpha, 1.0)
    }

    /// The probability of rejecting at one of the looks if the sides are equal.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The looks with their limits, in order.
    pub fn limits(&self) -> &[DesignLook] {
        &self.looks
    }

    /// The look at exactly `n` runs per side, if there is one.
    pub fn look_at(&self, n: usize) -> Option<DesignLook> {
        self.looks.iter().find(|look| look.n == n).copied()
    }

    /// The next look after `n` runs per side; `None` after the last one.
    pub fn next_after(&self, n: usize) -> Option<DesignLook> {
        self.looks.iter().find(|look| look.n > n).copied()
    }

    /// The largest number of runs per side.
    pub fn max_runs(&self) -> usize {
        self.looks.last().map_or(0, |look| look.n)
    }
}

impl Default for SequentialDesign {
    /// Looks at 8, 14, 20, 26 and 32 runs per side, alpha 5 %, rho 2.
    fn default() -> SequentialDesign {
        static DEFAULT: LazyLock<SequentialDesign> =
            LazyLock::new(|| SequentialDesign::new(&DEFAULT_LOOKS, DEFAULT_ALPHA, DEFAULT_RHO));
        DEFAULT.clone()
    }
}

// Limits for |z| at each look, by recursive numerical integration. The score is a Brownian motion
// in information time. The density of the paths that have not crossed a limit is carried from look
// to look (Armitage, McPherson and Rowe, JRSS A 132, 1969).

/// Grid points per standard deviation of the next increment. Simpson's rule is then accurate to
/// about 1e-7 of a look's probability, a hundredth of the last digit shown.
const POINTS_PER_DEVIATION: f64 = 20.0;

/// Increments of more than this many standard deviations are ignored: their weight is below 1e-18.
const MAX_DEVIATIONS: f64 = 9.0;

/// The limits of |z|, one per look. If the sides are equal, the probability of having crossed a
/// limit by look k is `cumulative[k]`.
///
/// `times` are the information times, increasing and positive; only their ratios matter.
pub fn limits_for_spending(times: &[f64], cumulative: &[f64]) -> Vec<f64> {
    let mut walk = ScoreWalk::default();
    let mut spent = 0.0;
    let mut limits = Vec::with_capacity(times.len());
    for (&time, &target) in times.iter().zip(cumulative) {
        let increment = target - spent;
        // Beyond 38 standard deviations, the tail probability underflows to zero in a double.
        let score = decreasing_root(0.0, 38.0 * time.sqrt(), |s| {
            walk.crossing_probability(time, s) - increment
        });
        limits.push(score / time.sqrt());
        walk.advance_to(time, score);
        spent = target;
    }
    limits
}

/// Paths that have not crossed a limit so far. A weighted grid holds their scores at the time of
/// the last look. Before the first look, all scores are zero.
struct ScoreWalk {
    time: f64,
    /// Score and its part of the probability (density times Simpson weight).
    grid: Vec<(f64, f64)>,
}

impl Default for ScoreWalk {
    fn default() -> ScoreWalk {
        ScoreWalk { time: 0.0, grid: vec![(0.0, 1.0)] }
    }
}

impl ScoreWalk {
    /// Probability of staying within all limits before `time`, and then being beyond +-`limit` (a
    /// score) at `time`.
    fn crossing_probability(&self, time: f64, limit: f64) -> f64 {
        let deviation = (time - self.time).sqrt();
        let tail_from = |score: f64| {
            normal::upper_tail((limit - score) / deviation)
                + normal::upper_tail((limit + score) / deviation)
        };
        self.grid.iter().map(|&(score, share)| share * tail_from(score)).sum()
    }

    /// Advances to `time`, keeping the paths within +-`limit`.
    fn advance_to(&mut self, time: f64, limit: f64) {
        let deviation = (time - self.time).sqrt();
        let half_count = (limit / deviation * POINTS_PER_DEVIATION).ceil().max(10.0) as usize;
        let width = limit / half_count as f64;
        let moved = (0..=2 * half_count).map(|index| {
            let score = index as f64 * width - limit;
            let simpson = if index == 0 || index == 2 * half_count {
                1.0
            } else if index % 2 == 1 {
                4.0
            } else {
                2.0
            };
            (score, self.score_density(score, deviation) * simpson * width / 3.0)
        });
        self.grid = moved.collect();
        self.time = time;
    }

    /// Density of the next score.
    fn score_density(&self, score: f64, deviation: f64) -> f64 {
        let start =
            self.grid.partition_point(|&(from, _)| from < score - MAX_DEVIATIONS * deviation);
        let nearby = self.grid[start..].iter();
        nearby
            .take_while(|&&(from, _)| from <= score + MAX_DEVIATIONS * deviation)
            .map(|&(from, share)| share * normal::density((score - from) / deviation) / deviation)
            .sum()
    }
}

// The decision at a look, by its limits and the stratified rank test.

/// Default of the smallest relative change that matters: 2 %.
pub const DEFAULT_DELTA: f64 = 0.02;

/// Decision at a look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LookDecision {
    /// The sides differ.
    Rejected {
        /// Two-sided p-value, at most the limit of the look.
        p: f64,
        /// Candidate over baseline.
        ratio: f64,
        /// Repeated interval of the ratio. It uses the limit of the look, and so is valid despite
        /// earlier looks (Jennison and Turnbull, JRSS B 51, 1989).
        interval: Interval,
    },
    /// The sides differ by less than delta.
    Equivalent,
    /// Neither: continue measuring, or, after the last look, report "unclear".
    GoOn,
}

/// Decides at `look`, which must be a look of the design that was made before the first run.
///
/// `delta` is the relative change below which sides count as equal, such as 0.02; 0 disables the
/// equivalence stop. That stop needs two one-sided tests at half of the look's limit (Schuirmann,
/// J. Pharmacokinetics 15, 1987): the candidate must test below the baseline when its logarithms
/// are lowered by ln(1 + delta), and above the baseline when they are raised by the same amount.
///
/// # Errors
///
/// Fails under the same conditions as [`stratified_rank`].
pub fn decide_at_look(
    observations: &[BlockObservation],
    look: &DesignLook,
    delta: f64,
) -> Result<LookDecision, StratifiedError> {
    let test = stratified_rank(observations)?;
    if test.p <= look.p_limit {
        return Ok(LookDecision::Rejected {
            p: test.p,
            ratio: test.ratio(),
            interval: test.interval_at(look.p_limit),
        });
    }
    let theta = delta.ln_1p();
    let level = 0.5 * look.p_limit;
    let is_equivalent = delta > 0.0
        && test.test_shifted(theta).lower <= level
        && test.test_shifted(-theta).upper <= level;
    Ok(if is_equivalent { LookDecision::Equivalent } else { LookDecision::GoOn })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The probability that |z| crosses `limits` at one of the looks if the sides are equal.
    fn probability_to_cross(times: &[f64], limits: &[f64]) -> f64 {
        let mut walk = ScoreWalk::default();
        let mut crossed = 0.0;
        for (&time, &limit) in times.iter().zip(limits) {
            let score = limit * time.sqrt();
            crossed += walk.crossing_probability(time, score);
            walk.advance_to(time, score);
        }
        crossed
    }

    #[test]
    fn a_single_look_design_has_the_limits_of_the_ordinary_test() {
        let design = SequentialDesign::single_look(30, 0.05);
        let look = design.look_at(30).unwrap();
        assert!((look.p_limit - 0.05).abs() < 1e-12 && look.is_last);
        assert!((look.z_limit - 1.959963984540054).abs() < 1e-12);
    }

    #[test]
    fn looks_are_found_by_their_number_of_runs() {
        let design = SequentialDesign::default();
        assert_eq!(design.look_at(14).map(|look| look.index), Some(1));
        assert_eq!(design.look_at(15), None);
        assert_eq!(design.next_after(14).map(|look| look.n), Some(20));
        assert_eq!(design.next_after(0).map(|look| look.n), Some(8));
        assert_eq!(design.next_after(32), None);
        assert_eq!(design.max_runs(), 32);
        assert!(design.look_at(32).unwrap().is_last);
    }

    #[test]
    fn invalid_designs_are_refused() {
        assert_eq!(SequentialDesign::try_new(&[], 0.05, 2.0), Err(DesignError::Looks));
        assert_eq!(SequentialDesign::try_new(&[0, 8], 0.05, 2.0), Err(DesignError::Looks));
        assert_eq!(SequentialDesign::try_new(&[8, 8], 0.05, 2.0), Err(DesignError::Looks));
        assert_eq!(SequentialDesign::try_new(&[8], 1.0, 2.0), Err(DesignError::Alpha));
        assert_eq!(SequentialDesign::try_new(&[8], 0.05, f64::NAN), Err(DesignError::Rho));
    }

    /// Constant limits that give 5 % in total, from Pocock (Biometrika 64, 1977), and
    /// O'Brien-Fleming limits C sqrt(K / k) (Biometrics 35, 1979), as tabulated by Jennison and
    /// Turnbull (Group Sequential Methods, 2000, tables 2.1 and 2.3).
    #[test]
    fn pocock_and_obrien_fleming_limits_spend_five_percent() {
        for (looks, pocock, obrien) in [(2, 2.178, 1.977), (5, 2.413, 2.040), (10, 2.555, 2.087)] {
            let times: Vec<f64> = (1..=looks).map(f64::from).collect();
            let flat = vec![pocock; times.len()];
            let falling: Vec<f64> =
                times.iter().map(|k| obrien * (f64::from(looks) / k).sqrt()).collect();
            assert!((probability_to_cross(&times, &flat) - 0.05).abs() < 1e-4, "{looks} looks");
            assert!((probability_to_cross(&times, &falling) - 0.05).abs() < 1e-4, "{looks} looks");
        }
    }

    #[test]
    fn limits_spend_exactly_the_requested_alpha() {
        let times = [0.2, 0.5, 0.55, 1.0];
        let limits = limits_for_spending(&times, &[0.01, 0.02, 0.03, 0.05]);
        for looks in 1..=4 {
            let crossed = probability_to_cross(&times[..looks], &limits[..looks]);
            let spent = [0.01, 0.02, 0.03, 0.05][looks - 1];
            assert!((crossed - spent).abs() < 1e-7, "{looks} looks: {crossed}");
        }
    }

    #[test]
    fn peeking_five_times_at_five_percent_rejects_one_time_in_seven() {
        let crossed = probability_to_cross(&[1.0, 2.0, 3.0, 4.0, 5.0], &[1.959964; 5]);
        // The value 0.142 is from table 2 of Armitage, McPherson and Rowe 1969.
        assert!((crossed - 0.142).abs() < 5e-4, "{crossed}");
    }
}
