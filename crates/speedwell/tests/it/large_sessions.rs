//! A stored session with more runs than are loaded together: what works in parts, what is rejected,
//! and alternatives.

use super::back_ends::StorePlace;
use super::project::TempProject;
use super::push::core;
use super::team_server::TeamServer;
use serde_json::Value;
use speedwell_fixtures::FakeSession;
use speedwell_model::Session;
use speedwell_store::{LARGE_SESSION, Store};

/// A session of one run more than is loaded together: three cases of two variants, one of them
/// small.
fn session() -> Session {
    let mut session = FakeSession::with_fixed_blocks(&["old", "new"], 4)
        .add_case("a n=1", |variant, _| if variant == "old" { 100.0 } else { 110.0 })
        .add_case("a n=2", |_, run| 200.0 + f64::from(run))
        .add_case("b/rare", |_, run| 300.0 + f64::from(run))
        .build();
    let often: Vec<_> =
        (session.runs.iter()).filter(|run| run.case.benchmark == "a").cloned().collect();
    let more = often.iter().cycle().take(LARGE_SESSION + 1 - session.runs.len());
    session.runs.extend(more.cloned());
    for (run, slot) in session.runs.iter_mut().zip(0..) {
        (run.slot, run.block) = (slot, slot / 4);
        run.started_unix_ms += i64::from(slot);
    }
    session
}

#[test]
fn large_sessions_are_exported_in_parts_and_compared_by_selected_cases() {
    let project = TempProject::new().with(".speedwell/of", "");
    let session = session();
    let mut store = Store::open(&project.path(".speedwell/results.db")).unwrap();
    store.insert_session(&session).unwrap();
    drop(store);
    let rare = (session.runs.iter()).filter(|run| run.case.benchmark == "b/rare");
    let rare = rare.count();

    let exported = project.run(&["report", "--export", "jsonl"]).expect_status(0);
    let lines: Vec<&str> = exported.stdout.lines().collect();
    let header: Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!(header["runs"], session.runs.len());
    assert_eq!(lines.len(), 1 + session.runs.len());
    for at in [0, 77_777, session.runs.len() - 1] {
        let line: Value = serde_json::from_str(lines[1 + at]).unwrap();
        assert_eq!(line["run"]["slot"], at, "in order of execution");
    }
    let part = project.run(&["report", "--export", "jsonl", "-f", "rare"]);
    assert_eq!(part.stdout.lines().count(), 1 + rare);
    let rows = project.run(&["report", "--export", "node-csv"]).expect_status(0);
    assert_eq!(rows.stdout.lines().count(), 1 + session.runs.len());

    project.run(&["report"]).expect_status(0).expect_stdout(&["b/rare", "n=2"]);
    for words in
        [&["report", "--x-axis", "n"][..], &["compare", "@1"], &["compare", "@1[old]", "@1[new]"]]
    {
        let said = ["200001 runs of session @1", "hint: select cases with @1::REGEX"];
        project.run(words).expect_status(2).expect_stderr(&said);
    }
    project.run(&["compare", "@1::rare"]).expect_status(0).expect_stdout(&["b/rare"]);
    for words in [&["report", "@1::nothing"][..], &["compare", "@1::nothing"]] {
        project.run(words).expect_status(2).expect_stderr(&["'::nothing' matches nothing"]);
    }
    project
        .run(&["report", "-f", "nothing"])
        .expect_status(2)
        .expect_stderr(&["no case is left after"]);
    expect_pushed(&project, &exported.stdout);
}

/// Pushes the session to a server, whose export must then equal `lines`, and to a spool file
/// without a server.
fn expect_pushed(project: &TempProject, lines: &str) {
    let (home, place) = (TempProject::new(), StorePlace::file());
    let server = TeamServer::of(&home, &place);
    let url = server.url();
    let pushed = ["push", "@1", "--to", &url, "--wait", "10m"];
    server.run(project, &pushed).expect_status(0);
    let mut there = Vec::new();
    core(&place).write_lines(1, &mut there).unwrap();
    assert!(there == lines.as_bytes(), "{} bytes", there.len());
    let nowhere = "http://127.0.0.1:1/core";
    let words = ["push", "@1", "--to", nowhere, "--wait", "1ms", "--spool", "unsent.jsonl"];
    project.run(&words).expect_status(0);
    let unsent = std::fs::read(project.path("unsent.jsonl")).unwrap();
    assert!(unsent == lines.as_bytes(), "{} bytes", unsent.len());
}
