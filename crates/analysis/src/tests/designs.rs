//! Consequences of how a session was measured.

use super::{only_row, warns};
use crate::{AnalysisSettings, StatisticalMethod};
use speedwell_fixtures::FakeSession;
use speedwell_model::{
    ComparedClock, FailureCause, Metric, OrderChoice, OrderRequest, RunOrder, Sample, Session,
    SessionStep, StepFailure, TrialShares, Verdict,
};
use std::sync::Arc;

const VARIANTS: [&str; 2] = ["old", "new"];

fn ordered_session(order: RunOrder, blocks: u32) -> Session {
    let factor = |variant: &str| if variant == "new" { 1.10 } else { 1.0 };
    FakeSession::with_order(&VARIANTS, blocks, order).add_noisy_case("b", 0.02, factor).build()
}

#[test]
fn a_fixed_number_of_runs_is_tested_once_at_the_full_error_rate() {
    let factor = |variant: &str| if variant == "new" { 1.10 } else { 1.0 };
    let session =
        FakeSession::with_fixed_blocks(&VARIANTS, 4).add_noisy_case("b", 0.01, factor).build();
    let findings = crate::analyze_session(&session, &AnalysisSettings::default());
    let comparison = &findings.comparisons[0];
    assert_eq!(
        (comparison.method, comparison.confidence, comparison.delta),
        (StatisticalMethod::Rank, 0.95, 0.02)
    );
    let row = &comparison.rows[0];
    assert_eq!((row.verdict, row.decided_at), (Verdict::Better, None));
    assert!((row.p.unwrap() - 2.0 / 1296.0).abs() < 1e-12);
    assert!(findings.warnings.is_empty(), "{:?}", findings.warnings);
}

#[test]
fn three_fixed_blocks_decide_one_case_and_two_are_too_few() {
    let factor = |variant: &str| if variant == "new" { 1.10 } else { 1.0 };
    let fixed = |blocks| {
        FakeSession::with_fixed_blocks(&VARIANTS, blocks).add_noisy_case("b", 0.01, factor)
    };
    let three = only_row(&fixed(3).build(), &AnalysisSettings::default());
    assert_eq!(three.verdict, Verdict::Better);
    assert!((three.p.unwrap() - 2.0 / 216.0).abs() < 1e-12);
    let session = fixed(3).remove_run("old", 5).build();
    let row = only_row(&session, &AnalysisSettings::default());
    assert_eq!((row.verdict, row.p, row.more_runs), (Verdict::Unclear, None, None));
    assert!(
        row.notes[0].starts_with("Too few runs: 4 a side can decide nothing; 6 are enough"),
        "{:?}",
        row.notes
    );
}

/// Pairs whose level varies by a factor of two, and a candidate that is 3% slower, or slower by
/// the factor `alone` when not beside the baseline.
fn paired_session(rounds: u32, alone: f64) -> Session {
    let story = FakeSession::with_order(&["old", "new", "third"], rounds, RunOrder::Paired);
    let design = story.clone().build().design;
    let value = move |variant: &str, number: u32| {
        let round = if variant == "old" { number / 2 } else { number };
        let level = 100.0 * f64::from(2 + round * 7919 % 3);
        let noise = 1.0 + 0.004 * f64::from((3 * number + variant.len() as u32) * 7919 % 11);
        let factor = match variant {
            "new" if design.is_alone(round) => alone,
            "new" => 1.03,
            _ => 1.0,
        };
        level * factor * noise
    };
    story.lower_is_better().add_case("b", value).build()
}

#[test]
fn a_candidate_is_compared_with_the_baseline_runs_of_its_pairs() {
    let findings = crate::analyze_session(&paired_session(24, 1.03), &AnalysisSettings::default());
    let comparison = &findings.comparisons[0];
    assert_eq!(comparison.method, StatisticalMethod::SignedRank);
    let row = &comparison.rows[0];
    assert_eq!((row.verdict, row.is_indicative), (Verdict::Worse, false));
    let change = row.change.unwrap();
    assert!(change.low > 0.02 && change.high < 0.04, "{change:?}");
    // Three of the 24 rounds, in which pairs did not run side by side, are left out. So are the
    // baseline's runs beside the third variant.
    assert_eq!((row.baseline.runs.len(), row.candidate.runs.len()), (21, 21));
    assert!(row.notes.is_empty(), "{:?}", row.notes);
    let third = &findings.comparisons[1].rows[0];
    assert_ne!(third.verdict, Verdict::Worse);
    assert!(findings.warnings.is_empty(), "{:?}", findings.warnings);
}

