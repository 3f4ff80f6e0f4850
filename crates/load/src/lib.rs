//! Generates HTTP load: sends requests when they are due, and records the outcome and timing of
//! each.
//!
//! The crate knows nothing about benchmarks, sessions or reports. Start at [`load`], which
//! describes a load, and [`generator::run`], which runs it and returns a
//! [`LoadMeasurement`](speedwell_model::load::measurement::LoadMeasurement). Only `generator` opens
//! connections and reads a clock. The modules that it uses work on bytes and numbers: [`pace`]
//! decides when to send, [`http1`] and [`http2`] encode and decode.

pub mod generator;
pub mod http1;
pub mod http2;
#[cfg(feature = "http3")]
mod http3;
pub mod load;
pub mod pace;
