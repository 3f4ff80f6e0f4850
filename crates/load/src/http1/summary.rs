//! What is known of a response when it is over: plain figures.

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
