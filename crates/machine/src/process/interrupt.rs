//! Handles interrupts by the user: Ctrl-C, or a signal that asks this process to end. Start at
//! [`install_handlers`] and [`is_interrupt_requested`].

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

/// Signals this close together count as one interrupt. On Ctrl-C, the terminal sends a signal to us
/// and to a parent such as `timeout`, `npm` or `make`. The parent forwards the signal, so we get it
/// twice. No user presses the key twice that fast.
const DEBOUNCE_TIME: Duration = Duration::from_millis(100);

/// Interval between checks for a reason to stop.
const ALARM_INTERVAL: Duration = Duration::from_millis(20);

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// When the current interrupt arrived, in ns since the handlers were registered.
static INTERRUPTED_AT_NS: AtomicU64 = AtomicU64::new(0);
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// Makes [`is_interrupt_requested`] return true after SIGINT, SIGTERM or SIGHUP, instead of letting
/// the signal end the process. A second signal ends the process with status 130 if the interrupt
/// has not been cleared and `DEBOUNCE_TIME` has passed. Calling this function again has no effect.
///
/// # Errors
/// Fails if the handlers could not be installed.
pub fn install_handlers() -> io::Result<()> {
    if IS_REGISTERED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let start = Instant::now();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // SAFETY: the handler reads the clock, accesses atomics and may exit the process, all of
        // which is async-signal-safe.
        unsafe { low_level::register(signal, move || handle_signal(start))? };
    }
    Ok(())
}

fn handle_signal(start: Instant) {
    let now = start.elapsed();
    if !IS_INTERRUPTED.load(Ordering::Relaxed) {
        INTERRUPTED_AT_NS.store(now.as_nanos() as u64, Ordering::Relaxed);
        IS_INTERRUPTED.store(true, Ordering::Relaxed);
    } else if now > Duration::from_nanos(INTERRUPTED_AT_NS.load(Ordering::Relaxed)) + DEBOUNCE_TIME
    {
        low_level::exit(130);
    }
}

/// Error: the user interrupted before the first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted before anything was measured")]
pub struct InterruptedEarly;

/// Returns an error if the user has interrupted us. Called by the steps before the first run, whose
/// results are useless if nothing will be measured.
///
/// # Errors
/// Fails if the user interrupted.
pub fn check_interrupted() -> Result<(), InterruptedEarly> {
    if is_interrupt_requested() { Err(InterruptedEarly) } else { Ok(()) }
}

/// Whether the user has interrupted us.
pub fn is_interrupt_requested() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}

/// Returns the flag that [`is_interrupt_requested`] reads, for callers that poll it themselves.
pub fn interrupt_flag() -> &'static AtomicBool {
    &IS_INTERRUPTED
}

/// Calls `work` with a flag, which is set once the user interrupts us or `has_alarm` returns true.
pub fn with_stop_flag<T>(
    has_alarm: impl Fn() -> bool + Sync,
    work: impl FnOnce(&AtomicBool) -> T,
) -> T {
    let (stop, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        // Start this thread before `work` raises the priority. With normal priority, the thread
        // does not compete with a load generator.
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                if is_interrupt_requested() || has_alarm() {
                    stop.store(true, Ordering::Relaxed);
                }
                thread::sleep(ALARM_INTERVAL);
            }
        });
        let result = work(&stop);
        has_ended.store(true, Ordering::Relaxed);
        result
    })
}

/// Interrupts this process as Ctrl-C would, for example because its client has gone away.
pub fn request_interrupt() {
    IS_INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Clears an interrupt that has been handled.
pub fn clear_interrupt() {
    IS_INTERRUPTED.store(false, Ordering::Relaxed);
}

// Announces work other than measuring, such as a long compilation, so that the status line can show
// it. Work is announced even if no status line is shown.

static RUNNING: Mutex<Vec<(u64, String)>> = Mutex::new(Vec::new());

/// Keeps work announced until the guard is dropped.
#[derive(Debug)]
pub struct ActivityGuard(u64);

/// Announces work in a few words, such as `compiling x.cpp with c++`.
pub fn begin_activity(description: impl Into<String>) -> ActivityGuard {
    let mut running = lock_running();
    let number = running.last().map_or(0, |(number, _)| number + 1);
    running.push((number, description.into()));
    ActivityGuard(number)
}

/// Returns the most recently started work that has not ended.
pub fn current_activity() -> Option<String> {
    lock_running().last().map(|(_, description)| description.clone())
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        lock_running().retain(|(number, _)| *number != self.0);
    }
}

fn lock_running() -> MutexGuard<'static, Vec<(u64, String)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_shown_until_it_ends() {
        // Other tests may compile at the same time, so only look for our own work.
        let is_running =
            |description: &str| lock_running().iter().any(|(_, running)| running == description);
        let first = begin_activity("first of two");
        let second = begin_activity("second of two");
        assert!(is_running("first of two") && is_running("second of two"));
        drop(first);
        assert!(!is_running("first of two") && is_running("second of two"));
        drop(second);
        assert!(!is_running("second of two"));
    }
}
