//! Builds the report of `history trend`: series over revisions. Also exports them for other
//! programs.
//!
//! This module chooses wording and columns. Start at [`report_trend`].

use crate::changes;
use crate::charts::TrendXAxis;
use crate::document::{Document, ReportBlock};
use crate::figure::{format_count, format_count_or, format_instant, format_share, join_texts};
use crate::format::{ReportFormat, quote_field};
use crate::gallery::trend_blocks;
use crate::output::{OutputOptions, Verbosity};
use crate::series_change::{causes_text, format_figure, series_title};
use crate::table::{ColumnSet, ReportCell, ReportTable, column_set, json_number};
use serde_json::{Value, json};
use speedwell_analysis::history::{ProjectHistory, SeriesTrend};
use speedwell_analysis::trend::{SeriesLevel, TrendPoint, TrendSearch};
use speedwell_model::{HistoryPoint, IntervalEstimate, Machine, MetricDirection, short_revision};
use std::collections::BTreeMap;

/// Reports every series with its chart, its levels, its changes and its newest `listed` points.
pub fn report_trend(
    history: &ProjectHistory,
    axis: TrendXAxis,
    listed: usize,
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("trend");
    if history.series.is_empty() {
        document.push_headline("no series has a point on this branch");
    }
    document.push_notes(history.notes.iter().cloned());
    document.extend(trend_blocks(history, axis, output, &|_| true, &|_, _| true));
    for series in &history.series {
        document.push_heading(2, series_title(series));
        document.push_headline(trend_headline(series));
        add_points(series, history, listed, output, &mut document);
        document.extend(changes::changes_table(series, history).map(ReportBlock::Table));
        output.add_detail(&mut document, |_, document| document.push_notes(trend_notes(series)));
    }
    document.attach_data("line", json!(history.branch_name()));
    document.attach_data("trends", history.series.iter().map(series_data).collect());
    document
}

/// Number of points that a terminal lists unless everything is requested.
const SHOWN_POINTS: usize = 10;

/// Adds the newest `listed` points. Unless everything is requested, a terminal lists fewer.
fn add_points(
    series: &SeriesTrend,
    history: &ProjectHistory,
    listed: usize,
    output: &OutputOptions,
    document: &mut Document,
) {
    let table = |listed: usize| points_table(series, history, listed);
    let appendix = ReportBlock::appendix("Points", vec![ReportBlock::Table(table(listed))]);
    let is_text = matches!(output.format, None | Some(ReportFormat::Text));
    if !is_text || output.verbosity == Verbosity::Verbose {
        document.push(appendix);
        return;
    }
    let mut whole = Document::default();
    whole.push(appendix);
    let caption = match series.trend.points.len() {
        ..=SHOWN_POINTS => None,
        points => Some(format!("the newest {SHOWN_POINTS} of {points} points; -v lists all:")),
    };
    let newest =
        ReportTable { caption: caption.into_iter().collect(), ..table(SHOWN_POINTS.min(listed)) };
    document.push(ReportBlock::Shortened {
        short: vec![ReportBlock::Table(newest)],
        whole: Box::new(whole),
    });
}

/// Builds a table of the newest `listed` points.
pub(crate) fn points_table(
    series: &SeriesTrend,
    history: &ProjectHistory,
    listed: usize,
) -> ReportTable {
    let points = &series.trend.points;
    let newest = &points[points.len().saturating_sub(listed)..];
    let lines = newest.iter().map(|point| TrendPointLine { series, history, point });
    trend_columns().build_table("points", lines)
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
    let changes = format_count_or("no change", trend.changes.len(), "change", "changes");
    let since = &trend.points[level.first].revision;
    format!("{value} since {}; {points}, {changes}", short_revision(&since.id))
}

pub(crate) fn trend_notes(series: &SeriesTrend) -> Vec<String> {
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
    // Until changes are searched for, the spread includes the changes of the code.
    if let (true, Some(between), Some(within)) =
        (trend.is_searched(), trend.between_sessions, trend.within_sessions)
    {
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
        let share =
            ratio.is_finite().then(|| format!("at {} of their median", format_share(ratio)));
        let location = share.unwrap_or_else(|| "whose median is 0".to_owned());
        notes.push(format!(
            "The newest point lies beyond all of the 40 before it, {location}: a reason to measure \
             it again, not evidence of a change."
        ));
    }
    let revision = |index: usize| short_revision(&trend.points[index].revision.id);
    notes.extend(trend.new_work.iter().map(|&index| {
        format!(
            "The benchmark itself changed at {}; earlier points form a separate series \
             (--same-work joins them).",
            revision(index)
        )
    }));
    notes.extend(series.environment_changes.iter().map(|(&index, differences)| {
        format!("At {}: {}.", revision(index), causes_text(differences))
    }));
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

struct TrendPointLine<'a> {
    series: &'a SeriesTrend,
    history: &'a ProjectHistory,
    point: &'a TrendPoint,
}

impl TrendPointLine<'_> {
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

