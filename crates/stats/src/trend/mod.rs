//! Detects changes in a series with one point per session. The detection is repeated after every
//! new point.
//!
//! This module finds where the level of a series changed, with the evidence and the size of each
//! change. It knows nothing about commits, sessions or names of machines: a point is only a value
//! with a position and the number of its machine. The evidence is rank-based, so one limit suits
//! any shape of noise. The limit allows for the repetition after every point. Start at
//! [`find_changes`]; [`ChangeDetector`] continues where the last detection ended.
//!
//! ```
//! use speedwell_stats::trend::{ChangeEvidence, MeasuredPoint, find_changes};
//!
//! // Forty sessions of one machine, one per revision; from the twenty-first on, everything takes 5 % longer.
//! let points: Vec<MeasuredPoint> = (0..40)
//!     .map(|i| MeasuredPoint {
//!         value: (1.0 + f64::from(i * 7 % 11) * 0.001) * if i < 20 { 1.0 } else { 1.05 },
//!         machine: 0,
//!         position: i,
//!     })
//!     .collect();
//! let changes = find_changes(&points)?;
//! assert_eq!((changes[0].before, changes[0].after), (19, 20));
//! assert_eq!(changes[0].evidence, ChangeEvidence::Found { seen: 27 });
//! assert!((changes[0].size.ratio - 1.05).abs() < 0.005);
//! # Ok::<(), speedwell_stats::trend::TooManyNonPositive>(())
//! ```

mod autocorrelation;
mod detector;
mod level;
mod scan;
mod serialization;
mod series;
mod shape;
mod stretch_cache;

pub use detector::{
    ChangeDetector, ChangeEvidence, DetectedChange, FIRST_FINDING, FIRST_SUSPICION,
};
pub use level::{LogMeasurement, between_sessions, first_beyond, weighted_level};
pub use series::{MeasuredPoint, TooManyNonPositive, TrendSeries};
pub use shape::{ChangeShape, ChangeSize, machine_swap};

use crate::distribution::normal;
use crate::test::mann_whitney::lower_tails;
use std::sync::OnceLock;

/// Finds all changes of a series, oldest first. `points` must be in the order of the revisions, and
/// the places of the changes are indices into `points`.
///
/// # Errors
///
/// Fails if more than one value in ten is negative or not finite.
pub fn find_changes(points: &[MeasuredPoint]) -> Result<Vec<DetectedChange>, TooManyNonPositive> {
    let series = TrendSeries::new(points)?;
    let mut walk = ChangeDetector::default();
    walk.process_series(&series);
    Ok(walk.describe_changes(&series))
}

// Converts a rank sum to evidence: the normal deviate with the same tail. Three points against
// ninety-seven reach a tail of 6e-6, for which the normal approximation gives z = 2.9 instead of
// 4.4.

/// Maximum size of the smaller group for which the tail is counted exactly.
const EXACT_SIDE: usize = 10;
/// Maximum size of the larger group for which there is a table. A stretch has at most twice 256
/// points.
const LARGEST_SIDE: usize = 512;

/// Deviates of u = 0, 1, ..., computed on first use. Single precision keeps them below 5 MiB and
/// the error below 1e-6.
type DeviateTable = OnceLock<Box<[f32]>>;

static TABLES: [[DeviateTable; LARGEST_SIDE + 1]; EXACT_SIDE + 1] =
    [const { [const { OnceLock::new() }; LARGEST_SIDE + 1] }; EXACT_SIDE + 1];

/// Returns the z whose upper normal tail equals P(U <= u) for two groups of `k` and `l`
/// exchangeable values (Mann and Whitney, Annals of Mathematical Statistics 18, 1947).
///
/// `u` is the smaller of the two U statistics; halves come from ties and are rounded up.
pub fn exact_deviate(u: f64, k: usize, l: usize) -> f64 {
    let (small, large) = (k.min(l), k.max(l));
    if (1..=EXACT_SIDE).contains(&small) && large <= LARGEST_SIDE {
        let table = TABLES[small][large].get_or_init(|| deviate_table(small, large));
        if let Some(&z) = table.get(u.ceil() as usize) {
            return f64::from(z);
        }
    }
    let pairs = (k * l) as f64;
    (0.5 * pairs - u - 0.5) / u_deviation(k, l)
}

/// Standard deviation of U.
fn u_deviation(k: usize, l: usize) -> f64 {
    ((k * l * (k + l + 1)) as f64 / 12.0).sqrt()
}

/// Computes the deviates of u = 0, 1, ... up to one standard deviation below the mean. Closer to
/// the mean, the normal approximation is good enough.
fn deviate_table(small: usize, large: usize) -> Box<[f32]> {
    let last = (0.5 * (small * large) as f64 - u_deviation(small, large)).max(0.0) as usize + 1;
    let tails = lower_tails(last, small, large).unwrap_or_default();
    let mut z = tails.first().map_or(0.0, |&tail| normal::upper_quantile(tail));
    let next = tails.iter().map(|&tail| {
        // z changes little from one u to the next, so Newton's method starts from the last z. Once
        // its relative step is below 1e-5, the remaining error is far below single precision.
        z = normal::upper_quantile_near(tail, z, 1e-5);
        z as f32
    });
    next.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_separation_has_the_tail_of_one_arrangement() {
        // If 3 values lie below 97 others, the tail is 1 / C(100, 3) = 1 / 161 700.
        let tail = normal::upper_tail(exact_deviate(0.0, 3, 97));
        assert!((tail * 161_700.0 - 1.0).abs() < 1e-5, "{tail}");
        assert_eq!(exact_deviate(0.0, 97, 3), exact_deviate(0.0, 3, 97));
    }

    #[test]
    fn evidence_falls_with_growing_u_and_ties_never_raise_it() {
        for (k, l) in [(3, 40), (10, 10), (10, 400), (11, 200)] {
            let last = (0.5 * (k * l) as f64 - u_deviation(k, l)) as usize;
            let z: Vec<f64> = (0..=last).map(|u| exact_deviate(u as f64, k, l)).collect();
            assert!(z.windows(2).all(|pair| pair[0] > pair[1]), "{k} {l}");
            assert!(exact_deviate(0.5, k, l) < z[0] && exact_deviate(0.5, k, l) >= z[1]);
        }
    }

    #[test]
    fn exact_and_approximated_deviates_agree_where_they_meet() {
        for l in [11, 50, 240] {
            let u = (5 * l) as f64 - 3.0 * u_deviation(10, l);
            let approximated = (5 * l) as f64 - u.ceil() - 0.5;
            let z = exact_deviate(u, 10, l);
            assert!((z - approximated / u_deviation(10, l)).abs() < 0.2, "{z}");
        }
    }
}
