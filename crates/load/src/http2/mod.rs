//! HTTP/2 as a client that makes load speaks it, without sockets: RFC 9113 and RFC 7541 over slices
//! of bytes.
//!
//! [`Request`] encodes a request once, to be sent on many streams. [`Connection`] opens streams
//! with such requests, is fed with whatever arrives, and tells what became of each. It announces a
//! header table of size zero, so that the fields of a response can be left undecoded until somebody
//! asks for them. Neither knows the time or a socket. Nothing is allocated per request once a
//! connection has been as busy as it gets. Start reading at [`Connection`]; how bytes are cut into
//! frames is in `receive`, how streams are found in `streams`.

mod block;
mod body;
mod connection;
mod control;
mod error;
mod event;
mod frame;
mod head;
pub mod hpack;
mod receive;
mod request;
mod settings;
mod stream;
mod streams;
mod upload;

pub use block::{HeaderBlock, Unreadable};
pub use connection::{Closing, Connection};
pub use error::{ConnectionError, ErrorCode, StreamError};
pub use event::Event;
#[cfg(feature = "http3")]
pub(crate) use request::is_left_out;
pub use request::{Request, Scheme};
pub use settings::Settings;
