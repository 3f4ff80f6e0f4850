//! Lists the series of a project: each with its current value, a sparkline and its level change.
//!
//! This module chooses wording and columns; the server chooses the pages that cells link to. Start
//! at [`report_trends`].

use crate::cell::verdict_symbol;
use crate::changes::OpenChanges;
use crate::document::{Document, ReportBlock};
use crate::figure::{DAY_MS, format_age, format_count, format_share};
use crate::series_change::{SeriesChange, case_phrase, current_value, series_changes};
use crate::table::{ColumnSet, ReportCell, ReportTable, TextEmphasis, column_set};
use speedwell_analysis::history::{ProjectHistory, SeriesTrend};
use speedwell_analysis::trend::{SeriesLevel, TrendPoint, TrendSearch};
use speedwell_model::{ChangeState, ChangeTriage};
use speedwell_plot::SparkLevel;
use std::collections::BTreeMap;

/// Length of a sparkline.
const SPARKLINE_MS: i64 = 30 * DAY_MS;
/// Maximum number of series in one list. More series are grouped.
const MAX_UNGROUPED: usize = 40;

/// A series with what the list says of it.
struct SeriesLine<'a> {
    series: &'a SeriesTrend,
    /// The newest change that matters.
    change: Option<SeriesChange<'a>>,
    now_unix_ms: i64,
    /// Start of the sparkline.
    sparkline_start: i64,
}

/// Reports all series of a branch whose names contain all words of `filter`, as a list.
pub fn report_trends(history: &ProjectHistory, filter: &str, now_unix_ms: i64) -> Document {
    let mut document = Document::new("trends");
    let open = OpenChanges::from_history(history);
    document.push_headline(format!(
        "{} on {}, {} open",
        format_count(history.series.len(), "series", "series"),
        branch_title(history),
        format_count(open.known + open.suspected, "change", "changes")
    ));
    document.append_document(list_series(history, filter, now_unix_ms));
    document
}

pub(crate) fn branch_title(history: &ProjectHistory) -> &str {
    match history.branch_name() {
        "" => "all branches",
        branch => branch,
    }
}

/// Lists the series whose names contain all words of `filter`: current value, sparkline and level
/// change. Series with the largest open changes come first. The sparkline shows the 30 days before the
/// newest measurement of the branch. Many series are grouped by the first differing part of their
/// names; groups without an open change are folded.
pub(crate) fn list_series(history: &ProjectHistory, filter: &str, now_unix_ms: i64) -> Document {
    let mut document = Document::default();
    let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
    let points = history.series.iter().flat_map(|series| &series.trend.points);
    let newest = points.map(|point| point.at_unix_ms).max().unwrap_or(now_unix_ms);
    let mut lines: Vec<SeriesLine<'_>> = (history.series.iter())
        .filter(|series| {
            let name = case_phrase(series).to_lowercase();
            words.iter().all(|word| name.contains(word))
        })
        .map(|series| SeriesLine {
            series,
            change: newest_change(series, history, now_unix_ms),
            now_unix_ms,
            sparkline_start: newest - SPARKLINE_MS,
        })
        .collect();
    lines.sort_by(|one, other| {
        other.urgency().total_cmp(&one.urgency()).then_with(|| one.name().cmp(&other.name()))
    });
    if lines.is_empty() {
        document.push_paragraph(if history.series.is_empty() {
            "no series has a point on this branch".to_owned()
        } else {
            format!("no benchmark matches '{filter}'")
        });
    }
    if lines.len() <= MAX_UNGROUPED {
        document.push_table(series_columns().build_table("series", &lines));
        return document;
    }
    let depth = common_depth(&lines);
    let mut groups: BTreeMap<String, Vec<SeriesLine<'_>>> = BTreeMap::new();
    for line in lines {
        groups.entry(group_name(&line.series.key.case, depth)).or_default().push(line);
    }
    let is_only = groups.len() == 1;
    for (name, members) in groups {
        let changed = members.iter().filter(|line| line.urgency() > 0.0).count();
        let changes = match changed {
            0 => "no change".to_owned(),
            count => format!("{count} changed"),
        };
        let benchmarks = format_count(members.len(), "benchmark", "benchmarks");
        let name = if name.is_empty() { "other" } else { &name };
        let table = ReportTable {
            caption: vec![format!("benchmarks of {name}")],
            ..series_columns().build_table("series", &members)
        };
        document.push(ReportBlock::Aside {
            summary: format!("{name}: {benchmarks}, {changes}"),
            open: changed > 0 || is_only || !words.is_empty(),
            blocks: vec![ReportBlock::Table(table)],
        });
    }
    document
}

