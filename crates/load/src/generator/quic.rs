//! HTTP/3: QUIC connections and their streams for the same loop that drives sockets.
//!
//! The protocols are `quinn`'s and `h3`'s. Their tasks run in a runtime of this thread, and only
//! while the loop waits: [`Engine::wait`] takes the place of waiting for sockets, and gives what
//! happened. What that means for the requests of a connection is decided in [`Streams`]; the pace,
//! the counts and the loop are those of the other protocols. Start reading at [`Engine`].

mod classes;
mod datagrams;
mod engine;
mod events;
mod exchange;
mod line;
mod request;
mod streams;

pub(super) use engine::Engine;
pub(super) use events::{Event, What};
pub(super) use line::Up;
pub(super) use request::Request;
pub(super) use streams::Streams;
