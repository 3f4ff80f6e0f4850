//! Builds of one source, from the command line: linking, counting once per build, and rejections.

use super::harness_driver::find_tool;
use super::project::{CommandResult, TempProject};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Two variants 10% apart, whose builds differ by up to 20%.
const FAKE: &str = "case k=1\n\
    old 100\n\
    new 110\n\
    builds 1.0 1.2 1.1 1.0 1.1 1.2 1.0 1.2\n";

const TWO: [&str; 4] = ["--variant", "old=true", "--variant", "new=true"];

fn project() -> TempProject {
    TempProject::new().with("g/builds.fake", FAKE)
}

fn run(project: &TempProject, words: &[&str]) -> CommandResult {
    project.run(&[&["run", "g/builds.fake", "--seed", "4"], words].concat())
}

/// Returns the runs of the last session: variant, slot and build.
fn builds_of(project: &TempProject) -> Vec<(String, u64, Option<u64>)> {
    let lines = project.run(&["report", "--export", "jsonl"]).expect_status(0).stdout;
    let of_line = |line: &str| {
        let run = serde_json::from_str::<Value>(line).unwrap()["run"].take();
        Some((run["variant"].as_str()?.to_owned(), run["slot"].as_u64()?, run["build"].as_u64()))
    };
    lines.lines().filter_map(of_line).collect()
}

#[test]
fn with_as_many_builds_as_runs_every_run_has_its_own_build() {
    let project = project();
    run(&project, &[&TWO[..], &["--builds", "32", "--runs", "8"]].concat()).expect_status(0);
    for variant in ["old", "new"] {
        let runs = builds_of(&project).into_iter().filter(|run| run.0 == variant);
        let builds: BTreeSet<Option<u64>> = runs.map(|run| run.2).collect();
        assert_eq!(builds, (0..8).map(Some).collect());
    }
}

#[test]
fn runs_that_share_builds_are_compared_by_build() {
    let project = project();
    let words = [&TWO[..], &["--builds", "8", "--runs", "16", "--format", "json"]].concat();
    let found = run(&project, &words).expect_status(0).json();
    let row = &found["changes"][0];
    assert_eq!(row["verdict"], "better");
    // Every build contributes both its runs, with equal values.
    assert_eq!(row["baseline_runs"], 16);
    // Standard deviation of the logarithms of the eight factors: 0.0844 (numpy).
    let notes = row["notes"].as_str().unwrap();
    let expected = [
        "Layout: the standard deviation between builds of the same source is 8.4% [",
        "(slowest/fastest 1.20); between runs of one build, it is 0%.",
    ];
    assert!(expected.iter().all(|words| notes.contains(words)), "{notes}");
    let mut runs_of_build: BTreeMap<(String, Option<u64>), u32> = BTreeMap::new();
    for (variant, _, build) in builds_of(&project) {
        *runs_of_build.entry((variant, build)).or_default() += 1;
    }
    assert_eq!(runs_of_build.len(), 16);
    assert!(runs_of_build.values().all(|&runs| runs == 2), "{runs_of_build:?}");
}

#[test]
fn four_builds_are_too_few_for_a_verdict_whatever_the_runs() {
    let answer = run(&project(), &[&TWO[..], &["--builds", "4", "--runs", "48"]].concat());
    let answer = answer
        .expect_status(0)
        .expect_stdout(&["unclear", "Too few builds: 4 a side can decide nothing; 6 are enough."]);
    answer.expect_stderr(&["4 builds a side show nothing", "--builds 6 is enough"]);
}

#[test]
fn without_a_number_of_runs_looks_come_after_whole_builds() {
    let words = [&TWO[..], &["--builds", "16", "--format", "json"]].concat();
    let project = project();
    let found = run(&project, &words).expect_status(0).json();
    // 16 builds of two runs, with looks at 8, 14 and 16 builds. The first look does not find a
    // change of 10% among layouts that are 20% apart, the second does.
    assert_eq!(found["changes"][0]["decided_at"], 28);
    let builds: BTreeSet<Option<u64>> = builds_of(&project).iter().map(|run| run.2).collect();
    assert_eq!(builds, (0..14).map(Some).collect());
}

#[test]
fn one_variant_shows_how_much_its_builds_differ() {
    let answer = run(&project(), &["--variant", "old=true", "--builds", "4", "--runs", "8"]);
    let answer = answer.expect_status(0);
    let words: Vec<&str> = answer.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("between builds of the same source is 8.8%"), "{words:?}");
}

#[test]
fn doctor_says_in_a_line_whether_layout_matters() {
    let text = FAKE.replace("old 100\nnew 110", "* 100");
    let project = TempProject::new().with("g/builds.fake", &text);
    let answer = project.run(&["doctor", "--builds", "g/builds.fake"]);
    let answer = answer
        .expect_status(0)
        .expect_stdout(&["g/builds.fake k=1: layout matters, so compare builds (--builds 32)."]);
    let words: Vec<&str> = answer.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("builds of the same source is 8.4%"), "{words:?}");
    let even = TempProject::new().with("g/builds.fake", "case k=1\n* 100 101 102 103 104\n");
    let answer = even.run(&["doctor", "--builds", "g/builds.fake"]);
    answer.expect_status(0).expect_stdout(&["g/builds.fake k=1: layout hardly matters."]);
    assert_eq!(builds_of(&even).len(), 32);
    project
        .run(&["doctor", "--builds"])
        .expect_status(2)
        .expect_stderr(&["no target given to build"]);
}

