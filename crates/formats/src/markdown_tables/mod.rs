//! Reads published Markdown tables of figures, from a whole document or a pasted table.
//!
//! A row becomes a case, a column becomes a variant or a metric, and a cell becomes a sample of a
//! run. Tables of the same section are joined by the names of their rows and columns, never by
//! position. Does not check whether the figures are plausible. Start at [`read`].
//!
//! The heading of a column or table names the metric of its numbers. Without such a heading, the
//! unit determines the metric. If a throughput in bytes has no unit, `infer_byte_unit` infers the
//! unit from the sizes of responses, which are whole numbers of bytes.

use crate::foreign::json::JsonContent;
use crate::foreign::unit::{MeasuredQuantity, MeasuredUnit, split_trailing_unit};
use crate::load_report::percentile_metric;
use crate::markdown_tables::layout::{MarkdownTable, PrintedNumber};
use crate::session_builder::{InputFile, ONLY_VARIANT, empty_session, value_sample};
use anyhow::{Result, ensure};
use speedwell_model::{Case, Metric, MetricDirection, Run, Session, Variant};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

mod layout;

/// Returns whether the text contains a table of figures.
pub fn recognizes(file: &JsonContent<'_>) -> bool {
    let (tables, _) = layout::parse_tables(&file.beginning());
    !all_figure_tables(&tables).is_empty()
}

/// Reads all tables of figures. Tables of one section form a group if they have the same columns
/// and share at least half of the rows of the smaller table. Each group becomes a session. Adds
/// messages about assumptions and dropped content to `remarks`.
///
/// # Errors
/// Fails if the text has no table of figures.
pub fn read(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let text = crate::foreign::require_utf8(file.bytes)?;
    let (tables, cut) = layout::parse_tables(text);
    remarks.extend(cut);
    let mut groups: Vec<Vec<FigureTable>> = Vec::new();
    for table in all_figure_tables(&tables) {
        match groups.iter_mut().find(|group| is_same_group(&group[0], &table)) {
            Some(group) => group.push(table),
            None => groups.push(vec![table]),
        }
    }
    ensure!(
        !groups.is_empty(),
        "it contains no rows of figures\nhint: the first column of a table must contain names, \
         and the other columns must contain numbers with a unit, or numbers below a heading such as Requests or \
         Latency"
    );
    let mut sessions = Vec::new();
    for mut group in groups {
        infer_byte_unit(&mut group, remarks);
        remarks.extend(group.iter().flat_map(|table| table.remarks.clone()));
        sessions.push(join_tables(file.label, &group));
    }
    Ok(sessions)
}

/// Returns whether two tables belong to the same group. The tables of a group contain different
/// metrics of the same cases and variants.
fn is_same_group(first: &FigureTable, second: &FigureTable) -> bool {
    let columns =
        |table: &FigureTable| -> HashSet<String> { table.columns.iter().cloned().collect() };
    let rows = |table: &FigureTable| -> HashSet<String> {
        table.cells.iter().map(|cell| cell.row.clone()).collect()
    };
    let (first_rows, second_rows) = (rows(first), rows(second));
    let shared = first_rows.intersection(&second_rows).count();
    first.section == second.section
        && columns(first) == columns(second)
        && 2 * shared >= first_rows.len().min(second_rows.len())
        && shared > 0
}

/// Joins the tables of a group into a session. Cells with the same row and column names belong to
/// the same run.
fn join_tables(label: &str, group: &[FigureTable]) -> Session {
    let variants = group[0].columns.iter().map(Variant::plain).collect();
    let mut metrics: Vec<Metric> = Vec::new();
    let mut run_indices: HashMap<(&str, &str, usize), usize> = HashMap::new();
    let mut runs: Vec<Run> = Vec::new();
    for table in group {
        for cell in &table.cells {
            if !metrics.iter().any(|metric| metric.name == cell.metric.name) {
                metrics.push(cell.metric.clone());
            }
            let key = (cell.row.as_str(), cell.column.as_str(), cell.occurrence);
            let index = *run_indices.entry(key).or_insert_with(|| {
                let case = Case::new(&cell.row, Vec::new());
                let (slot, block) = (runs.len() as u32, cell.occurrence as u32);
                runs.push(Run::empty(case, cell.column.as_str(), slot, block));
                runs.len() - 1
            });
            let samples = runs[index].samples.iter();
            // If the run already has this metric, the value would become a second sample, so ignore
            // it.
            if !samples.clone().any(|s| *s.metric == *cell.metric.name) {
                let name = Arc::from(cell.metric.name.as_str());
                runs[index].samples.push(value_sample(&name, cell.value));
            }
        }
    }
    let blocks = runs.iter().map(|run| run.block + 1).max();
    Session { metrics, runs, ..empty_session(label, variants, blocks) }
}

