//! Two profiles of equal work: where the candidate's extra cost sits.
//!
//! Decides what counts as new, which frame the cost enters by, and how both sides make one tree. It must not
//! know how profiles are recorded or drawn. Start at [`explain`].

mod call_tree;
mod case_profile;
mod costs;
mod entry;
mod extra_cost;
mod roots;

pub use call_tree::CallNode;
pub use case_profile::{CaseProfile, ProfiledSides, case_profiles};
pub use entry::Entry;
pub use extra_cost::{CostRow, Direction, ExtraCost};

use speedwell_model::Profile;

/// What two profiles of equal work say about each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Where the difference sits, as a table.
    pub extra: ExtraCost,
    /// Both sides as one tree of calls; its root stands for everything.
    pub tree: CallNode,
}

/// Explains what a candidate costs more, or less, than a baseline that did the same work. Weights of both must
/// have the same unit.
pub fn explain(baseline: &Profile, candidate: &Profile) -> Explanation {
    let renamed = roots::renamed(baseline, candidate);
    Explanation {
        extra: extra_cost::of(baseline, candidate, renamed.as_ref()),
        tree: call_tree::of(baseline, candidate, renamed.as_ref()),
    }
}