fn trend_columns<'a>() -> ColumnSet<TrendPointLine<'a>> {
    column_set! { line: TrendPointLine<'a>;
        machine("series") => series_title(line.series),
        figure("position", "position") => line.point.position,
        words("revision", "revision") => line.revision_cell(),
        // Release names and annotations.
        words("labels", "labels").expendable(3) => {
            let labels = line.history.labels.get(&line.point.revision.id);
            labels.map_or_else(String::new, |labels| labels.join(", "))
        },
        figure("value", "value") =>
            ReportCell::estimate(line.estimate(), &line.series.key.metric.unit),
        machine("low") => line.point.point.interval.map(|(low, _)| low),
        machine("high") => line.point.point.interval.map(|(_, high)| high),
        machine("unit") => &line.series.key.metric.unit,
        figure("runs", "runs") => line.point.point.runs,
        machine("spread") => line.point.point.spread,
        words("machine", "machine").expendable(2) => machine_title(line.history, line.point),
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

// Exports a history for other programs: a table of points over time for Otava, and the file
// `data.js` for the pages of github-action-benchmark.
//
// Speedwell's own tools read the JSON of `trend` instead.

/// A file for another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedHistory {
    /// The contents of the file: a header line, then a line per session.
    pub text: String,
    /// Number of omitted sessions, in which some series has no point. Otava has no notation for
    /// such a gap, and reports no changes in a series that contains even one NaN.
    pub left_out: usize,
}

/// Exports comma-separated values with a row per session. Only points that were searched for
/// changes are exported. The columns are `time` (of the commit if known, otherwise of the
/// measurement), `commit`, `machine`, and one column per series.
pub fn export_otava(history: &ProjectHistory) -> ExportedHistory {
    let names = history.series.iter().map(|series| quote_field(&series_title(series)));
    let header = ["time", "commit", "machine"].map(str::to_owned).into_iter().chain(names);
    let mut text = join_texts(",", header) + "\n";
    let mut left_out = 0;
    for row in points_by_session(history) {
        match row.into_iter().collect::<Option<Vec<&TrendPoint>>>() {
            Some(points) => text += &session_line(&points, history),
            None => left_out += 1,
        }
    }
    ExportedHistory { text, left_out }
}

/// Exports `window.BENCHMARK_DATA`. It contains every session with a point that was searched for
/// changes. An entry of the format has a single direction, so metrics where less is better and
/// metrics where more is better form two suites.
pub fn export_data_js(history: &ProjectHistory) -> String {
    let mut entries = serde_json::Map::new();
    let directions = [
        ("Benchmark", MetricDirection::Lower, "customSmallerIsBetter"),
        ("Benchmark, higher is better", MetricDirection::Higher, "customBiggerIsBetter"),
    ];
    let rows = points_by_session(history);
    for (suite, better, tool) in directions {
        let suite_entries: Vec<Value> =
            rows.iter().filter_map(|row| session_entry(row, history, better, tool)).collect();
        if !suite_entries.is_empty() {
            entries.insert(suite.into(), suite_entries.into());
        }
    }
    let points = history.series.iter().flat_map(|series| &series.trend.points);
    let newest = points.map(|point| point.at_unix_ms).max();
    let data = json!({"lastUpdate": newest.unwrap_or(0), "repoUrl": "", "entries": entries});
    format!("window.BENCHMARK_DATA = {data:#}")
}

/// Returns a session's entry with all metrics whose direction is `better`. Returns `None` if there
/// are none.
fn session_entry(
    row: &[Option<&TrendPoint>],
    history: &ProjectHistory,
    better: MetricDirection,
    tool: &str,
) -> Option<Value> {
    let series_points = history.series.iter().zip(row);
    let benches: Vec<Value> = series_points
        .filter(|(series, _)| match series.key.metric.better {
            // The format knows two directions. A metric of unknown direction is exported as
            // "smaller is better".
            MetricDirection::Unknown => better == MetricDirection::Lower,
            direction => direction == better,
        })
        .filter_map(|(series, point)| {
            let HistoryPoint { value, interval, runs, .. } = point.as_ref()?.point;
            let mut bench = json!({
                "name": series_title(series), "value": value, "unit": series.key.metric.unit,
                "extra": format!("runs: {runs}"),
            });
            if let Some((low, high)) = interval {
                bench["range"] = format!("± {}", (high - low) / 2.0).into();
            }
            Some(bench)
        })
        .collect();
    let point = row.iter().flatten().next().filter(|_| !benches.is_empty())?;
    let nobody = json!({"name": "", "email": "", "username": ""});
    Some(json!({
        "commit": {
            "id": point.revision.id, "message": point.revision.subject, "timestamp": format_instant(point.time_unix_ms()),
            "author": nobody, "committer": nobody, "url": "",
        },
        "date": point.at_unix_ms, "tool": tool, "benches": benches,
    }))
}

/// Returns the points that were searched for changes, with a row per session in the order of
/// revisions. A row has an entry per series, which is `None` if the session has no such point.
fn points_by_session(history: &ProjectHistory) -> Vec<Vec<Option<&TrendPoint>>> {
    let mut rows: BTreeMap<(u32, i64, i64), Vec<Option<&TrendPoint>>> = BTreeMap::new();
    for (index, series) in history.series.iter().enumerate() {
        let points = series.trend.points.iter();
        for point in points.filter(|point| point.is_searched()) {
            let row = rows.entry((point.position, point.at_unix_ms, point.session));
            row.or_insert_with(|| vec![None; history.series.len()])[index] = Some(point);
        }
    }
    rows.into_values().collect()
}

/// Returns the title of the machine that measured a point.
fn machine_title<'h>(history: &'h ProjectHistory, point: &TrendPoint) -> &'h str {
    history.machines.get(&point.machine).map_or("", Machine::title)
}

fn session_line(points: &[&TrendPoint], history: &ProjectHistory) -> String {
    let Some(first) = points.first() else { return String::new() };
    let values = points.iter().map(|point| point.point.value.to_string());
    let leading_fields = [
        format_instant(first.time_unix_ms()),
        quote_field(&first.revision.id),
        quote_field(machine_title(history, first)),
    ];
    leading_fields.into_iter().chain(values).collect::<Vec<_>>().join(",") + "\n"
}
