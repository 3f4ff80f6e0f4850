//! Cases of foreign frameworks: numbers at the ends of names, skipped benchmarks, arguments after
//! `--`, filters that narrow the listing, unsupported frameworks.

use super::harness_driver::is_missing;
use super::project::TempProject;
use serde_json::Value;

/// Compression levels, each reporting itself; one that is slow to list; some that are skipped.
const LEVELS: &str = r#"package levels

import (
	"flag"
	"os"
	"testing"
)

var extra = flag.String("extra", "", "one more level")

func BenchmarkZip(b *testing.B) {
	for name, level := range map[string]float64{"gzip": 0, "gzip-1": 1, "gzip-6": 6, "gzip-9": 9} {
		b.Run(name, func(b *testing.B) {
			for i := 0; i < b.N; i++ {
			}
			b.ReportMetric(level, "level")
		})
	}
	if *extra != "" {
		b.Run(*extra, func(b *testing.B) {})
	}
}

func BenchmarkDevice(b *testing.B) {
	os.WriteFile("listed", nil, 0o644)
	for _, name := range []string{"read", "write"} {
		b.Run(name, func(b *testing.B) { b.Skip("no device") })
	}
}
"#;

fn levels() -> Option<TempProject> {
    let project = TempProject::new()
        .with("go.mod", "module example.com/levels\n\ngo 1.18\n")
        .with("levels_test.go", LEVELS);
    (!is_missing("go")).then_some(project)
}

fn exported_values(project: &TempProject, key: &str) -> Vec<Value> {
    let exported = project.run(&["report", "--export", "jsonl"]);
    let lines = exported.expect_status(0).stdout;
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| line.get(key).cloned()).collect()
}

#[test]
fn a_sub_benchmark_whose_name_ends_in_a_number_is_measured_by_that_name() {
    let Some(project) = levels() else { return };
    for processors in ["1", "6"] {
        let variable = format!("only=GOMAXPROCS={processors}");
        let words =
            ["run", ".", "-f", "Zip", "-r1", "-n1", "--iterations=3", "--variant", &variable];
        project.run(&words).expect_status(0);
        let mut levels: Vec<(String, f64)> = (exported_values(&project, "run").iter())
            .map(|run| {
                let samples = run["samples"].as_array().unwrap();
                let level = samples.iter().find(|one| one["metric"] == "level").unwrap();
                let name = run["benchmark"].as_str().unwrap().to_owned();
                (name, level["value"].as_f64().unwrap())
            })
            .collect();
        levels.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = [("gzip", 0.0), ("gzip-1", 1.0), ("gzip-6", 6.0), ("gzip-9", 9.0)];
        let expected =
            expected.map(|(name, level)| (format!("example.com/levels/Zip/{name}"), level));
        assert_eq!(levels, expected, "GOMAXPROCS={processors}");
    }
}

#[test]
fn a_benchmark_with_only_skipped_parts_does_not_fail() {
    let Some(project) = levels() else { return };
    let words = ["run", ".", "-f", "Device", "-r", "1", "--iterations=1"];
    let answer = project.run(&words).expect_status(0);
    answer.expect_stdout(&["Device/read", "Device/write", "no device"]);
}

#[test]
fn arguments_after_two_hyphens_and_filters_apply_to_the_listing() {
    let Some(project) = levels() else { return };
    let words = ["run", ".", "--list", "-f", "Zip", "--", "-extra=bzip-2", "-test.benchtime=1h"];
    let answer = project.run(&words).expect_status(0);
    answer.expect_stdout(&["Zip/gzip-9", "Zip/bzip-2"]);
    let was_executed = || project.path("listed").exists();
    assert!(!was_executed(), "only benchmarks of the filter are executed");
    let words = ["run", ".", "--list", "-f", "gzip-9$"];
    let listed = project.run(&words).expect_status(0).stdout;
    assert!(listed.contains("Zip/gzip-9") && !listed.contains("gzip-6"), "{listed}");
    assert!(was_executed(), "a name of a part may be in any benchmark");
}

