//! Verdicts for given data.

use super::{only_comparison, only_row};
use crate::{AnalysisSettings, CaseComparison, StatisticalMethod, TestingCorrection};
use speedwell_fixtures::FakeSession;
use speedwell_model::{Session, Verdict};

const VARIANTS: [&str; 2] = ["old", "new"];

fn faster_by(share: f64, variation: f64) -> Session {
    let factor = move |variant: &str| if variant == "new" { 1.0 + share } else { 1.0 };
    FakeSession::sequential(&VARIANTS, 16)
        .add_noisy_case("group/work n=1", variation, factor)
        .build()
}

fn with_threshold(threshold: f64) -> AnalysisSettings {
    AnalysisSettings { threshold: Some(threshold), ..AnalysisSettings::default() }
}

#[test]
fn ten_percent_more_throughput_is_better_at_the_first_look() {
    let session = faster_by(0.10, 0.01);
    let row = only_row(&session, &AnalysisSettings::default());
    assert_eq!((row.verdict, row.decided_at), (Verdict::Better, Some(8)));
    // All 8 values of one side exceed all of the other: 2 of 6^4 arrangements are as extreme. The
    // first look may use (8/32)^2 of the error rate.
    let p = 16.0 * 2.0 / 1296.0;
    assert!((row.p.unwrap() / p - 1.0).abs() < 0.01, "{:?}", row.p);
    assert_eq!(row.q, row.p);
    let change = row.change.unwrap();
    assert!(
        (change.value - 0.10).abs() < 0.015 && change.low > 0.05 && change.high < 0.15,
        "{change:?}"
    );
    assert_eq!(row.cliffs_delta, Some(1.0));
    assert!(!row.is_indicative && !row.is_shape_changed && row.more_runs.is_none());
    assert_eq!((row.baseline.runs.len(), row.candidate.runs.len()), (32, 32));
}

#[test]
fn the_same_numbers_are_worse_where_less_is_better() {
    let factor = |variant: &str| if variant == "new" { 1.10 } else { 1.0 };
    let session = FakeSession::sequential(&VARIANTS, 16)
        .lower_is_better()
        .add_noisy_case("group/work n=1", 0.01, factor)
        .build();
    let comparison = only_comparison(&session, &AnalysisSettings::default());
    let row = &comparison.rows[0];
    assert_eq!(row.verdict, Verdict::Worse);
    let improvement = row.improvement(&comparison.metric).unwrap();
    assert_eq!(improvement.value, -row.change.unwrap().value);
    assert!(improvement.low < improvement.value && improvement.value < improvement.high);
}

#[test]
fn swapping_the_sides_swaps_the_verdict() {
    let swapped = AnalysisSettings { baseline: Some("new".into()), ..AnalysisSettings::default() };
    let row = only_row(&faster_by(0.10, 0.01), &swapped);
    assert_eq!(row.verdict, Verdict::Worse);
    assert!((row.change.unwrap().value - (1.0 / 1.10 - 1.0)).abs() < 0.01);
}

#[test]
fn without_a_change_the_equivalence_stop_says_same() {
    let row = only_row(&faster_by(0.0, 0.01), &AnalysisSettings::default());
    assert_eq!(row.verdict, Verdict::Same);
    assert!(row.decided_at.unwrap() < 32, "{:?}", row.decided_at);
    assert!(row.change.unwrap().lies_within(-0.02, 0.02) && row.p.unwrap() > 0.05);
}

#[test]
fn a_noisy_case_is_unclear_and_reports_how_many_more_runs_it_needs() {
    let row = only_row(&faster_by(0.01, 0.10), &AnalysisSettings::default());
    assert_eq!((row.verdict, row.decided_at), (Verdict::Unclear, None));
    // crates/stats/DERIVATIONS.md, "Power": 7.7% at a variation of 10% and 30 runs.
    assert!((row.detectable.unwrap() - 0.077).abs() < 0.025, "{:?}", row.detectable);
    let more_runs = row.more_runs.unwrap();
    assert!((100..2000).contains(&more_runs) && more_runs.is_multiple_of(2), "{more_runs}");
}

