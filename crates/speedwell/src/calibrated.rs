//! What is known of this machine, and of cases, from comparisons of a thing with itself.

use super::options::StoreArgs;
use speedwell_analysis::Findings;
use speedwell_environment as environment;
use speedwell_model::{Calibration, Session};
use speedwell_report::mark_calibrated;

/// Marks comparisons by what the store knows.
///
/// A comparison of files needs no store, so one that cannot be read changes nothing.
pub fn mark<'s>(
    findings: &mut Findings,
    sessions: impl IntoIterator<Item = &'s Session>,
    store: &StoreArgs,
) {
    if findings.comparisons.is_empty() {
        return;
    }
    if let Ok(Some(store)) = store.existing() {
        mark_calibrated(findings, sessions, &store);
    }
}

/// What is known of this machine.
pub fn of_this_machine(store: &StoreArgs) -> Option<Calibration> {
    let store = store.existing().ok()??;
    store.calibration_of(&environment::capture(&[])).ok()?
}