/// Words for "not measured".
const MISSING_VALUES: [&str; 6] = ["", "-", "–", "—", "n/a", "?"];

/// A table of figures.
#[derive(Debug, Default)]
pub struct FigureTable {
    /// Headings above the table that do not name a metric.
    pub section: Vec<String>,
    /// Names of the variants.
    pub columns: Vec<String>,
    /// Figures, column by column.
    pub cells: Vec<FigureCell>,
    /// Whether the table has bandwidths whose unit may be MB/s (10^6 bytes) or MiB/s (2^20 bytes).
    pub is_vague: bool,
    /// Messages about assumptions and dropped content.
    pub remarks: Vec<String>,
}

/// A figure.
#[derive(Debug)]
pub struct FigureCell {
    /// Name of the case.
    pub row: String,
    /// Name of the variant.
    pub column: String,
    /// Number of earlier rows with this name.
    pub occurrence: usize,
    /// Measured metric.
    pub metric: Metric,
    /// Value in the metric's unit.
    pub value: f64,
    /// Value as printed.
    pub number: PrintedNumber,
}

/// Kind of figures that a heading names.
#[derive(Debug, Clone, PartialEq)]
enum HeadingKind {
    Requests,
    Throughput,
    Latency(String),
}

fn all_figure_tables(tables: &[MarkdownTable]) -> Vec<FigureTable> {
    // In a section with a table of `Requests`, `Throughput` means bytes per second. In any other
    // section, it means requests per second.
    let counts = |table: &&MarkdownTable| {
        let kind = table.headings.last().and_then(|heading| heading_kind(heading));
        kind == Some(HeadingKind::Requests)
    };
    let counted: Vec<Vec<String>> = tables.iter().filter(counts).map(section_headings).collect();
    let read = |table| figure_table(table, counted.contains(&section_headings(table)));
    tables.iter().filter_map(read).collect()
}

fn section_headings(table: &MarkdownTable) -> Vec<String> {
    let mut headings = table.headings.clone();
    if headings.last().is_some_and(|heading| heading_kind(heading).is_some()) {
        headings.pop();
    }
    headings
}

fn heading_kind(text: &str) -> Option<HeadingKind> {
    let heading = text.to_lowercase();
    let mut parts: Vec<&str> = heading.split(SEPARATORS).filter(|part| !part.is_empty()).collect();
    if heading.contains("latency") {
        let found = parts.iter().find_map(|part| statistic_metric(part));
        return Some(HeadingKind::Latency(found.unwrap_or("latency_mean".to_owned())));
    }
    if heading.contains("throughput") {
        return Some(HeadingKind::Throughput);
    }
    if heading.starts_with("request") || heading == "rps" || heading.starts_with("req/s") {
        return Some(HeadingKind::Requests);
    }
    // A heading that only names a statistic, such as `p99`, refers to latency.
    parts.retain(|part| *part != "percentile");
    match parts[..] {
        [only] => statistic_metric(only).map(HeadingKind::Latency),
        _ => None,
    }
}

/// Separators of the words of a heading. The underscore does not separate words, because `p99_9` is
/// one word.
const SEPARATORS: [char; 7] = [' ', '(', ')', '[', ']', ',', ':'];

/// Returns the metric for a word such as `p99.9`, `90%`, `75th`, `median` or `max`.
fn statistic_metric(word: &str) -> Option<String> {
    let statistic = word.strip_prefix("latency_").unwrap_or(word);
    let name = match statistic {
        "min" | "minimum" | "least" | "fastest" | "shortest" => "latency_min",
        "max" | "maximum" | "slowest" | "longest" | "worst" => "latency_max",
        "mean" | "avg" | "average" => "latency_mean",
        "median" => "latency_p50",
        "sd" | "+/-sd" | "stdev" | "stddev" | "std" | "±" => "latency_sd",
        _ => return parse_percentile(statistic),
    };
    Some(name.to_owned())
}

