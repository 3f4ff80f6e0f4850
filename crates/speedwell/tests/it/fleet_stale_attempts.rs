//! Two workers with the same work: the coordinator presumes the first one dead, although it is
//! alive, and gives its work to a second. Each block is stored once; blocks that the first one
//! closes afterwards are rejected and reported.
//!
//! On one machine, fencing prevents this: the machine's lock, and before every block the first
//! worker's check whether it was replaced. So here each worker has a separate lock, as jobs in containers
//! may have, and the first one is stopped in the middle of a block until the second one has closed
//! the same block.

use super::busy::wait_until;
use super::fleet_failures::{by_slot, kill, processes, session};
use super::project::TempProject;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

const MEASURE: [&str; 8] =
    ["run", "g", "--variant=old=", "--variant=new=", "--runs", "16", "--seed", "7"];
/// Gives a process a private folder for locks.
const OWN_LOCKS: &str = "mount -t tmpfs tmpfs /run/lock";
/// Cases of eight blocks, with slow runs that differ.
const BENCHMARK: &str = "\
case n=0
* sleep:50,memory=1 sleep:50,memory=2 sleep:50,memory=3
case n=1
* sleep:50,memory=4 sleep:50,memory=5
";

/// A fleet of machines of these names, which are this one, with a lock each: a worker is the child
/// of a shell that waits for it. `None` where workers cannot have private locks.
pub(super) fn of_machines(benchmark: &str, names: &[&str]) -> Option<TempProject> {
    let tried = Command::new("unshare")
        .args(["--mount", "sh", "-c", OWN_LOCKS])
        .stderr(Stdio::null())
        .status();
    if !tried.is_ok_and(|status| status.success()) {
        eprintln!("skipped: a process cannot have a folder for locks of its own here");
        return None;
    }
    let program = env!("CARGO_BIN_EXE_speedwell");
    let carrier = format!(
        "#!/bin/sh\nunshare --mount sh -c '{OWN_LOCKS} && exec \"$0\" \"$@\"' '{program}' \"$@\" &\nwait $!\n"
    );
    let project =
        TempProject::new().with("g/slow.fake", benchmark).with_program("carrier", &carrier);
    let (folder, carrier) = (project.path("fleet"), project.path("carrier"));
    let mut file = format!("engine = \"local\"\nfolder = \"{}\"\n", folder.display());
    for name in names {
        file += &format!(
            "[[machine]]\nname = \"{name}\"\nlabels = [\"lab\"]\nbinary = \"{}\"\n",
            carrier.display()
        );
    }
    Some(project.with("fleet.toml", &file))
}

/// Output of a command, as it is written.
struct CommandOutput {
    lines: Arc<Mutex<Vec<String>>>,
    reading: JoinHandle<()>,
}

impl CommandOutput {
    fn read_from(child: &mut Child) -> CommandOutput {
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&lines);
        let reading = thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        });
        CommandOutput { lines, reading }
    }

    fn has(&self, text: &str) -> bool {
        self.lines.lock().unwrap().iter().any(|line| line.contains(text))
    }

    /// All of it, once the command has exited.
    fn whole_output(self) -> String {
        self.reading.join().unwrap();
        let lines = self.lines.lock().unwrap();
        lines.join("\n")
    }
}

/// The spool of an attempt at the only shard.
fn spool(project: &TempProject, attempt: u32) -> PathBuf {
    let sessions = fs::read_dir(project.path("fleet/sessions")).into_iter();
    let mut sessions = sessions.flatten().flatten();
    let session = sessions.next().map(|entry| entry.path());
    let session = session.unwrap_or_default();
    session.join(format!("spools/0.{attempt}.jsonl"))
}

/// The blocks that an attempt has closed so far, as written in its spool.
fn closed_blocks(project: &TempProject, attempt: u32) -> Vec<(u64, u64)> {
    let text = fs::read_to_string(spool(project, attempt)).unwrap_or_default();
    let done = text.lines().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let end = &line["block_done"];
        Some((end["job"].as_u64()?, end["block"].as_u64()?))
    });
    done.collect()
}

/// The workers of a project, without the shells around them.
fn workers(project: &TempProject) -> Vec<u32> {
    let found = processes(&["worker shard", &project.path("fleet").to_string_lossy()]);
    let program = Path::new(env!("CARGO_BIN_EXE_speedwell"));
    let is_one = |process: &u32| {
        fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|own| own == program)
    };
    found.into_iter().filter(is_one).collect()
}

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
}

/// The parent of a process.
fn parent_of(process: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // proc_pid_stat(5): `NUMBER (NAME) STATE PARENT`.
    let behind_name = stat.rsplit(')').next().unwrap();
    let parent = behind_name.split_whitespace().nth(1).unwrap();
    parent.parse().unwrap()
}

/// Stops a worker in the middle of a block other than its first; returns the blocks that it had
/// closed before.
fn stop_in_a_block(project: &TempProject, worker: u32) -> Vec<(u64, u64)> {
    let sleeps = || {
        let place = fs::read_to_string(format!("/proc/{worker}/wchan")).unwrap_or_default();
        place.contains("nanosleep")
    };
    loop {
        wait_until(|| !closed_blocks(project, 0).is_empty());
        let before = closed_blocks(project, 0);
        // It is within a run, so it has already checked whether it was replaced.
        wait_until(sleeps);
        signal(worker, Signal::STOP);
        wait_until(|| {
            let stat = fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
            stat.contains(") T ")
        });
        if closed_blocks(project, 0) == before {
            assert!(before.len() < 15, "nothing is left to be done");
            return before;
        }
        signal(worker, Signal::CONT);
    }
}

#[test]
fn a_worker_that_was_taken_for_dead_is_refused() {
    let Some(project) = of_machines(BENCHMARK, &["lab-1"]) else {
        return;
    };
    let mut command = project.command(&[&MEASURE[..], &["--machines", "lab-1"]].concat());
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let said = CommandOutput::read_from(&mut child);
    wait_until(|| !workers(&project).is_empty());
    let first = workers(&project)[0];
    let before = stop_in_a_block(&project, first);
    kill(parent_of(first));
    wait_until(|| !closed_blocks(&project, 1).is_empty());
    let block = closed_blocks(&project, 1)[0];
    let second = workers(&project).into_iter().find(|own| *own != first);
    // Both are alive, and both have done the same work. The second one is paused, so that it is not
    // done before the first one continues.
    let second = second.unwrap();
    signal(second, Signal::STOP);
    signal(first, Signal::CONT);
    wait_until(|| said.has("Rejected block"));
    assert_eq!(closed_blocks(&project, 0), [&before[..], &[block]].concat());
    signal(second, Signal::CONT);
    let status = child.wait().unwrap();
    let said = said.whole_output();
    assert!(status.success(), "{said}");
    let refused = format!(
        "Rejected block {} of case {} from lab-1: attempt 0 had been replaced by another one.",
        block.1, block.0
    );
    assert!(said.contains(&refused) && said.contains("(attempt 1)"), "{said}");
    assert_eq!(said.matches("Rejected block").count(), 1, "{said}");
    let found = session(&project);
    let alone = TempProject::new().with("g/slow.fake", BENCHMARK);
    alone.run(&MEASURE).expect_status(0);
    assert_eq!(by_slot(&found), by_slot(&session(&alone)));
    wait_until(|| workers(&project).is_empty());
}
