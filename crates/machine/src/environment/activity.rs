//! Measures how busy the machine is: load, pressure and steal time. A measurement covers the
//! present moment, an interval, or the time since the last snapshot.
//!
//! Also defines limits of pressure. Above the upper limit, there is a warning before measuring, and
//! `speedwell doctor` reports a problem. Start at [`busy_machine`], [`ActivityInterval::start`] and
//! [`ProcessWatch::take_snapshot`].

use crate::environment::busy_processes::{self, OtherProcess};
use crate::environment::file_tree::{FileTree, find_field};
use crate::environment::processors;
use crate::process::{cpu_ns_of, tree_of};
use rustix::param::page_size;
use speedwell_model::{ActivitySnapshot, Environment};
use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Returns the load averages over 1, 5 and 15 minutes.
pub(super) fn load_average(tree: &FileTree) -> Option<[f64; 3]> {
    parse_load(&tree.read_text("/proc/loadavg")?)
}

/// Parses the load averages from the text of `/proc/loadavg`.
pub(super) fn parse_load(text: &str) -> Option<[f64; 3]> {
    let mut figures = text.split(' ').map_while(|word| word.parse::<f64>().ok());
    let mut next = || figures.next().filter(|figure| figure.is_finite());
    Some([next()?, next()?, next()?])
}

/// A resource that tasks may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PressureResource {
    Cpu,
    Memory,
    Io,
}

impl PressureResource {
    /// All resources.
    pub const ALL: [PressureResource; 3] =
        [PressureResource::Cpu, PressureResource::Memory, PressureResource::Io];

    /// Name of the resource in the kernel.
    pub fn name(self) -> &'static str {
        match self {
            PressureResource::Cpu => "cpu",
            PressureResource::Memory => "memory",
            PressureResource::Io => "io",
        }
    }

    /// Returns two limits of the pressure in percent. Above the first, results get noisier; above
    /// the second, they are probably wrong. The limits for memory are lower, because under memory
    /// pressure the kernel reclaims pages during the measurement. This is worse than an occasional
    /// wait for a processor.
    pub fn limits_percent(self) -> (f64, f64) {
        match self {
            PressureResource::Memory => (1.0, 10.0),
            PressureResource::Cpu | PressureResource::Io => (5.0, Environment::BUSY_PERCENT),
        }
    }
}

/// Returns the percentage of the last 10 seconds during which some task waited for the resource
/// (pressure stall information; kernel documentation, `accounting/psi.rst`).
pub(super) fn pressure_percent(tree: &FileTree, resource: PressureResource) -> Option<f64> {
    pressure_field(&pressure_text(tree, resource)?, "avg10=")
}

/// Returns the total time since boot, in microseconds, during which some task waited for the
/// resource.
pub(super) fn pressure_total_us(tree: &FileTree, resource: PressureResource) -> Option<u64> {
    parse_pressure_total(&pressure_text(tree, resource)?)
}

/// Parses the total waiting time from the text of a file in `/proc/pressure`.
pub(super) fn parse_pressure_total(text: &str) -> Option<u64> {
    pressure_field(text, "total=")
}

fn pressure_text(tree: &FileTree, resource: PressureResource) -> Option<String> {
    tree.read_text(format!("/proc/pressure/{}", resource.name()))
}

fn pressure_field<T: FromStr>(text: &str, name: &str) -> Option<T> {
    let some_line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let mut fields = some_line.split(' ');
    fields.find_map(|word| word.strip_prefix(name))?.parse().ok()
}

/// Returns two counts of processor ticks since boot: the ticks that the host stole, and all ticks.
/// The first line of `/proc/stat` counts user, nice, system, idle, iowait, irq, softirq and steal
/// time; guest time is part of user time.
pub(super) fn steal_ticks(tree: &FileTree) -> Option<(u64, u64)> {
    parse_steal_ticks(&tree.read_text("/proc/stat")?)
}

