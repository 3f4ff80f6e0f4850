//! C++ benchmarks from source file to verdict: compiled, measured, compared; and failures.

use super::harness_driver::{compiled, find_tool};
use super::project::{CommandResult, TempProject, is_current, repository};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

const LOOPS: &str = r#"#include <speedwell.hpp>
#include <cstdlib>

SPEEDWELL_BENCHMARK(sum, speedwell::param("n", {100, 1000})) {
  const int n = bench.get<int>("n");
  long total = 0;
  for (auto _ : bench) {
    total = 0;
    for (int i = 0; i < n; ++i) speedwell::keep(total += i);
  }
  bench.items(bench.iterations() * n);
  bench.check(total);
}

SPEEDWELL_BENCHMARK(absent) { bench.skip("there is no such device"); }

SPEEDWELL_BENCHMARK(aborts) { for (auto _ : bench) std::abort(); }
"#;

const EMPTY: &str =
    "#include <speedwell.hpp>\nSPEEDWELL_BENCHMARK(a) { for (auto _ : bench) {} }\n";

/// Short samples: these tests check messages, not speed.
const QUICK: [&str; 8] = ["--samples", "2", "--time", "1ms", "--warmup", "0", "--runs", "2"];

/// The project with this file; `None` without a compiler. The harness is compiled already, once for
/// all tests.
fn with_file(project: TempProject, file: &str, text: &str) -> Option<TempProject> {
    static HARNESS: OnceLock<()> = OnceLock::new();
    find_tool(&["c++", "g++", "clang++"])?;
    HARNESS.get_or_init(|| {
        let empty = TempProject::at_constant_path("cpp-empty").with("a.cpp", EMPTY);
        run(&empty, &["run", "--list", "a.cpp"]).expect_status(0);
    });
    Some(project.with(file, text))
}

fn run(project: &TempProject, words: &[&str]) -> CommandResult {
    let mut command = project.command(words);
    // Kept between test runs: the harness is compiled once for each flag.
    command.env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    // The fastest compilation: these tests compile a lot.
    command.env_remove("CXX").env("CXXFLAGS", "-O0");
    command.output().unwrap().into()
}

