//! Time per response, compared with httparse on the same bytes: `cargo bench -p speedwell-load
//! --bench reply`. Both determine the end of the head, the status, the body length and whether the
//! connection persists. They alternate, so that ratios within one run are reliable on a busy
//! machine.
//!
//! With `--bench SIDE` (`ours` or `httparse`) only that side runs, for `perf stat -e
//! instructions:u`; `none` measures the overhead. Without `--bench` everything runs once.

use speedwell_load::http1::{MethodKind, ResponseReader};
use std::hint::black_box;
use std::time::Instant;

const SMALL: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
Content-Type: text/plain\r\nContent-Length: 14\r\nConnection: keep-alive\r\n\r\nHello, world!\n";
const LARGER: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
Content-Type: text/html; charset=utf-8\r\nContent-Length: 14\r\nConnection: keep-alive\r\n\
Last-Modified: Wed, 31 Dec 2025 12:34:56 GMT\r\nVary: Accept-Encoding\r\nETag: \"6957f2b0-e\"\r\n\
Cache-Control: public, max-age=3600, stale-while-revalidate=60\r\nX-Frame-Options: DENY\r\n\
Strict-Transport-Security: max-age=31536000; includeSubDomains\r\nAccept-Ranges: bytes\r\n\
Content-Security-Policy: default-src 'self'; img-src *; script-src 'self' 'unsafe-inline'\r\n\r\n\
Hello, world!\n";
const CALLS: u32 = 1_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_measuring = arguments.iter().any(|argument| argument == "--bench");
    let calls = if is_measuring { CALLS } else { 100 };
    let mut reply = ResponseReader::default();
    let mut ours = |bytes: &[u8]| read(&mut reply, bytes);
    match arguments.get(1).map(String::as_str) {
        Some("ours") => drop(time_ns(SMALL, CALLS, &mut ours)),
        Some("httparse") => drop(time_ns(SMALL, CALLS, &mut httparse_reads)),
        Some("none") => drop(time_ns(SMALL, CALLS, &mut |bytes| bytes.len() as u64)),
        _ => {
            compare("small", SMALL, calls, &mut ours);
            compare("larger", LARGER, calls, &mut ours);
        }
    }
}

/// Prints median times over alternating rounds.
fn compare(name: &str, bytes: &[u8], calls: u32, ours: &mut impl FnMut(&[u8]) -> u64) {
    assert_eq!(ours(bytes), httparse_reads(bytes), "both read the same");
    let mut rounds: Vec<(f64, f64)> = (0..9)
        .map(|_| (time_ns(bytes, calls, ours), time_ns(bytes, calls, &mut httparse_reads)))
        .collect();
    rounds.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    let (ours_ns, httparse_ns) = rounds[4];
    println!(
        "{name}, {} bytes: {ours_ns:.1} ns, httparse {httparse_ns:.1} ns, ratio {:.2}",
        bytes.len(),
        ours_ns / httparse_ns
    );
}

fn time_ns(bytes: &[u8], calls: u32, read: &mut impl FnMut(&[u8]) -> u64) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(read(black_box(bytes)));
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// Combines the facts that both must agree on in one number: status, body length and reuse.
fn facts(status: u16, body_bytes: u64, reusable: bool) -> u64 {
    (body_bytes * 1000 + u64::from(status)) * 2 + u64::from(reusable)
}

fn read(reply: &mut ResponseReader, bytes: &[u8]) -> u64 {
    reply.expect_response(MethodKind::Body);
    match reply.feed(bytes).map(|progress| progress.ended) {
        Ok(Some(ended)) => facts(ended.status, ended.body_bytes, ended.reusable),
        _ => 0,
    }
}

fn httparse_reads(bytes: &[u8]) -> u64 {
    let mut fields = [std::mem::MaybeUninit::uninit(); 64];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        bytes,
        &mut fields,
    );
    let Ok(httparse::Status::Complete(head_bytes)) = parsed else {
        return 0;
    };
    let (mut length, mut closes) = (0, false);
    for field in response.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            let digits = std::str::from_utf8(field.value).unwrap_or_default();
            length = digits.trim().parse().unwrap_or(0);
        } else if field.name.eq_ignore_ascii_case("connection") {
            closes |= field
                .value
                .split(|byte| *byte == b',')
                .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"));
        }
    }
    let body_bytes = length.min((bytes.len() - head_bytes) as u64);
    facts(response.code.unwrap_or(0), body_bytes, !closes)
}
