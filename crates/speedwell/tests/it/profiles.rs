//! Profiles written by other programs: read like those programs read them, compared by the location
//! of the extra cost, and drawn.

use super::browser::{BrowserPage, ScreenSize};
use super::project::{TempProject, repository};
use speedwell_analysis::profile::{CostExplanation, explain_difference};
use speedwell_formats::foreign::profile::{FrameNames, read_profile};
use speedwell_model::StackProfile;
use std::collections::{BTreeMap, BTreeSet};

fn bytes(name: &str) -> Vec<u8> {
    let folder = repository().join("crates/speedwell/tests/golden/profiles");
    std::fs::read(folder.join(name)).unwrap()
}

fn text(name: &str) -> String {
    String::from_utf8(bytes(name)).unwrap()
}

fn profile(name: &str) -> StackProfile {
    read_profile(&bytes(name), &FrameNames::default()).unwrap().unwrap()
}

fn explain_test(test: &str) -> CostExplanation {
    let side = |side: &str| profile(&format!("{test}.{side}.folded"));
    explain_difference(&side("baseline"), &side("collector"))
}

/// A project with both sides of a test, and the output of `compare`.
fn compare_test(test: &str, words: &[&str]) -> (TempProject, super::project::CommandResult) {
    let mut project = TempProject::new();
    for side in ["baseline", "collector"] {
        project = project.with(side, &text(&format!("{test}.{side}.folded")));
    }
    let answer = project.run(&[&["compare", "baseline", "collector"], words].concat());
    (project, answer)
}

#[test]
fn the_table_of_extra_cost_matches_the_original() {
    for test in ["fibonacci-async", "doxbee-async"] {
        let rows = explain_test(test).extra.rows;
        let own = rows.iter().map(|row| {
            let new = if row.is_new { "NEW" } else { "" };
            let percent = |share: f64, digits: i32| {
                let power = 10_f64.powi(digits);
                // Numbers as the original prints them: rounded, with at least one decimal.
                format!("{:?}", (share * 100.0 * power).round() / power)
            };
            let (old, candidate) = (percent(row.baseline, 2), percent(row.candidate, 2));
            [percent(row.share, 1), old, candidate, new.to_owned(), row.frame.clone()].join("\t")
        });
        let own: Vec<String> = own.collect();
        let golden = text(&format!("{test}.explain.tsv"));
        let golden: Vec<&str> = golden.lines().skip(1).collect();
        // The order of rows with equal shares is arbitrary in the original.
        let sorted =
            |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<BTreeSet<_>>();
        let borrowed: Vec<&str> = own.iter().map(String::as_str).collect();
        assert_eq!(sorted(&borrowed), sorted(&golden), "{test}");
        let shares = |rows: &[&str]| -> Vec<String> {
            rows.iter().map(|row| row.split('\t').next().unwrap().to_owned()).collect()
        };
        assert_eq!(shares(&borrowed), shares(&golden), "{test}");
    }
}

#[test]
fn extra_cost_is_attributed_to_the_function_only_the_candidate_calls() {
    for test in ["fibonacci-async", "doxbee-async"] {
        let entry = explain_test(test).extra.entry.unwrap();
        assert_eq!(entry.row.frame, "v8::internal::Runtime_DebugAsyncFunctionSuspended");
        assert!(entry.row.is_new);
        assert_eq!(entry.below[0].frame, "v8::internal::Object::SetProperty");
    }
}

#[test]
fn v8s_profile_becomes_the_stacks_of_the_original() {
    let own = profile("parallel-promises.baseline.cpuprofile").to_string();
    let golden = text("parallel-promises.baseline.js.folded");
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(lines(&own), lines(&golden));
}

/// inferno's result for the same text, with names shortened like ours.
#[test]
fn text_of_perf_becomes_the_stacks_that_inferno_makes_of_it() {
    for name in ["node", "erlang"] {
        let own = profile(&format!("{name}.perf-script.txt"));
        let names = FrameNames::default();
        let mut golden: BTreeMap<String, u64> = BTreeMap::new();
        for line in text(&format!("{name}.perf-script.folded")).lines() {
            let (stack, weight) = line.rsplit_once(' ').unwrap();
            let mut frames = stack.split(';');
            let thread = names.shorten_thread(frames.next().unwrap());
            let rest = frames.map(|frame| names.shorten_function(frame).into_owned());
            let stack: Vec<String> = [thread].into_iter().chain(rest).collect();
            *golden.entry(stack.join(";")).or_default() += weight.parse::<u64>().unwrap();
        }
        let own: BTreeMap<String, u64> =
            own.folded().map(|(stack, weight)| (stack.to_owned(), weight)).collect();
        assert_eq!(own, golden, "{name}");
    }
}

