//! Provides the load clock, and a timer that follows it. The load clock counts the time since the
//! start of the load.
//!
//! The operating system times all waits by its own clock. If a test can move the load clock, every
//! wait is therefore cut short, and the event loop notices the new time.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::io;
use std::time::{Duration, Instant};

/// Sentinel for a time that never comes.
pub(super) const NEVER: u64 = u64::MAX;

/// Interval at which threads hand over their counts, adapt their pauses and check whether to stop.
pub(super) const TICK_NS: u64 = 100_000_000;

const NS_PER_S: u64 = 1_000_000_000;

/// Counts nanoseconds since the start of the load. All threads have the same start.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadClock {
    time: speedwell_model::clock::WaitClock,
    start: Instant,
    /// The start time on the operating system's monotonic clock.
    system_start_ns: u64,
}

impl LoadClock {
    pub fn start(time: speedwell_model::clock::WaitClock) -> LoadClock {
        LoadClock { time, start: time.now(), system_start_ns: system_ns() }
    }

    /// Current time. Reading the monotonic clock takes no system call (vDSO).
    pub fn now_ns(&self) -> u64 {
        self.time.elapsed_since(self.start).as_nanos() as u64
    }

    /// Converts an instant to load time. With a movable clock, returns the current load time
    /// instead.
    #[cfg(feature = "http3")]
    pub fn to_load_ns(self, moment: Instant) -> u64 {
        if self.time.is_movable() {
            return self.now_ns();
        }
        moment.duration_since(self.start).as_nanos() as u64
    }

    /// Limits a wait to the interval at which a movable clock must be checked. Other clocks need no
    /// limit.
    pub fn max_wait_ns(&self, longest_ns: u64) -> u64 {
        if !self.time.is_movable() {
            return longest_ns;
        }
        self.max_wait(Duration::from_nanos(longest_ns)).as_nanos() as u64
    }

    pub fn max_wait(&self, longest: Duration) -> Duration {
        self.time.max_wait(longest)
    }

    /// Converts load time to the operating system's monotonic clock.
    fn to_system_time(self, at_ns: u64) -> Timespec {
        to_timespec(self.system_start_ns.saturating_add(at_ns))
    }
}

fn to_timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / NS_PER_S) as i64, tv_nsec: (ns % NS_PER_S) as i64 }
}

fn system_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}

/// A resettable operating system timer with nanosecond resolution (timerfd_create(2)).
#[derive(Debug)]
pub(super) struct LoadTimer {
    timer: OwnedFd,
    clock: LoadClock,
}

impl LoadTimer {
    /// Creates an unarmed timer.
    pub fn new(clock: LoadClock) -> io::Result<LoadTimer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(LoadTimer { timer, clock })
    }

    /// Arms the timer to fire once at this load time, or immediately if the time has passed. This
    /// replaces any earlier setting. With a movable clock, the timer fires periodically instead.
    pub fn arm(&self, at_ns: u64) -> io::Result<()> {
        let (flags, first, interval) = if self.clock.time.is_movable() {
            let poll_interval = to_timespec(self.clock.max_wait_ns(NEVER));
            (TimerfdTimerFlags::empty(), poll_interval, poll_interval)
        } else {
            let deadline = self.clock.to_system_time(at_ns);
            (TimerfdTimerFlags::ABSTIME, deadline, to_timespec(0))
        };
        let time = Itimerspec { it_interval: interval, it_value: first };
        timerfd_settime(&self.timer, flags, &time)?;
        Ok(())
    }
}

impl AsFd for LoadTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
