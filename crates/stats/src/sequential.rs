//! Implements sequential designs, which determine when a comparison may stop measuring, and which
//! claims it may then make.
//!
//! A look is an interim analysis: a point at which measuring may stop. This module computes the
//! limits of each look, such that all looks together reject equal sides with the requested
//! probability. The module also applies these limits to observations in blocks. Start at
//! [`SequentialDesign`], then [`decide_at_look`]. For many comparisons at once, continue with
//! [`RepeatedP`] and [`ComparisonFamily`].

use crate::distribution::{decreasing_root, normal};
use crate::test::stratified::{BlockObservation, StratifiedError, stratified_rank};
use std::sync::OnceLock;

// A design: the looks, and how much error each may spend. The limits follow from the spending
// function alpha t^rho of Kim and DeMets (Biometrika 74, 1987).

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DesignError {
    /// There are no looks, or they begin with 0 or do not increase.
    #[error("looks must be positive and increase")]
    Looks,
    /// Alpha is not between 0 and 1.
    #[error("alpha must lie between 0 and 1")]
    Alpha,
    /// Rho is not positive and finite.
    #[error("rho must be positive")]
    Rho,
}

impl SequentialDesign {
    /// Creates a design with the given looks (runs per side). Up to the look at n runs, the design
    /// spends the error alpha (n / last)^rho.
    ///
    /// # Panics
    ///
    /// Panics if [`SequentialDesign::try_new`] fails; use that function for user input.
    pub fn new(looks: &[usize], alpha: f64, rho: f64) -> SequentialDesign {
        SequentialDesign::try_new(looks, alpha, rho).unwrap_or_else(|error| panic!("{error}"))
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
    let mut walk = ScoreWalk { time: 0.0, grid: vec![(0.0, 1.0)] };
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
            let simpson = match index {
                _ if index == 0 || index == 2 * half_count => 1.0,
                _ if index % 2 == 1 => 4.0,
                _ => 2.0,
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

/// Default of the smallest relative change that matters: 2%.
pub const DEFAULT_DELTA: f64 = 0.02;

/// Decision at a look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LookDecision {
    /// The sides differ.
    Rejected,
    /// The sides differ by less than delta.
    Equivalent,
    /// Neither: continue measuring, or, after the last look, report "unclear".
    GoOn,
}

/// Decides at `look`, which must be a look of the design that was made before the first run.
///
/// `delta` is the relative change below which sides are regarded as equal, such as 0.02; 0 disables
/// the decision [`LookDecision::Equivalent`]. This decision requires two one-sided tests at half of
/// the look's limit (Schuirmann, J. Pharmacokinetics 15, 1987): the candidate must test below the
/// baseline when its logarithms are lowered by ln(1 + delta), and above the baseline when they are
/// raised by the same amount.
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
        return Ok(LookDecision::Rejected);
    }
    let theta = delta.ln_1p();
    let level = 0.5 * look.p_limit;
    let is_equivalent = delta > 0.0
        && test.test_shifted(theta).lower <= level
        && test.test_shifted(-theta).upper <= level;
    Ok(if is_equivalent { LookDecision::Equivalent } else { LookDecision::GoOn })
}

// Corrects the p values of many comparisons that are measured together. A comparison may end as
// soon as it survives the correction, while others are still open. The p value of a member is the
// smallest p value at any of its looks (interim analyses). P values can therefore only fall, and a
// comparison that survives now also survives the final correction.

/// A correction: returns the adjusted p values in the given order; NaN is ignored.
pub type AdjustPValues = fn(&[f64]) -> Vec<f64>;

/// The p values of a family of comparisons during measuring.
#[derive(Debug, Clone)]
pub struct ComparisonFamily {
    alpha: f64,
    adjust: AdjustPValues,
    /// The smallest p value of each member so far; 1 before its first look.
    pub p_values: Vec<f64>,
    is_open: Vec<bool>,
}

impl ComparisonFamily {
    /// Creates an empty family with error rate `alpha` and correction `adjust`.
    pub fn new(alpha: f64, adjust: AdjustPValues) -> ComparisonFamily {
        ComparisonFamily { alpha, adjust, p_values: Vec::new(), is_open: Vec::new() }
    }

    /// Adds a member without looks and returns its number.
    pub fn add_member(&mut self) -> usize {
        self.p_values.push(1.0);
        self.is_open.push(true);
        self.p_values.len() - 1
    }

    /// Records the p value of an open member's latest look, and returns whether this value is the
    /// member's smallest so far.
    ///
    /// Because the correction uses each member's smallest p value, p values must be valid over all
    /// looks, like the p values of [`RepeatedP`]: under the null hypothesis, their minimum is at
    /// most x with a probability of at most x.
    pub fn update_p(&mut self, member: usize, p: f64) -> bool {
        let is_smallest = self.is_open[member] && p < self.p_values[member];
        if is_smallest {
            self.p_values[member] = p;
        }
        is_smallest
    }

