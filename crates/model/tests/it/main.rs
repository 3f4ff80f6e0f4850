//! Integration tests of what is recorded about an HTTP load.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic, its helper functions too")]

mod latency;
mod outcomes;
