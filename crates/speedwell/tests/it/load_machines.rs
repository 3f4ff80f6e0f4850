//! `speedwell load --generators`: one load from several machines, which are this one under several names,
//! reached by ssh or Slurm, or in separate networks.

use super::busy::wait_until;
use super::harness_driver::is_missing;
use super::project::{CommandResult, TempProject};
use super::web_server::WebServer;
use serde_json::Value as Json;
use speedwell_fixtures::clusters::{HOST_NAMES, NODE_NAMES, SlurmCluster, SshdServer};
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_speedwell");

/// Machines that are this one, with the programs that they use.
fn fleet(machines: &[(&str, &Path)]) -> String {
    let machine = |(name, program): &(&str, &Path)| {
        let program = program.display();
        format!("[[machine]]\nname = \"{name}\"\nlabels = [\"load\"]\nbinary = \"{program}\"\n")
    };
    let machines: String = machines.iter().map(machine).collect();
    format!("engine = \"local\"\n{machines}")
}

fn three() -> TempProject {
    of_these(&["lab-1", "lab-2", "lab-3"])
}

/// A project with load machines of these names.
fn of_these(names: &[&str]) -> TempProject {
    let machines: Vec<(&str, &Path)> =
        names.iter().map(|&name| (name, Path::new(PROGRAM))).collect();
    TempProject::new().with("fleet.toml", &fleet(&machines))
}

/// The command for a load from other machines that is not stored.
fn words<'a>(url: &'a str, more: &'a str) -> Vec<&'a str> {
    let usual = ["load", url, "--no-save", "--format", "json"];
    usual.into_iter().chain(more.split_whitespace()).collect()
}

fn load(answer: &CommandResult) -> Json {
    answer.json()["loads"][0].clone()
}

/// A figure of every part.
fn of_parts(load: &Json, key: &str) -> Vec<i64> {
    let parts = load["parts"].as_array().unwrap();
    parts
        .iter()
        .map(|part| part[key].as_i64().unwrap_or_else(|| panic!("{key} of {part}")))
        .collect()
}

/// Asserts a load of 301 requests by 13 clients, each sent and counted once.
fn expect_exact(load: &Json, server: &WebServer, names: &[&str]) {
    let counts = &load["measured"]["totals"]["outcomes"];
    assert_eq!((&counts["attempted"], &counts["ok"]), (&301.into(), &301.into()), "{load}");
    // One probe precedes the load, from here and from every machine.
    assert_eq!(server.count(), 301 + 1 + names.len());
    assert_eq!(of_parts(load, "attempted").iter().sum::<i64>(), 301);
    assert_eq!(of_parts(load, "errors").iter().sum::<i64>(), 0);
    assert_eq!(load["measured"]["max_connections"], 13);
    let parts = load["parts"].as_array().unwrap();
    let found: Vec<&str> = parts.iter().map(|part| part["machine"].as_str().unwrap()).collect();
    assert_eq!(found, names);
    assert!(of_parts(load, "connect_ns").iter().all(|ns| *ns > 0));
    assert!(of_parts(load, "began_ns").contains(&0), "{load}");
    assert_eq!(load["is_partial"], false);
    assert_eq!(load["warnings"], Json::Array(Vec::new()));
}

#[test]
fn three_machines_send_exactly_what_one_would() {
    let (project, server) = (three(), WebServer::start());
    let url = server.url("/");
    let answer = project.run(&words(&url, "--generators load -n 301 -c 13 --clients 2"));
    let own = load(&answer.expect_status(0));
    expect_exact(&own, &server, &["lab-1", "lab-2", "lab-3"]);
    // Request i is sent by generator i mod 6, and each machine has two of them.
    assert_eq!(of_parts(&own, "attempted"), [101, 100, 100]);
    assert_eq!(of_parts(&own, "first"), [0, 2, 4]);
    assert_eq!(own["requested"]["processes"], 6);
    assert_eq!(own["measured"]["threads"].as_array().unwrap().len(), 6);
}

const EIGHT: [&str; 8] = ["lab-1", "lab-2", "lab-3", "lab-4", "lab-5", "lab-6", "lab-7", "lab-8"];

#[test]
fn eight_machines_send_exactly_what_one_would() {
    let (project, server) = (of_these(&EIGHT), WebServer::start());
    let url = server.url("/");
    let answer = project.run(&words(&url, "--generators load -n 301 -c 13"));
    let own = load(&answer.expect_status(0));
    expect_exact(&own, &server, &EIGHT);
    // Request i is sent by machine i mod 8.
    assert_eq!(of_parts(&own, "attempted"), [38, 38, 38, 38, 38, 37, 37, 37]);
}

