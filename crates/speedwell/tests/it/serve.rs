//! The dashboard: every page of a project matches the output of the corresponding command, in every
//! format and with any names, and no request for a page changes anything.

use super::back_ends::{StorePlace, on_both};
use super::by_hand::{blank_session, run};
use super::dashboard::TestDashboard;
use super::project::TempProject;
use serde_json::{Value, json};
use speedwell_model::stored::LoadProgress;
use speedwell_model::{SessionEvent, SessionObserver, SessionState};
use speedwell_store::{SessionRecorder, Store};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::time::Duration;

/// Names that contain markup, and one case that fails.
const CASES: &str = r#"case len=16 type=ascii
old 100 101 99 100.5 99.5 100.2 99.8 100.1
new 120 121 119 120.5 119.5 120.2 119.8 120.1
case len=64 type=ascii
old 200 201 199 200.5 199.5 200.2 199.8 200.1
new 200.3 199.7 200.6 199.4 200.1 199.9 200.4 199.6
case len=256 type=ascii
* 7
case len=16 type="</script><img src=x onerror=alert(1)>"
old 300 301 299 300.5 299.5 300.2 299.8 300.1
new 270 271 269 270.5 269.5 270.2 269.8 270.1
case len=64 type="'\"&<b>Größe⇄語"
* 50 90 40 70 60 80 45 55
case len=1 type=ascii
* exit:3
"#;

const HOSTILE: &str = "<img src=x onerror=alert(2)>";

on_both! {
    every_page_answers_and_none_trusts_a_name
    a_page_says_what_the_command_says
    reading_changes_nothing_and_needs_the_servers_own_name
    a_project_without_a_session_says_how_to_get_one_and_gets_no_file
    lists_are_shown_a_part_at_a_time_and_a_change_is_seen_everywhere
    a_session_is_watched_from_its_first_slot_to_its_last
    a_load_is_watched_while_it_lasts
    a_verdict_is_shown_after_a_planned_look_and_not_before
    expensive_questions_are_refused_or_wait_and_others_do_not
}

/// A project with three sessions: two of revisions on branches, one of neither.
pub fn project(place: &StorePlace) -> TempProject {
    let cases = CASES.replace('⇄', "\u{202e}");
    let project = TempProject::new().storing_in(place);
    let project = project.with("bench/strings/decode.fake", &cases);
    let revisions = [
        ("1", Some(("aaaabbbbccccddddeeeeffff0000111122223333", "main"))),
        ("2", Some(("bbbbccccddddeeeeffff00001111222233334444", HOSTILE))),
        ("3", None),
    ];
    for (seed, origin) in revisions {
        let mut words = vec!["run", "bench/strings", "--variant", "old=", "--variant", "new="];
        words.extend(["--runs", "8", "--seed", seed, "-q"]);
        if let Some((revision, branch)) = origin {
            words.extend(["--revision", revision, "--branch", branch, "--tag", "v1"]);
        }
        // One case fails, which does not affect the others.
        project.run(&words).expect_status(2);
    }
    project
}

/// Imports a fourth session in which every name contains markup.
pub fn everything_hostile(project: &TempProject) {
    let exported = project.run(&["report", "@3", "--export", "jsonl"]);
    let name = |number: u8| format!("<img src=x onerror=alert({number})>'\"&");
    let mut text = String::new();
    for line in exported.expect_status(0).stdout.lines() {
        let line = line.replace("\"old\"", &json!(name(3)).to_string());
        let mut line: Value = serde_json::from_str(&line).unwrap();
        if line.get("environment").is_some() {
            line["id"] = json!("01a2097a-0000-4000-8000-00000000dead");
            line["tags"] = json!([name(4)]);
            line["command"] = json!(["speedwell", "run", "<svg/onload=alert(5)>"]);
            line["environment"]["hostname"] = json!(name(6));
            line["environment"]["cpu"] = json!(name(7));
            line["origin"] = json!({
                "revision": "ccccddddeeeeffff00001111222233334444aaaa",
                "subject": name(8),
                "branch": "main",
                "pull": "7",
                "job_url": "javascript:alert(9)",
                "source": "ci",
            });
        }
        if let Some(run) = line.get_mut("run") {
            run["notes"] = json!([name(10)]);
        }
        writeln!(text, "{line}").unwrap();
    }
    std::fs::write(project.path("hostile.jsonl"), text).unwrap();
    let import = project.run(&["import", "hostile.jsonl", "-q"]);
    import.expect_status(0);
}

