//! Executes a plan and tells its observers; knows neither store, statistics nor terminal.

mod consistency;
mod execute;
mod execution;

pub use execute::{Ended, Judge, Orders, execute};
