//! Comparisons that are measured together and corrected for each other.
//!
//! Decides which of them may end as different: those that survive the correction with what is known now, all others
//! that are still open counting as p = 1. A member counts with the smallest p value of its looks, so p values only fall,
//! and what has survived once survives the correction at the end, too. It must not know data or looks. Start at
//! [`Family::settle`].

/// A correction: the adjusted p values in the order given; a NaN does not count.
pub type Adjust = fn(&[f64]) -> Vec<f64>;

/// The p values of a family of comparisons, while it is measured.
#[derive(Debug, Clone)]
pub struct Family {
    alpha: f64,
    adjust: Adjust,
    /// The smallest of each member so far.
    p: Vec<f64>,
    is_open: Vec<bool>,
}

impl Family {
    /// A family without members, whose error rate is `alpha` under the correction `adjust`.
    pub fn new(alpha: f64, adjust: Adjust) -> Family {
        Family {
            alpha,
            adjust,
            p: Vec::new(),
            is_open: Vec::new(),
        }
    }

    /// A new member, of which nothing is known yet; its number.
    pub fn join(&mut self) -> usize {
        self.p.push(1.0);
        self.is_open.push(true);
        self.p.len() - 1
    }

    /// Takes the p value of an open member at its latest look, and returns whether it is the smallest so far.
    ///
    /// The smallest counts, so each must be valid over all looks, as [`RepeatedP`](super::RepeatedP) is: the smallest of
    /// those is at most x with a probability of at most x when nothing differs.
    pub fn look(&mut self, member: usize, p: f64) -> bool {
        let is_smallest = self.is_open[member] && p < self.p[member];
        if is_smallest {
            self.p[member] = p;
        }
        is_smallest
    }

    /// The smallest p value of each member so far; 1 for those that took no look.
    pub fn p_values(&self) -> &[f64] {
        &self.p
    }

    /// Ends a member for a reason of its own; its p value stays what it is.
    pub fn end(&mut self, member: usize) {
        self.is_open[member] = false;
    }

    /// Whether nothing is to come from a member.
    pub fn has_ended(&self, member: usize) -> bool {
        !self.is_open[member]
    }

    /// Ends the open members that survive the correction now, and returns them.
    ///
    /// Members that do not survive are of no help to those that do, so it makes no difference whether they count with
    /// the p value of their latest look or as 1.
    pub fn settle(&mut self) -> Vec<usize> {
        let adjusted = (self.adjust)(&self.p);
        let survives =
            |&member: &usize| self.is_open[member] && survives(adjusted[member], self.alpha);
        let members: Vec<usize> = (0..self.p.len()).filter(survives).collect();
        members.iter().for_each(|&member| self.end(member));
        members
    }
}

/// Whether an adjusted p value is at most `alpha`, but for rounding.
pub fn survives(adjusted: f64, alpha: f64) -> bool {
    adjusted <= alpha * (1.0 + 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multiple::{benjamini_hochberg, holm};

    fn family(adjust: Adjust, p: &[f64]) -> Family {
        let mut family = Family::new(0.05, adjust);
        for &p in p {
            let member = family.join();
            family.look(member, p);
        }
        family
    }

    #[test]
    fn what_is_open_counts_as_one() {
        let mut family = family(holm, &[0.02, 1.0, 1.0]);
        assert!(family.settle().is_empty());
        family.look(0, 0.016);
        assert_eq!(family.settle(), [0]);
        assert!(family.has_ended(0) && !family.has_ended(1));
        // Two are left for Holm: .025 is enough for the next, and the first keeps its place.
        family.look(0, 1.0);
        family.look(2, 0.025);
        assert_eq!(family.settle(), [2]);
    }

    #[test]
    fn members_may_survive_together() {
        let all = [0.03; 20];
        assert_eq!(family(benjamini_hochberg, &all).settle().len(), 20);
        assert!(family(holm, &all).settle().is_empty());
        let mut half = family(benjamini_hochberg, &[&[0.03; 10][..], &[0.5; 10]].concat());
        assert!(
            half.settle().is_empty(),
            "the limit of ten of twenty is .025"
        );
    }

    /// What a look has found is not lost when later looks find less.
    #[test]
    fn the_smallest_p_value_of_all_looks_counts() {
        let mut family = family(benjamini_hochberg, &[0.02, 1.0, 1.0]);
        assert!(
            family.settle().is_empty(),
            "the limit of one of three is .0167"
        );
        assert!(!family.look(0, 0.4) && family.look(1, 0.03));
        assert_eq!(family.settle(), [0, 1]);
        assert_eq!(family.p_values(), [0.02, 0.03, 1.0]);
        assert!(!family.look(0, 0.001), "it has ended");
    }

    #[test]
    fn an_end_for_another_reason_keeps_the_p_value() {
        let mut family = family(benjamini_hochberg, &[0.04, 0.9]);
        family.end(0);
        family.look(0, 0.9);
        family.look(1, 0.03);
        assert_eq!(family.settle(), [1], "both are at most 5 % now");
    }
}
