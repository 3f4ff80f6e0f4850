//! Fabricated loads for the tests of neighboring modules, and tests of the output of `-e` and `-g`.

use super::*;
use speedwell_model::load::latency::{RequestOutcome, RequestTotals};
use speedwell_model::load::measurement::{LoadMeasurement, LoadTimeline, RequestRecord};
use speedwell_model::load::outcomes::ErrorClass;

/// Returns an answered request that took `total_ns` on a reused connection.
pub fn answered_row(total_ns: u64) -> RequestRecord {
    RequestRecord {
        index: 0,
        kind: 0,
        intended_ns: None,
        begun_ns: 0,
        sent_ns: Some(0),
        first_byte_ns: Some(total_ns),
        end_ns: total_ns,
        outcome: RequestOutcome::Ok,
        status: 200,
        body_bytes: 14,
        wire_bytes: 93,
        is_reused: true,
    }
}

/// Builder of a load.
pub struct LoadBuilder {
    rows: Vec<RequestRecord>,
    elapsed_ns: u64,
}

impl LoadBuilder {
    pub fn new() -> LoadBuilder {
        LoadBuilder::of_rows(Vec::new(), 1_000_000_000)
    }

    pub fn of_rows(rows: Vec<RequestRecord>, elapsed_ns: u64) -> LoadBuilder {
        LoadBuilder { rows, elapsed_ns }
    }

    pub fn with_answers(mut self, count: usize, status: u16) -> LoadBuilder {
        let answer = RequestRecord { status, ..answered_row(1_000_000) };
        self.rows.extend(std::iter::repeat_n(answer, count));
        self
    }

    pub fn with_failures(mut self, count: usize, class: ErrorClass) -> LoadBuilder {
        let failed = RequestRecord {
            status: if class.has_response() { 200 } else { 0 },
            outcome: RequestOutcome::Failed(class),
            body_bytes: 0,
            wire_bytes: 0,
            ..answered_row(1_000_000)
        };
        self.rows.extend(std::iter::repeat_n(failed, count));
        self
    }

    /// Returns a load whose counters match its rows.
    pub fn build_measured(self) -> LoadMeasurement {
        let mut totals = RequestTotals::new(true);
        for row in &self.rows {
            totals.outcomes.count_attempt();
            totals.outcomes.connections.count_send(row.is_reused);
            match row.outcome {
                RequestOutcome::Ok => totals.outcomes.count_ok(row.status),
                RequestOutcome::Failed(ErrorClass::Assertion) => {
                    totals.outcomes.count_failed_response(ErrorClass::Assertion, row.status)
                }
                RequestOutcome::Failed(class) => totals.outcomes.count_failed(class),
                _ => totals.outcomes.cancelled += 1,
            }
            if row.status != 0 {
                totals.responses.count_response(row.body_bytes, true, false);
            }
        }
        LoadMeasurement {
            began_epoch_ms: 1_795_288_693_000,
            elapsed_ns: self.elapsed_ns,
            ok_in_time: totals.outcomes.succeeded(),
            in_flight_ns: None,
            warmup: RequestTotals::new(true),
            totals,
            timeline: LoadTimeline { interval_ns: 100_000_000, warmup: 0, ticks: Vec::new() },
            threads: Vec::new(),
            max_connections: 1,
            reached_max_connections: false,
            is_interrupted: false,
            rows: self.rows,
        }
    }
}

fn sample_rows() -> Vec<RequestRecord> {
    (0..60)
        .map(|at| RequestRecord {
            begun_ns: at * 1_000_000,
            sent_ns: Some(at * 1_000_000),
            first_byte_ns: Some((at + 79 - at % 10) * 1_000_000),
            end_ns: (at + 80 - at % 10) * 1_000_000,
            ..answered_row(0)
        })
        .collect()
}

fn read_golden(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../speedwell/tests/golden/ab");
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
}

/// Replaces each run of digits with `#`.
fn mask_digits(line: &str) -> String {
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
    write_percentages(RequestTimings::of_requests(&sample_rows()).as_ref(), &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let (ours, theirs): (Vec<_>, Vec<_>) = (
        out.lines().map(mask_digits).collect(),
        read_golden("ab_percent.csv").lines().map(mask_digits).collect(),
    );
    assert_eq!(ours, theirs);
    assert!(out.contains("\n0,71.000\n") && out.ends_with("\n100,80.000\n"));
}

#[test]
fn request_rows_have_the_format_of_ab_and_can_be_sorted_by_total_time() {
    let written_rows = |sorts_by_total| {
        let mut out = Vec::new();
        let times = RequestTimings::of_requests(&sample_rows());
        write_requests(times.as_ref(), 1_795_288_693_000, sorts_by_total, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let by_start = written_rows(false);
    let theirs = read_golden("ab_requests.tsv");
    assert_eq!(by_start.lines().next(), theirs.lines().next());
    assert_eq!(by_start.lines().count(), theirs.lines().count());
    let cells = |line: &str| line.split('\t').count();
    assert!(by_start.lines().all(|line| cells(line) == 6));
    let of_first = mask_digits(theirs.lines().nth(1).unwrap());
    let ours = mask_digits(by_start.lines().nth(1).unwrap());
    // Skips the names of weekday and month, which depend on the time zone.
    assert_eq!(ours[7..], of_first[7..]);
    assert!(ours.contains("\t#\t#\t#\t#\t#"));
    let totals = |text: &str| -> Vec<u64> {
        let rows = text.lines().skip(1);
        rows.map(|row| row.split('\t').nth(4).unwrap().parse().unwrap()).collect()
    };
    assert_eq!(totals(&by_start)[..3], [80, 79, 78]);
    let sorted = totals(&written_rows(true));
    assert!(sorted.is_sorted() && sorted[0] == 71);
}
