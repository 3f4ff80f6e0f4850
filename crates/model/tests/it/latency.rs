//! Distributions compared with sorted lists, and logs with another implementation of the format.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use speedwell_model::load::latency::{
    AB_PERCENTS, HistogramLogError, HistogramLogRow, IntendedStart, MAX_RECORDABLE_NS, OpenLatency,
    RequestOutcome, RequestTimes, TimeDistribution, TimeSet, is_reached_by_failures, percent_rows,
    read_log, write_log,
};
use speedwell_model::load::outcomes::ErrorClass;
use std::time::Duration;

/// Times over nine orders of magnitude, some far beyond an hour.
fn values(count: usize) -> Vec<u64> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
    (0..count).map(|_| random.next_u64() >> (20 + random.next_u64() % 40)).collect()
}

fn record_values(values: &[u64]) -> TimeDistribution {
    let mut times = TimeDistribution::default();
    values.iter().for_each(|ns| times.record(*ns));
    times
}

#[test]
fn quantiles_match_the_sorted_list() {
    let mut sorted: Vec<u64> =
        values(10_000).into_iter().filter(|ns| *ns <= MAX_RECORDABLE_NS).collect();
    let times = record_values(&sorted);
    sorted.sort_unstable();
    for ppm in (0..=1_000_000).step_by(1000) {
        let rank = (sorted.len() as u64 * ppm).div_ceil(1_000_000).max(1) as usize;
        let exact = sorted[rank - 1];
        let reported = times.quantile(ppm as u32).unwrap().ns;
        assert!(
            reported >= exact && reported - exact <= exact / 1000,
            "{ppm}: {reported}, {exact}"
        );
    }
    assert_eq!(times.min_ns(), sorted.first().copied());
    assert_eq!(times.max_ns(), sorted.last().copied());
    assert_eq!(TimeDistribution::default().quantile(500_000), None);
}

#[test]
fn mean_and_deviation_are_exact() {
    let times = record_values(&[2, 4, 4, 4, 5, 5, 7, 9]);
    assert_eq!(times.mean_ns(), Some(5.0));
    // The squared differences sum to 32; a sample divides by 7.
    let deviation = times.standard_deviation_ns().unwrap();
    assert!((deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    // A nanosecond around a minute: floating point alone would give zero.
    let near = record_values(&[60_000_000_000, 60_000_000_002]);
    assert!((near.standard_deviation_ns().unwrap() - 2_f64.sqrt()).abs() < 1e-12);
    assert_eq!(record_values(&[7]).standard_deviation_ns(), None);
}

#[test]
fn values_beyond_an_hour_are_counted_and_only_bounded() {
    let times = record_values(&[10, 20, MAX_RECORDABLE_NS + 1, 2 * MAX_RECORDABLE_NS]);
    assert_eq!((times.count(), times.count_beyond_range()), (4, 2));
    let half = times.quantile(500_000).unwrap();
    assert_eq!((half.ns, half.is_lower_bound), (20, false));
    let third = times.quantile(750_000).unwrap();
    assert_eq!((third.ns, third.is_lower_bound), (MAX_RECORDABLE_NS, true));
    let last = times.quantile(1_000_000).unwrap();
    assert_eq!((last.ns, last.is_lower_bound), (2 * MAX_RECORDABLE_NS, false));
    assert_eq!(times.sum_ns(), 31 + 3 * u128::from(MAX_RECORDABLE_NS));
}

#[test]
fn unfinished_requests_turn_higher_quantiles_into_lower_bounds() {
    let mut times = TimeDistribution::default();
    (1..=98).for_each(|ns| times.record(ns));
    times.record_lower_bound(50);
    times.record_lower_bound(1000);
    assert_eq!((times.count(), times.lower_bounds()), (100, 2));
    assert!(!times.quantile(490_000).unwrap().is_lower_bound);
    assert!(times.quantile(600_000).unwrap().is_lower_bound);
}

#[test]
fn a_few_unfinished_requests_leave_the_median_known_but_not_the_tail() {
    let mut times = TimeDistribution::default();
    (0..100_000).for_each(|at| times.record(1_000_000 + at));
    times.record_lower_bound(10);
    times.record_lower_bound(20);
    let is_bound = |ppm| times.quantile(ppm).unwrap().is_lower_bound;
    assert_eq!([500_000, 990_000, 999_990, 1_000_000].map(is_bound), [false, false, true, true]);
    // Where the two unfinished requests matter, the quantile is marked.
    let mut few = TimeDistribution::default();
    for ms in [1, 2, 3, 4] {
        few.record(ms * 1_000_000);
    }
    few.record_lower_bound(10);
    few.record_lower_bound(20);
    assert!(few.quantile(500_000).unwrap().is_lower_bound);
}

#[test]
fn merged_distributions_equal_a_single_recording() {
    let values = values(3000);
    let whole = record_values(&values);
    let [a, b, c] = [0, 1, 2].map(|part| {
        let part_values: Vec<u64> = values.iter().copied().skip(part).step_by(3).collect();
        record_values(&part_values)
    });
    let sum = |left: &TimeDistribution, right: &TimeDistribution| {
        let mut sum = left.clone();
        sum.merge(right);
        sum
    };
    assert!(whole.count_beyond_range() > 0);
    assert_eq!(sum(&sum(&a, &b), &c), whole);
    assert_eq!(sum(&a, &sum(&b, &c)), whole);
    assert_eq!(sum(&c, &sum(&b, &a)), whole);
    let mut empty = whole.clone();
    empty.clear();
    assert_eq!(empty, TimeDistribution::default());
}

#[test]
fn served_percentages_match_a_known_list() {
    let times = record_values(&(1..=200).collect::<Vec<u64>>());
    let rows = percent_rows(&times).into_iter();
    let listed = rows.filter(|row| AB_PERCENTS.contains(&row.percent));
    let reported: Vec<(u32, u64)> = listed.map(|row| (row.percent, row.within.ns)).collect();
    assert_eq!(
        reported,
        [
            (50, 100),
            (66, 132),
            (75, 150),
            (80, 160),
            (90, 180),
            (95, 190),
            (98, 196),
            (99, 198),
            (100, 200)
        ]
    );
    let all = percent_rows(&times);
    assert_eq!((all.len(), all[0].within.ns, all[100].within.ns), (101, 1, 200));
    assert!(percent_rows(&TimeDistribution::default()).is_empty());
}

#[test]
fn latencies_are_kept_apart_by_outcome_and_add_up() {
    let mut latency = OpenLatency::default();
    let times = |end_ns| RequestTimes { sent_ns: 100, first_byte_ns: None, end_ns };
    let due = |due_ns| IntendedStart { due_ns, own_lag_ns: 20 };
    latency.record(RequestOutcome::Ok, due(50), times(300));
    latency.record(RequestOutcome::Failed(ErrorClass::ResetInBody), due(50), times(500));
    latency.record(RequestOutcome::InFlight, due(50), times(1000));
    latency.record_unsent(due(900), 1000);
    let mut twice = latency.clone();
    twice.merge(&latency);
    let names: Vec<&str> = latency.requests.iter().map(|(outcome, _)| outcome.name()).collect();
    assert_eq!(names, ["ok", "reset.in-body", "in-flight", "unsent"]);
    let all = latency.requests.merge_all();
    assert_eq!((all.sent.service.count(), all.response.count()), (3, 4));
    assert_eq!((all.response.sum_ns(), all.response.lower_bounds()), (250 + 450 + 950 + 100, 2));
    assert_eq!(all.punctual.sum_ns(), all.response.sum_ns() - 4 * 20);
    assert_eq!(twice.requests.merge_all().response.count(), 8);
}

fn row<'a>(
    tag: &str,
    start_ns: u64,
    length_ns: u64,
    times: &'a TimeDistribution,
) -> HistogramLogRow<'a> {
    HistogramLogRow { tag: tag.to_owned(), start_ns, length_ns, times }
}

