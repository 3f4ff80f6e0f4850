//! Checks that all variants of a case return responses of the same size. If the numbers of bytes
//! per response differ, the variants returned different responses.
//!
//! Decides when two sizes belong to different responses, and when a candidate has the baseline's
//! sizes in another order. Start at [`check_sizes`].

use crate::validity::cells::{CheckedCell, CheckedCells, median_over_runs};
use crate::validity::finding::{FindingSeverity, ValidityCheck, ValidityFinding, join_names};
use crate::validity::rounding::RoundedFigure;

/// Sizes that differ by at most this fraction may belong to the same response. If bodies vary in
/// length, the mean size varies little between runs (by 0.05 % in one published study).
const MAX_SAME_SIZE_SHARE: f64 = 0.01;

const SIZES_REMEDY: &str = "Verify status and body of a response under every variant, and check \
    that the figures were joined by name.";

/// Known response sizes of a case under two variants.
struct ResponseSizes<'a> {
    /// Case id.
    pub case: &'a str,
    /// Size under the baseline.
    pub baseline: RoundedFigure,
    /// Size under the candidate.
    pub candidate: RoundedFigure,
}

/// Checks for cases whose responses differ between variants, and for columns whose rows seem to be
/// mixed up.
pub(super) fn check_sizes(cells: &CheckedCells<'_>) -> Vec<ValidityFinding> {
    let mut findings: Vec<ValidityFinding> =
        cells.cells_by_case().filter_map(|case| case_finding(cells, case)).collect();
    if findings.is_empty() {
        return findings;
    }
    let Some((baseline, candidates)) = cells.variants.split_first() else {
        return findings;
    };
    for candidate in candidates {
        let sizes: Vec<ResponseSizes<'_>> = cells
            .cells_by_case()
            .filter_map(|case| {
                let cell_of = |name: &str| {
                    let mut cells = case.iter().filter(|cell| cell.has_fixed_size);
                    cells.find(|cell| *cell.variant == *name)
                };
                Some(ResponseSizes {
                    case: &case[0].case,
                    baseline: response_size(cells, cell_of(baseline)?)?,
                    candidate: response_size(cells, cell_of(candidate)?)?,
                })
            })
            .collect();
        findings.extend(check_alignment(cells, &sizes, baseline, candidate));
    }
    findings
}

