//! A timer in the runtime that is exact to the nanosecond. The runtime's own timers count milliseconds, which would
//! be late for most requests of a schedule.

use crate::generator::clock::Clock;
use crate::generator::timer::Timer;
use std::io;
use std::task::{Context, Poll};
use tokio::io::unix::AsyncFd;

/// One alarm, which can be set again and again.
pub(super) struct Alarm {
    timer: AsyncFd<Timer>,
}

impl Alarm {
    /// Must be called within the runtime.
    pub fn new(clock: Clock) -> io::Result<Alarm> {
        let timer = Timer::new(clock)?;
        // SAFETY: a timer's descriptor is open until it is dropped, and always the same.
        let timer = unsafe { AsyncFd::register(timer)? };
        Ok(Alarm { timer })
    }

    /// Rings once, at this time of the load, and not when it was set to ring before.
    pub fn set(&self, at_ns: u64) -> io::Result<()> {
        self.timer.get_ref().set(at_ns)
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
