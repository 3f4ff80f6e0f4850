//! Overhead of a fleet: processor time of everything but the measured process while a machine
//! measures (coordinator, connection or daemons, and worker), whether measured code is as fast as
//! without a fleet, how soon the first run starts, and how much longer a run takes.

use super::busy::wait_within;
use super::harness_driver::find_tool;
use super::load_machines::children;
use super::project::TempProject;
use speedwell_fixtures::clusters::{SlurmCluster, SshdServer};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// Length of the observation.
const OBSERVATION_TIME: Duration = Duration::from_secs(30);
/// Maximum share of a processor that all processes but the measured one use together.
const MAX_SHARE: f64 = 0.01;
/// Maximum share of a processor on the measuring machine.
const MAX_SHARE_ON_MACHINE: f64 = 0.002;
/// Maximum additional time of a run on a machine of a fleet, in milliseconds.
const MAX_ADDED_MS: f64 = 1.0;
/// Maximum relative difference of the fastest milliseconds with and without a fleet.
const MAX_SLOWDOWN: f64 = 0.01;
/// Minimum number of pairs of sessions, and the maximum until the fastest milliseconds of both are
/// seen.
const MIN_PAIRS: u32 = 2;
const MAX_PAIRS: u32 = 12;
/// The kernel counts processor time in hundredths of a second.
const TICK_S: f64 = 0.01;

/// A benchmark that does nothing while the overhead is observed.
const SLEEPING: &str = "import speedwell, time

@speedwell.benchmark
def slow():
    time.sleep(100)
";
/// A benchmark that keeps a processor busy using only registers: its speed depends neither on
/// memory nor on code placement.
const BUSY: &str = r#"import hashlib, speedwell

@speedwell.benchmark
def busy():
    return hashlib.pbkdf2_hmac("sha256", b"p", b"s", 1000)
"#;

/// A benchmark that records what decides how fast the kernel lets its process run, in a file beside
/// the project.
const RECORDING: &str = r#"import json, os, resource, speedwell

@speedwell.benchmark
def record():
    treatment = {name: open(f"/proc/self/{name}").read().strip()
                  for name in ("timerslack_ns", "personality", "oom_score_adj")}
    treatment["nice"] = os.getpriority(os.PRIO_PROCESS, 0)
    treatment["policy"] = os.sched_getscheduler(0)
    treatment["processors"] = sorted(os.sched_getaffinity(0))
    treatment["limits"] = [resource.getrlimit(limit) for limit in
                            (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_STACK)]
    with open("RECORD", "w") as out:
        json.dump(treatment, out)
"#;

/// Benchmarks that sleep, are quick, are busy and record, and a fleet with one machine.
fn project(head: &str, name: &str, folder: &Path) -> TempProject {
    let program = env!("CARGO_BIN_EXE_speedwell");
    let machine =
        format!("[[machine]]\nname = \"{name}\"\nlabels = [\"lab\"]\nbinary = \"{program}\"\n");
    let own = format!("folder = \"{}\"\n", folder.display());
    let file = if head.contains("slurm") {
        format!("{head}{own}{machine}")
    } else {
        format!("{head}{machine}{own}")
    };
    let project = TempProject::new();
    let record = project.path("record.json").display().to_string();
    project
        .with("fleet.toml", &file)
        .with("j/record.py", &RECORDING.replace("RECORD", &record))
        .with("g/slow.py", SLEEPING)
        .with("h/quick.fake", "case n=0\n* 1 2 3 4\n")
        .with("i/busy.py", BUSY)
}

/// A [`project`] whose machine `m1` is reached by ssh; `None` if that is impossible.
fn by_ssh() -> Option<(SshdServer, TempProject)> {
    let sshd = SshdServer::start().inspect_err(|why| eprintln!("skipped: {why}"));
    let sshd = sshd.ok()?;
    let head = format!("engine = \"ssh\"\nssh_config = \"{}\"\n", sshd.ssh_config().display());
    let project = project(&head, "m1", &sshd.folder());
    Some((sshd, project))
}

