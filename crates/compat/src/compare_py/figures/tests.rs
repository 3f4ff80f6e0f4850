//! Test vectors of `compare.py`'s own unit tests, restated as numbers, and cases that it gets
//! wrong.

use crate::compare_py::figures::*;
use ComparisonRules::{Original, Sound};

/// Name, unit, wall time and CPU time of a repetition.
type EntryFigures = (&'static str, &'static str, f64, f64);

fn make_entry(
    (name, unit, real, cpu): EntryFigures,
    run_type: &'static str,
) -> GoogleBenchmarkEntry<'static> {
    GoogleBenchmarkEntry {
        name: name.into(),
        run_type: Some(run_type.into()),
        real_time: Some(real),
        cpu_time: Some(cpu),
        time_unit: Some(unit.into()),
        ..GoogleBenchmarkEntry::default()
    }
}

fn repetitions(lines: &[EntryFigures]) -> Vec<GoogleBenchmarkEntry<'static>> {
    lines.iter().map(|line| make_entry(*line, "iteration")).collect()
}

fn ns_entry(name: &'static str, real: f64, cpu: f64) -> EntryFigures {
    (name, "ns", real, cpu)
}

/// Returns the changes of every pair, by name.
fn table_changes(table: &UTestTable<'_>) -> Vec<(String, f64, f64)> {
    let rows = table.rows.iter().flat_map(|row| {
        let pairs = row.pairs.iter();
        pairs.map(|pair| {
            let change = pair.change.map_times(|change| change.unwrap());
            (row.first.name.to_string(), change.real, change.cpu)
        })
    });
    rows.collect()
}

#[track_caller]
fn assert_changes(table: &UTestTable<'_>, expected: &[(&str, f64, f64)]) {
    let found = table_changes(table);
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.0, expected.0);
        assert!((found.1 - expected.1).abs() < 5e-5, "{found:?} {expected:?}");
        assert!((found.2 - expected.2).abs() < 5e-5, "{found:?} {expected:?}");
    }
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
}

/// Checks the geometric means: wall and CPU time of both sides, then changes.
#[track_caller]
fn assert_geomean(table: &UTestTable<'_>, expected: [f64; 6]) {
    let pair = table.geomean.unwrap();
    let (old, new, change) = (pair.baseline, pair.candidate, pair.change.map_times(Option::unwrap));
    let found = [old.real, new.real, change.real, old.cpu, new.cpu, change.cpu];
    for (found, expected) in found.into_iter().zip(expected) {
        assert_near(found, expected);
    }
}

/// Returns the sides of `compare.py`'s test of differences. Here, the entries of a fit lack times.
fn difference_sides() -> [Vec<GoogleBenchmarkEntry<'static>>; 2] {
    let cases = [
        ("same", "ns", [10.0, 10.0], [10.0, 10.0]),
        ("2x faster", "ns", [50.0, 50.0], [25.0, 25.0]),
        ("2x slower", "ns", [50.0, 50.0], [100.0, 100.0]),
        ("1% faster", "ns", [100.0, 100.0], [98.9999999, 98.9999999]),
        ("1% slower", "ns", [100.0, 100.0], [100.9999999, 100.9999999]),
        ("10% faster", "ns", [100.0, 100.0], [90.0, 90.0]),
        ("10% slower", "ns", [100.0, 100.0], [110.0, 110.0]),
        ("100x slower", "ns", [100.0, 100.0], [10000.0, 10000.0]),
        ("100x faster", "ns", [10000.0, 10000.0], [100.0, 100.0]),
        ("cpu to time", "ns", [100.0, 100.0], [110.0, 90.0]),
        ("third", "ns", [100.0, 100.0], [66.665, 66.664]),
        ("other unit", "s", [0.4, 0.5], [0.04, 0.6]),
        ("units differ", "s", [1.0, 1.0], [1.0, 1.0]),
        ("labelled", "s", [1.0, 1.0], [1.0, 1.0]),
    ];
    let sides = [0, 1].map(|side| {
        let lines = cases.map(|(name, unit, old, new)| {
            let times = [old, new][side];
            let unit = if name == "units differ" && side == 1 { "ns" } else { unit };
            (name, unit, times[0], times[1])
        });
        repetitions(&lines)
    });
    sides.map(|mut entries| {
        let fit = |name: &'static str, unit: Option<&'static str>| GoogleBenchmarkEntry {
            name: name.into(),
            run_type: Some("aggregate".into()),
            time_unit: unit.map(Into::into),
            ..GoogleBenchmarkEntry::default()
        };
        entries.insert(11, fit("BigO", Some("ns")));
        entries.insert(12, fit("RMS", None));
        entries
    })
}

