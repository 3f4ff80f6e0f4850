//! One session on several machines, which are this one under several names: dividing, sending,
//! measuring and merging are the same.

use super::busy::wait_within;
use super::fleet_failures::spools;
use super::project::{CommandResult, TempProject};
use super::small_disk::SmallDisk;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use speedwell_fixtures::clusters::{HOST_NAMES, NODE_NAMES, SlurmCluster, SshdServer};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

const CASES: &str = "\
case n=1
old 100 101 102
new 110 111,memory=5 112
case n=2
old 200 exit:3 202
new 210 211 212
case n=3
old 300 301
new exit:1
case n=4
old 400 401 402
new 410 411 412
case n=5
old 500
new 510
";

/// Longer than any step takes on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);

const MEASURE: [&str; 9] =
    ["run", "g", "--runs", "6", "--seed", "7", "--variant", "old=", "--variant=new="];

/// A project with these cases and three machines.
fn project(cases: &str) -> TempProject {
    let project = TempProject::new().with("g/b.fake", cases);
    let folder = project.path("fleet");
    let machine = |name: &str| format!("[[machine]]\nname = \"{name}\"\nlabels = [\"lab\"]\n");
    let text = format!(
        "engine = \"local\"\nfolder = \"{}\"\n{}{}{}",
        folder.display(),
        machine("lab-1"),
        machine("lab-2"),
        machine("lab-3"),
    );
    project.with("fleet.toml", &text)
}

/// The lines of the last session: its header, and all the rest without times and machines.
fn session(project: &TempProject) -> (Value, Vec<String>) {
    let exported = project.run(&["report", "--export", "jsonl"]);
    let mut lines =
        exported.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    let without = |mut line: Value| {
        if let Some(run) = line.get_mut("run").and_then(Value::as_object_mut) {
            for key in ["started_unix_ms", "wall_ns", "kernel_stats", "usage", "machine"] {
                run.remove(key);
            }
        }
        // A failure also records the benchmark's location.
        if let Some(failure) = line.get_mut("failure").and_then(Value::as_object_mut) {
            failure.remove("replay");
        }
        line.to_string()
    };
    (header, lines.map(without).collect())
}

/// Measures on this machine alone and with `together` on the fleet, and compares.
fn compare_with_one_machine(project: &TempProject, mut together: Command, names: [&str; 3]) {
    let alone = project.run(&MEASURE);
    let (header, expected) = session(project);
    assert_eq!(header["version"], 1);
    let together = together.output().unwrap();
    let said = String::from_utf8(together.stderr).unwrap();
    assert_eq!(together.status.code(), Some(alone.status), "{said}");
    let (header, found) = session(project);
    assert_eq!(found, expected, "{said}");
    assert_eq!(header["version"], 2);
    let machines = header["machines"].as_array().unwrap();
    let found: Vec<&str> =
        machines.iter().map(|machine| machine["name"].as_str().unwrap()).collect();
    assert_eq!(found, names);
    assert_eq!(header["metrics"][0]["name"], "throughput");
    // The verdicts are the same, too.
    let table = |text: &str| {
        // Each is followed by its machine.
        let rows = text.lines().filter(|line| line.contains("n="));
        let words = rows.flat_map(str::split_whitespace);
        let words: Vec<&str> = words.filter(|word| !names.contains(word)).collect();
        words.join(" ")
    };
    let stdout = String::from_utf8(together.stdout).unwrap();
    assert_eq!(table(&stdout), table(&alone.stdout));
    assert!(!table(&stdout).is_empty());
}

fn on_lab() -> Vec<&'static str> {
    [&MEASURE[..], &["--machines", "lab"]].concat()
}

#[test]
fn three_machines_give_the_same_session_as_one() {
    let project = project(CASES).sending_itself();
    let together = project.command(&on_lab());
    compare_with_one_machine(&project, together, ["lab-1", "lab-2", "lab-3"]);
}

