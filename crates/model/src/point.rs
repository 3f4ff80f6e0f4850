//! What sessions say of the same thing over time: one [`Point`] for each session and [`SeriesKey`], on a line of revisions.

use crate::{Machine, Metric, Purpose, State};
use serde::{Deserialize, Serialize};

/// What is measured again and again. The machine is not part of it: all machines of a case are searched together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesKey {
    /// The id of the case.
    pub case: String,
    /// The variant; the one of a session that has a single one is called like everywhere.
    pub variant: String,
    /// The metric.
    pub metric: Metric,
}

/// What one session says of one case, variant and metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Median over runs, in the unit of the metric.
    pub value: f64,
    /// Ends of the interval of the median, where there are runs enough for one.
    pub interval: Option<(f64, f64)>,
    /// Runs.
    pub runs: u32,
    /// 1.4826 median absolute deviations of the logarithms of the runs.
    pub spread: Option<f64>,
    /// Why it is there.
    pub kind: PointKind,
    /// Whether the code had changes that are in no revision.
    pub is_dirty: bool,
    /// Digest of what says what the benchmark does: with another one it is other work.
    pub work: Option<String>,
}

/// Why there is a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointKind {
    /// Measured to know the result.
    Measured,
    /// From a file.
    Imported,
    /// Measured to see whether a suspected change is there.
    Confirm,
    /// Measured to find the revision of a change.
    Bisect,
    /// Measured later than its revision was made.
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

    /// The kind of points of a session.
    pub fn of(state: State, purpose: Purpose) -> PointKind {
        match (purpose, state) {
            (Purpose::Confirm, _) => PointKind::Confirm,
            (Purpose::Bisect, _) => PointKind::Bisect,
            (Purpose::Backfill, _) => PointKind::Backfill,
            (Purpose::Measured, State::Imported) => PointKind::Imported,
            (Purpose::Measured, _) => PointKind::Measured,
        }
    }

    /// Whether changes may be looked for in such points. What was measured because of a value that was seen is a selected
    /// sample.
    pub fn is_searched(self) -> bool {
        !matches!(self, PointKind::Confirm | PointKind::Bisect)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let known = PointKind::NAMES.iter().find(|(kind, _)| *kind == self);
        known.map_or("measured", |(_, name)| name)
    }
}

/// A revision on a line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// The id of a commit, or what the user calls it.
    pub id: String,
    /// The id of its tree: two revisions with the same tree hold the same code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The revisions it follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<String>,
    /// When it was committed, in milliseconds since the Unix epoch. A label; never an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed_unix_ms: Option<i64>,
    /// The first line of its message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// A place on the line, whether or not it has a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landmark {
    /// Place of the revision on the line.
    pub position: u32,
    /// When it was committed, in milliseconds since the Unix epoch.
    pub committed_unix_ms: Option<i64>,
    /// The id of the revision.
    pub revision: String,
    /// The number of the session, where it is about one.
    pub session: Option<i64>,
}

/// A session in the history of its project.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionPoints {
    /// What it was measured on.
    pub machine: Machine,
    /// Facts about the machine and its settings that can move figures.
    pub circumstances: Vec<(String, String)>,
    /// Its points.
    pub points: Vec<SessionPoint>,
}

/// A point with its place in the project.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionPoint {
    /// What was measured.
    pub series: SeriesKey,
    /// Place of the metric in the session: 0 is the primary one.
    pub place: usize,
    /// The code, where that is known.
    pub revision: Option<Revision>,
    /// The figure.
    pub point: Point,
}
