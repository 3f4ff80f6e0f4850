//! Defines the history of measurements. Every session has one [`HistoryPoint`] per [`SeriesKey`].
//! Each point belongs to a revision in the history of a branch. A [`RecordedChange`] is a step or a
//! drift in such a series.

use crate::{IntervalEstimate, Machine, Metric, SessionPurpose, SessionState};
use serde::{Deserialize, Deserializer, Serialize};

/// Identifies a series over time. The machine is not part of the key: change detection combines all
/// machines of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesKey {
    /// The id of the case.
    pub case: String,
    /// The variant; sessions with a single variant use the default name.
    pub variant: String,
    /// The metric.
    pub metric: Metric,
}

/// The result of one session for one case, variant and metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryPoint {
    /// Median over runs, in the unit of the metric.
    pub value: f64,
    /// Confidence interval of the median, if there are enough runs.
    pub interval: Option<(f64, f64)>,
    /// Number of runs.
    pub runs: u32,
    /// Robust standard deviation: 1.4826 times the median absolute deviation of the logarithms of
    /// the values.
    pub spread: Option<f64>,
    /// Why the point was measured.
    pub kind: PointKind,
    /// Whether the working tree had uncommitted changes.
    pub is_dirty: bool,
    /// Digest of the benchmark's source: a different digest means different work.
    pub benchmark_digest: Option<String>,
}

/// Why a point was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointKind {
    /// Measured for its own result.
    Measured,
    /// Imported from a file.
    Imported,
    /// Measured to confirm or refute a suspected change.
    Confirm,
    /// Measured to find the revision that introduced a change.
    Bisect,
    /// Measured after the fact, for an old revision.
    Backfill,
}

impl PointKind {
    /// The kind of a session's points.
    pub fn of(state: SessionState, purpose: SessionPurpose) -> PointKind {
        match (purpose, state) {
            (SessionPurpose::Confirm, _) => PointKind::Confirm,
            (SessionPurpose::Bisect, _) => PointKind::Bisect,
            (SessionPurpose::Backfill, _) => PointKind::Backfill,
            (SessionPurpose::Measured, SessionState::Imported) => PointKind::Imported,
            (SessionPurpose::Measured, _) => PointKind::Measured,
        }
    }

    /// Whether change detection uses points of this kind. Points that were measured because of an
    /// observed value are a selected sample, so they would bias the detection.
    pub fn is_searched(self) -> bool {
        !matches!(self, PointKind::Confirm | PointKind::Bisect)
    }
}

name_variants!(PointKind: Measured = "measured", Imported = "imported", Confirm = "confirm",
    Bisect = "bisect", Backfill = "backfill");

/// A revision on a branch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// Commit id, or the user's name for the revision.
    pub id: String,
    /// The id of the commit's tree. Two revisions with the same tree have the same code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The parent commits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<String>,
    /// Commit time in milliseconds since the Unix epoch, for display only. Revisions are never
    /// ordered by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed_unix_ms: Option<i64>,
    /// First line of the commit message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// A revision's position in the history of its branch. There may be no point at the position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionMarker {
    /// Index of the revision in the history, oldest first.
    pub position: u32,
    /// Commit time in milliseconds since the Unix epoch.
    pub committed_unix_ms: Option<i64>,
    /// The id of the revision.
    pub revision: String,
    /// The number of the session, if the marker represents a session.
    pub session: Option<i64>,
}

/// A session's contribution to the history of its project.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionPoints {
    /// The machine that measured the session.
    pub machine: Machine,
    /// Facts about the machine and its settings that can affect results.
    pub environment_facts: Vec<(String, String)>,
    /// Its points.
    pub points: Vec<SessionPoint>,
}

/// A point with its series and revision.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionPoint {
    /// The series.
    pub series: SeriesKey,
    /// Index of the metric in the session; 0 is the primary metric.
    pub metric_index: usize,
    /// The measured revision, if known.
    pub revision: Option<Revision>,
    /// The value.
    pub point: HistoryPoint,
}

// A change can be confirmed by measuring again, and a user can triage (assess) it.

/// How well a change is established.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeState {
    /// There is enough evidence to measure again, but not enough to alert anyone.
    #[default]
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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// Creates a change without number, evidence or triage.
    pub fn suspected(before: &str, after: &str, ratio: IntervalEstimate) -> RecordedChange {
        RecordedChange {
            before: before.to_owned(),
            after: after.to_owned(),
            ratio,
            ..RecordedChange::default()
        }
    }

    /// Whether the change still needs triage.
    pub fn is_open(&self) -> bool {
        let is_current = !matches!(self.state, ChangeState::Refuted | ChangeState::Withdrawn);
        self.triage == ChangeTriage::Open && is_current
    }
}

name_variants!(ChangeState: Suspected = "suspected", Found = "found", Confirmed = "confirmed",
    Refuted = "refuted", Withdrawn = "withdrawn");
name_variants!(ChangeTriage: Open = "open", Accepted = "accepted", Wrong = "wrong", Fixed = "fixed");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_that_is_infinite_comes_back_from_json() {
        let ratio = IntervalEstimate { value: f64::INFINITY, low: 2.0, high: f64::INFINITY };
        let change = RecordedChange::suspected("a", "b", ratio);
        let json = serde_json::to_string(&change).unwrap();
        assert_eq!(serde_json::from_str::<RecordedChange>(&json).unwrap(), change);
    }
}
