//! Reads facts about the processors: their model, how many are available to us, and frequency
//! control.

use super::control_group;
use super::file_tree::{FileTree, find_field};
use std::collections::BTreeMap;

const CPU: &str = "/sys/devices/system/cpu";

pub(super) fn processor_model(tree: &FileTree) -> Option<String> {
    let text = tree.read_text("/proc/cpuinfo")?;
    // The line is named "model name" on x86, "cpu model" on MIPS, and "cpu" on POWER. On ARM, only
    // the board's model is known: from the line "Model" or from another file.
    ["model name", "cpu model", "cpu", "Model"]
        .iter()
        .find_map(|name| find_field(&text, name, ':'))
        .map(str::to_owned)
        .or_else(|| tree.read_text("/proc/device-tree/model"))
        .map(|name| name.trim_end_matches('\0').to_owned())
}

/// Parses a list such as `0-3,8`, the kernel's notation for sets of processors.
pub(super) fn parse_cpu_list(list: &str) -> Vec<u32> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Formats a set of processors in the kernel's notation: `0-3,8`.
pub(super) fn format_cpu_list(cpus: &[u32]) -> String {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    cpus.dedup();
    let ranges = cpus.chunk_by(|cpu, next| cpu + 1 == *next);
    let parts: Vec<String> = ranges
        .map(|range| match range {
            [cpu] => cpu.to_string(),
            _ => format!("{}-{}", range[0], range[range.len() - 1]),
        })
        .collect();
    parts.join(",")
}

/// Returns the processors that this process may run on, in the kernel's notation.
pub(super) fn cpu_affinity(tree: &FileTree) -> Option<String> {
    let status = tree.read_text("/proc/self/status")?;
    find_field(&status, "Cpus_allowed_list", ':').map(str::to_owned)
}

pub(super) fn online_count(tree: &FileTree) -> Option<u32> {
    tree.read_text(format!("{CPU}/online")).map(|list| parse_cpu_list(&list).len() as u32)
}

/// Returns the number of processors that we may use. These are the online processors in our
/// affinity mask, or fewer if a control group limits CPU time. A fraction of a processor is rounded
/// down, but the result is at least 1.
pub(super) fn available_count(tree: &FileTree) -> Option<u32> {
    let online = tree.read_text(format!("{CPU}/online")).map(|list| parse_cpu_list(&list));
    let allowed = cpu_affinity(tree).map(|list| parse_cpu_list(&list));
    let count = match (allowed, online) {
        (Some(allowed), Some(online)) => allowed.iter().filter(|cpu| online.contains(cpu)).count(),
        (Some(cpus), None) | (None, Some(cpus)) => cpus.len(),
        (None, None) => return None,
    };
    let quota = control_group::cpu_limit(tree).map_or(f64::INFINITY, |limit| limit.cpus);
    Some((count as f64).min(quota.floor()).max(1.0) as u32)
}

/// Returns the frequency governors in use, and the number of processors that each governs.
pub(super) fn governors(tree: &FileTree) -> BTreeMap<String, u32> {
    let mut governors = BTreeMap::new();
    for name in tree.list_names(CPU).iter().filter(|name| is_processor(name)) {
        if let Some(governor) = tree.read_text(format!("{CPU}/{name}/cpufreq/scaling_governor")) {
            *governors.entry(governor).or_default() += 1;
        }
    }
    governors
}

/// Whether an entry of the folder `cpu` is a processor: `cpu0` is one, `cpufreq` is not.
pub(super) fn is_processor(name: &str) -> bool {
    name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// State of turbo, which permits frequencies above the nominal frequency.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TurboState {
    /// Whether turbo is enabled.
    pub is_enabled: bool,
    /// Command that disables turbo.
    pub off_command: String,
}

