//! A session that is being measured: how far it is, and what is known so far.
//!
//! Decides on words. Which cases may have a verdict already is decided by whoever asks. Start at [`live`].

use crate::document::{Block, Chart, Document};
use crate::figure::{Uncertainty, about, count, duration, quantity, share, spell};
use crate::table::{Cell, Column, Columns, Kind};
use serde_json::json;
use speedwell_plot::{Bar, BarCategory, BarChart};
use speedwell_results::store::{LiveLoad, LoadProgress};
use std::time::Duration;

/// How far a session is.
#[derive(Debug, Clone, Default)]
pub struct LiveState {
    /// Its number.
    pub number: i64,
    /// Whether its process is gone.
    pub is_killed: bool,
    /// Slots that are done.
    pub done: usize,
    /// Slots that are planned at most; 0 if that is not known.
    pub planned: usize,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// When something of it was heard last.
    pub last_sign_unix_ms: i64,
    /// Now.
    pub now_unix_ms: i64,
    /// How long a run may take, in milliseconds; 0 if that is not known.
    pub timeout_ms: u64,
    /// Its cases so far.
    pub cases: Vec<LiveCase>,
}

/// A case of a session that is being measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveCase {
    /// Its id.
    pub id: String,
    /// Its runs so far.
    pub runs: usize,
    /// The verdict, if a planned look has given one.
    pub verdict: Option<String>,
}

impl LiveState {
    fn since(&self, unix_ms: i64) -> u64 {
        self.now_unix_ms.saturating_sub(unix_ms).max(0) as u64
    }

    /// Time that the rest would take if it goes on as it began, in milliseconds. An estimate, and no bound: the cases that are
    /// left may take longer than those that are done.
    fn remaining_ms(&self) -> Option<u64> {
        let left = self.planned.checked_sub(self.done)? as u64;
        let elapsed = self.since(self.started_unix_ms);
        elapsed.checked_mul(left)?.checked_div(self.done as u64)
    }

    fn headline(&self) -> String {
        if self.is_killed {
            return format!(
                "killed; resume with: speedwell run --resume @{}",
                self.number
            );
        }
        if self.planned == 0 {
            return format!("measuring: {} done", count(self.done, "run", "runs"));
        }
        let part = share(self.done as f64 / self.planned as f64);
        let left = self.remaining_ms().map_or_else(String::new, |left| {
            format!(", about {} left", about(Duration::from_millis(left)))
        });
        format!(
            "measuring: {} of {} done ({part}){left}",
            self.done,
            count(self.planned, "run", "runs")
        )
    }
}

/// The report.
pub fn live(state: &LiveState) -> Document {
    let mut document = Document::new("live");
    document.push(Block::Headline(state.headline()));
    let limit = match state.timeout_ms {
        0 => String::new(),
        limit => format!(", a run is stopped after {}", duration(limit)),
    };
    document.push(Block::Paragraph(format!(
        "Begun {} ago. The last run ended {} ago{limit}.",
        duration(state.since(state.started_unix_ms)),
        duration(state.since(state.last_sign_unix_ms))
    )));
    let mut columns = Columns::<LiveCase>::new();
    columns.add(
        Column::new("case", "case", Kind::Label),
        |case: &LiveCase| Cell::words(&case.id),
    );
    columns.add(Column::figure("runs", "runs so far"), |case| {
        Cell::value(case.runs).shown(case.runs.to_string())
    });
    columns.add(Column::words("verdict", "verdict"), |case| {
        Cell::words(case.verdict.clone().unwrap_or_default())
    });
    document.push(Block::Table(columns.table("cases", &state.cases)));
    document.push(Block::Note(
        "A verdict exists only at the planned looks: one in between would be a false alarm more often than it says.".into(),
    ));
    document.attach(
        "progress",
        json!({"session": state.number, "killed": state.is_killed, "done": state.done, "planned": state.planned}),
    );
    document
}

