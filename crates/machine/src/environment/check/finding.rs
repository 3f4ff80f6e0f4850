//! What a check finds, and how much it affects measurements.

use crate::environment::file_tree::FileTree;

/// A check: its subject, and a function that returns `None` if the system does not report the
/// subject.
pub(super) type Check = (&'static str, fn(&FileTree) -> Option<Finding>);

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// Subject of the check: `cpu governor`, `toolchain node`.
    pub name: String,
    /// Assessment of the finding: whether it impairs measurements.
    pub state: CheckState,
    /// Finding, as a sentence fragment.
    pub found: String,
    /// Remedy: a shell command if possible, else advice.
    pub remedy: Option<String>,
}

/// Assessment of a finding: whether it impairs measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckState {
    /// The finding is as desired.
    Good,
    /// Something is missing, or the system does not report it. This is not a problem in itself.
    Unknown,
    /// Results get noisier or less comparable.
    Warning,
    /// Results are probably wrong.
    Bad,
}

/// What a check found.
#[derive(Debug)]
pub(crate) struct Finding {
    pub state: CheckState,
    pub found: String,
    pub remedy: Option<String>,
}

/// Creates a finding. The remedy is dropped if the state does not require one.
pub(super) fn finding(
    state: CheckState,
    found: impl Into<String>,
    remedy: impl Into<String>,
) -> Option<Finding> {
    let remedy = (state >= CheckState::Warning).then(|| remedy.into());
    Some(Finding { state, found: found.into(), remedy })
}

impl CheckResult {
    /// Names a finding; `None` means that the system does not report the subject of the check.
    pub(super) fn new(name: impl Into<String>, finding: Option<Finding>) -> CheckResult {
        let not_reported = || Finding {
            state: CheckState::Unknown,
            found: "not reported by the system".to_owned(),
            remedy: None,
        };
        let Finding { state, found, remedy } = finding.unwrap_or_else(not_reported);
        CheckResult { name: name.into(), state, found, remedy }
    }
}

/// Assesses a number for which lower values are better.
pub(super) fn judge_figure(figure: f64, warning_limit: f64, bad_limit: f64) -> CheckState {
    match figure {
        figure if figure > bad_limit => CheckState::Bad,
        figure if figure > warning_limit => CheckState::Warning,
        _ => CheckState::Good,
    }
}
