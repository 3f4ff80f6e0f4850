//! Inspects processes as the kernel shows them: their identity, and the tree and resource usage of
//! a child. Also kills the orphans that a child left behind.
//!
//! A child's process group is killed as a whole, but a descendant, such as a daemon, may have left
//! the group. If the parent of the descendant ends, the descendant is an orphan. As a "subreaper",
//! we become the parent of such orphans, and so learn of them. Start at [`tree_of`],
//! [`kill_leftovers`] and [`ProcessIdentity::current_process`].

use crate::process::interrupt::install_handlers;
use crate::process::scheduling::cpu_ns_of_process;
use rustix::param::clock_ticks_per_second;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper,
    waitpid,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io};

/// Fields of /proc/PID/stat (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessStat {
    parent: i32,
    group: i32,
    /// Processor time of the process itself.
    cpu_ticks: u64,
    /// Processor time of the ended children that the process has waited for.
    reaped_children_ticks: u64,
}

/// Returns the living processes in the tree of `root`: `root`, its descendants and its process
/// group.
pub fn tree_of(root: i32) -> Vec<i32> {
    tree_members(&read_processes(), root)
}

/// Returns the living processes of several trees. Does not read /proc if there are no roots.
pub(super) fn trees_of(roots: &[i32]) -> BTreeSet<i32> {
    if roots.is_empty() {
        return BTreeSet::new();
    }
    let processes = read_processes();
    roots.iter().flat_map(|root| tree_members(&processes, *root)).collect()
}

/// Returns the processor time, in nanoseconds, of the living processes in the tree and of the ended
/// children that they have waited for. `None` if no process of the tree is alive.
pub fn cpu_ns_of(root: i32) -> Option<u64> {
    let processes = read_processes();
    let tree = tree_members(&processes, root);
    let cpu_times = tree.iter().map(|pid| {
        let stat = &processes[pid];
        own_cpu_ns(*pid, stat) + ns_of_ticks(stat.reaped_children_ticks)
    });
    (!tree.is_empty()).then(|| cpu_times.sum())
}

/// Returns the processor time, in nanoseconds, of each process that does not descend from this one.
pub fn cpu_ns_of_others() -> BTreeMap<i32, u64> {
    let processes = read_processes();
    let own_pid = ProcessIdentity::current_process().pid;
    let others = processes.iter().filter(|(pid, _)| !is_descendant(&processes, **pid, own_pid));
    others.map(|(pid, stat)| (*pid, own_cpu_ns(*pid, stat))).collect()
}

/// Returns the processor time of the process without its children, in nanoseconds. If the clock of
/// the process cannot be read, the result has only the resolution of the ticks in `stat`.
fn own_cpu_ns(pid: i32, stat: &ProcessStat) -> u64 {
    cpu_ns_of_process(pid).unwrap_or_else(|| ns_of_ticks(stat.cpu_ticks))
}

fn ns_of_ticks(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000) / clock_ticks_per_second().max(1)
}

/// Sums the peak resident memory of each living member of the tree, in bytes.
pub fn peak_rss_bytes_of(root: i32) -> Option<u64> {
    let peaks = tree_of(root).into_iter().filter_map(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    });
    Some(peaks.sum()).filter(|&bytes| bytes > 0)
}

/// Returns how often the main thread of a process was moved to another processor. Only some kernels
/// report this number (sched(7), `CONFIG_SCHED_DEBUG`).
pub(super) fn migrations_of(pid: Pid) -> Option<u64> {
    let mut file = fs::File::open(format!("/proc/{}/sched", pid.as_raw_pid())).ok()?;
    // One page is enough, and every further read would slow down each run.
    let mut text = [0; 4096];
    let length = file.read(&mut text).ok()?;
    let text = str::from_utf8(&text[..length]).ok()?;
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("se.nr_migrations"))?;
    line.trim_start_matches([' ', ':']).trim().parse().ok()
}

/// Returns the living descendants of this process.
pub(super) fn descendants() -> Vec<i32> {
    let processes = read_processes();
    let own_pid = ProcessIdentity::current_process().pid;
    let is_below = |pid: &i32| *pid != own_pid && is_descendant(&processes, *pid, own_pid);
    processes.keys().copied().filter(is_below).collect()
}

/// Returns the command name of a process.
pub fn name_of(pid: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Describes processes, without duplicates: `'node' (process 7), process 9`.
pub fn names_of(pids: &[i32]) -> String {
    if pids.is_empty() {
        return "a process that cannot be inspected".to_owned();
    }
    let describe = |pid: &i32| match name_of(*pid) {
        Some(name) => format!("'{name}' (process {pid})"),
        None => format!("process {pid}"),
    };
    let pids: BTreeSet<i32> = pids.iter().copied().collect();
    pids.iter().map(describe).collect::<Vec<_>>().join(", ")
}

fn read_processes() -> BTreeMap<i32, ProcessStat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((pid, parse_stat(&text)?))
    });
    processes.collect()
}

