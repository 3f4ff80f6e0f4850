//! The progress line on a terminal: elapsed, remaining, percent, runs, what is being measured.

use super::options::{OutputArgs, terminal_width};
use super::status;
use speedwell_model::{Event, Observer};
use speedwell_report::{Uncertainty, quantity, visible};
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Follows sessions and shows them on stderr: sentences, and a line that is rewritten on every event and every second.
pub struct Progress {
    state: Arc<(Mutex<State>, Condvar)>,
    pulse: Option<JoinHandle<()>>,
    visible: bool,
    notes: bool,
    quiet: bool,
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

impl Default for State {
    fn default() -> State {
        State {
            begin: Instant::now(),
            total: 0,
            done: 0,
            done_before: 0,
            failed: 0,
            current: String::new(),
            over: false,
        }
    }
}

impl Progress {
    /// A line that is shown only where it is wanted, and notes beside it.
    pub fn new(output: &OutputArgs) -> Progress {
        Progress {
            state: Arc::new((Mutex::new(State::default()), Condvar::new())),
            pulse: None,
            visible: output.progress(),
            notes: output.progress(),
            quiet: output.quiet,
        }
    }

    /// The same with notes even where no line is shown.
    pub fn with_notes(output: &OutputArgs) -> Progress {
        let mut progress = Progress::new(output);
        progress.notes = !output.quiet;
        progress
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the line from here on.
    fn begin(&mut self, total: usize, done: usize) {
        self.end();
        *self.state() = State {
            total,
            done,
            done_before: done,
            ..State::default()
        };
        if self.visible {
            let state = self.state.clone();
            self.pulse = Some(std::thread::spawn(move || pulse(&state)));
            draw(&self.state());
        }
    }

    /// Clears the line.
    fn end(&mut self) {
        self.state().over = true;
        self.state.1.notify_all();
        if let Some(pulse) = self.pulse.take() {
            let _ = pulse.join();
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }

    /// Takes note of what happens to a run.
    fn step(&mut self, event: &Event<'_>) {
        let mut state = self.state();
        match event {
            Event::RunStarted { label, variant, .. } => {
                state.current = visible(&format!("{label} ({variant})")).into_owned();
            }
            Event::SlotsDone(slots) => state.done += slots.len(),
            Event::CaseDecided { saved, .. } => state.total = state.total.saturating_sub(*saved),
            Event::Failed(_) => state.failed += 1,
            _ => return,
        }
        if self.visible && !state.over {
            draw(&state);
        }
    }
}

/// Shows how many benchmark files have told their cases.
fn describing(done: usize, all: usize) {
    let mut err = std::io::stderr().lock();
    let _ = if done < all {
        write!(err, "\rreading benchmark files: {done}/{all}\x1b[K")
    } else {
        write!(err, "\r\x1b[K")
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
        match event {
            Event::Described { done, all } if self.visible => describing(*done, *all),
            // It may take minutes, which a log should show as well.
            Event::Building { target, variant } if !self.quiet => {
                status::note(&format!("building '{target}' for '{variant}'"));
            }
            Event::Waiting(sentence) if !self.quiet => status::note(sentence),
            Event::Warning(sentence) => status::warn(sentence),
            Event::Busy(sentence) if !self.quiet => status::warn(sentence),
            Event::Note(sentence) if self.notes => status::note(sentence),
            Event::Visited { level, per_s } if self.notes => {
                let given = quantity(*per_s, "1/s", Uncertainty::Unknown);
                status::note(&format!("concurrency {level}: {given}"));
            }
            Event::Started { runs, done, .. } => self.begin(*runs, *done),
            Event::Finished { .. } => self.end(),
            event => self.step(event),
        }
        Ok(())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(done: usize, total: usize) -> State {
        State {
            total,
            done,
            current: "url/parse.js n=1 (new)".into(),
            ..State::default()
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
