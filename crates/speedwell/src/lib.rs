//! Speedwell: is this faster, by how much, and how sure are we?
//!
//! The one path of data is `define -> plan -> runner -> store -> analysis -> report`; `cli/run.rs`
//! shows it on one screen. Each floor imports only the floors below it (`tests/it/layers.rs`
//! enforces this); the vocabulary lives in [`model`].

pub mod model;

pub mod define;
pub mod definition;
pub mod foreign;
pub mod harness;
pub mod plan;
pub mod process;

pub mod environment;
pub mod exchange;
pub mod runner;
pub mod store;

pub mod analysis;

pub mod measure;
pub mod report;

pub mod cli;
pub mod compat;
