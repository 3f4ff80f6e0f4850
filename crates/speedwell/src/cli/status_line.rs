//! One line on stderr that is rewritten in place, on a terminal only.
//!
//! Decides when it is drawn and that nothing of it is left. It must not know what it says. Start at
//! [`StatusLine::new`].

use crate::compat::console::columns;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two drawings where nothing happens: times must move while something long is going on.
const PULSE: Duration = Duration::from_secs(1);

/// Before the first drawing: what is over sooner needs no word, and would only flicker.
const PATIENCE: Duration = Duration::from_millis(200);

/// Makes the text at the moment it is drawn; `None` draws nothing.
type Text = dyn Fn() -> Option<String> + Send + Sync;

/// The line; dropping it clears it.
pub struct StatusLine {
    shared: Option<Arc<Shared>>,
    pulse: Option<JoinHandle<()>>,
}

struct Shared {
    text: Box<Text>,
    over: Mutex<bool>,
    changed: Condvar,
    drawn: AtomicBool,
}

impl StatusLine {
    /// A line that is shown only if `wanted` and stderr is a terminal.
    pub fn new(
        wanted: bool,
        text: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> StatusLine {
        if !wanted || !std::io::stderr().is_terminal() {
            return StatusLine {
                shared: None,
                pulse: None,
            };
        }
        let shared = Arc::new(Shared {
            text: Box::new(text),
            over: Mutex::new(false),
            changed: Condvar::new(),
            drawn: AtomicBool::new(false),
        });
        let own = shared.clone();
        StatusLine {
            shared: Some(shared),
            pulse: Some(std::thread::spawn(move || own.pulse())),
        }
    }

    /// Draws the line as it is now.
    pub fn draw(&self) {
        if let Some(shared) = &self.shared {
            shared.draw();
        }
    }
}

impl Shared {
    fn pulse(&self) {
        let mut wait = PATIENCE;
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*over {
            let waited = self.changed.wait_timeout(over, wait);
            over = waited.unwrap_or_else(PoisonError::into_inner).0;
            if !*over {
                self.draw();
            }
            wait = PULSE;
        }
    }

    fn draw(&self) {
        let Some(text) = (self.text)() else { return };
        let width = terminal_width().saturating_sub(1);
        let shown: String = text.chars().take(width).collect();
        let mut err = std::io::stderr().lock();
        // Carriage return and "erase to the end of the line": the line is rewritten in place.
        let _ = write!(err, "\r{shown}\x1b[K");
        let _ = err.flush();
        self.drawn.store(true, Ordering::Relaxed);
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        let Some(shared) = &self.shared else { return };
        *shared.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        shared.changed.notify_all();
        if let Some(pulse) = self.pulse.take() {
            let _ = pulse.join();
        }
        if shared.drawn.load(Ordering::Relaxed) {
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "\r\x1b[K");
            let _ = err.flush();
        }
    }
}

/// Columns of the terminal on stderr; 80 where it does not tell.
pub fn terminal_width() -> usize {
    columns(libc::STDERR_FILENO).unwrap_or(80)
}
