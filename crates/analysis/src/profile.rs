//! Compares two profiles of equal work to find where the candidate's extra cost lies, and arranges
//! the profiles of a session by case.
//!
//! Decides which functions count as new, through which function the extra cost enters, and how both
//! sides form one tree. Costs are absolute, because both sides did the same work. Costs are also
//! inclusive: the cost of a caller contains the cost of its callees, so no column adds up to 100%.
//! Neither records nor draws profiles. Start at [`explain_difference`].

use crate::grid::distinct_items;
use speedwell_model::{Case, ProfileOutcome, ProfileRecording, Session, StackProfile};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Comparison of two profiles of equal work.
#[derive(Debug, Clone, PartialEq)]
pub struct CostExplanation {
    /// Table of the functions in which the difference lies.
    pub extra: ExtraCost,
    /// Both sides as one call tree. Its root represents the whole profiles.
    pub tree: CallNode,
}

/// Compares a candidate's cost with the cost of a baseline that did the same work. Both profiles
/// must use the same unit of weight.
pub fn explain_difference(baseline: &StackProfile, candidate: &StackProfile) -> CostExplanation {
    let mut candidate_stacks: Vec<_> = candidate.stacks().collect();
    if let Some((from, to)) = find_renamed_thread(baseline, candidate) {
        for (frames, _) in &mut candidate_stacks {
            if let Some(first) = frames.first_mut().filter(|first| **first == from) {
                *first = to;
            }
        }
    }
    let profiles = ComparedProfiles {
        stacks: [baseline.stacks().collect(), candidate_stacks],
        totals: [baseline.total(), candidate.total()],
    };
    CostExplanation { extra: profiles.extra_cost(), tree: profiles.call_tree() }
}

/// Comparison of two variants' profiles in one case.
#[derive(Debug, Clone)]
pub struct CaseProfile {
    /// The case.
    pub case: Case,
    /// Name of the baseline.
    pub baseline: String,
    /// Name of the candidate.
    pub candidate: String,
    /// Both sides, or a sentence that explains why they cannot be compared.
    pub sides: Result<Box<ProfiledSides>, String>,
}

/// Two profiles of the same work.
#[derive(Debug, Clone)]
pub struct ProfiledSides {
    /// Profiles of the baseline and of the candidate.
    pub profiles: [Arc<StackProfile>; 2],
    /// Comparison of the two profiles.
    pub explanation: CostExplanation,
}

/// Compares the profiles of a session for these pairs of variants, in the order in which cases were
/// recorded. Skips pairs in which a side has no recording.
pub fn case_profiles(session: &Session, pairs: &[(String, String)]) -> Vec<CaseProfile> {
    let cases = distinct_items(session.profiles.iter().map(|recording| &recording.case));
    let side = |case: &Case, variant: &str| {
        let mut recordings = session.profiles.iter();
        recordings.find(|recording| recording.case == *case && recording.variant == variant)
    };
    let mut profiles = Vec::new();
    for case in cases {
        for (baseline, candidate) in pairs {
            if let (Some(old), Some(new)) = (side(case, baseline), side(case, candidate)) {
                profiles.push(CaseProfile {
                    case: case.clone(),
                    baseline: baseline.clone(),
                    candidate: candidate.clone(),
                    sides: profiled_sides(old, new).map(Box::new),
                });
            }
        }
    }
    profiles
}

fn profiled_sides(old: &ProfileRecording, new: &ProfileRecording) -> Result<ProfiledSides, String> {
    match (&old.profile, &new.profile) {
        (ProfileOutcome::Taken(old), ProfileOutcome::Taken(new)) if old.unit == new.unit => {
            let explanation = explain_difference(old, new);
            Ok(ProfiledSides { profiles: [old, new].map(Arc::clone), explanation })
        }
        (ProfileOutcome::Taken(_), ProfileOutcome::Taken(_)) => Err(format!(
            "'{}' and '{}' were recorded by different tools, whose costs have different units.",
            old.variant, new.variant
        )),
        (ProfileOutcome::Missing(reason), ProfileOutcome::Missing(other_reason))
            if reason == other_reason =>
        {
            Err(format!("No profile: {reason}."))
        }
        _ => {
            let missing = [old, new].into_iter().filter_map(|side| match &side.profile {
                ProfileOutcome::Missing(reason) => {
                    Some(format!("No profile of '{}': {reason}.", side.variant))
                }
                ProfileOutcome::Taken(_) => None,
            });
            Err(missing.collect::<Vec<_>>().join(" "))
        }
    }
}

