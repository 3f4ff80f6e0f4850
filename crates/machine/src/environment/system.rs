//! Reads facts about the operating system: kernel, clock, address space layout, memory and
//! virtualization.

use super::file_tree::{FileTree, find_field};
use crate::process::CpuSet;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Returns the kernel version, e.g. `Linux 6.1.0-18-amd64`.
pub(super) fn kernel_version(tree: &FileTree) -> Option<String> {
    let release = tree.read_text("/proc/sys/kernel/osrelease")?;
    let system = tree.read_text("/proc/sys/kernel/ostype").unwrap_or_else(|| "Linux".to_owned());
    Some(format!("{system} {release}"))
}

pub(super) fn distribution_name(tree: &FileTree) -> Option<String> {
    let text =
        tree.read_text("/etc/os-release").or_else(|| tree.read_text("/usr/lib/os-release"))?;
    find_field(&text, "PRETTY_NAME", '=').map(|name| name.trim_matches(['"', '\'']).to_owned())
}

/// Extent of address space layout randomization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AslrState {
    /// Everything is randomized, for every process.
    Full,
    /// Everything but the heap is randomized.
    Partial,
    /// Nothing is randomized on this machine.
    Off,
    /// Randomization is switched off only for this process and its children (`setarch -R`).
    OffHere,
}

/// Personality flag set by `setarch -R` (`linux/personality.h`, `ADDR_NO_RANDOMIZE`).
const NO_RANDOMIZE: u32 = 0x0004_0000;

/// Returns the state of address space layout randomization.
pub(super) fn aslr_state(tree: &FileTree) -> Option<AslrState> {
    let personality = tree.read_text("/proc/self/personality");
    let flags = personality.and_then(|text| u32::from_str_radix(&text, 16).ok()).unwrap_or(0);
    match tree.read_text("/proc/sys/kernel/randomize_va_space")?.as_str() {
        "0" => Some(AslrState::Off),
        _ if flags & NO_RANDOMIZE != 0 => Some(AslrState::OffHere),
        "1" => Some(AslrState::Partial),
        _ => Some(AslrState::Full),
    }
}

/// Folder of the clock settings.
pub(super) const CLOCK_FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";

/// Returns the current and the available clock sources.
pub(super) fn clock_source(tree: &FileTree) -> Option<(String, Vec<String>)> {
    let current = tree.read_text(format!("{CLOCK_FOLDER}/current_clocksource"))?;
    let available =
        tree.read_text(format!("{CLOCK_FOLDER}/available_clocksource")).unwrap_or_default();
    Some((current, available.split_whitespace().map(str::to_owned).collect()))
}

/// Substrings of firmware names, each with the hypervisor that it indicates.
const FIRMWARE_NAMES: &[(&str, &str)] = &[
    ("Amazon EC2", "kvm (Amazon EC2)"),
    ("Google Compute Engine", "kvm (Google Compute Engine)"),
    ("VMware", "vmware"),
    ("VirtualBox", "virtualbox"),
    ("Virtual Machine", "hyper-v"),
    ("KVM", "kvm"),
    ("QEMU", "qemu"),
    ("Xen", "xen"),
];

/// Returns the hypervisor; `None` on bare metal. On x86, a processor flag reveals any hypervisor.
/// Other architectures reveal one only by names, such as the name of the firmware.
pub(super) fn detect_hypervisor(tree: &FileTree) -> Option<String> {
    let text = tree.read_text("/proc/cpuinfo").unwrap_or_default();
    let flagged = find_field(&text, "flags", ':')
        .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let firmware = ["product_name", "sys_vendor", "bios_vendor"]
        .map(|name| tree.read_text(format!("/sys/class/dmi/id/{name}")).unwrap_or_default())
        .join(" ");
    let named =
        FIRMWARE_NAMES.iter().find(|(word, _)| firmware.contains(word)).map(|(_, name)| *name);
    let clocks = clock_source(tree).map(|(_, available)| available).unwrap_or_default();
    let by_clock = clocks.iter().any(|clock| clock == "kvm-clock").then_some("kvm");
    tree.read_text("/sys/hypervisor/type")
        .or_else(|| named.or(by_clock).map(str::to_owned))
        .or_else(|| flagged.then(|| "of unknown kind".to_owned()))
}

/// Returns the kind of container, if any.
pub(super) fn detect_container(tree: &FileTree) -> Option<String> {
    let markers = [("/run/.containerenv", "podman"), ("/.dockerenv", "docker")];
    let marked = || markers.iter().find(|(file, _)| tree.exists(file)).map(|(_, kind)| *kind);
    let by_group = || {
        let group = group_path(tree)?;
        ["kubepods", "docker", "lxc", "garden"].into_iter().find(|kind| group.contains(kind))
    };
    tree.read_text("/run/systemd/container")
        .or_else(|| marked().or_else(by_group).map(str::to_owned))
}

