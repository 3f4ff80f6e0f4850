//! Annotations of a history, selection of series, and export for other tools.

use super::history::{
    COMMITS, SLOWER, changes, every, import, list_sessions, measured_repository, repository,
    session,
};
use super::repository::TestRepository;
use super::suite_projects::installed;
use serde_json::{Value, json};
use std::process::Command;

/// The rows of a trend, by the column of this name.
fn column(repository: &TestRepository, words: &[&str], name: &str) -> Vec<String> {
    let words = [&["history", "trend", "--format", "json"][..], words].concat();
    let shown = repository.run(&words).expect_status(0).json();
    let points = shown["points"].as_array().unwrap().iter();
    points.map(|point| point[name].to_string()).collect()
}

#[test]
fn a_note_is_shown_at_its_revision() {
    let Some(repository) = measured_repository(every) else {
        return;
    };
    let words = ["history", "note", "main~5", "new allocator"];
    repository.run(&words).expect_status(0);
    let labels = column(&repository, &[], "labels");
    let expected = |place: usize| {
        if place == 34 { "\"new allocator\"" } else { "\"\"" }
    };
    let expected: Vec<&str> = (0..COMMITS as usize).map(expected).collect();
    assert_eq!(labels, expected);
    let page = repository.run(&["history", "trend", "--format", "html"]);
    page.expect_status(0).expect_stdout(&["new allocator"]);
}

#[test]
fn a_pattern_renames_every_case_that_it_matches() {
    let Some(repository) = measured_repository(every) else {
        return;
    };
    let rename = |old: &str| {
        let words = ["history", "rename", "--regex", old, "g/read.fake size=$1"];
        repository.run(&words)
    };
    rename("^h/.* n=(.*)$").expect_status(2).expect_stderr(&["is named '^h/.* n=(.*)$'"]);
    rename("^g/.* n=(.*)$")
        .expect_status(0)
        .expect_stderr(&["'g/parse.fake n=1' is now 'g/read.fake size=1'"]);
    assert_eq!(column(&repository, &["read"], "value").len() as u32, COMMITS);
    let found = changes(repository.run(&list_sessions(&["read"])));
    assert_eq!(found[0]["case"], "g/read.fake size=1");
    let listed = repository.run(&["history", "-f", "read.fake size=1", "--format", "csv"]);
    assert_eq!(listed.stdout.lines().count() as u32, 1 + COMMITS);
}

#[test]
fn ratios_to_a_variant_of_the_same_session_ignore_a_slower_machine() {
    let Some(repository) = repository() else {
        return;
    };
    let line = repository.run_git(&["log", "--reverse", "--format=%H %T", "main"]);
    let mut text = String::new();
    for (commit, line) in (1..).zip(line.lines()) {
        let (revision, tree) = line.split_once(' ').unwrap();
        let of_both = |header: &mut Value| {
            let variants = ["default", "v1"].map(|name| json!({"name": name, "program": null}));
            header["variants"] = variants.into_iter().collect();
            header["runs"] = 6.into();
        };
        let own = session(commit, [revision, tree], of_both);
        text += &own;
        for (line, slot) in own.lines().skip(1).zip(3..) {
            let mut run: Value = serde_json::from_str(line).unwrap();
            run["run"]["variant"] = "v1".into();
            run["run"]["slot"] = slot.into();
            let value = &mut run["run"]["samples"][0]["value"];
            *value = (value.as_f64().unwrap() * 2.0).into();
            text += &format!("{run}\n");
        }
    }
    import(&repository, &text);
    assert_eq!(changes(repository.run(&list_sessions(&[]))).len(), 2);
    let ratios = column(&repository, &["--relative", "v1"], "value");
    assert_eq!(ratios, vec!["0.5"; COMMITS as usize]);
    repository
        .run(&["history", "trend", "--relative", "v1"])
        .expect_status(0)
        .expect_stdout(&["40 points, no change"]);
    repository
        .run(&["history", "trend", "--relative", "v9"])
        .expect_status(2)
        .expect_stderr(&["no session measured 'v9' together with another variant"]);
}

