//! Changes from and to zero, which the test decides even if they have no percentage.

use super::row;
use crate::gate::{self, FailOn, GateAnswer};
use crate::{CaseComparison, Method, Settings};
use speedwell_fixtures::Story;
use speedwell_model::{Order, Session, Verdict};

const VARIANTS: [&str; 2] = ["old", "new"];

/// Imported runs, twelve per side, that cycle through these values; lower is better.
fn file(old: [f64; 4], new: [f64; 4]) -> Session {
    let value = move |variant: &str, number: u32| {
        let side = if variant == "old" { old } else { new };
        side[number as usize % 4]
    };
    Story::ordered(&VARIANTS, 6, Order::Imported)
        .lower_is_better()
        .case("g/a", value)
        .session()
}

fn with(threshold: f64, method: Method) -> Settings {
    Settings {
        threshold: Some(threshold),
        method: Some(method),
        ..Settings::default()
    }
}

#[track_caller]
fn assert_worse(session: &Session, settings: &Settings) -> CaseComparison {
    let row = row(session, settings);
    assert_eq!(row.verdict, Verdict::Worse, "{row:?}");
    let found = crate::analyse(session, settings);
    let outcome = gate::judge(&found, FailOn::Worse, None).unwrap();
    assert_eq!(outcome.answer(), GateAnswer::Failed);
    row
}

#[test]
fn from_zero_to_one_is_worse_and_exceeds_every_threshold() {
    let session = file([0.0; 4], [1.0; 4]);
    let row = assert_worse(&session, &Settings::default());
    // R: `2 / choose(24, 12)`, because all values of one side exceed all of the other.
    assert!((row.p.unwrap() - 2.0 / 2_704_156.0).abs() < 1e-12);
    assert_eq!(
        (row.change, row.baseline.location, row.candidate.location),
        (None, 0.0, 1.0)
    );
    assert_worse(&session, &with(10.0, Method::MannWhitney));
}

#[test]
fn the_same_is_so_of_bytes_of_mostly_zero_samples_and_of_blocks() {
    assert_worse(&file([0.0; 4], [4096.0; 4]), &Settings::default());
    let mostly = assert_worse(
        &file([0.0, 0.0, 1.0, 0.0], [2.0, 3.0, 2.0, 2.0]),
        &Settings::default(),
    );
    assert_eq!((mostly.change, mostly.baseline.location), (None, 0.0));
    for order in [Order::Blocks, Order::Paired] {
        let value = |variant: &str, _| if variant == "old" { 0.0 } else { 1.0 };
        let story = Story::ordered(&VARIANTS, 6, order).lower_is_better();
        assert_worse(&story.case("g/a", value).session(), &Settings::default());
    }
    // Welch's test is undefined for constant sides, but not for these.
    assert_worse(
        &file([0.0; 4], [1.0, 2.0, 1.0, 2.0]),
        &with(0.5, Method::Welch),
    );
}

#[test]
fn a_throughput_that_falls_to_zero_lost_all_of_it() {
    let value = |variant: &str, _| if variant == "old" { 100.0 } else { 0.0 };
    let story = Story::ordered(&VARIANTS, 6, Order::Imported).case("g/a", value);
    let row = assert_worse(&story.session(), &with(0.5, Method::MannWhitney));
    assert_eq!(row.change.unwrap().value, -1.0);
    assert_eq!(row.candidate.location, 0.0);
}

#[test]
fn from_one_to_zero_is_better_where_less_is_better() {
    let row = row(&file([1.0; 4], [0.0; 4]), &Settings::default());
    assert_eq!(
        (row.verdict, row.change.unwrap().value),
        (Verdict::Better, -1.0)
    );
}

#[test]
fn values_below_zero_have_no_ratio_and_no_threshold() {
    let row = row(&file([-1.0, 0.0, 1.0, 0.0], [2.0; 4]), &Settings::default());
    assert_eq!((row.verdict, row.change), (Verdict::Unclear, None));
}
