//! Reports the state of a running session: its progress and preliminary results, as a document or
//! as lines.
//!
//! This module chooses the wording; callers decide which cases may already have a verdict. Start at
//! [`report_live`].

use crate::charts::{point_series, single_bars};
use crate::document::{Document, ReportBlock, ReportChart};
use crate::figure::{
    Uncertainty, format_about, format_bytes, format_count, format_duration, format_ns,
    format_number, format_quantity, format_rate, format_share, format_whole, name_in_unit,
    uncertainty_of, unless_empty,
};
use crate::format::ReportFormat;
use crate::format::html::PageProgress;
use crate::table::{ReportCell, ReportTable, column_set};
use crate::unit::FigureScale;
use jiff::Timestamp;
use serde_json::{Value, json};
use speedwell_analysis::{BlockEstimate, SeriesProgress};
use speedwell_model::stored::{LiveLoad, LoadProgress};
use speedwell_model::{ActivitySnapshot, IntervalEstimate, SnippetTiming};
use speedwell_plot::{AnyChart, ChartAxis, ChartPoint, LineChart};
use std::collections::BTreeMap;
use std::time::Duration;

/// The progress of a session.
#[derive(Debug, Clone, Default)]
pub struct LiveState {
    /// The number of the session.
    pub number: i64,
    /// Whether the measuring process has died.
    pub is_killed: bool,
    /// The number of completed slots. A slot is a place for a run in the plan.
    pub done: usize,
    /// The number of planned slots, including completed ones; 0 if unknown. Slots that are no
    /// longer needed, because their case has its verdict, are not included. Further verdicts can
    /// therefore reduce the number.
    pub planned: usize,
    /// When the session started, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// When the last run ended or, before that, when the session started. In milliseconds since the
    /// Unix epoch.
    pub last_sign_unix_ms: i64,
    /// The current time, in milliseconds since the Unix epoch.
    pub now_unix_ms: i64,
    /// The time limit of a run, in milliseconds; 0 if unknown.
    pub timeout_ms: u64,
    /// The cases measured so far.
    pub cases: Vec<LiveCase>,
    /// The estimates so far, without verdicts.
    pub series: Vec<SeriesProgress>,
}

/// A case of a running session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveCase {
    /// The case's id.
    pub id: String,
    /// The number of runs so far.
    pub runs: usize,
    /// The verdict, if a planned interim analysis gave one.
    pub verdict: Option<String>,
}

impl LiveState {
    fn elapsed_since(&self, unix_ms: i64) -> u64 {
        self.now_unix_ms.saturating_sub(unix_ms).max(0) as u64
    }

    fn remaining_time(&self) -> Option<Duration> {
        let elapsed = Duration::from_millis(self.elapsed_since(self.started_unix_ms));
        remaining_time(elapsed, self.done, self.planned.checked_sub(self.done)?)
    }

    /// Returns when the session will probably end, in milliseconds since the Unix epoch.
    fn expected_end_unix_ms(&self) -> Option<i64> {
        let remaining = self.remaining_time().filter(|_| !self.is_killed && self.planned > 0)?;
        Some(self.now_unix_ms + remaining.as_millis() as i64)
    }

    /// Returns the progress for the top of a page and the title of its tab.
    pub fn page_progress(&self) -> PageProgress {
        let share = (self.planned > 0 && !self.is_killed)
            .then(|| (self.done as f64 / self.planned as f64).min(1.0));
        let state = match share {
            _ if self.is_killed => "killed".to_owned(),
            Some(share) => format_percent(share),
            None => format!("{} done", format_count(self.done, "run", "runs")),
        };
        PageProgress {
            share,
            label: format!("Progress of session @{}", self.number),
            title: format!("{state} – session @{}", self.number),
            ends_unix_ms: self.expected_end_unix_ms(),
        }
    }

    fn live_headline(&self) -> String {
        if self.is_killed {
            return format!("killed; resume with: speedwell run --resume @{}", self.number);
        }
        if self.planned == 0 {
            return format!("measuring: {} done", format_count(self.done, "run", "runs"));
        }
        let share = format_percent(self.done as f64 / self.planned as f64);
        let left = self.remaining_time().map(|time| format!(", about {} left", format_about(time)));
        format!(
            "measuring: {} of {} done ({share}){}",
            self.done,
            format_count(self.planned, "run", "runs"),
            left.unwrap_or_default()
        )
    }
}