#[test]
fn a_changed_benchmark_starts_a_new_series_unless_same_work_is_given() {
    let rewritten = |commit: u32, header: &mut Value| {
        let text = if commit < SLOWER { "a" } else { "b" };
        header["design"]["work"] = json!({"g/parse.fake": text});
        true
    };
    let Some(repository) = measured_repository(rewritten) else {
        return;
    };
    assert_eq!(changes(repository.run(&list_sessions(&[]))), [] as [Value; 0]);
    let trend = repository.run(&["history", "trend"]).expect_status(0);
    let slower = repository.commit_id(&format!("main~{}", COMMITS - SLOWER));
    let note = format!("The benchmark itself changed at {}", &slower[..10]);
    trend.expect_stdout(&[&note, "(--same-work"]);
    assert_eq!(changes(repository.run(&list_sessions(&["--same-work"]))).len(), 1);
}

#[test]
fn reasons_that_make_points_hard_to_compare_are_listed() {
    let of_several = |commit: u32, header: &mut Value| {
        let unit = if commit < 10 { "B/s" } else { "1/s" };
        header["metrics"] = json!([{"name": "throughput", "unit": unit, "better": "higher"}]);
        header["environment"]["machine"] = "ci".into();
        header["environment"]["cpu"] = if commit.is_multiple_of(2) { "C" } else { "D" }.into();
        true
    };
    let Some(repository) = measured_repository(of_several) else {
        return;
    };
    let listed = repository.run(&["history", "changes"]).expect_status(0);
    listed.expect_stdout(&[
        "'g/parse.fake n=1' has two series: 'throughput' was first measured in 'B/s'",
        "Different machines are named 'ci' (2 x C, 2 x D)",
    ]);
}

#[test]
fn otava_reads_the_table_that_is_made_for_it_and_finds_the_same_change() {
    let Some(otava) = installed("otava/bin/otava") else {
        return;
    };
    let Some(repository) = measured_repository(every) else {
        return;
    };
    let table = repository.outside("table.csv");
    let words = ["history", "trend", "--export", "otava"];
    let exported = repository.run(&words).expect_status(0).stdout;
    std::fs::write(&table, exported).unwrap();
    let config = repository.outside("otava.yaml");
    let text = format!(
        "tests:
  parse:
    type: csv
    file: {}
    time_column: time
    attributes: [commit, machine]
    metrics:
      throughput:
        column: 'g/parse.fake n=1, throughput'
        direction: 1
    csv_options:
      delimiter: ','
      quote_char: '\"'
",
        table.display()
    );
    std::fs::write(&config, text).unwrap();
    let words = ["analyze", "parse", "--output", "json"];
    let mut command = Command::new(otava);
    // The dates of the commits are in the future.
    command.args(words).args(["--since", "2030-01-01", "--until", "2040-01-01"]);
    command.env("OTAVA_CONFIG", &config);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let json = said.lines().find(|line| line.starts_with('{'));
    let found: Value = serde_json::from_str(json.unwrap_or_else(|| panic!("{output:?}"))).unwrap();
    // Otava orders by time, which is reversed here: the first slower commit is the last one before
    // its change.
    let changes = found["parse"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{found}");
    let at = changes[0]["attributes"]["commit"].as_str().unwrap();
    let near = [SLOWER - 2, SLOWER - 1, SLOWER];
    let near = near.map(|commit| repository.commit_id(&format!("main~{}", COMMITS - commit)));
    assert!(near.iter().any(|id| id == at), "{found}");
}

#[test]
fn an_unknown_metric_is_refused_with_a_hint() {
    let Some(repository) = measured_repository(every) else {
        return;
    };
    for command in [
        &["history", "trend"][..],
        &["history", "changes"],
        &["history", "changes", "--fail-on", "worse"],
    ] {
        for (metric, hint) in [
            ("throughptu", "hint: did you mean 'throughput'?"),
            ("allocations", "hint: the only metric is 'throughput'"),
        ] {
            let answer = repository
                .run(&[command, &["--metric", "throughput", "--metric", metric]].concat());
            let why = format!("in --metric: unknown metric '{metric}'");
            answer.expect_status(2).expect_stderr(&[&why, hint]);
        }
    }
    for metric in ["all", "throughput"] {
        let words = ["history", "trend", "--metric", metric];
        repository.run(&words).expect_status(0);
    }
}