#[test]
fn with_a_threshold_the_whole_interval_must_lie_beyond_it() {
    let session = faster_by(0.06, 0.01);
    for (threshold, verdict) in
        [(0.02, Verdict::Better), (0.058, Verdict::Unclear), (0.10, Verdict::Same)]
    {
        let row = only_row(&session, &with_threshold(threshold));
        assert_eq!(row.verdict, verdict, "threshold {threshold}: {:?}", row.change);
    }
}

#[test]
fn measuring_continues_until_the_change_exceeds_the_threshold() {
    let session = faster_by(0.06, 0.02);
    let any = only_row(&session, &AnalysisSettings::default());
    let with_margin = only_row(&session, &with_threshold(0.04));
    assert_eq!((any.verdict, with_margin.verdict), (Verdict::Better, Verdict::Better));
    assert!(
        any.decided_at < with_margin.decided_at,
        "{:?} {:?}",
        any.decided_at,
        with_margin.decided_at
    );
    assert!(any.change.unwrap().low < 0.04 && with_margin.change.unwrap().low > 0.04);
    assert!(with_margin.p.unwrap() <= 0.05, "p tests against the threshold, not against zero");
}

#[test]
fn identical_values_are_the_same_even_at_zero() {
    for value in [5.0, 0.0] {
        let session = FakeSession::sequential(&VARIANTS, 16).add_case("b", |_, _| value).build();
        let row = only_row(&session, &AnalysisSettings::default());
        assert_eq!((row.verdict, row.p, row.decided_at), (Verdict::Same, Some(1.0), Some(8)));
        assert_eq!(row.change.map(|change| change.value.abs() < 1e-9), Some(true));
        assert!(row.notes.contains(&"All values of both sides are identical.".into()));
    }
}

#[test]
fn constant_sides_that_differ_are_told_apart_by_ranks_but_not_by_welch() {
    let value = |variant: &str, _| if variant == "new" { 6.0 } else { 5.0 };
    let session = FakeSession::sequential(&VARIANTS, 16).add_case("b", value).build();
    let by_ranks = only_row(&session, &AnalysisSettings::default());
    assert_eq!(by_ranks.verdict, Verdict::Better);
    assert!((by_ranks.change.unwrap().value - 0.2).abs() < 1e-9);
    let welch =
        AnalysisSettings { method: Some(StatisticalMethod::Welch), ..AnalysisSettings::default() };
    let by_welch = only_row(&session, &welch);
    assert_eq!((by_welch.verdict, by_welch.p), (Verdict::Unclear, None));
    assert!(by_welch.notes.iter().any(|note| note.contains("Welch's test is undefined")));
}

#[test]
fn values_around_zero_have_a_p_value_but_no_change_and_no_verdict() {
    let value =
        |variant: &str, i: u32| f64::from(i % 5) - if variant == "new" { 20.0 } else { 2.0 };
    let session = FakeSession::sequential(&VARIANTS, 16).add_case("b", value).build();
    let row = only_row(&session, &AnalysisSettings::default());
    assert_eq!((row.verdict, row.change), (Verdict::Unclear, None));
    assert!(row.p.unwrap() < 0.05);
    assert!(row.notes.iter().any(|note| note.contains("no logarithm")), "{:?}", row.notes);
}

#[test]
fn a_change_of_the_tail_alone_is_reported() {
    let wobble = |i: u32| 1000.0 + f64::from(i * i * 7919 % 13);
    let value = move |variant: &str, i: u32| {
        let is_spike = variant == "new" && i % 4 == 3;
        wobble(i) + if is_spike { 4000.0 } else { 0.0 }
    };
    let session = FakeSession::with_fixed_blocks(&VARIANTS, 16).add_case("b", value).build();
    let row = only_row(&session, &AnalysisSettings::default());
    assert!(row.is_shape_changed, "{:?} {:?}", row.change, row.mean_change);
    assert!(row.change.unwrap().value < 0.05 && row.mean_change.unwrap().value > 0.5);
}

