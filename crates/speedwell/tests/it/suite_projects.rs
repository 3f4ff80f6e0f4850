//! A tiny project for each suite, driven by the real tool. The sources are in `tests/suites`; build
//! results are kept in the cache folder of the test tools, because other people's code takes long to
//! compile. A project whose tool is missing is `None`, with a message.
//!
//! All of them read two variables: `WORK` multiplies the work of an operation, and `HOLD` names a
//! file that they wait for to go away.

use super::harness_driver::find_tool;
use super::project::{CommandResult, TempProject, repository};
use serde_json::Value;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Evidence that an option after `--` has reached the suite.
#[derive(Debug, Clone, Copy)]
pub enum OptionEffect {
    /// This many samples in the run.
    Samples(usize),
    /// Words of a note of the run.
    Note(&'static str),
    /// Number of iterations of the first value.
    Iterations(f64),
    File(&'static str),
}

/// A project that is ready to be measured, and facts about its benchmarks.
pub struct TestSuite {
    pub project: TempProject,
    pub target: String,
    /// Environment variables of the tool.
    pub environment: Vec<(&'static str, OsString)>,
    /// Arguments that make its runs short.
    pub short: &'static [&'static str],
    /// Cases that are listed, and words that must not be.
    pub listed: &'static [&'static str],
    pub not_listed: &'static [&'static str],
    /// A filter of one quick case, with further arguments that select it.
    pub small: &'static [&'static str],
    /// A filter of one case whose time is multiplied by `WORK`, with further arguments.
    pub large: &'static [&'static str],
    /// A filter of a failing case, with further arguments, and its message.
    pub fails: (&'static [&'static str], &'static str),
    /// Arguments that are passed on to the suite, and their effect.
    pub passed_on: (&'static [&'static str], OptionEffect),
    /// Arguments that are rejected, and the option that the message names.
    pub refused: (&'static [&'static str], &'static str),
    /// Whether some of its processes run several cases, which is reported.
    pub performs_several: bool,
    /// A fact of the session, and the start of its value.
    pub version: Option<(&'static str, &'static str)>,
}

impl TestSuite {
    /// A command with the target's environment.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = self.project.command(&[&["run", &self.target], words].concat());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn run(&self, words: &[&str]) -> CommandResult {
        CommandResult::from(self.command(words).output().unwrap())
    }

    /// The lines of the latest session, if there is one.
    pub fn exported(&self) -> Vec<Value> {
        let exported = self.project.run(&["report", "--export", "jsonl"]);
        let lines = exported.stdout.lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The runs of the latest session.
    pub fn runs(&self) -> Vec<Value> {
        let lines = self.exported().into_iter();
        lines.filter_map(|line| line.get("run").cloned()).collect()
    }
}

/// The folder of `scripts/install-test-tools`, which may not exist.
fn tools_folder() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("speedwell/test-tools"))
}

/// A path below the folder of `scripts/install-test-tools`, if it exists.
pub fn installed(path: &str) -> Option<PathBuf> {
    let found = tools_folder()?.join(path);
    if found.exists() {
        return Some(found);
    }
    eprintln!("skipped: scripts/install-test-tools has not installed '{path}'");
    None
}

/// A path in the folder of the sources.
pub fn source(path: &str) -> PathBuf {
    repository().join("crates/speedwell/tests/suites").join(path)
}

/// A project with a copy of one of the files.
fn with_copy(path: &str) -> TempProject {
    let text = std::fs::read_to_string(source(path)).unwrap();
    TempProject::new().with(path.rsplit('/').next().unwrap(), &text)
}

/// The folder for build results of all working copies; Cargo's directory for temporary files if the
/// user has no cache folder.
pub fn build_folder() -> PathBuf {
    let shared = tools_folder().map(|tools| tools.join("compiled"));
    let shared = shared.filter(|folder| std::fs::create_dir_all(folder).is_ok());
    shared.unwrap_or_else(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("suites");
        std::fs::create_dir_all(&folder).unwrap();
        folder
    })
}

/// Builds something once, and again when an input differs: a compiler's version, its arguments, or
/// the content of a file.
fn build_once(name: &str, inputs: &[Vec<u8>], build: impl FnOnce(&Path)) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    inputs.hash(&mut hasher);
    let folder = build_folder();
    let product = folder.join(format!("{:016x}-{name}", hasher.finish()));
    if !product.exists() {
        let unfinished = folder.join(format!("unfinished-{}-{name}", std::process::id()));
        build(&unfinished);
        std::fs::rename(unfinished, &product).unwrap();
    }
    product
}

