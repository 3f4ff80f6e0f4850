//! Draws the progress line of `compare.js`.
//!
//! Decides the text of the line, and when the line is redrawn: at every event and every second.
//! Does not know where events come from. Start at the test of [`NodeProgress::format_line`], which
//! shows examples.

use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Clears the line and moves the cursor to its beginning (ECMA-48: EL 2, CHA 1).
const CLEAR_LINE: &str = "\x1b[2K\x1b[1G";

/// Progress of a request.
#[derive(Debug, Clone)]
pub struct NodeProgress {
    scripts: Vec<PlannedScript>,
    /// Number of executions of each case: runs times variants.
    passes: usize,
    current: usize,
    finished: bool,
}

/// A script, its number of cases, and the number of executions so far.
#[derive(Debug, Clone)]
struct PlannedScript {
    name: String,
    cases: usize,
    done: usize,
}

impl PlannedScript {
    /// Returns the number of passes over all cases of the script so far, including the completed
    /// fraction of the current pass.
    fn passes_done(&self) -> f64 {
        self.done as f64 / self.cases.max(1) as f64
    }
}

impl NodeProgress {
    /// Creates the progress before the first run. The number of cases is `None` for scripts that
    /// could not be planned; `passes` is the number of executions of each case.
    pub fn new(scripts: &[(String, Option<usize>)], passes: usize) -> NodeProgress {
        let planned = |(name, cases): &(String, Option<usize>)| PlannedScript {
            name: name.clone(),
            cases: cases.unwrap_or(0),
            done: 0,
        };
        NodeProgress {
            scripts: scripts.iter().map(planned).collect(),
            passes,
            current: 0,
            finished: false,
        }
    }

    /// Records that a case of `script` has started.
    pub fn start_case(&mut self, script: &str) {
        if let Some(index) = self.scripts.iter().position(|planned| planned.name == script) {
            self.current = index;
        }
    }

    /// Records that a case of `script` was executed once, successfully or not.
    pub fn complete_case(&mut self, script: &str) {
        self.start_case(script);
        if let Some(planned) = self.scripts.get_mut(self.current) {
            planned.done = (planned.done + 1).min(planned.cases * self.passes);
        }
    }

    /// Records that everything was executed.
    pub fn mark_finished(&mut self) {
        self.finished = true;
    }

    /// Formats the line at a time `elapsed` after the start.
    pub fn format_line(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_nanos().div_ceil(1_000_000_000);
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let files = self.scripts.len();
        let is_complete = |(index, script): (usize, &PlannedScript)| {
            let has_ended = script.cases > 0 || index < self.current || self.finished;
            has_ended && script.done >= script.cases * self.passes
        };
        let files_done =
            self.scripts.iter().enumerate().map(is_complete).filter(|&has_ended| has_ended).count();
        let (executions, cases, name) = self
            .scripts
            .get(self.current)
            .map_or((0, 0, ""), |script| (script.done, script.cases, script.name.as_str()));
        let runs_done = if self.finished { self.passes } else { executions / cases.max(1) };
        let passes_done: f64 = self.scripts.iter().map(PlannedScript::passes_done).sum();
        let fraction =
            if self.finished { 1.0 } else { passes_done / (files * self.passes).max(1) as f64 };
        // The addend exceeds the rounding errors, which could otherwise lower 50 % to 49 %.
        let percent = (fraction * 100.0 + 1e-9).floor();
        format!(
            "[{hours:02}:{minutes:02}:{:02}|% {percent:>3}| {} files | {} runs | {} configs]: {} ",
            seconds % 60,
            format_fraction(files_done, files),
            format_fraction(runs_done, self.passes),
            format_fraction(executions % cases.max(1), cases),
            if self.finished { "Done\n" } else { name },
        )
    }
}

fn format_fraction(part: usize, total: usize) -> String {
    let total_text = total.to_string();
    format!("{part:>width$}/{total_text}", width = total_text.len())
}

