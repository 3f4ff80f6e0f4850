//! Parameter studies.

use crate::{AnalysisSettings, ParameterStudy, study_parameter};
use speedwell_fixtures::{FakeSession, number_parameter};
use speedwell_model::{ParameterValue, Session};

/// Time grows with size to the power of 1.5; utf8 takes twice as long as ascii.
fn size_session(encodings: &[&str], runs: u32) -> Session {
    let mut story = FakeSession::with_fixed_blocks(&["only"], runs / 2);
    for size in [4.0f64, 1.0, 16.0] {
        for encoding in encodings {
            let factor = if *encoding == "utf8" { 2.0 } else { 1.0 };
            story = story.add_noisy_case(
                &format!("b encoding={encoding} size={size}"),
                0.01,
                move |_| factor * size.powf(1.5),
            );
        }
    }
    story.build()
}

fn study_default(session: &Session, x: &str, by: Option<&str>) -> ParameterStudy {
    study_parameter(session, x, by, &AnalysisSettings::default()).unwrap()
}

#[test]
fn a_line_per_encoding_with_its_exponent() {
    let found = study_default(&size_session(&["ascii", "utf8"], 10), "size", Some("encoding"));
    let places: Vec<(String, String)> =
        found.points.iter().map(|p| (p.line.clone(), p.x.to_string())).collect();
    let expected = ["ascii", "utf8"]
        .iter()
        .flat_map(|line| ["1", "4", "16"].map(|x| ((*line).to_owned(), x.to_owned())));
    assert_eq!(places, expected.collect::<Vec<_>>(), "lines as they appear, x ascending");
    for (_, exponent) in &found.exponents {
        assert!((exponent.unwrap() - 1.5).abs() < 0.02, "{exponent:?}");
    }
    assert!(found.aggregated.is_empty() && found.warnings.is_empty(), "{:?}", found.warnings);
    assert_eq!(found.steps.len(), 4);
    for step in &found.steps {
        assert!((step.ratio - 8.0).abs() < 0.2 && (step.exponent.unwrap() - 1.5).abs() < 0.02);
        // Ten runs against ten, all larger: 2 / C(20, 10).
        assert!((step.p.unwrap() - 2.0 / 184_756.0).abs() < 1e-12);
        assert_eq!(step.cliffs_delta, Some(1.0));
    }
}

/// Half of the runs come from cases that take twice as long: pooled, the spread would be a third;
/// within cases it is 1%.
#[test]
fn averaging_over_cases_does_not_count_their_differences_as_noise() {
    let found = study_default(&size_session(&["ascii", "utf8"], 10), "size", None);
    let first = &found.points[0];
    assert_eq!((first.cases, first.runs.len(), first.line.as_str()), (2, 20, ""));
    assert!((first.mean.value / 1500.0 - 1.0).abs() < 0.01);
    let half = 0.5 * (first.mean.high - first.mean.low) / first.mean.value;
    // 1.96 x 1% / sqrt 10 for a case; the larger of two cases dominates their mean.
    assert!((0.002..0.007).contains(&half), "{half}");
    let encoding = &found.aggregated[0];
    assert_eq!(encoding.name, "encoding");
    assert!(encoding.explained.unwrap() > 0.99);
    assert!(found.warnings[0].contains("'encoding' explains 100%"), "{:?}", found.warnings);
}

#[test]
fn too_few_runs_can_never_be_significant() {
    let found = study_default(&size_session(&["ascii"], 2), "size", None);
    assert!(found.warnings[0].contains("no step can reach a p value below 0.33"));
    let found = study_default(&size_session(&["ascii"], 4), "size", None);
    assert!(found.warnings[0].contains("the smallest possible p value of a step is 0.029"));
}

#[test]
fn variants_get_a_line_each() {
    let session = FakeSession::with_fixed_blocks(&["old", "new"], 5)
        .add_noisy_case("b size=1", 0.01, |variant| if variant == "new" { 2.0 } else { 1.0 })
        .add_noisy_case("b size=2", 0.01, |_| 1.0)
        .build();
    let found = study_default(&session, "size", None);
    assert_eq!(found.by.as_deref(), Some("variant"));
    assert_eq!(found.exponents.len(), 2);
    assert!((found.exponents[1].1.unwrap() + 1.0).abs() < 0.05, "{:?}", found.exponents);
}

#[test]
fn a_skewed_point_is_marked() {
    let value = |_: &str, i: u32| if i == 9 { 1000.0 } else { 100.0 + f64::from(i) };
    let session = FakeSession::with_fixed_blocks(&["only"], 5)
        .add_case("b size=1", value)
        .add_case("b size=2", |_, i| 100.0 + f64::from(i))
        .build();
    let found = study_default(&session, "size", None);
    let marks: Vec<bool> = found.points.iter().map(|point| point.is_skewed).collect();
    assert_eq!(marks, [true, false]);
    assert_eq!(found.points[0].median, 104.5);
    assert_eq!(found.points[1].mean.value, 104.5);
}

#[test]
fn words_make_an_axis_without_an_exponent() {
    let found = study_default(&size_session(&["utf8", "ascii"], 10), "encoding", Some("size"));
    assert_eq!(
        found.points[0].x,
        ParameterValue::Text("utf8".into()),
        "in the order in which they came"
    );
    assert!(found.exponents.iter().all(|(_, exponent)| exponent.is_none()));
    let steps = found.steps.iter();
    assert!(steps.clone().all(|step| step.exponent.is_none() && (step.ratio - 0.5).abs() < 0.02));
    assert_eq!(steps.count(), 3);
}

#[test]
fn unknown_names_are_answered_with_the_known_ones() {
    let session = size_session(&["ascii"], 10);
    let error = |x: &str, by: Option<&str>| {
        study_parameter(&session, x, by, &AnalysisSettings::default()).unwrap_err().to_string()
    };
    assert_eq!(error("len", None), "no parameter 'len'; choose one of 'encoding', 'size'");
    assert_eq!(
        error("size", Some("type")),
        "no parameter 'type'; choose one of 'encoding', 'size', 'benchmark', 'variant'"
    );
    let plain = FakeSession::with_fixed_blocks(&["only"], 2).add_case("b", |_, _| 1.0).build();
    let error =
        study_parameter(&plain, "n", None, &AnalysisSettings::default()).unwrap_err().to_string();
    assert_eq!(error, "no parameter 'n': the cases have no parameters");
}

#[test]
fn cases_without_the_parameter_are_left_out_and_counted() {
    let session = FakeSession::continue_from(size_session(&["ascii"], 10))
        .add_noisy_case("other", 0.01, |_| 1.0)
        .build();
    let found = study_default(&session, "size", None);
    assert_eq!(found.warnings, ["1 case is left out for lack of the parameter 'size'."]);
    assert_eq!(number_parameter("size", 1.0), ("size".to_owned(), found.points[0].x.clone()));
}