const DIFFERENCES: [(&str, f64, f64); 13] = [
    ("same", 0.0, 0.0),
    ("2x faster", -0.5, -0.5),
    ("2x slower", 1.0, 1.0),
    ("1% faster", -0.01, -0.01),
    ("1% slower", 0.01, 0.01),
    ("10% faster", -0.1, -0.1),
    ("10% slower", 0.1, 0.1),
    ("100x slower", 99.0, 99.0),
    ("100x faster", -0.99, -0.99),
    ("cpu to time", 0.1, -0.1),
    ("third", -0.3333, -0.3334),
    ("other unit", -0.9, 0.2),
    ("labelled", 0.0, 0.0),
];

/// The candidate's means are those that `compare.py` computes. `compare.py`'s own test lists two
/// other means, which contradict the changes, but does not check them.
#[test]
fn changes_and_geometric_means_are_those_of_the_original() {
    let [old, new] = difference_sides();
    let table = compare_entries(&old, &new, true, Original);
    assert_changes(&table, &DIFFERENCES);
    assert!(table.rows.iter().all(|row| row.u_test.is_none()));
    assert_geomean(
        &table,
        [
            3.1622776601683826e-06,
            5.96729226736723e-07,
            -0.8112976497120911,
            3.2130844755623912e-06,
            3.2130844755623912e-06 * (1.0 - 0.7778551721181174),
            -0.7778551721181174,
        ],
    );
}

#[test]
fn benchmarks_whose_units_differ_are_converted_and_compared() {
    let [old, new] = difference_sides();
    let table = compare_entries(&old, &new, true, Sound);
    assert_eq!(table.rows.len(), 14);
    let row = table.rows.iter().find(|row| row.first.name == "units differ").unwrap();
    assert_eq!((row.unit, row.pairs[0].candidate.real), ("s", 1e-9));
    assert_near(row.pairs[0].change.real.unwrap(), -0.999999999);
    assert_eq!((table.unmatched, table.odd_units), (Default::default(), vec![]));
}

#[test]
fn an_unknown_unit_is_only_compared_with_itself() {
    let old = repetitions(&[("a", "ps", 4.0, 4.0), ("b", "ps", 4.0, 4.0), ns_entry("c", 1.0, 1.0)]);
    let new =
        repetitions(&[("a", "ps", 2.0, 2.0), ns_entry("b", 2.0, 2.0), ns_entry("c", 1.0, 1.0)]);
    let table = compare_entries(&old, &new, true, Sound);
    assert_changes(&table, &[("a", -0.5, -0.5), ("c", 0.0, 0.0)]);
    assert_eq!(table.odd_units, ["b"]);
    assert_eq!(table.not_in_geomean, 4);
}

fn u_test_sides() -> [Vec<GoogleBenchmarkEntry<'static>>; 2] {
    [
        repetitions(&[
            ns_entry("One", 10.0, 100.0),
            ns_entry("Two", 9.0, 90.0),
            ns_entry("Two", 8.0, 86.0),
            ns_entry("short", 8.0, 80.0),
            ns_entry("short", 8.0, 77.0),
            ns_entry("medium", 8.0, 80.0),
            ns_entry("medium", 9.0, 82.0),
        ]),
        repetitions(&[
            ns_entry("One", 9.0, 110.0),
            ns_entry("Two", 10.0, 89.0),
            ns_entry("Two", 7.0, 72.0),
            ns_entry("short", 7.0, 75.0),
            ns_entry("short", 4.54, 66.6),
            ns_entry("short", 800.0, 1.0),
            ns_entry("medium", 5.0, 53.0),
        ]),
    ]
}

#[test]
fn u_tests_match_the_original() {
    let [mut old, mut new] = u_test_sides();
    // As in the files of `compare.py`'s tests.
    for at in [0, 3, 4] {
        old[at].run_type = Some("aggregate".into());
    }
    for at in [1, 3, 4] {
        new[at].run_type = Some("aggregate".into());
    }
    let table = compare_entries(&old, &new, true, Original);
    assert_changes(
        &table,
        &[
            ("One", -0.1, 0.1),
            ("Two", 0.1111, -0.0111),
            ("Two", -0.125, -0.1628),
            ("short", -0.125, -0.0625),
            ("short", -0.4325, -0.1351),
            ("medium", -0.375, -0.3375),
        ],
    );
    let tests: Vec<_> = table.rows.iter().map(|row| row.u_test).collect();
    assert_eq!((tests[0], tests[3]), (None, None));
    let (two, short) = (tests[1].unwrap(), tests[2].unwrap());
    assert_near(two.p.real, 1.0);
    assert_near(two.p.cpu, 0.6666666666666666);
    assert_near(short.p.real, 0.7670968684102772);
    assert_near(short.p.cpu, 0.2);
    assert_eq!((short.baseline_count, short.candidate_count), (2, 3));
    assert!(!short.is_reliable());
    assert_geomean(
        &table,
        [
            8.48528137423858e-09,
            2.2405267593145244e-08,
            1.6404861082353634,
            8.441336246629233e-08,
            2.5453661413660466e-08,
            -0.6984640740519662,
        ],
    );
}

#[test]
fn without_tests_there_are_no_p_values() {
    let [old, new] = u_test_sides();
    let table = compare_entries(&old, &new, false, Sound);
    assert!(table.rows.iter().all(|row| row.u_test.is_none()));
}

