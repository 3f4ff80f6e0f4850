//! Finds records that cannot be separate measurements, because all their values agree in every
//! digit.
//!
//! Decides how many equal digits rule out coincidence. A session may have more runs than fit in
//! memory, so its cells are read twice. The first pass keeps a 64-bit digest of each record, and
//! the second pass keeps only the records whose digests repeat. Start at
//! [`RecordDigests::add_cells`], then [`RecordGroups::add_cells`].

use crate::validity::cells::{CheckedCell, CheckedCells};
use crate::validity::finding::{FindingSeverity, ValidityCheck, ValidityFinding, join_names};
use speedwell_model::Run;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Minimum number of digits in a record. Records with fewer digits may be equal by chance.
const MIN_EQUAL_DIGITS: usize = 12;

/// Minimum number of figures in a record. The figures of smaller records may be counts that never
/// change.
const MIN_RECORD_FIGURES: usize = 3;

/// A digest for each record with enough figures.
#[derive(Debug, Default)]
pub(super) struct RecordDigests(Vec<u64>);

impl RecordDigests {
    /// Adds the digests of some cells.
    pub fn add_cells(&mut self, cells: &CheckedCells<'_>) {
        let runs = cells.cells.iter().flat_map(|cell| &cell.runs);
        self.0.extend(runs.filter_map(|run| record_digest(run)));
    }

    /// Removes all digests, and returns the digests that several runs share.
    pub fn take_repeated(&mut self) -> HashSet<u64> {
        let mut digests = std::mem::take(&mut self.0);
        digests.sort_unstable();
        let groups = digests.chunk_by(|a, b| a == b);
        groups.filter(|group| group.len() > 1).map(|group| group[0]).collect()
    }
}

/// Runs grouped by their figures.
#[derive(Debug, Default)]
pub(super) struct RecordGroups {
    group_indices: HashMap<Vec<(String, u64)>, usize>,
    groups: Vec<Vec<GroupMember>>,
    cells: usize,
}

/// A run of a group.
#[derive(Debug)]
struct GroupMember {
    /// Index of its cell among all cells.
    cell: usize,
    case: String,
    /// Name of its variant, if there are several.
    variant: Vec<String>,
    /// Number among the runs of its cell, counting from 1.
    number: usize,
    /// Number of figures.
    figures: usize,
}

impl RecordGroups {
    /// Adds the records of some cells, leaving out records whose digest is not in `repeated`.
    pub fn add_cells(&mut self, cells: &CheckedCells<'_>, repeated: &HashSet<u64>) {
        for cell in &cells.cells {
            for (run, number) in cell.runs.iter().zip(1..) {
                if record_digest(run).is_some_and(|digest| repeated.contains(&digest)) {
                    self.add_record(cells, cell, (run, number));
                }
            }
            self.cells += 1;
        }
    }

    fn add_record(
        &mut self,
        cells: &CheckedCells<'_>,
        cell: &CheckedCell<'_>,
        (run, number): (&Run, usize),
    ) {
        let record = record_figures(run).into_iter();
        let owned = record.map(|(metric, bits)| (metric.to_owned(), bits));
        let group = *self.group_indices.entry(owned.collect()).or_insert_with(|| {
            self.groups.push(Vec::new());
            self.groups.len() - 1
        });
        self.groups[group].push(GroupMember {
            cell: self.cells,
            case: cell.case.clone(),
            variant: cells.variant_of(cell),
            number,
            figures: run.samples.len(),
        });
    }

    /// One finding per set of runs whose figures all agree to the last digit; `name` returns the
    /// distinguishing name of a case.
    pub fn group_findings(&self, name: &dyn Fn(&str) -> String) -> Vec<ValidityFinding> {
        let repeated = self.groups.iter().filter(|group| group.len() > 1);
        repeated.map(|group| same_finding(group, name)).collect()
    }
}

fn same_finding(group: &[GroupMember], name: &dyn Fn(&str) -> String) -> ValidityFinding {
    let first = &group[0];
    let is_one_cell = group.iter().all(|member| member.cell == first.cell);
    let figures = first.figures;
    let mut finding = ValidityFinding::new(
        ValidityCheck::IdenticalRecords,
        FindingSeverity::Amber,
        "",
        "Keep one of them: measurements do not repeat to the last digit, so one record was copied.",
    );
    let names: Vec<String> = if is_one_cell {
        finding.cases = vec![first.case.clone()];
        finding.variants.clone_from(&first.variant);
        finding.runs = group.iter().map(|member| member.number).collect();
        finding.runs.iter().map(|number| format!("run {number}")).collect()
    } else {
        let mut cases: Vec<String> = group.iter().map(|member| member.case.clone()).collect();
        cases.dedup();
        finding.cases = cases;
        let name = |member: &GroupMember| {
            let (number, variant) = (member.number, member.variant.concat());
            format!("run {number} of '{}' {variant}", name(&member.case)).trim_end().to_owned()
        };
        group.iter().map(name).collect()
    };
    finding.says = format!(
        "{} are equal to the last digit in all {figures} figures: the same record appears {} times.",
        capitalize(&join_names(&names)),
        group.len()
    );
    finding
}

/// Digest of a run's figures; `None` if there are too few to compare.
fn record_digest(run: &Run) -> Option<u64> {
    let digits: usize = run.samples.iter().map(|sample| count_digits(sample.value)).sum();
    if run.samples.len() < MIN_RECORD_FIGURES || digits < MIN_EQUAL_DIGITS {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    record_figures(run).hash(&mut hasher);
    Some(hasher.finish())
}

/// All figures of a run, in canonical order.
fn record_figures(run: &Run) -> Vec<(&str, u64)> {
    let mut record: Vec<(&str, u64)> =
        run.samples.iter().map(|sample| (&*sample.metric, sample.value.to_bits())).collect();
    record.sort_unstable();
    record
}

/// Number of significant digits.
fn count_digits(value: f64) -> usize {
    if value == 0.0 {
        return 0;
    }
    let text = format!("{value:e}");
    let mantissa = text.split('e').next().unwrap_or_default();
    mantissa.bytes().filter(u8::is_ascii_digit).count()
}

fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}
