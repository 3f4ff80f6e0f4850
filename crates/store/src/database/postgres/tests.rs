//! Servers in various states, and how they are handled.

use super::*;
use crate::back_end_tests::new_schema;
use crate::{SessionFilter, Store};
use speedwell_fixtures::postgres::{GUARDED_USER, TestSchema};
use std::path::Path;

fn error_text(address: &str) -> String {
    let opened = Store::open(Path::new(address)).map(|_| "opened");
    format!("{:#}", opened.unwrap_err())
}

fn row_count(schema: &TestSchema, table: &str) -> String {
    schema.run_statement(&format!("SELECT count(*) FROM {table}"))
}

/// A session as stored by version 1.
const A_SESSION: &str =
    "INSERT INTO session (id, started_unix_ms, state, command, design, variants, environment)
     VALUES ('a', 5, 'complete', '[]', '{}', '[{\"name\":\"old\"}]', '{}')";

/// A connection that does not migrate.
fn connect_without_migration(schema: &TestSchema) -> PostgresConnection {
    PostgresConnection::connect(&schema.address).unwrap()
}

#[test]
fn programs_that_come_at_the_same_time_make_the_tables_once() {
    let Some(schema) = new_schema() else { return };
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| PostgresConnection::open(&schema.address).map(drop).unwrap());
        }
    });
    let version = schema.run_statement("SELECT version FROM speedwell_schema");
    assert_eq!(version, schema::STEPS.len().to_string());
    assert_eq!(row_count(&schema, "project"), "1");
}

#[test]
fn tables_of_earlier_versions_keep_their_rows_and_learn_the_rest() {
    let Some(schema) = new_schema() else { return };
    for version in 1..schema::STEPS.len() {
        let server = connect_without_migration(&schema);
        server.migrate(&schema::STEPS[..version]).unwrap();
        assert_eq!(server.database_owner(99).unwrap(), schema::DatabaseOwner::Ours(version));
        if version == 1 {
            server.batch(A_SESSION).unwrap();
        }
    }
    let store = Store::open(Path::new(&schema.address)).unwrap();
    assert_eq!(store.find_by_id("a").unwrap(), Some(1));
    let filter = SessionFilter { variant: Some("old".into()), ..SessionFilter::default() };
    assert_eq!(store.selected_numbers(&filter, 9).unwrap(), [1]);
}

/// The whole content: columns, indexes, triggers, version and existing rows.
fn dump_schema(schema: &TestSchema) -> String {
    schema.run_statement(
        "SELECT (SELECT string_agg(table_name || '.' || column_name, ' ' ORDER BY table_name, column_name)
                 FROM information_schema.columns WHERE table_schema = current_schema())
             || (SELECT string_agg(indexname, ' ' ORDER BY indexname)
                 FROM pg_indexes WHERE schemaname = current_schema())
             || (SELECT count(*) FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
                 WHERE relnamespace = to_regnamespace(current_schema()::text))
             || (SELECT version FROM speedwell_schema) || (SELECT string_agg(id, ' ') FROM session)",
    )
}

/// The migration waits after a step until it is killed.
#[test]
fn tables_are_brought_up_to_date_as_a_whole_or_not_at_all() {
    let Some(schema) = new_schema() else { return };
    connect_without_migration(&schema).migrate(&schema::STEPS[..1]).unwrap();
    connect_without_migration(&schema).batch(A_SESSION).unwrap();
    let before = dump_schema(&schema);
    for behind in (1..=schema::STEPS.len()).step_by(4) {
        let waits = [schema::SchemaStep::same("SELECT pg_sleep(600);")];
        let steps = [&schema::STEPS[..behind], &waits].concat();
        std::thread::scope(|scope| {
            let migrating =
                scope.spawn(|| connect_without_migration(&schema).migrate(&steps).is_err());
            // It reconnects once.
            while !migrating.is_finished() {
                let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'
                               AND application_name = current_schema()";
                if schema.run_statement(waiting) == "1" {
                    schema.terminate_connections();
                }
            }
            assert!(migrating.join().unwrap());
        });
        assert_eq!(dump_schema(&schema), before, "killed behind step {behind}");
    }
    let store = Store::open(Path::new(&schema.address)).unwrap();
    assert_eq!(store.find_by_id("a").unwrap(), Some(1));
    assert_eq!(
        schema.run_statement("SELECT version FROM speedwell_schema"),
        schema::STEPS.len().to_string()
    );
}

#[test]
fn tables_of_another_program_and_of_a_newer_version_are_left_alone() {
    let Some(schema) = new_schema() else { return };
    schema.run_statement("CREATE TABLE bookmarks (url TEXT)");
    let refused = error_text(&schema.address);
    assert!(refused.contains("belongs to another program"), "{refused}");
    schema.run_statement("DROP TABLE bookmarks");
    Store::open(Path::new(&schema.address)).unwrap();
    schema.run_statement("UPDATE speedwell_schema SET version = 42");
    let refused = error_text(&schema.address);
    assert!(refused.contains("format 42") && refused.contains("update speedwell"), "{refused}");
}

#[test]
fn what_keeps_a_user_out_is_named_with_a_hint() {
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
fn a_connection_that_was_cut_is_made_again_and_a_transaction_is_lost_whole() {
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
fn a_writer_waits_for_another_and_says_so_when_that_takes_too_long() {
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
