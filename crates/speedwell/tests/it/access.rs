//! Access control, tested on the running server with both back ends. The threat numbers are those
//! of docs/reference/security.md.

use super::back_ends::{StorePlace, on_both};
use super::dashboard::{HttpReply, TestDashboard};
use super::project::TempProject;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_stats::test::{PValueMethod, mann_whitney};
use std::time::Instant;

on_both! {
    each_token_opens_its_project_and_no_other
    the_start_key_works_once_and_triages_a_change
    guessing_ends_after_ten_tries_and_tells_nothing
    pages_of_other_sites_change_nothing
    people_log_in_with_a_token_and_out_again
}

/// A team's server: two projects with a session each, one of them public, and a change in neither.
fn team(place: &StorePlace) -> TempProject {
    let project = TempProject::new().storing_in(place);
    let project = project.with("g/parse.fake", "case n=1\n* 1\n");
    let add = |name: &str, more: &[&str]| {
        let words = [&["serve", "project", "add", name][..], more].concat();
        project.run(&words).expect_status(0);
    };
    add("core", &[]);
    add("open", &["--public"]);
    project
}

fn token(project: &TempProject, words: &[&str]) -> String {
    let words = [&["serve", "token", "add", "t"][..], words].concat();
    let made = project.run(&words).expect_status(0);
    made.stdout.trim().to_owned()
}

/// Pages of a project, including an event stream.
const PAGES: [&str; 17] = [
    "",
    "changes",
    "pulls",
    "feed.atom",
    "sessions",
    "@latest",
    "benchmarks",
    "trend",
    "compare",
    "machines",
    "calibration",
    "alerts",
    "live",
    "search?q=a",
    "sessions/any/events",
    "sessions.json",
    "nothing",
];

/// Threat T10: a token for one project grants nothing in another, on any page.
fn each_token_opens_its_project_and_no_other(place: &StorePlace) {
    let project = team(place);
    // The expired one comes last: after too many attempts with it, the client is locked out
    // altogether.
    let tokens = [
        ("read core", &["--scope", "read", "--project", "core"][..]),
        ("push core", &["--scope", "push", "--project", "core"]),
        ("triage core", &["--scope", "triage", "--project", "core"]),
        ("admin core", &["--scope", "admin", "--project", "core"]),
        ("read all", &["--scope", "read"]),
        ("admin", &["--scope", "admin"]),
        ("ended", &["--scope", "admin", "--expires", "1ms"]),
    ]
    .map(|(name, words)| (name, token(&project, words)));
    let dashboard = TestDashboard::with(&project, &["--port", "0", "--private"]);
    let is_let_in = |reply: &HttpReply| match reply.status {
        200 | 303 | 404 => true,
        // Repeated use of an invalid token locks the client out.
        401 | 403 | 429 => false,
        _ => panic!("{reply:?}"),
    };
    for (name, token) in &tokens {
        for of in ["core", "open", "nowhere"] {
            let may = match (*name, of) {
                ("ended", _) => false,
                ("read all" | "admin", _) | (_, "core" | "open") => true,
                _ => false,
            };
            // A stream would not end.
            for page in PAGES.iter().filter(|page| may != page.ends_with("events") || !may) {
                let path = format!("/{of}/{page}");
                let reply = dashboard.with_token(&path, token);
                assert_eq!(is_let_in(&reply), may, "{name} at {path}: {reply:?}");
                assert!(may || !reply.body.contains("g/parse.fake"), "{name} at {path}");
            }
            let triaged = dashboard.request(
                "POST",
                &format!("/{of}/alerts"),
                &[("Authorization", &format!("Bearer {token}"))],
                "change=1&triage=wrong",
            );
            let may_triage =
                matches!((*name, of), ("triage core" | "admin core", "core") | ("admin", _));
            // The change does not exist, which only those with permission to triage learn.
            assert_eq!(triaged.status == 404, may_triage, "{name} triages in {of}: {triaged:?}");
        }
        let settings = dashboard.with_token("/settings.json", token).status;
        assert_eq!(settings == 200, *name == "admin", "{name}: {settings}");
    }
    anonymous_visitors_see_what_is_public(&dashboard);
}

