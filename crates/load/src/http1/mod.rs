//! HTTP/1.1 as a client speaks it, without sockets: RFC 9110 and RFC 9112 over slices of bytes.
//!
//! [`Request`] builds the bytes of a request once, to be sent again and again. [`Reply`] is fed
//! with whatever arrives and tells where a response ends, what it weighed and whether its
//! connection may carry another request. Neither knows the time, a socket or why it is asked.
//! Nothing is allocated per request, except for a head that arrives in pieces for the first time on
//! a connection. Start reading at [`Reply`].

mod chunked;
mod field;
mod framing;
mod reply;
mod request;
mod scan;
mod summary;
mod watch;

pub(crate) use field::is_token_byte;
pub use framing::Asked;
pub use reply::{Limits, Phase, Progress, Reply};
pub(crate) use request::check;
pub use request::{Connection, Request, RequestError, RequestParts, Version};
pub use summary::{Ending, ReplyError, Summary};
pub use watch::Watch;
