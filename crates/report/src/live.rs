//! Reports the state of a running session: its progress and preliminary results.
//!
//! This module chooses the wording; callers decide which cases may already have a verdict. Start at
//! [`report_live`].

use crate::columns::column_set;
use crate::document::{Document, ReportBlock, ReportChart};
use crate::figure::{
    Uncertainty, format_about, format_count, format_duration, format_number, format_quantity,
    format_rate, format_share,
};
use serde_json::json;
use speedwell_model::stored::{LiveLoad, LoadProgress};
use speedwell_plot::{BarCategory, BarChart, ChartBar};
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
    /// longer needed, because their case has its verdict, do not count. Further verdicts can
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

    fn live_headline(&self) -> String {
        if self.is_killed {
            return format!("killed; resume with: speedwell run --resume @{}", self.number);
        }
        if self.planned == 0 {
            return format!("measuring: {} done", format_count(self.done, "run", "runs"));
        }
        let share = format_share(self.done as f64 / self.planned as f64);
        let time_left = self
            .remaining_time()
            .map_or_else(String::new, |time| format!(", about {} left", format_about(time)));
        format!(
            "measuring: {} of {} done ({share}){time_left}",
            self.done,
            format_count(self.planned, "run", "runs")
        )
    }
}

/// Estimates the time of the remaining runs from the time in which `done` runs ended; `None` before
/// the first run has ended. Assumes that every remaining run is needed and takes as long as the
/// earlier ones.
pub fn remaining_time(elapsed: Duration, done: usize, remaining: usize) -> Option<Duration> {
    (done > 0).then(|| elapsed.mul_f64(remaining as f64 / done as f64))
}

/// Builds the report of a running session.
pub fn report_live(state: &LiveState) -> Document {
    let mut document = Document::new("live");
    document.push(ReportBlock::Headline(state.live_headline()));
    let limit = match state.timeout_ms {
        0 => String::new(),
        limit => format!("; a run is stopped after {}", format_duration(limit)),
    };
    document.push(ReportBlock::Paragraph(format!(
        "Started {} ago. The last run ended {} ago{limit}.",
        format_duration(state.elapsed_since(state.started_unix_ms)),
        format_duration(state.elapsed_since(state.last_sign_unix_ms))
    )));
    let columns = column_set! { case: LiveCase;
        label("case", "case") => &case.id,
        figure("runs", "runs so far") => case.runs,
        words("verdict", "verdict") => case.verdict.as_deref().unwrap_or_default(),
    };
    document.push(ReportBlock::Table(columns.build_table("cases", &state.cases)));
    document.push(ReportBlock::Note(
        "Verdicts are given only at the planned interim analyses: in between, false alarms would \
         be more frequent than stated."
            .into(),
    ));
    document.attach_data(
        "progress",
        json!({"session": state.number, "killed": state.is_killed, "done": state.done, "planned": state.planned}),
    );
    document
}

/// Reports running loads, each with its throughput over the last minute.
pub fn report_live_loads(loads: &[LiveLoad], now_unix_ms: i64) -> Document {
    let mut document = Document::new("loads");
    for load in loads {
        let progress = &load.progress;
        document.push_heading(2, load_title(load));
        document.push(ReportBlock::Headline(load_headline(progress)));
        let silent_ms = now_unix_ms.saturating_sub(load.at_unix_ms).max(0) as u64;
        document.push(ReportBlock::Paragraph(format!(
            "Started {} ago; last update {} ago.",
            format_duration(now_unix_ms.saturating_sub(load.begun_unix_ms).max(0) as u64),
            format_duration(silent_ms)
        )));
        let format_time = |ns: Option<u64>| {
            ns.map_or_else(
                || "-".to_owned(),
                |ns| format_quantity(ns as f64, "ns", Uncertainty::Unknown),
            )
        };
        document.push(ReportBlock::Facts(vec![
            ("Requests".into(), format_count(progress.attempted as usize, "request", "requests")),
            ("Errors".into(), format_count(progress.errors as usize, "error", "errors")),
            ("p50, just now".into(), format_time(progress.p50_ns)),
            ("p99, just now".into(), format_time(progress.p99_ns)),
        ]));
        if progress.rates.len() > 1 {
            let rates = progress.rates.iter().enumerate();
            let bars = rates.map(|(index, rate)| BarCategory {
                label: format!("{}", progress.rates.len() - index),
                bars: vec![ChartBar {
                    name: "successful requests a second".into(),
                    value: *rate,
                    ..ChartBar::default()
                }],
            });
            let chart = BarChart {
                title: "Successful requests a second, by seconds ago".into(),
                categories: bars.collect(),
                ..BarChart::default()
            };
            document.push_charts([ReportChart::new(
                "Successful requests a second".to_owned(),
                speedwell_plot::AnyChart::Bar(chart),
            )]);
        }
    }
    document
        .attach_data("loads", json!(loads.iter().map(|load| &load.progress).collect::<Vec<_>>()));
    document
}

fn load_title(load: &LiveLoad) -> String {
    let mut arguments = load.progress.command.iter();
    // Skip the path of the program.
    arguments.next();
    let arguments: Vec<&str> = arguments.map(String::as_str).collect();
    format!("speedwell {}", arguments.join(" "))
}

/// Formats the progress of a load, as in `load 2: 12.0 s of 30.0 s (40 %), 18.0 s left; 10.0 k/s`.
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
            format_number(progress.attempted as f64, 0),
            format_count(planned as usize, "request", "requests"),
            format_share(progress.attempted as f64 / planned as f64)
        ),
        _ => format!("{} so far", format_duration(progress.elapsed_ms)),
    };
    format!("{load}{done}{rate}")
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
            "measuring: 56 of 224 runs done (25 %), about 3 min left"
        );
        let begun = LiveState { done: 0, ..state() };
        assert_eq!(begun.remaining_time(), None);
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
            "load 2: 12.0 s of 30.0 s (40 %), 18.0 s left; 10.0 k/s"
        );
        let counted = LoadProgress {
            planned_requests: Some(2_000),
            attempted: 500,
            ..LoadProgress::default()
        };
        assert_eq!(load_headline(&counted), "500 of 2,000 requests (25 %)");
    }

    #[test]
    fn a_killed_session_shows_its_resume_command() {
        let killed = LiveState { is_killed: true, ..state() };
        assert!(killed.live_headline().contains("speedwell run --resume @12"));
    }
}
