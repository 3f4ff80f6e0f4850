//! Which latencies must not be ranked against each other.
//!
//! Decides that latencies compare only at the same number of requests in flight, and only by
//! generators that time a request alike.

use super::cells::{Cell, Cells, Figure};
use super::names::{joined, quoted, span};
use super::{Check, Finding, Level};
use crate::Comparison;
use speedwell_model::Verdict;

/// A load that is larger by more than this is another load.
const SAME_LOAD: f64 = 1.05;

const REMEDY: &str = "Compare throughput, or measure these again at equal requests in flight or at an equal \
    rate; until then say only which served more.";

/// Said of a comparison that is refused.
const REFUSED: &str = "The sides had different numbers of requests in flight, so these latencies are not \
    ranked.";

/// Something with a latency, as a finding names it.
struct Entry {
    name: String,
    under_way: Figure,
}

/// One finding per case whose variants, or whose runs that nobody named, carried different loads.
pub(super) fn latencies(cells: &Cells<'_>) -> Vec<Finding> {
    cells
        .cases()
        .filter_map(|case| of_case(cells, case))
        .collect()
}

fn of_case(cells: &Cells<'_>, case: &[Cell<'_>]) -> Option<Finding> {
    let mut entries: Vec<Entry> = case.iter().flat_map(|cell| entries(cells, cell)).collect();
    let pairs = pairs(&entries);
    if pairs.is_empty() {
        return None;
    }
    entries.sort_by(|a, b| b.under_way.value.total_cmp(&a.under_way.value));
    let groups: Vec<String> = entries
        .chunk_by(|a, b| !differ(&a.under_way, &b.under_way))
        .map(|group| {
            let values: Vec<f64> = group.iter().map(|entry| entry.under_way.value).collect();
            let names: Vec<String> = group.iter().map(|entry| entry.name.clone()).collect();
            format!("{} of {}", span(&values), joined(&names))
        })
        .collect();
    let says = format!(
        "Latencies belong to different numbers of requests in flight: {}. They must not be ranked across \
         these.",
        groups.join("; ")
    );
    Some(Finding {
        cases: vec![case[0].case.clone()],
        pairs,
        ..Finding::new(Check::LatencyRanking, Level::Amber, says, REMEDY)
    })
}

/// A variant, or each of its runs where these differ among themselves.
fn entries(cells: &Cells<'_>, cell: &Cell<'_>) -> Vec<Entry> {
    let numbered = cell.runs.iter().zip(1..);
    let mut known: Vec<(usize, Figure)> = numbered
        .filter_map(|(run, number)| Some((number, cells.in_flight(run)?)))
        .collect();
    let name = match cells.variants.len() {
        0 | 1 => String::new(),
        _ => cell.variant.to_string(),
    };
    let one_by_one = name.is_empty()
        && known
            .iter()
            .any(|(_, a)| known.iter().any(|(_, b)| differ(a, b)));
    if one_by_one {
        let entry = |(number, under_way)| Entry {
            name: format!("run {number}"),
            under_way,
        };
        return known.into_iter().map(entry).collect();
    }
    known.sort_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
    let median = known.get(known.len() / 2);
    let entry = |(_, under_way): &(usize, Figure)| Entry {
        name,
        under_way: *under_way,
    };
    median.map(entry).into_iter().collect()
}

fn pairs(entries: &[Entry]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, one) in entries.iter().enumerate() {
        for other in &entries[at + 1..] {
            if differ(&one.under_way, &other.under_way) {
                found.push((one.name.clone(), other.name.clone()));
            }
        }
    }
    found
}

fn differ(a: &Figure, b: &Figure) -> bool {
    b.low > a.high * SAME_LOAD || a.low > b.high * SAME_LOAD
}

/// Generators that count the time of a request from different moments.
pub(super) fn generators(cells: &Cells<'_>) -> Option<Finding> {
    let mut known: Vec<&str> = Vec::new();
    for cell in &cells.cells {
        let name = cell.generator.as_deref();
        known.extend(name.filter(|name| !known.contains(name)));
    }
    let says = format!(
        "Latencies come from {}, which may count from different moments.",
        quoted(known.iter().copied())
    );
    let remedy = "Compare latencies of one generator in one version only.";
    (known.len() > 1).then(|| Finding::new(Check::Generators, Level::Amber, says, remedy))
}

/// Takes back the verdicts on latencies that must not be ranked.
pub(crate) fn refuse(validity: &[Finding], comparisons: &mut [Comparison]) {
    let rankings = validity
        .iter()
        .filter(|finding| finding.check == Check::LatencyRanking);
    for ranking in rankings {
        let is_refused = |a: &str, b: &str| {
            let both = |(one, other): &(String, String)| {
                (one == a && other == b) || (one == b && other == a)
            };
            ranking.pairs.iter().any(both)
        };
        for comparison in comparisons.iter_mut() {
            let is_latency = comparison.metric.name.starts_with("latency");
            if !is_latency || !is_refused(&comparison.baseline, &comparison.candidate) {
                continue;
            }
            let rows = comparison.rows.iter_mut();
            for row in rows.filter(|row| ranking.cases.contains(&row.case.id())) {
                row.verdict = Verdict::Unclear;
                row.more_runs = None;
                row.notes.push(REFUSED.to_owned());
            }
        }
    }
}