#[test]
fn a_change_within_the_spread_of_earlier_builds_is_marked() {
    let project = TempProject::new().with("g/builds.fake", &FAKE.replace("new 110", "new 103"));
    run(&project, &["--variant", "old=true", "--builds", "4", "--runs", "8"]).expect_status(0);
    let words = [&TWO[..], &["--runs", "16", "--format", "json"]].concat();
    let found = run(&project, &words).expect_status(0).json();
    let row = &found["changes"][0];
    assert_eq!(row["verdict"], "better");
    let expected =
        "In @1, the standard deviation between builds of the same source was 8.8% for this case";
    assert!(row["notes"].as_str().unwrap().contains(expected), "{row}");
    let large = project.with("g/builds.fake", FAKE);
    let found = run(&large, &words).expect_status(0).json();
    assert!(!found["changes"][0]["notes"].as_str().unwrap().contains("Builds of one"));
}

#[test]
fn a_resumed_session_executes_the_builds_that_were_planned() {
    let words = [&TWO[..], &["--builds", "4", "--runs", "8", "--fail-fast"]].concat();
    let whole = project();
    run(&whole, &words).expect_status(0);
    let text = FAKE.replace("new 110", "new 110 110 110 exit:3 110 110 110 110");
    let cut = TempProject::new().with("g/builds.fake", &text);
    run(&cut, &words).expect_status(2);
    assert!(builds_of(&cut).len() < 15);
    let cut = cut.with("g/builds.fake", FAKE);
    cut.run(&["run", "--resume", "@latest"]).expect_status(2);
    let failed = |run: &(String, u64, Option<u64>)| builds_of(&cut).contains(run);
    let missing = builds_of(&whole).into_iter().filter(|run| !failed(run)).count();
    assert_eq!((missing, builds_of(&cut).len()), (1, 15), "all but the one that failed");
}

#[test]
fn builds_are_refused_for_unsuitable_targets_with_alternatives() {
    let project = project();
    let refusals: [(&[&str], &str); 8] = [
        (
            &["eval", "node", "1", "--builds", "8"],
            "node is not linked, so there are no builds of such code\nhint: --layout env,stack",
        ),
        (&["eval", "python", "1", "--builds", "8"], "python is not linked"),
        (&["eval", "java", "1", "--builds", "8"], "java is not linked"),
        (&["eval", "erlang", "1.", "--builds", "8"], "erlang is not linked"),
        (&["eval", "go", "1", "--layout", "align"], "Go has no option that aligns functions"),
        (&["run", "g/builds.fake", "--builds", "1"], "a single build has a single layout"),
        (&["run", "g/builds.fake", "--layout", "sections"], "needs several builds"),
        (
            &["run", "g/builds.fake", "--builds", "8", "--layout", "env"],
            "'--layout' leaves 'sections' out",
        ),
    ];
    for (words, reason) in refusals {
        let refused = project.run(words).expect_status(2);
        refused.expect_stderr(&[reason]);
    }
    let paired = [&TWO[..], &["--order", "paired", "--builds", "8"]].concat();
    run(&project, &paired)
        .expect_status(2)
        .expect_stderr(&["needs separate builds for every pair", "hint: --builds 32"]);
}

#[test]
fn the_environment_size_varies_with_every_run_and_follows_the_seed() {
    let lengths = || {
        let project = TempProject::new();
        let words = [
            "eval",
            "sh",
            "echo ${#SPEEDWELL_PAD} >> log",
            "--layout",
            "env,stack",
            "--runs",
            "6",
            "-n",
            "1",
        ];
        project.run(&[&words[..], &["--iterations=1", "--seed", "9"]].concat()).expect_status(0);
        let log = std::fs::read_to_string(project.path("log")).unwrap();
        // A run repeats the command until its time is up.
        let mut lengths: Vec<u32> = log.lines().map(|line| line.parse().unwrap()).collect();
        lengths.dedup();
        lengths
    };
    let first = lengths();
    assert!(first.iter().all(|bytes| (1..=4096).contains(bytes)));
    assert_eq!(first.len(), 6, "{first:?}");
    assert_eq!(first, lengths());
}

/// Reports the offset of one of its functions within a page, and fails on request.
const PROGRAM: &str = r#"#include <speedwell.hpp>
#include <cstdint>
#include <cstdlib>
__attribute__((noinline)) int first(int x) { return x * 3 + 1; }
__attribute__((noinline)) int second(int x) { return x * 5 + 1; }
SPEEDWELL_BENCHMARK(place) {
  int x = 1;
  for (auto _ : bench) speedwell::keep(x = first(second(x)) & 1023);
  if (std::getenv("FAIL")) std::abort();
  bench.metric("place", double(reinterpret_cast<std::uintptr_t>(&first) & 4095), "B", speedwell::Better::lower);
}
"#;

