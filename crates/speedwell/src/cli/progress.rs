//! What the status line says: while benchmarks are looked for and built, and while they are measured.

use super::status_line::StatusLine;
use crate::model::{Event, Observer};
use crate::process;
use crate::report::visible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Columns of the bar.
const BAR: usize = 16;

/// Shows what is done before the first run: files described, programs compiled.
pub struct Preparing {
    files: Arc<(AtomicUsize, AtomicUsize)>,
    _line: StatusLine,
}

impl Preparing {
    /// A line that is shown only when stderr is a terminal and `wanted`.
    pub fn new(wanted: bool) -> Preparing {
        let files: Arc<(AtomicUsize, AtomicUsize)> = Arc::default();
        let (own, begin) = (files.clone(), Instant::now());
        let line = StatusLine::new(wanted, move || {
            let (done, all) = (own.0.load(Ordering::Relaxed), own.1.load(Ordering::Relaxed));
            Some(preparing(done, all, process::activity(), begin.elapsed()))
        });
        Preparing { files, _line: line }
    }

    /// So many of so many files have told their cases.
    pub fn described(&self, done: usize, all: usize) {
        self.files.0.store(done, Ordering::Relaxed);
        self.files.1.store(all, Ordering::Relaxed);
    }
}

fn preparing(done: usize, all: usize, activity: Option<String>, elapsed: Duration) -> String {
    let files = (all > 1).then(|| format!("reading benchmark files: {done} of {all}"));
    let parts: Vec<String> = files.into_iter().chain(activity).collect();
    let words = match parts.is_empty() {
        true => "reading benchmarks".to_owned(),
        false => parts.join(", "),
    };
    format!("{words}  {}", clock(elapsed))
}

/// Follows a session and shows it, redrawn on every event and every second.
pub struct Progress {
    state: Arc<Mutex<State>>,
    line: StatusLine,
}

#[derive(Debug)]
struct State {
    begin: Instant,
    total: usize,
    /// Cases may be decided before they had all their runs.
    is_at_most: bool,
    done: usize,
    done_before: usize,
    failed: usize,
    current: String,
    over: bool,
}

impl Progress {
    /// A line that is shown only when stderr is a terminal and `wanted`. With `is_at_most` the number of runs is the
    /// largest that may be needed.
    pub fn new(wanted: bool, is_at_most: bool) -> Progress {
        let state = Arc::new(Mutex::new(State {
            begin: Instant::now(),
            total: 0,
            is_at_most,
            done: 0,
            done_before: 0,
            failed: 0,
            current: String::new(),
            over: false,
        }));
        let own = state.clone();
        let line = StatusLine::new(wanted, move || {
            let state = locked(&own);
            let is_on = state.total > 0 && !state.over;
            is_on.then(|| line(&state, process::activity(), Instant::now()))
        });
        Progress { state, line }
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The text of the line at the moment `now`.
fn line(state: &State, activity: Option<String>, now: Instant) -> String {
    let elapsed = now.duration_since(state.begin);
    let percent = (100 * state.done).checked_div(state.total).unwrap_or(100);
    let most = if state.is_at_most { "at most " } else { "" };
    let failed = match state.failed {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    let left = remaining(state, elapsed)
        .map_or_else(String::new, |left| format!(", {most}{} left", clock(left)));
    format!(
        "{} {percent:>3} %  {} of {most}{} runs{failed}  {}{left}  {}",
        bar(state.done, state.total),
        state.done,
        state.total,
        clock(elapsed),
        activity.as_ref().unwrap_or(&state.current),
    )
}

/// How much is done, as a picture.
fn bar(done: usize, total: usize) -> String {
    let full = (BAR * done).checked_div(total).unwrap_or(BAR).min(BAR);
    format!("{}{}", "█".repeat(full), "░".repeat(BAR - full))
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

/// A length of time as `minutes:seconds`, with hours where there are any; begun seconds counted.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

impl Observer for Progress {
    fn observe(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        let mut state = locked(&self.state);
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
        drop(state);
        self.line.draw();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(done: usize, total: usize) -> State {
        State {
            begin: Instant::now(),
            total,
            is_at_most: false,
            done,
            done_before: 0,
            failed: 0,
            current: "url/parse.js n=1 (new)".into(),
            over: false,
        }
    }

    fn after(seconds: u64, state: &State) -> String {
        line(state, None, state.begin + Duration::from_secs(seconds))
    }

    #[test]
    fn the_line_has_a_bar_runs_times_and_the_case() {
        assert_eq!(
            after(60, &state(30, 120)),
            "████░░░░░░░░░░░░  25 %  30 of 120 runs  1:00, 3:00 left  url/parse.js n=1 (new)"
        );
    }

    #[test]
    fn a_number_of_runs_that_is_an_upper_limit_is_called_one() {
        let state = State {
            is_at_most: true,
            failed: 2,
            ..state(64, 128)
        };
        let expected = "████████░░░░░░░░  50 %  64 of at most 128 runs, 2 failed  1:10:00, at most 1:10:00 left  ";
        assert!(
            after(4200, &state).starts_with(expected),
            "{}",
            after(4200, &state)
        );
    }

    #[test]
    fn nothing_is_promised_before_the_first_run_and_building_takes_the_place_of_the_case() {
        let state = state(0, 8);
        let line = line(
            &state,
            Some("compiling x.c with cc".into()),
            state.begin + Duration::from_secs(1),
        );
        assert_eq!(
            line,
            "░░░░░░░░░░░░░░░░   0 %  0 of 8 runs  0:01  compiling x.c with cc"
        );
    }

    #[test]
    fn before_measuring_the_line_says_what_is_read_and_built() {
        let second = Duration::from_secs(1);
        assert_eq!(preparing(0, 0, None, second), "reading benchmarks  0:01");
        let compiling = Some("compiling copy.cpp with c++".to_owned());
        assert_eq!(
            preparing(0, 1, compiling.clone(), second),
            "compiling copy.cpp with c++  0:01"
        );
        assert_eq!(
            preparing(3, 20, compiling, 14 * second),
            "reading benchmark files: 3 of 20, compiling copy.cpp with c++  0:14"
        );
    }
}