/// Returns the newest open change of a series or, if there is none, the newest change that a user
/// has accepted or fixed in the last 30 days.
fn newest_change<'a>(
    series: &'a SeriesTrend,
    history: &ProjectHistory,
    now_unix_ms: i64,
) -> Option<SeriesChange<'a>> {
    let changes = series_changes(series, history);
    let open = changes.iter().rfind(|line| line.change.is_open());
    let is_recent = |line: &&SeriesChange<'_>| {
        let time = line.time_unix_ms();
        let is_triaged = matches!(line.change.triage, ChangeTriage::Accepted | ChangeTriage::Fixed);
        let is_refuted = matches!(line.change.state, ChangeState::Refuted | ChangeState::Withdrawn);
        is_triaged && !is_refuted && time.is_some_and(|time| now_unix_ms - time <= SPARKLINE_MS)
    };
    open.or_else(|| changes.iter().rfind(is_recent)).copied()
}

/// Returns the path in the id of a case, without its parameters.
fn case_path(case: &str) -> Vec<&str> {
    case.split(' ').next().unwrap_or_default().split('/').collect()
}

/// Returns how many leading parts all names share.
fn common_depth(lines: &[SeriesLine<'_>]) -> usize {
    let mut paths = lines.iter().map(|line| case_path(&line.series.key.case));
    let first = paths.next().unwrap_or_default();
    let shared =
        |path: Vec<&str>| first.iter().zip(path).take_while(|(one, other)| **one == *other).count();
    paths.map(shared).min().unwrap_or(0)
}

/// Returns the name of a case's group: its path up to the first part that differs between cases.
/// The last part of the path names the benchmark itself.
fn group_name(case: &str, depth: usize) -> String {
    let path = case_path(case);
    let end = (depth + 1).min(path.len() - 1);
    path[..end].join("/")
}

impl SeriesLine<'_> {
    fn name(&self) -> (String, &str) {
        (case_phrase(self.series), &self.series.key.metric.name)
    }

    /// The size of the open change on a logarithmic scale; 0 without an open change. An established
    /// change comes before any suspicion.
    fn urgency(&self) -> f64 {
        let Some(line) = self.change.filter(|line| line.change.is_open()) else { return 0.0 };
        let size = line.change.ratio.value.ln().abs().clamp(f64::MIN_POSITIVE, 1e6);
        let is_suspected = line.change.state == ChangeState::Suspected;
        if is_suspected { size / 1e9 } else { size }
    }

    /// Builds the cell with the sparkline.
    fn sparkline_cell(&self) -> ReportCell {
        let trend = &self.series.trend;
        let is_shown =
            |point: &TrendPoint| point.is_searched() && point.at_unix_ms >= self.sparkline_start;
        let shown = trend.points.iter().enumerate().filter(|(_, point)| is_shown(point));
        let shown: Vec<usize> = shown.map(|(index, _)| index).collect();
        let shown_level = |level: &SeriesLevel| {
            let first = shown.partition_point(|index| *index < level.first);
            let end = shown.partition_point(|index| *index <= level.last);
            let last = end.checked_sub(1).filter(|last| first <= *last)?;
            Some(SparkLevel { first, last, value: level.value.value })
        };
        let levels = trend.levels.iter().filter(|level| level.is_claimed);
        let points = shown.iter().map(|index| trend.points[*index].point.value);
        ReportCell::sparkline(points.collect(), levels.filter_map(shown_level).collect())
    }

    /// Builds the cell with the level change: the newest change or, if there is none, the smallest
    /// one that the search would have found. Pages sort the cell by its value.
    fn level_cell(&self) -> ReportCell {
        let trend = &self.series.trend;
        if let Some(line) = &self.change {
            let mark = match line.change.state {
                ChangeState::Suspected => '?',
                _ => verdict_symbol(line.verdict),
            };
            let time = line.time_unix_ms();
            let age = time.map(|time| format!(", {}", format_age(self.now_unix_ms - time)));
            let triage = match line.change.triage {
                ChangeTriage::Open => String::new(),
                triage => format!(", {triage}"),
            };
            let size = line.size_text(false);
            return ReportCell::from(line.relative_change().value.abs())
                .with_text(format!("{mark} {size}{}{triage}", age.unwrap_or_default()))
                .with_emphasis(line.emphasis());
        }
        let text = match (trend.search, trend.smallest_visible) {
            (TrendSearch::Done, Some(ratio)) => format!("none ≥ {}", format_share(ratio - 1.0)),
            (TrendSearch::Done, None) => "none".to_owned(),
            (TrendSearch::TooShort(missing), _) => {
                let searched = trend.points.iter().filter(|point| point.is_searched()).count();
                let points = format_count(searched, "point", "points");
                format!("{points}, {} needed", searched + missing)
            }
            (TrendSearch::Impossible(_), _) => "cannot be searched".to_owned(),
        };
        let rank = if trend.is_searched() { 0.0 } else { -1.0 };
        ReportCell::figure(Some(rank)).with_text(text).with_emphasis(TextEmphasis::Muted)
    }
}

