//! All series of a project along one line, for those who report them.

use crate::circumstances::Difference;
use crate::trend::{SAME_BORDER, Trend, TrendPoint, verdict_of_change};
use speedwell_model::{Change, Machine, SeriesKey, Verdict};
use std::collections::{BTreeMap, HashMap};

/// What a project knows along a line of revisions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// The branch that the line is of.
    pub line: String,
    /// The smallest change that matters, as a share.
    pub threshold: f64,
    /// Every series that was asked for.
    pub series: Vec<SeriesTrend>,
    /// The machines by their numbers.
    pub machines: BTreeMap<u32, Machine>,
    /// Names of releases and remarks, by the ids of their revisions.
    pub labels: HashMap<String, Vec<String>>,
    /// Points that lie on no revision of the line, or on none at all.
    pub gone: usize,
    /// Whole sentences about the line.
    pub notes: Vec<String>,
}

/// A series with its course.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesTrend {
    /// Its number in the store; of several that were joined by renames, the newest.
    pub number: i64,
    /// What it is called today.
    pub key: SeriesKey,
    /// Its course.
    pub trend: Trend,
    /// Circumstances that changed near each change, in the order of the changes.
    pub causes: Vec<Vec<Difference>>,
    /// Circumstances that changed from one point to the next of the same machine, by the index of the later one; only where
    /// the whole course is shown.
    pub circumstances: BTreeMap<usize, Vec<Difference>>,
}

impl SeriesTrend {
    /// Whether a change of it is for the worse.
    pub fn verdict(&self, change: &Change, threshold: f64) -> Verdict {
        verdict_of_change(&change.ratio, self.key.metric.better, threshold)
    }
}

impl Trend {
    /// Indices of points of one machine that follow one another.
    pub fn successions(&self) -> Vec<(usize, usize)> {
        let mut newest: HashMap<u32, usize> = HashMap::new();
        let searched = self.points.iter().enumerate();
        searched
            .filter(|(_, point)| point.is_searched())
            .filter_map(|(index, point)| Some((newest.insert(point.machine, index)?, index)))
            .collect()
    }

    /// The successions at or near the border of a change: what happened there may be its cause.
    pub fn near(&self, change: &Change) -> Vec<(usize, usize)> {
        let (Some(before), Some(after)) =
            (self.position(&change.before), self.position(&change.after))
        else {
            return Vec::new();
        };
        let near = before.saturating_sub(SAME_BORDER)..=after + SAME_BORDER;
        let is_near = |point: &TrendPoint| near.contains(&point.position);
        let mut successions = self.successions();
        successions.retain(|(one, other)| {
            is_near(&self.points[*other]) || (is_near(&self.points[*one]) && one < other)
        });
        successions
    }

    /// How many revisions of the line lie between the border's two, the newer one included.
    pub fn revisions_between(&self, change: &Change) -> Option<u32> {
        Some(
            self.position(&change.after)?
                .abs_diff(self.position(&change.before)?),
        )
    }
}
