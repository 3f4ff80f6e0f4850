//! Benchmarks of other suites: a user-defined one with exact figures, and real ones of Go and Rust.

use super::harness_driver::is_missing;
use super::project::{CommandResult, TempProject};
use super::repository::TestRepository;
use super::suite_projects::build_folder;
use speedwell_formats::foreign::suites::configured::ResultPaths;
use speedwell_formats::foreign::suites::{ReportedResult, rust};
use speedwell_formats::go_bench;
use speedwell_model::Sample;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A benchmark tool with its own options: `copy` takes 100 us per byte of its size and a little
/// more with every start, and twice as much with `SLOW=2`. It records its arguments, and kills
/// Speedwell at the start that `die` names.
const TOOL: &str = r#"#!/bin/sh
# mine-bench 3
only= size=1 repeat=3
for word in "$@"; do
  case $word in
    --list) printf 'copy size=8\ncopy size=64\nfill\nbroken\nodd\n'; exit 0 ;;
    --only=*) only=${word#*=} ;;
    --size=*) size=${word#*=} ;;
    --out=*) out=${word#*=} ;;
    --repeat=*) repeat=${word#*=} ;;
    --min-time=*|--fast) ;;
    *) echo "unknown option $word" >&2; exit 64 ;;
  esac
done
echo "$*" >> starts
count=$(wc -l < starts)
if [ "$(cat die 2> /dev/null)" = "$count" ]; then rm die; kill -9 $PPID; exit 1; fi
if [ $only = broken ]; then echo 'disk on fire' >&2; exit 3; fi
if [ $only = odd ]; then echo '{"results": [{"name": "odd", "times": "many"}]}' > "$out"; exit 0; fi
{
  printf '{"results": [{"name": "%s", "times": [' $only
  at=1
  while [ $at -le $repeat ]; do
    [ $at = 1 ] || printf ', '
    printf '%d.%02d' $((size * 100 * ${SLOW:-1})) $((count % 10))
    at=$((at + 1))
  done
  printf ']}]}'
} > "$out"
"#;

/// Its description.
const TABLE: &str = r#"
[suite.mine]
recognise = { content = "mine-bench 3", kind = "text" }
list = ["{program}", "--list"]
case = '^(?P<name>\S+)(?: (?P<params>.*))?$'
run = ["{program}", "--only={name}", "{parameters}", "--out={output}"]
parameters = ["--{key}={value}"]
read = "json"
results = "results[*]"
name = "name"
samples = "times"
unit = "us"
refuse = ["--only", "--out"]
version = 'mine-bench (\d+)'
[suite.mine.options]
time = ["--min-time={seconds}"]
samples = ["--repeat={count}"]
"#;

fn project() -> TempProject {
    let project = TempProject::new().with("speedwell.toml", TABLE);
    project.with_program("bench-tool", TOOL)
}

