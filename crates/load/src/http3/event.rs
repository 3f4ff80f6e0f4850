//! Passes events of connections and streams from the tasks to the event loop.

use crate::http3::failure::{ConnectionEnd, H3ConnectError, RequestFailure};
use bytes::Bytes;
use h3::client;
use http::HeaderMap;
use rustls::pki_types::CertificateDer;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// An event on a connection.
pub struct H3Event {
    /// The number passed to `H3Engine::connect`.
    pub connection: u64,
    /// Time of the event.
    pub at: Instant,
    /// Kind of event.
    pub kind: EventKind,
}

/// Kinds of connection events.
pub enum EventKind {
    /// Requests can be sent.
    Established(Box<EstablishedConnection>),
    /// The connection could not be established.
    NotEstablished(H3ConnectError),
    /// The server accepts no further requests.
    Closing,
    /// The connection has ended.
    Ended(ConnectionEnd),
    /// An event of a request.
    Stream(StreamKey, StreamEvent),
}

/// Sends requests on a connection.
pub(crate) type RequestSender = client::SendRequest<h3_quinn::OpenStreams, Bytes>;

/// An established connection; pass it to [`crate::http3::H3Connection::establish`] before sending
/// requests.
pub struct EstablishedConnection {
    pub(crate) sender: RequestSender,
    /// The protocol that ALPN selected.
    pub alpn: Vec<u8>,
    /// The server's certificate.
    pub certificate: Option<CertificateDer<'static>>,
}

/// Identifies a request within a connection. The caller chooses both numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamKey {
    /// Number of a slot, which holds one request at a time and is reused by later requests.
    pub slot: u32,
    /// Distinguishes successive requests in a slot.
    pub serial: u64,
}

/// Kinds of request events.
pub enum StreamEvent {
    /// The request head cannot be sent yet, usually because the server's stream limit is reached.
    Waits,
    /// The stream was opened after a [`StreamEvent::Waits`].
    Opened,
    /// A response head arrived, possibly an interim one.
    Head,
    /// The response is complete.
    Response(Box<H3Response>),
    /// The response will not be completed.
    Failed(RequestFailure),
}

/// A complete response.
#[derive(Debug, Clone, Default)]
pub struct H3Response {
    /// Status code.
    pub status: u16,
    /// Number of interim responses before this response (RFC 9110, section 15.2).
    pub interim: u32,
    /// Status code of the last interim response; 0 if there was none.
    pub interim_status: u16,
    /// Length of the body.
    pub body_bytes: u64,
    /// The parts kept for inspection, if they were requested.
    pub kept: Option<KeptResponse>,
}

/// Parts of a response kept for inspection.
#[derive(Debug, Clone, Default)]
pub struct KeptResponse {
    /// Header fields.
    pub fields: HeaderMap,
    /// Beginning of the body.
    pub body: Vec<u8>,
}

/// Queue of events from the tasks to the event loop.
#[derive(Default)]
pub(crate) struct EventQueue {
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    events: Vec<H3Event>,
    waker: Option<Waker>,
}

impl EventQueue {
    /// Tasks and event loop share one thread, so the lock is never contended. The list is
    /// consistent even if a panic occurred while the lock was held.
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event with the current time.
    pub fn push_event(&self, connection: u64, kind: EventKind) {
        let at = Instant::now();
        let mut state = self.lock();
        state.events.push(H3Event { connection, at, kind });
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.lock().events.is_empty()
    }

    /// Becomes ready once there are events.
    pub fn poll(&self, context: &mut Context) -> Poll<()> {
        let mut state = self.lock();
        if !state.events.is_empty() {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Moves all events into `list`. The queue takes over the buffer of `list` for later events.
    pub fn drain_into(&self, list: &mut Vec<H3Event>) {
        let mut state = self.lock();
        state.waker = None;
        list.clear();
        std::mem::swap(&mut state.events, list);
    }
}
