//! The dashboard and its API over a store, without the command-line program: which routes there
//! are, who may use them, and how errors look.

use super::served::TestResponse;
use super::site::{OPEN, PRIVATE, TestSite, add_token, imported_session};
use serde_json::{Value, json};
use speedwell_formats::json_lines;
use speedwell_model::stored::TokenScope;
use speedwell_server::dashboard::AccessRules;
use speedwell_store::{SessionDigest, Store};
use std::path::{Path, PathBuf};

fn with_session(store: &mut Store) {
    store.insert_session(&imported_session()).unwrap();
}

fn json_of(response: &TestResponse) -> Value {
    serde_json::from_slice(&response.body).unwrap_or_else(|error| panic!("{error}: {response:?}"))
}

#[track_caller]
fn expect(response: &TestResponse, status: u16, texts: &[&str]) {
    assert_eq!(response.status, status, "{response:?}");
    // Pages contain apostrophes as character references.
    let body = response.text().replace("&#39;", "'");
    for text in texts {
        assert!(body.contains(text), "no {text:?} in {body}");
    }
}

#[test]
fn every_page_has_a_route_and_every_format() {
    let site = TestSite::start(OPEN, with_session);
    for page in [
        "/index",
        "/demo/index",
        "/demo/sessions",
        "/demo/benchmarks",
        "/demo/benchmarks/timeit",
        "/demo/trend",
        "/demo/compare",
        "/demo/machines",
        "/demo/calibration",
        "/demo/alerts",
        "/demo/changes",
        "/demo/pulls",
        "/demo/live",
        "/demo/search",
    ] {
        for (ending, kind) in [
            ("json", "application/json"),
            ("md", "text/markdown; charset=utf-8"),
            ("csv", "text/csv; charset=utf-8"),
            ("txt", "text/plain; charset=utf-8"),
            ("html", "text/html; charset=utf-8"),
        ] {
            let response = site.get(&format!("{page}.{ending}"));
            assert_eq!(response.status, 200, "{page}.{ending}: {response:?}");
            assert_eq!(response.headers["content-type"], kind, "{page}");
            let is_download = response.headers.contains_key("content-disposition");
            assert_eq!(is_download, ending == "html", "{page}");
        }
        let page = site.get(page.trim_end_matches("index"));
        match page.headers.get("location") {
            Some(location) => assert_eq!(location, "/demo/", "the only project"),
            None => expect(&page, 200, &["</html>", "<nav"]),
        }
    }
    let id = imported_session().id;
    let session = site.get("/demo/@1");
    assert_eq!(session.status, 303);
    assert_eq!(session.headers["location"], format!("/demo/sessions/{id}"));
    let as_lines = site.get("/demo/@1.jsonl");
    assert_eq!(as_lines.headers["location"], format!("/demo/sessions/{id}.jsonl"));
    expect(&site.get(&format!("/demo/sessions/{id}.jsonl")), 200, &["\"speedwell\":\"session\""]);
    expect(&site.get("/demo/calibration.jsonl"), 404, &["\"error\"", "available as .json"]);
}

#[test]
fn a_feed_has_one_format_and_no_parameters() {
    let site = TestSite::start(OPEN, with_session);
    let feed = site.get("/demo/feed.atom");
    expect(&feed, 200, &["<feed xmlns=\"http://www.w3.org/2005/Atom\">", "/demo/feed.atom</id>"]);
    assert_eq!(feed.headers["content-type"], "application/atom+xml");
    let link = "type=\"application/atom+xml\"";
    expect(&site.get("/demo/sessions"), 200, &[link, "href=\"/demo/feed.atom\""]);
    expect(&site.get("/demo/feed.atom?a=1"), 400, &["unknown parameter 'a'"]);
    expect(&site.get("/demo/feed.atom.json"), 404, &["has no other formats"]);
    let site = TestSite::start(PRIVATE, with_session);
    expect(&site.get("/demo/feed.atom"), 401, &["a token is required"]);
}

