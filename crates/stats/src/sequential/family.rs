//! Corrects the p values of many comparisons that are measured together.
//!
//! A comparison may end as soon as it survives the correction, while others are still open. The p
//! value of a member is the smallest of its looks (interim analyses). So p values can only fall, and
//! a comparison that survives now also survives the final correction. Start at
//! [`ComparisonFamily::settle_survivors`].

use super::{SequentialDesign, limits_for_spending};
use crate::distribution::normal;
use std::sync::OnceLock;

/// A correction: returns the adjusted p values in the given order; NaN is ignored.
pub type AdjustPValues = fn(&[f64]) -> Vec<f64>;

/// The p values of a family of comparisons during measuring.
#[derive(Debug, Clone)]
pub struct ComparisonFamily {
    alpha: f64,
    adjust: AdjustPValues,
    p: Vec<f64>,
    is_open: Vec<bool>,
}

impl ComparisonFamily {
    /// Creates an empty family with error rate `alpha` and correction `adjust`.
    pub fn new(alpha: f64, adjust: AdjustPValues) -> ComparisonFamily {
        ComparisonFamily { alpha, adjust, p: Vec::new(), is_open: Vec::new() }
    }

    /// Adds a member without looks and returns its number.
    pub fn add_member(&mut self) -> usize {
        self.p.push(1.0);
        self.is_open.push(true);
        self.p.len() - 1
    }

    /// Records the p value of an open member's latest look, and returns whether this value is the
    /// member's smallest so far.
    ///
    /// Because the smallest p value counts, p values must be valid over all looks, like the p
    /// values of [`RepeatedP`](super::RepeatedP): under the null hypothesis, their minimum is at
    /// most x with a probability of at most x.
    pub fn update_p(&mut self, member: usize, p: f64) -> bool {
        let is_smallest = self.is_open[member] && p < self.p[member];
        if is_smallest {
            self.p[member] = p;
        }
        is_smallest
    }

    /// The smallest p value of each member so far; 1 before its first look.
    pub fn p_values(&self) -> &[f64] {
        &self.p
    }

    /// Ends a member for a reason other than the correction; its p value still counts.
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
    /// they counted with p = 1.
    pub fn settle_survivors(&mut self) -> Vec<usize> {
        let adjusted = (self.adjust)(&self.p);
        let survives = |&member: &usize| {
            self.is_open[member] && survives_correction(adjusted[member], self.alpha)
        };
        let members: Vec<usize> = (0..self.p.len()).filter(survives).collect();
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
/// accurate to 1 % of the p value, because the fraction of the error rate that is spent at a look
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multiple::{adjust_holm, benjamini_hochberg};

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
        assert_eq!(family.p_values(), [0.02, 0.03, 1.0]);
        assert!(!family.update_p(0, 0.001), "it has ended");
    }

    #[test]
    fn an_end_for_another_reason_keeps_the_p_value() {
        let mut family = family(benjamini_hochberg, &[0.04, 0.9]);
        family.end_member(0);
        family.update_p(0, 0.9);
        family.update_p(1, 0.03);
        assert_eq!(family.settle_survivors(), [1], "both are at most 5 % now");
    }

    #[test]
    fn at_the_limit_of_a_look_the_repeated_p_value_is_the_error_rate() {
        for design in
            [SequentialDesign::default(), SequentialDesign::new(&[8, 16, 24, 32, 40], 0.01, 2.0)]
        {
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
        let repeated = RepeatedP::new(&SequentialDesign::default());
        for (look, p) in [(0, 0.002), (1, 7e-6), (2, 3e-4), (3, 1e-9), (4, 0.2), (4, 1e-5)] {
            let rate = repeated.at(look, p);
            let limit =
                SequentialDesign::new(&[8, 14, 20, 26, 32], rate, 2.0).limits()[look].p_limit;
            assert!((limit / p - 1.0).abs() < 0.01, "look {look}: {p} {limit}");
        }
    }

    #[test]
    fn the_repeated_p_value_grows_with_the_p_value_and_stays_below_one() {
        let repeated = RepeatedP::new(&SequentialDesign::default());
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
        let repeated = RepeatedP::new(&SequentialDesign::single_look(30, 0.05));
        for p in [1e-12, 1e-3, 0.05, 0.4] {
            assert!((repeated.at(0, p) / p - 1.0).abs() < 1e-9, "{p}");
        }
    }
}
