//! Checks that both back ends accept every statement of the store, and that no statement scans all
//! runs, samples or points, except the three that may need all points.

use super::{SqlStatement, sqlite::SqliteConnection};
use std::fs;
use std::path::Path;

/// Tables that grow with the amount of measured data.
const LARGE: [&str; 3] = ["run", "sample", "point"];

/// Statements that may need all points. Each runs once per command that reads the history.
const ABOUT_ALL_POINTS: [&str; 3] = [
    "SELECT DISTINCT series.case_id, series.metric, revision.id FROM point",
    "INSERT INTO branch_revision (project, branch, position, revision)\n                 SELECT",
    "SELECT at_unix_ms, session, revision, machine, value, low, high, runs, spread, kind,
                    dirty, benchmark_digest, series\n             FROM point WHERE series IN",
];

/// Returns the SQL text of every `sql!` in the source files of the store.
fn all_statements() -> Vec<&'static SqlStatement> {
    let mut found = Vec::new();
    collect_statements(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut found);
    assert!(found.len() > 60, "{} statements", found.len());
    found
}

fn collect_statements(folder: &Path, found: &mut Vec<&'static SqlStatement>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_statements(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("plans.rs") {
            let source = fs::read_to_string(&path).unwrap();
            for part in source.split("sql!(").skip(1) {
                let Some(literal) = part.trim_start().strip_prefix('"') else { continue };
                let text = literal.split('"').next().unwrap();
                assert!(!text.contains('\\'), "not read by this test: {text}");
                let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
                found.push(Box::leak(Box::new(SqlStatement::new(text))));
            }
        }
    }
}

/// SQL is always a literal in the source: values enter only through placeholders.
#[test]
fn sql_statements_are_never_built_with_format() {
    fn check_folder(folder: &Path, count: &mut usize) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                check_folder(&path, count);
                continue;
            }
            // The PostgreSQL back end is exempt. It creates schemas, whose names consist of
            // letters, digits and underscores.
            let is_back_end = path.components().any(|part| part.as_os_str() == "postgres");
            if path.extension().is_none_or(|kind| kind != "rs")
                || is_back_end
                || path.ends_with("plans.rs")
            {
                continue;
            }
            let source = fs::read_to_string(&path).unwrap();
            let source = source.split("#[cfg(test)]\nmod tests").next().unwrap();
            for word in ["SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM "] {
                for (at, _) in source.match_indices(word) {
                    let quote = source[..at].rfind('"').unwrap_or(0);
                    let opened = source[..quote].trim_end();
                    *count += usize::from(opened.ends_with("sql!("));
                    assert!(!opened.ends_with("format!("), "{}: {word}", path.display());
                }
            }
        }
    }
    let mut count = 0;
    check_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut count);
    assert!(count > 60, "{count} statements were seen");
}

fn needs_all_points(statement: &SqlStatement) -> bool {
    ABOUT_ALL_POINTS.iter().any(|start| statement.source_text().starts_with(start))
}

/// SQLite numbers placeholders in order of first use, whatever number follows the `$`.
#[test]
fn placeholders_are_numbered_in_the_order_of_their_first_use() {
    for statement in all_statements() {
        let mut highest = 0;
        for part in statement.source_text().split('$').skip(1) {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            let number: u32 = digits.parse().unwrap();
            assert!(number <= highest + 1, "{}", statement.source_text());
            highest = highest.max(number);
        }
    }
}

#[test]
fn no_statement_on_a_file_scans_a_large_table() {
    let file = SqliteConnection::in_memory().unwrap();
    let mut scans = Vec::new();
    for statement in all_statements() {
        let plan = file.explain_statement(statement).unwrap();
        let scan = plan.iter().find(|line| {
            let scan = line.strip_prefix("SCAN ").unwrap_or_default();
            let table = scan.split(' ').next().unwrap_or_default();
            // A plan may also contain scans of other tables for rows that reference a changed row.
            // SQLite executes these scans only if orphans exist.
            LARGE.contains(&table) && statement.source_text().contains(&format!(" {table}"))
        });
        match scan {
            Some(line) if !needs_all_points(statement) => {
                scans.push(format!("{line}: {}", statement.source_text()));
            }
            _ => {}
        }
    }
    assert!(scans.is_empty(), "{}", scans.join("\n"));
}

/// A filter must search an index, so that it is fast even if it matches few of a hundred thousand
/// sessions.
#[test]
fn session_filters_search_an_index_instead_of_all_sessions() {
    let file = SqliteConnection::in_memory().unwrap();
    let is_of_filter = |statement: &&SqlStatement| {
        let text = statement.source_text();
        // Filters with `substr` are exempt. They look for revision names that are not commit ids.
        // Such names are few, and have no order that an index could use.
        text.ends_with("LIMIT $3") && text.contains(" = $1 AND ") && !text.contains("substr(")
            || text.contains("started_unix_ms >= $1 AND +number")
    };
    let statements: Vec<&SqlStatement> =
        all_statements().into_iter().filter(is_of_filter).collect();
    assert!(statements.len() == 8, "{} filters", statements.len());
    for statement in statements {
        let plan = file.explain_statement(statement).unwrap();
        assert!(
            plan[0].starts_with("SEARCH ") && !plan[0].contains("INTEGER PRIMARY KEY"),
            "{plan:?}: {}",
            statement.source_text()
        );
    }
}

/// A session may have ten million runs and a case only a thousand of them.
#[test]
fn runs_of_a_case_are_read_through_the_case_index() {
    let file = SqliteConnection::in_memory().unwrap();
    let is_of_case = |statement: &&SqlStatement| {
        let text = statement.source_text();
        text.contains("benchmark_case = $2 AND") && text.contains("ORDER BY")
    };
    let statements: Vec<&SqlStatement> = all_statements().into_iter().filter(is_of_case).collect();
    assert_eq!(statements.len(), 2);
    for statement in statements {
        let plan = file.explain_statement(statement).unwrap();
        assert!(plan[0].contains("INDEX run_by_case (session=? AND benchmark_case=?)"), "{plan:?}");
        let mut others = plan[1..].iter().filter(|line| line.starts_with("S"));
        assert!(others.all(|line| line.contains("(session=? AND seq=?)")), "{plan:?}");
    }
}

/// On empty tables PostgreSQL prefers sequential scans, so they are disabled: a remaining scan
/// means that no index is usable.
#[cfg(feature = "postgres")]
#[test]
fn no_statement_on_a_server_scans_a_large_table() {
    let Some(schema) = crate::back_end_tests::new_schema() else { return };
    let server = super::PostgresConnection::open(&schema.address).unwrap();
    server.batch("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan").unwrap();
    let mut scans = Vec::new();
    for statement in all_statements() {
        let plan = server
            .explain_statement(statement)
            .unwrap_or_else(|error| panic!("{}: {error:?}", statement.source_text()));
        for (line, next) in plan.iter().zip(plan[1..].iter().chain([&String::new()])) {
            let (scan, scanned) = line.rsplit_once(" on ").unwrap_or_default();
            let table = scanned.split(' ').next().unwrap_or_default();
            // Scanning a whole index is just as slow.
            let is_scan = scan.ends_with("Seq Scan")
                || (scan.contains("Index")
                    && scan.contains("Scan using")
                    && !next.contains("Cond"));
            if is_scan && LARGE.contains(&table) && !needs_all_points(statement) {
                scans.push(format!("{line}: {}", statement.source_text()));
            }
        }
    }
    assert!(scans.is_empty(), "{}", scans.join("\n"));
}
