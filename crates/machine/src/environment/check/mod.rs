//! Checks the machine for sources of noise, and suggests remedies.
//!
//! A check is a function that reads a tree of files, or assesses values that this module measures.
//! It returns its findings and how much they affect measurements. Each subject has a table of checks:
//! clocks, power, heat and processors in `hardware.rs`; limits and settings of processes, disk space,
//! tools, and work and noise on the machine in this file. [`run_all_checks`] runs all of them.
//! `finding.rs` defines findings. Reports decide how results are shown.

mod finding;
mod hardware;

pub use finding::{CheckResult, CheckState};
pub(crate) use hardware::{check_battery, throttle_count};

use crate::environment::activity::{self, PressureResource};
use crate::environment::file_tree::{FileTree, find_field};
use crate::environment::programs::{find_executable, program_version};
use crate::environment::system::{self, AslrState, aslr_state};
use finding::{Check, Finding, finding, judge_figure};
use rustix::fs::statvfs;
use speedwell_model::median;
use std::ffi::OsStr;
use std::hint::black_box;
use std::path::Path;
use std::thread;
use std::time::Instant;

/// Runs all checks that need no information beyond the machine itself; [`check_free_disk`] needs to
/// know where the results are stored.
///
/// `root` is `/`, or a folder whose `proc`, `sys` and programs simulate a machine. Clocks and noise
/// are measured on this machine in either case. Takes about a second, mostly for querying toolchain
/// versions.
pub fn run_all_checks(root: &Path) -> Vec<CheckResult> {
    let tree = &FileTree::with_root(root);
    let run_check = |(name, check): &Check| CheckResult::new(*name, check(tree));
    let run_checks = |checks: &[Check]| checks.iter().map(run_check).collect::<Vec<_>>();
    // Check load and noise first: the work of the other checks would increase both.
    let load_and_noise = run_checks(LOAD_CHECKS);
    let clock = run_checks(hardware::CLOCK_CHECKS);
    let sensors = hardware::SENSOR_CHECKS.iter().filter_map(|(name, check)| {
        let found = check(tree)?;
        Some(CheckResult::new(*name, Some(found)))
    });
    let search = std::env::var_os("PATH").unwrap_or_default();
    [
        run_checks(hardware::PROCESSOR_CHECKS),
        load_and_noise,
        clock,
        run_checks(PROCESS_CHECKS),
        sensors.collect(),
        toolchain_checks(tree, &search),
    ]
    .concat()
}

/// Checks of limits and settings that apply to processes.
const PROCESS_CHECKS: &[Check] = &[
    ("aslr", check_address_layout),
    ("performance counters", check_performance_counters),
    ("open files", check_open_files),
];

/// Checks whether address layouts are randomized. If so, their effects average out over processes.
/// With a fixed layout, results vary less, but a lucky layout looks like a property of the program
/// (docs/why/statistics.md, "Run plan").
fn check_address_layout(tree: &FileTree) -> Option<Finding> {
    const REMEDY: &str = "echo 2 | sudo tee /proc/sys/kernel/randomize_va_space";
    let (state, found, remedy) = match aslr_state(tree)? {
        AslrState::Full => {
            (CheckState::Good, "on: the effects of layouts average out over runs", "")
        }
        AslrState::OffHere => (
            CheckState::Warning,
            "off for this shell: all runs have the same layout",
            "start speedwell without 'setarch -R'",
        ),
        AslrState::Off => {
            (CheckState::Warning, "off: one fixed layout favours some code by chance", REMEDY)
        }
        AslrState::Partial => (CheckState::Warning, "partial: the heap is not randomised", REMEDY),
    };
    finding(state, found, remedy)
}

/// Capabilities that permit counting performance events at any level of `perf_event_paranoid`, as
/// bits (`linux/capability.h`). The first is the general capability of administrators. The second
/// covers only performance counters and was added in Linux 5.8.
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;

