//! T4: bodies that are too large, compressed or not.

use super::served::{TestConnection, TestServer, test_limits};
use flate2::Compression;
use flate2::write::GzEncoder;
use speedwell_server::http::ServerLimits;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::Ordering;

fn gzip_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn post_body(
    served: &TestServer,
    path: &str,
    fields: &str,
    body: &[u8],
) -> TestConnection<TcpStream> {
    let mut wire = served.connect();
    let (host, length) = (served.address(), body.len());
    wire.send(format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{fields}\r\n"
    ));
    wire.send(body);
    wire
}

const GZIP: &str = "Content-Encoding: gzip\r\n";

#[test]
fn a_body_within_the_limits_arrives_whole_packed_or_not() {
    let served = TestServer::start_local();
    let body = vec![b'x'; 3 << 20];
    assert_eq!(post_body(&served, "/read", "", &body).read_response().text(), "3145728 bytes");
    let text: Vec<u8> = (0..500_000_u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(
        post_body(&served, "/read", GZIP, &gzip_bytes(&text)).read_response().text(),
        "2000000 bytes"
    );
}

/// A gzip file with many members, each expanding from ten kilobytes to ten megabytes of zeros.
#[test]
fn a_gzip_bomb_is_refused_by_its_length_or_after_about_a_megabyte() {
    let served = TestServer::start_local();
    let member = gzip_bytes(&vec![0; 10 << 20]);
    let bomb = member.repeat((10 << 20) / member.len());
    assert!(bomb.len() as u64 > test_limits().body_bytes);
    let answer = post_body(&served, "/pieces", GZIP, &bomb).read_response();
    assert_eq!(answer.status, 413, "for its length alone");
    assert_eq!(served.request_count(), 0);

    let just_short_enough = &bomb[..8 << 20];
    let mut wire = post_body(&served, "/pieces", GZIP, just_short_enough);
    let answer = wire.read_response();
    assert_eq!(answer.status, 413, "{}", answer.text());
    assert_eq!(answer.headers["connection"], "close");
    assert_eq!(wire.read_to_end(), "");
    let read = served.seen.body_bytes.load(Ordering::SeqCst);
    assert!(read < 2 << 20, "the handler was given {read} bytes");
}

#[test]
fn decompressed_bodies_have_a_separate_size_limit() {
    let served =
        TestServer::start_with_limits(ServerLimits { unpacked_bytes: 100_000, ..test_limits() });
    let text: Vec<u8> = (0..25_000_u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(post_body(&served, "/read", GZIP, &gzip_bytes(&text)).read_response().status, 200);
    let text = [&text[..], b"."].concat();
    assert_eq!(post_body(&served, "/read", GZIP, &gzip_bytes(&text)).read_response().status, 413);
}

#[test]
fn an_invalid_gzip_body_is_refused_however_the_handler_reads_it() {
    let served = TestServer::start_local();
    let broken = &gzip_bytes(b"0123456789")[..15];
    for path in ["/read", "/pieces"] {
        let answer = post_body(&served, path, GZIP, broken).read_response();
        assert_eq!(answer.status, 400, "{path}");
        assert_eq!(answer.text(), "the body is not valid gzip\n");
    }
}

#[test]
fn unsupported_content_encodings_are_refused() {
    let served = TestServer::start_local();
    for coding in ["br", "deflate", "gzip, gzip", "gzip\r\nContent-Encoding: gzip", "zstd", ""] {
        let fields = format!("Content-Encoding: {coding}\r\n");
        assert_eq!(
            post_body(&served, "/read", &fields, b"x").read_response().status,
            415,
            "{coding}"
        );
    }
    let fields = "Content-Encoding: identity\r\n";
    assert_eq!(post_body(&served, "/read", fields, b"x").read_response().status, 200);
}

#[test]
fn a_client_that_expects_100_continue_is_refused_before_sending() {
    let served = TestServer::start_local();
    let mut wire = served.connect();
    let host = served.address();
    wire.send(format!(
        "POST /read HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9000000\r\n\
         Expect: 100-continue\r\n\r\n"
    ));
    assert_eq!(wire.read_response().status, 413);
    assert_eq!(wire.read_to_end(), "");

    let mut wire = served.connect();
    wire.send(format!(
        "POST /read HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    ));
    assert_eq!(wire.read_head().unwrap().status, 100);
    wire.send("12345");
    assert_eq!(wire.read_response().text(), "5 bytes");
}

#[test]
fn a_refusal_is_json_for_clients_that_accept_json() {
    let served = TestServer::start_local();
    let fields = "Content-Encoding: br\r\nAccept: application/json\r\n";
    let answer = post_body(&served, "/read", fields, b"x").read_response();
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(problem["hint"], "use gzip once, or no encoding");
    assert!(problem["error"].is_string());
}
