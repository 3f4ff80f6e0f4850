//! What a check found, and what that means for measuring. Start at [`Check`].

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was looked at: `cpu governor`, `toolchain node`.
    pub name: String,
    /// What it means for measuring.
    pub state: State,
    /// What was found, as a fragment of a sentence.
    pub found: String,
    /// What mends it: a command for a shell where there is one, else a piece of advice.
    pub remedy: Option<String>,
}

/// What a finding means for measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// As it should be.
    Good,
    /// Not there, or the system does not say: no problem by itself.
    Unknown,
    /// Figures get noisier or less comparable.
    Warning,
    /// Figures are likely to be wrong.
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

    /// Adds a remedy, if there is something to mend.
    pub(super) fn remedy(self, remedy: impl Into<String>) -> Check {
        let is_due = matches!(self.state, State::Warning | State::Bad);
        Check {
            remedy: is_due.then(|| remedy.into()),
            ..self
        }
    }
}
