//! A session whose process was killed keeps everything that it had announced.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::back_ends::{StorePlace, on_both};
use crate::by_hand::{blank_session, run, slots};
use speedwell_model::SessionReference;
use speedwell_model::{SessionEvent, SessionObserver, SessionState};
use speedwell_store::Store;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Set for the child half of the next test: the results file to record into.
const RECORD_INTO: &str = "SPEEDWELL_TEST_RECORD_INTO";

const PLANNED: u32 = 2000;

/// Bytes of an announcement. A pipe holds sixteen of them (pipe(7)), so that the program is never
/// far ahead of the reader, however long the reader waits for a processor.
const ANNOUNCEMENT: usize = 4096;

/// Not a test itself, but the program that the next test kills. It announces a slot on its output
/// as soon as the recorder has returned from it.
#[test]
#[ignore = "is started, and killed, by a_killed_session_keeps_every_slot_it_announced"]
fn a_program_that_records_until_it_is_killed() {
    let path = std::env::var_os(RECORD_INTO).expect("only started by the next test");
    let mut store = Store::open(Path::new(&path)).unwrap();
    let known = store.resolve_reference(&SessionReference::Latest).ok();
    let done = known.map(|number| store.finished_slots(number).unwrap()).unwrap_or_default();
    let mut recorder = match known {
        Some(number) => store.resume_recording(number).unwrap(),
        None => store.begin_recording(&blank_session("killed"), "{}").unwrap(),
    };
    let mut out = std::io::stdout();
    for slot in (0..PLANNED).filter(|slot| !done.contains(slot)) {
        recorder.observe(&SessionEvent::RunFinished(&run(slot))).unwrap();
        recorder.observe(&SessionEvent::RunFinished(&run(slot))).unwrap();
        recorder.observe(&SessionEvent::SlotsDone(&[slot])).unwrap();
        let line = format!("{:<1$}\n", format!("done {slot}"), ANNOUNCEMENT - 1);
        out.write_all(line.as_bytes()).unwrap();
        out.flush().unwrap();
    }
    recorder.observe(&SessionEvent::Finished { interrupted: false }).unwrap();
}

fn recording_into(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture"])
        .arg("killed::a_program_that_records_until_it_is_killed")
        .env(RECORD_INTO, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

on_both! { a_killed_session_keeps_every_slot_it_announced }

fn a_killed_session_keeps_every_slot_it_announced(place: &StorePlace) {
    let path = place.path();
    let mut announced = BTreeSet::new();
    // Killed at four different moments, then left alone.
    for patience in [1, 7, 60, 131, usize::MAX] {
        let mut child = recording_into(&path);
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut heard = 0;
        for line in output.lines() {
            let line = line.unwrap();
            // The test harness may print before it on the same line.
            if let Some((_, slot)) = line.split_once("done ") {
                announced.insert(slot.trim_end().parse::<u32>().unwrap());
                heard += 1;
            }
            if heard == patience {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();

        let store = Store::open(&path).unwrap();
        let finished = store.finished_slots(1).unwrap();
        assert!(announced.is_subset(&finished), "announced but not kept");
        let kept = slots(&store.load_session(1).unwrap());
        let whole: Vec<u32> = finished.iter().flat_map(|&slot| [slot, slot]).collect();
        assert_eq!(kept, whole, "whole slots, each once");
        if patience == 1 {
            assert!(finished.len() < PLANNED as usize, "it was killed long before its end");
        }
    }
    let session = Store::open(&path).unwrap().load_session(1).unwrap();
    assert_eq!(session.state, SessionState::Complete);
    assert_eq!(session.runs.len(), 2 * PLANNED as usize);
}
