//! Many cases judged together.

use super::only_comparison;
use crate::{
    AnalysisSettings, CandidateComparison, CaseComparison, PointCollector, TestingCorrection,
};
use speedwell_fixtures::FakeSession;
use speedwell_model::{KernelStats, Session, Verdict};

const VARIANTS: [&str; 2] = ["old", "new"];

/// Cases `c0`, `c1` ... with the given changes, measured with a fixed number of runs.
fn session(changes: &[f64]) -> Session {
    let mut story = FakeSession::with_fixed_blocks(&VARIANTS, 15);
    for (index, share) in changes.iter().enumerate() {
        let factor = move |variant: &str| if variant == "new" { 1.0 + share } else { 1.0 };
        story = story.add_noisy_case(&format!("c{index}"), 0.02, factor);
    }
    story.build()
}

fn compare_corrected(session: &Session, correction: TestingCorrection) -> CandidateComparison {
    only_comparison(session, &AnalysisSettings { correction, ..AnalysisSettings::default() })
}

fn count_changes(comparison: &CandidateComparison) -> usize {
    let is_change = |row: &&CaseComparison| matches!(row.verdict, Verdict::Better | Verdict::Worse);
    comparison.rows.iter().filter(is_change).count()
}

#[test]
fn stricter_corrections_call_fewer_changes() {
    let mut changes = vec![0.0; 90];
    changes.extend([0.012; 10]);
    let session = session(&changes);
    let [none, bh, holm] =
        [TestingCorrection::None, TestingCorrection::BenjaminiHochberg, TestingCorrection::Holm]
            .map(|correction| compare_corrected(&session, correction));
    assert!(
        count_changes(&none) > count_changes(&bh) && count_changes(&bh) >= count_changes(&holm)
    );
    assert!(none.rows.iter().all(|row| row.q.is_none()));
    for (bh, holm) in bh.rows.iter().zip(&holm.rows) {
        assert!(bh.p <= bh.q && bh.q <= holm.q, "{:?} {:?} {:?}", bh.p, bh.q, holm.q);
    }
}

#[test]
fn a_verdict_that_fails_the_correction_is_withdrawn_with_a_reason() {
    let mut changes = vec![0.0; 60];
    changes.push(0.014);
    let session = session(&changes);
    let (alone, among) = (
        compare_corrected(&session, TestingCorrection::None),
        compare_corrected(&session, TestingCorrection::Holm),
    );
    let withdrawn: Vec<_> = alone
        .rows
        .iter()
        .zip(&among.rows)
        .filter(|(alone, among)| alone.verdict != among.verdict)
        .map(|(_, among)| among)
        .collect();
    assert!(!withdrawn.is_empty());
    for row in withdrawn {
        assert!(row.q.unwrap() > 0.05 && row.p.unwrap() <= 0.05);
        assert!(row.notes.last().unwrap().contains("not after correction"));
        let is_small = row.change.unwrap().lies_within(-0.02, 0.02);
        assert_eq!(row.verdict, if is_small { Verdict::Same } else { Verdict::Unclear });
        assert_eq!(row.more_runs.is_some(), row.verdict == Verdict::Unclear);
    }
}

#[test]
fn a_case_is_judged_alike_alone_and_among_others() {
    let changes: Vec<f64> = (0..100).map(|i| f64::from(i % 7) * 0.005).collect();
    let session = session(&changes);
    let comparison = compare_corrected(&session, TestingCorrection::None);
    let ids: Vec<String> = comparison.rows.iter().map(|row| row.case.id()).collect();
    assert_eq!(ids, (0..100).map(|i| format!("c{i}")).collect::<Vec<_>>());
    for index in [0, 42, 99] {
        let mut alone = session.clone();
        alone.runs.retain(|run| run.case.benchmark == format!("c{index}"));
        let alone = &compare_corrected(&alone, TestingCorrection::None).rows[0];
        let among = &comparison.rows[index];
        assert_eq!((alone.p, alone.change, alone.verdict), (among.p, among.change, among.verdict));
    }
}

#[test]
fn the_typical_case_is_the_geometric_mean_of_the_ratios() {
    let comparison =
        compare_corrected(&session(&[0.10, 0.10, -0.05, 0.20, 0.02]), TestingCorrection::None);
    let overall = comparison.overall.unwrap();
    let logs: Vec<f64> =
        comparison.rows.iter().map(|row| row.change.unwrap().value.ln_1p()).collect();
    let expected = (logs.iter().sum::<f64>() / 5.0).exp_m1();
    assert!((overall.value - expected).abs() < 1e-12);
    // Five cases with a spread of 9% around 7%: a standard error of about 4%.
    assert!(overall.low < 0.02 && overall.low > -0.05, "{overall:?}");
    assert!(overall.high > 0.12 && overall.high < 0.20, "{overall:?}");
    assert_eq!(compare_corrected(&session(&[0.10]), TestingCorrection::None).overall, None);
}

