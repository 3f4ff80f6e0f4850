//! The text of the status line, while benchmarks are discovered and built and while they are
//! measured.

use super::options::OutputArgs;
use super::status;
use super::status_line::StatusLine;
use speedwell_model::{Event, Observer};
use speedwell_process::activity;
use speedwell_report::{Uncertainty, about, quantity, visible};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Width of the progress bar.
const BAR_COLUMNS: usize = 16;

/// Shows the progress of sessions on stderr: messages, and a line that is redrawn on every event
/// and every second.
pub struct Progress {
    state: Arc<Mutex<State>>,
    line: StatusLine,
    notes: bool,
    quiet: bool,
}

/// The current phase.
#[derive(Debug)]
enum State {
    /// Benchmarks are discovered, described and built.
    Preparing(Preparation),
    /// Runs are executed.
    Measuring(Measurement),
    /// Nothing to show.
    Idle,
}

#[derive(Debug)]
struct Preparation {
    begin: Instant,
    /// Number of benchmark files that have listed their cases, and of all files.
    described: (usize, usize),
}

#[derive(Debug)]
struct Measurement {
    begin: Instant,
    total: usize,
    /// Cases may be decided before all their runs.
    is_upper_bound: bool,
    done: usize,
    done_before: usize,
    failed: usize,
    current: String,
}

impl Progress {
    /// Creates a status line, shown only if the output options allow it. Notes appear only along
    /// with the line.
    pub fn new(output: &OutputArgs) -> Progress {
        let state = Arc::new(Mutex::new(State::Preparing(Preparation {
            begin: Instant::now(),
            described: (0, 0),
        })));
        let shown = state.clone();
        Progress {
            state,
            line: StatusLine::new(output.progress(), move || {
                let now = Instant::now();
                let activity = activity().map(|words| visible(&words).into_owned());
                match &*locked(&shown) {
                    State::Preparing(preparation) => preparation.line(activity, now),
                    State::Measuring(measurement) => Some(measurement.line(activity, now)),
                    State::Idle => None,
                }
            }),
            notes: output.progress(),
            quiet: output.quiet,
        }
    }

    /// Like [`Progress::new`], but shows notes even without a line.
    pub fn with_notes(output: &OutputArgs) -> Progress {
        let mut progress = Progress::new(output);
        progress.notes = !output.quiet;
        progress
    }

    fn change_state(&self, event: &Event<'_>) {
        let mut state = locked(&self.state);
        match (event, &mut *state) {
            (Event::Described { done, all }, State::Preparing(preparation)) => {
                preparation.described = (*done, *all);
            }
            (
                Event::Started {
                    runs,
                    is_upper_bound,
                    done,
                    ..
                },
                _,
            ) => {
                *state = State::Measuring(Measurement {
                    begin: Instant::now(),
                    total: *runs,
                    is_upper_bound: *is_upper_bound,
                    done: *done,
                    done_before: *done,
                    failed: 0,
                    current: String::new(),
                });
            }
            (Event::Finished { .. }, _) => *state = State::Idle,
            (event, State::Measuring(measurement)) => measurement.step(event),
            _ => return,
        }
        drop(state);
        self.line.draw();
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Preparation {
    /// Returns the text of the line; `None` if the activity is unknown.
    fn line(&self, activity: Option<String>, now: Instant) -> Option<String> {
        let (done, all) = self.described;
        let files =
            (all > 1 && done < all).then(|| format!("reading benchmark files: {done} of {all}"));
        let parts: Vec<String> = files.into_iter().chain(activity).collect();
        let elapsed = clock(now.duration_since(self.begin));
        (!parts.is_empty()).then(|| format!("{}  {elapsed}", parts.join(", ")))
    }
}

impl Measurement {
    /// Updates the counts by an event of a run.
    fn step(&mut self, event: &Event<'_>) {
        match event {
            Event::RunStarted { label, variant, .. } => {
                self.current = visible(&format!("{label} ({variant})")).into_owned();
            }
            Event::SlotsDone(slots) => self.done += slots.len(),
            Event::CaseDecided { saved, .. } => self.total = self.total.saturating_sub(*saved),
            Event::Failed(_) => self.failed += 1,
            _ => {}
        }
    }

    /// Returns the text of the line.
    fn line(&self, activity: Option<String>, now: Instant) -> String {
        let elapsed = now.duration_since(self.begin);
        let percent = (100 * self.done).checked_div(self.total).unwrap_or(100);
        let up_to = if self.is_upper_bound { "up to " } else { "" };
        let failed = if self.failed > 0 {
            format!(", {} failed", self.failed)
        } else {
            String::new()
        };
        let precision = if self.is_upper_bound {
            "up to"
        } else {
            "about"
        };
        let left = self
            .remaining(elapsed)
            .map(|left| format!(", {precision} {} left", about(left)))
            .unwrap_or_default();
        format!(
            "{} {percent:>3} %  {} of {up_to}{} runs{failed}  {}{left}  {}",
            bar(self.done, self.total),
            self.done,
            self.total,
            clock(elapsed),
            activity.as_ref().unwrap_or(&self.current),
        )
    }

    /// Estimates the remaining time, assuming that every planned run is needed and takes as long as
    /// those before.
    fn remaining(&self, elapsed: Duration) -> Option<Duration> {
        let measured = self
            .done
            .checked_sub(self.done_before)
            .filter(|&count| count > 0)?;
        let each = elapsed.as_secs_f64() / measured as f64;
        let left = self.total.saturating_sub(self.done);
        Some(Duration::from_secs_f64(each * left as f64))
    }
}

fn bar(done: usize, total: usize) -> String {
    let full = (BAR_COLUMNS * done)
        .checked_div(total)
        .unwrap_or(BAR_COLUMNS)
        .min(BAR_COLUMNS);
    format!("{}{}", "█".repeat(full), "░".repeat(BAR_COLUMNS - full))
}

/// Formats a duration as `minutes:seconds`, with hours if there are any; rounds up to a whole
/// second.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours == 0 {
        format!("{minutes}:{seconds:02}")
    } else {
        format!("{hours}:{minutes:02}:{seconds:02}")
    }
}

