//! HTTP load: when requests are due, what became of each of them, and how long they took.
//!
//! These parts open no socket and read no clock: times come in as nanoseconds since the start of the
//! load. The crate does not know benchmarks, sessions or reports. Start reading at [`pace`], which
//! says when to send, then [`books`], which counts, then [`latency`], which times.

pub mod books;
pub mod latency;
pub mod pace;
