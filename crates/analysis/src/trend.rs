//! Computes the trend of a series over the revisions of a branch: its levels, and where they
//! change.
//!
//! Decides which points are searched, and which points belong to the same version of the benchmark.
//! A change that an earlier search found keeps its number. The detector is in
//! `speedwell_stats::trend`. Start at [`search_trend`].

use crate::summary::estimate_with_interval;
use indexmap::IndexMap;
use speedwell_model::{
    ChangeState, ChangeTriage, HistoryPoint, IntervalEstimate, MetricDirection, RecordedChange,
    Revision, Verdict,
};
use speedwell_stats::describe::median;
use speedwell_stats::interval::median_binomial;
use speedwell_stats::trend::{
    self as search, ChangeDetector, ChangeEvidence, ChangeShape, FIRST_SUSPICION, LogMeasurement,
    TooManyUnusableValues, TrendSeries,
};
use std::collections::BTreeMap;
use std::f64::consts::FRAC_PI_2;
use std::sync::Arc;

/// Confidence level of a level's band.
const CONFIDENCE: f64 = 0.95;

/// A change gets the number of a change that an earlier search found if their positions on the
/// branch differ by at most this many revisions.
pub(crate) const MAX_BORDER_SHIFT: u32 = 3;

/// A change is called visible if the search would suspect it within this many points after the
/// change.
const VISIBLE_AFTER_POINTS: usize = 20;

/// A point of a series, with its position among the revisions of the branch.
#[derive(Debug, Clone, PartialEq)]
pub struct TrendPoint {
    /// Session number.
    pub session: i64,
    /// Start of the session, in milliseconds since the Unix epoch.
    pub at_unix_ms: i64,
    /// Revision measured.
    pub revision: Arc<Revision>,
    /// Position of the revision on the branch.
    pub position: u32,
    /// Number that identifies the machine.
    pub machine: u32,
    /// Measured values.
    pub point: HistoryPoint,
}

impl TrendPoint {
    /// Whether the point takes part in the search for changes.
    pub fn is_searched(&self) -> bool {
        self.point.kind.is_searched() && !self.point.is_dirty
    }

    /// The commit time of the revision or, if it is unknown, the start of the session, in
    /// milliseconds since the Unix epoch.
    pub fn time_unix_ms(&self) -> i64 {
        self.revision.committed_unix_ms.unwrap_or(self.at_unix_ms)
    }
}

/// A level: the points between two changes.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesLevel {
    /// Index of its first point.
    pub first: usize,
    /// Index of its last point.
    pub last: usize,
    /// Geometric mean (or median, if a value is zero) with a band, based on the points and their
    /// runs.
    pub value: IntervalEstimate,
    /// The estimate for each machine, with the machine's number. Empty if all points are from one
    /// machine.
    pub by_machine: Vec<(u32, IntervalEstimate)>,
    /// Whether the level may be drawn. A drawn level tells readers that nothing changed between its
    /// ends. False if there were too few points to search for changes.
    pub is_claimed: bool,
}

/// Result of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrendSearch {
    /// All points were searched.
    Done,
    /// There are too few points: this many more are needed before a change can be suspected.
    TooShort(usize),
    /// Too many values are negative or not finite.
    Impossible(TooManyUnusableValues),
}

/// A series over the revisions of a branch, with the results of the search for changes.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchedTrend {
    /// Points, in the order of their positions.
    pub points: Vec<TrendPoint>,
    /// Levels, in the order of their positions within each version of the benchmark; the newest
    /// version comes last.
    pub levels: Vec<SeriesLevel>,
    /// Changes, the newest last.
    pub changes: Vec<RecordedChange>,
    /// Whether the points of the newest version of the benchmark could be searched.
    pub search: TrendSearch,
    /// Smallest change, as a ratio above 1, that would be suspected within about 20 points.
    pub smallest_visible: Option<f64>,
    /// Standard deviation between sessions, in logarithms of their values. Variation that the
    /// spread of runs within a session can explain is not included.
    pub between_sessions: Option<f64>,
    /// Standard deviation that the spread of a session's runs causes in the logarithm of the
    /// session's value: the median over all sessions.
    pub within_sessions: Option<f64>,
    /// The newest point divided by the median of the 40 points before it on the same machine. Set
    /// only if the newest point lies above or below all 40 and is worth measuring again.
    pub first_beyond: Option<f64>,
    /// Index of the first point from another machine, if the code changed at the same point. The
    /// two effects then cannot be distinguished.
    pub machine_swap: Option<usize>,
    /// Indexes of points at which the benchmark itself changed.
    pub new_work: Vec<usize>,
}

