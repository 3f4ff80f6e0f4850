//! Measures how busy the machine is: load, pressure and steal time. A measurement covers the
//! present moment, an interval, or the time since the last snapshot.
//!
//! Also defines two limits of pressure for each resource. Above the upper one, there is a warning
//! before measuring, and `speedwell doctor` reports a problem. Start at [`busy_machine`],
//! [`ActivityInterval::start`] and [`ProcessWatch::take_snapshot`].

use super::file_tree::{FileTree, find_field};
use super::system;
use crate::process::{cpu_ns_of, cpu_ns_of_others, name_of, tree_of};
use rustix::param::page_size;
use speedwell_model::{ActivitySnapshot, Environment, KernelStats};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
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
        ["cpu", "memory", "io"][self as usize]
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
fn waited_share(from_us: Option<u64>, to_us: Option<u64>, elapsed: Duration) -> Option<f64> {
    let waited_ns = to_us?.saturating_sub(from_us?) as f64 * 1e3;
    let elapsed_ns = elapsed.as_nanos().max(1) as f64;
    // The totals are read slightly before and after the interval, so the waiting time can exceed
    // the length of the interval.
    Some((waited_ns / elapsed_ns).min(1.0))
}

/// Returns the fraction of ticks that were stolen between two results of [`steal_ticks`].
fn stolen_share(from: Option<(u64, u64)>, to: Option<(u64, u64)>) -> Option<f64> {
    let (from, to) = (from?, to?);
    let total_ticks = to.1.saturating_sub(from.1);
    (total_ticks > 0).then(|| to.0.saturating_sub(from.0) as f64 / total_ticks as f64)
}

/// Returns the percentage of ticks that were stolen since boot.
pub(super) fn steal_percent(tree: &FileTree) -> Option<f64> {
    Some(stolen_share(Some((0, 0)), steal_ticks(tree))? * 100.0)
}

/// If other processes use more than this fraction of the processors, a benchmark probably shares
/// its processor with one of them.
const LOADED_SHARE: f64 = 0.75;

/// Describes how busy the machine is now; `None` if it is quiet or does not report its activity.
///
/// On a quiet machine, this takes well under a millisecond, because it only reads a few small
/// kernel files. On a busy machine, it also observes the other processes for a tenth of a second.
pub fn busy_machine() -> Option<String> {
    describe_activity(&FileTree::with_root(Path::new("/")), find_busiest)
}

fn describe_activity(
    tree: &FileTree,
    neighbours: impl FnOnce() -> Vec<OtherProcess>,
) -> Option<String> {
    let describe_high_pressure = |resource: &PressureResource| {
        let percent = pressure_percent(tree, *resource)?;
        let (_, limit) = resource.limits_percent();
        (percent > limit).then(|| format!("{} pressure {percent:.0}%", resource.name()))
    };
    let mut causes: Vec<String> =
        PressureResource::ALL.iter().filter_map(describe_high_pressure).collect();
    let cpu_count = system::available_count(tree).unwrap_or(1);
    let is_loaded =
        load_average(tree).is_some_and(|[now, _, _]| now > LOADED_SHARE * f64::from(cpu_count));
    if causes.is_empty() && !is_loaded {
        return None;
    }
    let processes = neighbours();
    let used_cpus: f64 = processes.iter().map(|neighbour| neighbour.cpus).sum();
    // We ourselves may have caused the load of the last minute, so report it only if other
    // processes are busy now.
    if causes.is_empty() && used_cpus < LOADED_SHARE * f64::from(cpu_count) {
        return None;
    }
    causes.extend(describe_processes(&processes, cpu_count));
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
        let waited_us = pressure_total_us(&self.tree, PressureResource::Cpu);
        IntervalUsage {
            elapsed_ns: elapsed.as_nanos() as u64,
            cpu_ns: cpu_ns.map(|(from, to)| to.saturating_sub(from)),
            pressure: waited_share(self.waited_us, waited_us, elapsed),
            steal: stolen_share(self.stolen, steal_ticks(&self.tree)),
        }
    }
}

