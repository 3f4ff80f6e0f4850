//! erlperf's tables: the columns of a report, their widths, and the contents of their cells.
//!
//! Statistics follow erlperf's definitions: median and 99th percentile are elements of the sorted
//! samples, never interpolated, so for at most 50 samples the percentile is the maximum. Numbers
//! switch to a larger unit late: above 100 of it. Labels are aligned by display width, and stay
//! distinct when truncated. Knows nothing of how figures were measured. Start at [`Table::write`],
//! and at [`document`] for Markdown, CSV, JSON and HTML.

use speedwell_report::{self as report, Block, Cell, Column, Document, Kind, Row};
use std::io::{self, Write};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Level of detail of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Throughput and time.
    Basic,
    /// Statistics of the samples.
    Extended,
    /// The same, preceded by a description of the machine.
    Full,
}

/// Unit of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Iterations per sample of fixed length: more is better.
    Iterations,
    /// Nanoseconds for a fixed number of iterations: less is better.
    Nanoseconds,
}

/// One row: a snippet.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Code or label.
    pub label: String,
    /// Number of workers.
    pub workers: u32,
    /// Results; `None` if measuring failed.
    pub figures: Option<Figures>,
}

/// Figures of one snippet.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// One value for each sample, in the unit of the table.
    pub samples: Vec<f64>,
    /// Time of an iteration; infinite if none completed.
    pub iteration_ns: f64,
}

/// Snippets and their figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Unit of samples.
    pub unit: Unit,
    /// Snippets, the best first: see [`Table::sorted`].
    pub lines: Vec<Line>,
}

/// Headers include their padding on the left. Each column is wider than its header by at least one.
const CODE: &str = "Code";
const BASIC: [&str; 3] = ["       ||", "       QPS", "      Time"];
const BASIC_REL: &str = "  Rel";
const EXTENDED: [&str; 7] = [
    "   ||",
    "  Samples",
    "      Avg",
    "  StdDev",
    "   Median",
    "     P99",
    " Iteration",
];
const EXTENDED_REL: &str = "   Rel";

impl Table {
    /// Sorts snippets like erlperf: the fastest first. Failed ones come last.
    pub fn sorted(unit: Unit, mut lines: Vec<Line>) -> Table {
        lines.sort_by(|a, b| {
            let key = |line: &Line| line.average().map(|average| unit.goodness(average));
            match (key(a), key(b)) {
                (Some(a), Some(b)) => b.total_cmp(&a),
                (a, b) => b.is_some().cmp(&a.is_some()),
            }
        });
        Table { unit, lines }
    }

    /// Writes the table within `viewport` columns.
    ///
    /// # Errors
    /// `out` is closed.
    pub fn write(&self, detail: Detail, viewport: usize, out: &mut dyn Write) -> io::Result<()> {
        let is_basic = detail == Detail::Basic;
        let (headers, relative) = if is_basic {
            (BASIC.as_slice(), BASIC_REL)
        } else {
            (EXTENDED.as_slice(), EXTENDED_REL)
        };
        let is_compared = self.lines.len() > 1;
        let relative = is_compared.then_some(relative);
        let headers: Vec<&str> = headers.iter().copied().chain(relative).collect();
        let rows: Vec<Vec<String>> = self
            .lines
            .iter()
            .map(|line| {
                let mut cells = if is_basic {
                    self.basic(line)
                } else {
                    self.extended(line)
                };
                cells.extend(is_compared.then(|| self.relative(line)));
                cells
            })
            .collect();
        let widths: Vec<usize> = headers
            .iter()
            .enumerate()
            .map(|(at, header)| {
                let cells = rows.iter().map(|row| row[at].len() + 1);
                cells.fold(header.len() + 1, usize::max)
            })
            .collect();
        let labels: Vec<String> = self.lines.iter().map(|l| on_one_line(&l.label)).collect();
        let least = CODE.len() + 1;
        let longest = labels.iter().map(|label| width(label) + 1);
        let longest = longest.fold(least, usize::max);
        let room = viewport
            .saturating_sub(widths.iter().sum())
            .max(least)
            .min(longest);
        let labels = fitted(&labels, room);
        let header: Vec<String> = headers.iter().map(|header| (*header).to_owned()).collect();
        write_row(CODE, room, &header, &widths, out)?;
        for (label, cells) in labels.iter().zip(&rows) {
            write_row(label, room, cells, &widths, out)?;
        }
        Ok(())
    }

