//! Formats the lines that show the state of a running measurement: throughput, gauges that the
//! language runtime reports, and activity of the machine.
//!
//! Text output repeats its header from time to time. CSV output has a single header. JSON output
//! has one object per line. Start at [`WatchLines::format_line`].

use super::format::ReportFormat;
use super::unit::FigureScale;
use crate::figure::{Uncertainty, format_quantity, format_rate, format_share};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use speedwell_model::{ActivitySnapshot, SnippetTiming};
use std::collections::BTreeMap;

/// Number of lines after which text output repeats its header.
const LINES_PER_HEADER: usize = 30;

/// Minimum width of a column in text output.
const MIN_COLUMN_WIDTH: usize = 8;

/// The values of one line.
#[derive(Debug, Clone, Default)]
pub struct WatchLine {
    /// Iterations per second and number of workers, for each snippet in order.
    pub snippets: Vec<(f64, u32)>,
    /// Gauges reported by the language runtime, by name.
    pub gauges: BTreeMap<String, String>,
    /// The activity of the processes and the machine.
    pub machine: ActivitySnapshot,
}

/// Formats and counts lines. The count decides when a header is due.
#[derive(Debug)]
pub struct WatchLines {
    format: ReportFormat,
    snippets: Vec<String>,
    /// Names and units of the gauges.
    gauges: Vec<(String, String)>,
    written: usize,
}

/// A column of a line. JSON and CSV contain `key` and `value`. Text contains `header` and
/// `formatted`.
struct WatchFigure {
    key: String,
    header: String,
    value: Value,
    formatted: String,
}

impl WatchLines {
    /// Creates a formatter for these snippets, and for gauges declared as `name:unit`.
    pub fn new(format: ReportFormat, snippets: Vec<String>, gauges: &[String]) -> WatchLines {
        let gauge = |text: &String| {
            let (name, unit) = text.split_once(':').unwrap_or((text, ""));
            (name.to_owned(), unit.to_owned())
        };
        WatchLines { format, snippets, gauges: gauges.iter().map(gauge).collect(), written: 0 }
    }

