//! Event streams to browsers (server-sent events, WHATWG HTML 9.2).
//!
//! An [`EventHub`] broadcasts each event to all viewers, encoding it once. A viewer that reconnects
//! sends the id of the last event it has seen and gets those after it, if they are still kept;
//! otherwise it gets the initial events like a new viewer. A viewer more than 64 events behind is
//! disconnected and reconnects the same way.

mod event;
mod viewer;

pub use event::ServerEvent;
pub use viewer::EventViewer;

use crate::stopper::{ServerStopper, StopListener};
use axum::http::HeaderMap;
use axum::response::Response;
use hyper::body::Bytes;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use viewer::{MAX_EVENTS_BEHIND, ViewerQueue, lock};

/// Events kept for viewers that reconnect.
const MAX_REPLAYED_EVENTS: usize = 256;
/// Interval of comments that show proxies and browsers that the stream is alive.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Broadcasts events to all viewers. Clones are the same hub; sending never blocks.
///
/// ```
/// use axum::http::HeaderMap;
/// use speedwell_serve::events::{ServerEvent, EventHub};
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
    kept: VecDeque<(u64, Bytes)>,
    /// The newest id sent, and the newest id no longer kept.
    newest: u64,
    forgotten: u64,
    last: Option<Bytes>,
    beat: Duration,
    is_over: bool,
}

/// Reference from a stopper to a hub that does not keep the hub alive.
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
        f.debug_struct("Hub")
            .field("viewers", &self.count_viewers())
            .finish()
    }
}

impl EventHub {
    /// Creates a hub without viewers.
    pub fn new() -> EventHub {
        // Ids start with the time, so that an id of an earlier process counts as no longer kept.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let first = u64::try_from(since.as_millis()).unwrap_or_default() << 10;
        EventHub {
            state: Arc::new(Mutex::new(HubState {
                viewers: Vec::new(),
                kept: VecDeque::new(),
                newest: first,
                forgotten: first,
                last: None,
                beat: HEARTBEAT_INTERVAL,
                is_over: false,
            })),
        }
    }

    /// Creates a hub whose ids are offsets in something stored, which currently ends at `place`.
    pub fn starting_at(place: u64) -> EventHub {
        let hub = EventHub::new();
        {
            let mut state = lock(&hub.state);
            state.newest = place;
            state.forgotten = place;
        }
        hub
    }

    /// Ends the streams when the server stops, with `last` as their final event.
    #[must_use]
    pub fn end_with_stopper(self, stopper: &ServerStopper, last: ServerEvent) -> EventHub {
        lock(&self.state).last = Some(last.encode(None));
        stopper.add_listener(WeakHub(Arc::downgrade(&self.state)));
        self
    }

    /// Sets the time without an event after which a comment is sent; the default is 15 s.
    #[must_use]
    pub fn with_heartbeat(self, after: Duration) -> EventHub {
        lock(&self.state).beat = after;
        self
    }

    /// Returns the number of connected viewers.
    pub fn count_viewers(&self) -> usize {
        lock(&self.state)
            .viewers
            .iter()
            .filter(|viewer| viewer.strong_count() > 0)
            .count()
    }

    /// Sends an event to all viewers and returns its id. An event whose id is not beyond the newest
    /// one has been sent already and is skipped.
    pub fn send_event(&self, event: ServerEvent) -> u64 {
        let mut wakers = Vec::new();
        let id = {
            let mut state = lock(&self.state);
            let id = event.id.unwrap_or(state.newest + 1);
            if id <= state.newest || state.is_over {
                return state.newest;
            }
            let text = event.encode(Some(id));
            state.newest = id;
            state.kept.push_back((id, text.clone()));
            if state.kept.len() > MAX_REPLAYED_EVENTS
                && let Some((gone, _)) = state.kept.pop_front()
            {
                state.forgotten = gone;
            }
            state.viewers.retain(|viewer| {
                let Some(viewer) = viewer.upgrade() else {
                    return false;
                };
                let mut queue = lock(&viewer);
                if queue.waiting.len() >= queue.limit {
                    queue.waiting.clear();
                    queue.finish_with(None);
                } else {
                    queue.waiting.push_back(text.clone());
                }
                wakers.extend(queue.waker.take());
                !queue.is_over
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
            state.is_over = true;
            let last = state.last.clone();
            for viewer in state
                .viewers
                .drain(..)
                .filter_map(|viewer| viewer.upgrade())
            {
                let mut queue = lock(&viewer);
                queue.finish_with(last.as_ref());
                wakers.extend(queue.waker.take());
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns the stream of one viewer as the response of a handler: [`EventHub::add_viewer`] for
    /// handlers that can produce the initial events without waiting.
    pub fn stream_response(
        &self,
        asked: &HeaderMap,
        first: impl FnOnce() -> Vec<ServerEvent>,
    ) -> Response {
        let viewer = self.add_viewer(asked);
        let first = if viewer.needs_initial_events() {
            first()
        } else {
            Vec::new()
        };
        viewer.into_stream_response(&first)
    }

    /// Registers a viewer that receives everything sent from now on. It starts with the events
    /// after the `Last-Event-ID` of the request if all of them are kept; otherwise it [starts
    /// anew](Viewer::begins_anew).
    pub fn add_viewer(&self, asked: &HeaderMap) -> EventViewer {
        let mut queue = ViewerQueue::default();
        let mut state = lock(&self.state);
        let seen =
            last_event_id(asked).filter(|seen| (state.forgotten..=state.newest).contains(seen));
        if let Some(seen) = seen {
            let missed = state.kept.iter().filter(|(id, _)| *id > seen);
            queue.waiting.extend(missed.map(|(_, text)| text.clone()));
        }
        // A reconnecting viewer may be further behind than others, by the events it has missed.
        queue.limit = MAX_EVENTS_BEHIND + queue.waiting.len();
        if state.is_over {
            queue.finish_with(state.last.as_ref());
        }
        let queue = Arc::new(Mutex::new(queue));
        if !state.is_over {
            state.viewers.push(Arc::downgrade(&queue));
        }
        let since = seen.is_none().then_some(state.newest);
        EventViewer::new(queue, since, state.beat)
    }
}

fn last_event_id(asked: &HeaderMap) -> Option<u64> {
    asked
        .get("last-event-id")?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests;
