//! Streams of events to browsers (server-sent events, WHATWG HTML 9.2).
//!
//! A [`Hub`] sends each event to all that watch. An event is written down once, however many they are. A viewer
//! that comes back names the last event it has seen and gets those after it, if they are still kept; else it gets what
//! everybody gets first. Who is more than 64 events behind is cut off, and comes back in the same way.

use crate::server::Stopper;
use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use hyper::body::{Bytes, Frame};
use std::collections::VecDeque;
use std::fmt;
use std::fmt::Write;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, Sleep, sleep};

/// Events that a viewer may be behind.
const BEHIND: usize = 64;
/// Events that are kept for viewers that come back.
const KEPT: usize = 256;
/// A line that says nothing, so that proxies and browsers know that the stream is alive.
const BEAT: Duration = Duration::from_secs(15);

/// One event: a name, and data of any number of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    name: String,
    data: String,
    id: Option<u64>,
}

impl Event {
    /// An event that gets the next id.
    pub fn new(name: impl Into<String>, data: impl Into<String>) -> Event {
        Event {
            name: name.into(),
            data: data.into(),
            id: None,
        }
    }

    /// With an id of its own: a place in something that is stored, which only grows.
    #[must_use]
    pub fn at(mut self, id: u64) -> Event {
        self.id = Some(id);
        self
    }

    /// As it is sent. Whatever ends a line in the data begins another line of data.
    fn text(&self, id: Option<u64>) -> Bytes {
        let mut text = String::with_capacity(self.data.len() + 64);
        let name = self.name.split(['\n', '\r']).next().unwrap_or_default();
        // Writing to a string does not fail.
        let _ = write!(text, "event: {name}\n");
        if let Some(id) = id {
            let _ = write!(text, "id: {id}\n");
        }
        for line in self.data.replace("\r\n", "\n").split(['\n', '\r']) {
            let _ = write!(text, "data: {line}\n");
        }
        text.push('\n');
        text.into()
    }
}

/// Sends events to all that watch. Clones are the same hub; sending does not wait for anybody.
///
/// ```
/// use axum::http::HeaderMap;
/// use speedwell_serve::events::{Event, Hub};
///
/// let hub = Hub::new();
/// let seen = hub.clone();
/// let router: axum::Router = axum::Router::new().route(
///     "/events",
///     axum::routing::get(move |headers: HeaderMap| async move {
///         seen.stream(&headers, || vec![Event::new("progress", "3 of 10")])
///     }),
/// );
/// hub.send(Event::new("progress", "4 of 10"));
/// ```
#[derive(Clone)]
pub struct Hub {
    state: Arc<Mutex<State>>,
}

struct State {
    viewers: Vec<Weak<Mutex<Queue>>>,
    kept: VecDeque<(u64, Bytes)>,
    /// The newest id that was sent, and the newest one that is not kept any more.
    newest: u64,
    forgotten: u64,
    last: Option<Bytes>,
    beat: Duration,
    is_over: bool,
}

/// What one viewer has not got yet.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Bytes>,
    waker: Option<Waker>,
    is_over: bool,
}

