//! `--db postgres://...`: every command with `--db` works with a server like with a file.

use super::project::{CommandResult, TempProject};
use speedwell_fixtures::postgres::{GUARDED_PASSWORD, GUARDED_USER, TestSchema};
use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::PermissionsExt;

const BENCHMARK: &str = "case len=16\nold 100 101 102\nnew 110 109 112\n";

/// A schema on the server, or a message that there is none.
fn schema() -> Option<TestSchema> {
    if cfg!(not(feature = "postgres")) {
        eprintln!("skipped: built without the feature postgres");
        return None;
    }
    let schema = TestSchema::new();
    if schema.is_none() {
        eprintln!("skipped: PostgreSQL is not installed");
    }
    schema
}

fn project() -> TempProject {
    TempProject::new().with("g/a.fake", BENCHMARK)
}

fn run(project: &TempProject, words: &[&str], db: &str) -> CommandResult {
    let words: Vec<&str> = words.iter().chain(&["--db", db]).copied().collect();
    project.run(&words)
}

#[test]
fn sessions_on_a_server_are_listed_reported_compared_and_exported() {
    let Some(schema) = schema() else { return };
    let project = project();
    let db = schema.address.as_str();
    let variants = ["--variant", "old=X=1", "--variant", "new=X=2"];
    for seed in ["1", "2"] {
        let mut words = vec!["run", "g", "-q", "-r", "8", "--seed", seed, "--tag", "main"];
        words.extend(variants);
        run(&project, &words, db).expect_status(0);
    }
    assert!(!project.path(".speedwell/results.db").exists(), "nothing lies in a file");
    run(&project, &["history", "-v"], db).expect_status(0).expect_stdout(&["@1", "@2", "main"]);
    run(&project, &["compare", "@1[old]", "@2[new]"], db)
        .expect_status(0)
        .expect_stdout(&["g/a.fake"]);

    // A file with the same contents gives the same results.
    let export = run(&project, &["report", "@main", "--export", "jsonl"], db).expect_status(0);
    write(project.path("one.jsonl"), &export.stdout).unwrap();
    project.run(&["import", "one.jsonl"]).expect_status(0);
    let again = project.run(&["report", "@1", "--export", "jsonl"]);
    assert_eq!(again.stdout, export.stdout);
    let of_file = project.run(&["report", "@1", "--format", "csv"]);
    let of_server = run(&project, &["report", "@2", "--format", "csv"], db);
    assert_eq!(of_server.stdout, of_file.stdout);

    let known = run(&project, &["import", "one.jsonl"], db).expect_status(0);
    run(&project, &["history"], db).expect_status(0);
    assert_eq!(schema.run_statement("SELECT count(*) FROM session"), "2", "{known:?}");
    run(&project, &["doctor"], db);
}

#[test]
fn the_password_comes_from_pgpassword_or_a_private_pass_file() {
    let Some(schema) = schema() else { return };
    let project = project();
    run(&project, &["history"], &schema.address).expect_status(0);
    let db = schema.user_address(GUARDED_USER);
    let with = |name: &str, value: &str| {
        let mut command = project.command(&["history", "--db", &db]);
        let command = command.env_remove("PGPASSFILE").env("HOME", "/nonexistent");
        CommandResult::from(command.env(name, value).output().unwrap())
    };
    with("PGAPPNAME", "x")
        .expect_status(2)
        .expect_stderr(&["requires a password", "hint: set PGPASSWORD"]);
    with("PGPASSWORD", "wrong")
        .expect_status(2)
        .expect_stderr(&["the server rejected the password"]);
    with("PGPASSWORD", GUARDED_PASSWORD).expect_status(0);

    let path = project.path("pass");
    let escaped = GUARDED_PASSWORD.replace('\\', "\\\\");
    write(&path, format!("localhost:*:postgres:{GUARDED_USER}:{escaped}\n")).unwrap();
    set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    with("PGPASSFILE", path.to_str().unwrap())
        .expect_status(2)
        .expect_stderr(&["other users can read it"]);
    set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    with("PGPASSFILE", path.to_str().unwrap()).expect_status(0);
}

#[test]
fn a_session_that_was_interrupted_is_resumed_on_the_server() {
    let Some(schema) = schema() else { return };
    let project = TempProject::new().with("g/a.fake", "case len=16\n* 100 101 102\n");
    let db = schema.address.as_str();
    run(&project, &["run", "g", "-q", "-r", "4"], db).expect_status(0);
    schema.run_statement(
        "UPDATE session SET state = 'interrupted';
         DELETE FROM run WHERE slot > 1; DELETE FROM recorder",
    );
    run(&project, &["run", "-q", "--resume", "@1"], db).expect_status(0);
    assert_eq!(schema.run_statement("SELECT state FROM session"), "complete");
    assert_eq!(schema.run_statement("SELECT count(*) FROM run"), "4");
    assert_eq!(schema.run_statement("SELECT sum(runs) FROM session_case"), "4");
}

#[test]
fn connection_errors_are_one_line_and_a_hint() {
    let Some(schema) = schema() else { return };
    for (db, words) in [
        ("postgres://127.0.0.1:1/x".to_owned(), "the server cannot be reached"),
        (schema.database_address("speedwell", "nowhere"), "the database does not exist"),
        ("postgres://me:secret@host/x".to_owned(), "its address contains a password"),
        ("postgres://host/x?colour=1".to_owned(), "cannot parse the address"),
    ] {
        let answer = run(&project(), &["history"], &db).expect_status(2);
        let lines: Vec<&str> = answer.stderr.lines().collect();
        assert!(
            lines.len() == 2 && lines[0].contains(words) && lines[1].starts_with("hint: "),
            "{answer:?}"
        );
        assert!(!answer.stderr.contains("secret"), "{answer:?}");
    }
}

#[cfg(not(feature = "postgres"))]
#[test]
fn a_build_without_postgresql_refuses_server_addresses() {
    run(&project(), &["history"], "postgres://host/x")
        .expect_status(2)
        .expect_stderr(&["built without PostgreSQL", "hint: cargo install"]);
}
