//! Counts the runs of a session and collects their notes. No run needs to stay in memory.
//!
//! Decides which problems of a session deserve a warning. Start at [`SessionTally::add_part`], then
//! [`SessionTally::warnings`].

use crate::disturbed::warn_too_busy;
use crate::snippet_runs::{self, FoldedGroup};
use crate::warnings::{format_count, quote_list};
use speedwell_model::{Environment, Run, Session, SessionState, SessionStep, Snippet, StepFailure};

/// If at least this fraction of the runs failed, a warning says that the other runs may be a biased
/// selection.
const MAX_FAILED_RUNS: f64 = 0.05;

/// Counts over the runs that were added so far.
#[derive(Debug, Default)]
pub(super) struct SessionTally {
    /// Number of runs.
    pub runs: usize,
    /// Number of runs rejected by a rule.
    rejected: usize,
    /// Notes shared by all runs.
    shared: Vec<String>,
    /// Snippets that the compiler has probably optimized away.
    folded: Vec<FoldedGroup>,
}

impl SessionTally {
    /// Counts a whole session at once.
    pub fn from_session(session: &Session) -> SessionTally {
        let mut tally = SessionTally::default();
        tally.add_part(session);
        tally
    }

    /// Adds a part of a session. The first part must begin with the first run of the session.
    pub fn add_part(&mut self, part: &Session) {
        let is_rejected = |run: &&Run| run.rejected_by.is_some();
        self.rejected += part.runs.iter().filter(is_rejected).count();
        let mut runs = part.runs.iter();
        if self.runs == 0 {
            let notes = runs.next().into_iter().flat_map(|first| &first.notes);
            // The note about an optimized-away snippet is left out, because it is reported with the
            // name of the snippet.
            let reported = notes.filter(|note| *note != Snippet::FOLDED);
            self.shared = reported.cloned().collect();
        }
        for run in runs {
            self.shared.retain(|note| run.notes.contains(note));
        }
        self.folded.extend(snippet_runs::folded_groups(part));
        self.runs += part.runs.len();
    }

    /// Whether a note applies to every run and is therefore reported once.
    pub fn is_shared(&self, note: &String, session: &Session) -> bool {
        self.shared_by_all(session).contains(note)
    }

    /// Notes that all runs share. Empty if there are fewer than two runs. Also empty for an
    /// imported session, because importers report such notes themselves.
    fn shared_by_all(&self, session: &Session) -> &[String] {
        if session.state == SessionState::Imported || self.runs < 2 {
            return &[];
        }
        &self.shared
    }

    /// Warns that the machine is too busy if many runs were rejected.
    pub fn warn_too_busy(&self, session: &Session) -> Option<String> {
        warn_too_busy(&session.design, self.rejected, self.runs)
    }

    /// Why a gate (a pass/fail check) cannot judge the session; `None` if the session is complete or
    /// imported.
    pub fn gate_obstacle(&self, session: &Session, label: Option<&str>) -> Option<String> {
        let name = label.map_or("the session".to_owned(), |label| format!("'{label}'"));
        match session.state {
            SessionState::Interrupted => {
                let run_count = format_count(self.runs, "run", "runs");
                Some(format!("{name} was interrupted after {run_count}"))
            }
            SessionState::Running => Some(format!("{name} did not end, or is still measuring")),
            SessionState::Complete | SessionState::Imported => None,
        }
    }

    /// Warnings about the figures of the session. Call this after all runs have been added. `label`
    /// names the session if there are several.
    pub fn warnings(&self, session: &Session, label: Option<&str>) -> Vec<String> {
        let name = label.map_or("The session".to_owned(), |label| format!("'{label}'"));
        let mut warnings = Vec::new();
        match session.state {
            SessionState::Interrupted => {
                let run_count = format_count(self.runs, "run", "runs");
                warnings.push(format!("{name} was interrupted after {run_count}."));
            }
            SessionState::Running => {
                warnings.push(format!("{name} did not end, or is still measuring."))
            }
            SessionState::Complete | SessionState::Imported => {}
        }
        warnings.extend(warn_failures(&session.failures, self.runs, &name));
        warnings.extend(self.warn_too_busy(session));
        warnings.extend(self.shared_by_all(session).iter().cloned());
        warnings.extend(snippet_runs::warn_folded(&self.folded));
        warnings.extend(warn_machine(&session.environment, &name));
        warnings
    }
}

fn warn_machine(environment: &Environment, name: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    if environment.governors.iter().any(|governor| governor != "performance") {
        let governors = quote_list(environment.governors.iter().map(String::as_str));
        warnings.push(format!(
            "{name} ran with a governor that may change the clock frequency ({governors})."
        ));
    }
    if environment.aslr == Some(false) {
        warnings.push(format!(
            "{name} ran with a fixed memory layout, which favours one variant by chance."
        ));
    }
    warnings
}

fn warn_failures(failures: &[StepFailure], succeeded: usize, name: &str) -> Option<String> {
    let is_lost_run =
        |failure: &&StepFailure| failure.step == SessionStep::Run && !failure.cause.is_skip();
    let failed = failures.iter().filter(is_lost_run).count();
    let total = succeeded + failed;
    if failed == 0 || (failed as f64) < MAX_FAILED_RUNS * total as f64 {
        return None;
    }
    let share = 100.0 * failed as f64 / total as f64;
    let runs = format_count(total, "run", "runs");
    if failed == total {
        return Some(format!("{name}: {failed} of {runs} failed."));
    }
    Some(format!(
        "{name}: {failed} of {runs} failed ({share:.0} %); the others may be a biased selection."
    ))
}
