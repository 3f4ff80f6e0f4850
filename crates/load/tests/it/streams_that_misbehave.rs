//! HTTP/2 servers on real sockets that refuse, reset, close or violate the protocol: every request
//! is counted once.

use super::busy::wait_until;
use super::server::{carry_out, carry_out_beside, rows};
use super::server_of_streams::{Stream, body, deaf, frame, goaway, head, reset, start};
use speedwell_load::load::{HttpVersion, LoadConfig, RequestTimeouts};
use speedwell_model::clock::WaitClock;
use std::sync::atomic::Ordering;
use std::time::Duration;

const REQUESTS: u64 = 40;
const MS: u64 = 1_000_000;

/// Sends forty requests, five at once on one connection.
#[track_caller]
fn forty(handler: impl Fn(Stream) -> bool + Send + Sync + 'static) -> Vec<(&'static str, u64)> {
    let server = start(handler);
    let measured = carry_out(&server.load(5, 5, REQUESTS));
    assert_eq!(measured.totals.outcomes.attempts(), REQUESTS);
    rows(&measured)
}

/// Same as [`forty`], with every second request served correctly.
#[track_caller]
fn every_second(
    misbehave: impl Fn(&mut Stream) + Send + Sync + 'static,
) -> Vec<(&'static str, u64)> {
    forty(move |mut stream| {
        match stream.number % 2 {
            0 => drop(stream.answer()),
            _ => misbehave(&mut stream),
        }
        true
    })
}

#[test]
fn many_requests_share_a_connection() {
    let server = start(|mut stream| stream.answer());
    let measured = carry_out(&server.load(50, 10, 1000));
    assert_eq!(rows(&measured), [("ok", 1000)]);
    assert_eq!(measured.totals.outcomes.connections.opened, 5);
    assert_eq!(measured.totals.outcomes.bytes.body, 4000);
}

#[test]
fn a_reset_stream_is_counted_by_code_and_other_streams_continue() {
    let server = start(|mut stream| {
        match stream.number % 2 {
            0 => drop(stream.answer()),
            _ => stream.say(&reset(stream.id, 2)),
        }
        true
    });
    let measured = carry_out(&server.load(5, 5, REQUESTS));
    assert_eq!(rows(&measured), [("ok", 20), ("h2.rst-stream", 20)]);
    let text = serde_json::to_string(&measured.totals.outcomes).unwrap();
    assert!(text.contains("\"h2_reset\":{\"2\":20}"), "{text}");
    assert_eq!(measured.totals.outcomes.connections.opened, 1);
}

#[test]
fn a_refused_stream_is_not_counted_as_a_reset() {
    let rows = every_second(|stream| stream.say(&reset(stream.id, 7)));
    assert_eq!(rows, [("ok", 20), ("h2.refused", 20)]);
}

#[test]
fn unanswered_streams_are_counted_and_connections_replaced_after_goaway() {
    // Each connection answers its first three streams, announces the end, and closes.
    let server = start(|mut stream| {
        if stream.id <= 5 {
            stream.answer();
        }
        if stream.id == 5 {
            stream.say(&goaway(5, 0));
            std::thread::sleep(Duration::from_millis(5));
            return false;
        }
        true
    });
    let measured = carry_out(&server.load(5, 5, REQUESTS));
    let outcomes = &measured.totals.outcomes;
    let gone = outcomes.errors(speedwell_model::load::outcomes::ErrorClass::H2GoAway);
    assert_eq!(outcomes.succeeded() + gone, REQUESTS, "{:?}", rows(&measured));
    assert!(gone >= 10, "{:?}", rows(&measured));
    assert!(outcomes.connections.opened > 5);
}

