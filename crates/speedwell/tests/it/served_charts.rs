//! Sessions of many cases on the dashboard: a small page, and charts that are fetched when they are
//! opened.

use super::browser::{BrowserPage, ScreenSize};
use super::dashboard::TestDashboard;
use super::project::TempProject;
use std::collections::BTreeSet;
use std::fmt::Write;

/// One more than in two parts.
const CASES: usize = 101;

/// A session of that many cases.
fn project(cases: usize) -> TempProject {
    let mut text = String::new();
    for case in 0..cases {
        let _ = writeln!(text, "case n={case}");
        for (variant, first) in [("old", 100), ("new", 103)] {
            let values = (0..4).map(|run| format!("{}.{run}", first + case));
            let _ = writeln!(text, "{variant} {}", values.collect::<Vec<_>>().join(" "));
        }
    }
    let project = TempProject::new().with("g/many.fake", &text);
    let words = ["--variant", "old=", "--variant", "new=", "--runs", "4", "-q"];
    project.run(&[&["run", "g"], &words[..]].concat()).expect_status(0);
    project
}

/// All texts between two delimiters.
fn between<'t>(text: &'t str, before: &str, after: &str) -> Vec<&'t str> {
    text.split(before).skip(1).filter_map(|rest| Some(rest.split_once(after)?.0)).collect()
}

/// The URL of the only session.
fn session(dashboard: &TestDashboard) -> String {
    let reply = dashboard.get(&format!("/{}/@1", dashboard.project()));
    reply.field("location").unwrap()
}

#[test]
fn every_case_has_one_chart_and_a_row_that_links_to_it() {
    let project = project(CASES);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    for (whole, query) in [
        (session(&dashboard), "?charts="),
        (format!("/{name}/compare?base=@1&threshold=5%25"), "?base=@1&threshold=5%25&charts="),
    ] {
        let page = dashboard.get(&whole).expect(200, &["Every run"]).body;
        assert!(!page.contains("class=\"case\""), "no chart is on the page");
        let query = query.replace('&', "&amp;");
        let list = between(&page, "<ul class=\"parts\">", "</ul>");
        let parts = between(list[0], "href=\"", "\"");
        let expected: Vec<String> = (1..=3).map(|part| format!("{query}{part}")).collect();
        assert_eq!(parts, expected);
        let mut rows = BTreeSet::new();
        for link in between(&page, &format!("<a href=\"{query}"), "\"") {
            if let Some((part, anchor)) = link.split_once('#') {
                rows.insert((part.to_owned(), anchor.to_owned()));
            }
        }
        assert_eq!(rows.len(), CASES);
        let mut charts = BTreeSet::new();
        for (number, part) in parts.iter().enumerate() {
            let path = whole.split('?').next().unwrap();
            let part = format!("{path}{}", part.replace("&amp;", "&"));
            let part = dashboard.get(&part).expect(200, &["</html>"]).body;
            let anchors = between(&part, "<article class=\"case\" id=\"", "\"");
            let drawn = part.matches("<svg width=\"350\"").count();
            assert_eq!(drawn, anchors.len(), "once for all screens, legible on phones");
            let number = (number + 1).to_string();
            charts.extend(anchors.into_iter().map(|case| (number.clone(), case.to_owned())));
        }
        assert_eq!(charts, rows);
    }
}

#[test]
fn only_split_pages_accept_the_charts_parameter() {
    let project = project(CASES);
    let dashboard = TestDashboard::of(&project);
    let page = session(&dashboard);
    let part = |number: &str| dashboard.get(&format!("{page}?charts={number}"));
    part("2").expect(200, &["cases 51 to 100 of 101", "← cases 1 to 50", "case 101 →"]);
    part("4").expect(404, &["charts ranges from 1 to 3"]);
    part("0").expect(404, &[]);
    part("-1").expect(404, &[]);
    part("all").expect(400, &["expected a number"]);
    dashboard.get(&format!("{page}.json?charts=1")).expect(400, &["this format is not split"]);
    let name = dashboard.project();
    for without in ["sessions", "machines", "trend"] {
        dashboard.get(&format!("/{name}/{without}?charts=1")).expect(400, &["unknown parameter"]);
    }
    // A self-contained file has all of them inside.
    let file = dashboard.get(&format!("{page}.html")).expect(200, &[]).body;
    assert_eq!(file.matches("<details class=\"case\"").count(), CASES);
    assert!(!file.contains("charts="));
}

#[test]
fn charts_are_fetched_when_their_part_or_row_is_opened() {
    let project = project(CASES);
    let dashboard = TestDashboard::of(&project);
    let own = format!("http://{}", dashboard.address);
    let whole = format!("{own}{}", session(&dashboard));
    let Some(mut page) = BrowserPage::at(&whole, ScreenSize::default()) else {
        return;
    };
    let count = |what: &str| format!("document.querySelectorAll('{what}').length");
    assert_eq!(page.evaluate_script(&count("details.part")), 3);
    assert_eq!(page.evaluate_script(&count(".case")), 0);
    let before = page.requests.len();
    page.evaluate_script("document.querySelector('.more[aria-label$=\"n=70\"]').click()");
    page.wait_until(&format!("{} === 1", count("tr.inset svg")));
    page.evaluate_script("document.querySelectorAll('details.part')[1].open = true");
    page.wait_until(&format!("{} === 50", count("article.case svg")));
    assert_eq!(page.evaluate_script(&count("#case-70 svg")), 1);
    let twice = "(() => { const all = [...document.querySelectorAll('[id]')].map(e => e.id); \
                 return all.length - new Set(all).size; })()";
    assert_eq!(page.evaluate_script(twice), 0, "no id is given twice");
    let fetched = &page.requests[before..];
    assert_eq!(fetched, [format!("{whole}?charts=2")], "once, and nothing else");
    // Filtering the table filters the charts.
    page.evaluate_script(
        "(() => { const box = document.querySelector('.tools > input'); box.value = 'n=70'; \
         box.dispatchEvent(new Event('input')); })()",
    );
    assert_eq!(page.evaluate_script(&count("article.case:not([hidden])")), 1);
    // The server is gone: the link remains.
    drop(dashboard);
    page.evaluate_script("document.querySelectorAll('details.part')[2].open = true");
    page.wait_until(&format!("{} === 1", count("details.part a")));
    page.complaints.retain(|said| !said.contains("ERR_CONNECTION"));
    assert_eq!(page.complaints, [] as [&str; 0]);
}
