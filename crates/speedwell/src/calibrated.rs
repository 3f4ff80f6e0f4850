//! What is known of this machine, and of cases, from comparisons of a thing with itself.
//!
//! Decides which comparisons are marked. How a machine is calibrated is decided in `calibration`, what builds of one
//! source show in `builds` of the analysis.

use super::options::StoreArgs;
use speedwell_analysis::{self as analysis, Findings};
use speedwell_environment as environment;
use speedwell_model::{Calibration, Session};

/// Warns of comparisons on a machine that is known to give other false alarms than it should, and of changes that another
/// build of the same source might have made.
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
    let Ok(Some(store)) = store.existing() else {
        return;
    };
    let sessions: Vec<&Session> = sessions.into_iter().collect();
    if sessions
        .iter()
        .all(|session| session.design.layout.builds == 0)
    {
        let known = |case: &str, metric: &str| store.layout_spread(case, metric).ok()?;
        analysis::mark_layout(findings, &known);
    }
    for session in sessions {
        let machine = &session.environment;
        let Ok(Some(known)) = store.calibration_of(machine) else {
            continue;
        };
        let warning = analysis::uncalibrated(machine, &known);
        let is_new = |text: &String| !findings.warnings.contains(text);
        findings.warnings.extend(warning.filter(is_new));
    }
}

/// What is known of this machine.
pub fn of_this_machine(store: &StoreArgs) -> Option<Calibration> {
    let store = store.existing().ok()??;
    store.calibration_of(&environment::capture(&[])).ok()?
}
