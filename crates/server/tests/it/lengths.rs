//! T7: requests whose end is ambiguous are rejected, and nothing after them is parsed as a request.

use super::served::{TestServer, test_limits};
use speedwell_server::http::ServerLimits;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

/// Header fields and body of requests that proxies and servers may interpret differently.
const UNCLEAR: [(&str, &str); 21] = [
    ("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\n"),
    ("Transfer-Encoding: chunked", "0\r\n\r\n"),
    ("Transfer-Encoding: CHUNKED", "0\r\n\r\n"),
    ("Transfer-Encoding: identity", ""),
    ("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"),
    ("Transfer-Encoding: chunked, identity", "0\r\n\r\n"),
    ("Transfer-Encoding: xchunked", "0\r\n\r\n"),
    ("Transfer-Encoding:\tchunked", "0\r\n\r\n"),
    ("Transfer-Encoding : chunked", "0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "0\r\n\r\n"),
    ("X: y\r\n Transfer-Encoding: chunked", "0\r\n\r\n"),
    ("Content-Length: 5\r\nContent-Length: 6", "12345"),
    ("Content-Length: 5, 5", "12345"),
    ("Content-Length: 5, 6", "12345"),
    ("Content-Length: -5", "12345"),
    ("Content-Length: +5", "12345"),
    ("Content-Length: 0x5", "12345"),
    ("Content-Length: 5 5", "12345"),
    ("Content-Length: 99999999999999999999999", "12345"),
    ("Content-Length:", "12345"),
];

#[test]
fn no_request_is_smuggled_in_by_an_ambiguous_length() {
    let served = TestServer::start_local();
    let host = served.address();
    for (fields, body) in UNCLEAR {
        let mut wire = served.connect();
        wire.send(format!(
            "POST /read HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n\r\n{body}\
             GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"
        ));
        let answer = wire.read_response();
        assert!((400..500).contains(&answer.status), "{fields:?}: {}", answer.status);
        assert_eq!(wire.read_to_end(), "", "{fields:?}: more than one answer");
    }
    assert_eq!(served.request_count(), 0);
}

#[test]
fn a_too_short_content_length_makes_the_next_request_invalid() {
    let served = TestServer::start_local();
    let mut wire = served.connect();
    let host = served.address();
    wire.send(format!("POST /read HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n\r\n123456789"));
    assert_eq!(wire.read_response().text(), "5 bytes");
    wire.send(" / HTTP/1.1\r\n\r\n");
    let rest = wire.read_to_end();
    assert!(rest.starts_with("HTTP/1.1 4"), "{rest}");
    assert_eq!(served.request_count(), 1);
}

#[test]
fn a_body_that_ends_before_its_length_is_refused() {
    let served = TestServer::start_local();
    for path in ["/read", "/pieces"] {
        let mut wire = served.connect();
        let host = served.address();
        wire.send(format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 50\r\n\r\n1234"
        ));
        wire.socket.shutdown(Shutdown::Write).unwrap();
        // A client that has closed its side may be gone, so a response is optional.
        let answer = wire.try_read_response();
        assert!(answer.is_none_or(|answer| answer.status == 400));
        assert_eq!(wire.read_to_end(), "");
    }
}

#[test]
fn an_invalid_request_is_refused_and_its_connection_closed() {
    let head_bytes = 16 << 10;
    let served = TestServer::start_with_limits(ServerLimits { head_bytes, ..test_limits() });
    let host = served.address();
    let head = |start: &str, field: &str| format!("{start}\r\nHost: {host}\r\n{field}\r\n\r\n");
    let get = |field: &str| head("GET / HTTP/1.1", field);
    let many: String = (0..200).map(|number| format!("X-{number}: y\r\n")).collect();
    for (name, bytes) in [
        ("a long head", get(&format!("X: {}", "y".repeat(20_000)))),
        ("many fields", get(&many)),
        ("a long target", head(&format!("GET /{} HTTP/1.1", "y".repeat(70_000)), "X: y")),
        ("another version", head("GET / HTTP/3.0", "X: y")),
        ("no version", head("GET /", "X: y")),
        ("a byte of zero", get("X: \0")),
        ("a bare return", get("X: a\rY: b")),
        ("no method", head(" / HTTP/1.1", "X: y")),
        ("TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n".to_owned()),
    ] {
        let mut wire = served.connect();
        wire.send(bytes);
        let answer = wire.read_response();
        assert!((400..500).contains(&answer.status), "{name}: {}", answer.status);
        assert_eq!(wire.read_to_end(), "", "{name}");
    }
    let mut wire = served.connect();
    wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(wire.read_to_end(), "", "HTTP/2 has no answer that both sides would understand");
    assert_eq!(served.request_count(), 0);
}

/// Reads everything the client sends, so that its connection ends without a reset, which would make
/// some systems discard the response.
#[test]
fn a_refused_upload_is_answered_although_it_is_still_being_sent() {
    let linger = Duration::from_secs(60);
    let served = TestServer::start_with_limits(ServerLimits { linger, ..test_limits() });
    let mut wire = served.connect();
    let host = served.address();
    wire.send(format!("POST /read HTTP/1.1\r\nHost: {host}\r\nContent-Length: 50000000\r\n\r\n"));
    for _ in 0..50 {
        wire.socket.write_all(&[0; 1_000_000]).unwrap();
    }
    assert_eq!(wire.read_response().status, 413);
    assert_eq!(wire.socket.read(&mut [0; 1]).unwrap(), 0, "a proper end");
}

#[test]
fn a_body_that_nobody_reads_is_not_waited_for() {
    let served = TestServer::start_local();
    let mut wire = served.connect();
    let host = served.address();
    wire.send(format!(
        "POST /ignore HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5000000\r\n\r\n123"
    ));
    assert_eq!(wire.read_response().text(), "not read");
    assert_eq!(wire.read_to_end(), "");
}
