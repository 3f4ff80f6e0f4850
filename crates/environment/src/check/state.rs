//! The result of a check, and its consequence for measuring. Start at [`Check`].

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Subject of the check: `cpu governor`, `toolchain node`.
    pub name: String,
    /// Consequence for measuring.
    pub state: State,
    /// Finding, as a sentence fragment.
    pub found: String,
    /// Remedy: a shell command if possible, else advice.
    pub remedy: Option<String>,
}

/// Consequence of a finding for measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// As desired.
    Good,
    /// Missing or not reported by the system; not a problem in itself.
    Unknown,
    /// Results get noisier or less comparable.
    Warning,
    /// Results are probably wrong.
    Bad,
}

impl Check {
    pub(super) fn new(name: impl Into<String>, state: State, found: impl Into<String>) -> Check {
        Check {
            name: name.into(),
            state,
            found: found.into(),
            remedy: None,
        }
    }

    pub(super) fn unknown(name: impl Into<String>) -> Check {
        Check::new(name, State::Unknown, "the system does not say")
    }

    /// Adds a remedy, if the state requires one.
    pub(super) fn remedy(self, remedy: impl Into<String>) -> Check {
        let is_due = matches!(self.state, State::Warning | State::Bad);
        Check {
            remedy: is_due.then(|| remedy.into()),
            ..self
        }
    }
}
