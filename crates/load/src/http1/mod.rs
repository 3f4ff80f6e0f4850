//! Implements an HTTP/1.1 client without sockets. It works on byte slices (RFC 9110 and RFC 9112).
//!
//! [`Http1Request`] encodes a request once, to be sent any number of times. [`ResponseReader`]
//! accepts received data in pieces of any size. It finds the end and the size of each response, and
//! whether the connection can be reused. Neither type knows about time, sockets or the purpose of a
//! request. Nothing is allocated per request, except when a connection receives a head in pieces
//! for the first time. Start at [`ResponseReader`].

mod head;
mod request;
mod response;

pub use head::MethodKind;
pub(crate) use head::{is_token_byte, parse_number};
pub(crate) use request::validate_parts;
pub use request::{ConnectionOption, Http1Request, Http1Version, InvalidRequest, RequestParts};
pub use response::{FeedProgress, HeadLimits, ResponsePhase, ResponseReader};

use std::fmt;

// The types below describe a finished response in plain numbers, or say what is wrong with its
// bytes. A load test counts each kind of error separately. [`ResponsePhase`] tells in which part of
// the response an error occurred.

/// A finished response, or the part of an unfinished one that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResponseSummary {
    /// Status code of the final response, 200 to 999; 0 until its head is complete.
    pub status: u16,
    /// Bytes of status lines and header fields, including interim responses.
    pub head_bytes: u64,
    /// Payload bytes, without the framing of the chunked coding.
    pub body_bytes: u64,
    /// Bytes of chunk sizes, chunk extensions, line ends between chunks, and trailers.
    pub framing_bytes: u64,
    /// Number of preceding interim responses (1xx).
    pub interim: u32,
    /// Status of the last interim response; 0 if there was none.
    pub interim_status: u16,
    /// Whether the connection can carry another request (RFC 9112, section 9.3).
    pub reusable: bool,
    /// Whether only the end of the connection marks the end of the body.
    pub until_eof: bool,
    /// Whether both Transfer-Encoding, which was obeyed, and Content-Length were present. RFC 9112
    /// (section 6.1) considers this combination a sign of tampering.
    pub doubtful_framing: bool,
}

impl ResponseSummary {
    /// Total bytes of the response on the connection.
    pub fn wire_bytes(&self) -> u64 {
        self.head_bytes + self.body_bytes + self.framing_bytes
    }
}

/// What the end of the connection means for the awaited response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseEnd {
    /// No response was awaited: the peer closed an idle connection.
    Idle,
    /// No byte of the awaited response had arrived.
    BeforeFirstByte,
    /// The connection ended within a head, or after interim responses only.
    InHead(ResponseSummary),
    /// The body is incomplete.
    InBody(ResponseSummary),
    /// The end of the connection completed the body.
    Complete(ResponseSummary),
}

/// Why bytes are not a valid response. The connection can no longer be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResponseError {
    /// The data does not start with `HTTP/`: the peer speaks another protocol.
    NotHttp,
    /// The start is HTTP, but the version, status code or reason phrase is malformed, or the
    /// version is not 1.x.
    StatusLine,
    /// A header field is malformed (RFC 9112, section 5), or the framing fields are invalid.
    Header,
    /// The head exceeds the [`HeadLimits`] for its length or number of fields.
    HeadTooLarge,
    /// Content-Length occurs more than once, with different values.
    LengthConflict,
    /// The chunked coding or its trailer section is malformed (RFC 9112, section 7.1).
    Chunk,
    /// 101: the peer switched protocols without being asked.
    Switched,
    /// Bytes arrived before any request was sent on the connection.
    Early,
    /// Bytes arrived after the last response.
    Extra,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            ResponseError::NotHttp => "the response is not HTTP",
            ResponseError::StatusLine => "the status line is malformed or not HTTP/1.x",
            ResponseError::Header => "a header field is malformed",
            ResponseError::HeadTooLarge => "the head of the response is too large",
            ResponseError::LengthConflict => "Content-Length occurs twice with different values",
            ResponseError::Chunk => "the chunked encoding is malformed",
            ResponseError::Switched => {
                "the server switched protocols although no switch was requested"
            }
            ResponseError::Early => "bytes arrived before a request was sent",
            ResponseError::Extra => "bytes arrived after the end of the response",
        })
    }
}

impl std::error::Error for ResponseError {}

// The types below keep the parts of a response that a check inspects: the beginning of its body and
// some header fields. Measurements do not need these parts: a [`ResponseReader`] that is fed
// without a [`ResponseWatch`] copies nothing.

/// Keeps the first bytes of a body and the values of the requested fields. Its memory is reused for
/// later responses.
#[derive(Debug, Clone, Default)]
pub struct ResponseWatch {
    body: Vec<u8>,
    max_body_bytes: usize,
    fields: Vec<WatchedField>,
}

#[derive(Debug, Clone)]
struct WatchedField {
    name: &'static str,
    value: Vec<u8>,
    is_present: bool,
}

impl ResponseWatch {
    /// Creates a watch for up to `max_body_bytes` of a body and for fields with these names.
    pub fn new(max_body_bytes: usize, names: &[&'static str]) -> ResponseWatch {
        let fields =
            names.iter().map(|name| WatchedField { name, value: Vec::new(), is_present: false });
        ResponseWatch {
            body: Vec::with_capacity(max_body_bytes.min(64 * 1024)),
            max_body_bytes,
            fields: fields.collect(),
        }
    }

    /// Beginning of the body, without the framing of the chunked coding.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Value of a field without surrounding blanks; the first value if the field is repeated.
    /// `None` if the field is absent or was not requested.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        let field = self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
        field.is_present.then_some(field.value.as_slice())
    }

    /// Clears the data of the last response.
    pub(crate) fn clear(&mut self) {
        self.body.clear();
        for field in &mut self.fields {
            field.is_present = false;
            field.value.clear();
        }
    }

    pub(crate) fn add_field(&mut self, name: &[u8], value: &[u8]) {
        let wanted = |field: &&mut WatchedField| {
            !field.is_present && field.name.as_bytes().eq_ignore_ascii_case(name)
        };
        if let Some(field) = self.fields.iter_mut().find(wanted) {
            field.is_present = true;
            field.value.extend_from_slice(trim_blanks(value));
        }
    }

    /// Uses the beginning of a body that the caller has already collected, up to the watch's limit.
    #[cfg(feature = "http3")]
    pub(crate) fn set_body(&mut self, mut body: Vec<u8>) {
        body.truncate(self.max_body_bytes);
        self.body = body;
    }

    pub(crate) fn add_data(&mut self, bytes: &[u8]) {
        let room = self.max_body_bytes - self.body.len();
        self.body.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }
}

/// Strips surrounding blanks, including the line breaks of folded lines.
fn trim_blanks(value: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let Some(first) = value.iter().position(|byte| !is_blank(byte)) else {
        return &[];
    };
    let last = value.iter().rposition(|byte| !is_blank(byte));
    &value[first..=last.unwrap_or(first)]
}
