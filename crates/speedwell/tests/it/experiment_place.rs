//! `[place]`: target, service and load generator on separate machines, which are this one under
//! several names, or reached by ssh.

use super::busy::wait_within;
use super::fleet_failures::kill;
use super::harness_driver::is_missing;
use super::project::{CommandResult, TempProject};
use serde_json::Value as Json;
use speedwell_fixtures::clusters::{HOST_NAMES, SshdServer};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

/// Only a real failure takes this long, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// python3 part.py KIND HOST PORT PIDS [ASK] [turns=N] [dies=N] [deaf]: answers 'stored', or what
/// ASK answers. python3 part.py ask HOST PORT: succeeds if it gets an answer. Python starts in a
/// third of the time without its packages (`-S`) and its HTTP server.
const PART: &str = r#"
import os, signal, socket, sys, threading
def ask(place):
    try:
        with socket.create_connection(place) as line:
            line.sendall(b'GET / HTTP/1.0\r\n\r\n')
            answer = b''.join(iter(lambda: line.recv(4096), b''))
    except OSError:
        return b''
    head, _, body = answer.partition(b'\r\n\r\n')
    return body if b' 200 ' in head else b''
if sys.argv[1] == 'ask':
    sys.exit(not ask(sys.argv[2:4]))
kind, host, port, pids = sys.argv[1:5]
wishes = dict((word + '=').split('=')[:2] for word in sys.argv[5:])
places = [word.rsplit(':', 1) for word in sys.argv[5:] if ':' in word]
answers = 0
counting = threading.Lock()
with open(os.path.join(pids, kind), 'a') as file:
    file.write('%d\n' % os.getpid())
if 'deaf' in wishes:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
def serve(line):
    global answers
    with line, line.makefile('rb') as lines:
        for first in lines:
            head = [first]
            while head[-1].strip():
                head.append(lines.readline())
            with counting:
                answers += 1
                turn = answers
            if turn == int(wishes.get('dies', -1)):
                os._exit(3)
            body = ask(places[0]) if places else b'stored'
            good = body and turn <= int(wishes.get('turns', 10**9))
            status = '200 OK' if good else '500 Internal Server Error'
            answer = 'HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n' % (status, len(body))
            line.sendall(answer.encode() + body)
            if b'HTTP/1.0' in first or b'Connection: close\r\n' in head:
                return
server = socket.create_server((host, int(port)), backlog=100)
while True:
    threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()
"#;

/// A file whose roles are on separate machines; `PIDS` is a folder for process ids.
const PLACED: &str = r#"
schema = 2
name = "placed"
[place]
target = "server"
load = { on = "load", machines = 2 }
[[service]]
name = "db"
on = "store"
command = ["python3", "-S", "{root}/part.py", "db", "{host}", "{port}", "PIDS"]
ready = { command = ["python3", "-S", "{root}/part.py", "ask", "{host}", "{port}"], within = "60s" }
[[group]]
name = "web"
kind = "server"
metrics = ["throughput", "cpu_per_request", "max_rss"]
target = { command = ["python3", "-S", "part.py", "web", "{host}", "{port}", "PIDS", "{db.host}:{db.port}"], ready = { http = "/", within = "60s" } }
load = { requests = 40, concurrency = 4, warmup = { requests = 10 } }
verify = { body = "stored" }
"#;

/// A change after which the service never becomes ready.
pub const NEVER_READY: (&str, &str) =
    ("ready = { command = [\"python3\"", "ready = { command = [\"false\"");

/// Changes that put all roles on one machine.
pub const ON_ONE_MACHINE: [(&str, &str); 2] = [
    ("[place]\ntarget = \"server\"\nload = { on = \"load\", machines = 2 }\n", ""),
    ("on = \"store\"\n", ""),
];

/// A project with four names of this machine, and [`PLACED`] with these changes.
pub fn placed_project(changes: &[(&str, &str)]) -> TempProject {
    let project = TempProject::new().with("pids/of", "").with("web/part.py", PART);
    let mut file = PLACED.to_owned();
    for (from, to) in changes {
        assert!(file.contains(from), "{from}");
        file = file.replace(from, to);
    }
    let file = file.replace("PIDS", &project.path("pids").to_string_lossy());
    let machine = |(name, label): (&str, &str)| {
        format!("[[machine]]\nname = \"{name}\"\nlabels = [\"{label}\"]\n")
    };
    let names = [("lab-1", "server"), ("lab-2", "store"), ("lab-3", "load"), ("lab-4", "load")];
    let machines: String = names.into_iter().map(machine).collect();
    let folder = project.path("fleet");
    let fleet = format!("engine = \"local\"\nfolder = \"{}\"\n{machines}", folder.display());
    project.with("web/placed.toml", &file).with("fleet.toml", &fleet)
}

