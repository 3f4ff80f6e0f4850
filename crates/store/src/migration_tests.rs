//! Data written before tables and columns were renamed: a store of version 17 opens, and a backup of
//! version 2 restores, both without loss and on both back ends.

use super::back_end_tests::{TestBackend, empty_points, test_backends};
#[cfg(feature = "postgres")]
use super::database::PostgresConnection;
use super::database::{SqliteConnection, sql, sql_params};
use super::{BackupLines, CommentState, SessionFilter, Store};
use speedwell_model::{ChangeTriage, PointKind};

/// The last version before the names changed.
const OLD_VERSION: usize = 17;

/// Rows of version 17 in the dialect of SQLite. Numbers are assigned by the database.
const OLD_ROWS: &str = r#"
INSERT INTO session (id, started_unix_ms, state, command, design, variants, environment) VALUES
    ('a', 5, 'complete', '[]',
     '{"order":"blocks","stopping":{"kind":"fixed","runs":8},"baseline":"old","seed":1,"runs_per_block":2}',
     '[{"name":"old"}]', '{}'),
    ('b', 6, 'complete', '[]', '{}', '[{"name":"new"}]', '{}');
INSERT INTO tag (session, place, name) VALUES (1, 0, 'first'), (1, 1, 'second');
INSERT INTO metric (session, place, name, unit, better, first) VALUES
    (1, 0, 'time', 's', 'lower', 7), (1, 1, 'size', 'B', 'lower', 8);
INSERT INTO benchmark_case (id, benchmark, parameters) VALUES ('g/b', 'g/b', '[]');
INSERT INTO run (session, place, benchmark_case, variant, slot, block, started_unix_ms, wall_ns,
                 slot_done, surroundings, disturbed, set_aside) VALUES
    (1, 0, 1, 'old', 0, 0, 6, 1000, 1, '{"steal":0.5}', 'steal>1%', NULL),
    (1, 1, 1, 'old', 1, 0, 7, 1000, 1, NULL, NULL, 1);
INSERT INTO sample (session, place, metric, readings) VALUES (1, 0, 1, x'000000000000f83f');
INSERT INTO load (session, place, detail) VALUES (1, 0, '{}');
INSERT INTO case_decided (session, id, saved_runs) VALUES (1, 'g/b', 4);
INSERT INTO recorder (session, machine, boot, numbering, pid, started_ticks)
    VALUES (1, 'm', 'b', 'pid:[1]', 9, 8);
INSERT INTO machine (id, first_unix_ms, last_unix_ms) VALUES ('label lab', 5, 5);
INSERT INTO session_machine (session, machine, surroundings) VALUES (1, 1, '[["kernel","6.1"]]');
INSERT INTO revision (project, id) VALUES (1, 'c1'), (1, 'c2');
INSERT INTO line (project, branch, position, revision) VALUES (1, 'main', 0, 1), (1, 'main', 1, 2);
INSERT INTO line_mark (branch, sessions, numbers) VALUES ('main', 1, 1);
INSERT INTO series (project, case_id, variant, metric, unit, better, place)
    VALUES (1, 'g/b', 'old', 'time', 's', 'lower', 0);
INSERT INTO point (series, at_unix_ms, session, place, revision, machine, value, runs, kind, dirty, work)
    VALUES (1, 5, 1, 0, 1, 1, 1.5, 1, 'measured', 0, 'd1');
INSERT INTO point_pack (series, at_unix_ms, session, packed) VALUES (1, 5, 1, x'00000000');
INSERT INTO walk (series, branch, place, state) VALUES (1, 'main', 0, x'0102');
INSERT INTO change (series, branch, before, after, shape, evidence, ratio, low, high, state, judged,
                    note, judged_by, judged_unix_ms)
    VALUES (1, 'main', 1, 2, 'step', 5.5, 1.1, 1.0, 1.2, 'found', 'accepted', 'its price', 'ada', 9);
