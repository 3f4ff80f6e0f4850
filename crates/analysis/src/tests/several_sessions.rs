//! Sessions compared with each other.

use super::warns;
use crate::{AnalysisFindings, AnalysisSettings, StatisticalMethod};
use speedwell_fixtures::FakeSession;
use speedwell_model::{MeasuredProgram, Session, Verdict};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn session(variants: &[&str], share: f64) -> Session {
    let factor = move |variant: &str| match variant {
        "new" => 1.0 + 2.0 * share,
        _ => 1.0 + share,
    };
    let session = FakeSession::sequential(variants, 16).add_noisy_case("b", 0.02, factor).build();
    static SESSIONS: AtomicU32 = AtomicU32::new(0);
    let id = SESSIONS.fetch_add(1, Ordering::Relaxed).to_string();
    Session { id, ..session }
}

fn compare_labeled(sources: &[(&str, &Session, Option<&str>)]) -> AnalysisFindings {
    let owned: Vec<(String, &Session, Option<String>)> = sources
        .iter()
        .map(|(label, session, variant)| {
            ((*label).to_owned(), *session, variant.map(str::to_owned))
        })
        .collect();
    crate::compare_sources(&owned, &AnalysisSettings::default())
}

#[test]
fn comparisons_of_sessions_from_different_days_are_only_indicative() {
    let (monday, tuesday) = (session(&["old"], 0.0), session(&["old"], 0.15));
    let findings = compare_labeled(&[("monday", &monday, None), ("tuesday", &tuesday, None)]);
    assert!(warns(&findings, "'monday' and 'tuesday' were measured one after the other"));
    let comparison = &findings.comparisons[0];
    assert_eq!(comparison.method, StatisticalMethod::MannWhitney);
    assert_eq!(
        (comparison.baseline.as_str(), comparison.candidate.as_str()),
        ("monday", "tuesday")
    );
    let row = &comparison.rows[0];
    assert!(row.is_indicative && row.decided_at.is_none());
    assert_eq!(row.verdict, Verdict::Better);
    assert!((row.change.unwrap().value - 0.15).abs() < 0.02);
}

#[test]
fn every_further_source_is_compared_with_the_first() {
    let days = [session(&["old"], 0.0), session(&["old"], 0.1), session(&["old"], -0.1)];
    let findings =
        compare_labeled(&[("a", &days[0], None), ("b", &days[1], None), ("c", &days[2], None)]);
    let verdicts: Vec<_> = findings
        .comparisons
        .iter()
        .map(|c| (c.baseline.as_str(), c.candidate.as_str(), c.rows[0].verdict))
        .collect();
    assert_eq!(verdicts, [("a", "b", Verdict::Better), ("a", "c", Verdict::Worse)]);
}

#[test]
fn variants_of_one_session_keep_their_blocks() {
    let both = session(&["old", "new"], 0.1);
    let findings =
        compare_labeled(&[("x[old]", &both, Some("old")), ("x[new]", &both, Some("new"))]);
    let (across, within) = (
        &findings.comparisons[0],
        &crate::analyze_session(&both, &AnalysisSettings::default()).comparisons[0],
    );
    assert_eq!(across.method, StatisticalMethod::Rank);
    assert!(!across.rows[0].is_indicative);
    assert_eq!(
        (across.rows[0].p, across.rows[0].change),
        (within.rows[0].p, within.rows[0].change)
    );
    assert!(!warns(&findings, "one after the other"));
}

/// A session that was read twice is still one session.
#[test]
fn variants_of_one_session_share_its_blocks_however_often_it_was_read() {
    let both = session(&["old", "new"], 0.1);
    let second_copy = both.clone();
    let findings =
        compare_labeled(&[("x[old]", &both, Some("old")), ("x[new]", &second_copy, Some("new"))]);
    let within = crate::analyze_session(&both, &AnalysisSettings::default());
    let (across, within) = (&findings.comparisons[0], &within.comparisons[0]);
    assert_eq!(
        (across.rows[0].p, across.rows[0].change),
        (within.rows[0].p, within.rows[0].change)
    );
    assert!(!findings.is_cross_session && !warns(&findings, "one after the other"));
}