/// Anonymous visitors see public pages, and are redirected to the login.
fn anonymous_visitors_see_what_is_public(dashboard: &TestDashboard) {
    assert_eq!(dashboard.get("/open/").status, 200);
    assert_eq!(dashboard.get("/core/sessions.json").status, 401);
    let led =
        dashboard.request("GET", "/core/sessions?state=complete", &[("Accept", "text/html")], "");
    assert_eq!(
        (led.status, led.field("location").as_deref()),
        (303, Some("/login?to=%2Fcore%2Fsessions%3Fstate%3Dcomplete"))
    );
    let overview = dashboard.get("/index.json").expect(200, &["open"]);
    assert!(!overview.body.contains("core"), "{overview:?}");
}

/// Returns the path of the first form in a row of a page, and the number of its change.
fn triage_form_of(page: &HttpReply) -> (String, String) {
    let form = page.body.split_once("method=\"post\" aria-label=\"Judge change ");
    let (before, number) = form.unwrap_or_else(|| panic!("no form in {page:?}"));
    let action = before.rsplit_once("action=\"").unwrap().1;
    let until_quote = |text: &str| text.split_once('"').unwrap().0.to_owned();
    (until_quote(action), until_quote(number))
}

/// Returns the cookie as a browser would send it back.
fn cookie(reply: &HttpReply) -> String {
    let set = reply.field("set-cookie").unwrap_or_else(|| panic!("no cookie in {reply:?}"));
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
    set.split(';').next().unwrap().to_owned()
}

