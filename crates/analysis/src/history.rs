//! All series of a project along one line, for those who report them.

use crate::circumstances::Difference;
use crate::trend::{SAME_BORDER, Trend, TrendPoint, verdict_of_change};
use speedwell_model::{Change, Landmark, Machine, SeriesKey, Verdict};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a project knows along a line of revisions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// The branch that the line is of; a `/` before it says that no repository told the order.
    pub line: String,
    /// The smallest change that matters, as a share.
    pub threshold: f64,
    /// Every series that was asked for.
    pub series: Vec<SeriesTrend>,
    /// The machines by their numbers.
    pub machines: BTreeMap<u32, Machine>,
    /// Names of releases and remarks, by the ids of their revisions.
    pub labels: HashMap<String, Vec<String>>,
    /// The revisions of the line that have such names; only where the whole course is shown.
    pub landmarks: Vec<Landmark>,
    /// The branch that this one left, if it is another one and is shown.
    pub target: Option<String>,
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
    /// Sessions in which the case failed, so that they have no point; only where the whole course is shown.
    pub failures: Vec<Landmark>,
    /// How the branch went on that this one left. Positions are counted on from where the two part.
    pub continuation: Vec<TrendPoint>,
}

/// So many points at either side of a change say what it was like there.
const AROUND_CHANGE: usize = 10;

/// Two levels that differ by no more than this share may be those of one case under two names.
const ALIKE: f64 = 0.1;

impl History {
    /// The name of the branch; empty where none is known.
    pub fn branch(&self) -> &str {
        self.line.trim_start_matches('/')
    }

    /// Cases that end where others begin, at the same level: they may have been renamed, the first into the second.
    pub fn possible_renames(&self) -> Vec<(&str, &str)> {
        let ends = |series: &SeriesTrend| {
            let points = &series.trend.points;
            Some((points.first()?.position, points.last()?.position))
        };
        let all = self.series.iter().flat_map(|series| &series.trend.points);
        let measured: BTreeSet<u32> = all.map(|point| point.position).collect();
        let mut beginning: HashMap<u32, Vec<&SeriesTrend>> = HashMap::new();
        for series in &self.series {
            if let Some((first, _)) = ends(series) {
                beginning.entry(first).or_default().push(series);
            }
        }
        let mut found = Vec::new();
        for old in &self.series {
            let next = ends(old).and_then(|(_, last)| measured.range(last + 1..).next());
            let candidates = next.and_then(|next| beginning.get(next));
            let mut alike = candidates
                .into_iter()
                .flatten()
                .filter(|new| old.goes_on_as(new));
            if let (Some(new), None) = (alike.next(), alike.next()) {
                found.push((&*old.key.case, &*new.key.case));
            }
        }
        found
    }
}

impl SeriesTrend {
    /// Whether another series may be this one under another name.
    fn goes_on_as(&self, other: &SeriesTrend) -> bool {
        let (last, first) = (self.trend.levels.last(), other.trend.levels.first());
        let is_alike = last.zip(first).is_some_and(|(last, first)| {
            (first.value.value / last.value.value).ln().abs() <= ALIKE
        });
        let same_metric = self.key.metric == other.key.metric;
        is_alike && same_metric && self.key.variant == other.key.variant
    }

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

    /// The points in which changes are looked for just before a change and just after it, as many of either as
    /// [`AROUND_CHANGE`].
    pub fn around(&self, change: &Change) -> Option<[Vec<&TrendPoint>; 2]> {
        let border = self.position(&change.after)?;
        let is_of_side = |is_after: bool| {
            let points = self.points.iter().filter(|point| point.is_searched());
            points.filter(move |point| (point.position >= border) == is_after)
        };
        Some([
            is_of_side(false).rev().take(AROUND_CHANGE).collect(),
            is_of_side(true).take(AROUND_CHANGE).collect(),
        ])
    }

    /// How many revisions of the line lie between the border's two, the newer one included.
    pub fn revisions_between(&self, change: &Change) -> Option<u32> {
        Some(
            self.position(&change.after)?
                .abs_diff(self.position(&change.before)?),
        )
    }
}
