//! Sends event streams to browsers (server-sent events, WHATWG HTML 9.2).
//!
//! An [`EventHub`] encodes each event once and sends it to all viewers. A viewer first gets an event
//! that describes the current state, so one that reconnects misses nothing. A viewer that is more
//! than 64 events behind is disconnected, so that it reconnects.

use crate::http::{FramePoll, lock};
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use hyper::body::{Bytes, Frame};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::time::timeout;

/// Maximum number of events that a viewer may be behind.
const MAX_EVENTS_BEHIND: usize = 64;
/// Interval at which an idle stream sends a comment, so that proxies and browsers keep it open.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Broadcasts events to all viewers, and never waits for a viewer. Clones refer to the same hub.
///
/// ```
/// use speedwell_server::http::events::{ServerEvent, EventHub};
///
/// let hub = EventHub::default();
/// let seen = hub.clone();
/// let router: axum::Router = axum::Router::new().route(
///     "/events",
///     axum::routing::get(move || async move {
///         seen.stream_response(ServerEvent::new("progress", "3 of 10"))
///     }),
/// );
/// hub.send_event(ServerEvent::new("progress", "4 of 10"));
/// ```
#[derive(Debug, Clone)]
pub struct EventHub {
    pub(super) state: Arc<Mutex<HubState>>,
}

/// What the clones of a hub share.
#[derive(Debug)]
pub(crate) struct HubState {
    /// `None` once the streams have ended.
    sender: Option<Sender<Bytes>>,
    final_event: Option<Bytes>,
}

impl HubState {
    /// Ends the streams of all viewers, after sending the final event.
    pub(crate) fn end_streams(&mut self) {
        if let (Some(sender), Some(event)) = (self.sender.take(), &self.final_event) {
            // Ignore errors: there may be no viewers.
            let _ = sender.send(event.clone());
        }
    }
}

impl Default for EventHub {
    /// Creates a hub without viewers.
    fn default() -> EventHub {
        let sender = Some(Sender::new(MAX_EVENTS_BEHIND));
        EventHub { state: Arc::new(Mutex::new(HubState { sender, final_event: None })) }
    }
}

impl EventHub {
    /// Creates a hub without viewers. Its streams end with `final_event`.
    pub fn with_final_event(final_event: ServerEvent) -> EventHub {
        let hub = EventHub::default();
        lock(&hub.state).final_event = Some(final_event.0);
        hub
    }

    /// Returns the number of connected viewers.
    pub fn count_viewers(&self) -> usize {
        lock(&self.state).sender.as_ref().map_or(0, Sender::receiver_count)
    }

    /// Sends an event to all viewers. If the streams have ended, sends nothing.
    pub fn send_event(&self, event: ServerEvent) {
        if let Some(sender) = &lock(&self.state).sender {
            // Ignore errors: there may be no viewers.
            let _ = sender.send(event.0);
        }
    }

    /// Ends the streams of all current and later viewers.
    pub fn end_streams(&self) {
        lock(&self.state).end_streams();
    }

    /// Returns the stream of one viewer as a handler's response: the first event, then the events
    /// sent since the viewer connected.
    pub fn stream_response(&self, first_event: ServerEvent) -> Response {
        let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
        (headers, Body::new(self.add_viewer(first_event))).into_response()
    }

    /// Registers a viewer for all events sent from now on.
    fn add_viewer(&self, first_event: ServerEvent) -> EventViewer {
        let mut state = lock(&self.state);
        let has_ended = state.sender.is_none();
        let sender = state.sender.get_or_insert_with(|| Sender::new(MAX_EVENTS_BEHIND));
        let events = sender.subscribe();
        if has_ended {
            state.end_streams();
        }
        EventViewer { first: Some(first_event.0), next: Box::pin(receive_text(events)) }
    }
}

/// One event: a name and data of any number of lines, encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEvent(Bytes);

impl ServerEvent {
    /// Creates an event. Every line break in the data starts a new `data:` line.
    pub fn new(name: &str, data: impl AsRef<str>) -> ServerEvent {
        let first_line = name.split(['\n', '\r']).next().unwrap_or_default();
        let mut text = format!("event: {first_line}\n");
        for line in data.as_ref().replace("\r\n", "\n").split(['\n', '\r']) {
            text.extend(["data: ", line, "\n"]);
        }
        text.push('\n');
        ServerEvent(text.into())
    }
}

/// Waits for the next event, and returns it with the receiver. Returns a comment if there is no
/// event for a while, and `None` after the last event.
async fn receive_text(mut events: Receiver<Bytes>) -> ReceivedText {
    let text = match timeout(HEARTBEAT_INTERVAL, events.recv()).await {
        Ok(Err(RecvError::Closed)) => None,
        Ok(event) => Some(event),
        Err(_) => Some(Ok(Bytes::from_static(b":\n\n"))),
    };
    (text, events)
}

type ReceivedText = (Option<Result<Bytes, RecvError>>, Receiver<Bytes>);

/// One viewer of an event stream. Dropping the viewer ends its stream.
struct EventViewer {
    /// The first event, until it is sent.
    first: Option<Bytes>,
    next: Pin<Box<dyn Future<Output = ReceivedText> + Send>>,
}

impl hyper::body::Body for EventViewer {
    type Data = Bytes;
    type Error = RecvError;

