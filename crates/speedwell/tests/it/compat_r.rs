//! Drop-ins for `compare.R`, `scatter.R` and `bar.R`: byte by byte the output of the originals, and
//! better where the originals stop.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::drop_in::{DropIn, DropInOutcome, golden};

fn compare(csv: impl Into<Vec<u8>>) -> DropInOutcome {
    DropIn::new("compare.R", "").stdin(csv).run()
}

#[test]
fn the_compare_table_matches_r() {
    for name in ["compare-string_decoder", "compare-1run", "compare-1each", "compare-wide"] {
        let outcome = compare(golden(&format!("{name}.csv")));
        assert_eq!(outcome.stdout, golden(&format!("{name}.R.txt")), "{name}");
        assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""), "{name}");
    }
}

#[test]
fn names_are_sorted_as_in_r_with_its_locale() {
    let run = |locale: &str| {
        DropIn::new("compare.R", "")
            .stdin(golden("compare-names.csv"))
            .variable("LC_ALL", locale)
            .run()
            .stdout
    };
    assert_eq!(run("C.UTF-8"), golden("compare-names.C.UTF-8.R.txt"));
    // In the C locale the original prints ± as escape sequences; only the order matters.
    let names = |text: &str| -> Vec<String> {
        text.lines().skip(1).take(11).map(|line| line.chars().take(36).collect()).collect()
    };
    assert_eq!(names(&run("C")), names(&golden("compare-names.C.R.txt")));
}

#[test]
fn awkward_values_are_shown_as_r_shows_them() {
    assert_eq!(
        compare(golden("quoting-compare.csv")).stdout,
        golden("quoting-compare.C.UTF-8.R.txt")
    );
}

#[test]
fn a_constant_case_does_not_stop_the_table() {
    let outcome = compare(golden("compare-constant.csv"));
    let rows: Vec<&str> = outcome.stdout.lines().take(3).collect();
    assert_eq!(
        rows,
        [
            "      confidence improvement accuracy (*)     (**)     (***)",
            "a x=1         NA      0.00 %           NA       NA        NA",
            "a x=2                 9.09 %     ±125.79% ±380.31% ±1822.88%",
        ]
    );
    assert_eq!(outcome.status, 0);
    assert_eq!(
        outcome.stderr,
        "compare.R: warning: 1 of 2 comparisons have no confidence because their rates do not vary; \
         the first is 'a x=1'\n"
    );
}

#[test]
fn chatter_between_the_rows_is_left_out_of_the_table() {
    let csv = golden("compare-string_decoder.csv").replace("\"new\"", "noise \"x\"\n\"new\"");
    let outcome = compare(csv);
    assert_eq!(outcome.stdout, golden("compare-string_decoder.R.txt"));
    assert_eq!(
        outcome.stderr,
        "compare.R: warning: 60 lines without a result were left out; the first is 'noise \"x\"'\n"
    );
}

#[test]
fn the_scatter_table_matches_r() {
    let outcome = DropIn::new("scatter.R", "--xaxis chunkLen --category encoding")
        .stdin(golden("scatter.csv"))
        .run();
    assert_eq!(outcome.stdout, golden("scatter.R.txt"));
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
}

#[test]
fn numbers_words_and_truth_values_as_axes_print_as_in_r() {
    for (x, category) in [("n", "b"), ("b", "flag"), ("flag", "n"), ("q", "flag")] {
        let outcome = DropIn::new("scatter.R", &format!("-xaxis {x} -category {category}"))
            .stdin(golden("scatter-mixed.csv"))
            .run();
        let expected = golden(&format!("scatter-mixed.{x}.{category}.R.txt"));
        assert_eq!(outcome.stdout, expected, "{x} by {category}");
    }
}

#[test]
fn concatenated_files_can_be_told_apart_by_name() {
    let other = golden("scatter.csv").replace("string-decoder.js", "other.js");
    let outcome = DropIn::new("scatter.R", "--xaxis filename --category encoding")
        .stdin(golden("scatter.csv") + &other)
        .run();
    let names: Vec<&str> =
        outcome.stdout.lines().skip(4).map(|line| line.trim().split(' ').next().unwrap()).collect();
    assert_eq!(names.len(), 4, "{}", outcome.stdout);
    assert_eq!(names[0], "string_decoder/other.js");
    assert!(
        outcome
            .stdout
            .starts_with("aggregating variable: chunkLen\naggregating variable: inLen\n\n")
    );
}

