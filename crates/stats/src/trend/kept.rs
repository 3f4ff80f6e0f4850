//! Serialization of a walk, so that another process can continue it: where its borders were placed,
//! how they were described, and the walk as bytes.
//!
//! Decides whether cached results are still valid; computes none. Start at [`Walk::to_bytes`].

use super::known::Known;
use super::series::Series;
use super::shape::{Shape, Size};
use super::walk::{Border, Walk};
use crate::interval::Interval;

/// Incremented whenever the search changes: a walk cached by another version is recomputed.
const VERSION: u64 = 1;

impl Walk {
    /// Serializes what is needed to continue after these points, all of which the walk has seen:
    /// little-endian words of eight bytes, namely a version, the number of points, their digest,
    /// the state of the walk, and three lists, each preceded by its length: borders, places and
    /// looks.
    pub fn to_bytes(&self, series: &Series) -> Vec<u8> {
        let seen = series.len();
        let mut words = vec![VERSION, seen as u64, series.digest(seen)];
        words.extend([self.next, self.front, self.raised, self.borders.len()].map(|n| n as u64));
        for Border { at, seen, found, z } in &self.borders {
            // No border is found at the first point, so 0 means "not found".
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

    /// Restores a walk, if it has this version and `series` starts with the points that it has
    /// seen.
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

/// Reads words one after another.
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
