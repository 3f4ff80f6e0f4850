//! The cost of every function in a profile, with all that it called.

use super::roots::{Renamed, aligned};
use speedwell_model::Profile;
use std::collections::{HashMap, HashSet};

/// What a function costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// The weight of the stacks that it is in, each counted once however often it is in there.
    pub inclusive: u64,
    /// How many frames are above it where it is nearest to the root.
    pub depth: usize,
}

/// The cost of every function in the stacks that `picks` makes of the profile's.
pub fn costs<'a>(
    profile: &'a Profile,
    renamed: Option<&'a Renamed>,
    picks: impl Fn(Vec<&'a str>) -> Vec<&'a str>,
) -> HashMap<&'a str, Cost> {
    let mut costs: HashMap<&str, Cost> = HashMap::new();
    let mut seen = HashSet::new();
    for (frames, weight) in profile.stacks() {
        seen.clear();
        for (depth, frame) in picks(aligned(frames, renamed)).into_iter().enumerate() {
            let cost = costs.entry(frame).or_insert(Cost {
                inclusive: 0,
                depth,
            });
            cost.depth = cost.depth.min(depth);
            if seen.insert(frame) {
                cost.inclusive = cost.inclusive.saturating_add(weight);
            }
        }
    }
    costs
}
