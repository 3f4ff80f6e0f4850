//! Defines the history of a project for reports: its series over the revisions of one branch. Finds
//! changes that several series have in common.

use crate::points::FactDifference;
use crate::trend::{MAX_BORDER_SHIFT, SearchedTrend, SeriesLevel, TrendPoint, verdict_of_change};
use speedwell_model::{ChangeState, Machine, RecordedChange, RevisionMarker, SeriesKey, Verdict};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The measured history of a project on one branch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProjectHistory {
    /// The branch. A leading `/` means that the order of revisions did not come from a repository.
    pub line: String,
    /// Smallest change that matters, as a fraction (0.02 is 2%).
    pub threshold: f64,
    /// The requested series.
    pub series: Vec<SeriesTrend>,
    /// Machines by number.
    pub machines: BTreeMap<u32, Machine>,
    /// Release names and annotations, by revision id.
    pub labels: HashMap<String, Vec<String>>,
    /// Authors of revisions, by revision id. Empty unless the whole trend is shown.
    pub authors: HashMap<String, String>,
    /// Revisions of the branch that have labels. Empty unless the whole trend is shown.
    pub landmarks: Vec<RevisionMarker>,
    /// The parent branch, if it differs from `line` and is shown.
    pub target: Option<String>,
    /// Number of points whose revision is unknown or not on the branch.
    pub unplaced_points: usize,
    /// Notes about the branch, as whole sentences.
    pub notes: Vec<String>,
}

/// A series with its trend.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesTrend {
    /// Number in the store. If the series was joined after renames, the number of its newest part.
    pub number: i64,
    /// Current key.
    pub key: SeriesKey,
    /// The trend of the series.
    pub trend: SearchedTrend,
    /// For each change of the trend, the environment facts that changed near it.
    pub causes: Vec<Vec<FactDifference>>,
    /// Environment facts that changed between successive points of one machine, by index of the
    /// later point. Empty unless the whole trend is shown.
    pub environment_changes: BTreeMap<usize, Vec<FactDifference>>,
    /// Sessions without a point, because the case failed in them. Empty unless the whole trend is
    /// shown.
    pub failures: Vec<RevisionMarker>,
    /// Points of the parent branch after the fork; their positions continue from the fork.
    pub continuation: Vec<TrendPoint>,
}

/// Maximum number of points on each side of a change that describe its surroundings.
const AROUND_CHANGE: usize = 10;

/// Maximum absolute log ratio of the levels of two cases that may be one renamed case.
const SAME_LEVEL_LOG_RATIO: f64 = 0.1;

/// Minimum number of changed cases for a common change.
const MIN_COMMON_CASES: usize = 3;

/// A revision at which nearly all cases changed in one direction. This suggests a common cause
/// rather than the code of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct CommonChange<'a> {
    /// First measured revision of the new levels. If the changes of the cases lie a few revisions
    /// apart, this is the median of their revisions.
    pub after: &'a str,
    /// Metric name.
    pub metric: &'a str,
    /// Number of cases that changed.
    pub changed: usize,
    /// Number of cases that were searched for changes.
    pub searched: usize,
    /// Smallest and largest ratio of a case's new level to its old level.
    pub ratios: [f64; 2],
}

impl ProjectHistory {
    /// Branch name; empty if unknown.
    pub fn branch_name(&self) -> &str {
        self.line.trim_start_matches('/')
    }

    /// Revisions, in branch order, at which at least three quarters of the cases changed in the
    /// same direction. Changes that were measured again are ignored, because the second measurement
    /// confirmed or refuted them.
    pub fn common_changes(&self) -> Vec<CommonChange<'_>> {
        let mut by_kind: BTreeMap<(&str, &str, bool), Vec<&SeriesTrend>> = BTreeMap::new();
        for series in self.series.iter().filter(|series| series.trend.is_searched()) {
            for is_rise in [false, true] {
                let kind = (&*series.key.metric.name, &*series.key.variant, is_rise);
                by_kind.entry(kind).or_default().push(series);
            }
        }
        let groups = by_kind.into_iter();
        let mut found: Vec<(u32, CommonChange<'_>)> = groups
            .flat_map(|((metric, _, is_rise), cases)| find_common_changes(&cases, metric, is_rise))
            .collect();
        // Several metrics of the same cases change together, so only the first of neighboring
        // common changes is kept.
        found.sort_by_key(|(position, common)| (*position, usize::MAX - common.changed));
        found.dedup_by(|later, earlier| later.0 - earlier.0 <= MAX_BORDER_SHIFT);
        found.into_iter().map(|(_, common)| common).collect()
    }

