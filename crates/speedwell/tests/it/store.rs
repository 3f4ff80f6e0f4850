//! The store: whatever is recorded can be read back, by any reader.

use crate::arbitrary;
use crate::back_ends::{StorePlace, on_both};
use crate::by_hand::{blank_session, failure, run, run_of};
use speedwell_model::SessionReference;
use speedwell_model::*;
use speedwell_store::{SessionFilter, Store};
use std::collections::BTreeSet;
use std::sync::Arc;

on_both! {
    every_session_comes_back_as_it_was_taken_in
    values_that_are_not_finite_are_kept
    taking_a_session_in_twice_changes_nothing
    references_find_sessions_and_unknown_ones_name_what_there_is
    a_tag_is_kept_once_and_must_not_look_like_a_number
    the_list_counts_without_reading_the_data
    pages_hold_the_newest_sessions_and_counts_follow_what_is_there
    a_session_is_killed_when_the_process_that_records_it_is_gone
    deleting_a_session_leaves_nothing_of_it_and_all_of_the_others
    the_newest_calibration_of_a_machine_is_found_and_of_no_other
}

fn every_session_comes_back_as_it_was_taken_in(place: &StorePlace) {
    let mut store = place.open();
    for seed in 0..300 {
        let mut session = arbitrary::arbitrary_session(seed);
        let number = store.insert_session(&session).unwrap();
        session.number = Some(number);
        assert_eq!(store.load_session(number).unwrap(), session, "seed {seed}");
    }
    assert_eq!(store.list_sessions(&SessionFilter::default()).unwrap().len(), 300);
}

fn values_that_are_not_finite_are_kept(place: &StorePlace) {
    let mut store = place.open();
    let mut session = blank_session("a");
    session.runs = vec![run_of(0, "throughput", f64::NAN), run_of(1, "throughput", -f64::INFINITY)];
    let odd = ParameterValue::Number(f64::INFINITY);
    session.runs[0].case = Arc::new(Case::new("g/b", vec![("n".into(), odd)]));
    let number = store.insert_session(&session).unwrap();
    let back = store.load_session(number).unwrap();
    assert!(back.runs[0].samples[0].value.is_nan());
    assert_eq!(back.runs[1].samples[0].value, -f64::INFINITY);
    assert_eq!(back.runs[0].case.id(), session.runs[0].case.id());
}

fn taking_a_session_in_twice_changes_nothing(place: &StorePlace) {
    let mut store = place.open();
    let session = arbitrary::arbitrary_session(1);
    let first = store.insert_session(&session).unwrap();
    assert_eq!(store.insert_session(&session).unwrap(), first);
    assert_eq!(store.list_sessions(&SessionFilter::default()).unwrap().len(), 1);
}

fn references_find_sessions_and_unknown_ones_name_what_there_is(place: &StorePlace) {
    let mut store = place.open();
    let say = |store: &Store, text: &str| match store.resolve_reference(&text.parse().unwrap()) {
        Ok(number) => number.to_string(),
        Err(error) => format!("{error:#}"),
    };
    assert!(say(&store, "@latest").contains("contains no sessions yet"));

    for id in ["a", "b", "c"] {
        store.insert_session(&blank_session(id)).unwrap();
    }
    store.tag_session(1, "main").unwrap();
    store.tag_session(2, "main").unwrap();
    store.tag_session(2, "nightly").unwrap();
    assert_eq!(say(&store, "@latest"), "3");
    assert_eq!(say(&store, "@prev"), "2");
    assert_eq!(say(&store, "@1"), "1");
    assert_eq!(say(&store, "@main"), "2", "the last of those that carry the tag");

    let unknown = say(&store, "@7");
    assert!(unknown.contains("'@7'") && unknown.contains("from @1 to @3"), "{unknown}");
    let typo = say(&store, "@nigthly");
    assert!(typo.contains("hint: existing tags: @nightly, @main"), "nearest first: {typo}");

    store.delete_untracked(3).unwrap();
    assert_eq!(say(&store, "@latest"), "2");
    store.insert_session(&blank_session("d")).unwrap();
    assert_eq!(
        store.resolve_reference(&SessionReference::Latest).unwrap(),
        4,
        "a number is never given twice"
    );
}

fn a_tag_is_kept_once_and_must_not_look_like_a_number(place: &StorePlace) {
    let mut store = place.open();
    let number = store.insert_session(&blank_session("a")).unwrap();
    store.tag_session(number, "main").unwrap();
    store.tag_session(number, "main").unwrap();
    assert_eq!(store.load_session(number).unwrap().tags, ["main"]);
    assert!(store.tag_session(number, "12").is_err());
    assert!(
        store
            .tag_session(99, "main")
            .unwrap_err()
            .to_string()
            .contains("session @99 does not exist")
    );
    let mut tagged = blank_session("b");
    tagged.tags = vec!["latest".into()];
    assert!(store.begin_recording(&tagged, "{}").is_err());
}

