//! erlperf's tables: which columns a report has, how wide they are, and what stands in their cells.
//!
//! Knows nothing of how figures were measured. Start at [`Table::write`].

use super::label::{fitted, on_one_line, width};
use super::number::{duration, number};
use super::statistics::{Statistics, statistics};
use std::io::{self, Write};

/// How much of the figures is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Throughput and time.
    Basic,
    /// Statistics of the samples.
    Extended,
    /// The same below a description of the machine.
    Full,
}

/// What a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Iterations in the length of a sample: more is better.
    Iterations,
    /// Nanoseconds for a fixed number of iterations: less is better.
    Nanoseconds,
}

/// What is known of one code.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Code or label.
    pub label: String,
    /// Workers.
    pub workers: u32,
    /// What was measured; `None` if that failed.
    pub figures: Option<Figures>,
}

/// The figures of one code.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// One for each sample, in the unit of the table.
    pub samples: Vec<f64>,
    /// Time of an iteration; infinite if none was completed.
    pub iteration_ns: f64,
}

/// Codes and their figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What samples are.
    pub unit: Unit,
    /// Codes, the best first: see [`Table::of`].
    pub lines: Vec<Line>,
}

/// A header with its own padding on the left. The column is wider than it by one at least.
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
    /// Sorts as erlperf does: the quickest first. Codes that failed are last.
    pub fn of(unit: Unit, mut lines: Vec<Line>) -> Table {
        lines.sort_by(|a, b| {
            let key = |line: &Line| line.average().map(|average| unit.goodness(average));
            match (key(a), key(b)) {
                (Some(a), Some(b)) => b.total_cmp(&a),
                (a, b) => b.is_some().cmp(&a.is_some()),
            }
        });
        Table { unit, lines }
    }

    /// Writes the table into `viewport` columns.
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

    /// As a share of the best.
    fn relative(&self, line: &Line) -> String {
        match self.share_of_best(line) {
            Some(share) => format!("{:.0}%", 100.0 * share),
            None => "-".to_owned(),
        }
    }

    /// How good a code is beside the best: 1 for the best itself, 0 for one that completed nothing.
    pub fn share_of_best(&self, line: &Line) -> Option<f64> {
        let best = self.lines.first()?.average()?;
        let own = line.average()?;
        let share = self.unit.goodness(own) / self.unit.goodness(best);
        Some(if share.is_finite() { share } else { 0.0 })
    }
}

impl Unit {
    /// A figure that is greater for what is better.
    fn goodness(self, average: f64) -> f64 {
        match self {
            Unit::Iterations => average,
            Unit::Nanoseconds => 1.0 / average,
        }
    }
}

impl Line {
    /// Figures and what they show together, if there are any.
    pub fn seen(&self) -> Option<(&Figures, Statistics)> {
        let figures = self.figures.as_ref()?;
        Some((figures, statistics(&figures.samples)?))
    }

    fn average(&self) -> Option<f64> {
        self.seen().map(|(_, seen)| seen.average)
    }
}

/// All columns but the first are set from the right.
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

#[cfg(test)]
mod tests;
