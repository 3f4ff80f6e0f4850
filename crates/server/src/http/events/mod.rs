//! Sends event streams to browsers (server-sent events, WHATWG HTML 9.2).
//!
//! An [`EventHub`] encodes each event once and sends it to all viewers. A viewer that reconnects
//! sends the id of the last event that it has seen. If the hub still keeps all later events, the
//! viewer gets them. Otherwise, it gets the initial events, like a new viewer. A viewer that is
//! more than 64 events behind is disconnected, so that it reconnects.

mod event;
mod viewer;

pub use event::ServerEvent;
pub use viewer::EventViewer;

use crate::http::shutdown::{ServerStopper, StopListener};
use axum::http::HeaderMap;
use axum::response::Response;
use hyper::body::Bytes;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use viewer::{MAX_EVENTS_BEHIND, ViewerQueue, lock};

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

struct HubState {
    viewers: Vec<Weak<Mutex<ViewerQueue>>>,
    replayable: VecDeque<(u64, Bytes)>,
    /// Id of the newest event that was sent.
    newest_id: u64,
    /// Id of the newest event that is no longer kept.
    newest_dropped: u64,
    final_event: Option<Bytes>,
    heartbeat: Duration,
    has_ended: bool,
}

/// Weak reference from a stopper to a hub.
struct WeakHub(Weak<Mutex<HubState>>);

impl StopListener for WeakHub {
    fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    fn on_stop(&self) {
        if let Some(state) = self.0.upgrade() {
            EventHub { state }.end_streams();
        }
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
        let first = u64::try_from(since.as_millis()).unwrap_or_default() << 10;
        EventHub {
            state: Arc::new(Mutex::new(HubState {
                viewers: Vec::new(),
                replayable: VecDeque::new(),
                newest_id: first,
                newest_dropped: first,
                final_event: None,
                heartbeat: HEARTBEAT_INTERVAL,
                has_ended: false,
            })),
        }
    }

    /// Creates a hub for a stored log that ends at `newest_id`. Ids are offsets in the log.
    pub fn starting_at(newest_id: u64) -> EventHub {
        let hub = EventHub::new();
        {
            let mut state = lock(&hub.state);
            state.newest_id = newest_id;
            state.newest_dropped = newest_id;
        }
        hub
    }

    /// Ends the streams when the server stops, after sending `final_event`.
    #[must_use]
    pub fn end_with_stopper(self, stopper: &ServerStopper, final_event: ServerEvent) -> EventHub {
        lock(&self.state).final_event = Some(final_event.encode(None));
        stopper.add_listener(WeakHub(Arc::downgrade(&self.state)));
        self
    }

    /// Sets how long a stream stays idle before it sends a comment. The default is 15 s.
    #[must_use]
    pub fn with_heartbeat(self, interval: Duration) -> EventHub {
        lock(&self.state).heartbeat = interval;
        self
    }

    /// Returns the number of connected viewers.
    pub fn count_viewers(&self) -> usize {
        lock(&self.state).viewers.iter().filter(|viewer| viewer.strong_count() > 0).count()
    }

    /// Sends an event to all viewers and returns its id. If the event's id is not greater than the
    /// newest id, or the streams have ended, sends nothing and returns the newest id.
    pub fn send_event(&self, event: ServerEvent) -> u64 {
        let mut wakers = Vec::new();
        let id = {
            let mut state = lock(&self.state);
            let id = event.id.unwrap_or(state.newest_id + 1);
            if id <= state.newest_id || state.has_ended {
                return state.newest_id;
            }
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
        let mut wakers = Vec::new();
        {
            let mut state = lock(&self.state);
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

    /// Returns the stream of one viewer as a handler's response. A handler that must wait for the
    /// initial events uses [`EventHub::add_viewer`] instead.
    pub fn stream_response(
        &self,
        headers: &HeaderMap,
        initial_events: impl FnOnce() -> Vec<ServerEvent>,
    ) -> Response {
        let viewer = self.add_viewer(headers);
        let initial_events =
            if viewer.needs_initial_events() { initial_events() } else { Vec::new() };
        viewer.into_stream_response(&initial_events)
    }

    /// Registers a viewer for all events sent from now on. If the hub keeps all events after the
    /// request's `Last-Event-ID`, the viewer first receives these events. Otherwise, it [needs the
    /// initial events](EventViewer::needs_initial_events).
    pub fn add_viewer(&self, headers: &HeaderMap) -> EventViewer {
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
        EventViewer::new(queue, since, state.heartbeat)
    }
}

fn last_event_id(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
