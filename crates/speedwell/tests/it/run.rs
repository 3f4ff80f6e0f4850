//! `speedwell run`, with exact numbers from the fake harness.

use super::project::TempProject;

/// Two cases, two variants: the first case is 20% faster under `new`, the second unchanged.
pub const TWO_CASES: &str = "case len=16
old 100 101 99 100.5 99.5 100.2 99.8 100.1
new 120 121 119 120.5 119.5 120.2 119.8 120.1
* 50 51 49 50.5 49.5 50.2
case len=1024
old 200 201 199 200.5 199.5 200.2 199.8 200.1
new 200.3 199.7 200.6 199.4 200.1 199.9 200.4 199.6
* 70 71 69
";

fn project() -> TempProject {
    TempProject::new().with("bench/strings/decode.fake", TWO_CASES)
}

const OLD_NEW: [&str; 4] = ["--variant", "old=", "--variant", "new="];

#[test]
fn one_variant_gives_a_summary_of_every_case() {
    project().run(&["run", "bench/strings"]).expect_status(0).expect_stdout(&[
        "strings/decode.fake",
        "len=16",
        "len=1024",
    ]);
}

#[test]
fn two_variants_give_a_verdict_for_every_case() {
    let project = project();
    let answer = project.run(&[&["run", "bench/strings"], &OLD_NEW[..]].concat()).expect_status(0);
    let line = |case: &str| answer.stdout.lines().find(|l| l.starts_with(case)).unwrap().to_owned();
    assert!(line("len=16").contains("better"), "{answer:#?}");
    assert!(line("len=1024").contains("same"), "{answer:#?}");
}

#[test]
fn a_decided_case_is_not_measured_to_the_end() {
    let project = project();
    project.run(&[&["run", "bench/strings"], &OLD_NEW[..]].concat()).expect_status(0);
    let json = project.run(&["report", "--export", "jsonl"]).expect_status(0).stdout;
    let runs = json.lines().filter(|line| line.contains("\"len\"")).count();
    assert_eq!(runs, 2 * 2 * 8, "both cases are decided at the first look, 8 runs a side");
}

#[test]
fn values_on_the_command_line_choose_cases() {
    for words in [["run", "bench/strings", "len=16"], ["run", "bench/strings", "--set=len=16"]] {
        let answer = project().run(&words).expect_status(0);
        assert!(answer.stdout.contains("16") && !answer.stdout.contains("1024"), "{answer:#?}");
    }
}

#[test]
fn the_list_names_every_case_and_measures_nothing() {
    let project = project();
    project
        .run(&["run", "--list", "bench/strings"])
        .expect_status(0)
        .expect_stdout(&["strings/decode.fake len=16", "strings/decode.fake len=1024"]);
    assert!(!project.path(".speedwell/results.db").exists(), "a list leaves no trace");
    project.run(&["report"]).expect_status(2).expect_stderr(&["no session"]);
}

#[test]
fn the_same_seed_gives_the_same_order() {
    let order = |seed: &str| {
        let project = project();
        let words = [&["run", "bench", "--runs", "8", "--seed", seed], &OLD_NEW[..]].concat();
        project.run(&words).expect_status(0);
        let lines = project.run(&["report", "--export", "jsonl"]).stdout;
        let variant = |line: &str| {
            let run: serde_json::Value = serde_json::from_str(line).unwrap();
            run["run"]["variant"].as_str().map(str::to_owned)
        };
        lines.lines().filter_map(variant).collect::<Vec<_>>()
    };
    assert_eq!(order("5"), order("5"));
    assert_ne!(order("5"), order("6"));
}

#[test]
fn a_failing_case_is_reported_with_its_replay_and_the_others_continue() {
    let text = "case n=1\n* 10 11\ncase n=2\n* exit:3\ncase n=3\n* signal:11\ncase n=4\n* silent\n";
    TempProject::new()
        .with("g/mixed.fake", text)
        .run(&["run", "g"])
        .expect_status(2)
        .expect_stdout(&["n=1"])
        .expect_stdout(&["exited with status 3", "signal 11", "reported nothing", "cat "]);
}

