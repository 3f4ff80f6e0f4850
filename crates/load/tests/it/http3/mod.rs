//! Loads over HTTP/3 against servers of another make, good ones and such as misbehave: only where
//! the crate is built with its feature `http3`.

mod failures;
mod loads;
mod server;
mod trust;
