//! Tests what viewers receive, by polling them directly instead of over a connection.

use super::*;
use axum::http::HeaderName;
use axum::http::header::HeaderValue;
use std::future::poll_fn;
use std::task::{Context, Poll};
use tokio::time::Instant;

/// Returns what the viewer receives now, without waiting.
fn receive_now(viewer: &mut EventViewer) -> Poll<Option<String>> {
    let mut cx = Context::from_waker(Waker::noop());
    viewer.poll_text(&mut cx).map(|text| text.map(|text| String::from_utf8(text.to_vec()).unwrap()))
}

/// Reconnects as a viewer that has seen event `seen`; it is shown `first` if it starts anew.
fn reconnect(hub: &EventHub, seen: u64, first: ServerEvent) -> EventViewer {
    let id = HeaderValue::from(seen);
    let mut viewer = hub.add_viewer(&HeaderMap::from_iter([(LAST_EVENT_ID, id)]));
    if viewer.needs_initial_events() {
        viewer.set_initial_events(&[first]);
    }
    viewer
}

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

fn ready_text(text: &str) -> Poll<Option<String>> {
    Poll::Ready(Some(text.to_owned()))
}

fn event(number: u64) -> ServerEvent {
    ServerEvent::new("n", number.to_string())
}

#[tokio::test]
async fn an_event_reaches_all_viewers() {
    let hub = EventHub::starting_at(0);
    let mut viewers = [hub.add_viewer(&HeaderMap::new()), hub.add_viewer(&HeaderMap::new())];
    assert_eq!(hub.count_viewers(), 2);
    hub.send_event(event(1));
    for viewer in &mut viewers {
        assert_eq!(receive_now(viewer), ready_text("event: n\nid: 1\ndata: 1\n\n"));
        assert_eq!(receive_now(viewer), Poll::Pending);
    }
    drop(viewers);
    assert_eq!(hub.count_viewers(), 0);
}

#[tokio::test]
async fn no_line_of_the_data_becomes_a_field() {
    let hub = EventHub::starting_at(6);
    let mut viewer = hub.add_viewer(&HeaderMap::new());
    hub.send_event(ServerEvent::new("a\nid: 9", "one\ntwo\r\nthree\rid: 8"));
    let sent = "event: a\nid: 7\ndata: one\ndata: two\ndata: three\ndata: id: 8\n\n";
    assert_eq!(receive_now(&mut viewer), ready_text(sent));
}

#[tokio::test]
async fn a_viewer_that_comes_back_gets_what_it_has_missed_and_nothing_twice() {
    let hub = EventHub::starting_at(0);
    for number in 1..=3 {
        hub.send_event(event(number));
    }
    let mut viewer = reconnect(&hub, 1, event(0));
    assert_eq!(
        receive_now(&mut viewer),
        ready_text("event: n\nid: 2\ndata: 2\n\nevent: n\nid: 3\ndata: 3\n\n")
    );
    let mut up_to_date = reconnect(&hub, 3, event(0));
    assert_eq!(receive_now(&mut up_to_date), Poll::Pending);
}

#[tokio::test]
async fn a_viewer_with_a_dropped_or_unknown_last_id_begins_anew() {
    let hub = EventHub::starting_at(10);
    for number in 11..=10 + MAX_REPLAYED_EVENTS as u64 + 5 {
        hub.send_event(event(number));
    }
    let newest = 10 + MAX_REPLAYED_EVENTS as u64 + 5;
    let anew = ready_text(&format!("event: all\nid: {newest}\ndata: x\n\n"));
    for seen in [0, 14, newest + 1, u64::MAX] {
        let mut viewer = reconnect(&hub, seen, ServerEvent::new("all", "x"));
        assert_eq!(receive_now(&mut viewer), anew, "{seen}");
    }
    assert!(hub.add_viewer(&HeaderMap::new()).needs_initial_events());
    let mut viewer = reconnect(&hub, 15, ServerEvent::new("all", "x"));
    assert!(
        matches!(receive_now(&mut viewer), Poll::Ready(Some(text)) if text.starts_with("event: n\nid: 16\n"))
    );
}

#[tokio::test]
async fn a_viewer_of_an_earlier_process_begins_anew() {
    let earlier = EventHub::starting_at(1 << 40);
    let id = earlier.send_event(ServerEvent::new("n", ""));
    let mut viewer = reconnect(&EventHub::new(), id, ServerEvent::new("all", "x"));
    assert!(
        matches!(receive_now(&mut viewer), Poll::Ready(Some(text)) if text.starts_with("event: all"))
    );
}

#[tokio::test]
async fn a_viewer_more_than_64_events_behind_is_cut_off() {
    let hub = EventHub::starting_at(0);
    let (mut slow, mut quick) =
        (hub.add_viewer(&HeaderMap::new()), hub.add_viewer(&HeaderMap::new()));
    for number in 1..=64 {
        hub.send_event(event(number));
        assert!(receive_now(&mut quick).is_ready());
    }
    assert_eq!(hub.count_viewers(), 2, "64 behind is allowed");
    hub.send_event(event(65));
    assert_eq!(receive_now(&mut slow), Poll::Ready(None));
    assert!(receive_now(&mut quick).is_ready());
    assert_eq!(hub.count_viewers(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_sends_a_comment_every_15_seconds() {
    let hub = EventHub::starting_at(0);
    let mut viewer = hub.add_viewer(&HeaderMap::new());
    let start = Instant::now();
    for beats in 1..=3 {
        let text = poll_fn(|cx| viewer.poll_text(cx)).await;
        assert_eq!(text.unwrap(), ":\n\n");
        assert_eq!(start.elapsed().as_secs(), 15 * beats);
    }
}

#[tokio::test]
async fn a_viewer_that_waits_is_woken() {
    let hub = EventHub::starting_at(0);
    let mut viewer = hub.add_viewer(&HeaderMap::new());
    let waiting = tokio::spawn(async move { poll_fn(|cx| viewer.poll_text(cx)).await });
    tokio::task::yield_now().await;
    hub.send_event(event(1));
    assert!(waiting.await.unwrap().is_some());
}

#[tokio::test]
async fn a_stopping_server_sends_the_final_event_last() {
    let stopper = ServerStopper::new();
    let hub = EventHub::starting_at(0).end_with_stopper(&stopper, ServerEvent::new("over", ""));
    let mut viewer = hub.add_viewer(&HeaderMap::new());
    hub.send_event(event(1));
    stopper.stop();
    let rest = "event: n\nid: 1\ndata: 1\n\nevent: over\ndata: \n\n";
    assert_eq!(receive_now(&mut viewer), ready_text(rest));
    assert_eq!(receive_now(&mut viewer), Poll::Ready(None));
    let mut late = hub.add_viewer(&HeaderMap::new());
    assert_eq!(receive_now(&mut late), ready_text("event: over\ndata: \n\n"));
    assert_eq!(receive_now(&mut late), Poll::Ready(None));
}

/// A handler may create a viewer while it reads a store, on a thread outside the server's runtime.
#[test]
fn a_viewer_may_be_created_on_any_thread() {
    let hub = EventHub::starting_at(0);
    let answer = hub.stream_response(&HeaderMap::new(), || vec![event(1)]);
    assert_eq!(answer.status(), 200);
    assert_eq!(hub.count_viewers(), 1);
}
