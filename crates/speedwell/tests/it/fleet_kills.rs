//! Kills at random moments while Slurm's machines measure: no closed block is lost or stored twice,
//! and the session equals that of an undisturbed machine.

use super::busy::wait_within;
use super::fleet_failures::{
    PATIENCE, by_slot, by_slurm, kill, processes, session, start_measuring,
};
use super::project::TempProject;
use serde_json::Value;
use speedwell_fixtures::clusters::{NODE_NAMES, SlurmCluster};
use speedwell_model::Session;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Which process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KillTarget {
    Coordinator,
    Worker,
    StepDaemon,
    NodeDaemon,
    Controller,
}

const VICTIMS: [KillTarget; 5] = [
    KillTarget::Coordinator,
    KillTarget::Worker,
    KillTarget::StepDaemon,
    KillTarget::NodeDaemon,
    KillTarget::Controller,
];

/// Latest time of a kill: about the length of a session.
const LATEST_MS: u64 = 3_000;

/// Number of blocks of a case, each with two runs of a side.
const BLOCKS: u32 = 4;

/// Deterministic pseudorandom numbers (Marsaglia's xorshift of 64 bits).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Kills one of these, if one is alive; returns whether one was.
fn kill_one(slurm: &SlurmCluster, victim: KillTarget, coordinator: u32, choice: usize) -> bool {
    let folder = slurm.folder();
    let folder = folder.to_string_lossy();
    let node = NODE_NAMES[choice % NODE_NAMES.len()];
    let found: Vec<u32> = match victim {
        KillTarget::Coordinator => vec![coordinator],
        KillTarget::Worker => processes(&["speedwell worker shard", &folder]),
        KillTarget::StepDaemon => (processes(&["slurmstepd"]).into_iter())
            .filter(|process| has_conf(*process, slurm))
            .collect(),
        KillTarget::NodeDaemon => slurm.daemon_pid(&format!("slurmd-{node}")).into_iter().collect(),
        KillTarget::Controller => slurm.daemon_pid("slurmctld").into_iter().collect(),
    };
    let alive = |process: &&u32| Path::new(&format!("/proc/{process}/exe")).exists();
    let alive: Vec<&u32> = found.iter().filter(alive).collect();
    let Some(&&process) = alive.get(choice % alive.len().max(1)) else {
        return false;
    };
    // It may have just exited.
    let killed = std::panic::catch_unwind(|| kill(process)).is_ok();
    std::thread::sleep(Duration::from_secs(1));
    match victim {
        KillTarget::NodeDaemon => start_again(slurm, "slurmd", &["-N", node]),
        KillTarget::Controller => start_again(slurm, "slurmctld", &[]),
        _ => {}
    }
    killed
}

/// Returns whether a process belongs to this cluster.
fn has_conf(process: u32, slurm: &SlurmCluster) -> bool {
    let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    let conf = slurm.config_path();
    String::from_utf8_lossy(&environment).contains(&*conf.to_string_lossy())
}

fn start_again(slurm: &SlurmCluster, daemon: &str, words: &[&str]) {
    let mut command = slurm.cluster_command(daemon);
    command.arg("-f").arg(slurm.config_path()).args(words);
    let started = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(started.unwrap().success(), "{daemon}");
}

/// Time after which to clear jobs that a killed controller, having lost their end, believes to be
/// running. Left alone it finds out after a minute.
const FORGOTTEN: Duration = Duration::from_secs(3);