impl Observer for Progress {
    fn observe(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        match event {
            // Building may take minutes, so log it even without a status line.
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
            event => self.change_state(event),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(done: usize, total: usize) -> Measurement {
        Measurement {
            begin: Instant::now(),
            total,
            is_upper_bound: false,
            done,
            done_before: 0,
            failed: 0,
            current: "url/parse.js n=1 (new)".into(),
        }
    }

    fn after(seconds: u64, measurement: &Measurement) -> String {
        measurement.line(None, measurement.begin + Duration::from_secs(seconds))
    }

    #[test]
    fn the_line_has_a_bar_runs_times_and_the_case() {
        assert_eq!(
            after(60, &measurement(30, 120)),
            "████░░░░░░░░░░░░  25 %  30 of 120 runs  1:00, about 3 min left  url/parse.js n=1 (new)"
        );
    }

    #[test]
    fn a_number_of_runs_that_is_an_upper_bound_is_called_one() {
        let measurement = Measurement {
            is_upper_bound: true,
            failed: 2,
            ..measurement(64, 128)
        };
        assert_eq!(
            after(4200, &measurement),
            "████████░░░░░░░░  50 %  64 of up to 128 runs, 2 failed  1:10:00, up to 1 h 10 min left  \
             url/parse.js n=1 (new)"
        );
    }

    #[test]
    fn nothing_is_promised_before_the_first_run_and_building_takes_the_place_of_the_case() {
        let measurement = measurement(0, 8);
        let line = measurement.line(
            Some("compiling x.c with cc".into()),
            measurement.begin + Duration::from_secs(1),
        );
        assert_eq!(
            line,
            "░░░░░░░░░░░░░░░░   0 %  0 of 8 runs  0:01  compiling x.c with cc"
        );
    }

    #[test]
    fn before_measuring_the_line_says_what_is_read_and_built() {
        let line = |described, activity: Option<&str>, seconds| {
            let begin = Instant::now();
            let preparation = Preparation { begin, described };
            preparation.line(
                activity.map(str::to_owned),
                begin + Duration::from_secs(seconds),
            )
        };
        assert_eq!(line((0, 0), None, 1), None);
        assert_eq!(
            line((0, 1), Some("compiling copy.cpp with c++"), 1).as_deref(),
            Some("compiling copy.cpp with c++  0:01")
        );
        assert_eq!(
            line((3, 20), Some("compiling copy.cpp with c++"), 14).as_deref(),
            Some("reading benchmark files: 3 of 20, compiling copy.cpp with c++  0:14")
        );
    }
}
