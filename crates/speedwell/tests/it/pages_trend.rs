//! The page about the trend of a case: its title, the sections of its changes, and its chart by
//! mouse, touch and keyboard, with and without scripts, on wide and narrow screens.

use super::back_ends::StorePlace;
use super::browser::{BrowserPage, SEEN, ScreenSize};
use super::dashboard::TestDashboard;
use super::serve::long_project;
use serde_json::{Value, json};

/// The query of the only case of a long project.
const CASE: &str = "case=g%2Fparse.fake%20n%3D1";
/// The text of the tooltip, if it is shown.
const TIP: &str = "document.querySelector('.tip:not([hidden])')?.textContent ?? ''";

#[test]
fn the_page_of_a_case_names_its_change_and_the_next_steps() {
    let place = StorePlace::file();
    let project = long_project(120, &place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let page = |path: &str| dashboard.get(&format!("/{name}/{path}"));
    page(&format!("trend?{CASE}")).expect(
        200,
        &[
            "<h1>g/parse.fake n=1",
            "change 60 of &lt;/title&gt;&lt;b&gt;the parser</h1>",
            "▼ worse ~-",
            "compare?base=@60&amp;with=@61\">before and after</a>",
            "speedwell bisect --change 1</code>",
            "<input type=\"hidden\" name=\"case\" value=\"g/parse.fake n=1\">",
            "<summary>120 points</summary>",
            "The newest 100 of 120 points",
            "<input type=\"checkbox\" name=\"of\" value=\"@120\"",
            &format!("trend.svg?{CASE}\">chart as SVG</a>"),
        ],
    );
    // The title belongs to the whole series, and the rest to the part that is shown.
    let part = page(&format!("trend?{CASE}&from=2020-10-01&to=2020-10-20")).expect(
        200,
        &["change 60 of", "<summary>20 points</summary>", "whole history", "value=\"2020-10-01\""],
    );
    assert!(!part.body.contains("before and after"), "the change is not in this part");
    page(&format!("trend?{CASE}&from=2031-01-01")).expect(200, &["No point has these properties"]);

    let picture = page(&format!("trend.svg?{CASE}&space=time")).expect(200, &["<svg", "2020-10"]);
    assert_eq!(picture.field("content-type").unwrap(), "image/svg+xml");
    page("machines.svg").expect(404, &["this page has no chart"]);
    let points = page(&format!("trend.json?{CASE}")).json()["points"].take();
    assert_eq!(points.as_array().unwrap().len(), 120);

    let file = page(&format!("trend.html?{CASE}"));
    file.expect(200, &["data-revision", "data-session=\"@17\""]);

    // A judged change stays on the page.
    let words = ["history", "triage", "1", "accepted", "--note", "costs 2%"];
    project.run(&words).expect_status(0);
    page(&format!("trend?{CASE}")).expect(200, &["▼ worse ~-", "accepted: costs 2%"]);
}

/// The center of an element on the screen.
fn center(page: &mut BrowserPage, selector: &str) -> [f64; 2] {
    let center = page.evaluate_script(&format!(
        "(() => {{ const e = document.querySelector({}); \
         e.closest('figure').scrollIntoView({{block: 'center', behavior: 'instant'}}); \
         const r = e.getBoundingClientRect(); \
         return [r.x + r.width / 2, r.y + r.height / 2]; }})()",
        json!(selector)
    ));
    [0, 1].map(|at| center[at].as_f64().unwrap())
}

fn text(page: &mut BrowserPage, expression: &str) -> String {
    page.evaluate_script(expression).as_str().unwrap_or_default().to_owned()
}

fn point(session: u32) -> String {
    format!(".wide .points > use:nth-child({session})")
}

#[test]
fn a_chart_is_read_picked_from_and_zoomed_by_mouse_and_keys() {
    let place = StorePlace::file();
    let project = long_project(120, &place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let url = format!("http://{}/{name}/trend?{CASE}", dashboard.address);
    let Some(mut page) = BrowserPage::at(&url, ScreenSize::default()) else {
        return;
    };
    page.click(&point(17));
    let tip = text(&mut page, TIP);
    for words in ["change 16 of </title><b>the parser", "2020-09-29 12:26", "1 run, @17"] {
        assert!(tip.contains(words), "{words}: {tip}");
    }
    let link = text(&mut page, "document.querySelector('.tip a').pathname");
    assert_eq!(link, format!("/{name}/@17"));
    page.click(".tip button");
    page.wait_until("document.querySelector('.picks').textContent.includes('pick another')");
    page.click(&point(90));
    page.click(".tip button");
    let sides = page.evaluate_script(
        "(query => [query.get('base'), query.get('with')])\
         (new URLSearchParams(document.querySelector('.picks a').search))",
    );
    assert_eq!(sides, json!(["@17", "@90"]));
    assert_eq!(page.evaluate_script("document.querySelectorAll('.wide .picked').length"), 2);

    page.press("Escape", "", 27);
    page.evaluate_script("document.querySelector('figure.trend').focus()");
    page.press("Escape", "", 27);
    assert_eq!(text(&mut page, TIP), "");
    page.press("End", "", 35);
    assert!(text(&mut page, TIP).contains("@120"));
    page.press("ArrowLeft", "", 37);
    assert!(text(&mut page, TIP).contains("@119"));
    page.press("Enter", "\r", 13);
    assert_eq!(text(&mut page, "document.activeElement.textContent"), "Pick");
    page.press("Escape", "", 27);
    assert_eq!(text(&mut page, TIP), "");
    assert_eq!(text(&mut page, "document.activeElement.localName"), "figure");

    let ([left, y], [right, _]) = (center(&mut page, &point(20)), center(&mut page, &point(40)));
    let loads = page.loads;
    for (kind, x) in
        [("mousePressed", left - 2.0), ("mouseMoved", right), ("mouseReleased", right + 2.0)]
    {
        let event = json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": 1,
            "clickCount": 1});
        page.send("Input.dispatchMouseEvent", event);
    }
    page.wait_for_load(loads);
    let range = "(query => [query.get('from'), query.get('to')])\
                 (new URLSearchParams(location.search))";
    assert_eq!(page.evaluate_script(range), json!(["2020-10-02T12:26", "2020-10-22T12:27"]));
    let points = "document.querySelectorAll('.wide .points > use').length";
    assert_eq!(page.evaluate_script(points), 21);
    let from = text(&mut page, "document.querySelector('.at-hand [name=from]').value");
    assert_eq!(from, "2020-10-02T12:26");
    page.go_back_to(&url);
    assert_eq!(page.evaluate_script(points), 120);
    assert_eq!(page.complaints, [] as [&str; 0]);
}