/// Searches a series for changes. Points may come in any order. `recorded_changes` holds the
/// changes that earlier searches found and numbered. With `same_work`, a change to the benchmark
/// itself does not start a new trend.
pub fn search_trend(
    points: Vec<TrendPoint>,
    recorded_changes: &[RecordedChange],
    same_work: bool,
) -> SearchedTrend {
    resume_trend(points, recorded_changes, same_work, &mut Vec::new())
}

/// Like [`search_trend`], but resumes the search of each work (version of the benchmark) from the
/// detector states in `states` and updates them. States that belong to other points are ignored.
pub fn resume_trend(
    mut points: Vec<TrendPoint>,
    recorded_changes: &[RecordedChange],
    same_work: bool,
    states: &mut Vec<Vec<u8>>,
) -> SearchedTrend {
    points.sort_by_key(|point| (point.position, point.at_unix_ms, point.session));
    let groups = group_by_work(&points, same_work);
    let mut trend = SearchedTrend {
        levels: Vec::new(),
        changes: Vec::new(),
        search: TrendSearch::TooShort(FIRST_SUSPICION),
        smallest_visible: None,
        between_sessions: None,
        within_sessions: within_sessions(&points),
        first_beyond: None,
        machine_swap: None,
        new_work: groups.iter().skip(1).map(|group| group[0]).collect(),
        points,
    };
    let (mut found_changes, mut new_states) = (Vec::new(), Vec::new());
    for group in &groups {
        found_changes.extend(trend.search_group(group, states, &mut new_states));
    }
    *states = new_states;
    found_changes.sort_by_key(|change| trend.revision_position(&change.after));
    trend.changes = merge_known_changes(&trend, found_changes, recorded_changes);
    trend
}