/// A [`project`] whose machine `n1` is a node of Slurm; `None` if that is impossible.
fn by_slurm() -> Option<(SlurmCluster, TempProject)> {
    let slurm = SlurmCluster::start().inspect_err(|why| eprintln!("skipped: {why}"));
    let slurm = slurm.ok()?;
    let project = project("engine = \"slurm\"\n", "n1", &slurm.folder());
    let project = project.with_variable("SLURM_CONF", slurm.config_path());
    Some((slurm, project))
}

/// Fields of a process from its state on, proc_pid_stat(5), and its name.
fn stat(process: &Path) -> Option<(String, Vec<String>)> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    let (name, fields) = stat.rsplit_once(')')?;
    let name = name.split_once('(')?.1.to_owned();
    Some((name, fields.split_whitespace().map(str::to_owned).collect()))
}

/// Processor time of a process and of its exited children, in ticks.
fn ticks(process: &Path) -> Option<u64> {
    let (_, fields) = stat(process)?;
    // utime, stime, cutime, cstime.
    let own = fields.get(11..15)?.iter();
    own.map(|own| own.parse::<u64>().ok()).sum()
}

/// All processes with one of these paths in their command line or environment, except what is
/// measured, with their time.
fn processes(paths: &[PathBuf]) -> Vec<(PathBuf, u64)> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let has = |process: &PathBuf| {
        ["cmdline", "environ"].iter().any(|file| {
            let bytes = std::fs::read(process.join(file)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            paths.iter().any(|path| text.contains(&*path.to_string_lossy()))
        })
    };
    let is_measured =
        |process: &PathBuf| stat(process).is_some_and(|(name, _)| name.starts_with("python"));
    let folders = all.map(|entry| entry.path()).filter(has);
    folders
        .filter(|own| !is_measured(own))
        .filter_map(|own| Some((own.clone(), ticks(&own)?)))
        .collect()
}

/// Returns whether a process is on the measuring machine, rather than on the machine of the command
/// or the controller.
fn is_beside(process: &Path, coordinator: u32) -> bool {
    let Some((name, fields)) = stat(process) else {
        return true;
    };
    let is_own = process.ends_with(coordinator.to_string())
        || fields.get(1).is_some_and(|parent| *parent == coordinator.to_string());
    !is_own && name != "slurmctld"
}

/// Waits until a run has started on the machine: its worker has a measured child.
fn await_run(folder: &Path) {
    let measures = |worker: u32| !children(worker, "python").is_empty();
    wait_within(Duration::from_secs(60), || {
        let workers =
            super::fleet_failures::processes(&["worker shard", &folder.to_string_lossy()]);
        workers.into_iter().any(measures)
    });
    // Start-up is over, and the engine is polled at its lowest rate.
    thread::sleep(Duration::from_secs(12));
}

