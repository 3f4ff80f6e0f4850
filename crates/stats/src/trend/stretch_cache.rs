//! Caches what the change detector computes about stretches of a series, so that it is not computed
//! again when points are added. Start at [`StretchCache::get_or_compute`].

use super::shape::{ChangeShape, ChangeSize};
use std::ops::Range;

/// Results about stretches of a series. They stay valid when points are added, because a stretch
/// keeps its points.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct WalkCache {
    /// Place to which a border in a stretch is moved.
    pub places: StretchCache<usize>,
    /// Shape and size of the change at a border.
    pub looks: StretchCache<(ChangeShape, ChangeSize)>,
}

/// Results, each for a stretch of points and a border in that stretch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StretchCache<T> {
    earlier: Vec<(Range<usize>, usize, T)>,
    now: Vec<(Range<usize>, usize, T)>,
}

impl<T> Default for StretchCache<T> {
    fn default() -> StretchCache<T> {
        StretchCache { earlier: Vec::new(), now: Vec::new() }
    }
}

impl<T: Copy> StretchCache<T> {
    /// Starts another pass, and drops the entries that were not requested in the previous pass.
    pub fn start_pass(&mut self) {
        self.earlier = std::mem::take(&mut self.now);
    }

    /// Returns the cached result for a border in a stretch, or computes it with `find`.
    pub fn get_or_compute(
        &mut self,
        stretch: Range<usize>,
        at: usize,
        find: impl FnOnce() -> T,
    ) -> T {
        let found = self
            .earlier
            .iter()
            .chain(&self.now)
            .find(|(range, border, _)| *range == stretch && *border == at)
            .map_or_else(find, |(_, _, found)| *found);
        self.now.push((stretch, at, found));
        found
    }

    /// The entries of the last pass.
    pub fn iter(&self) -> impl Iterator<Item = &(Range<usize>, usize, T)> {
        self.now.iter()
    }

    /// Adds an entry from an earlier process.
    pub fn add_entry(&mut self, stretch: Range<usize>, at: usize, found: T) {
        self.now.push((stretch, at, found));
    }
}
