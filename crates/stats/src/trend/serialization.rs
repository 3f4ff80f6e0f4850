//! Serializes a walk (a detection along a series), so that another process can continue it. The
//! bytes hold the state of the walk, where its borders (the places of changes) were put, and the
//! shapes and sizes computed for them.
//!
//! This module decides whether a stored walk is still valid. It computes nothing itself. Start at
//! [`ChangeDetector::to_bytes`].

use super::detector::{ChangeDetector, LevelBorder};
use super::series::TrendSeries;
use super::shape::{ChangeShape, ChangeSize};
use super::stretch_cache::WalkCache;
use crate::interval::Interval;

/// Incremented whenever the search changes: a walk cached by another version is recomputed.
const VERSION: u64 = 1;

impl ChangeDetector {
    /// Serializes the walk, so that it can continue after the points of `series`. The walk must
    /// have seen all these points. The result consists of little-endian words of eight bytes: a
    /// version, the number of points, their digest, the state of the walk, and three lists, each
    /// preceded by its length. The lists hold the borders, the places found for them, and their
    /// shapes and sizes.
    pub fn to_bytes(&self, series: &TrendSeries) -> Vec<u8> {
        let seen = series.len();
        let mut words = vec![VERSION, seen as u64, series.digest(seen)];
        words.extend([self.next, self.front, self.raised, self.borders.len()].map(|n| n as u64));
        for LevelBorder { at, seen, found, z } in &self.borders {
            // `found` is a number of points and therefore never 0, so that 0 can mean "not found".
            words.extend([*at, *seen, found.unwrap_or(0)].map(|n| n as u64));
            words.push(z.to_bits());
        }
        let WalkCache { places, looks } = &self.known;
        words.push(places.iter().count() as u64);
        for (stretch, at, place) in places.iter() {
            words.extend([stretch.start, stretch.end, *at, *place].map(|n| n as u64));
        }
        words.push(looks.iter().count() as u64);
        for (stretch, at, (shape, ChangeSize { ratio, interval })) in looks.iter() {
            words.extend([stretch.start, stretch.end, *at].map(|n| n as u64));
            words.push(u64::from(*shape == ChangeShape::Drift));
            words.extend([*ratio, interval.low, interval.high].map(f64::to_bits));
        }
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Restores a walk, if `bytes` have this version and `series` starts with the points that the
    /// walk has seen.
    pub fn from_bytes(bytes: &[u8], series: &TrendSeries) -> Option<ChangeDetector> {
        let (words, []) = bytes.as_chunks() else {
            return None;
        };
        let mut words = WordReader(words.iter());
        let (version, seen, digest) = (words.next()?, words.next_count()?, words.next()?);
        if version != VERSION || seen > series.len() || digest != series.digest(seen) {
            return None;
        }
        let mut walk = ChangeDetector {
            next: words.next_count()?,
            front: words.next_count()?,
            raised: words.next_count()?,
            borders: Vec::new(),
            known: WalkCache::default(),
        };
        for _ in 0..words.next_count()? {
            walk.borders.push(LevelBorder {
                at: words.next_count()?,
                seen: words.next_count()?,
                found: Some(words.next_count()?).filter(|seen| *seen > 0),
                z: words.next_number()?,
            });
        }
        for _ in 0..words.next_count()? {
            let stretch = words.next_count()?..words.next_count()?;
            walk.known.places.add_entry(stretch, words.next_count()?, words.next_count()?);
        }
        for _ in 0..words.next_count()? {
            let (stretch, at) = (words.next_count()?..words.next_count()?, words.next_count()?);
            let is_drift = words.next()? == 1;
            let shape = if is_drift { ChangeShape::Drift } else { ChangeShape::Step };
            let ratio = words.next_number()?;
            let interval = Interval { low: words.next_number()?, high: words.next_number()? };
            walk.known.looks.add_entry(stretch, at, (shape, ChangeSize { ratio, interval }));
        }
        Some(walk)
    }
}

/// Reads words one after another.
struct WordReader<'a>(std::slice::Iter<'a, [u8; 8]>);

impl WordReader<'_> {
    fn next(&mut self) -> Option<u64> {
        self.0.next().map(|word| u64::from_le_bytes(*word))
    }

    fn next_count(&mut self) -> Option<usize> {
        self.next().and_then(|word| usize::try_from(word).ok())
    }

    fn next_number(&mut self) -> Option<f64> {
        self.next().map(f64::from_bits)
    }
}
