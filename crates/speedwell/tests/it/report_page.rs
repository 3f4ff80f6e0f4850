//! The report as one page, in a browser: it loads nothing, sorts, filters, draws, prints, fits a
//! phone, and works without its script.

use super::browser::{BrowserPage, ScreenSize, VISIBLE_ROWS};
use super::project::TempProject;
use serde_json::{Value, json};
use std::path::PathBuf;

/// A case for every verdict, one that fails, and names that contain markup.
const CASES: &str = r#"case len=16 type=ascii
old 100 101 99 100.5 99.5 100.2 99.8 100.1
new 120 121 119 120.5 119.5 120.2 119.8 120.1
case len=1024 type=ascii
old 200 201 199 200.5 199.5 200.2 199.8 200.1
new 200.3 199.7 200.6 199.4 200.1 199.9 200.4 199.6
case len=16 type="</script><img src=x onerror=alert(1)>"
old 300 301 299 300.5 299.5 300.2 299.8 300.1
new 270 271 269 270.5 269.5 270.2 269.8 270.1
case len=64 type="'\"&<b>Größe⇄語"
old 50 90 40 70 60 80 45 55
new 60 45 85 50 75 40 65 95
case len=1 type=ascii
* exit:3
"#;

/// A project with the report of a comparison, and its page.
fn report() -> (TempProject, PathBuf) {
    // A name may even try to reverse the direction of the text around it.
    let cases = CASES.replace('⇄', "\u{202e}");
    let project = TempProject::new().with("bench/strings/decode.fake", &cases);
    let words = [
        "run",
        "bench/strings",
        "--variant",
        "old=",
        "--variant",
        "new=",
        "--runs",
        "8",
        "--seed",
        "5",
        "-o",
        "report.html",
        "-o",
        "report.json",
    ];
    project.run(&words).expect_status(2);
    let page = project.path("report.html");
    (project, page)
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().expect("a list").iter();
    items.map(|item| item.as_str().unwrap().to_owned()).collect()
}

/// The names of the visible rows, from top to bottom.
fn visible_rows(page: &mut BrowserPage) -> Vec<String> {
    texts(&page.evaluate_script(VISIBLE_ROWS))
}

#[test]
fn the_page_loads_nothing_else_and_logs_no_errors() {
    let (_project, file) = report();
    let Some(mut page) = BrowserPage::open(&file, ScreenSize::default()) else {
        return;
    };
    assert_eq!(page.requests, [format!("file://{}", file.display())]);
    assert_eq!(page.complaints, [] as [&str; 0]);
    let title = page.evaluate_script("document.querySelector('h1').textContent");
    assert_eq!(
        title,
        "new against old: 1 of 4 cases faster, 1 slower, 1 the same within 2%, 1 unclear"
    );
    let images =
        page.evaluate_script("document.querySelectorAll('img, iframe, object, b b').length");
    assert_eq!(images, 0, "names of benchmarks are no markup");
    let ids = "(() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id); \
               return ids.filter((id, at) => ids.indexOf(id) !== at); })()";
    assert_eq!(page.evaluate_script(ids), json!([]), "ids that occur twice");
    let dead = "[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.hash.slice(1))\
                .filter(id => !document.getElementById(id))";
    assert_eq!(page.evaluate_script(dead), json!([]), "links that lead nowhere");
}