#[test]
fn a_trend_without_a_case_is_a_list_unless_a_part_of_it_is_selected() {
    let site = TestSite::start(OPEN, with_session);
    for query in ["", "?filter=timeit", "?branch=main&metric=time"] {
        expect(&site.get(&format!("/demo/trend{query}")), 200, &["<input name=\"filter\""]);
    }
    for query in ["axis=time", "space=time", "from=2026-03-01", "metric=time&to=2026-03-01"] {
        expect(&site.get(&format!("/demo/trend?{query}")), 200, &["<select name=\"axis\">"]);
    }
    let unknown = site.get("/demo/trend?axis=time&filter=timeit");
    expect(&unknown, 400, &["unknown parameter 'filter'"]);
}

#[test]
fn a_benchmark_name_may_end_like_a_format() {
    let site = TestSite::start(OPEN, |store| {
        let mut session = imported_session();
        for run in &mut session.runs {
            let mut case = (*run.case).clone();
            case.benchmark = "group/parse.json".into();
            run.case = case.into();
        }
        store.insert_session(&session).unwrap();
    });
    let page = site.get("/demo/benchmarks/group/parse.json");
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    let document = site.get("/demo/benchmarks/group/parse.json.json");
    assert_eq!(document.headers["content-type"], "application/json");
    let none = site.get("/demo/benchmarks/group/parse");
    expect(&none, 404, &["benchmark 'group/parse' not found", "group/parse.json</a>"]);
}

#[test]
fn an_unsupported_method_is_an_error_in_the_format_of_its_path() {
    let site = TestSite::start(OPEN, with_session);
    let head = site.request("HEAD /demo/sessions", &[], b"");
    assert_eq!(head.status, 200);
    let put = site.request("PUT /demo/sessions", &[], b"");
    expect(&put, 405, &["pages accept GET and HEAD", "</html>"]);
    let post = site.request("POST /demo/sessions", &[], b"");
    expect(&post, 405, &["this page does not accept forms", "</html>"]);
    let document = site.request("POST /demo/alerts.json", &[], b"");
    expect(&document, 405, &["this page does not accept forms"]);
    expect(&site.request("POST /demo/nothing", &[], b""), 404, &["page 'nothing' not found"]);
    let long = vec![b'a'; (64 << 10) + 1];
    expect(&site.request("POST /demo/nothing", &[], &long), 400, &["at most 64 KiB", "</html>"]);
    expect(&site.request("POST /demo/nothing", &[], b"a=\xff"), 400, &["not valid UTF-8"]);
    for (request, methods) in [
        ("POST /api/v1/demo/sessions/0-1", "PUT, GET, DELETE"),
        ("HEAD /api/v1/projects", "GET"),
        ("GET /api/v1/demo/sessions/0-1/tags", "POST"),
    ] {
        let response = site.request(request, &[], b"");
        assert_eq!(response.status, 405, "{request}");
        if !request.starts_with("HEAD") {
            expect(&response, 405, &[&format!("not allowed: expected {methods}\"")]);
        }
    }
}

#[test]
fn the_format_of_an_error_follows_the_path_not_the_accept_header() {
    let site = TestSite::start(OPEN, with_session);
    let ask =
        |path: &str, accept: &str| site.request(&format!("GET {path}"), &[("Accept", accept)], b"");
    for accept in ["*/*", "text/html", "application/json"] {
        let page = ask("/demo/sesions", accept);
        expect(&page, 404, &["page 'sesions' not found", "Did you mean", "</html>"]);
        let document = ask("/demo/sessions.json?nosuch=1", accept);
        expect(&document, 400, &["\"error\": \"unknown parameter 'nosuch'\""]);
        assert_eq!(document.headers["content-type"], "application/json");
        let endpoint = ask("/api/v1/nothing", accept);
        let hint = "GET /api/v1/openapi.json lists all endpoints";
        let error = json!({"error": "API endpoint not found", "hint": hint});
        assert_eq!((endpoint.status, json_of(&endpoint)), (404, error));
        assert_eq!(endpoint.headers["content-type"], "application/problem+json");
    }
    expect(&ask("/api/v2/projects", "*/*"), 404, &["unknown API version", "use /api/v1/"]);
    let stream = ask("/demo/sessions/nosuch/events", "text/event-stream");
    assert_eq!((stream.status, stream.text()), (404, "session 'nosuch' not found\n"));
    expect(&ask("/demo/sessions/nosuch/events.json", "*/*"), 404, &["has no other formats"]);
}

