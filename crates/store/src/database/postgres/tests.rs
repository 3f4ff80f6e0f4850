//! Servers in various states, and how they are handled.

use super::*;
use crate::Store;
use crate::back_end_tests::new_schema;
use crate::schema::{DatabaseOwner, SchemaStep, version_after};
use speedwell_fixtures::postgres::{GUARDED_USER, TestSchema};
use std::path::Path;

fn error_text(address: &str) -> String {
    let opened = Store::open(Path::new(address)).map(|_| "opened");
    format!("{:#}", opened.unwrap_err())
}

fn row_count(schema: &TestSchema, table: &str) -> String {
    schema.run_statement(&format!("SELECT count(*) FROM {table}"))
}

const A_SESSION: &str =
    "INSERT INTO session (id, started_unix_ms, state, command, design, variants, environment)
     VALUES ('a', 5, 'complete', '[]', '{}', '[]', '{}')";

/// The current steps and a later one, which only a server applies.
fn with_later_step(postgres: &'static str) -> Vec<SchemaStep> {
    [STEPS, &[SchemaStep { sqlite: "", postgres }]].concat()
}

#[test]
fn programs_that_start_together_create_the_tables_once() {
    let Some(schema) = new_schema() else { return };
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| PostgresConnection::open(&schema.address).map(drop).unwrap());
        }
    });
    let version = schema.run_statement("SELECT version FROM speedwell_schema");
    assert_eq!(version, version_after(STEPS.len()).to_string());
    assert_eq!(row_count(&schema, "project"), "1");
}

/// Names of the columns and indices. Those that only one back end has are left out: the table of
/// the version, and indices of constraints.
#[test]
fn a_server_has_the_tables_and_indices_of_a_file() {
    let Some(schema) = new_schema() else { return };
    PostgresConnection::open(&schema.address).unwrap();
    let on_server = schema.run_statement(
        "SELECT table_name || '.' || column_name FROM information_schema.columns
         WHERE table_schema = current_schema() AND table_name <> 'speedwell_schema'
         UNION ALL
         SELECT indexname FROM pg_indexes
         WHERE schemaname = current_schema() AND indexname NOT LIKE '%key'",
    );
    let mut on_server: Vec<&str> = on_server.lines().collect();
    on_server.sort_unstable();

    let file = rusqlite::Connection::open_in_memory().unwrap();
    STEPS.iter().for_each(|step| file.execute_batch(step.sqlite).unwrap());
    let names = "SELECT made.name || '.' || its.name
                 FROM sqlite_schema AS made, pragma_table_xinfo(made.name) AS its
                 WHERE made.type = 'table' AND made.name <> 'sqlite_sequence'
                 UNION ALL
                 SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL";
    let mut statement = file.prepare(names).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    let mut in_file: Vec<String> = rows.map(Result::unwrap).collect();
    in_file.sort_unstable();
    assert_eq!(on_server, in_file);
}

#[test]
fn a_later_step_keeps_the_rows_and_is_applied_once() {
    let Some(schema) = new_schema() else { return };
    let server = PostgresConnection::open(&schema.address).unwrap();
    server.batch(A_SESSION).unwrap();
    let steps = with_later_step("ALTER TABLE session ADD COLUMN later TEXT DEFAULT 'new'");
    server.migrate(&steps).unwrap();
    server.migrate(&steps).unwrap();
    assert_eq!(schema.run_statement("SELECT id, later FROM session"), "a|new");
    let newer = DatabaseOwner::Newer(version_after(steps.len()));
    assert_eq!(server.database_owner().unwrap(), newer);
}

/// Terminates the connection of a migration that waits in its last step.
fn kill_migration(schema: &TestSchema) {
    let steps = with_later_step("CREATE TABLE later (x BIGINT); SELECT pg_sleep(600);");
    std::thread::scope(|scope| {
        let migrating = scope.spawn(|| {
            let server = PostgresConnection::connect(&schema.address).unwrap();
            server.migrate(&steps).is_err()
        });
        // The migration reconnects once, so its second connection is terminated as well.
        while !migrating.is_finished() {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'
                           AND application_name = current_schema()";
            if schema.run_statement(waiting) == "1" {
                schema.terminate_connections();
            }
        }
        assert!(migrating.join().unwrap());
    });
}

