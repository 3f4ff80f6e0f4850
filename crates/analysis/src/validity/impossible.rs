//! Checks for figures that contradict each other or are impossible, and for responses of a case
//! that differ in size between variants, which shows that the variants returned different
//! responses.
//!
//! Decides which relations always hold: times and rates are not negative, a higher percentile is
//! not below a lower one, a mean lies between minimum and maximum, and a single time is not known
//! more precisely than to the nanosecond. Allows for rounding of published figures and for the
//! width of histogram bins. Start at [`check_impossible`].
//!
//! Also decides when two sizes belong to different responses, and when a candidate has the
//! baseline's sizes in another order. Start at [`check_sizes`].

use crate::validity::cells::{CheckedCell, CheckedCells, RoundedFigure};
use crate::validity::finding::{ValidityCheck, ValidityFinding, format_run_numbers, join_names};
use speedwell_model::{Metric, Run};
use std::collections::BTreeMap;

const REMEDY: &str = "Do not use these figures. Look for a wrong unit, shifted or swapped columns, and digits that \
    were lost or invented.";

/// Prefix of metrics that are times of single requests.
const LATENCY_PREFIX: &str = "latency_";

/// Quantities that, like latencies, cannot be negative.
const NEVER_NEGATIVE: [&str; 8] = [
    "throughput",
    "requests_per_second",
    "bytes_per_second",
    "bytes_per_response",
    "time",
    "wall_time",
    "http_errors",
    "http_non2xx",
];

/// Bin width of histograms with two significant digits, as a fraction of the value.
const BIN_WIDTH: f64 = 0.01;

/// Maximum error from multiplying a whole number of nanoseconds by a power of ten, in nanoseconds.
const FLOAT_ERROR_NS: f64 = 1e-3;

/// One finding per kind of contradiction in a cell, with the affected runs.
pub(super) fn check_impossible(
    cells: &CheckedCells<'_>,
    cell: &CheckedCell<'_>,
) -> Vec<ValidityFinding> {
    let mut contradictions: BTreeMap<&'static str, (Vec<usize>, String)> = BTreeMap::new();
    for (run, number) in cell.runs.iter().zip(1..) {
        for (kind, message) in contradictions_of_run(cells, run) {
            let (runs, _) = contradictions.entry(kind).or_insert((Vec::new(), message));
            runs.push(number);
        }
    }
    let finding = |(_, (runs, message)): (&str, (Vec<usize>, String))| {
        let message = format!("{message}{}.", format_run_numbers(&runs, cell.runs.len()));
        ValidityFinding::red(ValidityCheck::Impossible, message, REMEDY).in_cell(cells, cell, runs)
    };
    contradictions.into_iter().map(finding).collect()
}

/// Contradictions in a run, as kind and message. Each kind occurs at most once.
fn contradictions_of_run(cells: &CheckedCells<'_>, run: &Run) -> Vec<(&'static str, String)> {
    let checks = [
        ("negative", check_negative(run)),
        ("disorder", check_order(cells, run)),
        ("mean", check_mean(cells, run)),
        ("precision", check_precision(cells, run)),
    ];
    checks.into_iter().filter_map(|(kind, message)| Some((kind, message?))).collect()
}

fn check_negative(run: &Run) -> Option<String> {
    let samples = run.samples.iter().filter(|sample| sample.value < 0.0);
    let names = samples
        .map(|sample| &*sample.metric)
        .filter(|name| name.starts_with(LATENCY_PREFIX) || NEVER_NEGATIVE.contains(name));
    let mut names: Vec<String> = names.map(|name| format!("'{name}'")).collect();
    names.dedup();
    (!names.is_empty()).then(|| format!("{} is below zero", join_names(&names)))
}

/// Latencies of a run as (percentage, metric, time), sorted by percentage. The percentage is the
/// share of requests that took no longer than the time.
fn times_by_share(run: &Run) -> Vec<(f64, &str, f64)> {
    let times = run.samples.iter().filter_map(|sample| {
        Some((Metric::latency_percent(&sample.metric)?, &*sample.metric, sample.value))
    });
    let mut times: Vec<_> = times.collect();
    times.sort_by(|one, other| one.0.total_cmp(&other.0));
    times
}

