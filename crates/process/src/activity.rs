//! Announces work besides measuring for the status line, such as compiling for half a minute.
//!
//! Code announces its work without knowing whether anybody shows it. Start at [`begin`].

use std::sync::{Mutex, MutexGuard, PoisonError};

static RUNNING: Mutex<Vec<(u64, String)>> = Mutex::new(Vec::new());

/// Announced work, until this is dropped.
#[derive(Debug)]
pub struct Activity(u64);

/// Announces work in a few words, such as `compiling x.cpp with c++`.
pub fn begin(words: impl Into<String>) -> Activity {
    let mut running = locked();
    let number = running.last().map_or(0, |(number, _)| number + 1);
    running.push((number, words.into()));
    Activity(number)
}

/// Returns the most recently started work that has not ended.
pub fn activity() -> Option<String> {
    locked().last().map(|(_, words)| words.clone())
}

impl Drop for Activity {
    fn drop(&mut self) {
        locked().retain(|(number, _)| *number != self.0);
    }
}

fn locked() -> MutexGuard<'static, Vec<(u64, String)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_shown_until_it_ends() {
        // Other tests may compile at the same time, so only look for our own work.
        let is_running = |words: &str| locked().iter().any(|(_, own)| own == words);
        let first = begin("first of two");
        let second = begin("second of two");
        assert!(is_running("first of two") && is_running("second of two"));
        drop(first);
        assert!(!is_running("first of two") && is_running("second of two"));
        drop(second);
        assert!(!is_running("second of two"));
    }
}