#[test]
fn names_omit_compiler_tiers_and_thread_numbers() {
    let node = profile("node.perf-script.txt").to_string();
    assert!(node.contains(";JS:fib /home/me/app/w.js:1:13"), "{node}");
    assert!(!node.contains("JS:*") && !node.contains("JS:~") && !node.contains("node:internal/"));
    let erlang = profile("erlang.perf-script.txt").to_string();
    assert!(erlang.contains("scheduler;") && erlang.contains(";fib:main/0;fib:fib/1"), "{erlang}");
    assert!(!erlang.contains("1_scheduler") && !erlang.contains('$'));
}

#[test]
fn weight_is_kept_from_the_file_to_the_tree() {
    for test in ["fibonacci-async", "doxbee-async"] {
        let sum = |side: &str| -> u64 {
            let lines = text(&format!("{test}.{side}.folded"));
            lines.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
        };
        let tree = explain_test(test).tree;
        assert_eq!((tree.baseline, tree.candidate), (sum("baseline"), sum("collector")));
    }
}

#[test]
fn two_profiles_are_compared_like_two_results() {
    let (_project, answer) = compare_test("fibonacci-async", &[]);
    let answer = answer.expect_status(0).expect_stdout(&[
        "collector costs 297% more than baseline",
        "45% of the extra cost is in",
        "Below it: v8::internal::Object::SetProperty (39%)",
        "45.0%",
    ]);
    let row = answer.stdout.lines().find(|line| line.contains("NEW")).unwrap();
    assert!(row.ends_with("v8::internal::Runtime_DebugAsyncFunctionSuspended"), "{row}");
}

