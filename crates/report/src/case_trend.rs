//! Builds the page about the trend of one case: the current value, the chart, a section for each
//! change, and the points.
//!
//! The server adds links and forms. Start at [`report_case_trend`].

use crate::cell::verdict_symbol;
use crate::changes::changes_table;
use crate::charts::{TrendXAxis, draw_trend};
use crate::document::{Document, ReportBlock};
use crate::figure::{format_count, format_moment, format_share};
use crate::output::OutputOptions;
use crate::series_change::{
    SeriesChange, case_phrase, current_value, format_figure, series_changes, series_title,
};
use crate::table::{ColumnAudience, ReportCell, ReportColumn, ReportRow, ReportTable};
use crate::trend::{points_table, trend_notes};
use speedwell_analysis::history::{ProjectHistory, SeriesTrend};
use speedwell_analysis::trend::TrendSearch;
use speedwell_model::{ChangeState, ChangeTriage, RecordedChange, quote, short_revision};

/// Maximum number of changes with a section of their own; earlier ones share a table.
const MAX_SECTIONS: usize = 10;

/// The trend of one case, and what its page shows of it.
#[derive(Debug, Clone, Copy)]
pub struct CaseTrend<'a> {
    /// The whole series.
    pub whole: &'a SeriesTrend,
    /// The history with the shown part of the series; without a series if no point is shown.
    pub shown: &'a ProjectHistory,
    /// The horizontal axis of the chart.
    pub axis: TrendXAxis,
    /// Maximum number of points in the table.
    pub max_rows: usize,
}

/// Reports the trend of one case. `links_of` returns the blocks that the server adds to the section
/// of a change, and `others` are blocks about other series of the case.
pub fn report_case_trend(
    trend: &CaseTrend<'_>,
    others: Vec<ReportBlock>,
    links_of: &dyn Fn(&RecordedChange) -> Vec<ReportBlock>,
    output: &OutputOptions,
) -> Document {
    let CaseTrend { whole, shown, axis, max_rows } = *trend;
    let mut document = Document::new("trend");
    document.push_heading(1, case_title(whole, shown));
    let Some(series) = shown.series.first() else {
        document.push_paragraph("No point has these properties.");
        document.extend(others);
        return document;
    };
    let mut chart = draw_trend(series, shown, axis, output.unit);
    chart.shown_elsewhere = false;
    document.push_charts([chart]);
    add_changes(series, shown, links_of, &mut document);
    document.extend(others);
    let points = series.trend.points.len();
    let mut table = points_table(series, shown, max_rows);
    move_first(&mut table, "session");
    let mut listed = vec![ReportBlock::Table(table)];
    if points > max_rows {
        let note = format!("The newest {max_rows} of {points} points; JSON and CSV have all.");
        listed.insert(0, ReportBlock::Note(note));
    }
    document.push(ReportBlock::appendix(format_count(points, "point", "points"), listed));
    let notes = shown.notes.iter().cloned().chain(trend_notes(series)).map(ReportBlock::Note);
    let notes: Vec<ReportBlock> = notes.collect();
    if !notes.is_empty() {
        document.push(ReportBlock::appendix("About this series", notes));
    }
    document
}

/// Describes the series in one line, as in
/// `core/parse: 28,340 instructions, +10.0% since 83f56a7 handle escapes`.
fn case_title(series: &SeriesTrend, history: &ProjectHistory) -> String {
    let metric = &series.key.metric;
    let is_named_by_unit = metric.unit.is_empty() || metric.unit == metric.name;
    let name = if is_named_by_unit { case_phrase(series) } else { series_title(series) };
    let Some(value) = current_value(series) else { return name };
    let unit = if metric.unit.is_empty() { format!(" {}", metric.name) } else { String::new() };
    let answer = series_answer(series, history);
    let answer = match answer.strip_prefix("none") {
        Some(bound) => format!("no change{bound}"),
        None => answer,
    };
    format!("{name}: {}{unit}, {answer}", format_figure(&value, metric))
}

/// Says in a few words what changed last in a series or, if nothing did, which change would have
/// been seen.
pub fn series_answer(series: &SeriesTrend, history: &ProjectHistory) -> String {
    let trend = &series.trend;
    let changes = series_changes(series, history);
    if let Some(line) = changes.iter().rev().find(|line| is_current(line.change)) {
        let since = [short_revision(&line.change.after), line.subject()].join(" ");
        return format!("{} since {}", line.size_text(false), since.trim_end());
    }
    match (trend.search, trend.smallest_visible) {
        (TrendSearch::TooShort(missing), _) => {
            let missing = format_count(missing, "point is", "points are");
            format!("too few points to search for changes: {missing} missing")
        }
        (TrendSearch::Done, Some(ratio)) => format!("none ≥ {}", format_share(ratio - 1.0)),
        _ => "no change".to_owned(),
    }
}

/// Whether the change is neither refuted nor withdrawn nor judged wrong.
fn is_current(change: &RecordedChange) -> bool {
    !matches!(change.state, ChangeState::Refuted | ChangeState::Withdrawn)
        && change.triage != ChangeTriage::Wrong
}

/// Adds a section for each change, newest first.
fn add_changes(
    series: &SeriesTrend,
    history: &ProjectHistory,
    links_of: &dyn Fn(&RecordedChange) -> Vec<ReportBlock>,
    document: &mut Document,
) {
    let lines = series_changes(series, history);
    if lines.is_empty() {
        return;
    }
    document.push_heading(2, format_count(lines.len(), "change", "changes"));
    for line in lines.iter().rev().take(MAX_SECTIONS) {
        document.push_heading(3, change_title(line));
        document.extend(links_of(line.change));
        document.extend(triage_note(line.change).map(ReportBlock::Paragraph));
    }
    if let Some(earlier) = lines.len().checked_sub(MAX_SECTIONS).filter(|count| *count > 0)
        && let Some(mut table) = changes_table(series, history)
    {
        table.rows.truncate(earlier);
        let title = format!("{} before them", format_count(earlier, "change", "changes"));
        document.push(ReportBlock::appendix(title, vec![ReportBlock::Table(table)]));
    }
}

