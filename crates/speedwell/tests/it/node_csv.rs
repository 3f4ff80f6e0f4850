//! The CSV files of Node.js core's drivers: read, written byte for byte, and with the same cases
//! whichever driver wrote them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::drop_in::golden;
use speedwell_formats::node_csv::{self, CsvLayout, MeasuredRate, javascript, sessions};
use speedwell_model::{FailureCause, ParameterValue, RunOrder, Session, SessionState};

fn read(name: &str, text: &str) -> Session {
    let mut sessions = speedwell_formats::read(name, text.as_bytes()).unwrap();
    assert_eq!(sessions.len(), 1);
    sessions.remove(0)
}

fn layout_of(text: &str) -> CsvLayout {
    speedwell_formats::node_csv::find_header(text.as_bytes()).unwrap()
}

#[test]
fn recorded_files_are_written_back_to_the_byte() {
    for name in [
        "run-csv.csv",
        "compare-string_decoder.csv",
        "scatter.csv",
        "quoting-run.csv",
        "quoting-compare.csv",
        "quoting-scatter.csv",
    ] {
        let text = golden(name);
        let mut written = Vec::new();
        sessions::write(&read(name, &text), &layout_of(&text), &mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), text, "{name}");
    }
}

#[test]
fn a_case_is_the_same_whichever_driver_wrote_it() {
    let ids = |name: &str| -> Vec<String> {
        let session = read(name, &golden(name));
        session.runs.iter().take(5).map(|run| run.case.id()).collect()
    };
    let from_run = ids("quoting-run.csv");
    assert_eq!(from_run[0], r#"zz/scalar.js n=5 q="a\"b" s="x y""#);
    assert_eq!(from_run, ids("quoting-compare.csv"), "JSON and inspect differ in their text only");
    assert_eq!(from_run, ids("quoting-scatter.csv"));
}

#[test]
fn rows_made_from_recorded_messages_equal_those_of_the_drivers() {
    let messages = golden("ipc-messages-quoting.jsonl");
    let reports = messages.lines().skip(1).map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        let values = message["conf"].as_object().unwrap().iter().map(|(name, value)| {
            (name.clone(), serde_json::from_value::<ParameterValue>(value.clone()).unwrap())
        });
        (message["name"].as_str().unwrap().to_owned(), values.collect::<Vec<_>>())
    });
    let (run, compare) = (golden("quoting-run.csv"), golden("quoting-compare.csv"));
    for (at, (name, values)) in reports.enumerate() {
        let line = run.lines().nth(at + 1).unwrap();
        let row = node_csv::format_run_row(&name, &values, rate_of_line(line));
        assert_eq!(row.trim_end(), line);
        let line = compare.lines().nth(at + 1).unwrap();
        let row = node_csv::format_compare_row("old", &name, &values, rate_of_line(line));
        assert_eq!(row.trim_end(), line);
    }
}

/// The last two columns of a recorded line.
fn rate_of_line(line: &str) -> MeasuredRate {
    let mut columns = line.rsplit(',').map(str::trim);
    let elapsed_ns = javascript::parse_nanoseconds(columns.next().unwrap().as_bytes());
    MeasuredRate { rate: columns.next().unwrap().parse().unwrap(), elapsed_ns }
}

#[test]
fn a_comparison_becomes_a_session_with_two_variants() {
    let session = read("compare.csv", &golden("compare-string_decoder.csv"));
    assert_eq!((session.state, session.design.order), (SessionState::Imported, RunOrder::Imported));
    let variants: Vec<&str> = session.variants.iter().map(|variant| &*variant.name).collect();
    assert_eq!((variants.as_slice(), &*session.design.baseline), (&["old", "new"][..], "old"));
    assert_eq!((session.runs.len(), session.failures.len()), (120, 0));
    let series = session.series(&session.metrics[0]);
    assert_eq!(series.len(), 20);
    assert!(series.iter().all(|series| series.runs.len() == 6));
    let first = &session.runs[0];
    assert_eq!(first.samples[0].value, 334093.9315779637);
    assert_eq!(first.samples[0].elapsed_ns, Some(59_863_404));
    let names: Vec<&str> = first.case.values.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["n", "chunkLen", "inLen", "encoding"], "as reported, last declared first");
}

