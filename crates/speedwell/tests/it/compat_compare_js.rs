//! Drop-in for `compare.js`: its rows, its progress line, and the analysis without R.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::drop_in::{
    DropIn, DropInStep, FakeTerminal, SCRIPTS, benchmark_folder, case, golden, play_session,
    recorded, result,
};
use speedwell_model::Run;

#[test]
fn the_output_of_compare_matches_the_original() {
    let folder = benchmark_folder(SCRIPTS);
    let run = |name: &str| {
        let steps = recorded(name);
        DropIn::new(
            "compare.js",
            "--old ./a/node --new ./b/node --runs 6 -set n=20000 string_decoder",
        )
        .directory(folder.path())
        .engine(move |_, follower| play_session(follower, &[], &steps))
        .run()
    };
    let outcome = run("compare-string_decoder.csv");
    assert_eq!(outcome.stdout, golden("compare-string_decoder.csv"));
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
    let request = outcome.request.unwrap();
    let programs: Vec<_> = request
        .variants
        .iter()
        .map(|variant| format!("{}={}", variant.name, variant.program.as_ref().unwrap().display()))
        .collect();
    assert_eq!(programs, ["old=./a/node", "new=./b/node"]);
    assert_eq!((request.runs, request.test), (6, false));
    assert_eq!(run("quoting-compare.csv").stdout, golden("quoting-compare.csv"));
}

#[test]
fn the_table_does_not_depend_on_the_order_of_execution() {
    let recorded = golden("compare-string_decoder.csv");
    let (header, rows) = recorded.split_once('\n').unwrap();
    let mut rows: Vec<&str> = rows.lines().collect();
    // The runs of each side stay in order, all else is shuffled: last file position first.
    rows.sort_by_key(|row| std::cmp::Reverse(row.split(',').nth(2).map(str::len)));
    assert_ne!(rows, recorded.lines().skip(1).collect::<Vec<_>>());
    let mixed = format!("{header}\n{}\n", rows.join("\n"));
    let table = DropIn::new("compare.R", "").stdin(mixed).run().stdout;
    assert_eq!(table, golden("compare-string_decoder.R.txt"));
}

#[test]
fn a_directory_of_scripts_keeps_its_name_in_the_rows() {
    let folder = benchmark_folder(SCRIPTS);
    let steps =
        vec![DropInStep::Result(result(&case("napi/string/index.js n=1"), "old", 0, 5.0, 1))];
    let outcome = DropIn::new("compare.js", "--old a --new b napi")
        .directory(folder.path())
        .engine(move |_, follower| play_session(follower, &[("napi/string", 1)], &steps))
        .run();
    assert!(outcome.stdout.ends_with("\"old\",\"napi/string\",\"n=1\",5,0.000000001\n"));
}

#[test]
fn analyze_prints_the_table_of_r_without_r() {
    let folder = benchmark_folder(SCRIPTS);
    let run = |arguments: &str| {
        let steps = recorded("compare-string_decoder.csv");
        DropIn::new("compare.js", &format!("--old a --new b {arguments} string_decoder"))
            .directory(folder.path())
            .engine(move |_, follower| play_session(follower, &[], &steps))
            .run()
    };
    let table = golden("compare-string_decoder.R.txt");
    let bare = run("--analyze --no-chart");
    assert_eq!((bare.status, bare.stdout.as_str()), (0, table.as_str()));
    let drawn = run("--analyze").stdout;
    let chart = drawn.strip_prefix(&table).expect("the chart stands below the table");
    let marked = chart.lines().filter(|line| line.contains('o') && line.contains('['));
    assert_eq!(marked.count(), 10 + 1, "a line per case, and the heading");
    assert!(chart.contains("encoding='utf8'"), "{chart}");
}

#[test]
fn a_significant_regression_beyond_the_limit_is_status_1() {
    let folder = benchmark_folder(SCRIPTS);
    let run = |limit: &str| {
        // Old and new are swapped, so that the improvements become regressions.
        let swap = |step: DropInStep| match step {
            DropInStep::Result(run) => {
                let variant = if &*run.variant == "old" { "new" } else { "old" };
                DropInStep::Result(Run { variant: variant.into(), ..run })
            }
            failed => failed,
        };
        let steps: Vec<DropInStep> =
            recorded("compare-string_decoder.csv").into_iter().map(swap).collect();
        DropIn::new(
            "compare.js",
            &format!("--old a --new b --max-regression {limit} string_decoder"),
        )
        .directory(folder.path())
        .engine(move |_, follower| play_session(follower, &[], &steps))
        .run()
    };
    let outcome = run("58");
    assert_eq!(outcome.status, 1);
    let slower: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(slower.len(), 2, "{slower:?}");
    assert!(
        slower[0]
            .contains("encoding='utf16le'' is 60.07 % slower, which exceeds the limit of 58 %"),
        "{slower:?}"
    );
    assert_eq!(run("67").status, 0, "no regression is that large");
    assert_eq!(run("a").status, 1);
}

#[test]
fn the_progress_line_is_shown_on_a_terminal_only() {
    let folder = benchmark_folder(SCRIPTS);
    let call = |switch: &str, screen: &FakeTerminal| {
        let steps = recorded("compare-1each.csv");
        DropIn::new("compare.js", &format!("--old a --new b --runs 1 {switch} string_decoder"))
            .directory(folder.path())
            .terminal(screen)
            .engine(move |_, follower| {
                play_session(follower, &[("string_decoder/string-decoder.js", 1)], &steps)
            })
            .run()
    };
    let (shown, quiet) = (FakeTerminal::default(), FakeTerminal::default());
    call("", &shown);
    let text = shown.text();
    let picture = "|%  50| 0/1 files | 1/2 runs | 0/1 configs]: string_decoder/string-decoder.js ";
    assert!(text.contains(picture), "{text:?}");
    assert!(text.ends_with("|% 100| 1/1 files | 2/2 runs | 0/1 configs]: Done\n "), "{text:?}");
    call("--no-progress", &quiet);
    assert_eq!(quiet.text(), "");
}