pub fn measured(project: &TempProject, more: &[&str]) -> CommandResult {
    let usual: &[&str] = if more.is_empty() { &["--runs=1"] } else { more };
    project.run(&[&["run", "web/placed.toml"], usual].concat())
}

/// Process ids of a role.
pub fn pids(project: &TempProject, kind: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(project.path("pids").join(kind)).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// The session as lines: its header, and its runs.
fn export_session(project: &TempProject) -> (Json, Vec<Json>) {
    let answer = project.run(&["report", "--export", "jsonl"]).expect_status(0);
    let lines = answer.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Json> = lines.collect();
    let header = lines.iter().find_map(|line| line.get("session"));
    let runs = lines.iter().filter_map(|line| line.get("run")).cloned().collect();
    (header.unwrap_or(&lines[0]).clone(), runs)
}

pub fn expect_parts(project: &TempProject, names: &[&str], loads: &[&str]) {
    let (header, runs) = export_session(project);
    let machines = header["machines"].as_array().unwrap();
    let found: Vec<&str> = (machines.iter()).map(|own| own["name"].as_str().unwrap()).collect();
    assert_eq!(found, names, "{header}");
    assert!(machines.iter().all(|own| own["id"].as_str().unwrap().len() == 16));
    assert!(!runs.is_empty());
    for run in runs {
        // Its figures come from the target's machine.
        assert_eq!(run["machine"], 0, "{run}");
        let text = run["load"].to_string();
        assert!(loads.iter().all(|name| text.contains(name)), "{text}");
        let figure = |name: &str| {
            let samples = run["samples"].as_array().unwrap();
            let own = samples.iter().find(|sample| sample["metric"] == name);
            own.unwrap_or_else(|| panic!("{name} of {run}"))["value"].as_f64().unwrap()
        };
        assert!(figure("cpu_per_request") > 0.0 && figure("max_rss") > 1e6);
    }
}

/// A [`placed_project`] with three hosts reached by ssh, one of which sends the load.
pub fn by_ssh(sshd: &SshdServer, changes: &[(&str, &str)]) -> TempProject {
    let one = ("on = \"load\", machines = 2", "on = \"load\"");
    let project = placed_project(&[&[one], changes].concat());
    let machine = |(name, label): (&str, &str)| {
        let folder = project.path("fleet").join(name);
        let folder = folder.display();
        format!("[[machine]]\nname = \"{name}\"\nlabels = [\"{label}\"]\nfolder = \"{folder}\"\n")
    };
    let parts = HOST_NAMES.into_iter().zip(["server", "store", "load"]);
    let machines: String = parts.map(machine).collect();
    let config = sshd.ssh_config();
    let head = format!("engine = \"ssh\"\nssh_config = \"{}\"\n", config.display());
    project.with("fleet.toml", &format!("{head}{machines}"))
}

/// Asserts that a run with these changes fails with these messages.
#[track_caller]
pub fn expect_failure(changes: &[(&str, &str)], said: &[&str]) {
    let project = placed_project(changes);
    let answer = measured(&project, &[]);
    let all = [answer.stdout.as_str(), answer.stderr.as_str()].concat();
    for text in said {
        assert!(all.contains(text), "'{text}' is missing in:\n{all}");
    }
    let own = [pids(&project, "db"), pids(&project, "web")].concat();
    expect_end_of(&own);
}

/// Starts a session, and returns its coordinator once it has progressed this far.
pub fn start_coordinator(project: &TempProject, runs: &str, has_come: impl Fn() -> bool) -> Child {
    let mut command = project.command(&["run", "web/placed.toml", runs]);
    let said = project.path("said.txt");
    let mut child = command
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&said).unwrap())
        .spawn()
        .unwrap();
    wait_within(PATIENCE, || {
        let ended = child.try_wait().unwrap();
        let output = || std::fs::read_to_string(&said).unwrap_or_default();
        assert!(ended.is_none(), "{ended:?}: {}", output());
        has_come()
    });
    child
}

