//! Files in various states, and how they are handled.

use super::*;
use crate::Store;
use crate::schema::STEPS;

fn same_steps<const N: usize>(texts: [&'static str; N]) -> [SchemaStep; N] {
    texts.map(SchemaStep::same)
}

fn error_text(result: anyhow::Result<Store>) -> String {
    format!("{:#}", result.map(|_| "opened").unwrap_err())
}

fn user_version(file: &SqliteConnection) -> i64 {
    file.connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_file_catches_up_with_all_steps_it_has_not_seen_and_keeps_its_rows() {
    let file = SqliteConnection::from_connection(Connection::open_in_memory().unwrap());
    let old = same_steps(["CREATE TABLE a (x INTEGER)"]);
    file.migrate(&old).unwrap();
    file.connection.execute("INSERT INTO a VALUES (7)", []).unwrap();

    let new = same_steps([
        "CREATE TABLE a (x INTEGER)",
        "ALTER TABLE a ADD COLUMN y INTEGER DEFAULT 1",
        "UPDATE a SET y = x + 1",
    ]);
    file.migrate(&new).unwrap();

    assert_eq!(user_version(&file), 3);
    let row = file.connection.query_row("SELECT x, y FROM a", [], |r| Ok((r.get(0)?, r.get(1)?)));
    assert_eq!(row.unwrap(), (7, 8));
}

#[test]
fn a_step_that_fails_leaves_the_file_at_its_old_version() {
    let file = SqliteConnection::from_connection(Connection::open_in_memory().unwrap());
    let steps =
        same_steps(["CREATE TABLE a (x)", "CREATE TABLE b (x); INSERT INTO nowhere VALUES (1)"]);
    assert!(file.migrate(&steps).is_err());
    assert_eq!(user_version(&file), 0);
    assert_eq!(
        file.database_owner().unwrap(),
        DatabaseOwner::Ours(0),
        "no table may be left behind"
    );
}

#[test]
fn a_file_from_before_calibrations_keeps_its_sessions_and_learns_to_hold_them() {
    let file = SqliteConnection::from_connection(Connection::open_in_memory().unwrap());
    file.migrate(&STEPS[..1]).unwrap();
    assert_eq!(user_version(&file), 1);
    let session = "INSERT INTO session (id, started_unix_ms, state, command, design, variants,
                   environment) VALUES ('a', 5, 'complete', '[]', '{}', '[]', '{}')";
    file.connection.execute(session, []).unwrap();

    file.migrate(STEPS).unwrap();

    assert_eq!(user_version(&file), STEPS.len() as i64);
    file.connection.pragma_update(None, "foreign_keys", true).unwrap();
    let result = |alarms: u32| -> String {
        let row = "INSERT OR REPLACE INTO calibration (session, started_unix_ms, comparisons,
                   false_alarms, expected_low, expected_high)
                   SELECT number, started_unix_ms, 200, ?1, 4, 16 FROM session RETURNING result";
        file.connection.query_row(row, [alarms], |row| row.get(0)).unwrap()
    };
    assert_eq!(result(3), "too few false alarms");
    assert_eq!(result(16), "calibrated");
    assert_eq!(result(17), "too many false alarms");
    file.connection.execute("DELETE FROM session", []).unwrap();
    let left: i64 = file
        .connection
        .query_row("SELECT count(*) FROM calibration", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0, "a calibration without its session proves nothing");
}

#[test]
fn variants_of_sessions_from_before_are_found_and_those_that_come_later_too() {
    let file = SqliteConnection::from_connection(Connection::open_in_memory().unwrap());
    file.migrate(&STEPS[..15]).unwrap();
    let add = |id: &str, variants: &str| {
        let row = "INSERT INTO session (id, started_unix_ms, state, command, design, variants,
                   environment) VALUES (?1, 5, 'complete', '[]', '{}', ?2, '{}')";
        file.connection.execute(row, [id, variants]).unwrap();
    };
    let named = |names: &[&str]| {
        let variants: Vec<_> =
            names.iter().map(|name| serde_json::json!({ "name": name })).collect();
        serde_json::to_string(&variants).unwrap()
    };
    add("a", &named(&["it's \"new\"", "ö"]));
    file.migrate(STEPS).unwrap();
    add("b", &named(&["ö", "ö"]));
    add("c", "[]");
    let known = || -> Vec<(String, i64)> {
        let sql = "SELECT variant, session FROM variant_session ORDER BY session, variant";
        let mut rows = file.connection.prepare(sql).unwrap();
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.unwrap().map(Result::unwrap).collect()
    };
    let of = |name: &str, session: i64| (name.to_owned(), session);
    assert_eq!(known(), [of("it's \"new\"", 1), of("ö", 1), of("ö", 2)]);
    let change = "UPDATE session SET variants = ?1 WHERE id = 'b'";
    file.connection.execute(change, [named(&["x"])]).unwrap();
    assert_eq!(known()[2], of("x", 2));
}

#[test]
fn the_file_tells_whose_it_is() {
    let file = SqliteConnection::from_connection(Connection::open_in_memory().unwrap());
    assert_eq!(file.database_owner().unwrap(), DatabaseOwner::Ours(0));
    file.migrate(STEPS).unwrap();
    assert_eq!(file.database_owner().unwrap(), DatabaseOwner::Ours(STEPS.len()));
    file.connection.pragma_update(None, "user_version", 99).unwrap();
    assert_eq!(file.database_owner().unwrap(), DatabaseOwner::Newer(99));

    let other = SqliteConnection::from_connection(Connection::open_in_memory().unwrap());
    other.execute_batch("CREATE TABLE bookmarks (url)").unwrap();
    assert_eq!(other.database_owner().unwrap(), DatabaseOwner::Foreign);
}

#[test]
fn another_programs_database_is_refused_and_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("bookmarks.sqlite");
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE bookmarks (url)").unwrap();
    drop(other);
    let before = fs::read(&path).unwrap();
    assert!(error_text(Store::open(&path)).contains("belongs to another program"));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_of_a_newer_version_names_both_versions() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("results.db");
    let store = SqliteConnection::open(&path, LOCK_TIMEOUT).unwrap();
    store.execute_batch("PRAGMA user_version = 42").unwrap();
    drop(store);
    let message = error_text(Store::open(&path));
    assert!(message.contains("format 42") && message.contains("update speedwell"), "{message}");
}

#[test]
fn a_file_that_another_program_holds_is_waited_for_and_then_named() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("results.db");
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let begun = Instant::now();
    let message = error_text(Store::open_with_timeout(&path, Duration::from_millis(60)));
    assert!(message.contains("is locked by another program"), "{message}");
    assert!(begun.elapsed() >= Duration::from_millis(60));

    holder.execute_batch("ROLLBACK").unwrap();
    Store::open_with_timeout(&path, Duration::from_millis(60)).unwrap();
}

#[test]
fn errors_a_user_can_mend_carry_a_hint() {
    use rusqlite::ffi;
    for (code, expected) in [
        (ffi::SQLITE_READONLY, "is not writable"),
        (ffi::SQLITE_CANTOPEN, "is not writable"),
        (ffi::SQLITE_FULL, "disk is full"),
        (ffi::SQLITE_CORRUPT, "is damaged"),
        (ffi::SQLITE_IOERR, "disk reported an error"),
    ] {
        let message =
            explain_error(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)).to_string();
        assert!(message.contains(expected) && message.contains("hint: "), "{message}");
    }
}
