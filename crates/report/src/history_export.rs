//! Exports a history for other programs: a table of points over time for Otava, and the file
//! `data.js` for the pages of github-action-benchmark.
//!
//! This module chooses points, columns and keys. Speedwell's own tools read the JSON of `trend`
//! instead. Start at [`export_otava`] and [`export_data_js`].

use crate::changes::text::series_title;
use crate::format::quote_field;
use jiff::Timestamp;
use serde_json::{Value, json};
use speedwell_analysis::history::ProjectHistory;
use speedwell_analysis::trend::TrendPoint;
use speedwell_model::{HistoryPoint, Machine, MetricDirection};
use std::collections::BTreeMap;

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
    let header: Vec<String> =
        ["time", "commit", "machine"].map(str::to_owned).into_iter().chain(names).collect();
    let mut text = header.join(",") + "\n";
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
    let time = point.revision.committed_unix_ms.unwrap_or(point.at_unix_ms);
    let nobody = json!({"name": "", "email": "", "username": ""});
    Some(json!({
        "commit": {
            "id": point.revision.id, "message": point.revision.subject, "timestamp": format_timestamp(time),
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
            let key = (point.position, point.at_unix_ms, point.session);
            let row = rows.entry(key);
            row.or_insert_with(|| vec![None; history.series.len()])[index] = Some(point);
        }
    }
    rows.into_values().collect()
}

/// Formats a time as in `2026-01-31T12:00:00Z`. Empty for times outside the calendar.
fn format_timestamp(unix_ms: i64) -> String {
    Timestamp::from_millisecond(unix_ms).map_or_else(|_| String::new(), |time| time.to_string())
}

fn session_line(points: &[&TrendPoint], history: &ProjectHistory) -> String {
    let Some(first) = points.first() else {
        return String::new();
    };
    let unix_ms = first.revision.committed_unix_ms.unwrap_or(first.at_unix_ms);
    let machine = history.machines.get(&first.machine).map_or("", Machine::title);
    let values = points.iter().map(|point| point.point.value.to_string());
    let leading_fields =
        [format_timestamp(unix_ms), quote_field(&first.revision.id), quote_field(machine)];
    leading_fields.into_iter().chain(values).collect::<Vec<_>>().join(",") + "\n"
}