    /// Pairs of series of the same case, variant and metric name whose units or directions differ.
    /// The older series comes first. The two series are separate trends.
    pub fn changed_metrics(&self) -> Vec<[&SeriesKey; 2]> {
        let mut series_by_name: HashMap<(&str, &str, &str), &SeriesTrend> = HashMap::new();
        let mut pairs = Vec::new();
        let newest = |series: &SeriesTrend| {
            let points = series.trend.points.iter();
            points.map(|point| point.session).max()
        };
        for series in &self.series {
            let key = &series.key;
            let name = (&*key.case, &*key.variant, &*key.metric.name);
            if let Some(earlier) = series_by_name.insert(name, series) {
                let mut pair = [earlier, series];
                pair.sort_by_key(|series| newest(series));
                pairs.push(pair.map(|series| &series.key));
            }
        }
        pairs
    }

    /// Pairs of cases that may be one renamed case: the second case begins right after the first
    /// case ends, at the same level.
    pub fn possible_renames(&self) -> Vec<(&str, &str)> {
        let position_range = |series: &SeriesTrend| {
            let points = &series.trend.points;
            Some((points.first()?.position, points.last()?.position))
        };
        let points = self.series.iter().flat_map(|series| &series.trend.points);
        let measured: BTreeSet<u32> = points.map(|point| point.position).collect();
        let mut by_first_position: HashMap<u32, Vec<&SeriesTrend>> = HashMap::new();
        for series in &self.series {
            if let Some((first, _)) = position_range(series) {
                by_first_position.entry(first).or_default().push(series);
            }
        }
        let mut renames = Vec::new();
        for old in &self.series {
            let next = position_range(old).and_then(|(_, last)| measured.range(last + 1..).next());
            let candidates = next.and_then(|next| by_first_position.get(next));
            let mut successors =
                candidates.into_iter().flatten().filter(|new| old.may_continue_as(new));
            if let (Some(new), None) = (successors.next(), successors.next()) {
                renames.push((&*old.key.case, &*new.key.case));
            }
        }
        renames
    }
}

/// Finds the revisions at which nearly all of these cases rose, or fell if `is_rise` is false.
/// Returns each with its position on the branch.
fn find_common_changes<'a>(
    cases: &[&'a SeriesTrend],
    metric: &'a str,
    is_rise: bool,
) -> Vec<(u32, CommonChange<'a>)> {
    let is_open = |change: &&RecordedChange| {
        let is_unanswered = matches!(change.state, ChangeState::Suspected | ChangeState::Found);
        is_unanswered && (change.ratio.value > 1.0) == is_rise
    };
    let mut changes: Vec<(u32, &SeriesTrend, &RecordedChange)> = Vec::new();
    for series in cases {
        let open = series.trend.changes.iter().filter(is_open);
        changes.extend(open.filter_map(|change| {
            let position = series.trend.revision_position(&change.after)?;
            Some((position, *series, change))
        }));
    }
    changes.sort_by_key(|(position, ..)| *position);
    let mut common_changes = Vec::new();
    let mut remaining = &changes[..];
    while let [(first, ..), ..] = remaining {
        let near_count =
            remaining.partition_point(|(position, ..)| position - first <= MAX_BORDER_SHIFT);
        let changed: BTreeSet<&str> =
            remaining[..near_count].iter().map(|(_, series, _)| &*series.key.case).collect();
        let is_common = changed.len() >= MIN_COMMON_CASES && changed.len() * 4 >= cases.len() * 3;
        if is_common {
            let ratios = remaining[..near_count].iter().map(|(.., change)| change.ratio.value);
            let middle = &remaining[near_count / 2];
            let common = CommonChange {
                after: &middle.2.after,
                metric,
                changed: changed.len(),
                searched: cases.len(),
                ratios: [ratios.clone().fold(f64::INFINITY, f64::min), ratios.fold(0.0, f64::max)],
            };
            common_changes.push((middle.0, common));
        }
        remaining = &remaining[if is_common { near_count } else { 1 }..];
    }
    common_changes
}

