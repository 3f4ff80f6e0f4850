//! Tests of the checks on synthetic sessions and on a published table.

use crate::AnalysisSettings;
use crate::validity::*;
use speedwell_model::{
    Case, Metric, MetricDirection, ParameterValue, Run, RunOrder, Sample, SessionDesign,
    SessionState, StoppingDesign, Variant, Verdict,
};
use std::collections::HashMap;
use std::sync::Arc;

/// A published study of a server in six layouts, as ab reported it with -c 250.
const TOPOLOGIES: &str = include_str!("../../../speedwell/tests/golden/published/topologies.csv");

/// An imported session with these variants.
pub(super) fn published(variants: &[&str]) -> Session {
    Session {
        state: SessionState::Imported,
        command: vec!["import".into(), "f".into()],
        design: SessionDesign::new(
            RunOrder::Imported,
            StoppingDesign::Fixed { runs: 1 },
            variants[0],
        ),
        variants: variants.iter().map(|name| Variant::plain(*name)).collect(),
        metrics: [
            ("throughput", "1/s"),
            ("latency_mean", "ns"),
            ("bytes_per_second", "B/s"),
            ("pressure", "%"),
            ("http_non2xx", ""),
        ]
        .map(|(name, unit)| Metric::new(name, unit, MetricDirection::Higher))
        .into(),
        ..Session::default()
    }
}

pub(super) fn add_run(session: &mut Session, case: &str, variant: &str, figures: &[(&str, f64)]) {
    let sample = |(metric, value): &(&str, f64)| Sample {
        metric: Arc::from(*metric),
        value: *value,
        elapsed_ns: None,
        iterations: None,
    };
    session.runs.push(Run {
        wall_ns: 1,
        samples: figures.iter().map(sample).collect(),
        ..Run::empty(Case::parse(case).unwrap(), variant, session.runs.len() as u32, 0)
    });
}

pub(super) fn of_check(found: &[ValidityFinding], check: ValidityCheck) -> Vec<&ValidityFinding> {
    found.iter().filter(|finding| finding.check == check).collect()
}

fn variant_names(found: &[&ValidityFinding]) -> Vec<String> {
    found.iter().flat_map(|one| one.variants.clone()).collect()
}

fn topologies() -> Session {
    let rows: Vec<Vec<&str>> = TOPOLOGIES.lines().skip(1).map(|l| l.split(',').collect()).collect();
    let series: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    let mut session = published(&series);
    for row in &rows {
        let number = |at: usize| row[at].parse::<f64>().unwrap();
        let figures = [
            ("throughput", number(3)),
            ("latency_mean", number(4) * 1e6),
            ("bytes_per_second", (number(16) / number(2)).round()),
            ("http_errors", number(14)),
            ("http_failed_length", number(14)),
        ];
        add_run(&mut session, "fib", row[0], &figures);
    }
    session
}

#[test]
fn three_of_six_published_series_carried_less_than_was_asked_for() {
    let session = topologies();
    let facts = KnownFacts {
        requested: HashMap::from([("fib".to_owned(), 250.0)]),
        ..KnownFacts::default()
    };
    let found = check_session(&session, &facts);
    let short = of_check(&found, ValidityCheck::InFlight);
    assert_eq!(variant_names(&short), ["green", "purple", "cyan"]);
    for (finding, under_way) in short.iter().zip(["186.1", "126.0", "121.5"]) {
        assert_eq!(
            finding.says,
            format!("Only {under_way} of 250 requests were in flight (rate times mean latency).")
        );
    }
    let [ranking] = of_check(&found, ValidityCheck::LatencyRanking)[..] else {
        panic!("{found:?}");
    };
    assert!(
        ranking.says.contains(
            "238.4 to 246.2 for blue, red and brown; 186.1 for green; 121.5 to 126.0 for purple and cyan"
        ),
        "{}",
        ranking.says
    );
    let is_pair = |a: &str, b: &str| ranking.pairs.contains(&(a.to_owned(), b.to_owned()));
    assert!(is_pair("red", "green") && is_pair("blue", "purple") && is_pair("brown", "cyan"));
    assert!(!is_pair("red", "blue") && !is_pair("purple", "cyan"));
    assert_eq!(of_check(&found, ValidityCheck::LengthFailures).len(), 6);
    // Bodies of varying length average out; a different length is not a failure.
    assert!(found.iter().all(|finding| finding.level == FindingSeverity::Amber), "{found:?}");
}

/// Cases with their response sizes in two variants, at 100 connections.
const SIZES: [(&str, f64, f64); 5] = [
    ("a", 5000.0, 164.0),
    ("b", 4000.0, 365.0),
    ("c", 3000.0, 379.0),
    ("d", 2000.0, 166.0),
    ("e", 1000.0, 12_040.0),
];

