//! Profiles of experiments: the function named, what is stored, and messages where nothing can be
//! recorded.

use super::project::{CommandResult, TempProject, node};
use serde_json::Value;
use speedwell_engine::execution::profile::ProfileRecorder;
use speedwell_formats::json_lines;
use speedwell_model::{ProfileOutcome, ProfileTool, Session, StackProfile};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

/// With `--check`, `audit` does twice the work of all the rest. It is recursive, so it cannot be
/// inlined away.
const SCRIPT: &str = "
function fib(n) { return n < 2 ? 1 : fib(n - 1) + fib(n - 2); }
function audit(n) { return n < 2 ? 1 : audit(n - 1) + audit(n - 2); }
let sum = 0;
for (let round = 0; round < 150; round++) {
  sum += fib(22);
  if (process.argv.includes('--check')) sum += audit(23) + audit(21);
}
console.log(sum > 0);
";

/// With `--check`, a request costs several times as much: more than a busy machine can simulate. It
/// is answered later, so that few requests are sent in a given time.
const SERVER: &str = "
const checks = process.argv.includes('--check');
function fib(n) { return n < 2 ? 1 : fib(n - 1) + fib(n - 2); }
function audit(n) { return n < 2 ? 1 : audit(n - 1) + audit(n - 2); }
const server = require('node:http').createServer((request, response) => {
  const sum = fib(18) + (checks ? audit(23) : 0);
  setTimeout(() => response.end(`${sum > 0}`), 5);
});
server.listen(Number(process.argv[2]), '127.0.0.1');
process.on('SIGTERM', () => process.exit(0));
";

/// Two variants, the second with `--check`; the group and the rest are appended.
const VARIANTS: &str = r#"
schema = 2
name = "checks"
[[variant]]
name = "plain"
[[variant]]
name = "checked"
args = ["--check"]
[plan]
runs = 2
"#;

const COMMAND: &str = r#"
[[group]]
name = "script"
kind = "command"
[group.target]
command = ["node", "script.js"]
"#;

fn project(rest: &str) -> TempProject {
    TempProject::new()
        .with("script.js", SCRIPT)
        .with("server.js", SERVER)
        .with("checks.toml", &format!("{VARIANTS}{rest}"))
}

fn has_perf() -> bool {
    let recorder = ProfileRecorder::detect().select_tool(Path::new("any"));
    if let Err(reason) = &recorder {
        eprintln!("skipped: {reason:#}");
    }
    recorder.is_ok()
}

/// The only profiled pair of a report.
#[track_caller]
fn profiled_pair(answer: &CommandResult) -> Value {
    let report: Value = answer.json();
    let profiles = report["profiles"].as_array().cloned().unwrap_or_default();
    assert_eq!(profiles.len(), 1, "{report:#}");
    profiles[0].clone()
}

/// Joins lines, to undo wrapping.
fn unwrap_lines(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn enters_by_audit(pair: &Value, tool: &str) {
    let entry = &pair["entry"];
    let frame = entry["frame"].as_str().unwrap_or_default();
    assert!(frame.contains("audit"), "{pair:#}");
    assert_eq!(entry["new"], true, "{pair:#}");
    assert_eq!(pair["candidate"]["tool"], tool, "{pair:#}");
}

/// An import elsewhere has the same profiles and the same report.
fn comes_back_elsewhere(project: &TempProject, said: &Value) {
    let exported = project.run(&["report", "--export", "jsonl"]).expect_status(0);
    let sessions = json_lines::read(&exported.stdout).unwrap();
    let taken = |session: &Session| -> Vec<(String, Arc<StackProfile>)> {
        let one = session.profiles.iter().map(|recording| match &recording.profile {
            ProfileOutcome::Taken(profile) => (recording.variant.clone(), profile.clone()),
            ProfileOutcome::Missing(reason) => panic!("{reason}"),
        });
        one.collect()
    };
    let profiles = taken(&sessions[0]);
    let names: Vec<&str> = profiles.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["plain", "checked"]);
    assert!(profiles.iter().all(|(_, profile)| profile.tool == ProfileTool::Perf));
    assert!(sessions[0].runs.len() == 4, "recorded runs are no timed runs");

    let other = TempProject::new().with("session.jsonl", &exported.stdout);
    let words = ["report", "session.jsonl", "--format", "json"];
    let elsewhere = other.run(&words).expect_status(0);
    assert_eq!(profiled_pair(&elsewhere), *said);
}

#[test]
fn the_added_function_of_a_server_is_found_at_equal_request_counts() {
    if node().is_none() || !has_perf() {
        return;
    }
    let project = project(
        r#"
[[group]]
name = "http"
kind = "server"
[group.target]
command = ["node", "server.js", "{port}"]
ready = { http = "/" }
[group.load]
concurrency = 4
duration = "200ms"
warmup = { requests = 50 }
[profile]
when = ["http"]
"#,
    );
    let answer = project.run(&["run", "checks.toml", "--format", "json"]);
    let answer = answer.expect_status(0);
    let pair = profiled_pair(&answer);
    enters_by_audit(&pair, "perf");
    let report: Value = answer.json();
    let said =
        |note: &&Value| note.as_str().is_some_and(|note| note.contains("the server received"));
    let notes = report["notes"].as_array().unwrap();
    assert_eq!(notes.iter().filter(said).count(), 1, "the same number for both: {notes:#?}");
}

