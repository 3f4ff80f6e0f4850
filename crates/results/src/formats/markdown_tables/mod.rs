//! Published tables of figures in Markdown: a whole document or a pasted table.
//!
//! Decides that a row is a case, a column a variant and a cell a run, and that tables of a section
//! are joined by the names of rows and columns, never by position. Does not judge the figures.
//! Start at [`read`]. The metric of a number follows from the heading of its column or table, else
//! from its unit; the size of a megabyte from the sizes of responses, which are whole numbers of
//! bytes.

use crate::foreign::beginning;
use crate::foreign::unit::{Quantity, Unit, unit_at_end};
use crate::formats::imported::{VARIANT, empty_session, sample};
use crate::formats::load_report::percentile;
use crate::formats::markdown_tables::layout::{Number, Table};
use anyhow::{Result, ensure};
use speedwell_model::{Better, Case, Metric, Run, Session, Variant};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

mod layout;

/// Returns whether the text contains a table of figures.
pub fn recognises(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning(bytes));
    let (tables, _) = layout::tables(&text);
    !figures_of(&tables).is_empty()
}

/// Reads all tables of figures, as one session per group of tables of a section with the same
/// columns. Adds messages about assumptions and dropped content to `warnings`.
///
/// # Errors
/// The text has no table of figures.
pub fn read(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Vec<Session>> {
    let text = crate::foreign::utf8(bytes)?;
    let (tables, cut) = layout::tables(text);
    let mut remarks: Vec<String> = cut.into_iter().collect();
    let mut groups: Vec<Vec<Figures>> = Vec::new();
    for table in figures_of(&tables) {
        match groups.iter_mut().find(|group| belongs(&group[0], &table)) {
            Some(group) => group.push(table),
            None => groups.push(vec![table]),
        }
    }
    ensure!(
        !groups.is_empty(),
        "there are no rows of figures in it\nhint: a table needs names in its first column, and numbers \
         with a unit, or below a heading such as Requests or Latency, in the others"
    );
    let mut sessions = Vec::new();
    for mut group in groups {
        settle_bytes(&mut group, &mut remarks);
        remarks.extend(group.iter().flat_map(|table| table.remarks.clone()));
        sessions.push(joined(label, &group));
    }
    warnings.extend(remarks.iter().map(|remark| format!("'{label}': {remark}")));
    Ok(sessions)
}

/// Returns whether two tables hold different metrics of the same things.
fn belongs(one: &Figures, other: &Figures) -> bool {
    let columns = |table: &Figures| -> HashSet<String> { table.columns.iter().cloned().collect() };
    let rows = |table: &Figures| -> HashSet<String> {
        table.cells.iter().map(|cell| cell.row.clone()).collect()
    };
    let (mine, theirs) = (rows(one), rows(other));
    let shared = mine.intersection(&theirs).count();
    one.section == other.section
        && columns(one) == columns(other)
        && 2 * shared >= mine.len().min(theirs.len())
        && shared > 0
}

/// Joins the tables of a group into a session: cells with the same names are the same run.
fn joined(label: &str, group: &[Figures]) -> Session {
    let variants = group[0].columns.iter().map(Variant::plain).collect();
    let mut metrics: Vec<Metric> = Vec::new();
    let mut places: HashMap<(&str, &str, usize), usize> = HashMap::new();
    let mut runs: Vec<Run> = Vec::new();
    for table in group {
        for cell in &table.cells {
            if !metrics.iter().any(|known| known.name == cell.metric.name) {
                metrics.push(cell.metric.clone());
            }
            let key = (cell.row.as_str(), cell.column.as_str(), cell.occurrence);
            let place = *places.entry(key).or_insert_with(|| {
                runs.push(run(cell, runs.len()));
                runs.len() - 1
            });
            let known = runs[place].samples.iter();
            // A repeated metric would add a second sample to the run.
            if !known.clone().any(|s| *s.metric == *cell.metric.name) {
                let name = Arc::from(cell.metric.name.as_str());
                runs[place].samples.push(sample(&name, cell.value));
            }
        }
    }
    let most = runs.iter().map(|run| run.block + 1).max();
    Session {
        metrics,
        runs,
        ..empty_session(label, variants, most)
    }
}

fn run(cell: &Cell, slot: usize) -> Run {
    Run {
        case: Case::new(&cell.row, Vec::new()).into(),
        variant: Arc::from(cell.column.as_str()),
        slot: slot as u32,
        block: cell.occurrence as u32,
        build: None,
        started_unix_ms: 0,
        wall_ns: 0,
        usage: None,
        surroundings: None,
        disturbed: None,
        machine: None,
        samples: Vec::new(),
        notes: Vec::new(),
        load: None,
    }
}

/// Words for "not measured".
const MISSING: [&str; 6] = ["", "-", "–", "—", "n/a", "?"];

/// A table of figures.
#[derive(Debug)]
pub struct Figures {
    /// Headings above it that do not name a metric.
    pub section: Vec<String>,
    /// The variants.
    pub columns: Vec<String>,
    /// Figures, column by column.
    pub cells: Vec<Cell>,
    /// Whether its values are bandwidths with an unknown size of a megabyte.
    pub is_vague: bool,
    /// Assumptions and dropped content.
    pub remarks: Vec<String>,
}

/// A figure.
#[derive(Debug)]
pub struct Cell {
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
    pub number: Number,
}

/// Kind of figures that a heading names.
#[derive(Debug, Clone, PartialEq)]
enum Named {
    Requests,
    Throughput,
    /// Name of the metric.
    Latency(String),
}

/// Returns all tables of figures.
fn figures_of(tables: &[Table]) -> Vec<Figures> {
    // `Throughput` beside `Requests` means bytes; alone it is a rate.
    let counts = |table: &Table| -> bool {
        let heading = table.headings.last();
        heading.is_some_and(|words| named(words) == Some(Named::Requests))
    };
    let counted: Vec<Vec<String>> = tables
        .iter()
        .filter(|t| counts(t))
        .map(section_of)
        .collect();
    let read = |table| figures(table, counted.contains(&section_of(table)));
    tables.iter().filter_map(read).collect()
}

fn section_of(table: &Table) -> Vec<String> {
    let mut headings = table.headings.clone();
    if headings.last().is_some_and(|words| named(words).is_some()) {
        headings.pop();
    }
    headings
}

fn named(words: &str) -> Option<Named> {
    let words = words.to_lowercase();
    let mut parts: Vec<&str> = words
        .split(SEPARATORS)
        .filter(|part| !part.is_empty())
        .collect();
    if words.contains("latency") {
        let found = parts.iter().find_map(|part| statistic(part));
        return Some(Named::Latency(found.unwrap_or("latency_mean".to_owned())));
    }
    if words.contains("throughput") {
        return Some(Named::Throughput);
    }
    if words.starts_with("request") || words == "rps" || words.starts_with("req/s") {
        return Some(Named::Requests);
    }
    // A statistic alone refers to latency.
    parts.retain(|part| *part != "percentile");
    match parts[..] {
        [only] => statistic(only).map(Named::Latency),
        _ => None,
    }
}

/// Separators of the words of a heading. An underscore is one, too, but not in `p99_9`.
const SEPARATORS: [char; 7] = [' ', '(', ')', '[', ']', ',', ':'];

/// Returns the metric for a word such as `p99.9`, `90%`, `75th`, `median` or `max`.
fn statistic(word: &str) -> Option<String> {
    let word = word.strip_prefix("latency_").unwrap_or(word);
    let name = match word {
        "min" | "minimum" | "least" | "fastest" | "shortest" => "latency_min",
        "max" | "maximum" | "slowest" | "longest" | "worst" => "latency_max",
        "mean" | "avg" | "average" => "latency_mean",
        "median" => "latency_p50",
        "sd" | "+/-sd" | "stdev" | "stddev" | "std" | "±" => "latency_sd",
        _ => return percentile_of(word),
    };
    Some(name.to_owned())
}

fn percentile_of(word: &str) -> Option<String> {
    let bare = word
        .strip_prefix('p')
        .or_else(|| word.strip_suffix('%'))
        .or_else(|| word.strip_suffix("th"))?;
    let percent = bare.replace('_', ".");
    let is_number = percent.starts_with(|first: char| first.is_ascii_digit());
    let is_percent = percent.parse::<f64>().is_ok_and(|percent| percent <= 100.0);
    (is_number && is_percent).then(|| percentile(&percent))
}

/// Returns the figures of a table; `None` if it has none or contains anything else.
fn figures(table: &Table, is_beside_requests: bool) -> Option<Figures> {
    let is_name = |row: &Vec<String>| !row[0].is_empty() && Number::parse(&row[0]).is_none();
    if !table.rows.iter().all(is_name) {
        return None;
    }
    let heading = table.headings.last().map_or("", String::as_str);
    let (_, unit_of_heading) = unit_at_end(heading);
    let others: Vec<(&str, Option<Unit>)> = table
        .columns
        .iter()
        .skip(1)
        .map(|name| unit_at_end(name))
        .collect();
    let by_column: Vec<Option<Named>> = others.iter().map(|(name, _)| named(name)).collect();
    let are_metrics = are_metrics(&by_column);
    let mut figures = Figures {
        section: section_of(table),
        columns: Vec::new(),
        cells: Vec::new(),
        is_vague: false,
        remarks: Vec::new(),
    };
    for (at, ((name, unit), words)) in others.into_iter().zip(by_column).enumerate() {
        if are_metrics && words.is_none() {
            // Derived figures are dropped anyway.
            let is_derived = unit.is_some_and(|unit| unit.quantity == Quantity::Derived);
            if !is_derived {
                figures.remark(format!(
                    "it is not known what the column '{name}' holds; it is left out"
                ));
            }
            continue;
        }
        let column = Column {
            at: at + 1,
            variant: if are_metrics { VARIANT } else { name },
            words: words.or_else(|| named(heading)),
            unit: unit.or(unit_of_heading),
            is_beside_requests,
        };
        figures.add(table, &column)?;
    }
    (!figures.cells.is_empty()).then_some(figures)
}

/// Returns whether the columns of a table are metrics: all of them, or several among others.
/// Columns of the same metric are variants.
fn are_metrics(columns: &[Option<Named>]) -> bool {
    let known: Vec<&Named> = columns.iter().flatten().collect();
    let is_repeated = (1..known.len()).any(|at| known[..at].contains(&known[at]));
    !is_repeated && !known.is_empty() && (known.len() > 1 || known.len() == columns.len())
}

/// A column of figures.
struct Column<'a> {
    /// Index of the column.
    at: usize,
    /// Variant of its figures.
    variant: &'a str,
    /// Kind of its figures, if the headings name it.
    words: Option<Named>,
    /// Unit of figures without their own.
    unit: Option<Unit>,
    /// Whether the section also has a table of requests.
    is_beside_requests: bool,
}