#[test]
fn aggregates_are_compared_but_have_no_geometric_mean() {
    let side = |times: [f64; 2]| vec![make_entry(ns_entry("zz", times[0], times[1]), "aggregate")];
    let (old, new) = (side([0.01, 0.1]), side([0.005, 0.15]));
    for rules in [Original, Sound] {
        let table = compare_entries(&old, &new, true, rules);
        assert_changes(&table, &[("zz", -0.5, 0.5)]);
        assert_eq!((table.geomean, table.not_in_geomean), (None, 0));
    }
}

#[test]
fn many_repetitions_have_a_p_of_zero() {
    let side = |real, cpu| repetitions(&vec![("a", "s", real, cpu); 1000]);
    let (old, new) = (side(1.0, 1000.0), side(1000.0, 1.0));
    let table = compare_entries(&old, &new, true, Sound);
    let test = table.rows[0].u_test.unwrap();
    assert_eq!((test.p.real, test.p.cpu), (0.0, 0.0));
    assert!(test.is_reliable() && test.baseline_count == 1000);
    let pair = table.geomean.unwrap();
    assert_eq!((pair.baseline.real, pair.candidate.cpu), (1.0, 1.0));
    assert_near(pair.candidate.real, 1000.000000000069);
    assert_near(pair.baseline.cpu, 1000.000000000069);
}

#[test]
fn a_change_from_zero_is_not_defined() {
    let (old, new) =
        (repetitions(&[ns_entry("a", 0.0, 0.0)]), repetitions(&[ns_entry("a", 3.0, 0.0)]));
    let change = |rules| compare_entries(&old, &new, true, rules).rows[0].pairs[0].change;
    assert_eq!((change(Sound).real, change(Sound).cpu), (None, Some(0.0)));
    assert_eq!((change(Original).real, change(Original).cpu), (Some(2.0), Some(0.0)));
}

#[test]
fn the_geometric_mean_covers_only_results_that_both_sides_have() {
    let old =
        repetitions(&[ns_entry("a", 2.0, 2.0), ns_entry("b", 4.0, 4.0), ns_entry("c", 1.0, 1.0)]);
    let mut new = repetitions(&[
        ns_entry("a", 4.0, 2.0),
        ns_entry("b", 0.0, 0.0),
        ns_entry("c", f64::NAN, 1.0),
        ns_entry("only here", 1e9, 1e9),
    ]);
    new[1].has_failed = true;
    let table = compare_entries(&old, &new, true, Sound);
    let pair = table.geomean.unwrap();
    assert_near(pair.baseline.real, 2e-9);
    assert_near(pair.candidate.real, 4e-9);
    assert_eq!(table.not_in_geomean, 5);
    assert!(compare_entries(&old, &new, true, Original).geomean.unwrap().candidate.real.is_nan());
}

#[test]
fn skipped_and_failed_entries_are_listed_but_not_compared() {
    let old = repetitions(&[ns_entry("a", 2.0, 2.0), ns_entry("b", 4.0, 4.0)]);
    let mut new =
        repetitions(&[ns_entry("a", 0.0, 0.0), ns_entry("a", 2.0, 2.0), ns_entry("b", 0.0, 0.0)]);
    new[0].has_failed = true;
    new[2].was_skipped = true;
    let sound = compare_entries(&old, &new, true, Sound);
    assert_changes(&sound, &[("a", 0.0, 0.0)]);
    let names: Vec<&str> = sound.without_result[1].iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(sound.unmatched, [vec![""; 0], vec![""; 0]]);
    assert_geomean_is_one(&sound);
    assert_eq!(compare_entries(&old, &new, true, Original).geomean, None);
}

#[track_caller]
fn assert_geomean_is_one(table: &UTestTable<'_>) {
    assert_eq!(table.geomean.unwrap().change.real, Some(0.0));
}

#[test]
fn unmatched_names_are_listed_in_file_order() {
    let old =
        repetitions(&[ns_entry("a", 1.0, 1.0), ns_entry("x", 1.0, 1.0), ns_entry("y", 1.0, 1.0)]);
    let new = repetitions(&[ns_entry("z", 1.0, 1.0), ns_entry("a", 1.0, 1.0)]);
    let table = compare_entries(&old, &new, true, Sound);
    assert_eq!(table.unmatched, [vec!["x", "y"], vec!["z"]]);
    assert_eq!(table.not_in_geomean, 3);
}

#[test]
fn a_nan_time_makes_p_nan() {
    let old = repetitions(&[ns_entry("a", 1.0, 1.0), ns_entry("a", f64::NAN, 2.0)]);
    let new = repetitions(&[ns_entry("a", 3.0, 3.0), ns_entry("a", 4.0, 4.0)]);
    let table = compare_entries(&old, &new, true, Sound);
    let p = table.rows[0].u_test.unwrap().p;
    assert!(p.real.is_nan());
    assert_near(p.cpu, 0.3333333333333333);
}
