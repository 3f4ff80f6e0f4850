//! A timer of the operating system that is exact to the nanosecond and goes off at a point of time.

use super::clock::Clock;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;

/// A timer that can be set again and again (timerfd_create(2)).
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

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.timer.as_raw_fd()
    }
}
