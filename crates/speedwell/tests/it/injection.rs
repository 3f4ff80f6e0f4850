//! Threat T3 of docs/reference/security.md: injection attempts in every value of every URL, on both
//! back ends. The server itself tells which URLs take which values: pages in their errors, the API
//! in its description.

use super::back_ends::{StorePlace, on_both};
use super::dashboard::{HttpReply, TestDashboard};
use super::project::TempProject;
use super::serve::project;
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};

on_both! {
    no_value_of_a_query_reaches_the_database_as_a_statement
    #[ignore = "every text in every place: 4,080 requests"]
    no_text_in_any_place_reaches_the_database_as_a_statement
}

/// Texts that terminate a string, a statement or a comment, that are not a valid number, that are
/// wildcards, or that no database stores.
const PAYLOADS: [&str; 60] = [
    "'",
    "''",
    "\"",
    "`",
    "\\",
    "\\'",
    ";",
    "--",
    "/*",
    "*/",
    "#",
    ")",
    "')",
    "'))",
    "' OR '1'='1",
    "' OR 1=1 --",
    "\" OR \"\"=\"",
    "\" OR 1=1 --",
    "1 OR 1=1",
    "1) OR (1=1",
    "main' AND '1'='2",
    "'; DROP TABLE session; --",
    "1; DELETE FROM run",
    "'; DELETE FROM run WHERE ''='",
    "'; UPDATE session SET state='running'; --",
    "'; INSERT INTO tag VALUES (1, 9, 'x'); --",
    "\\'; SELECT pg_sleep(9); --",
    "' || pg_sleep(9) || '",
    "'; COPY session TO '/tmp/x'; --",
    "'; ATTACH DATABASE '/tmp/x' AS x; --",
    "'; PRAGMA writable_schema=1; --",
    "' UNION SELECT digest FROM token --",
    "-1 UNION SELECT digest FROM token",
    "1 UNION ALL SELECT NULL,NULL,NULL",
    "(SELECT number FROM session)",
    "$1",
    "$$; DROP TABLE run; $$",
    "$tag$ x $tag$",
    "?1",
    ":name",
    "@p",
    "{{binary}}",
    "{{numbers:1}}",
    "{}",
    "[1, 2]",
    "%",
    "_",
    "%' ESCAPE '",
    "*",
    "[a-z]",
    "NULL",
    "DEFAULT",
    "1e999",
    "NaN",
    "-9223372036854775809",
    "9223372036854775807",
    "9223372036854775808",
    "\u{0}",
    "a\u{0}' --",
    "\u{202e}\u{fffd}\u{10ffff}'",
];

/// Pages whose parameter names are queried, and places in a path that hold a text.
const PAGES: [&str; 16] = [
    "sessions",
    "trend",
    "compare",
    "alerts",
    "changes",
    "pulls",
    "search",
    "machines",
    "calibration",
    "benchmarks",
    "live",
    "@1",
    "machines/1",
    "branches/main",
    "revisions/aaaa",
    "",
];
const PLACES: [&str; 8] = [
    "@",
    "sessions/",
    "sessions/@",
    "benchmarks/",
    "revisions/",
    "branches/",
    "machines/",
    "pulls/",
];

/// A request with a placeholder for the text.
struct TextHole {
    method: &'static str,
    before: String,
    after: String,
}

impl TextHole {
    fn get(before: String) -> TextHole {
        TextHole { method: "GET", before, after: String::new() }
    }
}

/// The query parameters of a page, as listed in the error for an unknown one.
fn names(dashboard: &TestDashboard, page: &str) -> Vec<String> {
    let reply = dashboard.follow(&format!("{page}?nosuch=1"));
    let reply = reply.expect(400, &["unknown parameter"]);
    let Some((_, listed)) = reply.body.split_once("known parameters: ") else {
        return Vec::new();
    };
    let listed = listed.split(['<', '"']).next().unwrap();
    let names = listed.split(", ").map(|name| name.trim().to_owned());
    names.collect()
}

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Every place for a text.
fn page_holes(dashboard: &TestDashboard) -> Vec<TextHole> {
    let name = dashboard.project();
    let mut holes = vec![
        TextHole::get("/login?key=".into()),
        TextHole::get("/".into()),
        TextHole::get(format!("/{name}/sessions?charts=")),
    ];
    for page in PAGES {
        let page = format!("/{name}/{page}");
        let query = |value: String| TextHole::get(format!("{page}?{value}="));
        holes.extend(names(dashboard, &page).into_iter().map(query));
    }
    // Values that matter only together with others.
    for beside in ["compare?base=@1&with=", "trend?branch=main&case=", "sessions?branch=main&tag="]
    {
        holes.push(TextHole::get(format!("/{name}/{beside}")));
    }
    holes.extend(PLACES.map(|place| TextHole::get(format!("/{name}/{place}"))));
    holes.extend(holes_of_the_api(dashboard, &name));
    assert!(holes.len() > 50, "{}", holes.len());
    holes
}