    fn basic(&self, line: &Line) -> Vec<String> {
        let workers = line.workers.to_string();
        let Some((figures, seen)) = line.seen() else {
            return vec![workers, "failed".to_owned(), "-".to_owned()];
        };
        let throughput = match self.unit {
            Unit::Iterations => seen.average,
            Unit::Nanoseconds => 1e9 / figures.iteration_ns,
        };
        vec![workers, number(throughput), duration(figures.iteration_ns)]
    }

    fn extended(&self, line: &Line) -> Vec<String> {
        let workers = line.workers.to_string();
        let Some((figures, seen)) = line.seen() else {
            let mut cells = vec![workers, "0".to_owned(), "failed".to_owned()];
            cells.resize(EXTENDED.len(), "-".to_owned());
            return cells;
        };
        let plain = |value: f64| match self.unit {
            Unit::Iterations => number(value),
            Unit::Nanoseconds => duration(value),
        };
        let deviation = match seen.deviation {
            None => "-".to_owned(),
            Some(_) if seen.average <= 0.0 => "inf".to_owned(),
            Some(deviation) => format!("{:.2}%", 100.0 * deviation / seen.average),
        };
        vec![
            workers,
            seen.count.to_string(),
            plain(seen.average),
            deviation,
            plain(seen.median),
            plain(seen.p99),
            duration(figures.iteration_ns),
        ]
    }

    /// Formats the share of the best.
    fn relative(&self, line: &Line) -> String {
        match self.share_of_best(line) {
            Some(share) => format!("{:.0}%", 100.0 * share),
            None => "-".to_owned(),
        }
    }

    /// Returns how good a snippet is relative to the best: 1 for the best itself, 0 if nothing
    /// completed.
    pub fn share_of_best(&self, line: &Line) -> Option<f64> {
        let best = self.lines.first()?.average()?;
        let own = line.average()?;
        let share = self.unit.goodness(own) / self.unit.goodness(best);
        Some(if share.is_finite() { share } else { 0.0 })
    }
}

impl Unit {
    /// Returns a value that is larger if better.
    fn goodness(self, average: f64) -> f64 {
        match self {
            Unit::Iterations => average,
            Unit::Nanoseconds => 1.0 / average,
        }
    }
}

impl Line {
    /// Returns the figures and their statistics, if any.
    pub fn seen(&self) -> Option<(&Figures, Statistics)> {
        let figures = self.figures.as_ref()?;
        Some((figures, statistics(&figures.samples)?))
    }

    fn average(&self) -> Option<f64> {
        self.seen().map(|(_, seen)| seen.average)
    }
}

/// Writes one row; all columns but the first are right-aligned.
fn write_row(
    label: &str,
    room: usize,
    cells: &[String],
    widths: &[usize],
    out: &mut dyn Write,
) -> io::Result<()> {
    let padding = room.saturating_sub(width(label));
    write!(out, "{label}{:padding$}", "")?;
    for (cell, width) in cells.iter().zip(widths) {
        write!(out, "{cell:>width$}")?;
    }
    writeln!(out)
}

/// Creates a document of a table, and of the passes of a search, if any.
pub fn document(rows: &Table, passes: &[Line], warnings: &[String]) -> Document {
    let mut document = Document::new("erlperf");
    for warning in warnings {
        document.push(Block::Warning(warning.clone()));
    }
    let own: Vec<Vec<Cell>> = rows.lines.iter().map(|line| cells(rows, line)).collect();
    document.push(Block::Table(report_table("codes", own)));
    if !passes.is_empty() {
        let own = passes.iter().map(|line| cells(rows, line)).collect();
        document.push(Block::Table(report_table("passes", own)));
    }
    document
}