fn change_title(line: &SeriesChange<'_>) -> String {
    format!(
        "{} {} {} at {}, {}",
        verdict_symbol(line.verdict),
        line.verdict,
        line.size_text(false),
        short_revision(&line.change.after),
        line.state_text()
    )
}

/// Says who judged a change, and when.
fn triage_note(change: &RecordedChange) -> Option<String> {
    let who = change.triaged_by.as_deref().filter(|who| !who.is_empty())?;
    let when = change.triaged_unix_ms.map(|time| format!(", {} (UTC)", format_moment(time)));
    let mark = change.triage;
    (mark != ChangeTriage::Open)
        .then(|| format!("Marked as {mark} by {who}{}", when.unwrap_or_default()))
}

/// Returns the table of the change with these two links, for the section of a change. `table` is a
/// table of changes that contains it; without one, all columns are built here.
pub fn change_table(
    series: &SeriesTrend,
    history: &ProjectHistory,
    change: &RecordedChange,
    tables: &[ReportTable],
    [compare, commit]: [(String, String); 2],
) -> Option<ReportTable> {
    let own = changes_table(series, history);
    let (table, mut cells) = tables.iter().chain(&own).find_map(|table| {
        let after = table.columns.iter().position(|column| column.key == "after")?;
        let is_row = |cells: &&Vec<ReportCell>| {
            let value = cells[after].value.as_ref();
            value.is_some_and(|value| value.as_str() == Some(&*change.after))
        };
        Some((table, table.cell_rows().find(is_row)?.clone()))
    })?;
    let mut columns = table.columns.clone();
    for column in &mut columns {
        // The title of the page and the heading of the section name them.
        if ["case", "metric", "verdict"].contains(&column.key) {
            column.audience = ColumnAudience::Machines;
        }
    }
    for (key, (text, href)) in [("compare", compare), ("commit", commit)] {
        if columns.iter().any(|column| column.key == key) {
            continue;
        }
        columns.push(ReportColumn::words(key, key).for_people());
        cells.push(ReportCell::text(text).with_link(href));
    }
    let name = match change.number {
        0 => format!("change at {}", short_revision(&change.after)),
        number => format!("change {number}"),
    };
    Some(ReportTable {
        columns,
        rows: vec![ReportRow::Cells(cells)],
        caption: vec![name],
        ..ReportTable::new(table.name)
    })
}

/// Returns the command that searches for the commit of a change. `target` is the benchmark as on
/// the command line, if it is known.
pub fn bisect_command(
    series: &SeriesTrend,
    change: &RecordedChange,
    target: Option<&str>,
) -> Option<ReportBlock> {
    let line = match target {
        Some(target) => format!(
            "speedwell bisect {}..{} {target} --metric {}",
            short_revision(&change.before),
            short_revision(&change.after),
            quote(&series.key.metric.name)
        ),
        None if change.number > 0 => format!("speedwell bisect --change {}", change.number),
        None => return None,
    };
    (!change.is_drift)
        .then(|| ReportBlock::Command { label: "Find the commit that caused it".into(), line })
}

/// Lists other series of the case, each with its newest value and its last change, and with a link
/// to its page.
pub fn list_other_metrics(
    others: &ProjectHistory,
    href_of: &dyn Fn(&SeriesTrend) -> String,
) -> Vec<ReportBlock> {
    let row = |series: &SeriesTrend| {
        let metric = &series.key.metric;
        let value = current_value(series).map(|value| format_figure(&value, metric));
        ReportRow::Cells(vec![
            ReportCell::words(&*metric.name).with_link(href_of(series)),
            ReportCell::text(value.unwrap_or_default()),
            ReportCell::text(series_answer(series, others)),
        ])
    };
    let rows: Vec<ReportRow> = others.series.iter().map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let table = ReportTable {
        columns: vec![
            ReportColumn::label("metric", "metric"),
            ReportColumn::figure("value", "now").for_people(),
            ReportColumn::words("change", "change").for_people(),
        ],
        rows,
        ..ReportTable::new("other_metrics")
    };
    let heading = ReportBlock::Heading { level: 2, text: "Other metrics".into() };
    vec![heading, ReportBlock::Table(table)]
}

/// Makes a column the first one.
fn move_first(table: &mut ReportTable, key: &str) {
    let Some(index) = table.columns.iter().position(|column| column.key == key) else { return };
    table.columns[..=index].rotate_right(1);
    for row in &mut table.rows {
        if let ReportRow::Cells(cells) = row {
            cells[..=index].rotate_right(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_moved_before_all_others() {
        let cell = |text: &str| ReportCell::words(text);
        let mut table = ReportTable {
            columns: ["a", "b", "c"].map(|key| ReportColumn::words(key, key)).to_vec(),
            rows: vec![ReportRow::Cells(vec![cell("1"), cell("2"), cell("3")])],
            ..ReportTable::new("t")
        };
        move_first(&mut table, "b");
        move_first(&mut table, "missing");
        let keys: Vec<&str> = table.columns.iter().map(|column| column.key).collect();
        let texts: Vec<&str> = table.cell_rows().flatten().map(|cell| cell.text.as_str()).collect();
        assert_eq!((keys, texts), (vec!["b", "a", "c"], vec!["2", "1", "3"]));
    }
}