/// Data from `/proc/meminfo`, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemoryState {
    /// Total main memory.
    pub total_bytes: u64,
    /// Memory available to programs without swapping.
    pub available_bytes: u64,
    pub swap_used_bytes: u64,
}

pub(super) fn memory_state(tree: &FileTree) -> Option<MemoryState> {
    let text = tree.read_text("/proc/meminfo")?;
    let bytes = |name| -> Option<u64> {
        let value = find_field(&text, name, ':')?.strip_suffix("kB")?.trim();
        value.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    };
    let swap = bytes("SwapTotal").unwrap_or(0).saturating_sub(bytes("SwapFree").unwrap_or(0));
    Some(MemoryState {
        total_bytes: bytes("MemTotal")?,
        // Kernels before 3.14 do not report `MemAvailable`.
        available_bytes: bytes("MemAvailable").or_else(|| bytes("MemFree"))?,
        swap_used_bytes: swap,
    })
}

/// Returns the policy for automatic huge pages: `always`, `madvise` or `never`.
pub(super) fn transparent_huge_pages(tree: &FileTree) -> Option<String> {
    let text = tree.read_text("/sys/kernel/mm/transparent_hugepage/enabled")?;
    let (_, chosen) = text.split_once('[')?;
    chosen.split_once(']').map(|(chosen, _)| chosen.to_owned())
}

pub(super) fn reserved_huge_pages(tree: &FileTree) -> Option<u64> {
    tree.read_value("/proc/sys/vm/nr_hugepages")
}

// Reads facts about the processors: their model, how many are available to us, and frequency
// control.

const CPU: &str = "/sys/devices/system/cpu";

