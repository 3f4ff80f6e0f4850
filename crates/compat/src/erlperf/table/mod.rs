//! Builds erlperf's tables: the columns of a report, their widths, and the contents of their cells.
//!
//! Statistics follow erlperf's definitions: median and 99th percentile are elements of the sorted
//! samples and are never interpolated. Their ranks are rounded to whole numbers, so for at most 50
//! samples, the 99th percentile is the maximum. A number is stated in a larger unit only if it
//! exceeds 100 of this unit. Labels are aligned by display width, and stay distinct if they are
//! truncated. This module knows nothing about how figures were measured. Start at
//! [`SnippetTable::write`], at [`SnippetTable::build_document`] for Markdown, CSV, JSON and HTML,
//! and at [`write_session`] for `speedwell eval --style erlperf`.

use crate::console::terminal_columns;
use crate::r::print::split_exponent;
use clap::ValueEnum;
use speedwell_adapters::ProtocolMessage;
use speedwell_analysis::snippet::snippet_windows;
use speedwell_model::Session;
use speedwell_report::{Document, ReportBlock, ReportCell, ReportColumn, ReportRow, ReportTable};
use std::io::{self, IsTerminal, Write};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Level of detail of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportDetail {
    /// Throughput and time.
    Basic,
    /// Statistics of the samples.
    Extended,
    /// Statistics of the samples, preceded by a description of the machine.
    Full,
}

/// Unit of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleUnit {
    /// Iterations per sample of fixed length: more is better.
    Iterations,
    /// Nanoseconds for a fixed number of iterations: less is better.
    Nanoseconds,
}

/// One row: a snippet.
#[derive(Debug, Clone, PartialEq)]
pub struct SnippetLine {
    /// Code or label.
    pub label: String,
    /// Number of workers.
    pub workers: u32,
    /// Results; `None` if measuring failed.
    pub figures: Option<LineFigures>,
}

/// Figures of one snippet.
#[derive(Debug, Clone, PartialEq)]
pub struct LineFigures {
    /// One value for each sample, in the unit of the table.
    pub samples: Vec<f64>,
    /// Time of an iteration; infinite if none completed.
    pub iteration_ns: f64,
}

/// Snippets and their figures.
#[derive(Debug, Clone, PartialEq)]
pub struct SnippetTable {
    /// Unit of samples.
    pub unit: SampleUnit,
    /// Snippets, the best first: see [`SnippetTable::from_unsorted`].
    pub lines: Vec<SnippetLine>,
}

/// Header of the first column.
const CODE_HEADER: &str = "Code";

/// Headers of the other columns, separated by commas, each with the padding on its left. A column is
/// at least one character wider than its header. Only a comparison has the last column.
const BASIC_HEADERS: &str = "       ||,       QPS,      Time,  Rel";
const EXTENDED_HEADERS: &str =
    "   ||,  Samples,      Avg,  StdDev,   Median,     P99, Iteration,   Rel";

impl SnippetTable {
    /// Creates a table of snippets, in the order of erlperf: the fastest first, failed ones last.
    pub fn from_unsorted(unit: SampleUnit, mut lines: Vec<SnippetLine>) -> SnippetTable {
        lines.sort_by(|a, b| {
            let key = |line: &SnippetLine| line.average().map(|average| unit.goodness(average));
            match (key(a), key(b)) {
                (Some(a), Some(b)) => b.total_cmp(&a),
                (a, b) => b.is_some().cmp(&a.is_some()),
            }
        });
        SnippetTable { unit, lines }
    }

