//! Records that cannot be two measurements, and runs that cannot be told apart.
//!
//! Decides how many equal digits are too many for chance. Start at [`records`] and [`unnamed`].

use super::cells::{Cell, Cells};
use super::names::joined;
use super::{Check, Finding, Level};
use speedwell_model::Run;
use std::collections::HashMap;

/// Equal digits below which two runs may agree by chance.
const FEWEST_DIGITS: usize = 12;

/// Figures below which a record may be a count that never changes.
const FEWEST_FIGURES: usize = 3;

/// One finding per set of runs that agree to the last digit in everything they tell.
pub(super) fn records(cells: &Cells<'_>) -> Vec<Finding> {
    let mut places: HashMap<Vec<(&str, u64)>, usize> = HashMap::new();
    let mut groups: Vec<Vec<(&Cell<'_>, usize)>> = Vec::new();
    for cell in &cells.cells {
        for (run, number) in cell.runs.iter().zip(1..) {
            let digits: usize = run.samples.iter().map(|sample| digits(sample.value)).sum();
            if run.samples.len() < FEWEST_FIGURES || digits < FEWEST_DIGITS {
                continue;
            }
            let place = *places.entry(record(run)).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[place].push((cell, number));
        }
    }
    let several = groups.iter().filter(|group| group.len() > 1);
    several.map(|group| same(cells, group)).collect()
}

fn same(cells: &Cells<'_>, group: &[(&Cell<'_>, usize)]) -> Finding {
    let (first, number) = group[0];
    let is_one_cell = group.iter().all(|(cell, _)| std::ptr::eq(*cell, first));
    let figures = first.runs[number - 1].samples.len();
    let mut finding = Finding::new(
        Check::IdenticalRecords,
        Level::Amber,
        "",
        "Keep one of them: measurements do not repeat to the last digit, so one record was copied.",
    );
    let names: Vec<String> = if is_one_cell {
        finding.cases = vec![first.case.clone()];
        finding.variants = cells.variant_of(first);
        finding.runs = group.iter().map(|(_, number)| *number).collect();
        finding
            .runs
            .iter()
            .map(|number| format!("run {number}"))
            .collect()
    } else {
        let mut cases: Vec<String> = group.iter().map(|(cell, _)| cell.case.clone()).collect();
        cases.dedup();
        finding.cases = cases;
        let name = |(cell, number): &(&Cell<'_>, usize)| {
            let variant = cells.variant_of(cell).concat();
            format!("run {number} of '{}' {variant}", cells.name(&cell.case))
                .trim_end()
                .to_owned()
        };
        group.iter().map(name).collect()
    };
    finding.says = format!(
        "{} are equal to the last digit in all {figures} figures: one record, {} times.",
        capital(&joined(&names)),
        group.len()
    );
    finding
}

/// Runs of one address that came in one file without names, as reports of ab do.
pub(super) fn unnamed(cells: &Cells<'_>) -> Vec<Finding> {
    let is_load = |run: &&Run| run.value_of("http_errors").is_some();
    let is_unnamed = |cell: &&Cell<'_>| {
        cells.is_one_file && cell.runs.len() > 1 && cell.runs.iter().all(is_load)
    };
    let found = cells.cells.iter().filter(is_unnamed);
    let finding = |cell: &Cell<'_>| {
        let says = format!(
            "{} reports of one address bear no names: whether they are repetitions or different \
             variants cannot be told, and they count as runs of one.",
            cell.runs.len()
        );
        let remedy = "If they are variants, put each into a file of its own: 'speedwell compare \
                      red=red.txt green=green.txt'.";
        Finding {
            cases: vec![cell.case.clone()],
            variants: cells.variant_of(cell),
            ..Finding::new(Check::UnnamedRuns, Level::Amber, says, remedy)
        }
    };
    found.map(finding).collect()
}

/// Everything that a run tells, in an order of its own.
fn record(run: &Run) -> Vec<(&str, u64)> {
    let mut record: Vec<(&str, u64)> = run
        .samples
        .iter()
        .map(|sample| (&*sample.metric, sample.value.to_bits()))
        .collect();
    record.sort_unstable();
    record
}

/// Digits that could have been others.
fn digits(value: f64) -> usize {
    if value == 0.0 {
        return 0;
    }
    let text = format!("{value:e}");
    let mantissa = text.split('e').next().unwrap_or_default();
    mantissa.bytes().filter(u8::is_ascii_digit).count()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
