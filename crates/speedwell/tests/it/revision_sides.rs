//! Each side of a comparison measures its own artifact and its own code, with the same benchmark as
//! the other side.

use super::harness_driver::find_tool;
use super::project::{CommandResult, TempProject, node};
use super::repository::{BENCH, TestRepository};
use super::suite_projects::{self, QUICK_JAVA, installed};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A suite whose program executes built archives: the last line of one is the time of its only
/// benchmark.
const ARCHIVES: &str = r#"
[suite.archive]
recognise = { kind = "zip", content = "BENCHES" }
program = "./java"
list = ["{program}", "--list", "{file}"]
case = '^(?P<name>\S+)$'
run = ["{program}", "--run", "{file}"]
read = "lines"
line = '^(?P<name>\S+) (?P<value>[\d.]+) (?P<unit>\S+)$'
"#;

const JAVA: &str =
    "#!/bin/sh\ncase $1 in --list) echo offer ;; *) echo offer $(tail -n 1 \"$2\") ns ;; esac\n";

/// Writes a build artifact.
const BUILD: &str =
    "printf 'PK\\003\\004\\000BENCHES\\n%s\\n' \"$(cat cost)\" > out.jar; echo built >> $LOG";

/// A repository whose builds are archives of 100 ns on `main` and of 500 ns on the checked-out
/// branch, with an archive of 7 ns in the checkout; `None`, with a message, without git.
fn archives() -> Option<TestRepository> {
    let repository = TestRepository::new()?
        .with(".gitignore", "out.jar\n")
        .with("speedwell.toml", ARCHIVES)
        .with("java", JAVA)
        .with("cost", "100");
    let java = repository.project.path("java");
    Command::new("chmod").arg("+x").arg(java).status().unwrap();
    let repository = repository.committed("first");
    repository.create_branch("slow");
    let repository = repository.with("cost", "500").committed("slower");
    write_archive(&repository, "out.jar", "7");
    Some(repository)
}

fn write_archive(repository: &TestRepository, name: &str, cost: &str) {
    let text = format!("PK\u{3}\u{4}\0BENCHES\n{cost}\n");
    fs::write(repository.project.path(name), text).unwrap();
}

/// The medians of both sides of the only case.
fn medians(answer: CommandResult) -> [f64; 2] {
    let json = answer.json();
    let change = &json["changes"][0];
    ["baseline_median", "candidate_median"].map(|key| change[key].as_f64().unwrap_or(f64::NAN))
}

#[test]
fn every_revision_measures_the_artifact_that_its_own_build_made() {
    let Some(repository) = archives() else { return };
    let words = [
        "compare", "--old", "rev:main", "--new", "rev:HEAD", "--runs", "2", "--build", BUILD,
        "--format", "json", "out.jar",
    ];
    let compared = || medians(repository.run(&words).expect_status(0));
    assert_eq!(compared(), [100.0, 500.0]);
    assert_eq!(compared(), [100.0, 500.0], "out of the cache");
    fs::remove_file(repository.project.path("out.jar")).unwrap();
    assert_eq!(compared(), [100.0, 500.0], "without one in the checkout");
    let path = repository.project.path("out.jar");
    let absolute = [&words[..11], &[path.to_str().unwrap()]].concat();
    let found = medians(repository.run(&absolute).expect_status(0));
    assert_eq!(found, [100.0, 500.0], "by its whole path");
    assert_eq!(repository.log().len(), 2, "each revision is built once");
    write_archive(&repository, "out.jar", "7");
    let answer = repository.run(&["compare", "--old", "rev:main", "--new", "rev:HEAD", "out.jar"]);
    answer
        .expect_status(2)
        .expect_stderr(&["has no program 'out.jar'", "--build COMMAND builds it"]);
}

#[test]
fn artifacts_are_compared_and_copies_reported_as_an_a_a_comparison() {
    let Some(repository) = archives() else { return };
    write_archive(&repository, "old.jar", "100");
    write_archive(&repository, "new.jar", "200");
    write_archive(&repository, "copy.jar", "100");
    let words = ["--runs", "2", "--format", "json"];
    let run = |sides: [&str; 2]| repository.run(&[&["compare"], &sides[..], &words].concat());
    assert_eq!(medians(run(["old.jar", "new.jar"]).expect_status(0)), [100.0, 200.0]);
    let answer = run(["old.jar", "copy.jar"]).expect_status(0);
    answer.expect_stderr(&["are the same program, byte for byte: this is an A/A comparison"]);
}