/// A function counts as new if its fraction of the cheaper side's cost is below this limit, because
/// so small a cost can be sampling noise.
const NEW_BELOW: f64 = 0.002;
/// The table shows functions with at least this fraction of the extra cost.
const SMALLEST_SHARE: f64 = 0.03;
/// Costs count as equal if their relative difference is smaller than this. The parts of so small a
/// difference would be noise.
const ALIKE_BELOW: f64 = 0.01;

/// Where the difference between two sides lies.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtraCost {
    /// Weight of the baseline.
    pub baseline: u64,
    /// Weight of the candidate.
    pub candidate: u64,
    /// Which side costs more.
    pub direction: CostDirection,
    /// Functions, sorted by their part of the difference, largest first. Of functions with equal
    /// parts, callers come before callees. Empty if both sides cost the same.
    pub rows: Vec<CostRow>,
    /// Function through which most of the difference enters.
    pub entry: Option<CostEntry>,
}

/// Which side costs more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostDirection {
    /// The candidate costs more.
    Costlier,
    /// The baseline costs more.
    Cheaper,
    /// The costs differ by less than 1%.
    Alike,
}

/// A function in the table.
#[derive(Debug, Clone, PartialEq)]
pub struct CostRow {
    /// Name of the function.
    pub frame: String,
    /// Fraction of the difference in this function; 1 is the whole difference.
    pub share: f64,
    /// Fraction of the baseline's cost in this function.
    pub baseline: f64,
    /// Fraction of the candidate's cost in this function.
    pub candidate: f64,
    /// Whether only the costlier side has the function, apart from sampling noise.
    pub is_new: bool,
    /// Smallest number of frames above the function in a stack.
    pub depth: usize,
}