fn parse_percentile(word: &str) -> Option<String> {
    let number = word
        .strip_prefix('p')
        .or_else(|| word.strip_suffix('%'))
        .or_else(|| word.strip_suffix("th"))?;
    let percent = number.replace('_', ".");
    let is_number = percent.starts_with(|first: char| first.is_ascii_digit());
    let is_percent = percent.parse::<f64>().is_ok_and(|percent| percent <= 100.0);
    (is_number && is_percent).then(|| percentile_metric(&percent))
}

/// Returns the figures of a table; `None` if it has none, or if it contains cells that are neither
/// figures nor names.
fn figure_table(table: &MarkdownTable, is_beside_requests: bool) -> Option<FigureTable> {
    let is_name = |row: &Vec<String>| !row[0].is_empty() && PrintedNumber::parse(&row[0]).is_none();
    if !table.rows.iter().all(is_name) {
        return None;
    }
    let heading = table.headings.last().map_or("", String::as_str);
    let (_, unit_of_heading) = split_trailing_unit(heading);
    let data_columns: Vec<(&str, Option<MeasuredUnit>)> =
        table.columns.iter().skip(1).map(|name| split_trailing_unit(name)).collect();
    let kinds: Vec<Option<HeadingKind>> =
        data_columns.iter().map(|(name, _)| heading_kind(name)).collect();
    let are_metrics = are_metrics(&kinds);
    let mut figures = FigureTable { section: section_headings(table), ..FigureTable::default() };
    for (index, ((name, unit), kind)) in data_columns.into_iter().zip(kinds).enumerate() {
        if are_metrics && kind.is_none() {
            // Derived figures are always dropped, so their columns need no remark.
            let is_derived = unit.is_some_and(|unit| unit.quantity == MeasuredQuantity::Derived);
            if !is_derived {
                figures
                    .add_remark(format!("the column '{name}' is left out: its meaning is unknown"));
            }
            continue;
        }
        let column = FigureColumn {
            index: index + 1,
            variant: if are_metrics { ONLY_VARIANT } else { name },
            kind: kind.or_else(|| heading_kind(heading)),
            unit: unit.or(unit_of_heading),
            is_beside_requests,
        };
        figures.add_column(table, &column)?;
    }
    (!figures.cells.is_empty()).then_some(figures)
}

/// Returns whether the columns of a table are metrics rather than variants. This requires that at
/// least two headings, or the heading of the only column, name a metric, and that no metric occurs
/// twice.
fn are_metrics(columns: &[Option<HeadingKind>]) -> bool {
    let kinds: Vec<&HeadingKind> = columns.iter().flatten().collect();
    let is_repeated = (1..kinds.len()).any(|index| kinds[..index].contains(&kinds[index]));
    !is_repeated && !kinds.is_empty() && (kinds.len() > 1 || kinds.len() == columns.len())
}

/// A column of figures.
struct FigureColumn<'a> {
    index: usize,
    /// Variant to which the figures belong.
    variant: &'a str,
    /// Kind of the figures, if the headings name it.
    kind: Option<HeadingKind>,
    /// Unit of the figures that have no unit of their own.
    unit: Option<MeasuredUnit>,
    /// Whether the section also has a table of requests.
    is_beside_requests: bool,
}

