//! The parts of an HTTP load generator that need no socket.
//!
//! Bytes come in, plain figures come out: nothing here opens a connection, reads a clock or knows
//! what the figures are for. Start reading at [`http1`], the requests and replies of HTTP/1.1.

pub mod http1;
