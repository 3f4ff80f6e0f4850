//! `speedwell eval erlang --node`: code on an existing node.

use super::busy::wait_until;
use super::erlang_harness;
use super::project::TempProject;
use super::web_server::free_port;
use serde_json::Value;
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};

const COOKIE: &str = "of_this_test";

/// A node that needs no daemon, because its name ends in its port. Dropping it stops it.
struct ErlangNode {
    child: Child,
    name: String,
}

impl ErlangNode {
    /// `None` without Erlang.
    fn start() -> Option<ErlangNode> {
        let words = erlang_harness::words("erlang")?;
        let modules = words.iter().skip_while(|word| *word != "-pa").nth(1)?;
        let port = free_port();
        let name = format!("speedwell_{port}@127.0.0.1");
        let own = ["-noshell", "-noinput", "-boot", "no_dot_erlang"];
        let quiet = ["-start_epmd", "false", "-epmd_module", "speedwell_epmd"];
        let near = ["-kernel", "inet_dist_use_interface", "{127,0,0,1}"];
        let mut command = Command::new("erl");
        command.args(own).args(quiet).args(near);
        command.args(["-pa", modules, "-name", &name, "-setcookie", COOKIE]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let node = ErlangNode { child: child.ok()?, name };
        wait_until(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        Some(node)
    }
}

impl Drop for ErlangNode {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn watching_reports_figures_of_the_measured_node() {
    let Some(node) = ErlangNode::start() else {
        return;
    };
    let project = TempProject::new();
    // More processes and more memory than our harness has.
    let init = "[spawn_link(fun() -> timer:sleep(infinity) end) || _ <- lists:seq(1, 500)], \
                persistent_term:put(large, binary:copy(<<1>>, 300 bsl 20)).";
    let eval = |words: &[&str]| {
        let own = ["eval", "erlang", "timer:sleep(1).", "--node", &node.name];
        project.run(&[&own, words].concat())
    };
    let words = ["--node-cookie", COOKIE, "--init", init, "--watch"];
    let lengths = ["-n", "2", "-t", "100ms", "--format", "json"];
    let answer = eval(&[&words[..], &lengths].concat()).expect_status(0);
    assert_eq!(answer.stdout.lines().count(), 2, "{answer:#?}");
    for line in answer.stdout.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["processes"].as_f64().unwrap() > 500.0, "{line}");
        assert!(line["rss_bytes"].as_f64().unwrap() > 3e8, "{line}");
    }
    eval(&["--node-cookie", "another", "--watch"])
        .expect_status(2)
        .expect_stderr(&["refuses the connection", "hint: is '--node-cookie'"]);
}