#[test]
fn tables_are_brought_up_to_date_as_a_whole_or_not_at_all() {
    let Some(schema) = new_schema() else { return };
    let tables = "SELECT count(*) FROM pg_class
                  WHERE relnamespace = to_regnamespace(current_schema()::text)";
    kill_migration(&schema);
    assert_eq!(schema.run_statement(tables), "0", "no table may be left behind");

    PostgresConnection::open(&schema.address).unwrap().batch(A_SESSION).unwrap();
    let before = schema.run_statement(tables);
    kill_migration(&schema);
    assert_eq!(schema.run_statement(tables), before);
    assert_eq!(row_count(&schema, "session"), "1");
    let server = PostgresConnection::open(&schema.address).unwrap();
    assert_eq!(server.database_owner().unwrap(), DatabaseOwner::Ours(STEPS.len()));
}

#[test]
fn tables_of_other_programs_or_versions_are_refused() {
    let Some(schema) = new_schema() else { return };
    schema.run_statement("CREATE TABLE bookmarks (url TEXT)");
    let refused = error_text(&schema.address);
    assert!(refused.contains("belongs to another program"), "{refused}");
    schema.run_statement("DROP TABLE bookmarks");
    Store::open(Path::new(&schema.address)).unwrap();
    for (version, hint) in [(142, "update speedwell"), (18, "speedwell serve backup FILE")] {
        schema.run_statement(&format!("UPDATE speedwell_schema SET version = {version}"));
        let refused = error_text(&schema.address);
        let format = format!("(format {version}");
        assert!(refused.contains(&format) && refused.contains(hint), "{refused}");
    }
}

#[test]
fn connection_failures_are_explained_with_a_hint() {
    let Some(schema) = new_schema() else { return };
    for (address, expected) in [
        (schema.database_address("speedwell", "nowhere"), "the database does not exist"),
        (schema.database_address(GUARDED_USER, "postgres"), "requires a password"),
        (schema.database_address("stranger", "postgres"), "rejected this user name"),
        (
            schema.database_address("speedwell", "postgres") + "?options=-csearch_path%3Dnowhere",
            "the schema does not exist",
        ),
        ("postgres://127.0.0.1:1/x".to_owned(), "the server cannot be reached"),
        ("postgres://%2Fnowhere/x".to_owned(), "the server cannot be reached"),
    ] {
        let refused = error_text(&address);
        assert!(
            refused.starts_with("cannot open the results database 'postgres://")
                && refused.contains(expected)
                && refused.contains("\nhint: "),
            "{refused}"
        );
    }
}

#[test]
fn a_lost_connection_is_reopened_and_its_transaction_rolled_back() {
    let Some(schema) = new_schema() else { return };
    let server = PostgresConnection::open(&schema.address).unwrap();
    let count = super::super::sql!("SELECT count(*) FROM project");
    schema.terminate_connections();
    assert_eq!(server.query(count, &[]).unwrap().len(), 1);

    let add = super::super::sql!("INSERT INTO project (name) VALUES ($1)");
    server.begin_transaction(TransactionPurpose::Writing).unwrap();
    server.execute(add, &["lost".into()]).unwrap();
    schema.terminate_connections();
    assert!(server.execute(add, &["lost too".into()]).is_err());
    server.roll_back().unwrap();
    assert_eq!(self::row_count(&schema, "project"), "1");

    server.begin_transaction(TransactionPurpose::Writing).unwrap();
    server.execute(add, &["kept".into()]).unwrap();
    server.commit_transaction().unwrap();
    assert_eq!(schema.run_statement("SELECT number FROM project WHERE name = 'kept'"), "3");
}

#[test]
fn a_writer_waits_for_another_and_reports_a_timeout() {
    let Some(schema) = new_schema() else { return };
    let first = PostgresConnection::open(&schema.address).unwrap();
    let second = PostgresConnection::open(&schema.address).unwrap();
    first.begin_transaction(TransactionPurpose::Writing).unwrap();
    second.batch("SET statement_timeout = '50ms'").unwrap();
    let refused = second
        .begin_transaction(TransactionPurpose::Writing)
        .unwrap_err()
        .explain_error()
        .to_string();
    assert!(refused.contains("did not respond within"), "{refused}");
    first.commit_transaction().unwrap();
    second.begin_transaction(TransactionPurpose::Writing).unwrap();
    second.commit_transaction().unwrap();
}