/// Nothing shows whether a project exists, or which pages there are.
#[test]
fn a_caller_without_permission_learns_nothing() {
    let mut read = None;
    let site = TestSite::start(PRIVATE, |store| {
        with_session(store);
        read = Some(add_token(store, "reader", TokenScope::Read));
    });
    for path in ["/demo/", "/demo/sesions", "/nowhere/", "/demo/benchmarks/timeit.json", "/"] {
        let response = site.get(path);
        assert_eq!(response.status, 401, "{path}");
        assert_eq!(response.headers["www-authenticate"], "Bearer", "{path}");
        let led = site.request(&format!("GET {path}"), &[("Accept", "text/html")], b"");
        assert_eq!(led.status, 303, "{path}");
        assert!(led.headers["location"].starts_with("/login?to=%2F"), "{led:?}");
    }
    for path in ["/api/v1/demo/series", "/api/v1/nowhere/series", "/api/v1/tokens"] {
        let response = site.get(path);
        assert_eq!(
            json_of(&response)["hint"],
            "send Authorization: Bearer TOKEN, or log in at /login"
        );
        assert_eq!(response.status, 401, "{path}");
    }
    // What says nothing of a project is checked before.
    expect(&site.get("/demo/?a=%ff"), 400, &["cannot decode"]);
    expect(&site.get("/api/v1/demo/nothing"), 404, &["API endpoint not found"]);
    let read = read.unwrap();
    for (path, status) in [
        ("/demo/", 200),
        ("/demo/sesions", 404),
        ("/nowhere/", 404),
        ("/", 303),
        ("/settings", 403),
        ("/api/v1/tokens", 403),
        ("/api/v1/demo/series", 200),
        ("/api/v1/nowhere/series", 404),
    ] {
        let response = site.with_token(&format!("GET {path}"), &read, b"");
        assert_eq!(response.status, status, "{path}: {response:?}");
    }
    expect(&site.with_token("GET /nowhere/", &read, b""), 404, &["href=\"/demo/\""]);
    let pushed = site.with_token("PUT /api/v1/demo/sessions/0-1", &read, b"");
    expect(&pushed, 403, &["'reader' is not allowed to push to 'demo'"]);
}

#[test]
fn a_wrong_token_is_refused_before_anything_is_looked_for() {
    let site = TestSite::start(OPEN, with_session);
    let wrong = [("Authorization", "Bearer spw_wrong")];
    for path in ["/demo/", "/nowhere/", "/login", "/health/ready", "/demo/?a=%ff"] {
        let response = site.request(&format!("GET {path}"), &wrong, b"");
        expect(&response, 401, &["invalid token or key", "\nhint: "]);
        assert!(!response.headers.contains_key("www-authenticate"), "{path}");
    }
    let form = site.request("POST /demo/alerts", &wrong, b"");
    expect(&form, 401, &["invalid token or key", "</html>"]);
    let endpoint = site.request("GET /api/v1/openapi.json", &wrong, b"");
    assert_eq!(endpoint.headers["content-type"], "application/problem+json");
    assert_eq!(endpoint.status, 401);
}

#[test]
fn a_revoked_token_locks_out_nobody_else() {
    let mut tokens = None;
    let site = TestSite::start(PRIVATE, |store| {
        let (old, new) =
            (add_token(store, "old", TokenScope::Read), add_token(store, "new", TokenScope::Read));
        store.revoke_tokens("old", 1).unwrap();
        tokens = Some([old, new]);
    });
    let [old, new] = tokens.unwrap();
    for _ in 0..30 {
        assert_eq!(site.with_token("GET /api/v1/projects", &old, b"").status, 401);
    }
    assert_eq!(site.with_token("GET /api/v1/projects", &new, b"").status, 200);
    let entries = Store::open(&site.path).unwrap().latest_audit_entries(99).unwrap();
    let refused = entries.iter().filter(|entry| entry.result == "refused");
    assert!(refused.count() <= 20, "the audit does not grow with each try");
}

