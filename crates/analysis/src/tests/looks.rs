//! Sequential stopping, and the reports afterwards.

use super::only_row;
use crate::{AnalysisSettings, CaseComparison, StopRule, TestingCorrection};
use speedwell_fixtures::FakeSession;
use speedwell_model::{Case, Run, Session, SessionState, StoppingDesign, Verdict};
use std::sync::Arc;

const VARIANTS: [&str; 2] = ["old", "new"];

fn session(share: f64, variation: f64, seed: u64) -> Session {
    let factor = move |variant: &str| if variant == "new" { 1.0 + share } else { 1.0 };
    FakeSession::sequential(&VARIANTS, 16)
        .with_seed(seed)
        .add_noisy_case("b", variation, factor)
        .build()
}

/// Applies the stop rule block by block, as the runner does; returns the runs executed until every
/// case is decided.
fn run_stop_rule(mut rule: StopRule, session: &Session) -> Session {
    let mut cases: Vec<(Arc<Case>, Vec<Run>, bool)> = Vec::new();
    let blocks = 1 + session.runs.iter().map(|run| run.block).max().unwrap();
    for block in 0..blocks {
        for run in session.runs.iter().filter(|run| run.block == block) {
            match cases.iter_mut().find(|(case, ..)| *case == run.case) {
                Some((_, _, true)) => {}
                Some((_, runs, false)) => runs.push(run.clone()),
                None => cases.push((run.case.clone(), vec![run.clone()], false)),
            }
        }
        let open: Vec<&[Run]> =
            cases.iter().filter(|case| !case.2).map(|case| &case.1[..]).collect();
        let decided = rule.settled_cases(&open);
        let open = cases.iter_mut().filter(|case| !case.2);
        open.zip(decided).for_each(|(case, decided)| case.2 = decided);
    }
    Session { runs: cases.into_iter().flat_map(|(_, runs, _)| runs).collect(), ..session.clone() }
}

#[test]
fn the_result_that_ended_the_measuring_does_not_change_later() {
    let mut stops = Vec::new();
    for (seed, share) in [0.0, 0.0, 0.01, 0.02, 0.03, -0.02, 0.05, 0.2].into_iter().enumerate() {
        for settings in [
            AnalysisSettings::default(),
            AnalysisSettings { threshold: Some(0.01), ..AnalysisSettings::default() },
        ] {
            let full = session(share, 0.02, seed as u64);
            let rule = StopRule::new(&full.design, &settings);
            let measured = run_stop_rule(rule, &full);
            let (then, later) = (only_row(&measured, &settings), only_row(&full, &settings));
            let figures = |row: &CaseComparison| {
                (row.verdict, row.decided_at, row.p, row.change, row.mean_change)
            };
            assert_eq!(figures(&then), figures(&later), "change {share}, seed {seed}");
            let runs = measured.runs.len() as u32 / 2;
            assert_eq!(then.decided_at.unwrap_or(32), runs, "change {share}, seed {seed}");
            stops.push(runs);
        }
    }
    assert!(stops.contains(&8) && stops.contains(&32) && stops.iter().any(|n| (9..32).contains(n)));
}

#[test]
fn runs_after_the_decision_are_mentioned_but_not_used() {
    let full = session(0.2, 0.02, 3);
    let late = only_row(&full, &AnalysisSettings::default());
    assert_eq!(late.decided_at, Some(8));
    assert!(late.notes[0].starts_with("Decided at 8 runs a side"), "{:?}", late.notes);
    let mut spoilt = full.clone();
    for run in spoilt.runs.iter_mut().filter(|run| run.block >= 4 && &*run.variant == "new") {
        run.samples[0].value = 1.0;
    }
    let spoilt = only_row(&spoilt, &AnalysisSettings::default());
    assert_eq!((spoilt.verdict, spoilt.change), (Verdict::Better, late.change));
}

#[test]
fn a_lost_run_delays_the_look_by_a_block() {
    let full = session(0.2, 0.02, 3);
    let rule = StopRule::new(&full.design, &AnalysisSettings::default());
    assert_eq!(run_stop_rule(rule.clone(), &full).runs.len(), 16);
    let mut lossy = full.clone();
    lossy.runs.remove(5);
    let measured = run_stop_rule(rule, &lossy);
    assert_eq!((measured.runs.len(), measured.runs.last().unwrap().block), (19, 4));
    let row = only_row(&measured, &AnalysisSettings::default());
    assert_eq!((row.verdict, row.decided_at), (Verdict::Better, Some(8)));
    assert!(row.notes.contains(&"1 block lacks a run and cannot be compared.".into()));
}

