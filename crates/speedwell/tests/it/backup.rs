//! Backups: everything that a server holds, written to a file, restored into the other back end and
//! back; and pruning.

use super::arbitrary;
use super::back_ends::{StorePlace, on_both};
use super::by_hand::{blank_session, run_of};
use super::project::TempProject;
use speedwell_model::{
    ChangeTriage, CodeOrigin, NoiseCalibration, Revision, Session, SessionState,
};
use speedwell_store::{SessionFilter, Store};
use std::path::Path;

on_both! {
    a_backup_that_is_cut_between_two_lines_is_refused
    a_young_repository_comes_back_as_it_was
    what_need_not_be_kept_is_listed_deleted_and_taken_back
}

/// A session of a branch that started this many days ago.
fn session(id: &str, days: i64, branch: Option<&str>) -> Session {
    Session {
        state: SessionState::Complete,
        started_unix_ms: speedwell_machine::process::unix_time_ms() - days * 86_400_000,
        runs: (0..4).map(|slot| run_of(slot, "throughput", 100.0 + f64::from(slot))).collect(),
        origin: branch.map(|branch| CodeOrigin {
            revision: format!("of {id}"),
            branch: Some(branch.to_owned()),
            ..CodeOrigin::default()
        }),
        ..blank_session(id)
    }
}

/// Returns the ids of the deleted sessions, each with the reason, as a backup contains them.
pub fn deleted_sessions(store: &Store) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    store.write_backup(("", false), &mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let rows = lines.filter(|line| line["table"] == "deleted_session");
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    rows.map(|row| (text(&row["values"][0]), text(&row["values"][3]))).collect()
}

/// Fills a store with every kind of annotation.
fn fill_store(store: &mut Store) {
    for seed in 0..20 {
        let mut session = arbitrary::arbitrary_session(seed);
        if session.state == SessionState::Running {
            session.state = SessionState::Imported;
        }
        // Resource totals of runs must be consistent.
        session.runs.iter_mut().for_each(|run| run.usage = None);
        store.insert_session(&session).unwrap();
    }
    for number in [3, 4, 5, 11] {
        store.delete_untracked(number).unwrap();
    }
    store.delete_session(7, "ada", "too old", 1_760_000_000_000).unwrap();
    let calibrated = Session {
        calibration: Some(NoiseCalibration {
            started_unix_ms: 1_750_000_000_000,
            comparisons: 200,
            false_alarms: 9,
            expected_low: 4,
            expected_high: 17,
            ..NoiseCalibration::default()
        }),
        started_unix_ms: 1_750_000_000_000,
        ..session("0197-ca11", 1, None)
    };
    let number = store.insert_session(&calibrated).unwrap();
    store.store_layout_spread(number, ("a n=1", "throughput"), (8, 0.0125)).unwrap();
    store.queue_upload(number, "https://perf.example/core", 5).unwrap();
    let revision = |id: &str| Revision {
        id: id.to_owned(),
        tree: Some(format!("tree of {id}")),
        parents: vec!["p".into()],
        committed_unix_ms: Some(7),
        subject: Some("löste \"it\"".into()),
    };
    store.store_line("main", 0, &["c1", "c2", "c3"].map(revision)).unwrap();
    store.add_rename("old/name", "new/name").unwrap();
    store.add_note("c2", "a new compiler").unwrap();
    let numbers = store.find_sessions_without_points().unwrap();
    for number in numbers {
        let points = speedwell_analysis::session_points(&store.load_session(number).unwrap());
        store.store_points(number, &points).unwrap();
    }
    let series = store.list_series().unwrap()[0].number;
    let change = super::differential::change("c1", "c2", 5.5);
    let other = super::differential::change("c2", "c3", 2.5);
    let kept = store.replace_changes(series, "main", &[change, other]).unwrap();
    // Of two changes the second is kept, with its number.
    let mut triaged = store.replace_changes(series, "main", &kept[1..]).unwrap().remove(0);
    triaged.triage = ChangeTriage::Accepted;
    triaged.note = Some("worth its price".into());
    triaged.triaged_by = Some("ada".into());
    triaged.triaged_unix_ms = Some(9);
    triaged.confirmed_by = Some(number);
    store.store_confirmation(&triaged).unwrap();
    store.store_triage(&triaged).unwrap();
}

