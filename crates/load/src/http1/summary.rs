//! What is known of a response when it is over: plain figures, or what is wrong with its bytes. The kinds of errors are those
//! that a load test counts apart; where in the response one happened is known by [`super::Phase`].

use std::fmt;

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
    /// The head is longer, or has more fields, than [`super::Limits`] allow.
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