    /// Ends a member for a reason other than the correction, which continues to use the member's p
    /// value.
    pub fn end_member(&mut self, member: usize) {
        self.is_open[member] = false;
    }

    /// Whether a member has ended.
    pub fn has_ended(&self, member: usize) -> bool {
        !self.is_open[member]
    }

    /// Ends the open members that survive the correction now and returns them.
    ///
    /// Members that do not survive never help others to survive: the result would be the same if
    /// their p values were 1.
    pub fn settle_survivors(&mut self) -> Vec<usize> {
        let adjusted = (self.adjust)(&self.p_values);
        let survives = |&member: &usize| {
            self.is_open[member] && survives_correction(adjusted[member], self.alpha)
        };
        let members: Vec<usize> = (0..self.p_values.len()).filter(survives).collect();
        members.iter().for_each(|&member| self.end_member(member));
        members
    }
}

/// Whether an adjusted p value is at most `alpha`, up to rounding.
pub fn survives_correction(adjusted: f64, alpha: f64) -> bool {
    adjusted <= alpha * (1.0 + 1e-9)
}

// The repeated p value of a test with several looks (Jennison and Turnbull, Group Sequential
// Methods, 2000, chapter 9): the smallest error rate at which the same design would reject at this
// look. Under the null hypothesis, the repeated p value is at most x with a probability of at most
// x, regardless of the reason for stopping: at error rate x, all looks together reject with
// probability x. Hence p values of comparisons that ended at different looks can be corrected
// together.

/// Ratio of the error rates of neighboring nodes. A node is an error rate with the limits of all
/// looks at this rate. Between nodes, the logarithms of p values are interpolated. The result is
/// accurate to 1% of the p value, because the fraction of the error rate that is spent at a look
/// changes slowly.
const NODE_RATIO: f64 = 3.162_277_660_168_379_5;
/// Number of nodes below the error rate of the design. They reach down to 1e-14 of that rate,
/// because the smallest p value that 32 runs per side can reach is 7e-13.
const NODES_BELOW: usize = 28;
/// Number of nodes above the error rate of the design. Nodes with a rate of 1 or more are not used.
const NODES_ABOVE: usize = 40;

/// Tables that convert the p value at one look to a p value that is valid over all looks.
#[derive(Debug, Clone)]
pub struct RepeatedP {
    design: SequentialDesign,
    /// The p limits of all looks, one list per error rate; computed on demand.
    nodes: Vec<OnceLock<Vec<f64>>>,
}

impl RepeatedP {
    /// Creates tables for the looks and the spending function of `design`.
    pub fn new(design: &SequentialDesign) -> RepeatedP {
        RepeatedP {
            design: design.clone(),
            nodes: vec![OnceLock::new(); NODES_BELOW + 1 + NODES_ABOVE],
        }
    }

    /// Returns the repeated p value at the look with index `look`, where the test's own two-sided p
    /// value is `p`.
    ///
    /// The repeated p value is at most the error rate of the design if and only if `p` is at most
    /// the limit of the look.
    pub fn at(&self, look: usize, p: f64) -> f64 {
        if p <= 0.0 || p >= 1.0 {
            return p.clamp(0.0, 1.0);
        }
        let mut lower_node: Option<(f64, f64)> = None;
        for node in self.first_node(p)..self.nodes.len() {
            let Some(rate) = self.rate(node) else {
                break;
            };
            let limit = self.limit(node, look);
            if p <= limit {
                let Some((low, low_limit)) = lower_node else {
                    return rate * p / limit;
                };
                let share = (p / low_limit).ln() / (limit / low_limit).ln();
                return low * (rate / low).powf(share);
            }
            lower_node = Some((rate, limit));
        }
        1.0
    }

    /// Returns a node whose limits are below `p` at every look, or the first node.
    fn first_node(&self, p: f64) -> usize {
        let steps = (p / self.design.alpha()).ln() / NODE_RATIO.ln();
        (NODES_BELOW as f64 + steps.floor()).clamp(0.0, (NODES_BELOW + NODES_ABOVE) as f64) as usize
    }

    /// The error rate of a node; one node has the error rate of the design itself.
    fn rate(&self, node: usize) -> Option<f64> {
        let rate = self.design.alpha() * NODE_RATIO.powi(node as i32 - NODES_BELOW as i32);
        (rate < 1.0).then_some(rate)
    }

    fn limit(&self, node: usize, look: usize) -> f64 {
        self.nodes[node].get_or_init(|| self.limits(node))[look]
    }