impl SeriesTrend {
    /// Restricts the series to some of its points. Keeps the levels and changes that have a
    /// remaining point. Nothing is searched again, so the result never contradicts the full series.
    /// `None` if no point is left.
    pub fn restrict_points(&self, is_wanted: impl Fn(&TrendPoint) -> bool) -> Option<SeriesTrend> {
        let kept_indices: Vec<usize> = (self.trend.points.iter().enumerate())
            .filter(|(_, point)| is_wanted(point))
            .map(|(index, _)| index)
            .collect();
        if kept_indices.len() == self.trend.points.len() {
            return Some(self.clone());
        }
        let new_index = |index: usize| kept_indices.binary_search(&index).ok();
        let points: Vec<TrendPoint> =
            (kept_indices.iter()).map(|index| self.trend.points[*index].clone()).collect();
        let (begin, end) = (points.first()?.position, points.last()?.position);
        let is_inside = |change: &RecordedChange| {
            let position = self.trend.revision_position(&change.after);
            position.is_some_and(|position| (begin..=end).contains(&position))
        };
        let changes = self.trend.changes.iter().zip(&self.causes);
        let (changes, causes) = changes
            .filter(|(change, _)| is_inside(change))
            .map(|(change, causes)| (change.clone(), causes.clone()))
            .unzip();
        let is_near = |landmark: &&RevisionMarker| (begin..=end).contains(&landmark.position);
        Some(SeriesTrend {
            number: self.number,
            key: self.key.clone(),
            trend: SearchedTrend {
                levels: restrict_levels(&self.trend.levels, &kept_indices),
                changes,
                machine_swap: self.trend.machine_swap.and_then(new_index),
                new_work: self.trend.new_work.iter().copied().filter_map(new_index).collect(),
                first_beyond: self
                    .trend
                    .first_beyond
                    .filter(|_| new_index(self.trend.points.len() - 1).is_some()),
                points,
                ..self.trend.clone()
            },
            causes,
            environment_changes: (self.environment_changes.iter())
                .filter_map(|(index, differences)| Some((new_index(*index)?, differences.clone())))
                .collect(),
            failures: self.failures.iter().filter(is_near).cloned().collect(),
            continuation: (self.continuation.iter())
                .filter(|point| point.position >= begin && is_wanted(point))
                .cloned()
                .collect(),
        })
    }

    /// Whether another series may be this series under a new name.
    fn may_continue_as(&self, other: &SeriesTrend) -> bool {
        let (last, first) = (self.trend.levels.last(), other.trend.levels.first());
        let is_alike = last.zip(first).is_some_and(|(last, first)| {
            (first.value.value / last.value.value).ln().abs() <= SAME_LEVEL_LOG_RATIO
        });
        let same_metric = self.key.metric == other.key.metric;
        is_alike && same_metric && self.key.variant == other.key.variant
    }

    /// Verdict on a change of this series.
    pub fn change_verdict(&self, change: &RecordedChange, threshold: f64) -> Verdict {
        verdict_of_change(&change.ratio, self.key.metric.better, threshold)
    }
}

/// Restricts levels to the points at the indexes `kept_indices`, renumbered accordingly.
fn restrict_levels(levels: &[SeriesLevel], kept_indices: &[usize]) -> Vec<SeriesLevel> {
    let restrict_level = |level: &SeriesLevel| {
        let first = kept_indices.partition_point(|index| *index < level.first);
        let last = kept_indices.partition_point(|index| *index <= level.last);
        (first < last).then(|| SeriesLevel { first, last: last - 1, ..level.clone() })
    };
    levels.iter().filter_map(restrict_level).collect()
}

impl SearchedTrend {
    /// Index pairs of successive points of one machine.
    pub fn machine_successions(&self) -> Vec<(usize, usize)> {
        let mut newest: HashMap<u32, usize> = HashMap::new();
        let searched = self.points.iter().enumerate();
        searched
            .filter(|(_, point)| point.is_searched())
            .filter_map(|(index, point)| Some((newest.insert(point.machine, index)?, index)))
            .collect()
    }

