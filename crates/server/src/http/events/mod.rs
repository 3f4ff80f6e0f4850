//! Sends event streams to browsers (server-sent events, WHATWG HTML 9.2).
//!
//! An [`EventHub`] encodes each event once and sends it to all viewers. A viewer that reconnects
//! sends the id of the last event that it has seen. If the hub still keeps all later events, the
//! viewer gets them. Otherwise, it gets the initial events, like a new viewer. A viewer that is
//! more than 64 events behind is disconnected, so that it reconnects.

use crate::http::FramePoll;
use crate::http::lock;
use crate::http::options::{ServerStopper, StopListener};
use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use hyper::body::{Bytes, Frame};
use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, Sleep, sleep};

/// Number of events that a hub keeps for viewers that reconnect.
const MAX_REPLAYED_EVENTS: usize = 256;
/// Interval at which an idle stream sends a comment, so that proxies and browsers keep it open.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Broadcasts events to all viewers, and never waits for a viewer. Clones refer to the same hub.
///
/// ```
/// use axum::http::HeaderMap;
/// use speedwell_server::http::events::{ServerEvent, EventHub};
///
/// let hub = EventHub::new();
/// let seen = hub.clone();
/// let router: axum::Router = axum::Router::new().route(
///     "/events",
///     axum::routing::get(move |headers: HeaderMap| async move {
///         seen.stream_response(&headers, || vec![ServerEvent::new("progress", "3 of 10")])
///     }),
/// );
/// hub.send_event(ServerEvent::new("progress", "4 of 10"));
/// ```
#[derive(Clone)]
pub struct EventHub {
    state: Arc<Mutex<HubState>>,
}

#[derive(Default)]
struct HubState {
    viewers: Vec<Weak<Mutex<ViewerQueue>>>,
    replayable: VecDeque<(u64, Bytes)>,
    /// Id of the newest event that was sent.
    newest_id: u64,
    /// Id of the newest event that is no longer kept.
    newest_dropped: u64,
    final_event: Option<Bytes>,
    has_ended: bool,
}