fn report_table(name: &'static str, rows: Vec<Vec<Cell>>) -> report::Table {
    let figure = |key, header| Column::new(key, header, Kind::Figure);
    report::Table {
        columns: vec![
            Column::new("code", "code", Kind::Label),
            figure("workers", "workers"),
            figure("samples", "samples"),
            figure("average", "average"),
            figure("deviation", "deviation"),
            figure("median", "median"),
            figure("p99", "p99"),
            figure("least", "least"),
            figure("greatest", "greatest"),
            figure("iteration_ns", "iteration"),
            figure("relative", "relative"),
        ],
        rows: rows.into_iter().map(Row::Cells).collect(),
        ..report::Table::new(name)
    }
}

fn cells(rows: &Table, line: &Line) -> Vec<Cell> {
    let mut cells = vec![
        Cell::value(line.label.clone()).shown(&line.label),
        Cell::value(line.workers).shown(line.workers.to_string()),
    ];
    let Some((figures, seen)) = line.seen() else {
        cells.push(Cell::value(0).shown("failed"));
        cells.resize_with(11, || Cell::figure(None).shown(""));
        return cells;
    };
    let plain = |value: f64| {
        let words = match rows.unit {
            Unit::Iterations => number(value),
            Unit::Nanoseconds => duration(value),
        };
        Cell::figure(Some(value)).shown(words)
    };
    let deviation = seen
        .deviation
        .map_or_else(|| Cell::figure(None).shown("-"), plain);
    cells.push(Cell::value(seen.count).shown(seen.count.to_string()));
    cells.extend([
        plain(seen.average),
        deviation,
        plain(seen.median),
        plain(seen.p99),
        plain(seen.least),
        plain(seen.greatest),
        Cell::figure(Some(figures.iteration_ns)).shown(duration(figures.iteration_ns)),
    ]);
    let share = rows.share_of_best(line);
    let words = share.map(|share| format!("{:.0}%", 100.0 * share));
    cells.push(Cell::figure(share).shown(words.unwrap_or_default()));
    cells
}

/// Statistics of samples, in their own unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statistics {
    pub count: usize,
    pub average: f64,
    /// Sample standard deviation (n - 1); `None` for a single sample.
    pub deviation: Option<f64>,
    pub least: f64,
    pub greatest: f64,
    /// Median; of two middle values the lower one.
    pub median: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// Computes statistics; `None` without samples.
pub fn statistics(samples: &[f64]) -> Option<Statistics> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let (least, greatest) = (*sorted.first()?, *sorted.last()?);
    let average = sorted.iter().sum::<f64>() / count as f64;
    let squares: f64 = sorted.iter().map(|one| (one - average).powi(2)).sum();
    let at = |share: f64| {
        let place = (share * count as f64).round() as usize;
        sorted[place.clamp(1, count) - 1]
    };
    Some(Statistics {
        count,
        average,
        deviation: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
        least,
        greatest,
        median: at(0.5),
        p99: at(0.99),
    })
}

/// Returns the standard deviation as a share of the mean; `None` where undefined.
pub fn variation(samples: &[f64]) -> Option<f64> {
    let seen = statistics(samples)?;
    let share = seen.deviation? / seen.average;
    share.is_finite().then_some(share)
}

/// Powers of 1000, in spite of their names.
const COUNTS: [(f64, &str); 4] = [(1e12, "Ti"), (1e9, "Gi"), (1e6, "Mi"), (1e3, "Ki")];

/// Units of durations in nanoseconds.
const DURATIONS: [(f64, &str); 4] = [(60e9, "m"), (1e9, "s"), (1e6, "ms"), (1e3, "us")];

/// Units of sizes in bytes.
const SIZES: [(f64, &str); 4] = [
    (1_099_511_627_776.0, "Tb"),
    (1_073_741_824.0, "Gb"),
    (1_048_576.0, "Mb"),
    (1_024.0, "Kb"),
];

