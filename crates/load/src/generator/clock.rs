//! Time since the start of the load, and a timer that goes off at such a time.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::io;
use std::time::Instant;

/// No time: for moments that have not come.
pub(super) const NEVER: u64 = u64::MAX;

/// Threads hand over what they counted, and look at themselves, this often.
pub(super) const TICK_NS: u64 = 100_000_000;

const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds since the start of the load, which all threads share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    start: Instant,
    /// The same moment on the monotonic clock of the operating system.
    system_start_ns: u64,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Clock {
        Clock {
            start: Instant::now(),
            system_start_ns: system_ns(),
        }
    }

    /// Now. The monotonic clock costs no system call (vDSO).
    pub fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// A moment as a time of the load.
    #[cfg(feature = "http3")]
    pub fn time_of(&self, moment: Instant) -> u64 {
        moment.duration_since(self.start).as_nanos() as u64
    }

    /// A time of the load on the monotonic clock of the operating system.
    pub fn system_time(&self, at_ns: u64) -> Timespec {
        let ns = self.system_start_ns.saturating_add(at_ns);
        Timespec {
            tv_sec: (ns / NS_PER_S) as i64,
            tv_nsec: (ns % NS_PER_S) as i64,
        }
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

    /// Goes off once, at this time of the load or at once if it is over, and not when it was set to before.
    pub fn set(&self, at_ns: u64) -> io::Result<()> {
        let time = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: self.clock.system_time(at_ns),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &time)?;
        Ok(())
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
