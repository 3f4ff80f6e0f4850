//! A timer that is exact to the nanosecond. The runtime's own timers count milliseconds, which would
//! be late for most requests of a schedule.

use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::task::{Context, Poll};
use tokio::io::unix::AsyncFd;

const NS_PER_S: u64 = 1_000_000_000;

/// One alarm, which can be set again and again (timerfd_create(2)).
pub(super) struct Alarm {
    timer: AsyncFd<OwnedFd>,
}

impl Alarm {
    /// Must be called within the runtime.
    pub fn new() -> io::Result<Alarm> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: an `OwnedFd` is open until it is dropped, and always the same descriptor.
        let timer = unsafe { AsyncFd::register(timer)? };
        Ok(Alarm { timer })
    }

    /// Rings once, so many nanoseconds from now, and not when it was set to ring before.
    pub fn set(&self, after_ns: u64) -> io::Result<()> {
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let time = Itimerspec {
            it_interval: zero,
            it_value: Timespec {
                tv_sec: (after_ns / NS_PER_S) as i64,
                // A time of zero would switch the timer off.
                tv_nsec: (after_ns % NS_PER_S).max(1) as i64,
            },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time)?;
        Ok(())
    }

    /// Ready when it has rung. A timer that cannot be read has rung: the loop looks at its clock.
    pub fn poll(&self, context: &mut Context) -> Poll<()> {
        loop {
            let mut guard = match self.timer.poll_read_ready(context) {
                Poll::Ready(Ok(guard)) => guard,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            };
            let read = guard.try_io(|timer| {
                let mut count = [0; 8];
                rustix::io::read(timer, &mut count).map_err(io::Error::from)
            });
            if read.is_ok() {
                return Poll::Ready(());
            }
        }
    }
}
