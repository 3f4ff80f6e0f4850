//! Figures that contradict each other, or that nothing can have; and bytes per response as a fingerprint of what was
//! served.
//!
//! Decides which relations hold whatever was measured: times and rates are not negative, a greater share of the requests
//! takes no less time, a mean lies between the least and the greatest value, a single time is not known better
//! than to the nanosecond, and two variants of a case give answers of one size. How published figures were rounded, and
//! the width of a histogram's bins, are allowed for. Start at [`check_impossible`] and [`check_sizes`].

use crate::validity::cells::{Cell, Cells, Figure};
use crate::validity::{Check, Finding, Level, identical, joined, of_runs};
use speedwell_model::{Run, Session};
use std::collections::BTreeMap;

const REMEDY: &str = "Do not use these figures. Look for a wrong unit, shifted or swapped columns, and digits that \
    were lost or invented.";

/// What the names of times of single requests begin with.
const LATENCY: &str = "latency_";

/// Quantities besides latencies of which there is nothing below zero.
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

/// Histograms with two significant digits have bins that wide, as a share.
const BIN: f64 = 0.01;

/// What a product with a power of ten may add to a whole number of nanoseconds, in nanoseconds.
const FLOAT_ERROR_NS: f64 = 1e-3;

/// One finding for each contradiction in a cell, with the runs that have it.
pub(super) fn check_impossible(cells: &Cells<'_>) -> Vec<Finding> {
    let found = cells.cells.iter().flat_map(|cell| of_cell(cells, cell));
    found.collect()
}

fn of_cell(cells: &Cells<'_>, cell: &Cell<'_>) -> Vec<Finding> {
    let mut found: BTreeMap<&'static str, (Vec<usize>, String)> = BTreeMap::new();
    for (run, number) in cell.runs.iter().zip(1..) {
        for (kind, says) in of_run(cells, run) {
            let (runs, _) = found.entry(kind).or_insert((Vec::new(), says));
            runs.push(number);
        }
    }
    let finding = |(_, (runs, says)): (&str, (Vec<usize>, String))| {
        let says = format!("{says}{}.", of_runs(&runs, cell.runs.len()));
        Finding::new(Check::Impossible, Level::Red, says, REMEDY).in_cell(cells, cell, runs)
    };
    found.into_iter().map(finding).collect()
}

/// The contradictions of a run, each at most once.
fn of_run(cells: &Cells<'_>, run: &Run) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    found.extend(negative(run).map(|says| ("negative", says)));
    found.extend(disorder(cells, run).map(|says| ("disorder", says)));
    found.extend(mean_outside(cells, run).map(|says| ("mean", says)));
    found.extend(too_precise(cells, run).map(|says| ("precision", says)));
    found
}

fn negative(run: &Run) -> Option<String> {
    let samples = run.samples.iter().filter(|sample| sample.value < 0.0);
    let names = samples
        .map(|sample| &*sample.metric)
        .filter(|name| name.starts_with(LATENCY) || NEVER_NEGATIVE.contains(name));
    let mut names: Vec<String> = names.map(|name| format!("'{name}'")).collect();
    names.dedup();
    (!names.is_empty()).then(|| format!("{} is below zero", joined(&names)))
}

/// The times of a run by the share of the requests that they belong to, in percent.
fn by_share(run: &Run) -> Vec<(f64, &str, f64)> {
    let share = |name: &str| -> Option<f64> {
        match name.strip_prefix(LATENCY)? {
            "min" => Some(0.0),
            "max" => Some(100.0),
            name => name.strip_prefix('p')?.replace('_', ".").parse().ok(),
        }
    };
    let known = run.samples.iter();
    let known =
        known.filter_map(|sample| Some((share(&sample.metric)?, &*sample.metric, sample.value)));
    let mut known: Vec<_> = known.collect();
    known.sort_by(|one, other| one.0.total_cmp(&other.0));
    known
}

fn disorder(cells: &Cells<'_>, run: &Run) -> Option<String> {
    let times = by_share(run);
    let pairs = times.iter().enumerate();
    let mut pairs = pairs.flat_map(|(at, low)| times[at + 1..].iter().map(move |high| (low, high)));
    pairs
        .find(|((less, low, low_ns), (more, high, high_ns))| {
            less < more && exceeds(cells, (low, *low_ns), (high, *high_ns))
        })
        .map(|((_, low, low_ns), (_, high, high_ns))| {
            format!(
                "'{high}' is {}, less than '{low}' of {}",
                ms(*high_ns),
                ms(*low_ns)
            )
        })
}

