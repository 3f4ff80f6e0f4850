//! Tests with rows of every kind, from current and older versions of the library.

use super::*;
use speedwell_model::MetricDirection;

fn read_rows(rows: &str) -> (Session, Vec<String>) {
    let mut warnings = Vec::new();
    let text = format!(r#"{{"benchmarks":[{rows}]}}"#);
    let file = InputFile::new("f.json", text.as_bytes());
    let session = read(&file, &mut warnings).unwrap().remove(0);
    (session, warnings)
}

fn error_text(text: &str) -> String {
    let read = read(&InputFile::new("f.json", text.as_bytes()), &mut Vec::new());
    format!("{:#}", read.unwrap_err())
}

#[test]
fn every_unit_becomes_nanoseconds() {
    let (session, _) = read_rows(
        r#"{"name":"a","real_time":2,"cpu_time":1,"time_unit":"ns"},
           {"name":"b","real_time":2,"cpu_time":1,"time_unit":"us"},
           {"name":"c","real_time":2,"cpu_time":1,"time_unit":"ms"},
           {"name":"d","real_time":2,"cpu_time":1,"time_unit":"s"}"#,
    );
    let values = |metric: &str| -> Vec<f64> {
        let value = |run: &speedwell_model::Run| run.value_of(metric).unwrap();
        session.runs.iter().map(value).collect()
    };
    assert_eq!(values("real_time"), [2.0, 2e3, 2e6, 2e9]);
    assert_eq!(values("cpu_time"), [1.0, 1e3, 1e6, 1e9]);
}

#[test]
fn aggregates_stand_in_only_where_repetitions_are_missing() {
    let row = |name: &str, time: u32| {
        format!(
            r#"{{"name":"a_{name}","run_name":"a","run_type":"aggregate","aggregate_name":"{name}",
                "iterations":9,"real_time":{time},"cpu_time":{time},"time_unit":"ns"}}"#
        )
    };
    let (mean, median, cv) = (row("mean", 7), row("median", 5), row("cv", 1));
    let (session, warnings) = read_rows(&format!("{mean},{median},{cv}"));
    assert_eq!(session.runs.len(), 1);
    assert_eq!(session.runs[0].value_of("real_time"), Some(5.0));
    assert_eq!(session.runs[0].samples[0].iterations, None);
    assert_eq!(
        session.runs[0].notes,
        ["This is the median of 9 repetitions, which are not in the file."]
    );
    assert!(warnings[0].contains("only have aggregates"), "{warnings:?}");

    let single = r#"{"name":"a","run_type":"iteration","real_time":6,"time_unit":"ns"}"#;
    let (session, warnings) = read_rows(&format!("{single},{mean},{median}"));
    assert_eq!(session.runs.len(), 1);
    assert_eq!(session.runs[0].value_of("real_time"), Some(6.0));
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn aggregates_in_old_files_are_recognized_by_their_names() {
    let row = |name: &str| format!(r#"{{"name":"{name}","real_time":1,"time_unit":"ns"}}"#);
    let all = ["a", "a", "a_mean", "a_stddev", "find_median"].map(row);
    let (session, _) = read_rows(&all.join(","));
    let names: Vec<String> = session.runs.iter().map(|run| run.case.id()).collect();
    assert_eq!(names, ["a", "a", "find_median"]);
}

#[test]
fn a_counter_has_a_known_direction_only_if_its_name_implies_one() {
    let (session, warnings) = read_rows(
        r#"{"name":"a","real_time":1,"time_unit":"ns","bytes_per_second":5,"Foo":NaN,"Bar":2,
            "CYCLES":3,"label":"x","big":true}"#,
    );
    let kinds: Vec<_> =
        session.metrics.iter().map(|m| (m.name.as_str(), m.unit.as_str(), m.better)).collect();
    assert_eq!(
        kinds,
        [
            ("real_time", "ns", MetricDirection::Lower),
            ("cpu_time", "ns", MetricDirection::Lower),
            ("bytes_per_second", "B/s", MetricDirection::Higher),
            ("Bar", "", MetricDirection::Unknown),
            ("CYCLES", "", MetricDirection::Lower),
        ]
    );
    assert_eq!(warnings, [""; 0]);
    assert_eq!(session.runs[0].notes, ["Its label is 'x'."]);
}

