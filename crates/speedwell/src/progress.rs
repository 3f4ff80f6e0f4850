//! Builds the text of the status line while benchmarks are prepared and measured.

use crate::options::OutputArgs;
use crate::status::{self, StatusLine};
use speedwell_machine::process::current_activity;
use speedwell_model::{SessionEvent, SessionObserver};
use speedwell_report::{escape_controls, format_about, format_rate, remaining_time};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Width of the progress bar.
const BAR_COLUMNS: usize = 16;

/// Shows the progress of sessions on stderr: messages, and a line that is redrawn on every event
/// and every second.
pub struct ProgressDisplay {
    state: Arc<Mutex<ProgressState>>,
    line: StatusLine,
    notes: bool,
    quiet: bool,
}

/// The current phase.
#[derive(Debug)]
enum ProgressState {
    /// Benchmarks are being discovered, listed and built.
    Preparing(PreparationProgress),
    /// Runs are being executed.
    Measuring(MeasurementProgress),
    /// Nothing to show.
    Idle,
}

#[derive(Debug)]
struct PreparationProgress {
    started_at: Instant,
    /// Number of benchmark files whose cases are known, and total number of files.
    described: (usize, usize),
}

#[derive(Debug)]
struct MeasurementProgress {
    started_at: Instant,
    total: usize,
    /// Whether `total` is an upper bound, because cases may be decided early.
    is_upper_bound: bool,
    done: usize,
    initially_done: usize,
    failed: usize,
    current: String,
}

impl ProgressDisplay {
    /// Creates a status line. The output options decide whether the line and notes are shown.
    pub fn new(output: &OutputArgs) -> ProgressDisplay {
        let state = Arc::new(Mutex::new(ProgressState::Preparing(PreparationProgress {
            started_at: Instant::now(),
            described: (0, 0),
        })));
        let shared_state = state.clone();
        ProgressDisplay {
            state,
            line: StatusLine::new(output.shows_progress(), move || {
                let now = Instant::now();
                let activity = current_activity().map(|text| escape_controls(&text).into_owned());
                match &*lock_state(&shared_state) {
                    ProgressState::Preparing(preparation) => preparation.status_text(activity, now),
                    ProgressState::Measuring(measurement) => {
                        Some(measurement.status_text(activity, now))
                    }
                    ProgressState::Idle => None,
                }
            }),
            notes: output.shows_progress(),
            quiet: output.quiet,
        }
    }

    /// Does the same as [`ProgressDisplay::new`], but shows notes unless `--quiet` is given.
    pub fn with_notes(output: &OutputArgs) -> ProgressDisplay {
        ProgressDisplay { notes: !output.quiet, ..ProgressDisplay::new(output) }
    }

    fn change_state(&self, event: &SessionEvent<'_>) {
        let mut state = lock_state(&self.state);
        match (event, &mut *state) {
            (SessionEvent::Described { done, all }, ProgressState::Preparing(preparation)) => {
                preparation.described = (*done, *all);
            }
            (SessionEvent::Started { runs, is_upper_bound, done, .. }, _) => {
                *state = ProgressState::Measuring(MeasurementProgress {
                    started_at: Instant::now(),
                    total: *runs,
                    is_upper_bound: *is_upper_bound,
                    done: *done,
                    initially_done: *done,
                    failed: 0,
                    current: String::new(),
                });
            }
            (SessionEvent::Finished { .. }, _) => *state = ProgressState::Idle,
            (event, ProgressState::Measuring(measurement)) => measurement.count_event(event),
            _ => return,
        }
        drop(state);
        self.line.draw();
    }
}

fn lock_state(state: &Mutex<ProgressState>) -> MutexGuard<'_, ProgressState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PreparationProgress {
    /// Returns the text of the line, or `None` if there is nothing to show yet.
    fn status_text(&self, activity: Option<String>, now: Instant) -> Option<String> {
        let (done, total) = self.described;
        let files = (total > 1 && done < total)
            .then(|| format!("reading benchmark files: {done} of {total}"));
        let parts: Vec<String> = files.into_iter().chain(activity).collect();
        let elapsed = format_clock(now.duration_since(self.started_at));
        (!parts.is_empty()).then(|| format!("{}  {elapsed}", parts.join(", ")))
    }
}

impl MeasurementProgress {
    /// Updates the counts for an event of a run.
    fn count_event(&mut self, event: &SessionEvent<'_>) {
        match event {
            SessionEvent::RunStarted { label, variant, .. } => {
                self.current = escape_controls(&format!("{label} ({variant})")).into_owned();
            }
            SessionEvent::SlotsDone(slots) => self.done += slots.len(),
            SessionEvent::CaseDecided { saved, .. } => {
                self.total = self.total.saturating_sub(*saved)
            }
            SessionEvent::Failed(_) => self.failed += 1,
            _ => {}
        }
    }

