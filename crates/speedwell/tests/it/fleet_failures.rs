//! Sessions on several machines, one of which fails: no completed work is lost or stored twice, and
//! the report is that of an undisturbed session.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use super::busy::wait_within;
use super::experiment_place_slurm::{expect_waiting, other_job};
use super::project::{CommandResult, TempProject};
use speedwell_fixtures::clusters::{SlurmCluster, SshdServer};
use speedwell_model::{Session, SessionState};
use speedwell_store::Store;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longer than any step takes on a busy host.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);
/// Number of cases, with slow runs that differ.
const CASES: u32 = 6;

/// A project whose fleet has this `engine` and machines of these names, all of which use the tested
/// program.
fn project(engine: &str, machines: &[&str], folder: Option<&Path>) -> TempProject {
    let program = env!("CARGO_BIN_EXE_speedwell");
    let mut file = format!("{engine}\n");
    for name in machines {
        file += &format!(
            "[[machine]]\nname = \"{name}\"\nlabels = [\"lab\"]\nbinary = \"{program}\"\n"
        );
        if let Some(folder) = folder {
            file += &format!("folder = \"{}\"\n", folder.join(name).display());
        }
    }
    let mut benchmark = String::new();
    for case in 0..CASES {
        benchmark += &format!("case n={case}\nold sleep:30 1 2 3 4\nnew sleep:30 1 2 3 4\n");
    }
    TempProject::new().with("fleet.toml", &file).with("g/slow.fake", &benchmark)
}

/// Three machines by ssh that share nothing with this one.
pub(super) fn by_ssh() -> Option<(SshdServer, TempProject)> {
    let sshd = SshdServer::start().inspect_err(|why| eprintln!("skipped: {why}")).ok()?;
    let engine = format!("engine = \"ssh\"\nssh_config = \"{}\"", sshd.ssh_config().display());
    let project = project(&engine, &["m1", "m2", "m3"], Some(&sshd.folder()));
    Some((sshd, project))
}

/// Three machines of Slurm with a shared folder.
pub(super) fn by_slurm() -> Option<(SlurmCluster, TempProject)> {
    let slurm = SlurmCluster::start().inspect_err(|why| eprintln!("skipped: {why}")).ok()?;
    let engine = format!("engine = \"slurm\"\nfolder = \"{}\"", slurm.folder().display());
    let project = project(&engine, &["n1", "n2", "n3"], None);
    Some((slurm, project))
}

