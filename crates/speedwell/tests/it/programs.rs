//! google/benchmark programs as sources: measured in randomised blocks of fresh processes.

use super::busy::{ensure_holds, retry_busy};
use super::project::{CommandResult, TempProject};
use std::process::Command;

/// A program with the options of google/benchmark: `NAMES` are its benchmarks, each of which takes
/// `TIME` ns and a little more with every start; each start is recorded in `starts`.
pub const PROGRAM: &str = r#"#!/bin/sh
# The last option of a kind counts.
for word in "$@"; do
  case $word in
    --benchmark_list_tests=true) list=1 ;;
    --benchmark_filter=*) filter=${word#*=} ;;
    --benchmark_out=*) out=${word#*=} ;;
    --benchmark_repetitions=*) repetitions=${word#*=} ;;
    --benchmark_min_time=*) ;;
    --benchmark_out_format=json) ;;
    --extra) ;;
    *) echo "$0: error: unrecognized command-line flag: $word" >&2; exit 1 ;;
  esac
done
names="NAMES"
if [ -n "$list" ]; then for name in $names; do echo $name; done; exit 0; fi
echo "chatter of ${0##*/}"
# Other programs are started only where a shell cannot do the same.
for name in $names; do [ "^$name\$" != "$filter" ] || break; name=; done
[ -n "$name" ] || name=$(for name in $names; do echo $name; done | grep -E -- "$filter") || exit 0
echo "${0##*/} $name $*" >> starts
extra=0
while read -r start; do extra=$((extra + 1)); done < starts
BEFORE
{
  printf '{"context": {"num_cpus": 2, "library_build_type": "BUILD"}, "benchmarks": ['
  at=1
  while [ $at -le $repetitions ]; do
    [ $at = 1 ] || printf ,
    printf '{"name": "%s", "run_name": "%s", "run_type": "iteration", "threads": 1,' $name $name
    printf '"iterations": 1000, "real_time": %d.%03d, "cpu_time": %d, "time_unit": "us",' \
      TIME $extra TIME
    printf '"bytes_per_second": %d}' $((1000000 / TIME))
    at=$((at + 1))
  done
  printf ']}'
} > $out
"#;

struct ScriptedProgram<'a> {
    names: &'a str,
    time_us: u32,
    before: &'a str,
    build: &'a str,
}

impl Default for ScriptedProgram<'_> {
    fn default() -> Self {
        ScriptedProgram {
            names: "BM_copy/8 BM_copy/64",
            time_us: 100,
            before: "",
            build: "release",
        }
    }
}

fn with_program(project: TempProject, name: &str, program: &ScriptedProgram<'_>) -> TempProject {
    let text = PROGRAM
        .replace("NAMES", program.names)
        .replace("TIME", &program.time_us.to_string())
        .replace("BEFORE", program.before)
        .replace("BUILD", program.build);
    project.with_program(name, &text)
}

/// Two programs, the second twice as fast.
fn slow_and_fast() -> TempProject {
    let fast = ScriptedProgram { time_us: 50, ..ScriptedProgram::default() };
    let project = with_program(TempProject::new(), "slow", &ScriptedProgram::default());
    with_program(project, "fast", &fast)
}