/// A sound table: the candidate serves 5% less. `order` gives, for each row, the case whose
/// candidate figures it holds.
fn table(order: [usize; 5]) -> Session {
    let mut session = published(&["old", "new"]);
    for (row, (name, _, _)) in SIZES.iter().enumerate() {
        for (variant, from, factor) in [("old", row, 1.0), ("new", order[row], 0.95)] {
            let (_, rate, bytes) = SIZES[from];
            let rate = rate * factor;
            let figures = [
                ("throughput", rate),
                ("latency_mean", (100e9 / rate / 1e4).round() * 1e4),
                ("bytes_per_second", (rate * bytes / 1e4).round() * 1e4),
            ];
            add_run(&mut session, &format!("{name} connections=100"), variant, &figures);
        }
    }
    session
}

#[test]
fn a_clean_table_is_reported_only_for_its_single_runs() {
    let found = check_session(&table([0, 1, 2, 3, 4]), &KnownFacts::default());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].check, ValidityCheck::SingleRuns);
    // The order of the records does not matter.
    let mut session = table([0, 1, 2, 3, 4]);
    session.runs.reverse();
    assert_eq!(check_session(&session, &KnownFacts::default()).len(), 1);
}

#[test]
fn mixed_up_rows_are_identified_by_their_response_sizes() {
    let found = check_session(&table([1, 2, 0, 3, 4]), &KnownFacts::default());
    assert_eq!(of_check(&found, ValidityCheck::BytesPerResponse).len(), 3);
    let [mixed] = of_check(&found, ValidityCheck::MisalignedRows)[..] else {
        panic!("{found:?}");
    };
    let pairs: Vec<String> =
        mixed.pairs.iter().map(|(a, b)| format!("{}{}", &a[..1], &b[..1])).collect();
    assert_eq!(pairs, ["ab", "bc", "ca"]);
    assert!(mixed.says.contains("row 'a' looks like 'b'"), "{}", mixed.says);
    assert_eq!(mixed.says.matches("-5%").count(), 3, "{}", mixed.says);
    assert!(!mixed.says.contains("sorted"), "{}", mixed.says);
}

#[test]
fn response_sizes_without_a_unique_row_are_not_reassigned() {
    let mut session = table([0, 1, 2, 3, 4]);
    for (at, bytes) in [(1, 777.0), (3, 888.0)] {
        let rate = session.runs[at].value_of("throughput").unwrap();
        session.runs[at].samples[2].value = (rate * bytes / 1e4).round() * 1e4;
    }
    let found = check_session(&session, &KnownFacts::default());
    assert_eq!(of_check(&found, ValidityCheck::BytesPerResponse).len(), 2);
    assert_eq!(of_check(&found, ValidityCheck::MisalignedRows).len(), 0);
    let facts = KnownFacts {
        sizes_may_differ: vec!["a connections=100".to_owned()],
        ..KnownFacts::default()
    };
    let found = check_session(&session, &facts);
    assert_eq!(of_check(&found, ValidityCheck::BytesPerResponse).len(), 1, "the other may differ");
}

#[test]
fn rounding_is_not_reported_as_a_difference() {
    let mut session = published(&["old", "new"]);
    // 164 bytes at 54620 and at 56606.4 per second, in MB with one decimal.
    for (variant, rate, bytes) in [("old", 54_620.0, 9.0e6), ("new", 56_606.4, 9.3e6)] {
        let figures = [("throughput", rate), ("bytes_per_second", bytes)];
        add_run(&mut session, "a", variant, &figures);
    }
    assert_eq!(
        of_check(&check_session(&session, &KnownFacts::default()), ValidityCheck::BytesPerResponse)
            .len(),
        0
    );
}

#[test]
fn a_constant_number_in_flight_is_reported_if_not_the_requested_one() {
    let mut session = table([0, 1, 2, 3, 4]);
    for run in &mut session.runs {
        let mut case = (*run.case).clone();
        case.values.push(("pipelining".into(), ParameterValue::Number(10.0)));
        case.values.push(("generator".into(), ParameterValue::Text("autocannon 4.5.2".into())));
        run.case = case.into();
    }
    let found = check_session(&session, &KnownFacts::default());
    let [disguise] = of_check(&found, ValidityCheck::LatencyIsThroughput)[..] else {
        panic!("{found:?}");
    };
    assert!(
        disguise
            .says
            .contains("in all 10 measurements, where 1000 requests in flight were requested"),
        "{}",
        disguise.says
    );
    assert!(disguise.says.contains("'autocannon 4.5.2' is known"), "{}", disguise.says);
    assert_eq!(of_check(&found, ValidityCheck::InFlight).len(), 0, "said once");
}

