//! Tests of the parts together, against figures that do not come from the code.

#![allow(
    clippy::unwrap_used,
    reason = "a test may panic, its helper functions too"
)]

mod books;
mod latency;
mod pace;
mod stall;
