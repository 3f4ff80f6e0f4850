//! The home page of a project, and the list of its series: what one sees in the morning.

use super::back_ends::{StorePlace, on_both};
use super::browser::{BrowserPage, ScreenSize};
use super::dashboard::TestDashboard;
use super::project::TempProject;
use super::serve::begin_watched;
use serde_json::json;
use speedwell_analysis as analysis;
use speedwell_fixtures::FakeSession;
use speedwell_machine::process::unix_time_ms;
use speedwell_model::{CodeOrigin, Session, SessionState};
use speedwell_store::Store;

on_both! {
    a_morning_is_seen_at_a_glance
    many_series_are_grouped_and_folded
}

const DAY_MS: i64 = 86_400_000;
const SERIES: u32 = 25;

/// Stores the session of a nightly job that many days ago. 20 days ago, the first case became 10%
/// slower.
fn insert_night(store: &mut Store, days_ago: u32) {
    let mut fake = FakeSession::with_fixed_blocks(&["default"], 1).lower_is_better();
    for case in 0..SERIES {
        let factor = if case == 0 && days_ago <= 20 { 1.1 } else { 1.0 };
        let noise = 1.0 + 0.001 * f64::from((days_ago * 7 + case * 3) % 11);
        fake = fake.add_case(&format!("core/case{case} n=1"), move |_, _| 1000.0 * noise * factor);
    }
    let mut session: Session = fake.build();
    session.id = format!("night-{days_ago}");
    session.state = SessionState::Complete;
    session.started_unix_ms = unix_time_ms() - i64::from(days_ago) * DAY_MS - 3_600_000;
    session.tags = vec!["nightly".into()];
    session.environment.machine = Some("ci-2".into());
    session.origin = Some(CodeOrigin {
        revision: format!("{:040x}", 100 - days_ago),
        parents: vec![format!("{:040x}", 99 - days_ago)],
        branch: Some("main".into()),
        subject: Some("handle <b>escapes".into()),
        author: Some("Ada <b>".into()),
        committed_unix_ms: Some(session.started_unix_ms),
        ..CodeOrigin::default()
    });
    let number = store.insert_session(&session).unwrap();
    store.store_points(number, &analysis::session_points(&session)).unwrap();
}

/// Stores a session of today without an origin.
fn insert_today(store: &mut Store, id: &str, state: SessionState, command: &[&str]) {
    let fake = FakeSession::with_fixed_blocks(&["default"], 1);
    let mut session: Session = fake.add_case("core/case0 n=1", |_, _| 1000.0).build();
    session.id = id.to_owned();
    session.state = state;
    session.started_unix_ms = unix_time_ms() - 60_000;
    session.command = command.iter().map(|word| (*word).to_owned()).collect();
    store.insert_session(&session).unwrap();
}

/// Stores 40 nights, the last of them 4 days ago, and two sessions of today.
fn morning(place: &StorePlace) -> TempProject {
    let project = TempProject::new().storing_in(place);
    let mut store = place.open();
    for days_ago in (4..44).rev() {
        insert_night(&mut store, days_ago);
    }
    insert_today(&mut store, "stopped", SessionState::Interrupted, &["speedwell", "run", "g"]);
    let load = ["speedwell", "load", "http://localhost/"];
    insert_today(&mut store, "load", SessionState::Complete, &load);
    project
}

