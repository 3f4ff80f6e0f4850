//! Reads and writes frame heads (RFC 9113, section 4.1), encodes frames, and defines the settings
//! of both sides. Also encodes requests: start at [`Http2Request::new`].

use super::hpack::{SIZE_UPDATE_ZERO, encode_field};
use super::{Http2ConnectionError, Http2ErrorCode};
use crate::http1::{InvalidRequest, MethodKind, RequestParts, validate_parts};
use std::sync::Arc;

pub(super) const HEAD_BYTES: usize = 9;

/// Size of the largest payload that every peer accepts (section 6.5.2), and that we accept.
pub(super) const MIN_MAX_FRAME_BYTES: u32 = 16_384;
/// The largest payload limit that a peer may announce.
const MAX_MAX_FRAME_BYTES: u32 = 16_777_215;
/// The maximum window and the maximum stream ID (sections 5.1.1 and 6.9.1).
pub(super) const MAX_31_BITS: u32 = 0x7fff_ffff;

pub(super) mod kind {
    pub(in super::super) const DATA: u8 = 0;
    pub(in super::super) const HEADERS: u8 = 1;
    pub(in super::super) const PRIORITY: u8 = 2;
    pub(in super::super) const RST_STREAM: u8 = 3;
    pub(in super::super) const SETTINGS: u8 = 4;
    pub(in super::super) const PUSH_PROMISE: u8 = 5;
    pub(in super::super) const PING: u8 = 6;
    pub(in super::super) const GOAWAY: u8 = 7;
    pub(in super::super) const WINDOW_UPDATE: u8 = 8;
    pub(in super::super) const CONTINUATION: u8 = 9;
}

pub(super) mod flag {
    pub(in super::super) const ACK: u8 = 1;
    pub(in super::super) const END_STREAM: u8 = 1;
    pub(in super::super) const END_HEADERS: u8 = 4;
    pub(in super::super) const PADDED: u8 = 8;
    pub(in super::super) const PRIORITY: u8 = 0x20;
}

#[derive(Debug, Clone, Copy)]
pub(super) struct FrameHead {
    pub(super) length: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHead {
    #[inline]
    pub(super) fn read(bytes: &[u8; HEAD_BYTES]) -> FrameHead {
        let [a, b, c, kind, flags, s, t, u, v] = *bytes;
        FrameHead {
            length: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes([s, t, u, v]) & MAX_31_BITS,
        }
    }

    pub(super) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [s, t, u, v] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s, t, u, v]
    }

    pub(super) fn has_flag(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

pub(super) fn push_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let head = FrameHead { length: payload.len() as u32, kind, flags, stream };
    out.extend_from_slice(&head.to_bytes());
    out.extend_from_slice(payload);
}

pub(super) fn push_reset(out: &mut Vec<u8>, stream: u32, code: Http2ErrorCode) {
    push_frame(out, kind::RST_STREAM, 0, stream, &code.0.to_be_bytes());
}

/// Appends a WINDOW_UPDATE frame; stream 0 is the connection.
pub(super) fn push_window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    push_frame(out, kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
}

// Our settings and the peer's (RFC 9113, section 6.5).

/// Size of every window before another size is announced (section 6.9.2).
pub(super) const INITIAL_WINDOW_BYTES: u32 = 65_535;
/// Stream limit that is assumed until the peer announces its own. Formally, there is no limit until
/// then, but a server with a lower limit would refuse the excess streams. RFC 9113 (section 6.5.2)
/// recommends that servers allow at least this many.
const STREAMS_BEFORE_SETTINGS: u32 = 100;

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;

/// The settings that we announce to the peer, and our limits for its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2Settings {
    /// Size in bytes of the peer's header compression table. With 0, header blocks are
    /// self-contained and decoded only on demand; otherwise every block must be decoded. Browsers
    /// announce 4096 or more.
    pub table_size: u32,
    /// Stream window: bytes that a peer may send before a WINDOW_UPDATE; 1 to 2^31 - 1.
    pub stream_window: u32,
    /// Window of the whole connection; at least its initial size of 65535, up to 2^31 - 1.
    pub connection_window: u32,
    /// Maximum size in bytes of a compressed header block, and of its decoded fields. For the
    /// decoded fields, RFC 9113 adds 32 bytes per field.
    pub max_header_bytes: u32,
}

impl Default for Http2Settings {
    fn default() -> Self {
        Http2Settings {
            table_size: 0,
            // Data is consumed immediately, so windows protect nothing. Large windows save
            // WINDOW_UPDATE frames.
            stream_window: (1 << 30) - 1,
            connection_window: (1 << 30) - 1,
            max_header_bytes: 64 * 1024,
        }
    }
}

