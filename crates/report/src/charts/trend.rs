//! Draws trend charts: the points of a series, its levels, its changes, and notes on other events.
//!
//! This module places revisions on the axis; `series_change.rs` puts the changes into words.

use super::{metric_axis, verdict_mark};
use crate::case_labels::distinct;
use crate::document::ReportChart;
use crate::figure::{format_moment, unless_empty};
use crate::series_change::{SeriesChange, causes_text, series_changes, series_title};
use crate::unit::{FigureScale, UnitChoice};
use speedwell_analysis::FactDifference;
use speedwell_analysis::history::{ProjectHistory, SeriesTrend};
use speedwell_analysis::trend::{SeriesLevel, TrendPoint};
use speedwell_model::{ChangeState, IntervalEstimate, Machine, short_revision};
use speedwell_plot as plot;
use std::collections::BTreeMap;

/// The bottom axis of a trend chart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TrendXAxis {
    /// Revisions, in history order.
    #[default]
    Revision,
    /// Commit times.
    Time,
}

/// Maximum length of a commit subject in a tooltip, in characters.
const MAX_SUBJECT_CHARS: usize = 100;

/// Draws the trend chart of `series`.
pub fn draw_trend(
    series: &SeriesTrend,
    history: &ProjectHistory,
    axis: TrendXAxis,
    unit: Option<UnitChoice>,
) -> ReportChart {
    let drawing = TrendDrawing::new(series, history, axis, unit);
    let picture = plot::AnyChart::Trend(drawing.build_chart());
    // The gallery of a page shows the same chart.
    ReportChart { shown_elsewhere: true, ..ReportChart::from_picture(picture) }
}

struct TrendDrawing<'a> {
    series: &'a SeriesTrend,
    history: &'a ProjectHistory,
    axis: TrendXAxis,
    scale: FigureScale,
    /// Coordinates on the bottom axis, by position in the history, for positions with a point or a
    /// note.
    coordinates: BTreeMap<u32, f64>,
    /// Machine numbers in order of first appearance.
    machines: Vec<u32>,
}