/// Every page of that project.
pub fn pages(name: &str) -> Vec<String> {
    [
        "",
        "sessions",
        "sessions?branch=main",
        "sessions?variant=old&state=complete",
        "@1",
        "sessions/@latest",
        "benchmarks",
        "benchmarks/strings/decode.fake",
        "trend",
        "trend?case=strings%2Fdecode.fake+len%3D16+type%3Dascii&space=time",
        "compare",
        "compare?base=%401&with=%402",
        "compare?base=@2",
        "compare?of=@2&of=@1",
        "compare?base=@1%5Bold%5D&with=@2%5Bnew%5D&threshold=5%25&method=welch&correct=none",
        "revisions/aaaa",
        "branches/main",
        "branches/%3Cimg%20src=x%20onerror=alert(2)%3E",
        "machines",
        "machines/1",
        "calibration",
        "alerts",
        "changes?state=judged",
        "pulls",
        "live",
        "search?q=dec",
        "search?q=%3Cimg",
    ]
    .map(|page| format!("/{name}/{page}"))
    .into_iter()
    .chain(["/".to_owned()])
    .collect()
}

fn every_page_answers_and_none_trusts_a_name(place: &StorePlace) {
    let project = project(place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    for path in pages(&name) {
        let reply = dashboard.follow(&path).expect(200, &["</html>"]);
        for markup in ["<img", "<b>Gr", "<script>", "<style", " style="] {
            assert!(!reply.body.contains(markup), "{markup} in {path}: {}", reply.body);
        }
        let policy = reply.field("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
    }
    everything_hostile(&project);
    for page in [
        "",
        "sessions",
        "@4",
        "compare?base=@3&with=@4",
        "compare?base=@4",
        "revisions/cccc",
        "pulls",
        "pulls/7",
        "machines",
        "branches/main",
        "search?q=img",
        "live",
        "trend",
    ] {
        let path = format!("/{name}/{page}");
        let reply = dashboard.follow(&path);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        for markup in ["<img", "<svg/on", "href=\"javascript:", "<style"] {
            assert!(!reply.body.contains(markup), "{markup} in {path}: {}", reply.body);
        }
    }
    let machines = dashboard.get(&format!("/{name}/machines.json")).json();
    for machine in machines["machines"].as_array().unwrap() {
        let page = dashboard.get(&format!("/{name}/machines/{}", machine["number"]));
        assert!(!page.expect(200, &[]).body.contains("<img"));
    }
    let style = dashboard.follow("/").body;
    let style = style.split_once("rel=\"stylesheet\" href=\"").unwrap().1;
    let style = style.split_once('"').unwrap().0;
    dashboard.get(style).expect(200, &["--paper"]);
}

#[test]
fn every_page_has_every_format() {
    let place = StorePlace::file();
    let project = project(&place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let formats = [
        ("json", "application/json"),
        ("md", "text/markdown"),
        ("csv", "text/csv"),
        ("txt", "text/plain"),
        ("html", "text/html"),
    ];
    for page in [
        "sessions",
        "@1",
        "benchmarks",
        "benchmarks/strings/decode.fake",
        "trend",
        "machines",
        "alerts",
    ] {
        for (ending, mime) in formats {
            let reply = dashboard.follow(&format!("/{name}/{page}.{ending}"));
            let reply = reply.expect(200, &[]);
            let kind = reply.field("content-type").unwrap();
            assert!(kind.starts_with(mime), "{page}.{ending}: {kind}");
            let is_kept = reply.field("content-disposition").is_some();
            assert_eq!(is_kept, ending == "html", "only a single file is to be kept");
        }
    }
    let lines = dashboard.follow(&format!("/{name}/@1.jsonl")).expect(200, &[]);
    let exported = project.run(&["report", "@1", "--export", "jsonl"]).expect_status(0);
    assert_eq!(lines.body, exported.stdout);
    let refused = dashboard.get(&format!("/{name}/calibration.jsonl"));
    assert!(refused.expect(404, &[]).json()["error"].is_string());
}

#[test]
fn the_live_page_refreshes_without_scripts_on_request() {
    let place = StorePlace::file();
    let project = project(&place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let refresh = "http-equiv=\"refresh\"";
    let live = dashboard.get(&format!("/{name}/live"));
    let live = live.expect(200, &["href=\"?every=5\""]);
    assert!(!live.body.contains(refresh), "{live:?}");
    let again = dashboard.get(&format!("/{name}/live?every=5"));
    again.expect(200, &[refresh, "href=\"?\""]);
    let other = dashboard.get(&format!("/{name}/sessions?every=5"));
    other.expect(400, &[]);
}

fn a_page_says_what_the_command_says(place: &StorePlace) {
    let project = project(place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    for (path, words) in [
        ("@1.json", &["report", "@1"][..]),
        ("@3.json", &["report", "@latest"]),
        ("compare.json?base=@1&with=@2", &["compare", "@1", "@2"]),
        ("compare.json?base=@3", &["compare", "@3"]),
        (
            "compare.json?base=@1%5Bold%5D&with=@2%5Bnew%5D&threshold=5%25",
            &["compare", "@1[old]", "@2[new]", "--threshold", "5%"],
        ),
        (
            "compare.json?base=@branch:main&with=@latest::len",
            &["compare", "@branch:main", "@latest::len"],
        ),
        ("trend.json", &["history", "trend"]),
        ("alerts.json", &["history", "changes", "--open"]),
    ] {
        let said = project.run(&[words, &["--format", "json"]].concat());
        let page = dashboard.follow(&format!("/{name}/{path}"));
        assert_eq!(page.status, 200, "{path}: {page:?}");
        assert_eq!(page.json(), said.json(), "{path}");
    }
}

/// Runs in files of other tools have no times of their own.
#[test]
fn an_imported_benchmark_has_the_date_of_its_session() {
    let results =
        "goos: linux\npkg: p\nBenchmarkX 100 9304 ns/op\nBenchmarkX 100 9310 ns/op\nPASS\n";
    let project = TempProject::new().with("go.txt", results);
    project.run(&["import", "go.txt", "-q"]).expect_status(0);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    for path in ["benchmarks", "sessions", "machines", ""] {
        let page = dashboard.follow(&format!("/{name}/{path}"));
        assert_eq!(page.status, 200, "{path}");
        assert!(!page.body.contains("1970-"), "{path}: {page:?}");
    }
}

#[test]
fn unknown_names_are_answered_with_suggestions() {
    let place = StorePlace::file();
    let project = project(&place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let at = |path: &str| dashboard.get(&format!("/{name}/{path}"));
    at("sesions").expect(404, &[&format!("href=\"/{name}/sessions\"")]);
    at("benchmarks/strings/decode").expect(404, &["strings/decode.fake</a>"]);
    at("branches/mian").expect(404, &["main</a>"]);
    at("trend?case=strings/decode.fake%20len=17%20type=ascii")
        .expect(404, &["len=16 type=ascii</a>"]);
    at("@17").expect(404, &["sessions range from @1 to @3"]);
    at("@nosuch.json").expect(404, &["\"error\"", "@v1"]);
    at("revisions/ffff").expect(404, &["no sessions for revision"]);
    at("machines/99").expect(404, &["machines/1\""]);
    at("sessions?brnch=x").expect(400, &["known parameters: branch"]);
    at("sessions?branch=nosuch").expect(200, &["no sessions match"]);
    at("compare?base=@1&with=@1").expect(400, &["both sources are the same session"]);
    at("compare?base=@1&with=@2&method=guess").expect(400, &["guess"]);
    at("compare?base=../all.jsonl&with=@1").expect(400, &["expected a stored session"]);
    at("compare?base=@1,/etc/passwd&with=@2").expect(404, &[]);
    dashboard.get("/another/").expect(404, &[&format!("href=\"/{name}/\"")]);
    for path in ["/static/..%2f..%2fetc/passwd", "/static/../etc/passwd", "//etc/passwd", "/%00"] {
        dashboard.get(path).expect(404, &[]);
    }
}

fn reading_changes_nothing_and_needs_the_servers_own_name(place: &StorePlace) {
    let project = project(place);
    let exported = |project: &TempProject| {
        let words = ["report", "@1", "@2", "@3", "--export", "jsonl"];
        project.run(&words).expect_status(0).stdout
    };
    let before = exported(&project);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let reply = dashboard.ask(method, &format!("/{name}/@1"), &dashboard.address);
        assert!((400..500).contains(&reply.status), "{method}: {reply:?}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example"] {
        let reply = dashboard.ask("GET", &format!("/{name}/"), host);
        assert_eq!(reply.status, 421, "{host}: {reply:?}");
    }
    for path in pages(&name) {
        dashboard.follow(&path);
    }
    assert_eq!(exported(&project), before);
    assert_eq!(dashboard.interrupt(), Some(0), "it did what was asked");
}

fn a_project_without_a_session_says_how_to_get_one_and_gets_no_file(place: &StorePlace) {
    let project = TempProject::new().storing_in(place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    for page in ["", "sessions", "benchmarks"] {
        let page = dashboard.get(&format!("/{name}/{page}"));
        page.expect(200, &["no sessions yet", "speedwell run bench/"]);
    }
    for page in
        ["trend", "alerts", "changes", "pulls", "machines", "calibration", "live", "compare"]
    {
        dashboard.get(&format!("/{name}/{page}")).expect(200, &["</html>"]);
    }
    dashboard.get(&format!("/{name}/@latest")).expect(404, &["contains no sessions yet"]);
    assert!(matches!(place, StorePlace::Server(_)) || !place.path().exists());
    // New measurements are visible without a restart.
    let project = project.with("g/one.fake", "case n=1\n* 1\n");
    project.run(&["run", "g", "-r", "2", "-q"]).expect_status(0);
    dashboard.follow(&format!("/{name}/@latest")).expect(200, &["g/one.fake"]);
}

/// A project with this many imported sessions of revisions on one branch.
pub fn long_project(sessions: u32, place: &StorePlace) -> TempProject {
    let project = TempProject::new().storing_in(place);
    let project = project.with("g/parse.fake", "case n=1\n* 1\n");
    let one = ["run", "g", "-r", "1", "--revision", "first", "--db", "one.db", "-q"];
    project.run(&one).expect_status(0);
    let exported = project.run(&["report", "--db", "one.db", "--export", "jsonl"]);
    let lines: Vec<Value> = (exported.expect_status(0).stdout.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut text = String::new();
    for session in 0..sessions {
        let mut head = lines[0].clone();
        head["id"] = json!(format!("01a2097a-0000-4000-8000-{session:012}"));
        head["started_unix_ms"] = json!(1_600_000_000_000_i64 + i64::from(session) * 86_400_000);
        head["origin"] = json!({
            "revision": format!("{:08x}{}", 7919 * (session + 1), "0".repeat(32)),
            "subject": format!("change {session} of </title><b>the parser"),
            "branch": "main",
            "source": "option",
        });
        writeln!(text, "{head}").unwrap();
        for line in &lines[1..] {
            let mut line = line.clone();
            let level = if session < 60 { 1000.0 } else { 930.0 };
            let noise = f64::from((session * 37) % 19) / 19.0;
            line["run"]["samples"][0]["value"] = json!(level + 10.0 * noise);
            writeln!(text, "{line}").unwrap();
        }
    }
    let project = project.with("all.jsonl", &text);
    project.run(&["import", "all.jsonl", "-q"]).expect_status(0);
    project
}

fn lists_are_shown_a_part_at_a_time_and_a_change_is_seen_everywhere(place: &StorePlace) {
    let project = long_project(120, place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let numbers = |path: &str| -> Vec<i64> {
        let found = dashboard.get(path).expect(200, &[]).json();
        let rows = found["sessions"].as_array().unwrap().iter();
        rows.map(|row| row["number"].as_i64().unwrap()).collect()
    };
    let first = numbers(&format!("/{name}/sessions.json"));
    assert_eq!(first, (71..=120).rev().collect::<Vec<_>>());
    let page = dashboard.get(&format!("/{name}/sessions"));
    page.expect(200, &["120 sessions", "sessions?before=71"]);
    let last = numbers(&format!("/{name}/sessions.json?before=21"));
    assert_eq!(last, (1..=20).rev().collect::<Vec<_>>());
    // The same change on the project's page, among the open ones, and in the trend of its case.
    for (path, verdict) in [
        ("", "▼ g/parse.fake n=1"),
        ("alerts", "▼ worse"),
        ("trend?case=g%2Fparse.fake%20n%3D1", "▼ worse"),
    ] {
        let page = dashboard.get(&format!("/{name}/{path}"));
        page.expect(200, &[verdict, "change 60 of &lt;/title&gt;", "<svg"]);
    }
    let changes = project.run(&["history", "changes", "--open", "--format", "json"]).json();
    let shown = dashboard.get(&format!("/{name}/alerts.json")).json();
    assert_eq!(shown["changes"], changes["changes"]);
}

/// The next event of a stream: its name and its data.
pub fn next_event(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> (String, String) {
    let mut name = String::new();
    for line in lines {
        let line = line.unwrap();
        if let Some(found) = line.strip_prefix("event: ") {
            name = found.to_owned();
        }
        if let Some(data) = line.strip_prefix("data: ") {
            return (name, data.to_owned());
        }
    }
    panic!("the stream ended after '{name}'");
}

/// Begins the session `watched` and records the runs of its first slots.
pub fn begin_watched(store: &mut Store, slots: u32) -> SessionRecorder<'_> {
    let mut recorder = store.begin_recording(&blank_session("watched"), "{}").unwrap();
    (0..slots).for_each(|slot| measure(&mut recorder, slot));
    recorder
}

/// Records a run, and that its slot is done.
pub fn measure(recorder: &mut SessionRecorder<'_>, slot: u32) {
    recorder.observe(&SessionEvent::RunFinished(&run(slot))).unwrap();
    recorder.observe(&SessionEvent::SlotsDone(&[slot])).unwrap();
}

fn a_session_is_watched_from_its_first_slot_to_its_last(place: &StorePlace) {
    let project = TempProject::new().storing_in(place);
    let mut store = place.open();
    let mut recorder = begin_watched(&mut store, 1);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    dashboard.get(&format!("/{name}/live")).expect(200, &["1 session is running", "watch @1"]);
    let live = format!("/{name}/sessions/watched/live");
    let page = dashboard.get(&live).expect(200, &["measuring: 1 run done", "len=0"]);
    assert!(!page.body.contains("len=1"), "nothing of what was not measured yet");
    let events = format!("/{name}/sessions/watched/events");
    let stream = dashboard.send("GET", &events, &dashboard.address);
    let mut lines = BufReader::new(stream).lines();
    let (event, data) = next_event(&mut lines);
    assert_eq!(event, "progress");
    // The title, what stands above the page, and the page are of one moment.
    let sent: Value = serde_json::from_str(&data).unwrap();
    let html = sent["html"].as_str().unwrap();
    let (head, body) = html.split_once("</head>").unwrap();
    let (_, title) = head.split_once("<title>").unwrap();
    assert!(title.contains("1 run done"), "{title}");
    assert!(body.contains("measuring: 1 run done"), "{body}");
    measure(&mut recorder, 1);
    while !next_event(&mut lines).1.contains("measuring: 2 runs done") {}
    recorder.observe(&SessionEvent::Finished { interrupted: false }).unwrap();
    while next_event(&mut lines).0 != "over" {}
    let reply = dashboard.get(&live);
    assert_eq!(reply.status, 303, "its report stands there now");
    drop(recorder);
    assert_eq!(store.load_session(1).unwrap().state, SessionState::Complete);
}

fn a_load_is_watched_while_it_lasts(place: &StorePlace) {
    let project = TempProject::new().storing_in(place);
    let mut store = place.open();
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let live = format!("/{name}/live");
    let idle = ["nothing is being measured", "speedwell run FILE --dashboard"];
    dashboard.get(&live).expect(200, &idle);
    let events = format!("/{name}/sessions/any/events");
    let stream = dashboard.send("GET", &events, &dashboard.address);
    let mut lines = BufReader::new(stream).lines();
    assert_eq!(next_event(&mut lines).0, "progress");
    let mut progress = LoadProgress {
        command: ["speedwell", "load", "http://localhost/<b>"].map(str::to_owned).into(),
        load: 1,
        elapsed_ms: 12_000,
        planned_ms: Some(30_000),
        rates: vec![9_000.0, 10_000.0],
        p99_ns: Some(2_000_000),
        ..LoadProgress::default()
    };
    let number = store.begin_load(&progress, 1_000).unwrap();
    let page = dashboard
        .get(&live)
        .expect(200, &["1 load is running", "12.0 s of 30.0 s (40%), 18.0 s left", "2.00 ms"]);
    assert!(!page.body.contains("/<b>"), "names are no markup");
    while !next_event(&mut lines).1.contains("18.0 s left") {}
    progress.elapsed_ms = 27_000;
    store.update_load(number, &progress, 2_000).unwrap();
    while !next_event(&mut lines).1.contains("3.0 s left") {}
    store.end_load(number).unwrap();
    while !next_event(&mut lines).1.contains("nothing is being measured") {}
}

/// This holds however clear the figures are, and however often the page is loaded.
fn a_verdict_is_shown_after_a_planned_look_and_not_before(place: &StorePlace) {
    let project = TempProject::new().storing_in(place);
    let mut store = place.open();
    let mut recorder = begin_watched(&mut store, 0);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let verdicts = || -> Vec<(String, String)> {
        let live = dashboard.get(&format!("/{name}/sessions/watched/live.json"));
        let live = live.expect(200, &[]).json();
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let rows = live["cases"].as_array().unwrap().iter();
        rows.map(|row| (text(row, "case"), text(row, "verdict"))).collect()
    };
    for slot in 0..96 {
        let mut run = run(slot);
        // Two runs of both sides of every case.
        run.block = slot / 12;
        // The new variant is a hundred times faster in every case.
        let level = if slot % 2 == 0 { 1.0 } else { 100.0 };
        run.samples[0].value = level + f64::from(slot) / 1000.0;
        recorder.observe(&SessionEvent::RunFinished(&run)).unwrap();
        recorder.observe(&SessionEvent::SlotsDone(&[slot])).unwrap();
        if slot % 24 == 23 {
            let early: Vec<_> = verdicts().into_iter().filter(|(_, v)| !v.is_empty()).collect();
            assert_eq!(early, [], "after slot {slot}");
        }
    }
    // Nor on the session's own page.
    let own = dashboard
        .follow(&format!("/{name}/sessions/watched"))
        .expect(200, &["@1 has not ended: no verdict yet", "buffers/fill.js"]);
    for word in ["▲ better", "▼ worse", "= same", "faster"] {
        assert!(!own.body.contains(word), "{word}: {own:?}");
    }
    let label = "buffers/fill.js len=1";
    recorder.observe(&SessionEvent::CaseDecided { label, saved: 4 }).unwrap();
    for (case, verdict) in verdicts() {
        let expected = if case == label { "better" } else { "" };
        assert_eq!(verdict, expected, "{case}");
    }
    let words = "@1 has not ended: no verdict yet";
    let sides = "compare?base=%401%5Bold%5D&with=%401%5Bnew%5D";
    for page in ["sessions/watched", sides] {
        let page = dashboard.get(&format!("/{name}/{page}"));
        let page = page.expect(200, &[words]);
        assert!(!page.body.contains("is faster than"), "{}", page.body);
    }
    for report in [&["report", "@1"][..], &["compare", "@1[old]", "@1[new]"]] {
        let shown = project.run(report).expect_status(0).expect_stdout(&[words]);
        assert!(!shown.stdout.contains("is faster than"), "{shown:?}");
        let gate = [report, &["--fail-on", "worse"]].concat();
        project.run(&gate).expect_status(2);
    }
}

/// A service that is stopped (SIGTERM) notifies its followers, and exits successfully.
#[test]
fn a_server_that_is_stopped_ends_its_streams() {
    let dashboard = TestDashboard::of(&TempProject::new());
    let name = dashboard.project();
    let events = format!("/{name}/sessions/any/events");
    let stream = dashboard.send("GET", &events, &dashboard.address);
    let mut lines = BufReader::new(stream).lines();
    assert_eq!(next_event(&mut lines).0, "progress");
    dashboard.signal(rustix::process::Signal::TERM);
    while next_event(&mut lines).0 != "stopped" {}
    assert_eq!(dashboard.wait(), Some(0));
}

#[test]
fn the_dashboard_of_a_run_stays_open_while_it_has_viewers() {
    let project = TempProject::new().with("g/one.fake", "case n=1\n* 1\n");
    let words = ["run", "g", "-r", "3", "--dashboard"];
    let dashboard = TestDashboard::of_command(project.command(&words), &words);
    let name = dashboard.project();
    dashboard.get("/").expect(303, &[]);
    // Whether still measured or finished by now: it is listed, and the page stays when it is
    // finished.
    loop {
        let sessions = dashboard.get(&format!("/{name}/sessions.json"));
        let sessions = sessions.expect(200, &[]).json();
        if sessions["sessions"][0]["state"] == "complete" {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    dashboard.follow(&format!("/{name}/@latest")).expect(200, &["g/one.fake"]);
    assert_eq!(dashboard.interrupt(), Some(0), "what was measured was over");
    // Without viewers it costs no time.
    let unseen = project.run(&["run", "g", "-r", "2", "--dashboard", "-q"]);
    unseen.expect_status(0).expect_stderr(&["the dashboard of"]);
}

/// Threat T13: requests that would take too long are rejected beforehand, and comparisons wait only
/// for each other.
fn expensive_questions_are_refused_or_wait_and_others_do_not(place: &StorePlace) {
    let project = project(place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    std::thread::scope(|scope| {
        let asked: Vec<_> = (1..=12)
            .map(|percent| {
                let path = format!("/{name}/compare?base=@1&with=@2&threshold={percent}%25");
                let dashboard = &dashboard;
                scope.spawn(move || dashboard.get_when_ready(&path).status)
            })
            .collect();
        for _ in 0..5 {
            dashboard.get(&format!("/{name}/sessions")).expect(200, &[]);
        }
        for status in asked {
            assert_eq!(status.join().unwrap(), 200);
        }
    });
    assert!(place.change("UPDATE session_case SET runs = 200001 WHERE session = 2") > 0);
    for page in ["@2", "compare?base=@1&with=@2"] {
        let reply = dashboard.follow(&format!("/{name}/{page}"));
        assert!((400..500).contains(&reply.status), "{page}: {reply:?}");
        assert!(reply.body.contains("runs on a page"), "{page}: {reply:?}");
    }
}
