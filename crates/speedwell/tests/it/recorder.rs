//! Sessions that are stored while they are measured.

use crate::back_ends::{StorePlace, on_both};
use crate::by_hand::{blank_session, failure, run, run_of, slots};
use speedwell_model::*;
use speedwell_store::SessionFilter;
use std::collections::BTreeSet;
use std::thread;

on_both! {
    a_session_recorded_event_by_event_equals_the_one_that_was_measured
    a_metric_first_met_in_a_sample_is_filled_in_when_it_is_declared
    slots_of_parallel_runs_may_overlap
    an_interrupted_session_is_taken_up_where_it_stopped
    a_session_that_somebody_else_records_too_is_refused_and_nothing_is_mixed_up
    a_slot_without_results_is_done_all_the_same
    four_programs_open_a_fresh_file_at_once_and_record_side_by_side
}

fn a_session_recorded_event_by_event_equals_the_one_that_was_measured(place: &StorePlace) {
    let mut store = place.open();
    let mut told = blank_session("a");
    told.tags = vec!["nightly".into()];
    let mut recorder = store.begin_recording(&told, r#"{"slots":8}"#).unwrap();
    let number = recorder.number();
    for slot in 0..8 {
        if slot == 5 {
            told.failures.push(failure(Some(slot)));
            recorder.observe(&SessionEvent::Failed(&told.failures[0])).unwrap();
        } else {
            told.runs.push(run(slot));
            recorder.observe(&SessionEvent::RunFinished(&run(slot))).unwrap();
        }
        recorder.observe(&SessionEvent::SlotsDone(&[slot])).unwrap();
    }
    let decided = SessionEvent::CaseDecided { label: "buffers/fill.js len=1", saved: 24 };
    recorder.observe(&decided).unwrap();
    recorder.observe(&SessionEvent::Finished { interrupted: false }).unwrap();
    drop(store);

    let store = place.open();
    told.number = Some(number);
    told.state = SessionState::Complete;
    assert_eq!(store.load_session(number).unwrap(), told);
    assert_eq!(store.session_plan(number).unwrap().as_deref(), Some(r#"{"slots":8}"#));
    assert_eq!(store.finished_slots(number).unwrap(), (0..8).collect());
    assert_eq!(store.decided_cases(number).unwrap()["buffers/fill.js len=1"], 24);
}

fn a_metric_first_met_in_a_sample_is_filled_in_when_it_is_declared(place: &StorePlace) {
    let mut store = place.open();
    let mut recorder = store.begin_recording(&blank_session("a"), "{}").unwrap();
    recorder.observe(&SessionEvent::RunFinished(&run_of(0, "heap_used", 5.0))).unwrap();
    recorder.observe(&SessionEvent::SlotsDone(&[0])).unwrap();
    recorder.declare_metric(&Metric::new("heap_used", "B", MetricDirection::Lower)).unwrap();
    recorder.declare_metric(&Metric::new("gc", "ns", MetricDirection::Lower)).unwrap();
    let clash =
        recorder.declare_metric(&Metric::new("gc", "ms", MetricDirection::Lower)).unwrap_err();
    assert!(format!("{clash:#}").contains("'gc' is 'ns'"), "{clash:#}");

    let number = recorder.number();
    let names = store.load_session(number).unwrap().metrics;
    let heap = Metric::new("heap_used", "B", MetricDirection::Lower);
    assert_eq!(
        names,
        [Metric::throughput(), heap, Metric::new("gc", "ns", MetricDirection::Lower)]
    );
}

fn slots_of_parallel_runs_may_overlap(place: &StorePlace) {
    let mut store = place.open();
    let mut recorder = store.begin_recording(&blank_session("a"), "{}").unwrap();
    for event in [
        SessionEvent::RunFinished(&run(0)),
        SessionEvent::RunFinished(&run(1)),
        SessionEvent::SlotsDone(&[1]),
        SessionEvent::RunFinished(&run(0)),
    ] {
        recorder.observe(&event).unwrap();
    }
    let number = recorder.number();
    assert_eq!(slots(&store.load_session(number).unwrap()), [1], "slot 0 is not over yet");
    assert_eq!(store.finished_slots(number).unwrap(), BTreeSet::from([1]));
}

fn an_interrupted_session_is_taken_up_where_it_stopped(place: &StorePlace) {
    let mut store = place.open();
    let mut recorder = store.begin_recording(&blank_session("a"), "{}").unwrap();
    recorder.observe(&SessionEvent::Failed(&failure(None))).unwrap();
    recorder.observe(&SessionEvent::RunFinished(&run(0))).unwrap();
    recorder.observe(&SessionEvent::SlotsDone(&[0])).unwrap();
    recorder.observe(&SessionEvent::RunFinished(&run(1))).unwrap();
    recorder.observe(&SessionEvent::Finished { interrupted: true }).unwrap();
    let number = recorder.number();
    store.set_gate_lines(number, &["gate cannot judge".to_owned()]).unwrap();
    let session = store.load_session(number).unwrap();
    assert_eq!((session.state, session.design.gate_lines.len()), (SessionState::Interrupted, 1));
    assert_eq!(slots(&session), [0, 1], "half a slot is better than nothing to who stops here");

    let mut recorder = store.resume_recording(number).unwrap();
    recorder.observe(&SessionEvent::Failed(&failure(None))).unwrap();
    for slot in [1, 2] {
        recorder.observe(&SessionEvent::RunFinished(&run(slot))).unwrap();
        recorder.observe(&SessionEvent::SlotsDone(&[slot])).unwrap();
    }
    recorder.observe(&SessionEvent::Finished { interrupted: false }).unwrap();
    let session = store.load_session(number).unwrap();
    assert_eq!(slots(&session), [0, 1, 2], "and nothing is there twice");
    assert_eq!(session.failures, [failure(None)]);
    assert_eq!(session.state, SessionState::Complete);
    assert!(session.design.gate_lines.is_empty(), "the gate has not judged the new runs");
    assert!(store.resume_recording(number).unwrap_err().to_string().contains("is complete"));
}

fn a_session_that_somebody_else_records_too_is_refused_and_nothing_is_mixed_up(place: &StorePlace) {
    let mut mine = place.open();
    let mut theirs = place.open();
    let mut first = mine.begin_recording(&blank_session("a"), "{}").unwrap();
    let number = first.number();
    let mut second = theirs.resume_recording(number).unwrap();
    second.observe(&SessionEvent::RunFinished(&run(0))).unwrap();
    second.observe(&SessionEvent::SlotsDone(&[0])).unwrap();

    first.observe(&SessionEvent::RunFinished(&run(0))).unwrap();
    let refused = first.observe(&SessionEvent::SlotsDone(&[0])).unwrap_err();
    let words = format!("{refused:#}");
    assert!(words.contains("another speedwell process is recording session @1"), "{words}");
    assert_eq!(slots(&theirs.load_session(number).unwrap()), [0]);
}

fn a_slot_without_results_is_done_all_the_same(place: &StorePlace) {
    let mut store = place.open();
    let mut recorder = store.begin_recording(&blank_session("a"), "{}").unwrap();
    recorder.observe(&SessionEvent::SlotsDone(&[4])).unwrap();
    recorder.observe(&SessionEvent::Failed(&failure(Some(5)))).unwrap();
    recorder.observe(&SessionEvent::SlotsDone(&[5])).unwrap();
    let number = recorder.number();
    assert_eq!(store.finished_slots(number).unwrap(), BTreeSet::from([4, 5]));
}

fn four_programs_open_a_fresh_file_at_once_and_record_side_by_side(place: &StorePlace) {
    thread::scope(|scope| {
        for id in ["a", "b", "c", "d"] {
            scope.spawn(move || {
                let mut store = place.open();
                let mut recorder = store.begin_recording(&blank_session(id), "{}").unwrap();
                for slot in 0..100 {
                    recorder.observe(&SessionEvent::RunFinished(&run(slot))).unwrap();
                    recorder.observe(&SessionEvent::SlotsDone(&[slot])).unwrap();
                }
                recorder.observe(&SessionEvent::Finished { interrupted: false }).unwrap();
            });
        }
    });
    let store = place.open();
    let all = store.list_sessions(&SessionFilter::default()).unwrap();
    assert_eq!(all.iter().map(|one| one.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    for one in all {
        assert_eq!(slots(&store.load_session(one.number).unwrap()), (0..100).collect::<Vec<_>>());
    }
}
