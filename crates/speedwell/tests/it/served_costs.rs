//! The server costs nothing unless used: a command that measures opens no socket and waits for
//! none.

use super::project::TempProject;
use std::fs;
use std::process::Command;

#[test]
fn a_command_that_measures_opens_no_socket() {
    let project = TempProject::new().with("g/one.fake", "case n=1\n* 1\n");
    let traced = project.path("trace");
    let own = project.command(&["run", "g", "-r", "2", "-q"]);
    let mut strace = Command::new("strace");
    // The harness is part of the command, so its threads and children count as well.
    strace
        .args(["-f", "-e", "trace=socket,connect,bind,listen,epoll_create,epoll_create1,execve"])
        .arg("-o")
        .arg(&traced)
        .arg(own.get_program())
        .args(own.get_args())
        .current_dir(own.get_current_dir().unwrap());
    let Ok(done) = strace.output() else {
        eprintln!("skipped: there is no strace");
        return;
    };
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let Some(trace) = fs::read_to_string(&traced).ok().filter(|text| !text.is_empty()) else {
        eprintln!("skipped: strace may not trace: {said}");
        return;
    };
    assert!(done.status.success(), "{said}");
    let opened: Vec<&str> = trace
        .lines()
        .filter(|line| {
            ["AF_INET", "epoll_create", "listen("].iter().any(|call| line.contains(call))
        })
        .collect();
    assert!(trace.contains("execve"), "the trace shows nothing: {trace}");
    assert!(opened.is_empty(), "{opened:#?}");
}
