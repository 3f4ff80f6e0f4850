//! Generates HTTP load: sends requests when they are due, and records the outcome and timing of
//! each.
//!
//! The crate knows nothing about benchmarks, sessions or reports. Start at [`load`], which
//! describes a load, and [`generator::run`], which runs it and returns a
//! [`LoadMeasurement`](speedwell_model::load::measurement::LoadMeasurement). Only `generator`
//! and `http3` open connections and read a clock. [`pace`], which decides when to send, and
//! [`http1`] and [`http2`], which encode and decode, work on bytes and numbers alone.

pub mod generator;
pub mod http1;
pub mod http2;
#[cfg(feature = "http3")]
mod http3;
pub mod load;
pub mod pace;
