//! Fabricated loads for the tests of neighboring modules, and tests of the output of `-e` and `-g`.

use super::*;
use speedwell_load::latency::Outcome;
use speedwell_load::measured::{Measured, RequestRecord, Timeline, Totals};
use speedwell_load::outcomes::ErrorClass;

/// Returns an answered request on a reused connection that took `total_ns`.
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

/// Builder of a load.
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

    /// Returns a load whose counters match its rows.
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

fn rows() -> Vec<RequestRecord> {
    (0..60)
        .map(|at| RequestRecord {
            begun_ns: at * 1_000_000,
            sent_ns: Some(at * 1_000_000),
            first_byte_ns: Some((at + 79 - at % 10) * 1_000_000),
            end_ns: (at + 80 - at % 10) * 1_000_000,
            ..row(0)
        })
        .collect()
}

fn golden(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../speedwell/tests/golden/ab");
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
}

/// Replaces each run of digits, with decimals, by one character.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for letter in line.chars() {
        if !letter.is_ascii_digit() {
            shape.push(letter);
        } else if !shape.ends_with('#') {
            shape.push('#');
        }
    }
    shape
}

#[test]
fn percentages_have_the_form_of_the_original() {
    let mut out = Vec::new();
    write_percentages(Times::of_requests(&rows()).as_ref(), &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let (ours, theirs): (Vec<_>, Vec<_>) = (
        out.lines().map(shape).collect(),
        golden("ab_percent.csv").lines().map(shape).collect(),
    );
    assert_eq!(ours, theirs);
    assert!(out.contains("\n0,71.000\n") && out.ends_with("\n100,80.000\n"));
}

#[test]
fn requests_have_the_form_of_the_original_and_its_order_if_wished() {
    let of = |sort| {
        let mut out = Vec::new();
        let times = Times::of_requests(&rows());
        write_requests(times.as_ref(), 1_795_288_693_000, sort, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let by_start = of(Sort::Start);
    let theirs = golden("ab_requests.tsv");
    assert_eq!(by_start.lines().next(), theirs.lines().next());
    assert_eq!(by_start.lines().count(), theirs.lines().count());
    let cells = |line: &str| line.split('\t').count();
    assert!(by_start.lines().all(|line| cells(line) == 6));
    let of_first = shape(theirs.lines().nth(1).unwrap());
    let ours = shape(by_start.lines().nth(1).unwrap());
    // After the names of weekday and month, which depend on the time zone.
    assert_eq!(ours[7..], of_first[7..]);
    assert!(ours.contains("\t#\t#\t#\t#\t#"));
    let totals = |text: &str| -> Vec<u64> {
        let rows = text.lines().skip(1);
        rows.map(|row| row.split('\t').nth(4).unwrap().parse().unwrap())
            .collect()
    };
    assert_eq!(totals(&by_start)[..3], [80, 79, 78]);
    let sorted = totals(&of(Sort::Total));
    assert!(sorted.is_sorted() && sorted[0] == 71);
}
