//! Loads over HTTP/3 against servers of another implementation, well-behaved or not. Requires the
//! crate feature `http3`.

mod failures;
mod loads;
mod server;
mod trust;
