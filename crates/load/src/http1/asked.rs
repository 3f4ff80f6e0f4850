//! What was asked, as far as it decides how the response is framed (RFC 9112, section 6.3).

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
    pub fn of(method: &str) -> Asked {
        match method {
            "HEAD" => Asked::Head,
            "CONNECT" => Asked::Connect,
            _ => Asked::Body,
        }
    }
}