#[derive(Debug)]
struct ActivityCounters {
    taken_at: Instant,
    cpu_ns: Option<u64>,
    /// Voluntary and involuntary context switches of each thread since its start. They are kept by
    /// thread: a sum over all threads would drop when a thread ends.
    switches: HashMap<i32, [u64; 2]>,
    stolen: Option<(u64, u64)>,
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
        let switches_since_last = |kind: usize| -> u64 {
            let increases = current.switches.iter().map(|(thread, counts)| {
                let count_before = last.switches.get(thread).map_or(0, |counts| counts[kind]);
                counts[kind].saturating_sub(count_before)
            });
            increases.sum()
        };
        let cpu = last.cpu_ns.zip(current.cpu_ns);
        let snapshot = ActivitySnapshot {
            cpus: cpu.and_then(|(from, to)| Some(per_s(to.saturating_sub(from))? / 1e9)),
            rss_bytes: rss_bytes(&self.tree, self.pid),
            voluntary_per_s: per_s(switches_since_last(0)),
            involuntary_per_s: per_s(switches_since_last(1)),
            steal: stolen_share(last.stolen, current.stolen),
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
            let (Some(status), Ok(task)) = (status, task.parse()) else { continue };
            let counts = ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"].map(|name| {
                find_field(&status, name, ':').and_then(|value| value.parse().ok()).unwrap_or(0)
            });
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

// Finds other processes that are using the processors now.

/// How long processes are observed.
const OBSERVATION_TIME: Duration = Duration::from_millis(100);

/// A process that uses fewer processors than this is regarded as background activity and ignored.
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
    let mut busy = observe_others(OBSERVATION_TIME);
    busy.retain(|(_, cpus)| *cpus >= BACKGROUND_CPUS);
    busy.sort_by(|a, b| b.1.total_cmp(&a.1));
    let processes = busy.into_iter().map(|(pid, cpus)| {
        let name = name_of(pid).map_or_else(String::new, |name| format!("'{name}' "));
        OtherProcess { name: format!("{name}(process {pid})"), cpus }
    });
    processes.collect()
}

/// Observes the other processes for this time. Returns how many processors each of them uses.
fn observe_others(time: Duration) -> Vec<(i32, f64)> {
    let (begin, before) = (Instant::now(), cpu_ns_of_others());
    std::thread::sleep(time);
    let (after, elapsed_ns) = (cpu_ns_of_others(), begin.elapsed().as_nanos() as f64);
    let cpus = after.iter().map(|(pid, ns)| {
        let used_ns = ns.saturating_sub(before.get(pid).copied().unwrap_or(0));
        (*pid, (used_ns as f64 / elapsed_ns))
    });
    cpus.collect()
}

/// How long the machine is observed before the order of runs is chosen. A tenth of a second is too
/// short for a neighbor that computes in bursts.
const CONTENTION_TIME: Duration = Duration::from_millis(500);

/// Other work uses the processors if it uses at least this many of them.
const CONTENDING_CPUS: f64 = 0.5;

/// Returns the share of the processors' time that other work uses or waits for, if that is enough
/// to disturb runs. `Ok(None)` means that the machine is quiet.
///
/// The caller must be idle for the half second that this takes. The kernel's average over ten
/// seconds is not used, because it includes the caller's own builds and trials.
///
/// # Errors
/// Fails if the kernel reports neither pressure nor other processes.
pub fn observe_contention() -> Result<Option<f64>, UnknownActivity> {
    let tree = FileTree::with_root(Path::new("/"));
    let (begin, before_us) = (Instant::now(), pressure_total_us(&tree, PressureResource::Cpu));
    let others = observe_others(CONTENTION_TIME);
    let after_us = pressure_total_us(&tree, PressureResource::Cpu);
    let pressure = waited_share(before_us, after_us, begin.elapsed());
    if pressure.is_none() && others.is_empty() {
        return Err(UnknownActivity);
    }
    let cpu_count = system::available_count(&tree).unwrap_or(1);
    let used_cpus = others.iter().map(|(_, cpus)| cpus).sum();
    Ok(contention_share(pressure.unwrap_or(0.0), used_cpus, cpu_count))
}

/// The kernel does not report how busy the machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownActivity;

