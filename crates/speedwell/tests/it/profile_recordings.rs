//! Programs recorded with the tools of this machine: their functions appear with the expected
//! shares.

use super::busy::wait_until;
use super::harness_driver::find_tool;
use super::project::node;
use speedwell_analysis::profile::{CostDirection, explain_difference};
use speedwell_engine::execution::profile::{ProfileRecorder, RecordingTool};
use speedwell_machine::process::{ProcessEnd, ProcessSpec, ServiceProcess, cpu_ns_of};
use speedwell_model::{ProfileTool, StackProfile, WeightUnit};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// `heavy` gets three times as much of the same work as `light`; with a second argument, `extra`
/// gets as much as both.
const TWO_FUNCTIONS: &str = r"
#include <cstdlib>
volatile double sink;
#define WORK(name) __attribute__((noinline)) void name(long n) { \
    double x = 1; for (long i = 0; i < n; i++) x = x * 1.0000001 + 0.1; sink = x; }
WORK(heavy)
WORK(light)
WORK(extra)
int main(int count, char **words) {
    long n = atol(words[1]);
    for (int round = 0; round < 20; round++) { heavy(3 * n); light(n); if (count > 2) extra(4 * n); }
}
";

const SCRIPT: &str = "
function fib(n) { return n < 2 ? 1 : fib(n - 1) + fib(n - 2); }
function work(rounds) { let sum = 0; for (let i = 0; i < rounds; i++) sum += fib(24); return sum; }
if (process.argv[2] === 'serve') {
  setInterval(() => work(20), 1);
  require('fs').writeFileSync('ready', '');
} else {
  console.log(work(150) > 0);
}
";

const ERLANG: &str = "
-module(fib).
-export([main/0]).
fib(N) when N < 2 -> 1;
fib(N) -> fib(N - 1) + fib(N - 2).
main() -> io:format(\"~p~n\", [fib(33)]), halt().
";

/// A recorder, if perf is usable here.
fn perf() -> Option<ProfileRecorder> {
    let recorder = ProfileRecorder::detect();
    match recorder.select_tool(Path::new("any")) {
        Ok(_) => Some(recorder),
        Err(reason) => {
            eprintln!("skipped: {reason:#}");
            None
        }
    }
}

/// Fraction of the weight in stacks with a function whose name starts like this.
fn share(profile: &StackProfile, function: &str) -> f64 {
    let has = |frames: &[&str]| frames.iter().any(|frame| frame.starts_with(function));
    let inside: u64 =
        profile.stacks().filter_map(|(frames, weight)| has(&frames).then_some(weight)).sum();
    inside as f64 / profile.total() as f64
}

fn folder(file: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(file), text).unwrap();
    folder
}

fn in_folder(folder: &tempfile::TempDir, program: impl AsRef<Path>) -> ProcessSpec {
    ProcessSpec { directory: Some(folder.path().to_owned()), ..ProcessSpec::new(program) }
}

/// Symbol maps that runtimes wrote to /tmp for perf, about code in that folder.
fn maps_of(folder: &tempfile::TempDir) -> Vec<PathBuf> {
    let path = folder.path().to_string_lossy().into_owned();
    let files = std::fs::read_dir("/tmp").unwrap().flatten().map(|entry| entry.path());
    let is_map = |file: &PathBuf| {
        file.extension().is_some_and(|end| end == "map")
            && std::fs::read(file).is_ok_and(|text| String::from_utf8_lossy(&text).contains(&path))
    };
    files.filter(is_map).collect()
}

/// Compiles the program of two functions; its folder must be kept.
fn two_functions() -> Option<(tempfile::TempDir, PathBuf)> {
    let compiler = find_tool(&["c++", "g++", "clang++"])?;
    let folder = folder("two.cpp", TWO_FUNCTIONS);
    let mut compile = Command::new(compiler);
    let words = ["-O1", "-fno-omit-frame-pointer", "two.cpp", "-o", "two"];
    assert!(compile.args(words).current_dir(folder.path()).status().unwrap().success());
    let program = folder.path().join("two");
    Some((folder, program))
}

#[test]
fn native_functions_have_the_shares_that_their_work_has() {
    let (Some((folder, program)), Some(recorder)) = (two_functions(), perf()) else {
        return;
    };
    let spec = in_folder(&folder, program).args(["2500000"]);
    let recorded = recorder.record(spec, &mut ()).unwrap();
    assert_eq!(recorded.outcome.ended, ProcessEnd::Exit(0));
    let profile = recorded.profile;
    assert_eq!((profile.tool, profile.unit), (ProfileTool::Perf, WeightUnit::Nanoseconds));
    let samples = profile.samples.unwrap() as f64;
    assert!(samples > 50.0, "{samples} samples");
    let heavy = share(&profile, "heavy") / (share(&profile, "heavy") + share(&profile, "light"));
    // Four standard errors of a proportion of 3/4, plus a margin for everything but the work.
    let allowed = 4.0 * (0.75 * 0.25 / samples).sqrt() + 0.02;
    assert!((heavy - 0.75).abs() < allowed, "heavy has {heavy} of {samples} samples");
}