    /// Returns the text of the line.
    fn status_text(&self, activity: Option<String>, now: Instant) -> String {
        let elapsed = now.duration_since(self.started_at);
        let percent = (100 * self.done).checked_div(self.total).unwrap_or(100);
        let total_prefix = if self.is_upper_bound { "up to " } else { "" };
        let failed_suffix =
            if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        let precision = if self.is_upper_bound { "up to" } else { "about" };
        let measured = self.done.saturating_sub(self.initially_done);
        let remaining = remaining_time(elapsed, measured, self.total.saturating_sub(self.done))
            .map(|remaining| format!(", {precision} {} left", format_about(remaining)))
            .unwrap_or_default();
        format!(
            "{} {percent:>3}%  {} of {total_prefix}{} runs{failed_suffix}  {}{remaining}  {}",
            progress_bar(self.done, self.total),
            self.done,
            self.total,
            format_clock(elapsed),
            activity.as_ref().unwrap_or(&self.current),
        )
    }
}

fn progress_bar(done: usize, total: usize) -> String {
    let filled = (BAR_COLUMNS * done).checked_div(total).unwrap_or(BAR_COLUMNS).min(BAR_COLUMNS);
    format!("{}{}", "█".repeat(filled), "░".repeat(BAR_COLUMNS - filled))
}

/// Formats a duration, rounded up to a second, as `minutes:seconds` or `hours:minutes:seconds`.
pub fn format_clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours == 0 {
        format!("{minutes}:{seconds:02}")
    } else {
        format!("{hours}:{minutes:02}:{seconds:02}")
    }
}

impl SessionObserver for ProgressDisplay {
    fn observe(&mut self, event: &SessionEvent<'_>) -> anyhow::Result<()> {
        match event {
            // Building may take minutes, so log it even without a status line.
            SessionEvent::Building { target, variant } if !self.quiet => {
                status::print_note(&format!("building '{target}' for '{variant}'"));
            }
            SessionEvent::Waiting(message) if !self.quiet => status::print_note(message),
            SessionEvent::Warning(message) => status::print_warning(message),
            SessionEvent::Busy(message) if !self.quiet => status::print_warning(message),
            SessionEvent::Note(message) if self.notes => status::print_note(message),
            SessionEvent::Visited { level, per_s } if self.notes => {
                let throughput = format_rate(*per_s);
                status::print_note(&format!("concurrency {level}: {throughput}"));
            }
            event => self.change_state(event),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(done: usize, total: usize) -> MeasurementProgress {
        MeasurementProgress {
            started_at: Instant::now(),
            total,
            is_upper_bound: false,
            done,
            initially_done: 0,
            failed: 0,
            current: "url/parse.js n=1 (new)".into(),
        }
    }

    fn status_after(seconds: u64, measurement: &MeasurementProgress) -> String {
        measurement.status_text(None, measurement.started_at + Duration::from_secs(seconds))
    }

    #[test]
    fn the_line_shows_a_bar_the_run_counts_the_times_and_the_case() {
        assert_eq!(
            status_after(60, &measurement(30, 120)),
            "████░░░░░░░░░░░░  25%  30 of 120 runs  1:00, about 3 min left  url/parse.js n=1 (new)"
        );
    }

    #[test]
    fn an_upper_bound_of_runs_is_shown_as_such() {
        let measurement =
            MeasurementProgress { is_upper_bound: true, failed: 2, ..measurement(64, 128) };
        assert_eq!(
            status_after(4200, &measurement),
            "████████░░░░░░░░  50%  64 of up to 128 runs, 2 failed  1:10:00, up to 1 h 10 min left  \
             url/parse.js n=1 (new)"
        );
    }

    #[test]
    fn before_the_first_run_the_line_shows_the_build_and_no_estimate() {
        let measurement = measurement(0, 8);
        let line = measurement.status_text(
            Some("compiling x.c with cc".into()),
            measurement.started_at + Duration::from_secs(1),
        );
        assert_eq!(line, "░░░░░░░░░░░░░░░░   0%  0 of 8 runs  0:01  compiling x.c with cc");
    }

    #[test]
    fn the_line_shows_reading_and_building_before_measuring() {
        let line = |described, activity: Option<&str>, seconds| {
            let started_at = Instant::now();
            let preparation = PreparationProgress { started_at, described };
            preparation
                .status_text(activity.map(str::to_owned), started_at + Duration::from_secs(seconds))
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