/// A placeholder for each name in a path and each value of the API.
fn holes_of_the_api(dashboard: &TestDashboard, project: &str) -> Vec<TextHole> {
    let described = dashboard.get("/api/v1/openapi.json").expect(200, &[]).json();
    let base = described["servers"][0]["url"].as_str().unwrap_or("/api/v1");
    let mut holes = Vec::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        let path = format!("{base}{path}").replace("{project}", project);
        for (method, operation) in methods.as_object().unwrap() {
            let Some(method) = ["GET", "PUT", "PATCH", "POST", "DELETE"]
                .into_iter()
                .find(|known| known.eq_ignore_ascii_case(method))
            else {
                continue;
            };
            for (before, after) in path_holes(&path) {
                holes.push(TextHole { method, before, after });
            }
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let of_query = parameters.iter().filter(|one| one["in"] == "query");
            holes.extend(of_query.map(|one: &Value| TextHole {
                method,
                before: format!("{}?{}=", fill_names(&path), one["name"].as_str().unwrap()),
                after: String::new(),
            }));
        }
    }
    holes
}

/// A path with every name filled in.
fn fill_names(path: &str) -> String {
    path.replace("{id}", "01a2097a-0000-4000-8000-000000000000").replace(['{', '}'], "")
}

fn path_holes(path: &str) -> Vec<(String, String)> {
    let opened = path.match_indices('{');
    let holes = opened.map(|(at, _)| {
        let end = at + path[at..].find('}').unwrap();
        (fill_names(&path[..at]), fill_names(&path[end + 1..]))
    });
    holes.collect()
}

/// Number of rows in the store.
fn rows(place: &StorePlace) -> i64 {
    let tables = [
        "session",
        "run",
        "tag",
        "origin",
        "token",
        "project",
        "upload",
        "deleted_session",
        "change",
    ];
    let counts = tables.map(|table| format!("(SELECT count(*) FROM {table})"));
    place.number(&format!("SELECT {}", counts.join(" + ")))
}

/// Requests every text in every place that `is_asked` selects by their indices.
fn send_payloads(place: &StorePlace, is_asked: impl Fn(usize, usize) -> bool) {
    let project = project(place);
    let bearer = format!("Bearer {}", admin(&project));
    let dashboard = TestDashboard::of(&project);
    let holes = page_holes(&dashboard);
    let before = rows(place);
    let asked: Vec<(&TextHole, &str)> = holes
        .iter()
        .enumerate()
        .flat_map(|(at, hole)| {
            PAYLOADS.iter().enumerate().map(move |(number, text)| (at, hole, number, text))
        })
        .filter(|(at, _, number, _)| is_asked(*at, *number))
        .map(|(_, hole, _, text)| (hole, *text))
        .collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((hole, text)) = asked.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let path = format!("{}{}{}", hole.before, encode(text), hole.after);
                    // Reading needs no token.
                    let fields =
                        if hole.method == "GET" { &[][..] } else { &[("Authorization", &*bearer)] };
                    check(&dashboard.request(hole.method, &path, fields, ""), &path, text);
                }
            });
        }
    });
    eprintln!("{} requests in {} places", asked.len(), holes.len());
    assert_eq!(rows(place), before);
}

fn admin(project: &TempProject) -> String {
    let words = ["serve", "token", "add", "t", "--scope", "admin"];
    let made = project.run(&words).expect_status(0);
    made.stdout.trim().to_owned()
}

/// Asserts a success, an expected error or rate limiting, and never a database error.
#[track_caller]
fn check(reply: &HttpReply, path: &str, text: &str) {
    let is_expected = [200, 303, 400, 401, 403, 404, 405, 409, 411, 429].contains(&reply.status);
    assert!(is_expected, "{path} ({text:?}): {reply:?}");
    for complaint in ["syntax error", "unrecognized token", "no such column", "SQLSTATE", "near \""]
    {
        assert!(!reply.body.contains(complaint), "{path} ({text:?}): {reply:?}");
    }
}

/// Every text and every place, but not every combination.
fn no_value_of_a_query_reaches_the_database_as_a_statement(place: &StorePlace) {
    send_payloads(place, |hole, payload| (hole + payload).is_multiple_of(12));
}

fn no_text_in_any_place_reaches_the_database_as_a_statement(place: &StorePlace) {
    send_payloads(place, |_, _| true);
}
