//! A chunked body, read as a whole, byte by byte and in pieces, and compared with httparse's chunk
//! sizes: if both find an end, it must be the same, with the same payload. httparse skips a bare LF
//! in an extension, which we accept as a line end, so such bodies are not compared.

#![no_main]

#[path = "../../crates/load/tests/it/pieces.rs"]
mod pieces;

use speedwell_load::http1::MethodKind;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Returns the payload and the number of bytes it took, without checking trailers.
fn httparse_reads(mut bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let whole = bytes.len();
    let mut payload = Vec::new();
    loop {
        let parsed = httparse::parse_chunk_size(bytes).ok()?;
        let httparse::Status::Complete((start, length)) = parsed else {
            return None;
        };
        bytes = &bytes[start..];
        if length == 0 {
            return Some((payload, whole - bytes.len()));
        }
        let (data, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
        payload.extend_from_slice(data);
        bytes = rest.strip_prefix(b"\r\n")?;
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, body)) = bytes.split_first() else {
        return;
    };
    // Seeds are whole responses, of which only the body is used.
    let head = body.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let body = match head {
        Some(at) if body.starts_with(b"HTTP/") => &body[at + 4..],
        _ => body,
    };
    let stream = [HEAD, body].concat();
    let lengths = [usize::from(first % 61) + 1, usize::from(first % 7) + 1];
    let outcome = pieces::check(&[MethodKind::Body], &stream, &lengths);
    let is_bare = |(at, byte): (usize, &u8)| *byte == b'\n' && (at == 0 || body[at - 1] != b'\r');
    if body.iter().enumerate().any(is_bare) {
        return;
    }
    let (Some(summary), Some((payload, taken))) = (outcome.ended.first(), httparse_reads(body))
    else {
        return;
    };
    assert_eq!(outcome.bodies[0], payload);
    // The last size is followed by trailers and an empty line.
    let framing = taken - payload.len();
    assert!(
        summary.framing_bytes > framing as u64,
        "{framing}: {summary:?}"
    );
});
