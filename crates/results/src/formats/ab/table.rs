//! The tables that ApacheBench writes to files: percentages (`-e`) and requests (`-g`).
//!
//! Decides what their columns mean. It must not know reports. Start at [`read_percentages`] and
//! [`read_requests`]. Neither file tells the address, so both are named after the tool.

use crate::formats::imported::{Imported, Process, sample};
use crate::formats::load_report::{LoadReport, NS_PER_MS, percentile};
use anyhow::{Context, Result, ensure};
use speedwell_model::{Better, Case, Environment, Metric, Session};

const PERCENTAGES: &str = "Percentage served,Time in ms";
const REQUESTS: &str = "starttime\tseconds\tctime\tdtime\tttime\twait";

/// Rows of a table of percentages: 0 to 100.
const ROWS_OF_PERCENTAGES: usize = 101;

/// Percentages that become metrics: those of ab's own report, and the ends.
const KEPT: [&str; 10] = ["0", "50", "66", "75", "80", "90", "95", "98", "99", "100"];

/// What ab calls the file without an address.
const NAME: &str = "ab";

/// Whether bytes are a table of percentages.
pub fn recognises_percentages(bytes: &[u8]) -> bool {
    bytes.starts_with(PERCENTAGES.as_bytes())
}

/// Whether bytes are a table of requests.
pub fn recognises_requests(bytes: &[u8]) -> bool {
    bytes.starts_with(REQUESTS.as_bytes())
}

/// Reads a table of percentages. What the user should know is added to `warnings`.
///
/// # Errors
/// A row is not what it should be; the message names its line.
pub fn read_percentages(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Session> {
    let table = Table::read(bytes, PERCENTAGES, ',')?;
    let mut load = LoadReport {
        target: NAME.to_owned(),
        ..LoadReport::default()
    };
    for (percent, row) in table.rows.iter().map(|row| (row[0], row)) {
        if KEPT.contains(&percent) {
            let name = match percent {
                "0" => "latency_min".to_owned(),
                percent => percentile(percent),
            };
            load.times_ns
                .push((name, table.number(row, 1)? * NS_PER_MS));
        }
    }
    if table.is_cut || table.rows.len() < ROWS_OF_PERCENTAGES {
        load.remarks
            .push("the table is cut short, so percentages at its end are missing".to_owned());
    }
    ensure!(!load.times_ns.is_empty(), "there are no rows in it");
    load.into_session(label, warnings)
}

/// Reads a table of requests: one run with a sample for each request. What the user should know is
/// added to `warnings`.
///
/// # Errors
/// A row is not what it should be; the message names its line.
pub fn read_requests(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Session> {
    let table = Table::read(bytes, REQUESTS, '\t')?;
    ensure!(!table.rows.is_empty(), "there are no rows in it");
    let mut imported = Imported::default();
    let mut samples = Vec::new();
    let mut zeros = 0;
    let mut started_s = f64::INFINITY;
    for row in &table.rows {
        started_s = started_s.min(table.number(row, 1)?);
        for (column, name) in [
            (4, "latency"),
            (2, "connect"),
            (3, "processing"),
            (5, "waiting"),
        ] {
            let ms = table.number(row, column)?;
            zeros += u32::from(column == 4 && ms == 0.0);
            let metric = imported.metric(Metric::new(name, "ns", Better::Lower));
            samples.push(sample(&metric, ms * NS_PER_MS));
        }
    }
    let process = Process {
        samples,
        ..Process::default()
    };
    imported.run(Case::new(NAME, Vec::new()), process);
    if zeros > 0 {
        warnings.push(format!(
            "'{label}': {zeros} of {} requests took less than the millisecond that ab can tell; they \
             count as 0",
            table.rows.len()
        ));
    }
    if table.is_cut {
        warnings.push(format!(
            "'{label}': its last line has no line end, so it may be cut short; it was left out"
        ));
    }
    imported.into_session(
        label,
        Environment::default(),
        Some((started_s * 1e3) as i64),
    )
}

/// Rows below a header, all with as many cells as it has.
struct Table<'a> {
    rows: Vec<Vec<&'a str>>,
    /// Whether a last line without its end was left out.
    is_cut: bool,
}

impl<'a> Table<'a> {
    fn read(bytes: &'a [u8], header: &str, separator: char) -> Result<Table<'a>> {
        let text = crate::foreign::utf8(bytes)?;
        let mut table = Table {
            rows: Vec::new(),
            is_cut: !text.ends_with('\n'),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        ensure!(
            whole.lines().next() == Some(header),
            "its first line is not '{header}'"
        );
        let columns = header.split(separator).count();
        for (line, number) in whole.lines().zip(1..).skip(1) {
            let row: Vec<&str> = line.split(separator).collect();
            ensure!(
                row.len() == columns,
                "line {number} has {} columns, not {columns}",
                row.len()
            );
            table.rows.push(row);
        }
        Ok(table)
    }

    fn number(&self, row: &[&str], column: usize) -> Result<f64> {
        let number: Option<f64> = row[column].trim().parse().ok();
        number.filter(|number| number.is_finite()).with_context(|| {
            let at = self.rows.iter().position(|known| known == row);
            // The header is line 1.
            format!(
                "line {}: '{}' is no number",
                at.unwrap_or_default() + 2,
                row[column]
            )
        })
    }
}
