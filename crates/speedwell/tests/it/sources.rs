//! Results from elsewhere: files and standard input, distinguished by content.

use super::project::{TempProject, repository};

fn golden(name: &str) -> Vec<u8> {
    let folder = repository().join("crates/speedwell/tests/golden/node-core");
    std::fs::read(folder.join(name)).unwrap()
}

#[test]
fn compare_r_table_and_plot_are_produced_without_r() {
    let project = TempProject::new();
    let csv = golden("compare-string_decoder.csv");
    let answer = project.run_with_input(&["as", "compare.R", "--plot", "box.png"], &csv);
    let expected = String::from_utf8(golden("compare-string_decoder.R.txt")).unwrap();
    assert_eq!(answer.expect_status(0).stdout, expected);
    assert_eq!(&std::fs::read(project.path("box.png")).unwrap()[..8], b"\x89PNG\r\n\x1a\n");
}

#[test]
fn the_two_binaries_of_one_csv_are_compared() {
    let csv = golden("compare-string_decoder.csv");
    let answer = TempProject::new().run_with_input(&["compare", "-", "-v"], &csv).expect_status(0);
    // Six runs per side in unknown order: no verdict can be more than a hint.
    answer.expect_stdout(&["unclear", "string_decoder/string-decoder.js", "Mann-Whitney"]);
}

#[test]
fn runs_are_unchanged_after_export_and_import() {
    let project = TempProject::new().with("g/b.fake", "case n=1\n* 10 11 12\n");
    project.run(&["run", "g", "--tag", "mine"]).expect_status(0);
    let lines = project.run(&["report", "@mine", "--export", "jsonl"]).expect_status(0).stdout;
    let other = TempProject::new().with("mine.jsonl", &lines);
    other.run(&["import", "mine.jsonl"]).expect_status(0);
    let again = other.run(&["report", "@mine", "--export", "jsonl"]).expect_status(0).stdout;
    let runs = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(runs(&lines), runs(&again));
}

#[test]
fn cases_of_two_benchmarks_are_paired_by_their_parameters() {
    let text = "case n=8\n* 100 101 102\ncase n=64\n* 50 51 52\n";
    let project = TempProject::new().with("g/memcpy.fake", text).with("g/copy.fake", text);
    project.run(&["run", "g", "--runs", "3"]).expect_status(0);
    project
        .run(&["compare", "@latest::memcpy", "@latest::copy"])
        .expect_status(0)
        .expect_stdout(&["n=8", "n=64"]);
}

#[test]
fn a_source_compared_with_itself_is_refused() {
    let project = TempProject::new().with("g/b.fake", "case n=1\n* 10 11 12\n");
    let two = ["--variant", "old=true", "--variant", "new=true"];
    project.run(&["run", "g", "--runs", "3", "--tag", "one"]).expect_status(0);
    let measured = [&["run", "g", "--runs", "3", "--tag", "two"], &two[..]].concat();
    project.run(&measured).expect_status(0);
    let lines = project.run(&["report", "@two", "--export", "jsonl"]).expect_status(0);
    let project = project.with("two.jsonl", &lines.stdout);
    for (one, other, words, hint) in [
        ("@one", "@one", "both sources are the same session, '@one'", "@prev"),
        ("@two", "@latest", "'@two' and '@latest'", "'speedwell compare @latest'"),
        ("@two[old]", "@two", "the same session", "old, new"),
        ("two.jsonl", "./two.jsonl", "both sources are the same file", "old, new"),
        ("@one::b", "@one::b", "the same session", "hint"),
    ] {
        project
            .run(&["compare", one, other, "--fail-on", "worse"])
            .expect_status(2)
            .expect_stderr(&[words, hint]);
    }
    for (one, other) in [("@two[old]", "@two[new]"), ("two.jsonl[old]", "two.jsonl[new]")] {
        let answer = project.run(&["compare", one, other, "-v"]).expect_status(0);
        let told = answer.stdout + &answer.stderr;
        assert!(told.contains("rank test permuted within blocks"), "{told}");
        assert!(!told.contains("one after the other"), "{told}");
    }
}

/// No run is missing if only one was requested.
#[test]
fn a_single_run_a_side_is_not_reported_as_incomplete() {
    let project = TempProject::new().with("g/b.fake", "case n=1\n* 10 11 12\n");
    let words = ["run", "g", "-r", "1", "--variant", "a=true", "--variant", "b=true"];
    let answer = project.run(&words).expect_status(0);
    assert!(answer.stdout.contains("1 run a side"), "{answer:?}");
    assert!(!answer.stdout.contains("lacks a run"), "{answer:?}");
    assert!(!answer.stdout.contains("0 runs"), "{answer:?}");
}

#[test]
fn a_report_of_one_variant_excludes_the_others() {
    let fake = "case n=1\nold 100 101\nnew 200 202\ncase n=2\nold 300 301\nnew 400 402\n";
    let project = TempProject::new().with("g/b.fake", fake);
    let sides = ["--variant", "old=", "--variant", "new="];
    project.run(&[&["run", "g", "--runs=2", "-q"], &sides[..]].concat()).expect_status(0);
    let study = ["report", "@latest[new]", "--x-axis", "n", "--format=csv"];
    let study = project.run(&study).expect_status(0).stdout;
    assert_eq!(study.lines().count(), 3, "{study}");
    assert!(study.contains("201") && !study.contains("100"), "{study}");
    let summary = project.run(&["report", "@latest[new]"]).expect_status(0);
    assert!(!summary.stdout.contains("faster"), "{summary:#?}");
    let exported = ["report", "@latest[new]", "--export=jsonl"];
    let exported = project.run(&exported).expect_status(0).stdout;
    assert!(!exported.contains("\"variant\":\"old\""), "{exported}");
}

