//! `speedwell as ab` against a server, alone and beside ab.

mod beside;
mod server;
mod tls;

use self::server::{PageServer, closed_port};
use std::path::Path;
use std::process::{Command, Output};

pub struct AbCall {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for AbCall {
    fn from(output: Output) -> AbCall {
        AbCall {
            status: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl AbCall {
    /// Returns the value of a name in the report.
    #[track_caller]
    pub fn value(&self, name: &str) -> &str {
        let start = format!("{name}:");
        let line = self.stdout.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("no '{name}' in\n{}{}", self.stdout, self.stderr));
        line[start.len()..].trim()
    }

    #[track_caller]
    pub fn count(&self, name: &str) -> u64 {
        let first = self.value(name).split_whitespace().next();
        first.and_then(|word| word.parse().ok()).unwrap_or_else(|| {
            panic!("'{}' is no count: {}", name, self.value(name));
        })
    }

    /// Returns the failures by kind.
    fn kinds(&self) -> Option<&str> {
        self.stdout.lines().find(|line| line.starts_with("   (Connect:"))
    }
}

/// Calls the drop-in with arguments and an address.
pub fn as_ab(words: &str, url: &str) -> AbCall {
    as_ab_in(Path::new("."), words, url)
}

fn as_ab_in(directory: &Path, words: &str, url: &str) -> AbCall {
    let mut command = Command::new(env!("CARGO_BIN_EXE_speedwell"));
    command.current_dir(directory).args(["as", "ab"]);
    command.args(words.split_whitespace()).arg(url);
    AbCall::from(command.output().unwrap())
}

#[test]
fn a_good_server_is_reported_like_by_ab() {
    let server = PageServer::start();
    let called = as_ab("-k -n 200 -c 10", &server.url("/ok"));
    assert_eq!(called.status, 0, "{}", called.stderr);
    assert_eq!(called.value("Server Software"), "demo/1");
    assert_eq!(called.value("Server Port"), server.address.port().to_string());
    assert_eq!(called.value("Document Length"), "14 bytes");
    assert_eq!(called.count("Complete requests"), 200);
    assert_eq!(called.count("Failed requests"), 0);
    assert_eq!(called.count("Keep-Alive requests"), 200);
    assert_eq!(called.count("HTML transferred"), 200 * 14);
    assert_eq!(called.value("Account"), "200 attempted = 200 ok");
    let told = "Completed 100 requests\nCompleted 200 requests\nFinished 200 requests\n";
    assert_eq!(called.stderr, told);
    // One request precedes the test, for the name of the server.
    assert_eq!(server.requests(), 201);
}

#[test]
fn without_keep_alive_every_request_has_its_connection() {
    let server = PageServer::start();
    let called = as_ab("-n 20 -c 2", &server.url("/ok"));
    assert_eq!(called.count("Complete requests"), 20);
    assert!(!called.stdout.contains("Keep-Alive requests"));
    assert!(server.heads().iter().all(|head| head.contains("\r\nConnection: close")));
    let connect = called.value("Connect").split_whitespace().next().unwrap();
    assert!(connect.parse::<f64>().unwrap() > 0.0, "{connect}");
}

#[test]
fn varying_lengths_do_not_fail_and_the_count_of_ab_is_optional() {
    let server = PageServer::start();
    let called = as_ab("-k -n 40 -c 2 --ab-lengths", &server.url("/var"));
    assert_eq!(called.status, 0);
    assert_eq!(called.count("Failed requests"), 0);
    assert_eq!(called.kinds(), None);
    assert_eq!(called.value("Body lengths"), "1 to 5 bytes, not counted as failures");
    // Of five lengths in turn, four differ from the first.
    assert_eq!(called.value("Failed by ab's rule"), "32 of 40 (length differs from the first)");
    let plain = as_ab("-k -l -n 40 -c 2", &server.url("/var"));
    assert_eq!(plain.value("Document Length"), "Variable");
    assert!(!plain.stdout.contains("Failed by ab's rule"));
}

#[test]
fn a_body_that_is_cut_short_fails_by_its_length() {
    let server = PageServer::start();
    let called = as_ab("-k -n 40 -c 2", &server.url("/cut"));
    assert_eq!(called.status, 0);
    let kinds = "   (Connect: 0, Receive: 0, Length: 20, Exceptions: 0)";
    assert_eq!(called.kinds(), Some(kinds));
    assert_eq!(called.value("Account"), "40 attempted = 20 ok + 20 eof.in-body");
}

#[test]
fn an_answer_without_the_wanted_text_fails() {
    let server = PageServer::start();
    let called = as_ab("-k -n 10 --verify world", &server.url("/ok"));
    assert_eq!((called.status, called.count("Failed requests")), (0, 0));
    let called = as_ab("-k -n 10 --verify World", &server.url("/ok"));
    assert_eq!(called.status, 2);
    assert_eq!(called.value("Account"), "10 attempted = 0 ok + 10 assertion");
    let kinds = "   (Connect: 0, Receive: 0, Length: 0, Exceptions: 10)";
    assert_eq!(called.kinds(), Some(kinds));
}

#[test]
fn non_2xx_statuses_are_responses_but_not_successes() {
    let server = PageServer::start();
    let called = as_ab("-k -n 40 -c 2", &server.url("/missing"));
    assert_eq!(called.status, 2);
    assert_eq!(called.count("Failed requests"), 0);
    assert_eq!(called.count("Non-2xx responses"), 40);
    assert_eq!(called.count("Keep-Alive requests"), 40);
    assert_eq!(called.value("Document Length"), "8 bytes");
    assert_eq!(called.value("Account"), "40 attempted = 0 ok + 40 status");
}

#[test]
fn a_connection_reset_aborts_the_test_unless_r_is_given() {
    let server = PageServer::start();
    let called = as_ab("-k -r -n 40 -c 2", &server.url("/reset"));
    assert_eq!(called.status, 0);
    // Each reset is one failure of one kind; the original counts it twice.
    assert_eq!(called.count("Failed requests"), 20);
    let kinds = "   (Connect: 0, Receive: 20, Length: 0, Exceptions: 0)";
    assert_eq!(called.kinds(), Some(kinds));
    let server = PageServer::start();
    let called = as_ab("-k -n 1000000 -c 2", &server.url("/reset"));
    assert_eq!(called.status, 2);
    let done = called.count("Complete requests");
    assert!(0 < done && done < 1_000_000, "{done}");
    assert!(
        called
            .stdout
            .contains("\nWARNING:                This report covers only part of the test: ")
    );
    assert!(called.stderr.contains("\nab: test aborted: the server reset the connection"));
    assert!(called.stderr.ends_with("\nhint: use '-r' to continue after connection errors\n"));
}

#[test]
fn an_unreachable_server_is_reported() {
    let url = format!("http://{}/", closed_port());
    let called = as_ab("-n 10 -c 2", &url);
    assert_eq!(called.status, 2);
    assert_eq!(called.value("Account"), "1 attempted = 0 ok + 1 connect.refused");
    assert!(called.stderr.starts_with("ab: test aborted: the server refused the connection\n"));
    let called = as_ab("-r -n 10 -c 2", &url);
    assert_eq!(called.status, 2);
    assert_eq!(called.count("Complete requests"), 10);
    assert_eq!(called.value("Account"), "10 attempted = 0 ok + 10 connect.refused");
    let kinds = "   (Connect: 10, Receive: 0, Length: 0, Exceptions: 0)";
    assert_eq!(called.kinds(), Some(kinds));
}

#[test]
fn an_answer_that_never_comes_is_reported_as_a_timeout() {
    let server = PageServer::start();
    let called = as_ab("-r -s 0.3 -n 4 -c 2", &server.url("/never"));
    assert_eq!(called.status, 2);
    assert_eq!(called.value("Account"), "4 attempted = 0 ok + 4 timeout.total");
    let kinds = "   (Connect: 0, Receive: 4, Length: 0, Exceptions: 0)";
    assert_eq!(called.kinds(), Some(kinds));
}

#[test]
fn a_timed_test_ends_on_time_and_accounts_for_open_requests() {
    let server = PageServer::start();
    let called = as_ab("-q -k -t 2 -c 4", &server.url("/slow"));
    assert_eq!(called.status, 0);
    assert_eq!(called.value("Time taken for tests"), "2.000 seconds");
    let done = called.count("Complete requests");
    // Four clients, 20 ms each; on a busy machine fewer.
    assert!((20..=400).contains(&done), "{done}");
    let account = called.value("Account");
    assert!(account.contains(&format!(" = {done} ok")), "{account}");
    assert_eq!(called.stderr, "");
}

#[test]
fn headers_body_and_proxy_options_are_applied_to_the_request() {
    let server = PageServer::start();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("form"), "a=1&b=2").unwrap();
    let words = "-n 1 -p form -T application/x-www-form-urlencoded -C a=1 -A user:pw -H X-A:b";
    let called = as_ab_in(folder.path(), words, &server.url("/upload"));
    assert_eq!(called.status, 0, "{}", called.stderr);
    let head = server.heads().pop().unwrap();
    for line in [
        "POST /upload HTTP/1.1",
        "Content-length: 7",
        "Content-type: application/x-www-form-urlencoded",
        "Cookie: a=1",
        "Authorization: Basic dXNlcjpwdw==",
        "X-A: b",
    ] {
        assert!(head.lines().any(|known| known == line), "{line} is not in\n{head}");
    }
    // The head, the empty line and seven bytes.
    let bytes = head.len() as u64 + 4 + 7;
    assert_eq!(called.count("Total body sent"), bytes);
    assert!(called.stdout.contains(" kb/s sent\n") && called.stdout.contains(" kb/s total\n"));

    let proxied = as_ab(&format!("-n 1 -X {}", server.address), "http://example.test/ok");
    assert_eq!(proxied.status, 0, "{}", proxied.stderr);
    let head = server.heads().pop().unwrap();
    assert!(head.starts_with("GET http://example.test/ok HTTP/1.1\r\n"), "{head}");
    let through = format!("Benchmarking example.test [through {}] (be patient)", server.address);
    assert!(proxied.stdout.contains(&through));
}

#[test]
fn files_are_written_beside_the_report_and_can_be_read_again() {
    let server = PageServer::start();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("r.tsv"), "older\n".repeat(10_000)).unwrap();
    let words = "-q -k -n 60 -c 6 -e p.csv -g r.tsv";
    let called = as_ab_in(folder.path(), words, &server.url("/slow"));
    assert_eq!(called.status, 0, "{}", called.stderr);
    for name in ["p.csv", "r.tsv"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_speedwell"));
        command.arg("report").arg(folder.path().join(name));
        let read = AbCall::from(command.output().unwrap());
        assert_eq!(read.status, 0, "{name}: {}", read.stderr);
    }
    let rows = std::fs::read_to_string(folder.path().join("r.tsv")).unwrap();
    assert_eq!(rows.lines().count(), 61);
    let refused = as_ab("-n 1 -e /nowhere/p.csv", &server.url("/ok"));
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.starts_with("ab: cannot write '/nowhere/p.csv': "));
    assert_eq!(refused.stdout, "");
}

