//! Bytes per response as a fingerprint of what was served: two variants of a case return responses
//! of the same size.
//!
//! Decides when two sizes belong to different responses, and when a candidate's sizes are those of
//! the baseline in another order. Start at [`check_sizes`].

use crate::validity::cells::{Cell, Cells, typical};
use crate::validity::finding::{Check, Finding, Level, joined};
use crate::validity::rounding::Figure;

/// Minimum relative difference between different responses. Bodies of varying length average out
/// over a run (to 0.05 % in one published study).
const SAME_ANSWER: f64 = 0.01;

const SIZES_REMEDY: &str = "Verify status and body of an answer under every variant, and see whether the figures \
    were put together by name.";

/// Known response sizes of a case under two variants.
struct Sizes<'a> {
    /// Case id.
    pub case: &'a str,
    /// Size under the baseline.
    pub baseline: Figure,
    /// Size under the candidate.
    pub candidate: Figure,
}

/// Checks for cases whose responses differ between variants, and for columns whose rows seem to be
/// mixed up.
pub(super) fn check_sizes(cells: &Cells<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = cells
        .cases()
        .filter_map(|case| of_case(cells, case))
        .collect();
    if found.is_empty() {
        return found;
    }
    let Some((baseline, candidates)) = cells.variants.split_first() else {
        return found;
    };
    for candidate in candidates {
        let sizes: Vec<Sizes<'_>> = cells
            .cases()
            .filter_map(|case| {
                let of = |name: &str| {
                    let mut cells = case.iter().filter(|cell| cell.has_fixed_size);
                    cells.find(|cell| *cell.variant == *name)
                };
                Some(Sizes {
                    case: &case[0].case,
                    baseline: size(cells, of(baseline)?)?,
                    candidate: size(cells, of(candidate)?)?,
                })
            })
            .collect();
        found.extend(check_alignment(cells, &sizes, baseline, candidate));
    }
    found
}

