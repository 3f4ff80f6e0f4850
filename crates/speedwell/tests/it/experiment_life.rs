//! Every stage of an experiment's run, failing once: which failure is reported, with which message.
//!
//! The server is a real one that misbehaves on request (tests/experiment/server.py). The request
//! goes over the private channel as a plan would send it.

use super::busy::{ensure_holds, retry_busy};
use super::harness_driver::{HarnessTalk, encode_value, is_missing};
use super::project::repository;
use serde_json::{Value, json};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// A request for a run that succeeds.
pub fn run_request(words: &[&str]) -> Value {
    let server = repository().join("crates/speedwell/tests/experiment/server.py");
    let server = server.display().to_string();
    // The server needs no installed packages, and their set-up takes longer than its start.
    let mut command = ["python3", "-S", &server, "{port}"].map(str::to_owned).to_vec();
    command.extend(words.iter().map(|&word| word.to_owned()));
    json!({
        "target": {
            "command": command,
            "directory": std::env::temp_dir(),
            "environment": [],
            "expected_exit": 0,
            "limit_ms": 60_000,
        },
        "work": {
            "kind": "server",
            "port": null,
            "private_network": false,
            "ready": { "path": "/", "status": 200, "within_ms": 30_000 },
            "stop": { "signal": 15, "grace_ms": 20_000 },
            "children": null,
            "load": {
                "spec": { "url": "http://127.0.0.1:{port}/", "concurrency": 4, "count": 200 },
                "warmup": { "requests": 20 },
            },
            "verify": {
                "path": null,
                "statuses": [[200, 299]],
                "body": { "json": { "hello": "world" } },
                "same_bytes": true,
            },
        },
        "proofs": [],
        "figures": [],
        "also": [],
    })
}

/// The request with a replaced value.
fn with_value(mut order: Value, place: &str, value: Value) -> Value {
    *order.pointer_mut(&format!("/{place}")).unwrap_or_else(|| panic!("no {place}")) = value;
    order
}

/// Events of a process about a run.
pub fn perform_run(order: &Value) -> Value {
    let program = env!("CARGO_BIN_EXE_speedwell").to_owned();
    let mut talk = HarnessTalk::start(&[program, "worker".to_owned(), "run".to_owned()], &[]);
    let text = encode_value(&order.to_string());
    talk.send_lines(&format!("hello\tid=1\nrun\tid=2\tseed=7\tassignment={text}\n"));
    let told = talk.wait_for_event("performed");
    let mut done: Value = serde_json::from_str(&told.text("json")).unwrap();
    done["load"] = serde_json::from_str(&told.text("load")).unwrap_or(Value::Null);
    talk.end();
    done
}

/// Stage and reason of a failed run.
#[track_caller]
pub fn failure(order: &Value) -> (String, String) {
    let done = perform_run(order);
    let text =
        |key: &str| done["failure"][key].as_str().unwrap_or_else(|| panic!("{done:#}")).to_owned();
    (text("stage"), text("reason"))
}

#[track_caller]
fn expect_failure(order: &Value, stage: &str, words: &[&str]) {
    let (at, reason) = failure(order);
    assert_eq!(at, stage, "{reason}");
    for word in words {
        assert!(reason.contains(word), "'{word}' in '{reason}'");
    }
}

fn figure(done: &Value, name: &str) -> Option<f64> {
    let figures = done["figures"].as_array()?;
    let found = figures.iter().find(|figure| figure["metric"]["name"] == name)?;
    found["values"][0].as_f64()
}

#[test]
fn responses_with_an_expected_non_2xx_status_are_not_errors() {
    let order = with_value(run_request(&["status=404"]), "work/ready/status", json!(404));
    let order = with_value(order, "work/verify/statuses", json!([[404, 404]]));
    let done = perform_run(&order);
    assert_eq!(done["failure"], Value::Null, "{done}");
    assert!(figure(&done, "throughput").is_some(), "{done}");
    assert_eq!(figure(&done, "http_non2xx"), Some(0.0), "{done}");
}

