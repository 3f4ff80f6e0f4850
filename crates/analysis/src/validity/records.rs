//! Records that cannot be two measurements, because all their figures are equal to the last digit.
//!
//! Decides how many equal digits are too many for chance. A session may have more runs than fit into memory, so its cells
//! are looked at twice: a number of 64 bits is kept of every record, and the records themselves only where such numbers
//! repeat. Start at [`Digests::add`], then [`Records::add`].

use crate::validity::cells::{Cell, Cells};
use crate::validity::finding::{Check, Finding, Level, joined};
use speedwell_model::Run;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Equal digits below which two runs may agree by chance.
const FEWEST_DIGITS: usize = 12;

/// Figures below which a record may be a count that never changes.
const FEWEST_FIGURES: usize = 3;

/// A number for each record that says enough.
#[derive(Debug, Default)]
pub(super) struct Digests(Vec<u64>);

impl Digests {
    /// Those of some cells.
    pub fn add(&mut self, cells: &Cells<'_>) {
        let runs = cells.cells.iter().flat_map(|cell| &cell.runs);
        self.0.extend(runs.filter_map(|run| digest(run)));
    }

    /// Those that several runs have.
    pub fn repeated(&mut self) -> HashSet<u64> {
        let mut all = std::mem::take(&mut self.0);
        all.sort_unstable();
        let groups = all.chunk_by(|a, b| a == b);
        groups
            .filter(|group| group.len() > 1)
            .map(|group| group[0])
            .collect()
    }
}

/// Runs by what they tell.
#[derive(Debug, Default)]
pub(super) struct Records {
    places: HashMap<Vec<(String, u64)>, usize>,
    groups: Vec<Vec<Member>>,
    cells: usize,
}

/// A run of a group.
#[derive(Debug)]
struct Member {
    /// The number of its cell among all cells.
    cell: usize,
    case: String,
    /// The name of its variant, where there are several.
    variant: Vec<String>,
    /// Its number among the runs of its cell, from 1.
    number: usize,
    /// How many figures it has.
    figures: usize,
}

impl Records {
    /// The records of some cells whose number is among those that repeat.
    pub fn add(&mut self, cells: &Cells<'_>, repeated: &HashSet<u64>) {
        for cell in &cells.cells {
            for (run, number) in cell.runs.iter().zip(1..) {
                if digest(run).is_some_and(|digest| repeated.contains(&digest)) {
                    self.enter(cells, cell, (run, number));
                }
            }
            self.cells += 1;
        }
    }

    fn enter(&mut self, cells: &Cells<'_>, cell: &Cell<'_>, (run, number): (&Run, usize)) {
        let record = record(run).into_iter();
        let owned = record.map(|(metric, bits)| (metric.to_owned(), bits));
        let place = *self.places.entry(owned.collect()).or_insert_with(|| {
            self.groups.push(Vec::new());
            self.groups.len() - 1
        });
        self.groups[place].push(Member {
            cell: self.cells,
            case: cell.case.clone(),
            variant: cells.variant_of(cell),
            number,
            figures: run.samples.len(),
        });
    }

    /// One finding per set of runs that agree to the last digit in everything they tell; `name` says what sets a case apart
    /// from the others.
    pub fn findings(&self, name: &dyn Fn(&str) -> String) -> Vec<Finding> {
        let several = self.groups.iter().filter(|group| group.len() > 1);
        several.map(|group| same(group, name)).collect()
    }
}

fn same(group: &[Member], name: &dyn Fn(&str) -> String) -> Finding {
    let first = &group[0];
    let is_one_cell = group.iter().all(|member| member.cell == first.cell);
    let figures = first.figures;
    let mut finding = Finding::new(
        Check::IdenticalRecords,
        Level::Amber,
        "",
        "Keep one of them: measurements do not repeat to the last digit, so one record was copied.",
    );
    let names: Vec<String> = if is_one_cell {
        finding.cases = vec![first.case.clone()];
        finding.variants.clone_from(&first.variant);
        finding.runs = group.iter().map(|member| member.number).collect();
        finding
            .runs
            .iter()
            .map(|number| format!("run {number}"))
            .collect()
    } else {
        let mut cases: Vec<String> = group.iter().map(|member| member.case.clone()).collect();
        cases.dedup();
        finding.cases = cases;
        let name = |member: &Member| {
            let (number, variant) = (member.number, member.variant.concat());
            format!("run {number} of '{}' {variant}", name(&member.case))
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

/// A number for what a run tells; `None` if that is too little to be compared.
fn digest(run: &Run) -> Option<u64> {
    let digits: usize = run.samples.iter().map(|sample| digits(sample.value)).sum();
    if run.samples.len() < FEWEST_FIGURES || digits < FEWEST_DIGITS {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    record(run).hash(&mut hasher);
    Some(hasher.finish())
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