fn of_case(cells: &Cells<'_>, case: &[Cell<'_>]) -> Option<Finding> {
    let fixed = case.iter().filter(|cell| cell.has_fixed_size);
    let known: Vec<(&Cell<'_>, Figure)> = fixed
        .filter_map(|cell| Some((cell, size(cells, cell)?)))
        .collect();
    let (_, first) = known.first()?;
    let others = known.iter().filter(|(_, size)| differ(first, size));
    let different: Vec<&(&Cell<'_>, Figure)> = others.collect();
    if different.is_empty() {
        return None;
    }
    let told =
        |(cell, size): &(&Cell<'_>, Figure)| format!("{} B under '{}'", bytes(size), cell.variant);
    let mut names = vec![told(&known[0])];
    names.extend(different.iter().map(|one| told(one)));
    let says = format!(
        "A response with its headers has {}: different answers were measured.",
        joined(&names)
    );
    let variants = std::iter::once(&known[0]).chain(different);
    Some(Finding {
        cases: vec![case[0].case.clone()],
        variants: variants.map(|(cell, _)| cell.variant.to_string()).collect(),
        ..Finding::new(Check::BytesPerResponse, Level::Red, says, SIZES_REMEDY)
    })
}

/// Range from the smallest to the largest size that the runs allow, around their median.
fn size(cells: &Cells<'_>, cell: &Cell<'_>) -> Option<Figure> {
    let mut known: Vec<Figure> = cell
        .runs
        .iter()
        .filter_map(|run| cells.bytes_per_response(run))
        .collect();
    known.sort_by(|a, b| a.value.total_cmp(&b.value));
    let middle = known.get(known.len() / 2)?;
    Some(Figure {
        low: known
            .iter()
            .map(|one| one.low)
            .fold(f64::INFINITY, f64::min),
        value: middle.value,
        high: known.iter().map(|one| one.high).fold(0.0, f64::max),
    })
}

/// Whether two sizes belong to different responses: they differ by more than rounding and bodies of
/// varying length explain.
fn differ(a: &Figure, b: &Figure) -> bool {
    let is_apart = a.high < b.low || b.high < a.low;
    is_apart && (a.value - b.value).abs() > SAME_ANSWER * a.value.min(b.value)
}

/// Whole bytes if rounding leaves no more precision.
fn bytes(size: &Figure) -> String {
    match size.value {
        value if value >= 100.0 || size.high - size.low > 0.1 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

const ALIGNMENT_REMEDY: &str =
    "Go back to the raw results and join the columns by name, never by position.";

/// Minimum number of rows for which a sorted column is not a coincidence.
const FEWEST_SORTED: usize = 4;

/// Checks whether the rows that differ are a permutation of each other that is unique.
fn check_alignment(
    cells: &Cells<'_>,
    sizes: &[Sizes<'_>],
    baseline: &str,
    candidate: &str,
) -> Option<Finding> {
    let moved: Vec<&Sizes<'_>> = sizes
        .iter()
        .filter(|row| differ(&row.baseline, &row.candidate))
        .collect();
    let order = only_matching(&moved)?;
    let pairs: Vec<(String, String)> = moved
        .iter()
        .zip(&order)
        .map(|(row, &like)| (row.case.to_owned(), moved[like].case.to_owned()))
        .collect();
    let looks: Vec<String> = pairs
        .iter()
        .map(|(row, like)| {
            format!(
                "row '{}' looks like '{}'",
                cells.name(row),
                cells.name(like)
            )
        })
        .collect();
    let says = format!(
        "The responses under '{candidate}' have the sizes of those under '{baseline}' in another order: \
         {}.{}{}",
        joined(&looks),
        rejoined(cells, &pairs, baseline, candidate),
        sorted(cells, baseline, candidate)
    );
    Some(Finding {
        cases: pairs.iter().map(|(row, _)| row.clone()).collect(),
        variants: vec![candidate.to_owned()],
        pairs,
        ..Finding::new(Check::MisalignedRows, Level::Red, says, ALIGNMENT_REMEDY)
    })
}

/// Matches each row with the row whose baseline it resembles. `None` if there is no perfect
/// matching or more than one: with a unique matching, some row has a single candidate at every
/// step.
fn only_matching(rows: &[&Sizes<'_>]) -> Option<Vec<usize>> {
    let fits = |row: &usize, like: &usize| !differ(&rows[*row].candidate, &rows[*like].baseline);
    let mut free: Vec<usize> = (0..rows.len()).collect();
    let mut open = free.clone();
    let mut order = vec![0; rows.len()];
    while !open.is_empty() {
        let partners = |row: &usize| free.iter().filter(|like| fits(row, like)).count();
        let at = open.iter().position(|row| partners(row) == 1)?;
        let row = open.remove(at);
        let at = free.iter().position(|like| fits(&row, like))?;
        order[row] = free.remove(at);
    }
    (rows.len() > 1).then_some(order)
}

/// Changes of throughput with the rows put back in place.
fn rejoined(
    cells: &Cells<'_>,
    pairs: &[(String, String)],
    baseline: &str,
    candidate: &str,
) -> String {
    let mut changes = Vec::new();
    for (row, like) in pairs {
        let (Some(old), Some(new)) = (rate(cells, like, baseline), rate(cells, row, candidate))
        else {
            return String::new();
        };
        let percent = 100.0 * (new / old - 1.0);
        changes.push(format!("{percent:+.0} % for '{}'", cells.name(like)));
    }
    format!(" Joined so, throughput changes by {}.", joined(&changes))
}

fn rate(cells: &Cells<'_>, case: &str, variant: &str) -> Option<f64> {
    let is_it = |cell: &&Cell<'_>| cell.case == case && *cell.variant == *variant;
    let cell = cells.cells.iter().find(is_it)?;
    typical(&cell.runs, |run| Some(cells.rate(run)?.value))
}

/// Whether both columns are in descending order, as if each had been sorted by itself.
fn sorted(cells: &Cells<'_>, baseline: &str, candidate: &str) -> String {
    let falls = |variant: &str| {
        let column: Vec<f64> = cells
            .cells
            .iter()
            .filter(|cell| *cell.variant == *variant)
            .filter_map(|cell| typical(&cell.runs, |run| Some(cells.rate(run)?.value)))
            .collect();
        let is_falling = column.is_sorted_by(|a, b| a > b);
        let is_rising = column.is_sorted_by(|a, b| a < b);
        column.len() >= FEWEST_SORTED && (is_falling || is_rising)
    };
    if falls(baseline) && falls(candidate) {
        " Either column is in the order of its own rates, as if each had been sorted by itself."
            .to_owned()
    } else {
        String::new()
    }
}
