//! Examines the machine that a session runs on, and finds its sources of noise.
//!
//! Reads kernel files and queries programs for their versions; does not evaluate results.
//! [`capture_environment()`] collects the facts that are stored with a session, and
//! [`run_all_checks()`] assesses the machine for `speedwell doctor`. Only [`tune`] changes the
//! machine, and only on request. Tests can simulate a machine, because all files are read below a
//! root folder (`file_tree.rs`). Start at [`capture_environment()`] and `check/mod.rs`.

mod activity;
mod check;
mod file_tree;
mod git;
mod origin;
mod programs;
mod system;
pub mod tune;

pub use activity::{
    ActivityInterval, IntervalUsage, ProcessWatch, RunSensors, SensorReadings, UnknownActivity,
    busy_machine, observe_contention,
};
pub use check::{CheckResult, CheckState, check_free_disk, run_all_checks};
pub use git::{BranchTip, GitError, GitRepository, REPOSITORY_VARIABLES, revision_line};
pub use origin::{BranchFork, env_variable, find_fork, find_origin};
pub use programs::{ProgramVersion, program_version};

use activity::{PressureResource, load_average, pressure_percent, steal_percent};
use file_tree::{FileTree, find_field};
use programs::describe_program;
use speedwell_model::Environment;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use system::AslrState;

/// Captures the current environment. This takes milliseconds and never fails: a fact that cannot be
/// read is omitted.
///
/// `programs` lists each variant with its program and the result of [`program_version`]; no
/// program is started here.
///
/// Facts whose names start with `now_` change within minutes. Results are comparable only if all
/// other facts are the same.
pub fn capture_environment(programs: &[(String, PathBuf, Option<String>)]) -> Environment {
    let mut environment = capture_from(&FileTree::with_root(Path::new("/")));
    environment.programs = programs
        .iter()
        .map(|(variant, path, version)| describe_program(variant, path, version.as_deref()))
        .collect();
    environment
}

fn capture_from(tree: &FileTree) -> Environment {
    Environment {
        machine: None,
        host: tree.read_text("/proc/sys/kernel/hostname"),
        cpu: system::processor_model(tree),
        cpus: system::available_count(tree),
        memory_bytes: system::memory_state(tree).map(|memory| memory.total_bytes),
        kernel: system::kernel_version(tree),
        governors: system::governors(tree).into_keys().collect(),
        aslr: system::aslr_state(tree)
            .map(|aslr| matches!(aslr, AslrState::Full | AslrState::Partial)),
        load: load_average(tree),
        facts: environment_facts(tree),
        programs: Vec::new(),
        speedwell: Some(env!("CARGO_PKG_VERSION").to_owned()),
    }
}

