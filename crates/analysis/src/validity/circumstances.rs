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

/// The runs of a cell that exceed a limit.
struct Excess<'a, 's> {
    cell: &'a Cell<'s>,
    /// Counted from 1.
    runs: Vec<usize>,
    most: f64,
}

/// One finding per limit that some runs exceed: what else a machine did is seldom about one cell.
pub(super) fn check(cells: &Cells<'_>) -> Vec<Finding> {
    LIMITS
        .iter()
        .filter_map(|limit| of_limit(cells, limit))
        .collect()
}

fn of_limit(cells: &Cells<'_>, limit: &Limit) -> Option<Finding> {
    let excesses = cells.cells.iter().filter_map(|cell| excess(cell, limit));
    let excesses: Vec<Excess<'_, '_>> = excesses.collect();
    let worst = excesses
        .iter()
        .max_by(|one, other| one.most.total_cmp(&other.most))?;
    let hits: usize = excesses.iter().map(|excess| excess.runs.len()).sum();
    let up_to = if hits == 1 { "" } else { "up to " };
    let percent = format!("{up_to}{:.0}", worst.most);
    let cases = once(excesses.iter().map(|excess| excess.cell.case.clone()));
    let (runs, place) = match &excesses[..] {
        [only] => (only.runs.clone(), of_runs(&only.runs, only.cell.runs.len())),
        _ => {
            let all: usize = cells.cells.iter().map(|cell| cell.runs.len()).sum();
            let numbers: Vec<usize> = (1..=hits).collect();
            let count = if hits == all {
                of_runs(&numbers, all)
            } else {
                format!(" in {hits} of {all} runs")
            };
            (
                Vec::new(),
                count + &most_with(cells, worst.cell, cases.len()),
            )
        }
    };
    let says = limit.says.replacen("{}", &percent, 1);
    Some(Finding {
        cases,
        variants: once(
            excesses
                .iter()
                .flat_map(|excess| cells.variant_of(excess.cell)),
        ),
        runs,
        ..Finding::new(
            limit.check,
            Level::Amber,
            says.replacen("{}", &place, 1),
            limit.remedy,
        )
    })
}

fn excess<'a, 's>(cell: &'a Cell<'s>, limit: &Limit) -> Option<Excess<'a, 's>> {
    let values = cell.runs.iter().zip(1..).filter_map(|(run, number)| {
        let value = run.value_of(limit.metric)?;
        (value > limit.percent).then_some((number, value))
    });
    let (runs, values): (Vec<usize>, Vec<f64>) = values.unzip();
    let most = values.into_iter().reduce(f64::max)?;
    Some(Excess { cell, runs, most })
}

/// Where it was worst, of so many cases: `, most with 'cyan' in 'http server=koa'`.
fn most_with(cells: &Cells<'_>, worst: &Cell<'_>, cases: usize) -> String {
    let case = (cases > 1).then(|| worst.case.clone());
    let names = cells.variant_of(worst).into_iter().chain(case);
    let names: Vec<String> = names.map(|name| format!("'{name}'")).collect();
    format!(", most with {}", names.join(" in "))
}

/// Each of them once, in order.
fn once(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}
