//! `[place]` on Slurm: one job gets all machines or none, and ends with its coordinator.

use super::busy::wait_within;
use super::experiment_place::{
    PATIENCE, expect_an_end_with_the_coordinator, expect_end_of, expect_parts,
    expect_the_rest_after_a_kill, measured, pids, placed_project,
};
use super::fleet_failures::kill;
use super::harness_driver::is_missing;
use super::project::{CommandResult, TempProject};
use speedwell_fixtures::clusters::{NODE_NAMES, SlurmCluster};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Message while others have the machines.
const WAITING: &str = "waiting until Slurm has machines for all parts of this experiment: ";

/// Starts a cluster; `None` if that is impossible.
pub(super) fn cluster() -> Option<SlurmCluster> {
    if is_missing("python3") {
        return None;
    }
    let slurm = SlurmCluster::start();
    slurm.inspect_err(|why| eprintln!("skipped: {why}")).ok()
}

/// An experiment whose target, service and load have a node each.
pub(super) fn on_nodes(slurm: &SlurmCluster, changes: &[(&str, &str)]) -> TempProject {
    let one = ("on = \"load\", machines = 2", "on = \"load\"");
    let project = placed_project(&[&[one], changes].concat());
    let machine = |(name, label): (&str, &str)| {
        format!("[[machine]]\nname = \"{name}\"\nlabels = [\"{label}\"]\n")
    };
    let parts = NODE_NAMES.into_iter().zip(["server", "store", "load"]);
    let machines: String = parts.map(machine).collect();
    let folder = slurm.folder().join("fleet");
    let head = format!("engine = \"slurm\"\nfolder = \"{}\"\n", folder.display());
    project
        .with("fleet.toml", &format!("{head}{machines}"))
        .with_variable("SLURM_CONF", slurm.config_path())
}

/// Names of our unfinished jobs.
fn jobs(slurm: &SlurmCluster) -> Vec<String> {
    let said = slurm.run_program("squeue", &["-h", "-t", "PD,R,CG", "-o", "%j"]);
    let names = said.lines().map(str::to_owned);
    names.filter(|name| name.starts_with("speedwell")).collect()
}

#[track_caller]
pub(super) fn expect_no_jobs(slurm: &SlurmCluster) {
    let begin = Instant::now();
    while !jobs(slurm).is_empty() {
        assert!(begin.elapsed() < PATIENCE, "{:?}", jobs(slurm));
        thread::sleep(Duration::from_millis(200));
    }
}