#[test]
fn extra_cost_is_attributed_to_the_function_only_the_candidate_calls() {
    let (Some((folder, program)), Some(recorder)) = (two_functions(), perf()) else {
        return;
    };
    let record = |words: &[&str]| {
        let spec = in_folder(&folder, &program).args(words.iter().copied());
        recorder.record(spec, &mut ()).unwrap().profile
    };
    let found = explain_difference(&record(&["2500000"]), &record(&["2500000", "more"])).extra;
    assert_eq!(found.direction, CostDirection::Costlier);
    let entry = found.entry.unwrap();
    assert_eq!((entry.row.frame.as_str(), entry.row.is_new), ("extra", true));
    // On a busy machine the same work takes more or less time, so its share is only roughly all of
    // it.
    assert!((0.5..2.0).contains(&entry.row.share), "{}", entry.row.share);
}

#[test]
fn javascript_and_native_functions_are_recorded_together() {
    let (Some(node), Some(recorder)) = (node(), perf()) else {
        return;
    };
    let folder = folder("work.js", SCRIPT);
    assert_eq!(recorder.select_tool(&node).unwrap(), RecordingTool::Perf);
    let spec = in_folder(&folder, node).args(["work.js"]);
    let recorded = recorder.record(spec, &mut ()).unwrap();
    assert_eq!(recorded.outcome.stdout.text(), "true\n");
    // Paths are shown relative to the program's folder, without markers of the compilers.
    assert!(share(&recorded.profile, "JS:fib work.js:") > 0.2, "{}", recorded.profile);
    assert!(share(&recorded.profile, "node::Start") > 0.3, "{}", recorded.profile);
}

#[test]
fn without_perf_javascript_is_recorded_by_v8_and_the_reason_noted() {
    let Some(node) = node() else { return };
    let folder = folder("work.js", SCRIPT);
    let recorder = ProfileRecorder::without_perf("perf is not in PATH");
    let spec = in_folder(&folder, node).args(["work.js"]);
    let profile = recorder.record(spec, &mut ()).unwrap().profile;
    assert_eq!((profile.tool, profile.unit), (ProfileTool::V8, WeightUnit::Microseconds));
    assert!(share(&profile, "fib work.js:2") > 0.2, "{profile}");
    assert!(profile.notes.join(" ").contains("perf is not in PATH"));
    let native = in_folder(&folder, "/bin/true");
    let reason = recorder.record(native, &mut ()).unwrap_err();
    assert_eq!(format!("{reason:#}"), "perf is not in PATH");
}

/// Waits until a server has used this much processor time, however long that takes.
fn wait_for_work(server: &ServiceProcess, time: Duration) {
    let used = || Duration::from_nanos(cpu_ns_of(server.pid()).unwrap());
    let enough = used() + time;
    wait_until(|| used() >= enough);
}

#[test]
fn a_server_is_recorded_only_while_it_is_attached_to() {
    let (Some(node), Some(recorder)) = (node(), perf()) else {
        return;
    };
    let folder = folder("work.js", SCRIPT);
    let mut spec = in_folder(&folder, node).args(["work.js", "serve"]);
    recorder.prepare(&mut spec);
    let server = ServiceProcess::start(spec).unwrap();
    // Its start must not be in the recording.
    let ready = folder.path().join("ready");
    wait_until(|| ready.exists());
    wait_for_work(&server, Duration::from_millis(500));
    let attached = recorder.attach(server.pid(), folder.path()).unwrap();
    wait_for_work(&server, Duration::from_millis(500));
    let recording = attached.stop_recording().unwrap();
    assert!(!server.has_ended());
    server.stop_and_wait().unwrap();
    let profile = recording.read_profile().unwrap();
    assert!(maps_of(&folder).is_empty());
    assert!(share(&profile, "JS:fib work.js:") > 0.5, "{profile}");
    assert!(share(&profile, "node::InitializeOncePerProcess") == 0.0, "{profile}");
}

#[test]
fn erlang_functions_are_seen() {
    let (Some(erl), Some(erlc), Some(recorder)) =
        (find_tool(&["erl"]), find_tool(&["erlc"]), perf())
    else {
        return;
    };
    let folder = folder("fib.erl", ERLANG);
    let mut compile = Command::new(erlc);
    assert!(compile.arg("fib.erl").current_dir(folder.path()).status().unwrap().success());
    let spec = in_folder(&folder, erl).args(["-noshell", "-s", "fib", "main"]);
    let profile = recorder.record(spec, &mut ()).unwrap().profile;
    if share(&profile, "[jit]") > 0.3 {
        eprintln!("skipped: this Erlang does not name its compiled code");
        return;
    }
    assert!(share(&profile, "fib:fib/1") > 0.1, "{profile}");
}

#[test]
fn failed_recordings_are_reported_with_the_reason() {
    let Some(recorder) = perf() else { return };
    let reason = recorder.record(ProcessSpec::new("/nowhere/x"), &mut ()).unwrap_err();
    assert!(format!("{reason:#}").contains("'/nowhere/x' was not recorded"), "{reason:#}");
    let gone = recorder.attach(i32::MAX, Path::new("/")).unwrap_err();
    assert_eq!(gone.to_string(), format!("process {} has ended", i32::MAX));
}