/// Groups the indexes of the searched points by work (version of the benchmark). The work that was
/// measured last comes last. There is one group if no point has a known work, or with `same_work`.
fn group_by_work(points: &[TrendPoint], same_work: bool) -> Vec<Vec<usize>> {
    let mut groups: IndexMap<Option<&str>, Vec<usize>> = IndexMap::new();
    let works = known_works(points);
    for (index, _) in points.iter().enumerate().filter(|(_, point)| point.is_searched()) {
        groups.entry(works[index].filter(|_| !same_work)).or_default().push(index);
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    groups.sort_by_key(|members| members.last().copied());
    groups
}

/// Work of each point. A point without a recorded work gets the next recorded work or, if there is
/// none, the last recorded work.
fn known_works(points: &[TrendPoint]) -> Vec<Option<&str>> {
    let mut works: Vec<Option<&str>> =
        points.iter().map(|point| point.point.benchmark_digest.as_deref()).collect();
    for index in (1..works.len()).rev() {
        works[index - 1] = works[index - 1].or(works[index]);
    }
    for index in 1..works.len() {
        works[index] = works[index].or(works[index - 1]);
    }
    works
}

/// Variance that the spread of runs causes in the logarithm of a session's median; 0 if the spread
/// is unknown. The variance of a median is about pi / 2 times the variance of a mean.
fn log_variance(point: &HistoryPoint) -> f64 {
    let spread = point.spread.unwrap_or(0.0);
    FRAC_PI_2 * spread * spread / f64::from(point.runs.max(1))
}

fn within_sessions(points: &[TrendPoint]) -> Option<f64> {
    let with_spread = points.iter().filter(|point| point.point.spread.is_some());
    let deviations: Vec<f64> = with_spread.map(|point| log_variance(&point.point).sqrt()).collect();
    Some(median(&deviations)).filter(|median| median.is_finite())
}

impl SearchedTrend {
    /// Position of a revision on the branch, if it has a point.
    pub fn revision_position(&self, revision: &str) -> Option<u32> {
        let point = self.points.iter().find(|point| point.revision.id == revision);
        point.map(|point| point.position)
    }

    /// The levels before and after a change from zero, which has no percentage. `None` for every
    /// other change.
    pub fn from_zero(&self, change: &RecordedChange) -> Option<[IntervalEstimate; 2]> {
        if change.ratio.value.is_finite() {
            return None;
        }
        let border = self.revision_position(&change.after)?;
        let is_after = |level: &&SeriesLevel| self.points[level.first].position >= border;
        let new = self.levels.iter().position(|level| is_after(&level))?;
        let old = new.checked_sub(1)?;
        Some([old, new].map(|index| self.levels[index].value))
    }

    /// Smallest and largest number of runs among the searched points.
    pub fn run_range(&self) -> Option<[u32; 2]> {
        let searched = self.points.iter().filter(|point| point.is_searched());
        let runs = searched.map(|point| point.point.runs);
        Some([runs.clone().min()?, runs.max()?])
    }

    /// The newest point as a change, if it lies above or below all of the 40 points before it on
    /// the same machine. The search did not find this change. Its size is known from one point
    /// only, so it must be measured again to be confirmed.
    pub fn change_of_newest(&self) -> Option<RecordedChange> {
        let ratio = self.first_beyond?;
        let mut searched = self.points.iter().filter(|point| point.is_searched()).rev();
        let newest = searched.next()?;
        let before = searched.find(|point| point.position < newest.position)?;
        let is_known = |change: &RecordedChange| change.after == newest.revision.id;
        if self.changes.iter().any(is_known) {
            return None;
        }
        let ratio = estimate_with_interval(ratio, None);
        Some(RecordedChange::suspected(&before.revision.id, &newest.revision.id, ratio))
    }

    /// Whether the search was possible.
    pub fn is_searched(&self) -> bool {
        self.search == TrendSearch::Done
    }

    /// Searches the points of one work, records the levels, appends the detector state, and returns
    /// the changes. The newest work must be searched last, because each call overwrites the fields
    /// that describe the newest points.
    fn search_group(
        &mut self,
        group: &[usize],
        states: &[Vec<u8>],
        new_states: &mut Vec<Vec<u8>>,
    ) -> Vec<RecordedChange> {
        let points: Vec<search::MeasuredPoint> = group
            .iter()
            .map(|&index| {
                let TrendPoint { point, machine, position, .. } = &self.points[index];
                search::MeasuredPoint { value: point.value, machine: *machine, position: *position }
            })
            .collect();
        let series = match TrendSeries::new(&points) {
            Ok(series) => series,
            Err(reason) => {
                self.search = TrendSearch::Impossible(reason);
                return Vec::new();
            }
        };
        let mut detector = states
            .iter()
            .find_map(|state| ChangeDetector::from_bytes(state, &series))
            .unwrap_or_default();
        detector.process_series(&series);
        let changes = detector.describe_changes(&series);
        new_states.push(detector.to_bytes(&series));
        let borders: Vec<usize> = changes.iter().map(|change| change.after).collect();
        self.search = match FIRST_SUSPICION.saturating_sub(series.len()) {
            0 => TrendSearch::Done,
            missing => TrendSearch::TooShort(missing),
        };
        self.add_levels(group, &borders);
        self.smallest_visible = detector.smallest_visible(&series, VISIBLE_AFTER_POINTS);
        self.first_beyond = search::first_beyond(&series);
        self.machine_swap = search::machine_swap(&series).map(|index| group[index]);
        changes.iter().map(|change| self.describe_change(group, change)).collect()
    }

    fn describe_change(&self, group: &[usize], change: &search::DetectedChange) -> RecordedChange {
        let revision = |index: usize| &self.points[group[index]].revision.id;
        let ratio = estimate_with_interval(change.size.ratio, Some(change.size.interval));
        RecordedChange {
            is_drift: change.shape == ChangeShape::Drift,
            evidence: change.z,
            state: match change.evidence {
                ChangeEvidence::Suspected => ChangeState::Suspected,
                ChangeEvidence::Found { .. } => ChangeState::Found,
            },
            ..RecordedChange::suspected(revision(change.before), revision(change.after), ratio)
        }
    }

    /// Adds the levels between `borders`, which are indexes into `group`.
    fn add_levels(&mut self, group: &[usize], borders: &[usize]) {
        let ends = borders.iter().copied().chain([group.len()]);
        let starts = [0].into_iter().chain(borders.iter().copied());
        let stretches: Vec<&[usize]> =
            starts.zip(ends).map(|(from, to)| &group[from..to]).collect();
        let groups = stretches.iter().flat_map(|stretch| self.by_machine(stretch).into_values());
        let measured = |group: Vec<usize>| -> Vec<LogMeasurement> {
            group.iter().filter_map(|&index| self.measured_point(index)).collect()
        };
        let session_variance = search::between_sessions(&groups.map(measured).collect::<Vec<_>>());
        self.between_sessions = session_variance.map(f64::sqrt);
        for stretch in stretches {
            let (Some(&first), Some(&last)) = (stretch.first(), stretch.last()) else { continue };
            let Some(value) = self.level_estimate(stretch, session_variance) else { continue };
            let level = |(machine, points): (u32, Vec<usize>)| {
                Some((machine, self.level_estimate(&points, session_variance)?))
            };
            let machines = Some(self.by_machine(stretch)).filter(|groups| groups.len() > 1);
            let by_machine = machines.into_iter().flatten().filter_map(level).collect();
            let is_claimed = self.is_searched();
            self.levels.push(SeriesLevel { first, last, value, by_machine, is_claimed });
        }
    }

    /// Geometric mean of these points with its band, or their median if some values are zero.
    /// `None` if every value is negative or not finite.
    fn level_estimate(
        &self,
        stretch: &[usize],
        session_variance: Option<f64>,
    ) -> Option<IntervalEstimate> {
        let values = stretch.iter().map(|&index| self.points[index].point.value);
        let values: Vec<f64> = values.filter(|value| *value >= 0.0 && value.is_finite()).collect();
        if values.contains(&0.0) {
            let band = median_binomial(&values, CONFIDENCE);
            return Some(estimate_with_interval(median(&values), band));
        }
        let measured = stretch.iter().filter_map(|&index| self.measured_point(index));
        let measured: Vec<LogMeasurement> = measured.collect();
        let level = search::weighted_level(&measured, session_variance.unwrap_or(0.0), CONFIDENCE);
        // If all values are equal, or if there is only one, the level has no band.
        let log = level.map_or(measured.first()?.log, |level| level.estimate);
        let band = level.map(|level| level.interval.map(f64::exp));
        Some(estimate_with_interval(log.exp(), band))
    }

    fn measured_point(&self, index: usize) -> Option<LogMeasurement> {
        let point = &self.points[index].point;
        let log = Some(point.value.ln()).filter(|log| log.is_finite())?;
        Some(LogMeasurement { log, variance: log_variance(point) })
    }

    /// The indexes of a stretch, grouped by machine.
    fn by_machine(&self, stretch: &[usize]) -> BTreeMap<u32, Vec<usize>> {
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for &index in stretch {
            groups.entry(self.points[index].machine).or_default().push(index);
        }
        groups
    }
}

/// Merges the changes found now with the recorded changes of earlier searches. A recorded change
/// that was triaged or measured again is kept even if the new search does not find it.
fn merge_known_changes(
    trend: &SearchedTrend,
    current: Vec<RecordedChange>,
    recorded_changes: &[RecordedChange],
) -> Vec<RecordedChange> {
    let mut unmatched: Vec<&RecordedChange> = recorded_changes.iter().collect();
    let mut merged: Vec<RecordedChange> = Vec::new();
    for change in current {
        let position = trend.revision_position(&change.after);
        let distance = |recorded: &RecordedChange| {
            Some(trend.revision_position(&recorded.after)?.abs_diff(position?))
        };
        let nearest = (unmatched.iter().enumerate())
            .filter_map(|(index, recorded)| Some((distance(recorded)?, index)))
            .filter(|(distance, _)| *distance <= MAX_BORDER_SHIFT)
            .min();
        merged.push(match nearest {
            Some((_, index)) => merge_known(change, unmatched.remove(index)),
            None => change,
        });
    }
    let is_kept = |change: &&RecordedChange| {
        change.triage != ChangeTriage::Open
            || matches!(change.state, ChangeState::Confirmed | ChangeState::Refuted)
    };
    merged.extend(unmatched.into_iter().filter(is_kept).map(|change| RecordedChange {
        state: match change.state {
            ChangeState::Suspected | ChangeState::Found => ChangeState::Withdrawn,
            settled => settled,
        },
        ..change.clone()
    }));
    merged.sort_by_key(|change| (trend.revision_position(&change.after), change.number));
    merged
}

/// The change found now, with the number, confirmation and triage of its earlier record.
fn merge_known(current: RecordedChange, earlier: &RecordedChange) -> RecordedChange {
    let is_settled = matches!(earlier.state, ChangeState::Confirmed | ChangeState::Refuted);
    RecordedChange {
        before: current.before,
        after: current.after,
        is_drift: current.is_drift,
        evidence: current.evidence,
        state: if is_settled { earlier.state } else { current.state },
        // A confirmed or refuted change keeps the size that measuring it again gave.
        ratio: if is_settled { earlier.ratio } else { current.ratio },
        ..earlier.clone()
    }
}

/// Verdict on a change by the factor `ratio`. Relative changes smaller than `threshold` do not
/// matter.
pub fn verdict_of_change(
    ratio: &IntervalEstimate,
    better: MetricDirection,
    threshold: f64,
) -> Verdict {
    let limit = 1.0 + threshold;
    let (verdict_if_higher, verdict_if_lower) = match better {
        MetricDirection::Higher => (Verdict::Better, Verdict::Worse),
        MetricDirection::Lower => (Verdict::Worse, Verdict::Better),
        MetricDirection::Unknown => (Verdict::Unclear, Verdict::Unclear),
    };
    if ratio.low > 1.0 && ratio.low >= limit {
        verdict_if_higher
    } else if ratio.high < 1.0 && ratio.high <= limit.recip() {
        verdict_if_lower
    } else if threshold > 0.0 && ratio.low >= limit.recip() && ratio.high <= limit {
        Verdict::Same
    } else {
        Verdict::Unclear
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use speedwell_fixtures::measured_point;
    use speedwell_model::PointKind;

    /// Points with these values at positions 0, 1, 2 ...
    pub(crate) fn points_from(values: impl IntoIterator<Item = f64>) -> Vec<TrendPoint> {
        let point = |(place, value): (u32, f64)| TrendPoint {
            session: i64::from(place),
            at_unix_ms: 0,
            revision: Arc::new(Revision { id: format!("r{place}"), ..Revision::default() }),
            position: place,
            machine: 1,
            point: measured_point(value),
        };
        (0..).zip(values).map(point).collect()
    }

    /// Forty values that grow by 10% at `step_position`.
    fn step_points(step_position: u32) -> Vec<TrendPoint> {
        points_from((0..40).map(|place: u32| {
            let noise = f64::from(place * 7 % 11) * 0.001;
            (1.0 + noise) * if place < step_position { 1.0 } else { 1.1 }
        }))
    }

    #[test]
    fn a_change_keeps_its_number_while_its_border_moves_a_little() {
        let first = search_trend(step_points(20), &[], false);
        assert_eq!(first.changes.len(), 1);
        let recorded = RecordedChange {
            number: 7,
            after: "r18".into(),
            triage: ChangeTriage::Accepted,
            ..first.changes[0].clone()
        };
        let repeated = search_trend(step_points(20), std::slice::from_ref(&recorded), false);
        assert_eq!((repeated.changes[0].number, repeated.changes.len()), (7, 1));
        assert_eq!(repeated.changes[0].triage, ChangeTriage::Accepted);
        assert_eq!(repeated.changes[0].after, "r20");

        let elsewhere = RecordedChange { after: "r10".into(), ..recorded };
        let apart = search_trend(step_points(20), &[elsewhere], false);
        let states: Vec<_> =
            (apart.changes.iter()).map(|change| (change.number, change.state)).collect();
        assert_eq!(states, [(7, ChangeState::Withdrawn), (0, ChangeState::Found)]);
    }

    #[test]
    fn an_untriaged_change_is_dropped_when_its_evidence_is_gone() {
        let recorded = search_trend(step_points(20), &[], false).changes;
        assert!(search_trend(step_points(40), &recorded, false).changes.is_empty());
    }

    #[test]
    fn a_confirmed_change_keeps_its_recorded_ratio() {
        let ratio = IntervalEstimate { value: 1.02, low: 1.01, high: 1.03 };
        let recorded = RecordedChange {
            number: 1,
            state: ChangeState::Confirmed,
            ratio,
            ..search_trend(step_points(20), &[], false).changes[0].clone()
        };
        let repeated = search_trend(step_points(20), &[recorded], false);
        assert_eq!(repeated.changes[0].state, ChangeState::Confirmed);
        assert_eq!(repeated.changes[0].ratio, ratio);
    }

    #[test]
    fn a_change_from_zero_exceeds_any_threshold_and_separates_two_levels() {
        let allocs = |place: u32| f64::from(u8::from(place >= 20));
        let found = search_trend(points_from((0..40).map(allocs)), &[], false);
        let [change] = &found.changes[..] else { panic!("{:?}", found.changes) };
        assert_eq!(change.state, ChangeState::Found);
        assert_eq!(verdict_of_change(&change.ratio, MetricDirection::Lower, 10.0), Verdict::Worse);
        let sides = found.from_zero(change).map(|sides| sides.map(|side| side.value));
        assert_eq!(sides, Some([0.0, 1.0]));
        let levels: Vec<f64> = found.levels.iter().map(|level| level.value.value).collect();
        assert_eq!(levels, [0.0, 1.0]);
        assert!(found.levels.iter().all(|level| level.is_claimed));

        let back = search_trend(points_from((0..40).map(|place| 1.0 - allocs(place))), &[], false);
        let [change] = &back.changes[..] else { panic!("{:?}", back.changes) };
        assert_eq!((change.ratio.value, back.from_zero(change)), (0.0, None));
        assert_eq!(verdict_of_change(&change.ratio, MetricDirection::Higher, 0.5), Verdict::Worse);
    }

    #[test]
    fn a_changed_benchmark_starts_a_separate_series() {
        let mut changed = step_points(20);
        for (index, point) in changed.iter_mut().enumerate() {
            point.point.benchmark_digest = Some(if index < 20 { "one" } else { "two" }.to_owned());
        }
        let apart = search_trend(changed.clone(), &[], false);
        assert!(apart.changes.is_empty());
        assert_eq!(apart.new_work, [20]);
        assert_eq!(apart.search, TrendSearch::Done);
        assert_eq!(apart.levels.len(), 2);
        assert_eq!(search_trend(changed, &[], true).changes.len(), 1);
    }

    #[test]
    fn a_series_that_is_too_short_to_be_searched_claims_no_level() {
        let calm =
            |points| search_trend(step_points(40).into_iter().take(points).collect(), &[], false);
        for points in [1, 2, FIRST_SUSPICION - 1] {
            let short = calm(points);
            assert_eq!(short.points.len(), points);
            assert_eq!(short.search, TrendSearch::TooShort(FIRST_SUSPICION - points));
            assert!(short.levels.iter().all(|level| !level.is_claimed));
        }
        assert!(calm(FIRST_SUSPICION).levels[0].is_claimed);
    }

    #[test]
    fn selected_and_uncommitted_points_are_not_searched() {
        let mut points = step_points(40);
        for point in &mut points[20..30] {
            point.point.value *= 1.1;
            point.point.kind = PointKind::Bisect;
        }
        for point in &mut points[30..] {
            point.point.value *= 1.1;
            point.point.is_dirty = true;
        }
        let found = search_trend(points, &[], false);
        assert_eq!((found.changes.len(), found.points.len()), (0, 40));
    }

    #[test]
    fn a_change_is_worse_only_if_all_of_its_interval_is_beyond_the_threshold() {
        let ratio =
            |low: f64, high: f64| IntervalEstimate { value: f64::midpoint(low, high), low, high };
        let verdict = |low, high, threshold| {
            verdict_of_change(&ratio(low, high), MetricDirection::Lower, threshold)
        };
        assert_eq!(verdict(1.03, 1.05, 0.02), Verdict::Worse);
        assert_eq!(verdict(1.01, 1.05, 0.02), Verdict::Unclear);
        assert_eq!(verdict(1.01, 1.05, 0.0), Verdict::Worse);
        assert_eq!(verdict(0.995, 1.01, 0.02), Verdict::Same);
        assert_eq!(verdict(0.9, 0.95, 0.02), Verdict::Better);
        assert_eq!(
            verdict_of_change(&ratio(0.9, 0.95), MetricDirection::Higher, 0.02),
            Verdict::Worse
        );
    }

    #[test]
    fn each_of_several_machines_has_a_level_of_its_own() {
        let mut points = step_points(40);
        for point in points.iter_mut().skip(1).step_by(2) {
            point.machine = 2;
            point.point.value *= 1.1;
        }
        let course = search_trend(points, &[], false);
        let [level] = &course.levels[..] else { panic!("{:?}", course.levels) };
        let [(1, one), (2, other)] = level.by_machine[..] else { panic!("{level:?}") };
        let ratio = other.value / one.value;
        assert!((ratio - 1.1).abs() < 0.002, "{one:?} {other:?}");
        for value in [one, other] {
            assert!(value.low < value.value && value.value < value.high);
        }
        assert!(one.value < level.value.value && level.value.value < other.value);
        let of_one = search_trend(step_points(40), &[], false);
        assert_eq!(of_one.levels[0].by_machine, []);
    }
}
