//! Consequences of how a session was measured.

use super::{row, warns};
use crate::{Method, Settings};
use speedwell_fixtures::Story;
use speedwell_model::{Cause, Failure, Metric, Order, Sample, Session, Step, Verdict};
use std::sync::Arc;

const VARIANTS: [&str; 2] = ["old", "new"];

fn ordered(order: Order, blocks: u32) -> Session {
    let factor = |variant: &str| if variant == "new" { 1.10 } else { 1.0 };
    Story::ordered(&VARIANTS, blocks, order)
        .noisy("b", 0.02, factor)
        .session()
}

#[test]
fn a_fixed_number_of_runs_is_tested_once_at_the_full_error_rate() {
    let factor = |variant: &str| if variant == "new" { 1.10 } else { 1.0 };
    let session = Story::fixed(&VARIANTS, 4)
        .noisy("b", 0.01, factor)
        .session();
    let findings = crate::analyse(&session, &Settings::default());
    let comparison = &findings.comparisons[0];
    assert_eq!(
        (comparison.method, comparison.confidence, comparison.delta),
        (Method::Rank, 0.95, 0.02)
    );
    let row = &comparison.rows[0];
    assert_eq!((row.verdict, row.decided_at), (Verdict::Better, None));
    assert!((row.p.unwrap() - 2.0 / 1296.0).abs() < 1e-12);
    assert!(findings.warnings.is_empty(), "{:?}", findings.warnings);
}

#[test]
fn three_fixed_blocks_decide_one_case_and_two_are_too_few() {
    let factor = |variant: &str| if variant == "new" { 1.10 } else { 1.0 };
    let fixed = |blocks| Story::fixed(&VARIANTS, blocks).noisy("b", 0.01, factor);
    let three = row(&fixed(3).session(), &Settings::default());
    assert_eq!(three.verdict, Verdict::Better);
    assert!((three.p.unwrap() - 2.0 / 216.0).abs() < 1e-12);
    let session = fixed(3).lose("old", 5).session();
    let row = row(&session, &Settings::default());
    assert_eq!(
        (row.verdict, row.p, row.more_runs),
        (Verdict::Unclear, None, None)
    );
    assert!(
        row.notes[0].starts_with("Too few runs: 4 a side can decide nothing; 6 are enough"),
        "{:?}",
        row.notes
    );
}

/// Pairs whose level varies by a factor of two, and a candidate that is 3 % slower, or slower by
/// the factor `alone` when not beside the baseline.
fn paired(rounds: u32, alone: f64) -> Session {
    let story = Story::ordered(&["old", "new", "third"], rounds, Order::Paired);
    let design = story.clone().session().design;
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
    story.lower_is_better().case("b", value).session()
}

#[test]
fn pairs_are_compared_with_the_runs_beside_them() {
    let findings = crate::analyse(&paired(24, 1.03), &Settings::default());
    let comparison = &findings.comparisons[0];
    assert_eq!(comparison.method, Method::SignedRank);
    let row = &comparison.rows[0];
    assert_eq!((row.verdict, row.indicative), (Verdict::Worse, false));
    let change = row.change.unwrap();
    assert!(change.low > 0.02 && change.high < 0.04, "{change:?}");
    // Three of 24 rounds are measured alone, and the baseline has a run for each candidate.
    assert_eq!(
        (row.baseline.runs.len(), row.candidate.runs.len()),
        (21, 21)
    );
    assert!(row.notes.is_empty(), "{:?}", row.notes);
    let third = &findings.comparisons[1].rows[0];
    assert_ne!(third.verdict, Verdict::Worse);
    assert!(findings.warnings.is_empty(), "{:?}", findings.warnings);
}

#[test]
fn sides_that_disturb_each_other_have_no_verdict() {
    let findings = crate::analyse(&paired(32, 1.3), &Settings::default());
    let row = &findings.comparisons[0].rows[0];
    assert_eq!((row.verdict, row.more_runs), (Verdict::Unclear, None));
    assert!(
        row.notes[0].contains("disturb each other"),
        "{:?}",
        row.notes
    );
}

#[test]
fn fixed_alternation_is_only_indicative_and_says_why() {
    let findings = crate::analyse(&ordered(Order::Alternate, 15), &Settings::default());
    assert!(warns(&findings, "noise with a period of two runs"));
    let comparison = &findings.comparisons[0];
    assert_eq!(comparison.method, Method::MannWhitney);
    assert!(comparison.rows[0].indicative);
    assert_eq!(comparison.rows[0].verdict, Verdict::Better);
    let parallel = crate::analyse(&ordered(Order::Parallel, 15), &Settings::default());
    assert!(warns(&parallel, "at the same time") && parallel.comparisons[0].rows[0].indicative);
}

#[test]
fn one_side_after_the_other_is_flagged() {
    let session = ordered(Order::Imported, 15);
    let findings = crate::analyse(&session, &Settings::default());
    assert!(warns(&findings, "measured one after the other"));
    assert!(warns(&findings, "was not randomised by us"));
    assert!(
        findings.comparisons[0].rows[0].notes.is_empty(),
        "independent noise is not blamed"
    );
    // The same order with drift: the apparent change is the drift.
    let drift = Story::ordered(&VARIANTS, 15, Order::Imported)
        .case("b", |variant, i| {
            let hour = f64::from(i) + if variant == "new" { 30.0 } else { 0.0 };
            1000.0 + 5.0 * hour + f64::from(i * i * 7919 % 13)
        })
        .session();
    let row = row(&drift, &Settings::default());
    assert!(row.indicative);
    assert!(
        row.notes
            .iter()
            .any(|note| note.contains("the p value is not valid")),
        "{:?}",
        row.notes
    );
}