    /// Writes the table within `width` columns.
    ///
    /// # Errors
    /// Fails if `out` is closed.
    pub fn write(&self, detail: ReportDetail, width: usize, out: &mut dyn Write) -> io::Result<()> {
        let is_basic = detail == ReportDetail::Basic;
        let headers = if is_basic { BASIC_HEADERS } else { EXTENDED_HEADERS };
        let headers: Vec<String> = headers.split(',').map(str::to_owned).collect();
        let columns = headers.len() - usize::from(self.lines.len() < 2);
        let mut rows = vec![headers];
        rows.extend(self.lines.iter().map(|line| {
            let mut cells =
                if is_basic { self.basic_cells(line) } else { self.extended_cells(line) };
            cells.push(self.format_relative(line).unwrap_or_else(|| "-".to_owned()));
            cells
        }));
        let widest =
            |column: usize| rows.iter().map(|row| row[column].len() + 1).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let mut labels = vec![CODE_HEADER.to_owned()];
        labels.extend(self.lines.iter().map(|line| to_single_line(&line.label)));
        let longest = labels.iter().map(|label| display_width(label) + 1).max().unwrap_or(0);
        let available = width.saturating_sub(widths.iter().sum());
        let room = available.max(CODE_HEADER.len() + 1).min(longest);
        for (label, cells) in fit_labels(&labels, room).iter().zip(&rows) {
            let padding = room.saturating_sub(display_width(label));
            write!(out, "{label}{:padding$}", "")?;
            for (cell, width) in cells.iter().zip(&widths) {
                write!(out, "{cell:>width$}")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn basic_cells(&self, line: &SnippetLine) -> Vec<String> {
        let workers = line.workers.to_string();
        let Some((figures, statistics)) = line.figures_with_statistics() else {
            return vec![workers, "failed".to_owned(), "-".to_owned()];
        };
        let throughput = match self.unit {
            SampleUnit::Iterations => statistics.average,
            SampleUnit::Nanoseconds => 1e9 / figures.iteration_ns,
        };
        vec![workers, format_number(throughput), format_duration(figures.iteration_ns)]
    }

    fn extended_cells(&self, line: &SnippetLine) -> Vec<String> {
        let workers = line.workers.to_string();
        let Some((figures, statistics)) = line.figures_with_statistics() else {
            let mut cells = vec![workers, "0".to_owned(), "failed".to_owned()];
            cells.resize(EXTENDED_HEADERS.split(',').count() - 1, "-".to_owned());
            return cells;
        };
        let deviation = match statistics.deviation {
            None => "-".to_owned(),
            Some(_) if statistics.average <= 0.0 => "inf".to_owned(),
            Some(deviation) => format!("{:.2}%", 100.0 * deviation / statistics.average),
        };
        vec![
            workers,
            statistics.count.to_string(),
            self.unit.format_value(statistics.average),
            deviation,
            self.unit.format_value(statistics.median),
            self.unit.format_value(statistics.p99),
            format_duration(figures.iteration_ns),
        ]
    }

    /// Formats how good a snippet is relative to the best, as a percentage.
    fn format_relative(&self, line: &SnippetLine) -> Option<String> {
        self.share_of_best(line).map(|share| format!("{:.0}%", 100.0 * share))
    }

    /// Returns how good a snippet is relative to the best: 1 for the best itself, 0 if nothing
    /// completed, `None` if measuring failed.
    fn share_of_best(&self, line: &SnippetLine) -> Option<f64> {
        let best = self.lines.first()?.average()?;
        let average = line.average()?;
        let share = self.unit.goodness(average) / self.unit.goodness(best);
        Some(if share.is_finite() { share } else { 0.0 })
    }

    /// Creates a document that contains the warnings, the table and, after a search, a table of the
    /// search's passes.
    pub fn build_document(&self, passes: &[SnippetLine], warnings: &[String]) -> Document {
        let mut document = Document::new("erlperf");
        for warning in warnings {
            document.push(ReportBlock::Warning(warning.clone()));
        }
        document.push(report_table("codes", self, &self.lines));
        if !passes.is_empty() {
            document.push(report_table("passes", self, passes));
        }
        document
    }
}

impl SampleUnit {
    /// Returns a value that is larger for better results.
    fn goodness(self, average: f64) -> f64 {
        if self == SampleUnit::Iterations { average } else { 1.0 / average }
    }

    fn format_value(self, value: f64) -> String {
        if self == SampleUnit::Iterations { format_number(value) } else { format_duration(value) }
    }
}

impl SnippetLine {
    /// Returns the figures and their statistics, if any.
    pub fn figures_with_statistics(&self) -> Option<(&LineFigures, SampleStatistics)> {
        let figures = self.figures.as_ref()?;
        Some((figures, compute_statistics(&figures.samples)?))
    }

    fn average(&self) -> Option<f64> {
        self.figures_with_statistics().map(|(_, seen)| seen.average)
    }
}

fn report_table(name: &'static str, table: &SnippetTable, lines: &[SnippetLine]) -> ReportBlock {
    let figures =
        ["workers", "samples", "average", "deviation", "median", "p99", "least", "greatest"];
    let mut columns = vec![ReportColumn::label("code", "code")];
    columns.extend(figures.map(|key| ReportColumn::figure(key, key)));
    columns.push(ReportColumn::figure("iteration_ns", "iteration"));
    columns.push(ReportColumn::figure("relative", "relative"));
    let rows = lines.iter().map(|line| ReportRow::Cells(document_cells(table, line)));
    ReportBlock::Table(ReportTable { columns, rows: rows.collect(), ..ReportTable::new(name) })
}

fn document_cells(rows: &SnippetTable, line: &SnippetLine) -> Vec<ReportCell> {
    let mut cells = vec![
        ReportCell::value(line.label.clone()).with_text(&line.label),
        ReportCell::value(line.workers).with_text(line.workers.to_string()),
    ];
    let Some((figures, statistics)) = line.figures_with_statistics() else {
        cells.push(ReportCell::value(0).with_text("failed"));
        cells.resize_with(11, || ReportCell::figure(None).with_text(""));
        return cells;
    };
    let value_cell =
        |value: f64| ReportCell::figure(Some(value)).with_text(rows.unit.format_value(value));
    let deviation =
        statistics.deviation.map_or_else(|| ReportCell::figure(None).with_text("-"), value_cell);
    cells.push(ReportCell::value(statistics.count).with_text(statistics.count.to_string()));
    let SampleStatistics { average, median, p99, min, max, .. } = statistics;
    cells.extend([value_cell(average), deviation]);
    cells.extend([median, p99, min, max].map(value_cell));
    let time = figures.iteration_ns;
    cells.push(ReportCell::figure(Some(time)).with_text(format_duration(time)));
    let relative = rows.format_relative(line).unwrap_or_default();
    cells.push(ReportCell::figure(rows.share_of_best(line)).with_text(relative));
    cells
}

/// Statistics of samples, in the unit of the samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleStatistics {
    pub count: usize,
    pub average: f64,
    /// Sample standard deviation (n - 1); `None` for a single sample.
    pub deviation: Option<f64>,
    pub min: f64,
    pub max: f64,
    /// Median; if there are two middle values, the lower one.
    pub median: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// Computes statistics; `None` without samples.
pub fn compute_statistics(samples: &[f64]) -> Option<SampleStatistics> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let average = sorted.iter().sum::<f64>() / count as f64;
    let squares: f64 = sorted.iter().map(|sample| (sample - average).powi(2)).sum();
    let quantile = |share: f64| {
        let rank = (share * count as f64).round() as usize;
        sorted[rank.clamp(1, count) - 1]
    };
    Some(SampleStatistics {
        count,
        average,
        deviation: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
        min,
        max,
        median: quantile(0.5),
        p99: quantile(0.99),
    })
}

/// Returns the standard deviation as a fraction of the mean; `None` if it is undefined.
pub fn relative_deviation(samples: &[f64]) -> Option<f64> {
    let statistics = compute_statistics(samples)?;
    let share = statistics.deviation? / statistics.average;
    share.is_finite().then_some(share)
}

/// Units of counts. They are powers of 1000, although erlperf names them like powers of 1024.
const COUNT_UNITS: [(f64, &str); 4] = [(1e12, "Ti"), (1e9, "Gi"), (1e6, "Mi"), (1e3, "Ki")];

/// Units of durations in nanoseconds.
const DURATION_UNITS: [(f64, &str); 4] = [(60e9, "m"), (1e9, "s"), (1e6, "ms"), (1e3, "us")];

/// Units of sizes in bytes.
const SIZE_UNITS: [(f64, &str); 4] =
    [(1_099_511_627_776.0, "Tb"), (1_073_741_824.0, "Gb"), (1_048_576.0, "Mb"), (1_024.0, "Kb")];

/// A unit is used only for values greater than this multiple of the unit.
const MIN_UNIT_COUNT: f64 = 100.0;

/// Formats a number: `38`, `1242 Ki`.
pub fn format_number(value: f64) -> String {
    format_scaled(value, &COUNT_UNITS, "")
}

/// Formats a duration: `805 ns`, `2609 us`, `451 ms`; `inf` if infinite.
pub fn format_duration(ns: f64) -> String {
    if ns.is_infinite() {
        return "inf".to_owned();
    }
    format_scaled(ns, &DURATION_UNITS, " ns")
}

/// Formats a size: `17861 Kb`.
pub fn format_size(bytes: f64) -> String {
    format_scaled(bytes, &SIZE_UNITS, "")
}

fn format_scaled(value: f64, units: &[(f64, &str)], smallest: &str) -> String {
    let fits = |(factor, _): &&(f64, &str)| value > factor * MIN_UNIT_COUNT;
    match units.iter().find(fits) {
        Some((factor, unit)) => format!("{} {unit}", format_digits(value / factor)),
        None => format!("{}{smallest}", format_digits(value)),
    }
}

fn format_digits(value: f64) -> String {
    let rounded = value.round();
    let is_whole = (value - rounded).abs() <= 1e-9 * value.abs();
    // Whole numbers are shown in full, other values with three significant digits. Values of at
    // least 99.95 round to 100 or more, so they have no decimals.
    if is_whole || value.abs() >= 99.95 {
        return format!("{rounded:.0}");
    }
    let scientific = format!("{value:.2e}");
    let decimals = usize::try_from(2 - split_exponent(&scientific).1).unwrap_or(0);
    format!("{value:.decimals$}")
}

/// Stands for the part of a label that was cut out.
const ELLIPSIS: &str = "…";

/// Returns the display width of `text`.
pub fn display_width(text: &str) -> usize {
    text.width()
}

/// Returns `text` on one line. A snippet may span several lines.
pub fn to_single_line(text: &str) -> String {
    let without_control = |character: char| {
        if character.is_control() { ' ' } else { character }
    };
    let lines = text.trim_matches(['\n', '\r']);
    lines.chars().map(without_control).collect()
}

/// Fits labels into `room` columns. A truncated label keeps its beginning and its end, because
/// labels often differ only there. If distinct labels would look the same, they get numbers.
pub fn fit_labels(labels: &[String], room: usize) -> Vec<String> {
    let cut: Vec<String> = labels.iter().map(|label| truncate_label(label, room)).collect();
    let mut cells = cut.clone();
    for (index, label) in labels.iter().enumerate().filter(|(index, label)| cut[*index] != **label)
    {
        let alike_before = cut[..index].iter().filter(|other| **other == cut[index]).count();
        let mut others = cut.iter().zip(labels);
        let is_ambiguous = others.any(|(cell, other)| *cell == cut[index] && other != label);
        if alike_before > 0 || is_ambiguous {
            let mark = format!("#{}", alike_before + 1);
            let remaining = room.saturating_sub(mark.len());
            cells[index] = format!("{}{mark}", truncate_label(label, remaining));
        }
    }
    cells
}

fn truncate_label(label: &str, room: usize) -> String {
    if display_width(label) <= room {
        return label.to_owned();
    }
    let available = room.saturating_sub(display_width(ELLIPSIS));
    let begin_width = available / 2;
    let characters: Vec<char> = label.chars().collect();
    let begin = fitting_chars(characters.iter(), begin_width);
    let end = fitting_chars(characters.iter().rev(), available - begin_width);
    let begin: String = characters[..begin].iter().collect();
    let end: String = characters[characters.len() - end..].iter().collect();
    format!("{begin}{ELLIPSIS}{end}")
}

/// Returns how many characters fit into `room` columns.
fn fitting_chars<'a>(characters: impl Iterator<Item = &'a char>, room: usize) -> usize {
    let mut used = 0;
    let fits = |character: &&char| {
        used += character.width().unwrap_or(0);
        used <= room
    };
    characters.take_while(fits).count()
}

/// Width of output that is not a terminal.
const DEFAULT_WIDTH: usize = 80;

/// Writes the table of a session of the native command (`--style erlperf`). A sample is a window of
/// a run. Throughput is stated per second, whatever the length of the window.
///
/// # Errors
/// Fails if `out` is closed.
pub fn write_session(session: &Session, kind: ReportDetail, out: &mut dyn Write) -> io::Result<()> {
    let lines = snippet_windows(session).into_iter().map(|snippet| {
        let samples = snippet.per_s;
        let figures = snippet.time_ns.map(|iteration_ns| LineFigures { samples, iteration_ns });
        let workers = snippet.concurrency.unwrap_or(1);
        SnippetLine { label: snippet.label, workers, figures }
    });
    let table = SnippetTable::from_unsorted(SampleUnit::Iterations, lines.collect());
    let program = session.environment.programs.first();
    let system = SystemDescription {
        processor: session.environment.cpu.clone(),
        machine: program.and_then(|program| program.version.clone()),
        ..SystemDescription::default()
    };
    system.write_table(&table, kind, std::io::stdout().is_terminal(), out)
}

/// System on which snippets were measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemDescription {
    /// Processor, if known.
    pub processor: Option<String>,
    /// Version text of the Erlang VM.
    pub machine: Option<String>,
    /// Warnings, worded and capitalized as erlperf prints them.
    pub warnings: Vec<String>,
}

