//! HTTP load without sockets: requests and replies, when they are due, what became of each of them,
//! and how long they took.
//!
//! Nothing here opens a connection or reads a clock: bytes come in, and times as nanoseconds since
//! the start of the load. The crate does not know benchmarks, sessions or reports. Start reading at
//! [`pace`], which says when to send, then [`http1`] and [`http2`], which say what goes over the line,
//! then [`books`], which counts, then [`latency`], which times.

pub mod books;
pub mod http1;
pub mod http2;
pub mod latency;
pub mod pace;
