//! What tasks tell the loop.

use super::classes::Failure;
use super::line::Up;
use crate::generator::sent::Lost;
use crate::http1::{Summary, Watch};
use crate::outcomes::ErrorClass;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Something happened on a connection.
pub(in crate::generator) struct Event {
    /// The number that the loop gave the connection.
    pub token: u64,
    /// When, in nanoseconds since the start of the load.
    pub at_ns: u64,
    pub what: What,
}

/// What happened.
pub(in crate::generator) enum What {
    /// Requests can be sent.
    Up(Box<Up>),
    /// No connection came about.
    NotUp(ErrorClass),
    /// The server takes no further requests.
    Closing,
    /// The connection is over.
    Lost(Lost),
    /// Something happened to a request, by its serial number on its place of the connection.
    Stream { slot: u32, serial: u64, news: News },
}

/// What happened to a request.
pub(in crate::generator) enum News {
    /// Its stream cannot be opened yet: the server allows no more.
    Waits,
    /// Its stream was opened after that.
    Opened,
    /// The head of an answer came, be it an interim one.
    Head,
    /// The whole answer came.
    Answered(Box<Answered>),
    /// There will be no whole answer.
    Failed(Failure),
}

/// A whole answer.
pub(in crate::generator) struct Answered {
    pub summary: Summary,
    /// What was kept of it, if it is looked at.
    pub watch: Option<Watch>,
}

/// Events of a thread on their way from the tasks to the loop.
#[derive(Default)]
pub(super) struct Events {
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    events: Vec<Event>,
    waker: Option<Waker>,
}

impl Events {
    /// The tasks and the loop share one thread, so the lock is always free; a panic while it was
    /// held leaves a list of whole events.
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn tell(&self, event: Event) {
        let mut inside = self.lock();
        inside.events.push(event);
        let waker = inside.waker.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.lock().events.is_empty()
    }

    /// Ready when there are events.
    pub fn poll(&self, context: &mut Context) -> Poll<()> {
        let mut inside = self.lock();
        if !inside.events.is_empty() {
            return Poll::Ready(());
        }
        inside.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Takes all events, and leaves memory for the next ones.
    pub fn take_into(&self, list: &mut Vec<Event>) {
        let mut inside = self.lock();
        inside.waker = None;
        list.clear();
        std::mem::swap(&mut inside.events, list);
    }
}
