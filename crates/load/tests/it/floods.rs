//! Servers that send endlessly: they exceed neither time limits nor memory.

use super::server::{Server, Then, carry_out, rows};
use super::server_of_streams::{frame, start};
use std::io::Write;

#[test]
fn a_server_that_never_stops_sending_does_not_outlast_the_limits() {
    // A server may send any number of interim responses (RFC 9110, section 15.2).
    let server = Server::start(|request| {
        let interim = b"HTTP/1.1 102 Processing\r\n\r\n".repeat(40_000);
        while request.stream.write_all(&interim).is_ok() {}
        Then::Close
    });
    let mut load = server.load(4, 4);
    load.rules.timeouts.total_ns = Some(300_000_000);
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("timeout.total", 4)]);
    let service = measured.totals.latency.all_sent().service;
    // A turn reads one megabyte per connection; without turns, a timeout would wait for the server
    // to pause.
    assert!(service.max_ns() < Some(3_000_000_000), "{:?}", service.max_ns());
}

#[test]
fn a_server_that_floods_but_never_reads_is_reported_as_a_flood() {
    // PING and SETTINGS must be answered, but this server never reads.
    for asking in [frame(6, 0, 0, &[0; 8]), frame(4, 0, 0, &[])] {
        let flood = asking.repeat(10_000);
        let server = start(move |stream| {
            for _ in 0..200 {
                if stream.socket.write_all(&flood).is_err() {
                    break;
                }
            }
            false
        });
        let mut load = server.load(1, 1, 1);
        load.rules.timeouts.total_ns = Some(60_000_000_000);
        assert_eq!(rows(&carry_out(&load)), [("h2.flood", 1)]);
    }
}