#[test]
fn a_counter_may_be_named_like_a_flag() {
    let (session, _) = read_rows(
        r#"{"name":"a","real_time":1,"time_unit":"ns","skipped":7,"error_occurred":2},
           {"name":"b","skipped":true,"skip_message":"no file"}"#,
    );
    let run = &session.runs[0];
    assert_eq!((run.value_of("skipped"), run.value_of("error_occurred")), (Some(7.0), Some(2.0)));
    assert_eq!(session.runs.len(), 1);
}

#[test]
fn a_time_that_is_not_finite_is_a_failure() {
    let (session, _) = read_rows(r#"{"name":"a","real_time":NaN,"cpu_time":1,"time_unit":"ns"}"#);
    assert_eq!(session.failures[0].cause.to_string(), "real_time is missing");
}

#[test]
fn debug_builds_and_frequency_scaling_cause_warnings() {
    let mut warnings = Vec::new();
    let text = br#"{"context":{"date":"2026-11-21T18:49:14+01:00","library_build_type":"debug",
        "cpu_scaling_enabled":true,"load_avg":[]},
        "benchmarks":[{"name":"a","real_time":1,"time_unit":"ns"}]}"#;
    let session = read(&InputFile::new("f.json", text), &mut warnings).unwrap().remove(0);
    assert_eq!(
        warnings,
        [
            "the benchmark library is a debug build, so times are too long",
            "CPU frequency scaling was enabled while measuring",
        ]
    );
    assert_eq!(session.started_unix_ms, 1_795_283_354_000);
    assert_eq!(session.environment.load, None);
}

#[test]
fn invalid_files_are_refused_with_the_reason() {
    assert_eq!(error_text(r#"{"benchmarks":[]}"#), "it contains no results");
    assert_eq!(error_text(r#"{"context":{}}"#), "the key 'benchmarks' is missing");
    assert_eq!(
        error_text(r#"{"context":{"json_schema_version":2},"benchmarks":[]}"#),
        "unsupported json_schema_version 2: expected 1"
    );
    assert_eq!(
        error_text(r#"{"benchmarks":[{"name":"a","real_time":1,"time_unit":"ps"}]}"#),
        "in 'benchmarks[0]': 'time_unit' is 'ps', not ns, us, ms or s"
    );
    assert_eq!(
        error_text(r#"{"benchmarks":[{"name":"a","real_time":"fast","time_unit":"ns"}]}"#),
        "in 'benchmarks[0]': 'real_time': invalid type: string \"fast\", expected f64"
    );
    assert_eq!(
        error_text(r#"{"benchmarks":[{"name":"a","counter":1e999}]}"#),
        "in 'benchmarks[0]': number out of range"
    );
}

#[test]
fn two_benchmarks_with_the_same_name_are_not_merged() {
    let row = |family: u32, label: &str| {
        format!(
            r#"{{"name":"a","family_index":{family},"per_family_instance_index":0,"run_type":"iteration",
                "real_time":{family},"time_unit":"ns","label":"{label}"}}"#
        )
    };
    let (session, warnings) = read_rows(&[row(1, "x"), row(2, "y"), row(2, "y")].join(","));
    let names: Vec<String> = session.runs.iter().map(|run| run.case.id()).collect();
    assert_eq!(names, ["a label=x", "a label=y", "a label=y"]);
    assert!(warnings[0].contains("repetitions of one process"), "{warnings:?}");
    let other = row(3, "").replace("\"a\"", "\"b\"");
    let (session, warnings) = read_rows(&[row(1, ""), row(2, ""), other].join(","));
    let names: Vec<String> = session.runs.iter().map(|run| run.case.id()).collect();
    assert_eq!(names, ["b"]);
    assert!(warnings[0].contains("2 results are called 'a'"), "{warnings:?}");
}

#[test]
fn json_of_another_tool_is_not_recognised() {
    let recognised = |text: &str| recognizes(&JsonContent::new(text.as_bytes()));
    assert!(recognised(r#"{"benchmarks":[{"name":"a","real_time":1}]}"#));
    assert!(recognised(r#"{"context":{},"benchmarks":[]}"#));
    assert!(!recognised(r#"{"benchmarks":[{"name":"a","stats":{"mean":1}}]}"#));
    assert!(!recognised(r#"{"benchmarks":[]}"#));
}
