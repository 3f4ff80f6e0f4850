//! What a walk keeps for the next look, which may be that of another process: where its borders were placed and how they were
//! described, and all of it as bytes.
//!
//! Decides when something that was found earlier still holds; it must not find anything itself. Start at [`Walk::to_bytes`].

use super::known::Known;
use super::series::Series;
use super::shape::{Shape, Size};
use super::walk::{Border, Walk};
use crate::interval::Interval;

/// Raised whenever the search changes: what another version has kept is walked again.
const VERSION: u64 = 1;

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
