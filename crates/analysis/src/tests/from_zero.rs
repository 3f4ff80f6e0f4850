//! Changes from and to zero, which the test decides even if they have no percentage.

use super::only_row;
use crate::gate::{self, FailOn, GateAnswer};
use crate::{AnalysisSettings, CaseComparison, StatisticalMethod};
use speedwell_fixtures::FakeSession;
use speedwell_model::{RunOrder, Session, Verdict};

const VARIANTS: [&str; 2] = ["old", "new"];

/// Imported runs, twelve per side, that cycle through these values; lower is better.
fn imported_session(old: [f64; 4], new: [f64; 4]) -> Session {
    let value = move |variant: &str, number: u32| {
        let side = if variant == "old" { old } else { new };
        side[number as usize % 4]
    };
    FakeSession::with_order(&VARIANTS, 6, RunOrder::Imported)
        .lower_is_better()
        .add_case("g/a", value)
        .build()
}

fn with_threshold_and_method(threshold: f64, method: StatisticalMethod) -> AnalysisSettings {
    AnalysisSettings {
        threshold: Some(threshold),
        method: Some(method),
        ..AnalysisSettings::default()
    }
}

#[track_caller]
fn assert_worse(session: &Session, settings: &AnalysisSettings) -> CaseComparison {
    let row = only_row(session, settings);
    assert_eq!(row.verdict, Verdict::Worse, "{row:?}");
    let found = crate::analyze_session(session, settings);
    let outcome = gate::judge_findings(&found, FailOn::Worse, None).unwrap();
    assert_eq!(outcome.to_answer(), GateAnswer::Failed);
    row
}

#[test]
fn from_zero_to_one_is_worse_and_exceeds_every_threshold() {
    let session = imported_session([0.0; 4], [1.0; 4]);
    let row = assert_worse(&session, &AnalysisSettings::default());
    // R: `2 / choose(24, 12)`, because all values of one side exceed all of the other.
    assert!((row.p.unwrap() - 2.0 / 2_704_156.0).abs() < 1e-12);
    assert_eq!((row.change, row.baseline.location, row.candidate.location), (None, 0.0, 1.0));
    assert_worse(&session, &with_threshold_and_method(10.0, StatisticalMethod::MannWhitney));
}

#[test]
fn a_change_from_zero_is_worse_whatever_the_values_and_run_order() {
    assert_worse(&imported_session([0.0; 4], [4096.0; 4]), &AnalysisSettings::default());
    let mostly = assert_worse(
        &imported_session([0.0, 0.0, 1.0, 0.0], [2.0, 3.0, 2.0, 2.0]),
        &AnalysisSettings::default(),
    );
    assert_eq!((mostly.change, mostly.baseline.location), (None, 0.0));
    for order in [RunOrder::Blocks, RunOrder::Paired] {
        let value = |variant: &str, _| if variant == "old" { 0.0 } else { 1.0 };
        let story = FakeSession::with_order(&VARIANTS, 6, order).lower_is_better();
        assert_worse(&story.add_case("g/a", value).build(), &AnalysisSettings::default());
    }
    // Welch's test is undefined if both sides are constant. Here, one side varies.
    assert_worse(
        &imported_session([0.0; 4], [1.0, 2.0, 1.0, 2.0]),
        &with_threshold_and_method(0.5, StatisticalMethod::Welch),
    );
}

#[test]
fn a_throughput_that_falls_to_zero_is_a_loss_of_100_percent() {
    let value = |variant: &str, _| if variant == "old" { 100.0 } else { 0.0 };
    let story = FakeSession::with_order(&VARIANTS, 6, RunOrder::Imported).add_case("g/a", value);
    let row = assert_worse(
        &story.build(),
        &with_threshold_and_method(0.5, StatisticalMethod::MannWhitney),
    );
    assert_eq!(row.change.unwrap().value, -1.0);
    assert_eq!(row.candidate.location, 0.0);
}

#[test]
fn from_one_to_zero_is_better_where_less_is_better() {
    let row = only_row(&imported_session([1.0; 4], [0.0; 4]), &AnalysisSettings::default());
    assert_eq!((row.verdict, row.change.unwrap().value), (Verdict::Better, -1.0));
}

#[test]
fn values_below_zero_have_no_ratio_and_no_threshold() {
    let row =
        only_row(&imported_session([-1.0, 0.0, 1.0, 0.0], [2.0; 4]), &AnalysisSettings::default());
    assert_eq!((row.verdict, row.change), (Verdict::Unclear, None));
}