fn starts(project: &TempProject) -> Vec<String> {
    let text = fs::read_to_string(project.path("starts")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn runs(project: &TempProject) -> Vec<serde_json::Value> {
    let exported = project.run(&["report", "--export", "jsonl"]).expect_status(0);
    let lines = exported.stdout.lines();
    let run = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line.get("run").cloned()
    };
    lines.filter_map(run).collect()
}

#[test]
fn a_suite_that_a_table_describes_is_listed_and_its_cases_are_run() {
    let project = project();
    let listed = project.run(&["run", "--list", "./bench-tool"]).expect_status(0);
    listed.expect_stdout(&["copy size=8 ", "copy size=64", "fill", "broken"]);
    assert_eq!(starts(&project), [""; 0], "listing executes no case");
    let words = ["run", "./bench-tool", "-f", "copy", "--set", "size=64", "-r", "2"];
    project.run(&words).expect_status(0).expect_stdout(&["6.40"]);
    for start in starts(&project) {
        assert!(start.starts_with("--only=copy --size=64 --out=/"), "{start}");
    }
    let runs = runs(&project);
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!(runs[0]["samples"].as_array().unwrap().len(), 3, "{}", runs[0]);
    let exported = project.run(&["report", "--export", "jsonl"]).stdout;
    assert!(exported.contains("\"suite mine\":\"3\""), "{exported}");
}

#[test]
fn options_are_translated_for_the_suite_and_user_options_come_last() {
    let project = project();
    let words = [
        "run",
        "./bench-tool",
        "-f",
        "fill",
        "-r",
        "1",
        "-t",
        "5ms",
        "-n",
        "2",
        "--",
        "--repeat=4",
        "--fast",
    ];
    project.run(&words).expect_status(0);
    let start = starts(&project).remove(0);
    assert!(start.ends_with("--min-time=0.005 --repeat=4 --fast"), "{start}");
    assert_eq!(runs(&project)[0]["samples"].as_array().unwrap().len(), 4);
    let told = project.run(&["run", "./bench-tool", "-f", "fill", "-r", "1", "-w", "1ms"]);
    told.expect_status(0).expect_stderr(&["has no option for --warmup"]);
    let told = project.run(&["run", "./bench-tool", "-r", "1", "--", "--only=copy"]);
    told.expect_status(2).expect_stderr(&["does not accept the option '--only' of mine"]);
}

#[test]
fn variants_of_a_suite_are_compared() {
    let project = project();
    let words =
        ["compare", "./bench-tool", "-f", "copy", "--variant", "now=SLOW=2", "--variant", "then="];
    let answer = project.run(&words).expect_status(0);
    answer.expect_stdout(&["then against now: both cases faster"]);
    let same = ["compare", "mine:./bench-tool", "mine:./bench-tool", "-f", "fill"];
    project.run(&same).expect_status(0).expect_stdout(&["same"]);
    let both = ["compare", "./bench-tool::copy", "./bench-tool::fill", "-r", "2"];
    let answer = project.run(&both);
    assert!(answer.stderr.contains("nothing to compare"), "{answer:?}");
}

#[test]
fn failed_cases_and_unreadable_results_are_reported() {
    let project = project();
    let answer = project.run(&["run", "./bench-tool", "-r", "2"]).expect_status(2);
    let answer =
        answer.expect_stdout(&["exited with status 3", "disk on fire", "--out=/dev/stdout"]);
    let answer = answer
        .expect_stdout(&["wrote unreadable results: 'results[0].times' is \"many\", not a number"]);
    assert!(answer.stdout.contains("fill"), "{answer:?}");
    let tried = project.run(&["run", "./bench-tool", "--test", "-x", "broken|odd"]);
    tried.expect_status(0);
}

#[test]
fn a_session_of_a_suite_is_resumed_after_it_was_killed() {
    let project = project().with("die", "5");
    let words = [
        "run",
        "./bench-tool",
        "-f",
        "copy",
        "-r",
        "3",
        "--variant",
        "a=",
        "--variant",
        "b=SLOW=2",
    ];
    let killed = project.run(&words);
    assert_eq!(killed.status, -1, "{killed:?}");
    let kept = runs(&project).len();
    assert!((1..5).contains(&kept), "{kept} runs");
    // The table comes from the session, whatever the file contains now.
    let project = project.with("speedwell.toml", "");
    project.run(&["run", "--resume", "@latest"]).expect_status(0);
    let mut slots: Vec<u64> =
        runs(&project).iter().map(|run| run["slot"].as_u64().unwrap()).collect();
    slots.sort_unstable();
    assert_eq!(slots, (0..12).collect::<Vec<u64>>());
}

#[test]
fn a_target_belongs_to_a_suite_by_name_or_by_a_file_beside_it() {
    let nameless =
        TABLE.replace("recognise = { content = \"mine-bench 3\", kind = \"text\" }\n", "");
    let project =
        TempProject::new().with_program("bench-tool", TOOL).with("company.toml", &nameless);
    let words = ["run", "--list", "company.toml", "mine:./bench-tool"];
    project.run(&words).expect_status(0).expect_stdout(&["copy size=8"]);
    let told = project.run(&["run", "company.toml", "mien:./bench-tool"]);
    told.expect_status(2).expect_stderr(&["hint: did you mean 'mine:./bench-tool'?"]);
    let told = project.run(&["run", "company.toml", "mine:./bench-tol"]);
    told.expect_status(2).expect_stderr(&["cannot resolve the path './bench-tol'"]);
    let project = project.with("company.toml", &nameless.replace("unit =", "unitt ="));
    let told = project.run(&["run", "company.toml", "mine:./bench-tool"]);
    told.expect_status(2).expect_stderr(&["company.toml': line ", "did you mean 'unit'?"]);
}

#[test]
fn a_new_adapter_is_written_and_tried() {
    let tool = TOOL
        .replace("--only=*) only=${word#*=} ;;", "--only=*) only=${word#*=}; out=/dev/stdout ;;");
    let project =
        TempProject::new().with_program("bench-tool", &tool.replace("\\nbroken\\nodd", ""));
    let words = ["new", "adapter", "mine", "./bench-tool", "--no-look"];
    project
        .run(&words)
        .expect_status(0)
        .expect_stderr(&["speedwell run mine.toml mine:./bench-tool --test"]);
    let text = fs::read_to_string(project.path("mine.toml")).unwrap();
    assert!(text.contains("[suite.mine]") && text.contains("# "), "{text}");
    let words = ["run", "mine.toml", "mine:./bench-tool", "--list"];
    project.run(&words).expect_status(0).expect_stdout(&["copy"]);
    let words = ["new", "adapter", "other", "./bench-tool"];
    let looked = project.run(&words).expect_status(0);
    looked.expect_stdout(&["other.toml", "copy", "fill"]);
    let again = project.run(&["new", "adapter", "mine"]);
    again.expect_status(2).expect_stderr(&["already exists"]);
    let told = project.run(&["new", "adapter", "a b"]);
    told.expect_status(2).expect_stderr(&["letters, digits and hyphens"]);
}

/// Reads the output of a suite.
type SuiteReader = fn(&[u8]) -> anyhow::Result<Vec<ReportedResult>>;

/// Output of the suite in that file of `tests/golden/suites/`, and its reader.
fn recorded_outputs() -> Vec<(Vec<u8>, SuiteReader)> {
    let bytes = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/suites");
        fs::read(folder.join(name)).unwrap()
    };
    vec![
        (bytes("criterion.json"), rust::read_criterion),
        (bytes("divan.txt"), rust::read_divan),
        (bytes("divan-list.txt"), rust::read_divan),
        (bytes("go.txt"), go_bench::read_reported),
        (bytes("libtest.txt"), rust::read_libtest),
        (bytes("mine.json"), |bytes| {
            let paths = ResultPaths {
                results: "results[*]",
                name: Some("name"),
                samples: "times",
                unit: "us",
                better: None,
            };
            paths.read(bytes)
        }),
    ]
}

