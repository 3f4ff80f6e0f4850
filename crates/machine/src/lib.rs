//! Deals with the machine that Speedwell runs on: [`process`] starts, supervises and ends child
//! processes, [`worker`] exchanges messages with processes of this program, here or elsewhere, and
//! [`environment`] collects facts about the machine and finds its sources of noise.
//!
//! The crate knows neither benchmarks nor results.

pub mod environment;
pub mod process;
pub mod worker;