#[test]
fn a_study_shows_how_a_metric_depends_on_a_parameter() {
    let csv = golden("scatter.csv");
    let words = ["report", "-", "--x-axis", "chunkLen", "--by", "encoding", "--log"];
    let project = TempProject::new();
    let answer = project.run_with_input(&[&words[..], &["-o", "s.svg"]].concat(), &csv);
    answer.expect_status(0).expect_stdout(&["chunkLen", "ascii", "utf8", "inLen"]);
    assert!(project.path("s.svg").exists());
    let unknown = ["report", "-", "--x-axis", "chunk"];
    let answer = TempProject::new().run_with_input(&unknown, &csv);
    answer.expect_status(2).expect_stderr(&["chunkLen"]);
}

#[test]
fn a_file_of_unknown_format_is_refused_with_the_page_that_lists_formats() {
    TempProject::new()
        .with("x.txt", "hello world\n")
        .run(&["report", "x.txt"])
        .expect_status(2)
        .expect_stderr(&["'x.txt' has an unknown format", "docs/guide/import.md"]);
}

/// A file of google/benchmark with repetitions of one benchmark.
fn repetitions(times: &[f64], build: &str) -> String {
    let rows: Vec<String> = times
        .iter()
        .map(|time| {
            format!(
                r#"{{"name":"BM_a","run_type":"iteration","real_time":{time},"cpu_time":{time},"time_unit":"ns"}}"#
            )
        })
        .collect();
    format!(r#"{{"context":{{"library_build_type":"{build}"}},"benchmarks":[{}]}}"#, rows.join(","))
}

#[test]
fn each_file_of_a_side_counts_as_one_run() {
    let mut project = TempProject::new();
    for at in 0..9 {
        let noise = f64::from(at) / 10.0;
        let old = repetitions(&[100.0 + noise, 101.0 + noise, 250.0], "release");
        let new = repetitions(&[50.0 + noise, 51.0 + noise, 90.0], "release");
        project =
            project.with(&format!("old/{at}.json"), &old).with(&format!("new/{at}.json"), &new);
    }
    // A folder, a list and a repeated name are equivalent.
    let list = |side: &str| {
        let files: Vec<String> = (0..9).map(|at| format!("{side}/{at}.json")).collect();
        files.join(",")
    };
    let old = format!("old={}", list("old"));
    let named: Vec<String> = (0..9).map(|at| format!("new=new/{at}.json")).collect();
    let mut words = vec!["compare", "--format", "csv", &old];
    words.extend(named.iter().map(String::as_str));
    let by_name = project.run(&words).expect_status(0);
    let by_folder =
        project.run(&["compare", "--format", "csv", "old=old", "new=new/"]).expect_status(0);
    assert_eq!(by_name.stdout, by_folder.stdout);
    let table = project.run(&["compare", "old", "new"]).expect_status(0).stdout;
    for words in ["times as fast as old [", "9 runs a side", "▲ better"] {
        assert!(table.contains(words), "{words} in {table}");
    }
    assert!(table.contains(" 101.4 "), "the median of medians: {table}");
}

#[test]
fn different_library_build_types_are_reported() {
    let times: Vec<f64> = (0..9).map(|at| 100.0 + f64::from(at)).collect();
    let project = TempProject::new()
        .with("a.json", &repetitions(&times, "release"))
        .with("b.json", &repetitions(&times, "debug"));
    let answer = project.run(&["compare", "a.json", "b.json"]);
    let text = answer.stdout.replace("\n  ", " ");
    let told = "library build type 'release' and 'debug'";
    assert!(text.contains(told), "{answer:?}");
}

#[test]
fn sides_without_a_common_case_are_an_error() {
    let other = repetitions(&[1.0, 2.0], "release").replace("BM_a", "BM_b");
    let project = TempProject::new()
        .with("a.json", &repetitions(&[1.0, 2.0], "release"))
        .with("b.json", &other);
    let answer = project.run(&["compare", "a.json", "b.json"]).expect_status(2);
    assert!(answer.stderr.contains("nothing was compared"), "{answer:?}");
    assert!(answer.stdout.contains("BM_a") && answer.stdout.contains("BM_b"), "{answer:?}");
    project
        .run(&["compare", "a.json::BM_a", "b.json::BM_b"])
        .expect_status(0)
        .expect_stdout(&["[BM_a|BM_b]"]);
}

#[test]
fn results_can_be_narrowed_like_benchmarks() {
    let both = repetitions(&[1.0, 2.0], "release");
    let more = both.replace("BM_a", "BM_b");
    let more = more.split_once("\"benchmarks\":[").unwrap().1;
    let text = both.replace("]}", &format!(",{more}"));
    let project = TempProject::new().with("a.json", &text).with("b.json", &text);
    let answer = project.run(&["compare", "a.json", "b.json", "-f", "BM_b"]).expect_status(0);
    assert!(answer.stdout.contains("BM_b") && !answer.stdout.contains("BM_a"), "{answer:?}");
    let answer = project.run(&["compare", "a.json", "b.json", "-x", "BM_"]).expect_status(2);
    assert!(answer.stderr.contains("no case is left after"), "{answer:?}");
    project.run(&["report", "a.json", "-s", "len"]).expect_status(2);
}
