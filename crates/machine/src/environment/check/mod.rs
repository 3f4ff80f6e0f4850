//! Checks the machine for sources of noise, and suggests remedies.
//!
//! A check is a function that reads a tree of files, or assesses values that this module measures.
//! It returns what it found, and how bad this is for measurements. The files under `check/` contain
//! tables with the checks of each subject. [`run_all_checks`] runs all of them. Reports
//! decide how results are shown.

mod hardware;
mod limits;

pub(crate) use hardware::{check_battery, throttle_count};
pub use limits::{CheckResult, CheckState, check_free_disk};

use crate::environment::file_tree::FileTree;
use limits::Check;
use std::path::Path;

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
    let load_and_noise = run_checks(limits::LOAD_CHECKS);
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
        run_checks(limits::PROCESS_CHECKS),
        sensors.collect(),
        limits::toolchain_checks(tree, &search),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::super::file_tree::fake::machine;
    use super::*;
    use std::collections::HashSet;

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
}