/// A library that the benchmark imports, different in each revision.
fn library(benchmark: &str) -> Option<TestRepository> {
    node()?;
    let repository = TestRepository::new()?
        .with("lib/k.js", "module.exports = 'old';")
        .with("bench/y.js", benchmark)
        .committed("library");
    repository.create_branch("later");
    Some(repository.with("lib/k.js", "module.exports = 'new';").committed("another one"))
}

fn benchmark(library: &str) -> String {
    format!(
        "const {{ createBenchmark }} = require('speedwell');
        const k = require('{library}');
        const bench = createBenchmark(main, {{ n: [1] }});
        function main({{ n }}) {{
          require('fs').appendFileSync(process.env.LOG, k + '\\n');
          bench.start(); bench.end(n);
        }}"
    )
}

#[test]
fn a_program_that_is_named_with_a_revision_is_run_in_its_worktree() {
    let (Some(repository), Some(node)) = (library(&benchmark("../lib/k")), node()) else {
        return;
    };
    let sides = ["main", "HEAD"].map(|revision| format!("rev:{revision}:{}", node.display()));
    let words = ["compare", "--old", &sides[0], "--new", &sides[1], "--runs", "1", "bench/y.js"];
    repository.run(&words).expect_status(0);
    let mut log = repository.log();
    log.sort();
    assert_eq!(log, ["new", "old"]);
}

#[test]
fn code_that_both_sides_load_from_the_checkout_prevents_a_verdict() {
    let Some(repository) = library("") else {
        return;
    };
    let path = repository.project.path("lib/k.js");
    let repository = repository.with("bench/y.js", &benchmark(&path.to_string_lossy()));
    let words = [
        "compare",
        "--old",
        "rev:main",
        "--new",
        "rev:HEAD",
        "--runs",
        "5",
        "--fail-on",
        "worse",
        "bench/y.js",
    ];
    let answer = repository.run(&words).expect_status(2);
    let answer = answer.expect_stdout(&["both sides load lib/k.js from the checkout"]);
    answer.expect_stderr(&["load lib/k.js from the checkout instead of from their revisions"]);
}

/// Compares two revisions, of whose code nothing is measured.
fn expect_code_of_the_checkout(
    repository: &TestRepository,
    target: &str,
    file: &str,
    words: &[&str],
    variables: &[(&str, &OsStr)],
) {
    let common = ["compare", "--old", "rev:main", "--new", "rev:HEAD", target];
    // A gate needs at least five runs a side; without it, one shows the same.
    let is_judged = words.contains(&"--fail-on");
    let common = [&common[..], if is_judged { &["--runs", "5"] } else { &["--runs", "1"] }];
    let mut command = repository.command(&[&common.concat(), words].concat());
    command.envs(variables.iter().copied());
    let answer = CommandResult::from(command.output().unwrap());
    let answer = answer.expect_status(if is_judged { 2 } else { 0 });
    answer.expect_stdout(&[&format!("both sides load {file} from the checkout")]);
}

#[test]
fn code_loaded_from_the_checkout_only_during_runs_is_reported() {
    let gate = ["--fail-on", "worse"];
    for (name, words) in
        [("'FOLDER/lib/k.js'", &[][..]), ("['FOLDER', 'lib', 'k'].join('/')", &gate)]
    {
        let Some(repository) = library("") else {
            return;
        };
        let folder = repository.project.path("").canonicalize().unwrap();
        let name = name.replace("FOLDER", &folder.to_string_lossy());
        let text = format!(
            "const {{ createBenchmark }} = require('speedwell');
            const bench = createBenchmark(main, {{ n: [1] }});
            function main({{ n }}) {{ require({name}); bench.start(); bench.end(n); }}"
        );
        let repository = repository.with("bench/y.js", &text);
        expect_code_of_the_checkout(&repository, "bench/y.js", "lib/k.js", words, &[]);
    }
}

