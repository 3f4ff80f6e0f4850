//! Searches for the best number of workers, where the answer is known: something lets a fixed
//! number of workers through at once, and they only wait there, so that the answer does not depend
//! on the machine.
//!
//! `eval/check-squeeze` repeats and counts them.

use super::busy::{ensure_holds, retry_busy};
use super::harness_driver::find_tool;
use super::project::{TempProject, repository};
use serde_json::Value;

/// The answer of a search over at most this many workers with samples of this length.
fn answer(words: &[&str], limit: u64, sample_ms: u32) -> u64 {
    let project = TempProject::new();
    let folder = repository().join("crates/speedwell/tests/eval");
    let folder = folder.to_string_lossy();
    let (sample, limit) = (format!("{sample_ms}ms"), limit.to_string());
    let search = [
        "-c",
        "max",
        "--concurrency-limit",
        &limit,
        "--path",
        &folder,
        "-t",
        &sample,
        "--format",
        "json",
    ];
    let answer = project.run(&[&["eval"], words, &search].concat()).expect_status(0);
    let found: Value = answer.json();
    found["scaling"][0]["concurrency"].as_u64().unwrap()
}

/// Other load may mislead a search, but not every time, and less with longer samples.
#[track_caller]
fn expect(truth: u64, words: &[&str]) {
    let mut sample_ms = 75;
    retry_busy(2, || {
        sample_ms = (2 * sample_ms).min(1200);
        let answer = answer(words, truth + 3, sample_ms);
        ensure_holds(answer == truth, || format!("{answer} instead of {truth}"))
    });
}

/// A server that takes 4 ms for every call, and callers that take half as long before each.
const SERVER: [&str; 4] = ["erlang", "gate:call().", "--init", "gate:start()."];

/// The modules of the Erlang stories, compiled.
fn compiled_gate() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let source = repository().join("crates/speedwell/tests/eval/gate.erl");
    let status =
        std::process::Command::new("erlc").arg("-o").arg(folder.path()).arg(source).status();
    assert!(status.unwrap().success());
    folder
}

/// These pass beside each other, but not beside tests that compute.
mod mostly_waits {
    use super::*;

    #[test]
    fn a_single_server_in_erlang_keeps_two_callers_busy() {
        if find_tool(&["erl"]).is_none() {
            return;
        }
        let compiled = compiled_gate();
        let path = compiled.path().to_string_lossy().into_owned();
        expect(2, &[&SERVER[..], &["--path", &path]].concat());
    }

    #[test]
    fn a_table_of_four_tokens_lets_four_through() {
        if find_tool(&["erl"]).is_none() {
            return;
        }
        let compiled = compiled_gate();
        let path = compiled.path().to_string_lossy().into_owned();
        let words = ["erlang", "gate:with_token().", "--init", "gate:tokens(4).", "--path", &path];
        expect(4, &words);
    }

    #[test]
    fn a_cluster_of_three_processes_serves_three_at_once() {
        if find_tool(&["node"]).is_none() {
            return;
        }
        expect(3, &["node", "await shared()", "--init", "require('gate_cluster').start(3)"]);
    }

    #[test]
    fn a_mutex_in_c_plus_plus_lets_two_take_turns() {
        if find_tool(&["c++", "g++", "clang++"]).is_none() {
            return;
        }
        // 4 ms inside, 2 ms outside: while one is inside, another comes back.
        let runner = "{ static std::mutex gate; std::lock_guard<std::mutex> inside(gate); usleep(4000); } usleep(2000);";
        expect(2, &["cpp", runner]);
    }
}