#[test]
fn tables_are_sorted_by_mouse_and_by_keyboard() {
    let (_project, file) = report();
    let Some(mut page) = BrowserPage::open(&file, ScreenSize::default()) else {
        return;
    };
    let measured = visible_rows(&mut page);
    let first_words = |names: &[String]| -> Vec<String> {
        let word = |name: &String| name.split(' ').nth(1).unwrap().to_owned();
        names.iter().map(word).collect()
    };
    assert_eq!(first_words(&measured), ["len=16", "len=1024", "len=16", "len=64"]);
    let header = "th[data-k=change_shown]";
    page.click(&format!("{header} button"));
    let sort = format!("document.querySelector('{header}').getAttribute('aria-sort')");
    assert_eq!(page.evaluate_script(&sort), "descending");
    let falling = page.evaluate_script(
        "[...document.querySelectorAll('tr.row')].map(r => +r.querySelector('[data-l=change]').dataset.v)",
    );
    let falling: Vec<f64> =
        falling.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    assert!(falling.windows(2).all(|two| two[0] >= two[1]), "{falling:?}");
    assert!(falling.len() == 4 && falling[0] > 0.15 && falling[3] < -0.05, "{falling:?}");

    page.evaluate_script(&format!("document.querySelector('{header} button').focus()"));
    page.press("Enter", "\r", 13);
    assert_eq!(page.evaluate_script(&sort), "ascending");
    assert_eq!(visible_rows(&mut page)[0], measured[2], "the worst one comes first");
    page.press("Enter", "\r", 13);
    assert_eq!(page.evaluate_script(&sort), "none");
    assert_eq!(visible_rows(&mut page), measured, "and once more as it was measured");
}

#[test]
fn rows_can_be_filtered_by_verdict() {
    let (_project, file) = report();
    let Some(mut page) = BrowserPage::open(&file, ScreenSize::default()) else {
        return;
    };
    let all = visible_rows(&mut page);
    page.click(".tally [data-v=worse] label");
    assert_eq!(visible_rows(&mut page), [all[2].clone()]);
    let chosen = "document.querySelector('.tally input:checked').parentNode.textContent.trim()";
    assert_eq!(page.evaluate_script(chosen), "▼ worse 1");
    assert_eq!(page.evaluate_script("document.querySelector('.count').textContent"), "1 of 4 rows");
    let cases =
        "[...document.querySelectorAll('.case')].filter(c => c.getClientRects().length).length";
    assert_eq!(page.evaluate_script(cases), 1, "the charts of the other cases are gone as well");
    page.click(".tally [data-v=''] label");
    assert_eq!(visible_rows(&mut page), all);
    let boxes = page.evaluate_script("document.querySelectorAll('input[type=search]').length");
    assert_eq!(boxes, 0, "four rows are seen at a glance");
}

#[test]
fn every_run_is_a_mark_of_its_case() {
    let (_project, file) = report();
    let Some(mut page) = BrowserPage::open(&file, ScreenSize::default()) else {
        return;
    };
    page.evaluate_script("document.querySelectorAll('details').forEach(d => { d.open = true; })");
    let marks = page.evaluate_script(
        "[...document.querySelectorAll('.case .wide svg')].map(svg => \
         [...svg.querySelectorAll('.point')].filter(m => m.getBoundingClientRect().width > 1).length)",
    );
    assert_eq!(marks, json!([16, 16, 16, 16]), "8 runs a side");
    let drawn = page.evaluate_script(
        "[...document.querySelectorAll('td .strip')].every(s => s.getBoundingClientRect().width > 100 \
         && s.querySelector('.estimate').getBoundingClientRect().width > 4)",
    );
    assert_eq!(drawn, true, "every change is drawn in its row");
    page.click("tr.row th a");
    page.wait_until(
        "location.hash === '#case-0' \
         && document.querySelector(':target').getBoundingClientRect().top < innerHeight",
    );
}

#[test]
fn the_runs_of_a_case_are_shown_below_its_row() {
    let (_project, file) = report();
    let Some(mut page) = BrowserPage::open(&file, ScreenSize::default()) else {
        return;
    };
    page.click("#case-0 summary");
    page.wait_until("document.querySelector('#case-0').open");
    let seen = page.evaluate_script(
        "[...document.querySelectorAll('#case-0 .wide .point')].filter(p => p.getBoundingClientRect().width > 1).length",
    );
    assert_eq!(seen, 16, "8 runs a side");
    let width = page.evaluate_script(
        "document.querySelector('#case-0 .wide svg').getBoundingClientRect().width",
    );
    assert!(width.as_f64().unwrap() > 1_000.0, "as wide as the page: {width}");
    page.click("th[data-k=change_shown] button");
    let below = page.evaluate_script(
        "[...document.querySelectorAll('tr.charts-of')].every(charts => \
         charts.previousElementSibling.querySelector('th a').hash === `#${charts.querySelector('.case').id}`)",
    );
    assert_eq!(below, true, "a sorted row keeps its charts");
}