impl Figures {
    /// Adds the figures of a column; `None` if it contains anything else.
    fn add(&mut self, table: &Table, column: &Column<'_>) -> Option<()> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let mut missing = 0;
        let before = self.cells.len();
        for row in &table.rows {
            let occurrence = counts.entry(&row[0]).or_default();
            *occurrence += 1;
            if *occurrence == 2 {
                self.remark(format!(
                    "'{}' is in several rows of one table; they count as runs of it",
                    row[0]
                ));
            }
            if MISSING.contains(&row[column.at].to_lowercase().as_str()) {
                missing += 1;
                continue;
            }
            let number = Number::parse(&row[column.at])?;
            let told = number.unit.or(column.unit);
            let (metric, unit) = meaning(column.words.as_ref(), told, column.is_beside_requests)?;
            let Some(metric) = metric else { continue };
            self.is_vague |= unit.is_none();
            if told.is_none() && unit == Some(Unit::MS) {
                self.remark("latency has no unit and is read as ms".to_owned());
            }
            self.cells.push(Cell {
                row: row[0].clone(),
                column: column.variant.to_owned(),
                occurrence: *occurrence - 1,
                metric,
                value: number.value(unit.unwrap_or(Unit::MB_PER_SECOND)),
                number,
            });
        }
        let is_known = self.columns.iter().any(|known| known == column.variant);
        if self.cells.len() > before {
            self.columns
                .extend((!is_known).then(|| column.variant.to_owned()));
            let heading = &table.columns[column.at];
            match missing {
                0 => {}
                1 => self.remark(format!(
                    "1 cell without a figure below '{heading}' is left out"
                )),
                many => self.remark(format!(
                    "{many} cells without a figure below '{heading}' are left out"
                )),
            }
        }
        Some(())
    }

