//! Announces work other than measuring, such as a long compilation, so that the status line can
//! show it.
//!
//! Work is announced even if no status line is shown. Start at [`begin_activity`].

use std::sync::{Mutex, MutexGuard, PoisonError};

static RUNNING: Mutex<Vec<(u64, String)>> = Mutex::new(Vec::new());

/// Keeps work announced until the guard is dropped.
#[derive(Debug)]
pub struct ActivityGuard(u64);

/// Announces work in a few words, such as `compiling x.cpp with c++`.
pub fn begin_activity(description: impl Into<String>) -> ActivityGuard {
    let mut running = lock_running();
    let number = running.last().map_or(0, |(number, _)| number + 1);
    running.push((number, description.into()));
    ActivityGuard(number)
}

/// Returns the most recently started work that has not ended.
pub fn current_activity() -> Option<String> {
    lock_running().last().map(|(_, description)| description.clone())
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        lock_running().retain(|(number, _)| *number != self.0);
    }
}

fn lock_running() -> MutexGuard<'static, Vec<(u64, String)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_shown_until_it_ends() {
        // Other tests may compile at the same time, so only look for our own work.
        let is_running =
            |description: &str| lock_running().iter().any(|(_, running)| running == description);
        let first = begin_activity("first of two");
        let second = begin_activity("second of two");
        assert!(is_running("first of two") && is_running("second of two"));
        drop(first);
        assert!(!is_running("first of two") && is_running("second of two"));
        drop(second);
        assert!(!is_running("second of two"));
    }
}
