//! Retries for busy machines, on which a figure may be off although nothing is wrong.

use std::time::{Duration, Instant};

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
pub fn wait_until(done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(30), "the condition was never met");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns an `Err` with a text unless the condition holds.
pub fn ensure_holds(condition: bool, complaint: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(complaint()) }
}