fn check_order(cells: &CheckedCells<'_>, run: &Run) -> Option<String> {
    let times = times_by_share(run);
    let mut pairs = times
        .iter()
        .enumerate()
        .flat_map(|(index, low)| times[index + 1..].iter().map(move |high| (low, high)));
    let ((_, low, low_ns), (_, high, high_ns)) =
        pairs.find(|((low_share, low, low_ns), (high_share, high, high_ns))| {
            low_share < high_share && clearly_exceeds(cells, (low, *low_ns), (high, *high_ns))
        })?;
    let (high_ms, low_ms) = (format_ms(*high_ns), format_ms(*low_ns));
    Some(format!("'{high}' is {high_ms}, less than '{low}' of {low_ms}"))
}

fn check_mean(cells: &CheckedCells<'_>, run: &Run) -> Option<String> {
    let metric = |name: &'static str| Some((name, run.value_of(name)?));
    let mean = metric("latency_mean")?;
    let min_above_mean = metric("latency_min").filter(|min| clearly_exceeds(cells, *min, mean));
    let max_below_mean = metric("latency_max").filter(|max| clearly_exceeds(cells, mean, *max));
    let (relation, (name, ns)) = match (min_above_mean, max_below_mean) {
        (Some(min), _) => ("less than", min),
        (None, Some(max)) => ("more than", max),
        (None, None) => return None,
    };
    Some(format!(
        "the mean latency is {}, {relation} '{name}' of {}",
        format_ms(mean.1),
        format_ms(ns)
    ))
}

/// Whether the first latency exceeds the second by more than rounding and histogram bins can
/// explain. Each latency is given as metric name and time.
fn clearly_exceeds(cells: &CheckedCells<'_>, first: (&str, f64), second: (&str, f64)) -> bool {
    let rounding = (cells.rounding_step(first.0) + cells.rounding_step(second.0)) / 2.0;
    first.1 > second.1 + second.1.abs() * BIN_WIDTH + rounding
}

/// Checks that minimum and maximum are whole nanoseconds. Both are times of single requests, which
/// clocks report in whole nanoseconds. Percentiles and means are not checked, because they may be
/// computed from several times.
fn check_precision(cells: &CheckedCells<'_>, run: &Run) -> Option<String> {
    let is_broken =
        |ns: &f64| (ns - ns.round()).abs() > FLOAT_ERROR_NS.max(ns.abs() * f64::EPSILON * 4.0);
    let mut extremes = ["latency_min", "latency_max"]
        .into_iter()
        .filter_map(|name| Some((name, run.value_of(name)?)));
    let (name, _) = extremes.find(|(_, ns)| cells.is_imported && is_broken(ns))?;
    Some(format!("'{name}' has digits below a nanosecond, which no clock resolves"))
}

fn format_ms(ns: f64) -> String {
    format!("{} ms", (ns / 1e3).round() / 1e3)
}

/// Sizes that differ by at most this fraction may belong to the same response. If bodies vary in
/// length, the mean size varies little between runs (by 0.05% in one published study).
const MAX_SAME_SIZE_SHARE: f64 = 0.01;

const SIZES_REMEDY: &str = "Verify status and body of a response under every variant, and check \
    that the figures were joined by name.";

/// Known response sizes of a case under two variants.
type ResponseSizes<'a> = (&'a str, [RoundedFigure; 2]);

