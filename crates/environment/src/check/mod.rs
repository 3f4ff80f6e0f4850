//! Checks the machine for sources of noise, with the command that removes each.
//!
//! A check is a function that reads a tree of files, or judges values measured here, and returns a
//! [`Check`]; it is in the file of its subject under `check/` and listed in [`checks`]. Reports
//! decide how checks are shown.

mod hardware;
mod limits;
mod load;
mod processor;
mod state;

pub(crate) use hardware::{battery, throttled};
pub use limits::free_disk;
pub use state::{Check, State};

use crate::tree::Tree;
use std::path::Path;

/// Runs all checks that need no information beyond the machine itself; [`free_disk`] needs to know
/// where the results are stored.
///
/// `root` is `/`, or a folder whose `proc`, `sys` and programs simulate a machine. Clocks and noise
/// are measured on this machine in either case. Takes about a second, mostly for querying toolchain
/// versions.
pub fn checks(root: &Path) -> Vec<Check> {
    let tree = &Tree::at(root);
    // Read the load and measure noise before our own work increases them.
    let load = load::checks(tree);
    let noise = load::check();
    let clock = hardware::clock_checks(tree);
    let search = std::env::var_os("PATH").unwrap_or_default();
    [
        processor::checks(tree),
        load,
        vec![noise],
        clock,
        limits::checks(tree),
        hardware::checks(tree),
        limits::toolchain_checks(tree, &search),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::super::tree::fake::machine;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_machine_that_shows_nothing_gives_no_false_alarm() {
        let machine = machine(&[]);
        let measured = ["noise", "clock cost", "timer lateness"];
        for check in checks(machine.0.path()) {
            let quiet = matches!(check.state, State::Unknown | State::Good);
            assert!(
                quiet || measured.contains(&check.name.as_str()),
                "{check:?}"
            );
        }
    }

    #[test]
    fn every_check_of_this_machine_has_a_name_of_its_own_and_found_something() {
        let all = checks(Path::new("/"));
        let names: HashSet<&str> = all.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|check| !check.found.is_empty()));
        let needs_one = |check: &&Check| check.state >= State::Warning && check.remedy.is_none();
        // Restrictions imposed by the host of a guest are reported without a remedy.
        let helpless: Vec<&str> = all
            .iter()
            .filter(needs_one)
            .map(|check| &*check.name)
            .collect();
        let allowed = ["virtual machine"];
        assert!(
            helpless.iter().all(|name| allowed.contains(name)),
            "{helpless:?}"
        );
    }
}
