//! Integration tests: against other parsers, as properties, against misbehaving servers, and
//! against figures that do not come from the code.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic, its helper functions too")]

mod answers;
#[path = "../../../speedwell/tests/it/busy.rs"]
mod busy;
mod chunks;
mod closed_loads;
mod floods;
mod forbidden_calls;
mod heads;
mod http2;
#[cfg(feature = "http3")]
mod http3;
mod misbehaving;
mod nginx;
mod open_loads;
mod pace;
mod pieces;
mod server;
mod server_of_streams;
mod servers_that_misbehave;
mod stall;
mod streams;
mod streams_that_misbehave;
mod tls;
#[cfg(not(feature = "http3"))]
mod without_http3;