    fn remark(&mut self, text: String) {
        if !self.remarks.contains(&text) {
            self.remarks.push(text);
        }
    }
}

/// Metric and unit of a number. The metric is `None` for derived figures, the unit for bandwidths
/// without one.
type Meaning = (Option<Metric>, Option<Unit>);

fn meaning(words: Option<&Named>, unit: Option<Unit>, is_beside_requests: bool) -> Option<Meaning> {
    let quantity = unit.map(|unit| unit.quantity);
    let bandwidth = || Metric::new("bytes_per_second", "B/s", Better::Higher);
    let time = |name: &str| Metric::new(name, "ns", Better::Lower);
    let found = match (words, quantity) {
        (_, Some(Quantity::Derived)) => return Some((None, unit)),
        (Some(Named::Throughput), Some(Quantity::Bandwidth))
        | (None, Some(Quantity::Bandwidth)) => (bandwidth(), unit),
        (Some(Named::Throughput), None) if is_beside_requests => (bandwidth(), None),
        (Some(Named::Requests | Named::Throughput), None | Some(Quantity::Rate))
        | (None, Some(Quantity::Rate)) => (Metric::throughput(), unit.or(Some(Unit::PER_SECOND))),
        (Some(Named::Latency(name)), None | Some(Quantity::Time)) => {
            (time(name.as_str()), unit.or(Some(Unit::MS)))
        }
        (None, Some(Quantity::Time)) => (time("time"), unit),
        (None, Some(Quantity::Size)) => (Metric::new("size", "B", Better::Lower), unit),
        _ => return None,
    };
    Some((Some(found.0), found.1))
}