    fn limits(&self, node: usize) -> Vec<f64> {
        let looks = self.design.limits();
        if node == NODES_BELOW {
            return looks.iter().map(|look| look.p_limit).collect();
        }
        let last = self.design.max_runs() as f64;
        let times: Vec<f64> = looks.iter().map(|look| look.n as f64 / last).collect();
        let share = NODE_RATIO.powi(node as i32 - NODES_BELOW as i32);
        let spent: Vec<f64> = looks.iter().map(|look| share * look.cumulative_alpha).collect();
        limits_for_spending(&times, &spent).into_iter().map(normal::two_sided).collect()
    }
}

// Corrects p-values for many comparisons at once. The functions return adjusted p-values; their
// callers decide which comparisons form a family. NaN stands for a comparison that could not be
// made: it stays NaN and is not included in the number of comparisons (as in R's `p.adjust`).

/// Holm's adjusted p-values (Scandinavian Journal of Statistics 6, 1979), in the order given.
///
/// If every comparison with an adjusted p-value of at most 5% is reported as a difference, the
/// probability of any false report is at most 5%.
pub fn adjust_holm(p_values: &[f64]) -> Vec<f64> {
    let order = ascending_indices(p_values);
    let mut adjusted = p_values.to_vec();
    let mut largest = 0.0f64;
    for (rank, &index) in order.iter().enumerate() {
        let remaining = (order.len() - rank) as f64;
        largest = largest.max((remaining * p_values[index]).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

/// Benjamini and Hochberg's adjusted p-values, also called q-values (JRSS B 57, 1995), in the order
/// given.
///
/// If every comparison with an adjusted p-value of at most 5% is reported as a difference, on
/// average at most 5% of the reports are false, even for positively dependent comparisons
/// (Benjamini and Yekutieli, Annals of Statistics 29, 2001).
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let order = ascending_indices(p_values);
    let mut adjusted = p_values.to_vec();
    let mut smallest = 1.0f64;
    for (rank, &index) in order.iter().enumerate().rev() {
        let share = order.len() as f64 / (rank + 1) as f64;
        smallest = smallest.min(share * p_values[index]);
        adjusted[index] = smallest;
    }
    adjusted
}

/// Indices of the p-values that are not NaN, in ascending order of p.
fn ascending_indices(p_values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).filter(|&i| !p_values[i].is_nan()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default_design() -> SequentialDesign {
        SequentialDesign::new(&[8, 14, 20, 26, 32], 0.05, 2.0)
    }

    /// The probability that |z| crosses `limits` at one of the looks if the sides are equal.
    fn probability_to_cross(times: &[f64], limits: &[f64]) -> f64 {
        let mut walk = ScoreWalk { time: 0.0, grid: vec![(0.0, 1.0)] };
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
        let design = SequentialDesign::new(&[30], 0.05, 1.0);
        let look = design.look_at(30).unwrap();
        assert!((look.p_limit - 0.05).abs() < 1e-12 && look.is_last);
        assert!((look.z_limit - 1.959963984540054).abs() < 1e-12);
    }

    #[test]
    fn looks_are_found_by_their_number_of_runs() {
        let design = default_design();
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

    /// Constant limits that give 5% in total, from Pocock (Biometrika 64, 1977), and
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

    fn family(adjust: AdjustPValues, p: &[f64]) -> ComparisonFamily {
        let mut family = ComparisonFamily::new(0.05, adjust);
        for &p in p {
            let member = family.add_member();
            family.update_p(member, p);
        }
        family
    }

    #[test]
    fn members_without_a_small_p_value_count_in_the_correction() {
        let mut family = family(adjust_holm, &[0.02, 1.0, 1.0]);
        assert!(family.settle_survivors().is_empty());
        family.update_p(0, 0.016);
        assert_eq!(family.settle_survivors(), [0]);
        assert!(family.has_ended(0) && !family.has_ended(1));
        // After the first member, Holm's correction requires at most .05 / 2 = .025 of the next
        // member. The first member has ended, so its new p value is ignored.
        family.update_p(0, 1.0);
        family.update_p(2, 0.025);
        assert_eq!(family.settle_survivors(), [2]);
    }

    #[test]
    fn equal_p_values_can_survive_together_under_benjamini_hochberg() {
        let all = [0.03; 20];
        assert_eq!(family(benjamini_hochberg, &all).settle_survivors().len(), 20);
        assert!(family(adjust_holm, &all).settle_survivors().is_empty());
        let mut half = family(benjamini_hochberg, &[&[0.03; 10][..], &[0.5; 10]].concat());
        assert!(half.settle_survivors().is_empty(), "the limit of ten of twenty is .025");
    }

    /// A result found at one look is kept when later looks find less.
    #[test]
    fn the_smallest_p_value_of_all_looks_counts() {
        let mut family = family(benjamini_hochberg, &[0.02, 1.0, 1.0]);
        assert!(family.settle_survivors().is_empty(), "the limit of one of three is .0167");
        assert!(!family.update_p(0, 0.4) && family.update_p(1, 0.03));
        assert_eq!(family.settle_survivors(), [0, 1]);
        assert_eq!(family.p_values, [0.02, 0.03, 1.0]);
        assert!(!family.update_p(0, 0.001), "it has ended");
    }

    #[test]
    fn an_end_for_another_reason_keeps_the_p_value() {
        let mut family = family(benjamini_hochberg, &[0.04, 0.9]);
        family.end_member(0);
        family.update_p(0, 0.9);
        family.update_p(1, 0.03);
        assert_eq!(family.settle_survivors(), [1], "both are at most 5% now");
    }

    #[test]
    fn at_the_limit_of_a_look_the_repeated_p_value_is_the_error_rate() {
        for design in [default_design(), SequentialDesign::new(&[8, 16, 24, 32, 40], 0.01, 2.0)] {
            let repeated = RepeatedP::new(&design);
            for look in design.limits() {
                let at = |factor: f64| repeated.at(look.index, factor * look.p_limit);
                assert!((at(1.0) / design.alpha() - 1.0).abs() < 1e-9, "{look:?}");
                assert!(at(1.0) <= design.alpha() && at(1.000_001) > design.alpha());
            }
        }
    }

    /// By definition, a design whose error rate is the repeated p value has the test's own p value
    /// as its limit at this look.
    #[test]
    fn a_design_with_the_repeated_p_value_as_error_rate_just_rejects() {
        let repeated = RepeatedP::new(&default_design());
        for (look, p) in [(0, 0.002), (1, 7e-6), (2, 3e-4), (3, 1e-9), (4, 0.2), (4, 1e-5)] {
            let rate = repeated.at(look, p);
            let limit =
                SequentialDesign::new(&[8, 14, 20, 26, 32], rate, 2.0).limits()[look].p_limit;
            assert!((limit / p - 1.0).abs() < 0.01, "look {look}: {p} {limit}");
        }
    }

    #[test]
    fn the_repeated_p_value_grows_with_the_p_value_and_stays_below_one() {
        let repeated = RepeatedP::new(&default_design());
        for look in 0..5 {
            let mut last = 0.0;
            for step in 1..400 {
                let p = 1e-17 * 10f64.powf(f64::from(step) * 17.0 / 400.0);
                let rate = repeated.at(look, p);
                assert!(rate >= last && rate >= p && rate <= 1.0, "look {look}, p {p}");
                last = rate;
            }
        }
        assert_eq!((repeated.at(0, 1.0), repeated.at(4, 1.0)), (1.0, 1.0));
    }

    #[test]
    fn one_look_gives_the_ordinary_p_value() {
        let repeated = RepeatedP::new(&SequentialDesign::new(&[30], 0.05, 1.0));
        for p in [1e-12, 1e-3, 0.05, 0.4] {
            assert!((repeated.at(0, p) / p - 1.0).abs() < 1e-9, "{p}");
        }
    }

    const P: [f64; 8] = [0.01, 0.02, 0.03, 0.005, f64::NAN, 0.5, 0.04, 0.02];

    fn assert_equal(adjusted: &[f64], reference: &[f64]) {
        for (value, expected) in adjusted.iter().zip(reference) {
            let both_missing = value.is_nan() && expected.is_nan();
            assert!(both_missing || (value - expected).abs() < 1e-12, "{adjusted:?}");
        }
    }

    /// R 4.2.2: `p.adjust(c(.01, .02, .03, .005, NA, .5, .04, .02), "holm")`, then `"BH"`.
    #[test]
    fn adjusted_values_equal_those_of_r() {
        assert_equal(&adjust_holm(&P), &[0.06, 0.1, 0.1, 0.035, f64::NAN, 0.5, 0.1, 0.1]);
        assert_equal(
            &benjamini_hochberg(&P),
            &[0.035, 0.035, 0.042, 0.035, f64::NAN, 0.5, 0.14 / 3.0, 0.035],
        );
    }

    #[test]
    fn adjusting_an_empty_list_or_a_single_value_changes_nothing() {
        assert!(adjust_holm(&[]).is_empty() && benjamini_hochberg(&[]).is_empty());
        assert_eq!(adjust_holm(&[0.03]), [0.03]);
        assert_eq!(benjamini_hochberg(&[0.03]), [0.03]);
        assert!(adjust_holm(&[f64::NAN])[0].is_nan());
    }

    #[test]
    fn adjusting_never_lowers_or_reorders_p_values() {
        let p: Vec<f64> = (1..=50).map(|i| f64::from(i * 37 % 53) / 53.0).collect();
        for adjusted in [adjust_holm(&p), benjamini_hochberg(&p)] {
            for i in 0..p.len() {
                assert!(adjusted[i] >= p[i] && adjusted[i] <= 1.0);
                for j in 0..p.len() {
                    assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
