//! Checks of what the system allows and does to processes: address layout, counters, open files.

use super::{Check, State};
use crate::system::{Aslr, aslr};
use crate::tree::{Tree, field};

pub(super) fn checks(tree: &Tree) -> Vec<Check> {
    vec![
        address_layout(tree),
        performance_counters(tree),
        open_files(tree),
    ]
}

/// Randomised layouts average out over processes. One fixed layout has less variance, but its
/// luck is taken for a property of the program (docs/why/statistics.md, "Run plan").
fn address_layout(tree: &Tree) -> Check {
    const NAME: &str = "aslr";
    const SETTING: &str = "/proc/sys/kernel/randomize_va_space";
    match aslr(tree) {
        None => Check::unknown(NAME),
        Some(Aslr::Full) => Check::new(NAME, State::Good, "on: layouts are averaged over runs"),
        Some(Aslr::OffHere) => Check::new(
            NAME,
            State::Warning,
            "off for this shell: one layout is frozen",
        )
        .remedy("start speedwell without 'setarch -R'"),
        Some(found @ (Aslr::Off | Aslr::Partial)) => {
            let found = match found {
                Aslr::Off => "off: one layout is frozen and its luck with it",
                _ => "partial: the heap is not randomised",
            };
            Check::new(NAME, State::Warning, found).remedy(format!("echo 2 | sudo tee {SETTING}"))
        }
    }
}

/// Capabilities that lift the limit, by number (`linux/capability.h`): the general one of
/// administrators, and the one made for this since Linux 5.8.
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;

/// Up to level 1 a user may count kernel events of own processes, at level 2 only their user
/// part; from 3 on, which distributions have added, nothing.
fn performance_counters(tree: &Tree) -> Check {
    const NAME: &str = "performance counters";
    let level: Option<i32> = tree.value("/proc/sys/kernel/perf_event_paranoid");
    let status = tree.text("/proc/self/status").unwrap_or_default();
    let capabilities = field(&status, "CapEff", ':')
        .and_then(|text| u64::from_str_radix(text, 16).ok())
        .unwrap_or(0);
    let is_lifted = capabilities & (CAP_SYS_ADMIN | CAP_PERFMON) != 0;
    let (state, found) = match level {
        None => return Check::new(NAME, State::Unknown, "the kernel has no such counters"),
        Some(level) if level <= 1 || is_lifted => (State::Good, "allowed"),
        Some(2) => (State::Warning, "allowed for user code only"),
        Some(_) => (State::Warning, "not allowed"),
    };
    // In virtual machines the software events work while the processor's own counters are absent.
    let has_hardware = tree
        .names("/sys/bus/event_source/devices")
        .iter()
        .any(|name| name == "cpu" || name.starts_with("cpu_") || name.starts_with("armv"));
    let hardware = if has_hardware {
        ""
    } else {
        ", but the processor's own are not there"
    };
    Check::new(NAME, state, format!("{found}{hardware}"))
        .remedy("sudo sysctl kernel.perf_event_paranoid=1")
}

/// Every connection of a load test is an open file, on either side.
fn open_files(tree: &Tree) -> Check {
    const NAME: &str = "open files";
    const ENOUGH: u64 = 4096;
    let limits = tree.text("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let mut words = line
        .unwrap_or_default()
        .split_whitespace()
        .map(|word| match word {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        });
    let (Some(Some(soft)), Some(Some(hard))) = (words.next(), words.next()) else {
        return Check::unknown(NAME);
    };
    let state = if soft >= ENOUGH {
        State::Good
    } else {
        State::Warning
    };
    let found = match soft {
        u64::MAX => "no limit".to_owned(),
        soft => format!("at most {soft} at once"),
    };
    let remedy = if hard >= ENOUGH {
        format!("ulimit -n {}", hard.min(65_536))
    } else {
        "sudo prlimit --pid $$ --nofile=65536:65536".to_owned()
    };
    Check::new(NAME, state, found).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::fake::machine;

    #[test]
    fn a_frozen_layout_is_warned_of() {
        let check_of =
            |level| address_layout(&machine(&[("/proc/sys/kernel/randomize_va_space", level)]));
        assert_eq!(check_of("2").state, State::Good);
        let off = check_of("0");
        let command = "echo 2 | sudo tee /proc/sys/kernel/randomize_va_space";
        assert_eq!(
            (off.state, off.remedy.as_deref()),
            (State::Warning, Some(command))
        );
        assert!(check_of("1").found.contains("partial"));
    }

    #[test]
    fn counters_depend_on_the_level_and_on_capabilities() {
        let check_of = |level, capabilities| {
            performance_counters(&machine(&[
                ("/proc/sys/kernel/perf_event_paranoid", level),
                ("/proc/self/status", capabilities),
                ("/sys/bus/event_source/devices/cpu/type", "4"),
            ]))
        };
        let user = "CapEff:\t0000000000000000";
        assert_eq!(check_of("1", user).state, State::Good);
        assert_eq!(check_of("2", user).found, "allowed for user code only");
        assert_eq!(check_of("4", user).found, "not allowed");
        assert!(
            check_of("4", user)
                .remedy
                .unwrap()
                .contains("perf_event_paranoid=1")
        );
        assert_eq!(
            check_of("4", "CapEff:\t000001ffffffffff").state,
            State::Good
        );
    }

    #[test]
    fn missing_hardware_counters_are_mentioned() {
        let machine = machine(&[("/proc/sys/kernel/perf_event_paranoid", "-1")]);
        let found = performance_counters(&machine).found;
        assert_eq!(found, "allowed, but the processor's own are not there");
        assert_eq!(
            performance_counters(&super::super::super::tree::fake::machine(&[])).state,
            State::Unknown
        );
    }

    #[test]
    fn a_low_limit_of_open_files_is_raised_as_far_as_allowed() {
        let check_of = |soft: &str, hard: &str| {
            let line = format!("Limit  Soft  Hard  Units\nMax open files  {soft}  {hard}  files\n");
            open_files(&machine(&[("/proc/self/limits", &line)]))
        };
        let low = check_of("1024", "524288");
        assert_eq!(
            (low.state, low.remedy.as_deref()),
            (State::Warning, Some("ulimit -n 65536"))
        );
        assert!(
            check_of("1024", "1024")
                .remedy
                .unwrap()
                .starts_with("sudo prlimit")
        );
        assert_eq!(check_of("unlimited", "unlimited").found, "no limit");
        assert_eq!(check_of("20000", "20000").state, State::Good);
    }
}