#[test]
fn json_contains_unrounded_shares_and_the_entry() {
    let (project, answer) = compare_test("fibonacci-async", &["-q", "-o", "p.json"]);
    answer.expect_status(0);
    let json = std::fs::read_to_string(project.path("p.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["entry"]["frame"], "v8::internal::Runtime_DebugAsyncFunctionSuspended");
    assert_eq!(json["baseline"]["weight"], 1_909_558);
    let share = json["entry"]["share"].as_f64().unwrap();
    assert!((share - 0.4497).abs() < 5e-4, "{share}");
}

#[test]
fn a_removed_function_appears_only_in_the_baseline_flame_graph() {
    let project = TempProject::new()
        .with("old.folded", "app;serve;parse_slowly 600\napp;serve;answer 400\n")
        .with("new.folded", "app;serve;parse 100\napp;serve;answer 400\n");
    project
        .run(&["compare", "old.folded", "new.folded", "--chart", "all", "-o", "f.svg"])
        .expect_status(0)
        .expect_stdout(&["costs 50% less", "GONE"])
        .expect_stderr(&["wrote 'f-4.svg'"]);
    let read = |name: &str| std::fs::read_to_string(project.path(name)).unwrap();
    let (now, before) = (read("f-3.svg"), read("f-4.svg"));
    assert!(!now.contains("parse_slowly"));
    assert!(before.contains("parse_slowly\u{a}") || before.contains("parse_slowly&#10;"));
    assert!(before.contains(">parse_slowly</text>"));
}

#[test]
fn several_recordings_of_one_side_are_added_up() {
    let project = TempProject::new()
        .with("old/1.folded", "a;b 10\na;c 5\n")
        .with("old/2.folded", "a;b 10\n")
        .with("new.folded", "a;b 20\na;c 5\na;d 25\n");
    project.run(&["compare", "old", "new.folded"]).expect_status(0).expect_stdout(&[
        "new.folded costs 100% more than old (25 → 50)",
        "100% of the extra cost is in 'd'",
    ]);
    project
        .run(&["compare", "old/1.folded,old/2.folded", "new.folded"])
        .expect_status(0)
        .expect_stdout(&["(25 → 50)"]);
}

#[test]
fn profiles_that_cannot_be_compared_are_refused_with_the_reason() {
    let project = TempProject::new()
        .with("a.folded", "a;b 10\n")
        .with("c.folded", "a;b 20\n")
        .with(
            "b.csv",
            "\"filename\", \"configuration\", \"rate\", \"time\"\n\"a.js\", \"n=1\", 5, 1\n",
        )
        .with("perf.data", "PERFILE2 and so on");
    let refused = |words: &[&str], reason: &str| {
        let words = [&["compare"], words].concat();
        project.run(&words).expect_status(2).expect_stderr(&[reason]);
    };
    refused(&["a.folded", "b.csv"], "'a.folded' is a profile but 'b.csv' is not");
    refused(&["a.folded"], "cannot compare 1 profile: expected two");
    refused(&["a.folded", "perf.data"], "hint: convert it to text first: perf script -i");
    refused(&["a.folded", "c.folded", "--fail-on", "worse"], "--fail-on needs a verdict");
}

#[test]
fn damaged_recordings_never_cause_a_panic() {
    let mut state = 7_u64;
    let mut below = |limit: usize| {
        // Knuth's multiplier (MMIX): the same damage every time.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % limit
    };
    let mut read_anyway = 0;
    for name in [
        "node.perf-script.txt",
        "parallel-promises.baseline.cpuprofile",
        "parallel-promises.baseline.js.folded",
    ] {
        for _ in 0..60 {
            let mut damaged = bytes(name);
            damaged.truncate(below(damaged.len()) + 1);
            for _ in 0..below(4) {
                let at = below(damaged.len());
                damaged[at] = b" ;\n:{9\xff\0"[below(8)];
            }
            if let Ok(Some(profile)) = read_profile(&damaged, &FrameNames::default()) {
                let found = explain_difference(&profile, &profile);
                assert_eq!(found.tree.baseline, profile.total());
                read_anyway += 1;
            }
        }
    }
    assert!(read_anyway > 20, "hardly anything of {read_anyway} was read");
}

/// Four images on one page, and one in a separate file.
#[test]
fn flame_graphs_open_in_a_browser_and_do_not_clash_on_one_page() {
    let (project, answer) =
        compare_test("doxbee-async", &["--chart", "all", "-o", "f.html", "-o", "f.svg"]);
    answer.expect_status(0);
    for dark in [false, true] {
        let screen = ScreenSize { dark, ..ScreenSize::default() };
        let Some(mut page) = BrowserPage::open(&project.path("f.html"), screen) else {
            return;
        };
        let found = page.evaluate_script(
            "(() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id); \
             const boxes = [...document.querySelectorAll('g.frame rect')]; \
             const wide = boxes.filter(b => b.getBoundingClientRect().width > 200); \
             const texts = [...document.querySelectorAll('g.frame text')]; \
             return {twice: ids.length - new Set(ids).size, boxes: boxes.length, wide: wide.length, \
             outside: texts.filter(t => t.getBoundingClientRect().right > \
               t.parentNode.querySelector('rect').getBoundingClientRect().right + 1).length}; })()",
        );
        assert_eq!(found["twice"], 0);
        assert!(found["boxes"].as_u64().unwrap() > 400, "{found}");
        assert!(found["wide"].as_u64().unwrap() > 20, "{found}");
        assert_eq!(found["outside"], 0, "letters stay in their boxes");
        assert!(page.complaints.is_empty(), "{:?}", page.complaints);
    }
    let Some(mut page) = BrowserPage::open(&project.path("f-3.svg"), ScreenSize::default()) else {
        return;
    };
    let root = page.evaluate_script(
        "document.documentElement.tagName + document.querySelectorAll('parsererror').length",
    );
    assert_eq!(root, "svg0");
    assert!(
        page.requests.iter().all(|address| address.starts_with("file:")),
        "{:?}",
        page.requests
    );
}

/// Clicking a box zooms to it; searching highlights boxes.
#[test]
fn flame_graphs_are_zoomed_and_searched() {
    let (project, answer) = compare_test("doxbee-async", &["-o", "f.html"]);
    answer.expect_status(0);
    let Some(mut page) = BrowserPage::open(&project.path("f.html"), ScreenSize::default()) else {
        return;
    };
    let zoomed = page.evaluate_script(
        "(() => { const figure = document.querySelector('figure.flame'); \
         const boxes = [...figure.querySelectorAll('.wide g.frame')]; \
         const width = b => b.querySelector('rect').getBoundingClientRect().width; \
         const seen = () => boxes.filter(b => b.getAttribute('visibility') !== 'hidden').length; \
         const before = boxes.map(width), whole = Math.max(...before); \
         const narrow = boxes.find(b => width(b) < whole / 3 && width(b) > 40); \
         narrow.dispatchEvent(new MouseEvent('click')); \
         const wide = width(narrow), shown = seen(); \
         const outside = boxes.filter(b => b.getAttribute('visibility') !== 'hidden' && width(b) > wide + 1); \
         figure.querySelector('.wide .tools button').click(); \
         const back = boxes.every((b, at) => Math.abs(width(b) - before[at]) < 0.1); \
         return {wide: wide / whole, hidden: boxes.length - shown, outside: outside.length, back, \
           all: seen() === boxes.length}; })()",
    );
    assert!(zoomed["wide"].as_f64().unwrap() > 0.99, "{zoomed}");
    assert!(zoomed["hidden"].as_u64().unwrap() > 0, "{zoomed}");
    assert_eq!(zoomed["outside"], 0, "{zoomed}");
    assert_eq!((&zoomed["back"], &zoomed["all"]), (&true.into(), &true.into()));
    page.evaluate_script(
        "document.querySelector('.wide input[placeholder=\"Mark functions\"]').focus()",
    );
    page.write("NODE::START");
    let marked = page.evaluate_script(
        "(() => { const names = [...document.querySelectorAll('g.found title')].map(t => t.textContent); \
         return {some: names.length > 0, right: names.every(n => n.toLowerCase().includes('node::start')), \
           said: document.querySelector('figure.flame .wide .tools').textContent}; })()",
    );
    assert_eq!((&marked["some"], &marked["right"]), (&true.into(), &true.into()), "{marked}");
    assert!(marked["said"].as_str().unwrap().contains("% of the width"), "{marked}");
}