#[test]
fn old_is_the_baseline_in_any_row_order() {
    let text = golden("compare-1each.csv");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.swap(1, 2);
    let session = read("swapped.csv", &lines.join("\n"));
    assert_eq!(session.design.baseline, "old");
    assert_eq!(session.variants[0].name, "old");
}

#[test]
fn line_ends_of_windows_make_no_difference() {
    for name in ["quoting-run.csv", "compare-string_decoder.csv", "scatter.csv"] {
        let text = golden(name);
        let (unix, windows) = (read(name, &text), read(name, &text.replace('\n', "\r\n")));
        assert_eq!(unix.runs, windows.runs, "{name}");
    }
}

#[test]
fn both_spacings_of_compare_files_are_read() {
    let text = golden("compare-string_decoder.csv");
    let wide = text.replace("\",\"", "\", \"").replace("\",3", "\", 3");
    assert_eq!(read("a", &text).runs, read("b", &wide).runs);
}

#[test]
fn other_output_of_scripts_is_skipped_with_a_warning() {
    let text = golden("run-csv.csv").replacen("\n", "\nnoise \"x\"\nlistening on 12346, ok\n", 3);
    let mut warnings = Vec::new();
    let sessions =
        speedwell_formats::read_with_warnings("run.csv", text.as_bytes(), &mut warnings).unwrap();
    assert_eq!(sessions[0].runs, read("run.csv", &golden("run-csv.csv")).runs);
    let warning = "'run.csv': 6 lines without a result were left out; the first is 'noise \"x\"'";
    assert_eq!(warnings, [warning]);
    assert_eq!(sessions[0].environment.facts["import"], warning, "the session remembers it");
}

#[test]
fn files_may_be_concatenated() {
    let text = golden("compare-1each.csv");
    let mut warnings = Vec::new();
    let twice =
        speedwell_formats::read_with_warnings("two", text.repeat(2).as_bytes(), &mut warnings)
            .unwrap();
    assert_eq!((twice[0].runs.len(), warnings.len()), (4, 0));
    assert_eq!(twice[0].runs[3].block, 1, "the second run of its case and variant");
}

#[test]
fn a_row_without_a_rate_is_a_failure_and_not_a_zero() {
    let text = golden("compare-1each.csv").replace("378230.33289261936", "null");
    let mut warnings = Vec::new();
    let session = speedwell_formats::read_with_warnings("c", text.as_bytes(), &mut warnings)
        .unwrap()
        .remove(0);
    assert_eq!((session.runs.len(), session.failures.len()), (1, 1));
    assert_eq!(
        session.failures[0].cause,
        FailureCause::Invalid { reason: "the rate is NaN".into() }
    );
    assert_eq!(warnings, ["'c': 1 result has no rate and counts as a failure"]);
}

#[test]
fn a_malformed_configuration_is_an_error_with_its_location() {
    let text = golden("compare-1each.csv").replacen("chunkLen=16", "chunkLen", 1);
    let error = speedwell_formats::read("c.csv", text.as_bytes()).unwrap_err();
    let message = format!("{error:#}");
    assert!(message.contains("row 1 of 'c.csv'"), "{message}");
    let place = "'chunkLen inLen=128 encoding='ascii'' is not of the form name=value";
    assert!(message.ends_with(place), "{message}");
}

#[test]
fn a_parsed_configuration_is_written_back_unchanged() {
    let text = golden("compare-string_decoder.csv");
    let values =
        javascript::parse_configuration("n=20000 chunkLen=16 inLen=128 encoding='ascii'").unwrap();
    let row = node_csv::format_compare_row(
        "old",
        "string_decoder/string-decoder.js",
        &values,
        MeasuredRate { rate: 334093.9315779637, elapsed_ns: Some(59_863_404) },
    );
    assert_eq!(Some(row.trim_end()), text.lines().nth(1));
}