#[test]
fn sides_that_disturb_each_other_have_no_verdict() {
    let findings = crate::analyze_session(&paired_session(32, 1.3), &AnalysisSettings::default());
    let row = &findings.comparisons[0].rows[0];
    assert_eq!((row.verdict, row.more_runs, row.change), (Verdict::Unclear, None, None));
    assert!(row.notes[0].contains("disturb each other"), "{:?}", row.notes);
}

#[test]
fn a_side_that_waits_longer_has_no_verdict_by_processor_time() {
    let mut session = paired_session(24, 1.03);
    session.metrics[0].name = Metric::CPU_TIME.to_owned();
    for sample in session.runs.iter_mut().flat_map(|run| &mut run.samples) {
        sample.metric = Metric::CPU_TIME.into();
    }
    let shares = |variant: &str, runnable| TrialShares {
        case: "b".to_owned(),
        variant: variant.to_owned(),
        runnable: Some(runnable),
        ..TrialShares::default()
    };
    let verdict_with = |new: f64| {
        let choice = OrderChoice {
            requested: OrderRequest::Auto,
            reason: Some("machine busy, 78%".to_owned()),
            clock: ComparedClock::Cpu,
            trial: vec![shares("old", 1.0), shares("new", new)],
        };
        let mut chosen = session.clone();
        chosen.design.order_choice = Some(choice);
        let findings = crate::analyze_session(&chosen, &AnalysisSettings::default());
        let row = &findings.comparisons[0].rows[0];
        (row.verdict, row.change.is_some(), row.notes.clone())
    };
    assert_eq!(verdict_with(0.99), (Verdict::Worse, true, Vec::new()));
    let note = "'new' waits 6% of its time, which CPU time omits.".to_owned();
    assert_eq!(verdict_with(0.94), (Verdict::Unclear, true, vec![note]));
    assert!(crate::session_points(&session).points.is_empty());
}

#[test]
fn fixed_alternation_is_only_indicative_and_says_why() {
    let findings = crate::analyze_session(
        &ordered_session(RunOrder::Alternate, 15),
        &AnalysisSettings::default(),
    );
    assert!(warns(&findings, "noise with a period of two runs"));
    let comparison = &findings.comparisons[0];
    assert_eq!(comparison.method, StatisticalMethod::MannWhitney);
    assert!(comparison.rows[0].is_indicative);
    assert_eq!(comparison.rows[0].verdict, Verdict::Better);
    let parallel = crate::analyze_session(
        &ordered_session(RunOrder::Parallel, 15),
        &AnalysisSettings::default(),
    );
    assert!(warns(&parallel, "at the same time") && parallel.comparisons[0].rows[0].is_indicative);
}

#[test]
fn sides_measured_one_after_the_other_are_flagged() {
    let session = ordered_session(RunOrder::Imported, 15);
    let findings = crate::analyze_session(&session, &AnalysisSettings::default());
    assert!(warns(&findings, "measured one after the other"));
    assert!(warns(&findings, "was not randomised by Speedwell"));
    assert!(findings.comparisons[0].rows[0].notes.is_empty(), "independent noise is not blamed");
    // The same order with drift: the apparent change is the drift.
    let drift = FakeSession::with_order(&VARIANTS, 15, RunOrder::Imported)
        .add_case("b", |variant, i| {
            let hour = f64::from(i) + if variant == "new" { 30.0 } else { 0.0 };
            1000.0 + 5.0 * hour + f64::from(i * i * 7919 % 13)
        })
        .build();
    let row = only_row(&drift, &AnalysisSettings::default());
    assert!(row.is_indicative);
    assert!(
        row.notes.iter().any(|note| note.contains("the p value is not valid")),
        "{:?}",
        row.notes
    );
}

#[test]
fn drift_between_blocks_is_harmless_and_not_noted() {
    let mut hour = 0.0;
    let session = FakeSession::with_fixed_blocks(&VARIANTS, 16)
        .add_case("b", |_, i| {
            hour += 1.0;
            1000.0 + 5.0 * hour + f64::from(i * i * 7919 % 13)
        })
        .build();
    let row = only_row(&session, &AnalysisSettings::default());
    assert!(!matches!(row.verdict, Verdict::Better | Verdict::Worse), "{:?}", row.change);
    // The data are fine, so there are no notes.
    assert_eq!(row.notes, [""; 0]);
}