#[test]
fn a_run_without_fault_gives_figures_of_load_and_server() {
    if is_missing("python3") {
        return;
    }
    let done = perform_run(&run_request(&[]));
    assert_eq!(done["failure"], Value::Null, "{done:#}");
    let known = |name: &str| figure(&done, name).unwrap_or_else(|| panic!("no {name} in {done:#}"));
    assert!(known("throughput") > 10.0 && known("latency_p50") > 1000.0);
    // 4 clients without pause: no more can be in flight on average.
    assert!(known("effective_concurrency") < 4.2, "{done:#}");
    assert!(known("cpu_per_request") > 10_000.0, "a request costs Python more than 10 us");
    assert!(known("cpu_cores") < 2.5 && known("max_rss") > 5e6);
    assert!(known("server_ready") > 1e6 && known("server_exit") > 1e3);
    let head_and_body = known("bytes_per_response");
    assert!((60.0..300.0).contains(&head_and_body), "{head_and_body}");
    assert!(figure(&done, "instructions_per_request").is_none(), "nobody asked for it");
    let counts = &done["load"]["measured"]["totals"]["outcomes"];
    assert!(counts.is_object(), "the whole load is told");
    // Nor is it much less, unless the load is delayed between a response and the next request.
    retry_busy(2, || {
        let done = perform_run(&run_request(&[]));
        let under_way = figure(&done, "effective_concurrency");
        ensure_holds(under_way.is_some_and(|count| count > 2.0), || format!("{under_way:?}"))
    });
}

#[test]
fn a_port_in_use_is_reported_with_its_holder() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let order = with_value(run_request(&[]), "work/port", json!(port));
    expect_failure(&order, "port", &[&port.to_string(), "already in use by", "process"]);
}

#[test]
fn a_program_that_is_not_there_does_not_start() {
    let order = with_value(run_request(&[]), "target/command", json!(["no-such-program", "x"]));
    expect_failure(&order, "start", &["'no-such-program'", "No such file"]);
}

#[test]
fn a_server_that_never_becomes_ready_is_reported_with_the_reason() {
    if is_missing("python3") {
        return;
    }
    // Long enough for a server to start on a busy machine; in parallel, because each takes so long.
    let hasty =
        |words: &[&str]| with_value(run_request(words), "work/ready/within_ms", json!(3_000));
    let three = |words: &[&str]| with_value(hasty(words), "work/children", json!(3));
    let hopeless = [
        (hasty(&["starts=60"]), ["not ready within 3 s", "nothing listens"]),
        (hasty(&["status=503"]), ["not ready within 3 s", "answers 503 instead of 200"]),
        (
            three(&["children=2"]),
            ["not ready within 3 s", "the server has 2 children instead of 3"],
        ),
    ];
    std::thread::scope(|scope| {
        for (order, words) in &hopeless {
            scope.spawn(|| expect_failure(order, "ready", words));
        }
    });
    expect_failure(&run_request(&["exits=3"]), "ready", &["ended before it was ready", "status 3"]);
    let children = with_value(run_request(&["children=3"]), "work/children", json!(3));
    let done = perform_run(&children);
    assert_eq!(done["failure"], Value::Null, "{done:#}");
}

#[test]
fn a_server_that_starts_slowly_is_waited_for() {
    if is_missing("python3") {
        return;
    }
    let done = perform_run(&run_request(&["starts=1"]));
    assert_eq!(done["failure"], Value::Null, "{done:#}");
    assert!(figure(&done, "server_ready").unwrap() > 1e9);
}

