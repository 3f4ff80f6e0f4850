//! Random chunked bodies, valid and damaged, compared with a simple line-based decoder.

use super::pieces::check;
use super::streams::Draw;
use speedwell_load::http1::MethodKind;

/// Returns the payload and the bytes after the body; `None` unless the body is complete and valid.
fn decode(mut rest: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut payload = Vec::new();
    loop {
        let size = line(&mut rest)?;
        let (digits, extension) = match size.iter().position(|byte| *byte == b';') {
            Some(at) => (&size[..at], &size[at..]),
            None => (size, &b""[..]),
        };
        let digits = std::str::from_utf8(digits).ok()?.trim_end_matches([' ', '\t']);
        let is_control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
        if digits.starts_with('+') || extension.iter().any(is_control) {
            return None;
        }
        let length = usize::try_from(u64::from_str_radix(digits, 16).ok()?).ok()?;
        if length == 0 {
            break;
        }
        payload.extend_from_slice(rest.get(..length)?);
        rest = &rest[length..];
        if !line(&mut rest)?.is_empty() {
            return None;
        }
    }
    loop {
        let trailer = line(&mut rest)?;
        if trailer.is_empty() {
            return Some((payload, rest.len()));
        }
        let mut fields = [httparse::EMPTY_HEADER; 1];
        let text = [trailer, b"\r\n\r\n"].concat();
        httparse::parse_headers(&text, &mut fields).ok()?;
    }
}

/// Removes a line, which ends with CRLF or LF, from the start.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line = &rest[..end];
    *rest = &rest[end + 1..];
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

#[test]
fn chunked_bodies_are_read_as_by_a_simple_decoder() {
    let mut draw = Draw::new(2);
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (mut whole, mut broken) = (0, 0);
    for _ in 0..6000 {
        let (mut body, _) = draw.chunked();
        for _ in 0..draw.below(3) {
            draw.damage(&mut body);
        }
        let stream = [head, body.as_slice()].concat();
        let lengths = [1 + draw.below(60), 1 + draw.below(9)];
        let ours = check(&[MethodKind::Body], &stream, &lengths);
        let text = String::from_utf8_lossy(&body);
        let Some((payload, left)) = decode(&body) else {
            assert!(ours.ended.is_empty(), "whole for us only: {text:?}");
            broken += 1;
            continue;
        };
        assert_eq!(ours.ended.len(), 1, "whole for the decoder only: {text:?}");
        assert_eq!(ours.bodies[0], payload, "{text:?}");
        let framing = body.len() - left - payload.len();
        assert_eq!(ours.ended[0].framing_bytes as usize, framing, "{text:?}");
        whole += 1;
    }
    assert!(whole > 1500 && broken > 600, "{whole} whole, {broken} broken");
}
