//! What a fleet costs: what everything that is not measured takes of the processor while a machine measures (coordinator, line or
//! daemons, and the worker), how soon the first run begins, and how much longer a run takes.

use super::project::Project;
use speedwell_fixtures::lab::{Slurm, Sshd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// How long it is looked at.
const LENGTH: Duration = Duration::from_secs(15);
/// At most this share of a processor, all together.
const MOST: f64 = 0.01;
/// At most so much longer takes a run on a machine of a fleet, in milliseconds; a program that is not optimised takes more.
const MOST_MS: f64 = if cfg!(debug_assertions) { 10.0 } else { 1.0 };
/// The kernel counts processor time in hundredths of a second.
const TICK_S: f64 = 0.01;

/// A run that sleeps until it has been looked at.
fn project(head: &str, name: &str, folder: &Path) -> Project {
    let program = env!("CARGO_BIN_EXE_speedwell");
    let machine =
        format!("[[machine]]\nname = \"{name}\"\nlabels = [\"lab\"]\nbinary = \"{program}\"\n");
    let own = format!("folder = \"{}\"\n", folder.display());
    let file = if head.contains("slurm") {
        format!("{head}{own}{machine}")
    } else {
        format!("{head}{machine}{own}")
    };
    Project::new()
        .with("fleet.toml", &file)
        .with("g/slow.fake", "case n=0\n* sleep:40000 1\n")
        .with("h/quick.fake", "case n=0\n* 1 2 3 4\n")
}

/// The same by ssh on `m1`; nothing where there can be no such machine.
fn by_ssh() -> Option<(Sshd, Project)> {
    let sshd = Sshd::start().inspect_err(|why| eprintln!("skipped: {why}"));
    let sshd = sshd.ok()?;
    let head = format!(
        "engine = \"ssh\"\nssh_config = \"{}\"\n",
        sshd.config().display()
    );
    let project = project(&head, "m1", &sshd.folder());
    Some((sshd, project))
}

/// The same by Slurm on `n1`.
fn by_slurm() -> Option<(Slurm, Project)> {
    let slurm = Slurm::start().inspect_err(|why| eprintln!("skipped: {why}"));
    let slurm = slurm.ok()?;
    let project = project("engine = \"slurm\"\n", "n1", &slurm.folder());
    let project = project.with_variable("SLURM_CONF", slurm.conf());
    Some((slurm, project))
}

/// The processor time of a process and of its children that have ended, in ticks.
fn ticks(process: &Path) -> Option<u64> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    // proc_pid_stat(5): utime, stime, cutime, cstime.
    fields
        .get(11..15)?
        .iter()
        .map(|own| own.parse::<u64>().ok())
        .sum()
}

/// All processes that have one of these paths in their command line or environment, with what they took.
fn processes(paths: &[PathBuf]) -> Vec<(PathBuf, u64)> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let has = |process: &PathBuf| {
        ["cmdline", "environ"].iter().any(|file| {
            let bytes = std::fs::read(process.join(file)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            paths
                .iter()
                .any(|path| text.contains(&*path.to_string_lossy()))
        })
    };
    let folders = all.map(|entry| entry.path()).filter(has);
    folders
        .filter_map(|own| Some((own.clone(), ticks(&own)?)))
        .collect()
}

