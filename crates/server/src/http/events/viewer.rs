//! Serves one viewer of an event stream: queues the viewer's events, and sends them as the body of
//! the response.

use super::event::ServerEvent;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use hyper::body::{Bytes, Frame};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// Maximum number of events that a viewer may be behind.
pub(super) const MAX_EVENTS_BEHIND: usize = 64;

/// Events that one viewer has not received yet.
#[derive(Default)]
pub(super) struct ViewerQueue {
    pub pending: VecDeque<Bytes>,
    pub limit: usize,
    pub waker: Option<Waker>,
    pub has_ended: bool,
}

impl ViewerQueue {
    pub fn finish_with(&mut self, final_event: Option<&Bytes>) {
        self.pending.extend(final_event.cloned());
        self.has_ended = true;
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One viewer of an event stream. Dropping the viewer ends its stream.
///
/// ```
/// # use axum::{http::HeaderMap, response::Response};
/// # use speedwell_server::http::{HttpError, blocking::BlockingPool, events::{ServerEvent, EventHub}};
/// async fn handler(hub: EventHub, readers: BlockingPool, headers: HeaderMap) -> Result<Response, HttpError> {
///     let viewer = hub.add_viewer(&headers);
///     let mut first = Vec::new();
///     if viewer.needs_initial_events() {
///         // Events sent while the store is read come after this one.
///         first.push(ServerEvent::new("all", readers.run(|| "what the store says").await?));
///     }
///     Ok(viewer.into_stream_response(&first))
/// }
/// ```
pub struct EventViewer {
    queue: Arc<Mutex<ViewerQueue>>,
    /// Encoded initial events. They describe the state when the viewer connected.
    first: Option<Bytes>,
    /// Id of the newest event when the viewer connected. `None` if the viewer needs no initial
    /// events.
    since: Option<u64>,
    heartbeat: Duration,
    /// Created on the first poll, because a viewer may be created outside the server's runtime.
    timer: Option<Pin<Box<Sleep>>>,
}

impl fmt::Debug for EventViewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Viewer").field("since", &self.since).finish_non_exhaustive()
    }
}

impl EventViewer {
    pub(super) fn new(
        queue: Arc<Mutex<ViewerQueue>>,
        since: Option<u64>,
        heartbeat: Duration,
    ) -> EventViewer {
        EventViewer { queue, first: None, since, heartbeat, timer: None }
    }

    /// Sets the initial events, if there are any.
    pub(super) fn set_initial_events(&mut self, first: &[ServerEvent]) {
        // The initial events stand for all events up to `since`, so they carry this id. The viewer
        // sends the id when it reconnects.
        let first: Vec<Bytes> = first.iter().map(|event| event.encode(self.since)).collect();
        self.first = (!first.is_empty()).then(|| first.concat().into());
    }

    /// Whether the viewer needs the initial events. True if it is new or was away for too long.
    pub fn needs_initial_events(&self) -> bool {
        self.since.is_some()
    }

    /// Returns a handler's response: `first`, then the events sent since the viewer connected.
    pub fn into_stream_response(mut self, first: &[ServerEvent]) -> Response {
        self.set_initial_events(first);
        let mut response = Response::new(Body::new(self));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    pub(super) fn poll_text(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.first.is_some() {
            return Poll::Ready(self.first.take());
        }
        let text = {
            let mut queue = lock(&self.queue);
            match queue.pending.len() {
                0 if queue.has_ended => return Poll::Ready(None),
                0 => {
                    queue.waker = Some(cx.waker().clone());
                    None
                }
                // All pending events go out together.
                _ => {
                    queue.limit = MAX_EVENTS_BEHIND;
                    Some(queue.pending.drain(..).collect::<Vec<_>>().concat().into())
                }
            }
        };
        let heartbeat = self.heartbeat;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(heartbeat)));
        let text = match text {
            Some(text) => text,
            None => {
                ready!(timer.as_mut().poll(cx));
                Bytes::from_static(b":\n\n")
            }
        };
        timer.as_mut().reset(Instant::now() + heartbeat);
        Poll::Ready(Some(text))
    }
}

impl hyper::body::Body for EventViewer {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.poll_text(cx).map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}