#[test]
fn the_gate_answers_with_its_exit_status() {
    let slower = TWO_CASES.replace("new 120 121 119 120.5 119.5 120.2 119.8 120.1", "new 80 81 79");
    let words = [&["run", "g", "--fail-on", "worse"], &OLD_NEW[..]].concat();
    TempProject::new().with("g/slow.fake", &slower).run(&words).expect_status(1);
    TempProject::new().with("g/fast.fake", TWO_CASES).run(&words).expect_status(0);
    let beyond = [&words[..], &["--threshold", "40%"]].concat();
    TempProject::new().with("g/slow.fake", &slower).run(&beyond).expect_status(0);
}

#[test]
fn every_format_and_chart_is_written() {
    let project = project();
    let out = ["-o", "out.md", "-o", "out.csv", "-o", "out.json", "-o", "out.svg", "-o", "out.png"];
    let words = [&["run", "bench"], &OLD_NEW[..], &out[..]].concat();
    project.run(&words).expect_status(0);
    let read = |name: &str| std::fs::read(project.path(name)).unwrap();
    assert!(String::from_utf8(read("out.md")).unwrap().contains('|'));
    assert!(String::from_utf8(read("out.csv")).unwrap().lines().count() >= 3);
    assert!(serde_json::from_slice::<serde_json::Value>(&read("out.json")).is_ok());
    assert!(String::from_utf8(read("out.svg")).unwrap().contains("<svg"));
    assert_eq!(&read("out.png")[..8], b"\x89PNG\r\n\x1a\n");
}

#[test]
fn mistakes_on_the_command_line_have_specific_messages() {
    let project = project();
    let told = |words: &[&str], texts: &[&str]| {
        project.run(words).expect_status(2).expect_stderr(texts);
    };
    told(&["run", "nowhere"], &["no file, folder or group 'nowhere'"]);
    told(&["run", "bench", "lenn=16"], &["no selected benchmark has a parameter 'lenn'", "'len'"]);
    told(&["run", "bench", "len=abc"], &["'len' to 'abc': expected a number"]);
    told(&["run", "bench", "--filter", "xyz"], &["no benchmarks found"]);
    told(&["run", "bench", "--filter", "("], &["--filter"]);
    told(&["run", "bench", "--runs", "0"], &["whole number of at least 1"]);
    told(&["run", "bench", "--no-such-option"], &["--no-such-option"]);
    told(
        &["run", "bench", "--variant", "a=no-such-program-x"],
        &["no program 'no-such-program-x'"],
    );
    told(&["run", "bench", "-o", "x.xyz"], &["xyz"]);
    told(&["report", "@99"], &["@99"]);
    told(&["compare", "missing.csv", "other.csv"], &["missing.csv"]);
}

#[test]
fn the_first_use_on_a_machine_unpacks_the_harness_once_for_all_threads() {
    if super::project::node().is_none() {
        return;
    }
    let script = "const { createBenchmark } = require('speedwell');\n\
                  const bench = createBenchmark(() => {}, { n: [1] });\n";
    let mut project = TempProject::new();
    for name in 0..8 {
        project = project.with(&format!("g/b{name}.js"), script);
    }
    let cache = project.path("cache");
    let mut command = project.command(&["run", "--list", "g"]);
    let output = command.env("XDG_CACHE_HOME", &cache).output().unwrap();
    let answer = super::project::CommandResult::from(output).expect_status(0);
    assert_eq!(answer.stdout.matches("g/b").count(), 8, "{answer:#?}");
    let names = std::fs::read_dir(cache.join("speedwell")).unwrap().flatten();
    let drafts = names.filter(|entry| entry.file_name().to_string_lossy().starts_with("draft"));
    assert_eq!(drafts.count(), 0, "a draft was left");
}

#[test]
fn options_without_effect_are_reported() {
    let project = TempProject::new().with("g/b.fake", "case n=1\n* 10 11 12\n");
    let answer = project.run(&["run", "g", "--samples", "9", "--runs", "2"]);
    let expected = ["'g/b.fake' controls its own measurements", "--samples"];
    answer.expect_status(0).expect_stderr(&expected);
    let quiet = project.run(&["run", "g", "--runs", "2"]).expect_status(0);
    assert!(!quiet.stderr.contains("controls its own"), "{quiet:#?}");
}

