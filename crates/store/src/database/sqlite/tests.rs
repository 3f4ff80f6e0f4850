//! Files in various states, and how they are handled.

use super::*;
use crate::Store;
use std::process::{Command, Stdio};

const A_SESSION: &str =
    "INSERT INTO session (id, started_unix_ms, state, command, design, variants, environment)
     VALUES ('a', 5, 'complete', '[]', '{}', '[]', '{}')";

/// Steps of a file. A server does not apply them.
fn file_steps<const N: usize>(texts: [&'static str; N]) -> [SchemaStep; N] {
    texts.map(|sqlite| SchemaStep { sqlite, postgres: "" })
}

fn error_text(result: Result<Store>) -> String {
    format!("{:#}", result.map(|_| "opened").unwrap_err())
}

fn user_version(file: &SqliteConnection) -> i64 {
    file.connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

#[test]
fn missing_migration_steps_are_applied_and_keep_the_rows() {
    let file = SqliteConnection { connection: Connection::open_in_memory().unwrap() };
    let old = file_steps(["CREATE TABLE a (x INTEGER)"]);
    file.migrate(&old).unwrap();
    file.connection.execute("INSERT INTO a VALUES (7)", []).unwrap();

    let new = file_steps([
        "CREATE TABLE a (x INTEGER)",
        "ALTER TABLE a ADD COLUMN y INTEGER DEFAULT 1",
        "UPDATE a SET y = x + 1",
    ]);
    file.migrate(&new).unwrap();

    assert_eq!(user_version(&file), version_after(3));
    let row = file.connection.query_row("SELECT x, y FROM a", [], |r| Ok((r.get(0)?, r.get(1)?)));
    assert_eq!(row.unwrap(), (7, 8));
}

#[test]
fn a_step_that_fails_leaves_the_file_at_its_old_version() {
    let file = SqliteConnection { connection: Connection::open_in_memory().unwrap() };
    let steps =
        file_steps(["CREATE TABLE a (x)", "CREATE TABLE b (x); INSERT INTO nowhere VALUES (1)"]);
    assert!(file.migrate(&steps).is_err());
    assert_eq!(user_version(&file), 0);
    assert_eq!(
        file.database_owner().unwrap(),
        DatabaseOwner::Ours(0),
        "no table may be left behind"
    );
}

/// Environment variable that tells the program to be killed which file to migrate.
const MIGRATED_FILE: &str = "SPEEDWELL_TEST_MIGRATED_FILE";

/// Takes seconds, and writes so much that SQLite cannot keep it in memory until the commit.
const LONG_STEP: &str = "CREATE TABLE filled AS
    WITH RECURSIVE counted (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM counted LIMIT 10000000)
    SELECT x FROM counted";

/// Not a test itself, but the program that the next test kills.
#[test]
#[ignore = "is started, and killed, by tables_are_brought_up_to_date_as_a_whole_or_not_at_all"]
fn a_program_that_migrates_until_it_is_killed() {
    let path = std::env::var_os(MIGRATED_FILE).expect("only started by the next test");
    let file = SqliteConnection { connection: Connection::open(path).unwrap() };
    file.configure(LOCK_TIMEOUT).unwrap();
    file.migrate(&[STEPS, &file_steps([LONG_STEP])].concat()).unwrap();
}

/// Kills a process in the middle of the last step, when its memory is full and it writes to the log.
fn kill_migration(path: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact"])
        .arg("database::sqlite::tests::a_program_that_migrates_until_it_is_killed")
        .env(MIGRATED_FILE, path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let log = path.with_extension("db-wal");
    while fs::metadata(&log).map_or(0, |data| data.len()) == 0 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "it was killed");
}

#[test]
fn tables_are_brought_up_to_date_as_a_whole_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("results.db");
    let owner = || {
        let file = SqliteConnection { connection: Connection::open(&path).unwrap() };
        file.database_owner().unwrap()
    };
    kill_migration(&path);
    assert_eq!(owner(), DatabaseOwner::Ours(0), "no table may be left behind");

    let store = SqliteConnection::open(&path, LOCK_TIMEOUT).unwrap();
    store.execute_batch(A_SESSION).unwrap();
    drop(store);
    kill_migration(&path);
    assert_eq!(owner(), DatabaseOwner::Ours(STEPS.len()));
    let store = SqliteConnection::open(&path, LOCK_TIMEOUT).unwrap();
    let count =
        |sql: &str| store.connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM session"), 1);
    assert_eq!(count("SELECT count(*) FROM sqlite_schema WHERE name = 'filled'"), 0);
}

#[test]
fn a_calibration_has_a_result_and_is_deleted_with_its_session() {
    let file = SqliteConnection::in_memory().unwrap();
    file.execute_batch(A_SESSION).unwrap();
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
fn variant_names_of_sessions_are_indexed_and_kept_up_to_date() {
    let file = SqliteConnection::in_memory().unwrap();
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
fn the_owner_of_a_file_is_identified_by_its_version_and_tables() {
    let file = SqliteConnection { connection: Connection::open_in_memory().unwrap() };
    assert_eq!(file.database_owner().unwrap(), DatabaseOwner::Ours(0));
    file.migrate(STEPS).unwrap();
    assert_eq!(file.database_owner().unwrap(), DatabaseOwner::Ours(STEPS.len()));
    let owner_of_version = |version: i64| {
        file.connection.pragma_update(None, "user_version", version).unwrap();
        file.database_owner().unwrap()
    };
    assert_eq!(owner_of_version(199), DatabaseOwner::Newer(199));
    for version in [1, 18] {
        assert_eq!(owner_of_version(version), DatabaseOwner::Unreleased(version));
    }

    let other = SqliteConnection { connection: Connection::open_in_memory().unwrap() };
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
fn a_file_of_a_newer_version_is_refused_with_both_versions() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("results.db");
    let store = SqliteConnection::open(&path, LOCK_TIMEOUT).unwrap();
    store.execute_batch("PRAGMA user_version = 142").unwrap();
    drop(store);
    let message = error_text(Store::open(&path));
    let versions = format!("format 142; this one reads up to {}", version_after(STEPS.len()));
    assert!(message.contains(&versions) && message.contains("update speedwell"), "{message}");
}

#[test]
fn a_file_of_an_unreleased_version_is_refused_with_a_migration_hint() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("results.db");
    let store = SqliteConnection::open(&path, LOCK_TIMEOUT).unwrap();
    store.execute_batch("PRAGMA user_version = 18").unwrap();
    drop(store);
    let before = fs::read(&path).unwrap();
    for message in [error_text(Store::open(&path)), error_text(Store::open_to_read(&path))] {
        assert!(
            message.contains("it was written by an unreleased version of speedwell (format 18)")
                && message.contains("hint: ")
                && message.contains("speedwell serve backup FILE")
                && message.contains("speedwell serve restore FILE --db STORE"),
            "{message}"
        );
    }
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_locked_file_is_waited_for_and_then_reported() {
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
            explain_sqlite_error(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
                .to_string();
        assert!(message.contains(expected) && message.contains("hint: "), "{message}");
    }
}
