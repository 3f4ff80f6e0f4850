//! The user's wish to stop: Ctrl-C, or a polite kill of ourselves. Start at [`on_interrupt`] and [`interrupted`].

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Signals this close together are one wish: `timeout`, `npm` and `make` pass on a Ctrl-C that the terminal has
/// already sent to us. Nobody presses the key twice as fast.
const SAME_WISH: Duration = Duration::from_millis(100);

static REQUESTED: AtomicBool = AtomicBool::new(false);
/// When the wish that is being honoured came, in ns since the handlers were registered.
static REQUESTED_AT: AtomicU64 = AtomicU64::new(0);
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT, SIGTERM and SIGHUP set [`interrupted`] instead of ending us at once; a
/// second one, while the first is being honoured, ends us with status 130. Calling it again does nothing.
///
/// # Errors
/// The handlers could not be installed.
pub fn on_interrupt() -> io::Result<()> {
    if IS_REGISTERED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let start = Instant::now();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // SAFETY: the handler reads the clock, touches atomics and may end the process: all of it is safe in a handler.
        unsafe { low_level::register(signal, move || request(start))? };
    }
    Ok(())
}

fn request(start: Instant) {
    let now = start.elapsed();
    if !REQUESTED.load(Ordering::Relaxed) {
        REQUESTED_AT.store(now.as_nanos() as u64, Ordering::Relaxed);
        REQUESTED.store(true, Ordering::Relaxed);
    } else if now > Duration::from_nanos(REQUESTED_AT.load(Ordering::Relaxed)) + SAME_WISH {
        low_level::exit(130);
    }
}

/// Why something was not done: the user ended it before the first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted before anything was measured")]
pub struct Interrupted;

/// Ends a step before the first run whose result means nothing if the user wants us to stop.
///
/// # Errors
/// The user wants us to stop.
pub fn check_interrupted() -> Result<(), Interrupted> {
    if interrupted() {
        Err(Interrupted)
    } else {
        Ok(())
    }
}

/// Whether the user wants us to stop.
pub fn interrupted() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// The flag behind [`interrupted`], for loops that look at it themselves.
pub fn interrupt_flag() -> &'static AtomicBool {
    &REQUESTED
}

/// Wants us to stop as a user would: whoever we work for has gone away.
pub fn interrupt() {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// Forgets a wish that has been honoured.
pub fn forget_interrupt() {
    REQUESTED.store(false, Ordering::Relaxed);
}