const QUICK: [&str; 8] = ["-n", "1", "-t", "1ms", "-w", "0", "--seed", "6"];

/// Runs with a separate cache folder, whose builds are inspected afterwards.
fn with_compiler(project: &TempProject, words: &[&str]) -> CommandResult {
    compiler_command(project, words).output().unwrap().into()
}

fn compiler_command(project: &TempProject, words: &[&str]) -> Command {
    let mut command = project.command(words);
    command.env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache-builds"));
    command.env_remove("CXX").env("CXXFLAGS", "-O0");
    command
}

/// Linkers to try: the compiler's own, and those that can shuffle, if installed.
fn linkers() -> Vec<&'static str> {
    let is_there = |name: &&str| {
        let found = Command::new(name).arg("--version").output().is_ok();
        if !found {
            eprintln!("skipped: {name} is not installed");
        }
        found
    };
    let shuffling = [("ld.lld", "lld"), ("mold", "mold")];
    let found = shuffling.iter().filter(|(program, _)| is_there(program));
    found.map(|(_, name)| *name).chain(["bfd"]).collect()
}

#[test]
fn functions_have_different_addresses_in_different_builds() {
    if find_tool(&["c++", "g++", "clang++"]).is_none() {
        return;
    }
    for linker in linkers() {
        // Not compiled again, only linked, if everything is the same as last time.
        let project = TempProject::at_constant_path(&format!("builds-{linker}"));
        let project = project.with("g/place.cpp", PROGRAM);
        let variant = format!("v=-fuse-ld={linker}");
        let words = ["run", "g/place.cpp", "--builds", "6", "--runs", "12", "--variant", &variant];
        let answer = with_compiler(&project, &[&words[..], &QUICK[..]].concat()).expect_status(0);
        assert_eq!(answer.stdout.contains("coarse layout: 2"), linker == "bfd", "{answer:?}");
        let lines =
            with_compiler(&project, &["report", "--export", "jsonl"]).expect_status(0).stdout;
        let mut places: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for line in lines.lines() {
            let run = serde_json::from_str::<Value>(line).unwrap()["run"].take();
            let samples = run["samples"].as_array().into_iter().flatten();
            for sample in samples.filter(|sample| sample["metric"] == "place") {
                let place = sample["value"].as_f64().unwrap() as u64;
                places.entry(run["build"].as_u64().unwrap()).or_default().insert(place);
            }
        }
        assert_eq!(places.len(), 6, "{linker}: {lines}");
        assert!(places.values().all(|of_build| of_build.len() == 1), "{linker}: {places:?}");
        let distinct: BTreeSet<&BTreeSet<u64>> = places.values().collect();
        assert!(distinct.len() > 2, "{linker}: {places:?}");
        if linker == "bfd" {
            a_build_that_crashes_is_linked_again_by_the_line_of_its_failure(&project);
        }
    }
}

/// Measures a program again that the compiler's own linker has linked.
fn a_build_that_crashes_is_linked_again_by_the_line_of_its_failure(project: &TempProject) {
    let variant = "v=-fuse-ld=bfd";
    let words = ["run", "g/place.cpp", "--builds", "4", "--runs", "4", "--variant", variant];
    let mut command =
        compiler_command(project, &[&words[..], &["--format", "json"], &QUICK].concat());
    // As a variable of the variant, it would be part of what a build is found by.
    command.env("FAIL", "1");
    let found = CommandResult::from(command.output().unwrap()).expect_status(2).json();
    let failure = &found["failures"][0];
    let said = failure["stderr_tail"].as_str().unwrap();
    assert!(
        said.contains("build ") && said.contains("layout seed ") && said.contains("-fuse-ld=bfd"),
        "{said}"
    );
    let replay = failure["replay"].as_str().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", replay]).current_dir(project.path("g")).env("FAIL", "1");
    let again = shell.output().unwrap();
    let complaint = String::from_utf8_lossy(&again.stderr);
    assert!(!again.status.success() && !complaint.contains("ld: "), "{replay}: {again:?}");
}

#[test]
fn snippets_of_compiled_languages_have_builds() {
    let snippets = [
        (&["cc", "gcc", "clang"][..], "c", "1 + 1"),
        (&["c++", "g++", "clang++"][..], "cpp", "std::string(3, 'x').size()"),
        (&["rustc"][..], "rust", "(1..10u64).sum::<u64>()"),
        (&["go"][..], "go", "strings.Repeat(\"x\", 3)"),
    ];
    for (tools, language, code) in snippets {
        if find_tool(tools).is_none() {
            continue;
        }
        let project = TempProject::new();
        let words = ["eval", language, code, "--builds", "2", "--runs", "4"];
        let answer = with_compiler(&project, &[&words[..], &QUICK[..]].concat());
        answer
            .expect_status(0)
            .expect_stdout(&["Layout: the standard deviation between builds of the same source"]);
        assert_eq!(builds_of(&project).len(), 4, "{language}");
    }
}
