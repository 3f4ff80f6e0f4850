//! HTTP/3 for a loop that drives many client connections in one thread.
//!
//! The protocols are `quinn`'s and `h3`'s. Their tasks run in a runtime that belongs to an
//! [`Engine`], and only while the loop is in [`Engine::wait`], which takes the place of waiting for
//! sockets and gives what happened as [`Event`]s. The crate does not know what is requested, when or
//! why, and counts nothing but bytes. Start reading at [`Engine`], then [`Connection::send`].

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
