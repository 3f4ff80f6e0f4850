//! Provides the time for everything that only waits, such as timeouts, grace periods and pauses.
//! Tests can move this time by hand.
//!
//! Measurements read the machine's clock directly. A [`WaitClock`] serves decisions such as "this
//! took too long" and "try again later". The real clock costs one branch in addition to reading the
//! time. Start at [`WaitClock::now`].
//!
//! Processes and sockets take real time, even with a movable clock. A loop that waits for them
//! calls [`WaitClock::max_wait`] to learn how long to wait until the next check of the clock. The
//! loop then calls [`WaitClock::now`] to find out whether its time is up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Interval at which a loop that waits for a process or a socket checks a movable clock.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The clock that timeouts and pauses use. The default is the real clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct WaitClock(Option<&'static ManualTime>);

/// A time that stands still until a test moves it.
#[derive(Debug)]
struct ManualTime {
    begin: Instant,
    passed_ns: AtomicU64,
}

impl WaitClock {
    /// The monotonic clock of the machine.
    pub const REAL: WaitClock = WaitClock(None);

    /// A clock for tests, which stands still until [`WaitClock::advance`] or [`WaitClock::pause`]
    /// moves it. The few bytes of the clock are leaked, so that it can be copied into threads.
    pub fn movable() -> WaitClock {
        WaitClock(Some(Box::leak(Box::new(ManualTime {
            begin: Instant::now(),
            passed_ns: AtomicU64::new(0),
        }))))
    }

    /// Whether this clock is moved by hand.
    #[inline]
    pub fn is_movable(self) -> bool {
        self.0.is_some()
    }

    /// The current time.
    #[inline]
    pub fn now(self) -> Instant {
        match self.0 {
            None => Instant::now(),
            Some(manual) => {
                manual.begin + Duration::from_nanos(manual.passed_ns.load(Ordering::SeqCst))
            }
        }
    }

    /// Time since an earlier moment of this clock; zero if the moment lies in the future.
    #[inline]
    pub fn elapsed_since(self, moment: Instant) -> Duration {
        self.now().saturating_duration_since(moment)
    }

    /// Time until a later moment of this clock; zero if the moment has passed.
    pub fn time_until(self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.now())
    }

    /// Moves a movable clock and all its copies. Does not affect a real clock.
    pub fn advance(self, by: Duration) {
        if let Some(manual) = self.0 {
            let by_ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
            manual.passed_ns.fetch_add(by_ns, Ordering::SeqCst);
        }
    }

    /// Lets time pass, for example before a retry. A movable clock is moved immediately.
    pub fn pause(self, time: Duration) {
        if self.0.is_some() { self.advance(time) } else { std::thread::sleep(time) }
    }

    /// Maximum length of a single wait for a process or a socket, if the remaining time by this
    /// clock is `longest`. With a movable clock, each single wait is short, because the clock may
    /// be moved during the wait.
    #[inline]
    pub fn max_wait(self, longest: Duration) -> Duration {
        if self.0.is_some() { longest.min(POLL_INTERVAL) } else { longest }
    }

    /// Sleeps for `interval` of real time, or less with a movable clock, between two checks of a
    /// process or a socket.
    pub fn wait(self, interval: Duration) {
        std::thread::sleep(self.max_wait(interval));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_movable_clock_and_its_copies_move_only_when_advanced() {
        let clock = WaitClock::movable();
        let (begin, copy) = (clock.now(), clock);
        assert_eq!(copy.elapsed_since(begin), Duration::ZERO);
        std::thread::spawn(move || copy.advance(HOUR)).join().unwrap();
        assert_eq!(clock.elapsed_since(begin), HOUR);
        assert_eq!(clock.time_until(begin + 3 * HOUR), 2 * HOUR);
        assert_eq!(clock.time_until(begin), Duration::ZERO);
    }

    #[test]
    fn a_pause_advances_a_movable_clock_and_a_wait_does_not() {
        let clock = WaitClock::movable();
        let begin = clock.now();
        clock.pause(HOUR);
        assert_eq!(clock.elapsed_since(begin), HOUR);
        clock.wait(HOUR);
        assert_eq!(clock.elapsed_since(begin), HOUR);
        assert_eq!(clock.max_wait(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn a_real_clock_runs_by_itself_and_cannot_be_moved() {
        let clock = WaitClock::default();
        let begin = clock.now();
        clock.advance(HOUR);
        clock.pause(Duration::from_millis(1));
        let passed = clock.elapsed_since(begin);
        assert!(passed >= Duration::from_millis(1) && passed < HOUR);
        assert_eq!(clock.max_wait(HOUR), HOUR);
        assert!(!clock.is_movable() && WaitClock::movable().is_movable());
    }
}