/// Checks which performance events users may count in their own processes. The level is the value
/// of `perf_event_paranoid`. Up to level 1, users may also count events in the kernel. At level 2,
/// they may only count events in user space. From level 3 on, which only some distributions have,
/// they may count nothing.
fn check_performance_counters(tree: &FileTree) -> Option<Finding> {
    let level: Option<i32> = tree.read_value("/proc/sys/kernel/perf_event_paranoid");
    let status = tree.read_text("/proc/self/status").unwrap_or_default();
    let capabilities = find_field(&status, "CapEff", ':')
        .and_then(|text| u64::from_str_radix(text, 16).ok())
        .unwrap_or(0);
    let is_lifted = capabilities & (CAP_SYS_ADMIN | CAP_PERFMON) != 0;
    let (state, description) = match level {
        None => return finding(CheckState::Unknown, "not supported by the kernel", ""),
        Some(level) if level <= 1 || is_lifted => (CheckState::Good, "allowed"),
        Some(2) => (CheckState::Warning, "allowed for user code only"),
        Some(_) => (CheckState::Warning, "not allowed"),
    };
    // In a virtual machine, the processor's own counters may be missing. Software events work
    // nevertheless.
    let has_hardware = tree
        .list_names("/sys/bus/event_source/devices")
        .iter()
        .any(|name| name == "cpu" || name.starts_with("cpu_") || name.starts_with("armv"));
    let hardware = if has_hardware { "" } else { "; the processor's own counters are missing" };
    let found = format!("{description}{hardware}");
    finding(state, found, "sudo sysctl kernel.perf_event_paranoid=1")
}

