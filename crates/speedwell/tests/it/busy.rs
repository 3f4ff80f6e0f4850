//! Retries for busy machines, on which a figure may be off although nothing is wrong.

use std::time::{Duration, Instant};

/// Maximum pause between two checks of a condition.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// Retries something that a busy machine may distort, three times as often as an idle machine
/// needs. A real defect fails every time.
#[track_caller]
pub fn retry_busy(tries: usize, mut attempt: impl FnMut() -> Result<(), String>) {
    let tries = 3 * tries;
    let mut complaints = Vec::new();
    for _ in 0..tries {
        match attempt() {
            Ok(()) => return,
            Err(complaint) => complaints.push(complaint),
        }
    }
    panic!("{tries} times in a row: {complaints:#?}");
}

/// Waits for something that must happen.
#[track_caller]
pub fn wait_until(done: impl FnMut() -> bool) {
    wait_within(Duration::from_secs(30), done);
}

/// Waits for something that must happen within `patience`. It is noticed late by at most a twentieth
/// of the wait, because checks take processor time from whatever is waited for.
#[track_caller]
pub fn wait_within(patience: Duration, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        let elapsed = begin.elapsed();
        assert!(elapsed < patience, "the condition was never met");
        std::thread::sleep((elapsed / 20).clamp(Duration::from_millis(1), MAX_PAUSE));
    }
}

/// Returns an `Err` with a text unless the condition holds.
pub fn ensure_holds(condition: bool, complaint: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(complaint()) }
}
