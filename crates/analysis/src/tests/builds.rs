//! Sessions whose runs share builds: each build counts once.

use super::only_row;
use crate::{AnalysisSettings, layout_spreads};
use speedwell_fixtures::FakeSession;
use speedwell_model::{Session, StoppingDesign, Verdict};
use speedwell_stats::BlockObservation;
use speedwell_stats::test::stratified_rank;
use std::collections::BTreeMap;

/// A session of `builds` builds with two runs each, whose values depend mostly on the build;
/// `factor` multiplies every build of the candidate.
fn session(builds: u32, factor: f64) -> Session {
    let value = |variant: &str, run: u32| {
        let build = run % builds;
        let side = u32::from(variant == "new");
        let layout = f64::from((build * 7919 + side * 3571) % 101) / 1000.0;
        let noise = f64::from(run * 31 % 7) / 1e5;
        100.0 * (layout + noise).exp() * if side == 1 { factor } else { 1.0 }
    };
    let mut session =
        FakeSession::with_fixed_blocks(&["old", "new"], builds).add_case("g/a", value).build();
    number_builds(&mut session, |run| run % builds);
    session.design.layout.builds = builds;
    session
}

fn number_builds(session: &mut Session, build: impl Fn(u32) -> u32) {
    let mut runs: BTreeMap<String, u32> = BTreeMap::new();
    for run in &mut session.runs {
        let number = runs.entry(run.variant.to_string()).or_default();
        run.build = Some(build(*number));
        *number += 1;
    }
}

#[test]
fn the_test_compares_build_means_in_blocks_of_two_per_side() {
    let session = session(8, 1.02);
    let found = only_row(&session, &AnalysisSettings::default());
    let mut builds: BTreeMap<(bool, u32), Vec<f64>> = BTreeMap::new();
    for run in &session.runs {
        let key = (&*run.variant == "new", run.build.unwrap());
        builds.entry(key).or_default().push(run.samples[0].value.ln());
    }
    let observations: Vec<BlockObservation> = (builds.iter())
        .map(|((is_new, build), logs)| {
            let value = (logs.iter().sum::<f64>() / 2.0).exp();
            match is_new {
                false => BlockObservation::baseline(value, build / 2),
                true => BlockObservation::candidate(value, build / 2),
            }
        })
        .collect();
    let test = stratified_rank(&observations).unwrap();
    assert!((found.p.unwrap() - test.p).abs() < 1e-12);
    assert!((found.change.unwrap().value - (test.ratio() - 1.0)).abs() < 1e-9);
    // If runs counted as independent, there would seem to be twice as much evidence, and a layout
    // effect would look like a change.
    let mut as_runs = session.clone();
    as_runs.design.layout.builds = 0;
    assert!(only_row(&as_runs, &AnalysisSettings::default()).p < found.p);
    assert_eq!((found.baseline.runs.len(), found.candidate.runs.len()), (16, 16));
}

#[test]
fn many_runs_of_few_builds_prove_nothing() {
    let session = session(4, 1.5);
    let found = only_row(&session, &AnalysisSettings::default());
    assert_eq!(found.verdict, Verdict::Unclear);
    let note = "Too few builds: 4 a side can decide nothing; 6 are enough.";
    assert!(found.notes.iter().any(|known| known == note), "{:?}", found.notes);
    assert_eq!(found.more_runs, None, "with four builds, the interval is unbounded");
}

#[test]
fn a_verdict_survives_the_loss_of_one_run_of_a_build() {
    let mut session = session(8, 1.1);
    let lost = session.runs.iter().position(|run| &*run.variant == "new" && run.build == Some(3));
    session.runs.remove(lost.unwrap());
    let found = only_row(&session, &AnalysisSettings::default());
    assert_eq!(found.verdict, Verdict::Better, "throughput grew by 10%");
    assert_eq!(found.candidate.runs.len(), 15);
}

#[test]
fn a_look_waits_until_builds_have_all_their_runs() {
    let value = |variant: &str, run: u32| {
        let level = if variant == "new" { 130.0 } else { 100.0 };
        level + f64::from(run * 31 % 7) / 10.0
    };
    let measured = |blocks: u32| {
        let mut session =
            FakeSession::sequential(&["old", "new"], blocks).add_case("g/a", value).build();
        // Every two blocks measure the same two builds of each side.
        number_builds(&mut session, |run| run / 4 * 2 + run % 2);
        session.design.layout.builds = 16;
        session.design.stopping =
            StoppingDesign::Sequential { looks: vec![16, 28, 32], alpha: 0.05, delta: 0.02 };
        only_row(&session, &AnalysisSettings::default())
    };
    let early = measured(7);
    assert_eq!((early.verdict, early.decided_at), (Verdict::Unclear, None));
    let decided = measured(8);
    assert_eq!((decided.verdict, decided.decided_at), (Verdict::Better, Some(16)));
}

#[test]
fn the_interval_of_one_variant_is_computed_from_build_means() {
    let mut session = session(8, 1.0);
    session.runs.retain(|run| &*run.variant == "old");
    session.variants.truncate(1);
    let summary =
        crate::analyze_session(&session, &AnalysisSettings::default()).summaries.remove(0);
    let mut means: Vec<f64> = (0..8)
        .map(|build| {
            let own = session.runs.iter().filter(|run| run.build == Some(build));
            let logs: Vec<f64> = own.map(|run| run.samples[0].value.ln()).collect();
            (logs.iter().sum::<f64>() / logs.len() as f64).exp()
        })
        .collect();
    means.sort_by(f64::total_cmp);
    // The first and last of eight values bound the median with 99.2% confidence.
    let ends = (means[0], means[7]);
    assert!((summary.center.low / ends.0 - 1.0).abs() < 1e-12, "{:?} {ends:?}", summary.center);
    assert!((summary.center.high / ends.1 - 1.0).abs() < 1e-12);
    let spreads = layout_spreads(&session, &[&session.metrics[0]]);
    assert_eq!((spreads.len(), spreads[0].components.groups), (1, 8));
    assert!(summary.notes.contains(&spreads[0].to_sentence()));
}

#[test]
fn runs_with_zero_values_give_no_layout_spread() {
    let mut session = session(8, 1.0);
    for run in session.runs.iter_mut().take(3) {
        run.samples.iter_mut().for_each(|sample| sample.value = 0.0);
    }
    assert_eq!(layout_spreads(&session, &[&session.metrics[0]]), []);
    crate::analyze_session(&session, &AnalysisSettings::default());
}

#[test]
fn each_build_also_counts_once_when_two_sessions_are_compared() {
    let of_side = |name: &str| Session { id: name.into(), ..session(8, 1.02).only_variant(name) };
    let (old, new) = (of_side("old"), of_side("new"));
    let sources = [("a".to_owned(), &old, None), ("b".to_owned(), &new, None)];
    let p = |found: crate::AnalysisFindings| found.comparisons[0].rows[0].p.unwrap();
    let by_builds = p(crate::compare_sources(&sources, &AnalysisSettings::default()));
    let strip = |session: &Session| {
        let mut session = session.clone();
        session.runs.iter_mut().for_each(|run| run.build = None);
        session
    };
    let (old, new) = (strip(&old), strip(&new));
    let sources = [("a".to_owned(), &old, None), ("b".to_owned(), &new, None)];
    let by_runs = p(crate::compare_sources(&sources, &AnalysisSettings::default()));
    assert!(by_builds > by_runs, "{by_builds} {by_runs}");
}
