//! Changes in a course of points: one point a session, looked at after every one of them.
//!
//! Decides where the level of a series changed, how sure that is, and how large the change; it must not know commits,
//! sessions or names of machines, only their order. Ranks carry the evidence, so that one limit holds whatever the noise
//! is shaped like, and that limit counts every look at every point. Start at [`search`]; [`Walk`] goes on where the last
//! look ended.
//!
//! ```
//! use speedwell_stats::trend::{Evidence, Point, search};
//!
//! // Forty sessions of one machine, one a revision; from the twenty-first on everything takes 5 % longer.
//! let points: Vec<Point> = (0..40)
//!     .map(|i| Point {
//!         value: (1.0 + f64::from(i * 7 % 11) * 0.001) * if i < 20 { 1.0 } else { 1.05 },
//!         machine: 0,
//!         position: i,
//!     })
//!     .collect();
//! let changes = search(&points)?;
//! assert_eq!((changes[0].before, changes[0].after), (19, 20));
//! assert_eq!(changes[0].evidence, Evidence::Found { seen: 27 });
//! assert!((changes[0].size.ratio - 1.05).abs() < 0.005);
//! # Ok::<(), speedwell_stats::trend::Unsearchable>(())
//! ```

mod autocorrelation;
mod evidence;
mod level;
mod scan;
mod series;
mod shape;
mod walk;

pub use evidence::deviate;
pub use level::{Measured, between_sessions, first_beyond, weighted_level};
pub use series::{Point, Series, Unsearchable};
pub use shape::{Shape, Size, machine_swap};
pub use walk::{Change, Evidence, FIRST_FINDING, FIRST_SUSPICION, Walk};

/// All changes of a course, oldest first; places are indices into `points`.
///
/// # Errors
///
/// When more than one value in ten has no logarithm.
pub fn search(points: &[Point]) -> Result<Vec<Change>, Unsearchable> {
    let series = Series::new(points)?;
    let mut walk = Walk::default();
    walk.go_on(&series);
    Ok(walk.changes(&series))
}
