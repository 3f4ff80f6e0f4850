//! Builds the report of `history trend`: series over revisions.
//!
//! This module chooses wording and columns. Start at [`report_trend`].

use crate::changes;
use crate::changes::text::{cause_text, series_title};
use crate::charts::TrendXAxis;
use crate::columns::{ColumnSet, column_set};
use crate::document::{Document, ReportBlock};
use crate::figure::{format_count, format_quantity, format_share, uncertainty_of};
use crate::gallery::TrendGallery;
use crate::output::OutputOptions;
use crate::table::{ReportCell, json_number};
use serde_json::{Value, json};
use speedwell_analysis::history::{ProjectHistory, SeriesTrend};
use speedwell_analysis::trend::{SeriesLevel, TrendPoint, TrendSearch};
use speedwell_model::{IntervalEstimate, Machine, Metric, short_revision};
use std::rc::Rc;

/// Reports every series with its chart, its levels, its changes and its newest `listed` points.
pub fn report_trend(
    history: &ProjectHistory,
    axis: TrendXAxis,
    listed: usize,
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("trend");
    if history.series.is_empty() {
        document.push(ReportBlock::Headline("no series has a point on this branch".into()));
    }
    document.extend(history.notes.iter().cloned().map(ReportBlock::Note));
    let gallery = TrendGallery { history, axis, output };
    document.extend(gallery.trend_blocks(&|_| true, &|_, _| true));
    for series in &history.series {
        document.push_heading(2, series_title(series));
        document.push(ReportBlock::Headline(trend_headline(series)));
        document.push(ReportBlock::Appendix {
            title: "Points".into(),
            instead: None,
            blocks: vec![ReportBlock::Table(
                trend_columns().build_table("points", &point_lines(series, history, listed)),
            )],
        });
        document.extend(changes::changes_table(series, history).map(ReportBlock::Table));
        output.add_detail(&mut document, |_, document| {
            document.extend(trend_notes(series).into_iter().map(ReportBlock::Note));
        });
    }
    document.attach_data("line", json!(history.branch_name()));
    document
        .attach_data("trends", json!(history.series.iter().map(series_data).collect::<Vec<_>>()));
    document
}

/// The sort keys of the tables.
pub fn sort_keys() -> Vec<&'static str> {
    trend_columns().sort_keys()
}

/// Returns the headline of a series, as in `1.03 ms since 4a5b6c7; 40 points, 2 changes`.
fn trend_headline(series: &SeriesTrend) -> String {
    let trend = &series.trend;
    let points = format_count(trend.points.len(), "point", "points");
    if let TrendSearch::TooShort(missing) = trend.search {
        let missing = format_count(missing, "point is", "points are");
        return format!("{points}, too few to search for changes: {missing} missing");
    }
    let Some(level) = trend.levels.last() else {
        return format!("{points}, which cannot be searched for changes");
    };
    let value = format_figure(&level.value, &series.key.metric);
    let changes = match trend.changes.len() {
        0 => "no change".to_owned(),
        some => format_count(some, "change", "changes"),
    };
    let since = &trend.points[level.first].revision;
    format!("{value} since {}; {points}, {changes}", short_revision(&since.id))
}

/// Formats a level with the digits that its interval supports.
pub(crate) fn format_figure(value: &IntervalEstimate, metric: &Metric) -> String {
    format_quantity(value.value, &metric.unit, uncertainty_of(value))
}

fn trend_notes(series: &SeriesTrend) -> Vec<String> {
    let trend = &series.trend;
    let mut notes = Vec::new();
    if let TrendSearch::Impossible(reason) = trend.search {
        notes.push(format!("This series cannot be searched for changes: {reason}."));
    }
    if let Some(ratio) = trend.smallest_visible.filter(|_| trend.is_searched()) {
        notes.push(format!(
            "The smallest change that this series would show after about 20 points is {}.",
            format_share(ratio - 1.0)
        ));
    }
    if let (Some(between), Some(within)) = (trend.between_sessions, trend.within_sessions) {
        notes.push(spread_note(between, within));
    }
    if let Some([fewest, most]) = trend.run_range().filter(|[fewest, most]| *most > 4 * fewest) {
        notes.push(format!(
            "The points have {fewest} to {most} runs. Points with few runs scatter more, so \
             changes among them are found later, and where the scatter itself changes, false \
             alarms are more frequent."
        ));
    }
    if let Some(ratio) = trend.first_beyond {
        let location = if ratio.is_finite() {
            format!("at {} of their median", format_share(ratio))
        } else {
            "whose median is 0".to_owned()
        };
        notes.push(format!(
            "The newest point lies beyond all of the 40 before it, {location}: a reason to measure \
             it again, not evidence of a change."
        ));
    }
    for &index in &trend.new_work {
        let revision = &trend.points[index].revision.id;
        notes.push(format!(
            "The benchmark itself changed at {}; earlier points form a separate series \
             (--same-work joins them).",
            short_revision(revision)
        ));
    }
    for (&index, differences) in &series.environment_changes {
        let causes: Vec<String> = differences.iter().map(cause_text).collect();
        notes.push(format!(
            "At {}: {}.",
            short_revision(&trend.points[index].revision.id),
            causes.join("; ")
        ));
    }
    notes
}