fn mean_outside(cells: &Cells<'_>, run: &Run) -> Option<String> {
    let of = |name: &'static str| Some((name, run.value_of(name)?));
    let mean = of("latency_mean")?;
    let below = of("latency_min").filter(|least| exceeds(cells, *least, mean));
    let above = of("latency_max").filter(|most| exceeds(cells, mean, *most));
    let (relation, (name, ns)) = match (below, above) {
        (Some(least), _) => ("less than", least),
        (None, Some(most)) => ("more than", most),
        (None, None) => return None,
    };
    Some(format!(
        "the mean latency is {}, {relation} '{name}' of {}",
        ms(mean.1),
        ms(ns)
    ))
}

/// Whether one time is above another beyond what rounding and bins explain.
fn exceeds(cells: &Cells<'_>, one: (&str, f64), other: (&str, f64)) -> bool {
    let rounding = (cells.step(one.0) + cells.step(other.0)) / 2.0;
    one.1 > other.1 + other.1.abs() * BIN + rounding
}

/// The least and the greatest time are those of single requests, which clocks give in whole nanoseconds; percentiles and
/// means may be computed from several.
fn too_precise(cells: &Cells<'_>, run: &Run) -> Option<String> {
    let is_broken =
        |ns: &f64| (ns - ns.round()).abs() > FLOAT_ERROR_NS.max(ns.abs() * f64::EPSILON * 4.0);
    let single = ["latency_min", "latency_max"].into_iter();
    let mut single = single.filter_map(|name| Some((name, run.value_of(name)?)));
    let (name, _) = single.find(|(_, ns)| cells.is_imported && is_broken(ns))?;
    Some(format!(
        "'{name}' has digits below a nanosecond, which no clock gives"
    ))
}

fn ms(ns: f64) -> String {
    format!("{} ms", (ns / 1e3).round() / 1e3)
}

/// Bodies of varying length average out over a run (those of one published study to 0.05 %); another
/// answer differs by more than this share.
const SAME_ANSWER: f64 = 0.01;

const SIZES_REMEDY: &str = "Verify status and body of an answer under every variant, and see whether the figures \
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
        found.extend(identical::check_alignment(
            cells, &sizes, baseline, candidate,
        ));
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

/// Decimal digits that a number keeps through any computation in binary floating point (IEEE 754).
const SURE_DIGITS: usize = 15;

/// Units in which times are printed, in nanoseconds. Times above a second are taken for printed in
/// milliseconds, because zeros at the end of a few round numbers say nothing of their precision.
const TIMES: [f64; 3] = [1e6, 1e3, 1.0];

/// Units in which bytes are printed. A power of two divides without a rounding error, so the printed
/// digits come out again.
const BYTES: [f64; 6] = [1.0, 1e3, 1e6, 1024.0, 1_048_576.0, 1_073_741_824.0];

/// The step between two neighbouring figures of a metric as they were printed, in the metric's unit.
pub(super) fn step_of(sessions: &[&Session], metric: &str) -> f64 {
    let unit = sessions.iter().find_map(|session| session.metric(metric));
    let Some(unit) = unit.map(|metric| metric.unit.as_str()) else {
        return 0.0;
    };
    let runs = sessions.iter().flat_map(|session| &session.runs);
    let samples = runs.flat_map(|run| &run.samples);
    let values: Vec<f64> = samples
        .filter(|sample| &*sample.metric == metric)
        .map(|sample| sample.value)
        .filter(|value| *value != 0.0 && value.is_finite())
        .collect();
    step(&values, unit)
}

fn step(values: &[f64], unit: &str) -> f64 {
    let units: &[f64] = match unit {
        "ns" => &TIMES,
        "B/s" | "B" => &BYTES,
        _ => &[1.0],
    };
    // The unit in which the figures have the fewest digits behind the point is that of the print; the
    // larger one where several are alike.
    let in_unit = |unit: f64| {
        let decimals = values.iter().map(|value| decimals(value / unit)).max();
        unit * 10f64.powi(-(decimals.unwrap_or(0) as i32))
    };
    units.iter().map(|unit| in_unit(*unit)).fold(0.0, f64::max)
}

/// Digits behind the point.
fn decimals(value: f64) -> usize {
    let text = format!("{value:.*e}", SURE_DIGITS - 1);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let behind = digits.trim_end_matches('0').split_once('.');
    let behind = behind.map_or(0, |(_, digits)| digits.len() as i32);
    (behind - exponent).max(0) as usize
}

