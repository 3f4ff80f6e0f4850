//! The exchange format is lossless: sessions and whole databases round-trip.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::arbitrary;
use speedwell_formats::json_lines;
use speedwell_model::*;
use speedwell_store::{SessionFilter, Store};
use std::sync::Arc;

fn write_lines(sessions: &[Session]) -> String {
    let mut out = Vec::new();
    for session in sessions {
        json_lines::write(session, &mut out).unwrap();
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn any_session_comes_back_equal() {
    for seed in 0..200 {
        let session = arbitrary::arbitrary_session(seed);
        let text = write_lines(std::slice::from_ref(&session));
        assert_eq!(
            text.lines().count(),
            1 + session.runs.len() + session.failures.len() + session.profiles.len(),
            "one line each, whatever the texts hold"
        );
        assert_eq!(json_lines::read(&text).unwrap(), [session], "seed {seed}\n{text}");
    }
}

#[test]
fn a_database_rebuilt_from_joined_files_is_equal() {
    let mut original = Store::in_memory().unwrap();
    for seed in 0..40 {
        original.insert_session(&arbitrary::arbitrary_session(seed)).unwrap();
    }
    let all: Vec<Session> = (1..=40).map(|number| original.load_session(number).unwrap()).collect();

    let mut rebuilt = Store::in_memory().unwrap();
    for session in json_lines::read(&write_lines(&all)).unwrap() {
        rebuilt.insert_session(&session).unwrap();
    }
    assert_eq!(
        rebuilt.list_sessions(&SessionFilter::default()).unwrap(),
        original.list_sessions(&SessionFilter::default()).unwrap()
    );
    for session in all {
        assert_eq!(rebuilt.load_session(session.number.unwrap()).unwrap(), session);
    }
}

#[test]
fn non_finite_numbers_round_trip() {
    let mut session = arbitrary::arbitrary_session(1);
    session.runs.truncate(1);
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    session.runs[0].samples = odd
        .map(|value| Sample {
            metric: "t".into(),
            value,
            elapsed_ns: None,
            iterations: Some(value),
        })
        .to_vec();
    let infinite = vec![("n".to_owned(), ParameterValue::Number(f64::INFINITY))];
    session.runs[0].case = Arc::new(Case::new("g/b", infinite));

    let back = json_lines::read(&write_lines(&[session.clone()])).unwrap().remove(0);
    // NaN does not equal itself, but its printed form does.
    assert_eq!(format!("{:?}", back.runs[0].samples), format!("{:?}", session.runs[0].samples));
    assert_eq!(back.runs[0].case.id(), session.runs[0].case.id());
}

#[test]
fn a_header_with_an_unreadable_number_is_not_written() {
    let mut session = arbitrary::arbitrary_session(1);
    session.design.stopping =
        StoppingDesign::Sequential { looks: vec![8], alpha: f64::NAN, delta: 0.02 };
    let mut out = Vec::new();
    assert!(json_lines::write(&session, &mut out).is_err());
    assert!(out.is_empty());
    assert!(Store::in_memory().unwrap().insert_session(&session).is_err(), "nor kept");
}

#[test]
fn runs_of_the_same_case_share_one_allocation() {
    let session = arbitrary::arbitrary_session(2);
    let back = json_lines::read(&write_lines(&[session])).unwrap().remove(0);
    for pair in back.runs.iter().flat_map(|a| back.runs.iter().map(move |b| (a, b))) {
        assert_eq!(pair.0.case == pair.1.case, Arc::ptr_eq(&pair.0.case, &pair.1.case));
    }
}