/// Parses the counts of [`steal_ticks`] from the text of `/proc/stat`.
pub(super) fn parse_steal_ticks(text: &str) -> Option<(u64, u64)> {
    let counters = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> =
        counters.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    Some((*ticks.get(7)?, ticks.iter().sum()))
}

/// Returns the fraction of an interval during which some task waited. `from_us` and `to_us` are the
/// total waiting times before and after the interval.
pub(super) fn waited_share(from_us: u64, to_us: u64, elapsed: Duration) -> f64 {
    let waited_ns = to_us.saturating_sub(from_us) as f64 * 1e3;
    let elapsed_ns = elapsed.as_nanos().max(1) as f64;
    // The totals are read slightly before and after the interval, so the waiting time can exceed
    // the length of the interval.
    (waited_ns / elapsed_ns).min(1.0)
}

/// Returns the fraction of ticks that were stolen between two results of [`steal_ticks`].
pub(super) fn stolen_share(from: (u64, u64), to: (u64, u64)) -> Option<f64> {
    let total_ticks = to.1.saturating_sub(from.1);
    (total_ticks > 0).then(|| to.0.saturating_sub(from.0) as f64 / total_ticks as f64)
}

/// Returns the percentage of ticks that were stolen since boot.
pub(super) fn steal_percent(tree: &FileTree) -> Option<f64> {
    Some(stolen_share((0, 0), steal_ticks(tree)?)? * 100.0)
}

/// If other processes use more than this fraction of the processors, a benchmark probably shares
/// its processor with one of them.
const LOADED_SHARE: f64 = 0.75;

/// Describes how busy the machine is now; `None` if it is quiet or does not report its activity.
///
/// On a quiet machine, this takes well under a millisecond, because it only reads a few small
/// kernel files. On a busy machine, it also observes the other processes for a tenth of a second.
pub fn busy_machine() -> Option<String> {
    describe_activity(&FileTree::with_root(Path::new("/")), busy_processes::find_busiest)
}

fn describe_activity(
    tree: &FileTree,
    neighbours: impl FnOnce() -> Vec<OtherProcess>,
) -> Option<String> {
    let describe_high_pressure = |resource: &PressureResource| {
        let percent = pressure_percent(tree, *resource)?;
        let (_, limit) = resource.limits_percent();
        (percent > limit).then(|| format!("{} pressure {percent:.0} %", resource.name()))
    };
    let mut causes: Vec<String> =
        PressureResource::ALL.iter().filter_map(describe_high_pressure).collect();
    let cpu_count = processors::available_count(tree).unwrap_or(1);
    let is_loaded =
        load_average(tree).is_some_and(|[now, _, _]| now > LOADED_SHARE * f64::from(cpu_count));
    if causes.is_empty() && !is_loaded {
        return None;
    }
    let processes = neighbours();
    let used_cpus: f64 = processes.iter().map(|neighbour| neighbour.cpus).sum();
    // We ourselves may have caused the load of the last minute. It only counts if other processes
    // are busy now.
    if causes.is_empty() && used_cpus < LOADED_SHARE * f64::from(cpu_count) {
        return None;
    }
    causes.extend(busy_processes::describe_processes(&processes, cpu_count));
    Some(format!(
        "The machine is busy with other work ({}): expect noisy results; see 'speedwell doctor'.",
        causes.join("; ")
    ))
}

/// A measurement interval in progress.
#[derive(Debug)]
pub struct ActivityInterval {
    tree: FileTree,
    pid: i32,
    begin: Instant,
    cpu_ns: Option<u64>,
    waited_us: Option<u64>,
    stolen: Option<(u64, u64)>,
}

/// Resource usage of an interval. Values that the kernel does not report are absent. Fractions are
/// between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct IntervalUsage {
    /// Length in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of the processes, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Fraction of the time during which some task of the machine waited for a processor.
    pub pressure: Option<f64>,
    /// Fraction of the machine's processor time that its host stole.
    pub steal: Option<f64>,
}