#[test]
fn a_stranger_at_the_port_is_not_measured() {
    // The target itself does not listen; another process takes the port once it has started.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let script = format!("touch '{}'; exec sleep 60", started.display());
    let order = with_value(run_request(&[]), "work/port", json!(port));
    let order = with_value(order, "target/command", json!(["/bin/sh", "-c", script]));
    let stranger = std::thread::spawn(move || {
        let begin = Instant::now();
        while !started.exists() {
            assert!(begin.elapsed() < Duration::from_secs(30), "it never starts");
            std::thread::sleep(Duration::from_millis(5));
        }
        TcpListener::bind(("127.0.0.1", port)).unwrap()
    });
    expect_failure(&order, "ready", &["belongs to", "which the target did not start"]);
    drop(stranger.join().unwrap());
}

#[test]
fn a_variant_that_did_not_take_effect_is_an_error() {
    if is_missing("python3") {
        return;
    }
    let proven = |place: Value, at_exit: bool| {
        let proof = json!([{ "place": place, "pattern": "mode:on", "at_exit": at_exit }]);
        move |words: &[&str]| with_value(run_request(words), "proofs", proof.clone())
    };
    let ready = proven(json!("stderr"), false);
    expect_failure(
        &ready(&["says=mode:off"]),
        "proof",
        &["the target's stderr", "'mode:on'", "did not take effect"],
    );
    assert_eq!(perform_run(&ready(&["says=mode:on"]))["failure"], Value::Null);
    let exit = proven(json!("stderr"), true);
    expect_failure(&exit(&[]), "proof-at-exit", &["did not take effect"]);
    assert_eq!(perform_run(&exit(&["parting=mode:on"]))["failure"], Value::Null);
    let asked = proven(json!({ "http": "/mode:on" }), false);
    assert_eq!(perform_run(&asked(&[]))["failure"], Value::Null, "the answer echoes the path");
    let old = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(old.path(), "mode:on").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let file = proven(json!({ "file": old.path() }), false);
    expect_failure(&file(&[]), "proof", &["older than the run"]);
}

#[test]
fn an_answer_that_is_wrong_is_seen_before_the_load() {
    if is_missing("python3") {
        return;
    }
    let missing = with_value(run_request(&["status=404"]), "work/ready/path", Value::Null);
    expect_failure(&missing, "verify", &["answered 404", "hello"]);
    let other = |rule: Value| with_value(run_request(&[]), "work/verify/body", rule);
    expect_failure(
        &other(json!({ "json": { "hello": "moon" } })),
        "verify",
        &["is not {\"hello\":\"moon\"}"],
    );
    expect_failure(&other(json!({ "json_length": 2 })), "verify", &["has 1 entries instead of 2"]);
    expect_failure(&other(json!({ "regex": "^\\d+$" })), "verify", &["does not match"]);
    expect_failure(&other(json!({ "bytes": 3 })), "verify", &["has 17 bytes instead of 3"]);
}

#[test]
fn a_server_that_turns_bad_under_load_gives_no_figure() {
    if is_missing("python3") {
        return;
    }
    // One response makes it ready, one is verified; then come 20 of the warm-up.
    expect_failure(&run_request(&["turns=100"]), "served", &["requests failed", "status"]);
    expect_failure(&run_request(&["turns=222"]), "verify-again", &["answered 500"]);
}

#[test]
fn a_server_that_dies_under_load_is_reported_with_its_signal() {
    if is_missing("python3") {
        return;
    }
    expect_failure(&run_request(&["dies=10"]), "warmup", &["during the load", "signal 11"]);
    expect_failure(&run_request(&["dies=100"]), "load", &["during the load", "signal 11"]);
    // Its connections close some time before its end can be detected, and the rest of the load ends
    // immediately.
    expect_failure(
        &run_request(&["dies=10", "lingers=0.3"]),
        "warmup",
        &["during the load", "signal 11"],
    );
}

#[test]
fn a_child_that_ends_under_load_is_noticed() {
    if is_missing("python3") {
        return;
    }
    expect_failure(
        &run_request(&["children=2", "loses=100"]),
        "alive",
        &["1 of the server's children exited", "0 new"],
    );
}

