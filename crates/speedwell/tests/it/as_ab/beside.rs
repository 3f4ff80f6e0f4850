//! The same test by ab and by the drop-in: the same lines, counts and bytes sent.

use super::server::PageServer;
use super::{AbCall, as_ab};
use std::process::Command;

/// Runs ab itself, if it is installed.
pub fn run_original(words: &str, url: &str) -> Option<AbCall> {
    let mut command = Command::new("ab");
    match command.args(words.split_whitespace()).arg(url).output() {
        Ok(output) => Some(AbCall::from(output)),
        Err(error) => {
            eprintln!("skipped: ab cannot be started: {error}");
            None
        }
    }
}

/// The lines without figures, up to the drop-in's additions. The first three, which name the
/// program, are skipped.
fn lines(report: &str) -> Vec<String> {
    let report = report.split("\nAccount:").next().unwrap();
    let lines = report.lines().skip(3).map(|line| {
        let words = line.split_whitespace().map(|word| {
            let is_figure = word.trim_end_matches('%').parse::<f64>().is_ok();
            if is_figure { "#" } else { word }
        });
        words.collect::<Vec<_>>().join(" ")
    });
    let mut lines: Vec<String> = lines.filter(|line| !is_skew(line)).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// The original reads a median from the wrong index; whether it warns depends on chance.
fn is_skew(line: &str) -> bool {
    let beginnings = ["WARNING: The median", "These results are probably", "ERROR: The median"];
    beginnings.iter().any(|start| line.starts_with(start)) || line.starts_with("deviation apart")
}

const COUNTS: [&str; 6] = [
    "Complete requests",
    "Failed requests",
    "Non-2xx responses",
    "Keep-Alive requests",
    "HTML transferred",
    "Total transferred",
];

#[test]
fn output_and_counts_match_the_original_ab() {
    for (words, page) in [
        ("-n 200 -c 10", "/ok"),
        ("-k -n 200 -c 10", "/ok"),
        ("-k -n 40 -c 2", "/missing"),
        ("-k -i -n 40 -c 2", "/ok"),
        ("-q -k -S -d -n 40 -c 4", "/slow"),
        ("-k -l -n 40 -c 2", "/var"),
        ("-n 1", "/ok"),
    ] {
        let server = PageServer::start();
        let Some(theirs) = run_original(words, &server.url(page)) else {
            return;
        };
        // A separate server, because pages depend on the number of the request.
        let server = PageServer::start();
        let ours = as_ab(&format!("--http1.0 {words}"), &server.url(page));
        let (mine, other) = (lines(&ours.stdout), lines(&theirs.stdout));
        assert_eq!(mine, other, "{words} {page}\n{}", ours.stdout);
        assert_eq!(ours.stderr, theirs.stderr, "{words} {page}");
        for name in COUNTS {
            if theirs.stdout.contains(&format!("\n{name}:")) {
                assert_eq!(ours.count(name), theirs.count(name), "{words} {page}: {name}");
            }
        }
    }
}

#[test]
fn length_failures_by_the_rule_of_ab_match_the_original() {
    let server = PageServer::start();
    let Some(theirs) = run_original("-k -n 40 -c 1", &server.url("/var")) else {
        return;
    };
    let ours = as_ab("--http1.0 --ab-lengths -k -n 40 -c 1", &PageServer::start().url("/var"));
    assert_eq!(ours.count("Failed by ab's rule"), theirs.count("Failed requests"));
    assert_eq!(ours.count("Failed requests"), 0);
}

#[test]
fn with_http_1_0_the_sent_request_matches_the_original_ab() {
    let folder = tempfile::tempdir().unwrap();
    let form = folder.path().join("form");
    std::fs::write(&form, "a=1\n").unwrap();
    let post = format!("-p {} -T text/x", form.display());
    for words in ["", "-k", "-i", "-m DELETE", "-A u:p -C a=1 -H X-A:b -H Host:other", &post] {
        let server = PageServer::start();
        if run_original(&format!("-n 1 {words}"), &server.url("/ok?a=b")).is_none() {
            return;
        }
        as_ab(&format!("--http1.0 -n 1 {words}"), &server.url("/ok?a=b"));
        let heads = server.heads();
        assert_eq!(heads.len(), 3, "{words}");
        assert_eq!(
            heads[0],
            heads[1].replace("X-A: b", "X-A:b").replace("Host: other", "Host:other")
        );
        assert_eq!(heads[1], heads[2]);
    }
}
