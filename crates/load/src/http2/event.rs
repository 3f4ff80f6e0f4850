//! What a connection reports while it is fed.

use super::{ErrorCode, HeaderBlock, StreamError};
use crate::http1::Summary;

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
    /// The peer announced its settings; [`super::Connection::capacity`] may have changed.
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