/// A command that measures a session.
fn measuring(project: &TempProject) -> Command {
    let mut command = project.command(&["run", "web/placed.toml", "--runs=1"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits until a session reports that it waits for machines; returns all later output.
pub(super) fn expect_waiting(child: &mut Child, how: &str) -> mpsc::Receiver<String> {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (sender, said) = mpsc::channel();
    // Keep reading the rest, so that the writer does not block.
    thread::spawn(move || {
        for line in lines.by_ref().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let mut heard: Vec<String> = Vec::new();
    while !heard.iter().any(|line| line.contains(how)) {
        let line = said.recv_timeout(PATIENCE);
        heard.push(line.unwrap_or_else(|over| panic!("{over}, after {heard:#?}")));
    }
    said
}

/// Submits a foreign job that occupies a node.
pub(super) fn other_job(slurm: &SlurmCluster, node: &str) -> String {
    let on = format!("--nodelist={node}");
    let begun = slurm.folder().join("other-job");
    let script = format!("touch {}; exec sleep 600", begun.display());
    let words = ["--parsable", "--exclusive", &on, "-o", "/dev/null", "--wrap", &script];
    let job = slurm.run_program("sbatch", &words);
    wait_within(PATIENCE, || begun.exists());
    job
}

/// Experiments share the lock of this machine; exclusive users, such as a fleet, may wait for it for
/// minutes.
mod mostly_waits {
    use super::*;

    #[test]
    fn the_parts_of_an_experiment_can_run_on_slurm_nodes() {
        let Some(slurm) = cluster() else { return };
        let project = on_nodes(&slurm, &[]).sending_itself();
        let answer = measured(&project, &["--runs=2"]).expect_status(0);
        answer.expect_stdout(&["The target ran on n1, db on n2, and the load came from n3."]);
        expect_parts(&project, &NODE_NAMES, &["n3"]);
        let own = [pids(&project, "db"), pids(&project, "web")];
        assert_eq!(own.each_ref().map(Vec::len), [2, 2]);
        expect_end_of(&own.concat());
        expect_no_jobs(&slurm);
        project
            .run(&["fleet", "cancel", "@1"])
            .expect_status(2)
            .expect_stderr(&["nothing to cancel"]);
    }

    #[test]
    fn a_part_that_fails_on_a_machine_of_slurm_is_named_with_it() {
        let Some(slurm) = cluster() else { return };
        let fails = |changes: &[(&str, &str)], said: &[&str]| {
            let project = on_nodes(&slurm, changes);
            let answer = measured(&project, &[]);
            let all = [answer.stdout.as_str(), answer.stderr.as_str()].concat();
            for text in said {
                assert!(all.contains(text), "'{text}' is missing in:\n{all}");
            }
            expect_end_of(&[pids(&project, "db"), pids(&project, "web")].concat());
            expect_no_jobs(&slurm);
        };
        let words = "\"python3\", \"-S\", \"{root}/part.py\", \"db\"";
        fails(
            &[(words, "\"nothing-of-that-name\"")],
            &["start", "service 'db' on 'n2': ", "nothing-of-that-name"],
        );
        let dies = ("{db.port}\"]", "{db.port}\", \"dies=25\"]");
        fails(&[dies], &["load", "target on 'n1': ", "the server ended during the load"]);
        fails(
            &[("on = \"store\"", "on = \"stroe\"")],
            &["for 'db'", "unknown machine or label 'stroe'"],
        );
        fails(&[("on = \"store\"", "on = \"load\"")], &["no machine is left for 'load'", "need 3"]);
        let project = on_nodes(&slurm, &[]);
        let file = std::fs::read_to_string(project.path("fleet.toml")).unwrap();
        let other = file.replacen("[[", "partition = \"other\"\n[[", 1);
        measured(&project.with("fleet.toml", &other), &[]).expect_status(2);
    }

    #[test]
    fn a_killed_session_is_resumed_on_the_same_nodes() {
        let Some(slurm) = cluster() else { return };
        expect_the_rest_after_a_kill(&on_nodes(&slurm, &[]));
        expect_no_jobs(&slurm);
    }

    #[test]
    fn neither_job_nor_process_outlives_a_coordinator_that_is_killed() {
        let Some(slurm) = cluster() else { return };
        let long = ("requests = 40,", "duration = \"500s\",");
        expect_an_end_with_the_coordinator(&on_nodes(&slurm, &[long]));
        expect_no_jobs(&slurm);
    }

    #[test]
    fn sessions_wait_for_busy_nodes_until_killed_or_all_are_free() {
        let Some(slurm) = cluster() else { return };
        let other = other_job(&slurm, "n2");
        let project = on_nodes(&slurm, &[]);
        let mut child = measuring(&project).spawn().unwrap();
        expect_waiting(&mut child, WAITING);
        assert!(!jobs(&slurm).is_empty());
        kill(child.id());
        child.wait().unwrap();
        expect_no_jobs(&slurm);
        let mut child = measuring(&project).spawn().unwrap();
        expect_waiting(&mut child, WAITING);
        assert!(pids(&project, "db").is_empty(), "all machines or none");
        slurm.run_program("scancel", &[&other]);
        CommandResult::from(child.wait_with_output().unwrap()).expect_status(0);
        expect_no_jobs(&slurm);
    }
}
