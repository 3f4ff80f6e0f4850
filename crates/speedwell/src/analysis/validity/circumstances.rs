//! What else the machine did while it measured.
//!
//! Decides from which share on the figures are those of the machine. The limits are those of pressure
//! that `top` would not show and of a generator that has no reserve left to be on time.

use super::cells::{Cell, Cells};
use super::names::of_runs;
use super::{Check, Finding, Level};

/// A metric in percent, and from where on it is told.
struct Limit {
    check: Check,
    metric: &'static str,
    percent: f64,
    says: &'static str,
    remedy: &'static str,
}

const LIMITS: [Limit; 3] = [
    Limit {
        check: Check::GeneratorBusy,
        metric: "generator_busy",
        percent: 90.0,
        says: "The load generator used {} % of its core{}, so it may have been the limit.",
        remedy: "Give it more threads or processors of its own, or a lighter load.",
    },
    Limit {
        check: Check::Pressure,
        metric: "pressure",
        percent: 10.0,
        says: "Something waited for a processor {} % of the time{}.",
        remedy: "End what else is running, or pin server and generator to processors of their own.",
    },
    Limit {
        check: Check::Steal,
        metric: "steal",
        percent: 1.0,
        says: "The hypervisor gave {} % of the time to others{}.",
        remedy: "Measure on a machine that is not shared.",
    },
];

/// One finding per cell and limit that some of its runs exceed.
pub(super) fn check(cells: &Cells<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for limit in &LIMITS {
        found.extend(
            cells
                .cells
                .iter()
                .filter_map(|cell| of_cell(cells, cell, limit)),
        );
    }
    found
}

fn of_cell(cells: &Cells<'_>, cell: &Cell<'_>, limit: &Limit) -> Option<Finding> {
    let mut runs = Vec::new();
    let mut most = 0.0_f64;
    for (run, number) in cell.runs.iter().zip(1..) {
        if let Some(value) = run
            .value_of(limit.metric)
            .filter(|value| *value > limit.percent)
        {
            runs.push(number);
            most = most.max(value);
        }
    }
    let up_to = match runs.len() {
        1 => "",
        _ => "up to ",
    };
    let says = limit.says.replacen("{}", &format!("{up_to}{most:.0}"), 1);
    let says = says.replacen("{}", &of_runs(&runs, cell.runs.len()), 1);
    (!runs.is_empty()).then(|| Finding {
        cases: vec![cell.case.clone()],
        variants: cells.variant_of(cell),
        runs,
        ..Finding::new(limit.check, Level::Amber, says, limit.remedy)
    })
}
