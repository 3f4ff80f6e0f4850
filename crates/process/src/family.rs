//! Which processes belong to a child, and what they cost: the child's descendants and the members
//! of its process group, as /proc shows them now.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// What /proc/PID/stat says (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: i32,
    group: i32,
    /// Its own processor time, and that of children it waited for.
    own_ticks: u64,
    waited_ticks: u64,
}

/// The processes of the child `root` that are alive, itself included.
pub fn family_of(root: i32) -> Vec<i32> {
    members(&all(), root)
}

/// The living processes of several families; without any, the machine is not looked at.
pub(super) fn families_of(roots: &[i32]) -> BTreeSet<i32> {
    if roots.is_empty() {
        return BTreeSet::new();
    }
    let all = all();
    roots.iter().flat_map(|root| members(&all, *root)).collect()
}

/// Processor time that the family has used so far, in nanoseconds, ended members aside whose parent
/// has not waited for them. `None` when nobody is left.
pub fn cpu_ns_of(root: i32) -> Option<u64> {
    let all = all();
    let family = members(&all, root);
    // SAFETY: sysconf only reads a setting.
    let ticks_per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
    if family.is_empty() || ticks_per_second == 0 {
        return None;
    }
    let in_ns = |ticks: u64| ticks.saturating_mul(1_000_000_000) / ticks_per_second;
    let spent = family.iter().map(|pid| {
        let stat = &all[pid];
        clock_ns_of(*pid).unwrap_or_else(|| in_ns(stat.own_ticks)) + in_ns(stat.waited_ticks)
    });
    Some(spent.sum())
}

/// The processor time of one process, whose ended threads count, too. Its clock is far finer than the ticks in
/// /proc, which last 10 ms (clock_getcpuclockid(3)).
fn clock_ns_of(pid: i32) -> Option<u64> {
    let mut clock = 0;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both pointers are valid for their calls, which only write to them.
    let is_read = unsafe {
        libc::clock_getcpuclockid(pid, &mut clock) == 0
            && libc::clock_gettime(clock, &mut time) == 0
    };
    is_read.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The largest resident memory that each living member of the family has had so far, added up, in bytes.
pub fn peak_rss_bytes_of(root: i32) -> Option<u64> {
    let peaks = family_of(root).into_iter().filter_map(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    });
    Some(peaks.sum()).filter(|&bytes| bytes > 0)
}

/// What a process calls itself.
pub fn name_of(pid: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Processes in words, each once: `'node' (process 7), process 9`.
pub fn names_of(pids: &[i32]) -> String {
    let pids: BTreeSet<i32> = pids.iter().copied().collect();
    let names: Vec<String> = pids
        .iter()
        .map(|pid| match name_of(*pid) {
            Some(name) => format!("'{name}' (process {pid})"),
            None => format!("process {pid}"),
        })
        .collect();
    if names.is_empty() {
        "a process that may not be looked at".to_owned()
    } else {
        names.join(", ")
    }
}

fn all() -> BTreeMap<i32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((pid, stat(&text)?))
        })
        .collect()
}

/// The name of a process stands in brackets and may contain anything, brackets too.
fn stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let ended = matches!(fields.first(), Some(&"Z" | &"X"));
    (!ended).then_some(Stat {
        parent: number(1)? as i32,
        group: number(2)? as i32,
        // In user mode and in the kernel.
        own_ticks: number(11)? + number(12)?,
        waited_ticks: number(13)? + number(14)?,
    })
}

fn members(all: &BTreeMap<i32, Stat>, root: i32) -> Vec<i32> {
    let descends = |pid: i32| {
        let mut at = pid;
        // Nobody has more ancestors than there are processes, whatever changed meanwhile.
        for _ in 0..all.len() {
            if at == root {
                return true;
            }
            match all.get(&at) {
                Some(stat) => at = stat.parent,
                None => return false,
            }
        }
        false
    };
    let belongs = |(pid, stat): (&i32, &Stat)| stat.group == root || descends(*pid);
    all.iter()
        .filter(|(pid, stat)| belongs((pid, stat)))
        .map(|(pid, _)| *pid)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_descendants_and_members_of_the_group() {
        let stat = |parent, group| Stat {
            parent,
            group,
            own_ticks: 0,
            waited_ticks: 0,
        };
        let all = BTreeMap::from([
            (1, stat(0, 1)),
            (10, stat(1, 10)),
            (11, stat(10, 10)),
            (12, stat(11, 12)),
            // An orphan of the family that stayed in its group, and a stranger.
            (13, stat(1, 10)),
            (20, stat(1, 20)),
        ]);
        assert_eq!(members(&all, 10), [10, 11, 12, 13]);
        assert!(members(&all, 99).is_empty());
    }

    #[test]
    fn odd_names_do_not_shift_the_fields() {
        let text = "7 (a) (b c) S 3 5 5 0 -1 0 0 0 0 0 10 4 1 2 20 0";
        let expected = Stat {
            parent: 3,
            group: 5,
            own_ticks: 14,
            waited_ticks: 3,
        };
        assert_eq!(super::stat(text), Some(expected));
        assert_eq!(super::stat("7 (a) Z 3 5 5 0 -1 0 0 0 0 0 1 1 1 1"), None);
    }

    #[test]
    fn this_process_is_found_with_its_time() {
        let own = std::process::id() as i32;
        assert!(family_of(own).contains(&own));
        assert!(cpu_ns_of(own).is_some() && name_of(own).is_some());
    }
}
