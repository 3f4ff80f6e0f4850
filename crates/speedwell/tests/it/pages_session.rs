//! The pages of sessions and comparisons: the answer and its circumstances first, filters and charts
//! in the table, with and without scripts.

use super::back_ends::{StorePlace, on_both};
use super::browser::{BrowserPage, ScreenSize, VISIBLE_ROWS};
use super::dashboard::TestDashboard;
use super::project::TempProject;
use serde_json::json;

on_both! {
    a_session_page_names_what_was_measured_and_what_it_can_be_compared_with
    rows_are_sorted_by_change_in_every_format
}

/// Two cases are better and one is worse.
const CASES: &str = "case n=1
old 100 101 99 100.5 99.5 100.2 99.8 100.1
new 120 121 119 120.5 119.5 120.2 119.8 120.1
case n=2
old 300 301 299 300.5 299.5 300.2 299.8 300.1
new 270 271 269 270.5 269.5 270.2 269.8 270.1
case n=3
old 200 201 199 200.5 199.5 200.2 199.8 200.1
new 260 261 259 260.5 259.5 260.2 259.8 260.1
";
const REVISION: &str = "aaaabbbbccccddddeeeeffff0000111122223333";

/// Sessions 1 and 3 measured the same cases, session 2 measured another one.
fn project(place: &StorePlace) -> TempProject {
    let project = TempProject::new().storing_in(place);
    let project = project.with("g/sizes.fake", CASES).with("h/other.fake", CASES);
    for (folder, seed) in [("g", "1"), ("h", "2"), ("g", "3")] {
        let words = ["run", folder, "--variant", "old=", "--variant", "new=", "--runs", "8"];
        let origin = ["--seed", seed, "--revision", REVISION, "--branch", "main", "-q"];
        project.run(&[&words[..], &origin].concat()).expect_status(0);
    }
    project
}

