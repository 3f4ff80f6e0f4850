//! Results over time as a page and as pictures: every change is visible, accessible to screen
//! readers and by keyboard, on a desktop and on a phone, with scripts and without.

use super::browser::{BrowserPage, SEEN, ScreenSize};
use super::project::TempProject;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

const SESSIONS: u32 = 120;
const CASES: &str = "case n=1\n* 1\ncase n=2\n* 1\ncase n=3\n* 1\n";

/// The figure of a case in a session: the first becomes slower, the second faster and then slower,
/// the third is constant.
fn figure(case: u32, session: u32, machine: usize) -> f64 {
    let level = match (case, session) {
        (1, 60..) => 0.93,
        (2, 40..80) => 1.08,
        (2, 80..) => 1.04,
        _ => 1.0,
    };
    let noise = f64::from((session * 37 + case * 11) % 19) / 19.0 - 0.5;
    1000.0 * level * [1.0, 1.05, 1.11][machine] * (1.0 + 0.01 * noise)
}

fn revision(session: u32) -> String {
    format!("{:08x}{}", 0x1b2c_3d4e_u32.wrapping_mul(2 * session + 1), "0".repeat(32))
}

/// A project with 120 imported sessions, modeled on a measured one.
fn project() -> TempProject {
    let project = TempProject::new().with("g/parse.fake", CASES);
    let one = ["run", "g", "-r", "1", "--revision", "first", "--db", "one.db"];
    project.run(&one).expect_status(0);
    let exported = project.run(&["report", "--db", "one.db", "--export", "jsonl"]);
    let lines: Vec<Value> = (exported.expect_status(0).stdout.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut text = String::new();
    for session in 0..SESSIONS {
        let machine = if session < 12 { 0 } else { session as usize % 3 };
        let mut head = lines[0].clone();
        head["id"] = json!(format!("01a2097a-0000-4000-8000-{session:012}"));
        head["started_unix_ms"] = json!(1_600_000_000_000_i64 + i64::from(session) * 86_400_000);
        head["origin"] = json!({
            "revision": revision(session),
            "subject": format!("change {session} of </title><b>the parser"),
            "source": "option",
        });
        if session == 50 {
            head["origin"]["dirty"] = json!("abc");
        }
        head["environment"]["machine"] =
            json!(["lab-3", "lab-4", "a machine with a long name"][machine]);
        head["environment"]["kernel"] = json!(if session < 59 { "Linux 6.1" } else { "Linux 6.8" });
        writeln!(text, "{head}").unwrap();
        for line in &lines[1..] {
            let mut line = line.clone();
            let case = line["run"]["parameters"][0][1].as_f64().unwrap() as u32;
            line["run"]["samples"][0]["value"] = json!(figure(case, session, machine));
            writeln!(text, "{line}").unwrap();
        }
    }
    let project = project.with("all.jsonl", &text);
    project.run(&["import", "all.jsonl", "-q"]).expect_status(0);
    project
}

fn pages() -> (TempProject, [PathBuf; 2]) {
    let project = project();
    let pages = ["trend", "changes"].map(|command| {
        let file = format!("{command}.html");
        project.run(&["history", command, "-o", &file]).expect_status(0);
        project.path(&file)
    });
    (project, pages)
}

fn texts(page: &mut BrowserPage, selector: &str, of: &str) -> Vec<String> {
    let found = page.evaluate_script(&format!(
        "[...document.querySelectorAll('{selector}')].filter({SEEN}).map(e => {of})"
    ));
    let found = found.as_array().unwrap().iter();
    found.map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The changes reached by pressing Tab through the whole page, in order.
fn reached_changes(page: &mut BrowserPage) -> Vec<String> {
    let mut reached: Vec<String> = Vec::new();
    page.evaluate_script("document.activeElement.blur()");
    for _ in 0..400 {
        page.press("Tab", "", 9);
        let now = page.evaluate_script(
            "(e => e === document.body ? null : e.matches('.change') ? e.getAttribute('aria-label') : '')\
             (document.activeElement)",
        );
        match now.as_str() {
            None => break,
            Some("") => {}
            Some(label) => {
                let ring =
                    page.evaluate_script("getComputedStyle(document.activeElement).outlineStyle");
                assert_eq!(ring, "solid", "the focus can be seen");
                reached.push(label.to_owned());
            }
        }
    }
    reached
}

#[test]
fn every_change_is_reachable_by_keyboard_on_every_screen() {
    let (_project, files) = pages();
    for (file, width) in files.iter().flat_map(|file| [(file, 1280), (file, 360)]) {
        let screen = ScreenSize { width, ..ScreenSize::default() };
        let Some(mut page) = BrowserPage::open(file, screen) else {
            return;
        };
        assert_eq!(page.complaints, [] as [&str; 0]);
        let drawn = texts(&mut page, ".change", "e.getAttribute('aria-label')");
        assert_eq!(drawn.len(), 3, "{width}: {drawn:?}");
        assert_eq!(reached_changes(&mut page), drawn, "{} at {width}", file.display());
        for label in &drawn {
            assert!(label.contains("found") && label.contains(" between "), "{label}");
        }
    }
}

#[test]
fn without_a_script_all_words_are_there() {
    let (_project, files) = pages();
    for (file, width) in files.iter().flat_map(|file| [(file, 1280), (file, 360)]) {
        let screen = ScreenSize { width, scripts: false, ..ScreenSize::default() };
        let Some(mut page) = BrowserPage::open(file, screen) else {
            return;
        };
        let written = texts(&mut page, ".case text", "e.textContent").join("\n");
        for words in [
            "worse ~",
            "better ~",
            ", found",
            "lab-3",
            "uncommitted changes",
            "level with its interval",
        ] {
            assert!(written.contains(words), "'{words}' at {width}: {written}");
        }
        let listed = texts(&mut page, ".sparks tr", "e.textContent");
        assert!(listed[0].contains("▼") && listed[0].contains("worse"), "{listed:?}");
        let said = texts(&mut page, ".sparks .answer", "e.textContent");
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said.iter().any(|words| words.contains("kernel 'Linux 6.1' became 'Linux 6.8'")));
    }
}

#[test]
fn a_trend_fits_its_screen_and_its_letters_can_be_read() {
    let (_project, files) = pages();
    for (file, width) in files.iter().flat_map(|file| [(file, 1280), (file, 360)]) {
        let Some(mut page) = BrowserPage::open(file, ScreenSize { width, ..ScreenSize::default() })
        else {
            return;
        };
        let page_width = page.evaluate_script("document.documentElement.scrollWidth");
        assert!(page_width.as_f64().unwrap() <= f64::from(width), "{page_width} of {width}");
        let least = page.evaluate_script(&format!(
            "Math.min(...[...document.querySelectorAll('.case text')].filter({SEEN})\
             .map(t => t.getBoundingClientRect().height))"
        ));
        assert!(least.as_f64().unwrap() > 9.0, "letters are {least} pixels high at {width}");
        let beyond = page.evaluate_script(&format!(
            "[...document.querySelectorAll('.case svg, .spark')].filter({SEEN})\
             .filter(e => e.getBoundingClientRect().right > innerWidth).length"
        ));
        assert_eq!(beyond, 0);
        let each = page.evaluate_script(&format!(
            "[...document.querySelectorAll('.case')].every(c => \
             [...c.querySelectorAll('svg')].filter({SEEN}).length === 1)"
        ));
        assert_eq!(each, true, "one of both drawings is shown");
    }
}

#[test]
fn the_list_starts_with_worse_cases_and_links_to_each_chart() {
    let (_project, [file, _]) = pages();
    let Some(mut page) = BrowserPage::open(&file, ScreenSize::default()) else {
        return;
    };
    let names = texts(&mut page, ".sparks th", "e.textContent");
    let numbers: Vec<&str> = names.iter().map(|name| &name["g/parse.fake ".len()..][..3]).collect();
    assert_eq!(numbers, ["n=1", "n=2", "n=3"], "{names:?}");
    assert_eq!(texts(&mut page, ".case .id", "e.textContent"), names);
    let dead = "[...document.querySelectorAll('.sparks a')].filter(a => !document.querySelector(a.hash)).length";
    assert_eq!(page.evaluate_script(dead), 0);
    page.click(".sparks tr:last-child a");
    page.wait_until(
        "document.querySelector('.case:target')?.getBoundingClientRect().top < innerHeight",
    );
    let ids = "(() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id); \
               return ids.filter((id, at) => ids.indexOf(id) !== at); })()";
    assert_eq!(page.evaluate_script(ids), json!([]), "ids that occur twice");
}

#[test]
fn points_carry_their_data_and_names_are_escaped() {
    let (_project, [file, _]) = pages();
    let Some(mut page) =
        BrowserPage::open(&file, ScreenSize { scripts: false, ..ScreenSize::default() })
    else {
        return;
    };
    let of_case = "[...document.querySelectorAll('#case-0 .wide .point')]";
    assert_eq!(page.evaluate_script(&format!("{of_case}.length")), SESSIONS);
    let point = page.evaluate_script(&format!(
        "(p => ({{...p.dataset, title: p.textContent}}))({of_case}.find(p => p.dataset.session === '@18'))"
    ));
    assert_eq!(point["revision"], revision(17)[..10]);
    assert_eq!(point["subject"], "change 17 of </title><b>the parser");
    assert_eq!(
        (&point["runs"], &point["machine"]),
        (&json!("1"), &json!("a machine with a long name"))
    );
    let value: f64 = point["value"].as_str().unwrap().parse().unwrap();
    assert!((value - figure(1, 17, 2)).abs() < 1e-9, "{value}");
    let title = point["title"].as_str().unwrap();
    assert!(
        title.contains("change 17 of </title><b>the parser") && title.contains("@18"),
        "{title}"
    );
    assert_eq!(page.evaluate_script("document.querySelectorAll('.case b').length"), 0);
}

#[test]
fn the_history_writes_trend_charts_and_refuses_other_charts() {
    let project = project();
    let words = ["history", "trend", "n=1", "--chart", "trend", "-o", "a.svg", "-o", "a.png"];
    project.run(&words).expect_status(0);
    let svg = std::fs::read_to_string(project.path("a.svg")).unwrap();
    assert_eq!(svg.matches("class=\"change\"").count(), 1);
    assert!(svg.contains(">1: worse ~"), "the words are in the picture");
    assert!(std::fs::read(project.path("a.png")).unwrap().starts_with(b"\x89PNG"));

    let page = project.run(&["history", "changes", "--format", "html"]);
    page.expect_status(0).expect_stdout(&["class=\"sparks\"", "class=\"change\""]);

    let by_time = ["history", "trend", "n=1", "--x-axis", "time", "-o", "time.svg"];
    project.run(&by_time).expect_status(0);
    let svg = std::fs::read_to_string(project.path("time.svg")).unwrap();
    assert!(svg.contains(">2020-10"), "dates stand below");

    let answer = project.run(&["history", "trend", "--chart", "box"]);
    answer.expect_status(2).expect_stderr(&[
        "this chart cannot show results over revisions: the only supported chart is trend",
    ]);
    let answer = project.run(&["report", "@1", "--chart", "trend"]);
    answer.expect_status(2).expect_stderr(&[
        "a trend chart shows results over revisions",
        "hint: speedwell history trend",
    ]);
}
