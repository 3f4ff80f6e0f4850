//! HTTP/2 as a client that makes load speaks it, without sockets: RFC 9113 and RFC 7541 over slices
//! of bytes.
//!
//! [`Request`] encodes a request once, to be sent on many streams. [`Connection`] opens streams
//! with such requests, is fed with whatever arrives, and reports what became of each. It announces a
//! header table of size zero, so that the fields of a response can be left undecoded until somebody
//! asks for them. Neither knows the time or a socket. Nothing is allocated per request once a
//! connection has been as busy as it gets. Start reading at [`Connection`]; what it reports are
//! [`Event`]s; how streams are found is in `streams`.

mod body;
mod connection;
mod control;
mod frame;
mod head;
mod header_block;
pub mod hpack;
mod request;
mod streams;

pub use connection::{Closing, Connection};
pub use frame::Settings;
pub use header_block::{HeaderBlock, Unreadable};
#[cfg(feature = "http3")]
pub(crate) use request::is_left_out;
pub use request::{Request, Scheme};

use crate::http1::Summary;
use std::fmt;

/// Something that happened to a stream, which is named by the caller's token, or to the connection.
///
/// For every stream that was opened there is exactly one `Ended` or `Failed`, unless it is cancelled
/// or the connection breaks first; nothing is said of it afterwards.
#[derive(Debug)]
pub enum Event<'a> {
    /// The response has begun.
    FirstByte {
        /// The stream.
        token: u32,
    },
    /// An interim response (1xx).
    Interim {
        /// The stream.
        token: u32,
        /// 100 to 199.
        status: u16,
    },
    /// The head of the final response is complete.
    Head {
        /// The stream.
        token: u32,
        /// 200 to 999.
        status: u16,
        /// Its fields, decoded when they are asked for.
        block: HeaderBlock<'a>,
    },
    /// A piece of the body; never empty.
    Data {
        /// The stream.
        token: u32,
        /// The piece, without padding.
        bytes: &'a [u8],
    },
    /// The response is complete. If the request was not sent wholly, the rest of it is dropped.
    Ended {
        /// The stream.
        token: u32,
        /// What it weighed. `head_bytes` are HEADERS and CONTINUATION frames, `framing_bytes` the
        /// heads and the padding of DATA frames, and trailers. `reusable` says that the connection
        /// takes further streams.
        summary: Summary,
    },
    /// The stream ended without a whole response.
    Failed {
        /// The stream.
        token: u32,
        /// The reason.
        why: StreamError,
    },
    /// The peer announced its settings; [`crate::http2::Connection::capacity`] may have changed.
    Settings,
    /// The peer takes no further streams and will end the connection. The streams that it will not
    /// answer fail next.
    GoAway {
        /// The last stream that may be answered.
        last_stream: u32,
        /// Why; NO_ERROR for an orderly end.
        code: ErrorCode,
    },
}

// Errors of one stream, and of the connection as a whole.

/// An error code of RST_STREAM and GOAWAY, known or not (RFC 9113, section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Nothing went wrong.
    pub const NO_ERROR: ErrorCode = ErrorCode(0);
    /// The peer broke a rule of the protocol.
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(1);
    /// The peer sent more than a window allows, or made a window too large.
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(3);
    /// A frame has a size that it must not have.
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(6);
    /// The stream was refused before anything was done with the request.
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(7);
    /// The stream is not wanted any more.
    pub const CANCEL: ErrorCode = ErrorCode(8);
    /// Header fields could not be decompressed.
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(9);
    /// The peer makes too much work.
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(11);

    /// The name in RFC 9113, section 7; `None` for a code that it does not list.
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(usize::try_from(self.0).ok()?).copied()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {:#x}", self.0),
        }
    }
}

/// Why the connection cannot be used any further. A GOAWAY frame with [`ConnectionError::code`] has
/// been put to the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionError {
    /// The peer answered in HTTP/1: it does not speak HTTP/2 on this port.
    NotHttp2,
    /// The first frame is not SETTINGS (RFC 9113, section 3.4).
    NoSettings,
    /// A frame is larger than we accept, or has a length that its type cannot have.
    FrameSize,
    /// A frame came on a stream that its type cannot be sent on, or that was never opened.
    Stream,
    /// The frames of a header block do not follow one another (section 6.10).
    Continuation,
    /// The peer pushed a response although push is switched off.
    Push,
    /// The padding is longer than the frame.
    Padding,
    /// The peer announced a setting with a value that it cannot have.
    Setting,
    /// The peer sent more than a window allows, or made a window too large.
    FlowControl,
    /// The peer enlarged a window by nothing (section 6.9).
    NoIncrement,
    /// A header block cannot be decompressed.
    Compression,
    /// Header blocks, or the answers that the peer provokes, exceed our limits.
    Flood,
}