fn a_session_page_names_what_was_measured_and_what_it_can_be_compared_with(place: &StorePlace) {
    let project = project(place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let page = dashboard.follow(&format!("/{name}/@3"));
    let page = page.expect(
        200,
        &[
            "2 of 3 cases faster, 1 slower",
            "<h1 class=\"bad\">",
            "<span class=\"what\">g/sizes.fake</span>",
            &format!("<a href=\"/{name}/revisions/{REVISION}\">aaaabbbbcc</a>"),
            &format!("<a href=\"/{name}/branches/main\">main</a>"),
            "<time datetime=\"20",
            "--runs 8",
            &format!("<a href=\"/{name}/@1\">← previous comparable: @1</a>"),
            "all 3",
            "worse 1",
            "better 2",
            &format!("href=\"/{name}/trend?case="),
        ],
    );
    let head = page.body.split("<main").next().unwrap();
    assert!(!head.contains("@2"), "session 2 has no case in common: {head}");
    assert!(!head.contains("next comparable"), "{head}");
    let charts = page.body.matches("<tr class=\"charts-of\"").count();
    assert_eq!(charts, 3, "every case has its charts below its row");
    let compared = dashboard.get(&format!("/{name}/compare?base=@1&with=@3"));
    compared.expect(200, &["baseline: @1", "@3", &format!("/{name}/branches/main")]);
    let other = dashboard.follow(&format!("/{name}/@2")).expect(200, &["h/other.fake"]);
    assert!(!other.body.contains("comparable:"), "{}", other.body);
}

fn rows_are_sorted_by_change_in_every_format(place: &StorePlace) {
    let project = project(place);
    let dashboard = TestDashboard::of(&project);
    let session = dashboard.get(&format!("/{}/@3", dashboard.project())).field("location").unwrap();
    let names = |query: &str| -> Vec<String> {
        let data = dashboard.get(&format!("{session}.json{query}")).expect(200, &[]).json();
        let rows = data["changes"].as_array().unwrap().iter();
        rows.map(|row| row["case"].as_str().unwrap().replace("g/sizes.fake ", "")).collect()
    };
    assert_eq!(names(""), ["n=1", "n=2", "n=3"]);
    assert_eq!(names("?sort=change"), ["n=3", "n=1", "n=2"]);
    let sorted = dashboard.get(&format!("{session}?sort=change"));
    sorted.expect(200, &[&format!("<a href=\"{session}\">sort as measured</a>")]);
    dashboard.get(&session).expect(200, &[&format!("href=\"{session}?sort=change\"")]);
    dashboard.get(&format!("{session}?sort=size")).expect(400, &["unknown order"]);
    // Other formats keep the columns of both sides.
    let csv = dashboard.get(&format!("{session}.csv")).expect(200, &[]).body;
    assert!(csv.contains("baseline_median") && csv.contains("candidate_median"), "{csv}");
}

#[test]
fn rows_are_filtered_and_opened_with_and_without_scripts() {
    let place = StorePlace::file();
    let project = project(&place);
    let dashboard = TestDashboard::of(&project);
    let session = dashboard.get(&format!("/{}/@3", dashboard.project())).field("location").unwrap();
    let address = format!("http://{}{session}", dashboard.address);
    for screen in [
        ScreenSize::default(),
        ScreenSize { width: 390, dark: true, scripts: false },
        ScreenSize { width: 390, ..ScreenSize::default() },
        ScreenSize { scripts: false, ..ScreenSize::default() },
    ] {
        let Some(mut page) = BrowserPage::at(&address, screen) else {
            return;
        };
        let rows = json!(["g/sizes.fake n=1", "g/sizes.fake n=2", "g/sizes.fake n=3"]);
        assert_eq!(page.evaluate_script(VISIBLE_ROWS), rows, "{screen:?}");
        page.click(".tally [data-v=worse] label");
        page.wait_until(&format!("({VISIBLE_ROWS}).join() === 'g/sizes.fake n=2'"));
        let summaries = "[...document.querySelectorAll('.charts-of summary')]\
                         .filter(s => s.getClientRects().length).length";
        assert_eq!(page.evaluate_script(summaries), 1, "the charts of other rows are hidden, too");
        page.click(".tally [data-v=''] label");
        page.wait_until(&format!("({VISIBLE_ROWS}).length === 3"));
        page.click("#case-0 summary");
        page.wait_until("document.querySelector('#case-0').open");
        let link = page.evaluate_script("document.querySelector('#case-0 p a').textContent");
        assert_eq!(link, "history of this case");
        let drawn = page.evaluate_script(
            "[...document.querySelectorAll('#case-0 svg')].filter(s => s.getClientRects().length)\
             .map(s => s.getBoundingClientRect().width / document.querySelector('main').clientWidth)",
        );
        let shares = drawn.as_array().unwrap();
        let share = shares[0].as_f64().unwrap();
        assert!(shares.len() == 1 && share > 0.85 && share <= 1.0, "{screen:?}: {drawn}");
        let letters = page.evaluate_script(
            "Math.min(...[...document.querySelectorAll('#case-0 svg text')]\
             .filter(t => t.getClientRects().length).map(t => {\
             const svg = t.ownerSVGElement; \
             return parseFloat(getComputedStyle(t).fontSize) * svg.getScreenCTM().a; }))",
        );
        assert!(letters.as_f64().unwrap() >= 9.0, "{screen:?}: letters of {letters} pixels");
        page.expect_fit(screen.width, &format!("{screen:?}"));
        if screen.scripts {
            let time =
                page.evaluate_script("document.querySelector('.session-line time').textContent");
            assert!(time.as_str().unwrap().ends_with(" ago"), "{time}");
            let button = "document.querySelector('.masthead .copy').textContent";
            assert_eq!(page.evaluate_script(button), "Copy command");
        } else {
            let made_by =
                "document.querySelector('.made-by code').textContent.includes('--runs 8')";
            assert_eq!(page.evaluate_script(made_by), true);
        }
        assert_eq!(page.complaints, [] as [&str; 0], "{screen:?}");
    }
}