impl FigureTable {
    /// Adds the figures of a column. Returns `None` if the column contains anything other than
    /// figures and words for missing values.
    fn add_column(&mut self, table: &MarkdownTable, column: &FigureColumn<'_>) -> Option<()> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let mut missing = 0;
        let old_count = self.cells.len();
        for row in &table.rows {
            let occurrence = counts.entry(&row[0]).or_default();
            *occurrence += 1;
            if *occurrence == 2 {
                self.add_remark(format!(
                    "'{}' appears in several rows of one table; they count as its runs",
                    row[0]
                ));
            }
            if MISSING_VALUES.contains(&row[column.index].to_lowercase().as_str()) {
                missing += 1;
                continue;
            }
            let number = PrintedNumber::parse(&row[column.index])?;
            let printed_unit = number.unit.or(column.unit);
            if printed_unit.is_some_and(|unit| unit.quantity == MeasuredQuantity::Derived) {
                continue;
            }
            let (metric, unit) =
                metric_and_unit(column.kind.as_ref(), printed_unit, column.is_beside_requests)?;
            self.is_vague |= unit.is_none();
            if printed_unit.is_none() && unit == Some(MeasuredUnit::MS) {
                self.add_remark("latency has no unit and is read as ms".to_owned());
            }
            self.cells.push(FigureCell {
                row: row[0].clone(),
                column: column.variant.to_owned(),
                occurrence: *occurrence - 1,
                metric,
                value: number.to_stored_unit(unit.unwrap_or(MeasuredUnit::MB_PER_SECOND)),
                number,
            });
        }
        let is_known = self.columns.iter().any(|variant| variant == column.variant);
        if self.cells.len() > old_count {
            self.columns.extend((!is_known).then(|| column.variant.to_owned()));
            let heading = &table.columns[column.index];
            match missing {
                0 => {}
                1 => self
                    .add_remark(format!("1 cell without a figure below '{heading}' is left out")),
                count => self.add_remark(format!(
                    "{count} cells without a figure below '{heading}' are left out"
                )),
            }
        }
        Some(())
    }

    fn add_remark(&mut self, text: String) {
        if !self.remarks.contains(&text) {
            self.remarks.push(text);
        }
    }
}

/// Returns metric and unit of a number. The unit is `None` for bandwidths without a unit.
fn metric_and_unit(
    kind: Option<&HeadingKind>,
    unit: Option<MeasuredUnit>,
    is_beside_requests: bool,
) -> Option<(Metric, Option<MeasuredUnit>)> {
    let quantity = unit.map(|unit| unit.quantity);
    let bandwidth = (MeasuredQuantity::Bandwidth.metric()?, unit);
    Some(match (kind, quantity) {
        (None, Some(quantity)) => (quantity.metric()?, unit),
        (Some(HeadingKind::Throughput), Some(MeasuredQuantity::Bandwidth)) => bandwidth,
        (Some(HeadingKind::Throughput), None) if is_beside_requests => bandwidth,
        (
            Some(HeadingKind::Requests | HeadingKind::Throughput),
            None | Some(MeasuredQuantity::Rate),
        ) => (Metric::throughput(), unit.or(Some(MeasuredUnit::PER_SECOND))),
        (Some(HeadingKind::Latency(name)), None | Some(MeasuredQuantity::Time)) => {
            let metric = Metric::new(name, "ns", MetricDirection::Lower);
            (metric, unit.or(Some(MeasuredUnit::MS)))
        }
        _ => return None,
    })
}

/// Values are read as MiB/s only if the misfits of MB/s outnumber those of MiB/s by more than this
/// factor. A misfit is a cell that implies a fraction of a byte per response, see
/// [`count_misfits`]. Even the right unit has a few misfits by chance: the quotient of two averages
/// is rarely a whole number.
const MIN_MISFIT_RATIO: usize = 4;

/// Determines whether bandwidths without a unit are in MB/s or in MiB/s. Adds this assumption to
/// `remarks`.
fn infer_byte_unit(group: &mut [FigureTable], remarks: &mut Vec<String>) {
    let Some(index) = group.iter().position(|table| table.is_vague) else { return };
    let misfits = |unit| count_misfits(group, &group[index], unit);
    let (decimal, binary) =
        (misfits(MeasuredUnit::MB_PER_SECOND), misfits(MeasuredUnit::MIB_PER_SECOND));
    let (unit, reading) = if MIN_MISFIT_RATIO * binary < decimal {
        let reading = "MiB/s: only then do responses have a whole number of bytes";
        (MeasuredUnit::MIB_PER_SECOND, reading)
    } else {
        (MeasuredUnit::MB_PER_SECOND, "MB/s (10^6 bytes)")
    };
    remarks.push(format!("throughput next to requests has no unit and is read as {reading}"));
    for cell in group.iter_mut().filter(|table| table.is_vague).flat_map(|t| &mut t.cells) {
        cell.value = cell.number.to_stored_unit(unit);
    }
}