fn series_columns<'a>() -> ColumnSet<SeriesLine<'a>> {
    column_set! { line: SeriesLine<'a>;
        label("case", "case") =>
            ReportCell::words(&line.series.key.case).with_text(case_phrase(line.series)),
        machine("variant") => &line.series.key.variant,
        words("metric", "metric").expendable(2) =>
            ReportCell::words(&line.series.key.metric.name).with_emphasis(TextEmphasis::Muted),
        figure("value", "now") =>
            ReportCell::estimate(current_value(line.series), &line.series.key.metric.unit),
        machine("low") => current_value(line.series).map(|value| value.low),
        machine("high") => current_value(line.series).map(|value| value.high),
        machine("unit") => &line.series.key.metric.unit,
        words("sparkline", "30 d").for_people() => line.sparkline_cell(),
        words("level_change", "level change").for_people() => line.level_cell(),
        machine("change") => line.change.map(|change| change.relative_change().value),
        machine("verdict") => line.change.map(|change| change.verdict.to_string()),
        machine("change_state") => line.change.map(|change| change.change.state.to_string()),
        machine("triage") => line.change.map(|change| change.change.triage.to_string()),
        machine("after") => line.change.map(|change| &change.change.after),
        machine("smallest_visible") => line.series.trend.smallest_visible,
        machine("points") => line.series.trend.points.len(),
        machine("missing") => match line.series.trend.search {
            TrendSearch::TooShort(missing) => missing,
            TrendSearch::Done | TrendSearch::Impossible(_) => 0,
        },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use speedwell_analysis::trend::search_trend;
    use speedwell_model::{HistoryPoint, Metric, PointKind, Revision, SeriesKey};
    use std::sync::Arc;

    pub(crate) const NOW_MS: i64 = 100 * DAY_MS;

    /// A series with a point a day up to now, which rises by `factor` nine days ago.
    pub(crate) fn series(case: &str, points: u32, factor: f64) -> SeriesTrend {
        let point = |index: u32| {
            let at_unix_ms = NOW_MS - i64::from(points - 1 - index) * DAY_MS;
            let is_new = index + 10 >= points;
            let noise = 1.0 + 0.001 * f64::from((index * 7) % 11);
            TrendPoint {
                session: i64::from(index),
                at_unix_ms,
                revision: Arc::new(Revision {
                    id: format!("{index:040x}"),
                    tree: None,
                    parents: Vec::new(),
                    committed_unix_ms: Some(at_unix_ms),
                    subject: Some("handle escapes".into()),
                }),
                position: index,
                machine: 1,
                point: HistoryPoint {
                    value: 1000.0 * noise * if is_new { factor } else { 1.0 },
                    interval: None,
                    runs: 8,
                    spread: None,
                    kind: PointKind::Measured,
                    is_dirty: false,
                    benchmark_digest: None,
                },
            }
        };
        let trend = search_trend((0..points).map(point).collect(), &[], false);
        SeriesTrend {
            number: 1,
            key: SeriesKey {
                case: case.to_owned(),
                variant: "default".into(),
                metric: Metric::cpu_time(),
            },
            causes: vec![Vec::new(); trend.changes.len()],
            trend,
            environment_changes: BTreeMap::new(),
            failures: Vec::new(),
            continuation: Vec::new(),
        }
    }

    pub(crate) fn history(series: Vec<SeriesTrend>) -> ProjectHistory {
        ProjectHistory { line: "main".into(), series, ..ProjectHistory::default() }
    }

    fn column<'a>(table: &'a ReportTable, key: &str) -> Vec<&'a ReportCell> {
        let index = table.columns.iter().position(|column| column.key == key).unwrap();
        table.cell_rows().map(|cells| &cells[index]).collect()
    }

    pub(crate) fn texts<'a>(document: &'a Document, table: &str, key: &str) -> Vec<&'a str> {
        let table = document.tables().find(|each| each.name == table).unwrap();
        column(table, key).into_iter().map(|cell| &*cell.text).collect()
    }

    #[test]
    fn a_series_shows_its_level_change_or_what_would_have_been_seen() {
        let history = history(vec![
            series("g/flat n=1", 60, 1.0),
            series("g/one n=1", 1, 1.0),
            series("g/slow n=1", 60, 1.3),
        ]);
        let document = list_series(&history, "", NOW_MS);
        let table = document.tables().next().unwrap();
        assert_eq!(
            texts(&document, "series", "case"),
            ["g/slow n=1", "g/flat n=1", "g/one n=1"],
            "changed ones first"
        );
        let levels = texts(&document, "series", "level_change");
        let is_near = levels[0].contains("+30") || levels[0].contains("+29.9");
        assert!(is_near && levels[0].ends_with(", 9 d"), "{levels:?}");
        assert!(levels[1].starts_with("none ≥ "), "{levels:?}");
        assert_eq!(levels[2], "1 point, 18 needed");
        let sparklines = column(table, "sparkline");
        let sparkline = sparklines[0].sparkline_drawing().unwrap();
        assert_eq!(sparkline.points.len(), 31, "30 days and the last one");
        assert_eq!(sparkline.levels.last().unwrap().last, 30);
        assert_eq!(column(table, "missing")[2].value.as_ref().unwrap().as_f64(), Some(17.0));
        let filtered = list_series(&history, "SLOW g/", NOW_MS);
        assert_eq!(filtered.tables().next().unwrap().cell_rows().count(), 1);
    }

    #[test]
    fn many_series_are_grouped_and_groups_with_changes_stay_open() {
        let mut all: Vec<SeriesTrend> = (0..50)
            .map(|index| series(&format!("lib/{}/case{index} n=1", index % 3), 2, 1.0))
            .collect();
        all.push(series("lib/1/slow n=1", 60, 1.3));
        let document = list_series(&history(all), "", NOW_MS);
        let folds: Vec<(&str, bool)> = (document.blocks.iter())
            .filter_map(|block| match block {
                ReportBlock::Aside { summary, open, .. } => Some((summary.as_str(), *open)),
                _ => None,
            })
            .collect();
        assert_eq!(
            folds,
            [
                ("lib/0: 17 benchmarks, no change", false),
                ("lib/1: 18 benchmarks, 1 changed", true),
                ("lib/2: 16 benchmarks, no change", false),
            ]
        );
    }
}