#[test]
fn a_log_is_read_back_as_it_was_written() {
    let times = record_values(&values(5000));
    let lag = TimeDistribution::default();
    let rows = [
        row("service/ok", 0, 1_000_000_000, &times),
        row("lag/all", 1_000_000_000, 500_000_000, &lag),
    ];
    let text = write_log(1_700_000_000_000, &rows).unwrap();
    assert!(text.starts_with("#[Histogram log format version 1.3]\n"), "{text}");
    let remark = format!("#[service/ok: {} values above 1 h", times.count_beyond_range());
    assert!(text.contains(&remark), "{text}");
    let read = read_log(&text).unwrap();
    assert_eq!(read.len(), 2);
    assert_eq!(read[0].tag.as_deref(), Some("service/ok"));
    assert_eq!(
        (read[1].start, read[1].length),
        (Duration::from_secs(1), Duration::from_millis(500))
    );
    let again = read[0].to_distribution();
    assert_eq!(again.count(), times.count() - times.count_beyond_range());
    // Values in the same bin are equal to a histogram.
    let inside = record_values(
        &values(5000).into_iter().filter(|ns| *ns <= MAX_RECORDABLE_NS).collect::<Vec<_>>(),
    );
    for ppm in (0..1_000_000).step_by(50_000) {
        let (left, right) = (again.quantile(ppm).unwrap().ns, inside.quantile(ppm).unwrap().ns);
        assert!(left.abs_diff(right) <= right / 1000, "{ppm}: {left}, {right}");
    }
    assert_eq!(read[1].to_distribution().count(), 0);
}

/// Written by the Python implementation (hdrhistogram 0.10.8), which writes no tags: 1 ms to 1000
/// ms in steps of 1 ms, then ten times 7 s.
const FOREIGN: &str = include_str!("python.hlog");

#[test]
fn a_log_of_another_program_is_read() {
    let read = read_log(FOREIGN).unwrap();
    let first = read[0].to_distribution();
    assert_eq!((read.len(), first.count(), read[0].tag.as_deref()), (2, 1000, None));
    for (ppm, ms) in [(500_000, 500_u64), (990_000, 990), (1_000_000, 1000)] {
        let ns = first.quantile(ppm).unwrap().ns;
        assert!(ns.abs_diff(ms * 1_000_000) <= ms * 1000, "{ppm}: {ns}");
    }
    let slow = read[1].to_distribution();
    assert_eq!((slow.count(), read[1].length), (10, Duration::from_secs(1)));
    assert!(slow.max_ns().unwrap().abs_diff(7_000_000_000) <= 7_000_000);
}

#[test]
fn failures_reach_the_quantiles_above_the_answered_requests() {
    for (ppm, failed, is_reached) in
        [(990_000, 1, false), (990_001, 1, true), (1_000_000, 1, true), (1_000_000, 0, false)]
    {
        assert_eq!(is_reached_by_failures(ppm, failed, 100), is_reached, "{ppm}, {failed}");
    }
}

#[test]
fn errors_in_a_histogram_log_name_the_broken_part() {
    let times = record_values(&[1, 2, 3]);
    let blank = write_log(0, &[row("service/two words", 0, 1, &times)]);
    assert_eq!(blank, Err(HistogramLogError::Tag("service/two words".to_owned())));
    assert!(matches!(read_log("nonsense\n"), Err(HistogramLogError::Line(0))));
    let damaged = FOREIGN.replace("HISTF", "HIXTF");
    assert!(matches!(read_log(&damaged), Err(HistogramLogError::Payload { .. })));
}