#[test]
fn help_works_and_needs_no_input() {
    for tool in ["compare.R", "scatter.R", "bar.R"] {
        let recorded = golden(&format!("usage-{tool}.txt"));
        let usage = recorded.replace("Error: ", "").replace("Execution halted\n", "");
        let outcome = DropIn::new(tool, "--help").run();
        assert_eq!((outcome.status, outcome.stdout, outcome.stderr), (0, usage, String::new()));
    }
}

#[test]
fn wrong_options_are_answered_with_the_usage_and_status_1() {
    for (tool, arguments, reason) in [
        ("compare.R", "--plot", ""),
        ("bar.R", "--plot --help-me", "bar.R: unknown option '--help-me'\n"),
        ("scatter.R", "--xaxis n", ""),
        ("scatter.R", "--xaxis n --category e --plot", ""),
        ("compare.R", "--polt a.svg", "compare.R: unknown option '--polt'\n"),
    ] {
        let recorded = golden(&format!("usage-{tool}.txt"));
        let usage = recorded.replace("Error: ", "").replace("Execution halted\n", "");
        let outcome = DropIn::new(tool, arguments).run();
        assert_eq!((outcome.status, outcome.stdout.as_str()), (1, ""), "{tool} {arguments}");
        assert_eq!(outcome.stderr, format!("{reason}{usage}"), "{tool} {arguments}");
    }
}

#[test]
fn an_input_without_results_is_reported_instead_of_a_stack_trace() {
    let header = "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n";
    for (csv, message) in [
        ("", "compare.R: the input is empty\n"),
        (header, "compare.R: there are no results below the header\n"),
        ("a,b\n1,2\n", "compare.R: this is not the output of compare.js: its header is missing\n"),
    ] {
        let outcome = compare(csv);
        assert_eq!((outcome.status, outcome.stdout.as_str()), (1, ""));
        assert_eq!(outcome.stderr, message);
    }
    let outcome = DropIn::new("scatter.R", "--xaxis size --category encoding")
        .stdin(golden("scatter.csv"))
        .run();
    assert_eq!(outcome.status, 1);
    assert_eq!(
        outcome.stderr,
        "scatter.R: unknown column 'size'; the file has n, chunkLen, inLen, encoding\n"
    );
}

#[test]
fn plots_contain_the_labels_of_the_plots_of_r() {
    let folder = tempfile::tempdir().unwrap();
    let plot = |tool, arguments: &str, csv: &str| {
        let path = folder.path().join(format!("{tool}.svg"));
        let outcome = DropIn::new(tool, arguments)
            .argument("--plot")
            .argument(path.to_str().unwrap())
            .stdin(golden(csv))
            .run();
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        assert!(outcome.stderr.starts_with("Saving "), "{}", outcome.stderr);
        (outcome.stdout, std::fs::read_to_string(path).unwrap())
    };
    let (table, boxes) = plot("compare.R", "", "compare-string_decoder.csv");
    assert_eq!(table, golden("compare-string_decoder.R.txt"), "the table is printed, too");
    let (silence, bars) = plot("bar.R", "", "compare-string_decoder.csv");
    assert_eq!(silence, "", "bar.R prints no table");
    for svg in [boxes, bars] {
        for text in ["string_decoder/string-decoder.js", ">old<", ">new<", "rate of operations"] {
            assert!(svg.contains(text), "{text}");
        }
    }
    let (_, lines) = plot("scatter.R", "--xaxis chunkLen --category encoding --log", "scatter.csv");
    for text in [
        "string_decoder/string-decoder.js",
        ">ascii<",
        ">utf8<",
        ">chunkLen (logarithmic)<",
        ">1,024<",
    ] {
        assert!(lines.contains(text), "{text}");
    }
}

#[test]
fn bar_without_a_plot_prints_nothing() {
    let outcome = DropIn::new("bar.R", "").stdin(golden("compare-string_decoder.csv")).run();
    assert_eq!((outcome.status, outcome.stdout, outcome.stderr), (0, String::new(), String::new()));
}