    /// Formats a line with its line feed. Adds a header in front when one is due.
    pub fn format_line(&mut self, line: &WatchLine) -> String {
        let figures = self.watch_figures(line);
        let now = Timestamp::now();
        let line_index = self.written;
        self.written += 1;
        match self.format {
            ReportFormat::Json => {
                let mut object = Map::new();
                let unix_ms = now.as_millisecond();
                object.insert("unix_ms".into(), unix_ms.into());
                object.extend(figures.into_iter().map(|figure| (figure.key, figure.value)));
                format!("{}\n", Value::Object(object))
            }
            ReportFormat::Csv => {
                let unix_ms = now.as_millisecond().to_string();
                let cell = |value: &Value| match value {
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                let keys = figures.iter().map(|figure| format!("{:?}", figure.key));
                let header: Vec<String> =
                    std::iter::once("\"unix_ms\"".to_owned()).chain(keys).collect();
                let cells = figures.iter().map(|figure| cell(&figure.value));
                let cells: Vec<String> = std::iter::once(unix_ms).chain(cells).collect();
                let header = if line_index == 0 { header.join(",") + "\n" } else { String::new() };
                format!("{header}{}\n", cells.join(","))
            }
            _ => format_text(&figures, now, line_index),
        }
    }

    fn watch_figures(&self, line: &WatchLine) -> Vec<WatchFigure> {
        let mut figures = Vec::new();
        for (index, (name, (per_s, workers))) in
            self.snippets.iter().zip(&line.snippets).enumerate()
        {
            let alone = self.snippets.len() == 1;
            let header = if alone { "rate".to_owned() } else { shorten_snippet(name) };
            figures.push(WatchFigure {
                key: format!("code{index}_per_s"),
                header,
                value: json!(per_s),
                formatted: format_rate(*per_s),
            });
            if alone {
                let time_ns = f64::from(*workers) / per_s * 1e9;
                figures.push(WatchFigure {
                    key: "time_ns".into(),
                    header: "time".into(),
                    value: json!(time_ns),
                    formatted: format_quantity(time_ns, "ns", Uncertainty::Unknown),
                });
            }
        }
        figures.extend(self.gauges.iter().map(|(name, unit)| gauge_figure(name, unit, line)));
        figures.extend(machine_figures(&line.machine));
        figures
    }

    /// Summarizes a snippet when it ends. Returns `None` without timing. Also returns `None` for
    /// JSON and CSV, because programs can compute a summary themselves.
    pub fn format_conclusion(&self, name: &str, timing: Option<&SnippetTiming>) -> Option<String> {
        if matches!(self.format, ReportFormat::Json | ReportFormat::Csv) {
            return None;
        }
        let measured = timing?;
        let per_s = format_rate(measured.per_s?);
        let batches = measured.batches.map(|batches| {
            let time = format_quantity(batches.median_ns, "ns", Uncertainty::Unknown);
            format!(", {time} in the median batch")
        });
        Some(format!("{}: {per_s}{}", shorten_snippet(name), batches.unwrap_or_default()))
    }
}

fn gauge_figure(name: &str, unit: &str, line: &WatchLine) -> WatchFigure {
    let text = line.gauges.get(name);
    let number = text.and_then(|text| text.parse::<f64>().ok());
    let (key, header) = (name.to_owned(), name.replace('_', " "));
    let formatted = match (number, unit) {
        (None, _) => text.cloned().unwrap_or_default(),
        (Some(value), "count" | "") => {
            FigureScale::fit_scale("", &[value], None).format_full(value, 0)
        }
        (Some(value), "percent") => format!("{value:.1} %"),
        (Some(value), "bytes" | "B") => format_quantity(value, "B", Uncertainty::Unknown),
        (Some(value), unit) => format_quantity(value, unit, Uncertainty::Unknown),
    };
    WatchFigure { key, header, value: json!(number), formatted }
}

fn machine_figures(snapshot: &ActivitySnapshot) -> Vec<WatchFigure> {
    let figure =
        |key: &str, header: &str, value: Option<f64>, format: fn(f64) -> String| WatchFigure {
            key: key.to_owned(),
            header: header.to_owned(),
            value: json!(value),
            formatted: value.map(format).unwrap_or_default(),
        };
    let bytes = snapshot.rss_bytes.map(|bytes| bytes as f64);
    let format_count =
        |value: f64| FigureScale::fit_scale("", &[value], None).format_full(value, 0);
    vec![
        figure("cpus", "cpus", snapshot.cpus, |cpus| format!("{cpus:.2}")),
        figure("rss_bytes", "rss", bytes, |bytes| {
            format_quantity(bytes, "B", Uncertainty::Unknown)
        }),
        figure("voluntary_switches_per_s", "waits/s", snapshot.voluntary_per_s, format_count),
        figure("involuntary_switches_per_s", "forced/s", snapshot.involuntary_per_s, format_count),
        figure("steal", "steal", snapshot.steal, format_share),
        figure("cpu_pressure", "pressure", snapshot.pressure, format_share),
    ]
}

fn format_text(figures: &[WatchFigure], now: Timestamp, line_index: usize) -> String {
    let width = |figure: &WatchFigure| MIN_COLUMN_WIDTH.max(figure.header.chars().count());
    let mut text = String::new();
    if line_index.is_multiple_of(LINES_PER_HEADER) {
        let headers = figures.iter().map(|figure| format!("{:>1$}", figure.header, width(figure)));
        text = format!("time      {}\n", headers.collect::<Vec<_>>().join("  "));
    }
    let time = now.strftime("%H:%M:%S");
    let cells = figures.iter().map(|figure| format!("{:>1$}", figure.formatted, width(figure)));
    text + &format!("{time}  {}\n", cells.collect::<Vec<_>>().join("  "))
}

/// Returns the first line of a snippet, shortened to at most 24 characters.
fn shorten_snippet(name: &str) -> String {
    let line = name.lines().next().unwrap_or_default();
    match line.chars().count() {
        0..=24 => line.to_owned(),
        _ => format!("{}…", line.chars().take(23).collect::<String>()),
    }
}
