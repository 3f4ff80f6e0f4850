//! The progress line of `compare.js`.
//!
//! Decides its text, and when it is redrawn: at every event and every second. Knows nothing of the
//! source of events. Start at the test of [`Progress::line`], which shows examples.

use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Clears the line and moves the cursor to its beginning (ECMA-48: EL 2, CHA 1).
const CLEAR: &str = "\x1b[2K\x1b[1G";

/// Progress of a request.
#[derive(Debug, Clone)]
pub struct Progress {
    scripts: Vec<Planned>,
    /// Passes over the cases of each script: runs times variants.
    passes: usize,
    current: usize,
    finished: bool,
}

/// A script, its number of cases, and the number of executions so far.
#[derive(Debug, Clone)]
struct Planned {
    name: String,
    cases: usize,
    done: usize,
}

impl Planned {
    /// Returns the number of passes over all cases of the script, including the fraction of the
    /// current one.
    fn passes_done(&self) -> f64 {
        self.done as f64 / self.cases.max(1) as f64
    }
}

impl Progress {
    /// Creates the progress before the first run. The number of cases is `None` for scripts that
    /// could not be planned; `passes` is the number of executions of each case.
    pub fn new(scripts: &[(String, Option<usize>)], passes: usize) -> Progress {
        let planned = |(name, cases): &(String, Option<usize>)| Planned {
            name: name.clone(),
            cases: cases.unwrap_or(0),
            done: 0,
        };
        Progress {
            scripts: scripts.iter().map(planned).collect(),
            passes,
            current: 0,
            finished: false,
        }
    }

    /// Records that a case of `script` has started.
    pub fn begin(&mut self, script: &str) {
        if let Some(at) = self
            .scripts
            .iter()
            .position(|planned| planned.name == script)
        {
            self.current = at;
        }
    }

    /// Records that a case of `script` was executed once, successfully or not.
    pub fn complete(&mut self, script: &str) {
        self.begin(script);
        if let Some(planned) = self.scripts.get_mut(self.current) {
            planned.done = (planned.done + 1).min(planned.cases * self.passes);
        }
    }

    /// Records that everything was executed.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Formats the line at a time `elapsed` after the start.
    pub fn line(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_nanos().div_ceil(1_000_000_000);
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let files = self.scripts.len();
        let whole = |(at, script): (usize, &Planned)| {
            let over = script.cases > 0 || at < self.current || self.finished;
            over && script.done >= script.cases * self.passes
        };
        let files_done = self
            .scripts
            .iter()
            .enumerate()
            .map(whole)
            .filter(|&over| over)
            .count();
        let (done, cases, name) = self.scripts.get(self.current).map_or((0, 0, ""), |script| {
            (script.done, script.cases, script.name.as_str())
        });
        let runs_done = if self.finished {
            self.passes
        } else {
            done / cases.max(1)
        };
        let all: f64 = self.scripts.iter().map(Planned::passes_done).sum();
        let share = if self.finished {
            1.0
        } else {
            all / (files * self.passes).max(1) as f64
        };
        // Rounding errors must not push a sum below the whole number that it represents.
        let percent = (share * 100.0 + 1e-9).floor();
        format!(
            "[{hours:02}:{minutes:02}:{:02}|% {percent:>3}| {} files | {} runs | {} configs]: {} ",
            seconds % 60,
            fraction(files_done, files),
            fraction(runs_done, self.passes),
            fraction(done % cases.max(1), cases),
            if self.finished { "Done\n" } else { name },
        )
    }
}

fn fraction(part: usize, whole: usize) -> String {
    let whole = whole.to_string();
    format!("{part:>width$}/{whole}", width = whole.len())
}

/// Progress line on a terminal.
pub struct ProgressLine {
    shared: Arc<Mutex<Shared>>,
    stop: Sender<()>,
    ticker: Option<JoinHandle<()>>,
}

struct Shared {
    progress: Progress,
    started: Instant,
    out: Box<dyn Write + Send>,
}

impl Shared {
    fn draw(&mut self) -> io::Result<()> {
        let line = self.progress.line(self.started.elapsed());
        write!(self.out, "{CLEAR}{line}")?;
        self.out.flush()
    }
}

impl ProgressLine {
    /// Shows `progress` on `out`, and redraws it every second.
    pub fn start(progress: Progress, out: Box<dyn Write + Send>) -> ProgressLine {
        let shared = Arc::new(Mutex::new(Shared {
            progress,
            started: Instant::now(),
            out,
        }));
        let (stop, stopped) = mpsc::channel();
        let seen = shared.clone();
        let ticker = std::thread::spawn(move || {
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                // Measuring continues if the terminal is gone.
                let _ = lock(&seen).draw();
            }
        });
        ProgressLine {
            shared,
            stop,
            ticker: Some(ticker),
        }
    }

    /// Changes the progress and redraws it.
    pub fn update(&self, change: impl FnOnce(&mut Progress)) {
        let mut shared = lock(&self.shared);
        change(&mut shared.progress);
        let _ = shared.draw();
    }

    /// Clears the line so that another can be printed on the same terminal.
    pub fn clear(&self) {
        let _ = write!(lock(&self.shared).out, "{CLEAR}");
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

/// Locks the state, even if poisoned: a panic elsewhere leaves it consistent.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Progress {
        let script = |name: &str, cases| (name.to_owned(), Some(cases));
        Progress::new(&[script("url/a.js", 12), script("url/b.js", 3)], 60)
    }

    #[test]
    fn the_line_is_that_of_the_original() {
        let mut progress = progress();
        progress.begin("url/a.js");
        assert_eq!(
            progress.line(Duration::ZERO),
            "[00:00:00|%   0| 0/2 files |  0/60 runs |  0/12 configs]: url/a.js "
        );
        for _ in 0..12 * 5 + 7 {
            progress.complete("url/a.js");
        }
        assert_eq!(
            progress.line(Duration::from_millis(3_661_200)),
            "[01:01:02|%   4| 0/2 files |  5/60 runs |  7/12 configs]: url/a.js "
        );
        for _ in 0..12 * 60 {
            progress.complete("url/a.js");
        }
        progress.complete("url/b.js");
        assert_eq!(
            progress.line(Duration::from_secs(7)),
            "[00:00:07|%  50| 1/2 files |  0/60 runs | 1/3 configs]: url/b.js "
        );
        for _ in 1..3 * 60 {
            progress.complete("url/b.js");
        }
        progress.finish();
        assert_eq!(
            progress.line(Duration::from_secs(8)),
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
        line.update(|progress| progress.begin("url/b.js"));
        line.update(Progress::finish);
        drop(line);
        let shown = String::from_utf8(terminal.0.lock().unwrap().clone()).unwrap();
        assert_eq!(shown.matches(CLEAR).count(), 2);
        assert!(
            shown.contains("]: url/b.js ") && shown.ends_with("]: Done\n "),
            "{shown:?}"
        );
    }
}