/// Counts the misfits of a unit. A misfit is a cell whose rounded figures agree with no whole
/// number of bytes per response.
fn count_misfits(group: &[FigureTable], bytes: &FigureTable, unit: MeasuredUnit) -> usize {
    let step = |cells: &[FigureCell]| {
        let decimals = cells.iter().map(|cell| cell.number.decimals()).max();
        f64::powi(10.0, -(decimals.unwrap_or(0) as i32))
    };
    let half = step(&bytes.cells) / 2.0 * unit.scale_factor();
    let misfits = |cell: &&FigureCell| {
        let is_same_run = |other: &&FigureCell| {
            other.metric.name == "throughput"
                && (&other.row, &other.column, other.occurrence)
                    == (&cell.row, &cell.column, cell.occurrence)
        };
        let Some((table, rate)) =
            group.iter().find_map(|table| Some((table, table.cells.iter().find(is_same_run)?)))
        else {
            return false;
        };
        let half_rate = step(&table.cells) / 2.0;
        let value = cell.number.to_stored_unit(unit);
        let low = (value - half) / (rate.value + half_rate);
        let high = (value + half) / (rate.value - half_rate);
        low.ceil() > high
    };
    bytes.cells.iter().filter(misfits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> (Session, Vec<String>) {
        let mut warnings = Vec::new();
        let mut sessions = read(&InputFile::new("f", text.as_bytes()), &mut warnings).unwrap();
        (sessions.remove(0), warnings)
    }

    fn sample_table(heading: &str, columns: &str, row: &str) -> String {
        let rule = "---|".repeat(columns.matches('|').count() + 2);
        format!("{heading}\n\n| server | {columns} |\n|{rule}\n| one | {row} |\n")
    }

    #[test]
    fn each_percentile_is_a_metric_of_its_own() {
        for (heading, columns) in [
            ("## Load", "Requests/s | min | Latency (mean) | p50 | p75 | p99.9 | max"),
            (
                "## Load",
                "rps | Latency min | latency_mean | median | 75% | Latency p99.9 | slowest",
            ),
            ("## Latency", "req/s | fastest | average | 50th | 75th percentile | p99_9 | 100%"),
        ] {
            let (session, warnings) =
                read_text(&sample_table(heading, columns, "900 | 1 | 5 | 2 | 3 | 80 | 90"));
            let run = &session.runs[0];
            assert_eq!(session.runs.len(), 1, "{columns}");
            for (metric, value) in [
                ("throughput", 900.0),
                ("latency_min", 1e6),
                ("latency_mean", 5e6),
                ("latency_p50", 2e6),
                ("latency_p75", 3e6),
                ("latency_p99_9", 80e6),
                ("latency_max", 90e6),
            ] {
                assert_eq!(run.value_of(metric), Some(value), "{columns}: {metric}");
            }
            assert_eq!(warnings, ["latency has no unit and is read as ms"]);
        }
    }

    #[test]
    fn an_unknown_column_beside_metrics_is_left_out_with_a_warning() {
        let (session, warnings) =
            read_text(&sample_table("# A", "Requests/s | p75 (ms) | errors", "9 | 2 | 0"));
        assert_eq!(session.runs[0].value_of("latency_p75"), Some(2e6));
        assert_eq!(warnings, ["the column 'errors' is left out: its meaning is unknown"]);
    }

    #[test]
    fn columns_of_one_metric_are_variants() {
        let (session, _) =
            read_text(&sample_table("# A", "Requests/s (old) | Requests/s (new)", "9 | 8"));
        let found: Vec<_> = (session.runs.iter())
            .map(|run| (run.variant.to_string(), run.value_of("throughput")))
            .collect();
        assert_eq!(
            found,
            [
                ("Requests/s (old)".to_owned(), Some(9.0)),
                ("Requests/s (new)".to_owned(), Some(8.0))
            ]
        );
    }

    #[test]
    fn rows_with_the_same_name_count_as_runs_with_a_warning() {
        let text = sample_table("# A", "Requests/s", "9") + "| one | 8 |\n";
        let (session, warnings) = read_text(&text);
        assert_eq!(session.runs.len(), 2);
        assert_eq!(
            warnings,
            ["'one' appears in several rows of one table; they count as its runs"]
        );
    }
}