fn contention_share(pressure: f64, used_cpus: f64, cpu_count: u32) -> Option<f64> {
    let is_busy = pressure > Environment::BUSY_PERCENT / 100.0 || used_cpus >= CONTENDING_CPUS;
    is_busy.then(|| pressure.max(used_cpus / f64::from(cpu_count.max(1))).min(1.0))
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

// Reads the state of the machine during a run: steal time, pressure, frequency, temperature. Each
// file is opened once per session. Optional files that are slow to read are not used. Recording
// thus costs a few microseconds before and after a run, and nothing during the run.

/// An optional file is not used if reading it takes longer than this. Some kernels sleep for 10 ms
/// to determine a frequency.
const MAX_READ_TIME: Duration = Duration::from_micros(20);

/// The files of this machine that reveal disturbances of a run.
#[derive(Debug)]
pub struct RunSensors {
    stat: SensorFile,
    pressure: SensorFile,
    load: SensorFile,
    frequency: SensorFile,
    throttled: [SensorFile; 2],
    temperature: SensorFile,
}

/// Readings at the start of a run.
#[derive(Debug, Clone, Copy)]
pub struct SensorReadings {
    taken_at: Instant,
    stolen: Option<(u64, u64)>,
    waited_us: Option<u64>,
    frequency_mhz: Option<f64>,
    throttled: Option<[u64; 2]>,
}

impl RunSensors {
    /// Opens the sensors of this machine.
    pub fn open() -> RunSensors {
        RunSensors::open_below(&FileTree::with_root(Path::new("/")))
    }

    fn open_below(tree: &FileTree) -> RunSensors {
        let cpu = |file: &str| {
            SensorFile::open_if_fast(tree, &format!("/sys/devices/system/cpu/cpu0/{file}"))
        };
        RunSensors {
            stat: SensorFile::open(tree, "/proc/stat"),
            pressure: SensorFile::open(tree, "/proc/pressure/cpu"),
            load: SensorFile::open(tree, "/proc/loadavg"),
            frequency: cpu("cpufreq/scaling_cur_freq"),
            throttled: [
                cpu("thermal_throttle/core_throttle_count"),
                cpu("thermal_throttle/package_throttle_count"),
            ],
            temperature: SensorFile::open_if_fast(tree, "/sys/class/thermal/thermal_zone0/temp"),
        }
    }

    /// Reads the sensors just before a run.
    pub fn read_start(&self) -> SensorReadings {
        SensorReadings {
            stolen: self.stat.read(parse_steal_ticks),
            waited_us: self.pressure.read(parse_pressure_total),
            frequency_mhz: self.frequency.read_thousandths(),
            throttled: self.throttle_counts(),
            taken_at: Instant::now(),
        }
    }

    /// Reads the sensors just after a run, and returns the kernel's statistics about the run.
    pub fn read_end(&self, start: &SensorReadings) -> KernelStats {
        let elapsed = start.taken_at.elapsed();
        let waited_us = self.pressure.read(parse_pressure_total);
        let stolen = self.stat.read(parse_steal_ticks);
        let frequency = start.frequency_mhz.zip(self.frequency.read_thousandths());
        let throttled = start.throttled.zip(self.throttle_counts());
        KernelStats {
            steal: stolen_share(start.stolen, stolen),
            pressure: waited_share(start.waited_us, waited_us, elapsed),
            frequency_mhz: frequency.map(|(from, to)| [from, to]),
            throttled: throttled
                .map(|(from, to)| [0, 1].map(|counter| to[counter].saturating_sub(from[counter]))),
            load: self.load.read(parse_load).map(|[minute, ..]| minute),
            temperature_c: self.temperature.read_thousandths(),
        }
    }

    fn throttle_counts(&self) -> Option<[u64; 2]> {
        Some([self.throttled[0].read_number()?, self.throttled[1].read_number()?])
    }
}

/// A kernel file that is read repeatedly; `None` if it is missing, or optional and slow to read.
#[derive(Debug)]
struct SensorFile(Option<(File, RefCell<Vec<u8>>)>);

impl SensorFile {
    fn open(tree: &FileTree, path: &str) -> SensorFile {
        let file = File::open(tree.resolve(path)).ok();
        SensorFile(file.map(|file| (file, RefCell::new(vec![0; 4096]))))
    }

    /// Opens a file that contains a number. Closes it again if the number cannot be read, or if
    /// reading is slow.
    fn open_if_fast(tree: &FileTree, path: &str) -> SensorFile {
        let source = SensorFile::open(tree, path);
        source.read_number();
        let begin = Instant::now();
        let is_fast = source.read_number().is_some() && begin.elapsed() <= MAX_READ_TIME;
        if is_fast { source } else { SensorFile(None) }
    }

    /// Parses the beginning of the file.
    fn read<T>(&self, parse: fn(&str) -> Option<T>) -> Option<T> {
        let (file, buffer) = self.0.as_ref()?;
        let mut bytes = buffer.borrow_mut();
        let length = file.read_at(&mut bytes, 0).ok()?;
        parse(str::from_utf8(&bytes[..length]).ok()?)
    }

    fn read_number(&self) -> Option<u64> {
        self.read(|text| text.trim().parse().ok())
    }

    /// Reads a number of thousandths, such as a frequency in kHz, and returns it in whole units.
    fn read_thousandths(&self) -> Option<f64> {
        self.read_number().map(|thousandths| thousandths as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::file_tree::fake::machine;
    use crate::process::{ProcessSpec, ServiceProcess};
    use std::fs;

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
        let share =
            |to_us| waited_share(Some(1000), Some(to_us), Duration::from_millis(1)).unwrap();
        assert_eq!([share(1250), share(2001), share(999)], [0.25, 1.0, 0.0]);
        assert_eq!(waited_share(Some(7), Some(7), Duration::ZERO), Some(0.0));
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
    fn half_a_processor_or_high_pressure_is_contention() {
        for (pressure, used_cpus, share) in [
            (0.0, 0.0, None),
            (0.25, 0.49, None),
            (0.78, 0.1, Some(0.78)),
            (0.0, 0.5, Some(0.25)),
            (0.3, 1.6, Some(0.8)),
        ] {
            assert_eq!(contention_share(pressure, used_cpus, 2), share);
        }
    }

    #[test]
    fn only_a_busy_machine_is_described_and_in_a_single_line() {
        assert_eq!(describe_pressure("24.90", "0.00"), None);
        assert_eq!(describe_activity(&machine(&[]), Vec::new), None);
        let message = describe_pressure("99.12", "10.50").unwrap();
        assert!(message.contains("(cpu pressure 99%; memory pressure 10%)"), "{message}");
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

    const CPU: &str = "/sys/devices/system/cpu/cpu0";

    fn write(tree: &FileTree, path: &str, text: &str) {
        fs::write(tree.resolve(path), text).unwrap();
    }

    #[test]
    fn counters_are_recorded_as_their_increase_during_a_run() {
        let throttle = |which: &str| format!("{CPU}/thermal_throttle/{which}_throttle_count");
        let frequency = format!("{CPU}/cpufreq/scaling_cur_freq");
        let tree = machine(&[
            ("/proc/stat", "cpu  600 0 200 150 0 0 0 50 0 0\ncpu0 1\n"),
            ("/proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n"),
            ("/proc/loadavg", "0.50 1.00 1.00 1/2 3\n"),
            (&frequency, "3000000\n"),
            (&throttle("core"), "4\n"),
            (&throttle("package"), "7\n"),
            ("/sys/class/thermal/thermal_zone0/temp", "61500\n"),
        ]);
        // Reading may be slow on a busy machine, so the speed of the optional files is ignored
        // here.
        let mut sensors = RunSensors::open_below(&tree);
        let open = |path: &str| SensorFile::open(&tree, path);
        sensors.frequency = open(&frequency);
        sensors.throttled = [open(&throttle("core")), open(&throttle("package"))];
        sensors.temperature = open("/sys/class/thermal/thermal_zone0/temp");
        let start = sensors.read_start();
        write(&tree, "/proc/stat", "cpu  690 0 200 150 0 0 0 60 0 0\ncpu0 1\n");
        write(&tree, "/proc/pressure/cpu", "some avg10=0.00 total=999999999999\n");
        write(&tree, &frequency, "2400000\n");
        write(&tree, &throttle("package"), "9\n");
        assert_eq!(
            sensors.read_end(&start),
            KernelStats {
                steal: Some(0.1),
                pressure: Some(1.0),
                frequency_mhz: Some([3000.0, 2400.0]),
                throttled: Some([0, 2]),
                load: Some(0.5),
                temperature_c: Some(61.5),
            }
        );
    }

    #[test]
    fn values_that_the_kernel_does_not_provide_are_absent() {
        let sensors = RunSensors::open_below(&machine(&[("/proc/stat", "cpu 1 2\n")]));
        assert_eq!(sensors.read_end(&sensors.read_start()), KernelStats::default());
    }
}