#[cfg(test)]
mod tests {
    use super::super::tests::{add, of_check, published};
    use super::*;
    use crate::validity::{Known, check};
    use speedwell_model::{Better, Metric};

    /// A table of a load with 100 connections: what it says besides the figures that all tables share.
    type Table = &'static [(&'static str, f64)];

    /// 20,000 requests a second at 5 ms: 100 are in flight.
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

    const FAULTY: [(&str, Table); 13] = [
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
            "latencies by 1,000",
            &[
                ("latency_mean", 5e3),
                ("latency_min", 1e3),
                ("latency_p50", 4.5e3),
                ("latency_p90", 8e3),
                ("latency_p99", 12e3),
                ("latency_max", 40e3),
            ],
        ),
        (
            "rate times 10",
            &[("throughput", 200_000.0), ("bytes_per_second", 40e6)],
        ),
        (
            "rate by 2",
            &[("throughput", 10_000.0), ("bytes_per_second", 2e6)],
        ),
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
        (
            "mean below least",
            &[("latency_min", 6.5e6), ("latency_p50", 7e6)],
        ),
        ("negative time", &[("latency_min", -1e6)]),
        ("negative rate", &[("throughput", -20_000.0)]),
        ("picoseconds", &[("latency_max", 40_123_456.789)]),
    ];

    const GOOD: [(&str, Table); 10] = [
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
        (
            "whole nanoseconds",
            &[("latency_min", 1_234_567.0), ("latency_max", 40_123_457.0)],
        ),
    ];

    fn found(changed: Table) -> Vec<Finding> {
        let mut session = published(&["only"]);
        let times = SOUND
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| name.starts_with(LATENCY));
        let missing = times.filter(|name| *name != "latency_mean");
        session
            .metrics
            .extend(missing.map(|name| Metric::new(name, "ns", Better::Lower)));
        let figures: Vec<(&str, f64)> = SOUND
            .iter()
            .map(|(name, value)| {
                let other = changed.iter().find(|(known, _)| known == name);
                (*name, other.map_or(*value, |(_, value)| *value))
            })
            .collect();
        add(&mut session, "page connections=100", "only", &figures);
        let mut found = check(&session, &Known::default());
        found.retain(|one| one.check != Check::SingleRuns);
        found
    }

    #[test]
    fn every_faulty_table_is_found_and_no_sound_one() {
        for (name, changed) in FAULTY {
            assert!(!found(changed).is_empty(), "{name}");
        }
        for (name, changed) in GOOD {
            assert_eq!(found(changed), [], "{name}");
        }
    }

    #[test]
    fn what_was_found_is_said_with_its_figures() {
        let says = |changed| -> Vec<String> {
            let found = found(changed);
            let found = of_check(&found, Check::Impossible);
            found.iter().map(|one| one.says.clone()).collect()
        };
        assert_eq!(
            says(&[("latency_p99", 3e6)]),
            ["'latency_p99' is 3 ms, less than 'latency_p50' of 4.5 ms."]
        );
        assert_eq!(
            says(&[("latency_min", -1e6)]),
            ["'latency_min' is below zero."]
        );
        let heavy = found(&[("throughput", 200_000.0), ("bytes_per_second", 40e6)]);
        assert_eq!(
            heavy[0].says,
            "1000.0 requests would have been in flight, but 100 were requested (rate times mean latency)."
        );
        assert_eq!(heavy[0].level, Level::Red);
    }

    #[test]
    fn the_last_printed_digit_comes_back_in_any_unit() {
        assert_eq!(step(&[54620.0, 28200.4, 11450.15], "1/s"), 0.01);
        assert_eq!(step(&[1000.0, 20000.0], "1/s"), 1.0);
        // 1.75 ms, 4.4 ms; whole milliseconds; nanoseconds measured here.
        assert_eq!(step(&[1_750_000.0, 4_400_000.0], "ns"), 1e4);
        assert_eq!(step(&[1129e6, 585e6], "ns"), 1e6);
        assert_eq!(step(&[1_750_123.0, 4_400_001.0], "ns"), 1.0);
        // 8.54 and 131.47 in MB/s, and in MiB/s.
        assert_eq!(step(&[8.54e6, 131.47e6], "B/s"), 1e4);
        let mib = 1_048_576.0;
        assert_eq!(step(&[8.54 * mib, 131.47 * mib], "B/s"), mib / 100.0);
        assert_eq!(step(&[], "B/s"), 1_073_741_824.0);
    }
}