fn the_start_key_works_once_and_triages_a_change(place: &StorePlace) {
    let project = super::serve::long_project(120, place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let alerts = format!("/{name}/alerts");
    // On the local machine reading is free, changing is not.
    let read = dashboard.get_when_ready(&alerts).expect(200, &["▼ worse"]);
    assert!(!read.body.contains("Judge change"));
    let refused = dashboard.request("POST", &alerts, &[], "change=1&triage=wrong");
    assert_eq!(refused.status, 401, "{refused:?}");
    let welcome = dashboard.get(&dashboard.key);
    assert_eq!(welcome.status, 303, "{welcome:?}");
    let cookie = cookie(&welcome);
    assert_eq!(dashboard.get(&dashboard.key).status, 401, "it works once");
    let ours = [("Cookie", cookie.as_str()), ("Sec-Fetch-Site", "same-origin")];
    let page = dashboard.get_when_ready_with(&alerts, &ours);
    let (action, number) = triage_form_of(&page);
    let wrong = dashboard.request("POST", &action, &ours, &format!("change={number}&triage=no"));
    wrong.expect(400, &["open, accepted, wrong or fixed"]);
    let form = format!("change={number}&triage=accepted&note=worth+it");
    let elsewhere = format!("{form}&to=https%3A%2F%2Fevil.example%2F{name}%2F");
    let done = dashboard.request("POST", &action, &ours, &elsewhere);
    assert_eq!((done.status, done.field("location")), (303, Some(format!("/{name}/changes"))));
    let page = dashboard.get_when_ready_with(&alerts, &ours);
    assert!(!page.body.contains("▼ worse"), "{page:?}");
    // A judged change is listed with its note, so that the judgement can be taken back.
    let judged = format!("/{name}/changes?state=judged");
    let page = dashboard.get_when_ready_with(&judged, &ours);
    assert_eq!(triage_form_of(&page).1, number);
    let page =
        page.expect(200, &["1 judged change", "accepted: worth it", "start key", ">reopen<"]);
    assert!(page.body.contains(&format!("name=\"to\" value=\"{judged}\"")), "{page:?}");
    let long = format!("change={number}&triage=open&note={}", "x".repeat(60_000));
    let refused = dashboard.request("POST", &action, &ours, &long);
    refused.expect(400, &["the limit is 1000", "60000"]);
    let said = project.run(&["history", "changes", "--format", "json"]).json();
    let change = &said["changes"][0];
    assert_eq!(
        (&change["triage"], &change["note"]),
        (&"accepted".into(), &"worth it".into()),
        "{change}"
    );
    // Both pages count what is open in one way.
    let both_say = |words: &str| {
        for path in [format!("/{name}/"), alerts.clone()] {
            let page = dashboard.get_when_ready_with(&path, &ours);
            assert!(page.body.contains(words), "{words} at {path}: {page:?}");
        }
    };
    both_say("no open change");
    let settings = dashboard.get_when_ready_with("/settings.json", &ours).json();
    let audit = settings["audit"].as_array().unwrap();
    let lines: Vec<String> = audit
        .iter()
        .map(|line| {
            format!("{} {} {}", line["actor"], line["action"], line["result"]).replace('"', "")
        })
        .collect();
    assert_eq!(
        lines,
        ["start key triage done", " login refused", "start key login done", " triage refused"]
    );
    judgement_is_taken_back(&dashboard, &ours, &action, &number);
    both_say("1 open change");
}

/// Reopens a judged change from the list of judged changes; the page of its case has the same form.
fn judgement_is_taken_back(
    dashboard: &TestDashboard,
    ours: &[(&str, &str)],
    action: &str,
    number: &str,
) {
    let trend = format!("/{}/trend?case=g%2Fparse.fake%20n%3D1", dashboard.project());
    let page = dashboard.get_when_ready_with(&trend, ours);
    page.expect(200, &["value=\"open\">reopen</button>"]);
    let judged = format!("/{}/changes?state=judged", dashboard.project());
    let to = judged.replace('/', "%2F").replace('?', "%3F").replace('=', "%3D");
    let form = format!("change={number}&triage=open&to={to}");
    let done = dashboard.request("POST", action, ours, &form);
    assert_eq!((done.status, done.field("location").as_deref()), (303, Some(&*judged)));
    let page = dashboard.get_when_ready_with(&judged, ours);
    page.expect(200, &["0 judged changes"]);
    let page = dashboard.get_when_ready_with(action, ours);
    page.expect(200, &["1 open change in 1 series", "Changes 1<"]);
}

/// Threat T6: guessing locks the client out, even with a correct guess, and reveals nothing before.
fn guessing_ends_after_ten_tries_and_tells_nothing(place: &StorePlace) {
    let project = team(place);
    let right = token(&project, &["--scope", "read"]);
    let other = token(&project, &["--scope", "read"]);
    // The id of one token with the secret of another fails the checksum, so it is not even a valid
    // token.
    let mixed = format!("{}{}", &right[..16], &other[16..]);
    let dashboard = TestDashboard::with(&project, &["--port", "0", "--private"]);
    assert_eq!(dashboard.with_token("/core/", &right).status, 200);
    let mut words = Vec::new();
    // The tenth attempt within a minute is the last, so a slow machine may allow more.
    for guess in [&mixed, "spw_x", ""].iter().cycle().take(200) {
        let reply = dashboard.with_token("/core/", guess);
        if reply.status == 429 {
            break;
        }
        assert_eq!(reply.status, 401, "{reply:?}");
        words.push(reply.body);
    }
    assert!((10..200).contains(&words.len()), "{} tries", words.len());
    words.dedup();
    assert_eq!(words.len(), 1, "whatever is wrong, the words are the same: {words:?}");
    for token in [&mixed, &right] {
        let reply = dashboard.with_token("/core/", token);
        assert_eq!(reply.status, 429, "{reply:?}");
        assert!(reply.field("retry-after").is_some(), "{reply:?}");
    }
    let form = dashboard.request("POST", "/login", &[], &format!("token={right}"));
    assert_eq!(form.status, 429, "{form:?}");
    // Requests without credentials are not locked out.
    assert_eq!(dashboard.get("/open/").status, 200);
}

/// Threats T8 and T9: a page of another site, and another name for this server.
fn pages_of_other_sites_change_nothing(place: &StorePlace) {
    let project = TempProject::new().storing_in(place);
    let project = project.with("g/parse.fake", "case n=1\n* 1\n");
    project.run(&["run", "g", "-r", "2", "-q"]).expect_status(0);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let alerts = format!("/{name}/alerts");
    let cookie = cookie(&dashboard.get(&dashboard.key));
    let own = format!("http://{}", dashboard.address);
    let form = "change=1&triage=wrong";
    for (what, fields) in [
        ("a form", [("Origin", "http://evil.example"), ("Sec-Fetch-Site", "cross-site")]),
        ("an old browser's form", [("Origin", "http://evil.example"), ("Accept", "*/*")]),
        ("a sandboxed frame", [("Origin", "null"), ("Sec-Fetch-Site", "cross-site")]),
        ("a neighbour's port", [("Origin", "http://127.0.0.1:1"), ("Sec-Fetch-Site", "same-site")]),
        ("no origin", [("Accept", "*/*"), ("Accept-Language", "en")]),
    ] {
        let fields = [&fields[..], &[("Cookie", &cookie)]].concat();
        for path in [alerts.as_str(), "/logout", "/login"] {
            let reply = dashboard.request("POST", path, &fields, form);
            assert_eq!(reply.status, 403, "{what} at {path}: {reply:?}");
        }
    }
    let ours = [("Cookie", cookie.as_str()), ("Origin", own.as_str())];
    let reply = dashboard.request("POST", &alerts, &ours, form);
    assert_eq!(reply.status, 404, "our own form is read, and there is no change 1: {reply:?}");
    let events = format!("/{name}/sessions/any/events");
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost:1", ""] {
        for path in [&events, &alerts, "/login", "/health", "/health/ready", "/metrics"] {
            let reply = dashboard.request("GET", path, &[("Host", host)], "");
            assert_eq!(reply.status, 421, "{host} at {path}: {reply:?}");
        }
    }
    dashboard.get("/health/ready").expect(200, &["ready"]);
    let metrics =
        dashboard.get("/metrics").expect(200, &["speedwell_answers_total{status=\"4xx\"}"]);
    assert!(
        metrics.body.contains(&format!("speedwell_sessions_newest{{project=\"{name}\"}} 1")),
        "{metrics:?}"
    );
}

