//! Applies stored calibrations of machines and cases to other comparisons.
//!
//! Decides which comparisons are marked. `calibration` in the analysis crate decides how a machine
//! is calibrated, `builds` there what builds of one source show.

use speedwell_analysis::{self as analysis, Findings};
use speedwell_model::Session;
use speedwell_results::store::Store;

/// Warns of comparisons on a machine whose false-alarm rate is off, and of changes that another
/// build of the same source might have made.
pub fn mark_calibrated<'s>(
    findings: &mut Findings,
    sessions: impl IntoIterator<Item = &'s Session>,
    store: &Store,
) {
    if findings.comparisons.is_empty() {
        return;
    }
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
