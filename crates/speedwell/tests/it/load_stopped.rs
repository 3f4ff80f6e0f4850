//! `speedwell load` while its own process is stopped for a while, as by a busy machine or Ctrl-Z.

use crate::busy::{ensure_holds, retry_busy, wait_until};
use crate::project::{CommandResult, TempProject};
use crate::web_server::WebServer;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use std::time::Duration;

/// Loads with a timeout of one second, and stops the generator for two once `begun` requests have
/// arrived.
fn stopped_for_two_seconds(words: &[&str], begun: usize) -> CommandResult {
    let (project, server) = (TempProject::new(), WebServer::start());
    let url = server.url("/later");
    let load = ["load", &url, "--no-save", "--no-verify", "--timeout", "1s"];
    let mut command = project.command(&[&load, words].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    wait_until(|| server.count() >= begun);
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    kill_process(pid, Signal::CONT).unwrap();
    CommandResult::from(child.wait_with_output().unwrap())
}

/// Other load on the machine would change the results.
mod measures {
    use super::*;

    /// The server responds to each request after a tenth of a second, so all responses arrive long
    /// before the timeout: they wait in the sockets of the stopped process.
    #[test]
    fn responses_that_arrive_while_the_generator_is_stopped_are_not_late() {
        for words in [&["-n", "200", "-c", "20"][..], &["-n", "200", "--rate", "100", "-c", "100"]]
        {
            retry_busy(1, || {
                let answer = stopped_for_two_seconds(words, 50);
                let told: Vec<&str> = answer.stdout.split_whitespace().collect();
                let is_good = told.join(" ").contains(" 0 failed");
                ensure_holds(is_good, || format!("{words:?}: {answer:#?}"))
            });
        }
    }
}
