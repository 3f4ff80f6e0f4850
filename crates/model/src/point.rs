//! Defines the history of measurements. Every session has one [`HistoryPoint`] per [`SeriesKey`].
//! Each point belongs to a revision in the history of a branch.

use crate::{Machine, Metric, SessionPurpose, SessionState};
use serde::{Deserialize, Serialize};

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
    /// Every kind with its name.
    pub const NAMES: [(PointKind, &str); 5] = [
        (PointKind::Measured, "measured"),
        (PointKind::Imported, "imported"),
        (PointKind::Confirm, "confirm"),
        (PointKind::Bisect, "bisect"),
        (PointKind::Backfill, "backfill"),
    ];

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

    /// The name of the kind.
    pub fn name(self) -> &'static str {
        let found = PointKind::NAMES.iter().find(|(kind, _)| *kind == self);
        found.map_or("measured", |(_, name)| name)
    }
}

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