impl<'a> TrendDrawing<'a> {
    fn new(
        series: &'a SeriesTrend,
        history: &'a ProjectHistory,
        axis: TrendXAxis,
        unit: Option<UnitChoice>,
    ) -> TrendDrawing<'a> {
        let points = &series.trend.points;
        let values = points.iter().map(|point| point.point.value);
        TrendDrawing {
            scale: FigureScale::typical_scale(&series.key.metric.unit, values, unit),
            coordinates: axis_coordinates(&chart_positions(series, history), axis),
            series,
            history,
            axis,
            machines: distinct(points.iter().map(|point| point.machine)),
        }
    }

    fn build_chart(&self) -> plot::TrendChart {
        let trend = &self.series.trend;
        let values = trend.points.iter().map(|point| self.scale.to_shown(point.point.value));
        let branch = unless_empty(self.history.branch_name(), |name| format!(" on {name}"));
        let (x, x_label) = match self.axis {
            TrendXAxis::Revision => (plot::TrendAxis::Revisions, format!("revision{branch}")),
            TrendXAxis::Time => (plot::TrendAxis::Time, format!("commit{branch} (UTC)")),
        };
        let changes = series_changes(self.series, self.history);
        let machine = |number: &u32| self.history.machines.get(number).map_or("", Machine::title);
        plot::TrendChart {
            title: series_title(self.series),
            subtitle: None,
            x,
            x_label,
            y: metric_axis(&self.series.key.metric, &self.scale, values),
            unit: self.scale.symbol.to_string(),
            machines: self.machines.iter().map(machine).map(str::to_owned).collect(),
            points: trend.points.iter().filter_map(|point| self.draw_point(point)).collect(),
            levels: (trend.levels.iter().filter(|level| level.is_claimed))
                .flat_map(|level| self.draw_levels(level))
                .collect(),
            changes: changes.iter().filter_map(|line| self.draw_change(line)).collect(),
            notes: self.draw_notes(),
            continuation: self.draw_continuation(),
            detail: plot::TrendDetail::Full,
        }
    }

    fn draw_point(&self, point: &TrendPoint) -> Option<plot::TrendPoint> {
        let shown = |value| self.scale.to_shown(value);
        let ends = point.point.interval;
        let subject = point.revision.subject.as_deref().unwrap_or_default();
        Some(plot::TrendPoint {
            at: plot::ChartPoint {
                x: *self.coordinates.get(&point.position)?,
                y: shown(point.point.value),
                low: ends.map(|(low, _)| shown(low)),
                high: ends.map(|(_, high)| shown(high)),
            },
            machine: self.machine_index(point.machine).unwrap_or(0),
            aside: exclusion_reason(point).to_owned(),
            revision: short_revision(&point.revision.id).to_owned(),
            subject: subject.chars().take(MAX_SUBJECT_CHARS).collect(),
            author: self.history.authors.get(&point.revision.id).cloned().unwrap_or_default(),
            date: format_moment(point.time_unix_ms()),
            runs: point.point.runs as usize,
            session: format!("@{}", point.session),
        })
    }

    /// Draws the points of the parent branch after the fork.
    fn draw_continuation(&self) -> Option<plot::PointSeries> {
        let name = self.history.target.clone()?;
        let draw = |point: &TrendPoint| {
            let x = *self.coordinates.get(&point.position)?;
            Some(plot::ChartPoint::new(x, self.scale.to_shown(point.point.value)))
        };
        let points: Vec<_> = self.series.continuation.iter().filter_map(draw).collect();
        (!points.is_empty()).then_some(plot::PointSeries { name, points, colour: None })
    }

    fn machine_index(&self, number: u32) -> Option<usize> {
        self.machines.iter().position(|other| *other == number)
    }

    /// Draws a level from its first point to its last. Each machine with values for the level gets
    /// its own line.
    fn draw_levels(&self, level: &SeriesLevel) -> Vec<plot::TrendLevel> {
        let level_segment = |machine: Option<u32>, value: &IntervalEstimate| {
            let is_measured_on =
                |point: &&TrendPoint| machine.is_none_or(|number| number == point.machine);
            let mut points = self.series.trend.points[level.first..=level.last]
                .iter()
                .filter(|point| point.is_searched())
                .filter(is_measured_on);
            let coordinate = |point: &TrendPoint| self.coordinates.get(&point.position).copied();
            let from = coordinate(points.next()?)?;
            let shown = value.map(|stored| self.scale.to_shown(stored));
            Some(plot::TrendLevel {
                from,
                to: points.next_back().and_then(coordinate).unwrap_or(from),
                machine: machine.and_then(|number| self.machine_index(number)),
                value: shown.value,
                low: Some(shown.low),
                high: Some(shown.high),
            })
        };
        let of_machine =
            |(number, value): &(u32, IntervalEstimate)| level_segment(Some(*number), value);
        let mut levels: Vec<_> = level.by_machine.iter().filter_map(of_machine).collect();
        if levels.is_empty() {
            levels.extend(level_segment(None, &level.value));
        }
        levels
    }

    fn draw_change(&self, line: &SeriesChange<'_>) -> Option<plot::TrendChange> {
        let change = line.change;
        let coordinate = |revision: &str| {
            let position = self.series.trend.revision_position(revision)?;
            self.coordinates.get(&position).copied()
        };
        Some(plot::TrendChange {
            name: unless_empty(change.number, |number| number.to_string()),
            before: coordinate(&change.before)?,
            after: coordinate(&change.after)?,
            state: match change.state {
                ChangeState::Suspected => plot::TrendState::Suspected,
                ChangeState::Found => plot::TrendState::Found,
                ChangeState::Confirmed => plot::TrendState::Confirmed,
                ChangeState::Refuted => plot::TrendState::Refuted,
                ChangeState::Withdrawn => plot::TrendState::Withdrawn,
            },
            is_drift: change.is_drift,
            mark: verdict_mark(line.verdict),
            size: line.size_text(false),
            description: line.sentence(),
        })
    }

    /// Draws notes: labels of revisions, failures, and changes of the environment or the benchmark.
    fn draw_notes(&self) -> Vec<plot::TrendNote> {
        let note = |x: f64, kind, label: &str, description: &str| plot::TrendNote {
            x,
            kind,
            label: label.to_owned(),
            description: description.to_owned(),
        };
        let mut notes = Vec::new();
        for landmark in &self.history.landmarks {
            let x = self.coordinates.get(&landmark.position);
            let labels = self.history.labels.get(&landmark.revision);
            if let (Some(x), Some(labels)) = (x, labels) {
                let tag = |label: &String| note(*x, plot::TrendNoteKind::Tag, label, "");
                notes.extend(labels.iter().map(tag));
            }
        }
        for failure in &self.series.failures {
            let x = self.coordinates.get(&failure.position);
            let session = failure.session.map(|session| format!(" in session @{session}"));
            let revision = short_revision(&failure.revision);
            let description = format!("{revision} failed{}", session.unwrap_or_default());
            notes.extend(x.map(|x| note(*x, plot::TrendNoteKind::Failure, "", &description)));
        }
        // If several machines changed in the same way, only the first note has a label.
        let mut descriptions: Vec<String> = Vec::new();
        for (&index, differences) in &self.series.environment_changes {
            let description = causes_text(differences);
            let is_repeated = descriptions.contains(&description);
            let label = if is_repeated { String::new() } else { short_cause(differences) };
            let kind = plot::TrendNoteKind::Environment;
            notes.extend(self.place_before(index).map(|x| note(x, kind, &label, &description)));
            descriptions.push(description);
        }
        for &index in &self.series.trend.new_work {
            let description = "the benchmark itself was changed here";
            let work = |x| note(x, plot::TrendNoteKind::Work, "benchmark changed", description);
            notes.extend(self.place_before(index).map(work));
        }
        notes
    }

    /// Returns a coordinate between the point at `index` and the position before it.
    fn place_before(&self, index: usize) -> Option<f64> {
        let position = self.series.trend.points[index].position;
        let coordinate = *self.coordinates.get(&position)?;
        let earlier = self.coordinates.range(..position).next_back();
        Some(earlier.map_or(coordinate, |(_, earlier)| f64::midpoint(*earlier, coordinate)))
    }
}

