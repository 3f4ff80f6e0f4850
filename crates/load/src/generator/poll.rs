//! Waiting for many sockets and a point of time at once.
//!
//! The time is kept by a timer among the sockets. A time limit of each wait would be set up and taken back with every
//! answer that comes before it; the timer is set once for each point of time, however many answers come.

use super::clock::{Clock, NEVER};
use super::timer::Timer;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::io;

/// Events that one wait may bring.
pub(super) const EVENTS: usize = 1024;

/// The number of the timer, which no socket has.
const TIMER: u64 = u64::MAX;

const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// The sockets of a thread, each with a number.
pub(super) struct Poll {
    epoll: OwnedFd,
    events: Vec<Event>,
    timer: Timer,
    /// When the timer goes off; [`NEVER`] when it is not set, or has gone off.
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
    pub fn new(clock: Clock) -> io::Result<Poll> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = Timer::new(clock)?;
        // Each time that it goes off is one event, so it is never read.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), flags)?;
        Ok(Poll {
            epoll,
            events: Vec::with_capacity(EVENTS),
            timer,
            rings_ns: NEVER,
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

    /// Waits until something happens to a socket, at most until a time; [`NEVER`] waits without an end, and a time that
    /// is not after `now_ns` does not wait. Returns how much happened, and how many system calls that took.
    pub fn wait(&mut self, now_ns: u64, until_ns: u64) -> io::Result<(usize, u64)> {
        let mut calls = 1;
        let waits = until_ns > now_ns;
        if waits && until_ns != self.rings_ns && until_ns != NEVER {
            self.timer.set(until_ns)?;
            self.rings_ns = until_ns;
            calls += 1;
        }
        let limit = (!waits).then_some(&AT_ONCE);
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), limit) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(at) = self.events.iter().position(is_of_timer) {
            self.events.swap_remove(at);
            self.rings_ns = NEVER;
        }
        Ok((self.events.len(), calls))
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

fn is_of_timer(event: &Event) -> bool {
    let data = event.data;
    data.u64() == TIMER
}