fn starts(project: &TempProject) -> Vec<String> {
    let text = std::fs::read_to_string(project.path("starts")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn expect_done(answer: &CommandResult) {
    assert_eq!(answer.status, 0, "{answer:?}");
}

#[test]
fn two_programs_are_measured_in_randomised_blocks_of_fresh_processes() {
    let project = slow_and_fast();
    let answer = project.run(&["compare", "./slow", "./fast", "--seed", "7", "--metric", "all"]);
    expect_done(&answer);
    assert!(answer.stdout.contains("fast against slow: both cases faster"), "{}", answer.stdout);
    for words in ["real_time\n─", "\ncpu_time\n─", "\nbytes_per_second\n─", ", higher is better"]
    {
        assert!(answer.stdout.contains(words), "{words} in {}", answer.stdout);
    }
    assert!(!answer.stdout.contains("chatter"), "{}", answer.stdout);
    let starts = starts(&project);
    assert!(starts.len() >= 2 * 2 * 8, "8 runs of 2 cases of 2 programs: {starts:?}");
    for block in starts.chunks(4) {
        let slow = block.iter().filter(|start| start.starts_with("slow ")).count();
        assert_eq!(slow, 2, "a block has two runs of either: {block:?}");
    }
    let same_order = starts.chunks(4).all(|block| block[0][..4] == starts[0][..4]);
    assert!(!same_order, "the order within blocks is drawn: {starts:?}");
}

#[test]
fn repetitions_inside_a_process_are_samples_of_one_run() {
    let project = slow_and_fast();
    let answer = project.run(&["compare", "./slow", "./fast", "-r", "4", "-n", "3"]);
    expect_done(&answer);
    assert!(answer.stdout.contains("4 runs a side"), "{}", answer.stdout);
    let exported = project.run(&["report", "--export", "jsonl"]).stdout;
    let runs = exported.lines().filter(|line| line.contains("\"slot\"")).count();
    assert_eq!(runs, 2 * 2 * 4, "{exported}");
    assert_eq!(exported.matches("\"metric\":\"real_time\"").count(), 2 * 2 * 4 * 3);
}

#[test]
fn user_options_replace_the_default_options_of_programs() {
    let project = slow_and_fast();
    let words =
        ["compare", "./slow", "./fast", "-r", "2", "--", "--benchmark_repetitions=2", "--extra"];
    expect_done(&project.run(&words));
    let start = &starts(&project)[0];
    assert!(start.contains("--benchmark_repetitions=2 --extra"), "{start}");
    assert!(!start.contains("--benchmark_repetitions=5"), "{start}");
}

#[test]
fn parts_of_programs_are_paired_by_a_common_word() {
    let both = ScriptedProgram {
        names: "BM_memcpy/8 BM_memcpy/64 BM_copy/8 BM_copy/64 BM_copy/512",
        ..ScriptedProgram::default()
    };
    let project = with_program(TempProject::new(), "bench", &both);
    let words = ["compare", "./bench::BM_memcpy", "./bench::BM_copy", "-r", "2"];
    let answer = project.run(&words);
    expect_done(&answer);
    assert!(answer.stdout.contains("[BM_memcpy|BM_copy]/*"), "{}", answer.stdout);
    assert!(
        answer.stderr.contains("not every side has them: '[BM_memcpy|BM_copy]/512' of 'BM_copy'"),
        "{}",
        answer.stderr
    );
    let starts = starts(&project);
    assert_eq!(starts.len(), 2 * 2 * 2, "{starts:?}");
    assert!(starts.iter().all(|start| start.contains("--benchmark_filter=^BM_")), "{starts:?}");
}

#[test]
fn a_crash_is_reported_and_the_other_cases_continue() {
    let crashing = ScriptedProgram {
        before: "if [ $name = BM_copy/64 ]; then echo 'bad luck' >&2; kill -SEGV $$; fi",
        ..ScriptedProgram::default()
    };
    let project = with_program(TempProject::new(), "old", &ScriptedProgram::default());
    let project = with_program(project, "new", &crashing);
    let answer = project.run(&["compare", "./old", "./new", "-r", "4"]);
    assert_eq!(answer.status, 2, "{answer:?}");
    assert!(answer.stdout.contains("killed by signal 11 (SIGSEGV)"), "{}", answer.stdout);
    assert!(answer.stdout.contains("bad luck"), "{}", answer.stdout);
    assert!(answer.stdout.contains("'--benchmark_filter=^BM_copy/64$'"), "{}", answer.stdout);
    assert!(answer.stdout.contains("BM_copy/8"), "{}", answer.stdout);
}

#[test]
fn errors_and_skips_of_benchmarks_are_honoured() {
    let row = |members: &str| {
        format!(
            "printf '{{\"benchmarks\":[{{\"name\":\"%s\",\"run_type\":\"iteration\",{members},\
             \"real_time\":0,\"cpu_time\":0,\"time_unit\":\"ns\"}}]}}' $name > $out; exit 0"
        )
    };
    let text = format!(
        "case $name in *8) {};; *64) {};; esac",
        row("\"error_occurred\":true,\"error_message\":\"no such device\""),
        row("\"skipped\":true,\"skip_message\":\"not on this machine\"")
    );
    let broken = ScriptedProgram {
        before: &text,
        names: "BM_copy/8 BM_copy/64 BM_copy/512",
        ..ScriptedProgram::default()
    };
    let project = with_program(TempProject::new(), "bench", &broken);
    let answer = project.run(&["run", "./bench", "-r", "2"]);
    assert_eq!(answer.status, 2, "{answer:?}");
    assert!(answer.stdout.contains("no such device"), "{}", answer.stdout);
    assert!(answer.stdout.contains("not on this machine"), "{}", answer.stdout);
    answer.expect_stdout(&["BM_copy/512: 100 µs (2 runs)"]);
}

#[test]
fn a_debug_build_is_reported_once() {
    let debug = ScriptedProgram { build: "debug", ..ScriptedProgram::default() };
    let project = with_program(TempProject::new(), "old", &debug);
    let project = with_program(project, "new", &debug);
    let answer = project.run(&["compare", "./old", "./new", "-r", "2"]);
    let told = answer.stdout.matches("debug build").count();
    assert_eq!(told, 1, "{}", answer.stdout);
}

#[test]
fn programs_can_be_compared_with_results_of_yesterday() {
    let project = slow_and_fast();
    let exported = project.run(&["run", "./slow", "-r", "9"]);
    expect_done(&exported);
    let lines = project.run(&["report", "--export", "jsonl"]).stdout;
    let project = project.with("yesterday.jsonl", &lines);
    let answer = project.run(&["compare", "yesterday.jsonl", "./fast", "-r", "9"]);
    expect_done(&answer);
    assert!(answer.stdout.contains("one after the other"), "{}", answer.stdout);
    assert!(answer.stdout.contains("▲ better"), "{}", answer.stdout);
}

#[test]
fn mistakes_with_programs_are_named() {
    let project = slow_and_fast();
    let told = |words: &[&str]| {
        let answer = project.run(words);
        assert_eq!(answer.status, 2, "{answer:?}");
        answer.stderr
    };
    assert!(told(&["compare", "./slow"]).contains("alone cannot be compared"));
    assert!(told(&["compare", "./slow::BM_x", "./fast"]).contains("'::BM_x' matches nothing"));
    assert!(
        told(&["compare", "./slow", "/bin/true"])
            .contains("cannot compare a command with a benchmark program")
    );
    assert!(told(&["compare", "./slow,./fast", "./fast"]).contains("cannot be merged"));
    assert!(told(&["compare", "./slow", "./fast", "--", "--oops"]).contains("unrecognized"));
    let other = ScriptedProgram { names: "BM_other", ..ScriptedProgram::default() };
    let project = with_program(slow_and_fast(), "other", &other);
    let answer = project.run(&["compare", "./slow", "./other"]);
    assert_eq!(answer.status, 2);
    assert!(answer.stderr.contains("nothing to compare"), "{answer:?}");
}

/// Compiles a program with the real library, or prints why not.
fn compile(project: &TempProject, name: &str, flag: &str) -> bool {
    let source = r#"
#include <benchmark/benchmark.h>
#include <vector>
static void BM_copy(benchmark::State& state) {
  std::vector<char> from(state.range(0)), to(state.range(0));
  for (auto _ : state) {
    for (long at = 0; at < state.range(0); ++at) to[at] = from[at];
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_copy)->Arg(1024);
BENCHMARK_MAIN();
"#;
    std::fs::write(project.path("copy.cc"), source).unwrap();
    let words = [flag, "copy.cc", "-o", name, "-lbenchmark", "-lpthread"];
    let built = Command::new("c++").args(words).current_dir(project.path("")).output();
    let works = built.as_ref().is_ok_and(|built| built.status.success());
    if !works {
        eprintln!("skipped: the benchmark library is not installed: {built:?}");
    }
    works
}

#[test]
fn real_programs_built_with_different_flags_differ() {
    let project = TempProject::new();
    if !compile(&project, "plain", "-O0") || !compile(&project, "fast", "-O3") {
        return;
    }
    retry_busy(3, || {
        let answer = project.run(&["compare", "./plain", "./fast", "-t", "1ms", "-n", "1"]);
        expect_done(&answer);
        ensure_holds(answer.stdout.contains("times as fast as plain"), || answer.stdout.clone())
    });
    let answer = project.run(&["run", ".", "--list"]);
    assert_eq!(answer.status, 2, "two programs with one name: {answer:?}");
    assert!(answer.stderr.contains("both"), "{answer:?}");
}
