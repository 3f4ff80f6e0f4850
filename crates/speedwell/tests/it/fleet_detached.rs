//! Detached sessions that are collected later: on this machine under several names, by ssh, and by
//! Slurm.

use super::busy::wait_within;
use super::fleet_failures::{processes, spools};
use super::project::TempProject;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use speedwell_fixtures::clusters::{HOST_NAMES, NODE_NAMES, SlurmCluster, SshdServer};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Short cases, and one that does not end.
const SHORT: &str = "case n=1\n* 100\ncase n=2\n* 200\ncase n=3\n* 300\n";
const LONG: &str = "case n=1\n* sleep:600000\n";

const MEASURE: [&str; 12] = [
    "run",
    "g",
    "--runs",
    "4",
    "--seed",
    "7",
    "--variant",
    "old=",
    "--variant=new=",
    "--machines",
    "lab",
    "--detach",
];

/// A fleet of one kind, with the servers that must outlive it and the folders of its machines.
struct TestFleet<'a> {
    project: TempProject,
    variables: Vec<(&'a str, PathBuf)>,
    folders: Vec<PathBuf>,
}

impl TestFleet<'_> {
    /// Runs a command; returns its status, stdout and stderr.
    fn run(&self, words: &[&str]) -> (i32, String, String) {
        let mut command: Command = self.project.command(words);
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let status = output.status.code().unwrap_or(-1);
        (status, text(output.stdout), text(output.stderr))
    }

    /// The shards of the last session.
    fn shards(&self) -> Vec<Value> {
        let (status, stdout, stderr) = self.run(&["fleet", "status", "--format", "json"]);
        assert_eq!(status, 0, "{stderr}");
        let json: Value = serde_json::from_str(&stdout).unwrap();
        let rows = json["tables"]["shards"].as_array();
        let rows = rows.or_else(|| json["shards"].as_array());
        rows.unwrap_or_else(|| panic!("{json:#}")).clone()
    }

    fn runs(&self) -> usize {
        let (_, stdout, _) = self.run(&["report", "--export", "jsonl"]);
        let runs = stdout.lines().filter(|line| line.starts_with("{\"run\""));
        runs.count()
    }
}

fn local(cases: &str) -> TestFleet<'static> {
    let project = TempProject::new().with("g/b.fake", cases);
    let folder = project.path("fleet");
    let machine = |name: &str| format!("[[machine]]\nname = \"{name}\"\nlabels = [\"lab\"]\n");
    let text = format!(
        "engine = \"local\"\nfolder = \"{}\"\n{}{}",
        folder.display(),
        machine("lab-1"),
        machine("lab-2")
    );
    TestFleet {
        project: project.with("fleet.toml", &text),
        variables: Vec::new(),
        folders: vec![folder],
    }
}

/// Two machines by ssh.
fn by_ssh(sshd: &SshdServer, project: TempProject) -> TestFleet<'static> {
    let names = &HOST_NAMES[..2];
    let folders: Vec<PathBuf> = names.iter().map(|name| sshd.folder().join(name)).collect();
    let machine = |(name, folder): (&&str, &PathBuf)| {
        let folder = folder.display();
        format!("[[machine]]\nname = \"{name}\"\nlabels = [\"lab\"]\nfolder = \"{folder}\"\n")
    };
    let machines: String = names.iter().zip(&folders).map(machine).collect();
    let config = sshd.ssh_config();
    let text = format!("engine = \"ssh\"\nssh_config = \"{}\"\n{machines}", config.display());
    TestFleet { project: project.with("fleet.toml", &text), variables: Vec::new(), folders }
}

fn by_slurm(slurm: &SlurmCluster, cases: &str) -> TestFleet<'static> {
    let folder = slurm.folder().join("fleet");
    let text = format!("engine = \"slurm\"\nfolder = \"{}\"\n", folder.display());
    let machines =
        NODE_NAMES.map(|name| format!("[[machine]]\nname = \"{name}\"\nlabels = [\"lab\"]\n"));
    TestFleet {
        project: TempProject::new()
            .with("g/b.fake", cases)
            .with("fleet.toml", &format!("{text}{}", machines.concat())),
        variables: vec![("SLURM_CONF", slurm.config_path())],
        folders: vec![folder],
    }
}

impl Drop for TestFleet<'_> {
    /// A failing test must not leave a worker behind that locks the machine.
    fn drop(&mut self) {
        for worker in workers(&self.folders) {
            let _ = kill_process(worker, Signal::KILL);
        }
    }
}

/// The workers in these folders.
fn workers(folders: &[PathBuf]) -> Vec<Pid> {
    let of_folder = |folder: &PathBuf| processes(&["worker shard", &folder.to_string_lossy()]);
    let found = folders.iter().flat_map(of_folder);
    found.filter_map(|process| Pid::from_raw(process as i32)).collect()
}

/// Longer than any step takes on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until a worker has the machine. Asking the program repeatedly would start processes on all
/// machines.
fn wait_for_begin(lab: &TestFleet<'_>) {
    let has_begun = |folder: &PathBuf| spools(folder).iter().any(|spool| spool.contains('\n'));
    wait_within(PATIENCE, || lab.folders.iter().any(has_begun));
}

fn wait_for_end(lab: &TestFleet<'_>) {
    wait_within(PATIENCE, || workers(&lab.folders).is_empty());
}