#[test]
fn the_rank_test_needs_blocks() {
    let rank =
        AnalysisSettings { method: Some(StatisticalMethod::Rank), ..AnalysisSettings::default() };
    let findings = crate::analyze_session(&ordered_session(RunOrder::Imported, 15), &rank);
    assert_eq!(findings.comparisons[0].method, StatisticalMethod::MannWhitney);
    assert!(warns(&findings, "needs randomised blocks"));
}

#[test]
fn settings_that_differ_from_the_plan_make_verdicts_exploratory() {
    let session = FakeSession::sequential(&VARIANTS, 16).add_noisy_case("b", 0.02, |_| 1.0).build();
    let exploratory = |settings: AnalysisSettings| {
        warns(&crate::analyze_session(&session, &settings), "exploratory")
    };
    assert!(!exploratory(AnalysisSettings::default()));
    assert!(!exploratory(AnalysisSettings {
        threshold: Some(0.02),
        ..AnalysisSettings::default()
    }));
    assert!(exploratory(AnalysisSettings { threshold: Some(0.05), ..AnalysisSettings::default() }));
    assert!(exploratory(AnalysisSettings {
        confidence: Some(0.99),
        ..AnalysisSettings::default()
    }));
}

#[test]
fn the_metric_asked_for_is_the_one_analysed() {
    let mut session =
        FakeSession::with_fixed_blocks(&VARIANTS, 8).add_noisy_case("b", 0.02, |_| 1.0).build();
    session.metrics.push(Metric::new("memory", "B", speedwell_model::MetricDirection::Lower));
    for run in &mut session.runs {
        let value = if &*run.variant == "new" { 200.0 } else { 100.0 };
        let metric: Arc<str> = Arc::from("memory");
        run.samples.push(Sample { metric, value, elapsed_ns: None, iterations: None });
    }
    let asked = |names: &[&str]| {
        let metrics = names.iter().map(|&name| name.to_owned()).collect();
        crate::analyze_session(
            &session,
            &AnalysisSettings { metrics, ..AnalysisSettings::default() },
        )
    };
    let found = asked(&["memory"]);
    assert_eq!((found.summaries.len(), found.comparisons.len()), (2, 1));
    assert_eq!(found.comparisons[0].rows[0].verdict, Verdict::Worse, "less memory is better");
    assert_eq!(asked(&[]).comparisons[0].metric.name, "throughput");
    assert_eq!(asked(&["throughput", "memory"]).comparisons.len(), 2);
    let nothing = asked(&["time"]);
    assert!(nothing.comparisons.is_empty() && nothing.summaries.is_empty());
    assert!(warns(&nothing, "Unknown metric 'time'; the session has 'throughput', 'memory'"));
}

#[test]
fn many_failures_cause_a_warning_and_skips_do_not() {
    let mut session =
        FakeSession::with_fixed_blocks(&VARIANTS, 8).add_noisy_case("b", 0.02, |_| 1.0).build();
    let failure = |cause: FailureCause| StepFailure {
        step: SessionStep::Run,
        benchmark: "b".into(),
        case: None,
        variant: None,
        slot: None,
        cause,
        stderr_tail: String::new(),
        replay: "false".into(),
    };
    session.failures = vec![failure(FailureCause::Skipped { reason: "no such thing".into() }); 9];
    assert!(crate::analyze_session(&session, &AnalysisSettings::default()).warnings.is_empty());
    session.failures.extend(vec![failure(FailureCause::Silent); 8]);
    let findings = crate::analyze_session(&session, &AnalysisSettings::default());
    assert!(warns(&findings, "8 of 40 runs failed (20%)"), "{:?}", findings.warnings);
    assert_eq!(findings.failures.len(), 17);
}

#[test]
fn circumstances_that_spoil_figures_are_named() {
    let mut session =
        FakeSession::with_fixed_blocks(&VARIANTS, 8).add_noisy_case("b", 0.02, |_| 1.0).build();
    session.environment.governors = vec!["powersave".into()];
    session.environment.aslr = Some(false);
    let settings =
        AnalysisSettings { baseline: Some("older".into()), ..AnalysisSettings::default() };
    let findings = crate::analyze_session(&session, &settings);
    assert!(warns(&findings, "'powersave'") && warns(&findings, "fixed memory layout"));
    assert!(warns(&findings, "Unknown variant 'older'; 'old' is the baseline"));
    assert_eq!(findings.comparisons[0].baseline, "old");
}
