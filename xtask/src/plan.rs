//! Which checks there are and which of them run at the same time.
//!
//! Most Rust tests run concurrently, more of them than there are processors, because many wait;
//! library tests, other checks of the sources and the tests in other languages run at the same
//! time. Then the tests in modules `mostly_waits` run, concurrently with each other only, and last
//! those in modules `measures`, one on each processor.
//!
//! A test that cannot run here (a tool is missing) counts as skipped, never as passed: a Rust test
//! is ignored or prints a line `skipped: REASON` and returns, a JavaScript test uses `skip`.

use crate::build::{self, FEATURES, TestProgram};
use crate::command::{ROOT, command, is_installed, linting_cargo};
use crate::output;
use crate::rust;
use crate::sequence::Sequence;
use crate::summary::{Counts, Summary};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

/// Modules of tests that wait longer than they compute: they run only with each other.
const WAITING: &str = "mostly_waits::";

/// Modules of tests that measure: they run on processors of their own.
const MEASURING: &str = "measures::";

/// Tests of [`WAITING`] at a time.
const WAITING_THREADS: usize = 8;

/// Everything that a change must pass.
pub(crate) fn everything() -> Summary {
    let mut screen = io::stdout();
    let mut sequence = Sequence::new(&mut screen);
    let (programs, warnings) = compile(&mut sequence);
    if !warnings.is_empty() {
        sequence.summary.complain(format!("lints:\n{}", warnings.join("\n")));
    }
    let (of_command, of_libraries): (Vec<_>, Vec<_>) =
        programs.iter().cloned().partition(TestProgram::is_of_command);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        // Two sequences, which end before the tests of the command do: those never use all
        // processors.
        let libraries = scope.spawn(|| {
            Sequence::kept(|sequence| {
                tests_beside_others(sequence, "Rust tests of libraries", &of_libraries, processors);
            })
        });
        let beside = scope.spawn(|| {
            Sequence::kept(|sequence| {
                checks_of_sources(sequence);
                tests_in_javascript(sequence);
                sequence.phase("Erlang application tests", erlang_tests);
            })
        });
        let threads = 6 * processors;
        tests_beside_others(&mut sequence, "Rust tests of the command", &of_command, threads);
        for other in [libraries, beside] {
            match other.join() {
                Ok(kept) => sequence.append(kept),
                Err(_) => {
                    let sentence = "the checks beside the tests of the command aborted";
                    sequence.summary.complain(sentence.to_owned());
                }
            }
        }
    });
    if !programs.is_empty() {
        let integration = integration_tests(&programs);
        for (name, module, threads) in [
            ("Rust tests that measure what waits", WAITING, WAITING_THREADS),
            ("Rust tests that measure", MEASURING, processors),
        ] {
            sequence.phase(name, |sequence| {
                measuring_tests(sequence, &integration, module, threads);
            });
        }
    }
    sequence.summary
}

/// What depends on the version of Node.js: its tests, and the Rust tests that start it.
pub(crate) fn of_node() -> Summary {
    let mut screen = io::stdout();
    let mut sequence = Sequence::new(&mut screen);
    tests_in_javascript(&mut sequence);
    let programs = integration_tests(&compile(&mut sequence).0);
    if !programs.is_empty() {
        let name = "Rust tests of Node.js";
        sequence.phase(name, |sequence| {
            let words = [
                "conformance::node",
                "conformance_code",
                "node_",
                "eval_node",
                "drop_in",
                "compat_run_js",
            ];
            rust::count_tests(sequence, name, &programs, &words);
        });
    }
    sequence.summary
}

/// Compiles the tests; returns the test programs, none if that failed, and the compiler's warnings.
fn compile(sequence: &mut Sequence<'_>) -> (Vec<TestProgram>, Vec<String>) {
    sequence.phase("build", build::compile_tests).unwrap_or_else(|| {
        sequence.summary.complain("build: the tests could not be compiled".to_owned());
        Default::default()
    })
}

fn integration_tests(programs: &[TestProgram]) -> Vec<TestProgram> {
    programs.iter().filter(|program| program.is_integration()).cloned().collect()
}