fn a_morning_is_seen_at_a_glance(place: &StorePlace) {
    let project = morning(place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let start = dashboard.get("/").expect(303, &[]);
    assert_eq!(start.field("location").unwrap(), format!("/{name}/"));
    let benchmarks = format!("/{name}/benchmarks");
    dashboard.get_when_ready(&benchmarks).expect(200, &["25 benchmarks"]);
    let page = dashboard.get_when_ready(&format!("/{name}/")).expect(
        200,
        &[
            " / all branches</h1>",
            "1 open change · 1 failed",
            "▼ core/case0 n=1",
            "handle &lt;b&gt;escapes",
            "Ada &lt;b&gt;",
            "2 sessions",
            "@41 failed",
            "! nightly/ci-2 silent for 4 d",
            "none ≥ ",
            "load core/case0: 1",
        ],
    );
    assert!(!page.body.contains("<b>") && !page.body.contains(" style="), "{}", page.body);
    assert_eq!(page.body.matches("class=\"mini\"").count(), SERIES as usize);
    let filtered = dashboard.get(&format!("/{name}/?filter=case7+CORE"));
    let filtered = filtered.expect(200, &["core/case7"]);
    assert_eq!(filtered.body.matches("class=\"mini\"").count(), 1);
    dashboard.get(&format!("/{name}/?filter=none")).expect(200, &["no benchmark matches"]);
    let branch = dashboard.get(&format!("/{name}/?branch=main"));
    branch.expect(200, &[" / main</h1>", "1 open change", "n%3D1&amp;branch=main"]);
    assert_eq!(dashboard.get(&format!("/{name}/?branch=none")).status, 404);
    let data = dashboard.get(&format!("/{name}/index.json")).expect(200, &[]).json();
    assert_eq!(data["series"].as_array().unwrap().len(), SERIES as usize);
    assert_eq!(data["series"][0]["case"], "core/case0 n=1", "changed ones first");
    assert_eq!(data["open_changes"][0]["author"], "Ada <b>");
    let kinds: Vec<&str> = (data["arrivals"].as_array().unwrap().iter())
        .map(|row| row["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["sessions", "failed", "silent"]);
    // The list of series suggests what the store contains.
    let suggestion = "<option value=\"core/case24 n=1\">";
    let list = dashboard.get(&format!("/{name}/trend?metric=&from="));
    let list =
        list.expect(200, &["25 series on all branches, 1 change open", "<datalist", suggestion]);
    assert_eq!(list.body.matches("class=\"mini\"").count(), SERIES as usize);
    // All pages show the number of changes, also those cached before, and keep it when the store
    // changes.
    dashboard.get(&benchmarks).expect(200, &[">Changes 1</a>"]);
    place.open().tag_session(1, "seen").unwrap();
    dashboard.get(&benchmarks).expect(200, &[">Changes 1</a>"]);
}

fn many_series_are_grouped_and_folded(place: &StorePlace) {
    let project = TempProject::new().storing_in(place);
    let mut store = place.open();
    let mut fake = FakeSession::with_fixed_blocks(&["default"], 1);
    for case in 0..500 {
        fake = fake.add_case(&format!("g{}/case{case} n=1", case % 10), |_, _| 1000.0);
    }
    let mut session = Session { state: SessionState::Complete, ..fake.build() };
    session.origin = Some(CodeOrigin {
        revision: "a".repeat(40),
        branch: Some("main".into()),
        ..CodeOrigin::default()
    });
    let number = store.insert_session(&session).unwrap();
    store.store_points(number, &analysis::session_points(&session)).unwrap();
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    for path in ["", "trend"] {
        let page = dashboard.get_when_ready(&format!("/{name}/{path}"));
        let page = page.expect(200, &["<summary>g7: 50 benchmarks, no change</summary>"]);
        let folds = |open: &str| page.body.matches(&format!("class=\"fold\"{open}>")).count();
        assert_eq!((folds(""), folds(" open")), (10, 0), "{path}");
        assert!(page.body.len() < 1_000_000, "{}", page.body.len());
    }
    let filtered = dashboard.get(&format!("/{name}/?filter=g7"));
    assert_eq!(filtered.expect(200, &[]).body.matches("class=\"mini\"").count(), 50);
}

/// The bottom of the last series, in pixels.
const LAST_ROW: &str = "Math.max(...[...document.querySelectorAll('[id^=series-] tr.row')]\
    .map(row => row.getBoundingClientRect().bottom))";
/// The names of the visible series.
const VISIBLE: &str = "[...document.querySelectorAll('[id^=series-] tr.row:not([hidden]) > th')]\
    .map(e => e.textContent)";
/// The smallest text of the page, in pixels.
const SMALLEST_TEXT: &str = "Math.min(...[...document.querySelectorAll('main *, header *')]\
    .filter(e => e.children.length === 0 && e.textContent.trim() && e.getClientRects().length)\
    .map(e => parseFloat(getComputedStyle(e).fontSize)))";

#[test]
fn the_home_page_fits_on_a_screen_and_filters_while_one_types() {
    let place = StorePlace::file();
    let project = morning(&place);
    let mut store = place.open();
    let _recorder = begin_watched(&mut store, 1);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let url = format!("http://{}/", dashboard.address);
    let home = format!("{url}{name}/");
    dashboard.get_when_ready(&format!("/{name}/")).expect(200, &["● 1 live", "● @43", "1 run"]);
    for dark in [false, true] {
        let wide = ScreenSize { width: 1280, dark, scripts: true };
        let Some(mut page) = BrowserPage::at(&url, wide) else {
            return;
        };
        assert_eq!(page.evaluate_script("location.href"), home.as_str());
        let bottom = page.evaluate_script(LAST_ROW).as_f64().unwrap();
        assert!(bottom <= 800.0, "the last of {SERIES} series ends at {bottom}");
        let names = page.evaluate_script(VISIBLE);
        assert_eq!(names.as_array().unwrap().len(), SERIES as usize);
        page.click("[name=filter]");
        page.write("case7 core");
        page.wait_until(&format!("{VISIBLE}.length === 1"));
        assert_eq!(page.evaluate_script(VISIBLE), json!(["core/case7 n=1"]));
        let count = "document.querySelector('.filters output').textContent";
        assert_eq!(page.evaluate_script(count), "1 of 25");
        // Sorting keeps the filter.
        page.click("[id^=series-] thead [data-k=value] button");
        page.wait_until(
            "document.querySelector('[id^=series-] [data-k=value]').getAttribute('aria-sort') === 'descending'",
        );
        page.wait_until(&format!("{VISIBLE}.length === 1"));
        page.navigate_to(&home);
        page.click_and_load("[id^=running-] td:last-child a");
        let live = format!("/{name}/sessions/watched/live");
        assert_eq!(page.evaluate_script("location.pathname"), live.as_str());
        page.navigate_to(&format!("{home}trend"));
        page.click_and_load("[id^=series-] tr.row th a");
        assert_eq!(page.evaluate_script("location.search"), "?case=core%2Fcase0%20n%3D1");
        assert_eq!(page.complaints, [] as [&str; 0]);
    }
    for scripts in [true, false] {
        let narrow = ScreenSize { width: 390, dark: !scripts, scripts };
        let Some(mut page) = BrowserPage::at(&home, narrow) else {
            return;
        };
        for path in ["", "trend"] {
            page.navigate_to(&format!("{home}{path}"));
            page.expect_fit(narrow.width, &format!("'{path}'"));
            if scripts {
                let smallest = page.evaluate_script(SMALLEST_TEXT).as_f64().unwrap();
                assert!(smallest >= 9.0, "'{path}' has text of {smallest} px");
            }
        }
        assert_eq!(page.complaints, [] as [&str; 0]);
    }
}