fn lines_of(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    // The first line contains the time.
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn a_server_moves_from_a_file_to_postgresql_and_back_and_nothing_changes() {
    let Some(server) = StorePlace::server() else {
        return;
    };
    let (here, back) = (StorePlace::file(), StorePlace::file());
    let project = TempProject::new();
    let on = |place: &StorePlace, words: &[&str]| {
        let db = place.path();
        let words = [words, &["--db", db.to_str().unwrap()]].concat();
        project.run(&words)
    };
    on(&here, &["serve", "project", "add", "core", "--public"]).expect_status(0);
    let made = on(&here, &["serve", "token", "add", "ci", "--scope", "push", "--project", "core"]);
    let secret = made.expect_status(0).stdout.trim().to_owned();
    let mut first = here.open();
    fill_store(&mut first);
    let core = first.find_project("core").unwrap().unwrap();
    let mut core = Store::open(&first.project_path(&core).unwrap()).unwrap();
    core.insert_session(&session("0197-c0", 1, Some("main"))).unwrap();

    on(&here, &["serve", "backup", "one.backup"])
        .expect_status(0)
        .expect_stderr(&["wrote 17 sessions of 2 projects"]);
    on(&here, &["serve", "backup", "one.backup"])
        .expect_status(2)
        .expect_stderr(&["already exists"]);
    on(&server, &["serve", "restore", "one.backup"])
        .expect_status(0)
        .expect_stderr(&["restored 17 sessions"]);
    on(&server, &["serve", "backup", "two.backup"]).expect_status(0);
    on(&back, &["serve", "restore", "two.backup"]).expect_status(0);
    on(&back, &["serve", "backup", "three.backup"]).expect_status(0);
    let [one, two, three] =
        ["one.backup", "two.backup", "three.backup"].map(|name| lines_of(&project.path(name)));
    for (at, line) in one.iter().enumerate() {
        assert_eq!(two.get(at), Some(line), "line {}", at + 2);
        assert_eq!(three.get(at), Some(line), "line {}", at + 2);
    }
    assert_eq!((one.len(), two.len(), three.len()), (one.len(), one.len(), one.len()));
    assert!(!one.concat().contains(&secret), "a backup holds no token");

    // Sessions and changes keep the numbers that people know; the next number is a new one.
    for place in [&here, &server, &back] {
        let mut store = place.open();
        assert_eq!(store.find_by_id("0197-ca11").unwrap(), Some(21));
        assert_eq!(store.find_change(2).unwrap().change.triage, ChangeTriage::Accepted);
        assert_eq!(store.find_change(2).unwrap().change.confirmed_by, Some(21));
        assert_eq!(store.load_session(21).unwrap().calibration.unwrap().false_alarms, 9);
        assert_eq!(store.latest_layout_spread("a n=1", "throughput").unwrap(), Some((21, 0.0125)));
        assert_eq!(store.find_sessions_without_points().unwrap().len(), 0);
        assert_eq!(store.insert_session(&session("0197-new", 1, None)).unwrap(), 22);
    }
    // Restoring again does not change existing sessions.
    on(&back, &["serve", "restore", "one.backup"])
        .expect_status(0)
        .expect_stderr(&["restored 0 sessions; already present: 17 sessions"]);
    on(&back, &["serve", "restore", "/dev/null"])
        .expect_status(2)
        .expect_stderr(&["it is not a backup"]);
    // A truncated file leaves nothing of its project behind.
    let text = std::fs::read_to_string(project.path("one.backup")).unwrap();
    std::fs::write(project.path("cut.backup"), &text[..text.len() / 2]).unwrap();
    let empty = StorePlace::file();
    on(&empty, &["serve", "restore", "cut.backup"]).expect_status(2).expect_stderr(&["line "]);
    assert_eq!(empty.open().count_sessions(&SessionFilter::default()).unwrap(), 0);
}

/// The first commits of a repository: one without parents, one with a parent, and a merge; only
/// their ids are known.
fn first_commits() -> Vec<Revision> {
    let commit = |id: &str, parents: &[&str]| Revision {
        id: id.to_owned(),
        parents: parents.iter().map(ToString::to_string).collect(),
        ..Revision::default()
    };
    vec![commit("root", &[]), commit("next", &["root"]), commit("merge", &["next", "side"])]
}

fn a_young_repository_comes_back_as_it_was(place: &StorePlace) {
    let project = TempProject::new();
    let on = |place: &StorePlace, words: &[&str]| {
        let db = place.path();
        project.run(&[words, &["--db", db.to_str().unwrap()]].concat())
    };
    let mut store = place.open();
    store.store_line("main", 0, &first_commits()).unwrap();
    for (days, commit) in [3, 2, 1].into_iter().zip(first_commits()) {
        let mut measured = session(&format!("0197-{days}"), days, Some("main"));
        let origin = measured.origin.as_mut().unwrap();
        (origin.revision, origin.parents) = (commit.id, commit.parents);
        store.insert_session(&measured).unwrap();
    }
    let killed = Session { state: SessionState::Running, ..session("0197-4", 0, None) };
    store.insert_session(&killed).unwrap();

    let elsewhere = StorePlace::file();
    on(place, &["serve", "backup", "one.backup"])
        .expect_status(0)
        .expect_stderr(&["wrote 4 sessions of 1 project"]);
    on(&elsewhere, &["serve", "restore", "one.backup"])
        .expect_status(0)
        .expect_stderr(&["restored 4 sessions"]);
    on(&elsewhere, &["serve", "backup", "two.backup"]).expect_status(0);
    let [one, two] = ["one.backup", "two.backup"].map(|name| lines_of(&project.path(name)));
    assert_eq!(one, two);
    let restored = elsewhere.open().load_session(4).unwrap();
    assert_eq!(restored.runs, killed.runs);
    assert_eq!(restored.state, SessionState::Interrupted, "nobody can resume it there");
}

#[test]
fn a_restore_that_fails_leaves_no_store_behind() {
    let (project, place) = (TempProject::new(), StorePlace::file());
    fill_store(&mut place.open());
    let path = place.path();
    let db = path.to_str().unwrap();
    let add = ["serve", "project", "add", "core", "--db", db];
    project.run(&add).expect_status(0);
    let back_up = ["serve", "backup", "whole.backup", "--db", db];
    project.run(&back_up).expect_status(0);
    let whole = std::fs::read_to_string(project.path("whole.backup")).unwrap();
    let stray = "{\"speedwell\":\"stored\",\"number\":\"three\"}\n";
    for (name, text) in [
        ("cut", whole[..whole.len() / 2].to_owned()),
        // The last project is checked like the first.
        ("spoilt", format!("{whole}{stray}")),
        ("none", "hello\n".to_owned()),
    ] {
        std::fs::write(project.path(name), text).unwrap();
        let restore = ["serve", "restore", name, "--db", "new/results.db"];
        project.run(&restore).expect_status(2).expect_stderr(&["cannot restore", name]);
        assert!(!project.path("new").exists(), "{name}");
    }
    // Input from a pipe is checked, too, before anything is written.
    let restore = ["serve", "restore", "/dev/stdin", "--db", "new/results.db"];
    project.run_with_input(&restore, whole.as_bytes()).expect_status(0);
    assert!(project.path("new/results.db").exists());
}

/// Wherever lines are missing at the end, something is missing.
fn a_backup_that_is_cut_between_two_lines_is_refused(place: &StorePlace) {
    let project = TempProject::new();
    let restore = |text: &str, db: &str| {
        std::fs::write(project.path("cut.backup"), text).unwrap();
        project.run(&["serve", "restore", "cut.backup", "--db", db])
    };
    let mut store = place.open();
    for days in 1..4 {
        let measured = session(&format!("0197-{days}"), days, None);
        store.insert_session(&measured).unwrap();
    }
    let path = place.path();
    let back_up = ["serve", "backup", "whole.backup", "--db", path.to_str().unwrap()];
    project.run(&back_up).expect_status(0);
    let whole = std::fs::read_to_string(project.path("whole.backup")).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(lines.last(), Some(&"{\"speedwell\":\"end\",\"projects\":1,\"sessions\":3}"));
    let is_stored = |line: &&str| line.starts_with("{\"speedwell\":\"stored\"");
    let sessions: Vec<usize> = (0..lines.len()).filter(|at| is_stored(&lines[*at])).collect();
    let between = sessions[1];
    for end in [1, 2, between, lines.len() - 1] {
        restore(&lines[..end].join("\n"), "new/results.db")
            .expect_status(2)
            .expect_stderr(&["cannot restore 'cut.backup'", "incomplete"]);
        assert!(!project.path("new").exists(), "{end} lines");
    }
    let one_missing = [&lines[..between], &lines[sessions[2]..]].concat().join("\n");
    restore(&one_missing, "new/results.db")
        .expect_status(2)
        .expect_stderr(&["2 sessions were read", "counts 1 projects and 3 sessions"]);
    restore(&format!("{whole}{}\n", lines[1]), "new/results.db")
        .expect_status(2)
        .expect_stderr(&["unexpected line after the end of the backup"]);

    restore(&whole, "new/results.db").expect_status(0);
    let restored = Store::open(&project.path("new/results.db")).unwrap();
    assert_eq!(restored.count_sessions(&SessionFilter::default()).unwrap(), 3);
}

fn what_need_not_be_kept_is_listed_deleted_and_taken_back(place: &StorePlace) {
    let project = TempProject::new();
    let run = |words: &[&str]| {
        let db = place.path();
        project.run(&[&["serve", "prune", "--db", db.to_str().unwrap()], words].concat())
    };
    let mut store = place.open();
    store.insert_session(&session("0197-1", 100, Some("main"))).unwrap();
    store.insert_session(&session("0197-2", 100, Some("fix"))).unwrap();
    store.insert_session(&session("0197-3", 10, Some("fix"))).unwrap();
    let tagged = Session { tags: vec!["v1".into()], ..session("0197-4", 100, Some("fix")) };
    store.insert_session(&tagged).unwrap();
    let interrupted = Session { state: SessionState::Interrupted, ..session("0197-5", 100, None) };
    store.insert_session(&interrupted).unwrap();
    let owed = store.insert_session(&session("0197-6", 100, Some("fix"))).unwrap();
    store.queue_upload(owed, "https://perf.example/core", 5).unwrap();

    run(&[]).expect_status(2).expect_stderr(&["no sessions selected to delete"]);
    let rules = ["--failed", "90d", "--branches", "30d"];
    let listed = run(&[&rules[..], &["--dry-run", "--format", "csv"]].concat()).expect_status(0);
    assert!(listed.stdout.contains("0197-2") && listed.stdout.contains("0197-5"), "{listed:?}");
    assert!(!listed.stdout.contains("0197-1") && !listed.stdout.contains("0197-4"), "{listed:?}");
    assert_eq!(
        store.count_sessions(&SessionFilter::default()).unwrap(),
        6,
        "a list deletes nothing"
    );
    run(&rules).expect_status(0).expect_stderr(&["deleted 2 sessions"]);
    let deleted = |id: &str, why: &str| (id.to_owned(), why.to_owned());
    let both = [deleted("0197-2", "not on a main branch"), deleted("0197-5", "failed")];
    assert_eq!(deleted_sessions(&store), both);
    run(&["--undelete", "0197-2"]).expect_status(0).expect_stderr(&["as @7"]);
    assert_eq!(store.load_session(7).unwrap().runs.len(), 4);
    run(&["--undelete", "0197-2"])
        .expect_status(2)
        .expect_stderr(&["no session '0197-2' was deleted"]);
    // After a week a deletion can no longer be undone, but its id is still known.
    store.purge_deleted_before(i64::MAX).unwrap();
    run(&["--undelete", "0197-5"]).expect_status(2).expect_stderr(&["is no longer stored"]);
    assert_eq!(deleted_sessions(&store), both[1..]);
}