/// Parses a stat line. The name is in parentheses and may itself contain parentheses.
fn parse_stat(text: &str) -> Option<ProcessStat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let ended = matches!(fields.first(), Some(&"Z" | &"X"));
    (!ended).then_some(ProcessStat {
        parent: number(1)? as i32,
        group: number(2)? as i32,
        // Time in user mode plus time in kernel mode.
        cpu_ticks: number(11)? + number(12)?,
        reaped_children_ticks: number(13)? + number(14)?,
    })
}

/// Whether the stat line is that of a thread that is running or waiting for a processor. The state
/// is `R` in both cases (proc_pid_stat(5)).
pub(super) fn is_runnable(stat: &str) -> bool {
    let after_name = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    after_name.trim_start().starts_with('R')
}

fn is_descendant(processes: &BTreeMap<i32, ProcessStat>, pid: i32, root: i32) -> bool {
    let mut current = pid;
    // The tree may change in the meantime, so the number of steps is limited. No process has more
    // ancestors than there are processes.
    for _ in 0..processes.len() {
        if current == root {
            return true;
        }
        match processes.get(&current) {
            Some(stat) => current = stat.parent,
            None => return false,
        }
    }
    false
}

fn tree_members(processes: &BTreeMap<i32, ProcessStat>, root: i32) -> Vec<i32> {
    let belongs = |(pid, stat): (&i32, &ProcessStat)| {
        stat.group == root || is_descendant(processes, *pid, root)
    };
    processes.iter().filter(|(pid, stat)| belongs((pid, stat))).map(|(pid, _)| *pid).collect()
}

static ADOPTING: AtomicBool = AtomicBool::new(false);

/// Makes this process the parent of orphaned descendants (prctl(2), `PR_SET_CHILD_SUBREAPER`).
///
/// The command-line tool calls this function once before measuring. Other programs may prefer not
/// to adopt orphans.
pub fn adopt_orphans() {
    if set_child_subreaper(Some(getpid())).is_ok() {
        ADOPTING.store(true, Ordering::Relaxed);
    }
}

/// Adopts orphans and installs the handlers of interrupts, as every process that measures does.
///
/// # Errors
/// Fails if the handlers could not be installed.
pub fn prepare_to_measure() -> io::Result<()> {
    adopt_orphans();
    install_handlers()
}

/// Kills the process group `group` and every adopted orphan. Returns the names of the orphans and
/// of the `members` of the group.
pub(super) fn kill_leftovers(group: Pid, members: &[i32]) -> BTreeSet<String> {
    // The names are collected first, because the kernel no longer shows them after the kill.
    let is_adopting = ADOPTING.load(Ordering::Relaxed);
    let orphans = if is_adopting { unwatched_children() } else { Vec::new() };
    let living = trees_of(&orphans);
    let leftovers = living.iter().chain(members);
    let mut names: BTreeSet<String> = leftovers.map(|pid| name_or_number(*pid)).collect();
    // An error is ignored, because the group has usually ended already.
    let _ = kill_process_group(group, Signal::KILL);
    if is_adopting {
        names.extend(kill_repeatedly(unwatched_children));
    }
    names
}

/// Kills the processes that `find` returns, until `find` returns none or two seconds have passed.
/// Returns the names of the processes that were alive when they were killed.
fn kill_repeatedly(find: impl Fn() -> Vec<i32>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let deadline = Instant::now() + Duration::from_secs(2);
    // Killing an orphan may make us the parent of its children, so the search is repeated.
    while Instant::now() < deadline {
        let pids = find();
        if pids.is_empty() {
            break;
        }
        for pid in pids {
            let name = name_or_number(pid);
            if kill_and_reap(pid) {
                names.insert(name);
            }
        }
    }
    names
}

fn name_or_number(pid: i32) -> String {
    name_of(pid).unwrap_or_else(|| format!("process {pid}"))
}

/// Tracks orphans: processes that commands have left behind. Orphans become children of this
/// process, but no thread waits on them.
///
/// Orphans that predate the tracking are ignored. When the tracker is dropped, it kills the orphans
/// that [`OrphanTracker::keep_new`] spared. No other thread may start processes while a tracker
/// exists.
#[derive(Debug)]
pub struct OrphanTracker {
    preexisting: BTreeSet<i32>,
    spared: BTreeSet<i32>,
}

impl OrphanTracker {
    /// Starts tracking orphans.
    pub fn start_tracking() -> OrphanTracker {
        adopt_orphans();
        OrphanTracker {
            preexisting: unwatched_children().into_iter().collect(),
            spared: BTreeSet::new(),
        }
    }