/// What a compiler says about its version.
fn version_of(compiler: &str) -> Vec<u8> {
    Command::new(compiler).arg("--version").output().unwrap().stdout
}

#[track_caller]
fn expect_success(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
}

/// A project with a link to a build result.
fn with_link(name: &str, to: &Path) -> TempProject {
    let project = TempProject::new();
    std::os::unix::fs::symlink(to, project.path(name)).unwrap();
    project
}

/// A package of Go.
pub fn go() -> Option<TestSuite> {
    find_tool(&["go"])?;
    Some(TestSuite {
        project: TempProject::new(),
        target: source("go").to_string_lossy().into_owned(),
        environment: Vec::new(),
        short: &["-t", "5ms", "-n", "3"],
        listed: &[
            "example.com/tiny/Sum",
            "times=1 ",
            "times=4 ",
            "example.com/tiny/Fails",
            "example.com/tiny/Panics",
        ],
        not_listed: &["Benchmark"],
        small: &["Sum", "--set", "times=1"],
        large: &["Sum", "--set", "times=4"],
        fails: (&["Fails|Panics"], "failed: tiny_test.go:"),
        passed_on: (&["-test.count=2", "-test.benchtime=3x"], OptionEffect::Samples(2)),
        refused: (&["-test.bench=."], "'-test.bench' of go"),
        performs_several: false,
        version: Some(("suite go", "go1.")),
    })
}

/// One of the three suites of the cargo package, selected by arguments after the cases of its
/// target.
fn rust(own: TestSuite) -> Option<TestSuite> {
    find_tool(&["cargo"])?;
    let mut fetch = Command::new("cargo");
    fetch.args(["fetch", "--locked"]).current_dir(source("rust"));
    if !fetch.output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: the crates criterion and divan cannot be had here");
        return None;
    }
    let target = build_folder().join("rust");
    Some(TestSuite {
        target: source("rust").to_string_lossy().into_owned(),
        // Benchmarks of Rust's own harness are unstable.
        environment: vec![
            ("CARGO_TARGET_DIR", target.into_os_string()),
            ("RUSTC_BOOTSTRAP", "1".into()),
            ("RUST_BACKTRACE", "0".into()),
        ],
        ..own
    })
}

pub fn criterion() -> Option<TestSuite> {
    rust(TestSuite {
        project: TempProject::new(),
        target: String::new(),
        environment: Vec::new(),
        short: &["-t", "1ms", "-n", "10", "-w", "1ms"],
        listed: &["with_criterion/fold/times/1", "with_criterion/fold/times/4"],
        not_listed: &[],
        small: &["with_criterion/fold/times/1$"],
        large: &["with_criterion/fold/times/4$"],
        fails: (&["with_criterion/panics"], "no luck"),
        passed_on: (&["--sample-size=12"], OptionEffect::Samples(12)),
        refused: (&["--profile-time", "1"], "'--profile-time' of criterion"),
        performs_several: false,
        version: Some(("suite criterion", "0.5.")),
    })
}

pub fn divan() -> Option<TestSuite> {
    rust(TestSuite {
        project: TempProject::new(),
        target: String::new(),
        environment: Vec::new(),
        short: &["-t", "1ms", "-n", "10"],
        listed: &["with_divan/with_divan::fold::1", "with_divan/with_divan::fold::4"],
        not_listed: &[],
        small: &["with_divan::fold::1$"],
        large: &["with_divan::fold::4$"],
        fails: (&["with_divan::panics"], "no luck"),
        passed_on: (
            &["--sample-count=7", "--sample-size=1", "--max-time=60"],
            OptionEffect::Iterations(7.0),
        ),
        refused: (&["--skip", "fold"], "'--skip' of "),
        performs_several: false,
        version: Some(("suite divan", "0.1.")),
    })
}

/// Bench target with Rust's own harness.
pub fn libtest() -> Option<TestSuite> {
    rust(TestSuite {
        project: TempProject::new(),
        target: String::new(),
        environment: Vec::new(),
        short: &[],
        listed: &["with_libtest/fold"],
        not_listed: &[],
        small: &["with_libtest/fold"],
        large: &["with_libtest/fold"],
        fails: (&["with_libtest/panics"], "no luck"),
        passed_on: (&["--logfile=PROJECT/log"], OptionEffect::File("log")),
        // A package has one list of options for all its suites.
        refused: (&["--ignored"], "'--ignored' of "),
        performs_several: false,
        version: Some(("suite libtest", "1.")),
    })
}

