//! What a walk keeps for the next look, which may be that of another process: where its borders were placed and how they were
//! described, and all of it as bytes.
//!
//! Decides when something that was found earlier still holds; it must not find anything itself. Start at [`Walk::to_bytes`].

use super::series::Series;
use super::shape::{Shape, Size};
use super::walk::{Border, Walk};
use crate::interval::Interval;
use std::ops::Range;

/// Raised whenever the search changes: what another version has kept is walked again.
const VERSION: u64 = 1;

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

impl Walk {
    /// Everything that is needed to go on behind these points, which the walk has seen: little-endian words of eight bytes, namely
    /// a version, the number of points, their digest, where the walk stands, and three lists, each after its length: borders,
    /// places and looks.
    pub fn to_bytes(&self, series: &Series) -> Vec<u8> {
        let seen = series.len();
        let mut words = vec![VERSION, seen as u64, series.digest(seen)];
        words.extend([self.next, self.front, self.raised, self.borders.len()].map(|n| n as u64));
        for Border { at, seen, found, z } in &self.borders {
            // No border is found with the first point.
            words.extend([*at, *seen, found.unwrap_or(0)].map(|n| n as u64));
            words.push(z.to_bits());
        }
        let Known { places, looks } = &self.known;
        words.push(places.iter().count() as u64);
        for (stretch, at, place) in places.iter() {
            words.extend([stretch.start, stretch.end, *at, *place].map(|n| n as u64));
        }
        words.push(looks.iter().count() as u64);
        for (stretch, at, (shape, Size { ratio, interval })) in looks.iter() {
            words.extend([stretch.start, stretch.end, *at].map(|n| n as u64));
            words.push(u64::from(*shape == Shape::Drift));
            words.extend([*ratio, interval.low, interval.high].map(f64::to_bits));
        }
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// The walk that was kept, if it is one of this version and all that it has seen is the beginning of `series`.
    pub fn from_bytes(bytes: &[u8], series: &Series) -> Option<Walk> {
        let (words, []) = bytes.as_chunks() else {
            return None;
        };
        let mut words = Words(words.iter());
        let (version, seen, digest) = (words.next()?, words.count()?, words.next()?);
        if version != VERSION || seen > series.len() || digest != series.digest(seen) {
            return None;
        }
        let mut walk = Walk {
            next: words.count()?,
            front: words.count()?,
            raised: words.count()?,
            borders: Vec::new(),
            known: Known::default(),
        };
        for _ in 0..words.count()? {
            walk.borders.push(Border {
                at: words.count()?,
                seen: words.count()?,
                found: Some(words.count()?).filter(|seen| *seen > 0),
                z: words.number()?,
            });
        }
        for _ in 0..words.count()? {
            let stretch = words.count()?..words.count()?;
            walk.known
                .places
                .add(stretch, words.count()?, words.count()?);
        }
        for _ in 0..words.count()? {
            let (stretch, at) = (words.count()?..words.count()?, words.count()?);
            let is_drift = words.next()? == 1;
            let shape = if is_drift { Shape::Drift } else { Shape::Step };
            let ratio = words.number()?;
            let interval = Interval {
                low: words.number()?,
                high: words.number()?,
            };
            walk.known
                .looks
                .add(stretch, at, (shape, Size { ratio, interval }));
        }
        Some(walk)
    }
}

/// Words, read one after another.
struct Words<'a>(std::slice::Iter<'a, [u8; 8]>);

impl Words<'_> {
    fn next(&mut self) -> Option<u64> {
        self.0.next().map(|word| u64::from_le_bytes(*word))
    }

    fn count(&mut self) -> Option<usize> {
        self.next().and_then(|word| usize::try_from(word).ok())
    }

    fn number(&mut self) -> Option<f64> {
        self.next().map(f64::from_bits)
    }
}