INSERT INTO renamed (project, old, new) VALUES (1, 'old/name', 'new/name');
INSERT INTO remark (project, revision, text) VALUES (1, 'c2', 'a new compiler');
UPDATE project SET keep = '{}';
INSERT INTO audit (at_unix_ms, who, what, result) VALUES (5, 'ada', 'push', 'done');
INSERT INTO deleted (id, number, who, why, at_unix_ms) VALUES ('gone', 3, 'ada', 'too old', 9);
INSERT INTO comment_job (pull, revision, added_unix_ms, state) VALUES ('12', 'c2', 5, 'said');
INSERT INTO live (session, at_unix_ms, progress) VALUES (2, 6, '{}');
INSERT INTO live_load (machine, boot, numbering, pid, begun_unix_ms, at_unix_ms, progress)
    VALUES ('m', 'b', 'pid:[1]', 9, 5, 6, '{}');
"#;

/// Creates the tables and rows of version 17 there.
fn fill_old_store(backend: &TestBackend) {
    match backend {
        TestBackend::File(_) => {
            let file = SqliteConnection::with_steps(&backend.path(), OLD_VERSION).unwrap();
            file.execute_batch(OLD_ROWS).unwrap();
        }
        #[cfg(feature = "postgres")]
        TestBackend::Server(schema) => {
            let server = PostgresConnection::with_steps(&schema.address, OLD_VERSION).unwrap();
            server.batch(&OLD_ROWS.replace("x'", "'\\x")).unwrap();
        }
    }
}

#[test]
fn a_store_of_version_17_is_opened_without_loss() {
    for backend in test_backends() {
        fill_old_store(&backend);
        let mut store = backend.open();
        expect_session(&store);
        expect_history(&store);
        expect_user_input(&store);
        expect_deletion_and_audit(&store);
        let job = store.comment_job("12").unwrap().unwrap();
        assert_eq!(job.state, CommentState::Posted);
        expect_triggers(&mut store);
    }
}

/// A backup of version 2. The session has one run.
const OLD_BACKUP: &str = r#"{"speedwell":"backup","version":2,"made_unix_ms":9}
{"speedwell":"project","name":"","is_public":false}
{"speedwell":"row","table":"audit","values":[5,"ada",null,null,null,"push",null,"done"]}
{"speedwell":"row","table":"renamed","values":["old/name","new/name"]}
{"speedwell":"row","table":"remark","values":["c2","a new compiler"]}
{"speedwell":"row","table":"deleted","values":["gone",3,"ada","too old",9,null]}
{"speedwell":"line","branch":"main","revisions":[{"id":"c1"},{"id":"c2"}]}
{"speedwell":"stored","number":1,"pushed":{"sha256":"DIGEST","lines":2,"bytes":9,"token":null,"at_unix_ms":5},"owed":[["https://perf.example/core","waiting"]]}
{"speedwell":"session","version":1,"id":"a","started_unix_ms":5,"state":"complete","design":{"order":"blocks","stopping":{"kind":"fixed","runs":8},"baseline":"old","seed":1,"runs_per_block":2},"variants":[{"name":"old"}],"metrics":[{"name":"time","unit":"s","better":"lower"}],"runs":1,"failures":0}
{"run":{"benchmark":"g/b","variant":"old","slot":0,"surroundings":{"steal":0.5},"disturbed":"steal>1%","samples":[{"metric":"time","value":1.5}]}}
{"speedwell":"change","series":{"case":"g/b","variant":"old","metric":{"name":"time","unit":"s","better":"lower"}},"branch":"main","change":{"number":1,"before":"c1","after":"c2","is_drift":false,"evidence":5.5,"ratio":{"value":1.1,"low":1.0,"high":1.2},"state":"found","confirmed_by":null,"judgement":"accepted","note":null,"judged_by":"ada","judged_unix_ms":9},"confirmed_by":null}
{"speedwell":"end","projects":1,"sessions":1}
"#;