/// Makes Java start with little processor time, where speed is not measured.
pub const QUICK_JAVA: (&str, &str) =
    ("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto");

/// A jar of JMH.
pub fn jmh() -> Option<TestSuite> {
    static JAR: OnceLock<PathBuf> = OnceLock::new();
    let (libraries, _) = (installed("jmh")?, find_tool(&["javac"])?);
    let jar = JAR.get_or_init(|| {
        // The names of the libraries contain their versions.
        let mut names = jars_in(&libraries);
        names.sort();
        let names = format!("{names:?}").into_bytes();
        let text = std::fs::read(source("java/Sums.java")).unwrap();
        let steps = include_bytes!("suite_projects.rs").to_vec();
        let inputs = [version_of("javac"), names, text, steps];
        build_once("sums.jar", &inputs, |jar| build_jar(&libraries, jar))
    });
    Some(TestSuite {
        project: with_link("benchmarks.jar", jar),
        target: "benchmarks.jar".to_owned(),
        environment: vec![(QUICK_JAVA.0, QUICK_JAVA.1.into())],
        short: &["-t", "20ms", "-n", "3", "-w", "200ms", "--set", "size=1000"],
        listed: &[
            "tiny.Sums.total size=1000",
            "tiny.Sums.total size=\"1e3\"",
            "tiny.Sums.fails size=1000",
        ],
        not_listed: &[],
        small: &["total"],
        large: &["total"],
        fails: (&["fails"], "bad luck"),
        passed_on: (&["-i", "2"], OptionEffect::Samples(2)),
        refused: (&["-rf", "csv"], "'-rf' of jmh"),
        performs_several: false,
        version: find_tool(&["unzip"]).map(|_| ("suite jmh", "1.37")),
    })
}

fn jars_in(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Compiles `Sums.java` with JMH's annotation processor, and puts the libraries into the jar.
fn build_jar(libraries: &Path, jar: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let jars = jars_in(libraries);
    let path = std::env::join_paths(&jars).unwrap();
    let classes = folder.path().join("classes");
    let mut compiler = Command::new("javac");
    compiler.arg("-cp").arg(path).arg("-d").arg(&classes).arg(source("java/Sums.java"));
    expect_success(&mut compiler);
    // As Maven's shade plugin does: one jar with all dependencies.
    for jar in &jars {
        let mut unpacking = Command::new("jar");
        expect_success(unpacking.arg("xf").arg(jar).current_dir(&classes));
    }
    std::fs::remove_file(classes.join("META-INF/MANIFEST.MF")).unwrap();
    let mut archiver = Command::new("jar");
    archiver.arg("cfe").arg(jar).arg("org.openjdk.jmh.Main").arg("-C").arg(&classes).arg(".");
    expect_success(&mut archiver);
}

/// A `PATH` that starts with the Python of the suites.
fn with_python() -> Option<Vec<(&'static str, OsString)>> {
    let bin = installed("python/bin/pyperf")?.parent()?.to_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    Some(vec![("PATH", format!("{}:{path}", bin.display()).into())])
}

/// A file of tests with pytest-benchmark.
pub fn pytest_benchmark() -> Option<TestSuite> {
    Some(TestSuite {
        environment: with_python()?,
        project: with_copy("python/test_sums.py"),
        target: "test_sums.py".to_owned(),
        short: &["-t", "2ms", "-n", "3"],
        listed: &[
            "test_total",
            "TestGroup::test_inner[10]",
            "TestGroup::test_inner[20]",
            "test_fails",
        ],
        not_listed: &["plain"],
        small: &["inner.10"],
        large: &["test_total"],
        fails: (&["test_fails"], "assert 3 == 4"),
        passed_on: (
            &["--benchmark-min-rounds=7", "--benchmark-max-time=0"],
            OptionEffect::Samples(7),
        ),
        refused: (&["-k", "inner"], "'-k' of pytest-benchmark"),
        performs_several: false,
        version: Some(("suite pytest-benchmark", "5.")),
    })
}

pub fn pyperf() -> Option<TestSuite> {
    Some(TestSuite {
        environment: with_python()?,
        project: with_copy("python/sums.py"),
        target: "sums.py".to_owned(),
        short: &["-t", "2ms", "-n", "3"],
        listed: &["total of 20000", "total of 10"],
        not_listed: &[],
        small: &["of 10$"],
        large: &["of 20000"],
        // Its runner executes all benchmarks of a script, so a failing one would break them all.
        fails: (
            &["of 10$", "--variant", "fine=", "--variant", "broken=WORK=none"],
            "invalid literal for int()",
        ),
        passed_on: (&["--values=2"], OptionEffect::Samples(2)),
        refused: (&["--rigorous"], "'--rigorous' of pyperf"),
        performs_several: true,
        version: Some(("suite pyperf", "2.")),
    })
}

/// A C++ program, compiled with a header of `package`.
fn cpp(file: &str, header: &str, package: &str, words: &[&str]) -> Option<PathBuf> {
    let compiler = find_tool(&["c++", "g++", "clang++"])?;
    let header = Path::new("/usr/include").join(header);
    let Ok(header) = std::fs::read(&header) else {
        eprintln!("skipped: there is no {} (Debian package {package})", header.display());
        return None;
    };
    let file = source(file);
    let flags = [&["-std=c++14", "-O0"][..], words].concat();
    let text = std::fs::read(&file).unwrap();
    let inputs = [version_of(&compiler), flags.join(" ").into_bytes(), header, text];
    Some(build_once(&format!("{package}-sums"), &inputs, |program| {
        let mut command = Command::new(&compiler);
        // Libraries follow the file that needs them.
        command.arg("-o").arg(program).arg(&file).args(&flags);
        expect_success(&mut command);
    }))
}

pub fn catch2() -> Option<TestSuite> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| cpp("cpp/sums.cpp", "catch2/catch.hpp", "catch2", &[]));
    Some(TestSuite {
        project: with_link("sums", program.as_ref()?),
        target: "./sums".to_owned(),
        environment: Vec::new(),
        short: &["-w", "1ms", "-n", "10"],
        listed: &[
            "sums, [of] all/large",
            "sums, [of] all/inner/small",
            "generated/one of three",
            "fails/fine",
        ],
        not_listed: &["no benchmark"],
        small: &["small"],
        large: &["large"],
        fails: (&["fine"], "assertion total(0) == 4 failed: 0 == 4"),
        passed_on: (&["--benchmark-samples", "3"], OptionEffect::Note("mean of its 3 samples")),
        refused: (&["-r", "json"], "'-r' of catch2"),
        performs_several: true,
        version: Some(("suite catch2", "2.")),
    })
}

