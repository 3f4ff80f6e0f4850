//! What a walk found out earlier and need not look for again. Start at [`Found::get`].

use super::shape::{Shape, Size};
use std::ops::Range;

/// What was found out of stretches of a series that only grows, so that it holds as long as it is about the same stretch.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Known {
    /// Where the border of a stretch lies.
    pub places: Found<usize>,
    /// What a border looks like.
    pub looks: Found<(Shape, Size)>,
}

/// Findings by the stretch of points that they are about, and the border in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found<T> {
    earlier: Vec<(Range<usize>, usize, T)>,
    now: Vec<(Range<usize>, usize, T)>,
}

impl<T> Default for Found<T> {
    fn default() -> Found<T> {
        Found {
            earlier: Vec::new(),
            now: Vec::new(),
        }
    }
}

impl<T: Copy> Found<T> {
    /// Begins another look: what it does not ask for is forgotten after it.
    pub fn begin(&mut self) {
        self.earlier = std::mem::take(&mut self.now);
    }

    /// What is known of a border in a stretch, or what `find` says.
    pub fn get(&mut self, stretch: Range<usize>, at: usize, find: impl FnOnce() -> T) -> T {
        let mut known = self.earlier.iter().chain(&self.now);
        let known = known.find(|(range, border, _)| *range == stretch && *border == at);
        let found = known.map_or_else(find, |(_, _, found)| *found);
        self.now.push((stretch, at, found));
        found
    }

    /// What the last look found.
    pub fn iter(&self) -> impl Iterator<Item = &(Range<usize>, usize, T)> {
        self.now.iter()
    }

    /// Adds what an earlier process found.
    pub fn add(&mut self, stretch: Range<usize>, at: usize, found: T) {
        self.now.push((stretch, at, found));
    }
}