    /// Fails if the viewer is too far behind, which closes its connection.
    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> FramePoll<RecvError> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let (text, events) = ready!(self.next.as_mut().poll(cx));
        self.next = Box::pin(receive_text(events));
        Poll::Ready(text.map(|text| text.map(Frame::data)))
    }
}

/// Tests what viewers receive, by polling them directly instead of over a connection.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ServerStopper;
    use hyper::body::Body as _;
    use std::future::poll_fn;
    use std::task::Waker;
    use tokio::time::Instant;

    fn text_of(frame: Result<Frame<Bytes>, RecvError>) -> String {
        String::from_utf8(frame.unwrap().into_data().ok().unwrap().to_vec()).unwrap()
    }

    /// Returns what the viewer receives now, without waiting.
    fn receive_now(viewer: &mut EventViewer) -> Poll<Option<String>> {
        let mut cx = Context::from_waker(Waker::noop());
        Pin::new(viewer).poll_frame(&mut cx).map(|frame| frame.map(text_of))
    }

    /// Waits for what the viewer receives next.
    async fn receive(viewer: &mut EventViewer) -> Option<String> {
        poll_fn(|cx| Pin::new(&mut *viewer).poll_frame(cx)).await.map(text_of)
    }

    /// Adds a viewer that has received its first event.
    fn add_viewer(hub: &EventHub) -> EventViewer {
        let mut viewer = hub.add_viewer(event(0));
        assert_eq!(receive_now(&mut viewer), ready_text("event: n\ndata: 0\n\n"));
        viewer
    }

    fn ready_text(text: &str) -> Poll<Option<String>> {
        Poll::Ready(Some(text.to_owned()))
    }

    fn event(number: u64) -> ServerEvent {
        ServerEvent::new("n", number.to_string())
    }

    #[tokio::test]
    async fn an_event_reaches_all_viewers() {
        let hub = EventHub::default();
        let mut viewers = [add_viewer(&hub), add_viewer(&hub)];
        assert_eq!(hub.count_viewers(), 2);
        hub.send_event(event(1));
        for viewer in &mut viewers {
            assert_eq!(receive_now(viewer), ready_text("event: n\ndata: 1\n\n"));
            assert_eq!(receive_now(viewer), Poll::Pending);
        }
        drop(viewers);
        assert_eq!(hub.count_viewers(), 0);
    }

    #[test]
    fn no_line_of_the_data_becomes_a_field() {
        let event = ServerEvent::new("a\nid: 9", "one\ntwo\r\nthree\rid: 8");
        assert_eq!(event.0, "event: a\ndata: one\ndata: two\ndata: three\ndata: id: 8\n\n");
    }

    #[tokio::test]
    async fn a_viewer_more_than_64_events_behind_is_cut_off() {
        let hub = EventHub::default();
        let [mut slow, mut slower, mut quick] = [(); 3].map(|()| add_viewer(&hub));
        for number in 1..=64 {
            hub.send_event(event(number));
            assert!(receive_now(&mut quick).is_ready());
        }
        assert_eq!(receive_now(&mut slow), ready_text("event: n\ndata: 1\n\n"));
        hub.send_event(event(65));
        assert_eq!(receive_now(&mut slow), ready_text("event: n\ndata: 2\n\n"));
        let mut cx = Context::from_waker(Waker::noop());
        let cut_off = Pin::new(&mut slower).poll_frame(&mut cx);
        assert!(matches!(cut_off, Poll::Ready(Some(Err(RecvError::Lagged(1))))));
        assert!(receive_now(&mut quick).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_stream_sends_a_comment_every_15_seconds() {
        let hub = EventHub::default();
        let mut viewer = add_viewer(&hub);
        let start = Instant::now();
        for beats in 1..=3 {
            assert_eq!(receive(&mut viewer).await.unwrap(), ":\n\n");
            assert_eq!(start.elapsed().as_secs(), 15 * beats);
        }
    }

    #[tokio::test]
    async fn a_viewer_that_waits_is_woken() {
        let hub = EventHub::default();
        let mut viewer = add_viewer(&hub);
        let waiting = tokio::spawn(async move { receive(&mut viewer).await });
        tokio::task::yield_now().await;
        hub.send_event(event(1));
        assert!(waiting.await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_stopping_server_sends_the_final_event_last() {
        let stopper = ServerStopper::default();
        let hub = EventHub::with_final_event(ServerEvent::new("over", ""));
        stopper.add_hub(&hub);
        let mut viewer = add_viewer(&hub);
        hub.send_event(event(1));
        stopper.stop();
        let late = add_viewer(&hub);
        assert_eq!(receive_now(&mut viewer), ready_text("event: n\ndata: 1\n\n"));
        for mut viewer in [viewer, late] {
            assert_eq!(receive_now(&mut viewer), ready_text("event: over\ndata: \n\n"));
            assert_eq!(receive_now(&mut viewer), Poll::Ready(None));
        }
    }

    /// A handler may create a viewer while it reads a store, on a thread outside the server's runtime.
    #[test]
    fn a_viewer_may_be_created_on_any_thread() {
        let hub = EventHub::default();
        let answer = hub.stream_response(event(1));
        assert_eq!(answer.status(), 200);
        assert_eq!(hub.count_viewers(), 1);
    }
}