/// Returns the turbo state. Intel's driver has a file `no_turbo`. Other drivers may have a file
/// `boost`, which has the opposite meaning.
pub(super) fn turbo_state(tree: &FileTree) -> Option<TurboState> {
    let drivers = [("intel_pstate/no_turbo", "0", "echo 1"), ("cpufreq/boost", "1", "echo 0")];
    drivers.iter().find_map(|(file, enabled_value, disabling_echo)| {
        let path = format!("{CPU}/{file}");
        let state = tree.read_text(&path)?;
        Some(TurboState {
            is_enabled: state == *enabled_value,
            off_command: format!("{disabling_echo} | sudo tee {path}"),
        })
    })
}

/// Whether SMT is active; `None` if the kernel does not report it.
pub(super) fn smt_active(tree: &FileTree) -> Option<bool> {
    tree.read_text(format!("{CPU}/smt/active")).map(|active| active == "1")
}

#[cfg(test)]
mod tests {
    use super::super::file_tree::fake::machine;
    use super::*;

    #[test]
    fn processor_lists_are_parsed_and_formatted() {
        assert_eq!(parse_cpu_list("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_cpu_list("5"), [5]);
        assert_eq!(parse_cpu_list(""), [] as [u32; 0]);
        assert_eq!(parse_cpu_list("3-x,7"), [7]);
        assert_eq!(format_cpu_list(&[8, 0, 1, 2, 2, 3]), "0-3,8");
        assert_eq!(format_cpu_list(&[]), "");
    }

    #[test]
    fn processors_that_are_offline_or_not_allowed_do_not_count() {
        let machine = machine(&[
            ("/sys/devices/system/cpu/online", "0-5\n"),
            ("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t2-7\n"),
        ]);
        assert_eq!(available_count(&machine), Some(4));
        assert_eq!(cpu_affinity(&machine).as_deref(), Some("2-7"));
        assert_eq!(online_count(&machine), Some(6));
    }

    #[test]
    fn a_cpu_quota_is_rounded_down_but_counts_as_at_least_one_processor() {
        let limit = |quota| {
            available_count(&machine(&[
                ("/sys/devices/system/cpu/online", "0-7"),
                ("/proc/self/cgroup", "0::/job"),
                ("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 none rw"),
                ("/sys/fs/cgroup/job/cpu.max", quota),
            ]))
        };
        assert_eq!(limit("250000 100000"), Some(2));
        assert_eq!(limit("50000 100000"), Some(1));
        assert_eq!(limit("max 100000"), Some(8));
    }

    #[test]
    fn governors_are_counted_and_other_folders_passed_over() {
        let machine = machine(&[
            ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
            ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
            ("/sys/devices/system/cpu/cpu10/cpufreq/scaling_governor", "powersave\n"),
            ("/sys/devices/system/cpu/cpufreq/boost", "1\n"),
        ]);
        let counted = governors(&machine);
        assert_eq!(counted, [("performance".into(), 1), ("powersave".into(), 2)].into());
        assert!(turbo_state(&machine).unwrap().is_enabled);
    }

    #[test]
    fn the_intel_no_turbo_file_is_inverted() {
        let file = "/sys/devices/system/cpu/intel_pstate/no_turbo";
        assert!(turbo_state(&machine(&[(file, "0")])).unwrap().is_enabled);
        assert!(!turbo_state(&machine(&[(file, "1")])).unwrap().is_enabled);
        assert_eq!(turbo_state(&machine(&[])), None);
    }

    #[test]
    fn every_architecture_names_its_processor_somewhere() {
        let model_of = |files: &[(&str, &str)]| processor_model(&machine(files));
        let x86 = [("/proc/cpuinfo", "processor\t: 0\nmodel\t\t: 1\nmodel name\t: Xeon E5\n")];
        assert_eq!(model_of(&x86).as_deref(), Some("Xeon E5"));
        let arm = [
            ("/proc/cpuinfo", "processor\t: 0\nCPU part\t: 0xd08\n"),
            ("/proc/device-tree/model", "Raspberry Pi 4\0"),
        ];
        assert_eq!(model_of(&arm).as_deref(), Some("Raspberry Pi 4"));
    }
}
