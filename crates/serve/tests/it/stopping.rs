//! Stopping a server: nothing new is accepted, and requests in flight finish or are cut off.

use super::served::{Served, limits};
use speedwell_serve::Limits;
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn what_is_in_flight_is_finished_and_nothing_new_begun() {
    let mut served = Served::local();
    let (host, mut uploading, mut idle) = (served.address(), served.connect(), served.connect());
    uploading.send(format!(
        "POST /read HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n\r\n123"
    ));
    let mut watching = served.connect();
    watching.send(format!("GET /events HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    watching.read_to("data: first\n\n").unwrap();
    idle.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert_eq!(idle.answer().text(), "hello");
    // Wait until the upload has reached its handler.
    while served.requests() < 3 {
        std::thread::yield_now();
    }

    served.stopper.stop();
    assert_eq!(idle.rest(), "");
    assert!(watching.rest().contains("event: over\n"));
    uploading.send("45");
    assert_eq!(uploading.answer().text(), "5 bytes");
    assert_eq!(uploading.rest(), "");
    drop((uploading, watching, idle));
    served.join();
    assert!(TcpStream::connect(host).is_err());
}

#[test]
fn who_does_not_end_is_cut_off() {
    let mut served = Served::with(Limits {
        stop: Duration::from_millis(50),
        ..limits()
    });
    let mut uploading = served.connect();
    let host = served.address();
    uploading.send(format!(
        "POST /read HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n\r\n123"
    ));
    while served.requests() < 1 {
        std::thread::yield_now();
    }
    served.stopper.stop();
    served.join();
    assert_eq!(uploading.rest(), "");
}

#[test]
fn a_server_may_be_stopped_before_it_runs() {
    let stopper = speedwell_serve::Stopper::new();
    stopper.stop();
    let mut served = Served::start(speedwell_serve::Options {
        stopper,
        ..super::served::local()
    });
    served.join();
}