/// The baseline's and the candidate's profile.
struct ComparedProfiles<'a> {
    /// Frames of each stack, outermost first, under the baseline's names, with the weight.
    stacks: [Vec<(Vec<&'a str>, u64)>; 2],
    totals: [u64; 2],
}

impl<'a> ComparedProfiles<'a> {
    /// Computes the table.
    fn extra_cost(&self) -> ExtraCost {
        let [baseline, candidate] = self.totals;
        let direction = self.cost_direction();
        let mut rows = match direction {
            CostDirection::Alike => Vec::new(),
            CostDirection::Costlier | CostDirection::Cheaper => self.cost_rows(|frames| frames),
        };
        let entry = self.find_entry(&rows);
        rows.retain(|row| row.share >= SMALLEST_SHARE);
        ExtraCost { baseline, candidate, direction, rows, entry }
    }

    fn cost_direction(&self) -> CostDirection {
        let larger = self.totals[0].max(self.totals[1]) as f64;
        match self.extra_weight() {
            extra if extra.abs() <= ALIKE_BELOW * larger => CostDirection::Alike,
            extra if extra > 0.0 => CostDirection::Costlier,
            _ => CostDirection::Cheaper,
        }
    }

    fn extra_weight(&self) -> f64 {
        self.totals[1] as f64 - self.totals[0] as f64
    }

    /// Functions that contribute to the difference, largest share first. `select_frames` receives
    /// the frames of a stack and returns those to include.
    fn cost_rows(
        &self,
        select_frames: impl for<'s> Fn(&'s [&'a str]) -> &'s [&'a str],
    ) -> Vec<CostRow> {
        let [old, new] =
            (self.stacks.each_ref()).map(|stacks| function_costs(stacks, &select_frames));
        let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
        let row = |name: &str| self.cost_row(name, old.get(name).copied(), new.get(name).copied());
        let mut rows: Vec<CostRow> = names.into_iter().map(row).collect();
        rows.retain(|row| row.share > 0.0);
        // The names were already sorted, so functions of equal share and depth stay sorted by name.
        rows.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.depth.cmp(&b.depth)));
        rows
    }

    fn cost_row(
        &self,
        name: &str,
        old: Option<FunctionCost>,
        new: Option<FunctionCost>,
    ) -> CostRow {
        let weight = |cost: Option<FunctionCost>| cost.unwrap_or_default().inclusive as f64;
        let (before, after) = (weight(old), weight(new));
        let [baseline, candidate] = self.totals;
        let (cheaper, total, costlier) = match self.cost_direction() {
            CostDirection::Cheaper => (after, candidate, old),
            _ => (before, baseline, new),
        };
        CostRow {
            frame: name.to_owned(),
            share: (after - before) / self.extra_weight(),
            baseline: before / baseline.max(1) as f64,
            candidate: after / candidate.max(1) as f64,
            is_new: cheaper < NEW_BELOW * total as f64,
            depth: costlier.or(old).or(new).unwrap_or_default().depth,
        }
    }

    /// Finds the entry. Of the new functions with nearly the largest part of the difference, the
    /// one nearest to the root is the entry. If no new function has a relevant part, the entry is
    /// the innermost function with at least half of the difference.
    fn find_entry(&self, rows: &[CostRow]) -> Option<CostEntry> {
        let row = find_new_entry(rows).or_else(|| find_innermost_entry(rows))?.clone();
        // The cost of callees includes only calls below this function.
        let mut below = self.cost_rows(|frames| {
            let index = frames.iter().position(|name| *name == row.frame);
            index.map_or(&[][..], |index| &frames[index + 1..])
        });
        below.retain(|callee| callee.frame != row.frame);
        below.truncate(MAX_CALLEES);
        Some(CostEntry { row, below })
    }

    fn call_tree(&self) -> CallNode {
        let mut root = CallNode::default();
        let [baseline, candidate] = &self.stacks;
        for (frames, weight) in baseline {
            root.add_stack(frames, |node| node.baseline = node.baseline.saturating_add(*weight));
        }
        for (frames, weight) in candidate {
            root.add_stack(frames, |node| node.candidate = node.candidate.saturating_add(*weight));
        }
        root
    }
}

/// An existing function is the entry only if it has at least this fraction of the difference.
const MIN_ENTRY_SHARE: f64 = 0.5;
/// A new function is the entry only if it has at least this fraction of the difference. A function
/// with less may be one-time work, such as loading a module, while the actual work became slower.
const MIN_NEW_ENTRY_SHARE: f64 = 0.2;
/// New functions belong to one call chain if their parts of the difference are smaller than the
/// largest part by at most this fraction. The function nearest to the root is the entry.
const SAME_CHAIN_SHARE: f64 = 0.05;
/// Number of callees listed.
const MAX_CALLEES: usize = 5;

/// Function through which most of the difference enters.
#[derive(Debug, Clone, PartialEq)]
pub struct CostEntry {
    /// Row of the function. A new function brings the cost with it; for any other function, the
    /// cost grew in the function itself or below it.
    pub row: CostRow,
    /// Direct and indirect callees, sorted by their part of the difference, largest first.
    pub below: Vec<CostRow>,
}

fn find_new_entry(rows: &[CostRow]) -> Option<&CostRow> {
    let is_function = |row: &&CostRow| row.is_new && !row.frame.starts_with('[');
    let largest = rows.iter().find(is_function)?;
    if largest.share < MIN_NEW_ENTRY_SHARE {
        return None;
    }
    let is_in_chain = |row: &&CostRow| row.share >= largest.share * (1.0 - SAME_CHAIN_SHARE);
    rows.iter().filter(is_function).filter(is_in_chain).min_by_key(|row| row.depth)
}

fn find_innermost_entry(rows: &[CostRow]) -> Option<&CostRow> {
    rows.iter()
        .filter(|row| row.share >= MIN_ENTRY_SHARE && row.depth > 0 && !row.frame.starts_with('['))
        .max_by_key(|row| row.depth)
}

/// Cost of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct FunctionCost {
    /// Weight of the stacks that contain the function. If a function occurs in a stack several
    /// times, the weight of the stack is added only once.
    inclusive: u64,
    /// Smallest number of frames above the function in a stack.
    depth: usize,
}

