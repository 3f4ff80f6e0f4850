//! Stopping a server: nothing new is accepted, and requests in flight finish or are cut off.

use super::served::{TestServer, test_limits};
use speedwell_server::http::ServerLimits;
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn a_stopping_server_finishes_open_requests_and_accepts_no_new_ones() {
    let mut served = TestServer::start_local();
    let (host, mut uploading, mut idle) = (served.address(), served.connect(), served.connect());
    uploading.send(format!("POST /read HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n\r\n123"));
    let mut watching = served.connect();
    watching.send(format!("GET /events HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    watching.read_to("data: first\n\n").unwrap();
    idle.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert_eq!(idle.read_response().text(), "hello");
    // Wait until the upload has reached its handler.
    while served.request_count() < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }

    served.stopper.stop();
    assert_eq!(idle.read_to_end(), "");
    assert!(watching.read_to_end().contains("event: over\n"));
    uploading.send("45");
    assert_eq!(uploading.read_response().text(), "5 bytes");
    assert_eq!(uploading.read_to_end(), "");
    drop((uploading, watching, idle));
    served.wait_for_end();
    assert!(TcpStream::connect(host).is_err());
}

#[test]
fn a_request_that_outlasts_the_stop_timeout_is_cut_off() {
    let mut served = TestServer::start_with_limits(ServerLimits {
        stop_timeout: Duration::from_millis(50),
        ..test_limits()
    });
    let mut uploading = served.connect();
    let host = served.address();
    uploading.send(format!("POST /read HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n\r\n123"));
    while served.request_count() < 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    served.stopper.stop();
    served.wait_for_end();
    assert_eq!(uploading.read_to_end(), "");
}

#[test]
fn a_server_may_be_stopped_before_it_runs() {
    let stopper = speedwell_server::http::ServerStopper::default();
    stopper.stop();
    let mut served = TestServer::start(speedwell_server::http::ServerOptions {
        stopper,
        ..super::served::local_options()
    });
    served.wait_for_end();
}