/// Detaches, inspects, waits, and cleans up: nothing is left.
fn hand_out_and_collect(lab: &TestFleet<'_>) {
    let (status, stdout, stderr) = lab.run(&MEASURE);
    assert_eq!((status, stdout.as_str()), (0, "@1\n"), "{stderr}");
    assert!(stderr.contains("speedwell fleet collect @1"), "{stderr}");
    let shards = lab.shards();
    let cases: u64 = shards.iter().map(|own| own["cases"].as_u64().unwrap()).sum();
    assert_eq!(cases, 3, "{shards:?}");
    let (status, stdout, stderr) = lab.run(&["fleet", "collect", "@1", "--format", "json"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(serde_json::from_str::<Value>(&stdout).is_ok(), "{stdout}");
    assert_eq!(lab.runs(), 24);
    let shards = lab.shards();
    assert!(shards.iter().all(|own| own["state"] == "done"), "{shards:?}");
    let blocks: u64 = shards.iter().map(|own| own["blocks"].as_u64().unwrap()).sum();
    assert_eq!(blocks, 6, "three cases, two blocks of two runs a side each");
    // Collecting again changes nothing.
    assert_eq!(lab.run(&["fleet", "collect", "@1"]).0, 0);
    assert_eq!(lab.runs(), 24);
    let refused = lab.run(&["fleet", "cancel", "@1"]);
    assert!(refused.2.contains("nothing to cancel"), "{refused:?}");
    let cleaned = lab.run(&["fleet", "clean", "@1", "--format", "csv"]);
    assert_eq!(cleaned.0, 0, "{cleaned:?}");
    wait_for_end(lab);
    let left: Vec<&PathBuf> = lab.folders.iter().filter(|folder| folder.exists()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Detaches a session that does not end, and cancels it.
fn hand_out_and_cancel(lab: &TestFleet<'_>) {
    let (status, _, stderr) = lab.run(&MEASURE);
    assert_eq!(status, 0, "{stderr}");
    wait_for_begin(lab);
    let shards = lab.shards();
    assert!(shards.iter().any(|own| own["state"] == "running"), "{shards:?}");
    let refused = lab.run(&["fleet", "clean", "@1"]);
    assert_eq!(refused.0, 2);
    assert!(refused.2.contains("is still being measured\nhint: "), "{refused:?}");
    let cancelled = lab.run(&["fleet", "cancel", "@1"]);
    assert_eq!(cancelled.0, 0, "{cancelled:?}");
    assert!(cancelled.2.contains("speedwell run --resume @1"), "{cancelled:?}");
    wait_for_end(lab);
    assert!(lab.shards().iter().all(|own| own["state"] == "waiting"));
    assert_eq!(lab.run(&["fleet", "clean", "@1"]).0, 0);
    assert!(lab.folders.iter().all(|folder| !folder.exists()));
}

#[test]
fn a_session_is_handed_out_and_collected_later() {
    hand_out_and_collect(&local(SHORT));
}

#[test]
fn a_session_that_was_handed_out_is_cancelled() {
    hand_out_and_cancel(&local(LONG));
}

#[test]
fn workers_by_ssh_continue_after_the_connection_is_closed() {
    match SshdServer::start() {
        Ok(sshd) => {
            let short = TempProject::new().sending_itself().with("g/b.fake", SHORT);
            hand_out_and_collect(&by_ssh(&sshd, short));
            let long = TempProject::new().with("g/b.fake", LONG);
            hand_out_and_cancel(&by_ssh(&sshd, long));
        }
        Err(reason) => eprintln!("skipped: {reason}"),
    }
}

#[test]
fn jobs_of_slurm_are_collected_later() {
    match SlurmCluster::start() {
        Ok(slurm) => {
            hand_out_and_collect(&by_slurm(&slurm, SHORT));
            hand_out_and_cancel(&by_slurm(&slurm, LONG));
        }
        Err(reason) => eprintln!("skipped: {reason}"),
    }
}

#[test]
fn a_worker_that_was_killed_meanwhile_has_a_successor() {
    let lab = local("case n=1\n* sleep:40\n");
    assert_eq!(lab.run(&MEASURE).0, 0);
    wait_for_begin(&lab);
    // On a fast machine it may have ended by itself.
    for worker in workers(&lab.folders) {
        let _ = kill_process(worker, Signal::KILL);
    }
    let collected = lab.run(&["fleet", "collect"]);
    assert_eq!(collected.0, 0, "{collected:?}");
    assert_eq!(lab.runs(), 8);
}

#[test]
fn sessions_of_one_machine_are_not_collected() {
    let lab = local(SHORT);
    lab.project.run(&["run", "g", "--runs", "2", "--variant", "a="]).expect_status(0);
    for command in ["status", "collect", "cancel", "clean"] {
        let answer = lab.project.run(&["fleet", command, "@1"]);
        let texts = ["measured on this machine only", "hint: 'speedwell report @1'"];
        answer.expect_status(2).expect_stderr(&texts);
    }
    let detached = lab.project.run(&["run", "g", "--detach"]);
    detached.expect_status(2).expect_stderr(&["--machines"]);
    let to = "http://127.0.0.1:9/core";
    let pushed = (lab.project).run(&["run", "g", "--machines", "lab", "--detach", "--push", to]);
    pushed.expect_status(2).expect_stderr(&["cannot be used with '--push"]);
}