fn environment_facts(tree: &FileTree) -> BTreeMap<String, String> {
    let on_off = |is_on: bool| if is_on { "on" } else { "off" }.to_owned();
    let memory = system::memory_state(tree);
    let percent = |share: Option<f64>| share.map(|share| format!("{share:.2}"));
    let pressure = |resource| percent(pressure_percent(tree, resource));
    let settings = [
        ("os", system::distribution_name(tree)),
        ("cpus_online", system::online_count(tree).map(|count| count.to_string())),
        ("cpu_affinity", system::cpu_affinity(tree)),
        ("cpu_quota", system::cpu_limit(tree).map(|limit| limit.cpus.to_string())),
        ("memory_limit_bytes", system::memory_limit_bytes(tree).map(|n| n.to_string())),
        ("turbo", system::turbo_state(tree).map(|turbo| on_off(turbo.is_enabled))),
        ("smt", system::smt_active(tree).map(on_off)),
        ("microcode", microcode_version(tree)),
        ("isolated_cpus", isolated_cpus(tree)),
        ("mitigations", mitigations_option(tree)),
        ("hypervisor", system::detect_hypervisor(tree)),
        ("container", system::detect_container(tree)),
        ("clocksource", system::clock_source(tree).map(|(current, _)| current)),
        ("transparent_huge_pages", system::transparent_huge_pages(tree)),
        ("tuned", tune::list_changed_knobs(tree)),
        ("huge_pages", system::reserved_huge_pages(tree).map(|count| count.to_string())),
        ("now_memory_available_bytes", memory.map(|memory| memory.available_bytes.to_string())),
        ("now_swap_used_bytes", memory.map(|memory| memory.swap_used_bytes.to_string())),
        ("now_cpu_pressure_percent", pressure(PressureResource::Cpu)),
        ("now_memory_pressure_percent", pressure(PressureResource::Memory)),
        ("now_io_pressure_percent", pressure(PressureResource::Io)),
        ("now_steal_percent", percent(steal_percent(tree))),
    ];
    settings.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn microcode_version(tree: &FileTree) -> Option<String> {
    find_field(&tree.read_text("/proc/cpuinfo")?, "microcode", ':').map(str::to_owned)
}

/// Returns the processors that the scheduler does not use by itself (`isolcpus=`).
fn isolated_cpus(tree: &FileTree) -> Option<String> {
    tree.read_text("/sys/devices/system/cpu/isolated").filter(|list| !list.is_empty())
}

/// Returns the boot option for mitigations of speculative execution attacks. These mitigations make
/// every system call slower.
fn mitigations_option(tree: &FileTree) -> Option<String> {
    let options = tree.read_text("/proc/cmdline")?;
    options.split_whitespace().find_map(|word| word.strip_prefix("mitigations=")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::file_tree::fake::machine;
    use super::*;
    use std::time::{Duration, Instant};

    const LAB: &[(&str, &str)] = &[
        ("/proc/sys/kernel/hostname", "lab-3\n"),
        ("/proc/sys/kernel/osrelease", "6.1.0\n"),
        ("/proc/sys/kernel/randomize_va_space", "2\n"),
        ("/proc/sys/vm/nr_hugepages", "16\n"),
        ("/proc/cmdline", "root=/dev/sda1 mitigations=off quiet\n"),
        ("/proc/cpuinfo", "model name : Xeon E5\nmicrocode : 0x1\nflags : fpu\n"),
        ("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 500 kB\n"),
        ("/proc/loadavg", "0.1 0.2 0.3 1/2 3\n"),
        ("/proc/pressure/io", "some avg10=2.50 avg60=0 avg300=0 total=0\n"),
        ("/proc/self/status", "Cpus_allowed_list:\t0-1\n"),
        ("/sys/devices/system/cpu/online", "0-3\n"),
        ("/sys/devices/system/cpu/isolated", "2-3\n"),
        ("/sys/devices/system/cpu/smt/active", "0\n"),
        ("/sys/devices/system/cpu/cpufreq/boost", "1\n"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
        ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
    ];

    #[test]
    fn a_known_machine_is_described_in_full() {
        let machine = machine(LAB);
        let found = capture_from(&machine);
        assert_eq!(found.host.as_deref(), Some("lab-3"));
        assert_eq!(found.cpu.as_deref(), Some("Xeon E5"));
        assert_eq!((found.cpus, found.memory_bytes), (Some(2), Some(1_024_000)));
        assert_eq!(found.kernel.as_deref(), Some("Linux 6.1.0"));
        assert_eq!(found.governors, ["performance"]);
        assert_eq!((found.aslr, found.load), (Some(true), Some([0.1, 0.2, 0.3])));
        let expected = [
            ("cpu_affinity", "0-1"),
            ("cpus_online", "4"),
            ("huge_pages", "16"),
            ("isolated_cpus", "2-3"),
            ("microcode", "0x1"),
            ("mitigations", "off"),
            ("now_io_pressure_percent", "2.50"),
            ("now_memory_available_bytes", "512000"),
            ("now_swap_used_bytes", "0"),
            ("smt", "off"),
            ("turbo", "on"),
        ];
        let facts: Vec<_> = found.facts.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(facts, expected);
    }

    #[test]
    fn a_machine_without_any_system_files_has_an_empty_environment() {
        let found = capture_from(&machine(&[]));
        let nothing = Environment { speedwell: found.speedwell.clone(), ..Environment::default() };
        assert_eq!(found, nothing);
    }

    #[test]
    fn this_machine_is_captured_within_milliseconds() {
        // Only the fastest of several attempts counts, because a busy machine may slow any attempt
        // down.
        let mut took = Duration::MAX;
        for _ in 0..10 {
            let start = Instant::now();
            let found = capture_environment(&[("old".into(), "sh".into(), None)]);
            took = took.min(start.elapsed());
            assert!(found.cpus.is_some_and(|count| count >= 1));
            assert!(found.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
            assert!(found.programs[0].size_bytes.is_some_and(|bytes| bytes > 0));
        }
        assert!(took < Duration::from_millis(500), "{took:?}");
    }
}
