//! A tiny project of each suite of Java, Python, C++ and JavaScript, driven by the real tool: list, run, filter, failing case,
//! an option that is passed on, two variants with a known factor. The projects are in `tests/suites`.

use super::harness_driver::tool;
use super::project::{Answer, Project, is_current, repository};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A project that is ready to be measured.
struct Suite {
    project: Project,
    /// What is measured.
    target: &'static str,
    /// The folder with programs that the suite needs.
    path: Option<PathBuf>,
    /// What makes its runs short.
    short: &'static [&'static str],
}

impl Suite {
    fn run(&self, words: &[&str]) -> Answer {
        let mut command = self
            .project
            .command(&[&["run", self.target], words].concat());
        if let Some(folder) = &self.path {
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", folder.display()));
        }
        Answer::from(command.output().unwrap())
    }

    /// Lists the cases.
    fn lists(&self, cases: &[&str]) {
        let listed = self.run(&["--list"]).expect_status(0).expect_stdout(cases);
        assert!(
            !listed.stdout.contains("plain") && !listed.stdout.contains("no benchmark"),
            "{listed:#?}"
        );
    }

    /// Measures the cases that match `filter`, and gives the runs.
    fn measures(&self, filter: &str, more: &[&str]) -> Vec<Value> {
        let own = ["-f", filter, "-r", "1"];
        self.run(&[&own, self.short, more].concat())
            .expect_status(0);
        let exported = self
            .project
            .run(&["report", "--export", "jsonl"])
            .expect_status(0);
        let lines = exported
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| line.get("run").cloned()).collect()
    }

    /// Finds that `WORK=2` does twice the work, by the least of several runs.
    fn finds_a_factor_of_two(&self, filter: &str, more: &[&str]) {
        let own = [
            "-f",
            filter,
            "-r",
            "3",
            "--variant",
            "one=WORK=1",
            "--variant",
            "two=WORK=2",
            "--format",
            "json",
        ];
        let json = self
            .run(&[&own, self.short, more].concat())
            .expect_status(0)
            .json();
        let least = |side: &str| {
            let values = json["changes"][0][side].as_array().unwrap().iter();
            values
                .filter_map(Value::as_f64)
                .fold(f64::INFINITY, f64::min)
        };
        let factor = least("candidate_values") / least("baseline_values");
        assert!((1.5..2.7).contains(&factor), "{factor} in {json:#}");
    }

    /// A case that fails says why.
    fn fails(&self, filter: &str, reason: &str) {
        let own = ["-f", filter, "-r", "1"];
        let answer = self.run(&[&own, self.short].concat()).expect_status(2);
        let words: Vec<&str> = answer.stdout.split_whitespace().collect();
        assert!(words.join(" ").contains(reason), "{answer:#?}");
    }
}

/// Where `scripts/install-test-tools` puts what it installs.
fn installed(path: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let found = cache.join("speedwell/test-tools").join(path);
    if found.exists() {
        return Some(found);
    }
    eprintln!("skipped: scripts/install-test-tools has not installed '{path}'");
    None
}

fn source(path: &str) -> PathBuf {
    repository()
        .join("crates/speedwell/tests/suites")
        .join(path)
}

/// A project with a copy of one of the files.
fn with_copy(path: &str) -> Project {
    let text = std::fs::read_to_string(source(path)).unwrap();
    Project::new().with(path.rsplit('/').next().unwrap(), &text)
}

/// Builds something once, where Cargo keeps such things, and again when the source has changed.
fn built(name: &str, source: &Path, build: impl FnOnce(&Path)) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("suites");
    std::fs::create_dir_all(&folder).unwrap();
    let product = folder.join(name);
    if !is_current(&product, &[source.to_owned()]) {
        let unfinished = folder.join(format!("unfinished-{}-{name}", std::process::id()));
        build(&unfinished);
        std::fs::rename(unfinished, &product).unwrap();
    }
    product
}

#[track_caller]
fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
}

