//! Waiting for many sockets at once.

use super::clock::NEVER;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::io;

/// Events that one wait may bring.
pub(super) const EVENTS: usize = 1024;

const NS_PER_S: u64 = 1_000_000_000;

/// The sockets of a thread, each with a number.
pub(super) struct Poll {
    epoll: OwnedFd,
    events: Vec<Event>,
    /// Whether `epoll_pwait2` can be called. Kernels before 5.11 do not have it, and some sandboxes forbid what they
    /// do not know.
    waits_exactly: bool,
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
    pub fn new() -> io::Result<Poll> {
        Ok(Poll {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS),
            waits_exactly: true,
        })
    }

    /// Watches a socket until it is closed. Each change is told once, so a reader must read all there
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

    /// Waits until something happens, at most `timeout_ns`; returns how much did. [`NEVER`] waits
    /// without an end.
    pub fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        let timeout = (timeout_ns != NEVER).then_some(Timespec {
            tv_sec: (timeout_ns / NS_PER_S) as i64,
            tv_nsec: (timeout_ns % NS_PER_S) as i64,
        });
        self.events.clear();
        let waited = match self.waits_exactly {
            true => epoll::wait(
                &self.epoll,
                spare_capacity(&mut self.events),
                timeout.as_ref(),
            ),
            false => self.wait_in_two_steps(timeout.as_ref()),
        };
        match waited {
            Ok(count) => Ok(count),
            Err(Errno::INTR) => Ok(0),
            Err(Errno::NOSYS | Errno::PERM) if self.waits_exactly => {
                self.waits_exactly = false;
                self.wait(timeout_ns)
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