/// Cost of each function in the selected frames of these stacks.
fn function_costs<'a>(
    stacks: &[(Vec<&'a str>, u64)],
    select_frames: impl for<'s> Fn(&'s [&'a str]) -> &'s [&'a str],
) -> HashMap<&'a str, FunctionCost> {
    let mut costs: HashMap<&str, FunctionCost> = HashMap::new();
    let mut counted = HashSet::new();
    for (frames, weight) in stacks {
        counted.clear();
        for (depth, &frame) in select_frames(frames).iter().enumerate() {
            let cost = costs.entry(frame).or_insert(FunctionCost { inclusive: 0, depth });
            cost.depth = cost.depth.min(depth);
            if counted.insert(frame) {
                cost.inclusive = cost.inclusive.saturating_add(*weight);
            }
        }
    }
    costs
}

/// Maximum depth of the tree; the cost of deeper frames counts toward the frame at this depth.
/// Readable trees are never deeper, and the limit keeps recursion over the tree from exhausting the
/// stack.
const MAX_DEPTH: usize = 400;

/// A function called from one place, with the costs of both sides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallNode {
    /// Name of the function; empty for the root, which represents the whole profiles.
    pub name: String,
    /// Inclusive cost in the baseline.
    pub baseline: u64,
    /// Inclusive cost in the candidate.
    pub candidate: u64,
    /// Callees, by name.
    pub children: Vec<CallNode>,
}

impl CallNode {
    fn add_stack(&mut self, frames: &[&str], add: impl Fn(&mut CallNode)) {
        let mut node = self;
        add(node);
        for &frame in frames.iter().take(MAX_DEPTH) {
            let place = node.children.binary_search_by(|child| child.name.as_str().cmp(frame));
            let index = place.unwrap_or_else(|index| {
                let child = CallNode { name: frame.to_owned(), ..CallNode::default() };
                node.children.insert(index, child);
                index
            });
            node = &mut node.children[index];
            add(node);
        }
    }

    /// Extra cost of the candidate, in the unit of the weights; negative if it costs less.
    pub fn extra_cost(&self) -> f64 {
        self.candidate as f64 - self.baseline as f64
    }
}

/// An outermost frame belongs to the main thread if it has more than this fraction of its side's
/// cost.
const MAIN_THREAD: f64 = 0.5;

/// Finds the outermost frame of the candidate's main thread, with the matching frame of the
/// baseline, if the two differ, as in programs with different names. Without this mapping, no frame
/// would have a counterpart.
fn find_renamed_thread<'a>(
    baseline: &'a StackProfile,
    candidate: &'a StackProfile,
) -> Option<(&'a str, &'a str)> {
    let (old, new) = (outermost_frames(baseline), outermost_frames(candidate));
    let from = main_thread(&new, candidate.total())?;
    let to = main_thread(&old, baseline.total())?;
    let unknown_to_each_other = !old.contains_key(from) && !new.contains_key(to);
    (from != to && unknown_to_each_other).then_some((from, to))
}

fn outermost_frames(profile: &StackProfile) -> BTreeMap<&str, u64> {
    let mut roots = BTreeMap::new();
    for (stack, weight) in profile.folded() {
        let root = stack.split(';').next().unwrap_or_default();
        *roots.entry(root).or_default() += weight;
    }
    roots
}

