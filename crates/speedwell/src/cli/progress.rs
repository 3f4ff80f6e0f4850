//! The progress line on a terminal: elapsed, remaining, percent, runs, what is being measured.

use crate::compat::console::columns;
use crate::model::{Event, Observer};
use crate::report::visible;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Follows a session and shows it on stderr, rewritten on every event and every second.
pub struct Progress {
    state: Arc<(Mutex<State>, Condvar)>,
    pulse: Option<JoinHandle<()>>,
    visible: bool,
}

#[derive(Debug)]
struct State {
    begin: Instant,
    total: usize,
    done: usize,
    done_before: usize,
    failed: usize,
    current: String,
    over: bool,
}

impl Progress {
    /// A line that is shown only when stderr is a terminal and `wanted`.
    pub fn new(wanted: bool) -> Progress {
        let state = State {
            begin: Instant::now(),
            total: 0,
            done: 0,
            done_before: 0,
            failed: 0,
            current: String::new(),
            over: false,
        };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let visible = wanted && std::io::stderr().is_terminal();
        let pulse = visible.then(|| {
            let state = state.clone();
            std::thread::spawn(move || pulse(&state))
        });
        Progress {
            state,
            pulse,
            visible,
        }
    }
}

/// Shows how many benchmark files have told their cases.
pub fn describing(done: usize, all: usize) {
    let mut err = std::io::stderr().lock();
    let _ = match done < all {
        true => write!(err, "\rreading benchmark files: {done}/{all}\x1b[K"),
        false => write!(err, "\r\x1b[K"),
    };
    let _ = err.flush();
}

/// Redraws once a second, so that the times move while a long run is on.
fn pulse(state: &(Mutex<State>, Condvar)) {
    let (lock, over) = state;
    let mut guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    while !guard.over {
        let waited = over.wait_timeout(guard, Duration::from_secs(1));
        guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        if !guard.over && guard.total > 0 {
            draw(&guard);
        }
    }
}

fn draw(state: &State) {
    let width = terminal_width();
    let line: String = line(state, Instant::now())
        .chars()
        .take(width.saturating_sub(1))
        .collect();
    let mut err = std::io::stderr().lock();
    // Carriage return and "erase to the end of the line": the line is rewritten in place.
    let _ = write!(err, "\r{line}\x1b[K");
    let _ = err.flush();
}

/// Columns of the terminal on stderr; 80 where it does not tell.
pub fn terminal_width() -> usize {
    columns(libc::STDERR_FILENO).unwrap_or(80)
}

/// The text of the line at the moment `now`.
fn line(state: &State, now: Instant) -> String {
    let elapsed = now.duration_since(state.begin);
    let percent = (100 * state.done).checked_div(state.total).unwrap_or(100);
    let width = state.total.to_string().len();
    let failed = if state.failed > 0 {
        format!(", {} failed", state.failed)
    } else {
        String::new()
    };
    let left =
        remaining(state, elapsed).map_or_else(String::new, |left| format!("|{} left", clock(left)));
    format!(
        "[{}{left}|{percent:>3} %|{:>width$}/{} runs{failed}] {}",
        clock(elapsed),
        state.done,
        state.total,
        state.current,
    )
}

/// What is left if every planned run is needed and takes as long as those before.
fn remaining(state: &State, elapsed: Duration) -> Option<Duration> {
    let measured = state
        .done
        .checked_sub(state.done_before)
        .filter(|&count| count > 0)?;
    let each = elapsed.as_secs_f64() / measured as f64;
    Some(Duration::from_secs_f64(
        each * state.total.saturating_sub(state.done) as f64,
    ))
}

/// A length of time as `hours:minutes:seconds`, begun seconds counted.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}")
}

impl Observer for Progress {
    fn observe(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        let mut state = self.state.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Started { runs, done, .. } => {
                state.begin = Instant::now();
                (state.total, state.done, state.done_before) = (*runs, *done, *done);
            }
            Event::RunStarted { label, variant, .. } => {
                state.current = visible(&format!("{label} ({variant})")).into_owned();
            }
            Event::SlotDone(_) => state.done += 1,
            Event::CaseDecided { saved, .. } => state.total = state.total.saturating_sub(*saved),
            Event::Failed(_) => state.failed += 1,
            Event::Finished { .. } => state.over = true,
            Event::RunFinished(_) | Event::Declared(_) => return Ok(()),
        }
        if self.visible && !state.over {
            draw(&state);
        }
        Ok(())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let (lock, over) = &*self.state;
        lock.lock().unwrap_or_else(PoisonError::into_inner).over = true;
        over.notify_all();
        if let Some(pulse) = self.pulse.take() {
            let _ = pulse.join();
        }
        if self.visible {
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(done: usize, total: usize) -> State {
        State {
            begin: Instant::now(),
            total,
            done,
            done_before: 0,
            failed: 0,
            current: "url/parse.js n=1 (new)".into(),
            over: false,
        }
    }

    #[test]
    fn the_line_tells_elapsed_remaining_percent_runs_and_case() {
        let state = state(30, 120);
        let line = line(&state, state.begin + Duration::from_secs(60));
        assert_eq!(
            line,
            "[00:01:00|00:03:00 left| 25 %| 30/120 runs] url/parse.js n=1 (new)"
        );
    }

    #[test]
    fn nothing_is_promised_before_the_first_run() {
        let state = state(0, 8);
        let line = line(&state, state.begin + Duration::from_secs(1));
        assert_eq!(line, "[00:00:01|  0 %|0/8 runs] url/parse.js n=1 (new)");
    }
}