#[test]
fn damaged_output_is_an_error_or_gives_consistent_results() {
    let mut seed = 7_u64;
    let mut draw = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    for (bytes, read) in recorded_outputs() {
        assert!(!read(&bytes).unwrap().is_empty());
        for _ in 0..300 {
            let mut damaged = bytes.clone();
            for _ in 0..=draw(3) {
                let at = draw(damaged.len().max(1)).min(damaged.len().saturating_sub(1));
                match draw(4) {
                    0 => damaged.truncate(at.max(1)),
                    1 if at < damaged.len() => damaged[at] = draw(256) as u8,
                    2 => damaged.extend_from_slice(&bytes),
                    _ => drop(damaged.drain(at..(at + draw(40)).min(damaged.len()))),
                }
            }
            for reported in read(&damaged).into_iter().flatten() {
                let is_declared = |sample: &Sample| {
                    reported.metrics.iter().any(|metric| *metric.name == *sample.metric)
                };
                assert!(reported.samples.iter().all(is_declared), "{reported:?}");
            }
        }
    }
}

/// The folder of a real project.
fn of_suite(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suites").join(name)
}

#[test]
fn every_go_unit_is_a_metric_and_every_failure_shows_its_reason() {
    if is_missing("go") {
        return;
    }
    let project = TempProject::new();
    let folder = of_suite("go").to_string_lossy().into_owned();
    let answer =
        project.run(&["run", &folder, "-r", "1", "-n", "2", "--iterations=10", "--metric", "all"]);
    let answer = answer.expect_status(2);
    let answer = answer.expect_stdout(&["bytes_per_op", "allocs_per_op", "steps/op", "4,000"]);
    answer.expect_stdout(&[
        "failed: tiny_test.go:",
        "no luck",
        "worse luck",
        "not on this machine",
    ]);
    let runs = runs(&project);
    let time =
        |sample: &&serde_json::Value| sample["metric"] == "time" && sample["iterations"] == 10.0;
    let samples = runs[0]["samples"].as_array().unwrap();
    assert_eq!(samples.iter().filter(time).count(), 2, "{samples:?}");
}

#[test]
fn a_test_binary_of_go_takes_part_in_a_comparison() {
    if is_missing("go") {
        return;
    }
    let project = TempProject::new();
    let binary = project.path("tiny.test").to_string_lossy().into_owned();
    let mut build = Command::new("go");
    build.args(["test", "-c", "-o", &binary, "."]).current_dir(of_suite("go"));
    assert!(build.status().unwrap().success());
    let words = ["compare", "./tiny.test", "./tiny.test", "-f", "Sum"];
    let short = ["-r", "2", "-n", "1", "--iterations=5"];
    project
        .run(&[&words[..], &short].concat())
        .expect_status(0)
        .expect_stdout(&["times=1", "times=4"]);
}