#[test]
fn an_interrupted_session_reports_its_last_look() {
    let mut session = session(0.01, 0.10, 3);
    session.state = SessionState::Interrupted;
    session.runs.truncate(36);
    let findings = crate::analyze_session(&session, &AnalysisSettings::default());
    assert!(super::warns(&findings, "was interrupted"));
    let row = &findings.comparisons[0].rows[0];
    assert_eq!((row.verdict, row.decided_at), (Verdict::Unclear, None));
    assert!(row.notes[0].contains("after 20 runs") && row.notes[0].contains("after 14."));
    let mut at_the_look = session.clone();
    at_the_look.runs.truncate(28);
    let earlier = super::only_row(&at_the_look, &AnalysisSettings::default());
    assert_eq!((row.p, row.change), (earlier.p, earlier.change));
    assert!(row.more_runs.unwrap() > 20, "with 10% noise, a 1% change needs many runs");
}

#[test]
fn before_the_first_look_nothing_is_claimed() {
    let mut session = session(0.5, 0.001, 3);
    session.runs.truncate(12);
    let row = only_row(&session, &AnalysisSettings::default());
    assert_eq!((row.verdict, row.p, row.q), (Verdict::Unclear, None, None));
    assert_eq!(row.more_runs, None, "its interval has no ends yet");
    assert!((row.change.unwrap().value - 0.5).abs() < 0.01, "the estimate is shown all the same");
    assert_eq!(
        row.notes,
        ["Measuring ended before the first interim analysis; there are 6 runs a side."]
    );
}

#[test]
fn before_a_late_first_look_nothing_is_claimed_either() {
    let mut session = session(0.5, 0.001, 3);
    session.design.stopping =
        StoppingDesign::Sequential { looks: vec![16, 32], alpha: 0.05, delta: 0.02 };
    session.runs.truncate(24);
    let row = only_row(&session, &AnalysisSettings::default());
    assert_eq!((row.verdict, row.p, row.more_runs), (Verdict::Unclear, None, Some(4)));
    assert!(row.notes[0].contains("before the first interim analysis"), "{:?}", row.notes);
}

#[test]
fn a_third_variant_is_measured_until_its_own_comparison_is_decided() {
    let factor = |variant: &str| match variant {
        "fast" => 1.3,
        "close" => 1.015,
        _ => 1.0,
    };
    let full = FakeSession::sequential(&["old", "fast", "close"], 16)
        .add_noisy_case("b", 0.03, factor)
        .build();
    let rule = StopRule::new(&full.design, &AnalysisSettings::default());
    let measured = run_stop_rule(rule, &full);
    assert!(measured.runs.len() > 8 * 3);
    let findings = crate::analyze_session(&measured, &AnalysisSettings::default());
    let names: Vec<&str> = findings.comparisons.iter().map(|c| c.candidate.as_str()).collect();
    assert_eq!(names, ["fast", "close"]);
    assert_eq!(findings.comparisons[0].rows[0].decided_at, Some(8));
    assert_eq!(findings.comparisons[0].rows[0].verdict, Verdict::Better);
    assert_ne!(findings.comparisons[1].rows[0].decided_at, Some(8));
}

#[test]
fn a_failing_third_variant_costs_the_other_two_nothing() {
    let factor = |variant: &str| if variant == "new" { 1.3 } else { 1.0 };
    let full = FakeSession::sequential(&["old", "new", "broken"], 16)
        .add_noisy_case("b", 0.03, factor)
        .build();
    let runs = full.runs.iter().filter(|run| &*run.variant != "broken" || run.block == 0);
    let session = Session { runs: runs.cloned().collect(), ..full.clone() };
    let findings = crate::analyze_session(&session, &AnalysisSettings::default());
    assert_eq!(findings.comparisons[0].rows[0].verdict, Verdict::Better);
    assert_eq!(findings.comparisons[1].rows[0].verdict, Verdict::Unclear);
}

#[test]
fn a_stop_rule_settles_nothing_without_a_candidate_or_with_fixed_runs() {
    let alone = FakeSession::sequential(&["old"], 16).add_noisy_case("b", 0.01, |_| 1.0).build();
    let mut rule = StopRule::new(&alone.design, &AnalysisSettings::default());
    assert_eq!(rule.settled_cases(&[&alone.runs, &[]]), [false, false]);
    let fixed = FakeSession::with_fixed_blocks(&VARIANTS, 16)
        .add_noisy_case("b", 0.01, |variant| if variant == "new" { 2.0 } else { 1.0 })
        .build();
    let mut rule = StopRule::new(&fixed.design, &AnalysisSettings::default());
    assert_eq!(rule.settled_cases(&[&fixed.runs]), [false]);
}

