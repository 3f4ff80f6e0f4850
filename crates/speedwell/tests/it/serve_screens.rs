//! The dashboard in a real browser: on narrow and wide screens, light and dark, with and without
//! scripts, by keyboard, and for screen readers.

use super::back_ends::StorePlace;
use super::browser::{BrowserPage, ScreenSize};
use super::dashboard::TestDashboard;
use super::serve::{long_project, pages, project};
use super::suite_projects::installed;
use serde_json::json;
use std::path::PathBuf;

fn screens() -> Vec<ScreenSize> {
    let mut all = Vec::new();
    for width in [1280, 360] {
        for dark in [false, true] {
            for scripts in [true, false] {
                all.push(ScreenSize { width, dark, scripts });
            }
        }
    }
    all
}

/// Logs in with all permissions.
fn log_in(page: &mut BrowserPage, dashboard: &TestDashboard, key: &str) {
    page.navigate_to(&format!("http://{}{key}", dashboard.address));
}

/// Pages that require a login, and the login page.
fn more_pages() -> [String; 2] {
    ["/settings".to_owned(), "/login".to_owned()]
}

#[test]
fn pages_fit_every_screen_and_load_nothing_from_elsewhere() {
    let place = StorePlace::file();
    let project = project(&place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let own = format!("http://{}/", dashboard.address);
    for screen in screens().into_iter().filter(|screen| !screen.dark) {
        let Some(mut page) = BrowserPage::at(&own, screen) else {
            return;
        };
        for path in pages(&name).into_iter().chain(more_pages()) {
            page.navigate_to(&format!("http://{}{path}", dashboard.address));
            for dark in [true, false] {
                page.emulate_media("screen", dark);
                page.expect_fit(screen.width, &path);
            }
            if screen.scripts {
                let images =
                    page.evaluate_script("document.querySelectorAll('img, iframe, b b').length");
                assert_eq!(images, 0, "{path}");
            }
        }
        // Without permission the settings page is a 401, about which the browser complains.
        page.complaints.retain(|complaint| !complaint.contains("401"));
        assert_eq!(page.complaints, [] as [&str; 0]);
        let foreign: Vec<&String> =
            (page.requests.iter()).filter(|request| !request.starts_with(&own)).collect();
        assert!(foreign.is_empty(), "{foreign:?}");
    }
}

/// The text of a page without what scripts add to it.
pub const TEXT: &str = "[...document.querySelectorAll('main h1, main h2, main td, main th, main p, main li')]\
    .map(e => e.textContent.trim()).filter(t => t).join('\\n')";

/// axe-core, if it is installed.
fn axe() -> Option<String> {
    let file = installed("axe/node_modules/axe-core/axe.min.js");
    file.and_then(|file| std::fs::read_to_string(file).ok())
}

/// Names, contrasts and structure by the rules of axe-core (WCAG 2.2 A and AA, and its best
/// practices): both themes, both widths. Every page as the first visitor, and the protected ones as
/// the second.
#[test]
fn no_page_breaks_a_rule_of_accessibility() {
    let screen = |width, dark| ScreenSize { width, dark, scripts: true };
    no_rule_is_broken_on(&[screen(1280, false), screen(360, true)]);
}

/// Checks the rules on every screen, with and without scripts.
#[test]
#[ignore = "eight screens: two minutes"]
fn no_page_breaks_a_rule_of_accessibility_on_any_screen() {
    no_rule_is_broken_on(&screens());
}

fn no_rule_is_broken_on(screens: &[ScreenSize]) {
    let Some(axe) = axe() else { return };
    let place = StorePlace::file();
    let project = project(&place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let own = format!("http://{}/", dashboard.address);
    let mut broken = Vec::new();
    for (at, screen) in screens.iter().enumerate() {
        let Some(mut page) = BrowserPage::at(&own, *screen) else {
            return;
        };
        // The key works once, for the first visitor.
        if at == 0 {
            log_in(&mut page, &dashboard, &dashboard.key);
        }
        for path in pages(&name).into_iter().chain(more_pages()) {
            page.scripts(screen.scripts);
            page.navigate_to(&format!("http://{}{path}", dashboard.address));
            // The check is a script as well, which starts after those of the page would have.
            page.scripts(true);
            page.evaluate_script(&format!("{axe}; undefined"));
            let found = page.evaluate_script(
                "axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.flatMap(v => \
                 v.nodes.slice(0, 3).map(n => v.id + ' at ' + n.target.join(' ') + ': ' + n.failureSummary)))",
            );
            for violation in found.as_array().unwrap() {
                broken.push(format!("{screen:?} {path}: {violation}"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn keyboard_shortcuts_navigate_as_documented() {
    let place = StorePlace::file();
    let project = project(&place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let url = format!("http://{}/{name}/sessions", dashboard.address);
    let Some(mut page) = BrowserPage::at(&url, ScreenSize::default()) else {
        return;
    };
    for (key, place) in [
        ("s", "sessions"),
        ("t", "trend"),
        ("c", "compare"),
        ("a", "changes"),
        ("m", "machines"),
        ("l", "live"),
        ("b", "benchmarks"),
    ] {
        if place == "live" {
            // It is followed while it is shown.
            continue;
        }
        let loads = page.loads;
        page.press("g", "g", 0);
        page.press(key, key, 0);
        page.wait_for_load(loads);
        let path = format!("/{name}/{place}");
        assert_eq!(page.evaluate_script("location.pathname"), path.as_str(), "g {key}");
    }
    page.press("?", "?", 0);
    page.wait_until("document.querySelector('dialog').open");
    page.press("Escape", "", 27);
    page.wait_until("!document.querySelector('dialog[open]')");
    page.navigate_to(&url);
    for key in ["j", "j", "k"] {
        page.press(key, key, 0);
    }
    let loads = page.loads;
    page.press("Enter", "\r", 13);
    page.wait_for_load(loads);
    let there = page.evaluate_script("location.pathname").as_str().unwrap().to_owned();
    assert!(there.starts_with(&format!("/{name}/sessions/")), "{there}");
}

#[test]
fn the_back_button_restores_the_filters() {
    let place = StorePlace::file();
    let project = project(&place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let filtered = format!("http://{}/{name}/sessions?branch=main", dashboard.address);
    let Some(mut page) = BrowserPage::at(&filtered, ScreenSize::default()) else {
        return;
    };
    let before = page.evaluate_script(TEXT);
    page.navigate_to(&format!("http://{}/{name}/machines", dashboard.address));
    page.go_back_to(&filtered);
    assert_eq!(page.evaluate_script("document.querySelector('[name=branch]').value"), "main");
    assert_eq!(page.evaluate_script(TEXT), before);
}

/// Pages to take pictures of.
const PICTURED: [&str; 24] = [
    "/",
    "/login",
    "/settings",
    "/P/",
    "/P/sessions",
    "/P/@latest",
    "/P/@1",
    "/P/benchmarks",
    "/P/benchmarks/g/parse.fake",
    "/P/trend",
    "/P/trend?case=g%2Fparse.fake+n%3D1",
    "/P/compare",
    "/P/compare?base=@120&with=@121",
    "/P/compare?base=@121",
    "/P/revisions/feed",
    "/P/branches/main",
    "/P/machines",
    "/P/machines/1",
    "/P/calibration",
    "/P/changes",
    "/P/live",
    "/P/search?q=parse",
    "/P/nothing",
    "/P/pulls/7",
];

/// Takes pictures of all pages for people, because no test detects what is ugly: at 1280 and 360
/// pixels, light and dark, with and without scripts. The folder must exist.
#[test]
#[ignore = "it makes pictures for people, in the folder SPEEDWELL_PICTURES"]
fn every_page_is_saved_as_a_screenshot() {
    let folder = PathBuf::from(std::env::var_os("SPEEDWELL_PICTURES").expect("a folder"));
    let place = StorePlace::file();
    let project = long_project(120, &place);
    let project = project.with(
        "bench/strings/decode.fake",
        "case len=16\nold 100 101 99\nnew 120 121 119\ncase len=64\n* 7 8 7\n",
    );
    let words = "run bench --variant old= --variant new= --runs 8 --branch main --revision feed -q";
    let words: Vec<&str> = words.split(' ').collect();
    project.run(&words).expect_status(0);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let cookie = dashboard.get(&dashboard.key).field("set-cookie").unwrap();
    let (cookie, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
    let own = format!("http://{}/", dashboard.address);
    for screen in screens() {
        let Some(mut page) = BrowserPage::at(&own, screen) else {
            return;
        };
        page.send(
            "Network.setCookie",
            json!({"url": own, "name": cookie, "value": value, "httpOnly": true}),
        );
        for path in PICTURED {
            let path = path.replacen("/P/", &format!("/{name}/"), 1);
            page.navigate_to(&format!("http://{}{path}", dashboard.address));
            let (_, height) = page.size();
            let letters =
                path.replace(&name, "P").replace(|c: char| !c.is_ascii_alphanumeric(), "_");
            let theme = if screen.dark { "dark" } else { "light" };
            let scripts = if screen.scripts { "script" } else { "plain" };
            let file = format!("{letters}-{}-{theme}-{scripts}.png", screen.width);
            let picture = page.picture(screen.width, height.min(4000));
            std::fs::write(folder.join(file), picture).unwrap();
        }
    }
}

#[test]
fn two_sessions_are_chosen_and_compared_by_keys_alone() {
    let place = StorePlace::file();
    let project = project(&place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let url = format!("http://{}/{name}/sessions", dashboard.address);
    let Some(mut page) = BrowserPage::at(&url, ScreenSize::default()) else {
        return;
    };
    for key in ["j", "x", "j", "x"] {
        page.press(key, key, 0);
    }
    let chosen = "[...document.querySelectorAll('.choice input:checked')].map(e => e.value)";
    assert_eq!(page.evaluate_script(chosen), json!(["@3", "@2"]));
    let loads = page.loads;
    page.press("c", "c", 0);
    page.wait_for_load(loads);
    assert_eq!(page.evaluate_script("location.search"), "?base=@2&with=@3");
    let loads = page.loads;
    page.press("g", "g", 0);
    page.press("b", "b", 0);
    page.wait_for_load(loads);
    let path = format!("/{name}/benchmarks");
    assert_eq!(page.evaluate_script("location.pathname"), path.as_str());
    page.press("/", "/", 0);
    page.wait_until("document.activeElement.name === 'q'");
}