    /// Index pairs of successive points of one machine at or near a change. The cause of the change
    /// may lie between these points.
    pub fn successions_near(&self, change: &RecordedChange) -> Vec<(usize, usize)> {
        let [before, after] = [&change.before, &change.after].map(|id| self.revision_position(id));
        let (Some(before), Some(after)) = (before, after) else { return Vec::new() };
        let positions = before.saturating_sub(MAX_BORDER_SHIFT)..=after + MAX_BORDER_SHIFT;
        let is_near = |point: &TrendPoint| positions.contains(&point.position);
        let mut successions = self.machine_successions();
        successions.retain(|(earlier, later)| {
            is_near(&self.points[*later]) || (is_near(&self.points[*earlier]) && earlier < later)
        });
        successions
    }

    /// Points just before and just after a change that were included in the search, up to
    /// [`AROUND_CHANGE`] on each side.
    pub fn points_around(&self, change: &RecordedChange) -> Option<[Vec<&TrendPoint>; 2]> {
        let border = self.revision_position(&change.after)?;
        let is_of_side = |is_after: bool| {
            let points = self.points.iter().filter(|point| point.is_searched());
            points.filter(move |point| (point.position >= border) == is_after)
        };
        Some([
            is_of_side(false).rev().take(AROUND_CHANGE).collect(),
            is_of_side(true).take(AROUND_CHANGE).collect(),
        ])
    }

    /// Number of revisions that may have introduced a change: those after the last revision
    /// measured before the change, up to and including the first one measured after it.
    pub fn revisions_between(&self, change: &RecordedChange) -> Option<u32> {
        let before = self.revision_position(&change.before)?;
        Some(self.revision_position(&change.after)?.abs_diff(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trend::{search_trend, tests::points_from};
    use speedwell_model::Metric;

    /// Creates a history with one series per factor. The factor multiplies the values of its series
    /// from position 20 on.
    fn history(factors: &[f64]) -> ProjectHistory {
        let course = |(number, factor): (u32, &f64)| {
            let value = |place: u32| {
                let noise = f64::from((place * 7 + number * 3) % 11) * 0.001;
                (1.0 + noise) * if place < 20 { 1.0 } else { *factor }
            };
            let course = search_trend(points_from((0..40).map(value)), &[], false);
            SeriesTrend {
                number: i64::from(number),
                key: SeriesKey {
                    case: format!("case {number}"),
                    variant: "default".into(),
                    metric: Metric::cpu_time(),
                },
                causes: vec![Vec::new(); course.changes.len()],
                trend: course,
                environment_changes: BTreeMap::new(),
                failures: Vec::new(),
                continuation: Vec::new(),
            }
        };
        ProjectHistory {
            series: (0..).zip(factors).map(course).collect(),
            ..ProjectHistory::default()
        }
    }

    #[test]
    fn a_change_common_to_nearly_all_cases_is_reported_once() {
        let alike = history(&[1.05, 1.06, 1.0, 1.08]);
        let [common] = &alike.common_changes()[..] else { panic!("{:?}", alike.common_changes()) };
        assert_eq!((common.after, common.changed, common.searched), ("r20", 3, 4));
        let [low, high] = common.ratios;
        assert!((low - 1.05).abs() < 0.01 && (high - 1.08).abs() < 0.01, "{common:?}");
    }

    #[test]
    fn part_of_a_series_keeps_the_changes_and_levels_of_the_whole() {
        let history = history(&[1.3]);
        let whole = &history.series[0];
        assert_eq!(whole.trend.changes.len(), 1);
        let late = whole.restrict_points(|point| point.position >= 15).unwrap();
        assert_eq!(late.trend.points.len(), 25);
        assert_eq!(late.trend.changes, whole.trend.changes);
        assert_eq!(late.causes.len(), 1);
        let ends: Vec<(usize, usize)> =
            (late.trend.levels.iter()).map(|level| (level.first, level.last)).collect();
        assert_eq!(ends, [(0, 4), (5, 24)]);
        assert_eq!(late.trend.levels[1].value, whole.trend.levels[1].value);
        let early = whole.restrict_points(|point| point.position < 15).unwrap();
        assert_eq!((early.trend.changes.len(), early.trend.levels.len()), (0, 1));
        assert_eq!(whole.restrict_points(|point| point.machine == 99), None);
    }

    #[test]
    fn changes_of_few_cases_or_in_both_directions_are_not_common() {
        for factors in [&[1.05, 1.06, 1.0, 1.0][..], &[1.05, 1.06, 0.95, 0.9], &[1.05, 1.05]] {
            assert_eq!(history(factors).common_changes(), [], "{factors:?}");
        }
    }
}