#[test]
fn precision_is_reached_sooner_with_less_noise() {
    let runs_until = |variation: f64| {
        let alone =
            FakeSession::sequential(&["old"], 200).add_noisy_case("b", variation, |_| 1.0).build();
        let mut rule = StopRule::for_precision(0.01, &alone.design, &AnalysisSettings::default());
        let enough =
            (1..=alone.runs.len()).find(|&runs| rule.settled_cases(&[&alone.runs[..runs]])[0]);
        enough.expect("400 runs are enough")
    };
    assert_eq!(runs_until(0.001), 4);
    // Half the interval is about 1.96 x 3% / sqrt n: below 1% with about 35 or more runs.
    let with_noise = runs_until(0.03);
    assert!((12..60).contains(&with_noise), "{with_noise}");
}

/// The stop rule and the report agree on many cases, whatever the correction.
#[test]
fn many_cases_are_measured_until_their_answers_survive_the_correction() {
    for (correction, fewest) in
        [(TestingCorrection::BenjaminiHochberg, 8), (TestingCorrection::Holm, 14)]
    {
        let settings = AnalysisSettings { correction, ..AnalysisSettings::default() };
        let mut story = FakeSession::sequential(&VARIANTS, 16);
        for case in 0..33 {
            let factor = |variant: &str| if variant == "new" { 0.8 } else { 1.0 };
            story = story.add_noisy_case(&format!("c{case}"), 0.01, factor);
        }
        let full = story.build();
        let measured = run_stop_rule(StopRule::new(&full.design, &settings), &full);
        for session in [&measured, &full] {
            let rows = &super::only_comparison(session, &settings).rows;
            assert!(rows.iter().all(|row| row.verdict == Verdict::Worse));
            assert!(rows.iter().all(|row| row.decided_at == Some(fewest)));
            assert!(rows.iter().all(|row| row.q.unwrap() <= 0.05));
        }
        assert_eq!(measured.runs.len(), 33 * 2 * fewest as usize);
    }
}

#[test]
fn one_change_among_a_hundred_cases_takes_more_runs_but_is_found() {
    let mut story = FakeSession::sequential(&VARIANTS, 16);
    for case in 0..100 {
        let factor = move |variant: &str| match (variant, case) {
            ("new", 0) => 1.3,
            _ => 1.0,
        };
        story = story.add_noisy_case(&format!("c{case}"), 0.01, factor);
    }
    let full = story.build();
    for correction in [TestingCorrection::BenjaminiHochberg, TestingCorrection::Holm] {
        let settings = AnalysisSettings { correction, ..AnalysisSettings::default() };
        let measured = run_stop_rule(StopRule::new(&full.design, &settings), &full);
        let rows = super::only_comparison(&measured, &settings).rows;
        assert_eq!((rows[0].verdict, rows[0].decided_at), (Verdict::Better, Some(14)));
        let later = super::only_comparison(&full, &settings).rows;
        for (now, later) in rows.iter().zip(&later) {
            let figures = |row: &CaseComparison| (row.verdict, row.decided_at, row.p, row.q);
            assert_eq!(figures(now), figures(later));
        }
    }
}

/// Several candidates and metrics form one family: what is shown together is corrected together.
#[test]
fn comparisons_of_several_candidates_are_corrected_together() {
    let names: Vec<String> = (0..40).map(|number| format!("v{number}")).collect();
    let variants: Vec<&str> = names.iter().map(String::as_str).collect();
    let factor = |variant: &str| if variant == "v0" { 1.0 } else { 0.8 };
    let full = FakeSession::sequential(&variants, 16).add_noisy_case("b", 0.01, factor).build();
    let settings =
        AnalysisSettings { correction: TestingCorrection::Holm, ..AnalysisSettings::default() };
    let measured = run_stop_rule(StopRule::new(&full.design, &settings), &full);
    let findings = crate::analyze_session(&measured, &settings);
    assert_eq!(findings.comparisons.len(), 39);
    for comparison in &findings.comparisons {
        let row = &comparison.rows[0];
        assert_eq!((row.verdict, row.decided_at), (Verdict::Worse, Some(14)));
        assert!(row.q > row.p && row.q.unwrap() <= 0.05);
    }
}

/// At an error rate of 5%, three of sixty comparisons of equal sides are expected to be called
/// different. The probability of more than ten is 2e-4 (R: `1 - pbinom(10, 60, .05)`).
#[test]
fn equal_sides_are_rarely_called_different() {
    let mut different = 0;
    let mut same = 0;
    for seed in 0..60 {
        let row = only_row(&session(0.0, 0.02, 1000 + seed), &AnalysisSettings::default());
        different += u32::from(matches!(row.verdict, Verdict::Better | Verdict::Worse));
        same += u32::from(row.verdict == Verdict::Same);
    }
    assert!(different <= 10, "{different} of 60");
    // 91% are declared equal in the simulations of crates/stats/benches/simulate.md.
    assert!(same >= 45, "{same} of 60");
}
