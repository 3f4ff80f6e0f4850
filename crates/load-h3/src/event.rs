//! What happens on connections and streams, on its way from the tasks to the loop.

use crate::failure::{ConnectError, Ended, Failure};
use bytes::Bytes;
use h3::client;
use http::HeaderMap;
use rustls::pki_types::CertificateDer;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Something happened on a connection.
pub struct Event {
    /// The number that the connection was given when it was begun.
    pub connection: u64,
    /// When it happened.
    pub at: Instant,
    /// What happened.
    pub what: What,
}

/// What happened on a connection.
pub enum What {
    /// Requests can be sent.
    Established(Box<Established>),
    /// No connection came about.
    NotEstablished(ConnectError),
    /// The server takes no further requests.
    Closing,
    /// The connection is over.
    Ended(Ended),
    /// Something happened to a request.
    Stream(StreamKey, StreamEvent),
}

/// Sends requests on a connection.
pub(crate) type Sender = client::SendRequest<h3_quinn::OpenStreams, Bytes>;

/// A connection came about: requests can be sent after [`Connection::establish`].
pub struct Established {
    pub(crate) sender: Sender,
    /// What ALPN agreed on.
    pub alpn: Vec<u8>,
    /// The server's certificate.
    pub certificate: Option<CertificateDer<'static>>,
}

/// Which request of a connection; whoever sends it chooses both numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamKey {
    /// A place that is used again for later requests.
    pub slot: u32,
    /// Distinguishes the requests of one place.
    pub serial: u64,
}

/// What happened to a request.
pub enum StreamEvent {
    /// Its stream cannot be opened yet: the server allows no more.
    Waits,
    /// Its stream was opened after that.
    Opened,
    /// The head of a response came, be it an interim one.
    Head,
    /// The whole response came.
    Response(Box<Response>),
    /// There will be no whole response.
    Failed(Failure),
}

/// A whole response.
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Interim responses before it (RFC 9110, section 15.2).
    pub interim: u32,
    /// The status of the last of them; 0 without any.
    pub interim_status: u16,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// What was kept of it, if anything was to be.
    pub kept: Option<Kept>,
}

/// What is kept of a response for a closer look.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// Its header fields.
    pub fields: HeaderMap,
    /// The beginning of its body.
    pub body: Vec<u8>,
}

/// Events of an engine on their way from the tasks to the loop.
#[derive(Default)]
pub(crate) struct Events {
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

    /// Adds what happened just now.
    pub fn report(&self, connection: u64, what: What) {
        let at = Instant::now();
        let mut inside = self.lock();
        inside.events.push(Event {
            connection,
            at,
            what,
        });
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