impl SystemDescription {
    /// Creates a description from the harness's `ready` message.
    pub fn from_ready(ready: Option<&ProtocolMessage>) -> SystemDescription {
        let get = |key: &str| ready.and_then(|ready| ready.get(key));
        let checks = [
            ("dynamic_trace", "none", "Dynamic Trace Probes enabled"),
            ("build", "opt", "Emulator is not optimised"),
            ("flavor", "jit", "Emulator is not JIT"),
        ];
        let warnings = checks.into_iter().filter_map(|(key, usual, text)| {
            let value = get(key).filter(|value| value != usual)?;
            // Erlang itself calls its interpreter `emu`.
            let value = if value == "interp" { "emu" } else { &value };
            Some(format!("WARNING: {text} ({value} detected)"))
        });
        let warnings = warnings.collect();
        SystemDescription { processor: None, machine: get("system"), warnings }
    }

    /// Writes a table. In a full report, a description of the system precedes the table.
    ///
    /// # Errors
    /// Fails if `out` is closed.
    pub fn write_table(
        &self,
        table: &SnippetTable,
        style: ReportDetail,
        is_terminal: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if style == ReportDetail::Full {
            self.write_heading(out)?;
        }
        let viewport = is_terminal.then(|| terminal_columns(std::io::stdout())).flatten();
        table.write(style, viewport.unwrap_or(DEFAULT_WIDTH), out)
    }

