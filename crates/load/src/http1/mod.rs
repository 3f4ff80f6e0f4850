//! HTTP/1.1 as a client speaks it, without sockets: RFC 9110 and RFC 9112 over slices of bytes.
//!
//! [`Request`] builds the bytes of a request once, to be sent again and again. [`Reply`] is fed
//! with whatever arrives and finds where a response ends, what it weighed and whether its
//! connection may carry another request. Neither knows the time, a socket or why it is asked.
//! Nothing is allocated per request, except for a head that arrives in pieces for the first time on
//! a connection. Start reading at [`Reply`].

mod head;
mod reply;
mod request;

pub use head::MethodKind;
pub(crate) use head::{is_token_byte, number};
pub use reply::{Limits, Phase, Progress, Reply};
pub(crate) use request::check;
pub use request::{Connection, Request, RequestError, RequestParts, Version};

use std::fmt;

// What is known of a response when it is over: plain figures, or what is wrong with its bytes. The
// kinds of errors are those that a load test counts apart; where in the response one happened is known
// by [`Phase`].

/// A response that ended, or as much of it as had arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Status code of the final response, 100 to 999; 0 until its head is complete.
    pub status: u16,
    /// Bytes of status lines and header fields, interim responses included.
    pub head_bytes: u64,
    /// Bytes of the payload, without the framing of the chunked coding.
    pub body_bytes: u64,
    /// Bytes of chunk sizes, chunk extensions, line ends between chunks, and trailers.
    pub framing_bytes: u64,
    /// Interim responses (1xx) that came before.
    pub interim: u32,
    /// The status of the last of them; 0 without any.
    pub interim_status: u16,
    /// The connection may carry another request (RFC 9112, section 9.3).
    pub reusable: bool,
    /// The body ended, or will end, with the connection.
    pub until_eof: bool,
    /// Both Transfer-Encoding and Content-Length were given. The former was obeyed; RFC 9112
    /// (section 6.1) takes it for a sign of tampering.
    pub doubtful_framing: bool,
}

impl Summary {
    /// All bytes that the response took on the connection.
    pub fn wire_bytes(&self) -> u64 {
        self.head_bytes + self.body_bytes + self.framing_bytes
    }
}

/// What the end of the connection meant for the response that was awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// No response was awaited: the peer closed an idle connection.
    Idle,
    /// A response was awaited and not one byte of it had arrived.
    BeforeFirstByte,
    /// The connection ended inside a head, or after nothing but interim responses.
    InHead(Summary),
    /// The body is shorter than was announced.
    InBody(Summary),
    /// The body was to last until the end of the connection, and is complete.
    Complete(Summary),
}

/// Why bytes are no response. The connection cannot be used any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReplyError {
    /// The first bytes are not `HTTP/`: the peer speaks something else.
    NotHttp,
    /// It begins like HTTP, but version, status code or reason phrase are malformed, or the
    /// version is not 1.x.
    StatusLine,
    /// A header field is malformed (RFC 9112, section 5), or one that frames the body is unreadable.
    Header,
    /// The head is longer, or has more fields, than [`Limits`] allow.
    HeadTooLarge,
    /// Content-Length was given more than once, with different values.
    LengthConflict,
    /// The chunked coding or its trailer section is malformed (RFC 9112, section 7.1).
    Chunk,
    /// 101: the peer switched to a protocol that was not asked for.
    Switched,
    /// Bytes arrived before any request was sent on this connection.
    Early,
    /// Bytes arrived after the last response that was asked for.
    Extra,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            ReplyError::NotHttp => "the answer is not HTTP",
            ReplyError::StatusLine => "the status line is malformed or not HTTP/1.x",
            ReplyError::Header => "a header field is malformed",
            ReplyError::HeadTooLarge => "the head of the response is too large",
            ReplyError::LengthConflict => "Content-Length is given twice with different values",
            ReplyError::Chunk => "the chunked coding is malformed",
            ReplyError::Switched => "the server switched protocols without being asked",
            ReplyError::Early => "bytes arrived before a request was sent",
            ReplyError::Extra => "bytes arrived after the end of the response",
        })
    }
}

impl std::error::Error for ReplyError {}

// What verification wants to see of a response: the beginning of its body and a few header fields.
// Measuring goes without: a [`Reply`] that is fed without a watch copies nothing.

/// Keeps the first bytes of a body and the values of the fields that were named. Its memory is
/// reused from response to response.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    body: Vec<u8>,
    max_body_bytes: usize,
    fields: Vec<Field>,
}

#[derive(Debug, Clone)]
struct Field {
    name: &'static str,
    value: Vec<u8>,
    is_present: bool,
}

impl Watch {
    /// Keeps up to `max_body_bytes` of a body, and the fields of these names.
    pub fn new(max_body_bytes: usize, names: &[&'static str]) -> Watch {
        let fields = names.iter().map(|name| Field {
            name,
            value: Vec::new(),
            is_present: false,
        });
        Watch {
            body: Vec::with_capacity(max_body_bytes.min(64 * 1024)),
            max_body_bytes,
            fields: fields.collect(),
        }
    }

    /// The beginning of the body, without the framing of the chunked coding.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The value of a field, without the blanks around it; the first one if it was repeated. `None`
    /// if it was absent or not asked for.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        let field = self
            .fields
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case(name))?;
        field.is_present.then_some(field.value.as_slice())
    }

    /// Forgets the last response.
    pub(crate) fn clear(&mut self) {
        self.body.clear();
        for field in &mut self.fields {
            field.is_present = false;
            field.value.clear();
        }
    }

    pub(crate) fn field(&mut self, name: &[u8], value: &[u8]) {
        let wanted = |field: &&mut Field| {
            !field.is_present && field.name.as_bytes().eq_ignore_ascii_case(name)
        };
        if let Some(field) = self.fields.iter_mut().find(wanted) {
            field.is_present = true;
            field.value.extend_from_slice(trim(value));
        }
    }

    /// Takes the beginning of a body that is kept already.
    #[cfg(feature = "http3")]
    pub(crate) fn take_body(&mut self, mut body: Vec<u8>) {
        body.truncate(self.max_body_bytes);
        self.body = body;
    }

    pub(crate) fn data(&mut self, bytes: &[u8]) {
        let room = self.max_body_bytes - self.body.len();
        self.body.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }
}

/// A value without the blanks around it, those of folded lines included.
fn trim(value: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let Some(first) = value.iter().position(|byte| !is_blank(byte)) else {
        return &[];
    };
    let last = value.iter().rposition(|byte| !is_blank(byte));
    &value[first..=last.unwrap_or(first)]
}