/// Compares the spread between sessions with the spread within a session, and advises how to reduce
/// the larger one.
fn spread_note(between: f64, within: f64) -> String {
    let advice = if between > 2.0 * within {
        "more runs will not help; a quieter machine, or '--builds', may"
    } else if within > between {
        "more runs in a session help"
    } else {
        "both matter equally"
    };
    format!(
        "Spread between sessions {}, within a session {}: {advice}.",
        format_share(between),
        format_share(within)
    )
}

struct TrendPointLine {
    point: TrendPoint,
    metric: Rc<Metric>,
    series: Rc<str>,
    machine: String,
    labels: String,
}

impl TrendPointLine {
    /// Returns the value of the point. Without an interval, both ends equal the value.
    fn estimate(&self) -> IntervalEstimate {
        let value = self.point.point.value;
        let (low, high) = self.point.point.interval.unwrap_or((value, value));
        IntervalEstimate { value, low, high }
    }

    /// Builds the cell of the revision. A `+` marks a checkout with uncommitted changes.
    fn revision_cell(&self) -> ReportCell {
        let changed = if self.point.point.is_dirty { "+" } else { "" };
        let id = &self.point.revision.id;
        ReportCell::from(id).with_text(format!("{}{changed}", short_revision(id)))
    }
}

fn point_lines(
    series: &SeriesTrend,
    history: &ProjectHistory,
    listed: usize,
) -> Vec<TrendPointLine> {
    let metric = Rc::new(series.key.metric.clone());
    let name: Rc<str> = series_title(series).into();
    let machine = |number| history.machines.get(&number).map_or("", Machine::title);
    let line = |point: &TrendPoint| TrendPointLine {
        point: point.clone(),
        metric: metric.clone(),
        series: name.clone(),
        machine: machine(point.machine).to_owned(),
        labels: labels(history, &point.revision.id),
    };
    let points = &series.trend.points;
    let newest = &points[points.len().saturating_sub(listed)..];
    newest.iter().map(line).collect()
}

/// Returns the release names and annotations of a revision.
pub(crate) fn labels(history: &ProjectHistory, revision: &str) -> String {
    let labels = history.labels.get(revision);
    labels.map_or_else(String::new, |labels| labels.join(", "))
}

fn trend_columns() -> ColumnSet<TrendPointLine> {
    column_set! { line: TrendPointLine;
        machine("series") => &*line.series,
        figure("position", "place") => line.point.position,
        words("revision", "revision") => line.revision_cell(),
        words("labels", "known as").expendable(3) => &line.labels,
        figure("value", "value") => ReportCell::estimate(line.estimate(), &line.metric.unit),
        machine("low") => line.point.point.interval.map(|(low, _)| low),
        machine("high") => line.point.point.interval.map(|(_, high)| high),
        machine("unit") => &line.metric.unit,
        figure("runs", "runs") => line.point.point.runs,
        machine("spread") => line.point.point.spread,
        words("machine", "machine").expendable(2) => &line.machine,
        machine("kind") => line.point.point.kind.name(),
        machine("dirty") => line.point.point.is_dirty,
        figure("session", "session") => ReportCell::session(line.point.session),
        words("at_unix_ms", "measured (UTC)").expendable(4) =>
            ReportCell::moment(line.point.at_unix_ms),
        machine("committed_unix_ms") => line.point.revision.committed_unix_ms,
        label("subject", "subject").expendable(1) =>
            line.point.revision.subject.as_deref().unwrap_or_default(),
    }
}

/// Describes a series for programs. Points and changes are tables of the document, so they are left
/// out.
fn series_data(series: &SeriesTrend) -> Value {
    let trend = &series.trend;
    let level = |level: &SeriesLevel| {
        json!({
            "first": trend.points[level.first].revision.id,
            "last": trend.points[level.last].revision.id,
            "value": level.value.value, "low": level.value.low, "high": level.value.high,
        })
    };
    let search = match trend.search {
        TrendSearch::Done => json!({"state": "searched"}),
        TrendSearch::TooShort(missing) => json!({"state": "too short", "missing": missing}),
        TrendSearch::Impossible(reason) => {
            json!({"state": "impossible", "reason": reason.to_string()})
        }
    };
    json!({
        "series": series_title(series),
        "case": series.key.case,
        "variant": series.key.variant,
        "metric": series.key.metric,
        "search": search,
        "levels": trend.levels.iter().filter(|level| level.is_claimed).map(level).collect::<Vec<_>>(),
        "smallest_visible": trend.smallest_visible.and_then(json_number),
        "between_sessions": trend.between_sessions.and_then(json_number),
        "within_sessions": trend.within_sessions.and_then(json_number),
    })
}