/// The machine slows down to an eighth of its speed, and both cases with it. A test without blocks
/// would see only noise.
#[test]
fn parts_of_one_session_are_compared_within_its_blocks() {
    let mut story = FakeSession::with_fixed_blocks(&["only"], 8);
    for (id, factor, phase) in [("a", 1.0, 0), ("b", 1.1, 50)] {
        let noise = |number: u32| 1.0 + 0.002 * f64::from((number + phase) * 7919 % 101) / 101.0;
        story = story.add_case(id, |_, number| {
            factor * noise(number) * 1000.0 / (1.0 + f64::from(number / 2))
        });
    }
    let mut session = story.build();
    session.runs.sort_by_key(|run| run.block);
    for (slot, run) in (0..).zip(&mut session.runs) {
        run.slot = slot;
    }
    let part = |id: &str| {
        let mut part = session.clone();
        part.runs.retain(|run| run.case.id() == id);
        for run in &mut part.runs {
            run.case = Arc::new(speedwell_model::Case::parse("[a|b]").unwrap());
        }
        part
    };
    let (a, b) = (part("a"), part("b"));
    let findings = compare_labeled(&[("x::a", &a, None), ("x::b", &b, None)]);
    let row = &findings.comparisons[0].rows[0];
    assert_eq!(findings.comparisons[0].method, StatisticalMethod::Rank);
    assert_eq!((row.verdict, row.is_indicative), (Verdict::Better, true));
    assert!((row.change.unwrap().value - 0.1).abs() < 0.01);
    assert!(warns(&findings, "different cases of one session: they alternated"));
    assert!(!warns(&findings, "one after the other"));
}

#[test]
fn momentary_facts_are_not_reported_as_circumstances() {
    let (mut one, mut two) = (session(&["old"], 0.0), session(&["old"], 0.0));
    for (session, value) in [(&mut one, "1"), (&mut two, "2")] {
        for name in ["now_cpu_pressure_percent", "transparent_huge_pages"] {
            let facts = &mut session.environment.facts;
            facts.insert(name.into(), value.into());
        }
    }
    let findings = compare_labeled(&[("one", &one, None), ("two", &two, None)]);
    assert!(warns(&findings, "circumstances: transparent huge pages '1' and '2'."));
}

#[test]
fn without_a_named_variant_the_baseline_is_compared_with_a_warning() {
    let (one, both) = (session(&["old"], 0.0), session(&["old", "new"], 0.1));
    let findings = compare_labeled(&[("one", &one, None), ("both", &both, None)]);
    assert!(warns(&findings, "'both' has the variants 'old', 'new'; 'old' is compared"));
    assert!((findings.comparisons[0].rows[0].change.unwrap().value - 0.1).abs() < 0.02);
    let named = compare_labeled(&[("one", &one, None), ("both", &both, Some("new"))]);
    assert!((named.comparisons[0].rows[0].change.unwrap().value - 0.2).abs() < 0.02);
    let unknown_variant = compare_labeled(&[("one", &one, None), ("both", &both, Some("newest"))]);
    assert!(warns(&unknown_variant, "'both' has no variant 'newest'"));
}

#[test]
fn different_machines_and_rebuilt_programs_are_named() {
    let (mut one, mut two) = (session(&["old"], 0.0), session(&["old"], 0.0));
    for (session, cpu, version) in [(&mut one, "A1", "v18"), (&mut two, "B2", "v20")] {
        session.environment.cpu = Some(cpu.into());
        session.environment.kernel = Some("6.1".into());
        session.environment.facts.insert("build".into(), format!("{cpu}-release"));
        session.environment.programs = vec![MeasuredProgram {
            variant: "old".into(),
            path: PathBuf::from("/usr/bin/node"),
            version: Some(version.into()),
            ..MeasuredProgram::default()
        }];
    }
    let findings = compare_labeled(&[("one", &one, None), ("two", &two, None)]);
    assert!(warns(&findings, "processor 'A1' and 'B2', build 'A1-release' and 'B2-release'."));
    assert!(!warns(&findings, "kernel"));
    assert!(warns(&findings, "'/usr/bin/node' was v18 in 'one', v20 in 'two'"));
}

#[test]
fn a_metric_with_different_units_in_two_sessions_causes_a_warning() {
    let (one, mut two) = (session(&["old"], 0.0), session(&["old"], 0.0));
    two.metrics[0].unit = "1/min".into();
    let findings = compare_labeled(&[("one", &one, None), ("two", &two, None)]);
    assert!(warns(&findings, "'two' reports 'throughput' in '1/min' instead of '1/s'"));
}

#[test]
fn a_source_without_runs_causes_a_warning_and_no_comparison() {
    let mut empty = session(&["old"], 0.0);
    empty.runs.clear();
    empty.variants.clear();
    let findings =
        compare_labeled(&[("empty", &empty, None), ("one", &session(&["old"], 0.0), None)]);
    assert!(warns(&findings, "'empty' has no runs"));
    assert!(findings.comparisons.is_empty());
}
