//! Reads facts about the operating system: kernel, clock, address space layout, memory and
//! virtualization.

use crate::environment::control_group;
use crate::environment::file_tree::{FileTree, find_field};

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
    if let Some(kind) = tree.read_text("/run/systemd/container") {
        return Some(kind);
    }
    if tree.exists("/run/.containerenv") {
        return Some("podman".to_owned());
    }
    if tree.exists("/.dockerenv") {
        return Some("docker".to_owned());
    }
    let group = control_group::group_path(tree)?;
    ["kubepods", "docker", "lxc", "garden"]
        .iter()
        .find(|kind| group.contains(*kind))
        .map(|kind| (*kind).to_owned())
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
}
