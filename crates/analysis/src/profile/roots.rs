//! The outermost frames of both sides, which are names of threads: two programs of different names still do the
//! same work.

use speedwell_model::Profile;
use std::collections::BTreeMap;

/// A side's outermost frame is that of its main thread if it has more than this share of its cost.
const MAIN_THREAD: f64 = 0.5;

/// An outermost frame of the candidate, and the one of the baseline that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renamed {
    from: String,
    to: String,
}

/// The candidate's main thread, where it is called otherwise than the baseline's: measured were two programs
/// of different names. Without this nothing in them would have a counterpart.
pub fn renamed(baseline: &Profile, candidate: &Profile) -> Option<Renamed> {
    let (old, new) = (roots(baseline), roots(candidate));
    let from = main_thread(&new, candidate.total())?;
    let to = main_thread(&old, baseline.total())?;
    let unknown_to_each_other = !old.contains_key(from) && !new.contains_key(to);
    (from != to && unknown_to_each_other).then(|| Renamed {
        from: from.to_owned(),
        to: to.to_owned(),
    })
}

/// The frames of a candidate's stack, outermost first, as the baseline would call them.
pub fn aligned<'a>(mut frames: Vec<&'a str>, renamed: Option<&'a Renamed>) -> Vec<&'a str> {
    if let (Some(first), Some(renamed)) = (frames.first_mut(), renamed)
        && *first == renamed.from
    {
        *first = &renamed.to;
    }
    frames
}

fn roots(profile: &Profile) -> BTreeMap<&str, u64> {
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
