//! The ssh engine with an sshd on this host.

use crate::{create_session, is_over, names_and_states, task_batch, wait_for, wait_for_text};
use speedwell_fixtures::clusters::{HOST_NAMES, SshdServer};
use speedwell_remote::machines::{
    FleetEngine, FleetMachine, JobState, MachineState, SshEngine, check, content_store,
};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

fn machine(name: &str, folder: &Path) -> FleetMachine {
    FleetMachine {
        name: name.into(),
        labels: vec!["lab".into()],
        state: MachineState::Free,
        folder: folder.into(),
        binary: None,
    }
}

/// A server, and an engine for its hosts and one unreachable host.
fn start_server() -> Option<(SshdServer, FleetEngine)> {
    let sshd = SshdServer::start();
    let sshd = sshd.inspect_err(|why| eprintln!("skipped: {why}")).ok()?;
    let names = HOST_NAMES.iter().chain(&["127.0.0.2"]);
    let machines = names.map(|name| machine(name, &sshd.folder())).collect();
    let engine = FleetEngine::Ssh(SshEngine::new(machines, Some(sshd.ssh_config())));
    Some((sshd, engine))
}

#[test]
fn a_worker_reads_its_orders_and_writes_its_lines_through_ssh() {
    let Some((sshd, mut engine)) = start_server() else {
        return;
    };
    let script = r#"read one; read two; echo "$one $two $4"; echo gone >&2; exit 4"#;
    let folder = create_session(&sshd.folder(), script);
    let mut submitted = engine.submit(&task_batch("m2", &folder, &[7, 9])).unwrap();
    let mut lines = String::new();
    submitted.lines.take().unwrap().read_to_string(&mut lines).unwrap();
    assert_eq!(lines, "{\"task\":7} {\"task\":9} -\n");
    let ended = wait_for(&mut engine, &submitted.job, is_over);
    assert_eq!(ended, JobState::Ended(Some("the worker exited: exit status: 4: gone".into())));
    // Words are passed literally, even if a shell would interpret them.
    let mut line = engine.start_command("m1", &["tr", "a-z", "A-Z$('"]).unwrap();
    line.stdin.take().unwrap().write_all(b"ready").unwrap();
    let mut said = String::new();
    line.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "READY");
    assert!(line.wait().unwrap().success());
}

#[test]
fn a_worker_ends_when_cancelled_or_disconnected() {
    let Some((sshd, mut engine)) = start_server() else {
        return;
    };
    let script = r#"echo $$ >"$3/worker"; cat >/dev/null; echo ended >"$3/ended"; exit 1"#;
    let folder = create_session(&sshd.folder(), script);
    let job = engine.submit(&task_batch("m1", &folder, &[1])).unwrap().job;
    let begun =
        || std::fs::read_to_string(folder.join("worker")).is_ok_and(|text| text.ends_with('\n'));
    wait_for(&mut engine, &job, |state| *state == JobState::Running && begun());
    engine.cancel_jobs(std::slice::from_ref(&job)).unwrap();
    wait_for_text(&folder.join("ended"), "ended\n");
    assert!(is_over(&engine.job_states(&[job]).unwrap()[0]));
    // The same when the coordinator is killed: the kernel closes its end of the connection.
    std::fs::remove_file(folder.join("ended")).unwrap();
    std::fs::remove_file(folder.join("worker")).unwrap();
    let job = engine.submit(&task_batch("m3", &folder, &[1])).unwrap().job;
    wait_for(&mut engine, &job, |state| *state == JobState::Running && begun());
    drop(engine);
    wait_for_text(&folder.join("ended"), "ended\n");
}

#[test]
fn machines_are_free_busy_or_unfit_with_a_reason() {
    let Some((sshd, mut engine)) = start_server() else {
        return;
    };
    let lock = sshd.folder().join("speedwell.lock");
    let states = |engine: &mut FleetEngine| {
        let machines = engine.list_machines().unwrap();
        let states = names_and_states(&machines);
        states.iter().map(|(_, state)| (*state).clone()).collect::<Vec<_>>()
    };
    let all = states(&mut engine);
    assert_eq!(all[..3], [MachineState::Free, MachineState::Free, MachineState::Free]);
    // Either nothing listens on port 22 of that address, or its host key is unknown.
    assert!(matches!(&all[3], MachineState::Unfit(_)), "{all:?}");
    let known = engine.known_machines().unwrap();
    assert_eq!(names_and_states(&known)[3].1, &MachineState::Free, "it was not contacted");
    let mut holder = Command::new("flock");
    holder.arg(&lock).args(["sh", "-c", "echo held; cat"]);
    let holder = holder.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut holder = holder.spawn().unwrap();
    let mut held = [0; 5];
    holder.stdout.take().unwrap().read_exact(&mut held).unwrap();
    assert_eq!(states(&mut engine)[0], MachineState::Busy);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert_eq!(states(&mut engine)[0], MachineState::Free);
    // A changed host key is never accepted.
    let known = sshd.ssh_config().with_file_name("known");
    std::fs::write(&known, "").unwrap();
    let MachineState::Unfit(why) = &states(&mut engine)[0] else {
        panic!("an unknown host was believed");
    };
    assert_eq!(why, "its host key is unknown: verify it once with 'ssh m1'");
}

#[test]
fn a_program_is_sent_once_and_again_only_when_it_differs() {
    let Some((sshd, mut engine)) = start_server() else {
        return;
    };
    let folder = sshd.folder();
    let own = create_session(&folder, "echo one").join("bin/speedwell");
    let machine = machine("m2", &folder.join("m2"));
    let place = content_store::send_program(&mut engine, &machine, &own).unwrap();
    assert_eq!(std::fs::read(&place).unwrap(), std::fs::read(&own).unwrap());
    let written = || place.metadata().unwrap().modified().unwrap();
    let first = written();
    assert_eq!(content_store::send_program(&mut engine, &machine, &own).unwrap(), place);
    assert_eq!(written(), first, "it was there");
    // A damaged program is sent again; a different program gets a different name.
    std::fs::write(&place, "exit").unwrap();
    assert_eq!(content_store::send_program(&mut engine, &machine, &own).unwrap(), place);
    assert_eq!(std::fs::read(&place).unwrap(), std::fs::read(&own).unwrap());
    let other = create_session(&folder, "echo two").join("bin/speedwell");
    assert_ne!(content_store::send_program(&mut engine, &machine, &other).unwrap(), place);
    // A program configured in the fleet file is not sent.
    let named = FleetMachine { binary: Some("/opt/speedwell".into()), ..machine.clone() };
    assert_eq!(
        content_store::send_program(&mut engine, &named, &own).unwrap(),
        Path::new("/opt/speedwell")
    );
    // A program that does not run there reports why.
    let error = check::check_machine(&mut engine, &machine, &place).unwrap_err();
    assert!(format!("{error:#}").contains("it wrote 'one' instead of a greeting"), "{error:#}");
}
