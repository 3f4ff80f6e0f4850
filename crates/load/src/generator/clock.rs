//! Time since the start of the load, and a timer that goes off at such a time.
//!
//! What the operating system waits for goes by its own time. When a test moves the clock, every wait ends after a moment, so
//! that the loop sees what time it is.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::io;
use std::time::{Duration, Instant};

/// No time: for moments that have not come.
pub(super) const NEVER: u64 = u64::MAX;

/// Threads hand over what they counted, and look at themselves, this often.
pub(super) const TICK_NS: u64 = 100_000_000;

const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds since the start of the load, which all threads share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    time: speedwell_clock::Clock,
    start: Instant,
    /// The same moment on the monotonic clock of the operating system.
    system_start_ns: u64,
}

impl Clock {
    /// Begins now.
    pub fn start(time: speedwell_clock::Clock) -> Clock {
        Clock {
            time,
            start: time.now(),
            system_start_ns: system_ns(),
        }
    }

    /// Now. The monotonic clock costs no system call (vDSO).
    pub fn now_ns(&self) -> u64 {
        self.time.since(self.start).as_nanos() as u64
    }

    /// A moment of real time as a time of the load.
    #[cfg(feature = "http3")]
    pub fn time_of(&self, moment: Instant) -> u64 {
        if self.time.is_movable() {
            return self.now_ns();
        }
        moment.duration_since(self.start).as_nanos() as u64
    }

    /// How long a wait of so long may last before the clock is looked at again.
    pub fn turn_ns(&self, longest_ns: u64) -> u64 {
        if !self.time.is_movable() {
            return longest_ns;
        }
        self.turn(Duration::from_nanos(longest_ns)).as_nanos() as u64
    }

    /// See [`Clock::turn_ns`].
    pub fn turn(&self, longest: Duration) -> Duration {
        self.time.turn(longest)
    }

    /// A time of the load on the monotonic clock of the operating system.
    fn system_time(&self, at_ns: u64) -> Timespec {
        timespec(self.system_start_ns.saturating_add(at_ns))
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / NS_PER_S) as i64,
        tv_nsec: (ns % NS_PER_S) as i64,
    }
}

fn system_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}

/// A timer of the operating system that is exact to the nanosecond, and can be set again and again (timerfd_create(2)).
#[derive(Debug)]
pub(super) struct Timer {
    timer: OwnedFd,
    clock: Clock,
}

impl Timer {
    /// A timer that is not set.
    pub fn new(clock: Clock) -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Timer { timer, clock })
    }

    /// Goes off once, at this time of the load or at once if it is over, and not when it was set to before. On a clock that
    /// is moved it goes off again and again.
    pub fn set(&self, at_ns: u64) -> io::Result<()> {
        let (flags, first, again) = if self.clock.time.is_movable() {
            let soon = timespec(self.clock.turn_ns(NEVER));
            (TimerfdTimerFlags::empty(), soon, soon)
        } else {
            let at = self.clock.system_time(at_ns);
            (TimerfdTimerFlags::ABSTIME, at, timespec(0))
        };
        let time = Itimerspec {
            it_interval: again,
            it_value: first,
        };
        timerfd_settime(&self.timer, flags, &time)?;
        Ok(())
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