impl ActivityInterval {
    /// Starts an interval for the process `pid` and its descendants.
    pub fn start(pid: i32) -> ActivityInterval {
        let tree = FileTree::with_root(Path::new("/"));
        ActivityInterval {
            pid,
            waited_us: pressure_total_us(&tree, PressureResource::Cpu),
            stolen: steal_ticks(&tree),
            cpu_ns: cpu_ns_of(pid),
            begin: Instant::now(),
            tree,
        }
    }

    /// Ends the interval.
    pub fn finish(self) -> IntervalUsage {
        let elapsed = self.begin.elapsed();
        let cpu_ns = self.cpu_ns.zip(cpu_ns_of(self.pid));
        let waited = self.waited_us.zip(pressure_total_us(&self.tree, PressureResource::Cpu));
        let stolen = self.stolen.zip(steal_ticks(&self.tree));
        IntervalUsage {
            elapsed_ns: elapsed.as_nanos() as u64,
            cpu_ns: cpu_ns.map(|(from, to)| to.saturating_sub(from)),
            pressure: waited.map(|(from, to)| waited_share(from, to, elapsed)),
            steal: stolen.and_then(|(from, to)| stolen_share(from, to)),
        }
    }
}

#[derive(Debug)]
struct ActivityCounters {
    taken_at: Instant,
    cpu_ns: Option<u64>,
    switches: HashMap<i32, SwitchCounts>,
    stolen: Option<(u64, u64)>,
}

/// Context switches of a thread since its start. They are kept by thread: a sum over all threads
/// would drop when a thread ends.
#[derive(Debug, Clone, Copy, Default)]
struct SwitchCounts {
    voluntary: u64,
    involuntary: u64,
}

/// Observes a process and its descendants.
#[derive(Debug)]
pub struct ProcessWatch {
    tree: FileTree,
    pid: i32,
    last: ActivityCounters,
}

impl ProcessWatch {
    /// Starts to observe `pid` and its descendants.
    pub fn new(pid: i32) -> ProcessWatch {
        let tree = FileTree::with_root(Path::new("/"));
        let last = read_counters(&tree, pid);
        ProcessWatch { tree, pid, last }
    }

    /// Returns the activity since the last snapshot, the current memory, and the pressure over the
    /// last ten seconds.
    pub fn take_snapshot(&mut self) -> ActivitySnapshot {
        let current = read_counters(&self.tree, self.pid);
        let last = &self.last;
        let seconds = current.taken_at.duration_since(last.taken_at).as_secs_f64();
        let per_s = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
        let switches_since_last = |count_of: fn(&SwitchCounts) -> u64| -> u64 {
            let increases = current.switches.iter().map(|(thread, counts)| {
                let count_before = last.switches.get(thread).map_or(0, count_of);
                count_of(counts).saturating_sub(count_before)
            });
            increases.sum()
        };
        let cpu = last.cpu_ns.zip(current.cpu_ns);
        let stolen = last.stolen.zip(current.stolen);
        let snapshot = ActivitySnapshot {
            cpus: cpu.and_then(|(from, to)| Some(per_s(to.saturating_sub(from))? / 1e9)),
            rss_bytes: rss_bytes(&self.tree, self.pid),
            voluntary_per_s: per_s(switches_since_last(|switches| switches.voluntary)),
            involuntary_per_s: per_s(switches_since_last(|switches| switches.involuntary)),
            steal: stolen.and_then(|(from, to)| stolen_share(from, to)),
            pressure: pressure_percent(&self.tree, PressureResource::Cpu)
                .map(|percent| percent / 100.0),
        };
        self.last = current;
        snapshot
    }
}