/// Options of a server behind a TLS proxy.
pub const PROXIED: [&str; 6] = [
    "--bind",
    "127.0.0.1:0",
    "--behind-proxy",
    "127.0.0.1",
    "--public-url",
    "https://perf.example",
];

fn people_log_in_with_a_token_and_out_again(place: &StorePlace) {
    let project = team(place);
    let words = [&["serve"][..], &PROXIED].concat();
    project
        .run(&words)
        .expect_status(2)
        .expect_stderr(&["there is no token yet", "speedwell serve token add"]);
    let token = token(&project, &["--scope", "triage", "--project", "core"]);
    let dashboard = TestDashboard::with(&project, &PROXIED);
    assert_eq!(dashboard.key, "", "others come in here, so there is no key");
    let by_proxy = [
        ("Host", "perf.example"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-For", "203.0.113.7"),
    ];
    let proxied = |method: &str, path: &str, more: &[(&str, &str)], form: &str| {
        dashboard.request(method, path, &[&by_proxy, more].concat(), form)
    };
    let status = |more: &[(&str, &str)]| proxied("GET", "/core/", more, "").status;
    assert_eq!(status(&[]), 401);
    let ours = ("Origin", "https://perf.example");
    let form = format!("token={token}");
    let login = proxied("POST", "/login?to=%2Fcore%2F", &[ours], &form);
    assert_eq!((login.status, login.field("location").as_deref()), (303, Some("/core/")));
    let cookie = cookie(&login);
    assert!(cookie.starts_with("__Host-speedwell="), "{cookie}");
    let cookie = ("Cookie", cookie.as_str());
    proxied("GET", "/core/", &[cookie], "").expect(200, &["log out"]);
    assert_eq!(proxied("GET", "/settings", &[cookie], "").status, 403);
    // An external redirect target is rejected.
    let away = proxied("POST", "/login?to=%2F%2Fevil.example", &[ours], &form);
    assert_eq!(away.field("location").as_deref(), Some("/"));
    let again = self::cookie(&away);
    assert_eq!(proxied("POST", "/logout", &[cookie, ours], "").status, 303);
    assert_eq!(status(&[cookie]), 401);
    // The other login ends with its token.
    assert_eq!(status(&[("Cookie", &again)]), 200);
    project.run(&["serve", "token", "revoke", "t"]).expect_status(0);
    assert_eq!(status(&[("Cookie", &again)]), 401);
    let listed = project.run(&["serve", "token", "list", "--format", "json"]).json();
    assert_eq!(listed["tokens"][0]["state"], "revoked");
    assert!(!listed.to_string().contains(&token), "the token itself is stored nowhere");
}

/// Threat T12: a token or key is neither logged nor stored, whichever way it arrives.
#[test]
fn no_secret_is_in_the_log_or_in_the_store() {
    let place = StorePlace::file();
    let project = team(&place);
    let token = token(&project, &["--scope", "admin"]);
    let dashboard = TestDashboard::with(&project, &["--port", "0", "--log", "text"]);
    let key = dashboard.key.clone();
    assert_eq!(dashboard.get(&key).status, 303);
    assert_eq!(dashboard.with_token("/core/", &token).status, 200);
    dashboard.get(&format!("/core/{token}"));
    dashboard.get(&format!("/core/sessions?branch={token}"));
    let form = format!("token={token}");
    let cookie = cookie(&dashboard.request("POST", "/login", &[], &form));
    let known = dashboard.request("GET", "/settings", &[("Cookie", &cookie)], "");
    assert_eq!(known.status, 200);
    let log = dashboard.log();
    assert!(log.contains(" GET /core/ 200 "), "{log}");
    let store = std::fs::read(place.path()).unwrap();
    let store = String::from_utf8_lossy(&store);
    for (what, secret) in [
        ("the token", token.as_str()),
        ("the secret of the token", &token[16..59]),
        ("the key", key.split_once('=').unwrap().1),
        ("the cookie", cookie.split_once('=').unwrap().1),
    ] {
        assert!(!log.contains(secret), "{what} in {log}");
        assert!(!known.body.contains(secret), "{what} on the page of settings");
        assert!(!store.contains(secret), "{what} in the store");
    }
}

#[test]
fn a_public_address_requires_tls_and_a_token() {
    let project = TempProject::new();
    let serve = |options: &[&str]| project.run(&[&["serve"], options].concat()).expect_status(2);
    serve(&["--bind", "0.0.0.0:0"]).expect_stderr(&["--public-url https://perf.example"]);
    let public = ["--bind", "0.0.0.0:0", "--public-url", "https://perf.example"];
    serve(&public).expect_stderr(&["without TLS", "without a token"]);
    token(&project, &["--scope", "read"]);
    serve(&public).expect_stderr(&["cannot serve on '0.0.0.0:0' without TLS"]);
    serve(&["--bind", "everywhere"])
        .expect_stderr(&["cannot parse listen address 'everywhere'", "unix:"]);
    serve(&["--bind", "127.0.0.1:0", "--behind-proxy", "here"]).expect_stderr(&["--public-url"]);
}

#[test]
fn a_public_name_is_refused_without_a_matching_proxy() {
    let project = TempProject::new();
    token(&project, &["--scope", "read"]);
    let refused = |options: &[&str], texts: &[&str]| {
        let public = ["serve", "--public-url", "https://perf.example"];
        project.run(&[&public[..], options].concat()).expect_status(2).expect_stderr(texts);
    };
    let by_proxy = ["'perf.example' is a public name", "hint: --behind-proxy 127.0.0.1"];
    refused(&[], &by_proxy);
    refused(&["--port", "0"], &by_proxy);
    refused(&["--bind", "[::1]:0"], &by_proxy);
    refused(&["--private"], &by_proxy);
    refused(&["--bind", "unix:here.socket"], &["hint: --behind-proxy unix"]);
    let proxied = |bind: &str, proxy: &str, texts: &[&str]| {
        refused(&["--bind", bind, "--behind-proxy", proxy], texts);
    };
    for everybody in ["0.0.0.0", "::", "::ffff:0.0.0.0", "255.255.255.255", "224.0.0.1"] {
        proxied("0.0.0.0:0", everybody, &["is not the address of a single machine", "hint: "]);
    }
    proxied("0.0.0.0:0", "unix", &["hint: --bind unix:"]);
    proxied("unix:here.socket", "10.0.0.7", &["hint: --behind-proxy unix"]);
    proxied("127.0.0.1:0", "10.0.0.7", &["hint: --bind ADDRESS:PORT"]);
    assert!(!project.path("here.socket").exists());
}

#[test]
fn requests_that_bypass_the_tls_proxy_are_refused() {
    let project = TempProject::new();
    let token = token(&project, &["--scope", "read"]);
    let behind = ["--bind", "0.0.0.0:0", "--behind-proxy", "10.0.0.7"];
    let public = ["--public-url", "https://perf.example"];
    let mut dashboard = TestDashboard::with(&project, &[&behind[..], &public].concat());
    dashboard.address = dashboard.address.replace("0.0.0.0", "127.0.0.1");
    let as_proxy = [
        ("Host", "perf.example"),
        ("X-Forwarded-Proto", "https"),
        ("Authorization", &format!("Bearer {token}")),
    ];
    for path in ["/", "/login", "/api/v1/projects", "/nowhere"] {
        let reply = dashboard.request("GET", path, &as_proxy, "");
        assert_eq!(reply.status, 403, "{path}: {reply:?}");
        assert!(reply.body.contains("only the TLS-terminating proxy"), "{reply:?}");
    }
    let health = dashboard.request("GET", "/health", &as_proxy, "");
    assert_eq!(health.status, 200, "it says nothing, and services ask for it");
}

/// Threat T6, measured: the time of a rejection does not reveal whether a token with that id
/// exists.
///
/// `cargo test --release -p speedwell --features postgres --test it -- --ignored --nocapture time_of_a_refusal`
mod time_of_a_refusal {
    use super::{on_both, tells_nothing_of_an_id};

    on_both! {
        #[ignore = "measures"]
        tells_nothing_of_an_id
    }
}

fn tells_nothing_of_an_id(place: &StorePlace) {
    const PAIRS: usize = 1000;
    let project = team(place);
    let [known, unknown, other] = [(); 3].map(|()| token(&project, &["--scope", "read"]));
    let id = |token: &str| token[4..16].to_owned();
    // A token with a known id and another secret, and one with an unknown id.
    let (of_known, of_other) = (id(&known), id(&other));
    let digest = format!("(SELECT digest FROM token WHERE id = '{of_other}')");
    let changed = format!("UPDATE token SET digest = {digest} WHERE id = '{of_known}'");
    assert_eq!(place.change(&changed), 1);
    let forgotten = format!("DELETE FROM token WHERE id = '{}'", id(&unknown));
    assert_eq!(place.change(&forgotten), 1);
    let dashboard = TestDashboard::with(&project, &PROXIED);
    let mut times = [Vec::new(), Vec::new()];
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(6);
    for pair in 0..PAIRS {
        // Only the first few failures of each address are checked.
        let address = format!("10.0.0.{}", pair / 4);
        let first = dice.random_range(0..2);
        for kind in [first, 1 - first] {
            let bearer = format!("Bearer {}", [&known, &unknown][kind]);
            let fields = [
                ("Host", "perf.example"),
                ("X-Forwarded-Proto", "https"),
                ("X-Forwarded-For", address.as_str()),
                ("Authorization", bearer.as_str()),
            ];
            let begun = Instant::now();
            let reply = dashboard.request("GET", "/core/", &fields, "");
            times[kind].push(begun.elapsed().as_secs_f64() * 1e6);
            assert_eq!(reply.status, 401, "{reply:?}");
        }
    }
    let [known, unknown] = times;
    let test = mann_whitney(&known, &unknown, PValueMethod::Auto);
    let share = test.u1 / (PAIRS * PAIRS) as f64;
    let median = |times: &[f64]| {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[PAIRS / 2]
    };
    println!(
        "{PAIRS} refusals each: known id {:.0} us, unknown id {:.0} us (medians); P(known is slower) {share:.3}, p {:.3}",
        median(&known),
        median(&unknown),
        test.p
    );
    assert!(test.p > 1e-3, "the time tells whether an id is known");
}
