//! Processes that a child left behind.
//!
//! A child's process group is killed as a whole, but a descendant may have left the group (a
//! daemon). As "subreaper" we become the parent of such orphans, so the kernel tells us of them.

use super::family::families_of;
use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static ADOPTING: AtomicBool = AtomicBool::new(false);

/// Makes this process the parent of orphaned descendants (prctl(2), `PR_SET_CHILD_SUBREAPER`).
///
/// Called once by the command before it measures; libraries that embed us may prefer not to.
pub fn adopt_orphans() {
    // SAFETY: prctl with these arguments only sets an attribute of this process.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } == 0 {
        ADOPTING.store(true, Ordering::Relaxed);
    }
}

/// Kills the process group `group` and every adopted orphan; returns how many orphans there were besides the
/// members of the group that are `known`.
pub(super) fn clear(group: i32, known: &[i32]) -> usize {
    // Counted while they live: what is killed with its group is no longer there to be seen.
    let living: BTreeSet<i32> = if ADOPTING.load(Ordering::Relaxed) {
        families_of(&orphans())
    } else {
        BTreeSet::new()
    };
    // SAFETY: kill only sends a signal. The group is that of a child we started ourselves.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    if !ADOPTING.load(Ordering::Relaxed) {
        return 0;
    }
    let is_new = |pid: &i32| !known.contains(pid);
    let mut found = living.iter().copied().filter(is_new).count();
    let deadline = Instant::now() + Duration::from_secs(2);
    // Killing an orphan may hand us its own children, so look again until none is left.
    while Instant::now() < deadline {
        let orphans = orphans();
        if orphans.is_empty() {
            break;
        }
        for pid in orphans {
            found += usize::from(end(pid) && is_new(&pid) && !living.contains(&pid));
        }
    }
    found
}

/// Kills and reaps one adopted process; whether it was still alive.
fn end(pid: i32) -> bool {
    let alive = std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .trim_start()
            .starts_with('Z')
    });
    // SAFETY: the process is our own child by adoption; waitpid gets no pointer.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    alive
}

/// Our children that nobody waits for any more, read under the lock that starting a child holds.
///
/// While others are being listened to, an orphan may belong to one of them, so it is left to the
/// clean-up after the last of them.
fn orphans() -> Vec<i32> {
    let Ok(watched) = WATCHED.lock() else {
        return Vec::new();
    };
    if !watched.is_empty() {
        return Vec::new();
    }
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|line| {
            line.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect()
}

/// Children being listened to, by any thread.
static WATCHED: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Starts a child and registers it in one step, so that no other thread takes it for an orphan.
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut watched = WATCHED
        .lock()
        .map_err(|_| io::Error::other("a listening thread panicked"))?;
    let child = command.spawn()?;
    watched.push(child.id() as i32);
    Ok(child)
}

/// Takes a child off the register after it was reaped.
pub(super) fn forget(pid: i32) {
    if let Ok(mut watched) = WATCHED.lock() {
        watched.retain(|&known| known != pid);
    }
}
