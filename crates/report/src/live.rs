//! A session that is being measured: how far it is, and what is known so far.
//!
//! Decides on words. Which cases may have a verdict already is decided by whoever asks. Start at [`live`].

use crate::document::{Block, Document};
use crate::figure::{count, duration, share};
use crate::table::{Cell, Column, Columns, Kind};
use serde_json::json;

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

    /// Time that the rest would take if it goes on as it began, in milliseconds.
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
            format!(", at most {} left", duration(left))
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
        assert!(
            state()
                .headline()
                .starts_with("measuring: 56 of 224 runs done (25 %), at most 3 min")
        );
        let begun = LiveState { done: 0, ..state() };
        assert_eq!(begun.remaining_ms(), None);
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