#[test]
fn the_raw_data_equal_the_json_report() {
    let (project, file) = report();
    let Some(mut page) = BrowserPage::open(&file, ScreenSize::default()) else {
        return;
    };
    let inside =
        page.evaluate_script("JSON.parse(document.getElementById('raw-data').textContent)");
    let beside = std::fs::read_to_string(project.path("report.json")).unwrap();
    // Both are parsed by the browser, to which 9.0 and 9 are the same number.
    let beside = page.evaluate_script(&format!("JSON.parse({})", json!(beside)));
    assert!(inside == beside, "the page differs from report.json");
    assert_eq!(inside["changes"][0]["baseline_values"].as_array().unwrap().len(), 8);
}

#[test]
fn the_theme_follows_the_system_until_the_reader_chooses() {
    let (_project, file) = report();
    let Some(mut page) = BrowserPage::open(&file, ScreenSize::default()) else {
        return;
    };
    let colours = "[getComputedStyle(document.body).backgroundColor, \
                   getComputedStyle(document.querySelector('.case text')).fill].join()";
    let light = page.evaluate_script(colours);
    page.emulate_media("screen", true);
    // Page and charts follow the system's color scheme, asynchronously.
    page.wait_until(&format!("{colours} !== {light}"));
    let dark = page.evaluate_script(colours);
    page.emulate_media("screen", false);
    page.wait_until(&format!("{colours} === {light}"));
    page.click("button.theme");
    assert_eq!(page.evaluate_script(colours), dark, "the first choice is the dark one");
    page.click("button.theme");
    page.emulate_media("screen", true);
    page.wait_until("matchMedia('(prefers-color-scheme: dark)').matches");
    assert_eq!(page.evaluate_script(colours), light, "light although the system is dark");
}

#[test]
fn the_page_scrolls_only_vertically_on_a_phone() {
    let (_project, file) = report();
    let screen = ScreenSize { width: 360, ..ScreenSize::default() };
    let Some(mut page) = BrowserPage::open(&file, screen) else {
        return;
    };
    page.evaluate_script("document.querySelectorAll('details').forEach(d => { d.open = true; })");
    assert_eq!(page.evaluate_script("document.documentElement.scrollWidth"), 360);
    // Only frames with their own scroll bars may be wider.
    let wide = page.evaluate_script(
        "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > 361 \
         && !e.closest('pre, .chart, .scroll, .unseen, thead, svg')).map(e => e.outerHTML.slice(0, 80))",
    );
    assert_eq!(wide, json!([]));
    let legible = page.evaluate_script(
        "Math.min(...[...document.querySelectorAll('.case .narrow text')]\
         .map(t => t.getBoundingClientRect().height))",
    );
    assert!(legible.as_f64().unwrap() > 9.0, "letters of charts are {legible} pixels high");
}

#[test]
fn the_printed_page_shows_all_details_and_no_controls() {
    let (_project, file) = report();
    let Some(mut page) = BrowserPage::open(&file, ScreenSize::default()) else {
        return;
    };
    let closed = "document.querySelectorAll('details:not([open])').length";
    assert!(page.evaluate_script(closed).as_u64().unwrap() > 0);
    page.emulate_media("print", true);
    page.wait_until(&format!("{closed} === 0"));
    let controls = "[...document.querySelectorAll('input, select, .theme, .copy, nav, p.tools')]\
                    .filter(e => e.getClientRects().length).length";
    assert_eq!(page.evaluate_script(controls), 0);
    let background = page.evaluate_script("getComputedStyle(document.body).backgroundColor");
    assert_eq!(background, "rgb(255, 255, 255)", "paper is white, whatever the system likes");
    let printed = page.send("Page.printToPDF", json!({}));
    assert!(printed["data"].as_str().unwrap().len() > 10_000);
    page.emulate_media("screen", false);
    // Afterwards it is restored.
    page.wait_until(&format!("{closed} > 0"));
}

