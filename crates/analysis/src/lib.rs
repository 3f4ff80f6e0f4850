//! Turns series into findings: pure functions without I/O or formatting.
//!
//! [`analyse()`] judges one session, [`compare_sources()`] several, [`calibrate()`] a machine,
//! [`study()`] how a metric depends on a parameter, and a [`StopRule`] decides during measuring
//! when a case needs no more runs. Start at [`analyse()`]. Verdicts come from `sequential.rs`, for
//! measuring and analyzing alike.

mod between_sessions;
pub mod bisect;
mod builds;
mod calibration;
mod case_row;
mod circumstances;
mod comparison;
pub mod confirm;
mod correction;
mod disturbed;
mod evidence;
mod exact;
pub mod experiment;
mod findings;
pub mod gate;
mod grid;
pub mod history;
pub mod iterations;
pub mod load;
mod machines;
mod paired;
mod pairs_hint;
mod points;
mod policy;
mod power;
pub mod profile;
pub mod scaling;
mod sequential;
mod session;
pub mod snippet;
mod snippet_runs;
mod stopping;
mod study;
mod summary;
mod tally;
pub mod trend;
pub mod validity;
pub mod warmup;
mod warnings;
mod withheld;

#[cfg(test)]
mod tests;

pub use between_sessions::compare_sources;
pub use builds::{KnownSpread, LayoutSpread, layout_spreads, mark_layout};
pub use calibration::{calibrate, compare_spreads};
pub use circumstances::{Difference, Facts, differences, shifts};
pub use disturbed::Exposure;
pub use evidence::mann_whitney_p;
pub use findings::*;
pub use machines::{AcrossMachines, MachineEffect, Population};
pub use pairs_hint::pairs_hint;
pub use points::{PointsInTurn, machine, points};
pub use policy::Settings;
pub use power::out_of_reach;
pub use session::{analyse, analyse_in_parts, can_be_divided, check_metrics};
pub use stopping::StopRule;
pub use study::{LARGE_SHARE, is_skewed, reachable_p, study};
pub use summary::finite;
pub use warnings::uncalibrated;
pub use withheld::Withheld;
