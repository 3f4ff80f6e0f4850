//! Sequential designs: when a comparison may stop measuring, and what it may then claim.
//!
//! Decides the limits of each look so that all looks together reject equal sides with the wanted
//! probability, and applies them to blocked observations. It must not measure or schedule anything.
//! Start at [`Design`], then [`decide`]; for many comparisons at once, [`RepeatedP`] and [`Family`].

mod boundary;
mod decide;
mod design;
mod family;
mod repeated;

pub use boundary::{limits_for_spending, probability_to_cross};
pub use decide::{DEFAULT_DELTA, Decision, decide};
pub use design::{Design, DesignError, Look};
pub use family::{Adjust, Family, survives};
pub use repeated::RepeatedP;