    /// Writes the lines above the table of a full report.
    ///
    /// # Errors
    /// Fails if `out` is closed.
    pub fn write_heading(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "OS : {}", operating_system())?;
        if let Some(processor) = &self.processor {
            writeln!(out, "CPU: {processor}")?;
        }
        let machine = self.machine.as_deref().unwrap_or("Erlang/OTP");
        writeln!(out, "VM : {machine}\n")
    }
}

fn operating_system() -> String {
    match std::env::consts::OS {
        "linux" => "Linux".to_owned(),
        "macos" => "MacOS".to_owned(),
        "freebsd" => "FreeBSD".to_owned(),
        "windows" => "Windows".to_owned(),
        other => format!("{}/{other}", std::env::consts::FAMILY),
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod system_tests {
    use super::*;

    const VERSION: &str = "Erlang/OTP 25 [erts-13.1.5] [source] [64-bit] [smp:2:2] [ds:2:2:10] [async-threads:1] [jit:ns]";

    #[test]
    fn the_system_heading_matches_the_original() {
        let ready = ProtocolMessage::new("ready")
            .with("system", VERSION)
            .with("flavor", "jit")
            .with("build", "opt")
            .with("dynamic_trace", "none");
        let mut system = SystemDescription::from_ready(Some(&ready));
        system.processor = Some("AMD EPYC".to_owned());
        assert_eq!(system.warnings, [""; 0]);
        let mut out = Vec::new();
        system.write_heading(&mut out).unwrap();
        let golden =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../speedwell/tests/golden/erlperf/full.out");
        let recorded = std::fs::read_to_string(golden).unwrap();
        let head = recorded.split_inclusive('\n').take(4).collect::<String>();
        assert_eq!(String::from_utf8(out).unwrap(), head);
    }

    #[test]
    fn unsuitable_emulators_cause_warnings() {
        let ready = ProtocolMessage::new("ready")
            .with("flavor", "interp")
            .with("build", "debug")
            .with("dynamic_trace", "systemtap");
        let warnings = SystemDescription::from_ready(Some(&ready)).warnings;
        assert_eq!(
            warnings,
            [
                "WARNING: Dynamic Trace Probes enabled (systemtap detected)",
                "WARNING: Emulator is not optimised (debug detected)",
                "WARNING: Emulator is not JIT (emu detected)",
            ]
        );
    }
}