#[test]
fn five_or_more_similar_cases_have_a_typical_change_and_others_a_range() {
    let found = |changes: &[f64]| compare_corrected(&session(changes), TestingCorrection::None);
    let alike = found(&[0.1; 5]);
    let typical = alike.typical().unwrap();
    assert!(typical.low < 0.1 && typical.high > 0.1, "{typical:?}");
    assert_eq!(found(&[0.1; 4]).typical(), None, "too few");
    let unlike = found(&[0.1, 0.1, 0.1, 0.1, -0.5]);
    assert_eq!(unlike.typical(), None);
    let [least, most] = unlike.range().unwrap();
    assert!((least.value + 0.5).abs() < 0.02, "{least:?}");
    assert!((most.value - 0.1).abs() < 0.02, "{most:?}");
    assert_eq!(found(&[0.1]).range(), None);
}

/// The interval agrees with one that resamples the blocks themselves.
#[test]
fn the_interval_of_the_typical_case_equals_that_of_a_block_bootstrap() {
    use rand::{Rng, SeedableRng};
    use speedwell_stats::BlockObservation;
    use speedwell_stats::describe::quantile;
    use speedwell_stats::test::stratified_rank;
    let log_ratio = |runs: &[BlockObservation]| stratified_rank(runs).unwrap().ratio().ln();
    let mut session = session(&[0.0; 3]);
    session.runs.retain(|run| run.block < 8);
    let comparison = compare_corrected(&session, TestingCorrection::None);
    let ours = comparison.overall.unwrap();
    let suite: Vec<Vec<BlockObservation>> = comparison
        .rows
        .iter()
        .map(|row| {
            let old =
                row.baseline.runs.iter().map(|r| BlockObservation::baseline(r.value, r.block));
            let new =
                row.candidate.runs.iter().map(|r| BlockObservation::candidate(r.value, r.block));
            old.chain(new).collect()
        })
        .collect();
    let center = suite.iter().map(|runs| log_ratio(runs)).sum::<f64>() / 3.0;
    assert!((ours.value - center.exp_m1()).abs() < 1e-9);
    let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
    let mut resampled = |runs: &[BlockObservation]| {
        let mut picked = Vec::new();
        for block in 0..8 {
            let pick = random.random_range(0..8);
            let of_block = runs.iter().filter(|run| run.block == pick);
            picked.extend(of_block.map(|run| BlockObservation { block, ..*run }));
        }
        log_ratio(&picked)
    };
    let members: Vec<Vec<f64>> =
        suite.iter().map(|runs| (0..500).map(|_| resampled(runs)).collect()).collect();
    let mut pick = || members[random.random_range(0..3_usize)][random.random_range(0..500_usize)];
    let mut means: Vec<f64> = (0..2000).map(|_| (pick() + pick() + pick()) / 3.0).collect();
    means.sort_by(f64::total_cmp);
    let width = quantile(&means, 0.975).exp() - quantile(&means, 0.025).exp();
    assert!(((ours.high - ours.low) / width - 1.0).abs() < 0.15, "{ours:?} {width}");
}

#[test]
fn cases_of_one_side_are_listed_not_compared() {
    let mut session = session(&[0.0, 0.0, 0.0]);
    session.runs.retain(|run| match run.case.benchmark.as_str() {
        "c0" => &*run.variant == "old",
        "c2" => &*run.variant == "new",
        _ => true,
    });
    let comparison = compare_corrected(&session, TestingCorrection::None);
    assert_eq!(comparison.rows.len(), 1);
    assert_eq!(comparison.only_baseline, ["c0"]);
    assert_eq!(comparison.only_candidate, ["c2"]);
}

#[test]
fn points_collected_case_by_case_equal_points_of_the_session() {
    let mut session = session(&[0.0, 0.1, 0.2]);
    for (run, number) in session.runs.iter_mut().zip(1..) {
        run.kernel_stats = Some(KernelStats {
            pressure: Some(f64::from(number) / 1000.0),
            ..KernelStats::default()
        });
    }
    let mut points = PointCollector::default();
    for case in ["c0", "c1", "c2"] {
        let mut part = session.clone();
        part.runs.retain(|run| run.case.benchmark == case);
        assert!(!part.runs.is_empty());
        points.add_part(&part);
    }
    let session_points = crate::session_points(&session);
    assert_eq!(points.into_points(&session), session_points);
    assert_eq!(session_points.points.len(), 6);
}