/// A library of Python that is installed from the checkout for all environments, with `test` and `script` that measure it.
fn installed_library() -> Option<(TestRepository, PathBuf)> {
    let repository = TestRepository::new()?
        .with("src/k.py", "def total():\n    return 1\n")
        .with("speed/test_k.py", "import k\n\ndef test_total(benchmark):\n    benchmark(k.total)\n")
        .with(
            "speed/script.py",
            "import pyperf\nfrom k import total\npyperf.Runner().bench_func('total', total)\n",
        )
        .committed("library");
    repository.create_branch("later");
    let repository =
        repository.with("src/k.py", "def total():\n    return 2\n").committed("another one");
    // What the line of an editable install does when Python starts.
    let site = repository.outside("site");
    fs::create_dir(&site).unwrap();
    let folder = repository.project.path("src").canonicalize().unwrap();
    let line = format!("import sys; sys.path.append({:?})\n", folder.display());
    fs::write(site.join("sitecustomize.py"), line).unwrap();
    Some((repository, site))
}

#[test]
fn a_library_of_python_that_is_installed_from_the_checkout_is_named() {
    for (suite, target, short) in [
        (suite_projects::pytest_benchmark(), "speed/test_k.py", ["-t", "1ms", "-n", "2"]),
        (suite_projects::pyperf(), "speed/script.py", ["--iterations", "1", "-n", "1"]),
    ] {
        let (Some(suite), Some((repository, site))) = (suite, installed_library()) else {
            continue;
        };
        let mut variables: Vec<(&str, &OsStr)> = vec![("PYTHONPATH", site.as_os_str())];
        variables.extend(suite.environment.iter().map(|(name, value)| (*name, &**value)));
        expect_code_of_the_checkout(&repository, target, "src/k.py", &short, &variables);
        // Where the tests find the library of their revision first, nothing is withheld.
        if target.contains("test_") {
            let repository = repository
                .with("pytest.ini", "[pytest]\npythonpath = src\n")
                .committed("search path");
            let words = [
                "compare", "--old", "rev:HEAD", "--new", "rev:HEAD", "--runs", "1", "-t", "1ms",
                target,
            ];
            let mut command = repository.command(&words);
            command.envs(variables);
            let answer = CommandResult::from(command.output().unwrap()).expect_status(0);
            let said = [&answer.stdout[..], &answer.stderr].concat();
            assert!(!said.contains("from the checkout"), "{said}");
        }
    }
}

#[test]
fn a_module_that_vitest_resolves_to_the_checkout_is_reported() {
    let Some(suite) = suite_projects::vitest() else {
        return;
    };
    let Some(repository) = TestRepository::new() else {
        return;
    };
    let folder = repository.project.path("").canonicalize().unwrap();
    let configuration = format!(
        "export default {{ resolve: {{ alias: {{ lib: {:?} }} }} }};\n",
        folder.join("lib")
    );
    let repository = repository
        .with(".gitignore", "node_modules\n")
        .with("lib/k.ts", "export const total = () => 1;\n")
        .with("vitest.config.mjs", &configuration)
        .with(
            "speed/k.bench.ts",
            "import { bench } from 'vitest';\nimport { total } from 'lib/k';\n\
             bench('total', () => { total(); }, { time: 5, warmupTime: 1 });\n",
        )
        .committed("library");
    repository.create_branch("later");
    let repository =
        repository.with("lib/k.ts", "export const total = () => 2;\n").committed("another one");
    let modules = suite.project.path("node_modules").canonicalize().unwrap();
    std::os::unix::fs::symlink(&modules, repository.project.path("node_modules")).unwrap();
    let build = format!("ln -s '{}' node_modules", modules.display());
    let words = ["--build", &build];
    expect_code_of_the_checkout(&repository, "speed/k.bench.ts", "lib/k.ts", &words, &[]);
}