#[test]
fn a_backup_of_version_2_is_restored_without_loss() {
    for backend in test_backends() {
        let mut store = backend.open();
        let text = OLD_BACKUP.replace("DIGEST", &"0a".repeat(32));
        let mut lines = BackupLines::new(text.as_bytes()).unwrap();
        assert!(lines.next_project().unwrap().is_some());
        store.restore_project(&mut lines).unwrap();
        assert_eq!(lines.next_project().unwrap(), None);

        let run = store.load_session(1).unwrap().runs.remove(0);
        assert_eq!(run.kernel_stats.unwrap().steal, Some(0.5));
        assert_eq!(run.rejected_by.as_deref(), Some("steal>1%"));
        assert_eq!(store.list_uploads().unwrap().len(), 1);
        expect_user_input(&store);
        expect_deletion_and_audit(&store);
        let mut written = Vec::new();
        store.write_backup(("", false), &mut written).unwrap();
        let written = String::from_utf8(written).unwrap();
        for old_name in ["renamed", "remark", "pushed", "owed", "surroundings", "judge"] {
            assert!(!written.contains(old_name), "{old_name}: {written}");
        }
        assert!(written.contains("\"upload\":{\"sha256\":\"0a0a"), "{written}");
    }
}

fn expect_session(store: &Store) {
    let session = store.load_session(1).unwrap();
    assert_eq!(session.tags, ["first", "second"]);
    let names: Vec<&str> = session.metrics.iter().map(|metric| &*metric.name).collect();
    assert_eq!(names, ["time", "size"]);
    let [run] = &session.runs[..] else { panic!("the superseded run is read: {:?}", session.runs) };
    assert_eq!(run.kernel_stats.unwrap().steal, Some(0.5));
    assert_eq!(run.rejected_by.as_deref(), Some("steal>1%"));
    assert_eq!((&*run.samples[0].metric, run.samples[0].value), ("size", 1.5));
    assert_eq!(run.load.as_deref(), Some("{}"));
    assert_eq!(store.decided_cases(1).unwrap().get("g/b"), Some(&4));
    let process = store.recording_process(1).unwrap().unwrap();
    assert_eq!(
        [process.machine_id, process.boot_id, process.pid_namespace].map(Option::unwrap),
        ["m", "b", "pid:[1]"]
    );
}

fn expect_history(store: &Store) {
    let facts = store.environment_facts(1).unwrap();
    assert_eq!(facts, [("kernel".to_owned(), "6.1".to_owned())]);
    let [point] = &store.load_points(1).unwrap()[..] else { panic!("one point") };
    assert_eq!(point.point.benchmark_digest.as_deref(), Some("d1"));
    assert_eq!(point.point.kind, PointKind::Measured);
    assert_eq!(store.load_detector_states(1, "main").unwrap(), [[1, 2]]);
    assert!(store.list_series().unwrap()[0].is_primary);
}

fn expect_user_input(store: &Store) {
    assert_eq!(store.list_lines().unwrap(), ["main"]);
    assert_eq!(store.line_tip("main").unwrap(), Some((1, "c2".into())));
    let change = store.find_change(1).unwrap().change;
    assert_eq!(change.triage, ChangeTriage::Accepted);
    assert_eq!((change.triaged_by.as_deref(), change.triaged_unix_ms), (Some("ada"), Some(9)));
    assert_eq!(store.list_renames().unwrap()["old/name"], "new/name");
    let note = ("c2".to_owned(), "a new compiler".to_owned());
    assert_eq!(store.list_notes().unwrap(), [note]);
}

fn expect_deletion_and_audit(store: &Store) {
    let audit = store.latest_audit_entries(9).unwrap();
    assert_eq!((&*audit[0].actor, &*audit[0].action), ("ada", "push"));
    let deleted = store.deleted_sessions().unwrap();
    assert_eq!((&*deleted[0].actor, &*deleted[0].reason), ("ada", "too old"));
}

/// The triggers maintain the tables under their new names.
fn expect_triggers(store: &mut Store) {
    assert_eq!(store.find_sessions_without_points().unwrap(), [2]);
    store.store_points(2, &empty_points()).unwrap();
    assert!(store.find_sessions_without_points().unwrap().is_empty());
    assert_eq!(count_caches(store), 1);
    store.delete_untracked(1).unwrap();
    assert_eq!(count_caches(store), 0);
    assert_eq!(store.load_points(1).unwrap(), []);
    let variants = SessionFilter { variant: Some("new".into()), ..SessionFilter::default() };
    assert_eq!(store.selected_numbers(&variants, 9).unwrap(), [2]);
}

fn count_caches(store: &Store) -> i64 {
    let sql = sql!("SELECT count(*) FROM series_cache");
    store.database.query_value(sql, sql_params![]).unwrap()
}
