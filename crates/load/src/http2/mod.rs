//! Implements an HTTP/2 client for load generation, without sockets. It works on byte slices (RFC
//! 9113 and RFC 7541).
//!
//! [`Http2Request`] encodes a request once, to be sent on many streams. [`Http2Connection`] opens
//! streams with such requests, is fed with received data, and reports the outcome of each stream.
//! By default, the connection permits no compression table. The fields of a response are then
//! decoded only on demand. Neither type knows about time or sockets. Nothing is allocated per
//! request once a connection has reached its peak activity. Start at [`Http2Connection`], which
//! reports [`Http2Event`]s; stream lookup is in `streams`.

mod connection;
mod frame;
mod header_block;
pub mod hpack;
mod incoming;
mod streams;

pub use connection::Http2Connection;
#[cfg(feature = "http3")]
pub(crate) use frame::is_omitted;
pub use frame::{Http2Request, Http2Settings, UrlScheme};
pub use header_block::HeaderBlock;

use crate::http1::ResponseSummary;

/// An event of the connection or of a stream. The caller's token identifies the stream.
///
/// Every opened stream ends with exactly one `Ended` or `Failed` event, unless the stream is
/// cancelled or the connection fails first.
#[derive(Debug)]
pub enum Http2Event<'a> {
    /// The response has started.
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
        /// The header fields, decoded on demand.
        block: HeaderBlock<'a>,
    },
    /// A part of the body; never empty.
    Data {
        /// The stream.
        token: u32,
        /// The data, without padding.
        bytes: &'a [u8],
    },
    /// The response is complete. Any unsent part of the request is dropped.
    Ended {
        /// The stream.
        token: u32,
        /// Sizes of the response: `head_bytes` is the size of its HEADERS and CONTINUATION frames;
        /// `framing_bytes` is the size of its trailers and of the heads and padding of its DATA
        /// frames. `reusable` means that the connection accepts further streams.
        summary: ResponseSummary,
    },
    /// The stream ended without a complete response.
    Failed {
        /// The stream.
        token: u32,
        /// The reason.
        why: Http2StreamError,
    },
    /// The peer announced its settings; [`Http2Connection::capacity`] may have changed.
    Settings,
    /// The peer accepts no further streams and will close the connection. The streams that the peer
    /// will not process fail next.
    GoAway {
        /// The last stream that may be processed.
        last_stream: u32,
        /// Reason; NO_ERROR for an orderly end.
        code: Http2ErrorCode,
    },
}

// Errors of a stream and of the connection.

/// An error code of RST_STREAM or GOAWAY, known or not (RFC 9113, section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Http2ErrorCode(pub u32);

impl Http2ErrorCode {
    /// Nothing went wrong.
    pub const NO_ERROR: Http2ErrorCode = Http2ErrorCode(0);
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: Http2ErrorCode = Http2ErrorCode(1);
    /// The peer exceeded a window, or made a window too large.
    pub const FLOW_CONTROL_ERROR: Http2ErrorCode = Http2ErrorCode(3);
    /// The size of a frame is invalid.
    pub const FRAME_SIZE_ERROR: Http2ErrorCode = Http2ErrorCode(6);
    /// The stream was refused before its request was processed.
    pub const REFUSED_STREAM: Http2ErrorCode = Http2ErrorCode(7);
    /// The sender does not need the stream any more.
    pub const CANCEL: Http2ErrorCode = Http2ErrorCode(8);
    /// Header fields could not be decompressed.
    pub const COMPRESSION_ERROR: Http2ErrorCode = Http2ErrorCode(9);
    /// The peer causes excessive work.
    pub const ENHANCE_YOUR_CALM: Http2ErrorCode = Http2ErrorCode(11);
}

