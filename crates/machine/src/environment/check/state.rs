//! Defines the result of a check, and what the result means for measurements. Start at
//! [`CheckResult`].

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// Subject of the check: `cpu governor`, `toolchain node`.
    pub name: String,
    /// What the finding means for measurements.
    pub state: CheckState,
    /// Finding, as a sentence fragment.
    pub found: String,
    /// Remedy: a shell command if possible, else advice.
    pub remedy: Option<String>,
}

/// What a finding means for measurements.
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

impl CheckResult {
    pub(super) fn new(
        name: impl Into<String>,
        state: CheckState,
        found: impl Into<String>,
    ) -> CheckResult {
        CheckResult { name: name.into(), state, found: found.into(), remedy: None }
    }

    pub(super) fn not_reported(name: impl Into<String>) -> CheckResult {
        CheckResult::new(name, CheckState::Unknown, "not reported by the system")
    }

    /// Adds a remedy, if the state requires one.
    pub(super) fn with_remedy(self, remedy: impl Into<String>) -> CheckResult {
        let is_due = matches!(self.state, CheckState::Warning | CheckState::Bad);
        CheckResult { remedy: is_due.then(|| remedy.into()), ..self }
    }
}
