//! A chunked body, read whole, byte by byte and in pieces, and as httparse reads its chunk sizes:
//! where both find an end, it is the same one behind the same payload. httparse skips a bare LF in
//! an extension and we take it for the line's end, so bodies with one are not compared.

#![no_main]

#[path = "../../tests/it/pieces.rs"]
mod pieces;

use speedwell_load::http1::MethodKind;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The payload and how many bytes it took, without looking at trailers.
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
    // Seeds are whole responses; of those only the body counts.
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
    // What is behind the last size are trailers and an empty line.
    let framing = taken - payload.len();
    assert!(
        summary.framing_bytes > framing as u64,
        "{framing}: {summary:?}"
    );
});
