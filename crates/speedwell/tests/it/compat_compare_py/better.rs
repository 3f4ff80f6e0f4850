//! Where the original misleads or crashes: each deviation that docs/reference/compare-py.md lists.

use super::{call, call_case, case, compare, compare_and_dump, inputs, recorded, repetition};
use crate::drop_in::{DropIn, DropInOutcome};
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

/// The rows of the table, each as its words.
fn rows(outcome: &DropInOutcome) -> Vec<Vec<&str>> {
    let lines = outcome.stdout.lines().skip(3);
    lines.map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn a_filter_that_mixes_benchmarks_is_noticed() {
    let (outcome, _) = call_case(&case("filt_wholefam"), &[]);
    assert!(
        outcome.stderr.contains("the filter 'BM_memcpy/.*' makes 25 names equal"),
        "{}",
        outcome.stderr
    );
    // The original crashes at an entry without a unit.
    let (outcome, _) = call_case(&case("kitchen_filters"), &[]);
    assert_eq!(outcome.status, 0);
    assert!(rows(&outcome).len() > 10, "{}", outcome.stdout);
}

#[test]
fn names_on_only_one_side_are_listed_in_a_warning() {
    let old = [repetition("a", "ns", "1"), repetition("b", "ns", "1")].join(",");
    let new = [repetition("a", "ns", "2"), repetition("c", "ns", "9")].join(",");
    let outcome = compare("--no-color", &old, &new);
    assert_eq!(rows(&outcome)[1], ["OVERALL_GEOMEAN", "+1.0000", "+1.0000", "0", "0", "0", "0"]);
    assert_eq!(
        outcome.stderr,
        "compare.py: warning: only in 'old.json': b\n\
         compare.py: warning: only in 'new.json': c\n\
         compare.py: warning: OVERALL_GEOMEAN leaves out 2 repetitions without a counterpart or \
         a time\n"
    );
    let strict = compare("--no-color --strict-compat", &old, &new);
    assert_eq!(rows(&strict)[1][1], "+3.2426", "all of it is in the mean");
}

#[test]
fn units_are_converted() {
    let (old, new) = (repetition("a", "us", "2"), repetition("a", "ns", "1000"));
    let outcome = compare("--no-color", &old, &new);
    assert_eq!(rows(&outcome)[0], ["a", "-0.5000", "-0.5000", "2", "1", "2", "1"]);
    let strict = compare("--no-color --strict-compat", &old, &new);
    assert_eq!(rows(&strict)[0][0], "OVERALL_GEOMEAN", "the original drops it");
    let outcome = compare("--no-color", &repetition("a", "ps", "2"), &repetition("a", "ns", "1"));
    assert!(outcome.stderr.contains("their units are incompatible: a"));
}

#[test]
fn a_change_from_zero_is_not_available() {
    let (old, new) = (repetition("a", "ns", "0"), repetition("a", "ns", "3"));
    let (outcome, dump) = compare_and_dump("--no-color -d dump.json", &old, &new);
    let line = outcome.stdout.lines().nth(3).unwrap();
    assert_eq!(
        line,
        format!("{:<16}{:>16}{:>16}{:>14}{:>14}{:>14}{:>14}", "a", "n/a", "n/a", 0, 3, 0, 3)
    );
    assert!(dump.contains(r#""time": null,"#), "{dump}");
    let colored = compare("", &old, &new);
    assert!(colored.stdout.contains("\x1b[97m             n/a"), "neither gain nor loss");
    let strict = compare("--no-color --strict-compat", &old, &new);
    assert_eq!(rows(&strict)[0][1], "+2.0000");
}

#[test]
fn a_nan_time_is_neither_a_gain_nor_significant() {
    let old = [repetition("a", "ns", "NaN"), repetition("a", "ns", "2")].join(",");
    let new = [repetition("a", "ns", "1"), repetition("a", "ns", "1")].join(",");
    let (outcome, dump) = compare_and_dump("-d dump.json", &old, &new);
    assert!(outcome.stdout.contains("\x1b[97m            +nan\x1b[0m"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("\x1b[91m             nan\x1b[0m"), "{}", outcome.stdout);
    let dump: Value = serde_json::from_str(&dump).unwrap();
    assert_eq!(dump[0]["measurements"][0]["real_time"], Value::Null);
    assert_eq!(dump[0]["utest"]["time_pvalue"], Value::Null);
    // The geometric mean covers the rows with a number.
    let change = dump[1]["measurements"][0]["time"].as_f64().unwrap();
    assert!((change + 0.5).abs() < 1e-12, "{change}");
}

#[test]
fn columns_line_up_after_wide_characters() {
    let old = [repetition("漢字漢字漢字漢字漢字", "ns", "1"), repetition("a", "ns", "1")].join(",");
    let outcome = compare("--no-color", &old, &old);
    let lines: Vec<&str> = outcome.stdout.lines().skip(3).collect();
    assert_eq!(lines[0].width(), lines[1].width());
    let strict = compare("--no-color --strict-compat", &old, &old);
    let lines: Vec<&str> = strict.stdout.lines().skip(3).collect();
    assert_eq!(lines[0].chars().count(), lines[1].chars().count());
}

#[test]
fn raw_control_characters_in_names_are_accepted() {
    let outcome =
        compare("--no-color", &repetition("a\tb", "ns", "1"), &repetition("a\tb", "ns", "2"));
    assert_eq!(outcome.status, 0);
    assert!(outcome.stdout.lines().nth(3).unwrap().starts_with("a\tb"));
}

#[test]
fn the_benchmark_filter_also_applies_to_files() {
    let both = [repetition("one", "ns", "1"), repetition("two", "ns", "1")].join(",");
    let names = |filter: &str| -> Vec<String> {
        let words = format!("--no-color benchmarks old.json new.json --benchmark_filter={filter}");
        let outcome = compare(&words, &both, &both);
        let rows = rows(&outcome);
        rows.iter().map(|row| row[0].to_owned()).filter(|name| name.len() == 3).collect()
    };
    assert_eq!(names("^o"), ["one"]);
    assert_eq!(names("-^o"), ["two"]);
    assert_eq!(names("all"), ["one", "two"]);
}

#[test]
fn standard_input_can_be_compared_like_a_file() {
    let folder = inputs();
    let case = case("reps1");
    let outcome = DropIn::new("compare.py", "--no-color benchmarks - in_copy_r1b.json")
        .directory(folder.path())
        .stdin(recorded("in_copy_r1a.json"))
        .run();
    let expected = recorded(&case.output).replacen("in_copy_r1a.json", "<stdin>", 1);
    assert_eq!((outcome.status, outcome.stdout), (0, expected));
}

#[test]
fn colours_can_be_switched_off_in_three_ways() {
    let (old, new) = (repetition("a", "ns", "1"), repetition("a", "ns", "2"));
    let has_colours = |outcome: &DropInOutcome| outcome.stdout.contains('\x1b');
    for (options, expected) in [
        ("", true),
        ("--no-color", false),
        ("--color never", false),
        ("--color=auto", false),
        ("--color always", true),
    ] {
        assert_eq!(has_colours(&compare(options, &old, &new)), expected, "{options}");
    }
    let folder = inputs();
    for (options, expected) in [("", false), ("--color=always ", true)] {
        let outcome = DropIn::new(
            "compare.py",
            &format!("{options}benchmarks in_copy_a.json in_copy_b.json"),
        )
        .directory(folder.path())
        .variable("NO_COLOR", "1")
        .run();
        assert_eq!(has_colours(&outcome), expected, "{options}");
    }
}

#[test]
fn differing_measurement_conditions_are_warned_about() {
    let folder = inputs();
    let file = recorded("in_copy_r1b.json")
        .replace("\"library_build_type\": \"release\"", "\"library_build_type\": \"debug\"");
    std::fs::write(folder.path().join("debug.json"), file).unwrap();
    let outcome = call(folder.path(), &["benchmarks", "in_copy_r1a.json", "debug.json"]);
    assert_eq!(outcome.status, 0);
    for sentence in [
        "'debug.json': the benchmark library is a debug build, so times are too long",
        "the sides were measured differently: library_build_type 'release' and 'debug'",
    ] {
        assert!(outcome.stderr.contains(sentence), "{}", outcome.stderr);
    }
}

#[test]
fn help_shows_modes_and_options() {
    for arguments in ["--help", "-h", "benchmarks --help"] {
        let outcome = DropIn::new("compare.py", arguments).run();
        assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
        for word in ["benchmarksfiltered", "--dump_to_json", "--strict-compat", "Exit status"] {
            assert!(outcome.stdout.contains(word), "{word}");
        }
    }
    assert_eq!(DropIn::new("compare.py", "").run().status, 2);
}

#[test]
fn a_backslash_in_a_filter_is_kept_as_it_is() {
    let (outcome, _) = call_case(&case("filt_backref"), &[]);
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
    assert_eq!(rows(&outcome)[0][..3], [r"[BM_memcpy\d?", "vs.", "BM_copy]/8"]);
}

#[test]
fn failed_and_skipped_benchmarks_are_listed_below_the_table() {
    let case = case("kitchen");
    let (outcome, folder) = call_case(&case, &[]);
    let original = recorded("kitchen.out");
    let expected: Vec<&str> = original
        .lines()
        .filter(|line| !line.starts_with("BM_err") && !line.starts_with("BM_skip"))
        .collect();
    let found: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(&found[..expected.len()], expected);
    let [geomean, failed, skipped] = found[expected.len()..] else { panic!("{found:?}") };
    // The original drops this row, because the failed benchmark has a time of zero.
    assert!(geomean.starts_with("OVERALL_GEOMEAN "), "{geomean}");
    let sides = "(2 times in 'in_kitchen_a.json', 2 times in 'in_kitchen_b.json')";
    assert_eq!(failed, format!("not compared: BM_err failed: boom {sides}"));
    assert_eq!(skipped, format!("not compared: BM_skip was skipped: not today {sides}"));
    assert_eq!(outcome.status, 0);
    let dump = std::fs::read_to_string(folder.path().join("kitchen_dump.json")).unwrap();
    assert!(!dump.contains("BM_err") && dump.contains("OVERALL_GEOMEAN"));
}

#[test]
fn comparing_nothing_exits_with_status_2() {
    for (name, reason) in [
        ("nobench", "'nobench.json' has no benchmarks"),
        ("nobench2", "'nobench.json' has no benchmarks"),
        ("filt_nomatch", "no name in 'in_copy_r1a.json' matches 'nope'"),
        ("filt_empty", "a filter is empty, so both sides have all benchmarks of"),
        ("aggr_json", "no aggregates"),
        ("kitchen_filters2", "the sides have no common benchmark with times"),
    ] {
        let (outcome, _) = call_case(&case(name), &[]);
        assert_eq!(outcome.status, 2, "{name}");
        let expected = format!("compare.py: nothing compared: {reason}");
        assert!(outcome.stderr.contains(&expected), "{}", outcome.stderr);
    }
    let failed =
        repetition("a", "ns", "0").replace("\"time_unit", "\"error_occurred\": true, \"time_unit");
    let outcome = compare("", &failed, &repetition("a", "ns", "1"));
    assert_eq!(outcome.status, 2);
    let reason = "nothing compared: all common benchmarks failed or were skipped";
    assert!(outcome.stderr.contains(reason), "{}", outcome.stderr);
}