impl Queue {
    fn end(&mut self, last: Option<&Bytes>) {
        self.waiting.extend(last.cloned());
        self.is_over = true;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Hub {
    fn default() -> Hub {
        Hub::new()
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("viewers", &self.viewers())
            .finish()
    }
}

impl Hub {
    /// A hub that nobody watches yet.
    pub fn new() -> Hub {
        // Ids begin with the time, so that one of an earlier process is known to be gone.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let first = u64::try_from(since.as_millis()).unwrap_or_default() << 10;
        Hub {
            state: Arc::new(Mutex::new(State {
                viewers: Vec::new(),
                kept: VecDeque::new(),
                newest: first,
                forgotten: first,
                last: None,
                beat: BEAT,
                is_over: false,
            })),
        }
    }

    /// A hub whose ids are places in something that is stored, which so far ends at this one.
    pub fn at(place: u64) -> Hub {
        let hub = Hub::new();
        {
            let mut state = lock(&hub.state);
            state.newest = place;
            state.forgotten = place;
        }
        hub
    }

    /// Ends with the server, this event being the last that viewers get.
    #[must_use]
    pub fn ends_with(self, stopper: &Stopper, last: Event) -> Hub {
        lock(&self.state).last = Some(last.text(None));
        let state = Arc::downgrade(&self.state);
        stopper.on_stop(move || {
            if let Some(state) = state.upgrade() {
                Hub { state }.end();
            }
        });
        self
    }

    /// Sends a comment after so much time without an event, instead of 15 s.
    #[must_use]
    pub fn beat(self, after: Duration) -> Hub {
        lock(&self.state).beat = after;
        self
    }

    /// How many watch.
    pub fn viewers(&self) -> usize {
        lock(&self.state)
            .viewers
            .iter()
            .filter(|viewer| viewer.strong_count() > 0)
            .count()
    }

    /// Sends an event to all that watch, and gives its id. An event at a place that is not beyond the
    /// newest one has been sent already, and is not sent again.
    pub fn send(&self, event: Event) -> u64 {
        let mut wakers = Vec::new();
        let id = {
            let mut state = lock(&self.state);
            let id = event.id.unwrap_or(state.newest + 1);
            if id <= state.newest || state.is_over {
                return state.newest;
            }
            let text = event.text(Some(id));
            state.newest = id;
            state.kept.push_back((id, text.clone()));
            if state.kept.len() > KEPT
                && let Some((gone, _)) = state.kept.pop_front()
            {
                state.forgotten = gone;
            }
            state.viewers.retain(|viewer| {
                let Some(viewer) = viewer.upgrade() else {
                    return false;
                };
                let mut queue = lock(&viewer);
                if queue.waiting.len() >= BEHIND {
                    queue.waiting.clear();
                    queue.end(None);
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

    /// Ends the streams of all that watch, and of those who come later.
    pub fn end(&self) {
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
                queue.end(last.as_ref());
                wakers.extend(queue.waker.take());
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The stream of one viewer, as the answer of a handler. It begins with the events after the
    /// `Last-Event-ID` of the request if all of them are kept, else with `first`: how things are now. No event is lost
    /// between `first` and those that follow.
    pub fn stream(&self, asked: &HeaderMap, first: impl FnOnce() -> Vec<Event>) -> Response {
        let mut response = Response::new(Body::new(self.watch(seen(asked), first)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    fn watch(&self, seen: Option<u64>, first: impl FnOnce() -> Vec<Event>) -> Viewer {
        let mut queue = Queue::default();
        let mut state = lock(&self.state);
        match seen.filter(|seen| (state.forgotten..=state.newest).contains(seen)) {
            Some(seen) => {
                let missed = state.kept.iter().filter(|(id, _)| *id > seen);
                queue.waiting.extend(missed.map(|(_, text)| text.clone()));
            }
            None => {
                // They stand for everything up to here, whose id the viewer names when it comes back.
                let newest = state.newest;
                let events = first();
                queue
                    .waiting
                    .extend(events.iter().map(|event| event.text(Some(newest))));
            }
        }
        if state.is_over {
            queue.end(state.last.as_ref());
        }
        let queue = Arc::new(Mutex::new(queue));
        if !state.is_over {
            state.viewers.push(Arc::downgrade(&queue));
        }
        Viewer {
            queue,
            beat: state.beat,
            timer: Box::pin(sleep(state.beat)),
        }
    }
}

fn seen(asked: &HeaderMap) -> Option<u64> {
    asked
        .get("last-event-id")?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// The body of the answer to one viewer.
struct Viewer {
    queue: Arc<Mutex<Queue>>,
    beat: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Viewer {
    fn poll_text(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let text = {
            let mut queue = lock(&self.queue);
            match queue.waiting.len() {
                0 if queue.is_over => return Poll::Ready(None),
                0 => {
                    queue.waker = Some(cx.waker().clone());
                    None
                }
                1 => queue.waiting.pop_front(),
                // Those that wait go out together.
                _ => Some(queue.waiting.drain(..).collect::<Vec<_>>().concat().into()),
            }
        };
        let text = match text {
            Some(text) => text,
            None => {
                if self.timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                Bytes::from_static(b":\n\n")
            }
        };
        self.timer.as_mut().reset(Instant::now() + self.beat);
        Poll::Ready(Some(text))
    }
}

impl hyper::body::Body for Viewer {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.poll_text(cx)
            .map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    /// What the viewer gets now, without waiting.
    fn now(viewer: &mut Viewer) -> Poll<Option<String>> {
        let mut cx = Context::from_waker(Waker::noop());
        viewer
            .poll_text(&mut cx)
            .map(|text| text.map(|text| String::from_utf8(text.to_vec()).unwrap()))
    }

    fn ready(text: &str) -> Poll<Option<String>> {
        Poll::Ready(Some(text.to_owned()))
    }

    fn event(number: u64) -> Event {
        Event::new("n", number.to_string()).at(number)
    }

    #[tokio::test]
    async fn an_event_reaches_all_that_watch() {
        let hub = Hub::at(0);
        let mut viewers = [hub.watch(None, Vec::new), hub.watch(None, Vec::new)];
        assert_eq!(hub.viewers(), 2);
        hub.send(event(1));
        for viewer in &mut viewers {
            assert_eq!(now(viewer), ready("event: n\nid: 1\ndata: 1\n\n"));
            assert_eq!(now(viewer), Poll::Pending);
        }
        drop(viewers);
        assert_eq!(hub.viewers(), 0);
    }

    #[tokio::test]
    async fn no_line_of_the_data_becomes_a_field() {
        let hub = Hub::at(6);
        let mut viewer = hub.watch(None, Vec::new);
        hub.send(Event::new("a\nid: 9", "one\ntwo\r\nthree\rid: 8"));
        let sent = "event: a\nid: 7\ndata: one\ndata: two\ndata: three\ndata: id: 8\n\n";
        assert_eq!(now(&mut viewer), ready(sent));
    }

    #[tokio::test]
    async fn a_viewer_that_comes_back_gets_what_it_has_missed_and_nothing_twice() {
        let hub = Hub::at(0);
        (1..=3).for_each(|number| drop(hub.send(event(number))));
        let mut back = hub.watch(Some(1), || vec![event(0)]);
        assert_eq!(
            now(&mut back),
            ready("event: n\nid: 2\ndata: 2\n\nevent: n\nid: 3\ndata: 3\n\n")
        );
        let mut up_to_date = hub.watch(Some(3), || vec![event(0)]);
        assert_eq!(now(&mut up_to_date), Poll::Pending);
    }

    #[tokio::test]
    async fn who_was_away_for_too_long_or_elsewhere_begins_anew() {
        let hub = Hub::at(10);
        (11..=10 + KEPT as u64 + 5).for_each(|number| drop(hub.send(event(number))));
        let newest = 10 + KEPT as u64 + 5;
        let anew = ready(&format!("event: all\nid: {newest}\ndata: x\n\n"));
        for seen in [None, Some(0), Some(14), Some(newest + 1), Some(u64::MAX)] {
            let mut viewer = hub.watch(seen, || vec![Event::new("all", "x")]);
            assert_eq!(now(&mut viewer), anew, "{seen:?}");
        }
        let mut viewer = hub.watch(Some(15), Vec::new);
        assert!(
            matches!(now(&mut viewer), Poll::Ready(Some(text)) if text.starts_with("event: n\nid: 16\n"))
        );
    }

    #[tokio::test]
    async fn ids_of_an_earlier_process_are_known_to_be_gone() {
        let earlier = Hub::at(1 << 40);
        let id = earlier.send(Event::new("n", ""));
        let mut viewer = Hub::new().watch(Some(id), || vec![Event::new("all", "x")]);
        assert!(
            matches!(now(&mut viewer), Poll::Ready(Some(text)) if text.starts_with("event: all"))
        );
    }

    #[tokio::test]
    async fn a_place_is_sent_once() {
        let hub = Hub::at(4);
        let mut viewer = hub.watch(None, Vec::new);
        for number in [3, 4, 5, 5, 2] {
            hub.send(event(number));
        }
        assert_eq!(now(&mut viewer), ready("event: n\nid: 5\ndata: 5\n\n"));
        assert_eq!(now(&mut viewer), Poll::Pending);
    }

    #[tokio::test]
    async fn who_is_more_than_64_events_behind_is_cut_off() {
        let hub = Hub::at(0);
        let (mut slow, mut quick) = (hub.watch(None, Vec::new), hub.watch(None, Vec::new));
        for number in 1..=64 {
            hub.send(event(number));
            assert!(now(&mut quick).is_ready());
        }
        assert_eq!(hub.viewers(), 2, "64 behind is allowed");
        hub.send(event(65));
        assert_eq!(now(&mut slow), Poll::Ready(None));
        assert!(now(&mut quick).is_ready());
        assert_eq!(hub.viewers(), 2, "the slow one until it is dropped");
        drop(slow);
        hub.send(event(66));
        assert_eq!(hub.viewers(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_comment_says_every_15_seconds_that_the_stream_is_alive() {
        let hub = Hub::at(0);
        let mut viewer = hub.watch(None, Vec::new);
        let start = Instant::now();
        for beats in 1..=3 {
            let text = poll_fn(|cx| viewer.poll_text(cx)).await;
            assert_eq!(text.unwrap(), ":\n\n");
            assert_eq!(start.elapsed().as_secs(), 15 * beats);
        }
    }

    #[tokio::test]
    async fn a_viewer_that_waits_is_woken() {
        let hub = Hub::at(0);
        let mut viewer = hub.watch(None, Vec::new);
        let waiting = tokio::spawn(async move { poll_fn(|cx| viewer.poll_text(cx)).await });
        tokio::task::yield_now().await;
        hub.send(event(1));
        assert!(waiting.await.unwrap().is_some());
    }

    #[tokio::test]
    async fn the_end_of_the_server_is_the_last_event() {
        let stopper = Stopper::new();
        let hub = Hub::at(0).ends_with(&stopper, Event::new("over", ""));
        let mut viewer = hub.watch(None, Vec::new);
        hub.send(event(1));
        stopper.stop();
        let rest = "event: n\nid: 1\ndata: 1\n\nevent: over\ndata: \n\n";
        assert_eq!(now(&mut viewer), ready(rest));
        assert_eq!(now(&mut viewer), Poll::Ready(None));
        let mut late = hub.watch(None, Vec::new);
        assert_eq!(now(&mut late), ready("event: over\ndata: \n\n"));
        assert_eq!(now(&mut late), Poll::Ready(None));
    }
}