/// A unit is used above this many of it.
const LEAST_OF_A_UNIT: f64 = 100.0;

/// Formats a number: `38`, `1242 Ki`.
pub fn number(value: f64) -> String {
    scaled(value, &COUNTS, "")
}

/// Formats a duration: `805 ns`, `2609 us`, `17266 s`; `inf` if infinite.
pub fn duration(ns: f64) -> String {
    if ns.is_infinite() {
        return "inf".to_owned();
    }
    scaled(ns, &DURATIONS, " ns")
}

/// Formats a size: `17861 Kb`.
pub fn size(bytes: f64) -> String {
    scaled(bytes, &SIZES, "")
}

fn scaled(value: f64, units: &[(f64, &str)], smallest: &str) -> String {
    let fits = |(factor, _): &&(f64, &str)| value > factor * LEAST_OF_A_UNIT;
    match units.iter().find(fits) {
        Some((factor, unit)) => format!("{} {unit}", digits(value / factor)),
        None => format!("{}{smallest}", digits(value)),
    }
}

fn digits(value: f64) -> String {
    let whole = value.round();
    let is_whole = (value - whole).abs() <= 1e-9 * value.abs();
    // From 99.95 on, three digits leave no decimals.
    if is_whole || value.abs() >= 99.95 {
        return format!("{whole:.0}");
    }
    let exponent = format!("{value:.2e}");
    let exponent = exponent.split_once('e').map(|(_, exponent)| exponent);
    let exponent: i32 = exponent.and_then(|text| text.parse().ok()).unwrap_or(0);
    let behind = usize::try_from(2 - exponent).unwrap_or(0);
    format!("{value:.behind$}")
}

/// Marks truncation.
const CUT: &str = "…";

/// Returns the display width of `text`.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Returns `text` on one line: snippets may span several.
pub fn on_one_line(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let lines = text.trim_matches(['\n', '\r']);
    lines.chars().map(plain).collect()
}

/// Fits labels into `room` columns. A truncated label keeps its beginning and its end, which often
/// makes the difference. Distinct labels stay distinct, by a number if necessary.
pub fn fitted(labels: &[String], room: usize) -> Vec<String> {
    let mut cells: Vec<String> = labels.iter().map(|label| cut(label, room)).collect();
    for at in 0..cells.len() {
        if cells[at] == labels[at] {
            continue;
        }
        let alike = (0..at).filter(|other| cells_alike(labels, room, *other, at));
        let before = alike.count();
        let is_first = !(0..labels.len()).any(|other| {
            other != at && labels[other] != labels[at] && cells_alike(labels, room, other, at)
        });
        if before > 0 || !is_first {
            let mark = format!("#{}", before + 1);
            let left = room.saturating_sub(mark.len());
            cells[at] = format!("{}{mark}", cut(&labels[at], left));
        }
    }
    cells
}

fn cells_alike(labels: &[String], room: usize, one: usize, other: usize) -> bool {
    cut(&labels[one], room) == cut(&labels[other], room)
}

fn cut(label: &str, room: usize) -> String {
    if width(label) <= room {
        return label.to_owned();
    }
    let kept = room.saturating_sub(width(CUT));
    let head = kept / 2;
    let letters: Vec<char> = label.chars().collect();
    let begin = taken(letters.iter(), head);
    let end = taken(letters.iter().rev(), kept - head);
    let begin: String = letters[..begin].iter().collect();
    let end: String = letters[letters.len() - end..].iter().collect();
    format!("{begin}{CUT}{end}")
}

/// Returns how many characters fit into `room` columns.
fn taken<'a>(letters: impl Iterator<Item = &'a char>, room: usize) -> usize {
    let mut used = 0;
    let fits = |letter: &&char| {
        used += letter.width().unwrap_or(0);
        used <= room
    };
    letters.take_while(fits).count()
}

#[cfg(test)]
mod tests;
