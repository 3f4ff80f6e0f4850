//! Event streams over a real connection.

use super::served::{Served, Wire, limits};
use speedwell_serve::Limits;
use speedwell_serve::events::Event;
use std::net::TcpStream;
use std::time::Duration;

fn watch(served: &Served, fields: &str) -> Wire<TcpStream> {
    let mut wire = served.connect();
    let host = served.address();
    wire.send(format!(
        "GET /events HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: gzip\r\n{fields}\r\n"
    ));
    let head = wire.head().unwrap();
    assert_eq!(head.headers["content-type"], "text/event-stream");
    assert!(!head.headers.contains_key("content-encoding"));
    wire
}

#[test]
fn a_viewer_sees_how_things_are_and_what_happens_then() {
    let served = Served::local();
    let mut viewers = [watch(&served, ""), watch(&served, "")];
    for viewer in &mut viewers {
        assert!(
            viewer
                .read_to("data: first\n\n")
                .unwrap()
                .contains("event: now\nid: 0\n")
        );
    }
    served.hub.send(Event::new("case", "faster"));
    for viewer in &mut viewers {
        assert!(
            viewer
                .read_to("data: faster\n\n")
                .unwrap()
                .contains("event: case\nid: 1\n")
        );
    }
}

#[test]
fn a_viewer_that_comes_back_goes_on_where_it_was() {
    let served = Served::local();
    for number in 1..=5 {
        served.hub.send(Event::new("n", number.to_string()));
    }
    let mut viewer = watch(&served, "Last-Event-ID: 3\r\n");
    let text = viewer.read_to("data: 5\n\n").unwrap();
    assert!(text.contains("id: 4\n") && !text.contains("id: 3\n") && !text.contains("first"));
}

#[test]
fn a_viewer_that_leaves_is_forgotten() {
    let served = Served::local();
    let viewers: Vec<_> = (0..50).map(|_| watch(&served, "")).collect();
    assert_eq!(served.hub.viewers(), 50);
    drop(viewers);
    for _ in 0..50 {
        assert!(served.log_line().contains(" GET /events 200 "));
    }
    assert_eq!(served.hub.viewers(), 0);
}

/// Sends more than the socket buffers hold; the server keeps at most 64 events of it.
#[test]
fn a_viewer_that_does_not_read_is_cut_off() {
    let limits = Limits {
        stalled_answer: Duration::from_millis(100),
        ..limits()
    };
    let served = Served::with(limits);
    let _silent = watch(&served, "");
    let event = "x".repeat(100_000);
    while served.hub.viewers() > 0 {
        served.hub.send(Event::new("large", &event[..]));
        std::thread::yield_now();
    }
    assert!(served.log_line().ends_with(", cut off"));
}