/// Kills the coordinator between two blocks, resumes the session, and checks that the plan is
/// complete and nothing is left.
pub fn expect_the_rest_after_a_kill(project: &TempProject) {
    // A block of one variant has two runs.
    let mut child = start_coordinator(project, "--runs=4", || project.stored_runs() > 1);
    kill(child.id());
    child.wait().unwrap();
    let kept = project.stored_runs();
    assert!((2..4).contains(&kept), "{kept}");
    project.run(&["run", "--resume", "@latest"]).expect_status(0);
    let (header, measured) = export_session(project);
    assert_eq!(header["state"], "complete");
    let slots: Vec<u64> = (measured.iter()).map(|run| run["slot"].as_u64().unwrap()).collect();
    assert_eq!(slots, (0..4).collect::<Vec<u64>>());
    let machines: Vec<&Json> = measured.iter().map(|run| &run["machine"]).collect();
    assert!(machines.windows(2).all(|two| two[0] == two[1]), "{machines:?}");
    expect_end_of(&[pids(project, "db"), pids(project, "web")].concat());
}

/// Kills the coordinator during a load that would take minutes.
pub fn expect_an_end_with_the_coordinator(project: &TempProject) {
    let mut child = start_coordinator(project, "--runs=1", || !pids(project, "web").is_empty());
    let own = [pids(project, "db"), pids(project, "web")].concat();
    assert!(own.len() == 2 && own.iter().all(|pid| is_alive(*pid)));
    kill(child.id());
    child.wait().unwrap();
    expect_end_of(&own);
}

/// Asserts that remote processes exit shortly after the connection is closed.
#[track_caller]
pub fn expect_end_of(own: &[u32]) {
    wait_within(PATIENCE, || !own.iter().any(|pid| is_alive(*pid)));
}

/// Experiments share the lock of this machine; exclusive users, such as a fleet, may wait for it for
/// minutes.
mod mostly_waits {
    use super::*;

    #[test]
    fn target_service_and_load_have_machines_of_their_own() {
        if is_missing("python3") {
            return;
        }
        let project = placed_project(&[]).sending_itself();
        let answer = measured(&project, &["--runs=2"]).expect_status(0);
        answer.expect_stdout(&[
            "The target ran on lab-1, db on lab-2, and the load came from lab-3, lab-4.",
        ]);
        expect_parts(&project, &["lab-1", "lab-2", "lab-3", "lab-4"], &["lab-3", "lab-4"]);
        // Each run has a separate service, and none is left.
        let own = [pids(&project, "db"), pids(&project, "web")];
        assert_eq!(own.each_ref().map(Vec::len), [2, 2]);
        expect_end_of(&own.concat());
        measured(&project, &["--test"]).expect_status(0);
    }

    #[test]
    fn without_a_place_the_same_parts_are_on_one_machine() {
        if is_missing("python3") {
            return;
        }
        let project = placed_project(&ON_ONE_MACHINE);
        measured(&project, &[]).expect_status(0);
        let own = [pids(&project, "db"), pids(&project, "web")];
        assert_eq!(own.each_ref().map(Vec::len), [1, 1]);
        expect_end_of(&own.concat());
        assert!(!project.path("fleet").exists(), "no machine was needed");
    }

    #[test]
    fn the_parts_of_an_experiment_can_run_on_machines_by_ssh() {
        if is_missing("python3") {
            return;
        }
        let sshd = match SshdServer::start() {
            Ok(sshd) => sshd,
            Err(reason) => return eprintln!("skipped: {reason}"),
        };
        let project = by_ssh(&sshd, &[]).sending_itself();
        measured(&project, &[]).expect_status(0);
        expect_parts(&project, &HOST_NAMES, &["m3"]);
        let own = [pids(&project, "db"), pids(&project, "web")].concat();
        assert_eq!(own.len(), 2);
        expect_end_of(&own);
    }

    #[test]
    fn a_service_that_fails_is_named_with_its_machine() {
        if is_missing("python3") {
            return;
        }
        let db = "service 'db' on 'lab-2': ";
        let words = "\"python3\", \"-S\", \"{root}/part.py\", \"db\"";
        expect_failure(
            &[(words, "\"nothing-of-that-name\"")],
            &["start", db, "nothing-of-that-name"],
        );
        expect_failure(
            &[NEVER_READY, ("within = \"60s\"", "within = \"1s\"")],
            &["ready", db, "not ready within 1 s"],
        );
        let dies = ("\"PIDS\"]\nready", "\"PIDS\", \"dies=9\"]\nready");
        expect_failure(&[dies], &["alive", db, "it ended by itself"]);
    }