    /// Keeps the processes that a command has left behind on purpose, such as a service for later
    /// commands.
    pub fn keep_new(&mut self) {
        self.spared.extend(self.new_orphans());
    }

    /// Kills the processes that a command has left behind, unless they were kept. Returns the
    /// names of the killed processes.
    pub fn kill_new(&self) -> BTreeSet<String> {
        kill_repeatedly(|| self.new_orphans())
    }

    fn new_orphans(&self) -> Vec<i32> {
        let mut orphans = unwatched_children();
        orphans.retain(|pid| !self.preexisting.contains(pid) && !self.spared.contains(pid));
        orphans
    }
}

impl Drop for OrphanTracker {
    fn drop(&mut self) {
        let spared: Vec<i32> = std::mem::take(&mut self.spared).into_iter().collect();
        let services = || unwatched_children().into_iter().filter(|pid| spared.contains(pid));
        kill_repeatedly(|| trees_of(&services().collect::<Vec<_>>()).into_iter().collect());
    }
}

/// Kills and reaps one adopted process. Returns whether the process was alive.
fn kill_and_reap(pid: i32) -> bool {
    let alive = start_ticks(pid).is_some();
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
        let _ = waitpid(Some(pid), WaitOptions::empty());
    }
    alive
}

/// Returns our children that no thread waits on and that are not a [`CompanionProcess`]. Holds the
/// lock that [`spawn_watched`] takes.
///
/// While a thread waits on any child, an orphan may be a descendant of that child. The result is
/// then empty.
fn unwatched_children() -> Vec<i32> {
    let watched = WATCHED.lock();
    if !watched.as_ref().is_ok_and(|watched| watched.is_empty()) {
        return Vec::new();
    }
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lines = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    without_companions(lines.flat_map(|line| {
        line.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
    }))
}

fn without_companions(children: impl Iterator<Item = i32>) -> Vec<i32> {
    let companions = COMPANIONS.lock();
    let is_other = |pid: &i32| companions.as_ref().is_ok_and(|known| !known.contains(pid));
    children.filter(is_other).collect()
}

static COMPANIONS: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// A child that runs alongside the measured processes, such as a connection to another machine.
/// While this value lives, the child does not count as an orphan.
#[derive(Debug)]
pub struct CompanionProcess {
    pid: i32,
}

impl CompanionProcess {
    /// Registers a child that was just started.
    pub fn of(child: &Child) -> CompanionProcess {
        let pid = child.id() as i32;
        if let Ok(mut companions) = COMPANIONS.lock() {
            companions.push(pid);
        }
        CompanionProcess { pid }
    }
}

impl Drop for CompanionProcess {
    fn drop(&mut self) {
        if let Ok(mut companions) = COMPANIONS.lock() {
            companions.retain(|companion| *companion != self.pid);
        }
    }
}

/// Children that some thread is waiting on.
static WATCHED: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Starts and registers a child in one step. Otherwise, another thread could take the child for an
/// orphan.
pub(super) fn spawn_watched(command: &mut Command) -> io::Result<Child> {
    let mut watched =
        WATCHED.lock().map_err(|_| io::Error::other("a thread that waits for a child panicked"))?;
    let child = command.spawn()?;
    watched.push(child.id() as i32);
    Ok(child)
}

/// Unregisters a child after it was reaped.
pub(super) fn unregister(pid: Pid) {
    if let Ok(mut watched) = WATCHED.lock() {
        watched.retain(|&watched_pid| watched_pid != pid.as_raw_pid());
    }
}

/// Identifies a process uniquely on its machine. A process id alone may be reused, but not with the
/// same start time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Machine id, if there is one (machine-id(5)).
    pub machine_id: Option<String>,
    /// Boot id of the kernel (random(4)).
    pub boot_id: Option<String>,
    /// PID namespace of `pid` (pid_namespaces(7)).
    pub pid_namespace: Option<String>,
    /// Process id.
    pub pid: i32,
    /// Start time in ticks since boot.
    pub started_ticks: Option<i64>,
}

impl ProcessIdentity {
    /// Identifies this process.
    pub fn current_process() -> ProcessIdentity {
        let read_line = |file: &str| Some(fs::read_to_string(file).ok()?.trim().to_owned());
        let namespace = fs::read_link("/proc/self/ns/pid").ok();
        let pid = std::process::id() as i32;
        ProcessIdentity {
            machine_id: read_line("/etc/machine-id").filter(|id| !id.is_empty()),
            boot_id: read_line("/proc/sys/kernel/random/boot_id"),
            pid_namespace: namespace.map(|link| link.to_string_lossy().into_owned()),
            pid,
            started_ticks: start_ticks(pid),
        }
    }

    /// Whether the process has ended; `None` if the process belongs to another machine or
    /// container, so that its state is unknown here.
    pub fn has_ended(&self) -> Option<bool> {
        self.has_ended_as_seen_from(&ProcessIdentity::current_process())
    }