pub fn google_benchmark() -> Option<TestSuite> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let words = ["-lbenchmark", "-lpthread"];
        cpp("cpp/google.cpp", "benchmark/benchmark.h", "libbenchmark-dev", &words)
    });
    Some(TestSuite {
        project: with_link("google", program.as_ref()?),
        target: "./google".to_owned(),
        environment: Vec::new(),
        short: &["-t", "2ms", "-n", "3"],
        listed: &["BM_total/10", "BM_total/20000", "BM_fails"],
        not_listed: &[],
        small: &["total/10"],
        large: &["total/20000"],
        fails: (&["fails"], "bad luck"),
        passed_on: (&["--benchmark_repetitions=2"], OptionEffect::Samples(2)),
        refused: (&["--benchmark_filter=total"], "'--benchmark_filter' of google-benchmark"),
        performs_several: false,
        version: find_tool(&["ldd"]).map(|_| ("suite google-benchmark", "1.")),
    })
}

/// A file of benchmarks of vitest.
pub fn vitest() -> Option<TestSuite> {
    let (modules, _) = (installed("vitest/node_modules/vitest")?, find_tool(&["node"])?);
    let configuration = "require('node:fs').writeFileSync('read', ''); module.exports = {};\n";
    let project = with_copy("javascript/sums.bench.ts").with("own.config.cjs", configuration);
    std::os::unix::fs::symlink(modules.parent()?, project.path("node_modules")).unwrap();
    Some(TestSuite {
        project,
        target: "sums.bench.ts".to_owned(),
        environment: Vec::new(),
        short: &[],
        listed: &["sums (of all)/large", "sums (of all)/small", "fails"],
        not_listed: &[],
        small: &["small"],
        large: &["large"],
        fails: (&["^fails"], "the function throws"),
        passed_on: (&["--config=own.config.cjs"], OptionEffect::File("read")),
        refused: (&["--watch"], "'--watch' of vitest"),
        performs_several: false,
        version: Some(("suite vitest", "4.")),
    })
}