fn main_thread<'a>(roots: &BTreeMap<&'a str, u64>, total: u64) -> Option<&'a str> {
    let (name, weight) = roots.iter().max_by_key(|(_, weight)| **weight)?;
    (*weight as f64 > MAIN_THREAD * total as f64).then_some(*name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::{ProfileTool, WeightUnit};

    fn profile(stacks: &[(&str, u64)]) -> StackProfile {
        let mut profile = StackProfile::new(ProfileTool::Folded, WeightUnit::Unknown);
        for (stack, weight) in stacks {
            profile.add(stack.split(';'), *weight);
        }
        profile
    }

    fn lines(found: &ExtraCost) -> Vec<String> {
        let row = |row: &CostRow| {
            let new = if row.is_new { " NEW" } else { "" };
            format!("{} {:.0}{new}", row.frame, row.share * 100.0)
        };
        found.rows.iter().map(row).collect()
    }

    fn table(old: &[(&str, u64)], new: &[(&str, u64)]) -> ExtraCost {
        let (old, new) = (profile(old), profile(new));
        super::explain_difference(&old, &new).extra
    }

    #[test]
    fn recursion_counts_once_and_callers_include_what_they_call() {
        let found = table(
            &[("main;f", 100), ("main;g", 100)],
            &[("main;f;f;f", 200), ("main;g", 150), ("main;g;h", 50)],
        );
        assert_eq!(found.direction, CostDirection::Costlier);
        assert_eq!(lines(&found), ["main 100", "f 50", "g 50", "h 25 NEW"]);
    }

    #[test]
    fn a_function_with_a_tiny_cost_in_the_baseline_still_counts_as_new() {
        let found = table(&[("m;a", 1000), ("m;b", 1)], &[("m;a", 1000), ("m;b", 500)]);
        assert_eq!(lines(&found), ["m 100", "b 100 NEW"]);
        let found = table(&[("m;a", 1000), ("m;b", 3)], &[("m;a", 1000), ("m;b", 500)]);
        assert_eq!(lines(&found), ["m 100", "b 100"]);
    }

    #[test]
    fn a_saving_is_attributed_to_functions_like_an_extra_cost() {
        let found = table(&[("m;a", 100), ("m;b", 300)], &[("m;a", 120)]);
        assert_eq!(found.direction, CostDirection::Cheaper);
        assert_eq!(lines(&found), ["b 107 NEW", "m 100"]);
        assert_eq!(found.entry.unwrap().row.frame, "b");
    }

    #[test]
    fn sides_that_cost_the_same_have_no_rows_and_no_entry() {
        let found = table(&[("m;a", 1000)], &[("m;b", 1005)]);
        assert_eq!(found.direction, CostDirection::Alike);
        assert!(found.rows.is_empty() && found.entry.is_none());
    }

    #[test]
    fn main_threads_are_matched_even_if_the_programs_have_different_names() {
        let found = table(&[("bench-old;f", 100)], &[("bench-new;f", 300)]);
        assert_eq!(lines(&found), ["bench-old 100", "f 100"]);
    }

    #[test]
    fn a_tree_keeps_all_weight_of_both_sides() {
        let mut state = 1_u64;
        // Knuth's multiplier (MMIX); any deterministic sequence will do.
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % limit
        };
        for _ in 0..50 {
            let mut random = || {
                let mut profile = StackProfile::new(ProfileTool::Folded, WeightUnit::Unknown);
                for _ in 0..below(40) + 1 {
                    let frames: Vec<&str> = (0..below(6) + 1)
                        .map(|_| ["a", "b", "c", "d"][below(4) as usize])
                        .collect();
                    profile.add(frames, below(1000));
                }
                profile
            };
            let (old, new) = (random(), random());
            let tree = explain_difference(&old, &new).tree;
            assert_eq!((tree.baseline, tree.candidate), (old.total(), new.total()));
            check(&tree);
        }
    }

    /// Checks that no function costs less than its callees together.
    fn check(node: &CallNode) {
        let sum = |of: fn(&CallNode) -> u64| node.children.iter().map(of).sum::<u64>();
        assert!(sum(|child| child.baseline) <= node.baseline);
        assert!(sum(|child| child.candidate) <= node.candidate);
        node.children.iter().for_each(check);
    }
}
