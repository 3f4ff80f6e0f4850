//! An HTTP load generator: sends requests as they are due, and says what became of each of them and
//! how long it took.
//!
//! The crate does not know benchmarks, sessions or reports. Start reading at [`load`], which says what
//! a load is, and [`generator::run`], which carries it out and gives [`measured::Measured`]. Only
//! `generator` opens connections and reads a clock. What it stands on works with bytes and numbers:
//! [`pace`] says when to send, [`http1`] and [`http2`] what goes over the line, [`outcomes`] counts,
//! [`latency`] times.

pub mod generator;
pub mod http1;
pub mod http2;
pub mod latency;
pub mod load;
pub mod measured;
pub mod outcomes;
pub mod pace;
