//! Main memory, swap and huge pages.

use super::tree::{Tree, field};

/// What `/proc/meminfo` tells, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    /// Main memory.
    pub total_bytes: u64,
    /// What programs can get without anything being written out.
    pub available_bytes: u64,
    /// Swap in use.
    pub swap_used_bytes: u64,
}

/// The state of memory now.
pub(super) fn memory(tree: &Tree) -> Option<Memory> {
    let text = tree.text("/proc/meminfo")?;
    let bytes = |name| -> Option<u64> {
        let value = field(&text, name, ':')?.strip_suffix("kB")?.trim();
        value.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    };
    let swap = bytes("SwapTotal")
        .unwrap_or(0)
        .saturating_sub(bytes("SwapFree").unwrap_or(0));
    Some(Memory {
        total_bytes: bytes("MemTotal")?,
        // Kernels before 3.14 do not estimate it themselves.
        available_bytes: bytes("MemAvailable").or_else(|| bytes("MemFree"))?,
        swap_used_bytes: swap,
    })
}

/// Which memory gets huge pages by itself: `always`, `madvise` or `never`.
pub(super) fn transparent_huge_pages(tree: &Tree) -> Option<String> {
    let text = tree.text("/sys/kernel/mm/transparent_hugepage/enabled")?;
    let (_, chosen) = text.split_once('[')?;
    chosen.split_once(']').map(|(chosen, _)| chosen.to_owned())
}

/// How many huge pages are set aside.
pub(super) fn reserved_huge_pages(tree: &Tree) -> Option<u64> {
    tree.value("/proc/sys/vm/nr_hugepages")
}

#[cfg(test)]
mod tests {
    use super::super::tree::fake::machine;
    use super::*;

    #[test]
    fn kilobytes_become_bytes() {
        let machine = machine(&[(
            "/proc/meminfo",
            "MemTotal:   16000 kB\nMemFree: 100 kB\nMemAvailable:  8000 kB\n\
             SwapTotal: 2000 kB\nSwapFree: 1500 kB\n",
        )]);
        let expected = Memory {
            total_bytes: 16_384_000,
            available_bytes: 8_192_000,
            swap_used_bytes: 512_000,
        };
        assert_eq!(memory(&machine), Some(expected));
    }

    #[test]
    fn the_chosen_setting_is_the_one_in_brackets() {
        let file = "/sys/kernel/mm/transparent_hugepage/enabled";
        let machine = machine(&[(file, "always [madvise] never\n")]);
        assert_eq!(transparent_huge_pages(&machine).as_deref(), Some("madvise"));
    }
}