/// Shares of a processor while a run is in progress: of all processes together, and of those on the
/// measuring machine.
fn shares(project: &TempProject, name: &str, paths: &[PathBuf]) -> [f64; 2] {
    let words = ["run", "g", "--runs", "1", "--samples", "1", "--time", "1ms"];
    let mut child = project
        .command(&[&words[..], &["--warmup", "0", "--machines", name]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let own = PathBuf::from(format!("/proc/{}", child.id()));
    await_run(&paths[0]);
    let now = || {
        let coordinator = ticks(&own).map(|ticks| (own.clone(), ticks));
        let mut all = processes(paths);
        all.retain(|(process, _)| *process != own);
        all.into_iter().chain(coordinator).collect::<Vec<_>>()
    };
    let (before, since) = (now(), Instant::now());
    thread::sleep(OBSERVATION_TIME);
    let (after, elapsed) = (now(), since.elapsed());
    assert!(after.len() > 1, "{after:?}");
    let known = |process: &Path| before.iter().find(|(own, _)| own == process);
    let taken = |(process, ticks): &(PathBuf, u64)| {
        ticks - known(process).map_or(0, |(_, before)| *before).min(*ticks)
    };
    let mut shares = [0.0; 2];
    for own in after.iter().filter(|own| taken(own) > 0) {
        let line = std::fs::read(own.0.join("cmdline")).unwrap_or_default();
        let line: String = String::from_utf8_lossy(&line).chars().take(60).collect();
        let taken_s = taken(own) as f64 * TICK_S;
        let is_beside = is_beside(&own.0, child.id());
        let where_it_is = if is_beside { "beside" } else { "elsewhere" };
        println!("  {taken_s:.2} s {where_it_is}: {}", line.replace('\0', " "));
        let share = taken_s / elapsed.as_secs_f64();
        shares[0] += share;
        shares[1] += if is_beside { share } else { 0.0 };
    }
    child.kill().unwrap();
    child.wait().unwrap();
    shares
}

/// Checks a fleet of one machine whose files are in these places.
fn expect_quiet(engine: &str, project: &TempProject, name: &str, paths: &[PathBuf]) {
    let [all, beside] = shares(project, name, paths);
    println!("{engine}: {:.2}% of a processor, {:.2}% beside the run", 100.0 * all, 100.0 * beside);
    assert!(all <= MAX_SHARE && beside <= MAX_SHARE_ON_MACHINE, "{all} {beside}");
}

#[test]
fn overhead_by_ssh_is_at_most_a_hundredth_of_a_processor() {
    let Some(_) = find_tool(&["python3"]) else {
        return;
    };
    if let Some((sshd, project)) = by_ssh() {
        expect_quiet("ssh", &project, "m1", &[sshd.folder(), sshd.ssh_config()]);
    }
}

#[test]
fn overhead_by_slurm_is_at_most_a_hundredth_of_a_processor() {
    let Some(_) = find_tool(&["python3"]) else {
        return;
    };
    if let Some((slurm, project)) = by_slurm() {
        expect_quiet("Slurm", &project, "n1", &[slurm.folder(), slurm.config_path()]);
    }
}

/// Iterations per second in a session of the busy benchmark, from 120 samples of a millisecond.
fn busy_rates(project: &TempProject, more: &[&str]) -> Vec<f64> {
    let words = ["run", "i", "--runs", "2", "--samples", "60", "--warmup", "0"];
    let words = [&words[..], &["--time", "1ms"], more].concat();
    project.run(&words).expect_status(0);
    let exported = project.run(&["report", "--export", "jsonl"]).stdout;
    let lines = exported.lines().filter(|line| line.starts_with("{\"run\""));
    let runs = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let samples = runs.flat_map(|run| run["run"]["samples"].as_array().unwrap().clone());
    let rates = samples.filter(|sample| sample["metric"] == "throughput");
    rates.map(|sample| sample["value"].as_f64().unwrap()).collect()
}

/// Asserts that the fastest millisecond on a machine of a fleet is as fast as the fastest without
/// one, measured in turn. Neither contains the processor time of others, however busy the machine
/// is; the fleet's own is checked above.
fn expect_as_quick(engine: &str, project: &TempProject, name: &str) {
    let mut quickest = [0.0_f64; 2];
    for pair in 1..=MAX_PAIRS {
        for (quickest, more) in quickest.iter_mut().zip([&[][..], &["--machines", name]]) {
            *quickest = busy_rates(project, more).into_iter().fold(*quickest, f64::max);
        }
        let slower = quickest[0] / quickest[1] - 1.0;
        println!("{engine}, {pair} sessions each: {:+.2}% slower", 100.0 * slower);
        if pair >= MIN_PAIRS && slower.abs() <= MAX_SLOWDOWN {
            return;
        }
    }
    panic!("{engine}: {quickest:?} iterations/s without and with a fleet");
}

/// Asserts that the kernel treats a measured process on a machine of a fleet as it does without one.
fn expect_treated_alike(project: &TempProject, name: &str) {
    let recorded = |more: &[&str]| {
        let words = ["run", "j", "--runs", "1", "--samples", "1", "--warmup", "0"];
        let words = [&words[..], &["--time", "1ms"], more].concat();
        project.run(&words).expect_status(0);
        let path = project.path("record.json");
        let record = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        serde_json::from_str::<serde_json::Value>(&record).unwrap()
    };
    assert_eq!(recorded(&["--machines", name]), recorded(&[]));
}

#[test]
fn the_kernel_treats_a_measured_process_the_same_with_a_fleet() {
    let Some(_) = find_tool(&["python3"]) else {
        return;
    };
    if let Some((_sshd, project)) = by_ssh() {
        expect_treated_alike(&project, "m1");
    }
    if let Some((_slurm, project)) = by_slurm() {
        expect_treated_alike(&project, "n1");
    }
}

/// The host's speed varies by more than the difference that is looked for, so this is a measurement
/// and not an everyday test.
#[test]
#[ignore = "measures"]
fn busy_processes_run_as_fast_as_without_a_fleet() {
    let Some(_) = find_tool(&["python3"]) else {
        return;
    };
    if let Some((_sshd, project)) = by_ssh() {
        expect_as_quick("ssh", &project, "m1");
    }
    if let Some((_slurm, project)) = by_slurm() {
        expect_as_quick("Slurm", &project, "n1");
    }
}

/// Duration of a session with this many empty runs, in seconds.
fn taken_s(project: &TempProject, runs: u32, more: &[&str]) -> f64 {
    let runs = runs.to_string();
    let words = ["run", "h", "--variant", "a=", "--runs", &runs];
    let begin = Instant::now();
    project.run(&[&words[..], more].concat()).expect_status(0);
    begin.elapsed().as_secs_f64()
}

/// Milliseconds of each additional run.
fn each_ms(project: &TempProject, more: &[&str]) -> f64 {
    let [few, many] = [200, 2200].map(|runs| taken_s(project, runs, more));
    (many - few) * 1000.0 / 2000.0
}

/// Start of the first run of the last session, in seconds since 1970.
fn first_run_s(project: &TempProject) -> f64 {
    let exported = project.run(&["report", "--export", "jsonl"]).stdout;
    let runs = exported.lines().filter(|line| line.starts_with("{\"run\""));
    let runs = runs.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let began = runs.map(|line| line["run"]["started_unix_ms"].as_i64().unwrap());
    began.min().unwrap() as f64 / 1000.0
}

/// `cargo test -p speedwell --test it --features http3,postgres -- fleet_quiet --include-ignored --nocapture`
#[test]
#[ignore = "measures"]
fn the_first_run_comes_soon_and_each_costs_little() {
    if let Some((_sshd, project)) = by_ssh() {
        let alone = each_ms(&project, &[]);
        let there = each_ms(&project, &["--machines", "m1"]);
        println!("a run of nothing: {alone:.2} ms here, {there:.2} ms by ssh");
        assert!(there - alone <= MAX_ADDED_MS, "{alone} {there}");
    }
    if let Some((slurm, project)) = by_slurm() {
        taken_s(&project, 4, &["--machines", "n1"]);
        let begun = slurm.run_program("squeue", &["-h", "-t", "all", "-o", "%S"]);
        let date = std::process::Command::new("date").args(["+%s", "-d", &begun]).output();
        let begun: f64 = String::from_utf8(date.unwrap().stdout).unwrap().trim().parse().unwrap();
        // Slurm reports whole seconds, so this is an upper bound.
        let after = first_run_s(&project) - begun;
        println!("the first run began {after:.1} s at most after Slurm began the job");
        assert!(after <= 2.0, "{after}");
        let there = each_ms(&project, &["--machines", "n1"]);
        println!("a run of nothing: {there:.2} ms by Slurm");
    }
}