#[test]
fn a_search_path_into_the_checkout_is_redirected_to_each_worktree() {
    let (Some(repository), Some(_)) = (TestRepository::new(), find_tool(&["python3"])) else {
        return;
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&path).map(|folder| folder.join("python3"));
    let python = programs.find(|program| program.is_file()).unwrap();
    let benchmark = "import os, speedwell, k\n@speedwell.benchmark(n=[1])\ndef b(n):\n    pass\n\
        open(os.environ['LOG'], 'a').write(k.NAME + '\\n')\n";
    let repository = repository
        .with("src/k.py", "NAME = 'old'\n")
        .with("speed/lists.py", benchmark)
        .committed("library");
    repository.create_branch("later");
    let repository = repository.with("src/k.py", "NAME = 'new'\n").committed("another one");
    let sides = ["main", "HEAD"].map(|revision| format!("rev:{revision}:{}", python.display()));
    for sides in [["rev:main", "rev:HEAD"], [&*sides[0], &*sides[1]]] {
        let words = [
            "compare",
            "--old",
            sides[0],
            "--new",
            sides[1],
            "--runs",
            "1",
            "--iterations=1",
            "-n",
            "1",
            "-w",
            "0",
            "speed/lists.py",
        ];
        let mut command = repository.command(&words);
        command.env("PYTHONPATH", repository.project.path("src"));
        CommandResult::from(command.output().unwrap()).expect_status(0);
        let log = repository.log();
        let mut runs = log[log.len() - 2..].to_vec();
        runs.sort();
        assert_eq!(runs, ["new", "old"], "{log:?}");
    }
}

#[test]
fn packages_missing_in_a_worktree_are_reported_before_measuring() {
    let Some(repository) = library(&benchmark("left-pad")) else {
        return;
    };
    let repository = repository
        .with(".gitignore", "node_modules\n")
        .with("package.json", "{\"dependencies\": {\"left-pad\": \"1\"}}")
        .with("package-lock.json", "{}")
        .committed("packages")
        .with("node_modules/left-pad/index.js", "module.exports = 'pad';");
    let words =
        ["compare", "--old", "rev:HEAD~1", "--new", "rev:HEAD", "--runs", "2", "bench/y.js"];
    let answer = repository.run(&words).expect_status(2);
    let answer =
        answer.expect_stderr(&["are not installed: no 'node_modules'", "hint: --build 'npm ci'"]);
    assert!(repository.log().is_empty(), "{answer:?}");
}

#[test]
fn copies_of_a_program_are_reported_as_an_a_a_comparison() {
    let Some(repository) = TestRepository::with_program("100") else {
        return;
    };
    let build = "sed 's/TIME/5/g' bench.in > one && chmod +x one && cp one two";
    let mut shell = Command::new("sh");
    let built = shell.args(["-c", build]).current_dir(repository.project.path("")).status();
    assert!(built.unwrap().success());
    let answer = repository.run(&["compare", "./one", "./two", "--runs", "2"]);
    answer.expect_status(0).expect_stderr(&[
        "'one' and 'two' are the same program, byte for byte: this is an A/A comparison",
    ]);
}

#[test]
fn copies_of_a_runtime_are_reported_as_an_a_a_comparison() {
    let Some(node) = node() else { return };
    let runtime = format!("#!/bin/sh\nexec '{}' \"$@\"\n", node.display());
    let project = TempProject::new()
        .with("x.js", &benchmark("path").replace("LOG, k", "LOG, ''"))
        .with_program("one", &runtime)
        .with_program("two", &runtime)
        .with_program("other", &(runtime.clone() + "# another one\n"));
    let compare = |old: &str, new: &str| {
        let mut command =
            project.command(&["compare", "--old", old, "--new", new, "--runs", "1", "x.js"]);
        command.env("LOG", project.path("log"));
        CommandResult::from(command.output().unwrap()).expect_status(0)
    };
    compare("./one", "./two").expect_stderr(&[
        "are the same program, byte for byte: this is an A/A comparison, and every difference is noise",
    ]);
    let answer = compare("./one", "./other");
    assert!(!answer.stderr.contains("A/A"), "{answer:?}");
}

/// A queue whose `offer` does five times the work from the second commit on.
const QUEUE: &str = "package tiny;
public class Queue {
  public long offer(long value) {
    for (long i = 0; i < WORK; i++) value += i * i ^ value;
    return value;
  }
}
";

const QUEUE_BENCHMARK: &str = "package tiny;
import org.openjdk.jmh.annotations.*;
@State(Scope.Thread)
public class Offers {
  Queue queue = new Queue();
  @Benchmark public long offer() { return queue.offer(1); }
}
";

