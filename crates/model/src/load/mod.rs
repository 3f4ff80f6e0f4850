//! Describes HTTP loads: what was requested ([`spec`]), what was measured ([`measurement`], with
//! [`latency`] and [`outcomes`]), and the complete record of a load ([`run`]).
//!
//! All types are plain data. The crate `speedwell-load` executes a load and fills in the
//! measurement.

pub mod latency;
pub mod measurement;
pub mod outcomes;
pub mod run;
pub mod spec;
