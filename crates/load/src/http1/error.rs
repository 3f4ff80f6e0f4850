//! What can be wrong with the bytes of a response. The kinds are those a load test keeps apart in
//! its books; where in the response it happened is told by [`super::Phase`].

use std::fmt;

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