    /// Sends the process SIGINT, as Ctrl-C would, if it lives on this machine.
    ///
    /// # Errors
    /// Fails if the process belongs to another user.
    pub fn interrupt(&self) -> io::Result<()> {
        match Pid::from_raw(self.pid) {
            Some(process) if self.has_ended() == Some(false) => {
                Ok(kill_process(process, Signal::INT)?)
            }
            _ => Ok(()),
        }
    }

    fn has_ended_as_seen_from(&self, observer: &ProcessIdentity) -> Option<bool> {
        let are_equal =
            |left: &Option<String>, right: &Option<String>| Some(left.as_ref()? == right.as_ref()?);
        if !are_equal(&self.boot_id, &observer.boot_id)? {
            // A process does not outlive its kernel. Nothing is known about processes of other
            // machines.
            return are_equal(&self.machine_id, &observer.machine_id)?.then_some(true);
        }
        if !are_equal(&self.pid_namespace, &observer.pid_namespace)? {
            return None;
        }
        Some(self.started_ticks.is_none() || start_ticks(self.pid) != self.started_ticks)
    }
}

/// Returns the start time of a living process (proc_pid_stat(5), field 22). An earlier field is the
/// name of the process, which is in parentheses and may contain anything.
fn start_ticks(pid: i32) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let has_ended = matches!(fields.first(), Some(&"Z" | &"X"));
    fields.get(19)?.parse().ok().filter(|_| !has_ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_tree_contains_descendants_and_group_members() {
        let stat =
            |parent, group| ProcessStat { parent, group, cpu_ticks: 0, reaped_children_ticks: 0 };
        let processes = BTreeMap::from([
            (1, stat(0, 1)),
            (10, stat(1, 10)),
            (11, stat(10, 10)),
            (12, stat(11, 12)),
            // Process 13 is an orphan that stayed in the group of its tree; process 20 is
            // unrelated.
            (13, stat(1, 10)),
            (20, stat(1, 20)),
        ]);
        assert_eq!(tree_members(&processes, 10), [10, 11, 12, 13]);
        assert!(tree_members(&processes, 99).is_empty());
    }

    #[test]
    fn odd_names_do_not_shift_the_fields() {
        let text = "7 (a) (b c) S 3 5 5 0 -1 0 0 0 0 0 10 4 1 2 20 0";
        let expected = ProcessStat { parent: 3, group: 5, cpu_ticks: 14, reaped_children_ticks: 3 };
        assert_eq!(super::parse_stat(text), Some(expected));
        assert_eq!(super::parse_stat("7 (a) Z 3 5 5 0 -1 0 0 0 0 0 1 1 1 1"), None);
        assert!(!is_runnable(text) && is_runnable("7 (a) S) R 3 5 5 0"));
    }

    #[test]
    fn companion_processes_are_filtered_out_until_dropped() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        let companion = CompanionProcess::of(&child);
        assert_eq!(without_companions([1, pid, 2].into_iter()), [1, 2]);
        drop(companion);
        assert_eq!(without_companions([1, pid, 2].into_iter()), [1, pid, 2]);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn this_process_is_found_with_its_time() {
        let own_pid = std::process::id() as i32;
        assert!(tree_of(own_pid).contains(&own_pid));
        assert!(cpu_ns_of(own_pid).is_some() && name_of(own_pid).is_some());
    }

    #[test]
    fn a_process_has_ended_once_it_exits_or_its_pid_is_reused() {
        let own = ProcessIdentity::current_process();
        assert_eq!(own.has_ended(), Some(false));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        let child_identity =
            ProcessIdentity { pid, started_ticks: start_ticks(pid), ..own.clone() };
        assert_eq!(child_identity.has_ended(), Some(false));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(child_identity.has_ended(), Some(true));
        let reused =
            ProcessIdentity { started_ticks: own.started_ticks.map(|ticks| ticks - 1), ..own };
        assert_eq!(reused.has_ended(), Some(true));
    }

    #[test]
    fn processes_of_other_machines_and_containers_have_unknown_state() {
        let own =
            ProcessIdentity { machine_id: Some("m".into()), ..ProcessIdentity::current_process() };
        let other = |change: fn(&mut ProcessIdentity)| {
            let mut other = own.clone();
            change(&mut other);
            other.has_ended_as_seen_from(&own)
        };
        assert_eq!(other(|one| one.boot_id = Some("earlier".into())), Some(true));
        assert_eq!(
            other(|one| (one.boot_id, one.machine_id) = (Some("other".into()), Some("n".into()))),
            None
        );
        assert_eq!(other(|one| one.pid_namespace = Some("pid:[1]".into())), None);
        assert_eq!(other(|one| one.boot_id = None), None);
    }
}