#[test]
fn the_start_key_logs_in_once_and_a_logout_ends_it() {
    let rules = AccessRules { has_key: true, ..OPEN };
    let site = TestSite::start(rules, with_session);
    let key = site.site.access.startup_key().unwrap().to_owned();
    let form = site.get("/login?to=%2Fdemo%2F");
    expect(&form, 200, &["action=\"/login?to=%2Fdemo%2F\"", "Token or key"]);
    assert_eq!(form.headers["cache-control"], "no-store");
    let login = site.request("POST /login?to=%2Fdemo%2F", &[], format!("token={key}").as_bytes());
    assert_eq!((login.status, &*login.headers["location"]), (303, "/demo/"));
    let cookie = login.headers["set-cookie"].split(';').next().unwrap();
    let again = site.get(&format!("/login?key={key}"));
    expect(&again, 401, &["invalid token or key", "</form>"]);
    let own = [("Cookie", cookie), ("Sec-Fetch-Site", "same-origin")];
    expect(&site.request("GET /settings", &own, b""), 200, &["log out", "</html>"]);
    let logout = site.request("POST /logout", &own, b"");
    assert_eq!((logout.status, &*logout.headers["location"]), (303, "/"));
    assert_eq!(site.request("GET /settings", &own, b"").status, 401);
}

#[test]
fn triage_needs_a_permission_and_is_recorded() {
    let mut token = None;
    let site = TestSite::start(OPEN, |store| {
        with_session(store);
        token = Some(add_token(store, "triager", TokenScope::Triage));
    });
    let token = token.unwrap();
    let form = b"change=1&triage=wrong";
    for path in ["POST /demo/alerts", "POST /demo/changes"] {
        expect(&site.request(path, &[], form), 401, &["a token is required to triage"]);
    }
    for (form, status, text) in [
        ("change=1&triage=wrong", 404, "1"),
        ("triage=wrong", 400, "no change selected"),
        ("change=1&triage=no", 400, "use open, accepted, wrong or fixed"),
        ("change=1&verdict=no", 400, "unknown parameter 'verdict'"),
    ] {
        let response = site.with_token("POST /demo/alerts", &token, form.as_bytes());
        expect(&response, status, &[text, "</html>"]);
    }
    let entries = Store::open(&site.path).unwrap().latest_audit_entries(9).unwrap();
    let lines: Vec<String> = entries
        .iter()
        .map(|entry| format!("{} {:?} {}", entry.action, entry.subject, entry.result))
        .collect();
    assert_eq!(lines, ["triage Some(\"change 1: wrong\") refused"; 2]);
}

#[test]
fn a_session_is_uploaded_read_tagged_and_deleted() {
    let mut token = None;
    let site = TestSite::start(OPEN, |store| {
        token = Some(add_token(store, "ci", TokenScope::Admin));
    });
    let token = token.unwrap();
    let mut session = imported_session();
    session.state = speedwell_model::SessionState::Complete;
    let mut lines = Vec::new();
    json_lines::write(&session, &mut lines).unwrap();
    let digest = SessionDigest::hash_lines(&lines).to_string();
    let path = format!("/api/v1/demo/sessions/{}", session.id);
    let ask = |method: &str, more: &str, body: &[u8]| {
        site.with_token(&format!("{method} {path}{more}"), &token, body)
    };
    expect(&ask("PUT", "", &lines), 400, &["missing digest 'sha256'", "?sha256=DIGEST"]);
    let other = SessionDigest::hash_lines(b"x");
    let damaged = ask("PUT", &format!("?sha256={other}"), &lines);
    assert_eq!((damaged.status, &json_of(&damaged)["lines"]), (409, &json!(0)));
    let stored = ask("PUT", &format!("?sha256={digest}"), &lines);
    let known = |state: &str| json!({"state": state, "number": 1, "sha256": digest});
    assert_eq!((stored.status, json_of(&stored)), (201, known("stored")));
    let again = ask("PUT", &format!("?sha256={digest}"), &lines);
    assert_eq!((again.status, json_of(&again)), (200, known("known")));
    assert_eq!(ask("GET", "", b"").body, lines);
    expect(&ask("POST", "/tags", b"{\"tag\":\"v1\"}"), 200, &["tagged"]);
    expect(&site.get("/demo/@v1"), 303, &[]);
    expect(&ask("DELETE", "", b""), 200, &["deleted"]);
    let gone = ask("PUT", &format!("?sha256={digest}"), &lines);
    expect(&gone, 410, &["was deleted from this server", "--undelete"]);
    let nowhere = site.with_token("GET /api/v1/nowhere/sessions/0-1", &token, b"");
    expect(&nowhere, 404, &["project 'nowhere' not found"]);
}