/// Required ratio of misfits between the units. Averages of rates and of bytes do not divide into
/// exact whole numbers, so even the right unit has a few misfits by chance.
const MUCH_BETTER: usize = 4;

/// Determines the unit of values without one. Adds the assumptions to `remarks`.
fn settle_bytes(group: &mut [Figures], remarks: &mut Vec<String>) {
    let Some(at) = group.iter().position(|table| table.is_vague) else {
        return;
    };
    let misfits = |unit| misfits(group, &group[at], unit);
    let (decimal, binary) = (misfits(Unit::MB_PER_SECOND), misfits(Unit::MIB_PER_SECOND));
    let unit = if MUCH_BETTER * binary < decimal {
        remarks.push(
            "throughput beside requests has no unit and is read as MiB/s: only so have responses \
             a whole number of bytes"
                .to_owned(),
        );
        Unit::MIB_PER_SECOND
    } else {
        remarks.push(
            "throughput beside requests has no unit and is read as MB/s (10^6 bytes)".to_owned(),
        );
        Unit::MB_PER_SECOND
    };
    for cell in group
        .iter_mut()
        .filter(|table| table.is_vague)
        .flat_map(|t| &mut t.cells)
    {
        cell.value = cell.number.value(unit);
    }
}

/// Counts the cells for which no whole number of bytes per response is within rounding.
fn misfits(group: &[Figures], bytes: &Figures, unit: Unit) -> usize {
    let step = |cells: &[Cell]| {
        let decimals = cells.iter().map(|cell| cell.number.decimals()).max();
        f64::powi(10.0, -(decimals.unwrap_or(0) as i32))
    };
    let factor = f64::powi(10.0, unit.tens) * f64::powi(2.0, unit.twos);
    let half = step(&bytes.cells) / 2.0 * factor;
    let misfits = |cell: &&Cell| {
        let same = |other: &&Cell| {
            other.metric.name == "throughput"
                && (&other.row, &other.column, other.occurrence)
                    == (&cell.row, &cell.column, cell.occurrence)
        };
        let Some((table, rate)) = group
            .iter()
            .find_map(|table| Some((table, table.cells.iter().find(same)?)))
        else {
            return false;
        };
        let half_rate = step(&table.cells) / 2.0;
        let value = cell.number.value(unit);
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
        let mut sessions = read("f", text.as_bytes(), &mut warnings).unwrap();
        (sessions.remove(0), warnings)
    }

    fn table(heading: &str, columns: &str, row: &str) -> String {
        let rule = "---|".repeat(columns.matches('|').count() + 2);
        format!("{heading}\n\n| server | {columns} |\n|{rule}\n| one | {row} |\n")
    }

    #[test]
    fn each_percentile_is_a_metric_of_its_own() {
        for (heading, columns) in [
            (
                "## Load",
                "Requests/s | min | Latency (mean) | p50 | p75 | p99.9 | max",
            ),
            (
                "## Load",
                "rps | Latency min | latency_mean | median | 75% | Latency p99.9 | slowest",
            ),
            (
                "## Latency",
                "req/s | fastest | average | 50th | 75th percentile | p99_9 | 100%",
            ),
        ] {
            let (session, warnings) =
                read_text(&table(heading, columns, "900 | 1 | 5 | 2 | 3 | 80 | 90"));
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
            assert_eq!(warnings, ["'f': latency has no unit and is read as ms"]);
        }
    }

    #[test]
    fn a_column_that_is_not_known_beside_metrics_is_named() {
        let (session, warnings) =
            read_text(&table("# A", "Requests/s | p75 (ms) | errors", "9 | 2 | 0"));
        assert_eq!(session.runs[0].value_of("latency_p75"), Some(2e6));
        assert_eq!(
            warnings,
            ["'f': it is not known what the column 'errors' holds; it is left out"]
        );
    }

    #[test]
    fn columns_of_one_metric_are_variants() {
        let (session, _) = read_text(&table(
            "# A",
            "Requests/s (old) | Requests/s (new)",
            "9 | 8",
        ));
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
    fn rows_of_one_name_count_as_runs_which_is_said() {
        let text = table("# A", "Requests/s", "9") + "| one | 8 |\n";
        let (session, warnings) = read_text(&text);
        assert_eq!(session.runs.len(), 2);
        assert_eq!(
            warnings,
            ["'f': 'one' is in several rows of one table; they count as runs of it"]
        );
    }
}