#[test]
fn a_failed_listing_is_reported_with_its_output_and_its_command() {
    let table = "[suite.mine]\nlist = ['sh', '-c', 'echo no library x >&2; exit 3', '{program}', '{arguments}']\n\
                 run = ['{program}']\nread = 'lines'\nline = '(?P<value>\\d+)'\n";
    let project =
        TempProject::new().with("speedwell.toml", table).with_program("tool", "#!/bin/sh\n");
    let words = ["run", "mine:./tool", "--list", "--", "--deep"];
    let answer = project.run(&words).expect_status(2);
    answer.expect_stderr(&[
        "'tool' exited with status 3 and printed:\n  no library x",
        "hint: repeat it with: ",
        "/tool --deep",
    ]);
}

#[test]
fn a_version_that_is_too_old_is_named_before_anything_is_listed() {
    let table = |version: &str| {
        format!(
            "[suite.mine]\nlist = ['sh', '-c', 'echo own']\ncase = '(?P<name>.+)'\nrun = ['{{program}}']\nread = 'lines'\n\
             line = '(?P<value>\\d+)'\nminimum = '3'\nversion = ['echo', 'mine/{version} linux']\n\
             install = 'mine of today'\n"
        )
    };
    let project = TempProject::new().with_program("tool", "#!/bin/sh\n");
    let project = project.with("speedwell.toml", &table("2.11.9"));
    let words = ["run", "mine:./tool", "--list"];
    let answer = project.run(&words).expect_status(2);
    answer.expect_stderr(&[
        "'tool' needs mine 3 or newer, but found mine 2.11.9",
        "hint: install mine of today",
    ]);
    let project = project.with("speedwell.toml", &table("3.0.0"));
    project.run(&words).expect_status(0).expect_stdout(&["own"]);
}

#[test]
fn go_package_patterns_select_the_same_packages_as_in_go() {
    let Some(project) = levels() else { return };
    let nested = LEVELS.replace("package levels", "package inner");
    let project = project
        .with("inner/levels_test.go", &nested)
        .with("vendor/x/levels_test.go", &nested)
        .with("own/go.mod", "module example.com/own\n")
        .with("own/levels_test.go", &nested)
        .with("plain/plain.go", "package plain\n");
    let listed = project.run(&["run", "./...", "--list"]).expect_status(0);
    let listed = listed.expect_stdout(&["example.com/levels/Zip", "example.com/levels/inner/Zip"]);
    assert!(!listed.stdout.contains("vendor") && !listed.stdout.contains("own"), "{listed:#?}");
    let answer = project.run(&["run", "./plain/..."]).expect_status(2);
    answer.expect_stderr(&["no Go package with benchmarks in './plain/...'"]);
}

#[test]
fn paired_order_without_processor_time_is_refused_before_building() {
    let project = TempProject::new()
        .with("old/go.mod", "module example.com/x\n")
        .with("old/x_test.go", "package x\nfunc BenchmarkX(b *testing.B) { does not compile }\n")
        .with("new/x_test.go", "package x\nfunc BenchmarkX(b *testing.B) {}\n");
    for words in [
        &["compare", "./old", "./new", "--order", "paired"][..],
        &["compare", "./old", "--order", "paired", "--variant", "a=A=1", "--variant", "b="],
    ] {
        let answer = project.run(words).expect_status(2);
        answer.expect_stderr(&[
            "'old' cannot be measured with '--order paired'",
            "hint: --order blocks",
        ]);
    }
}

#[test]
fn an_unknown_framework_is_named_and_a_user_adapter_is_preferred() {
    let project = TempProject::new().with("a.mjs", "import { bench, run } from 'mitata';\n");
    let answer = project.run(&["run", "a.mjs"]).expect_status(2);
    answer.expect_stderr(&["benchmarks written with mitata", "speedwell new adapter mitata"]);
    let answer = project.run(&["run", "."]).expect_status(2);
    answer.expect_stderr(&["cannot measure 'a.mjs'", "benchmarks written with mitata"]);
    let table = "[suite.mitata]\nrecognise = { kind = 'text', glob = '*.mjs' }\nprogram = 'sh'\n\
                 list = ['{program}', '-c', 'echo own']\ncase = '(?P<name>.+)'\n\
                 run = ['{program}', '-c', 'echo own 5']\nread = 'lines'\nline = '(?P<name>\\w+) (?P<value>\\d+)'\n";
    let ours = "const { createBenchmark } = require('speedwell');\ncreateBenchmark(() => {}, {});\n// mitata\n";
    let project = project.with("speedwell.toml", table).with("a.mjs", ours);
    let listed = project.run(&["run", "a.mjs", "--list"]).expect_status(0);
    listed.expect_stdout(&["own"]);
}