/// Checks the limit on open files. In a load test, every connection is an open file of the client
/// and of the server.
fn check_open_files(tree: &FileTree) -> Option<Finding> {
    const REQUIRED: u64 = 4096;
    let limits = tree.read_text("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut fields = line.unwrap_or_default().split_whitespace().map(|field| match field {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    });
    let (soft, hard) = (fields.next()??, fields.next()??);
    let state = if soft >= REQUIRED { CheckState::Good } else { CheckState::Warning };
    let description = match soft {
        u64::MAX => "no limit".to_owned(),
        soft => format!("at most {soft} at once"),
    };
    let remedy = if hard >= REQUIRED {
        format!("ulimit -n {}", hard.min(65_536))
    } else {
        "sudo prlimit --pid $$ --nofile=65536:65536".to_owned()
    };
    finding(state, description, remedy)
}

/// Checks the free disk space where the results file is or will be.
///
/// A sample takes 8 to 24 bytes and a run about 100 bytes, so even long sessions stay below 1 GiB.
pub fn check_free_disk(results: &Path) -> CheckResult {
    let results = std::path::absolute(results).unwrap_or_else(|_| results.to_owned());
    let existing = results.ancestors().find(|folder| folder.exists());
    let judge = |folder: &Path| judge_free_disk(folder, free_bytes(folder)?);
    CheckResult::new("free disk", existing.and_then(judge))
}

fn judge_free_disk(folder: &Path, free_bytes: u64) -> Option<Finding> {
    let mebibytes = free_bytes >> 20;
    let state = match mebibytes {
        0..100 => CheckState::Bad,
        100..1024 => CheckState::Warning,
        _ => CheckState::Good,
    };
    let amount = match mebibytes {
        0..1024 => format!("{mebibytes} MiB"),
        _ => format!("{:.1} GiB", mebibytes as f64 / 1024.0),
    };
    let remedy = format!("df -h '{}', and choose another file with --db FILE", folder.display());
    finding(state, format!("{amount} at '{}'", folder.display()), remedy)
}

/// Returns how many bytes a user without privileges can still write.
fn free_bytes(folder: &Path) -> Option<u64> {
    let statistics = statvfs(folder).ok()?;
    Some(statistics.f_bavail.saturating_mul(statistics.f_frsize))
}

/// Each program to look for, and the command that installs it on Debian and its derivatives.
const KNOWN_TOOLS: &[(&str, &str)] = &[
    ("node", "sudo apt install nodejs"),
    ("npm", "sudo apt install npm"),
    ("python3", "sudo apt install python3"),
    ("go", "sudo apt install golang-go"),
    ("java", "sudo apt install default-jdk-headless"),
    ("rustc", "sudo apt install rustc"),
    ("cargo", "sudo apt install cargo"),
    ("gcc", "sudo apt install gcc"),
    ("g++", "sudo apt install g++"),
    ("erl", "sudo apt install erlang-base"),
    ("elixir", "sudo apt install elixir"),
    ("wrk", "sudo apt install wrk"),
    ("ab", "sudo apt install apache2-utils"),
    ("h2load", "sudo apt install nghttp2-client"),
    ("autocannon", "npm install --global autocannon"),
    ("perf", "sudo apt install linux-perf"),
];

/// Runs one check per program, all at the same time, because some programs take most of a second to
/// print their version. A missing program is not a problem in itself: many users do not need it.
fn toolchain_checks(tree: &FileTree, search: &OsStr) -> Vec<CheckResult> {
    let has_apt = find_executable(tree, search, "apt").is_some();
    thread::scope(|scope| {
        let threads: Vec<_> = KNOWN_TOOLS
            .iter()
            .map(|(name, install)| {
                let install = if has_apt || !install.contains(" apt ") {
                    (*install).to_owned()
                } else {
                    format!("install {name} with the package manager of your system")
                };
                scope.spawn(move || check_toolchain(tree, search, name, install))
            })
            .collect();
        threads.into_iter().filter_map(|check| check.join().ok()).collect()
    })
}

fn check_toolchain(tree: &FileTree, search: &OsStr, program: &str, install: String) -> CheckResult {
    let found = match find_executable(tree, search, program) {
        None => {
            let found = "not found in PATH".to_owned();
            Some(Finding { state: CheckState::Unknown, found, remedy: Some(install) })
        }
        Some(path) => match program_version(&path).text {
            Some(version) => {
                finding(CheckState::Good, format!("{version} ({})", path.display()), "")
            }
            None => finding(
                CheckState::Warning,
                format!("'{}' does not report its version", path.display()),
                format!("{} --version", path.display()),
            ),
        },
    };
    CheckResult::new(format!("toolchain {program}"), found)
}

// The checks below find out how busy the machine is with other work.

/// Shell command that shows the processes that use the processors.
const SHOW_BUSY_COMMAND: &str = "ps -eo pid,pcpu,pmem,args --sort=-pcpu | head";

/// Shell command that shows the processes that use the memory.
const SHOW_LARGE_COMMAND: &str = "ps -eo pid,pmem,rss,args --sort=-rss | head";

/// Checks of how busy the machine is, and of how much the durations of equal work vary.
const LOAD_CHECKS: &[Check] = &[
    ("load", check_load),
    ("cpu pressure", |tree| check_pressure(tree, PressureResource::Cpu)),
    ("memory pressure", |tree| check_pressure(tree, PressureResource::Memory)),
    ("io pressure", |tree| check_pressure(tree, PressureResource::Io)),
    ("stolen time", check_steal),
    ("free memory", check_free_memory),
    ("swap", check_swap),
    ("noise", |_| judge_noise(&measure_ns())),
];

/// Checks the load, which counts the tasks that run or wait. A load of up to a quarter of the
/// number of processors is normal background activity. Above three quarters, the benchmark probably
/// has to share its processor.
fn check_load(tree: &FileTree) -> Option<Finding> {
    let [now, _, _] = activity::load_average(tree)?;
    let cpus = system::available_count(tree).unwrap_or(1);
    let state = judge_figure(now / f64::from(cpus), 0.25, 0.75);
    let found = format!("{now:.2} over the last minute, on {cpus} processors");
    finding(state, found, SHOW_BUSY_COMMAND)
}

fn check_pressure(tree: &FileTree, resource: PressureResource) -> Option<Finding> {
    let percent = activity::pressure_percent(tree, resource)?;
    let (warning_limit, bad_limit) = resource.limits_percent();
    let found = format!("tasks waited in {percent:.1}% of the last 10 seconds");
    let remedy = match resource {
        PressureResource::Cpu => SHOW_BUSY_COMMAND,
        PressureResource::Memory => SHOW_LARGE_COMMAND,
        PressureResource::Io => "ps -eo pid,stat,wchan:20,args | awk '$2 ~ /D/'",
    };
    finding(judge_figure(percent, warning_limit, bad_limit), found, remedy)
}

/// Checks what percentage of the processor time the host gave to other virtual machines ("stolen"
/// time). If this percentage exceeds the smallest difference that a comparison should detect, more
/// runs do not help.
fn check_steal(tree: &FileTree) -> Option<Finding> {
    let percent = activity::steal_percent(tree)?;
    finding(
        judge_figure(percent, 0.5, 5.0),
        format!("{percent:.2}% of the processor time since boot"),
        "move this virtual machine to a dedicated host or to a plan without shared processors",
    )
}

fn check_free_memory(tree: &FileTree) -> Option<Finding> {
    let memory = system::memory_state(tree)?;
    let limit = system::memory_limit_bytes(tree).filter(|&limit| limit < memory.total_bytes);
    let used_percent =
        100.0 - memory.available_bytes as f64 / memory.total_bytes.max(1) as f64 * 100.0;
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let limit_note =
        limit.map(|limit| format!(", limited to {:.1} GiB", gib(limit))).unwrap_or_default();
    let description = format!(
        "{:.1} of {:.1} GiB available{limit_note}",
        gib(memory.available_bytes),
        gib(memory.total_bytes)
    );
    finding(judge_figure(used_percent, 90.0, 97.0), description, SHOW_LARGE_COMMAND)
}

/// Checks whether pages are swapped out. An access to such a page takes a hundred thousand times
/// longer than an access to memory.
fn check_swap(tree: &FileTree) -> Option<Finding> {
    let (state, found) = match system::memory_state(tree)?.swap_used_bytes {
        0 => (CheckState::Good, "not in use".to_owned()),
        used => (CheckState::Warning, format!("{} MiB in use", used >> 20)),
    };
    finding(state, found, "sudo swapoff --all && sudo swapon --all")
}

const MEASUREMENTS: usize = 200;
/// Approximate duration of one measurement.
const TARGET_NS: f64 = 1e6;

/// Measures repeatedly how long the same work takes. The work touches no memory and calls nothing,
/// so any variation comes from the machine: from frequencies, interrupts or other processes.
fn measure_ns() -> Vec<f64> {
    let time = |rounds: u64| {
        let start = Instant::now();
        black_box(spin_rounds(black_box(rounds)));
        start.elapsed().as_nanos() as f64
    };
    // Of a few attempts, the fastest is the least disturbed.
    const TRIAL: u64 = 100_000;
    let trial_ns = (0..10).map(|_| time(TRIAL)).fold(f64::INFINITY, f64::min).max(1.0);
    let rounds = (TARGET_NS / trial_ns * TRIAL as f64) as u64;
    (0..MEASUREMENTS).map(|_| time(rounds)).collect()
}

/// Computes a chain of multiplications (the generator of Knuth's MMIX). Each multiplication needs
/// the result of the previous one, so the processor can neither overlap nor skip them.
fn spin_rounds(rounds: u64) -> u64 {
    let mut state = 1u64;
    for _ in 0..rounds {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    state
}

/// Assesses the coefficient of variation of the durations. Thirty runs per variant detect a change
/// of 0.7% at a coefficient of 1%, and a change of 3.8% at 5% (crates/stats/DERIVATIONS.md,
/// "Power"). Above 5%, most comparisons are inconclusive.
fn judge_noise(durations_ns: &[f64]) -> Option<Finding> {
    let mut sorted = durations_ns.to_vec();
    let (typical, fastest, slowest) = (median(&mut sorted)?, sorted.first()?, sorted.last()?);
    let count = durations_ns.len() as f64;
    let mean = durations_ns.iter().sum::<f64>() / count;
    let squares = durations_ns.iter().map(|duration| (duration - mean).powi(2)).sum::<f64>();
    let variation_percent = (squares / (count - 1.0).max(1.0)).sqrt() / mean * 100.0;
    let description = format!(
        "the same work takes {:.2} ms, varying by {variation_percent:.2}%, slowest/fastest {:.2}",
        typical / 1e6,
        slowest / fastest
    );
    finding(
        judge_figure(variation_percent, 1.0, 5.0),
        description,
        "fix the other findings first; then pin the benchmark to idle processors with --pin",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::file_tree::fake::{self, FakeMachine, machine};
    use std::collections::HashSet;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_machine_without_any_system_files_raises_no_false_alarms() {
        let machine = machine(&[]);
        let measured = ["noise", "clock cost", "timer lateness"];
        for check in run_all_checks(machine.0.path()) {
            let quiet = matches!(check.state, CheckState::Unknown | CheckState::Good);
            assert!(quiet || measured.contains(&check.name.as_str()), "{check:?}");
        }
    }

    #[test]
    fn every_check_of_this_machine_has_a_unique_name_and_a_finding() {
        let all = run_all_checks(Path::new("/"));
        let names: HashSet<&str> = all.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|check| !check.found.is_empty()));
        let needs_one =
            |check: &&CheckResult| check.state >= CheckState::Warning && check.remedy.is_none();
        // A virtual machine cannot lift restrictions that its host imposes.
        let helpless: Vec<&str> = all.iter().filter(needs_one).map(|check| &*check.name).collect();
        let allowed = ["virtual machine"];
        assert!(helpless.iter().all(|name| allowed.contains(name)), "{helpless:?}");
    }

    #[test]
    fn a_fixed_or_partly_fixed_layout_causes_a_warning() {
        let check_of = |level| {
            check_address_layout(&machine(&[("/proc/sys/kernel/randomize_va_space", level)]))
                .unwrap()
        };
        assert_eq!(check_of("2").state, CheckState::Good);
        let disabled = check_of("0");
        let command = "echo 2 | sudo tee /proc/sys/kernel/randomize_va_space";
        assert_eq!(
            (disabled.state, disabled.remedy.as_deref()),
            (CheckState::Warning, Some(command))
        );
        assert!(check_of("1").found.contains("partial"));
    }

    #[test]
    fn counters_depend_on_the_level_and_on_capabilities() {
        let check_of = |level, capabilities| {
            check_performance_counters(&machine(&[
                ("/proc/sys/kernel/perf_event_paranoid", level),
                ("/proc/self/status", capabilities),
                ("/sys/bus/event_source/devices/cpu/type", "4"),
            ]))
            .unwrap()
        };
        let user = "CapEff:\t0000000000000000";
        assert_eq!(check_of("1", user).state, CheckState::Good);
        assert_eq!(check_of("2", user).found, "allowed for user code only");
        assert_eq!(check_of("4", user).found, "not allowed");
        assert!(check_of("4", user).remedy.unwrap().contains("perf_event_paranoid=1"));
        assert_eq!(check_of("4", "CapEff:\t000001ffffffffff").state, CheckState::Good);
    }

    #[test]
    fn missing_hardware_counters_are_mentioned() {
        let machine = machine(&[("/proc/sys/kernel/perf_event_paranoid", "-1")]);
        let found = check_performance_counters(&machine).unwrap().found;
        assert_eq!(found, "allowed; the processor's own counters are missing");
        assert_eq!(
            check_performance_counters(&fake::machine(&[])).unwrap().state,
            CheckState::Unknown
        );
    }

    #[test]
    fn the_remedy_for_a_low_open_file_limit_respects_the_hard_limit() {
        let check_of = |soft: &str, hard: &str| {
            let line = format!("Limit  Soft  Hard  Units\nMax open files  {soft}  {hard}  files\n");
            check_open_files(&machine(&[("/proc/self/limits", &line)])).unwrap()
        };
        let low = check_of("1024", "524288");
        assert_eq!(
            (low.state, low.remedy.as_deref()),
            (CheckState::Warning, Some("ulimit -n 65536"))
        );
        assert!(check_of("1024", "1024").remedy.unwrap().starts_with("sudo prlimit"));
        assert_eq!(check_of("unlimited", "unlimited").found, "no limit");
        assert_eq!(check_of("20000", "20000").state, CheckState::Good);
    }

    #[test]
    fn low_disk_space_is_reported_with_a_remedy() {
        let folder = Path::new("/data");
        let full = judge_free_disk(folder, 50 << 20).unwrap();
        assert_eq!((full.state, full.found.as_str()), (CheckState::Bad, "50 MiB at '/data'"));
        assert!(full.remedy.unwrap().contains("--db FILE"));
        assert_eq!(judge_free_disk(folder, 500 << 20).unwrap().state, CheckState::Warning);
        let result = judge_free_disk(folder, 3 << 29).unwrap();
        assert_eq!((result.state, result.found.as_str()), (CheckState::Good, "1.5 GiB at '/data'"));
    }

    #[test]
    fn the_folder_need_not_exist_yet() {
        let home = tempfile::tempdir().unwrap();
        let check = check_free_disk(&home.path().join("not/yet/there/results.db"));
        assert_ne!(check.state, CheckState::Unknown);
        assert!(check.found.ends_with(&format!("'{}'", home.path().display())), "{}", check.found);
    }

    fn with_programs(files: &[(&str, &str)]) -> FakeMachine {
        let machine = machine(files);
        for (path, _) in files {
            set_permissions(machine.resolve(path), Permissions::from_mode(0o755)).unwrap();
        }
        machine
    }

    fn check_of(machine: &FakeMachine, program: &str) -> CheckResult {
        let name = format!("toolchain {program}");
        let all = toolchain_checks(machine, OsStr::new("/usr/local/bin:/usr/bin"));
        assert_eq!(all.len(), KNOWN_TOOLS.len());
        all.into_iter().find(|check| check.name == name).unwrap()
    }

    #[test]
    fn a_toolchain_is_found_through_path_and_asked_for_its_version() {
        let machine = with_programs(&[
            ("/usr/bin/gcc", "#!/bin/sh\necho 'gcc (Debian) 12.2.0'\n"),
            ("/usr/local/bin/python3", "#!/bin/sh\nexit 127\n"),
        ]);
        let gcc = check_of(&machine, "gcc");
        assert_eq!(gcc.state, CheckState::Good);
        assert!(gcc.found.starts_with("gcc (Debian) 12.2.0 (/"), "{}", gcc.found);
        let broken = check_of(&machine, "python3");
        assert_eq!(broken.state, CheckState::Warning);
        assert!(broken.remedy.unwrap().ends_with("python3 --version"));
    }

    #[test]
    fn the_remedy_for_a_missing_toolchain_is_to_install_it() {
        let debian = with_programs(&[("/usr/bin/apt", "#!/bin/sh\n")]);
        let missing = check_of(&debian, "erl");
        assert_eq!(missing.state, CheckState::Unknown);
        assert_eq!(missing.remedy.as_deref(), Some("sudo apt install erlang-base"));
        let other = check_of(&with_programs(&[]), "erl");
        assert!(other.remedy.unwrap().contains("package manager"));
    }

    #[test]
    fn load_is_judged_against_the_processors_that_are_ours() {
        let check_of = |figure, cpus| {
            check_load(&machine(&[
                ("/proc/loadavg", figure),
                ("/sys/devices/system/cpu/online", cpus),
            ]))
            .unwrap()
        };
        assert_eq!(check_of("0.90 0 0", "0-7").state, CheckState::Good);
        assert_eq!(check_of("0.90 0 0", "0-1").state, CheckState::Warning);
        let bad = check_of("1.80 0 0", "0-1");
        assert_eq!(bad.state, CheckState::Bad);
        assert_eq!(bad.found, "1.80 over the last minute, on 2 processors");
        assert_eq!(bad.remedy.as_deref(), Some(SHOW_BUSY_COMMAND));
    }

    #[test]
    fn memory_pressure_weighs_more_than_waiting_for_a_processor() {
        let line = "some avg10=3.00 avg60=0.80 avg300=7.59 total=1\n";
        let machine = machine(&[("/proc/pressure/memory", line), ("/proc/pressure/cpu", line)]);
        assert_eq!(
            check_pressure(&machine, PressureResource::Memory).unwrap().state,
            CheckState::Warning
        );
        assert_eq!(
            check_pressure(&machine, PressureResource::Cpu).unwrap().state,
            CheckState::Good
        );
        assert!(check_pressure(&machine, PressureResource::Io).is_none());
    }

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let state = |line| check_steal(&machine(&[("/proc/stat", line)])).unwrap().state;
        assert_eq!(state("cpu  90 0 0 100 0 0 0 10 0 0\n"), CheckState::Warning);
        assert_eq!(state("cpu  80 0 0 100 0 0 0 20 0 0\n"), CheckState::Bad);
        assert_eq!(state("cpu  90 0 0 100 0 0 0 0 0 0\n"), CheckState::Good);
    }

    #[test]
    fn memory_shortage_and_swap_in_use_cause_warnings() {
        let machine = machine(&[(
            "/proc/meminfo",
            "MemTotal: 8388608 kB\nMemAvailable: 524288 kB\nSwapTotal: 4096 kB\nSwapFree: 2048 kB\n",
        )]);
        let memory = check_free_memory(&machine).unwrap();
        assert_eq!(
            (memory.state, memory.found.as_str()),
            (CheckState::Warning, "0.5 of 8.0 GiB available")
        );
        let swap = check_swap(&machine).unwrap();
        assert_eq!((swap.state, swap.found.as_str()), (CheckState::Warning, "2 MiB in use"));
        assert_eq!(swap.remedy.as_deref(), Some("sudo swapoff --all && sudo swapon --all"));
    }

    #[test]
    fn noise_is_the_coefficient_of_variation() {
        // The mean is 1 ms, and every duration deviates from it by 20 us. The standard deviation is
        // 20.05 us.
        let uneven: Vec<f64> =
            (0..200).map(|n| 1e6 + if n % 2 == 0 { 2e4 } else { -2e4 }).collect();
        let check = judge_noise(&uneven).unwrap();
        assert_eq!(check.state, CheckState::Warning);
        assert_eq!(
            check.found,
            "the same work takes 1.00 ms, varying by 2.01%, slowest/fastest 1.04"
        );
        assert_eq!(judge_noise(&[1e6; 200]).unwrap().state, CheckState::Good);
        let mut wild = vec![1e6; 200];
        wild[3] = 5e6;
        assert_eq!(judge_noise(&wild).unwrap().state, CheckState::Bad);
        assert!(judge_noise(&[]).is_none());
    }

    #[test]
    fn the_work_takes_about_as_long_as_intended() {
        let durations = measure_ns();
        assert_eq!(durations.len(), MEASUREMENTS);
        let fastest = durations.iter().copied().fold(f64::INFINITY, f64::min);
        // The fastest duration must be near the target. A busy machine can only make it longer, so
        // the upper limit is generous.
        assert!((TARGET_NS / 3.0..TARGET_NS * 30.0).contains(&fastest), "{fastest} ns");
    }
}