/// Estimates the time of the remaining runs from the time in which `done` runs ended; `None` before
/// the first run has ended. Assumes that every remaining run is needed and takes as long as the
/// earlier ones.
pub fn remaining_time(elapsed: Duration, done: usize, remaining: usize) -> Option<Duration> {
    (done > 0).then(|| elapsed.mul_f64(remaining as f64 / done as f64))
}

/// Formats a completed part in whole percent, rounded down: 100% means that nothing is left.
fn format_percent(share: f64) -> String {
    format!("{:.0}%", (share * 100.0).floor())
}

/// Maximum number of cases with a chart.
const MAX_CHARTS: usize = 6;

/// Returns the estimate over all runs so far.
fn last_estimate(series: &SeriesProgress) -> Option<IntervalEstimate> {
    series.estimates.last().map(|estimate| estimate.median)
}

/// Returns the last estimate if it has an interval.
fn last_interval(series: &SeriesProgress) -> Option<IntervalEstimate> {
    last_estimate(series).filter(|estimate| estimate.low < estimate.high)
}

fn interval_cell(series: &SeriesProgress) -> Option<ReportCell> {
    let estimate = last_interval(series)?;
    let [low, high] = [estimate.low, estimate.high]
        .map(|end| format_quantity(end, &series.metric.unit, uncertainty_of(&estimate)));
    Some(ReportCell::text(format!("{low} to {high}")))
}

/// Builds the table of the estimates so far. It has no verdicts.
fn estimates_table(series: &[SeriesProgress]) -> ReportTable {
    let columns = column_set! { series: SeriesProgress;
        label("case", "case") => &series.case,
        words("variant", "variant") => &series.variant,
        words("metric", "metric") => &series.metric.name,
        machine("unit") => &series.metric.unit,
        figure("median", "median so far") =>
            ReportCell::estimate(last_estimate(series), &series.metric.unit),
        figure("interval_shown", "95% interval").for_people() => interval_cell(series),
        machine("median_low") => last_interval(series).map(|estimate| estimate.low),
        machine("median_high") => last_interval(series).map(|estimate| estimate.high),
        figure("runs", "runs") => series.runs,
    };
    columns.build_table("estimates", series)
}

/// Draws how the estimates of the first cases developed over the completed blocks.
fn estimate_charts(series: &[SeriesProgress]) -> impl Iterator<Item = ReportChart> {
    series.chunk_by(|one, next| one.case == next.case).take(MAX_CHARTS).map(|variants| {
        let metric = &variants[0].metric;
        let estimates = variants.iter().flat_map(|one| &one.estimates);
        let values: Vec<f64> = estimates.map(|estimate| estimate.median.value).collect();
        let scale = FigureScale::fit_scale(&metric.unit, &values, None);
        let point = |estimate: &BlockEstimate| {
            let IntervalEstimate { value, low, high } =
                estimate.median.map(|figure| scale.to_shown(figure));
            match estimate.blocks as f64 {
                x if low < high => ChartPoint::with_interval(x, value, low, high),
                x => ChartPoint::new(x, value),
            }
        };
        let line =
            |one: &SeriesProgress| point_series(&one.variant, one.estimates.iter().map(point));
        ReportChart::from_picture(AnyChart::Line(LineChart {
            title: variants[0].case.clone(),
            x: ChartAxis::linear("completed blocks"),
            y: ChartAxis::linear(name_in_unit(&metric.name, &scale.symbol)),
            series: variants.iter().map(line).collect(),
            ..LineChart::default()
        }))
    })
}

