//! What to do at a look: stop because the sides differ, stop because they do not, or go on.
//!
//! Decides by the limits of the look and the stratified rank test. It must not know what the
//! decision costs. Start at [`decide`].

use super::design::Look;
use crate::interval::Interval;
use crate::observation::Observation;
use crate::test::stratified::{StratifiedError, stratified_rank};

/// The smallest relative change that matters, unless the user says otherwise: 2 %.
pub const DEFAULT_DELTA: f64 = 0.02;

/// What the data at a look allow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// The sides differ.
    Rejected {
        /// Two-sided p-value, at most the limit of the look.
        p: f64,
        /// Candidate over baseline.
        ratio: f64,
        /// Repeated interval of the ratio: with the limit of the look, so that it holds in spite
        /// of the looks before (Jennison and Turnbull, JRSS B 51, 1989).
        interval: Interval,
    },
    /// The sides differ by less than delta.
    Equivalent,
    /// Neither; measure on, or, after the last look, admit that it is unclear.
    GoOn,
}

/// Decides at `look`, which must be one of the design made before the first run.
///
/// `delta` is the relative change below which sides count as equal, such as 0.02; 0 switches that
/// stop off. The equivalence stop asks for two one-sided tests at half of the look's limit
/// (Schuirmann, J. Pharmacokinetics 15, 1987): the candidate lowered by ln(1 + delta) must be below
/// the baseline, and raised by it, above.
///
/// # Errors
///
/// As [`stratified_rank`](crate::test::stratified_rank).
pub fn decide(
    observations: &[Observation],
    look: &Look,
    delta: f64,
) -> Result<Decision, StratifiedError> {
    let test = stratified_rank(observations)?;
    if test.p <= look.p_limit {
        return Ok(Decision::Rejected {
            p: test.p,
            ratio: test.ratio(),
            interval: test.interval_at(look.p_limit),
        });
    }
    let theta = delta.ln_1p();
    let level = 0.5 * look.p_limit;
    let is_equivalent =
        delta > 0.0 && test.shifted(theta).lower <= level && test.shifted(-theta).upper <= level;
    Ok(if is_equivalent {
        Decision::Equivalent
    } else {
        Decision::GoOn
    })
}
