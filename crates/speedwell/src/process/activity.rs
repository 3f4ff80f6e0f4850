//! What this process is busy with beside measuring, for whoever shows it: compiling may take half a minute.
//!
//! Those who work say so; it must not matter to them whether anybody looks. Start at [`begin`].

use std::sync::{Mutex, MutexGuard, PoisonError};

static RUNNING: Mutex<Vec<(u64, String)>> = Mutex::new(Vec::new());

/// Something that is going on until it is dropped.
#[derive(Debug)]
pub struct Activity(u64);

/// Says that something begins, in a few words such as `compiling x.cpp with c++`.
pub fn begin(words: impl Into<String>) -> Activity {
    let mut running = locked();
    let number = running.last().map_or(0, |(number, _)| number + 1);
    running.push((number, words.into()));
    Activity(number)
}

/// What began last and has not ended.
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
    fn what_began_last_is_shown_until_it_ends() {
        // Other tests may compile meanwhile, so only our own are looked for.
        let words = || {
            locked()
                .iter()
                .map(|(_, words)| words.clone())
                .collect::<Vec<_>>()
        };
        let first = begin("first of two");
        let second = begin("second of two");
        assert!(words().contains(&"first of two".to_owned()));
        drop(first);
        assert!(!words().contains(&"first of two".to_owned()));
        assert!(words().contains(&"second of two".to_owned()));
        drop(second);
        assert!(!words().contains(&"second of two".to_owned()));
    }
}