fn the_list_counts_without_reading_the_data(place: &StorePlace) {
    let mut store = place.open();
    let mut session = blank_session("a");
    session.runs = (0..9).map(run).collect();
    let mut skip = failure(None);
    skip.cause = FailureCause::Skipped { reason: "no crypto".into() };
    session.failures = vec![failure(Some(9)), skip];
    store.insert_session(&session).unwrap();
    store.insert_session(&blank_session("b")).unwrap();

    let all = store.list_sessions(&SessionFilter::default()).unwrap();
    let first = &all[0];
    assert_eq!((first.benchmarks, first.cases, first.runs), (1, 3, 9));
    assert_eq!((first.failures, first.skipped), (1, 1));
    assert_eq!(first.variants, ["old", "new"]);
    assert_eq!(first.command, session.command);
    assert_eq!((all[1].benchmarks, all[1].runs, all[1].failures), (0, 0, 0));
}

fn pages_hold_the_newest_sessions_and_counts_follow_what_is_there(place: &StorePlace) {
    let mut store = place.open();
    for seed in 0..25 {
        store.insert_session(&arbitrary::arbitrary_session(seed)).unwrap();
    }
    store.delete_untracked(3).unwrap();
    let numbers = |page: u32| -> Vec<i64> {
        let page = store.session_page(&SessionFilter::default(), 10, page).unwrap();
        page.iter().map(|session| session.number).collect()
    };
    assert_eq!(numbers(0), (16..=25).collect::<Vec<_>>());
    assert_eq!(numbers(2), [1, 2, 4, 5]);
    assert_eq!(
        (numbers(3).len(), store.count_sessions(&SessionFilter::default()).unwrap()),
        (0, 24)
    );
    for listed in store.list_sessions(&SessionFilter::default()).unwrap() {
        let session = store.load_session(listed.number).unwrap();
        let cases: BTreeSet<String> = session.runs.iter().map(|run| run.case.id()).collect();
        assert_eq!((listed.runs, listed.cases), (session.runs.len(), cases.len()));
    }
}

fn a_session_is_killed_when_the_process_that_records_it_is_gone(place: &StorePlace) {
    let mut store = place.open();
    store.begin_recording(&blank_session("a"), "{}").unwrap();
    assert!(
        !store.list_sessions(&SessionFilter::default()).unwrap()[0].is_killed,
        "this process lives"
    );
    let set = |change: &str| {
        let changed = place.change(&format!("UPDATE recorder SET {change}"));
        assert_eq!(changed, 1);
    };
    // Process 1 always exists; this is its id but not its start time.
    set("pid = 1, started_ticks = started_ticks + 1");
    assert!(store.list_sessions(&SessionFilter::default()).unwrap()[0].is_killed);
    assert!(store.resume_recording(1).is_ok(), "it can be resumed");
    let start = std::fs::read_to_string("/proc/1/stat").unwrap();
    let start = start.rsplit_once(')').unwrap().1.split_whitespace().nth(19);
    set(&format!("pid = 1, started_ticks = {}", start.unwrap()));
    let told = store.resume_recording(1).unwrap_err().to_string();
    assert!(told.contains("is being measured by process 1"), "{told}");
}

fn deleting_a_session_leaves_nothing_of_it_and_all_of_the_others(place: &StorePlace) {
    let mut store = place.open();
    let gone = store.insert_session(&arbitrary::arbitrary_session(3)).unwrap();
    let mut kept = arbitrary::arbitrary_session(4);
    kept.number = Some(store.insert_session(&kept).unwrap());
    store.delete_untracked(gone).unwrap();
    assert!(store.load_session(gone).is_err());
    assert!(store.delete_untracked(gone).is_err());
    assert_eq!(store.load_session(2).unwrap(), kept);
    drop(store);

    for table in
        ["session_case", "tag", "metric", "run", "sample", "failure", "empty_slot", "decided_case"]
    {
        let rows = place.number(&format!("SELECT count(*) FROM {table} WHERE session = {gone}"));
        assert_eq!(rows, 0, "{table}");
    }
}

fn the_newest_calibration_of_a_machine_is_found_and_of_no_other(place: &StorePlace) {
    let mut store = place.open();
    let machine = |host: Option<&str>, cpus: u32| Environment {
        host: host.map(str::to_owned),
        cpu: Some("Model 7".into()),
        cpus: Some(cpus),
        ..Environment::default()
    };
    let calibration = |session: i64, false_alarms: u32| NoiseCalibration {
        session,
        started_unix_ms: 1_700_000_000_000,
        comparisons: 200,
        false_alarms,
        expected_low: 4,
        expected_high: 16,
    };
    for id in ["a", "b", "c"] {
        store.insert_session(&blank_session(id)).unwrap();
    }
    let here = machine(Some("here"), 8);
    assert_eq!(store.latest_calibration(&here).unwrap(), None);
    store.store_calibration(&here, &calibration(1, 31)).unwrap();
    store.store_calibration(&here, &calibration(2, 9)).unwrap();
    let there = machine(Some("there"), 8);
    store.store_calibration(&there, &calibration(3, 1)).unwrap();

    assert_eq!(store.latest_calibration(&here).unwrap(), Some(calibration(2, 9)));
    assert_eq!(store.latest_calibration(&there).unwrap(), Some(calibration(3, 1)));
    assert_eq!(store.latest_calibration(&machine(Some("here"), 4)).unwrap(), None);
    assert_eq!(store.latest_calibration(&machine(None, 8)).unwrap(), None);
    store.delete_untracked(2).unwrap();
    assert_eq!(store.latest_calibration(&here).unwrap(), Some(calibration(1, 31)));
}
