//! What the store knows of machines, and of cases, from comparisons of a thing with itself, said of other comparisons; and
//! which sessions are still measured.
//!
//! Decides which comparisons are marked. How a machine is calibrated is decided in `calibration` of the analysis, what builds
//! of one source show in `builds` there.

use speedwell_analysis::{self as analysis, Findings, Withheld};
use speedwell_model::{Session, State};
use speedwell_results::store::Store;

/// Warns of comparisons on a machine that is known to give other false alarms than it should, and of changes that another
/// build of the same source might have made. Withholds the answers of sessions that are still measured.
pub fn mark_known<'s>(
    findings: &mut Findings,
    sessions: impl IntoIterator<Item = &'s Session>,
    store: &Store,
) {
    if findings.comparisons.is_empty() {
        return;
    }
    let sessions: Vec<&Session> = sessions.into_iter().collect();
    if let Some(number) = sessions
        .iter()
        .find_map(|session| is_measured(session, store))
    {
        findings.withhold(&Withheld::HasNotEnded(number));
    }
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

/// The number of a session of this store that is still measured: the process that records it is not known to have ended.
fn is_measured(session: &Session, store: &Store) -> Option<i64> {
    let number = session.number.filter(|_| session.state == State::Running)?;
    let known = store.overview(number).ok()??;
    (known.id == session.id && !known.is_killed).then_some(number)
}
