//! Results stored by version 0.1.0 stay readable: one session of every kind (made by `made-by.sh`),
//! its lossless export, and its report as rendered by that version.

use super::project::{TempProject, repository};
use serde_json::Value;
use std::path::PathBuf;

/// Runs, several variants, a study, both forms of definition files, code, two searches, loads, an import, and a session
/// that was interrupted.
const SESSIONS: usize = 13;

fn golden(name: &str) -> PathBuf {
    let folder = "crates/speedwell/tests/golden/results-0.1.0";
    repository().join(folder).join(name)
}

/// A project with the store of the earlier version.
fn project() -> TempProject {
    let project = TempProject::new();
    std::fs::copy(golden("results.db"), project.path(".speedwell/results.db")).unwrap();
    project
}

/// The lossless export of every session, without its number in the store.
fn sessions(project: &TempProject) -> Vec<Value> {
    let export = |number| {
        let name = format!("@{number}");
        let answer = project.run(&["report", &name, "--export", "jsonl"]);
        lines(&answer.expect_status(0).stdout)
    };
    (1..=SESSIONS).flat_map(export).collect()
}

fn lines(text: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap();
    text.lines().map(parse).collect()
}

/// Gives keys of version 0.1.0 their names of today. Details of a load are exported as they were
/// stored: old names are still read.
fn rename_keys(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(rename_keys).collect(),
        Value::Object(members) => {
            let renamed = members.into_iter().map(|(key, value)| match &*key {
                "load" => (key, value),
                // The exit status of a process has the same key; it is a number.
                "code" if value.is_object() => ("snippet".to_owned(), rename_keys(value)),
                _ => (key, rename_keys(value)),
            });
            Value::Object(renamed.collect())
        }
        other => other,
    }
}

/// The exported sessions of the earlier version, with today's keys.
fn expected_sessions() -> Vec<Value> {
    let stored = lines(&std::fs::read_to_string(golden("sessions.jsonl")).unwrap());
    stored.into_iter().map(rename_keys).collect()
}

#[test]
fn a_store_is_read_without_loss() {
    let expected = expected_sessions();
    assert_eq!(sessions(&project()), expected);
}

#[test]
fn exported_sessions_are_read_without_loss() {
    let project = TempProject::new();
    let file = golden("sessions.jsonl");
    project.run(&["import", file.to_str().unwrap()]).expect_status(0);
    assert_eq!(sessions(&project), expected_sessions());
}

#[test]
fn every_kind_of_session_is_reported_as_before() {
    let project = project();
    // The report of 11, a sweep of loads, is long, and covered by that of 9.
    for number in (1..=SESSIONS).filter(|number| *number != 11) {
        let name = format!("@{number}");
        let answer = project.run(&["report", &name, "--format", "json"]);
        let path = golden(&format!("report-{number}.json"));
        // Percentages were written with a space.
        let expected = std::fs::read_to_string(path).unwrap().replace(" %", "%");
        let mut expected: Value = serde_json::from_str(&expected).unwrap();
        let mut found = answer.json();
        for report in [&mut found, &mut expected] {
            let report = report.as_object_mut().unwrap();
            // Sentences may be reworded; they are not results.
            report.remove("notes");
            report.remove("headlines");
            let warnings = report.get("warnings").and_then(Value::as_array).map(Vec::len);
            report.insert("warnings".into(), warnings.into());
            // Later versions say which metric they compare.
            let sources = report.get_mut("sources").and_then(Value::as_array_mut);
            for source in sources.into_iter().flatten().filter_map(Value::as_object_mut) {
                source.remove("compared_metric");
            }
        }
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn an_interrupted_session_is_completed() {
    let project = project().with("print.sh", "echo \"cost $(($2 + $1 % 7)) ms\"\n");
    let store = rusqlite::Connection::open(project.path(".speedwell/results.db")).unwrap();
    let here = project.path("").canonicalize().unwrap();
    let moved = "UPDATE session SET plan = replace(plan, '/srv/bench', ?1)";
    store.execute(moved, [here.to_str().unwrap().trim_end_matches('/')]).unwrap();
    drop(store);
    project.run(&["run", "--resume", "@13"]).expect_status(0);
    let answer = project.run(&["report", "@13", "--format", "json"]).json();
    let claims = answer["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 1, "{answer:#}");
    let runs = project.run(&["report", "@13", "--export", "jsonl"]);
    assert_eq!(lines(&runs.stdout).iter().filter(|line| line["run"]["slot"].is_u64()).count(), 16);
}