#[test]
fn machines_by_ssh_give_the_same_session_as_one_machine() {
    let sshd = match SshdServer::start() {
        Ok(sshd) => sshd,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let machine = |name: &str| {
        let folder = sshd.folder().join(name);
        let folder = folder.display();
        format!("[[machine]]\nname = \"{name}\"\nlabels = [\"lab\"]\nfolder = \"{folder}\"\n")
    };
    let machines: String = HOST_NAMES.iter().copied().map(machine).collect();
    let config = sshd.ssh_config();
    let text = format!("engine = \"ssh\"\nssh_config = \"{}\"\n{machines}", config.display());
    let project = TempProject::new().sending_itself();
    let project = project.with("g/b.fake", CASES).with("fleet.toml", &text);
    let together = project.command(&on_lab());
    compare_with_one_machine(&project, together, HOST_NAMES);
}

/// A `sbatch` whose controller is restarting when it is first called.
const AWAY_AT_FIRST: &str = r#"#!/bin/sh
if mkdir "$0.asked" 2>/dev/null; then
    echo "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)" >&2
    exit 1
fi
PATH=${PATH#*:} exec sbatch "$@"
"#;

#[test]
fn slurm_nodes_give_the_same_session_as_one_machine() {
    let slurm = match SlurmCluster::start() {
        Ok(slurm) => slurm,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let folder = slurm.folder();
    let text = format!("engine = \"slurm\"\nfolder = \"{}\"\n", folder.display());
    let project = TempProject::new()
        .sending_itself()
        .with("g/b.fake", CASES)
        .with("fleet.toml", &text)
        .with_program("sbatch", AWAY_AT_FIRST);
    let mut together = project.command(&on_lab());
    let path = std::env::var("PATH").unwrap();
    together.env("PATH", format!("{}:{path}", project.path("").display()));
    together.env("SLURM_CONF", slurm.config_path());
    compare_with_one_machine(&project, together, NODE_NAMES);
    assert!(project.path("sbatch.asked").exists());
}

#[test]
fn every_case_on_every_machine_has_blocks_of_its_own_there() {
    let project = project("case n=1\n* 100\ncase n=2\n* 200\n");
    project
        .run(&[&MEASURE[..], &["--machines", "lab", "--machine-count", "2", "--on-each"]].concat())
        .expect_status(0);
    let exported = project.run(&["report", "--export", "jsonl"]).stdout;
    let runs: Vec<Value> = exported
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["run"].take())
        .collect();
    // Two machines, two cases, two variants, six runs each.
    assert_eq!(runs.len(), 48);
    let blocks_of = |machine: u64| {
        let own = runs.iter().filter(|run| run["machine"] == machine);
        own.map(|run| run["block"].as_u64().unwrap()).collect::<BTreeSet<u64>>()
    };
    assert_eq!(blocks_of(0), BTreeSet::from([0, 1, 2]));
    assert_eq!(blocks_of(1), BTreeSet::from([3, 4, 5]));
}

#[test]
fn on_one_machine_a_session_is_like_any_other() {
    let project = project(CASES);
    project.run(&MEASURE);
    let (_, expected) = session(&project);
    project.run(&[&MEASURE[..], &["--machines", "lab & !lab-1", "--machine-count", "1"]].concat());
    let (header, found) = session(&project);
    assert_eq!((header["version"].as_u64(), found), (Some(1), expected));
    assert_eq!(header["machines"][0]["name"], "lab-2");
    assert_eq!(header["environment"]["cpu"], header["machines"][0]["environment"]["cpu"]);
}

#[test]
fn a_machine_that_gives_nothing_loses_its_cases_to_the_others() {
    let project = project("case n=1\n* 100\ncase n=2\n* 200\ncase n=3\n* 300\n")
        .with_program("broken", "#!/bin/sh\nexit 7\n");
    let text = std::fs::read_to_string(project.path("fleet.toml")).unwrap();
    let (binary, folder) = (project.path("broken"), project.path("fleet-2"));
    let (binary, folder) = (binary.display(), folder.display());
    let broken = format!("name = \"lab-2\"\nbinary = \"{binary}\"\nfolder = \"{folder}\"");
    let text = text.replace("name = \"lab-2\"", &broken);
    std::fs::write(project.path("fleet.toml"), text).unwrap();
    let answer = project.run(&[&MEASURE[..], &["--machines", "lab-1 | lab-2"]].concat());
    let answer = answer.expect_status(0);
    let (_, runs) = session(&project);
    assert_eq!(runs.len(), 36, "{answer:?}");
    // Names determine which machine gets which case; this one gets at least one of the three.
    answer.expect_stderr(&["lab-2: the worker exited", "are restarted on lab-1"]);
}

#[test]
fn a_machine_whose_disk_is_full_loses_its_cases_to_the_others() {
    let Some(disk) = SmallDisk::new(40) else {
        return;
    };
    let text: String = (0..8).map(|n| format!("case n={n}\n* sleep:60\n")).collect();
    let project = project(&text);
    let folder = disk.folder("fleet");
    let file = std::fs::read_to_string(project.path("fleet.toml")).unwrap();
    let small = format!("name = \"lab-2\"\nfolder = \"{}\"", folder.display());
    let project = project.with("fleet.toml", &file.replace("name = \"lab-2\"", &small));
    let words = [&MEASURE[..], &["--machines", "lab-1 | lab-2"]].concat();
    let mut command = project.command(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_within(PATIENCE, || spools(&folder).iter().any(|text| text.contains("block_done")));
    disk.fill();
    let answer = CommandResult::from(child.wait_with_output().unwrap()).expect_status(0);
    answer.expect_stderr(&["lab-2: ", "are restarted on lab-1"]);
    let (_, runs) = session(&project);
    assert_eq!(runs.len(), 96);
}

#[test]
fn a_killed_coordinator_loses_nothing_that_was_measured() {
    let text: String = (0..12).map(|n| format!("case n={n}\n* sleep:15\n")).collect();
    let project = project(&text);
    let words = [&MEASURE[..], &["--machines", "lab"]].concat();
    let mut child = project.command(&words).spawn().unwrap();
    wait_within(PATIENCE, || project.stored_runs() >= 8);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let kept = project.stored_runs();
    assert!(kept >= 8, "{kept}");
    project.run(&["run", "--resume", "@latest"]).expect_status(0);
    let (_, runs) = session(&project);
    let slots: Vec<u64> = runs
        .iter()
        .map(|run| serde_json::from_str::<Value>(run).unwrap()["run"]["slot"].as_u64().unwrap())
        .collect();
    assert_eq!(slots, (0..144).collect::<Vec<u64>>());
}

#[test]
fn unsuitable_machine_requests_are_refused_before_anything_is_measured() {
    let project = project(CASES);
    let refused = |words: &[&str], texts: &[&str]| {
        let answer = project.run(&[&MEASURE[..], words].concat());
        answer.expect_status(2).expect_stderr(texts);
    };
    refused(
        &["--machines", "lob"],
        &["unknown machine or label 'lob'", "hint: did you mean 'lab'?"],
    );
    refused(&["--machines", "lab & !lab"], &["no machine matches these labels"]);
    refused(
        &["--machines", "lab", "--machine-count", "4"],
        &["3 of the 3 matching machines", "4 are needed"],
    );
    refused(&["--machines", "lab &"], &["in --machines 'lab &'"]);
    refused(&["--on-each"], &["--machines"]);
    std::fs::remove_file(project.path("fleet.toml")).unwrap();
    refused(&["--machines", "lab"], &["found no 'fleet.toml'", "hint: "]);
    assert_eq!(project.run(&["history"]).stdout.matches("g/b").count(), 0);
}