impl Http2Settings {
    /// Appends the connection preface and settings (section 3.4), and enlarges the window of the
    /// connection.
    pub(super) fn push_greeting(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let pairs = [
            (HEADER_TABLE_SIZE, self.table_size),
            (ENABLE_PUSH, 0),
            (INITIAL_WINDOW_SIZE, self.stream_window),
            (MAX_FRAME_SIZE, MIN_MAX_FRAME_BYTES),
            (MAX_HEADER_LIST_SIZE, self.max_header_bytes),
        ];
        let mut payload = [0; 30];
        for (place, (name, value)) in payload.as_chunks_mut::<6>().0.iter_mut().zip(pairs) {
            place[..2].copy_from_slice(&name.to_be_bytes());
            place[2..].copy_from_slice(&value.to_be_bytes());
        }
        push_frame(out, kind::SETTINGS, 0, 0, &payload);
        let more = self.connection_window - INITIAL_WINDOW_BYTES;
        if more > 0 {
            push_window_update(out, 0, more);
        }
    }
}

/// Settings of the peer, with assumed values until the peer announces its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerSettings {
    pub(super) table_size: u32,
    pub(super) max_streams: u32,
    pub(super) stream_window: u32,
}

impl PeerSettings {
    pub(super) fn defaults() -> PeerSettings {
        PeerSettings {
            table_size: 4096,
            max_streams: STREAMS_BEFORE_SETTINGS,
            stream_window: INITIAL_WINDOW_BYTES,
        }
    }

    /// Applies a SETTINGS frame; the last of repeated settings wins. If the first frame of a
    /// connection does not mention a stream limit, there is no limit.
    pub(super) fn apply_changes(
        mut self,
        payload: &[u8],
        is_first: bool,
    ) -> Result<PeerSettings, Http2ConnectionError> {
        let (pairs, []) = payload.as_chunks::<6>() else {
            return Err(Http2ConnectionError::FrameSize);
        };
        if is_first {
            self.max_streams = u32::MAX;
        }
        for [a, b, c, d, e, f] in pairs {
            let value = u32::from_be_bytes([*c, *d, *e, *f]);
            match u16::from_be_bytes([*a, *b]) {
                HEADER_TABLE_SIZE => self.table_size = value,
                // Only clients may enable push.
                ENABLE_PUSH if value != 0 => return Err(Http2ConnectionError::Setting),
                MAX_CONCURRENT_STREAMS => self.max_streams = value,
                INITIAL_WINDOW_SIZE if value > MAX_31_BITS => {
                    return Err(Http2ConnectionError::FlowControl);
                }
                INITIAL_WINDOW_SIZE => self.stream_window = value,
                MAX_FRAME_SIZE if !(MIN_MAX_FRAME_BYTES..=MAX_MAX_FRAME_BYTES).contains(&value) => {
                    return Err(Http2ConnectionError::Setting);
                }
                // We never send larger frames than every peer accepts. MAX_HEADER_LIST_SIZE is
                // advisory; unknown settings are ignored.
                _ => {}
            }
        }
        Ok(self)
    }
}

#[derive(Debug, Default)]
pub(super) struct OutputQueue {
    bytes: Vec<u8>,
    /// Number of leading bytes that have been sent.
    start: usize,
}

impl OutputQueue {
    #[inline]
    pub(super) fn pending_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Returns the buffer to append to. Discards sent bytes once they are the larger part. Moving
    /// the rest then costs no more than appending it did.
    #[inline]
    pub(super) fn append_buffer(&mut self) -> &mut Vec<u8> {
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        &mut self.bytes
    }

    pub(super) fn mark_sent(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.bytes.len());
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }
}

// The code below encodes a request once, so that it can be sent on any number of streams. Only the
// stream ID is written into each copy. This decides which bytes are sent; the rules of
// [`crate::http1`] decide which requests are valid.

/// Maximum size of a fragment of a header block: the payload that every peer accepts, minus one
/// byte. That byte is for a new size of the compression table, which the first fragment may have to
/// announce.
const MAX_FRAGMENT_BYTES: usize = MIN_MAX_FRAME_BYTES as usize - 1;

/// Scheme of the requested URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum UrlScheme {
    /// Unencrypted.
    #[default]
    Http,
    /// Over TLS.
    Https,
}

/// An encoded request.
///
/// ```
/// use speedwell_load::http1::RequestParts;
/// use speedwell_load::http2::{Http2Connection, Http2Request, UrlScheme, Http2Settings};
///
/// let parts = RequestParts {
///     method: "GET",
///     target: "/index.html",
///     host: "localhost:8080",
///     headers: &[("Accept", b"*/*")],
///     ..RequestParts::default()
/// };
/// let request = Http2Request::new(&parts, UrlScheme::Http)?;
/// let mut connection = Http2Connection::new(&Http2Settings::default());
/// assert!(connection.open_stream(&request, 0));
/// assert!(connection.output().starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
/// # Ok::<(), speedwell_load::http1::InvalidRequest>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Http2Request {
    /// The header block, split into frames with stream ID 0.
    head: Vec<u8>,
    body: Arc<Vec<u8>>,
    method: MethodKind,
}

