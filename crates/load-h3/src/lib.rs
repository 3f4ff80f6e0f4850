//! HTTP/3 for an event loop that drives many client connections in one thread.
//!
//! The protocols are implemented by `quinn` and `h3`. Their tasks run in a runtime owned by an
//! [`Engine`], and only during [`Engine::wait`], which replaces waiting for sockets and yields
//! [`Event`]s. The crate does not know what is requested, when or why, and counts nothing but
//! traffic. Start at [`Engine`], then [`Connection::send`].

mod connection;
mod datagrams;
mod engine;
mod event;
mod exchange;
mod failure;
mod request;

pub use connection::Connection;
pub use datagrams::Traffic;
pub use engine::Engine;
pub use event::{Established, Event, Kept, Response, StreamEvent, StreamKey, What};
pub use exchange::InFlight;
pub use failure::{ConnectError, Ended, Failure};
pub use request::{Head, Request, RequestError};