#[test]
fn drift_between_blocks_does_no_harm_and_needs_no_word() {
    let mut hour = 0.0;
    let session = Story::fixed(&VARIANTS, 16)
        .case("b", |_, i| {
            hour += 1.0;
            1000.0 + 5.0 * hour + f64::from(i * i * 7919 % 13)
        })
        .session();
    let row = row(&session, &Settings::default());
    assert!(
        !matches!(row.verdict, Verdict::Better | Verdict::Worse),
        "{:?}",
        row.change
    );
    // The data are fine, so there are no notes.
    assert_eq!(row.notes, [""; 0]);
}

#[test]
fn the_rank_test_needs_blocks() {
    let rank = Settings {
        method: Some(Method::Rank),
        ..Settings::default()
    };
    let findings = crate::analyse(&ordered(Order::Imported, 15), &rank);
    assert_eq!(findings.comparisons[0].method, Method::MannWhitney);
    assert!(warns(&findings, "needs randomised blocks"));
}

#[test]
fn other_choices_than_the_plan_make_a_verdict_exploratory() {
    let session = Story::blocks(&VARIANTS, 16)
        .noisy("b", 0.02, |_| 1.0)
        .session();
    let exploratory =
        |settings: Settings| warns(&crate::analyse(&session, &settings), "exploratory");
    assert!(!exploratory(Settings::default()));
    assert!(!exploratory(Settings {
        threshold: Some(0.02),
        ..Settings::default()
    }));
    assert!(exploratory(Settings {
        threshold: Some(0.05),
        ..Settings::default()
    }));
    assert!(exploratory(Settings {
        confidence: Some(0.99),
        ..Settings::default()
    }));
}

#[test]
fn the_metric_asked_for_is_the_one_analysed() {
    let mut session = Story::fixed(&VARIANTS, 8)
        .noisy("b", 0.02, |_| 1.0)
        .session();
    session
        .metrics
        .push(Metric::new("memory", "B", speedwell_model::Better::Lower));
    for run in &mut session.runs {
        let value = if &*run.variant == "new" { 200.0 } else { 100.0 };
        let metric: Arc<str> = Arc::from("memory");
        run.samples.push(Sample {
            metric,
            value,
            elapsed_ns: None,
            iterations: None,
        });
    }
    let asked = |names: &[&str]| {
        let metrics = names.iter().map(|&name| name.to_owned()).collect();
        crate::analyse(
            &session,
            &Settings {
                metrics,
                ..Settings::default()
            },
        )
    };
    let found = asked(&["memory"]);
    assert_eq!((found.summaries.len(), found.comparisons.len()), (2, 1));
    assert_eq!(
        found.comparisons[0].rows[0].verdict,
        Verdict::Worse,
        "less memory is better"
    );
    assert_eq!(asked(&[]).comparisons[0].metric.name, "throughput");
    assert_eq!(asked(&["throughput", "memory"]).comparisons.len(), 2);
    let nothing = asked(&["time"]);
    assert!(nothing.comparisons.is_empty() && nothing.summaries.is_empty());
    assert!(warns(
        &nothing,
        "no metric 'time'; there are 'throughput', 'memory'"
    ));
}

#[test]
fn many_failures_make_the_rest_a_selection() {
    let mut session = Story::fixed(&VARIANTS, 8)
        .noisy("b", 0.02, |_| 1.0)
        .session();
    let failure = |cause: Cause| Failure {
        step: Step::Run,
        benchmark: "b".into(),
        case: None,
        variant: None,
        slot: None,
        cause,
        stderr_tail: String::new(),
        replay: "false".into(),
    };
    session.failures = vec![
        failure(Cause::Skipped {
            reason: "no such thing".into()
        });
        9
    ];
    assert!(
        crate::analyse(&session, &Settings::default())
            .warnings
            .is_empty()
    );
    session.failures.extend(vec![failure(Cause::Silent); 8]);
    let findings = crate::analyse(&session, &Settings::default());
    assert!(
        warns(&findings, "8 of 40 runs failed (20 %)"),
        "{:?}",
        findings.warnings
    );
    assert_eq!(findings.failures.len(), 17);
}

#[test]
fn circumstances_that_spoil_figures_are_named() {
    let mut session = Story::fixed(&VARIANTS, 8)
        .noisy("b", 0.02, |_| 1.0)
        .session();
    session.environment.governors = vec!["powersave".into()];
    session.environment.aslr = Some(false);
    let settings = Settings {
        baseline: Some("older".into()),
        ..Settings::default()
    };
    let findings = crate::analyse(&session, &settings);
    assert!(warns(&findings, "'powersave'") && warns(&findings, "fixed memory layout"));
    assert!(warns(
        &findings,
        "no variant 'older'; 'old' is the baseline"
    ));
    assert_eq!(findings.comparisons[0].baseline, "old");
}