fn case_finding(cells: &CheckedCells<'_>, case: &[CheckedCell<'_>]) -> Option<ValidityFinding> {
    let fixed = case.iter().filter(|cell| cell.has_fixed_size);
    let sizes: Vec<(&CheckedCell<'_>, RoundedFigure)> =
        fixed.filter_map(|cell| Some((cell, response_size(cells, cell)?))).collect();
    let (_, first) = sizes.first()?;
    let others = sizes.iter().filter(|(_, size)| sizes_differ(first, size));
    let different: Vec<&(&CheckedCell<'_>, RoundedFigure)> = others.collect();
    if different.is_empty() {
        return None;
    }
    let describe_size = |(cell, size): &(&CheckedCell<'_>, RoundedFigure)| {
        format!("{} B under '{}'", format_bytes(size), cell.variant)
    };
    let mut names = vec![describe_size(&sizes[0])];
    names.extend(different.iter().map(|entry| describe_size(entry)));
    let message = format!(
        "A response with its headers has {}: different responses were measured.",
        join_names(&names)
    );
    let variants = std::iter::once(&sizes[0]).chain(different);
    Some(ValidityFinding {
        cases: vec![case[0].case.clone()],
        variants: variants.map(|(cell, _)| cell.variant.to_string()).collect(),
        ..ValidityFinding::new(
            ValidityCheck::BytesPerResponse,
            FindingSeverity::Red,
            message,
            SIZES_REMEDY,
        )
    })
}

/// Size of a cell's responses: the median over its runs, with the range from the smallest to the
/// largest size that any of the runs, given rounding, may have had.
fn response_size(cells: &CheckedCells<'_>, cell: &CheckedCell<'_>) -> Option<RoundedFigure> {
    let mut sizes: Vec<RoundedFigure> =
        cell.runs.iter().filter_map(|run| cells.bytes_per_response(run)).collect();
    sizes.sort_by(|a, b| a.value.total_cmp(&b.value));
    let middle = sizes.get(sizes.len() / 2)?;
    Some(RoundedFigure {
        low: sizes.iter().map(|size| size.low).fold(f64::INFINITY, f64::min),
        value: middle.value,
        high: sizes.iter().map(|size| size.high).fold(0.0, f64::max),
    })
}

/// Whether two sizes belong to different responses: they differ by more than rounding and bodies of
/// varying length can explain.
fn sizes_differ(a: &RoundedFigure, b: &RoundedFigure) -> bool {
    let is_apart = a.high < b.low || b.high < a.low;
    is_apart && (a.value - b.value).abs() > MAX_SAME_SIZE_SHARE * a.value.min(b.value)
}

/// Formats a size. Small sizes get one decimal, unless rounding makes it meaningless.
fn format_bytes(size: &RoundedFigure) -> String {
    match size.value {
        value if value >= 100.0 || size.high - size.low > 0.1 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

const ALIGNMENT_REMEDY: &str =
    "Go back to the raw results and join the columns by name, never by position.";

/// Minimum number of rows. With fewer rows, a column may be sorted by coincidence.
const MIN_SORTED_ROWS: usize = 4;

/// Looks at the rows whose sizes differ, and checks whether the candidate's sizes in these rows are
/// the baseline's sizes in another order. Reports this only if exactly one order fits.
fn check_alignment(
    cells: &CheckedCells<'_>,
    sizes: &[ResponseSizes<'_>],
    baseline: &str,
    candidate: &str,
) -> Option<ValidityFinding> {
    let moved: Vec<&ResponseSizes<'_>> =
        sizes.iter().filter(|row| sizes_differ(&row.baseline, &row.candidate)).collect();
    let order = only_matching(&moved)?;
    let pairs: Vec<(String, String)> = moved
        .iter()
        .zip(&order)
        .map(|(row, &similar)| (row.case.to_owned(), moved[similar].case.to_owned()))
        .collect();
    let descriptions: Vec<String> = pairs
        .iter()
        .map(|(row, similar)| {
            format!("row '{}' looks like '{}'", cells.case_name(row), cells.case_name(similar))
        })
        .collect();
    let message = format!(
        "The responses under '{candidate}' have the sizes of those under '{baseline}' in another order: \
         {}.{}{}",
        join_names(&descriptions),
        describe_rejoined(cells, &pairs, baseline, candidate),
        describe_sorted(cells, baseline, candidate)
    );
    Some(ValidityFinding {
        cases: pairs.iter().map(|(row, _)| row.clone()).collect(),
        variants: vec![candidate.to_owned()],
        pairs,
        ..ValidityFinding::new(
            ValidityCheck::MisalignedRows,
            FindingSeverity::Red,
            message,
            ALIGNMENT_REMEDY,
        )
    })
}

/// Matches each row's size under the candidate with a similar size under the baseline, which may
/// belong to another row. Each step matches a row for which only one unassigned size fits. If
/// exactly one complete matching exists, every step finds such a row. Otherwise returns `None`.
fn only_matching(rows: &[&ResponseSizes<'_>]) -> Option<Vec<usize>> {
    let fits = |row: &usize, similar: &usize| {
        !sizes_differ(&rows[*row].candidate, &rows[*similar].baseline)
    };
    let mut unassigned: Vec<usize> = (0..rows.len()).collect();
    let mut pending = unassigned.clone();
    let mut order = vec![0; rows.len()];
    while !pending.is_empty() {
        let partners = |row: &usize| unassigned.iter().filter(|similar| fits(row, similar)).count();
        let index = pending.iter().position(|row| partners(row) == 1)?;
        let row = pending.remove(index);
        let index = unassigned.iter().position(|similar| fits(&row, similar))?;
        order[row] = unassigned.remove(index);
    }
    (rows.len() > 1).then_some(order)
}

/// A sentence with the changes of throughput after the rows are put back in place; empty if a rate
/// is unknown.
fn describe_rejoined(
    cells: &CheckedCells<'_>,
    pairs: &[(String, String)],
    baseline: &str,
    candidate: &str,
) -> String {
    let mut changes = Vec::new();
    for (row, similar) in pairs {
        let (Some(old), Some(new)) =
            (cell_rate(cells, similar, baseline), cell_rate(cells, row, candidate))
        else {
            return String::new();
        };
        let percent = 100.0 * (new / old - 1.0);
        changes.push(format!("{percent:+.0} % for '{}'", cells.case_name(similar)));
    }
    format!(" With the rows joined this way, throughput changes by {}.", join_names(&changes))
}

fn cell_rate(cells: &CheckedCells<'_>, case: &str, variant: &str) -> Option<f64> {
    let is_requested = |cell: &&CheckedCell<'_>| cell.case == case && *cell.variant == *variant;
    let cell = cells.cells.iter().find(is_requested)?;
    median_over_runs(&cell.runs, |run| Some(cells.response_rate(run)?.value))
}

/// A sentence if both columns are sorted by their rates, as if each had been sorted separately;
/// otherwise empty.
fn describe_sorted(cells: &CheckedCells<'_>, baseline: &str, candidate: &str) -> String {
    let is_sorted = |variant: &str| {
        let column: Vec<f64> = cells
            .cells
            .iter()
            .filter(|cell| *cell.variant == *variant)
            .filter_map(|cell| {
                median_over_runs(&cell.runs, |run| Some(cells.response_rate(run)?.value))
            })
            .collect();
        let is_falling = column.is_sorted_by(|a, b| a > b);
        let is_rising = column.is_sorted_by(|a, b| a < b);
        column.len() >= MIN_SORTED_ROWS && (is_falling || is_rising)
    };
    if is_sorted(baseline) && is_sorted(candidate) {
        " Each column is in the order of its own rates, as if it had been sorted separately."
            .to_owned()
    } else {
        String::new()
    }
}
