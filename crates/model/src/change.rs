//! Defines a change: a step or a drift in a series of values along the revisions of a branch. A change can be confirmed
//! by measuring again, and a user can triage (assess) it.

use crate::IntervalEstimate;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// How well a change is established.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeState {
    /// There is enough evidence to measure again, but not enough to alert anyone.
    Suspected,
    /// There is enough evidence, even after correction for testing the series repeatedly.
    Found,
    /// Measured again and confirmed.
    Confirmed,
    /// Measured again and not found.
    Refuted,
    /// Contradicted by later points; kept because a user has triaged it.
    Withdrawn,
}

/// A user's assessment of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeTriage {
    /// Not assessed yet.
    #[default]
    Open,
    /// Intended, or worth its cost.
    Accepted,
    /// A false alarm.
    Wrong,
    /// Reverted or repaired.
    Fixed,
}

/// A change, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedChange {
    /// Number of the change, never reused; 0 before the change is stored.
    pub number: i64,
    /// The last measured revision of the old level.
    pub before: String,
    /// The first measured revision of the new level.
    pub after: String,
    /// Whether the series drifts rather than steps. No single revision can then be named.
    pub is_drift: bool,
    /// Evidence as a standard normal deviate.
    pub evidence: f64,
    /// Ratio of the new level to the old one. Before the change is confirmed, this ratio usually
    /// overestimates the change, because the search selects the largest step.
    ///
    /// The ratio or a bound of its interval is infinite if the old level is zero, or if there are
    /// too few points to bound the ratio. JSON has no infinite numbers, so `null` is written
    /// instead.
    #[serde(deserialize_with = "ratio")]
    pub ratio: IntervalEstimate,
    /// How well the change is established.
    pub state: ChangeState,
    /// Number of the session that confirmed or refuted the change.
    pub confirmed_by: Option<i64>,
    /// The user's assessment.
    pub triage: ChangeTriage,
    /// The user's reason for the assessment.
    pub note: Option<String>,
    /// The user who made the assessment.
    pub triaged_by: Option<String>,
    /// Time of the assessment, in milliseconds since the Unix epoch.
    pub triaged_unix_ms: Option<i64>,
}

/// Deserializes a ratio, in which `null` stands for infinity.
fn ratio<'de, D: Deserializer<'de>>(source: D) -> Result<IntervalEstimate, D::Error> {
    #[derive(Deserialize)]
    struct Figures {
        value: Option<f64>,
        low: Option<f64>,
        high: Option<f64>,
    }
    let Figures { value, low, high } = Figures::deserialize(source)?;
    let [value, low, high] = [value, low, high].map(|figure| figure.unwrap_or(f64::INFINITY));
    Ok(IntervalEstimate { value, low, high })
}

/// Maximum length of a note in characters.
const MOST_NOTE_LETTERS: usize = 1_000;

/// Checks that a note is short enough to be shown next to a change or revision.
///
/// # Errors
/// Returns an error if the note is too long.
pub fn check_note(text: &str) -> anyhow::Result<()> {
    let length = text.chars().count();
    anyhow::ensure!(
        length <= MOST_NOTE_LETTERS,
        "the note has {length} characters; the limit is {MOST_NOTE_LETTERS}\n\
         hint: store the full text elsewhere and link to it here"
    );
    Ok(())
}

impl RecordedChange {
    /// Whether the change still needs triage.
    pub fn is_open(&self) -> bool {
        let is_current = !matches!(self.state, ChangeState::Refuted | ChangeState::Withdrawn);
        self.triage == ChangeTriage::Open && is_current
    }
}

impl ChangeState {
    /// Every state with its name.
    pub const NAMES: [(ChangeState, &str); 5] = [
        (ChangeState::Suspected, "suspected"),
        (ChangeState::Found, "found"),
        (ChangeState::Confirmed, "confirmed"),
        (ChangeState::Refuted, "refuted"),
        (ChangeState::Withdrawn, "withdrawn"),
    ];

    /// Looks up a state by its name.
    pub fn from_name(name: &str) -> Option<ChangeState> {
        let found = ChangeState::NAMES.iter().find(|(_, state_name)| *state_name == name);
        found.map(|(state, _)| *state)
    }
}

impl fmt::Display for ChangeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = ChangeState::NAMES.iter().find(|(state, _)| state == self);
        f.pad(found.map_or("", |(_, name)| name))
    }
}

impl ChangeTriage {
    /// Every assessment with its name.
    pub const NAMES: [(ChangeTriage, &str); 4] = [
        (ChangeTriage::Open, "open"),
        (ChangeTriage::Accepted, "accepted"),
        (ChangeTriage::Wrong, "wrong"),
        (ChangeTriage::Fixed, "fixed"),
    ];

    /// Looks up an assessment by its name.
    pub fn from_name(name: &str) -> Option<ChangeTriage> {
        let found = ChangeTriage::NAMES.iter().find(|(_, triage_name)| *triage_name == name);
        found.map(|(triage, _)| *triage)
    }
}

impl fmt::Display for ChangeTriage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = ChangeTriage::NAMES.iter().find(|(triage, _)| triage == self);
        f.pad(found.map_or("", |(_, name)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_that_is_infinite_comes_back_from_json() {
        let ratio = IntervalEstimate { value: f64::INFINITY, low: 2.0, high: f64::INFINITY };
        let change = RecordedChange {
            number: 1,
            before: "a".into(),
            after: "b".into(),
            is_drift: false,
            evidence: 5.0,
            ratio,
            state: ChangeState::Found,
            confirmed_by: None,
            triage: ChangeTriage::Open,
            note: None,
            triaged_by: None,
            triaged_unix_ms: None,
        };
        let json = serde_json::to_string(&change).unwrap();
        assert_eq!(serde_json::from_str::<RecordedChange>(&json).unwrap(), change);
    }
}