/// Checks for cases whose responses differ between variants, and for columns whose rows seem to be
/// mixed up.
pub(super) fn check_sizes(cells: &CheckedCells<'_>) -> Vec<ValidityFinding> {
    let mut findings: Vec<ValidityFinding> =
        cells.cells_by_case().filter_map(|case| case_finding(cells, case)).collect();
    if findings.is_empty() {
        return findings;
    }
    let Some((baseline, candidates)) = cells.variants.split_first() else { return findings };
    for candidate in candidates {
        let sizes: Vec<ResponseSizes<'_>> = cells
            .cells_by_case()
            .filter_map(|case| {
                let cell_of = |name: &str| {
                    let mut cells = case.iter().filter(|cell| cell.has_fixed_size);
                    cells.find(|cell| *cell.variant == *name)
                };
                let size_of = |name: &str| response_size(cells, cell_of(name)?);
                Some((&*case[0].case, [size_of(baseline)?, size_of(candidate)?]))
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
    let different: Vec<_> = sizes.iter().filter(|(_, size)| sizes_differ(first, size)).collect();
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
        ..ValidityFinding::red(ValidityCheck::BytesPerResponse, message, SIZES_REMEDY)
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
        sizes.iter().filter(|(_, [old, new])| sizes_differ(old, new)).collect();
    let order = only_matching(&moved)?;
    let pairs: Vec<(String, String)> = moved
        .iter()
        .zip(&order)
        .map(|(row, &similar)| (row.0.to_owned(), moved[similar].0.to_owned()))
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
        ..ValidityFinding::red(ValidityCheck::MisalignedRows, message, ALIGNMENT_REMEDY)
    })
}

/// Matches each row's size under the candidate with a similar size under the baseline, which may
/// belong to another row. Each step matches a row for which only one unassigned size fits. If
/// exactly one complete matching exists, every step finds such a row. Otherwise returns `None`.
fn only_matching(rows: &[&ResponseSizes<'_>]) -> Option<Vec<usize>> {
    let fits = |row: &usize, similar: &usize| !sizes_differ(&rows[*row].1[1], &rows[*similar].1[0]);
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
        changes.push(format!("{percent:+.0}% for '{}'", cells.case_name(similar)));
    }
    format!(" With the rows joined this way, throughput changes by {}.", join_names(&changes))
}

fn cell_rate(cells: &CheckedCells<'_>, case: &str, variant: &str) -> Option<f64> {
    let is_requested = |cell: &&CheckedCell<'_>| cell.case == case && *cell.variant == *variant;
    cells.median_rate(cells.cells.iter().find(is_requested)?)
}

/// A sentence if both columns are sorted by their rates, as if each had been sorted separately;
/// otherwise empty.
fn describe_sorted(cells: &CheckedCells<'_>, baseline: &str, candidate: &str) -> &'static str {
    let is_sorted = |variant: &str| {
        let column: Vec<f64> = cells
            .cells
            .iter()
            .filter(|cell| *cell.variant == *variant)
            .filter_map(|cell| cells.median_rate(cell))
            .collect();
        let is_falling = column.is_sorted_by(|a, b| a > b);
        let is_rising = column.is_sorted_by(|a, b| a < b);
        column.len() >= MIN_SORTED_ROWS && (is_falling || is_rising)
    };
    if is_sorted(baseline) && is_sorted(candidate) {
        " Each column is in the order of its own rates, as if it had been sorted separately."
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{add_run, of_check, published};
    use super::*;
    use crate::validity::finding::FindingSeverity;
    use crate::validity::{KnownFacts, check_session};
    use speedwell_model::{Metric, MetricDirection};

    /// Figures that replace the figures in [`SOUND`]. The load has 100 connections.
    type LoadTable = &'static [(&'static str, f64)];

    /// Consistent figures: 20,000 requests per second, at 5 ms each, keep 100 requests in flight.
    const SOUND: [(&str, f64); 8] = [
        ("throughput", 20_000.0),
        ("latency_mean", 5e6),
        ("latency_min", 1e6),
        ("latency_p50", 4.5e6),
        ("latency_p90", 8e6),
        ("latency_p99", 12e6),
        ("latency_max", 40e6),
        ("bytes_per_second", 4e6),
    ];

    const FAULTY: [(&str, LoadTable); 13] = [
        (
            "latencies times 1,000",
            &[
                ("latency_mean", 5e9),
                ("latency_min", 1e9),
                ("latency_p50", 4.5e9),
                ("latency_p90", 8e9),
                ("latency_p99", 12e9),
                ("latency_max", 40e9),
            ],
        ),
        (
            "latencies divided by 1,000",
            &[
                ("latency_mean", 5e3),
                ("latency_min", 1e3),
                ("latency_p50", 4.5e3),
                ("latency_p90", 8e3),
                ("latency_p99", 12e3),
                ("latency_max", 40e3),
            ],
        ),
        ("rate times 10", &[("throughput", 200_000.0), ("bytes_per_second", 40e6)]),
        ("rate divided by 2", &[("throughput", 10_000.0), ("bytes_per_second", 2e6)]),
        ("p99 below p50", &[("latency_p99", 3e6)]),
        ("p50 above p90", &[("latency_p50", 10e6)]),
        ("least above greatest", &[("latency_min", 50e6)]),
        ("greatest below p99", &[("latency_max", 9.5e6)]),
        (
            "mean above greatest",
            &[
                ("latency_max", 3.5e6),
                ("latency_p50", 2e6),
                ("latency_p90", 3e6),
                ("latency_p99", 3.4e6),
            ],
        ),
        ("mean below least", &[("latency_min", 6.5e6), ("latency_p50", 7e6)]),
        ("negative time", &[("latency_min", -1e6)]),
        ("negative rate", &[("throughput", -20_000.0)]),
        ("picoseconds", &[("latency_max", 40_123_456.789)]),
    ];

    const GOOD: [(&str, LoadTable); 10] = [
        ("as it is", &[]),
        (
            "rounded to milliseconds",
            &[
                ("latency_min", 1e6),
                ("latency_p50", 5e6),
                ("latency_p90", 8e6),
                ("latency_p99", 12e6),
            ],
        ),
        ("a mean rounded up", &[("latency_mean", 5.2e6)]),
        ("a mean rounded down", &[("latency_mean", 4.8e6)]),
        (
            "all the same",
            &[
                ("latency_min", 5e6),
                ("latency_p50", 5e6),
                ("latency_p90", 5e6),
                ("latency_p99", 5e6),
                ("latency_max", 5e6),
            ],
        ),
        ("one very slow request", &[("latency_max", 9e9)]),
        (
            "a mean above p90",
            &[
                ("latency_p50", 1.5e6),
                ("latency_p90", 2e6),
                ("latency_p99", 300e6),
                ("latency_max", 900e6),
            ],
        ),
        (
            "interpolated percentiles",
            &[("latency_p90", 8_000_123.5), ("latency_p99", 12_000_123.25)],
        ),
        ("bins of a histogram", &[("latency_p99", 40.3e6)]),
        ("whole nanoseconds", &[("latency_min", 1_234_567.0), ("latency_max", 40_123_457.0)]),
    ];

    fn found(changed: LoadTable) -> Vec<ValidityFinding> {
        let mut session = published(&["only"]);
        let times =
            SOUND.iter().map(|(name, _)| *name).filter(|name| name.starts_with(LATENCY_PREFIX));
        let missing = times.filter(|name| *name != "latency_mean");
        session.metrics.extend(missing.map(|name| Metric::new(name, "ns", MetricDirection::Lower)));
        let figures: Vec<(&str, f64)> = SOUND
            .iter()
            .map(|(name, value)| {
                let other = changed.iter().find(|(known, _)| known == name);
                (*name, other.map_or(*value, |(_, value)| *value))
            })
            .collect();
        add_run(&mut session, "page connections=100", "only", &figures);
        let mut found = check_session(&session, &KnownFacts::default());
        found.retain(|one| one.check != ValidityCheck::SingleRuns);
        found
    }

    #[test]
    fn faulty_tables_have_findings_and_sound_tables_have_none() {
        for (name, changed) in FAULTY {
            assert!(!found(changed).is_empty(), "{name}");
        }
        for (name, changed) in GOOD {
            assert_eq!(found(changed), [], "{name}");
        }
    }

    #[test]
    fn findings_state_the_impossible_figures() {
        let says = |changed| -> Vec<String> {
            let found = found(changed);
            let found = of_check(&found, ValidityCheck::Impossible);
            found.iter().map(|one| one.says.clone()).collect()
        };
        assert_eq!(
            says(&[("latency_p99", 3e6)]),
            ["'latency_p99' is 3 ms, less than 'latency_p50' of 4.5 ms."]
        );
        assert_eq!(says(&[("latency_min", -1e6)]), ["'latency_min' is below zero."]);
        let heavy = found(&[("throughput", 200_000.0), ("bytes_per_second", 40e6)]);
        assert_eq!(
            heavy[0].says,
            "Rate times mean latency gives 1000.0 requests in flight, more than the 100 that were configured."
        );
        assert_eq!(heavy[0].level, FindingSeverity::Red);
    }
}