#[test]
fn every_method_calls_a_clear_change() {
    for method in [
        StatisticalMethod::Rank,
        StatisticalMethod::Welch,
        StatisticalMethod::MannWhitney,
        StatisticalMethod::Bootstrap,
    ] {
        let settings = AnalysisSettings { method: Some(method), ..AnalysisSettings::default() };
        let comparison = only_comparison(&faster_by(-0.10, 0.01), &settings);
        assert_eq!(comparison.method, method);
        assert_eq!(comparison.rows[0].verdict, Verdict::Worse, "{method:?}");
        assert!((comparison.rows[0].change.unwrap().value + 0.10).abs() < 0.01, "{method:?}");
    }
}

/// p value, interval and verdict answer the same question from the same distribution, at each look
/// and over all looks.
#[test]
fn p_and_interval_agree_in_a_thousand_rows() {
    let mut verdicts = [0; 4];
    for (correction, cases) in [
        (TestingCorrection::None, 200),
        (TestingCorrection::BenjaminiHochberg, 150),
        (TestingCorrection::Holm, 150),
    ] {
        for (threshold, seed) in [None, Some(0.05)].into_iter().zip([1, 2]) {
            let mut story = FakeSession::sequential(&VARIANTS, 16).with_seed(seed);
            for case in 0..cases {
                let share = f64::from(case % 20) * 0.005;
                let factor = move |variant: &str| if variant == "new" { 1.0 - share } else { 1.0 };
                story = story.add_noisy_case(&format!("c{case}"), 0.005 + 0.04 * share, factor);
            }
            let settings =
                AnalysisSettings { threshold, correction, ..AnalysisSettings::default() };
            for row in super::only_comparison(&story.build(), &settings).rows {
                assert_agrees(&row, threshold.unwrap_or(0.0));
                verdicts[row.verdict as usize] += 1;
            }
        }
    }
    assert!(verdicts.iter().filter(|&&count| count > 20).count() >= 3, "{verdicts:?}");
}

fn assert_agrees(row: &CaseComparison, limit: f64) {
    let change = row.change.unwrap();
    let is_beyond = change.low > limit || change.high < -limit;
    assert_eq!(row.p.unwrap() <= 0.05, is_beyond, "{change:?} {:?}", row.p);
    assert!(change.low <= change.value && change.value <= change.high);
    let survives = row.q.or(row.p).unwrap() <= 0.05;
    let is_change = matches!(row.verdict, Verdict::Better | Verdict::Worse);
    assert_eq!(is_change, survives, "{row:?}");
    assert!(is_beyond || !survives);
    if limit > 0.0 {
        let is_within = change.lies_within(-limit, limit);
        assert!(!is_within || row.verdict == Verdict::Same, "{row:?}");
    }
    let excludes_zero = change.low > 0.0 || change.high < 0.0;
    let explains = |text: &str| row.notes.iter().any(|note| note.contains(text));
    assert_eq!(
        explains("within the threshold"),
        limit > 0.0 && row.verdict == Verdict::Same && excludes_zero && !is_beyond
    );
    assert_eq!(explains("not after correction"), is_beyond && !is_change);
}

/// Twice as fast at the first look and four times as slow from then on: the intervals of the looks
/// do not overlap.
#[test]
fn if_looks_contradict_each_other_the_clearest_look_is_reported() {
    let wobble = |run: u32| 1.0 + f64::from(run * 7919 % 101) / 1e4;
    let mut story = FakeSession::sequential(&VARIANTS, 16).add_case("g/b k=0", |variant, run| {
        let factor = match (variant, run) {
            ("old", _) => 1.0,
            (_, 0..8) => 2.0,
            _ => 0.25,
        };
        factor * wobble(run)
    });
    for case in 1..40 {
        story = story.add_noisy_case(&format!("g/b k={case}"), 0.02, |_| 1.0);
    }
    let settings =
        AnalysisSettings { correction: TestingCorrection::Holm, ..AnalysisSettings::default() };
    let row = &super::only_comparison(&story.build(), &settings).rows[0];
    assert_agrees(row, 0.0);
    assert!(row.p.unwrap() <= 0.05 && row.decided_at.is_none_or(|runs| runs > 8));
    assert!(row.notes[0].contains("do not overlap"), "{:?} {:?}", row.change, row.notes);
}
