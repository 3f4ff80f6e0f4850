//! Connections to machines leave no process behind, whether a session succeeds, fails or is killed
//! with `kill -9`, even if ssh is configured to share connections and keep idle ones.

use super::busy::wait_until;
use super::fleet_failures::{by_ssh, processes, start_measuring, wait_for_blocks};
use super::project::TempProject;
use speedwell_fixtures::clusters::SshdServer;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// A typical `~/.ssh/config` that shares connections, so that a second one to a host is instant.
fn shares_connections(sshd: &SshdServer) {
    let sockets = sshd.folder().join("line-%n");
    let text = format!(
        "Host *\n  ControlMaster auto\n  ControlPath {}\n  ControlPersist 10m\n",
        sockets.display()
    );
    let config = File::options().append(true).open(sshd.ssh_config());
    config.unwrap().write_all(text.as_bytes()).unwrap();
}

/// The ssh clients with this configuration, including those that keep a shared connection, and the
/// workers at the other ends.
fn connection_processes(sshd: &SshdServer) -> Vec<String> {
    let config = sshd.ssh_config();
    let folder = sshd.folder();
    let own = |words: &[&str]| processes(words).into_iter();
    let config = config.to_string_lossy();
    let folder = folder.to_string_lossy();
    let found = own(&["ssh ", &config])
        .chain(own(&["ssh: ", &folder]))
        .chain(own(&["speedwell worker ", &folder]));
    let line = |process: u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).ok()?;
        Some(format!("{process}: {}", String::from_utf8_lossy(&line).replace('\0', " ")))
    };
    found.filter_map(line).collect()
}

#[track_caller]
fn expect_none(sshd: &SshdServer, when: &str) {
    let last = std::cell::RefCell::new(Vec::new());
    let is_none = || {
        *last.borrow_mut() = connection_processes(sshd);
        last.borrow().is_empty()
    };
    let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait_until(is_none)));
    assert!(waited.is_ok(), "after a session that {when}: {:#?}", last.borrow());
}

/// Ends three sessions, each in a different way.
fn end_sessions((sshd, project): (SshdServer, TempProject)) {
    let file = fs::read_to_string(project.path("fleet.toml")).unwrap();
    let again = || {
        let benchmark = fs::read_to_string(project.path("g/slow.fake")).unwrap();
        TempProject::new().with("fleet.toml", &file).with("g/slow.fake", &benchmark)
    };
    let done = start_measuring(&project, None, &["--machines", "lab"]).wait().unwrap();
    assert!(done.success());
    expect_none(&sshd, "ended well");

    let program = env!("CARGO_BIN_EXE_speedwell");
    assert!(Path::new("/bin/false").exists());
    let broken = again().with("fleet.toml", &file.replace(program, "/bin/false"));
    let done = start_measuring(&broken, None, &["--machines", "lab"]).wait().unwrap();
    assert!(!done.success());
    expect_none(&sshd, "ended badly");

    let killed = again();
    let mut child = start_measuring(&killed, None, &["--machines", "lab"]);
    wait_for_blocks(&killed);
    assert!(!connection_processes(&sshd).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    expect_none(&sshd, "was killed");
}

#[test]
fn no_ssh_connection_outlives_its_session() {
    if let Some(lab) = by_ssh() {
        end_sessions(lab);
    }
}

#[test]
fn no_shared_connection_outlives_its_session() {
    if let Some(lab) = by_ssh() {
        shares_connections(&lab.0);
        end_sessions(lab);
    }
}