/// Builds the report of a running session.
pub fn report_live(state: &LiveState) -> Document {
    let mut document = Document::new("live");
    document.push_headline(state.live_headline());
    let limit = unless_empty(state.timeout_ms, |limit| {
        format!("; a run is stopped after {}", format_duration(limit))
    });
    document.push_paragraph(format!(
        "Started {} ago. The last run ended {} ago{limit}.",
        format_duration(state.elapsed_since(state.started_unix_ms)),
        format_duration(state.elapsed_since(state.last_sign_unix_ms))
    ));
    let columns = column_set! { case: LiveCase;
        label("case", "case") => &case.id,
        figure("runs", "runs so far") => case.runs,
        words("verdict", "verdict") => case.verdict.as_deref().unwrap_or_default(),
    };
    document.push_heading(2, "Estimates so far");
    document.push_table(estimates_table(&state.series));
    document.push_charts(estimate_charts(&state.series));
    let case_count = state.series.chunk_by(|one, next| one.case == next.case).count();
    if case_count > MAX_CHARTS {
        let note = format!("The charts show the first {MAX_CHARTS} of {case_count} cases.");
        document.push_note(note);
    }
    document.push_heading(2, "Cases");
    document.push_table(columns.build_table("cases", &state.cases));
    document.push_note(
        "Verdicts are given only at the planned interim analyses: in between, false alarms would \
         be more frequent than stated.",
    );
    document.attach_data(
        "progress",
        json!({"session": state.number, "killed": state.is_killed, "done": state.done,
            "planned": state.planned, "ends_unix_ms": state.expected_end_unix_ms()}),
    );
    document
}

/// Returns the progress of a load for the top of a page, if it is the only one.
pub fn load_progress(loads: &[LiveLoad]) -> Option<PageProgress> {
    let [load] = loads else { return None };
    let progress = &load.progress;
    let share = load_share(progress)?;
    let end = |planned: u64| load.at_unix_ms + planned.saturating_sub(progress.elapsed_ms) as i64;
    Some(PageProgress {
        share: Some(share),
        label: "Progress of the load".into(),
        title: format!("{} – load", format_percent(share)),
        ends_unix_ms: progress.planned_ms.map(end),
    })
}

/// Returns the completed part of a load, if it has a planned end.
fn load_share(progress: &LoadProgress) -> Option<f64> {
    let (done, planned) = match (progress.planned_ms, progress.planned_requests) {
        _ if progress.is_warmup => return None,
        (Some(planned), _) => (progress.elapsed_ms, planned),
        (None, Some(planned)) => (progress.attempted, planned),
        (None, None) => return None,
    };
    (planned > 0).then(|| (done as f64 / planned as f64).min(1.0))
}

/// Reports running loads, each with its throughput over the last minute.
pub fn report_live_loads(loads: &[LiveLoad], now_unix_ms: i64) -> Document {
    let mut document = Document::new("loads");
    for load in loads {
        let progress = &load.progress;
        // The first argument is the path of the program.
        let arguments = progress.command.get(1..).unwrap_or_default();
        document.push_heading(2, format!("speedwell {}", arguments.join(" ")));
        document.push_headline(load_headline(progress));
        let [begun, at] = [load.begun_unix_ms, load.at_unix_ms]
            .map(|unix_ms| format_duration(now_unix_ms.saturating_sub(unix_ms).max(0) as u64));
        document.push_paragraph(format!("Started {begun} ago; last update {at} ago."));
        let format_time = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| format_ns(ns as f64));
        document.push(ReportBlock::Facts(vec![
            ("Requests".into(), format_count(progress.attempted as usize, "request", "requests")),
            ("Errors".into(), format_count(progress.errors as usize, "error", "errors")),
            ("p50 of the last responses".into(), format_time(progress.p50_ns)),
            ("p99 of the last responses".into(), format_time(progress.p99_ns)),
        ]));
        if progress.rates.len() > 1 {
            let rates = (1..=progress.rates.len()).rev().zip(&progress.rates);
            let chart = single_bars(
                "Successful requests a second, by seconds ago",
                "successful requests a second",
                rates.map(|(ago, rate)| (ago.to_string(), *rate)),
            );
            document.push_charts([ReportChart::new("Successful requests a second", chart)]);
        }
    }
    document.attach_data("loads", loads.iter().map(|load| json!(load.progress)).collect());
    document
}