#[test]
fn invalid_report_options_are_refused_before_measuring() {
    let project = project();
    for (words, part) in [
        (["--sort", "typo"], "unknown sort column 'typo'"),
        (["--chart", "line"], "a line chart needs a parameter study"),
        (["--chart", "typo"], "unknown chart 'typo'"),
        (["--unit", "typo"], "'typo'"),
        (["-o", "x.pdf"], "cannot write 'x.pdf': unknown kind of file"),
        (["-o", "missing/x.md"], "cannot write 'missing/x.md'"),
        (["--x-axis=len", "--sort=change"], "supported columns are by cases line"),
    ] {
        project
            .run(&[&["run", "bench/strings"], &words[..]].concat())
            .expect_status(2)
            .expect_stderr(&[part]);
    }
    let sessions = project.run(&["history"]);
    assert!(!sessions.stdout.contains("bench/strings"), "{sessions:#?}");
    project
        .run(&["eval", "sh", "true", "--sort", "typo"])
        .expect_status(2)
        .expect_stderr(&["unknown sort column 'typo'"]);
    project
        .run(&["eval", "sh", "true", "--squeeze", "--sort", "typo"])
        .expect_status(2)
        .expect_stderr(&["unknown sort column 'typo'"]);
    project.run(&["run", "bench/strings", "--sort", "-median", "-o", "x.md"]).expect_status(0);
}

#[test]
fn of_quiet_and_verbose_the_last_one_counts() {
    let project = project();
    let shown = |words: &[&str]| {
        let words = [&["run", "bench/strings", "--no-save", "--seed=1"], words].concat();
        project.run(&words).expect_status(0).stdout
    };
    let (quiet, verbose) = (shown(&["-v", "-q"]), shown(&["-q", "-v"]));
    assert_eq!(quiet, shown(&["-q"]));
    let details = "How it was measured";
    assert!(!quiet.contains(details), "{quiet}");
    assert!(verbose.contains(details), "{verbose}");
}

/// `-q` affects only the terminal: files are read later, by other people.
#[test]
fn quiet_does_not_remove_notes_from_files() {
    let values = "* 10 11 10 11 10 11 10 11 10 11\n";
    let case = format!("case n=1\n{values}case n=2\n{values}");
    let project = TempProject::new().with("g/one.fake", &case);
    let variants = ["--variant", "old=", "--variant", "new="];
    let run = [&["run", "g", "-r", "10", "-q"], &variants[..]].concat();
    project.run(&run).expect_status(0);
    let report =
        |words: &[&str]| project.run(&[&["report"], words].concat()).expect_status(0).stdout;
    let notes_of = |json: &str| -> usize {
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        json["notes"].as_array().map_or(0, Vec::len)
    };
    let file = |name: &str| std::fs::read_to_string(project.path(name)).unwrap();
    let usual = report(&["--format", "json"]);
    assert!(notes_of(&usual) > 0, "{usual}");
    let quiet = report(&["-q", "--format", "json", "-o", "quiet.json", "-o", "quiet.md"]);
    assert_eq!(notes_of(&quiet), 0, "{quiet}");
    assert_eq!(notes_of(&file("quiet.json")), notes_of(&usual));
    report(&["-o", "usual.md"]);
    assert_eq!(file("quiet.md"), file("usual.md"));
}

#[test]
fn invalid_parameter_names_are_refused_with_their_location() {
    let project = TempProject::new()
        .with("g/tab.fake", "case a\tb=1\n* 1\n")
        .with("g/good.fake", "case a b=1\n* 1\n");
    let answer = project
        .run(&["run", "g/tab.fake", "g/good.fake", "--list"])
        .expect_status(2)
        .expect_stdout(&["g/good.fake a b=1"])
        .expect_stderr(&[
            "'g/tab.fake' has an invalid parameter 'a\\tb': a name must not contain tabs, newlines or other \
             control characters; rename it in its declaration",
        ]);
    assert!(!answer.stdout.contains("tab.fake"), "{answer:#?}");
    let csv = "\"filename\", \"a=b\", \"rate\", \"time\"\n\"x.js\", 5, 1, 1\n";
    project
        .with("scatter.csv", csv)
        .run(&["report", "scatter.csv"])
        .expect_status(2)
        .expect_stderr(&[
            "'x.js' has an invalid parameter 'a=b': a name must not contain '='",
            "\nhint: rename it in the file",
        ]);
}