#[test]
fn unchanged_responses_are_not_sent_again() {
    let site = TestSite::start(OPEN, with_session);
    for path in ["/demo/sessions", "/demo/sessions.json", "/api/v1/demo/sessions", "/login"] {
        let first = site.get(path);
        let tag = first.headers["etag"].clone();
        let again = site.request(&format!("GET {path}"), &[("If-None-Match", &tag)], b"");
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        assert_eq!(again.headers["etag"], tag, "{path}");
    }
    let missing = site.request("GET /demo/nothing", &[("If-None-Match", "*")], b"");
    assert_eq!((missing.status, missing.headers.get("etag")), (404, None));
}

#[test]
fn a_live_page_is_sent_to_its_viewers() {
    let site = TestSite::start(OPEN, with_session);
    let mut stream = site.send("GET /demo/sessions/any/events", &[], b"");
    let head = stream.read_head().unwrap();
    assert_eq!(head.headers["content-type"], "text/event-stream");
    let event = stream.read_to("\n\n").unwrap();
    assert!(event.contains("event: progress") && event.contains("nothing is being measured"));
    assert_eq!(site.site.count_viewers(), 1);
    // An ended session has nothing to watch.
    let ended = format!("GET /demo/sessions/{}/events", imported_session().id);
    let mut stream = site.send(&ended, &[], b"");
    assert!(stream.read_to("the session has ended").is_some());
}

#[test]
fn health_and_metrics_are_plain_text() {
    let mut token = None;
    let site = TestSite::start(PRIVATE, |store| {
        token = Some(add_token(store, "operator", TokenScope::Read));
    });
    let ready = site.get("/health/ready");
    assert_eq!((ready.status, ready.text()), (200, "ready\n"));
    let refused = site.get("/metrics");
    assert_eq!((refused.status, refused.text()), (401, "a token is required to read 'demo'\n"));
    let metrics = site.with_token("GET /metrics", &token.unwrap(), b"");
    expect(&metrics, 200, &["speedwell_sessions_newest{project=\"demo\"} 0", "status=\"4xx\"} 1"]);
    assert_eq!(metrics.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
}

#[test]
fn the_stylesheet_linked_by_a_page_is_served_as_immutable() {
    let site = TestSite::start(OPEN, with_session);
    let page = site.get("/demo/");
    let style = page.text().split_once("rel=\"stylesheet\" href=\"").unwrap().1;
    let style = site.get(style.split_once('"').unwrap().0);
    assert_eq!((style.status, &*style.headers["content-type"]), (200, "text/css; charset=utf-8"));
    assert!(style.headers["cache-control"].contains("immutable"));
    assert_eq!(site.get("/static/nothing.css").status, 404);
}

/// The OpenAPI document is valid, and each URL in it responds.
#[test]
fn the_description_of_the_api_is_valid_and_complete() {
    let mut token = None;
    let site = TestSite::start(PRIVATE, |store| {
        store.add_project("core").unwrap();
        token = Some(add_token(store, "ci", TokenScope::Admin));
    });
    let token = token.unwrap();
    let response = site.with_token("GET /api/v1/openapi.json", &token, b"");
    assert_eq!(response.status, 200);
    let document = json_of(&response);
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 4, "{paths:?}");
    for (path, operations) in paths {
        let path = path.replace("{project}", "core").replace("{id}", "0197-0");
        for method in operations.as_object().unwrap().keys() {
            let request = format!("{} {path}", method.to_uppercase());
            let answer = site.with_token(&request, &token, b"");
            let is_known =
                !(answer.status == 404 && answer.text().contains("API endpoint not found"));
            assert!(
                is_known && answer.status < 500 && answer.status != 405,
                "{request}: {answer:?}"
            );
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, document.to_string()).unwrap();
    validate(&file);
}

/// Validates by openapi-spec-validator, if it is installed.
fn validate(file: &Path) {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let installed = home.join(".cache/speedwell/test-tools/python/bin/python");
    for python in [installed, PathBuf::from("python3")] {
        let mut validator = std::process::Command::new(python);
        let output = validator.args(["-m", "openapi_spec_validator"]).arg(file).output();
        let Ok(output) = output else { continue };
        if !String::from_utf8_lossy(&output.stderr).contains("No module named") {
            assert!(output.status.success(), "{output:?}");
            return;
        }
    }
    eprintln!("skipped: openapi-spec-validator is not installed (scripts/install-test-tools)");
}
