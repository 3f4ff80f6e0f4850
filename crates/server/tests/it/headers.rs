//! Security headers, compression and the request log.

use super::served::{TestResponse, TestServer, local_options};
use speedwell_server::http::{RequestLog, ServerOptions};

fn is_protected(answer: &TestResponse) {
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("content-security-policy", speedwell_server::http::CONTENT_SECURITY),
    ] {
        assert_eq!(answer.headers[name], value, "{answer:?}");
    }
    assert!(answer.headers.contains_key("cache-control"));
    assert!(!answer.headers.contains_key("server"));
}

#[test]
fn every_response_has_security_headers() {
    let served = TestServer::start_local();
    for (request, status) in [
        ("GET /", 200),
        ("HEAD /", 200),
        ("GET /health", 200),
        ("GET /nowhere", 404),
        ("DELETE /", 405),
        ("GET /panic", 500),
        (&format!("GET {}", served.style), 200),
    ] {
        let mut wire = served.connect();
        wire.send(format!("{request} HTTP/1.1\r\nHost: {}\r\n\r\n", served.address()));
        let answer = wire.read_head().unwrap();
        assert_eq!(answer.status, status, "{request}");
        is_protected(&answer);
    }
    is_protected(&served.send_raw_request("GET /", &["Host: evil.example"]));
    is_protected(&served.send_request("POST /", &["Origin: null"]));
}

#[test]
fn a_panic_ends_one_request_and_nothing_else() {
    let served = TestServer::start_local();
    let mut wire = served.connect();
    let host = served.address();
    wire.send(format!("GET /panic HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert_eq!(wire.read_response().status, 500);
    wire.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert_eq!(wire.read_response().text(), "hello");
}

#[test]
fn long_texts_are_compressed_for_clients_that_accept_gzip() {
    let served = TestServer::start_local();
    let plain = served.send_request("GET /text", &[]);
    assert_eq!(plain.body.len(), 11_000);
    assert_eq!(plain.headers["vary"], "accept-encoding");
    let packed = served.send_request("GET /text", &["Accept-Encoding: br, gzip"]);
    assert_eq!(packed.headers["content-encoding"], "gzip");
    let mut read = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(&packed.body[..]), &mut read).unwrap();
    assert_eq!(read, plain.body);
}

#[test]
fn the_log_has_a_line_for_each_request_and_no_secret() {
    let served = TestServer::start_local();
    served.send_request(
        "GET /?key=secret",
        &["Authorization: Bearer spw_secret", "Cookie: a=secret"],
    );
    let line = served.log_line();
    assert!(line.contains(" 127.0.0.1 GET / 200 5 B "), "{line}");
    assert!(line.ends_with(" ms") && !line.contains("secret"), "{line}");
    served.send_request("GET /spw_secret", &[]);
    assert!(served.log_line().contains(" GET /... 404 "));
    served.send_raw_request("GET /x", &["Host: evil.example"]);
    assert!(served.log_line().contains(" GET /x 421 "));
}

#[test]
fn the_log_may_be_json() {
    let served = TestServer::start(ServerOptions {
        log: RequestLog::default().as_json(),
        ..local_options()
    });
    served.send_request("GET /", &[]);
    let line: serde_json::Value = serde_json::from_str(&served.log_line()).unwrap();
    assert_eq!(line["path"], "/");
    assert_eq!(line["status"], 200);
    assert_eq!(line["bytes"], 5);
    assert_eq!(line["complete"], true);
    assert_eq!(line["address"], "127.0.0.1");
}

#[test]
fn a_refusal_by_a_handler_keeps_its_headers_in_every_format() {
    let served = TestServer::start_local();
    for (accept, kind) in [
        ("*/*", "text/plain; charset=utf-8"),
        ("application/json", "application/problem+json"),
        ("text/html, application/json", "text/plain; charset=utf-8"),
    ] {
        let answer = served.send_request("GET /refused", &[&format!("Accept: {accept}")]);
        assert_eq!(answer.status, 401);
        assert_eq!(answer.headers["content-type"], kind);
        assert_eq!(answer.headers["set-cookie"], "a=b, c=d");
        assert_eq!(answer.headers["retry-after"], "7");
        assert!(answer.text().contains("make one"));
    }
}
