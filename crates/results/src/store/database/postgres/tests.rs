//! Servers in various states, and how they are handled.

use super::*;
use crate::store::back_end_tests::schema;
use crate::store::{SessionFilter, Store};
use speedwell_fixtures::postgres::{GUARDED, Schema};
use std::path::Path;

fn words(address: &str) -> String {
    let opened = Store::open(Path::new(address)).map(|_| "opened");
    format!("{:#}", opened.unwrap_err())
}

fn count(schema: &Schema, table: &str) -> String {
    schema.order(&format!("SELECT count(*) FROM {table}"))
}

/// A session as stored by version 1.
const A_SESSION: &str =
    "INSERT INTO session (id, started_unix_ms, state, command, design, variants, environment)
     VALUES ('a', 5, 'complete', '[]', '{}', '[{\"name\":\"old\"}]', '{}')";

/// A connection that does not migrate.
fn entered(schema: &Schema) -> Postgres {
    let config = address::read(&schema.address).unwrap();
    Postgres {
        line: RefCell::new(connect(&config).unwrap()),
        is_read_only: Cell::new(false),
        listens_to: RefCell::default(),
        heard: Cell::new(0),
        config,
    }
}

#[test]
fn programs_that_come_at_the_same_time_make_the_tables_once() {
    let Some(schema) = schema() else { return };
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| Postgres::open(&schema.address).map(drop).unwrap());
        }
    });
    let version = schema.order("SELECT version FROM speedwell_schema");
    assert_eq!(version, schema::STEPS.len().to_string());
    assert_eq!(count(&schema, "project"), "1");
}

#[test]
fn tables_of_earlier_versions_keep_their_rows_and_learn_the_rest() {
    let Some(schema) = schema() else { return };
    for version in 1..schema::STEPS.len() {
        let server = entered(&schema);
        server.migrate(&schema::STEPS[..version]).unwrap();
        assert_eq!(server.kind(99).unwrap(), schema::Kind::Ours(version));
        if version == 1 {
            server.batch(A_SESSION).unwrap();
        }
    }
    let store = Store::open(Path::new(&schema.address)).unwrap();
    assert_eq!(store.number_of_id("a").unwrap(), Some(1));
    let filter = SessionFilter {
        variant: Some("old".into()),
        ..SessionFilter::default()
    };
    assert_eq!(store.selected_numbers(&filter, 9).unwrap(), [1]);
}

/// The whole content: columns, indexes, triggers, version and existing rows.
fn all_of(schema: &Schema) -> String {
    schema.order(
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
    let Some(schema) = schema() else { return };
    entered(&schema).migrate(&schema::STEPS[..1]).unwrap();
    entered(&schema).batch(A_SESSION).unwrap();
    let before = all_of(&schema);
    for behind in (1..=schema::STEPS.len()).step_by(4) {
        let waits = [schema::Step::same("SELECT pg_sleep(600);")];
        let steps = [&schema::STEPS[..behind], &waits].concat();
        std::thread::scope(|scope| {
            let migrating = scope.spawn(|| entered(&schema).migrate(&steps).is_err());
            // It reconnects once.
            while !migrating.is_finished() {
                let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'
                               AND application_name = current_schema()";
                if schema.order(waiting) == "1" {
                    schema.cut();
                }
            }
            assert!(migrating.join().unwrap());
        });
        assert_eq!(all_of(&schema), before, "killed behind step {behind}");
    }
    let store = Store::open(Path::new(&schema.address)).unwrap();
    assert_eq!(store.number_of_id("a").unwrap(), Some(1));
    assert_eq!(
        schema.order("SELECT version FROM speedwell_schema"),
        schema::STEPS.len().to_string()
    );
}

#[test]
fn tables_of_another_program_and_of_a_newer_version_are_left_alone() {
    let Some(schema) = schema() else { return };
    schema.order("CREATE TABLE bookmarks (url TEXT)");
    let refused = words(&schema.address);
    assert!(refused.contains("database of another program"), "{refused}");
    schema.order("DROP TABLE bookmarks");
    Store::open(Path::new(&schema.address)).unwrap();
    schema.order("UPDATE speedwell_schema SET version = 42");
    let refused = words(&schema.address);
    assert!(
        refused.contains("format 42") && refused.contains("update speedwell"),
        "{refused}"
    );
}

#[test]
fn what_keeps_a_user_out_is_named_with_a_hint() {
    let Some(schema) = schema() else { return };
    for (address, expected) in [
        (
            schema.elsewhere("speedwell", "nowhere"),
            "there is no such database",
        ),
        (schema.elsewhere(GUARDED, "postgres"), "asks for a password"),
        (schema.elsewhere("stranger", "postgres"), "lets nobody in"),
        (
            schema.elsewhere("speedwell", "postgres") + "?options=-csearch_path%3Dnowhere",
            "there is no such schema",
        ),
        (
            "postgres://127.0.0.1:1/x".to_owned(),
            "the server cannot be reached",
        ),
        (
            "postgres://%2Fnowhere/x".to_owned(),
            "the server cannot be reached",
        ),
    ] {
        let refused = words(&address);
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
    let Some(schema) = schema() else { return };
    let server = Postgres::open(&schema.address).unwrap();
    let count = super::super::sql!("SELECT count(*) FROM project");
    schema.cut();
    assert_eq!(server.query(count, &[]).unwrap().len(), 1);

    let add = super::super::sql!("INSERT INTO project (name) VALUES ($1)");
    server.begin(Purpose::Writing).unwrap();
    server.execute(add, &["lost".into()]).unwrap();
    schema.cut();
    assert!(server.execute(add, &["lost too".into()]).is_err());
    server.roll_back().unwrap();
    assert_eq!(self::count(&schema, "project"), "1");

    server.begin(Purpose::Writing).unwrap();
    server.execute(add, &["kept".into()]).unwrap();
    server.commit().unwrap();
    assert_eq!(
        schema.order("SELECT number FROM project WHERE name = 'kept'"),
        "3"
    );
}

#[test]
fn a_writer_waits_for_another_and_says_so_when_that_takes_too_long() {
    let Some(schema) = schema() else { return };
    let first = Postgres::open(&schema.address).unwrap();
    let second = Postgres::open(&schema.address).unwrap();
    first.begin(Purpose::Writing).unwrap();
    second.batch("SET statement_timeout = '50ms'").unwrap();
    let refused = second
        .begin(Purpose::Writing)
        .unwrap_err()
        .explain()
        .to_string();
    assert!(refused.contains("did not answer within"), "{refused}");
    first.commit().unwrap();
    second.begin(Purpose::Writing).unwrap();
    second.commit().unwrap();
}
