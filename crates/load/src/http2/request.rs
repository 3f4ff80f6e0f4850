//! Encodes a request once, so that it can be sent on any number of streams. Only the stream ID is
//! written into each copy.
//!
//! This module decides which bytes are sent; the rules of [`crate::http1`] decide which requests
//! are valid. Start at [`Http2Request::new`].

use super::frame::{FrameHead, HEAD_BYTES, MIN_MAX_FRAME_BYTES, flag, kind};
use super::hpack::{SIZE_UPDATE_ZERO, encode_field};
use crate::http1::{InvalidRequest, MethodKind, RequestParts, validate_parts};
use std::io::Write;
use std::sync::Arc;

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

impl UrlScheme {
    fn name(self) -> &'static [u8] {
        match self {
            UrlScheme::Http => b"http",
            UrlScheme::Https => b"https",
        }
    }
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
    /// Host becomes `:authority`, whether `host` or `headers` gives it. Connection-specific fields
    /// of HTTP/1 (RFC 9113, section 8.2.2) are omitted: Connection, Keep-Alive, Proxy-Connection,
    /// Upgrade, HTTP2-Settings, and TE unless its value is `trailers`.
    ///
    /// # Errors
    /// Fails if a part is invalid or the target is a full URL, as for a proxy.
    pub fn new(parts: &RequestParts, scheme: UrlScheme) -> Result<Http2Request, InvalidRequest> {
        let mut request = Http2Request::default();
        request.encode_parts(parts, scheme)?;
        Ok(request)
    }

    /// Same as [`Http2Request::new`], but replaces this request and reuses its memory. If a stream
    /// is still sending the old body, the memory of the body is not reused.
    ///
    /// # Errors
    /// See [`Http2Request::new`]; on failure, this request is unchanged.
    pub fn encode_parts(
        &mut self,
        parts: &RequestParts,
        scheme: UrlScheme,
    ) -> Result<(), InvalidRequest> {
        validate_parts(parts)?;
        let is_connect = parts.method == "CONNECT";
        if !(is_connect || parts.target == "*" || parts.target.starts_with('/')) {
            return Err(InvalidRequest::Target(parts.target.into()));
        }
        let given = parts.body.unwrap_or_default();
        match Arc::get_mut(&mut self.body) {
            Some(body) => {
                body.clear();
                body.extend_from_slice(given);
            }
            None => self.body = Arc::new(given.to_vec()),
        }
        self.method = MethodKind::for_method(parts.method);
        self.head.clear();
        self.head.resize(HEAD_BYTES, 0);
        push_block(&mut self.head, parts, scheme);
        self.split_into_frames();
        Ok(())
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
        encode_field(out, b":scheme", scheme.name());
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
        let mut digits = [0; 20];
        let mut rest = &mut digits[..];
        // Writing fails only if the slice is too short, and a usize has at most 20 digits.
        let _ = write!(rest, "{length}");
        let left = rest.len();
        encode_field(out, b"content-length", &digits[..20 - left]);
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