fn read_counters(tree: &FileTree, pid: i32) -> ActivityCounters {
    let mut switches = HashMap::new();
    for member in tree_of(pid) {
        let tasks = format!("/proc/{member}/task");
        for task in tree.list_names(&tasks) {
            let status = tree.read_text(format!("{tasks}/{task}/status"));
            let (Some(status), Ok(task)) = (status, task.parse()) else {
                continue;
            };
            let counts = SwitchCounts {
                voluntary: read_switch_count(&status, "voluntary_ctxt_switches"),
                involuntary: read_switch_count(&status, "nonvoluntary_ctxt_switches"),
            };
            switches.insert(task, counts);
        }
    }
    ActivityCounters {
        taken_at: Instant::now(),
        cpu_ns: cpu_ns_of(pid),
        switches,
        stolen: steal_ticks(tree),
    }
}

fn read_switch_count(status: &str, name: &str) -> u64 {
    let value = find_field(status, name, ':').and_then(|value| value.parse().ok());
    value.unwrap_or(0)
}

/// Returns the resident memory of a process and its descendants. The second field of `statm` counts
/// pages (proc_pid_statm(5)).
fn rss_bytes(tree: &FileTree, pid: i32) -> Option<u64> {
    let pages = tree_of(pid).into_iter().filter_map(|member| {
        let text = tree.read_text(format!("/proc/{member}/statm"))?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    let pages: u64 = pages.sum();
    (pages > 0).then_some(pages * page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::file_tree::fake::machine;
    use crate::process::{ProcessSpec, ServiceProcess};

    #[test]
    fn load_pressure_and_steal_are_read() {
        let machine = machine(&[
            ("/proc/loadavg", "0.52 1.25 3.00 2/345 6789\n"),
            ("/proc/pressure/cpu", "some avg10=1.53 avg60=0.80 avg300=7.59 total=96103027\n"),
            ("/proc/stat", "cpu  600 0 200 150 0 0 0 50 10 0\ncpu0 1 2 3\n"),
        ]);
        assert_eq!(load_average(&machine), Some([0.52, 1.25, 3.0]));
        assert_eq!(pressure_percent(&machine, PressureResource::Cpu), Some(1.53));
        assert_eq!(pressure_percent(&machine, PressureResource::Io), None);
        assert_eq!(steal_percent(&machine), Some(5.0));
    }

    #[test]
    fn a_share_of_an_interval_is_at_most_one() {
        let share = |to_us| waited_share(1000, to_us, Duration::from_millis(1));
        assert_eq!([share(1250), share(2001), share(999)], [0.25, 1.0, 0.0]);
        assert_eq!(waited_share(7, 7, Duration::ZERO), 0.0);
    }

    #[test]
    fn an_invalid_load_average_is_ignored() {
        assert_eq!(load_average(&machine(&[("/proc/loadavg", "nan 1 1")])), None);
        assert_eq!(load_average(&machine(&[("/proc/loadavg", "0.1 0.2")])), None);
    }

    fn describe_pressure(cpu: &str, memory: &str) -> Option<String> {
        let line = |percent: &str| format!("some avg10={percent} avg60=0.00 avg300=0.00 total=1\n");
        let machine = machine(&[
            ("/proc/pressure/cpu", &line(cpu)),
            ("/proc/pressure/memory", &line(memory)),
        ]);
        describe_activity(&machine, Vec::new)
    }

    #[test]
    fn processors_used_by_other_processes_are_reported() {
        let describe_load = |load: &str, cpus: f64| {
            let machine =
                machine(&[("/proc/loadavg", load), ("/sys/devices/system/cpu/online", "0-1")]);
            let loops = OtherProcess { name: "'loop'".to_owned(), cpus };
            describe_activity(&machine, || vec![loops])
        };
        assert_eq!(describe_load("1.2 0.0 0.0 1/9 9", 1.9), None, "the load is low");
        assert_eq!(describe_load("1.8 0.0 0.0 1/9 9", 1.2), None, "it was our own load");
        let message = describe_load("1.8 0.0 0.0 1/9 9", 1.6).unwrap();
        assert!(
            message.contains("(another process uses 1.6 of 2 processors: 'loop')"),
            "{message}"
        );
    }

    #[test]
    fn only_a_busy_machine_is_described_and_in_a_single_line() {
        assert_eq!(describe_pressure("24.90", "0.00"), None);
        assert_eq!(describe_activity(&machine(&[]), Vec::new), None);
        let message = describe_pressure("99.12", "10.50").unwrap();
        assert!(message.contains("(cpu pressure 99 %; memory pressure 10 %)"), "{message}");
        assert_eq!(message.lines().count(), 1);
    }

    #[test]
    fn processor_time_is_finer_than_clock_ticks() {
        // This needs a process of its own: other tests work in the test process at the same time.
        let work = ProcessSpec::new("/bin/sh").args(["-c", "while :; do :; done"]);
        let service = ServiceProcess::start(work).unwrap();
        let used = || cpu_ns_of(service.pid()).unwrap();
        let (begin, before_ns) = (Instant::now(), used());
        let interval = ActivityInterval::start(service.pid());
        let inside_ns = used();
        while used() < inside_ns + 30_000_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let least_ns = used() - inside_ns;
        let spent = interval.finish();
        let most_ns = used() - before_ns;
        let cpu_ns = spent.cpu_ns.unwrap();
        assert!(
            (least_ns..=most_ns).contains(&cpu_ns),
            "{cpu_ns} instead of {least_ns} to {most_ns}"
        );
        // A resolution of 10 ms ticks would give a round number.
        assert!(!cpu_ns.is_multiple_of(10_000_000), "{cpu_ns}");
        let whole_ns = begin.elapsed().as_nanos() as u64;
        assert!((1..=whole_ns).contains(&spent.elapsed_ns), "{spent:?}");
        assert!(spent.pressure.is_none_or(|share| (0.0..=1.0).contains(&share)));
    }

    /// Starts a child to observe. The test process itself is unsuitable, because it also has the
    /// child processes of other tests.
    fn child(script: &str) -> ServiceProcess {
        ServiceProcess::start(ProcessSpec::new("/bin/sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn a_busy_process_and_a_sleeping_one_look_different() {
        let busy = child("while :; do :; done");
        let used = || cpu_ns_of(busy.pid()).unwrap();
        // The CPU time that the machine grants varies, so the test measures it, too.
        let (begin, before_ns) = (Instant::now(), used());
        let mut watch = ProcessWatch::new(busy.pid());
        let (since, inside_ns) = (Instant::now(), used());
        while used() < inside_ns + 200_000_000 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (least_ns, shortest_s) = (used() - inside_ns, since.elapsed().as_secs_f64());
        let snapshot = watch.take_snapshot();
        let (most_ns, longest_s) = (used() - before_ns, begin.elapsed().as_secs_f64());
        let min_cpus = least_ns as f64 / 1e9 / longest_s;
        let max_cpus = most_ns as f64 / 1e9 / shortest_s;
        assert!(
            snapshot.cpus.is_some_and(|cpus| (min_cpus..=max_cpus).contains(&cpus)),
            "{snapshot:?}, but {min_cpus} to {max_cpus}"
        );
        assert!(snapshot.rss_bytes.is_some_and(|bytes| bytes > 100_000), "{snapshot:?}");

        let lazy = child("while :; do sleep 0.01; done");
        let mut watch = ProcessWatch::new(lazy.pid());
        let mut asleep = ActivitySnapshot::default();
        for _ in 0..600 {
            std::thread::sleep(Duration::from_millis(50));
            asleep = watch.take_snapshot();
            if asleep.voluntary_per_s.is_some_and(|rate| rate > 0.0) {
                break;
            }
        }
        assert!(asleep.voluntary_per_s.is_some_and(|rate| rate > 0.0), "{asleep:?}");
    }
}
