//! Finds other processes that are using the processors now.

use crate::process::{cpu_ns_of_others, name_of};
use std::time::{Duration, Instant};

/// How long processes are observed.
const OBSERVATION_TIME: Duration = Duration::from_millis(100);

/// A process that uses fewer processors than this counts as background activity and is ignored.
const BACKGROUND_CPUS: f64 = 0.1;

/// Maximum number of processes that a description names.
const MAX_NAMED: usize = 3;

/// A process other than this one and its descendants.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OtherProcess {
    /// Name and process ID.
    pub name: String,
    /// How many processors the process uses on average.
    pub cpus: f64,
}

/// Returns the other processes that use the processors now, the busiest first. Takes a tenth of a
/// second.
pub(super) fn find_busiest() -> Vec<OtherProcess> {
    let (begin, before) = (Instant::now(), cpu_ns_of_others());
    std::thread::sleep(OBSERVATION_TIME);
    let (after, elapsed_ns) = (cpu_ns_of_others(), begin.elapsed().as_nanos() as f64);
    let cpus = after.iter().map(|(pid, ns)| {
        let used = ns.saturating_sub(before.get(pid).copied().unwrap_or(0));
        (*pid, (used as f64 / elapsed_ns))
    });
    let mut busy: Vec<(i32, f64)> = cpus.filter(|(_, cpus)| *cpus >= BACKGROUND_CPUS).collect();
    busy.sort_by(|a, b| b.1.total_cmp(&a.1));
    let processes = busy.into_iter().map(|(pid, cpus)| {
        let name = name_of(pid).map_or_else(String::new, |name| format!("'{name}' "));
        OtherProcess { name: format!("{name}(process {pid})"), cpus }
    });
    processes.collect()
}

/// Describes the processes, as in `2 other processes use 1.6 of 2 processors: ...`; `None` if there
/// are none.
pub(super) fn describe_processes(processes: &[OtherProcess], processors: u32) -> Option<String> {
    let used: f64 = processes.iter().map(|process| process.cpus).sum();
    let subject = match processes.len() {
        0 => return None,
        1 => "another process uses".to_owned(),
        count => format!("{count} other processes use"),
    };
    let mut names: Vec<&str> =
        processes.iter().take(MAX_NAMED).map(|process| process.name.as_str()).collect();
    if processes.len() > MAX_NAMED {
        names.push("...");
    }
    let processors = match processors {
        1 => "1 processor".to_owned(),
        count => format!("{count} processors"),
    };
    Some(format!("{subject} {used:.1} of {processors}: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_are_named() {
        let neighbour = |name: &str, cpus| OtherProcess { name: name.to_owned(), cpus };
        assert_eq!(describe_processes(&[], 2), None);
        let two = [neighbour("'a' (process 1)", 0.9), neighbour("'b' (process 2)", 0.7)];
        assert_eq!(
            describe_processes(&two, 2).unwrap(),
            "2 other processes use 1.6 of 2 processors: 'a' (process 1), 'b' (process 2)"
        );
        let four = ["a", "b", "c", "d"].map(|name| neighbour(name, 0.25));
        assert_eq!(
            describe_processes(&four, 1).unwrap(),
            "4 other processes use 1.0 of 1 processor: a, b, c, ..."
        );
    }

    #[test]
    fn our_own_children_are_not_listed() {
        let child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
        let mut child = child.unwrap();
        let child_mark = format!("(process {})", child.id());
        let found = find_busiest();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.iter().all(|one| !one.name.ends_with(&child_mark)), "{found:?}");
    }
}