/// On an idle machine:
/// `cargo test -p speedwell --test it --features http3,postgres -- eight_machines_begin --ignored --nocapture`
#[test]
#[ignore = "needs an idle machine"]
fn eight_machines_begin_within_a_millisecond() {
    let (project, server) = (of_these(&EIGHT), WebServer::start());
    let url = server.url("/");
    let apart = |_| {
        let answer = project.run(&words(&url, "--generators load -n 301 -c 13"));
        let own = load(&answer.expect_status(0));
        of_parts(&own, "began_ns").into_iter().max().unwrap()
    };
    let mut apart: Vec<i64> = (0..21).map(apart).collect();
    apart.sort_unstable();
    let [least, median, most] = [0, 10, 20].map(|at| apart[at] as f64 / 1e6);
    println!("8 machines began {median:.3} ms apart (median of 21 loads; {least:.3} to {most:.3})");
    assert!(median < 1.0, "{apart:?} ns");
}

#[test]
fn a_rate_is_divided_among_machines_and_the_report_names_them() {
    let (project, server) = (three(), WebServer::start());
    let url = server.url("/");
    let more = "--generators load --generator-count 2 --rate 100 -n 41";
    let own = load(&project.run(&words(&url, more)).expect_status(0));
    assert_eq!(of_parts(&own, "attempted"), [21, 20]);
    let listed = ["load", &url, "--no-save", "--generators", "lab-3", "-n", "20"];
    let answer = project.run(&listed).expect_status(0);
    answer.expect_stdout(&["machines", "lab-3 20 requests, connects in"]);
}

#[test]
fn machines_behind_ssh_and_slurm_send_exactly_the_requested_load() {
    let more = "--generators lab -n 301 -c 13";
    match SshdServer::start() {
        Err(reason) => eprintln!("skipped: {reason}"),
        Ok(sshd) => {
            let machine = |name: &str| {
                format!(
                    "[[machine]]\nname = \"{name}\"\nlabels = [\"lab\"]\nbinary = \"{PROGRAM}\"\n"
                )
            };
            let machines: String = HOST_NAMES.iter().copied().map(machine).collect();
            let config = sshd.ssh_config();
            let head = format!("engine = \"ssh\"\nssh_config = \"{}\"\n", config.display());
            let project = TempProject::new().with("fleet.toml", &format!("{head}{machines}"));
            let server = WebServer::start();
            let answer = project.run(&words(&server.url("/"), more));
            expect_exact(&load(&answer.expect_status(0)), &server, &HOST_NAMES);
        }
    }
    match SlurmCluster::start() {
        Err(reason) => eprintln!("skipped: {reason}"),
        Ok(slurm) => {
            let folder = slurm.folder();
            let text = format!("engine = \"slurm\"\nfolder = \"{}\"\n", folder.display());
            let project = TempProject::new().with("fleet.toml", &text);
            let server = WebServer::start();
            let mut command = project.command(&words(&server.url("/"), more));
            command.env("SLURM_CONF", slurm.config_path());
            let answer = CommandResult::from(command.output().unwrap()).expect_status(0);
            expect_exact(&load(&answer), &server, &NODE_NAMES);
        }
    }
}

#[test]
fn a_machine_that_dies_in_mid_load_stops_the_others_and_is_named_first() {
    let (project, server) = (three(), WebServer::start());
    let url = server.url("/");
    let words = [
        &["load", &url, "--no-save", "--generators", "lab-1 | lab-2"][..],
        &["-t", "600s", "-c", "4", "--fail-on", "errors>50%"],
    ];
    let mut command = project.command(&words.concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| server.count() >= 2000);
    let workers = children(child.id(), "worker load");
    assert_eq!(workers.len(), 2);
    kill(workers[1]);
    let answer = CommandResult::from(child.wait_with_output().unwrap()).expect_status(2);
    let first = answer.stdout.lines().next().unwrap();
    assert!(first.starts_with("gate cannot judge: errors"), "{answer:?}");
    answer.expect_stdout(&["lab-2 was lost", "it had attempted ", "lab-1 "]);
}

/// The children of a process whose command line contains these words.
pub(super) fn children(parent: u32, words: &str) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten();
    let of_task = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let numbers = text.split_whitespace().map(|pid| pid.parse::<u32>().unwrap());
        numbers.collect::<Vec<u32>>()
    };
    let is_meant = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(words)
    };
    let mut found: Vec<u32> = tasks.flatten().flat_map(of_task).filter(is_meant).collect();
    found.sort_unstable();
    found
}

