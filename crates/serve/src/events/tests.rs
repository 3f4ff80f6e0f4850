//! What viewers receive, tested without a connection: exact, and without waiting.

use super::*;
use axum::http::HeaderName;
use axum::http::header::HeaderValue;
use std::future::poll_fn;
use std::task::{Context, Poll};
use tokio::time::Instant;

/// Returns what the viewer receives now, without waiting.
fn now(viewer: &mut Viewer) -> Poll<Option<String>> {
    let mut cx = Context::from_waker(Waker::noop());
    viewer
        .poll_text(&mut cx)
        .map(|text| text.map(|text| String::from_utf8(text.to_vec()).unwrap()))
}

/// Reconnects as a viewer that has seen event `seen`; it is shown `first` if it starts anew.
fn back(hub: &Hub, seen: u64, first: Event) -> Viewer {
    let id = HeaderValue::from(seen);
    let mut viewer = hub.watch(&HeaderMap::from_iter([(LAST_EVENT_ID, id)]));
    if viewer.begins_anew() {
        viewer.show(&[first]);
    }
    viewer
}

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

fn ready(text: &str) -> Poll<Option<String>> {
    Poll::Ready(Some(text.to_owned()))
}

fn event(number: u64) -> Event {
    Event::new("n", number.to_string()).at(number)
}

#[tokio::test]
async fn an_event_reaches_all_that_watch() {
    let hub = Hub::at(0);
    let mut viewers = [hub.watch(&HeaderMap::new()), hub.watch(&HeaderMap::new())];
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
    let mut viewer = hub.watch(&HeaderMap::new());
    hub.send(Event::new("a\nid: 9", "one\ntwo\r\nthree\rid: 8"));
    let sent = "event: a\nid: 7\ndata: one\ndata: two\ndata: three\ndata: id: 8\n\n";
    assert_eq!(now(&mut viewer), ready(sent));
}

#[tokio::test]
async fn a_viewer_that_comes_back_gets_what_it_has_missed_and_nothing_twice() {
    let hub = Hub::at(0);
    for number in 1..=3 {
        hub.send(event(number));
    }
    let mut viewer = back(&hub, 1, event(0));
    assert_eq!(
        now(&mut viewer),
        ready("event: n\nid: 2\ndata: 2\n\nevent: n\nid: 3\ndata: 3\n\n")
    );
    let mut up_to_date = back(&hub, 3, event(0));
    assert_eq!(now(&mut up_to_date), Poll::Pending);
}

#[tokio::test]
async fn who_was_away_for_too_long_or_elsewhere_begins_anew() {
    let hub = Hub::at(10);
    for number in 11..=10 + KEPT as u64 + 5 {
        hub.send(event(number));
    }
    let newest = 10 + KEPT as u64 + 5;
    let anew = ready(&format!("event: all\nid: {newest}\ndata: x\n\n"));
    for seen in [0, 14, newest + 1, u64::MAX] {
        let mut viewer = back(&hub, seen, Event::new("all", "x"));
        assert_eq!(now(&mut viewer), anew, "{seen}");
    }
    assert!(hub.watch(&HeaderMap::new()).begins_anew());
    let mut viewer = back(&hub, 15, Event::new("all", "x"));
    assert!(
        matches!(now(&mut viewer), Poll::Ready(Some(text)) if text.starts_with("event: n\nid: 16\n"))
    );
}

#[tokio::test]
async fn ids_of_an_earlier_process_are_known_to_be_gone() {
    let earlier = Hub::at(1 << 40);
    let id = earlier.send(Event::new("n", ""));
    let mut viewer = back(&Hub::new(), id, Event::new("all", "x"));
    assert!(matches!(now(&mut viewer), Poll::Ready(Some(text)) if text.starts_with("event: all")));
}

#[tokio::test]
async fn a_place_is_sent_once() {
    let hub = Hub::at(4);
    let mut viewer = hub.watch(&HeaderMap::new());
    for number in [3, 4, 5, 5, 2] {
        hub.send(event(number));
    }
    assert_eq!(now(&mut viewer), ready("event: n\nid: 5\ndata: 5\n\n"));
    assert_eq!(now(&mut viewer), Poll::Pending);
}

#[tokio::test]
async fn who_is_more_than_64_events_behind_is_cut_off() {
    let hub = Hub::at(0);
    let (mut slow, mut quick) = (hub.watch(&HeaderMap::new()), hub.watch(&HeaderMap::new()));
    for number in 1..=64 {
        hub.send(event(number));
        assert!(now(&mut quick).is_ready());
    }
    assert_eq!(hub.viewers(), 2, "64 behind is allowed");
    hub.send(event(65));
    assert_eq!(now(&mut slow), Poll::Ready(None));
    assert!(now(&mut quick).is_ready());
    assert_eq!(hub.viewers(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_comment_says_every_15_seconds_that_the_stream_is_alive() {
    let hub = Hub::at(0);
    let mut viewer = hub.watch(&HeaderMap::new());
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
    let mut viewer = hub.watch(&HeaderMap::new());
    let waiting = tokio::spawn(async move { poll_fn(|cx| viewer.poll_text(cx)).await });
    tokio::task::yield_now().await;
    hub.send(event(1));
    assert!(waiting.await.unwrap().is_some());
}

#[tokio::test]
async fn the_end_of_the_server_is_the_last_event() {
    let stopper = Stopper::new();
    let hub = Hub::at(0).ends_with(&stopper, Event::new("over", ""));
    let mut viewer = hub.watch(&HeaderMap::new());
    hub.send(event(1));
    stopper.stop();
    let rest = "event: n\nid: 1\ndata: 1\n\nevent: over\ndata: \n\n";
    assert_eq!(now(&mut viewer), ready(rest));
    assert_eq!(now(&mut viewer), Poll::Ready(None));
    let mut late = hub.watch(&HeaderMap::new());
    assert_eq!(now(&mut late), ready("event: over\ndata: \n\n"));
    assert_eq!(now(&mut late), Poll::Ready(None));
}

/// A handler may create a viewer while it reads a store, on a thread outside the server's runtime.
#[test]
fn a_viewer_may_be_begun_on_any_thread() {
    let hub = Hub::at(0);
    let answer = hub.stream(&HeaderMap::new(), || vec![event(1)]);
    assert_eq!(answer.status(), 200);
    assert_eq!(hub.viewers(), 1);
}