#[test]
fn idle_connections_are_not_reported_at_a_fixed_rate_or_with_think_time() {
    let mut session = published(&["old"]);
    let figures = [("throughput", 100.0), ("latency_mean", 1e6)];
    add_run(&mut session, "a concurrency=50", "old", &figures);
    let found = check_session(&session, &KnownFacts::default());
    assert_eq!(of_check(&found, ValidityCheck::InFlight).len(), 1);
    for note in [Run::AT_FIXED_RATE, Run::WITH_THINK_TIME] {
        session.runs[0].notes = vec![note.to_owned()];
        assert_eq!(check_session(&session, &KnownFacts::default()), []);
    }
}

#[test]
fn runs_that_agree_to_the_last_digit_are_reported_as_identical() {
    let mut session = published(&["old", "new"]);
    let figures = [("throughput", 980.1), ("latency_mean", 124_123.5), ("latency_p50", 92_456.25)];
    add_run(&mut session, "a", "old", &figures);
    add_run(&mut session, "a", "new", &figures);
    let found = check_session(&session, &KnownFacts::default());
    let [same] = of_check(&found, ValidityCheck::IdenticalRecords)[..] else {
        panic!("{found:?}");
    };
    assert!(
        same.says.starts_with("Run 1 of 'a' old and run 1 of 'a' new are equal"),
        "{}",
        same.says
    );
    session.runs[1].samples[2].value = 92_456.5;
    assert_eq!(
        of_check(&check_session(&session, &KnownFacts::default()), ValidityCheck::IdenticalRecords)
            .len(),
        0
    );
}

#[test]
fn failed_requests_and_a_busy_machine_are_reported() {
    let mut session = published(&["old", "new"]);
    add_run(&mut session, "a", "old", &[("throughput", 10.0), ("http_non2xx", 5.0)]);
    add_run(&mut session, "a", "new", &[("throughput", 10.0), ("pressure", 34.0)]);
    let found = check_session(&session, &KnownFacts::default());
    assert_eq!(found[0].check, ValidityCheck::FailedRequests);
    assert_eq!(
        (found[0].level, &found[0].variants[..]),
        (FindingSeverity::Red, &["old".to_owned()][..])
    );
    let [pressure] = of_check(&found, ValidityCheck::Pressure)[..] else {
        panic!("{found:?}");
    };
    assert_eq!(pressure.says, "Tasks waited for a processor 34% of the time.");
}

#[test]
fn a_machine_that_was_busy_in_several_runs_is_reported_once() {
    let mut session = published(&["old", "new"]);
    for (case, variant, pressure) in
        [("a", "old", 12.0), ("a", "new", 34.0), ("b", "new", 9.0), ("c", "new", 55.6)]
    {
        let figures = [("throughput", pressure), ("pressure", pressure)];
        add_run(&mut session, case, variant, &figures);
    }
    let found = check_session(&session, &KnownFacts::default());
    let [pressure] = of_check(&found, ValidityCheck::Pressure)[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        pressure.says,
        "Tasks waited for a processor up to 56% of the time in 3 of 4 runs, most with 'new' in \
         'c'."
    );
    assert_eq!(pressure.cases, ["a", "c"]);
    assert_eq!(pressure.variants, ["old", "new"]);
}

#[test]
fn variables_set_in_a_command_are_reported_as_inherited() {
    let mut session = published(&["old"]);
    let case = Case::new("NODE_OPTIONS=--require=./m.js node bench.js", Vec::new());
    add_run(&mut session, "a", "old", &[("throughput", 1.0)]);
    session.runs[0].case = case.into();
    let found = check_session(&session, &KnownFacts::default());
    assert_eq!(found[0].check, ValidityCheck::InheritedVariable);
    assert!(found[0].says.starts_with("The command sets NODE_OPTIONS, which"), "{}", found[0].says);
}

/// Adds twelve runs of a variant with this many requests in flight.
pub(super) fn add_measured_runs(session: &mut Session, variant: &str, rate: f64, under_way: f64) {
    for run in 0..12 {
        let rate = rate + f64::from(run) / 7.0;
        let figures = [("throughput", rate), ("latency_mean", under_way * 1e9 / rate)];
        add_run(session, "a concurrency=250", variant, &figures);
    }
}

#[test]
fn latencies_of_a_lighter_load_are_not_ranked() {
    let settings = AnalysisSettings {
        metrics: vec!["latency_mean".to_owned()],
        ..AnalysisSettings::default()
    };
    let verdict = |under_way| {
        let mut session = published(&["old", "new"]);
        session.metrics[1].better = MetricDirection::Lower;
        add_measured_runs(&mut session, "old", 1000.0, 249.0);
        add_measured_runs(&mut session, "new", 1500.0, under_way);
        let row = crate::analyze_session(&session, &settings).comparisons[0].rows[0].clone();
        (row.verdict, row.notes.iter().any(|note| note.contains("are not ranked")))
    };
    assert_eq!(verdict(248.0), (Verdict::Better, false));
    assert_eq!(verdict(121.0), (Verdict::Unclear, true));
}
