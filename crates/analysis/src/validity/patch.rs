//! Variables that reach every process of a command, the instrument among them.
//!
//! Decides which variables change programs from outside. It sees only commands that a file tells; our
//! own variants reach the measured program alone.

use super::cells::Cells;
use super::names::{joined, quoted};
use super::{Check, Finding, Level};

/// Variables by which a runtime or the loader takes up more code.
const REACHING: [&str; 8] = [
    "NODE_OPTIONS",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "JAVA_TOOL_OPTIONS",
    "RUBYOPT",
    "PERL5OPT",
];

const REMEDY: &str =
    "Give the variable to the measured program only, as a variant of Speedwell does.";

/// The finding, if commands of an imported file set such a variable.
pub(super) fn check(cells: &Cells<'_>) -> Option<Finding> {
    if !cells.is_imported {
        return None;
    }
    let sets = |case: &str, name: &str| {
        let mut words = case.split([' ', '"', '\'']);
        words.any(|word| {
            word.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('='))
        })
    };
    let mut cases: Vec<String> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for cell in &cells.cells {
        let found: Vec<&str> = REACHING
            .into_iter()
            .filter(|name| sets(&cell.case, name))
            .collect();
        if !found.is_empty() && !cases.contains(&cell.case) {
            cases.push(cell.case.clone());
        }
        for name in found {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let says = format!(
        "The command sets {}, which every process that it starts takes over. Whether a load generator or \
         a driver of the test was among them, and was slowed down as well, is not known.",
        match names.len() {
            1 => names.concat(),
            _ => joined(&[quoted(names.iter().copied())]),
        }
    );
    (!cases.is_empty()).then(|| Finding {
        cases,
        ..Finding::new(Check::ReachOfPatch, Level::Amber, says, REMEDY)
    })
}