/// The share of a processor that all of them took while a run was under way on the machine.
fn share(project: &Project, name: &str, paths: &[PathBuf]) -> f64 {
    let words = ["run", "g", "--variant", "a=", "--runs", "1", "--on", name];
    let mut child = project
        .command(&words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let own = PathBuf::from(format!("/proc/{}", child.id()));
    let is_measured =
        || super::fleet_failures::processes(&["perform-parcel", &paths[0].to_string_lossy()]);
    let begin = Instant::now();
    while is_measured().is_empty() {
        assert!(
            begin.elapsed() < Duration::from_secs(120),
            "nobody measures"
        );
        thread::sleep(Duration::from_millis(50));
    }
    // Until the run has begun.
    thread::sleep(Duration::from_secs(5));
    let now = || {
        let coordinator = ticks(&own).map(|ticks| (own.clone(), ticks));
        let mut all = processes(paths);
        all.retain(|(process, _)| *process != own);
        all.into_iter().chain(coordinator).collect::<Vec<_>>()
    };
    let (before, since) = (now(), Instant::now());
    thread::sleep(LENGTH);
    let (after, elapsed) = (now(), since.elapsed());
    assert!(after.len() > 1 && !is_measured().is_empty(), "{after:?}");
    let known = |process: &Path| before.iter().find(|(own, _)| own == process);
    let taken = |(process, ticks): &(PathBuf, u64)| {
        ticks - known(process).map_or(0, |(_, before)| *before).min(*ticks)
    };
    for own in after.iter().filter(|own| taken(own) > 0) {
        let line = std::fs::read(own.0.join("cmdline")).unwrap_or_default();
        let line: String = String::from_utf8_lossy(&line).chars().take(60).collect();
        println!(
            "  {:.2} s: {}",
            taken(own) as f64 * TICK_S,
            line.replace('\0', " ")
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let taken: u64 = after.iter().map(taken).sum();
    taken as f64 * TICK_S / elapsed.as_secs_f64()
}

/// `cargo test -p speedwell --test it --features http3,postgres -- fleet_quiet --ignored --nocapture`
#[test]
#[ignore = "measures"]
fn what_is_not_measured_takes_a_hundredth_of_a_processor_at_most() {
    if let Some((sshd, project)) = by_ssh() {
        let share = share(&project, "m1", &[sshd.folder(), sshd.config()]);
        println!("ssh: {:.2} % of a processor", 100.0 * share);
        assert!(share <= MOST, "{share}");
    }
    if let Some((slurm, project)) = by_slurm() {
        let share = share(&project, "n1", &[slurm.folder(), slurm.conf()]);
        println!("Slurm: {:.2} % of a processor", 100.0 * share);
        assert!(share <= MOST, "{share}");
    }
}

/// How long a session of so many runs of nothing takes, in seconds.
fn taken_s(project: &Project, runs: u32, more: &[&str]) -> f64 {
    let runs = runs.to_string();
    let words = ["run", "h", "--variant", "a=", "--runs", &runs];
    let begin = Instant::now();
    project.run(&[&words[..], more].concat()).expect_status(0);
    begin.elapsed().as_secs_f64()
}

/// Milliseconds of each further run.
fn each_ms(project: &Project, more: &[&str]) -> f64 {
    let [few, many] = [200, 2200].map(|runs| taken_s(project, runs, more));
    (many - few) * 1000.0 / 2000.0
}

/// When the first run of the last session began, in seconds since 1970.
fn first_run_s(project: &Project) -> f64 {
    let exported = project.run(&["report", "--export", "jsonl"]).stdout;
    let runs = exported.lines().filter(|line| line.starts_with("{\"run\""));
    let runs = runs.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let began = runs.map(|line| line["run"]["started_unix_ms"].as_i64().unwrap());
    began.min().unwrap() as f64 / 1000.0
}

/// `cargo test -p speedwell --test it --features http3,postgres -- fleet_quiet --ignored --nocapture`
#[test]
#[ignore = "measures"]
fn the_first_run_comes_soon_and_each_costs_little() {
    if let Some((_sshd, project)) = by_ssh() {
        let alone = each_ms(&project, &[]);
        let there = each_ms(&project, &["--on", "m1"]);
        println!("a run of nothing: {alone:.2} ms here, {there:.2} ms by ssh");
        assert!(there - alone <= MOST_MS, "{alone} {there}");
    }
    if let Some((slurm, project)) = by_slurm() {
        taken_s(&project, 4, &["--on", "n1"]);
        let begun = slurm.says("squeue", &["-h", "-t", "all", "-o", "%S"]);
        let date = std::process::Command::new("date")
            .args(["+%s", "-d", &begun])
            .output();
        let begun: f64 = String::from_utf8(date.unwrap().stdout)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // Slurm says whole seconds, so it is at most this.
        let after = first_run_s(&project) - begun;
        println!("the first run began {after:.1} s at most after Slurm began the job");
        assert!(after <= 2.0, "{after}");
        let there = each_ms(&project, &["--on", "n1"]);
        println!("a run of nothing: {there:.2} ms by Slurm");
    }
}