/// A folder for PATH that contains Node.js but not perf.
fn path_without_perf(project: &TempProject) -> Option<String> {
    let node = node()?;
    let folder = project.path("bin");
    std::fs::create_dir_all(&folder).unwrap();
    symlink(node.canonicalize().unwrap(), folder.join("node")).unwrap();
    Some(folder.display().to_string())
}

#[test]
fn a_failed_recording_of_a_server_is_explained_and_does_not_stop_the_run() {
    let project = project(
        r#"
[[group]]
name = "http"
kind = "server"
[group.target]
command = ["node", "server.js", "{port}"]
ready = { http = "/" }
[group.load]
requests = 200
[profile]
when = "always"
tool = "cpu-prof"
"#,
    );
    if node().is_none() {
        return;
    }
    let mut answer = project.run(&["run", "checks.toml"]).expect_status(0);
    answer.stdout = unwrap_lines(&answer.stdout);
    answer.expect_stdout(&[
        "http: checked against plain",
        "No profile: the run failed at 'profile': only perf can record a server",
    ]);
}

#[test]
fn a_file_that_asks_for_perf_is_not_served_by_another_tool() {
    let project = project(&format!("{COMMAND}[profile]\ntool = \"perf\"\n"));
    let Some(path) = path_without_perf(&project) else {
        return;
    };
    let mut command = project.command(&["run", "checks.toml"]);
    let mut answer =
        CommandResult::from(command.env("PATH", path).output().unwrap()).expect_status(0);
    answer.stdout = unwrap_lines(&answer.stdout);
    answer.expect_stdout(&["No profile: the run failed at 'profile': perf is not in PATH."]);
}

#[test]
fn cases_that_do_not_match_the_profile_condition_are_not_recorded() {
    if node().is_none() {
        return;
    }
    // Two runs never give a verdict other than unclear.
    let project = project(&format!("{COMMAND}[profile]\nwhen = \"verdict == worse\"\n"));
    let answer = project.run(&["run", "checks.toml"]).expect_status(0);
    assert!(!answer.stdout.contains("Where the time goes"), "{}", answer.stdout);
}

#[test]
fn profiling_benchmark_files_is_refused_before_anything_is_measured() {
    let project = TempProject::new().with("a.fake", "a: 1");
    let answer = project.run(&["run", "a.fake", "--profile"]).expect_status(2);
    answer.expect_stderr(&["--profile needs an experiment"]);
    let history = project.run(&["history"]);
    assert!(!history.stdout.contains("a.fake"), "{history:?}");
}

/// Other load on the machine would change the results.
mod measures {
    use super::*;

    #[test]
    fn the_added_function_of_a_command_is_named_and_the_profile_is_kept() {
        if node().is_none() || !has_perf() {
            return;
        }
        let project = project(COMMAND);
        // The file has no [profile], so the option decides.
        let words = ["run", "checks.toml", "--profile", "--format", "json"];
        let first = project.run(&[&words[..], &["-o", "one.html"]].concat());
        let first = first.expect_status(0);
        enters_by_audit(&profiled_pair(&first), "perf");
        let page = std::fs::read_to_string(project.path("one.html")).unwrap();
        assert!(page.contains("Where the time goes: checked, checks/script"));
        assert!(page.contains("checked against plain: what plain did, checks/script"));
        let left = std::fs::read_dir(project.path(".")).unwrap().flatten();
        let left: Vec<String> = left
            .map(|file| file.file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".log"))
            .collect();
        assert!(left.is_empty(), "{left:?}");

        // Nothing is measured again: the scripts are gone.
        std::fs::remove_file(project.path("script.js")).unwrap();
        let words = ["report", "@latest", "--format", "json"];
        let again = project.run(&words).expect_status(0);
        assert_eq!(profiled_pair(&again), profiled_pair(&first));
        let words = ["report", "--chart", "flame", "-o", "flame.svg"];
        let drawn = project.run(&words).expect_status(0);
        drawn.expect_stderr(&["'flame.svg'", "'flame-4.svg'"]);
        assert!(!project.path("flame-5.svg").exists(), "flame graphs only");
        comes_back_elsewhere(&project, &profiled_pair(&first));
    }

    #[test]
    fn without_perf_node_is_recorded_by_v8_with_a_note() {
        let project = project(COMMAND);
        let Some(path) = path_without_perf(&project) else {
            return;
        };
        let words = ["run", "checks.toml", "--profile", "--format", "json"];
        let mut command = project.command(&words);
        let answer =
            CommandResult::from(command.env("PATH", path).output().unwrap()).expect_status(0);
        enters_by_audit(&profiled_pair(&answer), "v8");
        answer.expect_stdout(&[
            "V8's profiler was used because perf is not in PATH.",
            "V8's profiler sees only JavaScript functions",
        ]);
    }
}
