//! Which tables hold figures, and of what.
//!
//! Decides the metric of every number: by the heading of its column or its table, else by its unit. A
//! table whose numbers have neither is none of figures. Start at [`of`].

use super::layout::Table;
use super::number::{Number, Quantity, Unit, unit_at_end};
use crate::formats::imported::VARIANT;
use speedwell_model::{Better, Metric};
use std::collections::HashMap;

/// Words for "not measured".
const MISSING: [&str; 6] = ["", "-", "–", "—", "n/a", "?"];

/// A table of figures.
#[derive(Debug)]
pub struct Figures {
    /// The headings above it that do not name a metric.
    pub section: Vec<String>,
    /// The variants.
    pub columns: Vec<String>,
    /// Its figures, column by column.
    pub cells: Vec<Cell>,
    /// Whether its values are bytes per second of which nobody says how many one has.
    pub is_vague: bool,
    /// What was assumed or left out.
    pub remarks: Vec<String>,
}

/// One figure.
#[derive(Debug)]
pub struct Cell {
    /// The case.
    pub row: String,
    /// The variant.
    pub column: String,
    /// How many rows of that name came before.
    pub occurrence: usize,
    /// What was measured.
    pub metric: Metric,
    /// The value in the metric's unit.
    pub value: f64,
    /// The value as printed.
    pub number: Number,
}

/// What a heading says that numbers are.
#[derive(Debug, Clone, PartialEq)]
enum Named {
    Requests,
    Throughput,
    Latency(&'static str),
}

/// All tables of figures.
pub fn of(tables: &[Table]) -> Vec<Figures> {
    // `Throughput` beside `Requests` are bytes; by itself it is a rate.
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
    let percentiles = [
        ("p50", "latency_p50"),
        ("median", "latency_p50"),
        ("p90", "latency_p90"),
        ("p95", "latency_p95"),
        ("p99", "latency_p99"),
        ("max", "latency_max"),
    ];
    if words.contains("latency") {
        let found = percentiles.iter().find(|(word, _)| words.contains(word));
        return Some(Named::Latency(
            found.map_or("latency_mean", |(_, name)| name),
        ));
    }
    if words.contains("throughput") {
        return Some(Named::Throughput);
    }
    let is_rate = words.starts_with("request") || words == "rps" || words.starts_with("req/s");
    is_rate.then_some(Named::Requests)
}

/// The figures of a table; `None` if it holds none, or something else.
fn figures(table: &Table, is_beside_requests: bool) -> Option<Figures> {
    let is_name = |row: &Vec<String>| !row[0].is_empty() && Number::parse(&row[0]).is_none();
    if !table.rows.iter().all(is_name) {
        return None;
    }
    let heading = table.headings.last().map_or("", String::as_str);
    let (_, unit_of_heading) = unit_at_end(heading);
    let others = || table.columns.iter().skip(1).map(|name| unit_at_end(name));
    let by_column: Option<Vec<Named>> = others().map(|(name, _)| named(name)).collect();
    let mut figures = Figures {
        section: section_of(table),
        columns: Vec::new(),
        cells: Vec::new(),
        is_vague: false,
        remarks: Vec::new(),
    };
    for (at, (name, unit)) in others().enumerate() {
        let is_metric = by_column.as_ref();
        let column = Column {
            at: at + 1,
            variant: is_metric.map_or(name, |_| VARIANT),
            words: is_metric.map_or_else(|| named(heading), |names| Some(names[at].clone())),
            unit: unit.or(unit_of_heading),
            is_beside_requests,
        };
        figures.add(table, &column)?;
    }
    (!figures.cells.is_empty()).then_some(figures)
}

/// A column behind the names.
struct Column<'a> {
    /// Its place in the table.
    at: usize,
    /// The variant of its figures.
    variant: &'a str,
    /// What they are, if words say so.
    words: Option<Named>,
    /// The unit of those that have none of their own.
    unit: Option<Unit>,
    /// Whether the section counts requests as well.
    is_beside_requests: bool,
}

impl Figures {
    /// Adds the figures of a column; `None` if something else is in it.
    fn add(&mut self, table: &Table, column: &Column<'_>) -> Option<()> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let mut missing = 0;
        let before = self.cells.len();
        for row in &table.rows {
            let occurrence = counts.entry(&row[0]).or_default();
            *occurrence += 1;
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

/// The metric and the unit of a number. The metric is missing for what is computed from other figures,
/// the unit where bytes per second have none.
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
            (time(name), unit.or(Some(Unit::MS)))
        }
        (None, Some(Quantity::Time)) => (time("time"), unit),
        (None, Some(Quantity::Size)) => (Metric::new("size", "B", Better::Lower), unit),
        _ => return None,
    };
    Some((Some(found.0), found.1))
}
