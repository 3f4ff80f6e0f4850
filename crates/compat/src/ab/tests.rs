//! Fabricated loads for the tests of neighboring modules, and tests of the output of `-e` and `-g`.

use super::*;
use speedwell_load::http1::RequestParts;
use speedwell_model::load::latency::{RequestOutcome, RequestTotals};
use speedwell_model::load::measurement::{
    LoadMeasurement, LoadTimeline, ProbeFacts, RequestRecord,
};
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

fn progress_lines(requests: Option<u64>, is_wanted: bool, at: &[u64]) -> String {
    let mut out = Vec::new();
    let mut progress = AbProgress::new(requests, is_wanted);
    let (last, before) = at.split_last().unwrap();
    for complete in before {
        progress.show_completed(*complete, &mut out);
    }
    progress.show_finished(*last, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn progress_lines_match_ab() {
    let recorded = "Completed 100 requests\nCompleted 200 requests\nFinished 200 requests\n";
    assert_eq!(progress_lines(Some(200), true, &[40, 199, 200]), recorded);
    assert_eq!(progress_lines(Some(200), true, &[200]), recorded);
    assert_eq!(progress_lines(Some(200), false, &[200]), "");
    assert_eq!(progress_lines(Some(150), true, &[150]), "");
    // Recorded from `ab -t 1`.
    let timed = "Completed 5000 requests\nFinished 5146 requests\n";
    assert_eq!(progress_lines(None, true, &[5146]), timed);
}

#[test]
fn verbosity_adds_the_request_header_and_then_the_statuses() {
    let request = http1::Http1Request::new(&RequestParts {
        method: "POST",
        target: "/a",
        host: "h",
        body: Some(b"secret"),
        ..RequestParts::default()
    })
    .unwrap();
    let trace = |verbosity| {
        let mut out = Vec::new();
        trace_request(verbosity, &request, &mut out).unwrap();
        trace_responses(verbosity, None, &[answered_row(1)], false, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(trace(1), "");
    let head =
        "INFO: POST header == \n---\nPOST /a HTTP/1.1\nHost: h\nContent-Length: 6\n\n\n---\n";
    assert_eq!(trace(2), head);
    assert_eq!(trace(3), format!("{head}LOG: Response code = 200\n"));
}

#[test]
fn responses_are_escaped_on_a_terminal_and_verbatim_in_a_file() {
    let answer = ProbeResponse {
        facts: ProbeFacts {
            address: "127.0.0.1:80".to_owned(),
            tls: None,
            status: 200,
            server: Some("s\u{1b}[2J".to_owned()),
            content_type: None,
            body_bytes: 20,
            wire_bytes: 100,
            is_reusable: true,
            connect_ns: 1,
            service_ns: 1,
            redirected_from: Vec::new(),
        },
        location: Some("/\u{202e}x".to_owned()),
        body: b"one\r\n\ttwo\x1b]0;title\x07\x00".to_vec(),
        is_success: true,
    };
    let trace = |is_terminal| {
        let mut out = Vec::new();
        trace_responses(2, Some(&answer), &[], is_terminal, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let first = "LOG: first response: status 200\n";
    assert_eq!(
        trace(true),
        format!(
            "{first}Server: s\\x1b[2J\nLocation: /\\u{{202e}}x\n\none\n\ttwo\\x1b]0;title\\x07\\x00\n\n"
        )
    );
    assert_eq!(
        trace(false),
        format!(
            "{first}Server: s\u{1b}[2J\nLocation: /\u{202e}x\n\none\r\n\ttwo\u{1b}]0;title\u{7}\0\n\n"
        )
    );
}