impl StopListener for Mutex<HubState> {
    fn on_stop(&self) {
        let mut wakers = Vec::new();
        {
            let mut state = lock(self);
            state.has_ended = true;
            let final_event = state.final_event.clone();
            for viewer in state.viewers.drain(..).filter_map(|viewer| viewer.upgrade()) {
                let mut queue = lock(&viewer);
                queue.finish_with(final_event.as_ref());
                wakers.extend(queue.waker.take());
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Default for EventHub {
    fn default() -> EventHub {
        EventHub::new()
    }
}

impl fmt::Debug for EventHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("viewers", &self.count_viewers()).finish()
    }
}

impl EventHub {
    /// Creates a hub without viewers.
    pub fn new() -> EventHub {
        // The first id is derived from the time, and so is greater than all ids of an earlier
        // process. A viewer of an earlier process therefore gets the initial events.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        EventHub::starting_at(u64::try_from(since.as_millis()).unwrap_or_default() << 10)
    }

    /// Creates a hub whose first event has the id after `newest_id`.
    pub fn starting_at(newest_id: u64) -> EventHub {
        let state = HubState { newest_id, newest_dropped: newest_id, ..HubState::default() };
        EventHub { state: Arc::new(Mutex::new(state)) }
    }

    /// Ends the streams when the server stops, after sending `final_event`.
    #[must_use]
    pub fn end_with_stopper(self, stopper: &ServerStopper, final_event: ServerEvent) -> EventHub {
        lock(&self.state).final_event = Some(final_event.encode(None));
        stopper.add_listener(&self.state);
        self
    }

    /// Returns the number of connected viewers.
    pub fn count_viewers(&self) -> usize {
        lock(&self.state).viewers.iter().filter(|viewer| viewer.strong_count() > 0).count()
    }

    /// Sends an event to all viewers and returns its id. If the streams have ended, sends nothing and
    /// returns the newest id.
    pub fn send_event(&self, event: ServerEvent) -> u64 {
        let mut wakers = Vec::new();
        let id = {
            let mut state = lock(&self.state);
            if state.has_ended {
                return state.newest_id;
            }
            let id = state.newest_id + 1;
            let bytes = event.encode(Some(id));
            state.newest_id = id;
            state.replayable.push_back((id, bytes.clone()));
            if state.replayable.len() > MAX_REPLAYED_EVENTS
                && let Some((dropped_id, _)) = state.replayable.pop_front()
            {
                state.newest_dropped = dropped_id;
            }
            state.viewers.retain(|viewer| {
                let Some(viewer) = viewer.upgrade() else {
                    return false;
                };
                let mut queue = lock(&viewer);
                if queue.pending.len() >= queue.limit {
                    queue.pending.clear();
                    queue.finish_with(None);
                } else {
                    queue.pending.push_back(bytes.clone());
                }
                wakers.extend(queue.waker.take());
                !queue.has_ended
            });
            id
        };
        wakers.into_iter().for_each(Waker::wake);
        id
    }

    /// Ends the streams of all current and later viewers.
    pub fn end_streams(&self) {
        self.state.on_stop();
    }

    /// Returns the stream of one viewer as a handler's response: the initial events if the viewer
    /// needs them, then the events sent since it connected.
    pub fn stream_response(
        &self,
        headers: &HeaderMap,
        initial_events: impl FnOnce() -> Vec<ServerEvent>,
    ) -> Response {
        let mut viewer = self.add_viewer(headers);
        if viewer.needs_initial_events() {
            viewer.set_initial_events(&initial_events());
        }
        let mut response = Response::new(Body::new(viewer));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// Registers a viewer for all events sent from now on. If the hub keeps all events after the
    /// request's `Last-Event-ID`, the viewer first receives these events. Otherwise, it [needs the
    /// initial events](EventViewer::needs_initial_events).
    fn add_viewer(&self, headers: &HeaderMap) -> EventViewer {
        let mut queue = ViewerQueue::default();
        let mut state = lock(&self.state);
        let last_seen = last_event_id(headers)
            .filter(|last_seen| (state.newest_dropped..=state.newest_id).contains(last_seen));
        if let Some(last_seen) = last_seen {
            let missed = state.replayable.iter().filter(|(id, _)| *id > last_seen);
            queue.pending.extend(missed.map(|(_, bytes)| bytes.clone()));
        }
        // The missed events do not count towards the viewer's limit.
        queue.limit = MAX_EVENTS_BEHIND + queue.pending.len();
        if state.has_ended {
            queue.finish_with(state.final_event.as_ref());
        }
        let queue = Arc::new(Mutex::new(queue));
        if !state.has_ended {
            state.viewers.push(Arc::downgrade(&queue));
        }
        let since = last_seen.is_none().then_some(state.newest_id);
        EventViewer { queue, first: None, since, timer: None }
    }
}

fn last_event_id(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.trim().parse().ok()
}

/// One event: a name and data of any number of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEvent {
    name: String,
    data: String,
}

impl ServerEvent {
    /// Creates an event. When the hub sends the event, the event gets the next id.
    pub fn new(name: impl Into<String>, data: impl Into<String>) -> ServerEvent {
        ServerEvent { name: name.into(), data: data.into() }
    }

    /// Encodes the event. Every line break in the data starts a new `data:` line.
    fn encode(&self, id: Option<u64>) -> Bytes {
        let mut text = String::with_capacity(self.data.len() + 64);
        let name = self.name.split(['\n', '\r']).next().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "event: {name}");
        if let Some(id) = id {
            let _ = writeln!(text, "id: {id}");
        }
        for line in self.data.replace("\r\n", "\n").split(['\n', '\r']) {
            let _ = writeln!(text, "data: {line}");
        }
        text.push('\n');
        text.into()
    }
}

/// Maximum number of events that a viewer may be behind.
const MAX_EVENTS_BEHIND: usize = 64;

/// Events that one viewer has not received yet.
#[derive(Default)]
struct ViewerQueue {
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

/// One viewer of an event stream. Dropping the viewer ends its stream.
struct EventViewer {
    queue: Arc<Mutex<ViewerQueue>>,
    /// Encoded initial events. They describe the state when the viewer connected.
    first: Option<Bytes>,
    /// Id of the newest event when the viewer connected. `None` if the viewer needs no initial
    /// events.
    since: Option<u64>,
    /// Created on the first poll, because a viewer may be created outside the server's runtime.
    timer: Option<Pin<Box<Sleep>>>,
}

impl EventViewer {
    /// Sets the initial events, if there are any.
    fn set_initial_events(&mut self, first: &[ServerEvent]) {
        // The initial events stand for all events up to `since`, so they carry this id. The viewer
        // sends the id when it reconnects.
        let first: Vec<Bytes> = first.iter().map(|event| event.encode(self.since)).collect();
        self.first = (!first.is_empty()).then(|| first.concat().into());
    }

    /// Whether the viewer needs the initial events. True if it is new or was away for too long.
    fn needs_initial_events(&self) -> bool {
        self.since.is_some()
    }

    fn poll_text(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
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
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(HEARTBEAT_INTERVAL)));
        let text = match text {
            Some(text) => text,
            None => {
                ready!(timer.as_mut().poll(cx));
                Bytes::from_static(b":\n\n")
            }
        };
        timer.as_mut().reset(Instant::now() + HEARTBEAT_INTERVAL);
        Poll::Ready(Some(text))
    }
}

impl hyper::body::Body for EventViewer {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> FramePoll<Self::Error> {
        self.poll_text(cx).map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}

#[cfg(test)]
mod tests;
