//! Event streams over a real connection.

use super::served::{TestConnection, TestServer, test_limits};
use speedwell_server::http::ServerLimits;
use speedwell_server::http::events::ServerEvent;
use std::net::TcpStream;
use std::time::Duration;

fn watch_events(served: &TestServer) -> TestConnection<TcpStream> {
    let mut wire = served.connect();
    let host = served.address();
    wire.send(format!("GET /events HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: gzip\r\n\r\n"));
    let head = wire.read_head().unwrap();
    assert_eq!(head.headers["content-type"], "text/event-stream");
    assert!(!head.headers.contains_key("content-encoding"));
    wire
}

#[test]
fn a_viewer_receives_the_current_state_and_then_new_events() {
    let served = TestServer::start_local();
    let mut viewers = [watch_events(&served), watch_events(&served)];
    for viewer in &mut viewers {
        assert!(viewer.read_to("data: first\n\n").unwrap().contains("event: now\n"));
    }
    served.hub.send_event(ServerEvent::new("case", "faster"));
    for viewer in &mut viewers {
        assert!(viewer.read_to("data: faster\n\n").unwrap().contains("event: case\n"));
    }
}

#[test]
fn a_viewer_that_leaves_is_forgotten() {
    let served = TestServer::start_local();
    let viewers: Vec<_> = (0..50).map(|_| watch_events(&served)).collect();
    assert_eq!(served.hub.count_viewers(), 50);
    drop(viewers);
    for _ in 0..50 {
        assert!(served.log_line().contains(" GET /events 200 "));
    }
    assert_eq!(served.hub.count_viewers(), 0);
}

/// Sends more than the socket buffers hold; the server keeps at most 64 events of it.
#[test]
fn a_viewer_that_does_not_read_is_cut_off() {
    let limits = ServerLimits { stalled_answer: Duration::from_millis(100), ..test_limits() };
    let served = TestServer::start_with_limits(limits);
    let _silent = watch_events(&served);
    let event = "x".repeat(100_000);
    while served.hub.count_viewers() > 0 {
        served.hub.send_event(ServerEvent::new("large", &event[..]));
        std::thread::yield_now();
    }
    assert!(served.log_line().ends_with(", cut off"));
}