#[test]
fn a_stream_that_goaway_excludes_has_a_class_of_its_own() {
    // Each connection answers two streams and excludes the third by GOAWAY.
    let server = start(|mut stream| match stream.id {
        5 => {
            stream.say(&goaway(3, 0));
            false
        }
        _ => stream.answer(),
    });
    let measured = carry_out(&server.load(1, 1, REQUESTS));
    assert_eq!(rows(&measured), [("ok", 27), ("h2.goaway", 13)]);
    assert_eq!(measured.totals.outcomes.connections.opened, 14);
}

#[test]
fn a_graceful_end_loses_nothing() {
    // Announces the end early, answers everything, and waits for the client to close.
    let server = start(|mut stream| {
        if stream.id == 9 {
            stream.say(&goaway(i32::MAX as u32, 0));
        }
        stream.answer()
    });
    let measured = carry_out(&server.load(1, 1, REQUESTS));
    assert_eq!(rows(&measured), [("ok", REQUESTS)]);
    assert_eq!(measured.totals.outcomes.connections.opened, 8);
}

#[test]
fn a_body_of_another_length_is_an_error_of_its_stream() {
    // content-length: 9, then four bytes.
    let rows = every_second(|stream| {
        let stated = [0x88, 0x0f, 0x0d, 0x01, b'9'];
        let id = stream.id;
        stream.say(&[frame(1, 4, id, &stated), body(id, b"good")].concat());
    });
    assert_eq!(rows, [("ok", 20), ("protocol.length", 20)]);
}

#[test]
fn a_connection_error_fails_its_streams_as_protocol_errors() {
    // DATA on stream 0 is a connection error (RFC 9113, section 6.1).
    let rows = forty(|mut stream| {
        stream.say(&frame(0, 0, 0, b"x"));
        true
    });
    assert_eq!(rows, [("h2.protocol", REQUESTS)]);
}

#[test]
fn an_answer_in_http_1_is_a_protocol_error() {
    let server = deaf();
    let load = LoadConfig { http: HttpVersion::Two { table_bytes: 0 }, ..server.load(1, 5) };
    assert_eq!(rows(&carry_out(&load)), [("protocol.status-line", 5)]);
}

#[test]
fn a_stream_that_takes_too_long_ends_alone() {
    let server = start(|mut stream| match stream.number % 4 {
        3 => true,
        _ => stream.answer(),
    });
    let mut load = server.load(2, 2, 8);
    load.rules.timeouts =
        RequestTimeouts { total_ns: Some(2000 * MS), ..RequestTimeouts::default() };
    let clock = WaitClock::movable();
    let measured = carry_out_beside(clock, &load, |_| {
        // Once the last request has arrived, all other responses have been sent.
        wait_until(|| server.requests.load(Ordering::SeqCst) == 8);
        clock.advance(Duration::from_secs(2));
    });
    assert_eq!(rows(&measured), [("ok", 6), ("timeout.total", 2)]);
    assert_eq!(measured.totals.outcomes.connections.opened, 1);
}

#[test]
fn an_ended_connection_reports_the_phase_of_each_response() {
    let rows = forty(|mut stream| {
        stream.say(&head(stream.id, false));
        std::thread::sleep(Duration::from_millis(2));
        // The fifth stream of a connection ends it, after five heads and no body.
        stream.id < 9
    });
    assert_eq!(rows, [("eof.in-body", REQUESTS)]);
}

#[test]
fn an_upload_that_the_window_stops_is_a_stall() {
    let server = start(|stream| {
        // Keeps reading and never enlarges the window of 65,535 bytes.
        let _ = stream;
        true
    });
    let mut load = server.load(1, 1, 2);
    let mut kind = speedwell_load::load::RequestKind::get("test", "/");
    kind.method = "POST".to_owned();
    kind.body = Some(vec![b'x'; 200_000]);
    load.kinds = speedwell_load::load::RequestKinds::single(kind).unwrap();
    // By then the window is full, even on a busy machine.
    load.rules.timeouts.total_ns = Some(1000 * MS);
    assert_eq!(rows(&carry_out(&load)), [("h2.flow-stall", 2)]);
}