fn kill(pid: u32) {
    let status = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

#[test]
fn a_machine_that_cannot_send_is_named_before_anything_is_sent() {
    let project =
        TempProject::new().with_program("broken", "#!/bin/sh\necho 'no libc' >&2\nexit 1\n");
    let broken = project.path("broken");
    let machines = [("lab-1", Path::new(PROGRAM)), ("lab-2", &broken)];
    let project = project.with("fleet.toml", &fleet(&machines));
    let server = WebServer::start();
    let url = server.url("/");
    let answer = project.run(&words(&url, "--generators load -n 20")).expect_status(2);
    answer.expect_stderr(&["'lab-2' cannot send the load: no libc"]);
    assert!(server.count() <= 2, "{}", server.count());
    let answer = project.run(&words(&url, "--generators laod -n 20")).expect_status(2);
    answer.expect_stderr(&["did you mean 'load'?"]);
    let answer = project.run(&words(&url, "--generators load -d @body")).expect_status(2);
    answer.expect_stderr(&["--data @FILE refers to this machine"]);
}

/// A proxy between both ends of a connection: the clock at the other end is five seconds fast.
const AHEAD: &str = r#"#!/usr/bin/env python3
import json, subprocess, sys, threading
AHEAD = 5_000_000_000
there = subprocess.Popen([PROGRAM] + sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def back():
    for line in there.stdout:
        if line.strip().isdigit():
            line = b"%d\n" % (int(line) + AHEAD)
        if line.startswith(b'{"Measured":'):
            said = json.loads(line)
            report = said["Measured"]
            report["began_ns"] = [ns + AHEAD for ns in report["began_ns"]]
            line = json.dumps(said).encode() + b"\n"
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
answers = threading.Thread(target=back)
answers.start()
for line in sys.stdin.buffer:
    if line.startswith(b'{"At":'):
        line = json.dumps({"At": json.loads(line)["At"] - AHEAD}).encode() + b"\n"
    there.stdin.write(line)
    there.stdin.flush()
there.stdin.close()
answers.join()
sys.exit(there.wait())
"#;

#[test]
fn a_clock_that_is_ahead_begins_with_the_others() {
    if is_missing("python3") {
        return;
    }
    let text = AHEAD.replace("PROGRAM", &format!("'{PROGRAM}'"));
    let project = TempProject::new().with_program("ahead", &text);
    let ahead = project.path("ahead");
    let machines = [("lab-1", Path::new(PROGRAM)), ("lab-2", &ahead)];
    let project = project.with("fleet.toml", &fleet(&machines));
    let server = WebServer::start();
    let url = server.url("/");
    let own = load(&project.run(&words(&url, "--generators load -n 301 -c 13")).expect_status(0));
    expect_exact(&own, &server, &["lab-1", "lab-2"]);
    let offset = of_parts(&own, "offset_ns")[1];
    let known = of_parts(&own, "uncertainty_ns")[1];
    assert!((offset + 5_000_000_000).abs() <= known, "{own}");
    // Both started at the agreed time: without the offset one of them would have waited five
    // seconds longer, or not at all.
    let apart = of_parts(&own, "began_ns").into_iter().max().unwrap();
    assert!(apart < 4_000_000_000, "{own}");
}

/// Two network namespaces and a bridge, with their own addresses; dropping this removes them.
struct TestNetworks {
    names: [String; 2],
    bridge: String,
    net: String,
}

impl TestNetworks {
    /// `Err` if they cannot be created.
    fn make() -> Result<TestNetworks, String> {
        let own = std::process::id() % 10_000;
        let networks = TestNetworks {
            names: [format!("sw{own}a"), format!("sw{own}b")],
            bridge: format!("swbr{own}"),
            // Addresses for tests of network devices (RFC 2544).
            net: format!("198.18.{}", own % 250),
        };
        let TestNetworks { names, bridge, net } = &networks;
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("addr add {net}.1/24 dev {bridge}"))?;
        ip(&format!("link set {bridge} up"))?;
        for (at, name) in names.iter().enumerate() {
            ip(&format!("netns add {name}"))?;
            ip(&format!("link add v{name} type veth peer name e0 netns {name}"))?;
            ip(&format!("link set v{name} master {bridge}"))?;
            ip(&format!("link set v{name} up"))?;
            ip(&format!("-n {name} addr add {net}.{}/24 dev e0", at + 2))?;
            ip(&format!("-n {name} link set e0 up"))?;
        }
        Ok(networks)
    }
}

impl Drop for TestNetworks {
    fn drop(&mut self) {
        let _ = self.names.iter().map(|name| ip(&format!("netns del {name}"))).count();
        let _ = ip(&format!("link del {}", self.bridge));
    }
}

fn ip(words: &str) -> Result<(), String> {
    run_program("ip", words)
}

fn run_program(program: &str, words: &str) -> Result<(), String> {
    let output = Command::new(program).args(words.split(' ')).output();
    let output = output.map_err(|error| format!("{program} cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {words}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

#[test]
fn connect_times_show_the_network_delay_of_each_machine() {
    let networks = match TestNetworks::make() {
        Ok(networks) => networks,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let [near, far] = &networks.names;
    let delays = run_program("tc", &format!("-n {far} qdisc add dev e0 root netem delay 20ms"));
    let mut project = TempProject::new();
    for name in [near, far] {
        let script = format!("#!/bin/sh\nexec ip netns exec {name} '{PROGRAM}' \"$@\"\n");
        project = project.with_program(name, &script);
    }
    let (one, other) = (project.path(near), project.path(far));
    let project = project.with("fleet.toml", &fleet(&[("near", &one), ("off", &other)]));
    let server = WebServer::at(format!("{}.1", networks.net).parse().unwrap());
    let url = server.url("/");
    let own = load(&project.run(&words(&url, "--generators load -n 301 -c 13")).expect_status(0));
    expect_exact(&own, &server, &["near", "off"]);
    let connect = of_parts(&own, "connect_ns");
    if let Err(reason) = delays {
        return eprintln!("skipped: {reason}");
    }
    assert!(connect[1] >= 20_000_000 && connect[0] < connect[1], "{connect:?}");
}