fn jmh() -> Option<Suite> {
    static JAR: OnceLock<PathBuf> = OnceLock::new();
    let (libraries, _) = (installed("jmh")?, tool(&["javac"])?);
    let jar = JAR.get_or_init(|| {
        built("sums.jar", &source("java/Sums.java"), |jar| {
            build_jar(&libraries, jar)
        })
    });
    let project = Project::new();
    std::os::unix::fs::symlink(jar, project.path("benchmarks.jar")).unwrap();
    Some(Suite {
        project,
        target: "benchmarks.jar",
        path: None,
        short: &["-t", "20ms", "-n", "3", "-w", "800ms"],
    })
}

/// Compiles `Sums.java` with JMH's annotation processor, and names the libraries in the jar.
fn build_jar(libraries: &Path, jar: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let jars: Vec<PathBuf> = std::fs::read_dir(libraries)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let path = std::env::join_paths(&jars).unwrap();
    let classes = folder.path().join("classes");
    let mut compiler = Command::new("javac");
    compiler
        .arg("-cp")
        .arg(path)
        .arg("-d")
        .arg(&classes)
        .arg(source("java/Sums.java"));
    succeeds(&mut compiler);
    let addresses: Vec<String> = jars
        .iter()
        .map(|jar| format!("file://{}", jar.display()))
        .collect();
    let mut manifest = String::from("Main-Class: org.openjdk.jmh.Main\n");
    let mut line = format!("Class-Path: {}", addresses.join(" "));
    // A line of a manifest has at most 72 bytes; the next one goes on behind a blank.
    while line.len() > 70 {
        let rest = line.split_off(70);
        manifest += &format!("{line}\n");
        line = format!(" {rest}");
    }
    let file = folder.path().join("manifest");
    std::fs::write(&file, format!("{manifest}{line}\n")).unwrap();
    let mut archiver = Command::new("jar");
    archiver
        .arg("cfm")
        .arg(jar)
        .arg(&file)
        .arg("-C")
        .arg(&classes)
        .arg(".");
    succeeds(&mut archiver);
}

fn python(file: &'static str) -> Option<Suite> {
    let bin = installed("python/bin/pyperf")?.parent()?.to_owned();
    Some(Suite {
        project: with_copy(&format!("python/{file}")),
        target: file,
        path: Some(bin),
        short: &["-t", "2ms", "-n", "3"],
    })
}

fn catch2() -> Option<Suite> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let compiler = tool(&["c++", "g++", "clang++"])?;
    if !Path::new("/usr/include/catch2/catch.hpp").exists() {
        eprintln!("skipped: there is no catch2/catch.hpp (Debian package catch2)");
        return None;
    }
    let file = source("cpp/sums.cpp");
    let program = PROGRAM.get_or_init(|| {
        built("catch2-sums", &file, |program| {
            succeeds(
                Command::new(compiler)
                    .args(["-std=c++14", "-O1", "-o"])
                    .arg(program)
                    .arg(&file),
            );
        })
    });
    let project = Project::new();
    std::os::unix::fs::symlink(program, project.path("sums")).unwrap();
    Some(Suite {
        project,
        target: "./sums",
        path: None,
        short: &["-w", "1ms"],
    })
}

fn vitest() -> Option<Suite> {
    let (modules, _) = (installed("vitest/node_modules/vitest")?, tool(&["node"])?);
    let project = with_copy("javascript/sums.bench.ts");
    std::os::unix::fs::symlink(modules.parent()?, project.path("node_modules")).unwrap();
    Some(Suite {
        project,
        target: "sums.bench.ts",
        path: None,
        short: &[],
    })
}

fn samples(run: &Value) -> Vec<(String, f64)> {
    let all = run["samples"].as_array().unwrap().iter();
    all.map(|sample| {
        (
            sample["metric"].as_str().unwrap().to_owned(),
            sample["value"].as_f64().unwrap(),
        )
    })
    .collect()
}