impl Http2Request {
    /// Checks and encodes the parts. Ignores the version and the connection option of
    /// [`RequestParts`].
    ///
    /// The host, from `host` or from a Host field in `headers`, becomes `:authority`.
    /// Connection-specific fields of HTTP/1 (RFC 9113, section 8.2.2) are omitted: Connection,
    /// Keep-Alive, Proxy-Connection, Upgrade, HTTP2-Settings, and TE unless its value is
    /// `trailers`.
    ///
    /// # Errors
    /// Fails if a part is invalid or the target is a full URL, as for a proxy.
    pub fn new(parts: &RequestParts, scheme: UrlScheme) -> Result<Http2Request, InvalidRequest> {
        validate_parts(parts)?;
        let is_connect = parts.method == "CONNECT";
        if !(is_connect || parts.target == "*" || parts.target.starts_with('/')) {
            return Err(InvalidRequest::Target(parts.target.into()));
        }
        let mut request = Http2Request {
            head: vec![0; HEAD_BYTES],
            body: Arc::new(parts.body.unwrap_or_default().to_vec()),
            method: MethodKind::for_method(parts.method),
        };
        push_block(&mut request.head, parts, scheme);
        request.split_into_frames();
        Ok(request)
    }

    /// Splits the block into fragments and inserts a frame head before each; room for the first
    /// head already precedes the block.
    fn split_into_frames(&mut self) {
        let block_bytes = self.head.len() - HEAD_BYTES;
        let fragments = block_bytes.div_ceil(MAX_FRAGMENT_BYTES).max(1);
        let mut at = 0;
        for fragment in 0..fragments {
            if fragment > 0 {
                self.head.splice(at..at, [0; HEAD_BYTES]);
            }
            let length = MAX_FRAGMENT_BYTES.min(self.head.len() - at - HEAD_BYTES);
            let ends_headers = if fragment + 1 == fragments { flag::END_HEADERS } else { 0 };
            let head = match fragment {
                0 if self.body.is_empty() => (kind::HEADERS, flag::END_STREAM | ends_headers),
                0 => (kind::HEADERS, ends_headers),
                _ => (kind::CONTINUATION, ends_headers),
            };
            let head = FrameHead { length: length as u32, kind: head.0, flags: head.1, stream: 0 };
            self.head[at..at + HEAD_BYTES].copy_from_slice(&head.to_bytes());
            at += HEAD_BYTES + length;
        }
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Kind of the method, which determines how the response is framed.
    pub fn method(&self) -> MethodKind {
        self.method
    }

    pub(super) fn shared_body(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.body)
    }

    /// Appends the head's frames for a stream. With `resets_table`, the block starts by announcing
    /// that no compression table is used (RFC 7541, section 4.2).
    #[inline]
    pub(super) fn push_head(&self, out: &mut Vec<u8>, stream: u32, resets_table: bool) {
        let mut at = out.len();
        out.extend_from_slice(&self.head);
        let id = stream.to_be_bytes();
        let whole = MAX_FRAGMENT_BYTES + HEAD_BYTES;
        while at < out.len() {
            out[at + 5..at + HEAD_BYTES].copy_from_slice(&id);
            at += whole;
        }
        if resets_table {
            let start = out.len() - self.head.len();
            out.insert(start + HEAD_BYTES, SIZE_UPDATE_ZERO);
            let length = (self.head.len() - HEAD_BYTES).min(MAX_FRAGMENT_BYTES) as u32 + 1;
            out[start..start + 3].copy_from_slice(&length.to_be_bytes()[1..]);
        }
    }
}

/// Appends the header block, pseudo-header fields first (RFC 9113, section 8.3).
fn push_block(out: &mut Vec<u8>, parts: &RequestParts, scheme: UrlScheme) {
    let host = parts.field_values("host").next().unwrap_or(parts.host.as_bytes());
    encode_field(out, b":method", parts.method.as_bytes());
    if parts.method == "CONNECT" {
        // The authority is the target; other pseudo-header fields are omitted (section 8.5).
        encode_field(out, b":authority", parts.target.as_bytes());
    } else {
        let scheme: &[u8] = match scheme {
            UrlScheme::Http => b"http",
            UrlScheme::Https => b"https",
        };
        encode_field(out, b":scheme", scheme);
        encode_field(out, b":authority", host);
        encode_field(out, b":path", parts.target.as_bytes());
    }
    for (name, value) in parts.headers {
        if !is_omitted(name, value) {
            encode_field(out, name.as_bytes(), value.trim_ascii());
        }
    }
    if let Some(length) = parts.content_length()
        && parts.field_values("content-length").next().is_none()
    {
        encode_field(out, b"content-length", length.to_string().as_bytes());
    }
}

/// Whether a field is omitted: it is specific to HTTP/1 connections, or a pseudo-header field
/// replaces it.
pub(crate) fn is_omitted(name: &str, value: &[u8]) -> bool {
    const NAMES: [&str; 6] =
        ["connection", "host", "http2-settings", "keep-alive", "proxy-connection", "upgrade"];
    NAMES.iter().any(|forbidden| name.eq_ignore_ascii_case(forbidden))
        || name.eq_ignore_ascii_case("te") && !value.trim_ascii().eq_ignore_ascii_case(b"trailers")
}
