//! The table of the extra cost: which functions have a share in what one side costs more than the other.
//!
//! Costs are absolute, because both sides did the same work, and include what a function called. So shares of
//! a caller and of what it called overlap, and no column adds up to 100 %. Start at [`of`].

use super::costs::{Cost, costs};
use super::entry::{self, Entry};
use super::roots::Renamed;
use speedwell_model::Profile;
use std::collections::{BTreeSet, HashMap};

/// A function with less than this share of the cheaper side's cost is new on the other side: so little is
/// within the chance of sampling.
const NEW_BELOW: f64 = 0.002;
/// Functions with a smaller share of the extra cost are left out of the table.
const SMALLEST_SHARE: f64 = 0.03;
/// Sides whose costs are nearer to each other, relative to the larger one, have no difference to divide: shares
/// of next to nothing would be chance.
const ALIKE_BELOW: f64 = 0.01;

/// Where the difference between two sides sits.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtraCost {
    /// Weight of the baseline.
    pub baseline: u64,
    /// Weight of the candidate.
    pub candidate: u64,
    /// Which side costs more.
    pub direction: Direction,
    /// Functions by their share in the difference, largest first; of equal ones the caller comes first. Empty
    /// where both sides cost the same.
    pub rows: Vec<CostRow>,
    /// The function by which most of the difference enters.
    pub entry: Option<Entry>,
}

/// Which side costs more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The candidate: there is an extra cost.
    Costlier,
    /// The baseline: there is a cost that was saved.
    Cheaper,
    /// Neither, within a hundredth.
    Alike,
}

/// A function in the table.
#[derive(Debug, Clone, PartialEq)]
pub struct CostRow {
    /// Its name.
    pub frame: String,
    /// Its part of the difference: 1 is all of it.
    pub share: f64,
    /// Its part of the baseline's cost.
    pub baseline: f64,
    /// Its part of the candidate's cost.
    pub candidate: f64,
    /// Whether only the costlier side has it.
    pub new: bool,
    /// How many frames are above it where it is nearest to the root.
    pub depth: usize,
}

/// The table for two profiles.
pub fn of(baseline: &Profile, candidate: &Profile, renamed: Option<&Renamed>) -> ExtraCost {
    let sides = Sides::new(baseline.total(), candidate.total());
    let mut found = ExtraCost {
        baseline: sides.baseline,
        candidate: sides.candidate,
        direction: sides.direction(),
        rows: Vec::new(),
        entry: None,
    };
    if found.direction == Direction::Alike {
        return found;
    }
    let whole = |frames| frames;
    let all = sides.rows(
        &costs(baseline, None, whole),
        &costs(candidate, renamed, whole),
    );
    found.entry = entry::of(&all, &sides, (baseline, candidate), renamed);
    found.rows = all;
    found.rows.retain(|row| row.share >= SMALLEST_SHARE);
    found
}

/// The weights of both sides.
pub(super) struct Sides {
    baseline: u64,
    candidate: u64,
}

impl Sides {
    fn new(baseline: u64, candidate: u64) -> Sides {
        Sides {
            baseline,
            candidate,
        }
    }

    pub fn direction(&self) -> Direction {
        let extra = self.extra();
        let larger = self.baseline.max(self.candidate) as f64;
        match extra {
            extra if extra.abs() <= ALIKE_BELOW * larger => Direction::Alike,
            extra if extra > 0.0 => Direction::Costlier,
            _ => Direction::Cheaper,
        }
    }

    fn extra(&self) -> f64 {
        self.candidate as f64 - self.baseline as f64
    }

    /// Every function that has a part in the difference, the largest first.
    pub fn rows(&self, old: &HashMap<&str, Cost>, new: &HashMap<&str, Cost>) -> Vec<CostRow> {
        let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
        let row = |name: &str| {
            let of = |costs: &HashMap<&str, Cost>| costs.get(name).copied();
            self.row(name, of(old), of(new))
        };
        let mut rows: Vec<CostRow> = names.into_iter().map(row).collect();
        rows.retain(|row| row.share > 0.0);
        // The names were in order, so functions of one share and depth are in order as well.
        rows.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.depth.cmp(&b.depth)));
        rows
    }

    fn row(&self, name: &str, old: Option<Cost>, new: Option<Cost>) -> CostRow {
        let weight = |cost: Option<Cost>| cost.unwrap_or_default().inclusive as f64;
        let (before, after) = (weight(old), weight(new));
        let (cheaper, whole, costlier) = match self.direction() {
            Direction::Cheaper => (after, self.candidate, old),
            _ => (before, self.baseline, new),
        };
        CostRow {
            frame: name.to_owned(),
            share: (after - before) / self.extra(),
            baseline: before / self.baseline.max(1) as f64,
            candidate: after / self.candidate.max(1) as f64,
            new: cheaper < NEW_BELOW * whole as f64,
            depth: costlier.or(old).or(new).unwrap_or_default().depth,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::{ProfileTool, WeightUnit};

    fn profile(stacks: &[(&str, u64)]) -> Profile {
        let mut profile = Profile::new(ProfileTool::Folded, WeightUnit::Unknown);
        for (stack, weight) in stacks {
            profile.add(stack.split(';'), *weight);
        }
        profile
    }

    fn told(found: &ExtraCost) -> Vec<String> {
        let row = |row: &CostRow| {
            let new = if row.new { " NEW" } else { "" };
            format!("{} {:.0}{new}", row.frame, row.share * 100.0)
        };
        found.rows.iter().map(row).collect()
    }

    fn table(old: &[(&str, u64)], new: &[(&str, u64)]) -> ExtraCost {
        let (old, new) = (profile(old), profile(new));
        super::super::explain(&old, &new).extra
    }

    #[test]
    fn recursion_counts_once_and_callers_include_what_they_call() {
        let found = table(
            &[("main;f", 100), ("main;g", 100)],
            &[("main;f;f;f", 200), ("main;g", 150), ("main;g;h", 50)],
        );
        assert_eq!(found.direction, Direction::Costlier);
        assert_eq!(told(&found), ["main 100", "f 50", "g 50", "h 25 NEW"]);
    }

    #[test]
    fn what_is_in_the_chance_of_sampling_is_still_new() {
        let found = table(&[("m;a", 1000), ("m;b", 1)], &[("m;a", 1000), ("m;b", 500)]);
        assert_eq!(told(&found), ["m 100", "b 100 NEW"]);
        let found = table(&[("m;a", 1000), ("m;b", 3)], &[("m;a", 1000), ("m;b", 500)]);
        assert_eq!(told(&found), ["m 100", "b 100"]);
    }

    #[test]
    fn a_saved_cost_is_divided_the_same_way() {
        let found = table(&[("m;a", 100), ("m;b", 300)], &[("m;a", 120)]);
        assert_eq!(found.direction, Direction::Cheaper);
        assert_eq!(told(&found), ["b 107 NEW", "m 100"]);
        assert_eq!(found.entry.unwrap().row.frame, "b");
    }

    #[test]
    fn sides_that_cost_the_same_have_nothing_to_divide() {
        let found = table(&[("m;a", 1000)], &[("m;b", 1005)]);
        assert_eq!(found.direction, Direction::Alike);
        assert!(found.rows.is_empty() && found.entry.is_none());
    }

    #[test]
    fn programs_of_other_names_are_the_same_program() {
        let found = table(&[("bench-old;f", 100)], &[("bench-new;f", 300)]);
        assert_eq!(told(&found), ["bench-old 100", "f 100"]);
    }
}