/// Formats the progress of a load, as in `load 2: 12.0 s of 30.0 s (40%), 18.0 s left; 10.0 k/s`.
fn load_headline(progress: &LoadProgress) -> String {
    let rate =
        progress.rates.last().map_or_else(String::new, |rate| format!("; {}", format_rate(*rate)));
    let load = match progress.load {
        0 | 1 => String::new(),
        number => format!("load {number}: "),
    };
    let done = match (progress.planned_ms, progress.planned_requests) {
        _ if progress.is_warmup => "warming up".to_owned(),
        (Some(planned), _) if planned > 0 => {
            let elapsed = progress.elapsed_ms.min(planned);
            format!(
                "{} of {} ({}), {} left",
                format_duration(elapsed),
                format_duration(planned),
                format_share(elapsed as f64 / planned as f64),
                format_duration(planned - elapsed)
            )
        }
        (_, Some(planned)) if planned > 0 => format!(
            "{} of {} ({})",
            format_whole(progress.attempted),
            format_count(planned as usize, "request", "requests"),
            format_share(progress.attempted as f64 / planned as f64)
        ),
        _ => format!("{} so far", format_duration(progress.elapsed_ms)),
    };
    format!("{load}{done}{rate}")
}

// Formats the lines that show the state of a running measurement: throughput, gauges that the
// language runtime reports, and activity of the machine.
//
// Text output repeats its header from time to time. CSV output has a single header. JSON output
// has one object per line. Start at [`WatchLines::format_line`].

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
        if !matches!(self.format, ReportFormat::Json | ReportFormat::Csv) {
            return format_text(&figures, now, line_index);
        }
        let members = figures.into_iter().map(|figure| (figure.key, figure.value));
        let members =
            std::iter::once(("unix_ms".to_owned(), json!(now.as_millisecond()))).chain(members);
        if self.format == ReportFormat::Json {
            return format!("{}\n", Value::Object(members.collect()));
        }
        let cell = |value: Value| if value.is_null() { String::new() } else { value.to_string() };
        let (keys, cells): (Vec<String>, Vec<String>) =
            members.map(|(key, value)| (format!("{key:?}"), cell(value))).unzip();
        let header = if line_index == 0 { keys.join(",") + "\n" } else { String::new() };
        format!("{header}{}\n", cells.join(","))
    }

    fn watch_figures(&self, line: &WatchLine) -> Vec<WatchFigure> {
        let mut figures = Vec::new();
        for (index, (name, (per_s, workers))) in
            self.snippets.iter().zip(&line.snippets).enumerate()
        {
            let alone = self.snippets.len() == 1;
            let header = if alone { "rate".to_owned() } else { shorten_snippet(name) };
            let key = format!("code{index}_per_s");
            let formatted = format_rate(*per_s);
            figures.push(WatchFigure { key, header, value: json!(per_s), formatted });
            if alone {
                let time_ns = f64::from(*workers) / per_s * 1e9;
                figures.push(watch_figure(("time_ns", "time"), Some(time_ns), format_ns));
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
        (Some(value), "count" | "") => format_number(value, 0),
        (Some(value), "percent") => format!("{value:.1}%"),
        (Some(value), "bytes" | "B") => format_bytes(value),
        (Some(value), unit) => format_quantity(value, unit, Uncertainty::Unknown),
    };
    WatchFigure { key, header, value: json!(number), formatted }
}

/// Creates a figure that may be unknown.
fn watch_figure(
    (key, header): (&str, &str),
    value: Option<f64>,
    format: fn(f64) -> String,
) -> WatchFigure {
    let (key, header, formatted) =
        (key.to_owned(), header.to_owned(), value.map(format).unwrap_or_default());
    WatchFigure { key, header, value: json!(value), formatted }
}

fn machine_figures(snapshot: &ActivitySnapshot) -> [WatchFigure; 6] {
    let bytes = snapshot.rss_bytes.map(|bytes| bytes as f64);
    let ActivitySnapshot { voluntary_per_s, involuntary_per_s, .. } = snapshot;
    let format_whole = |value| format_number(value, 0);
    [
        watch_figure(("cpus", "cpus"), snapshot.cpus, |cpus| format!("{cpus:.2}")),
        watch_figure(("rss_bytes", "rss"), bytes, format_bytes),
        watch_figure(("voluntary_switches_per_s", "waits/s"), *voluntary_per_s, format_whole),
        watch_figure(("involuntary_switches_per_s", "forced/s"), *involuntary_per_s, format_whole),
        watch_figure(("steal", "steal"), snapshot.steal, format_share),
        watch_figure(("cpu_pressure", "pressure"), snapshot.pressure, format_share),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> LiveState {
        LiveState {
            number: 12,
            done: 56,
            planned: 224,
            started_unix_ms: 1_000_000,
            last_sign_unix_ms: 1_050_000,
            now_unix_ms: 1_060_000,
            timeout_ms: 300_000,
            ..LiveState::default()
        }
    }

    #[test]
    fn the_remaining_time_is_estimated_from_the_completed_runs() {
        assert_eq!(state().remaining_time(), Some(Duration::from_secs(180)));
        assert_eq!(
            state().live_headline(),
            "measuring: 56 of 224 runs done (25%), about 3 min left"
        );
        let begun = LiveState { done: 0, ..state() };
        assert_eq!(begun.remaining_time(), None);
    }

    #[test]
    fn the_tab_shows_the_completed_percentage_and_never_100_too_early() {
        let progress = state().page_progress();
        assert_eq!(progress.title, "25% – session @12");
        assert_eq!(progress.share, Some(0.25));
        assert_eq!(progress.ends_unix_ms, Some(1_060_000 + 180_000));
        let nearly = LiveState { done: 999, planned: 1000, ..state() };
        assert_eq!(nearly.page_progress().title, "99% – session @12");
        let unknown = LiveState { planned: 0, done: 2, ..state() }.page_progress();
        assert_eq!((unknown.share, unknown.ends_unix_ms), (None, None));
        assert_eq!(unknown.title, "2 runs done – session @12");
        let killed = LiveState { is_killed: true, ..state() }.page_progress();
        assert_eq!(killed.title, "killed – session @12");
    }

    #[test]
    fn estimates_have_a_value_and_an_interval_and_no_verdict() {
        let estimate = |blocks, low, value, high| BlockEstimate {
            blocks,
            median: IntervalEstimate { value, low, high },
        };
        let series = SeriesProgress {
            case: "g/a".into(),
            variant: "new".into(),
            metric: speedwell_model::Metric {
                name: "time".into(),
                unit: "ns".into(),
                better: speedwell_model::MetricDirection::Lower,
            },
            runs: 9,
            estimates: vec![estimate(1, 900.0, 900.0, 900.0), estimate(2, 800.0, 850.0, 900.0)],
        };
        let document = report_live(&LiveState { series: vec![series], ..state() });
        let table = document.tables().find(|table| table.name == "estimates").unwrap();
        assert!(table.columns.iter().all(|column| column.key != "verdict"));
        assert_eq!(document.charts().count(), 1);
        let mut text = Vec::new();
        crate::format::RenderDocument::render(&crate::Json, &document, &mut text).unwrap();
        let json: Value = serde_json::from_slice(&text).unwrap();
        let row = &json["estimates"][0];
        assert_eq!((&row["median"], &row["median_low"]), (&json!(850), &json!(800)));
    }

    #[test]
    fn only_a_single_load_has_a_progress_bar() {
        let load = LiveLoad {
            number: 1,
            begun_unix_ms: 0,
            at_unix_ms: 12_000,
            progress: LoadProgress {
                elapsed_ms: 12_000,
                planned_ms: Some(30_000),
                ..LoadProgress::default()
            },
        };
        let progress = load_progress(std::slice::from_ref(&load)).unwrap();
        assert_eq!(progress.title, "40% – load");
        assert_eq!(progress.ends_unix_ms, Some(30_000));
        assert_eq!(load_progress(&[load.clone(), load]), None);
    }

    #[test]
    fn the_headline_of_a_load_shows_its_progress_and_remaining_time() {
        let progress = LoadProgress {
            load: 2,
            elapsed_ms: 12_000,
            planned_ms: Some(30_000),
            rates: vec![9_000.0, 10_000.0],
            ..LoadProgress::default()
        };
        assert_eq!(
            load_headline(&progress),
            "load 2: 12.0 s of 30.0 s (40%), 18.0 s left; 10.0 k/s"
        );
        let counted = LoadProgress {
            planned_requests: Some(2_000),
            attempted: 500,
            ..LoadProgress::default()
        };
        assert_eq!(load_headline(&counted), "500 of 2,000 requests (25%)");
    }

    #[test]
    fn a_killed_session_shows_its_resume_command() {
        let killed = LiveState { is_killed: true, ..state() };
        assert!(killed.live_headline().contains("speedwell run --resume @12"));
    }
}
