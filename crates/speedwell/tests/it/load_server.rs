//! `speedwell load --serve`: the server is started, identified as the one that responds, and
//! stopped.

use crate::project::{CommandResult, TempProject, node};
use crate::web_server::free_port;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A Node.js server that exits at the hundredth request for `/end`, which comes during the load.
const SERVER: &str = "let asked = 0;
const server = require('http').createServer((request, response) => {
  if (request.url === '/end' && ++asked === 100) { console.error('bye'); process.exit(3); }
  response.end('hello');
});
server.listen(Number(process.argv[2]), '127.0.0.1');
";

fn load(project: &TempProject, port: u16, path: &str, words: &[&str]) -> CommandResult {
    let url = format!("http://127.0.0.1:{port}{path}");
    project.run(&[&["load", &url, "--no-save"], words].concat())
}

fn is_served(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

#[test]
fn a_server_is_started_for_the_load_and_ended_after_it() {
    if node().is_none() {
        return;
    }
    let project = TempProject::new().with("server.js", SERVER);
    let port = free_port();
    let serve = format!("node server.js {port}");
    load(&project, port, "/", &["-n", "200", "--serve", &serve])
        .expect_status(0)
        .expect_stderr(&["answers 200 with 5 bytes of body"])
        .expect_stdout(&["200 ok, 0 failed"]);
    assert!(!is_served(port));
}

#[test]
fn a_server_behind_a_shell_is_ended_with_all_it_started() {
    if node().is_none() {
        return;
    }
    let project = TempProject::new().with("server.js", SERVER);
    let port = free_port();
    let serve = format!("true && node server.js {port} & wait");
    load(&project, port, "/", &["-n", "50", "--serve", &serve]).expect_status(0);
    assert!(!is_served(port));
}

#[test]
fn a_server_that_exits_ends_the_load_and_is_reported() {
    if node().is_none() {
        return;
    }
    let project = TempProject::new().with("server.js", SERVER);
    let port = free_port();
    let serve = format!("node server.js {port}");
    let begin = Instant::now();
    load(&project, port, "/end", &["-t", "60s", "--serve", &serve])
        .expect_status(2)
        .expect_stdout(&["The server exited with status 3 during the load"])
        .expect_stderr(&["wrote:", "bye"]);
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_server_that_never_listens_is_reported_with_its_last_output() {
    let project = TempProject::new();
    let port = free_port();
    load(&project, port, "/", &["--serve", "echo oops >&2; exit 4"])
        .expect_status(2)
        .expect_stderr(&["exited with status 4 before it accepted connections", "oops"]);
    load(&project, port, "/", &["--serve", "true"])
        .expect_status(2)
        .expect_stderr(&["must stay in the foreground"]);
    let words = ["--serve", "sleep 60", "--serve-timeout", "200ms"];
    load(&project, port, "/", &words)
        .expect_status(2)
        .expect_stderr(&["did not accept connections at 127.0.0.1", "within 0.2 s"]);
}

#[test]
fn a_port_that_is_in_use_is_refused_before_anything_is_started() {
    let project = TempProject::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    load(&project, port, "/", &["--serve", "touch started; sleep 60"])
        .expect_status(2)
        .expect_stderr(&["is already in use by '", "hint: stop that process"]);
    assert!(!project.path("started").exists());
}

#[test]
fn another_process_that_answers_is_not_taken_for_the_server() {
    let project = TempProject::new();
    let port = free_port();
    let started = project.path("started");
    let other = std::thread::spawn(move || {
        while !started.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        TcpListener::bind(("127.0.0.1", port)).unwrap()
    });
    load(&project, port, "/", &["--serve", "touch started; sleep 60"])
        .expect_status(2)
        .expect_stderr(&[", which 'touch started; sleep 60' did not start"]);
    other.join().unwrap();
}
