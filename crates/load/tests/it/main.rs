//! Integration tests: against other parsers, as properties, and against servers that misbehave.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may panic, its helper functions too"
)]

mod chunks;
mod heads;
mod misbehaving;
mod pieces;
mod streams;