#[test]
fn two_package_folders_of_go_are_built_and_compared() {
    if is_missing("go") {
        return;
    }
    let text = |name: &str| fs::read_to_string(of_suite("go").join(name)).unwrap();
    let source = text("tiny_test.go");
    let read = "os.ReadFile(\"data\")";
    // Benchmarks read files beside them.
    let source = source.replace("func add(", &format!("var _, missing = {read}\n\nfunc add("));
    let source =
        source.replace("n := work()", "if missing != nil { b.Fatal(missing) }\n\t\t\tn := work()");
    let mut project = TempProject::new();
    for folder in ["old", "new"] {
        project = project
            .with(&format!("{folder}/go.mod"), &text("go.mod"))
            .with(&format!("{folder}/tiny_test.go"), &source)
            .with(&format!("{folder}/data"), "");
    }
    let words = ["compare", "./old", "./new", "-f", "Sum"];
    let short = ["-r", "2", "-n", "1", "--iterations=5"];
    let answer = project.run(&[&words[..], &short].concat()).expect_status(0);
    answer.expect_stdout(&["times=1", "times=4", "old", "new"]);
    let broken = project.with("new/tiny_test.go", &source.replace("var sink int", "var sink"));
    let answer = broken.run(&[&words[..], &short].concat()).expect_status(2);
    answer.expect_stderr(&[
        "in source 'new'",
        "does not compile: tiny_test.go:",
        "repeat it with: ",
    ]);
}

#[test]
fn a_package_folder_of_go_is_built_and_compared_at_two_revisions() {
    if is_missing("go") {
        return;
    }
    let Some(repository) = TestRepository::new() else {
        return;
    };
    let text = |name: &str| fs::read_to_string(of_suite("go").join(name)).unwrap();
    let source = text("tiny_test.go");
    let repository = repository
        .with("tiny/go.mod", &text("go.mod"))
        .with("tiny/tiny_test.go", &source)
        .committed("first");
    repository.create_branch("more");
    let repository = repository
        .with("tiny/tiny_test.go", &source.replace("return 1000\n", "return 3000\n"))
        .committed("more steps");
    let words = ["compare", "--old", "rev:main", "--new", "rev:HEAD", "./tiny", "-f", "Sum"];
    let short =
        ["-r", "2", "-n", "1", "--iterations=5", "--metric", "steps/op", "--format", "json"];
    let answer = repository.run(&[&words[..], &short].concat()).expect_status(0);
    assert!(!answer.stderr.contains("no option for"), "{answer:#?}");
    let json = answer.json();
    let changes = json["changes"].as_array().unwrap().iter();
    let values: Vec<(&str, f64, f64)> = changes
        .map(|one| {
            let first = |side: &str| one[side][0].as_f64().unwrap();
            let case = one["case"].as_str().unwrap();
            (case, first("baseline_values"), first("candidate_values"))
        })
        .collect();
    let cases = ["times=1", "times=4"].map(|times| {
        values.iter().find(|(case, ..)| case.contains(times)).map(|(_, old, new)| (*old, *new))
    });
    assert_eq!(cases, [Some((1000.0, 3000.0)), Some((4000.0, 12000.0))], "{json:#}");
}

/// A command on the Rust package, whose registry crates are compiled once for all tests and test
/// runs.
fn rust(project: &TempProject, words: &[&str]) -> CommandResult {
    let mut command = project.command(words);
    command.env("CARGO_TARGET_DIR", build_folder().join("rust"));
    // Benchmarks of Rust's own harness are unstable.
    command.env("RUSTC_BOOTSTRAP", "1").env("RUST_BACKTRACE", "0");
    CommandResult::from(command.output().unwrap())
}

fn has_rust() -> bool {
    let mut fetch = Command::new("cargo");
    fetch.args(["fetch", "--locked"]).current_dir(of_suite("rust"));
    let is_there = fetch.output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("skipped: the crates criterion and divan cannot be had here");
    }
    is_there
}

#[test]
fn every_bench_target_of_a_cargo_package_is_built_and_run() {
    if !has_rust() {
        return;
    }
    let project = TempProject::new();
    let folder = of_suite("rust").to_string_lossy().into_owned();
    let words = ["run", &folder, "-f", "fold", "-r", "1", "-t", "1ms", "-n", "10", "-w", "1ms"];
    let answer = rust(&project, &words).expect_status(0);
    answer.expect_stdout(&["with_criterion/fold/times/4", "with_libtest/fold"]);
    let counts: Vec<(String, usize)> = (runs(&project).iter())
        .map(|run| {
            let name = run["benchmark"].to_string();
            (name, run["samples"].as_array().unwrap().len())
        })
        .collect();
    for (name, count) in &counts {
        let expected = if name.contains("criterion") { 10 } else { 1 };
        assert_eq!(*count, expected, "{name} of {counts:?}");
    }
    assert_eq!(counts.len(), 5, "{counts:?}");
    let tried = rust(&project, &["run", &folder, "--test"]).expect_status(2);
    tried.expect_stdout(&["5 cases succeeded, 3 failed", "no luck"]);
}
