//! Bytes per response as a fingerprint of what was served.
//!
//! Decides when two variants of a case cannot have given the same answers. Whether rows were mixed up
//! is asked of `alignment.rs`. Start at [`check`].

use super::alignment;
use super::cells::{Cell, Cells, Figure};
use super::names::joined;
use super::{Check, Finding, Level};

/// Bodies of varying length average out over a run (those of one published study to 0.05 %); another
/// answer differs by more than this share.
const SAME_ANSWER: f64 = 0.01;

const REMEDY: &str = "Verify status and body of an answer under every variant, and see whether the figures \
    were put together by name.";

/// The sizes of all cases under two variants. `None` where a size is not known.
pub(super) struct Sizes<'a> {
    /// The id of the case.
    pub case: &'a str,
    /// Under the baseline.
    pub baseline: Figure,
    /// Under the candidate.
    pub candidate: Figure,
}

/// Cases whose answers differ between variants, and columns whose rows seem to be mixed up.
pub(super) fn check(cells: &Cells<'_>) -> Vec<Finding> {
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
        found.extend(alignment::check(cells, &sizes, baseline, candidate));
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
        ..Finding::new(Check::BytesPerResponse, Level::Red, says, REMEDY)
    })
}

/// From the smallest to the largest that the runs allow, around their median.
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

/// Whether two sizes are of different answers: apart in spite of rounding, and by more than bodies of
/// varying length are.
pub(super) fn differ(a: &Figure, b: &Figure) -> bool {
    let is_apart = a.high < b.low || b.high < a.low;
    is_apart && (a.value - b.value).abs() > SAME_ANSWER * a.value.min(b.value)
}

/// Whole bytes where rounding allows no more.
fn bytes(size: &Figure) -> String {
    match size.value {
        value if value >= 100.0 || size.high - size.low > 0.1 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}