/// The tests of these programs that tolerate load from other tests.
fn tests_beside_others(
    sequence: &mut Sequence<'_>,
    name: &str,
    programs: &[TestProgram],
    threads: usize,
) {
    if programs.is_empty() {
        return;
    }
    let threads = threads.to_string();
    let arguments = ["--test-threads", &threads, "--skip", WAITING, "--skip", MEASURING];
    sequence.phase(name, |sequence| {
        for program in programs.chunks(1) {
            rust::count_tests_with_retry(sequence, &program[0].path, program, &arguments);
        }
    });
}

/// The tests in modules of this name.
fn measuring_tests(
    sequence: &mut Sequence<'_>,
    programs: &[TestProgram],
    module: &str,
    threads: usize,
) {
    let arguments = ["--test-threads", &threads.to_string(), module];
    let output = rust::count_tests_with_retry(sequence, module, programs, &arguments);
    if !output.lines().any(|line| line.starts_with("test ") && line.contains(module)) {
        sequence.summary.complain(format!("no test is in a module '{module}'"));
    }
}

/// Other checks of the sources; one after the other, because cargo locks the target folder.
fn checks_of_sources(sequence: &mut Sequence<'_>) {
    sequence.phase("Rust doc tests", |sequence| {
        let mut cargo = linting_cargo();
        let done = sequence.run(cargo.args(["test", "--doc", "--no-fail-fast"]).args(FEATURES));
        rust::count(sequence, "Rust doc tests", &done.output, done.status, 0);
    });
    let mut format = command("cargo");
    format.args(["fmt", "--all", "--check"]);
    sequence.must_hold("format", format);
    let structure = command(Path::new(ROOT).join("scripts/structure"));
    sequence.must_hold("files without import cycles", structure);
    // Only these crates have code that depends on a feature.
    let mut clippy = command("nice");
    clippy.args(["-n", "5", "cargo", "clippy", "-p", "speedwell-load", "-p", "speedwell-store"]);
    clippy.args(["--", "-D", "warnings"]);
    sequence.must_hold("lints of a build without features", clippy);
}

fn tests_in_javascript(sequence: &mut Sequence<'_>) {
    let harness = test_files(&Path::new(ROOT).join("crates/adapters/languages/node/test"));
    sequence.phase("Node.js harness tests", |sequence| node_tests(sequence, &harness));
    let examples = sorted_entries(&Path::new(ROOT).join("examples"));
    let examples: Vec<PathBuf> =
        examples.iter().flat_map(|example| test_files(&example.join("test"))).collect();
    sequence.phase("tests of the examples", |sequence| node_tests(sequence, &examples));
}

/// The paths in a folder; none if it does not exist.
fn sorted_entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn test_files(folder: &Path) -> Vec<PathBuf> {
    let mut paths = sorted_entries(folder);
    paths.retain(|path| path.to_string_lossy().ends_with(".test.js"));
    paths
}

/// Test files executed by node itself. They are listed one by one: given the folder, node would also
/// execute its fixtures.
fn node_tests(sequence: &mut Sequence<'_>, files: &[PathBuf]) {
    if !is_installed("node") {
        sequence.say(&format!("node is not installed: {} test files skipped", files.len()));
        sequence.summary.counts += Counts { skipped: files.len(), ..Counts::default() };
        return;
    }
    let mut node = command("node");
    node.args(["--test", "--test-reporter=spec", "--test-reporter-destination=stderr"]);
    node.args(["--test-reporter=tap", "--test-reporter-destination=stdout"]).args(files);
    let done = sequence.run_for_data(&mut node);
    let counts = output::node_counts(&done.data);
    sequence.summary.counts += counts;
    if done.status != 0 && counts.failed == 0 {
        let sentence = format!("node --test {files:?}: ended with status {}", done.status);
        sequence.summary.complain(sentence);
    }
}

/// The Erlang application has its own test runner, which prints the number of tests.
fn erlang_tests(sequence: &mut Sequence<'_>) {
    const RUNNER: &str = "crates/adapters/languages/erlang/scripts/test";
    if !is_installed("erlc") {
        sequence.say("Erlang is not installed: skipped");
        sequence.summary.counts += Counts { skipped: 1, ..Counts::default() };
        return;
    }
    let done = sequence.run(&mut command(Path::new(ROOT).join(RUNNER)));
    let passed = output::erlang_passes(&done.output);
    sequence.summary.counts += Counts { passed, ..Counts::default() };
    if done.status != 0 || passed == 0 {
        let sentence =
            format!("Erlang application tests: {RUNNER} ended with status {}", done.status);
        sequence.summary.complain(sentence);
    }
}
