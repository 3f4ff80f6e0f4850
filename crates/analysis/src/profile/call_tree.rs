//! Both sides as one tree of calls, from which either side, and their difference, can be drawn.

use super::roots::{Renamed, aligned};
use speedwell_model::Profile;
use std::collections::BTreeMap;

/// Deeper frames count for the one at this depth: nobody reads them, and trees this deep are walked safely.
const DEEPEST: usize = 400;

/// A function as it was called from one place, with the costs of both sides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallNode {
    /// Its name; empty for the root, which stands for everything.
    pub name: String,
    /// Its cost in the baseline, with all that it called.
    pub baseline: u64,
    /// Its cost in the candidate, likewise.
    pub candidate: u64,
    /// What it called, by name.
    pub children: Vec<CallNode>,
}

/// A tree that is being built.
#[derive(Default)]
struct Growing<'a> {
    baseline: u64,
    candidate: u64,
    children: BTreeMap<&'a str, Growing<'a>>,
}

/// The tree of two profiles.
pub fn of(baseline: &Profile, candidate: &Profile, renamed: Option<&Renamed>) -> CallNode {
    let mut root = Growing::default();
    for (frames, weight) in baseline.stacks() {
        root.grow(&frames, |node| {
            node.baseline = node.baseline.saturating_add(weight)
        });
    }
    for (frames, weight) in candidate.stacks() {
        let frames = aligned(frames, renamed);
        root.grow(&frames, |node| {
            node.candidate = node.candidate.saturating_add(weight)
        });
    }
    root.grown("")
}

impl<'a> Growing<'a> {
    fn grow(&mut self, frames: &[&'a str], add: impl Fn(&mut Growing<'a>)) {
        let mut at = self;
        add(at);
        for &frame in frames.iter().take(DEEPEST) {
            at = at.children.entry(frame).or_default();
            add(at);
        }
    }

    fn grown(self, name: &str) -> CallNode {
        let children = self.children.into_iter();
        CallNode {
            name: name.to_owned(),
            baseline: self.baseline,
            candidate: self.candidate,
            children: children.map(|(name, child)| child.grown(name)).collect(),
        }
    }
}

impl CallNode {
    /// What the candidate costs more here, in the unit of the weights; negative if it costs less.
    pub fn change(&self) -> f64 {
        self.candidate as f64 - self.baseline as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::{ProfileTool, WeightUnit};

    #[test]
    fn a_tree_keeps_all_weight_of_both_sides() {
        let mut state = 1_u64;
        // Knuth's multiplier (MMIX): any stream will do, as long as it is the same every time.
        let mut below = |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % limit
        };
        for _ in 0..50 {
            let mut random = || {
                let mut profile = Profile::new(ProfileTool::Folded, WeightUnit::Unknown);
                for _ in 0..below(40) + 1 {
                    let frames: Vec<&str> = (0..below(6) + 1)
                        .map(|_| ["a", "b", "c", "d"][below(4) as usize])
                        .collect();
                    profile.add(frames, below(1000));
                }
                profile
            };
            let (old, new) = (random(), random());
            let tree = of(&old, &new, None);
            assert_eq!((tree.baseline, tree.candidate), (old.total(), new.total()));
            check(&tree);
        }
    }

    /// No function called more than it cost.
    fn check(node: &CallNode) {
        let sum = |of: fn(&CallNode) -> u64| node.children.iter().map(of).sum::<u64>();
        assert!(sum(|child| child.baseline) <= node.baseline);
        assert!(sum(|child| child.candidate) <= node.candidate);
        node.children.iter().for_each(check);
    }
}
