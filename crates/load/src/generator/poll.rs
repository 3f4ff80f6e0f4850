//! Waiting for many sockets at once, until a time.
//!
//! The time limit of a wait is set up and taken back by each wait. Where waits end at a time that many of them have in
//! common, a timer among the sockets is set once for that time instead. That is so for open loads, whose waits end when
//! the next request is due, whatever is answered before. Closed loads have time limits: beside a timer that is set far
//! ahead, a client that waits for each answer was slower by a fifth on a virtual machine.

use super::clock::{Clock, NEVER, Timer};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::io;

/// Events that one wait may bring.
pub(super) const EVENTS: usize = 1024;

const NS_PER_S: u64 = 1_000_000_000;

/// The number of the timer, which no socket has.
const TIMER: u64 = u64::MAX;

/// The sockets of a thread, each with a number.
pub(super) struct Poll {
    epoll: OwnedFd,
    events: Vec<Event>,
    /// Whether `epoll_pwait2` can be called. Kernels before 5.11 do not have it, and some sandboxes forbid what they
    /// do not know.
    waits_exactly: bool,
    clock: Clock,
    /// What ends waits in place of time limits.
    alarm: Option<Alarm>,
}

/// A timer among the sockets.
struct Alarm {
    timer: Timer,
    /// When it goes off; [`NEVER`] when it is not set, or has gone off.
    rings_ns: u64,
}

/// What happened to a socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Happened {
    /// The number it was added with.
    pub token: u64,
    /// There is something to read, or an end to be found by reading.
    pub readable: bool,
    /// There is room to write, or an error to be found by writing.
    pub writable: bool,
    /// The other side has ended, or there is an error: reading must go on to the end.
    pub ended: bool,
}

impl Poll {
    /// Waits with time limits.
    pub fn with_limits(clock: Clock) -> io::Result<Poll> {
        Ok(Poll {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS),
            waits_exactly: true,
            clock,
            alarm: None,
        })
    }

    /// Waits with a timer.
    pub fn with_timer(clock: Clock) -> io::Result<Poll> {
        let mut poll = Poll::with_limits(clock)?;
        let timer = Timer::new(clock)?;
        // Each time that it goes off is one event, so it is never read.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&poll.epoll, &timer, EventData::new_u64(TIMER), flags)?;
        poll.alarm = Some(Alarm {
            timer,
            rings_ns: NEVER,
        });
        Ok(poll)
    }

    /// Watches a socket until it is closed. Each change is reported once, so a reader must read all there
    /// is; in return, writing needs no call to begin and end watching.
    pub fn add(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(
            &self.epoll,
            socket,
            EventData::new_u64(token),
            flags,
        )?)
    }

    /// Waits until something happens to a socket, at most until a time; [`NEVER`] waits without an end, and a time that
    /// is not after `now_ns` does not wait. Returns how much happened, and how many system calls that took.
    pub fn wait(&mut self, now_ns: u64, until_ns: u64) -> io::Result<(usize, u64)> {
        let Some(alarm) = &mut self.alarm else {
            let timeout_ns = if until_ns == NEVER {
                NEVER
            } else {
                self.clock.turn_ns(until_ns.saturating_sub(now_ns))
            };
            return Ok((self.wait_at_most(timeout_ns)?, 1));
        };
        if until_ns <= now_ns {
            self.wait_at_most(0)?;
            return Ok((self.without_alarm(), 1));
        }
        let is_new = until_ns != alarm.rings_ns && until_ns != NEVER;
        if is_new {
            alarm.timer.set(until_ns)?;
            alarm.rings_ns = until_ns;
        }
        self.wait_at_most(NEVER)?;
        Ok((self.without_alarm(), 1 + u64::from(is_new)))
    }

    /// How much happened to sockets.
    fn without_alarm(&mut self) -> usize {
        let rang = self.events.iter().position(|event| {
            let data = event.data;
            data.u64() == TIMER
        });
        if let (Some(at), Some(alarm)) = (rang, &mut self.alarm) {
            self.events.swap_remove(at);
            alarm.rings_ns = NEVER;
        }
        self.events.len()
    }

    /// Waits until something happens, at most `timeout_ns`; returns how much did. [`NEVER`] waits
    /// without an end.
    fn wait_at_most(&mut self, timeout_ns: u64) -> io::Result<usize> {
        let timeout = (timeout_ns != NEVER).then_some(Timespec {
            tv_sec: (timeout_ns / NS_PER_S) as i64,
            tv_nsec: (timeout_ns % NS_PER_S) as i64,
        });
        self.events.clear();
        let waited = if self.waits_exactly {
            epoll::wait(
                &self.epoll,
                spare_capacity(&mut self.events),
                timeout.as_ref(),
            )
        } else {
            self.wait_in_two_steps(timeout.as_ref())
        };
        match waited {
            Ok(count) => Ok(count),
            Err(Errno::INTR) => Ok(0),
            Err(Errno::NOSYS | Errno::PERM) if self.waits_exactly => {
                self.waits_exactly = false;
                self.wait_at_most(timeout_ns)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits as exactly, with a call more: `ppoll` knows nanoseconds on every kernel, but only whether anything
    /// happened; what it was is then fetched without waiting.
    fn wait_in_two_steps(&mut self, timeout: Option<&Timespec>) -> Result<usize, Errno> {
        let mut watched = [PollFd::new(&self.epoll, PollFlags::IN)];
        if poll(&mut watched, timeout)? == 0 {
            return Ok(0);
        }
        let room = self.events.spare_capacity_mut();
        // SAFETY: the kernel writes at most `room.len()` events to memory that has room for them. `Event` has the
        // layout of the kernel's `epoll_event`, as `libc::epoll_event` has.
        let count = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                room.as_mut_ptr().cast(),
                room.len() as i32,
                0,
            )
        };
        let count = usize::try_from(count).map_err(|_| {
            Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
        })?;
        // SAFETY: so many events were written from the beginning of the memory on, which was empty.
        unsafe { self.events.set_len(count) };
        Ok(count)
    }

    /// What happened, by its place among what the last wait brought.
    pub fn happened(&self, at: usize) -> Happened {
        let Event { flags, data } = self.events[at];
        let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        Happened {
            token: data.u64(),
            readable: ended || flags.contains(EventFlags::IN),
            writable: ended || flags.contains(EventFlags::OUT),
            ended,
        }
    }
}