/// Says why the point is excluded from the search for changes.
fn exclusion_reason(point: &TrendPoint) -> &'static str {
    match point.point.is_dirty {
        _ if point.is_searched() => "",
        true => "uncommitted changes",
        // This revision was measured again because of its value, so the new value is not a random
        // sample.
        false => "measured again",
    }
}

/// Returns the positions of everything in the chart, with their times, in history order. A revision
/// without a point is included if it lies between points or belongs to a session.
fn chart_positions(series: &SeriesTrend, history: &ProjectHistory) -> BTreeMap<u32, Option<i64>> {
    let time = |point: &TrendPoint| point.revision.committed_unix_ms.or(Some(point.at_unix_ms));
    let mut positions: BTreeMap<u32, Option<i64>> = BTreeMap::new();
    for point in series.trend.points.iter().chain(&series.continuation) {
        positions.entry(point.position).or_insert_with(|| time(point));
    }
    let ends = positions
        .first_key_value()
        .zip(positions.last_key_value())
        .map(|((first, _), (last, _))| *first..=*last);
    for landmark in history.landmarks.iter().chain(&series.failures) {
        let position = landmark.position;
        if landmark.session.is_some() || ends.as_ref().is_some_and(|ends| ends.contains(&position))
        {
            positions.entry(position).or_insert(landmark.committed_unix_ms);
        }
    }
    positions
}

/// Returns the coordinates of all positions. On a time axis, a revision is never placed before its
/// predecessor in the history, even if its date is earlier.
fn axis_coordinates(
    positions: &BTreeMap<u32, Option<i64>>,
    axis: TrendXAxis,
) -> BTreeMap<u32, f64> {
    let mut newest = f64::NEG_INFINITY;
    let placed = |(position, time): (&u32, &Option<i64>)| {
        let coordinate = match axis {
            TrendXAxis::Revision => f64::from(*position),
            TrendXAxis::Time => {
                newest = newest.max(time.map_or(newest, |time| time as f64));
                newest
            }
        };
        (*position, coordinate)
    };
    positions.iter().map(placed).filter(|(_, coordinate)| coordinate.is_finite()).collect()
}

/// Summarizes the differences between two environments. A single difference is shown with both
/// values, without leading words that the values share.
fn short_cause(differences: &[FactDifference]) -> String {
    match differences {
        [] => String::new(),
        [only] => {
            let split = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
            let [before, after] = [&only.before, &only.after].map(|text| split(text));
            let shared = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
            let [before, after] = [&before, &after].map(|words| words[shared..].join(" "));
            format!("{} {before} → {after}", only.name)
        }
        [first, others @ ..] => format!("{} and {} more", first.name, others.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::measured_point;
    use speedwell_model::{PointKind, Revision};
    use std::sync::Arc;

    fn point(position: u32) -> TrendPoint {
        TrendPoint {
            session: 1,
            at_unix_ms: 500,
            revision: Arc::new(Revision::default()),
            position,
            machine: 1,
            point: measured_point(1.0),
        }
    }

    #[test]
    fn on_a_time_axis_a_revision_is_never_before_its_predecessor() {
        let stops = [(0, Some(100)), (1, Some(300)), (4, Some(200)), (6, Some(500))];
        let stand =
            |axis| axis_coordinates(&BTreeMap::from(stops), axis).into_values().collect::<Vec<_>>();
        assert_eq!(stand(TrendXAxis::Time), [100.0, 300.0, 300.0, 500.0]);
        assert_eq!(stand(TrendXAxis::Revision), [0.0, 1.0, 4.0, 6.0]);
    }

    #[test]
    fn a_cause_omits_the_common_prefix_of_both_values() {
        let cause = |before: &str, after: &str| FactDifference {
            name: "kernel".into(),
            before: before.into(),
            after: after.into(),
        };
        let kernel = || cause("Linux 6.1 rt", "Linux 6.8");
        assert_eq!(short_cause(&[kernel()]), "kernel 6.1 rt → 6.8");
        assert_eq!(short_cause(&[cause("on", "off")]), "kernel on → off");
        assert_eq!(short_cause(&[kernel(), kernel()]), "kernel and 1 more");
    }

    #[test]
    fn a_point_excluded_from_the_search_has_a_reason() {
        let mut session = point(0);
        assert_eq!(exclusion_reason(&session), "");
        session.point.kind = PointKind::Confirm;
        assert_eq!(exclusion_reason(&session), "measured again");
        session.point.is_dirty = true;
        assert_eq!(exclusion_reason(&session), "uncommitted changes");
    }
}