    #[test]
    fn a_target_that_fails_is_named_with_its_machine() {
        if is_missing("python3") {
            return;
        }
        let target = "target on 'lab-1': ";
        let words = "\"python3\", \"-S\", \"part.py\"";
        expect_failure(
            &[(words, "\"nothing-of-that-name\"")],
            &["start", target, "nothing-of-that-name"],
        );
        let never =
            [("http = \"/\", within = \"60s\"", "http = \"/\", status = 299, within = \"1s\"")];
        expect_failure(&never, &["ready", target, "not ready within 1 s"]);
        expect_failure(
            &[("body = \"stored\"", "body = \"lost\"")],
            &["verify", target, "does not contain 'lost'"],
        );
        let dies = ("{db.port}\"]", "{db.port}\", \"dies=25\"]");
        expect_failure(&[dies], &["load", target, "the server ended during the load"]);
        let deaf = ("{db.port}\"]", "{db.port}\", \"deaf\"], stop = { grace = \"200ms\" }");
        expect_failure(&[deaf], &["stop", target, "was killed"]);
    }

    #[test]
    fn a_load_that_fails_is_named_with_its_machines() {
        if is_missing("python3") {
            return;
        }
        let turns = ("{db.port}\"]", "{db.port}\", \"turns=40\"]");
        expect_failure(
            &[turns],
            &["served", "load from 'lab-3', 'lab-4': ", "of 40 requests failed"],
        );
        let turns = ("{db.port}\"]", "{db.port}\", \"turns=2\"]");
        expect_failure(&[turns], &["warmup", "cannot send the load: ", "answered 500"]);
    }

    #[test]
    fn an_experiment_gets_all_its_machines_or_none() {
        let refused = |changes: &[(&str, &str)], said: &[&str]| {
            let project = placed_project(changes);
            measured(&project, &[]).expect_status(2).expect_stderr(said);
            assert!(!project.path("fleet").exists(), "something was sent");
        };
        refused(&[("machines = 2", "machines = 3")], &["no machine is left for 'load'", "need 5"]);
        refused(
            &[("\"store\"", "\"stroe\"")],
            &["for 'db'", "unknown machine or label 'stroe'", "did you mean 'store'?"],
        );
        let project = placed_project(&[]);
        std::fs::remove_file(project.path("fleet.toml")).unwrap();
        measured(&project, &[]).expect_status(2).expect_stderr(&["found no 'fleet.toml'"]);
    }

    #[test]
    fn an_experiment_has_its_machines_between_its_runs_as_well() {
        let lock = Path::new("/run/lock/speedwell.lock");
        if is_missing("python3") || !lock.parent().is_some_and(Path::is_dir) {
            return;
        }
        let project = placed_project(&[]);
        let mut child =
            start_coordinator(&project, "--runs=3", || !pids(&project, "web").is_empty());
        let lock = std::fs::File::open(lock).unwrap();
        while pids(&project, "web").len() < 3 {
            assert!(lock.try_lock().is_err(), "nobody has the machine");
            assert_eq!(child.try_wait().unwrap(), None);
            thread::sleep(Duration::from_millis(5));
        }
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_session_whose_coordinator_was_killed_is_resumed_on_its_machines() {
        if is_missing("python3") {
            return;
        }
        expect_the_rest_after_a_kill(&placed_project(&[]));
        let scoped = [("ready = { command", "scope = \"session\"\nready = { command")];
        expect_the_rest_after_a_kill(&placed_project(&scoped));
        match SshdServer::start() {
            Ok(sshd) => expect_the_rest_after_a_kill(&by_ssh(&sshd, &[])),
            Err(reason) => eprintln!("skipped: {reason}"),
        }
    }

    #[test]
    fn nothing_outlives_a_coordinator_that_is_killed() {
        if is_missing("python3") {
            return;
        }
        let long = [("requests = 40,", "duration = \"500s\",")];
        expect_an_end_with_the_coordinator(&placed_project(&long));
        let scope = ("ready = { command", "scope = \"session\"\nready = { command");
        expect_an_end_with_the_coordinator(&placed_project(&[long[0], scope]));
        expect_an_end_with_the_coordinator(&placed_project(
            &[&[long[0], scope], &ON_ONE_MACHINE[..]].concat(),
        ));
        match SshdServer::start() {
            Ok(sshd) => expect_an_end_with_the_coordinator(&by_ssh(&sshd, &long)),
            Err(reason) => eprintln!("skipped: {reason}"),
        }
    }
}