/// Loads that are being carried out, each with its course of the last minute.
pub fn live_loads(loads: &[LiveLoad], now_unix_ms: i64) -> Document {
    let mut document = Document::new("loads");
    for load in loads {
        let progress = &load.progress;
        document.push_heading(2, load_title(load));
        document.push(Block::Headline(load_headline(progress)));
        let silent = now_unix_ms.saturating_sub(load.at_unix_ms).max(0) as u64;
        document.push(Block::Paragraph(format!(
            "Begun {} ago; heard of {} ago.",
            duration(now_unix_ms.saturating_sub(load.begun_unix_ms).max(0) as u64),
            duration(silent)
        )));
        let time = |ns: Option<u64>| {
            ns.map_or_else(
                || "-".to_owned(),
                |ns| quantity(ns as f64, "ns", Uncertainty::Unknown),
            )
        };
        document.push(Block::Facts(vec![
            (
                "Requests".into(),
                count(progress.attempted as usize, "request", "requests"),
            ),
            (
                "Errors".into(),
                count(progress.errors as usize, "error", "errors"),
            ),
            ("p50, just now".into(), time(progress.p50_ns)),
            ("p99, just now".into(), time(progress.p99_ns)),
        ]));
        if progress.rates.len() > 1 {
            let rates = progress.rates.iter().enumerate();
            let bars = rates.map(|(at, rate)| BarCategory {
                label: format!("{}", progress.rates.len() - at),
                bars: vec![Bar {
                    name: "answers a second".into(),
                    value: *rate,
                    ..Bar::default()
                }],
            });
            let chart = BarChart {
                title: "Good answers a second, by seconds ago".into(),
                categories: bars.collect(),
                ..BarChart::default()
            };
            document.push_charts([Chart::new(
                "Good answers a second".to_owned(),
                speedwell_plot::Chart::Bar(chart),
            )]);
        }
    }
    document.attach(
        "loads",
        json!(loads.iter().map(|load| &load.progress).collect::<Vec<_>>()),
    );
    document
}

fn load_title(load: &LiveLoad) -> String {
    let mut words = load.progress.command.iter();
    // Wherever the program lies.
    words.next();
    let words: Vec<&str> = words.map(String::as_str).collect();
    format!("speedwell {}", words.join(" "))
}

/// `load 2: 12.0 s of 30.0 s (40 %), 18.0 s left; 10.0 k/s`.
fn load_headline(progress: &LoadProgress) -> String {
    let rate = progress.rates.last().map_or_else(String::new, |rate| {
        format!("; {}", quantity(*rate, "1/s", Uncertainty::Unknown))
    });
    let load = match progress.load {
        0 | 1 => String::new(),
        some => format!("load {some}: "),
    };
    let done = match (progress.planned_ms, progress.planned_requests) {
        _ if progress.is_warmup => "warming up".to_owned(),
        (Some(planned), _) if planned > 0 => {
            let elapsed = progress.elapsed_ms.min(planned);
            format!(
                "{} of {} ({}), {} left",
                duration(elapsed),
                duration(planned),
                share(elapsed as f64 / planned as f64),
                duration(planned - elapsed)
            )
        }
        (_, Some(planned)) if planned > 0 => format!(
            "{} of {} ({})",
            spell(progress.attempted as f64, 0),
            count(planned as usize, "request", "requests"),
            share(progress.attempted as f64 / planned as f64)
        ),
        _ => format!("{} so far", duration(progress.elapsed_ms)),
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
    fn the_rest_takes_as_long_in_proportion_as_what_is_done() {
        assert_eq!(state().remaining_ms(), Some(180_000));
        assert_eq!(
            state().headline(),
            "measuring: 56 of 224 runs done (25 %), about 3 min left"
        );
        let begun = LiveState { done: 0, ..state() };
        assert_eq!(begun.remaining_ms(), None);
    }

    #[test]
    fn a_load_says_how_far_it_is_and_how_long_it_takes() {
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
    fn a_killed_session_says_how_it_is_resumed() {
        let killed = LiveState {
            is_killed: true,
            ..state()
        };
        assert!(killed.headline().contains("speedwell run --resume @12"));
    }
}