#[test]
fn a_chart_is_laid_out_anew_on_a_phone_and_answers_to_a_finger() {
    let place = StorePlace::file();
    let project = long_project(120, &place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let url = format!("http://{}/{name}/trend?{CASE}", dashboard.address);
    let phone = ScreenSize { width: 390, ..ScreenSize::default() };
    let Some(mut page) = BrowserPage::at(&url, phone) else {
        return;
    };
    let shown = format!("[...document.querySelectorAll('figure.trend svg')].filter({SEEN})");
    assert_eq!(page.evaluate_script(&format!("{shown}.length")), 1);
    page.send("Emulation.setTouchEmulationEnabled", json!({"enabled": true}));
    let [x, y] = center(&mut page, ".narrow .points");
    for (kind, touches) in [("touchStart", json!([{"x": x, "y": y}])), ("touchEnd", json!([]))] {
        let event = json!({"type": kind, "touchPoints": touches});
        page.send("Input.dispatchTouchEvent", event);
    }
    page.wait_until("Boolean(document.querySelector('.tip:not([hidden]) a'))");
    let tip = text(&mut page, TIP);
    assert!(tip.contains("1 run") && tip.contains("the parser"), "{tip}");
    for path in [format!("trend?{CASE}"), "@120".to_owned()] {
        page.navigate_to(&format!("http://{}/{name}/{path}", dashboard.address));
        page.expect_fit(phone.width, &path);
        let heights = page.evaluate_script(&format!(
            "[...document.querySelectorAll('.chart text, .case text')].filter({SEEN})\
             .map(e => e.getBoundingClientRect().height)"
        ));
        let heights: Vec<f64> =
            heights.as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        assert!(path == "@120" || !heights.is_empty(), "{path} has no text in its charts");
        assert!(heights.iter().all(|height| *height > 9.0), "{path}: {heights:?}");
    }
    assert_eq!(page.complaints, [] as [&str; 0]);
}

#[test]
fn without_scripts_two_points_are_compared_by_check_boxes() {
    let place = StorePlace::file();
    let project = long_project(120, &place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let url = format!("http://{}/{name}/trend?{CASE}", dashboard.address);
    let plain = ScreenSize { scripts: false, ..ScreenSize::default() };
    let Some(mut page) = BrowserPage::at(&url, plain) else {
        return;
    };
    let title = format!("document.querySelector('{} title').textContent", point(17));
    let title = text(&mut page, &title);
    assert!(title.contains("change 16 of") && title.contains("2020-09-29 12:26"), "{title}");
    page.click(".fold:has(.choice) > summary");
    page.click(".choice input[value='@120']");
    page.click(".choice input[value='@90']");
    page.click_and_load(".choose button");
    assert_eq!(page.evaluate_script("location.search"), "?base=@90&with=@120");
}