#[test]
fn a_source_file_is_compiled_and_measured() {
    // Not compiled again if this file, the harness and the compiler are the same as last time.
    let project = TempProject::at_constant_path("cpp-loops");
    let Some(project) = with_file(project, "math/loops.cpp", LOOPS) else {
        return;
    };
    let list = run(&project, &["run", "--list", "math"]).expect_status(0);
    list.expect_stdout(&["math/loops/sum n=100", "math/loops/sum n=1000", "math/loops/absent"]);
    let words = ["run", "math", "--exclude", "aborts", "--metric", "all"];
    let answer = run(&project, &[&words, &QUICK[..]].concat());
    answer.expect_status(0).expect_stdout(&[
        "math/loops/sum",
        "n=100",
        "items",
        "throughput",
        "there is no such device",
    ]);
    let kept = run(&project, &["report", "--export", "jsonl"]).expect_status(0).stdout;
    assert_eq!(kept.matches(r#""metric":"items""#).count(), 2 * 2 * 2, "cases x runs x samples");
    let only = run(&project, &["run", "--list", "math", "--filter", "loops/absent"]);
    assert!(!only.expect_status(0).stdout.contains("sum"));
    a_crash_is_a_failure_and_the_others_are_measured(&project);
    flags_of_one_source_are_compared_in_one_command(&project);
}

/// Uses the program that is compiled already.
fn a_crash_is_a_failure_and_the_others_are_measured(project: &TempProject) {
    let words = ["run", "math/loops.cpp", "--filter", "aborts|sum", "--set", "n=100"];
    let answer = run(project, &[&words, &QUICK[..]].concat()).expect_status(2);
    answer.expect_stdout(&["math/loops/sum", "signal 6 (SIGABRT)", " aborts"]);
}

/// The variant without flags uses the program that is compiled already.
fn flags_of_one_source_are_compared_in_one_command(project: &TempProject) {
    let variants = ["--variant", "O0=", "--variant", "O1=-O1", "--set", "n=1000"];
    let words =
        [&["compare", "math/loops.cpp", "--filter", "sum"], &variants[..], &QUICK[..]].concat();
    run(project, &words).expect_status(0).expect_stdout(&[
        "O0",
        "O1",
        "math/loops/sum\n",
        "n=1000",
    ]);
    let notes = run(project, &["report", "--export", "jsonl"]).stdout;
    assert!(notes.contains("compiled without optimisation"), "{notes}");
}

#[test]
fn a_compile_error_is_shown_with_the_compiler_message_and_command() {
    let text = "#include <speedwell.hpp>\nSPEEDWELL_BENCHMARK(x) { no_such_thing(); }\n";
    let Some(project) = with_file(TempProject::new(), "g/broken.cpp", text) else {
        return;
    };
    let answer = run(&project, &["run", "g/broken.cpp"]).expect_status(2);
    answer.expect_stderr(&[
        "does not compile",
        "no_such_thing",
        "broken.cpp:2",
        "repeat it with: cd ",
    ]);
}

#[test]
fn a_changed_header_is_compiled_in() {
    // Another test has a variant with the same flag, and so the same harness.
    let text = "#include <speedwell.hpp>\n#include \"near.hpp\"\n\
                // speedwell: flags -O1\n\
                #ifdef __OPTIMIZE__\n#define MORE 5\n#endif\n\
                SPEEDWELL_BENCHMARK(b, speedwell::param(\"n\", {MORE, VALUE})) { for (auto _ : bench) {} }\n";
    let Some(project) = with_file(TempProject::new(), "g/b.cpp", text) else {
        return;
    };
    for value in ["7", "8"] {
        fs::write(project.path("g/near.hpp"), format!("#define VALUE {value}\n")).unwrap();
        let list = run(&project, &["run", "--list", "g/b.cpp"]).expect_status(0);
        list.expect_stdout(&["g/b/b n=5", &format!("g/b/b n={value}")]);
    }
}

#[test]
fn prebuilt_programs_are_measured_only_if_built_with_the_header() {
    let zoo = repository().join("crates/speedwell/tests/conformance/cpp/zoo.cpp");
    let Some(program) = compiled(&zoo) else {
        return;
    };
    let project = TempProject::new();
    let words = ["run", &program, "--filter", "zoo/answer"];
    run(&project, &[&words, &QUICK[..]].concat())
        .expect_status(0)
        .expect_stdout(&["zoo/answer\n", "n=1000"]);
    std::os::unix::fs::symlink("/bin/true", project.path("other")).unwrap();
    run(&project, &["run", "./other"]).expect_status(2).expect_stderr(&["is not a benchmark file"]);
    let variant = ["--variant", "a=/bin/true", "--variant", "b=/bin/true"];
    run(&project, &[&words[..2], &variant[..], &QUICK[..]].concat())
        .expect_status(2)
        .expect_stderr(&["was not built with speedwell.hpp, so it is not started"]);
}

#[test]
fn prebuilt_programs_are_compared_whatever_their_file_names() {
    let zoo = repository().join("crates/speedwell/tests/conformance/cpp/zoo.cpp");
    let Some(program) = compiled(&zoo) else {
        return;
    };
    let project = TempProject::new();
    for name in ["old", "new"] {
        // A link would reveal the original name, and a copy by this process might be rejected as
        // busy.
        let mut copy = Command::new("cp");
        let copied = copy.arg(&program).arg(project.path(name)).status();
        assert!(copied.unwrap().success());
    }
    let words = ["compare", "./old", "./new", "--filter", "/answer"];
    let answer = run(&project, &[&words, &QUICK[..]].concat())
        .expect_status(0)
        .expect_stdout(&["answer", "unclear"]);
    assert!(!answer.stdout.contains("old/answer"), "{}", answer.stdout);
}

#[test]
fn several_files_of_one_program_may_include_the_header() {
    let Some(compiler) = find_tool(&["c++", "g++", "clang++"]) else {
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("two-files");
    let header = repository().join("crates/adapters/languages/cpp");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cpp.rs");
    if !is_current(&folder.join("both"), &[header.clone(), own]) {
        fs::create_dir_all(&folder).unwrap();
        for (file, name) in [("a.cpp", "first"), ("b.cpp", "second")] {
            fs::write(folder.join(file), EMPTY.replace("(a)", &format!("({name})"))).unwrap();
        }
        let mut command = Command::new(compiler);
        command.args(["-std=c++17", "-O0", "-pthread", "a.cpp", "b.cpp", "-o", "both", "-I"]);
        assert!(command.arg(header).current_dir(&folder).status().unwrap().success());
    }
    let both = Command::new(folder.join("both")).arg("--list").output().unwrap();
    assert_eq!(String::from_utf8(both.stdout).unwrap(), "first\nsecond\n");
}

#[test]
fn started_by_hand_a_program_prints_a_table_and_a_hint() {
    let zoo = repository().join("crates/speedwell/tests/conformance/cpp/zoo.cpp");
    let Some(program) = compiled(&zoo) else {
        return;
    };
    let run =
        |words: &[&str]| CommandResult::from(Command::new(&program).args(words).output().unwrap());
    let answer =
        run(&["answer", "n=10", "--samples=2", "--time=0.001", "--warmup=0"]).expect_status(0);
    answer
        .expect_stdout(&["answer n=10", " ns ", "weight 640 B"])
        .expect_stderr(&["hint: ", "speedwell run"]);
    run(&["throws"]).expect_status(2).expect_stdout(&["std::range_error: bad\tluck"]);
    run(&["answer", "n=x"]).expect_status(2).expect_stderr(&["bad argument: n=x"]);
}

#[test]
fn every_kind_of_value_can_be_kept_by_every_compiler() {
    // A constant operand is not allowed by some constraints of `asm`.
    let text = r#"#include <speedwell.hpp>
struct Big { int numbers[8]; };
struct Odd { char letters[3]; };
enum Kind { first };
void keep_all() {
  int array[4] = {1}, number = 1;
  Big big{};
  Odd odd{};
  Kind kind = first;
  bool truth = true;
  const char* letters = "a";
  const float share = .5f;
  double change = 2;
  long double longer = 2;
  std::string string = "x";
  std::vector<int> vector;
  speedwell::keep(array), speedwell::keep(number), speedwell::keep(big), speedwell::keep(odd);
  speedwell::keep(kind), speedwell::keep(truth), speedwell::keep(letters), speedwell::keep(share);
  speedwell::keep(change), speedwell::keep(longer), speedwell::keep(string), speedwell::keep(vector);
  speedwell::keep(3), speedwell::keep(2.5f), speedwell::keep(vector.size());
  speedwell::keep(std::string("y")), speedwell::keep(nullptr);
}
"#;
    let compilers = ["g++", "clang++"].map(|name| find_tool(&[name]));
    let project = TempProject::new().with("keep.cpp", text);
    for compiler in compilers.into_iter().flatten() {
        for more in [
            &["-O2", "-DSPEEDWELL_NO_MAIN"][..],
            &["-O0", "-fno-exceptions", "-fno-rtti", "-fsyntax-only"],
        ] {
            let mut command = Command::new(&compiler);
            command.args([
                "-std=c++17",
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-c",
                "keep.cpp",
            ]);
            command
                .args(more)
                .args(["-o", "/dev/null", "-I"])
                .arg(repository().join("crates/adapters/languages/cpp"));
            let output = command.current_dir(project.path(".")).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{compiler} {more:?}: {said}");
        }
    }
}
