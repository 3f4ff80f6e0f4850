//! Loads made by hand, for tests.

use speedwell_load::latency::Outcome;
use speedwell_load::measured::{Measured, RequestRecord, Timeline, Totals};
use speedwell_load::outcomes::ErrorClass;

/// An answered request on a used connection that took so long.
pub fn row(total_ns: u64) -> RequestRecord {
    RequestRecord {
        index: 0,
        kind: 0,
        intended_ns: None,
        begun_ns: 0,
        sent_ns: Some(0),
        first_byte_ns: Some(total_ns),
        end_ns: total_ns,
        outcome: Outcome::Ok,
        status: 200,
        body_bytes: 14,
        wire_bytes: 93,
        is_reused: true,
    }
}

/// A load in the making.
pub struct Made {
    rows: Vec<RequestRecord>,
    elapsed_ns: u64,
}

impl Made {
    pub fn new() -> Made {
        Made::of_rows(Vec::new(), 1_000_000_000)
    }

    pub fn of_rows(rows: Vec<RequestRecord>, elapsed_ns: u64) -> Made {
        Made { rows, elapsed_ns }
    }

    pub fn ok(mut self, count: usize, status: u16) -> Made {
        let answer = RequestRecord {
            status,
            ..row(1_000_000)
        };
        self.rows.extend(std::iter::repeat_n(answer, count));
        self
    }

    pub fn failed(mut self, count: usize, class: ErrorClass) -> Made {
        let failed = RequestRecord {
            status: if class.is_answered() { 200 } else { 0 },
            outcome: Outcome::Failed(class),
            body_bytes: 0,
            wire_bytes: 0,
            ..row(1_000_000)
        };
        self.rows.extend(std::iter::repeat_n(failed, count));
        self
    }

    /// The load whose counts say what its rows say.
    pub fn measured(self) -> Measured {
        let mut totals = Totals::new(true);
        for row in &self.rows {
            totals.outcomes.attempt();
            totals.outcomes.connections.send(row.is_reused);
            match row.outcome {
                Outcome::Ok => totals.outcomes.ok(row.status),
                Outcome::Failed(ErrorClass::Assertion) => {
                    totals.outcomes.failed_assertion(row.status)
                }
                Outcome::Failed(class) => totals.outcomes.failed(class),
                _ => totals.outcomes.cancelled(),
            }
            if row.status != 0 {
                totals.replies.count(row.body_bytes, true, false);
            }
        }
        Measured {
            began_epoch_ms: 1_795_288_693_000,
            elapsed_ns: self.elapsed_ns,
            ok_in_time: totals.outcomes.succeeded(),
            under_way_ns: None,
            warmup: Totals::new(true),
            totals,
            timeline: Timeline {
                interval_ns: 100_000_000,
                warmup: 0,
                ticks: Vec::new(),
            },
            threads: Vec::new(),
            most_connections: 1,
            reached_most_connections: false,
            is_interrupted: false,
            rows: self.rows,
        }
    }
}