/// The command that measures everything on the fleet.
pub(super) fn start_measuring(
    project: &TempProject,
    slurm: Option<&SlurmCluster>,
    words: &[&str],
) -> Child {
    let words = [
        &["run", "g", "--variant", "old=", "--variant", "new=", "--runs", "8", "--seed", "7"],
        words,
    ]
    .concat();
    let mut command = project.command(&words);
    if let Some(slurm) = slurm {
        command.env("SLURM_CONF", slurm.config_path());
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn answer(child: Child) -> CommandResult {
    CommandResult::from(child.wait_with_output().unwrap())
}

pub(super) fn session(project: &TempProject) -> Session {
    let store = Store::open(&project.path(".speedwell/results.db")).unwrap();
    store.load_session(1).unwrap()
}

/// The content of each slot; fails if a slot occurs twice.
pub(super) fn by_slot(session: &Session) -> BTreeMap<u32, (String, String, u32, String)> {
    let mut slots = BTreeMap::new();
    for run in &session.runs {
        let value =
            format!("{:?}", run.samples.iter().map(|sample| sample.value).collect::<Vec<f64>>());
        let earlier =
            slots.insert(run.slot, (run.case.id(), run.variant.to_string(), run.block, value));
        assert_eq!(earlier, None, "slot {} was kept twice", run.slot);
    }
    slots
}

/// Asserts that the session equals one of this machine alone.
#[track_caller]
fn expect_all(project: &TempProject, answer: CommandResult) {
    let answer = answer.expect_status(0);
    let distant = session(project);
    assert_eq!(distant.state, SessionState::Complete, "{answer:?}");
    let local = TempProject::new()
        .with("g/slow.fake", &std::fs::read_to_string(project.path("g/slow.fake")).unwrap());
    self::answer(start_measuring(&local, None, &[])).expect_status(0);
    assert_eq!(by_slot(&distant), by_slot(&session(&local)));
    assert_eq!(distant.runs.len() as u32, CASES * 2 * 8);
}

/// Waits until the store has some, but not all blocks of the session.
pub(super) fn wait_for_blocks(project: &TempProject) {
    wait_within(PATIENCE, || project.stored_runs() > 0);
    let runs = project.stored_runs() as u32;
    assert!(runs < CASES * 2 * 8, "the session is over before anything was broken");
}

/// The contents of the spools below a folder of a fleet.
pub(super) fn spools(fleet: &Path) -> Vec<String> {
    let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sessions = entries(fleet.join("sessions"));
    let spools = sessions.flat_map(|session| entries(session.path().join("spools")));
    spools.map(|spool| std::fs::read_to_string(spool.path()).unwrap_or_default()).collect()
}

/// The processes whose command line contains all of these words.
pub(super) fn processes(words: &[&str]) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |number: &u32| {
        let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        words.iter().all(|word| line.contains(word))
    };
    numbers.filter(has).collect()
}

/// Kills one measuring worker of a folder.
fn kill_a_worker(folder: &Path) {
    let workers = processes(&["worker shard", &folder.to_string_lossy()]);
    // The shell that sshd starts for it, if it did not exec, has the same words.
    let workers = workers.iter().filter(|worker| {
        let program = std::fs::read_link(format!("/proc/{worker}/exe")).unwrap_or_default();
        program == Path::new(env!("CARGO_BIN_EXE_speedwell"))
    });
    let worker = workers.copied().min().unwrap();
    kill(worker);
}

pub(super) fn kill(process: u32) {
    send_signal("-KILL", process);
}

fn send_signal(signal: &str, process: u32) {
    let sent = Command::new("kill").args([signal, &process.to_string()]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn a_killed_worker_on_a_machine_by_ssh_is_replaced() {
    let Some((sshd, project)) = by_ssh() else {
        return;
    };
    let child = start_measuring(&project, None, &["--machines", "lab"]);
    wait_for_blocks(&project);
    kill_a_worker(&sshd.folder());
    let answer = answer(child);
    assert!(answer.stderr.contains("attempt") || answer.stderr.contains("again"), "{answer:?}");
    expect_all(&project, answer);
    let machines: Vec<String> =
        session(&project).machines.iter().map(|machine| machine.name.clone()).collect();
    assert_eq!(machines, ["m1", "m2", "m3"]);
}

#[test]
fn a_killed_coordinator_takes_its_workers_along_and_the_session_is_resumed() {
    let Some((sshd, project)) = by_ssh() else {
        return;
    };
    let mut child = start_measuring(&project, None, &["--machines", "lab"]);
    wait_for_blocks(&project);
    child.kill().unwrap();
    child.wait().unwrap();
    let folder = sshd.folder();
    let workers = || processes(&["worker shard", &folder.to_string_lossy()]);
    wait_within(PATIENCE, || workers().is_empty());
    let resumed = project.run(&["run", "--resume", "@latest"]);
    expect_all(&project, resumed);
}

#[test]
fn a_controller_that_stops_and_comes_back_costs_nothing() {
    let Some((slurm, project)) = by_slurm() else {
        return;
    };
    let child = start_measuring(&project, Some(&slurm), &["--machines", "lab"]);
    wait_for_blocks(&project);
    // Killed by force, it would forget the jobs of its last 5 s, give their numbers to other jobs,
    // and drain the machines on which the first ones run.
    let controller = slurm.daemon_pid("slurmctld").unwrap();
    send_signal("-TERM", controller);
    wait_within(PATIENCE, || !Path::new(&format!("/proc/{controller}")).exists());
    std::thread::sleep(Duration::from_secs(2));
    let conf = slurm.config_path();
    let again = slurm
        .cluster_command("slurmctld")
        .arg("-f")
        .arg(&conf)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(again.unwrap().success());
    expect_all(&project, answer(child));
}

#[test]
fn unavailable_or_unknown_machines_are_refused_before_anything_is_sent() {
    let Some((slurm, project)) = by_slurm() else {
        return;
    };
    slurm.run_program(
        "scontrol",
        &["update", "nodename=n1,n2,n3", "state=drain", "reason=new fans"],
    );
    let drained =
        answer(start_measuring(&project, Some(&slurm), &["--machines", "lab"])).expect_status(2);
    assert!(drained.stderr.contains("n2: drained: new fans"), "{drained:?}");
    let unknown =
        answer(start_measuring(&project, Some(&slurm), &["--machines", "lba"])).expect_status(2);
    assert!(unknown.stderr.contains("did you mean 'lab'?"), "{unknown:?}");
    assert!(
        !project.path(".speedwell/results.db").exists()
            || Store::open(&project.path(".speedwell/results.db"))
                .unwrap()
                .load_session(1)
                .is_err()
    );
}

#[test]
fn the_reason_for_waiting_in_the_queue_is_printed_once() {
    let Some((slurm, project)) = by_slurm() else {
        return;
    };
    let other = other_job(&slurm, "n2");
    let mut child = start_measuring(&project, Some(&slurm), &["--machines", "n2"]);
    let said = expect_waiting(&mut child, "waiting in the Slurm queue: n2 (");
    // Wait for at least one more poll of Slurm.
    std::thread::sleep(Duration::from_secs(6));
    slurm.run_program("scancel", &[&other]);
    expect_all(&project, answer(child));
    let rest: Vec<String> = said.iter().collect();
    let again = |line: &&String| line.contains("in the Slurm queue: n2 (");
    assert_eq!(rest.iter().filter(again).count(), 0, "{rest:#?}");
}