#[test]
fn the_report_can_be_imported_like_a_report_of_ab() {
    let server = PageServer::start();
    let called = as_ab("-q -k -n 60 -c 6", &server.url("/slow"));
    let mut warnings = Vec::new();
    let read = speedwell_formats::read_with_warnings("f", called.stdout.as_bytes(), &mut warnings)
        .unwrap();
    assert_eq!(warnings, [""; 0]);
    let run = &read[0].runs[0];
    let of = |name: &str, at: usize| -> f64 {
        let word = called.value(name).split_whitespace().nth(at).unwrap();
        word.parse().unwrap()
    };
    assert_eq!(run.value_of("throughput"), Some(of("Requests per second", 0)));
    assert_eq!(run.value_of("latency_mean"), Some(of("Total", 1) * 1e6));
    assert_eq!(run.value_of("http_errors"), Some(0.0));
}

#[test]
fn a_command_line_that_makes_no_sense_is_refused_with_status_2() {
    let called = as_ab("-n 2 -c 10", "http://127.0.0.1:1/");
    assert_eq!(called.status, 2);
    let why = "ab: Cannot use concurrency level greater than total number of requests\n";
    assert!(called.stderr.starts_with(why), "{}", called.stderr);
    assert_eq!(as_ab("-h", "").status, 0);
    assert!(as_ab("-V", "").stdout.starts_with("This is ApacheBench, Version 2.3 <Speedwell "));
}
