//! Provides HTTP/3 to an event loop that drives many client connections in one thread.
//!
//! The protocols are implemented by `quinn` and `h3`. Their tasks run only during
//! [`H3Engine::run_until_event`]. The event loop calls this method instead of waiting for sockets,
//! and receives [`H3Event`]s from it. This module knows nothing about the content, the timing or
//! the purpose of requests, and counts only traffic. Start at [`H3Engine`], then
//! [`H3Connection::send`].

mod connection;
mod datagrams;
mod engine;
mod event;
mod exchange;
mod failure;
mod request;

pub use connection::H3Connection;
pub use engine::H3Engine;
pub use event::{
    EstablishedConnection, EventKind, H3Event, H3Response, KeptResponse, StreamEvent, StreamKey,
};
pub use exchange::RequestHandle;
pub use failure::{ConnectionEnd, H3ConnectError, RequestFailure};
pub use request::{H3Request, H3RequestError, RequestHead};