/// Why the connection can no longer be used. A GOAWAY frame with [`Http2ConnectionError::code`] has
/// been appended to the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Http2ConnectionError {
    /// The peer responded in HTTP/1: it does not speak HTTP/2 on this port.
    NotHttp2,
    /// The first frame is not SETTINGS (RFC 9113, section 3.4).
    NoSettings,
    /// A frame exceeds our limit, or its length is invalid for its type.
    FrameSize,
    /// A frame arrived on a stream that was never opened, or on a stream that does not permit
    /// frames of this type.
    Stream,
    /// The frames of a header block are not consecutive (section 6.10).
    Continuation,
    /// The peer pushed a response although push is disabled.
    Push,
    /// The padding is longer than the frame.
    Padding,
    /// A setting has an invalid value.
    Setting,
    /// The peer exceeded a window, or made a window too large.
    FlowControl,
    /// The peer enlarged a window by zero (section 6.9).
    NoIncrement,
    /// A header block cannot be decompressed.
    Compression,
    /// Header blocks, or the frames that the peer makes us send (such as PING acknowledgements),
    /// exceed our limits.
    Flood,
}

impl Http2ConnectionError {
    /// Returns the code to send to the peer.
    pub fn code(self) -> Http2ErrorCode {
        match self {
            Http2ConnectionError::FrameSize => Http2ErrorCode::FRAME_SIZE_ERROR,
            Http2ConnectionError::FlowControl => Http2ErrorCode::FLOW_CONTROL_ERROR,
            Http2ConnectionError::Compression => Http2ErrorCode::COMPRESSION_ERROR,
            Http2ConnectionError::Flood => Http2ErrorCode::ENHANCE_YOUR_CALM,
            _ => Http2ErrorCode::PROTOCOL_ERROR,
        }
    }
}

/// Why a stream ended without a complete response. The connection continues.
///
/// Corresponding error classes: `Reset` is `h2.rst-stream`, `Refused` is `h2.refused`, `GoAway` is
/// `h2.goaway`, `Length` and `LengthConflict` are `protocol.length`, `Status` is
/// `protocol.status-line`, `Header` and `Order` are `protocol.header`, `Window` and `NoIncrement`
/// are `h2.protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Http2StreamError {
    /// The peer reset the stream with this code.
    Reset(Http2ErrorCode),
    /// The peer reset the stream and did not process the request (REFUSED_STREAM).
    Refused,
    /// The peer closed the connection with this code and did not process the request. The ID of the
    /// stream is higher than the ID of the last stream that the peer will process. Results thus
    /// distinguish a server that closed the connection from an overloaded one (`Refused`).
    GoAway(Http2ErrorCode),
    /// The body does not match Content-Length, or exists where none is allowed.
    Length,
    /// Content-Length occurs twice with different values.
    LengthConflict,
    /// `:status` is missing, repeated, or not a number from 100 to 999.
    Status,
    /// A field is malformed (RFC 9113, section 8.2): an invalid name or value, a pseudo-header
    /// field that is misplaced or belongs to requests, a connection-specific field of HTTP/1, or an
    /// unreadable Content-Length.
    Header,
    /// The order of frames is invalid: a body before the head, trailers that do not end the stream,
    /// an interim response that ends it, or status 101 (RFC 9113, sections 8.1 and 8.6).
    Order,
    /// A WINDOW_UPDATE frame enlarged the window beyond the maximum (RFC 9113, section 6.9.1).
    Window,
    /// A WINDOW_UPDATE frame enlarged the window by zero (RFC 9113, section 6.9).
    NoIncrement,
}

impl Http2StreamError {
    /// Returns the code with which we reset the stream; `None` if the peer reset it or will not
    /// process it.
    pub fn code(self) -> Option<Http2ErrorCode> {
        match self {
            Http2StreamError::Reset(_)
            | Http2StreamError::Refused
            | Http2StreamError::GoAway(_) => None,
            Http2StreamError::Window => Some(Http2ErrorCode::FLOW_CONTROL_ERROR),
            _ => Some(Http2ErrorCode::PROTOCOL_ERROR),
        }
    }
}

/// Error from reading a block or frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Http2Fault {
    Connection(Http2ConnectionError),
    Stream(Http2StreamError),
}

impl From<Http2StreamError> for Http2Fault {
    fn from(error: Http2StreamError) -> Http2Fault {
        Http2Fault::Stream(error)
    }
}