/// Progress line on a terminal.
pub struct ProgressLine {
    shared: Arc<Mutex<SharedProgress>>,
    stop: Sender<()>,
    ticker: Option<JoinHandle<()>>,
}

struct SharedProgress {
    progress: NodeProgress,
    started: Instant,
    out: Box<dyn Write + Send>,
}

impl SharedProgress {
    fn draw_line(&mut self) -> io::Result<()> {
        let line = self.progress.format_line(self.started.elapsed());
        write!(self.out, "{CLEAR_LINE}{line}")?;
        self.out.flush()
    }
}

impl ProgressLine {
    /// Shows `progress` on `out`, and redraws it every second.
    pub fn start(progress: NodeProgress, out: Box<dyn Write + Send>) -> ProgressLine {
        let shared =
            Arc::new(Mutex::new(SharedProgress { progress, started: Instant::now(), out }));
        let (stop, stopped) = mpsc::channel();
        let ticker_shared = shared.clone();
        let ticker = std::thread::spawn(move || {
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                // If the terminal is gone, measuring continues.
                let _ = lock_shared(&ticker_shared).draw_line();
            }
        });
        ProgressLine { shared, stop, ticker: Some(ticker) }
    }

    /// Changes the progress and redraws it.
    pub fn update(&self, change: impl FnOnce(&mut NodeProgress)) {
        let mut shared = lock_shared(&self.shared);
        change(&mut shared.progress);
        let _ = shared.draw_line();
    }

    /// Clears the line, so that a message can be printed in its place.
    pub fn clear(&self) {
        let _ = write!(lock_shared(&self.shared).out, "{CLEAR_LINE}");
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join();
        }
    }
}

/// Locks the state, even if it is poisoned: a panic of another thread leaves the state consistent.
fn lock_shared(shared: &Mutex<SharedProgress>) -> MutexGuard<'_, SharedProgress> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> NodeProgress {
        let script = |name: &str, cases| (name.to_owned(), Some(cases));
        NodeProgress::new(&[script("url/a.js", 12), script("url/b.js", 3)], 60)
    }

    #[test]
    fn the_progress_line_matches_the_original() {
        let mut progress = progress();
        progress.start_case("url/a.js");
        assert_eq!(
            progress.format_line(Duration::ZERO),
            "[00:00:00|%   0| 0/2 files |  0/60 runs |  0/12 configs]: url/a.js "
        );
        for _ in 0..12 * 5 + 7 {
            progress.complete_case("url/a.js");
        }
        assert_eq!(
            progress.format_line(Duration::from_millis(3_661_200)),
            "[01:01:02|%   4| 0/2 files |  5/60 runs |  7/12 configs]: url/a.js "
        );
        for _ in 0..12 * 60 {
            progress.complete_case("url/a.js");
        }
        progress.complete_case("url/b.js");
        assert_eq!(
            progress.format_line(Duration::from_secs(7)),
            "[00:00:07|%  50| 1/2 files |  0/60 runs | 1/3 configs]: url/b.js "
        );
        for _ in 1..3 * 60 {
            progress.complete_case("url/b.js");
        }
        progress.mark_finished();
        assert_eq!(
            progress.format_line(Duration::from_secs(8)),
            "[00:00:08|% 100| 2/2 files | 60/60 runs | 0/3 configs]: Done\n "
        );
    }

    #[test]
    fn the_line_is_rewritten_at_every_event() {
        #[derive(Clone, Default)]
        struct Terminal(Arc<Mutex<Vec<u8>>>);
        impl Write for Terminal {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let terminal = Terminal::default();
        let line = ProgressLine::start(progress(), Box::new(terminal.clone()));
        line.update(|progress| progress.start_case("url/b.js"));
        line.update(NodeProgress::mark_finished);
        drop(line);
        let output = String::from_utf8(terminal.0.lock().unwrap().clone()).unwrap();
        assert_eq!(output.matches(CLEAR_LINE).count(), 2);
        assert!(output.contains("]: url/b.js ") && output.ends_with("]: Done\n "), "{output:?}");
    }
}
