//! Where the body of a response ends: RFC 9112, section 6.3, in the order of its rules, from what
//! the header fields said. Where the head ends is decided in `scan`.

use super::ReplyError;

/// How the end of the body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilEof,
}

/// What the fields named Content-Length said, all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Length {
    #[default]
    Absent,
    Given(u64),
    Conflict,
    Unreadable,
}

/// What a head says about framing and about the connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Facts {
    pub(super) status: u16,
    /// The version is HTTP/1.0; any other 1.x counts as 1.1 (RFC 9110, section 2.5).
    pub(super) is_http_1_0: bool,
    pub(super) length: Length,
    /// Transfer codings in all, `identity` apart.
    pub(super) codings: u32,
    pub(super) chunked_codings: u32,
    pub(super) is_chunked_last: bool,
    pub(super) close: bool,
    pub(super) keep_alive: bool,
}

impl Facts {
    pub(super) fn framing(&self, asked: Asked) -> Result<Framing, ReplyError> {
        if self.has_no_body(asked) {
            return Ok(Framing::Length(0));
        }
        if self.codings > 0 {
            return match (self.chunked_codings, self.is_chunked_last) {
                // Section 7.1: never applied more than once.
                (2.., _) => Err(ReplyError::Header),
                (_, true) => Ok(Framing::Chunked),
                (_, false) => Ok(Framing::UntilEof),
            };
        }
        match self.length {
            Length::Given(bytes) => Ok(Framing::Length(bytes)),
            Length::Absent => Ok(Framing::UntilEof),
            Length::Conflict => Err(ReplyError::LengthConflict),
            Length::Unreadable => Err(ReplyError::Header),
        }
    }

    fn has_no_body(&self, asked: Asked) -> bool {
        match asked {
            _ if matches!(self.status, 204 | 304) => true,
            Asked::Body => false,
            Asked::Head => true,
            Asked::Connect => self.status / 100 == 2,
        }
    }

    /// Whether the connection persists after a body framed so: RFC 9112, section 9.3, where `close`
    /// wins over everything. A transfer coding in HTTP/1.0 is faulty framing (section 6.1), and
    /// after a successful CONNECT the connection is a tunnel.
    pub(super) fn is_reusable(&self, framing: Framing, asked: Asked) -> bool {
        let persists = !self.close && (!self.is_http_1_0 || self.keep_alive);
        let faulty = self.is_http_1_0 && self.codings > 0;
        let tunnel = asked == Asked::Connect && self.status / 100 == 2;
        persists && !faulty && !tunnel && framing != Framing::UntilEof
    }

    pub(super) fn is_doubtful(&self) -> bool {
        self.codings > 0 && self.length != Length::Absent
    }
}

/// The kind of request that a response answers. Some methods have responses without a body whatever
/// their header fields say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Asked {
    /// Any method whose responses may have a body.
    #[default]
    Body,
    /// HEAD: never a body.
    Head,
    /// CONNECT: a successful response has no body and ends HTTP on the connection.
    Connect,
}

impl Asked {
    /// The kind of a method; methods are case-sensitive (RFC 9110, section 9.1).
    pub fn for_method(method: &str) -> Asked {
        match method {
            "HEAD" => Asked::Head,
            "CONNECT" => Asked::Connect,
            _ => Asked::Body,
        }
    }
}
