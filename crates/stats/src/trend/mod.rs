//! Detects changes in a series with one point per session. The detection is repeated after every
//! new point.
//!
//! This module finds where the level of a series changed, with the evidence and the size of each
//! change. It knows nothing about commits, sessions or names of machines: a point is only a value
//! with a position and the number of its machine. The evidence is rank-based, so one limit suits
//! any shape of noise. The limit takes into account that the detection is repeated after every
//! point. Start at [`find_changes`]; [`ChangeDetector`] continues where the last detection ended.
//!
//! ```
//! use speedwell_stats::trend::{ChangeEvidence, MeasuredPoint, find_changes};
//!
//! // Forty sessions of one machine, one per revision; from the twenty-first on, everything takes 5% longer.
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
//! # Ok::<(), speedwell_stats::trend::TooManyUnusableValues>(())
//! ```

mod detector;
mod scan;
mod series;

pub use detector::{
    ChangeDetector, ChangeEvidence, DetectedChange, FIRST_FINDING, FIRST_SUSPICION,
};
pub use scan::{ChangeShape, exact_deviate, machine_swap};
pub use series::{
    LogMeasurement, MeasuredPoint, TooManyUnusableValues, TrendSeries, between_sessions,
    first_beyond, weighted_level,
};

/// Finds all changes of a series, oldest first. `points` must be in the order of the revisions, and
/// the places of the changes are indices into `points`.
///
/// # Errors
///
/// Fails if more than one value in ten is negative or not finite; zero is allowed.
pub fn find_changes(
    points: &[MeasuredPoint],
) -> Result<Vec<DetectedChange>, TooManyUnusableValues> {
    let series = TrendSeries::new(points)?;
    let mut walk = ChangeDetector::default();
    walk.process_series(&series);
    Ok(walk.describe_changes(&series))
}