/// Builds a jar that finds the libraries beside it.
const MAVEN: &str = "mkdir -p classes target/lib && javac -cp \"$JMH/*\" -d classes *.java &&
cp \"$JMH\"/*.jar target/lib && cd target && echo Class-Path: lib/*.jar > manifest &&
jar c0fme benchmarks.jar manifest org.openjdk.jmh.Main -C ../classes . &&
echo $SPEEDWELL_REVISION >> \"$LOG\"";

#[test]
fn a_slower_revision_of_a_jar_of_jmh_is_found() {
    let (Some(libraries), Some(_)) = (installed("jmh"), find_tool(&["javac"])) else {
        return;
    };
    let Some(repository) = TestRepository::new() else {
        return;
    };
    let repository = repository
        .with(".gitignore", "classes\ntarget\n")
        .with("Offers.java", QUEUE_BENCHMARK)
        .with("Queue.java", &QUEUE.replace("WORK", "20_000"))
        .committed("first");
    repository.create_branch("slow");
    let repository =
        repository.with("Queue.java", &QUEUE.replace("WORK", "100_000")).committed("slower");
    let words = [
        "compare",
        "--old",
        "rev:main",
        "--new",
        "rev:HEAD",
        "--runs",
        "1",
        "-n",
        "4",
        "-t",
        "20ms",
        "-w",
        "100ms",
        "--build",
        MAVEN,
        "--format",
        "json",
        "target/benchmarks.jar",
    ];
    let mut command = repository.command(&words);
    command.env("JMH", libraries).env(QUICK_JAVA.0, QUICK_JAVA.1);
    let answer = CommandResult::from(command.output().unwrap());
    let [old, new] = medians(answer.expect_status(0));
    // Either time or operations per second. Five times the work was planted; with one jar on both
    // sides the factor would be 1. How far above it is depends on what else
    // the machine does during a short run a side.
    let factor = (new / old).max(old / new);
    assert!(factor > 2.0, "{old} {new}");
}

#[test]
fn the_merge_base_is_found_without_a_remote_repository() {
    let Some(repository) = TestRepository::with_program("100") else {
        return;
    };
    repository.create_branch("topic");
    let repository = repository.with("cost", "50").committed("faster");
    let words = ["compare", "--old", "rev:@base", "--new", "rev:HEAD", "--runs", "2"];
    let answer = repository.run(&[&words, &BENCH[..]].concat()).expect_status(0);
    answer.expect_stdout(&[&format!("@base ({})", repository.short_id("main"))]);
}

#[test]
fn backfill_of_a_short_history_covers_every_revision() {
    let Some(repository) = TestRepository::with_program("100") else {
        return;
    };
    let repository = repository.with("cost", "50").committed("faster");
    let words = ["backfill", "main~1..main", "--points", "25", "--runs", "2"];
    let answer = repository.run(&[&words, &BENCH[..]].concat()).expect_status(0);
    answer.expect_stderr(&["the history has data for 2 of the 2 revisions"]);
}

/// A benchmark with this many steps.
const STEPS: &str = "#include <speedwell.hpp>\n\
    SPEEDWELL_BENCHMARK(sum) {\n\
      for (auto _ : bench) {\n\
        volatile int x = 0;\n\
        for (int i = 0; i < STEPS; i++) x = x + i;\n\
      }\n\
    }\n";

#[test]
fn instructions_of_old_revisions_are_counted() {
    let (Some(_), Some(_), Some(repository)) =
        (find_tool(&["valgrind"]), find_tool(&["g++"]), TestRepository::new())
    else {
        return;
    };
    let repository =
        repository.with("speed/sum.cpp", &STEPS.replace("STEPS", "100")).committed("first");
    let measure = |metric: &str| {
        let words = [
            "backfill",
            "main..main",
            "--runs",
            "2",
            "--iterations=10",
            "--metric",
            metric,
            "speed/sum.cpp",
        ];
        let mut command = repository.command(&words);
        command.env_remove("CXX").env("CXXFLAGS", "-O0");
        CommandResult::from(command.output().unwrap()).expect_status(0)
    };
    measure("time");
    // A revision with times has no count yet.
    measure("instructions").expect_stdout(&["measured"]);
    let trend =
        repository.run(&["history", "trend", "--metric", "instructions", "--format", "json"]);
    let trend = trend.expect_status(0).json();
    assert_eq!(trend["points"].as_array().unwrap().len(), 1, "{trend:#}");
}

