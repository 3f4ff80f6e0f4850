//! `speedwell load` from several processes, interrupted, and with other tools.

use crate::busy::wait_until;
use crate::harness_driver::is_missing;
use crate::project::{CommandResult, TempProject};
use crate::web_server::WebServer;
use serde_json::Value as Json;
use std::process::{Child, Stdio};
use std::time::Duration;

fn load_json(answer: &CommandResult) -> Json {
    let document: Json = answer.json();
    document["loads"][0]["measured"].clone()
}

/// Starts a long load and waits until it is running.
fn start_load(project: &TempProject, server: &WebServer, words: &[&str]) -> Child {
    let url = server.url("/");
    let words = [&["load", &url, "-t", "600s", "--no-save", "--format", "json"], words].concat();
    let mut command = project.command(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    wait_until(|| server.count() >= 200);
    child.unwrap()
}

fn signal(signal: &str, pid: u32) {
    let status = std::process::Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

#[test]
fn several_processes_send_their_parts_and_are_added_up() {
    let (project, server) = (TempProject::new(), WebServer::start());
    let url = server.url("/");
    let words =
        ["load", &url, "-n", "301", "-c", "7", "--clients", "3", "--no-save", "--format", "json"];
    let answer = project.run(&words).expect_status(0);
    assert_eq!(server.count(), 302);
    let measured = load_json(&answer);
    let counts = &measured["totals"]["outcomes"];
    assert_eq!((&counts["attempted"], &counts["ok"]), (&301.into(), &301.into()));
    assert_eq!(measured["threads"].as_array().unwrap().len(), 3);
}

#[test]
fn every_process_sends_the_credentials_of_the_address() {
    let (project, server) = (TempProject::new(), WebServer::start());
    let words = "-n 20 -c 4 --clients 2 -L --no-save";
    for path in ["/", "/moved"] {
        // The password is 'p@w'; the parent must pass it to its children unchanged.
        let url = format!("http://anna:p%40w@{}{path}", server.address);
        let words: Vec<&str> = words.split(' ').collect();
        project.run(&[&["load", &url][..], &words].concat()).expect_status(0);
    }
    let requests = server.requests();
    assert_eq!(requests.len(), (1 + 20) + (2 + 20));
    let field = "Authorization: Basic YW5uYTpwQHc=\r\n";
    assert!(requests.iter().all(|request| request.head.contains(field)));
}

#[test]
fn ctrl_c_reports_the_measurements_made_so_far() {
    let project = TempProject::new();
    for words in [&[][..], &["--clients", "2"]] {
        let server = WebServer::start();
        let child = start_load(&project, &server, words);
        signal("-INT", child.id());
        let answer = CommandResult::from(child.wait_with_output().unwrap()).expect_status(130);
        let measured = load_json(&answer);
        assert_eq!(measured["is_interrupted"], true);
        let ok = measured["totals"]["outcomes"]["ok"].as_u64().unwrap();
        assert!(ok > 0 && ok <= server.count() as u64, "{ok} of {}", server.count());
    }
}

#[test]
fn a_process_that_dies_takes_only_its_own_part_with_it() {
    let (project, server) = (TempProject::new(), WebServer::start());
    let child = start_load(&project, &server, &["--clients", "2"]);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let children = tasks.flatten().flat_map(|task| {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let pids = text.split_whitespace().map(|pid| pid.parse::<u32>().unwrap());
        pids.collect::<Vec<u32>>()
    });
    let workers: Vec<u32> = children.collect();
    assert_eq!(workers.len(), 2);
    signal("-KILL", workers[0]);
    std::thread::sleep(Duration::from_millis(200));
    signal("-INT", child.id());
    let answer = CommandResult::from(child.wait_with_output().unwrap());
    let document: Json = answer.json();
    let load = &document["loads"][0];
    assert_eq!(load["is_partial"], true);
    let warnings = load["warnings"].to_string();
    assert!(warnings.contains("of 2 was killed by signal 9 (SIGKILL)"), "{warnings}");
    assert_eq!(load["measured"]["threads"].as_array().unwrap().len(), 1);
}

#[test]
fn other_tools_send_the_same_load_and_their_figures_are_read() {
    let project = TempProject::new();
    let tools: [(&str, &[&str]); 4] = [
        ("ab", &["-n", "60", "-d", "a=1"]),
        ("wrk", &["-t", "1s"]),
        ("h2load", &["-n", "60"]),
        ("autocannon", &["-n", "60", "-X", "PUT"]),
    ];
    for (tool, words) in tools.into_iter().filter(|(tool, _)| !is_missing(tool)) {
        let server = WebServer::start();
        let url = server.url("/x");
        let usual = ["load", &url, "--client", tool, "-c", "3", "-H", "X-Id: 7"];
        let answer = project.run(&[&usual[..], words].concat()).expect_status(0);
        let shown = format!("{url} concurrency=3");
        let answer = answer.expect_stdout(&["throughput", &shown]);
        let requests = server.requests();
        // A probe precedes the load.
        assert!(requests.len() > 1, "{tool}: {answer:#?}");
        let sent = requests.last().unwrap();
        let head = sent.head.to_lowercase();
        assert!(head.contains("x-id: 7"), "{tool}: {head}");
        assert!(head.contains("user-agent: speedwell/"), "{tool}: {head}");
        if words.contains(&"a=1") {
            assert!(sent.head.starts_with("POST /x "), "{tool}: {head}");
            assert_eq!(sent.body, "a=1", "{tool}");
        }
        if words.contains(&"60") {
            assert_eq!(requests.len(), 61, "{tool}");
        }
    }
}

#[test]
fn unsupported_options_of_a_tool_are_refused_by_name() {
    let project = TempProject::new();
    let refused: [(&[&str], &str); 5] = [
        (&["wrk", "-n", "5"], "wrk does not support --count: it stops after a given time"),
        (&["h2load", "--rate", "5"], "h2load does not support --rate"),
        (&["ab", "--threads", "2", "--rate", "5"], "ab does not support --rate, --threads"),
        (&["ab", "--hdr", "x"], "ab does not support --hdr"),
        (&["wrk", "-t", "1.5s"], "wrk supports only whole seconds for --time"),
    ];
    for (words, part) in refused {
        let words = [&["load", "http://127.0.0.1:9/", "--client"], words].concat();
        let answer = project.run(&words).expect_status(2);
        assert!(answer.stderr.contains(part), "{words:?}: {answer:#?}");
    }
}

#[test]
fn parts_that_were_started_by_hand_are_one_load() {
    let server = WebServer::start();
    let project = TempProject::new();
    let url = server.url("/");
    for part in ["a.json", "b.json"] {
        let words = ["load", &url, "-c", "2", "-n", "50", "-o", part, "--no-save"];
        project.run(&words).expect_status(0);
    }
    let words = ["report", "a.json", "b.json", "--merge", "--format", "json"];
    let answer = project.run(&words).expect_status(0);
    let document: serde_json::Value = answer.json();
    let load = &document["loads"][0];
    assert_eq!(load["requested"]["processes"], 2, "{load:#}");
    assert_eq!(load["requested"]["requests"], 100);
    let elsewhere = server.url("/else");
    let words = ["load", &elsewhere, "-n", "5", "-o", "c.json", "--no-save"];
    project.run(&words).expect_status(0);
    let refused = project.run(&["report", "a.json", "c.json", "--merge"]);
    refused.expect_status(2).expect_stderr(&["not parts of the same load"]);
}