pub(super) fn processor_model(tree: &FileTree) -> Option<String> {
    let text = tree.read_text("/proc/cpuinfo")?;
    // The line is named "model name" on x86, "cpu model" on MIPS, and "cpu" on POWER. On ARM, only
    // the board's model is known: from the line "Model" or from another file.
    let mut names = ["model name", "cpu model", "cpu", "Model"].iter();
    let named = names.find_map(|name| find_field(&text, name, ':')).map(str::to_owned);
    let model = named.or_else(|| tree.read_text("/proc/device-tree/model"))?;
    Some(model.trim_end_matches('\0').to_owned())
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
    cpus.iter().map(|cpu| *cpu as usize).collect::<CpuSet>().ranges()
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
    let quota = cpu_limit(tree).map_or(f64::INFINITY, |limit| limit.cpus);
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

// Reads the limits of CPU time and memory that a container or a service manager has set for this
// process. Supports both versions of control groups, because hosts with version 1 are still common
// (kernel documentation, `admin-guide/cgroup-v2.rst` and `cgroup-v1/`). Our control group and each
// group above it may have a limit. The lowest limit applies.

#[derive(Debug, Clone, PartialEq)]
pub(super) struct CpuLimit {
    /// Limit as a number of processors, such as 1.5.
    pub cpus: f64,
    /// Command that removes the limit.
    pub lift_command: String,
    /// Number of throttled periods since the group was created.
    pub throttled_periods: Option<u64>,
}

/// Returns the lowest CPU time limit, if any.
pub(super) fn cpu_limit(tree: &FileTree) -> Option<CpuLimit> {
    let modern = group_folders(tree, None).filter_map(|group| {
        let file = group.join("cpu.max");
        let text = tree.read_text(&file)?;
        let (quota, period) = text.split_once(' ')?;
        parse_limit(tree, &file, quota, period, "max")
    });
    let old = group_folders(tree, Some("cpu")).filter_map(|group| {
        let file = group.join("cpu.cfs_quota_us");
        let quota = tree.read_text(&file)?;
        parse_limit(tree, &file, &quota, &tree.read_text(group.join("cpu.cfs_period_us"))?, "-1")
    });
    modern.chain(old).min_by(|a, b| a.cpus.total_cmp(&b.cpus))
}

/// Parses the limit in a file; `None` if there is no limit, i.e. the quota is `max` or negative.
/// Writing `no_limit` to the file lifts the limit.
fn parse_limit(
    tree: &FileTree,
    file: &Path,
    quota: &str,
    period: &str,
    no_limit: &str,
) -> Option<CpuLimit> {
    let quota: f64 = quota.parse().ok().filter(|&quota| quota > 0.0)?;
    let period: f64 = period.parse().ok().filter(|&period| period > 0.0)?;
    let counters = tree.read_text(file.with_file_name("cpu.stat")).unwrap_or_default();
    let throttled = find_field(&counters, "nr_throttled", ' ');
    Some(CpuLimit {
        cpus: quota / period,
        lift_command: format!("echo {no_limit} | sudo tee {}", file.display()),
        throttled_periods: throttled.and_then(|count| count.parse().ok()),
    })
}

/// Returns the lowest memory limit in bytes, if any.
///
/// If there is no limit, version 1 reports a number close to 2^63.
pub(super) fn memory_limit_bytes(tree: &FileTree) -> Option<u64> {
    let modern =
        group_folders(tree, None).filter_map(|group| tree.read_value(group.join("memory.max")));
    let old = group_folders(tree, Some("memory"))
        .filter_map(|group| tree.read_value(group.join("memory.limit_in_bytes")));
    modern.chain(old).filter(|&bytes: &u64| bytes < 1 << 62).min()
}

/// Returns the longest path that our group has in any hierarchy. The path reveals what manages
/// this process, such as Docker.
pub(super) fn group_path(tree: &FileTree) -> Option<String> {
    let text = tree.read_text("/proc/self/cgroup")?;
    text.lines()
        .filter_map(|line| line.splitn(3, ':').nth(2))
        .max_by_key(|path| path.len())
        .map(str::to_owned)
}

/// Iterates over the folders of our group and of all groups above it. The folders are in the
/// version 1 hierarchy of `controller` or, without a controller, in the single hierarchy of version
/// 2.
fn group_folders(tree: &FileTree, controller: Option<&str>) -> impl Iterator<Item = PathBuf> {
    let folders = find_mount(tree, controller).map(|(root, folder)| {
        let group = find_own_group(tree, controller).unwrap_or_else(|| "/".to_owned());
        // In a container, the mount may show only a part of the hierarchy. The path of our group
        // may be outside of this part.
        let below_mount = Path::new(&group).strip_prefix(&root).unwrap_or(Path::new(""));
        below_mount
            .strip_prefix("/")
            .unwrap_or(below_mount)
            .ancestors()
            .filter(|part| !part.starts_with(".."))
            // Joining an empty path would append a slash.
            .map(|part| folder.components().chain(part.components()).collect::<PathBuf>())
            .collect::<Vec<PathBuf>>()
    });
    folders.into_iter().flatten()
}

/// Finds the mount of a hierarchy. Returns the group at the top of the mount, and the folder where
/// this group is mounted; only this group and the groups below it are visible. A line of `mountinfo`
/// reads `31 23 0:28 ROOT FOLDER OPTIONS ... - TYPE SOURCE OPTIONS`.
fn find_mount(tree: &FileTree, controller: Option<&str>) -> Option<(PathBuf, PathBuf)> {
    let mounts = tree.read_text("/proc/self/mountinfo")?;
    mounts.lines().find_map(|line| {
        let (mount_part, type_part) = line.split_once(" - ")?;
        let mut type_fields = type_part.split(' ');
        let is_match = match (type_fields.next()?, controller) {
            ("cgroup2", None) => true,
            ("cgroup", Some(controller)) => {
                type_fields.nth(1)?.split(',').any(|option| option == controller)
            }
            _ => false,
        };
        let mut mount_fields = mount_part.split(' ').skip(3);
        let (root, folder) = (mount_fields.next()?, mount_fields.next()?);
        is_match.then(|| (root.into(), folder.into()))
    })
}

/// Finds the path of our group. A line of `/proc/self/cgroup` reads `NUMBER:CONTROLLERS:PATH`;
/// version 2 has number 0.
fn find_own_group(tree: &FileTree, controller: Option<&str>) -> Option<String> {
    let groups = tree.read_text("/proc/self/cgroup")?;
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_match = match controller {
            None => number == "0" && controllers.is_empty(),
            Some(controller) => controllers.split(',').any(|name| name == controller),
        };
        is_match.then(|| path.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::file_tree::fake::machine;

    #[test]
    fn the_kernel_and_the_distribution_are_named() {
        let machine = machine(&[
            ("/proc/sys/kernel/ostype", "Linux\n"),
            ("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("/etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
        ]);
        assert_eq!(kernel_version(&machine).as_deref(), Some("Linux 6.1.0-18-amd64"));
        assert_eq!(distribution_name(&machine).as_deref(), Some("Debian GNU/Linux 12"));
    }

    #[test]
    fn randomisation_may_be_off_for_us_alone() {
        let aslr_of = |level, personality| {
            aslr_state(&machine(&[
                ("/proc/sys/kernel/randomize_va_space", level),
                ("/proc/self/personality", personality),
            ]))
        };
        assert_eq!(aslr_of("2", "00000000"), Some(AslrState::Full));
        assert_eq!(aslr_of("2", "00040000"), Some(AslrState::OffHere));
        assert_eq!(aslr_of("1", "00000000"), Some(AslrState::Partial));
        assert_eq!(aslr_of("0", "00000000"), Some(AslrState::Off));
        assert_eq!(aslr_state(&machine(&[])), None);
    }

    #[test]
    fn a_hypervisor_shows_itself_in_one_place_or_another() {
        let flag = ("/proc/cpuinfo", "flags\t\t: fpu hypervisor lm\n");
        let found = |files: &[(&str, &str)]| detect_hypervisor(&machine(files));
        assert_eq!(found(&[("/proc/cpuinfo", "flags : fpu lm\n")]), None);
        assert_eq!(found(&[flag]).as_deref(), Some("of unknown kind"));
        let amazon = [flag, ("/sys/class/dmi/id/sys_vendor", "Amazon EC2")];
        assert_eq!(found(&amazon).as_deref(), Some("kvm (Amazon EC2)"));
        let clock = [
            ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc"),
            ("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc kvm-clock"),
        ];
        assert_eq!(found(&clock).as_deref(), Some("kvm"));
        assert_eq!(found(&[("/sys/hypervisor/type", "xen\n")]).as_deref(), Some("xen"));
    }

    #[test]
    fn containers_leave_their_marks() {
        let found = |files: &[(&str, &str)]| detect_container(&machine(files));
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[("/.dockerenv", "")]).as_deref(), Some("docker"));
        assert_eq!(found(&[("/run/systemd/container", "lxc\n")]).as_deref(), Some("lxc"));
        let group = [("/proc/self/cgroup", "0::/kubepods.slice/pod1\n")];
        assert_eq!(found(&group).as_deref(), Some("kubepods"));
    }

    #[test]
    fn kilobytes_become_bytes() {
        let machine = machine(&[(
            "/proc/meminfo",
            "MemTotal:   16000 kB\nMemFree: 100 kB\nMemAvailable:  8000 kB\n\
             SwapTotal: 2000 kB\nSwapFree: 1500 kB\n",
        )]);
        let expected = MemoryState {
            total_bytes: 16_384_000,
            available_bytes: 8_192_000,
            swap_used_bytes: 512_000,
        };
        assert_eq!(memory_state(&machine), Some(expected));
    }

    #[test]
    fn the_chosen_setting_is_the_one_in_brackets() {
        let file = "/sys/kernel/mm/transparent_hugepage/enabled";
        let machine = machine(&[(file, "always [madvise] never\n")]);
        assert_eq!(transparent_huge_pages(&machine).as_deref(), Some("madvise"));
    }

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

    const NEW: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw";
    const OLD: &str = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                       33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";

    #[test]
    fn the_tightest_limit_on_the_way_up_counts() {
        let machine = machine(&[
            ("/proc/self/mountinfo", NEW),
            ("/proc/self/cgroup", "0::/user.slice/job.service\n"),
            ("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"),
            ("/sys/fs/cgroup/user.slice/cpu.stat", "usage_usec 5\nnr_throttled 12\n"),
            ("/sys/fs/cgroup/user.slice/job.service/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/user.slice/job.service/memory.max", "536870912\n"),
            ("/sys/fs/cgroup/user.slice/memory.max", "max\n"),
        ]);
        let limit = cpu_limit(&machine).unwrap();
        assert_eq!((limit.cpus, limit.throttled_periods), (1.5, Some(12)));
        let command = "echo max | sudo tee /sys/fs/cgroup/user.slice/cpu.max";
        assert_eq!(limit.lift_command, command);
        assert_eq!(memory_limit_bytes(&machine), Some(512 << 20));
    }

    #[test]
    fn limits_of_version_1_groups_are_read() {
        let machine = machine(&[
            ("/proc/self/mountinfo", OLD),
            ("/proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "200000"),
            ("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"),
            ("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712"),
        ]);
        assert_eq!(cpu_limit(&machine).unwrap().cpus, 2.0);
        assert_eq!(memory_limit_bytes(&machine), None);
        assert_eq!(group_path(&machine).as_deref(), Some("/docker/abc"));
    }

    #[test]
    fn a_container_that_sees_only_its_own_part_finds_its_limit() {
        let own_part = "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw";
        for own_group in ["0::/docker/abc", "0::/", "0::/../outside"] {
            let machine = machine(&[
                ("/proc/self/mountinfo", own_part),
                ("/proc/self/cgroup", own_group),
                ("/sys/fs/cgroup/cpu.max", "50000 100000"),
            ]);
            assert_eq!(cpu_limit(&machine).unwrap().cpus, 0.5, "{own_group}");
        }
    }

    #[test]
    fn without_control_groups_there_is_no_limit() {
        assert_eq!(cpu_limit(&machine(&[])), None);
        assert_eq!(memory_limit_bytes(&machine(&[])), None);
    }
}