impl ConnectionError {
    /// The code that is sent to the peer.
    pub fn code(self) -> ErrorCode {
        match self {
            ConnectionError::FrameSize => ErrorCode::FRAME_SIZE_ERROR,
            ConnectionError::FlowControl => ErrorCode::FLOW_CONTROL_ERROR,
            ConnectionError::Compression => ErrorCode::COMPRESSION_ERROR,
            ConnectionError::Flood => ErrorCode::ENHANCE_YOUR_CALM,
            _ => ErrorCode::PROTOCOL_ERROR,
        }
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            ConnectionError::NotHttp2 => "the server answered in HTTP/1",
            ConnectionError::NoSettings => "the server did not begin with its settings",
            ConnectionError::FrameSize => "a frame has a size that it must not have",
            ConnectionError::Stream => "a frame came on a stream where it cannot be",
            ConnectionError::Continuation => "a header block was interrupted",
            ConnectionError::Push => "the server pushed without being allowed to",
            ConnectionError::Padding => "the padding of a frame is longer than the frame",
            ConnectionError::Setting => "a setting has a value that it must not have",
            ConnectionError::FlowControl => "the flow control was violated",
            ConnectionError::NoIncrement => "a window was enlarged by nothing",
            ConnectionError::Compression => "a header block cannot be decompressed",
            ConnectionError::Flood => "the server exceeded the limits of header blocks or replies",
        })
    }
}

impl std::error::Error for ConnectionError {}

/// Why one stream ended without a whole response. The connection goes on.
///
/// The counts' classes that they belong to: `Reset` is `h2.rst-stream`, `Refused` is `h2.refused`,
/// `GoAway` is `h2.goaway`, `Length` and `LengthConflict` are `protocol.length`, `Status` is
/// `protocol.status-line`, `Header` and `Order` are `protocol.header`, `Window` and
/// `NoIncrement` are `h2.protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamError {
    /// The peer reset the stream with this code.
    Reset(ErrorCode),
    /// The peer reset the stream and says that it did nothing with the request (REFUSED_STREAM).
    Refused,
    /// The peer ended the connection with this code and says that it did nothing with the request:
    /// its stream is behind the last one that will be answered. Kept apart from `Refused`, because
    /// a server that goes away and one that is overloaded are different findings.
    GoAway(ErrorCode),
    /// The body is longer or shorter than Content-Length says, or there is one where none can be.
    Length,
    /// Content-Length was given twice with different values.
    LengthConflict,
    /// `:status` is missing, repeated, or no number from 100 to 999.
    Status,
    /// A field is malformed: an upper-case name, a pseudo-header field behind others or of
    /// requests, a field of HTTP/1 connections, an unreadable Content-Length (RFC 9113, section
    /// 8.2).
    Header,
    /// Frames came in an order that makes no response: a body before the head, trailers that do not
    /// end the stream, an interim response that does, or 101 (RFC 9113, sections 8.1 and 8.6).
    Order,
    /// WINDOW_UPDATE beyond the largest window (RFC 9113, section 6.9.1).
    Window,
    /// WINDOW_UPDATE by nothing (RFC 9113, section 6.9).
    NoIncrement,
}

impl StreamError {
    /// The code with which we reset the stream; `None` if the peer ended it.
    pub fn code(self) -> Option<ErrorCode> {
        match self {
            StreamError::Reset(_) | StreamError::Refused | StreamError::GoAway(_) => None,
            StreamError::Window => Some(ErrorCode::FLOW_CONTROL_ERROR),
            _ => Some(ErrorCode::PROTOCOL_ERROR),
        }
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            StreamError::Reset(code) => write!(f, "the server reset the stream ({code})"),
            StreamError::Refused => f.write_str("the server refused the stream"),
            StreamError::GoAway(code) => {
                write!(
                    f,
                    "the server ended the connection before the stream ({code})"
                )
            }
            StreamError::Length => f.write_str("the body has not the length that was stated"),
            StreamError::LengthConflict => {
                f.write_str("Content-Length is given twice with different values")
            }
            StreamError::Status => f.write_str("the status is missing or malformed"),
            StreamError::Header => f.write_str("a header field is malformed"),
            StreamError::Order => f.write_str("the frames of the response are out of order"),
            StreamError::Window => f.write_str("the server made the stream's window too large"),
            StreamError::NoIncrement => {
                f.write_str("the server enlarged the stream's window by nothing")
            }
        }
    }
}

impl std::error::Error for StreamError {}

/// What reading a block or a frame can end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Connection(ConnectionError),
    Stream(StreamError),
}

impl From<ConnectionError> for Fault {
    fn from(error: ConnectionError) -> Fault {
        Fault::Connection(error)
    }
}

impl From<StreamError> for Fault {
    fn from(error: StreamError) -> Fault {
        Fault::Stream(error)
    }
}
