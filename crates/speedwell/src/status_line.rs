//! Draws one line on stderr and redraws it in place. The line is meant for terminals only.
//!
//! This module decides when to draw, and erases the line at the end. The caller provides the text.
//! Start at [`StatusLine::new`].

use speedwell_compat::console::terminal_columns;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the line is redrawn while nothing happens, so that elapsed times advance.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Delay before the first drawing: a line for shorter work would only flicker.
const FIRST_DELAY: Duration = Duration::from_millis(200);

/// Whether a line is on the screen. The line must be cleared before anything else is printed.
static IS_DRAWN: AtomicBool = AtomicBool::new(false);

/// Produces the current text each time the line is drawn; `None` clears the line.
type LineText = dyn Fn() -> Option<String> + Send + Sync;

/// The line on the screen. Dropping this value clears the line.
pub struct StatusLine {
    shared: Option<Arc<SharedLine>>,
    redraw: Option<JoinHandle<()>>,
}

struct SharedLine {
    text: Box<LineText>,
    has_ended: Mutex<bool>,
    changed: Condvar,
}

impl StatusLine {
    /// Creates a line that is shown only if `is_visible`.
    pub fn new(
        is_visible: bool,
        text: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> StatusLine {
        let shared = is_visible.then(|| {
            Arc::new(SharedLine {
                text: Box::new(text),
                has_ended: Mutex::new(false),
                changed: Condvar::new(),
            })
        });
        let redraw_line = shared.clone();
        StatusLine {
            shared,
            redraw: redraw_line.map(|shared| std::thread::spawn(move || shared.redraw())),
        }
    }

    /// Draws the line with its current text.
    pub fn draw(&self) {
        if let Some(shared) = &self.shared {
            shared.draw();
        }
    }
}

impl SharedLine {
    fn redraw(&self) {
        let mut wait = FIRST_DELAY;
        let mut has_ended = self.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        while !*has_ended {
            let result = self.changed.wait_timeout(has_ended, wait);
            has_ended = result.unwrap_or_else(PoisonError::into_inner).0;
            if !*has_ended {
                self.draw();
            }
            wait = REDRAW_INTERVAL;
        }
    }

    fn draw(&self) {
        match (self.text)() {
            Some(text) => draw_line(&text),
            None => clear_line(),
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        let Some(shared) = &self.shared else { return };
        *shared.has_ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        shared.changed.notify_all();
        if let Some(redraw) = self.redraw.take() {
            let _ = redraw.join();
        }
        clear_line();
    }
}

/// Replaces the current line.
pub fn draw_line(text: &str) {
    let width = terminal_width().saturating_sub(1);
    let visible: String = text.chars().take(width).collect();
    let mut err = std::io::stderr().lock();
    // "\x1b[K" erases to the end of the line.
    let _ = write!(err, "\r{visible}\x1b[K");
    let _ = err.flush();
    IS_DRAWN.store(true, Ordering::Relaxed);
}

/// Clears the line, if there is one, so that messages start at the first column.
pub fn clear_line() {
    let mut err = std::io::stderr().lock();
    if IS_DRAWN.swap(false, Ordering::Relaxed) {
        let _ = write!(err, "\r\x1b[K");
        let _ = err.flush();
    }
}

/// Returns the width of the terminal on stderr, or 80 if unknown.
pub fn terminal_width() -> usize {
    terminal_columns(std::io::stderr()).unwrap_or(80)
}