#[test]
fn benchmarks_of_jmh_are_listed_with_their_parameters_and_measured_one_by_one() {
    let Some(suite) = jmh() else { return };
    suite.lists(&[
        "tiny.Sums.total size=1000",
        "tiny.Sums.total size=\"1e3\"",
        "tiny.Sums.fails size=1000",
    ]);
    // The options of the user come last.
    let chosen = ["--set", "size=1000", "--", "-i", "2", "-prof", "gc"];
    let runs = suite.measures("total", &chosen);
    assert_eq!(runs.len(), 1, "{runs:?}");
    let samples = samples(&runs[0]);
    assert_eq!(
        samples
            .iter()
            .filter(|(metric, value)| metric == "time" && *value > 0.0)
            .count(),
        2
    );
    assert!(
        samples
            .iter()
            .any(|(metric, _)| metric == "gc.alloc.rate.norm"),
        "{samples:?}"
    );
    suite.fails("fails", "bad luck");
    let refused = suite.run(&["-r", "1", "--", "-rf", "csv"]).expect_status(2);
    refused.expect_stdout(&["'-rf'"]);
}

#[test]
fn tests_with_pytest_benchmark_are_measured_one_by_one() {
    let Some(suite) = python("test_sums.py") else {
        return;
    };
    suite.lists(&[
        "test_total",
        "TestGroup::test_inner[10]",
        "TestGroup::test_inner[20]",
        "test_fails",
    ]);
    let runs = suite.measures(
        "inner.10",
        &["--", "--benchmark-min-rounds=7", "--benchmark-max-time=0"],
    );
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(samples(&runs[0]).len(), 7);
    suite.fails("test_fails", "assert 3 == 4");
    let tried = suite.run(&["--test", "-f", "inner"]).expect_status(0);
    tried.expect_stdout(&["2 cases"]);
}

#[test]
fn scripts_of_pyperf_are_measured_whole_and_each_benchmark_is_a_case() {
    let Some(suite) = python("sums.py") else {
        return;
    };
    suite.lists(&["total of 20000", "total of 10"]);
    let runs = suite.measures("of 10$", &["--", "--values=2"]);
    assert_eq!(runs.len(), 1, "{runs:?}");
    let times = samples(&runs[0]);
    assert_eq!(
        times.iter().filter(|(metric, _)| metric == "time").count(),
        2,
        "{times:?}"
    );
}

#[test]
fn benchmarks_of_catch2_are_cases_of_their_tests() {
    let Some(suite) = catch2() else { return };
    suite.lists(&[
        "sums, [of] all/large",
        "sums, [of] all/inner/small",
        "fails/fine",
    ]);
    let runs = suite.measures("small", &["--", "--benchmark-samples", "3"]);
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(samples(&runs[0]).len(), 1);
    assert!(
        runs[0]["notes"][0]
            .as_str()
            .unwrap()
            .contains("mean of its 3 samples"),
        "{}",
        runs[0]
    );
    suite.fails("fine", "total(0) == 4 does not hold: 0 == 4");
}

#[test]
fn benchmarks_of_vitest_are_measured_one_by_one() {
    let Some(suite) = vitest() else { return };
    suite.lists(&["sums (of all)/large", "sums (of all)/small", "fails"]);
    let runs = suite.measures("small", &["--", "--no-file-parallelism"]);
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert!(samples(&runs[0])[0].1 > 0.0);
    suite.fails("^fails", "the function throws");
}

#[test]
fn a_factor_of_two_is_found_in_java_python_cpp_and_javascript() {
    let suites: [(_, _, &[&str]); 5] = [
        (jmh(), "total", &["--set", "size=1000"]),
        (python("test_sums.py"), "test_total", &[]),
        (python("sums.py"), "of 20000", &[]),
        (catch2(), "large", &[]),
        (vitest(), "large", &[]),
    ];
    for (suite, filter, more) in suites {
        if let Some(suite) = suite {
            suite.finds_a_factor_of_two(filter, more);
        }
    }
}
