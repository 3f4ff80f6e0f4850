//! What processes and the machine do from one look to the next: processor time, memory, context switches, stolen
//! time, pressure.
//!
//! Start at [`Watch::look`].

use super::activity::{Resource, pressure_percent, steal_ticks};
use super::tree::Tree;
use speedwell_model::Snapshot;
use speedwell_process::{cpu_ns_of, family_of};
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

/// Counters at the last look.
#[derive(Debug)]
struct Counters {
    at: Instant,
    cpu_ns: Option<u64>,
    switches: HashMap<i32, Switches>,
    stolen: Option<(u64, u64)>,
}

/// Context switches of one thread since it began. A sum over all threads would fall when one of them ends.
#[derive(Debug, Clone, Copy, Default)]
struct Switches {
    voluntary: u64,
    involuntary: u64,
}

/// Looks at the processes that descend from one.
#[derive(Debug)]
pub struct Watch {
    tree: Tree,
    pid: i32,
    last: Counters,
}

impl Watch {
    /// Begins to watch `pid` and all it starts.
    pub fn new(pid: i32) -> Watch {
        let tree = Tree::at(Path::new("/"));
        let last = counters(&tree, pid);
        Watch { tree, pid, last }
    }

    /// What happened since the last look.
    pub fn look(&mut self) -> Snapshot {
        let now = counters(&self.tree, self.pid);
        let last = &self.last;
        let seconds = now.at.duration_since(last.at).as_secs_f64();
        let per_s = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
        let since = |of: fn(&Switches) -> u64| -> u64 {
            let grown = now.switches.iter().map(|(thread, now)| {
                let before = last.switches.get(thread).map_or(0, of);
                of(now).saturating_sub(before)
            });
            grown.sum()
        };
        let cpu = last.cpu_ns.zip(now.cpu_ns);
        let stolen = last.stolen.zip(now.stolen);
        let glance = Snapshot {
            cpus: cpu.and_then(|(from, to)| Some(per_s(to.saturating_sub(from))? / 1e9)),
            rss_bytes: rss_bytes(&self.tree, self.pid),
            voluntary_per_s: per_s(since(|switches| switches.voluntary)),
            involuntary_per_s: per_s(since(|switches| switches.involuntary)),
            steal: stolen.and_then(|(from, to)| {
                let all = to.1.saturating_sub(from.1);
                (all > 0).then(|| to.0.saturating_sub(from.0) as f64 / all as f64)
            }),
            pressure: pressure_percent(&self.tree, Resource::Cpu).map(|percent| percent / 100.0),
        };
        self.last = now;
        glance
    }
}

fn counters(tree: &Tree, pid: i32) -> Counters {
    let mut switches = HashMap::new();
    for member in family_of(pid) {
        let tasks = format!("/proc/{member}/task");
        for task in tree.names(&tasks) {
            let status = tree.text(format!("{tasks}/{task}/status"));
            let (Some(status), Ok(task)) = (status, task.parse()) else {
                continue;
            };
            let counted = Switches {
                voluntary: field(&status, "voluntary_ctxt_switches:"),
                involuntary: field(&status, "nonvoluntary_ctxt_switches:"),
            };
            switches.insert(task, counted);
        }
    }
    Counters {
        at: Instant::now(),
        cpu_ns: cpu_ns_of(pid),
        switches,
        stolen: steal_ticks(tree),
    }
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
}

/// Resident memory of all of them; the second figure of statm counts pages (proc_pid_statm(5)).
fn rss_bytes(tree: &Tree, pid: i32) -> Option<u64> {
    let pages = family_of(pid).into_iter().filter_map(|member| {
        let text = tree.text(format!("/proc/{member}/statm"))?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    // SAFETY: sysconf only reads a setting.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    let pages: u64 = pages.sum();
    (pages > 0).then_some(pages * page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_process::{Service, Spec};
    use std::time::Duration;

    /// A child of its own: the processes of other tests come and go in this one.
    fn child(script: &str) -> Service {
        Service::start(Spec::new("/bin/sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn a_busy_process_and_a_sleeping_one_look_different() {
        let busy = child("while :; do :; done");
        let used = || cpu_ns_of(busy.pid()).unwrap();
        // How much the machine lets it do is its own affair: what it did is seen beside.
        let (begin, before_ns) = (Instant::now(), used());
        let mut watch = Watch::new(busy.pid());
        let (since, inside_ns) = (Instant::now(), used());
        while used() < inside_ns + 200_000_000 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (least_ns, shortest_s) = (used() - inside_ns, since.elapsed().as_secs_f64());
        let seen = watch.look();
        let (most_ns, longest_s) = (used() - before_ns, begin.elapsed().as_secs_f64());
        let least = least_ns as f64 / 1e9 / longest_s;
        let most = most_ns as f64 / 1e9 / shortest_s;
        assert!(
            seen.cpus.is_some_and(|cpus| (least..=most).contains(&cpus)),
            "{seen:?}, but {least} to {most}"
        );
        assert!(
            seen.rss_bytes.is_some_and(|bytes| bytes > 100_000),
            "{seen:?}"
        );

        let lazy = child("while :; do sleep 0.01; done");
        let mut watch = Watch::new(lazy.pid());
        let mut asleep = Snapshot::default();
        for _ in 0..600 {
            std::thread::sleep(Duration::from_millis(50));
            asleep = watch.look();
            if asleep.voluntary_per_s.is_some_and(|rate| rate > 0.0) {
                break;
            }
        }
        assert!(
            asleep.voluntary_per_s.is_some_and(|rate| rate > 0.0),
            "{asleep:?}"
        );
    }
}