/// Waits until all machines are available: killed daemons are back, and nothing is measured. Like
/// an operator, cancels jobs that do not exist.
fn await_all(slurm: &SlurmCluster) {
    let begin = Instant::now();
    let mut is_cleared = false;
    loop {
        let mut asked = slurm.cluster_command("sinfo");
        let asked = asked.args(["-h", "-N", "-t", "idle", "-o", "%N"]).output();
        let idle = String::from_utf8_lossy(&asked.unwrap().stdout).lines().count();
        if idle == NODE_NAMES.len() {
            return;
        }
        let elapsed = begin.elapsed();
        assert!(elapsed < Duration::from_secs(120), "{idle} are idle");
        if elapsed > FORGOTTEN && !is_cleared {
            let mut cancel = slurm.cluster_command("scancel");
            // Retried while there is no controller.
            let done = cancel.args(["--me", "--state=RUNNING"]).output();
            is_cleared = done.is_ok_and(|output| output.status.success());
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// Acts as an operator until it is over: a killed controller may assign a job number twice, after
/// which Slurm drains the machines until they are resumed.
fn act_as_operator(slurm: &SlurmCluster, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let mut asked = slurm.cluster_command("sinfo");
        let asked = asked.args(["-h", "-N", "-t", "drain", "-o", "%N %E"]);
        let said = asked.output().map(|output| output.stdout);
        let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
        for line in said.lines() {
            if let Some((node, "Duplicate jobid")) = line.split_once(' ') {
                let mut resume = slurm.cluster_command("scontrol");
                let words = ["update", &format!("nodename={node}"), "state=resume"];
                // Retried while there is no controller.
                let _ = resume.args(words).output();
            }
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Start times of the runs of each block, for each time that it was measured and closed, by any
/// attempt. An attempt that inherits a closed block has the same runs.
fn closed_blocks(slurm: &SlurmCluster, id: &str) -> BTreeMap<(u64, u64), BTreeSet<Vec<i64>>> {
    let spools = slurm.folder().join("sessions").join(id).join("spools");
    let files = std::fs::read_dir(spools).unwrap().flatten();
    let mut closed: BTreeMap<(u64, u64), BTreeSet<Vec<i64>>> = BTreeMap::new();
    for file in files.filter(|file| file.path().extension().is_some_and(|own| own == "jsonl")) {
        let text = std::fs::read_to_string(file.path()).unwrap_or_default();
        let mut begun = Vec::new();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_default();
            begun.extend(line["run"]["started_unix_ms"].as_i64());
            let end = &line["block_done"];
            if let (Some(job), Some(block)) = (end["job"].as_u64(), end["block"].as_u64()) {
                let runs = std::mem::take(&mut begun);
                closed.entry((job, block)).or_default().insert(runs);
            }
        }
    }
    assert!(closed.values().flatten().any(|runs| !runs.is_empty()));
    closed
}

/// Number of runs of each block of a case and a variant. A machine that yielded nothing twice in a
/// row has lost its cases to another one, where their blocks have other numbers.
fn by_block(session: &Session) -> BTreeMap<(String, String, u32), usize> {
    let mut blocks = BTreeMap::new();
    // No slot occurs twice.
    assert_eq!(by_slot(session).len(), session.runs.len());
    for run in &session.runs {
        let block = run.block % BLOCKS;
        let whose = (run.case.id(), run.variant.to_string(), block);
        *blocks.entry(whose).or_insert(0) += 1;
    }
    blocks
}

/// Resumes a session; returns whether it exists, which it may not if its coordinator was killed
/// early.
fn resume_session(project: &TempProject, slurm: &SlurmCluster, killed_after: Duration) -> bool {
    let mut again = project.command(&["run", "--resume", "@latest"]);
    let again = again.env("SLURM_CONF", slurm.config_path()).output().unwrap();
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    if said.contains("no session") {
        return false;
    }
    // It may have ended just before the kill.
    let is_done = again.status.success() || said.contains("is complete: nothing to resume");
    assert!(is_done, "after {killed_after:?}: {said}");
    true
}

/// Kills this often, once per session. The content of each slot is compared with a session of this
/// machine alone.
fn kill_at_random_moments(kills: u32, seed: u64) {
    let Some((slurm, undisturbed)) = by_slurm() else {
        return;
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| act_as_operator(&slurm, &is_over));
        let done = AssertUnwindSafe(|| kill_and_compare(&slurm, &undisturbed, kills, seed));
        let done = std::panic::catch_unwind(done);
        is_over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn kill_and_compare(slurm: &SlurmCluster, undisturbed: &TempProject, kills: u32, seed: u64) {
    let alone = TempProject::new()
        .with("g/slow.fake", &std::fs::read_to_string(undisturbed.path("g/slow.fake")).unwrap());
    assert!(start_measuring(&alone, None, &[]).wait().unwrap().success());
    let alone = session(&alone);
    let fleet = std::fs::read_to_string(undisturbed.path("fleet.toml")).unwrap();
    let benchmark = std::fs::read_to_string(undisturbed.path("g/slow.fake")).unwrap();
    let mut state = seed;
    let mut told: BTreeMap<KillTarget, u32> = BTreeMap::new();
    let mut killed = 0;
    while killed < kills {
        let project = TempProject::new().with("fleet.toml", &fleet).with("g/slow.fake", &benchmark);
        await_all(slurm);
        let victim = VICTIMS[next(&mut state) as usize % VICTIMS.len()];
        let after = Duration::from_millis(next(&mut state) % LATEST_MS);
        let choice = next(&mut state) as usize >> 8;
        let child = start_measuring(&project, Some(slurm), &["--machines", "lab"]);
        std::thread::sleep(after);
        let hit = kill_one(slurm, victim, child.id(), choice);
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        if !said.is_empty() {
            println!("{victim:?} after {after:?}:\n{said}");
        }
        if !done.status.success() {
            let resumed = resume_session(&project, slurm, after);
            // Without a controller, the machines are unknown and no work is accepted, which is
            // reported immediately.
            assert!(
                matches!(victim, KillTarget::Coordinator | KillTarget::Controller),
                "{victim:?} after {after:?}: {said}"
            );
            if !resumed {
                continue;
            }
        }
        let found = session(&project);
        let is_moved = said.contains("are restarted on");
        if is_moved {
            assert_eq!(by_block(&found), by_block(&alone), "{victim:?}: {said}");
        } else {
            assert_eq!(by_slot(&found), by_slot(&alone), "{victim:?}: {said}");
        }
        let closed = closed_blocks(slurm, &found.id);
        let is_once = closed.values().all(|times| times.len() == 1);
        assert!(is_once, "{victim:?}: closed blocks were lost: {closed:?}");
        if hit {
            *told.entry(victim).or_default() += 1;
            killed += 1;
            println!("{killed} kills; the last one: {victim:?} after {after:?}");
        }
    }
    for (victim, count) in told {
        println!("{victim:?}: {count} kills");
    }
}

/// Starts a session on one machine, with some blocks stored, whose job has lost its step daemon.
fn without_step_daemon(slurm: &SlurmCluster, project: &TempProject) -> Child {
    let child = start_measuring(project, Some(slurm), &["--machines", "n1"]);
    wait_within(PATIENCE, || project.stored_runs() > 0);
    let daemons = processes(&["slurmstepd"]);
    let own = daemons.into_iter().find(|own| has_conf(*own, slurm));
    kill(own.expect("the job has a step daemon"));
    child
}

#[test]
fn blocks_closed_by_a_worker_that_outlives_its_job_are_not_repeated() {
    let Some((slurm, project)) = by_slurm() else {
        return;
    };
    // The worker's third run takes until the loss is detected.
    let detected = project.path("detected");
    let benchmark = std::fs::read_to_string(project.path("g/slow.fake")).unwrap();
    let waits = benchmark.replace("1 2 3", &format!("1 await:{} 3", detected.display()));
    let project = project.with("g/slow.fake", &waits);
    let mut child = without_step_daemon(&slurm, &project);
    // The worker cannot be notified.
    let jobs = slurm.run_program("squeue", &["-h", "-t", "R", "-o", "%i"]);
    slurm.run_program("scancel", &[&jobs]);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("(attempt 1)")), "{:?}", child.wait_with_output());
    std::fs::write(detected, "").unwrap();
    let others: Vec<String> = lines.collect();
    assert!(child.wait().unwrap().success(), "{others:?}");
    let found = session(&project);
    assert_eq!(by_slot(&found).len(), 6 * 2 * 8);
    let closed = closed_blocks(&slurm, &found.id);
    assert!(closed.values().all(|times| times.len() == 1), "{closed:?}");
}

#[test]
fn a_job_that_nobody_watches_over_gives_its_machine_back() {
    let Some((slurm, project)) = by_slurm() else {
        return;
    };
    let child = without_step_daemon(&slurm, &project);
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(slurm.run_program("squeue", &["-h", "-t", "PD,R", "-o", "%i"]), "");
}

#[test]
fn a_kill_at_a_random_moment_loses_nothing() {
    kill_at_random_moments(2, 0x5eed);
}

/// `cargo test -p speedwell --test it --features http3,postgres -- a_hundred_kills --ignored --nocapture`
#[test]
#[ignore = "takes a quarter of an hour"]
fn a_hundred_kills_at_random_moments_lose_nothing() {
    kill_at_random_moments(100, 2026);
}