#[test]
fn without_scripts_the_page_has_all_contents_and_no_controls() {
    let (_project, file) = report();
    let screen = ScreenSize { scripts: false, ..ScreenSize::default() };
    let Some(mut page) = BrowserPage::open(&file, screen) else {
        return;
    };
    // Scripts of the page are disabled; those of a test are not. Radio buttons work without scripts.
    assert_eq!(
        page.evaluate_script(
            "document.querySelectorAll('button, input:not([type=radio]), select').length"
        ),
        0
    );
    let all = visible_rows(&mut page);
    assert_eq!(all.len(), 4);
    page.click(".tally [data-v=worse] label");
    page.wait_until("document.querySelector('.tally [data-v=worse] input').checked");
    assert_eq!(visible_rows(&mut page), [all[2].clone()]);
    page.click(".tally [data-v=''] label");
    let text = page.evaluate_script("document.body.textContent");
    for word in ["worse 1", "exited with status 3", "to repeat it", "randomised blocks", "seed"] {
        assert!(text.as_str().unwrap().contains(word), "{word}");
    }
    let drawn = page.evaluate_script("document.querySelectorAll('.case .wide .point').length");
    assert_eq!(drawn, 64);
}

/// A thousand cases as CSV of Node.js core's tools, 8 runs per side.
fn thousand_cases() -> String {
    let mut csv = String::from("\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n");
    for case in 0..1_000 {
        for run in 0..8 {
            for (side, gain) in [("old", 0.0), ("new", 0.02 * f64::from(case % 7 - 3))] {
                let noise = 0.01 * (f64::from(run * 7 + case % 13) * 0.618).fract();
                let rate = 1e6 * (1.0 + gain + noise);
                csv.push_str(&format!(
                    "\"{side}\",\"group/file-{}.js\",\"n={case}\",{rate},1\n",
                    case / 50
                ));
            }
        }
    }
    csv
}

#[test]
fn a_thousand_cases_can_still_be_sorted_and_filtered() {
    let project = TempProject::new().with("large.csv", &thousand_cases());
    project.run(&["compare", "large.csv", "-q", "-o", "report.html"]).expect_status(0);
    let Some(mut page) = BrowserPage::open(&project.path("report.html"), ScreenSize::default())
    else {
        return;
    };
    assert_eq!(visible_rows(&mut page).len(), 1_000);
    // Time until the browser has drawn the result, in milliseconds.
    let timed = |action: &str| {
        format!(
            "(async () => {{ const begin = performance.now(); {action}; \
             await new Promise(done => requestAnimationFrame(() => setTimeout(done))); \
             return performance.now() - begin; }})()"
        )
    };
    page.evaluate_script("document.querySelector('input[type=search]').focus()");
    page.write("N=7 File-0.js");
    let rows = visible_rows(&mut page);
    assert_eq!(rows.len(), 1, "every word must occur, in any case: {rows:?}");
    page.evaluate_script("document.querySelector('input[type=search]').select()");
    page.write("nothing is called that");
    assert!(visible_rows(&mut page).is_empty());
    page.evaluate_script("document.querySelector('input[type=search]').select()");
    page.write(" ");
    let sorted = page
        .evaluate_script(&timed("document.querySelector('[data-k=change_shown] button').click()"));
    let filtered = page.evaluate_script(&timed(
        "const box = document.querySelector('input[type=search]'); box.value = 'file-7.js'; \
         box.dispatchEvent(new Event('input'))",
    ));
    assert_eq!(visible_rows(&mut page).len(), 50);
    eprintln!("1,000 cases: sorted in {sorted} ms, filtered in {filtered} ms");
    for took_ms in [sorted, filtered] {
        let took_ms = took_ms.as_f64().unwrap();
        // About a second on two busy processors; anything quadratic in the number of rows takes
        // minutes.
        assert!(took_ms < 15_000.0, "{took_ms} ms");
    }
}
