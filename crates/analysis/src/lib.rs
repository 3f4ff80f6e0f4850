//! Series in, findings out: pure functions, no input or output, nothing formatted.
//!
//! [`of()`] judges one session, [`across()`] several, [`calibrate()`] a machine, [`study()`] how a metric depends on a
//! parameter, and a [`Judge`] says during measuring when a case needs no more runs. Start at
//! [`of()`]; what a verdict rests on is in `replay.rs`, the one way to an answer for measuring and
//! analysing alike.

mod across;
mod calibration;
pub mod code;
mod comparison;
mod correction;
mod dependence;
mod evidence;
pub mod experiment;
mod findings;
mod grid;
pub mod iterations;
mod judge;
pub mod load;
mod locations;
mod look;
mod of;
mod overall;
mod pair;
mod parallel;
mod planning;
pub mod profile;
mod remarks;
mod replay;
mod row;
mod rule;
pub mod scaling;
mod settings;
mod study;
mod summary;
pub mod validity;
mod warnings;

#[cfg(test)]
mod tests;

pub use across::across;
pub use calibration::calibrate;
pub use evidence::mann_whitney_p;
pub use findings::*;
pub use judge::Judge;
pub use of::of;
pub use row::finite;
pub use settings::Settings;
pub use study::point::is_skewed;
pub use study::step::reachable_p;
pub use study::{LARGE_SHARE, study};
pub use warnings::{out_of_reach, uncalibrated};
