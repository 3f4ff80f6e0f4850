//! Adds facts from the store to a comparison: the calibrations, and which sessions are still
//! running.
//!
//! This module decides which comparisons get a warning or lose their verdict. In the analysis
//! crate, `calibration` evaluates calibrations, and `builds` evaluates several builds of the same
//! source.

use speedwell_analysis::{self as analysis, AnalysisFindings, WithheldReason};
use speedwell_model::{Session, SessionState};
use speedwell_store::Store;

/// Warns of machines with an unexpected rate of false alarms, and of changes that rebuilding the
/// same source could have caused. Withholds the verdicts of running sessions.
pub fn mark_known(findings: &mut AnalysisFindings, sessions: &[&Session], store: &Store) {
    if findings.comparisons.is_empty() {
        return;
    }
    if let Some(number) = sessions.iter().find_map(|session| running_session_number(session, store))
    {
        findings.withhold(&WithheldReason::HasNotEnded(number));
    }
    if sessions.iter().all(|session| session.design.layout.builds == 0) {
        let layout_spread =
            |case: &str, metric: &str| store.latest_layout_spread(case, metric).ok()?;
        analysis::note_layout_effects(findings, &layout_spread);
    }
    for session in sessions {
        let machine = &session.environment;
        let Ok(Some(calibration)) = store.latest_calibration(machine) else {
            continue;
        };
        let warning = analysis::warn_uncalibrated(machine, &calibration);
        let is_new = |text: &String| !findings.warnings.contains(text);
        findings.warnings.extend(warning.filter(is_new));
    }
}

/// Returns the number of the session if it is running: its recording process is not known to have
/// ended.
fn running_session_number(session: &Session, store: &Store) -> Option<i64> {
    let number = session.number.filter(|_| session.state == SessionState::Running)?;
    let overview = store.find_overview(number).ok()??;
    (overview.id == session.id && !overview.is_killed).then_some(number)
}