#[test]
fn a_server_that_does_not_end_is_killed_and_its_figures_are_kept() {
    if is_missing("python3") {
        return;
    }
    let order = with_value(run_request(&["stubborn=1"]), "work/stop/grace_ms", json!(300));
    let begin = Instant::now();
    let done = perform_run(&order);
    assert_eq!(done["failure"]["stage"], "stop", "{done:#}");
    assert!(done["failure"]["reason"].as_str().unwrap().contains("was killed"));
    assert!(figure(&done, "throughput").is_some() && figure(&done, "server_exit").is_none());
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn processes_left_behind_by_a_server_are_stopped_and_reported() {
    if is_missing("python3") {
        return;
    }
    let done = perform_run(&run_request(&["orphan=1"]));
    assert_eq!(done["failure"], Value::Null, "{done:#}");
    let notes = done["notes"].to_string();
    let told = "It left processes running, which were stopped: 'python3'.";
    assert!(notes.contains(told), "{notes}");
}

#[test]
fn a_port_in_use_can_be_used_in_a_private_network() {
    if is_missing("python3") {
        return;
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let order = with_value(run_request(&[]), "work/port", json!(port));
    let done = perform_run(&with_value(order, "work/private_network", json!(true)));
    if done["notes"].to_string().contains("is not permitted") {
        eprintln!("skipped: networks of their own are not permitted here");
        return;
    }
    assert_eq!(done["failure"], Value::Null, "{done:#}");
    assert!(figure(&done, "throughput").is_some());
}

fn command(script: &str) -> Value {
    let order = with_value(run_request(&[]), "work", json!({ "kind": "command" }));
    with_value(order, "target/command", json!(["/bin/sh", "-c", script]))
}

#[test]
fn a_command_yields_figures_from_its_output_and_its_resource_usage() {
    let metric = |name: &str| json!({ "name": name, "unit": "ns", "better": "lower" });
    let figures = json!([
        { "metric": metric("time"), "from": { "regex": "Time: (?P<value>[0-9.]+) ms" }, "factor": 1e6 },
        { "metric": metric("delay"), "from": { "marks": ["mark:thrown", "process-end"] }, "factor": 1.0 },
    ]);
    let script = "echo 'Time: 12.5 ms'; echo mark:thrown >&2; sleep 0.3; exit 7";
    let order = with_value(command(script), "figures", figures);
    let order = with_value(order, "target/expected_exit", json!(7));
    let done = perform_run(&order);
    assert_eq!(done["failure"], Value::Null, "{done:#}");
    assert_eq!(figure(&done, "time"), Some(12.5e6));
    // A delay when a mark arrives makes it late.
    retry_busy(2, || {
        let delay_ns = figure(&perform_run(&order), "delay").unwrap();
        ensure_holds((0.28e9..2e9).contains(&delay_ns), || format!("{delay_ns}"))
    });
    for name in ["wall_time", "cpu_time", "max_rss"] {
        assert!(figure(&done, name).is_some_and(|value| value > 0.0), "{name}");
    }
}

#[test]
fn a_failing_command_is_reported_with_its_exit_and_last_output() {
    let done = perform_run(&command("echo out of cheese >&2; exit 3"));
    assert_eq!(done["failure"]["stage"], "alive");
    assert!(done["failure"]["reason"].as_str().unwrap().contains("exited with status 3"));
    assert_eq!(done["failure"]["stderr_tail"], "out of cheese");
    expect_failure(&command("kill -SEGV $$"), "alive", &["signal 11"]);
    let figures = json!([{
        "metric": { "name": "time", "unit": "ms", "better": "lower" },
        "from": { "regex": "Time: ([0-9]+)" }, "factor": 1.0,
    }]);
    let silent = with_value(command("true"), "figures", figures);
    expect_failure(&silent, "figures", &["'time'", "nothing on the command's stdout matches"]);
    let endless = with_value(command("sleep 60"), "target/limit_ms", json!(300));
    expect_failure(&endless, "alive", &["did not end within 0.3 s"]);
}
