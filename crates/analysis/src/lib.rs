//! Turns sessions into findings, in pure functions without I/O or formatting.
//!
//! [`analyze_session()`] judges one session, [`compare_sources()`] compares several,
//! [`calibrate_session()`] calibrates a machine, and [`study_parameter()`] finds how a metric
//! depends on a parameter. During a measurement, a [`StopRule`] decides when a case needs no more
//! runs. The stop rule and the analysis use the same decisions, which `sequential.rs` makes. Start
//! at [`analyze_session()`].

mod between_sessions;
pub mod bisect;
mod builds;
mod calibration;
mod case_row;
mod comparison;
pub mod confirm;
mod evidence;
mod exact;
pub mod experiment;
mod findings;
pub mod gate;
mod grid;
pub mod history;
pub mod iterations;
pub mod load;
mod locations;
mod machines;
mod paired;
mod pairs_hint;
mod points;
mod policy;
pub mod profile;
pub mod scaling;
pub mod schedule;
mod sequential;
mod session;
pub mod snippet;
mod study;
mod summary;
pub mod trend;
pub mod validity;
pub mod warmup;
mod warnings;
mod withheld;

#[cfg(test)]
mod tests;

pub use between_sessions::compare_sources;
pub use builds::{KnownSpread, layout_spreads, note_layout_effects};
pub use calibration::{calibrate_session, compare_spreads};
pub use comparison::{analyze_in_parts, analyze_session};
pub use evidence::mann_whitney_p;
pub use findings::*;
pub use grid::DisturbanceExposure;
pub use pairs_hint::pairs_hint;
pub use points::{
    EnvironmentFacts, FactChange, FactDifference, GrownNoise, PointCollector, activity_by_session,
    activity_shifts, fact_changes, fact_differences, grown_noise, identify_machine, session_points,
};
pub use policy::{AnalysisSettings, explain_out_of_reach};
pub use sequential::StopRule;
pub use session::{UnknownMetric, can_be_divided, check_metrics};
pub use study::{MAX_AGGREGATED_SHARE, is_skewed, study_parameter, warn_smallest_p};
pub use summary::{BlockEstimate, SeriesProgress, finite_or_none, series_progress};
pub use warnings::warn_uncalibrated;