const GO_CODE: &str = "package tiny\n\nfunc Sum(times int) int {\n\tsum := 0\n\tfor i := 0; i < TIMES*times; i++ {\n\t\tsum += i * i\n\t}\n\treturn sum\n}\n";

const GO_TEST: &str = "package tiny\n\nimport \"testing\"\n\nvar sink int\n\n\
    func BenchmarkSum(b *testing.B) {\n\tfor i := 0; i < b.N; i++ {\n\t\tsink += Sum(OWN)\n\t}\n}\n\n\
    func BenchmarkOther(b *testing.B) {\n\tfor i := 0; i < b.N; i++ {\n\t\tsink += OTHER\n\t}\n}\n";

/// Commits of a Go package: `first`, then one that slows down only the benchmark, one that edits
/// another benchmark, and one that slows down only the code.
fn go_package() -> Option<TestRepository> {
    find_tool(&["go"])?;
    let code = |times: &str| GO_CODE.replace("TIMES", times);
    let test = |own: &str, other: &str| GO_TEST.replace("OWN", own).replace("OTHER", other);
    let repository = TestRepository::new()?
        .with("go.mod", "module example.com/tiny\n\ngo 1.18\n")
        .with("tiny.go", &code("2000"))
        .with("tiny_test.go", &test("1", "1"))
        .committed("first");
    let commit = |name: &str, path: &str, text: &str| {
        repository.write_file(path, text);
        repository.commit_all(name);
        repository.run_git(&["tag", name]);
    };
    repository.run_git(&["tag", "first"]);
    commit("benchmark", "tiny_test.go", &test("100", "1"));
    commit("other", "tiny_test.go", &test("100", "2"));
    commit("code", "tiny.go", &code("200000"));
    Some(repository)
}

fn compare_go(repository: &TestRepository, sides: [&str; 2], more: &[&str]) -> CommandResult {
    let [old, new] = sides.map(|name| format!("rev:{name}"));
    let words = [
        "compare",
        "--old",
        &old,
        "--new",
        &new,
        "--fail-on",
        "worse",
        "-r",
        "6",
        "-n",
        "1",
        "-t",
        "2ms",
        "-f",
        "Sum",
        "--threshold",
        "50",
        ".",
    ];
    repository.run(&[&words, more].concat())
}

#[test]
fn a_go_benchmark_has_no_verdict_if_the_benchmark_itself_changed() {
    let Some(repository) = go_package() else {
        return;
    };
    let answer = compare_go(&repository, ["first", "benchmark"], &[]);
    let answer = answer
        .expect_status(2)
        .expect_stdout(&["gate cannot judge: the benchmark itself changed in 1 case"])
        .expect_stderr(&["--with-own-benchmarks"]);
    assert!(!answer.stdout.contains("worse"), "{answer:?}");
    let answer = compare_go(&repository, ["first", "benchmark"], &["--with-own-benchmarks"]);
    answer.expect_status(1).expect_stdout(&["worse"]);
    // The edit of another benchmark in the same file lies between these.
    let answer = compare_go(&repository, ["benchmark", "code"], &[]);
    answer.expect_status(1).expect_stdout(&["worse"]);
}

#[test]
fn a_bisection_does_not_confirm_a_benchmark_that_changed_itself() {
    let Some(repository) = go_package() else {
        return;
    };
    let words = |range: &'static str| {
        [
            "bisect",
            range,
            ".",
            "-f",
            "Sum",
            "-n",
            "1",
            "-t",
            "1ms",
            "--threshold",
            "50",
            "--format",
            "json",
        ]
    };
    let bisect = |range| repository.run(&words(range));
    let json = bisect("first..benchmark").expect_status(1).json();
    let state = |json: &Value| json["changes"][0]["state"].as_str().unwrap_or_default().to_owned();
    assert_eq!(state(&json), "the benchmark itself changed", "{json:#}");
    let json = bisect("other..code").expect_status(0).json();
    assert_eq!(state(&json), "confirmed", "{json:#}");
}
